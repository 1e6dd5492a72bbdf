"""Rows that a check of robustness leaves out.

What is left is another variant of the file. Rows that were left out by the name of a market or an
event may have been chosen for how they ended: nothing is said to beat the market without them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from beforehand.clock import end_of_day, parse_instant, to_us
from beforehand.errors import InputError
from beforehand.records.world import Market

FIELDS = ("venue", "category", "event", "id", "before", "after")
BY_NAME = ("event", "id")
"""Rules that pick single markets, or what belongs together."""


@dataclass(frozen=True)
class Rule:
    """Leaves out the rows whose market has this value in a field, or that were made `before` or
    `after` an instant."""

    field: str
    value: str
    at: datetime | None = None

    def fits(self, market: Market, t: int) -> bool:
        """True for a row that is left out; `t` is its instant in microseconds."""
        if self.at is not None:
            return t < to_us(self.at) if self.field == "before" else t > to_us(self.at)
        own = {
            "venue": market.venue,
            "category": market.domain,
            "event": market.event_id,
            "id": market.id,
        }[self.field]
        return own is not None and self.value.lower() in (
            own.lower(),
            own.partition(":")[2].lower(),
        )

    def __str__(self) -> str:
        return f"{self.field}={self.value}"


def parse(texts: Sequence[str]) -> list[Rule]:
    """Rules from `FIELD=VALUE`. Raises InputError."""
    found = []
    for text in texts:
        field, _, value = text.partition("=")
        if field not in FIELDS or not value:
            raise InputError(
                f"--leave-out {text!r}: write FIELD=VALUE, where FIELD is one of "
                f"{', '.join(FIELDS)}, such as venue=KALSHI or before=2026-01-01"
            )
        at = None
        if field in ("before", "after"):
            try:
                at = parse_instant(value)
                if field == "after" and len(value) == len("2026-01-01"):
                    at = end_of_day(at)
            except ValueError as error:
                raise InputError(f"--leave-out {text}: {error}") from None
        found.append(Rule(field, value, at))
    return found


Cells = dict[tuple[str, int], dict[str, float]]
"""(market, instant) to each forecaster's probability."""


def without(
    cells: Cells, rules: Sequence[Rule], markets: Mapping[str, Market]
) -> tuple[Cells, dict[str, int]]:
    """The rows that no rule fits, and how many each rule left out (the first that fits counts).
    Raises InputError for a rule that fits no row, and where no row is left."""
    kept, left = Cells(), {str(rule): 0 for rule in rules}
    for (market, t), said in cells.items():
        fits = next((rule for rule in rules if rule.fits(markets[market], t)), None)
        if fits is None:
            kept[market, t] = said
        else:
            left[str(fits)] += 1
    for rule, n in left.items():
        if not n:
            raise InputError(
                f"--leave-out {rule} leaves out no row: nothing (more) in the file fits it"
            )
    if not kept:
        raise InputError(f"--leave-out {' '.join(left)} leaves out every row: nothing is left")
    return kept, left
