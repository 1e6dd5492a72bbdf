"""Score a file of forecasts (`id,time,probability`) against a recorded world.

Every row is either scored or listed with the reason why not. The market's price and the
baselines are taken at the instants of the file, through the same wall as a backtest. A file does
not prove when its forecasts were made: the times are taken as stated.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TypedDict

import numpy as np

from beforehand import __version__
from beforehand.clock import (
    Clock,
    SystemClock,
    from_us,
    iso,
    iso_us,
    to_us,
)
from beforehand.engine.runs import check_name
from beforehand.errors import InputError, NotFound
from beforehand.forecast.base import Context, Decision
from beforehand.forecast.files.forecast_file import Line, Rejected, Stated
from beforehand.forecast.schemes.baselines import BASELINES, always
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.panel import Evidence, Panel
from beforehand.gateway.view import View
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.ids import digest, new_run_id
from beforehand.jobs import hindsight, results
from beforehand.jobs.backtest import grid
from beforehand.jobs.backtest.select import until
from beforehand.jobs.checks import fees_apply
from beforehand.jobs.leave_out import BY_NAME, Cells, Rule, parse, without
from beforehand.jobs.results import LEAK_NOTE, world_kind
from beforehand.records.cutoff import visible_us
from beforehand.records.rows import AggregateRow, IntervalRow, MarketSeen
from beforehand.records.world import Resolution
from beforehand.runs.columns import read_questions
from beforehand.runs.marks import write_marks
from beforehand.runs.rows import InstantLine
from beforehand.score import metrics
from beforehand.score.evaluate import Columns, Settings, build_table, evaluate
from beforehand.score.leaks.report import LeakReport
from beforehand.score.skill import MARKET, MIN_ANSWERED
from beforehand.score.summary import About, Pictured, Summary, number
from beforehand.score.table import Table
from beforehand.score.validity import STATED, SetFacts
from beforehand.store.archive.endings import Endings
from beforehand.store.archive.manifest import licences_of
from beforehand.store.archive.reader import Archive
from beforehand.store.files import write_jsonl
from beforehand.store.run_folder import RunFolder

MOST_UNKNOWN, MOST_LATE, FEW_QUESTIONS = 3, 0.05, 20
MOST_KEPT = 10_000
"""Endings that are kept as records while rows are read."""
UNKNOWN = "no such market in the archive"
LATE = "the time lies at or after the market's end"
UNSEEN = "the market had ended by then, which was not on record yet"
"""No fault: nobody who looked at that instant could tell, so it was not asked."""
EARLY = "the time lies before the market's first known price"
OPEN = "the market has no resolution yet"
"""Its position counts for the verdict, at the last price."""
SECOND = (
    "a second forecast of the same market at the same instant (of several draws of one model take "
    "the mean, or give each a name in a column forecaster)"
)
YARDSTICKS = (always(0.5), BASELINES["base_rate"], BASELINES["shrunk"])


@dataclass(frozen=True)
class Scored:
    """The run's folder and the summary of scores.json; `rejected` says what was left out."""

    folder: RunFolder
    summary: Summary
    rejected: Rejected


class Readable(TypedDict):
    """How many forecasts of a file could be scored, of those asked for, and of how many markets."""

    n: int
    asked: int
    markets: int


class Understood(TypedDict):
    """A row as it was understood, with the market's price then."""

    line: int
    id: str
    time: str
    probability: float
    forecaster: str
    market: float


class Checked(TypedDict):
    """What a file would be scored on: its rows, and each forecaster's; which of its columns were
    read as what, and some rows as they were understood (the lowest, a middle and the highest
    probability)."""

    scored: int
    not_scored: dict[str, list[int]]
    forecasters: dict[str, Readable]
    columns: dict[str, str]
    examples: list[Understood]


