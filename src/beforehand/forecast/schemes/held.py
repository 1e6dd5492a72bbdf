"""Forecasters in our own process that keep something between two questions.

One process holds such a forecaster: the driver of the run, under the run's lock. It is shown every
context once, in order, one after the other. A process that continues a run (a resume, a takeover,
a fork) first shows it the earlier contexts again. If an answer then differs from the journal's, the
journal's answer is used, and the difference is counted: the forecaster is not reproducible.

`HELD` lists the forecasters that can be held, by their whole name (`held:NAME`).
"""

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from beforehand.errors import BadAnswer, BeforehandError, InputError
from beforehand.forecast.base import Context, Decision, Forecaster, Meter, Opening, scheme
from beforehand.forecast.schemes.http import parse

Answers = Callable[[Mapping[str, Any], int], Any]
"""Takes a context (the documented IntervalContext) and a simulation's number; returns a JSON object
that holds a probability."""
HELD: dict[str, Callable[[], Answers]] = {}
"""By name, a function that makes a new forecaster without any memory."""


@scheme("held")
class HeldForecaster(Forecaster):
    """A forecaster that this process holds. It is asked one question at a time."""

    def __init__(self, registered: str, name: str | None, make: Callable[[], Answers]) -> None:
        super().__init__(registered, name)
        self._make = make
        self._made: Answers | None = None

    @classmethod
    def open(cls, rest: str, name: str | None, opening: Opening) -> Forecaster:
        """Raises InputError for a name that is not registered."""
        if rest not in HELD:
            known = ", ".join(sorted(HELD)) or "none"
            raise InputError(f"unknown forecaster {rest!r}: held in this process are {known}")
        return cls(rest, name, HELD[rest])

    def decide(self, context: Context, meter: Meter) -> Decision:
        """Its answer now. Raises BadAnswer if it raised, or its answer is not JSON."""
        if self._made is None:
            self._made = self._make()
        # A copy, so that its changes to the context stay its own.
        body = orjson.loads(orjson.dumps(context.wire()))
        try:
            said = self._made(body, meter.simulation)
        except BeforehandError:
            raise
        except Exception as error:
            raise BadAnswer(f"{self.provider} raised {type(error).__name__}: {error}") from error
        try:
            return parse(self.provider, orjson.dumps(said).decode())
        except TypeError as error:
            text = f"{self.provider} answered something that is not JSON: {error}"
            raise BadAnswer(text) from None
