"""What a run writes and how it ends: its questions and resolutions, and the report, with the
sentences that say which world it was, what was walked, and what was left out."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import cast

import msgspec
import numpy as np

from beforehand.clock import from_us, iso
from beforehand.errors import NotFound
from beforehand.forecast.base import Forecaster
from beforehand.forecast.schemes.baselines import BASELINES
from beforehand.gateway.gateway import Audit, Gateway
from beforehand.ids import digest
from beforehand.jobs.backtest.grid import over
from beforehand.plugins import PLUGINS
from beforehand.records.rows import IntervalRow
from beforehand.records.world import Market, Resolution, ResolutionStatus
from beforehand.runs.columns import columns_of
from beforehand.runs.rows import EventLine, ResolutionLine, read_jsonl
from beforehand.score.bets import in_effect
from beforehand.score.evaluate import (
    Question,
    Result,
    Settings,
    build_table,
    score_only,
)
from beforehand.score.leaks.report import CANARY, LeakReport
from beforehand.score.report.page import html
from beforehand.score.report.spreadsheets import bets_csv, leaderboard_csv, pairs_csv, questions_csv
from beforehand.score.report.words import headline
from beforehand.score.skill import MARKET
from beforehand.score.summary import (
    About,
    Few,
    PluginFacts,
    Summary,
    VenueWire,
    number,
)
from beforehand.score.table import Table
from beforehand.store.archive.endings import Endings
from beforehand.store.archive.reader import Archive
from beforehand.store.files import read_json, write_atomic, write_json, write_jsonl, write_lines
from beforehand.store.run_folder import RunFolder, Told
from beforehand.store.trials import note_trials

SCORED = (
    "scores.json",
    "leaderboard.csv",
    "pairs.csv",
    "questions.csv",
    "bets.csv",
    "report.html",
)
"""The files that every scored run ends in."""
LEAK_NOTE = (
    "This says that no record after t was shown. A language model's own memory lies outside the "
    "wall: for that the card has the share of forecasts after the training cutoff."
)


def with_trials(
    settings: Settings,
    ledger: Path,
    family: str,
    table: Table,
    markets: Iterable[str],
    variants: Mapping[str, str],
    run: str,
    at: str,
    archive: str,
) -> Settings:
    """The settings of a run with how many variants, and how many stake rules, were ever tried on
    such a set of markets; those of this run are added to the ledger."""
    used, rules = list(markets), in_effect(table, settings.kelly)
    tried = note_trials(ledger, family, used, variants, run, at, archive)
    if rules is None:
        return replace(settings, variants=tried)
    said = rules.said
    n = note_trials(ledger, "stakes", used, {digest(said.encode()): said}, run, at, archive)
    return replace(settings, variants=tried, kelly=replace(settings.kelly, tried=n))


def event_wire(market: Market, resolved_at: datetime | None) -> EventLine:
    """An EventSpec line; `event_id` and `currency` are additive. A market that is not resolved ends
    at its scheduled close."""
    date = resolved_at or market.scheduled_close
    source: dict[str, str] = {"type": market.venue.title(), "market_id": market.native_id}
    if market.url:
        source["url"] = market.url
    if date:
        source["resolution_date"] = iso(date)
    return {
        "id": market.id,
        "question": market.question or market.id,
        "domain": market.domain,
        "resolution_date": source.get("resolution_date"),
        "source": source,
        "ground_truth_source": market.venue.title(),
        "tags": list((market.model_extra or {}).get("tags") or ()),
        "event_id": market.event_id,
        "currency": market.currency,
    }


def told(folder: RunFolder, subject: str) -> Told:
    """What a list says of a scored run; how much each forecaster answered is its own matter."""
    summary: Summary = read_json(folder.path / "scores.json")
    bounds = [c["ok"] for name, c in summary["validity"].items() if name != "share_answered"]
    return {"subject": subject, "headline": headline(summary), "valid": False not in bounds}


def resolution_wire(resolution: Resolution) -> ResolutionLine | None:
    """A ResolutionRecord line, or None for void and disputed markets."""
    said = resolution.status, resolution.payout
    published = resolution.first_published or resolution.known_at
    return _resolution(resolution.market_id, said, resolution.resolved_at, published)


def _resolution(
    market: str, said: tuple[ResolutionStatus, float | None], at: datetime, published: datetime
) -> ResolutionLine | None:
    """The same of what was `said`, and when it was published: a partial payout keeps the contract's
    0/1 `outcome` (1 from a half up) and carries the additive `payout`."""
    status, payout = said
    if status != "resolved" or payout is None:
        return None
    line: ResolutionLine = {"id": market, "outcome": int(payout >= 0.5), "resolved_at": iso(at)}
    if published != at:
        line["known_at"] = iso(published)
    return line if payout in (0.0, 1.0) else {**line, "payout": payout}


def write_questions(
    path: Path,
    gateway: Gateway,
    endings: Endings,
    names: Sequence[str],
    still_open: Mapping[str, int] = MappingProxyType({}),
) -> None:
    """events.jsonl and resolutions.jsonl for the markets of a run; `forecast_from` and
    `forecast_until` say when each could be forecast; those that
    are `still_open` until the instant given with them (microseconds)."""
    view = gateway.full_view()
    first = view.first_prices()

    def events() -> Iterator[EventLine]:
        for name in names:
            if (until := still_open.get(name)) is not None:
                event = event_wire(view.market(name), None)
            else:
                resolved_at, published = endings.times(name)
                event = event_wire(view.market(name), from_us(resolved_at))
                until = over(resolved_at, published)
            event["forecast_until"] = iso(from_us(until))
            if name in first:
                event["forecast_from"] = iso(from_us(first[name]))
            yield event

    def resolutions() -> Iterator[ResolutionLine]:
        for name in names:
            if name in still_open:
                continue
            resolved_at, published = map(from_us, endings.times(name))
            if line := _resolution(name, endings.says(name), resolved_at, published):
                yield line

    write_jsonl(path / "events.jsonl", events())
    write_jsonl(path / "resolutions.jsonl", resolutions())


def leak_report(audit: Audit, archive: Archive) -> LeakReport:
    """A report with what the wall counted and how many documents the world holds."""
    return LeakReport(
        checked=audit.checked,
        refused=len(audit.refusals),
        documents=archive.counts().get("document", 0),
    )


def canaries(archive: Archive) -> dict[str, datetime]:
    """The planted documents of a simulated world, with the instants from which they are known."""
    return {d.id: d.known_at for d in archive.documents() if d.id.startswith(CANARY)}


def without_flagged(
    rows: Iterable[IntervalRow], questions: list[Question], settings: Settings
) -> dict[str, dict[str, Few]] | None:
    """Each forecaster's Brier and skill with all its decisions, without those that rest on a
    flagged document (`kept`), and with all of them on the rows where one is kept (`same_rows`, to
    compare with); None if none does. `rows` has one row per market and instant, and is read
    several times."""

    def kept(row: IntervalRow) -> IntervalRow:
        decisions = [said for said in row.decisions if not said.flagged_evidence_ids]
        return msgspec.structs.replace(row, decisions=decisions)

    if not any(said.flagged_evidence_ids for row in rows for said in row.decisions):
        return None
    every, part = (build_table(columns_of(one), questions) for one in (rows, map(kept, rows)))
    return with_and_without(every, part, settings)


def with_and_without(every: Table, part: Table, settings: Settings) -> dict[str, dict[str, Few]]:
    """Each forecaster's Brier and skill over all rows, over those where `part` has a forecast of it
    too (`same_rows`), and those of `part`, which has the same rows and fewer forecasts (`kept`)."""
    found = dict[str, dict[str, Few]]()
    nothing = np.full(len(every.q), np.nan)
    shared = {
        name: np.where(np.isfinite(part.forecasts.get(name, nothing)), p, np.nan)
        for name, p in every.forecasts.items()
    }
    same = replace(every, forecasts=shared)
    for name, table in (("all", every), ("same_rows", same), ("kept", part)):
        found[name] = {
            row.forecaster: {
                "n": row.n,
                "brier": number(row.brier),
                "skill_vs_market": number(row.skill_vs_market),
            }
            for row in score_only(table, settings)
        }
    return found


def end_in_report(
    path: Path,
    result: Result,
    leaks: LeakReport,
    about: About,
    intervals: Sequence[IntervalRow] = (),
    asked: Iterable[Forecaster] = (),
) -> Summary:
    """The end of every scored run: write the files of SCORED; returns the
    summary for `--json`. `intervals` are the rows of the one market that the report draws, `asked`
    the forecasters of the run."""
    if used := _plugins(asked):
        about = {**about, "plugins": used}
    named = about.get("subjects", ())
    about["baselines"] = {
        row.forecaster: BASELINES[row.forecaster].says.rstrip(".")
        for row in result.rows
        if row.forecaster in BASELINES and row.forecaster not in (MARKET, *named)
    }
    about["venues"] = _venues(result.table)
    summary: Summary = {**about, **result.wire(), "leaks": leaks.wire()}
    write_json(path / "scores.json", summary)
    write_atomic(path / "leaderboard.csv", leaderboard_csv(summary["leaderboard"]))
    write_atomic(path / "pairs.csv", pairs_csv(summary["pairs"]))
    events = path / "events.jsonl"  # An evaluation of files keeps none beside its result.
    texts = {e["id"]: e["question"] for e in (read_jsonl(events) if events.is_file() else ())}
    write_lines(path / "questions.csv", questions_csv(result, texts))
    write_atomic(path / "bets.csv", bets_csv(result.rows, result.table, texts))
    write_atomic(path / "report.html", html(summary, intervals, texts).encode())
    return summary


def _venues(table: Table) -> list[VenueWire]:
    """The venues of the questions, those with the most first."""
    of = [name.partition(":")[0] for name in table.questions]
    play = {venue for venue, flag in zip(of, table.play.tolist(), strict=True) if flag}
    return [
        {"venue": venue, "n_questions": n, "play_money": venue in play}
        for venue, n in Counter(of).most_common()
    ]


def _plugins(asked: Iterable[Forecaster]) -> list[PluginFacts]:
    """What of other packages had a part in a run: its forecasters, and the added metrics."""
    modules = {type(one).__module__ for one in asked}
    heads = {re.split("[:@]", one.provider)[0] for one in asked}
    found = [plugin for plugin, _ in PLUGINS.load("metrics")]
    for plugin, _ in PLUGINS.load("forecasters"):
        if plugin.name in heads or plugin.value.partition(":")[0] in modules:
            found.append(plugin)
    return [cast(PluginFacts, plugin.facts()) for plugin in found]


def world_kind(archive: Archive) -> str:
    """`simulated world` or `recorded archive`, as every page must say."""
    importers = {entry["importer"] for entry in archive.manifest["imports"]}
    kind = "recorded archive" if "simulate" not in importers else "simulated world"
    if kind == "simulated world" and len(importers) > 1:
        kind = "simulated world with imported records"
    return f"{kind} {archive.digest[:12]}"


def subtitle(t: Sized, grade: str, strict: float) -> str:
    """What was walked, and on what grade of text."""
    start = f"{len(t):,} forecasts. Text grade: {grade}; "
    if strict == 1.0:
        return (
            start + "every forecast had a question text whose stored version was no later than t."
        )
    return start + (
        f"{100 * strict:.0f} % of the forecasts had a question text whose stored version was no "
        "later than t, the others were made on the price alone."
    )


def left_out_sentence(left_out: Mapping[str, int]) -> str:
    """Markets not walked, with the reason."""
    if not left_out:
        return "Every market was walked."
    parts = [f"{n:,} {why}" for why, n in sorted(left_out.items())]
    return f"Markets not scored: {', '.join(parts)}."


def pictured(intervals: Iterable[IntervalRow]) -> str:
    """The market to draw: one whose price moved far while documents, if there are any, came in."""
    seen: dict[str, set[str]] = {}
    odds: dict[str, list[float]] = {}
    for row in intervals:
        name, price = row.market_id, row.context.odds
        seen.setdefault(name, set()).update(s.id for s in row.context.search_snippets)
        if price is not None:
            odds.setdefault(name, []).append(price)
    if not odds:
        raise NotFound("the run has no interval to draw")

    def interest(name: str) -> tuple[float, str]:
        moved = max(odds[name]) - min(odds[name])
        return (1 + min(len(seen[name]), 12)) * moved * min(len(odds[name]), 12), name

    return max(odds, key=interest)
