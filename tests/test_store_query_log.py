"""The log of searches has a bound for each holder, and shows nobody how many others searched."""

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
