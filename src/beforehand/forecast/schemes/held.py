"""Forecasters in our own process that keep something between two questions.

One process holds such a forecaster: the driver of the run, under the run's lock. It is shown every
context once, in order, one after the other. A process that takes a run up (a resume, a takeover, a
fork) shows it the earlier contexts again before the next one. Where it then answers otherwise than
the journal says, the journal's answer stands, and the difference is counted: it is not
reproducible.

`HELD` names who can be held (`held:NAME`). It is where Python callables enter.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import orjson

from beforehand.errors import BadAnswer, BeforehandError, InputError, Refused
from beforehand.forecast.base import Context, Decision, Forecaster, Meter, Opening, scheme
from beforehand.forecast.schemes.http import parse

Answers = Callable[[Mapping[str, Any], int], Any]
"""Answers a context (documented IntervalContext) in a simulation with a JSON object that holds a
probability."""
HELD: dict[str, Callable[[], Answers]] = {}
"""By name: how to make a new one, without any memory."""


@scheme("held")
class HeldForecaster(Forecaster):
    """A forecaster that this process holds. It is asked one question at a time."""

    stateful = True

    def __init__(self, registered: str, name: str | None, make: Callable[[], Answers]) -> None:
        super().__init__(registered, name)
        self._make = make
        self._made: Answers | None = None
        self._now: tuple[str, dict[bytes, str | BadAnswer]] = ("", {})
        self._differs: set[bytes] = set()
        self._asking = threading.Lock()

    @classmethod
    def open(cls, rest: str, name: str | None, opening: Opening) -> Forecaster:
        """Raises InputError for a name that nobody registered."""
        if rest not in HELD:
            known = ", ".join(sorted(HELD)) or "none"
            raise InputError(f"unknown forecaster {rest!r}: held in this process are {known}")
        return cls(rest, name, HELD[rest])

    @property
    def started(self) -> bool:
        """True once this process has shown it a context."""
        return self._made is not None

    def decide(self, context: Context, meter: Meter) -> Decision:
        """The answer on record, which is what it says now where nothing was. Raises BadAnswer where
        it raised or said what is no JSON, Refused where the record holds a refusal."""
        body = context.wire()
        key = orjson.dumps([body, meter.simulation], option=orjson.OPT_SORT_KEYS)
        mine = self._show(key, context.time, body, meter.simulation)
        kept = meter.call(self.provider, body, lambda _: mine)
        if kept != mine:
            self._differs.add(key)
        return parse(self.provider, kept)

    def show_again(self, context: Context, meter: Meter) -> None:
        """Show it a context that it was asked in another process."""
        with suppress(BadAnswer, Refused):  # It failed then as it does now, or that is on record.
            self.decide(context, meter)

    def take_differing(self) -> int:
        """How often it answered otherwise than the journal says, since this was asked last."""
        found = len(self._differs)
        self._differs.clear()
        return found

    def _show(self, key: bytes, at: str, body: Mapping[str, object], simulation: int) -> str:
        """What it answers. A step that is tried again shows no context a second time."""
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
            # A copy: what it does to its context is nobody else's.
            said = made(orjson.loads(orjson.dumps(body)), simulation)
        except BeforehandError:
            raise
        except Exception as error:
            return BadAnswer(f"{self.provider} raised {type(error).__name__}: {error}")
        try:
            return orjson.dumps(said).decode()
        except TypeError as error:
            return BadAnswer(f"{self.provider} answered what is no JSON: {error}")
