"""The log of searches has a bound for each holder, and shows nobody how many others searched."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from beforehand.records.bus import PredictionQuery
from beforehand.store import queries
from beforehand.store.queries import QueryLog

AT = datetime(2026, 1, 1, tzinfo=UTC)


def searched(n: int) -> PredictionQuery:
    at = AT + timedelta(seconds=n)
    return PredictionQuery(
        session_id="s", user_query=f"query {n}", timestamp=at, results=[], result_count=0,
        created_at=at,
    )  # fmt: skip


def test_the_newest_of_each_holder_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "MOST_KEPT", 30)
    log, late = QueryLog(tmp_path / "log.db"), AT + timedelta(days=1)
    for n in range(50):
        log.add(searched(n), "ann")
    log.add(searched(50), "bob")
    for n in range(51, 400):
        log.add(searched(n))
    ann = log.history(late, holder="ann", limit=1000)
    assert [row.user_query for row in ann] == [f"query {n}" for n in range(49, 19, -1)]
    assert [row.id for row in ann] == list(range(30, 0, -1)), "ids of her own"
    (bob,) = log.history(late, holder="bob")
    assert bob.id == 1, "not how many others searched before"
    mine = log.history(late, limit=1000)
    assert 30 <= len(mine) <= 30 + queries.LOOK_EACH
    assert mine[0].user_query == "query 399"


def test_an_id_is_the_rows_and_stays(tmp_path: Path) -> None:
    """The owner's; where a later search would show, and for another user, rows are numbered."""
    log, late = QueryLog(tmp_path / "log.db"), AT + timedelta(days=1)
    log.add(searched(0), "ann")
    stored = [log.add(searched(n)) for n in (5, 3, 4)]
    found = {row.user_query: row.id for row in log.history(late)}
    assert found == dict(zip(("query 5", "query 3", "query 4"), stored, strict=True))
    with closing(sqlite3.connect(tmp_path / "log.db")) as db, db:
        db.execute("DELETE FROM prediction_queries WHERE id = ?", (stored[1],))
    kept = {row.user_query: row.id for row in log.history(late)}
    assert kept == {"query 5": stored[0], "query 4": stored[2]}, "whatever goes before it"
    pinned = log.history(AT + timedelta(seconds=4), pinned=True)
    assert [(row.user_query, row.id) for row in pinned] == [("query 4", 1)]
