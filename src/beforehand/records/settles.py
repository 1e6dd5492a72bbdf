"""`resolves_by` of an event: a reported value or a price settles it, from some value on."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ValidationError

from beforehand.errors import InputError
from beforehand.records.record import Number, Record, Utc
from beforehand.records.xbrl import Period


class Settles(Record):
    """What settles an event, and from which value on it is a YES: one of `above`, `at_least` and
    `below`."""

    kind: Literal["xbrl_fact", "price"]
    cik: Annotated[str, BeforeValidator(str)] | None = None
    concept: str | None = None
    unit: str | None = None
    period: str | None = None
    months: Literal[3, 6, 9, 12] | None = None
    id: str | None = None
    at: Utc | None = None
    above: Number | None = None
    at_least: Number | None = None
    below: Number | None = None

    @classmethod
    def read(cls, rule: object) -> "Settles":
        """Raises InputError for what is no such rule, or has none or several bounds."""
        try:
            found = cls.model_validate(rule)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise InputError(f"resolves_by.{place}: {first['msg']}") from None
        if sum(bound is not None for bound in (found.above, found.at_least, found.below)) != 1:
            raise InputError("resolves_by needs one of above, at_least and below")
        return found

    @property
    def bound(self) -> float:
        """The value that matters."""
        return next(bound for bound in (self.above, self.at_least, self.below) if bound is not None)

    @property
    def over(self) -> bool:
        """Whether larger values make it a YES."""
        return self.below is None

    def outcome(self, value: float) -> int:
        """1 if the value makes it a YES."""
        if self.above is not None:
            return int(value > self.above)
        return int(value >= self.bound if self.over else value < self.bound)

    def fact(self) -> "tuple[str, str, Period]":
        """The CIK, the concept and the period of an `xbrl_fact`. Raises InputError where one is
        missing or cannot be read."""
        if self.cik is None or self.concept is None or self.period is None:
            raise InputError("resolves_by of an xbrl_fact needs cik, concept and period")
        cik = self.cik.strip().upper().removeprefix("CIK")
        if not (cik.isascii() and cik.isdigit() and len(cik) <= 10):
            raise InputError(f"resolves_by.cik: {self.cik!r} is no CIK: up to ten digits")
        period = Period.read(self.period, self.months)
        if period is None:
            raise InputError(
                f"resolves_by.period: {self.period!r} is no period: write a day such as "
                "2025-06-30, two (2025-04-01/2025-06-30), or a fiscal label such as 2025 Q2"
            )
        return cik, self.concept, period


def rule_of(record: Any) -> Settles | None:
    """The rule that settles an event, or a market made of one. Raises InputError where it has one
    that cannot be read."""
    rule = (record.model_extra or {}).get("resolves_by")
    return None if rule is None else Settles.read(rule)
