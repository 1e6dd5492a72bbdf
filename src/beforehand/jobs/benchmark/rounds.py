"""A round of the benchmark: which markets become events, and why the others do not.

Settled markets are asked as they stood some time before their end, open ones now. A round is frozen
with its digest: what is answered, sealed and resolved later refers to it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import NotRequired, TypedDict

import orjson

from beforehand.clock import iso, parse_instant
from beforehand.errors import Corrupt, InputError, NotFound
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.view import View
from beforehand.ids import digest
from beforehand.jobs.benchmark.duplicates import Question, duplicates
from beforehand.records.world import Market, Odds
from beforehand.store.files import read_json, read_lines, write_json

FROZEN = "round.json"
_TOLD = re.compile(
    r"\b(?:has|have|already|been|was)\s+resolved\b|\bresolved\s+(?:to\s+|as\s+)?[\"'“]?(?:YES|NO)\b",
    re.IGNORECASE,
)
"""Words of a market that has an end already, or whose end somebody wrote into it."""
STALE = timedelta(days=7)
"""An open market whose last price is older is left out: nobody may be there any more."""


@dataclass(frozen=True)
class Wanted:
    """Which markets become events. Days are those from the forecast to the scheduled close; a
    market whose close, volume or liquidity is not on record does not meet a bound on it."""

    venues: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    min_volume: float | None = None
    min_liquidity: float | None = None
    min_days: float | None = None
    max_days: float | None = None
    min_price: float = 0.0
    max_price: float = 1.0
    limit: int | None = None
    with_rules: bool = False
    """Only markets that say how they resolve."""
    repeated: bool = True
    """Whether a question that another venue, or an earlier round, asks in other words stays."""
    seen: tuple[Question, ...] = ()
    """The questions of earlier rounds."""

    def check(self) -> None:
        """Raises InputError for bounds that nothing meets."""
        if not 0 <= self.min_price <= self.max_price <= 1:
            raise InputError(
                f"prices lie between 0 and 1, the least below the most: not {self.min_price:g} to "
                f"{self.max_price:g}"
            )
        if self.limit is not None and self.limit < 1:
            raise InputError(f"a limit must be at least 1, not {self.limit}")
        if (
            self.min_days is not None
            and self.max_days is not None
            and self.min_days > self.max_days
        ):
            raise InputError(
                f"the least days, {self.min_days:g}, are more than the most, {self.max_days:g}"
            )

    @cached_property
    def _ids(self) -> frozenset[str]:
        return frozenset(one.id for one in self.seen)

    def refusal(self, market: Market, odds: Odds, view: View) -> str | None:
        """Why a market does not become an event, or None."""
        if market.id in self._ids:
            return "in an earlier round"
        if self.venues and market.venue.upper() not in {one.upper() for one in self.venues}:
            return "another venue"
        domain = (market.domain or "").lower()
        if self.categories and domain not in {one.lower() for one in self.categories}:
            return "another category"
        if self.with_rules and not market.rules:
            return "it does not say how it resolves"
        if _TOLD.search(f"{market.question or ''} {market.rules or ''}"):
            return "its text tells the outcome"
        if not self.min_price <= odds.price <= self.max_price:
            return "a price out of bounds"
        return self._of_days(market, view.t) or self._of_size(market, view)

    def _of_days(self, market: Market, t: datetime) -> str | None:
        if self.min_days is None and self.max_days is None:
            return None
        if market.scheduled_close is None:
            return "no scheduled close on record"
        days = (market.scheduled_close - t) / timedelta(days=1)
        if self.min_days is not None and days < self.min_days:
            return "closes too soon"
        return "closes too late" if self.max_days is not None and days > self.max_days else None

    def _of_size(self, market: Market, view: View) -> str | None:
        if self.min_volume is None and self.min_liquidity is None:
            return None
        state = view.state(market.id)
        bounds = {"volume": self.min_volume, "liquidity": self.min_liquidity}
        for name, least in bounds.items():
            if least is not None and (getattr(state, name, None) or 0.0) < least:
                return f"too little {name}, or none on record"
        return None


EVERY = Wanted()


@dataclass(frozen=True)
class Candidate:
    """A market that may become an event, with its price then."""

    market: Market
    odds: Odds


class LeftOut(TypedDict):
    """A line of left_out.jsonl: a market that is no event of the round, and why; `same_as` is the
    one that asks the same."""

    id: str
    reason: str
    same_as: NotRequired[str]


def open_markets(
    gateway: Gateway, now: datetime, wanted: Wanted, textless: bool
) -> tuple[list[Candidate], list[LeftOut]]:
    """The markets that are open now and wanted, and the others with the reason; those that close
    first come first."""
    view, chosen, left = gateway.at(now), list[Candidate](), list[LeftOut]()
    for market in view.markets():
        found, reason = _open(view, market, wanted, textless)
        if found is None:
            left.append({"id": market.id, "reason": reason})
        else:
            chosen.append(found)
    chosen.sort(key=lambda one: (_close(one.market), one.market.id))
    if not wanted.repeated:
        chosen = _without_repeated(chosen, wanted.seen, left)
    left += beyond(wanted, [one.market.id for one in chosen])
    return chosen[: wanted.limit], left


def _without_repeated(
    chosen: Sequence[Candidate], seen: Sequence[Question], left: list[LeftOut]
) -> list[Candidate]:
    """The candidates that ask what neither an earlier round nor one before them asks; the others
    are added to those that are left out."""
    markets = [one.market for one in chosen]
    asked = [Question(m.id, m.question or m.id, m.scheduled_close) for m in markets]
    every, gone = [*seen, *asked], set[int]()
    for found in duplicates(every):
        place = found.place - len(seen)
        if place >= 0:
            gone.add(place)
            again = "an earlier round has it" if found.of < len(seen) else "asked twice"
            left.append({"id": markets[place].id, "reason": again, "same_as": every[found.of].id})
    return [one for place, one in enumerate(chosen) if place not in gone]


def beyond(wanted: Wanted, names: Sequence[str]) -> Iterator[LeftOut]:
    """Those after the limit."""
    for name in names[wanted.limit :] if wanted.limit is not None else ():
        yield {"id": name, "reason": "beyond the limit"}


def _close(market: Market) -> str:
    return "9999" if market.scheduled_close is None else iso(market.scheduled_close)


def _open(
    view: View, market: Market, wanted: Wanted, textless: bool
) -> tuple[Candidate | None, str]:
    if view.resolution(market.id) is not None:
        return None, "it has ended"
    if market.scheduled_close is not None and market.scheduled_close <= view.t:
        return None, "its scheduled close has passed"
    if market.question is None and not textless:
        return None, "no text on record"
    try:
        odds = view.odds(market.id)
    except NotFound:
        return None, "no price on record"
    if odds.price_age > STALE.total_seconds():
        return None, "its last price is more than seven days old"
    reason = wanted.refusal(market, odds, view)
    return (None, reason) if reason else (Candidate(market, odds), "")


class Round(TypedDict):
    """round.json: what a round holds, frozen. `digest` is that of events.jsonl."""

    made_at: str
    archive_digest: str
    digest: str
    events: int
    left_out: dict[str, int]
    wanted: Mapping[str, object]


def freeze(
    out: Path, archive_digest: str, now: datetime, wanted: Wanted, left: Iterable[LeftOut]
) -> Round:
    """Write round.json beside the events of a folder. Raises InputError where another round is
    frozen there."""
    reasons = dict[str, int]()
    for one in left:
        reasons[one["reason"]] = reasons.get(one["reason"], 0) + 1
    events = (out / "events.jsonl").read_bytes()
    made: Round = {
        "made_at": iso(now),
        "archive_digest": archive_digest,
        "digest": digest(events),
        "events": events.count(b"\n"),
        "left_out": dict(sorted(reasons.items(), key=lambda item: -item[1])),
        "wanted": asked_for(wanted),
    }
    write_json(out / FROZEN, made)
    return made


def frozen_round(folder: Path) -> Round:
    """round.json of a folder. Raises NotFound where none is frozen there, Corrupt where it is not
    what a crawl writes, or the events are not the frozen ones."""
    path = folder / FROZEN
    if not path.is_file():
        raise NotFound(f"there is no frozen round at {folder}: `beforehand bench crawl` makes one")
    made = read_json(path)
    names = Round.__required_keys__
    if not isinstance(made, dict) or not names <= made.keys():
        raise Corrupt(f"{path} is not what freezes a round: it needs {', '.join(sorted(names))}")
    if digest((folder / "events.jsonl").read_bytes()) != made["digest"]:
        raise Corrupt(f"{folder / 'events.jsonl'} was changed after the round was frozen")
    return made  # type: ignore[return-value]


def asked_for(wanted: Wanted) -> dict[str, object]:
    """The bounds, as round.json keeps them."""
    return {name: value for name, value in asdict(wanted).items() if name != "seen"}


def refuse_frozen(out: Path) -> None:
    """Raises InputError where a folder holds a round already."""
    if (out / FROZEN).is_file():
        frozen: Round = read_json(out / FROZEN)
        raise InputError(
            f"{out} holds a round that was frozen at {frozen['made_at']}: choose another folder"
        )


def seen_in(rounds: Iterable[Path]) -> tuple[Question, ...]:
    """The events of earlier rounds. Raises InputError for a folder without any, and for a line that
    is none."""
    found = dict[str, Question]()
    for folder in rounds:
        events = folder / "events.jsonl" if folder.is_dir() else folder
        if not events.is_file():
            raise InputError(f"the round {folder}: there are no events at {events}")
        for number, line in read_lines(events):
            try:
                event = orjson.loads(line)
                close = event.get("resolution_date")
                due = parse_instant(close) if close else None
                one = Question(str(event["id"]), str(event["question"]), due)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise InputError(f"{events}:{number} is no event: {error}") from None
            found[one.id] = one
    return tuple(found.values())
