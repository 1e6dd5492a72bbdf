"""Score a file of forecasts (`id,time,probability`) against a recorded world.

Every row is either scored or listed with the reason why not. The market's price and the
baselines are taken at the instants of the file, through the same wall as a backtest. A file does
not prove when its forecasts were made: the times are taken as stated.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path

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
from beforehand.errors import InputError, NotFound
from beforehand.forecast.base import Context, Decision
from beforehand.forecast.schemes.baselines import BASELINES, always
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.panel import Evidence, Panel
from beforehand.gateway.view import View
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.ids import digest, new_run_id
from beforehand.jobs import results
from beforehand.jobs.backtest import grid
from beforehand.jobs.forecast_file import Line, Rejected, Stated
from beforehand.jobs.results import LEAK_NOTE, left_out_sentence, world_kind
from beforehand.records.cutoff import visible_us
from beforehand.records.rows import AggregateRow, IntervalRow, MarketSeen
from beforehand.records.world import Resolution
from beforehand.runs.columns import read_questions
from beforehand.runs.rows import InstantLine
from beforehand.score.evaluate import Columns, Settings, build_table, evaluate
from beforehand.score.skill import MARKET
from beforehand.score.summary import About, Summary, number
from beforehand.score.validity import SetFacts
from beforehand.store.archive.manifest import licences_of
from beforehand.store.archive.reader import Archive
from beforehand.store.files import write_jsonl
from beforehand.store.run_folder import RunFolder, note_trials

MOST_UNKNOWN = 3
YARDSTICKS = (always(0.5), BASELINES["base_rate"], BASELINES["shrunk"])


@dataclass(frozen=True)
class Scored:
    """The run's folder and the summary of scores.json; `rejected` says what was left out."""

    folder: RunFolder
    summary: Summary
    rejected: Rejected


def run(
    stated: Stated,
    archive: Archive,
    runs: Path,
    ledger: Path,
    *,
    run_id: str | None = None,
    settings: Settings = Settings(),
    training_cutoff: datetime | None = None,
    clock: Clock | None = None,
) -> Scored:
    """Score forecasts. Raises InputError if no row can be scored."""
    rejected = stated.rejected
    gateway = Gateway(RecordedWorld(archive))
    endings = {r.market_id: r for r in gateway.full_view().resolutions()}
    cells = _match(stated.lines, gateway, endings, rejected)
    if not cells:
        raise InputError(f"no row of {stated.name} can be scored: {rejected.sentence}")
    _add_unanswered(stated.blank, gateway, endings, cells)
    panel = _panel(gateway, cells)
    columns = _columns(panel, cells)
    used = {market: endings[market] for market in dict.fromkeys(panel.market)}
    now = (clock or SystemClock()).now()
    folder = RunFolder(runs, run_id or new_run_id(now, lambda n: (runs / n).exists()))
    folder.create()
    results.write_questions(folder.path, gateway, used)
    write_jsonl(folder.path / "predictions.jsonl", _predictions(cells))
    write_jsonl(folder.path / "instants.jsonl", _instants(panel, columns))
    write_jsonl(folder.path / "rejected.jsonl", rejected.rows())
    names = sorted({who for said in cells.values() for who in said})
    tried = note_trials(ledger, "file", used, _variants(panel, cells, names))
    leaks = results.leak_report(gateway.audit, archive)
    leaks.rechecked, leaks.from_file = len(panel), True
    leaks.admitted_after_t = int((~visible_us(panel.known_at, panel.t)).sum())
    facts = SetFacts(
        documents=leaks.documents,
        variants=tried,
        admitted_after_t=leaks.admitted_after_t,
        share_after_training_cutoff=_after(training_cutoff, used, columns),
        subjects=tuple(names),
        share_scored=1 - rejected.count / stated.rows,
        kept={b.name: b.kept() for b in YARDSTICKS if b.name not in names},
    )
    table = build_table(columns, read_questions(folder.path, settings.kelly))
    result = evaluate(table, facts, replace(settings, variants=tried, subjects=tuple(names)))
    sizes = Counter(panel.market)
    drawn = max(used, key=lambda m: (sizes[m], m))
    about = _about(stated, archive, folder, names)
    view = gateway.full_view()
    about["pictured"] = {
        "why": "the one with the most forecasts",
        "id": drawn,
        "settled": used[drawn].payout,
        "question": view.market(drawn).question,
    }
    shown = _picture(panel, cells, drawn)
    summary = results.end_in_report(folder.path, result, leaks, about, shown)
    folder.seal("score", archive.digest, results.told(folder, stated.name))
    return Scored(folder, summary, rejected)


