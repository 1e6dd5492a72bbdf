"""Gather the forecasts of an unmodified client of MCP into a file, instant after instant.

At each instant the client is started once, with all markets that can be asked then and a token that
is pinned to it. What it submits goes to the file when it ends; an instant that is done is never
asked again. A market that it leaves out has a row without a probability: asked, and not answered.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from beforehand.clock import from_us, iso
from beforehand.config import Workspace
from beforehand.errors import BadAnswer, InputError
from beforehand.forecast.base import Opening
from beforehand.forecast.desk import Desk
from beforehand.forecast.mapping import Questions
from beforehand.forecast.programs import Start
from beforehand.forecast.schemes.command import command_of, start_of
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.search import Grade
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.ids import digest
from beforehand.jobs.backtest import grid, select
from beforehand.records.rows import Context, MarketSeen
from beforehand.store.archive.reader import Archive
from beforehand.store.files import exclusive, read_json, write_atomic, write_json

MOST_FAILED = 3
"""So many instants in a row at which a client fails without a forecast end the collecting."""
COLUMNS = ("id", "time", "probability", "forecaster", "rationale")
Progress = Callable[[str, int, int], None]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Order:
    """What to gather: the markets (None: all settled ones), how far apart the instants are, and the
    command line of the client; `name` is what the forecaster is called in the file."""

    archive: Path
    out: Path
    client: str
    markets: Sequence[str] | None = None
    every: timedelta = timedelta(days=7)
    kind: grid.Kind = "aligned"
    start: datetime | None = None
    stop: datetime | None = None
    grade: Grade = "captured"
    timeout: float = 600.0
    name: str = "client"


@dataclass
class Collected:
    """What was gathered so far: instants asked, those on record from before, rows with and without
    a forecast, and why clients failed."""

    instants: int = 0
    known: int = 0
    forecasts: int = 0
    unanswered: int = 0
    odd: dict[str, int] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def note(self, rule: str, n: int = 1) -> None:
        """Count what is odd."""
        if n:
            self.odd[rule] = self.odd.get(rule, 0) + n


def collect(
    order: Order, workspace: Workspace, progress: Progress = lambda *_: None, say: Say = print
) -> Collected:
    """Ask the client at every instant, and write the file. The same order again goes on where it
    was. Raises InputError for an order that asks nothing, or that is another than the one which
    began the file; BadAnswer where the client fails again and again."""
    world = RecordedWorld(Archive(order.archive), order.grade)
    plan = _plan(order, world)
    if not plan:
        raise InputError("no market can be asked at any instant: widen --markets or --every")
    state = order.out.with_name(order.out.name + ".state.json")
    order.out.parent.mkdir(parents=True, exist_ok=True)
    with exclusive(order.out.with_name(order.out.name + ".lock"), f"{order.out} is being written"):
        kept = _resumed(state, order, world, digest([[t, *names] for t, names in plan.items()]))
        opening = Opening(workspace, world=world)
        start = start_of(*command_of(f"mcp:{order.client}", opening), opening, network=True)
        key = digest(str(order.out.resolve()).encode())[:16]
        folder = workspace.home.collecting / key
        desk = Desk(workspace, order.archive, folder, order.grade)
        try:
            return _ask_all(order, plan, kept, state, desk, start, world, workspace, progress, say)
        finally:
            desk.close()
            _write(order, kept)


def _plan(order: Order, world: RecordedWorld) -> dict[int, list[str]]:
    """The markets of each instant, in order."""
    selection = select.select(Gateway(world), order.markets)
    found = dict[int, list[str]]()
    for name in selection.names:
        first, end = selection.first[name], selection.over(name)
        life = grid.life(first, end, order.every, order.kind, order.start, order.stop)
        for t in life.t.tolist():
            found.setdefault(t, []).append(name)
    return dict(sorted(found.items()))


def _resumed(state: Path, order: Order, world: RecordedWorld, questions: str) -> dict[str, Any]:
    """What is on record of this order. Raises InputError where another began the file."""
    facts = {
        "archive": world.archive.digest,
        "client": order.client,
        "every": order.every.total_seconds(),
        "name": order.name,
        "questions": questions,
        "grade": order.grade,
    }
    if not state.is_file():
        if order.out.exists():
            raise InputError(f"{order.out} exists, and no collecting began it: choose another file")
        return {"order": facts, "instants": {}}
    kept: dict[str, Any] = read_json(state)
    if kept.get("order") != facts:
        other = [name for name in facts if kept.get("order", {}).get(name) != facts[name]]
        raise InputError(
            f"{order.out} was begun with another {' and '.join(other)}: choose another file, or "
            f"remove it and {state.name}"
        )
    return kept


def _ask_all(
    order: Order,
    plan: Mapping[int, list[str]],
    kept: dict[str, Any],
    state: Path,
    desk: Desk,
    start: Start,
    world: RecordedWorld,
    workspace: Workspace,
    progress: Progress,
    say: Say,
) -> Collected:
    found, failed = Collected(known=len(kept["instants"])), 0
    questions = Questions(world, workspace.clock)
    for n, (t, names) in enumerate(plan.items()):
        at, key = from_us(t), iso(from_us(t))
        progress(key, n, len(plan))
        if key in kept["instants"]:
            continue
        shown = [_shown(world, workspace, name, at, questions) for name in names]
        rows, why = _ask_one(desk, start, at, shown, order, found)
        if why is not None:
            found.failures[key] = why
            say(f"{key}: {why}")
        failed = failed + 1 if why is not None and not rows else 0
        if failed >= MOST_FAILED:
            there = f" {order.out} has what was gathered." if kept["instants"] else ""
            raise BadAnswer(
                f"the client failed at {failed} instants in a row, the last: {why}.{there} The "
                "same command goes on"
            )
        if why is None or rows:  # One that failed without a forecast is asked again next time.
            said = {name: rows.get(name) for name in names}
            kept["instants"][key] = said
            write_json(state, kept)
            found.instants += 1
    progress("", len(plan), len(plan))
    every = [said for one in kept["instants"].values() for said in one.values()]
    found.forecasts = sum(said is not None for said in every)
    found.unanswered = len(every) - found.forecasts
    return found


def _shown(
    world: RecordedWorld, workspace: Workspace, name: str, at: datetime, questions: Questions
) -> dict[str, Any]:
    """A market as the client is told of it: its wording and its price, known at the instant."""
    odds = Gateway(world, workspace.clock).at(at).odds(name).price
    return questions(Context(iso(at), MarketSeen(name, None, odds)))


def _ask_one(
    desk: Desk,
    start: Start,
    at: datetime,
    shown: Sequence[Mapping[str, Any]],
    order: Order,
    found: Collected,
) -> tuple[dict[str, dict[str, Any]], str | None]:
    """(the forecasts of one instant by market, why the client failed)."""
    asked = {str(one["id"]) for one in shown}
    question = {"time": iso(at), "markets": list(shown)}
    # The same user each time: what was submitted before a kill is found again.
    user = f"collect-{digest([str(order.out.resolve()), iso(at)])[:12]}"
    rows, ran = desk.ask(start, at, question, order.timeout, user)
    mine = dict[str, dict[str, Any]]()
    for row in rows:
        if row["id"] not in asked:
            found.note("answer to no question of ours")
            continue
        found.note("second answer to one question", row["id"] in mine)
        if "read_as" in row:
            found.note(row["read_as"])
        mine[row["id"]] = {name: row[name] for name in ("probability", "rationale")}
    return mine, ran.why


def _write(order: Order, kept: Mapping[str, Any]) -> None:
    """The file as it stands: CSV, or JSONL by its name."""
    rows = list(_rows(order, kept))
    if not rows:
        return
    if order.out.name.endswith((".jsonl", ".ndjson")):
        import orjson

        write_atomic(order.out, b"".join(orjson.dumps(row) + b"\n" for row in rows))
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomic(order.out, text.getvalue().encode())


def _rows(order: Order, kept: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for time, said in sorted(kept["instants"].items()):
        for name, one in said.items():
            yield {
                "id": name,
                "time": time,
                "probability": None if one is None else one["probability"],
                "forecaster": order.name,
                "rationale": "" if one is None else " ".join(str(one["rationale"]).split()),
            }