def check(stated: Stated, archive: Archive) -> Checked:
    """Which rows can be scored, without a score: nothing is written and nothing counts as tried."""
    gateway = Gateway(RecordedWorld(archive))
    endings = gateway.full_view().endings()
    cells, _ = _match(stated.lines, gateway, endings, stated.rejected)
    _count_blank(stated.blank, gateway, endings, stated.rejected)
    found = dict[str, Readable]()
    for name, asked in sorted(_asked(cells, stated.rejected).items()):
        mine = [market for (market, _), said in cells.items() if name in said]
        found[name] = {"n": len(mine), "asked": asked, "markets": len(set(mine))}
    return {
        "scored": sum(row["n"] for row in found.values()),
        "not_scored": dict(sorted(stated.rejected.reasons.items())),
        "forecasters": found,
        "columns": dict(stated.read_as),
        "examples": _examples(stated.lines, cells, gateway),
    }


def _examples(lines: Sequence[Line], cells: "Cells", gateway: Gateway) -> list[Understood]:
    view, there = gateway.full_view(), dict[int, tuple[str, int]]()
    for line in lines:
        with suppress(NotFound, InputError):
            key = view.resolve_id(line.id), to_us(line.t)
            if key in cells:
                there[line.number] = key
    known = sorted((x for x in lines if x.number in there), key=lambda x: x.probability)
    chosen = {x.number: x for x in (known[:1] + known[len(known) // 2 :][:1] + known[-1:])}
    found = list[Understood]()
    for place, line in chosen.items():
        market, t = there[place]
        panel = _panel(gateway, {(market, t): {}})
        found.append(
            {
                "line": place,
                "id": market,
                "time": iso_us(t),
                "probability": line.probability,
                "forecaster": line.forecaster,
                "market": float(panel.price[0]),
            }
        )
    return found


def run(
    stated: Stated,
    archive: Archive,
    runs: Path,
    ledger: Path,
    *,
    run_id: str | None = None,
    settings: Settings = Settings(),
    training_cutoff: datetime | None = None,
    leave_out: Sequence[str] = (),
    clock: Clock | None = None,
) -> Scored:
    """Score forecasts; `leave_out` has rules (`FIELD=VALUE`) for rows that are not looked at.
    Raises InputError if no row can be scored."""
    rules, rejected = parse(leave_out), stated.rejected
    gateway = Gateway(RecordedWorld(archive))
    endings = gateway.full_view().endings()
    cells, waiting = _match(stated.lines, gateway, endings, rejected)
    if not cells:
        raise InputError(f"no row of {stated.name} can be scored: {rejected.sentence}")
    _count_blank(stated.blank, gateway, endings, rejected)
    view, stated_cells = gateway.full_view(), cells
    markets = {name: view.market(name) for name in sorted({n for n, _ in [*cells, *waiting]})}
    cells, left = without(cells, rules, markets)
    waiting = {
        (name, t): said
        for (name, t), said in waiting.items()
        if not any(rule.fits(markets[name], t) for rule in rules)
    }
    panel, later = _panel(gateway, cells), _panel(gateway, waiting)
    columns, open_columns = _columns(panel, cells), _columns(later, waiting)
    still_open = {name: until(gateway, name) for name in dict.fromkeys(later.market)}
    used = endings.only(dict.fromkeys(panel.market))
    fees_apply(settings.kelly, [view.market(name) for name in used])
    now = (clock or SystemClock()).now()
    folder = _claimed(runs, run_id, now)
    named = sorted([*used, *still_open])
    results.write_questions(folder.path, gateway, used, named, still_open)
    _write(folder.path, {**cells, **waiting}, rejected)
    instants = chain(_instants(panel, columns), _instants(later, open_columns))
    write_jsonl(folder.path / "instants.jsonl", instants)
    names = sorted({who for said in cells.values() for who in said})
    leaks = _leaks(gateway, archive, panel)
    table = build_table(
        columns.with_others(open_columns), read_questions(folder.path, settings.kelly)
    )
    table = replace(hindsight.marked(table, gateway), asked=_asked(cells, rejected))
    write_marks(folder.path, table)
    variants = _variants(panel, cells, stated_cells, names, left)
    here = folder.run_id, iso(now), archive.digest
    settings = results.with_trials(settings, ledger, "file", table, used, variants, *here)
    doubts = {**hindsight.doubted(table, names, gateway), **_explored(rules, names)}
    facts = replace(
        _facts(archive, leaks, settings.variants, names, doubts),
        unresolved=len(still_open),
        share_after_training_cutoff=_after(training_cutoff, used, columns),
        share_made_after_training=_made_after(training_cutoff, columns),
        training_cutoff=training_cutoff,
        share_scored=1 - rejected.count / stated.rows,
    )
    result = evaluate(table, facts, replace(settings, subjects=tuple(names)))
    about = _about(stated, archive, folder, names, left)
    if training_cutoff is not None:
        about["training_ends"] = dict.fromkeys(names, iso(training_cutoff))
    about["hints"] = _hints(stated, table, names)
    sizes = Counter(panel.market)
    drawn = max(used, key=lambda m: (sizes[m], m))
    about["pictured"] = _pictured(view, used[drawn])
    _tell_coverage(about, gateway, endings, {market for market, _ in stated_cells})
    line = _picture(panel, cells, drawn)
    summary = results.end_in_report(folder.path, result, leaks, about, line)
    folder.seal("score", archive.digest, results.told(folder, stated.name))
    return Scored(folder, summary, rejected)


def _claimed(runs: Path, run_id: str | None, now: datetime) -> RunFolder:
    """A new run's folder. Raises InputError for an id that is taken or stands for another."""
    check_name(run_id)
    folder = RunFolder(runs, run_id or new_run_id(now, lambda n: (runs / n).exists()))
    folder.create()
    return folder


def _write(folder: Path, cells: Cells, rejected: Rejected) -> None:
    """Write the file's rows: those that count, and those that are not scored."""
    write_jsonl(folder / "predictions.jsonl", _predictions(cells))
    write_jsonl(folder / "rejected.jsonl", rejected.rows())


def _explored(rules: Sequence[Rule], names: Iterable[str]) -> dict[str, str]:
    """Why nobody may be said to beat the market where rows were left out by name."""
    named = " ".join(str(rule) for rule in rules if rule.field in BY_NAME)
    why = (
        f"rows were left out by name (--leave-out {named}), which may have been chosen for how "
        "they ended: this is exploration"
    )
    return dict.fromkeys(names, why) if named else {}


def _leaks(gateway: Gateway, archive: Archive, panel: Panel) -> LeakReport:
    """What was shown, checked again: the prices at the file's instants."""
    leaks = results.leak_report(gateway.audit, archive)
    leaks.rechecked, leaks.from_file = len(panel), True
    leaks.admitted_after_t = int((~visible_us(panel.known_at, panel.t)).sum())
    return leaks


def _facts(
    archive: Archive,
    leaks: LeakReport,
    tried: int | None,
    names: list[str],
    clairvoyant: Mapping[str, str],
) -> SetFacts:
    """What the scorer is told of the set; `clairvoyant` may not be said to beat the market."""
    return SetFacts(
        documents=leaks.documents,
        variants=tried or 0,
        admitted_after_t=leaks.admitted_after_t,
        gaps=archive.gaps(),
        subjects=tuple(names),
        kept={
            **{b.name: b.kept() for b in YARDSTICKS if b.name not in names},
            **{who: replace(STATED, because=why) for who, why in clairvoyant.items()},
        },
    )


def _about(
    stated: Stated, archive: Archive, folder: RunFolder, names: list[str], left: Mapping[str, int]
) -> About:
    """What the report says about the file; `left` counts what each rule left out."""
    rejected, bare, on_request = stated.rejected, stated.bare_dates, sum(left.values())
    scored = stated.rows - rejected.count - on_request
    rules = ", ".join(f"{rule}: {n:,}" for rule, n in left.items())
    asked = f", {on_request:,} left out on request ({rules})" if left else ""
    rows = {"scored": scored, "not_scored": rejected.count}
    return {
        "subjects": names,
        "run_id": folder.run_id,
        "title": stated.name,
        "version": __version__,
        "world_kind": world_kind(archive),
        "licences": licences_of(archive.manifest),
        "subtitle": f"{scored:,} of {stated.rows:,} rows of {stated.name} scored, "
        f"{rejected.count:,} not{asked}. The market's price and the yardsticks are taken at the "
        "same instants.",
        "rows": {**rows, "left_out": on_request} if left else rows,
        "grid": "The instants are the file's own, taken as stated"
        + (f" ({bare:,} are bare dates: the end of that day, UTC)" if bare else "")
        + "; the market's price is the latest observation known then",
        "left_out": f"{rejected.count:,} rows were not scored: see below."
        if rejected.count
        else "Every row of the file was scored.",
        "leave_out": dict(left),
        "leak_note": LEAK_NOTE,
        "rejected": dict(sorted(rejected.reasons.items())),
    }


def _tell_coverage(
    about: About,
    gateway: Gateway,
    endings: Endings,
    used: Collection[str],
) -> None:
    """Say how much of what could have been forecast the file speaks of, and hint at it where that
    is not nearly all."""
    first = gateway.full_view().first_prices()
    settled = sum(endings.says(name)[1] is not None for name in endings if name in first)
    said = f"the file speaks of {len(used):,} of the {settled:,} settled markets of the archive: "
    said += "which ones is its own choice"
    about["subtitle"] += f" {said[0].upper()}{said[1:]}."
    if len(used) < MIN_ANSWERED * settled:
        about["hints"] = [*about.get("hints", []), said]


def _hints(stated: Stated, table: Table, names: Sequence[str]) -> list[str]:
    """What looks odd in a file, so that a slip is not taken for a result."""
    said = list(stated.remarks)
    late = len(stated.rejected.reasons.get(LATE, ()))
    if late > MOST_LATE * stated.rows:
        said.append(
            f"{late:,} of {stated.rows:,} rows are dated at or after the end of their market: can "
            "the times of the others be right?"
        )
    for name in names:
        p = table.forecasts[name]
        valid = np.isfinite(p) & np.isfinite(table.market)
        w, y = table.row_weights(valid)[valid], table.y[table.q][valid]
        mine, turned, market = (metrics.brier(x[valid], y, w) for x in (p, 1 - p, table.market))
        if turned < mine and turned < (mine + market) / 2:
            said.append(
                f"{name} would do better turned round (1 − p: Brier {turned:.3f} instead of "
                f"{mine:.3f}): are these probabilities of NO?"
            )
    rows = Counter(line.forecaster for line in stated.lines)
    said += [
        f"{who} has no score: none of its {n:,} rows could be scored"
        for who, n in sorted(rows.items())
        if who not in names and n
    ]
    said += _of_events(table)
    alike = [one for one in names if sum(o.lower() == one.lower() for o in names) > 1]
    if alike:
        said.append(f"{', '.join(alike)} differ in capitals alone, and are scored apart")
    return said


def _of_events(table: Table) -> Iterator[str]:
    """What looks odd in how questions were taken together as events."""
    n, sizes = len(table.questions), np.bincount(table.event)
    if (alone := int(table.bare.sum())) > 0:
        yield (
            f"{alone:,} of {n:,} questions have neither a text nor an event id in the archive, so "
            "each counts as an event of its own: if some belong together, the intervals are too "
            "narrow (import their texts, or give markets an event_id)"
        )
    if n >= FEW_QUESTIONS and 2 * (most := int(sizes.max())) > n:
        yield (
            f"{most:,} of {n:,} questions count as one event: they share an event id, or read "
            "alike and resolve together (docs/metrics.md, Intervals); give markets an event_id "
            "where that is wrong"
        )


def _pictured(view: View, ending: Resolution) -> Pictured:
    return {
        "why": "the one with the most forecasts",
        "id": ending.market_id,
        "settled": ending.payout,
        "question": view.market(ending.market_id).question,
    }


def _match(
    lines: list[Line],
    gateway: Gateway,
    endings: Endings,
    rejected: Rejected,
) -> tuple[Cells, Cells]:
    """(market, t) to forecasts, of markets that have ended and of those that are open; what does
    not fit is rejected with its reason, and those of open markets are not scored."""
    cells: Cells = {}
    waiting: Cells = {}
    known: dict[str, str | None] = {}
    view, ending_of = gateway.full_view(), lru_cache(MOST_KEPT)(endings.get)
    first = view.first_prices()
    # In order of their names, as a large archive has its markets: each part of it is read once.
    for name in sorted({line.id for line in lines}):
        try:
            known[name] = view.resolve_id(name)
        except NotFound:
            known[name] = None
        except InputError:
            known[name] = "?"
    for line in lines:
        market = known[line.id]
        reason = _misfit(market, line, first, ending_of)
        t = to_us(line.t)
        kept = waiting if reason == OPEN else cells
        if reason in (None, OPEN) and line.forecaster in kept.get((market or "", t), {}):
            reason = SECOND
        elif reason == OPEN and market is not None:
            waiting.setdefault((market, t), {})[line.forecaster] = line.probability
        if reason is not None or market is None:
            stated = {"id": line.id, "time": iso(line.t), "probability": line.probability}
            own = market is None or reason in (UNKNOWN, LATE, EARLY)
            who = line.forecaster if own else None
            rejected.add(reason or UNKNOWN, line.number, stated, who)
            continue
        cells.setdefault((market, t), {})[line.forecaster] = line.probability
    asked = dict.fromkeys(line.id for line in lines)
    unknown = [name for name in asked if known[name] is None][:MOST_UNKNOWN]
    if unknown:
        rejected.nearest = _nearest(unknown, view)
    return cells, waiting


def _count_blank(blank: list[Line], gateway: Gateway, endings: Endings, rejected: Rejected) -> None:
    """Count questions that the file names without a probability as not answered, so that leaving
    them blank is not free; those that nobody could have forecast are left out."""
    view = gateway.full_view()
    first = view.first_prices()
    for line in sorted(blank, key=lambda line: line.id):  # As in `_match`.
        market: str | None = None
        with suppress(NotFound, InputError):
            market = view.resolve_id(line.id)
        if _misfit(market, line, first, endings.get) in (None, UNKNOWN, LATE, EARLY):
            rejected.unanswered[line.forecaster] += 1


def _asked(cells: Cells, rejected: Rejected) -> dict[str, int]:
    """How many forecasts each forecaster of the file was asked for: those it made, its rows that
    count as not answered, and for a market that it left out as many as the forecaster who forecast
    it most often made. A row that fits no market, or is blank, may stand for one that is
    left out, and does not count twice. Instants are a forecaster's own: nobody is asked at those of
    another."""
    made = dict[str, Counter[str]]()
    for (market, _), said in cells.items():
        for who in said:
            made.setdefault(market, Counter())[who] += 1
    names = {who for said in cells.values() for who in said}
    own = {who: sum(n[who] for n in made.values()) for who in names}
    skipped = {who: sum(max(n.values()) for n in made.values() if not n[who]) for who in names}
    return {who: own[who] + max(rejected.unanswered[who], skipped[who]) for who in names}


def _nearest(unknown: Iterable[str], view: View) -> dict[str, list[str]]:
    """The ids that are most like those that are not known."""
    natives = {name.partition(":")[2].lower(): name for name in (m.id for m in view.markets())}
    found = dict[str, list[str]]()
    for name in unknown:
        plain = name.rpartition("/")[2].rpartition(":")[2].lower()
        close = get_close_matches(plain, natives, 3, 0.6)
        found[name] = [natives[one] for one in close]
    return found


def _misfit(
    market: str | None,
    line: Line,
    first: Mapping[str, int],
    ending_of: Callable[[str], Resolution | None],
) -> str | None:
    if line.forecaster == MARKET:
        return "a forecaster may not be called market: rename it, or use --name"
    if market is None:
        return UNKNOWN
    if market == "?":
        return "the bare id is ambiguous: write VENUE:id"
    ending = ending_of(market)
    if market not in first:
        return "the archive has no prices of this market"
    if ending is None:
        return OPEN if to_us(line.t) >= first[market] else EARLY
    if ending.payout is None:
        return f"the market is {ending.status}"
    if line.t >= grid.end_of(ending):
        return LATE if line.t >= ending.known_at else UNSEEN
    if to_us(line.t) < first[market]:
        return EARLY
    return None


def _panel(gateway: Gateway, cells: Cells) -> Panel:
    """The market's price at the instants of the file."""
    instants: dict[str, list[int]] = {}
    for market, t in sorted(cells):
        instants.setdefault(market, []).append(t)
    pairs = [(market, np.array(t, dtype=np.int64)) for market, t in instants.items()]
    return gateway.panel(pairs, evidence=Evidence(max_results=0))


def _columns(panel: Panel, cells: Cells) -> Columns:
    own = {who for said in cells.values() for who in said}
    yardsticks = {b.name: b.forecast(panel) for b in YARDSTICKS if b.name not in own}
    columns = Columns(
        id=list(panel.market),
        t=panel.t.tolist(),
        market=panel.price.tolist(),
        price_age=(panel.price_age / 86400).tolist(),
        strict=[text is not None for text in panel.text],
        evidence=[0] * len(panel),
        bid=panel.bid.tolist(),
        ask=panel.ask.tolist(),
    )
    for i in range(len(panel)):
        mine = cells[panel.market[i], int(panel.t[i])]
        columns.forecasts.append(
            {**{name: float(values[i]) for name, values in yardsticks.items()}, **mine}
        )
    return columns


def _variants(
    panel: Panel, cells: Cells, whole: Cells, names: Iterable[str], left: Mapping[str, int]
) -> dict[str, str]:
    """A variant is identified by all its forecasts in the file (`whole`) and the rules by which
    some were `left` out of the score, and not by its name. Prices of the market do not count."""
    rules = " ".join(left)
    return {
        digest([_said(whole, who), rules] if left else _said(whole, who)): f"{who} {rules}".strip()
        for who in names
        if not _copies(panel, cells, who)
    }


def _copies(panel: Panel, cells: Cells, who: str) -> bool:
    """True if every forecast of this forecaster is the market's price."""
    said = (cells[m, int(t)].get(who) for m, t in zip(panel.market, panel.t, strict=True))
    return all(p is None or p == m for p, m in zip(said, panel.price.tolist(), strict=True))


def _said(cells: Cells, who: str) -> list[tuple[str, int, float]]:
    return sorted((m, t, said[who]) for (m, t), said in cells.items() if who in said)


def _predictions(cells: Cells) -> Iterator[Mapping[str, object]]:
    for (market, t), said in sorted(cells.items()):
        for who, p in sorted(said.items()):
            yield {
                "id": market,
                "prediction": {"probability": p},
                "metadata": {"model": who, "timestamp": iso(from_us(t)), "predictor_id": who},
            }


def _instants(panel: Panel, columns: Columns) -> Iterator[InstantLine]:
    """What stood beside the file's forecasts at each of its instants."""
    yardsticks = [b.name for b in YARDSTICKS]
    for i, market in enumerate(panel.market):
        odds, age = number(float(panel.price[i])), number(float(panel.price_age[i]))
        said = columns.forecasts[i]
        yield {
            "id": market,
            "time": iso_us(int(panel.t[i])),
            "odds": odds,
            "price_age_s": age,
            "yardsticks": {name: said[name] for name in yardsticks if name in said},
        }


def _after(
    cutoff: datetime | None, used: Mapping[str, Resolution], columns: Columns
) -> float | None:
    """Share of forecasts whose answer came after the model's training ended."""
    if cutoff is None:
        return None
    return float(np.mean([used[name].resolved_at > cutoff for name in columns.id]))


def _made_after(cutoff: datetime | None, columns: Columns) -> float | None:
    """Share of forecasts that were made after the model's training ended."""
    return None if cutoff is None else float(np.mean(np.array(columns.t) >= to_us(cutoff)))


def _picture(panel: Panel, cells: Cells, market: str) -> list[IntervalRow]:
    """Rows of one market, for the report's line."""
    found = []
    for i in range(len(panel)):
        if panel.market[i] == market:
            t = int(panel.t[i])
            context = Context(iso_us(t), MarketSeen(market, odds=float(panel.price[i])))
            said = [Decision(p).row(who, 0, context) for who, p in cells[market, t].items()]
            nothing = AggregateRow("mean", None, None, len(said))
            found.append(IntervalRow("", market, context.time, context, said, [], nothing))
    return found
