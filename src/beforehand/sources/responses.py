"""Any recorded answer of a service, read by its shape: for files that do not say what was asked."""

from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from typing import Any

from beforehand.records.base import Record
from beforehand.sources import edgar, kalshi, polymarket, polymarket_data, reddit
from beforehand.sources.fields import answer, mapping

Parse = Callable[[Any, datetime, str | None], list[Record]]


def is_table(body: Any) -> bool:
    """True for rows of the Data API or comments: they belong together and are read as one."""
    rows = body.get("data") if isinstance(body, dict) else body
    first = rows[0] if isinstance(rows, list) and rows else None
    return isinstance(first, dict) and bool(
        first.keys() & {"proxyWallet", "proxy_wallet", "parentEntityType", "holders"}
    )


@answer("a Polymarket answer")
def _polymarket(raw: Any, fetched_at: datetime, market: str | None) -> list[Record]:
    if not is_table(raw):
        return list(polymarket.parse(raw, fetched_at, market))
    rows = [mapping(row, "a row") for row in (raw["data"] if isinstance(raw, dict) else raw)]
    first = rows[0]
    if "parentEntityType" in first:
        return list(polymarket_data.parse_comments(rows, None, fetched_at))
    if "holders" in first:
        subject = (market or "").partition(":")[2]
        return list(polymarket_data.parse_rows(rows, "holders", subject, fetched_at))
    kind = "trades"
    if {"avgPrice", "avg_price"} & first.keys():
        kind = "positions"
    elif "type" in first:
        kind = "activity"
    groups: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        names = (
            ("conditionId", "condition_id") if kind == "trades" else ("proxyWallet", "proxy_wallet")
        )
        subject = str(row.get(names[0]) or row.get(names[1]))
        groups[subject if kind == "trades" else subject.lower()].append(row)
    return [
        record
        for subject, mine in groups.items()
        for record in polymarket_data.parse_rows(mine, kind, subject, fetched_at)
    ]


def _edgar(raw: Any, fetched_at: datetime, market: str | None) -> list[Record]:
    body = mapping(raw, "an EDGAR answer")
    parse = edgar.parse_facts if "facts" in body else edgar.parse_submissions
    return list(parse(body, fetched_at))


def _reddit(raw: Any, fetched_at: datetime, market: str | None) -> list[Record]:
    return list(reddit.parse_thread_file(raw, fetched_at))


PARSERS: dict[str, Parse] = {
    "polymarket": _polymarket,
    "kalshi": lambda raw, at, market: list(kalshi.parse(raw, at, market)),
    "edgar": _edgar,
    "reddit": _reddit,
}
