"""A callable that is declared free: what asking it costs beyond itself, with and without the
journal; and what a table of a million forecasts costs to hand to pandas, polars and DuckDB.

Floors: the function alone on the same contexts; the same rows written in the same batches with
SQLite's `executemany` into the same table.
"""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Semaphore

import numpy as np

from beforehand.clock import SystemClock, from_us, iso, stopwatch
from beforehand.config import Home, Workspace
from beforehand.engine.context import Signals, StepContext
from beforehand.forecast.base import Context, Opening, open_forecaster
from beforehand.forecast.callables import REGISTERED, declare
from beforehand.front.arrow import Column, Table
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs.backtest.ask import Asker, Interval
from beforehand.records.rows import MarketSeen
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.store.database import Database
from beforehand.store.journal.free import FREE, FreeAnswer
from beforehand.store.journal.journal import Journal

N, AT_ONCE, START = 100_000, 100, 1_700_000_000_000_000
ROWS = 1_000_000


def mine(context: object) -> float:
    """The function that is asked."""
    return 0.9 * context.odds + 0.05  # type: ignore[attr-defined]


class NoAnswers:
    """Keeps no answer."""

    def known(self, keys: Sequence[str]) -> dict[str, str]:
        return {}

    def add(self, answer: FreeAnswer) -> None:
        pass

    def commit(self) -> None:
        pass


def contexts() -> list[list[Context]]:
    """N contexts, AT_ONCE an instant."""
    rng = np.random.default_rng(0)
    found = []
    for k in range(N // AT_ONCE):
        time = iso(from_us(START + k * 3_600_000_000))
        odds = rng.random(AT_ONCE).round(3).tolist()
        seen = [
            MarketSeen(f"SIM:m{i:04d}", f"Will it be so in case {i}?", p, 3600.0, time, time, p, p)
            for i, p in enumerate(odds)
        ]
        found.append([Context(time, market) for market in seen])
    return found


def asked(home: Path, all_contexts: list[list[Context]]) -> tuple[float, float, float]:
    """Seconds: the function alone, asked without the journal, asked with it."""
    workspace = Workspace(Home(home))
    archive = home / "archive"
    ArchiveWriter(archive).add([], importer="b", source="b", source_digest="b", recorded_at=_now())
    world = RecordedWorld(Archive(archive))
    REGISTERED["mine"] = declare(mine, "mine", free=True)
    one = open_forecaster("python:mine", Opening(workspace, world=world))
    instants = [[Interval([one], {}, c.t, c, "external", 1) for c in at] for at in all_contexts]
    started = stopwatch()
    for at in all_contexts:
        for context in at:
            mine(context)
    alone = stopwatch() - started
    journal = Journal(Database(home / "journal.db"), SystemClock())
    journal.enter("r", "backtest", {}, "f", str(home))
    journal.begin("r", 1, "run begun")

    def ask(run: str, free: NoAnswers | None) -> float:
        asker, started = Asker(), stopwatch()
        for number, intervals in enumerate(instants):
            step = StepContext(run, f"s{number}", "o", journal, Signals(Semaphore(1)))
            if free is not None:
                step._free = free  # type: ignore[assignment]
            asker.ask(intervals, step)
            step.commit()
            one.instant = ("", {})
        return stopwatch() - started

    journal.started("r", [(f"s{k}", "walk") for k in range(len(instants))])
    without = ask("r", NoAnswers())
    one.shown.clear()
    with_journal = ask("r", None)
    return alone, without, with_journal


def floor(home: Path) -> float:
    """Seconds for the same rows in the same batches."""
    source = Database(home / "journal.db")
    names = "run_id key task_id provider index question instant owner answer digest now".split()
    with source.read() as tx:
        rows = tx.run(
            "SELECT run_id, call_key, task_id, provider, simulation_index, question, instant, "
            "owner, answer, answer_digest, sent_at FROM calls"
        )
    assert len(rows) == N, len(rows)
    batches: dict[str, list[dict[str, object]]] = {}
    for row in rows:
        batches.setdefault(str(row[2]), []).append(dict(zip(names, row, strict=True)))
    target = Journal(Database(home / "floor.db"), SystemClock())
    ordered = sorted(batches.values(), key=lambda batch: int(str(batch[0]["instant"])))
    started = stopwatch()
    for batch in ordered:
        with target.database.write() as tx:
            tx.many(FREE, batch)
    return stopwatch() - started


def tables() -> dict[str, tuple[float, bool]]:
    """Seconds, and whether the numbers were not copied, for each reader of a million forecasts."""
    rng = np.random.default_rng(1)
    p, t = rng.random(ROWS), np.arange(ROWS, dtype=np.int64) * 1_000_000
    table = Table(
        {
            "market_id": Column("text", [f"SIM:m{i % 1000:04d}" for i in range(ROWS)]),
            "time": Column("time", t),
            "probability": Column("float", p),
        }
    )
    table.__arrow_c_schema__()  # The texts are encoded once, before the clock starts.

    def timed(read: Callable[[], np.ndarray]) -> tuple[float, bool]:  # type: ignore[type-arg]
        started = stopwatch()
        found = read()
        took = stopwatch() - started
        return took, bool(np.shares_memory(found, p))

    import duckdb
    import pandas  # noqa: F401 (loaded before the clock starts)
    import polars

    made = {
        "pandas": timed(lambda: table.to_pandas()["probability"].to_numpy()),
        "polars": timed(lambda: polars.DataFrame(table)["probability"].to_numpy()),
    }
    said, started = table, stopwatch()  # noqa: F841 (DuckDB finds it by its name)
    relation = duckdb.sql("SELECT sum(probability) FROM said")
    ((total,),) = relation.fetchall()
    took = stopwatch() - started
    assert abs(total - p.sum()) < 1e-3, total
    made["DuckDB"] = (took, False)
    return made


def _now():  # type: ignore[no-untyped-def]
    return SystemClock().now()


def main() -> None:
    """Print the figures."""
    all_contexts = contexts()
    with tempfile.TemporaryDirectory() as folder:
        alone, without, journalled = asked(Path(folder), all_contexts)
        least = floor(Path(folder))
    beyond = 1e6 * (without - alone) / N
    print(f"free callable, {N:,} questions, {AT_ONCE} an instant")
    print(f"  the function alone          {1e6 * alone / N:6.2f} µs a question")
    print(f"  beyond it, no journal       {beyond:6.2f} µs a question  [20]")
    print(f"  with the journal            {1e6 * journalled / N:6.2f} µs a question")
    print(f"  floor: the rows in batches  {1e6 * least / N:6.2f} µs a row")
    print(f"  journal / floor             {journalled / least:6.2f}  [2]")
    print(f"a table of {ROWS:,} forecasts")
    for name, (took, shared) in tables().items():
        print(f"  to {name:8} {1e3 * took:8.1f} ms, numbers {'shared' if shared else 'scanned'}")


if __name__ == "__main__":
    main()
