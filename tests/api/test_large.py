"""A run of columns through the API: every page is that of the same run in rows."""

from pathlib import Path
from typing import Any

import pytest
from apiserver import api, pages

from columned import bare, both

__all__ = ["bare", "both"]


@pytest.fixture(scope="module")
def answered(both: tuple[Path, Path]) -> list[dict[str, Any]]:
    """What the API says of each of the two."""
    return [_all(folder.parents[2]) for folder in both]


def _all(home: Path) -> dict[str, Any]:
    with api(home, "--rate", "5000") as serving:
        tables = {
            name: pages(serving, f"/api/runs/r/{name}", limit=37)
            for name in ("forecasts", "intervals", "failures", "evidence")
        }
        row = tables["intervals"][-1]
        market, time = row["market_id"], row["time"]
        forecasts, intervals = "/api/runs/r/forecasts", "/api/runs/r/intervals"
        return {
            **tables,
            "market": pages(serving, forecasts, limit=2, market_id=market),
            "forecaster": pages(serving, forecasts, limit=500, forecaster="drift"),
            "since": pages(serving, intervals, limit=500, since=time),
            "whole": serving.json("/api/runs/r/interval", market_id=market, time=time),
            "csv": serving.get(forecasts, format="csv").content,
        }


def test_every_page_is_the_same(answered: list[dict[str, Any]]) -> None:
    rows, columns = answered
    assert len(rows["forecasts"]) > 300
    assert len(rows["market"]) > 1
    for name in rows:
        if name != "whole":
            assert rows[name] == columns[name], name


def test_one_instant_whole_is_the_same_but_for_its_digest(answered: list[dict[str, Any]]) -> None:
    rows, columns = (one["whole"]["rows"] for one in answered)
    for mine, theirs in zip(rows, columns, strict=True):
        assert {**mine, "digest": None} == {**theirs, "digest": None}


@pytest.mark.parametrize("table", ["forecasts", "intervals"])
def test_a_cursor_of_another_run_is_refused(both: tuple[Path, Path], table: str) -> None:
    with api(both[0].parents[2]) as of_rows:
        last = of_rows.json(f"/api/runs/r/{table}", limit=20)
        cursor = last["next"]
    with api(both[1].parents[2]) as of_columns:
        answer = of_columns.get(f"/api/runs/r/{table}", cursor=cursor)
    assert answer.status_code == 422, answer.text
    assert "leave the cursor out" in answer.text
