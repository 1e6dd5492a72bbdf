"""The query templates of the market-data table: what each needs, and its SQL.

Every statement ends with three parameters: created no later than (microseconds), limit, offset.
The four documented templates come first; the others were asked for by users of that system.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from beforehand.clock import parse_instant, to_us
from beforehand.errors import InputError

COLUMNS = (
    "id",
    "symbol",
    "bid",
    "ask",
    "price",
    "bid_quantity",
    "offer_quantity",
    "timestamp",
    "file_date",
    "data_source",
    "is_valid",
    "created_at",
)
_LIKE = "symbol IN (SELECT symbol FROM symbols WHERE symbol LIKE ?)"
_EQUAL = _LIKE.replace("symbol LIKE ?", "symbol = ? COLLATE NOCASE")
"""The same for a pattern without wildcards, through an index."""
LONGEST = 200
_VALUE = "coalesce(price, (bid + ask) / 2)"
_KNOWN = "created_us <= ?"
_END = "LIMIT ? OFFSET ?"

Value = str | float | None
"""A parameter in its stored form; None leaves a condition out."""
Values = Mapping[str, Value]


@dataclass(frozen=True)
class QueryPlan:
    """SQL with its parameters. `patterns` marks those that are LIKE patterns."""

    text: str
    values: tuple[Any, ...]
    patterns: tuple[bool, ...] = ()

    def sql(self, columns: tuple[str, ...]) -> str:
        """The statement for a selection of columns."""
        return self.text.replace("{columns}", ", ".join(columns))


@dataclass(frozen=True)
class Template:
    """A named query: its parameters (all required but the `optional` ones) and its columns."""

    doc: str
    plan: Callable[[Values], QueryPlan]
    required: tuple[str, ...] = ()
    optional: dict[str, Value] = field(default_factory=dict)
    columns: tuple[str, ...] = COLUMNS
    statistics: bool = False


def _rows(where: str, order: str, *names: str) -> Callable[[Values], QueryPlan]:
    condition = f"{where} AND {_KNOWN}" if where else _KNOWN
    text = f"SELECT {{columns}} FROM market_data WHERE {condition} ORDER BY {order} {_END}"

    def plan(values: Values) -> QueryPlan:
        pattern = str(values.get("symbol_pattern", "%"))
        plain = "%" not in pattern and "_" not in pattern
        chosen = text.replace(_LIKE, _EQUAL) if plain else text
        return QueryPlan(chosen, tuple(values[name] for name in names))

    return plan


_LATEST = (
    "SELECT {columns} FROM symbols s CROSS JOIN market_data m ON m.id = ("
    "SELECT id FROM market_data INDEXED BY by_symbol_time WHERE symbol = s.symbol AND "
    f"{{extra}}{_KNOWN} ORDER BY timestamp_us DESC, id DESC LIMIT 1)"
)


def _latest_per_symbol(values: Values) -> QueryPlan:
    inner = _LATEST.format(columns="m.*", extra="")
    text = (
        "SELECT {columns} FROM ("
        + inner.replace(_KNOWN, "created_us <= ?2")
        + " WHERE s.symbol LIKE ?1) ORDER BY symbol LIMIT ?3 OFFSET ?4"
    )
    return QueryPlan(text, (values["symbol_pattern"],))


def _two_symbols(values: Values) -> QueryPlan:
    inner = _LATEST.format(columns="m.*", extra="timestamp_us <= ?3 AND ")
    text = (
        "SELECT {columns} FROM ("
        + inner.replace(_KNOWN, "created_us <= ?4")
        + " WHERE s.symbol IN (?1, ?2)) ORDER BY symbol LIMIT ?5 OFFSET ?6"
    )
    return QueryPlan(text, (values["symbol_a"], values["symbol_b"], values["timestamp"]))


def _cross(values: Values) -> QueryPlan:
    side = _LATEST.format(columns="m.symbol, (m.bid + m.ask) / 2 AS mid, m.timestamp", extra="")
    side = side.replace(_KNOWN, "created_us <= ?3") + " WHERE s.symbol LIKE {which} LIMIT 200"
    left, right = (f"(SELECT * FROM ({side}))".replace("{which}", which) for which in ("?1", "?2"))
    text = (
        "SELECT a.symbol AS left_symbol, b.symbol AS right_symbol, a.mid AS left_mid, "
        "b.mid AS right_mid, a.mid - b.mid AS difference, a.timestamp AS left_timestamp, "
        f"b.timestamp AS right_timestamp FROM {left} a CROSS JOIN {right} b "
        "WHERE a.symbol <> b.symbol AND a.mid IS NOT NULL AND b.mid IS NOT NULL "
        "ORDER BY abs(a.mid - b.mid), a.symbol, b.symbol LIMIT ?4 OFFSET ?5"
    )
    return QueryPlan(text, (values["left_pattern"], values["right_pattern"]))


_STATS = (
    "count(*) AS records, count(bid) AS records_with_bid, count(ask) AS records_with_ask, "
    "min(bid) AS bid_min, max(bid) AS bid_max, round(avg(bid), 9) AS bid_avg, min(ask) AS ask_min, "
    "max(ask) AS ask_max, round(avg(ask), 9) AS ask_avg"
)
_STAT_COLUMNS = (
    "records",
    "records_with_bid",
    "records_with_ask",
    "bid_min",
    "bid_max",
    "bid_avg",
    "ask_min",
    "ask_max",
    "ask_avg",
)


def _grouped(select: str, group: str) -> Callable[[Values], QueryPlan]:
    """A statement of DuckDB over the columns; a condition that excludes nothing is left out."""
    by = f" GROUP BY {group} ORDER BY {group}" if group else ""

    def plan(values: Values) -> QueryPlan:
        start, end = values["start_date"], values["end_date"]
        if values.get("file_date"):
            start = end = values["file_date"]
        asked = (
            ("list_contains(?::VARCHAR[], symbol)", values["symbol_pattern"], True),
            ("file_date >= ?", start, False),
            ("file_date <= ?", end, False),
        )
        used = [entry for entry in asked if entry[1] not in (None, "%")]
        where = " AND ".join([condition for condition, _, _ in used] + [_KNOWN])
        text = f"SELECT {select} FROM market_data WHERE {where}{by} {_END}"
        return QueryPlan(text, tuple(v for _, v, _ in used), tuple(p for _, _, p in used))

    return plan


_MID = "(bid + ask) / 2"
_ORDERED = "{stamp: timestamp_us, id: id}"
_OHLC = (
    f"symbol, file_date, arg_min({_MID}, {_ORDERED}) AS open, max({_MID}) AS high, "
    f"min({_MID}) AS low, arg_max({_MID}, {_ORDERED}) AS close, count({_MID}) AS quotes"
)
_ANY: dict[str, Value] = {"symbol_pattern": "%"}
_DAYS: dict[str, Value] = {"start_date": None, "end_date": None}

TEMPLATES: dict[str, Template] = {
    "by_symbol": Template(
        "Rows of the symbols that match.",
        _rows(_LIKE, "symbol, file_date, id", "symbol_pattern"),
        ("symbol_pattern",),
    ),
    "by_date": Template(
        "Rows of one file date.", _rows("file_date = ?", "id", "file_date"), ("file_date",)
    ),
    "by_symbol_and_date": Template(
        "Rows of the symbols that match, on one file date.",
        _rows(f"{_LIKE} AND file_date = ?", "symbol, file_date, id", "symbol_pattern", "file_date"),
        ("symbol_pattern", "file_date"),
    ),
    "all_valid": Template("Rows marked valid.", _rows("is_valid = 1", "id")),
    "latest_per_symbol": Template(
        "The newest row of each symbol.", _latest_per_symbol, optional=_ANY
    ),
    "by_symbol_and_timerange": Template(
        "Rows of the symbols that match, between two instants (both included).",
        _rows(
            f"{_LIKE} AND timestamp_us >= ? AND timestamp_us <= ?",
            "symbol, timestamp_us, id",
            "symbol_pattern",
            "start",
            "end",
        ),
        ("symbol_pattern", "start", "end"),
    ),
    "by_price_range": Template(
        "Rows whose price (where there is none, the middle of bid and ask) lies in a range.",
        _rows(f"{_VALUE} >= ? AND {_VALUE} <= ?", f"{_VALUE}, id", "min_price", "max_price"),
        ("min_price", "max_price"),
    ),
    "widest_spread": Template(
        "Rows with the widest spread between bid and ask.",
        _rows("bid IS NOT NULL AND ask IS NOT NULL", "ask - bid DESC, id DESC"),
    ),
    "narrowest_spread": Template(
        "Rows with the narrowest spread between bid and ask; crossed quotes first.",
        _rows("bid IS NOT NULL AND ask IS NOT NULL", "ask - bid, id"),
    ),
    "two_symbols_at_time": Template(
        "The last rows of two symbols at or before an instant.",
        _two_symbols,
        ("symbol_a", "symbol_b", "timestamp"),
    ),
    "cross_product_spread_candidates": Template(
        "Pairs of symbols of two products, by how little the middles of their newest quotes "
        "differ (at most 200 symbols a side).",
        _cross,
        ("left_pattern", "right_pattern"),
        columns=(
            "left_symbol",
            "right_symbol",
            "left_mid",
            "right_mid",
            "difference",
            "left_timestamp",
            "right_timestamp",
        ),
    ),
    "daily_ohlc_mid": Template(
        "Open, high, low and close of the middle of bid and ask, by symbol and file date.",
        _grouped(_OHLC, "symbol, file_date"),
        optional=_ANY | _DAYS,
        columns=("symbol", "file_date", "open", "high", "low", "close", "quotes"),
        statistics=True,
    ),
    "aggregate_by_symbol_and_date": Template(
        "Counts, extremes and means by symbol and file date.",
        _grouped(f"symbol, file_date, {_STATS}", "symbol, file_date"),
        optional=_ANY | _DAYS | {"file_date": None},
        columns=("symbol", "file_date", *_STAT_COLUMNS),
        statistics=True,
    ),
    "statistics": Template(
        "Counts, extremes and means over all rows that match.",
        _grouped(_STATS, ""),
        optional=_ANY | _DAYS | {"file_date": None},
        columns=_STAT_COLUMNS,
        statistics=True,
    ),
}


def check_params(template: str, given: Mapping[str, object]) -> dict[str, Value]:
    """The template's parameters, checked and in their stored form."""
    spec = TEMPLATES[template]
    known = [*spec.required, *spec.optional]
    if unknown := [name for name in given if name not in known]:
        takes = f"takes {', '.join(known)}" if known else "takes no parameters"
        raise InputError(f"unknown parameter {unknown[0]!r}: {template} {takes}")
    if missing := [name for name in spec.required if given.get(name) is None]:
        words = "parameter" if len(missing) == 1 else "parameters"
        raise InputError(f"{template} needs the {words} {', '.join(map(repr, missing))}")
    values = dict(spec.optional) | {k: v for k, v in given.items() if v is not None}
    if values.get("file_date") and (values.get("start_date") or values.get("end_date")):
        raise InputError("file_date excludes start_date and end_date: leave these out")
    checked = {name: _value(name, value) for name, value in values.items()}
    for low, high in (("start", "end"), ("start_date", "end_date"), ("min_price", "max_price")):
        first, last = checked.get(low), checked.get(high)
        if first is not None and last is not None and first > last:
            raise InputError(f"{low} lies above {high}")
    return checked


def signatures() -> str:
    """Every template with its parameters, the optional ones in brackets."""
    return "; ".join(
        f"{name}({', '.join([*spec.required, *(f'[{o}]' for o in spec.optional)])})"
        for name, spec in TEMPLATES.items()
    )


def _value(name: str, value: object) -> Any:
    if value is None:
        return None
    if name in ("min_price", "max_price"):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
            raise InputError(f"{name} must be a number, not {str(value)[:40]}")
        return float(value)
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST:
        raise InputError(
            f"{name} must be a text of at most {LONGEST} characters, not {str(value)[:40]!r}"
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{name} is not valid text") from None
    if name in ("file_date", "start_date", "end_date"):
        try:
            return date.fromisoformat(value.strip()).isoformat()
        except ValueError:
            raise InputError(f"{name} must be a day such as 2025-07-21, not {value!r}") from None
    if name in ("start", "end", "timestamp"):
        try:
            return to_us(parse_instant(value))
        except ValueError as error:
            raise InputError(f"{name}: {error}") from None
    return value
