"""What a venue's figures mean: the price of a quote, the unit of an amount, the ending of a market.

Listings, candles, books, dumps, live answers and recordings are all read here, so that no door
says of one market what another does not.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from beforehand.errors import BadAnswer
from beforehand.records.world import ResolutionStatus
from beforehand.sources.fields import number, probability

HALF, ALL = 0.01, 0.0005
"""So near to one half each is what a venue pays for a market that it declares void; so near to 0 or
1 is what it shows for one that pays nothing, or all."""


class Quote(NamedTuple):
    """The price of YES, and the best bid and ask on which it rests; None for what nobody offered
    or traded."""

    price: float | None
    bid: float | None
    ask: float | None


def quoted(bid: float | None, ask: float | None, trade: float | None = None) -> Quote:
    """The middle of a two-sided book, else the last trade, else no price. Venues write an empty
    side, and a market that was never traded, as 0 or 1: nobody bids 0 for what may pay 1. A book
    whose sides cross is none either."""
    bid, ask, trade = (
        one if one is not None and 0 < one < 1 else None for one in (bid, ask, trade)
    )
    if bid is None or ask is None:
        return Quote(trade, bid, ask)
    return Quote(round((bid + ask) / 2, 6), bid, ask) if bid <= ask else Quote(trade, None, None)


def dollars(block: object, key: str) -> float | None:
    """A price of Kalshi's by its name, in dollars: the field `KEY_dollars`, or `KEY`, which the
    historical tier writes as a text of dollars ("0.4500") and answers until 2025 as a whole number
    of cents (45). Raises BadAnswer for what is neither."""
    if not isinstance(block, Mapping):
        return None
    if f"{key}_dollars" in block:
        return probability(block[f"{key}_dollars"])
    return amount(block.get(key), key)


def amount(value: object, key: str) -> float | None:
    """A price of Kalshi's that is a text of dollars or a whole number of cents."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value <= 100:
            raise BadAnswer(f"{key} {value!r} is not a price of 0 to 100 cents")
        return value / 100
    if isinstance(value, float) and value != 0 and not 0 < value < 1:
        raise BadAnswer(f"{key} {value!r} may be dollars or cents")
    return probability(value)


def counted(block: Mapping[str, object], key: str) -> float | None:
    """A number of contracts of Kalshi's: `KEY_fp`, or `KEY` in older answers."""
    return number(block.get(f"{key}_fp", block.get(key)))


class Ending(NamedTuple):
    """How a market ended: what YES paid, or None for one that is void."""

    status: ResolutionStatus
    payout: float | None


DISPUTED, VOID = Ending("disputed", None), Ending("void", None)


def of_payouts(yes: float | None, no: float | None) -> Ending | None:
    """The ending that two payouts state, as shares or as amounts: one half each is void. None for
    what are no payouts (0 and 0: nothing was paid)."""
    if yes is None or no is None or min(yes, no) < 0 or yes + no <= 0:
        return None
    share = yes / (yes + no)
    if abs(share - 0.5) < HALF:
        return VOID
    near = float(round(share))
    return Ending("resolved", near if abs(share - near) < ALL else round(share, 6))


def of_winners(winners: Sequence[bool], half: bool) -> Ending | None:
    """The ending that flags of the two outcomes state (YES first): both, or `half`, is void; none
    is no ending."""
    if half or all(winners):
        return VOID
    return Ending("resolved", float(winners[0])) if any(winners) else None


def of_result(result: str, value: float | None, market: str) -> Ending | None:
    """The ending that a result of Kalshi's states, with the `value` that a scalar one settled at;
    None for none yet. Raises BadAnswer for one that is not known."""
    said = result.strip().lower()
    if said in ("", "null", "none"):
        return None
    if said in ("yes", "no"):
        return Ending("resolved", float(said == "yes"))
    if said in ("void", "voided", "cancelled", "canceled"):
        return VOID
    if said != "scalar":
        raise BadAnswer(f"{market} has the unknown result {result!r}")
    if value is None:
        raise BadAnswer(f"{market} settled as scalar without settlement_value_dollars")
    return Ending("resolved", value)
