"""Kalshi's parsers and requests against its own OpenAPI file and on captures."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

import shapes
from beforehand.records.world import PricePoint
from beforehand.sources import (
    kalshi,
)

AT = datetime(2026, 9, 1, tzinfo=UTC)


def load(data: Path, name: str) -> Any:
    return json.loads((data / "_look_only" / name).read_text())


@pytest.fixture(scope="module")
def openapi(data: Path) -> dict[str, Any]:
    return dict(yaml.safe_load((data / "api/kalshi/kalshi_openapi_3.13.0.yaml").read_text()))


def schema_of(openapi: dict[str, Any], name: str, lenient: bool = True) -> Draft202012Validator:
    """A validator for a component; `lenient` takes fields that the file calls required and our
    examples leave out."""
    components = json.loads(json.dumps(openapi["components"]))
    if lenient:
        _relax(components)
    return Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": components})


def _relax(value: Any) -> None:
    if isinstance(value, dict):
        if isinstance(value.get("required"), list):
            value.pop("required")
        if value.pop("nullable", False) and isinstance(value.get("type"), str):
            value["type"] = [value["type"], "null"]
        for item in value.values():
            _relax(item)
    elif isinstance(value, list):
        for item in value:
            _relax(item)


@pytest.mark.real_data
def test_kalshi_examples_fit_its_specification(openapi: dict[str, Any]) -> None:
    for name, value in (
        ("Market", shapes.KALSHI_MARKET),
        ("EventData", shapes.KALSHI_EVENT),
        ("MarketCandlestick", shapes.KALSHI_CANDLE),
        ("Trade", shapes.KALSHI_TRADE),
        ("GetHistoricalCutoffResponse", shapes.CUTOFF),
    ):
        schema_of(openapi, name).validate(value)
        known = _properties(openapi, name)
        known |= {"taker_outcome_side"}  # Newer than the file; it stands in the captures.
        assert set(value) <= known, f"{name}: {set(value) - known} is in no specification"
    with pytest.raises(ValidationError):
        schema_of(openapi, "Market").validate({**shapes.KALSHI_MARKET, "ticker": 5})


def _properties(openapi: dict[str, Any], name: str) -> set[str]:
    schema = openapi["components"]["schemas"][name]
    found = set(schema.get("properties", {}))
    for part in schema.get("allOf", ()):
        found |= (
            _properties(openapi, part["$ref"].rsplit("/", 1)[1])
            if "$ref" in part
            else set(part.get("properties", {}))
        )
    return found


@pytest.mark.real_data
def test_kalshi_requests_fit_its_specification(openapi: dict[str, Any]) -> None:
    now = AT
    requests = [
        kalshi.markets_request(status="open", tickers=["A"], cursor="c"),
        kalshi.market_request("A"),
        kalshi.market_request("A", historical=True),
        kalshi.events_request(),
        kalshi.event_request("E"),
        kalshi.book_request("A"),
        kalshi.cutoff_request(),
        kalshi.candles_request("A", now - timedelta(days=1), now, 60, False),
        kalshi.candles_request("A", now - timedelta(days=1), now, 60, True),
        kalshi.trades_request("A", 10, False),
        kalshi.trades_request("A", 10, True),
    ]
    for request in requests:
        path, operation = next(
            (p, o["get"]) for p, o in openapi["paths"].items() if _fits(p, request.path)
        )
        named = [_resolved(openapi, p) for p in operation.get("parameters", ())]
        allowed = {p["name"] for p in named if p["in"] == "query"}
        assert {k for k, _ in request.params} <= allowed, (path, request.params, allowed)


def _fits(template: str, path: str) -> bool:
    mine, theirs = path.split("/"), template.split("/")
    return (
        len(mine) == len(theirs)
        and all(a == b or b.startswith("{") for a, b in zip(mine, theirs, strict=True))
        and not any(
            a != b and a in ("candlesticks", "trades") for a, b in zip(mine, theirs, strict=True)
        )
    )


def _resolved(openapi: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in value:
        found: Any = openapi
        for part in value["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        value = found
    return value


@pytest.mark.real_data
def test_kalshi_candles_of_both_tiers(data: Path) -> None:
    raw = load(data, "kalshi/candlestick_rows_live_and_historical.json")
    for tier in ("live", "historical"):
        (point,) = kalshi.parse_candles([raw[tier]], "KALSHI:x")
        (row,) = kalshi.candle_rows({"candlesticks": [raw[tier]]}, "x", 1, AT)
        assert point.known_at == row.known_at
        assert row.data["close"] is not None
        assert row.data["volume"] is not None
    new = kalshi.candle_rows({"candlesticks": [shapes.KALSHI_CANDLE]}, "x", 1440, AT)
    old = kalshi.candle_rows({"candlesticks": [shapes.KALSHI_CANDLE_OLD]}, "x", 1440, AT)
    assert [r.data for r in new] == [r.data for r in old]
    batch = {"markets": [{"market_ticker": "x", "candlesticks": [shapes.KALSHI_CANDLE]}]}
    assert kalshi.candle_rows(batch, "x", 1440, AT)[0].data == new[0].data
    points = kalshi.parse(batch, AT)
    assert isinstance(points[0], PricePoint)
    assert points[0].market_id == "KALSHI:x"
    settled, _ = kalshi.parse_cutoff(raw["historical_cutoff"])
    assert settled == datetime(2026, 6, 12, tzinfo=UTC)


@pytest.mark.real_data
def test_kalshi_captures(data: Path) -> None:
    raw = load(data, "pmvl_captures_2026-07/kalshi_trades.json")
    trades = kalshi.parse_trades(raw, AT)
    assert len(trades) == len(raw["trades"])
    assert trades[0].data["yes_price"] == 0.38
    assert kalshi.page(raw, "trades")[1] == raw["cursor"]


def test_an_eastern_day_ends_at_midnight_eastern() -> None:
    assert kalshi.eastern_day(datetime(2026, 1, 6, 5, tzinfo=UTC)) == "2026-01-05"
    assert kalshi.eastern_day(datetime(2026, 7, 6, 4, tzinfo=UTC)) == "2026-07-05"
    assert kalshi.eastern_day(datetime(2026, 7, 6, 5, tzinfo=UTC)) == "2026-07-06"


def test_candle_windows_stay_below_the_cap() -> None:
    start, end = AT - timedelta(days=30), AT
    parts = kalshi.candle_windows(start, end, 1)
    assert parts[0][0] == start
    assert parts[-1][1] == end
    assert all((b - a) / timedelta(minutes=1) < 5000 for a, b in parts)