def _about(stated: Stated, archive: Archive, folder: RunFolder, names: list[str]) -> About:
    """What the report says about the file."""
    rejected, bare = stated.rejected, stated.bare_dates
    scored = stated.rows - rejected.count
    return {
        "subjects": names,
        "run_id": folder.run_id,
        "title": stated.name,
        "version": __version__,
        "world_kind": world_kind(archive),
        "licences": licences_of(archive.manifest),
        "subtitle": f"{scored:,} of {stated.rows:,} rows of {stated.name} scored, "
        f"{rejected.count:,} not. The market's price and the yardsticks are taken at the same "
        "instants.",
        "rows": {"scored": scored, "not_scored": rejected.count},
        "grid": "The instants are the file's own, taken as stated"
        + (f" ({bare:,} are bare dates: the end of that day, UTC)" if bare else "")
        + "; the market's price is the latest observation known then",
        "left_out": f"{rejected.count:,} rows were not scored: see below."
        if rejected.count
        else left_out_sentence({}),
        "leak_note": LEAK_NOTE,
        "rejected": dict(sorted(rejected.reasons.items())),
    }


Cells = dict[tuple[str, int], dict[str, float]]


def _match(
    lines: list[Line],
    gateway: Gateway,
    endings: Mapping[str, Resolution],
    rejected: Rejected,
) -> Cells:
    """(market, t) to forecasts; what does not fit is rejected with its reason."""
    cells: Cells = {}
    known: dict[str, str | None] = {}
    view = gateway.full_view()
    first = view.first_prices()
    for line in lines:
        if line.id not in known:
            try:
                known[line.id] = view.resolve_id(line.id)
            except NotFound:
                known[line.id] = None
            except InputError:
                known[line.id] = "?"
        market = known[line.id]
        reason = _misfit(market, line, first, endings)
        t = to_us(line.t)
        if reason is None and line.forecaster in cells.get((market or "", t), {}):
            reason = "a second forecast of the same market at the same instant"
        if reason is not None or market is None:
            stated = {"id": line.id, "time": iso(line.t), "probability": line.probability}
            rejected.add(reason or "no such market in the archive", line.number, stated)
            continue
        cells.setdefault((market, t), {})[line.forecaster] = line.probability
    unknown = [name for name, found in known.items() if found is None][:MOST_UNKNOWN]
    if unknown:
        rejected.nearest = _nearest(unknown, view)
    return cells


def _add_unanswered(
    blank: list[Line], gateway: Gateway, endings: Mapping[str, Resolution], cells: Cells
) -> None:
    """Questions that the file names without a probability: rows that their forecaster did not
    answer, so that leaving them blank is not free."""
    view = gateway.full_view()
    first = view.first_prices()
    for line in blank:
        with suppress(NotFound, InputError):
            market = view.resolve_id(line.id)
            if _misfit(market, line, first, endings) is None:
                cells.setdefault((market, to_us(line.t)), {})


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
    market: str | None, line: Line, first: Mapping[str, int], endings: Mapping[str, Resolution]
) -> str | None:
    if line.forecaster == MARKET:
        return "a forecaster may not be called market: rename it, or use --name"
    if market is None:
        return "no such market in the archive"
    if market == "?":
        return "the bare id is ambiguous: write VENUE:id"
    ending = endings.get(market)
    if market not in first:
        return "the archive has no prices of this market"
    if ending is None:
        return "the market has no resolution yet"
    if ending.payout is None:
        return f"the market is {ending.status}"
    if line.t >= grid.end_of(ending):
        return "the time lies at or after the market's end"
    if to_us(line.t) < first[market]:
        return "the time lies before the market's first known price"
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


def _variants(panel: Panel, cells: Cells, names: Iterable[str]) -> list[str]:
    """A variant is identified by its forecasts, not its name. Prices of the market do not count."""
    return [digest(_said(cells, who)) for who in names if not _copies(panel, cells, who)]


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
