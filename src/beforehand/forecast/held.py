"""Forecasters in our own process that keep something between two questions.

One process holds such a forecaster: the driver of the run, under the run's lock. It is shown every
context once, in order, one after the other. A process that takes a run up (a resume, a takeover, a
fork) shows it the earlier contexts again before the next one. Where it then answers otherwise than
the journal says, the journal's answer stands, and the difference is counted: it is not
reproducible.

`HELD` names who can be held (`held:NAME`). It is where Python callables enter.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Protocol

import orjson

from beforehand.errors import BadAnswer, BeforehandError, InputError, Refused

PREFIX = "held:"
Answers = Callable[[Mapping[str, Any], int], Any]
"""Answers a context (documented IntervalContext) in a simulation with a JSON object that holds a
probability."""
HELD: dict[str, Callable[[], Answers]] = {}
"""By name: how to make a new one, without any memory."""


class Meter(Protocol):
    """What journals an answer: the engine's StepContext is one."""

    def call(self, provider: str, request: Any, index: int, send: Callable[[str], str]) -> str: ...


def is_held(name: str) -> bool:
    """True for a forecaster that this process keeps."""
    return name.startswith(PREFIX)


class Holder:
    """The forecasters that this process holds. Asks one question at a time."""

    def __init__(self, names: Iterable[str]) -> None:
        """Raises InputError for a name that nobody registered."""
        self._makers: dict[str, Callable[[], Answers]] = {}
        for name in names:
            if name not in HELD:
                known = ", ".join(sorted(HELD)) or "none"
                raise InputError(f"unknown forecaster {name!r}: held in this process are {known}")
            self._makers[name] = HELD[name]
        self._made: dict[str, Answers] = {}
        self._now: dict[str, tuple[str, dict[bytes, str | BadAnswer]]] = {}
        self._differs: dict[str, set[bytes]] = defaultdict(set)
        self._asking = threading.Lock()

    def started(self, name: str) -> bool:
        """True once this process has shown it a context."""
        return name in self._made

    def ask(self, name: str, context: Mapping[str, Any], index: int, meter: Meter) -> str:
        """The answer on record, which is what it says now where nothing was. Raises BadAnswer where
        it raised or said what is no JSON, Refused where the record holds a refusal."""
        mine = self._show(name, context, index)
        kept = meter.call(name, context, index, lambda key: mine)
        if kept != mine:
            self._differs[name].add(_key(context, index))
        return kept

    def show_again(self, name: str, context: Mapping[str, Any], index: int, meter: Meter) -> None:
        """Show it a context that it was asked in another process."""
        with suppress(BadAnswer, Refused):  # It failed then as it does now, or that is on record.
            self.ask(name, context, index, meter)

    def take_differing(self) -> dict[str, int]:
        """How often each answered otherwise than the journal says, since this was asked last."""
        found = {name: len(keys) for name, keys in self._differs.items() if keys}
        self._differs.clear()
        return found

    def _show(self, name: str, context: Mapping[str, Any], index: int) -> str:
        """What it answers. A step that is tried again shows no context a second time."""
        key = _key(context, index)
        with self._asking:
            if name not in self._made:
                self._made[name] = self._makers[name]()
            time, known = self._now.get(name, ("", {}))
            if time != context["time"]:
                known = {}
                self._now[name] = context["time"], known
            if key not in known:
                known[key] = self._answer(name, context, index)
            found = known[key]
        if isinstance(found, BadAnswer):
            raise found
        return found

    def _answer(self, name: str, context: Mapping[str, Any], index: int) -> str | BadAnswer:
        try:
            # A copy: what it does to its context is nobody else's.
            said = self._made[name](orjson.loads(orjson.dumps(context)), index)
        except BeforehandError:
            raise
        except Exception as error:
            return BadAnswer(f"{name} raised {type(error).__name__}: {error}")
        try:
            return orjson.dumps(said).decode()
        except TypeError as error:
            return BadAnswer(f"{name} answered what is no JSON: {error}")


def _key(context: Mapping[str, Any], index: int) -> bytes:
    return orjson.dumps([context, index], option=orjson.OPT_SORT_KEYS)
