"""Polymarket's Data API and comments: rows about wallets, trades, holders, builders; prices v2.

v2 answers `{data, pagination}` in snake case and is what we ask; the v1 shapes (bare arrays,
camelCase) are read as well and come out under the v2 names. Trades, activity and comments are
known when they were made; positions, holders and leaderboards when they were fetched.

Field names: polymarket-client 0.14. Shape, not recorded: v2, holders, builder leaderboard.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from beforehand.errors import BadAnswer
from beforehand.ids import market_id
from beforehand.records.record import Record
from beforehand.records.world import Observation, PricePoint, Resolution
from beforehand.sources.base import (
    Ask,
    Limit,
    Parse,
    Probe,
    Provider,
    Request,
    Source,
    fetch_mark,
    known,
    params,
    snapshot,
    words,
)
from beforehand.sources.fields import (
    answer,
    each,
    instant,
    mapping,
    number,
    probability,
    required,
    rows,
    seconds,
    text,
)
from beforehand.sources.polymarket import VENUE, comments_request
from beforehand.sources.polymarket import parse as parse_market_answer
from beforehand.sources.readings import of_payouts

SOURCE = "polymarket"
_V1_NAMES = {
    "asset": "token_id",
    "proxy_wallet": "wallet",
    "cur_price": "current_price",
    "cash_pnl": "unrealized_pnl",
}
_NOW = ("title", "slug", "event_slug", "name", "pseudonym")
"""Texts that show the moment of the fetch, whatever the row is about."""
_TEXT = (*_NOW, "outcome", "type", "side", "status")
_NUMBERS = (
    "size",
    "usdc_size",
    "price",
    "amount",
    "current_size",
    "avg_price",
    "entry_cost_usdc",
    "current_price",
    "current_value",
    "realized_pnl",
    "unrealized_pnl",
    "total_pnl",
    "percent_pnl",
    "volume",
    "active_users",
)


def user_request(kind: str, user: str, limit: int, end: datetime | None = None) -> Request:
    """`/v2/positions` or `/v2/activity` (until `end`) of one wallet."""
    values: dict[str, object] = {"user": user, "limit": limit}
    if kind == "activity":
        values["end"] = None if end is None else int(end.timestamp())
        # start=1: the whole history.
        values |= {"sort_direction": "DESC", "start": 1, "exclude_deposits_withdrawals": False}
    return Request("polymarket-data", kind, f"/v2/{kind}", params(values))


def trades_request(condition_id: str, limit: int) -> Request:
    """Trades of one market, newest first."""
    values = {"condition_id": condition_id, "limit": limit}
    return Request("polymarket-data", "trades", "/v2/trades", params(values))


def holders_request(condition_id: str, limit: int) -> Request:
    """The largest holders of each outcome."""
    values = {"condition_id": condition_id, "limit": limit}
    return Request("polymarket-data", "holders", "/v2/holders", params(values))


def builders_request(period: str, limit: int) -> Request:
    """The builder leaderboard of a period: day, week, month, all."""
    values = {"time_period": period, "limit": limit}
    path = "/v2/builders/leaderboard"
    return Request("polymarket-data", "builders", path, params(values))


def resolutions_request(condition_id: str) -> Request:
    """How a market resolved, with its payouts."""
    values = {"condition_id": condition_id}
    return Request("polymarket-data", "resolutions", "/v2/resolutions", params(values))


def history_request(
    token: str,
    *,
    start: datetime | None = None,
    end: datetime | None = None,
    as_of: datetime | None = None,
    bucket_seconds: int | None = None,
    cursor: str | None = None,
) -> Request:
    """Prices of a token: a window of at most 15 days, one point `as_of`, or all of them."""
    values: dict[str, object] = {"token_id": token, "cursor": cursor}
    if as_of is not None:
        values["as_of"] = int(as_of.timestamp())
    elif start is not None:
        values |= {"start": int(start.timestamp()), "bucket_seconds": bucket_seconds}
        values["end"] = None if end is None else int(end.timestamp())
    else:
        values |= {"interval": "max", "bucket_seconds": bucket_seconds or 43_200}
    return Request("polymarket-data", "prices-history", "/v2/prices-history", params(values))


@answer("a Data API price history")
def parse_history(
    raw: Any, market: str, fetched_at: datetime | None = None
) -> tuple[list[PricePoint], str | None]:
    """v2 prices and the next cursor. A row that stands for a bucket is known at the bucket's end:
    its stamp plus `resolution_seconds` (0 is an exact tick); a bucket that had not ended when it
    was fetched is left out."""
    found, cursor = _page(raw)

    def point(row: object) -> PricePoint:
        item = mapping(row, "a price row")
        width = number(item.get("resolution_seconds")) or 0.0
        price = probability(required(item, "price"))
        assert price is not None
        at = seconds(required(item, "timestamp")) + timedelta(seconds=width)
        return PricePoint(market_id=market, price=price, observed_at=at, known_at=at)

    points = each(found, point)
    return [p for p in points if fetched_at is None or p.known_at <= fetched_at], cursor


@answer("a Data API resolution list")
def parse_resolutions(raw: Any, fetched_at: datetime, turned: bool = False) -> list[Record]:
    """`/v2/resolutions`: payouts are millionths of a dollar per share, in the order of the market's
    outcomes (`turned`: NO comes first); payouts of one half each mean void."""
    records: list[Record] = []
    for row in _page(raw)[0]:
        item = mapping(row, "a resolution")
        if not item.get("condition_id"):
            continue
        name = market_id(VENUE, str(item["condition_id"]))
        status = item.get("status")
        if status in ("disputed", "challenged", "arbitration"):
            records.append(
                Resolution(
                    market_id=name, status="disputed", resolved_at=fetched_at, known_at=fetched_at
                )
            )
        if status != "resolved" or not item.get("payouts"):
            continue
        pair = [number(p) for p in rows(item["payouts"], "payouts")]
        ending = of_payouts(*(pair[::-1] if turned else pair)) if len(pair) == 2 else None
        if ending is None:
            raise BadAnswer(f"{name}: payouts {item['payouts']!r} are not a pair of amounts")
        stamp = item.get("resolved_at")
        records.append(
            Resolution(
                market_id=name,
                **ending._asdict(),
                resolved_at=fetched_at if stamp in (None, "") else min(_moment(stamp), fetched_at),
                known_at=fetched_at,
            )
        )
    return records


@answer("a Data API answer")
def parse_rows(raw: Any, kind: str, subject: str, fetched_at: datetime) -> list[Observation]:
    """Positions, activity, trades, holders or builders as observations, v1 or v2."""
    found, _ = _page(raw)
    if kind == "holders":
        found = [
            {"token_id": group.get("token_id", group.get("token")), **mapping(h, "a holder")}
            for group in (mapping(g, "a group of holders") for g in found)
            for h in rows(group.get("holders"), "holders")
        ]
    cleaned = each(found, lambda row: _clean(mapping(row, f"a row of {kind}")))
    if kind in ("positions", "holders", "builders"):
        return [snapshot(SOURCE, kind, subject, cleaned, fetched_at)]
    dated = each(cleaned, lambda row: (seconds(required(row, "timestamp")), row))
    out = [fetch_mark(SOURCE, kind, subject, len(dated), fetched_at)]
    seen: Counter[str] = Counter()
    for i, (at, row) in enumerate(dated):
        names = ("transaction_hash", "token_id", "type", "side", "size", "price")
        mark = [row.get(k) for k in names]
        name = "/".join(str(m) for m in mark if m not in (None, "")) or f"{at}/{i}"
        seen[name] += 1  # Two fills of one transaction may be equal in every field.
        out.append(
            Observation(
                source=SOURCE,
                kind=kind,
                subject=subject,
                id=name if seen[name] == 1 else f"{name}#{seen[name]}",
                data={k: v for k, v in row.items() if k not in _NOW},
                known_at=at,
                now={k: v for k, v in row.items() if k in _NOW},
                now_known_at=fetched_at,
            )
        )
    return out


@answer("a comment list")
def parse_comments(raw: Any, subject: str | None, fetched_at: datetime) -> list[Observation]:
    """Comments (a list, a keyset page, or one), known when last changed. Reactions and what the
    author holds show the moment of the fetch: they go to `now`."""
    body = raw.get("comments", raw.get("data")) if isinstance(raw, dict) else raw
    found = rows(body, "comments") if body is not None else [raw]
    out = (
        [] if subject is None else [fetch_mark(SOURCE, "comment", subject, len(found), fetched_at)]
    )

    def comment(row: object) -> Observation:
        item = mapping(row, "a comment")
        created = instant(required(item, "createdAt"))
        changed = instant(item.get("updatedAt")) or created
        assert created is not None
        assert changed is not None
        parent = (
            f"{str(item.get('parentEntityType') or 'Event').lower()}:{item.get('parentEntityID')}"
        )
        profile = item.get("profile")
        profile = mapping(profile, "a profile") if profile else {}
        reactions = item.get("reactions")
        return Observation(
            source=SOURCE,
            kind="comment",
            subject=subject or parent,
            id=str(required(item, "id")),
            data={
                "id": str(item["id"]),
                "body": text(item.get("body")) or "",
                "wallet": text(profile.get("proxyWallet") or item.get("userAddress")),
                "reply_to": text(item.get("parentCommentID")),
                "created_at": created.isoformat().replace("+00:00", "Z"),
            },
            known_at=max(created, changed),
            now={
                "author": text(profile.get("name") or profile.get("pseudonym")),
                "reactions": len(reactions)
                if isinstance(reactions, list)
                else number(item.get("reactionCount")),
                "reports": number(item.get("reportCount")),
            },
            now_known_at=fetched_at,
        )

    return [*out, *each(found, comment)]


def _page(raw: Any) -> tuple[list[Any], str | None]:
    if isinstance(raw, list):
        return raw, None
    body = mapping(raw, "a Data API answer")
    if "data" not in body:
        raise BadAnswer(f"a Data API answer lacks `data` (keys: {', '.join(sorted(body)[:6])})")
    pagination = body.get("pagination") or {}
    cursor = mapping(pagination, "pagination").get("next_cursor")
    return rows(body["data"], "data"), str(cursor) if cursor else None


def _clean(raw: Mapping[str, object]) -> dict[str, object]:
    """One row under the v2 names, the fields that mean something, numbers as numbers."""
    row = {_V1_NAMES.get(_snake(str(k)), _snake(str(k))): v for k, v in raw.items()}
    out: dict[str, object] = {}
    for key in ("rank", "builder_name", "builder_code", "wallet", "token_id", "condition_id"):
        if row.get(key) not in (None, ""):
            out[key] = text(row[key])
    for key in _TEXT:
        if row.get(key) not in (None, ""):
            out[key] = text(row[key])
    for key in _NUMBERS:
        if (value := number(row.get(key))) is not None:
            out[key] = value
    index = number(row.get("outcome_index"))
    if index is not None and index != 999:  # 999: a redemption, which has no outcome
        out["outcome_index"] = int(index)
    for key in ("redeemable", "verified"):
        if isinstance(row.get(key), bool):
            out[key] = row[key]
    if row.get("timestamp") not in (None, ""):
        out["timestamp"] = row["timestamp"]
    for key in ("transaction_hash", "end_date"):
        if row.get(key) not in (None, ""):
            out[key] = text(row[key])
    if "size" in out and "current_size" not in out and "avg_price" in out:
        out["current_size"] = out.pop("size")  # v1 positions
    return out


def _moment(value: Any) -> datetime:
    """Epoch seconds or ISO 8601."""
    if isinstance(value, (int, float)) or (isinstance(value, str) and value.isdigit()):
        return seconds(value)
    found = instant(value)
    return found if found is not None else datetime.fromtimestamp(0, UTC)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def is_table(body: Any) -> bool:
    """True for rows of the Data API or comments: they belong together and are read as one."""
    rows = body.get("data") if isinstance(body, dict) else body
    first = rows[0] if isinstance(rows, list) and rows else None
    return isinstance(first, dict) and bool(
        first.keys() & {"proxyWallet", "proxy_wallet", "parentEntityType", "holders"}
    )


@answer("a Polymarket answer")
def read_recorded(raw: Any, fetched_at: datetime, market: str | None) -> list[Record]:
    if not is_table(raw):
        return list(parse_market_answer(raw, fetched_at, market))
    rows = [mapping(row, "a row") for row in (raw["data"] if isinstance(raw, dict) else raw)]
    first = rows[0]
    if "parentEntityType" in first:
        return list(parse_comments(rows, None, fetched_at))
    if "holders" in first:
        subject = (market or "").partition(":")[2]
        return list(parse_rows(rows, "holders", subject, fetched_at))
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
        for record in parse_rows(mine, kind, subject, fetched_at)
    ]


KINDS = ("positions", "activity", "trades", "holders", "builders")
PAGE = 500


def _data(kind: str) -> Ask:
    def ask(subject: str, until: datetime, live: bool) -> list[tuple[Request, Parse]]:
        request = {
            "positions": lambda: user_request(kind, subject, PAGE),
            "activity": lambda: user_request(kind, subject, PAGE, end=None if live else until),
            "trades": lambda: trades_request(subject, PAGE),
            "holders": lambda: holders_request(subject, 100),
            "builders": lambda: builders_request(subject, 100),
        }[kind]()
        return [(request, lambda b, at: list(parse_rows(b, kind, subject, at)))]

    return ask


def _comments(subject: str, until: datetime, live: bool) -> list[tuple[Request, Parse]]:
    request = comments_request(subject.removeprefix("event:"), 100)
    return [(request, lambda b, at: list(parse_comments(b, subject, at)))]


THE_SOURCE = Source(
    SOURCE,
    (
        Provider(
            "polymarket-data",
            "Polymarket Data API",
            "https://data-api.polymarket.com",
            (
                Limit(1000, 10.0),
                Limit(200, 10.0, ("trades",)),
                Limit(150, 10.0, ("positions",)),
            ),
        ),
    ),
    answers={**{kind: _data(kind) for kind in KINDS}, "comment": _comments},
    probes=(
        Probe(
            "data prices-history",
            known("token", history_request),
            "data",
            words("timestamp price resolution_seconds"),
            "polymarket",
        ),
        Probe(
            "data holders",
            known("market", lambda market: holders_request(market, 2)),
            "data",
            words("token_id holders"),
            "polymarket",
        ),
        Probe(
            "data trades",
            known("market", lambda market: trades_request(market, 2)),
            "data",
            words("proxy_wallet token_id side size price timestamp transaction_hash"),
            "polymarket",
        ),
        Probe(
            "data builders",
            lambda _: builders_request("week", 2),
            "data",
            words("rank builder_name volume active_users"),
            "polymarket",
        ),
    ),
    recorded=read_recorded,
)
