"""Forecasters in our own process that keep something between two questions.

One process holds such a forecaster: the driver of the run, under the run's lock. It is shown every
context once, in order, one after the other. A process that continues a run (a resume, a takeover,
a fork) first shows it the earlier contexts again. If an answer then differs from the journal's, the
journal's answer is used, and the difference is counted: the forecaster is not reproducible.

`HELD` lists the forecasters that can be held (`held:NAME`). Python callables are registered there.
"""

import threading
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
        self._now: tuple[str, dict[bytes, str | BadAnswer]] = ("", {})
        self._differs: set[bytes] = set()
        self._asking = threading.Lock()

    @classmethod
    def open(cls, rest: str, name: str | None, opening: Opening) -> Forecaster:
        """Raises InputError for a name that is not registered."""
        if rest not in HELD:
            known = ", ".join(sorted(HELD)) or "none"
            raise InputError(f"unknown forecaster {rest!r}: held in this process are {known}")
        return cls(rest, name, HELD[rest])

    def decide(self, context: Context, meter: Meter) -> Decision:
        """The answer on record; if there is none, its answer now, which is then recorded. Raises
        BadAnswer if it raised or its answer is not JSON, Refused if the record holds a refusal."""
        body = context.wire()
        key = orjson.dumps([body, meter.simulation], option=orjson.OPT_SORT_KEYS)
        mine = self._show(key, context.time, body, meter.simulation)
        kept = meter.record(self.provider, body, mine)
        if kept != mine:
            self._differs.add(key)
        return parse(self.provider, kept)

    def take_differing(self) -> int:
        """How many answers differed from the journal's since the last call of this method."""
        found = len(self._differs)
        self._differs.clear()
        return found

    def _show(self, key: bytes, at: str, body: Mapping[str, object], simulation: int) -> str:
        """Its answer. A step that is tried again does not show a context a second time."""
        with self._asking:
            if self._made is None:
                self._made = self._make()
            time, known = self._now
            if time != at:
                known = {}
                self._now = at, known
            if key not in known:
                known[key] = self._answer(self._made, body, simulation)
            found = known[key]
        if isinstance(found, BadAnswer):
            raise found
        return found

    def _answer(
        self, made: Answers, body: Mapping[str, object], simulation: int
    ) -> str | BadAnswer:
        try:
            # A copy, so that its changes to the context stay its own.
            said = made(orjson.loads(orjson.dumps(body)), simulation)
        except BeforehandError:
            raise
        except Exception as error:
            return BadAnswer(f"{self.provider} raised {type(error).__name__}: {error}")
        try:
            return orjson.dumps(said).decode()
        except TypeError as error:
            return BadAnswer(f"{self.provider} answered something that is not JSON: {error}")
