"""Python callables: `python:package.module:name`, `python:./file.py:name`, or one of this process.

A callable is a function of one argument, a Context, or a class: then one object of it is made, and
it may keep state. It returns a probability of YES, a Decision, or a mapping with a `probability`;
it may be async. Unless it is declared memoryless, it is shown one context after the other, in
order of time, and a process that takes the run up shows it the earlier contexts again.
"""

import asyncio
import importlib
import importlib.util
import inspect
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson
from msgspec import structs

from beforehand.clock import from_us
from beforehand.errors import BadAnswer, BeforehandError, InputError, NotConfigured, NotFound
from beforehand.forecast.base import (
    Context,
    Decision,
    Forecaster,
    Meter,
    NoDecision,
    Opening,
    scheme,
)
from beforehand.forecast.schemes.http import parse
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.view import View
from beforehand.ids import digest
from beforehand.records.rows import Previous, Snippet, TraceRow
from beforehand.records.world import Market
from beforehand.score.scoreboard import Kept

LONGEST_TRACEBACK = 8000
Callee = Callable[[Any], Any]


@dataclass(frozen=True)
class Declared:
    """A callable as a forecaster. `make` gives a new one without any memory; `version` stands in
    its predictions."""

    make: Callable[[], Callee]
    name: str
    version: str = "1"
    memoryless: bool = False


REGISTERED: dict[str, Declared] = {}
"""The callables that were marked in this process, by name (`python:NAME`)."""


class ShownMarket:
    """The market as it stood at t. `question`, `rules` and `closes_at` are those of the wording
    known at t, None where none was."""

    __slots__ = ("_context", "id")

    def __init__(self, context: "ShownContext", id: str) -> None:
        self._context, self.id = context, id

    @property
    def question(self) -> str | None:
        """The question."""
        found = self._context.text
        return None if found is None else found.question

    @property
    def rules(self) -> str | None:
        """How it resolves."""
        found = self._context.text
        return None if found is None else found.rules

    @property
    def closes_at(self) -> datetime | None:
        """When it was to close, as known at t."""
        found = self._context.text
        return None if found is None else found.scheduled_close

    def __repr__(self) -> str:
        return f"Market({self.id!r}, question={self.question!r})"


class ShownContext:
    """What a forecaster is shown at `t`, and the whole world as it was then (`view`)."""

    def __init__(self, row: Context, gateway: Gateway) -> None:
        self._row, self._gateway = row, gateway
        self.market = ShownMarket(self, row.market.id)

    @cached_property
    def t(self) -> datetime:
        """The instant that is asked about, in UTC."""
        return from_us(self._row.t)

    @property
    def odds(self) -> float | None:
        """The market's probability of YES, the last one known at t."""
        return self._row.market.odds

    @property
    def bid(self) -> float | None:
        """The best bid for YES known at t."""
        return self._row.market.bid

    @property
    def ask(self) -> float | None:
        """The best ask for YES known at t."""
        return self._row.market.ask

    @property
    def price_age(self) -> float | None:
        """How old the price is at t, in seconds."""
        return self._row.market.price_age

    @property
    def documents(self) -> list[Snippet]:
        """What a search for the question found, known at t: `id`, `text`, `timestamp`."""
        return list(self._row.search_snippets)

    @property
    def previous(self) -> list[Previous]:
        """The aggregates of earlier instants: `time`, `aggregated_probability`."""
        return list(self._row.previous_intervals)

    @cached_property
    def view(self) -> View:
        """The whole world at t: odds, history, events, search."""
        return self._gateway.at(self._row.t)

    @cached_property
    def text(self) -> Market | None:
        """The market with the wording known at t."""
        try:
            found = self.view.market(self._row.market.id)
        except NotFound:
            return None
        return found if found.question is not None else None

    def wire(self) -> dict[str, object]:
        """The documented IntervalContext, as an address would get it."""
        return self._row.wire()

    def __repr__(self) -> str:
        return f"Context(t={self._row.time}, market={self.market.id!r}, odds={self.odds})"


def forecaster(
    callee: Any = None,
    *,
    name: str | None = None,
    version: str = "1",
    memoryless: bool = False,
) -> Any:
    """Mark a function of a Context, or a class, as a forecaster. Plain or with options:

        @forecaster
        def mine(context): return 0.9 * context.odds + 0.05

        @forecaster(memoryless=True, version="2")
        async def asked(context): ...

    `memoryless` declares that it keeps nothing between two questions, anywhere: it is then asked
    side by side and in no order. Raises InputError for what cannot be called.
    """
    if callee is None:
        return lambda found: forecaster(found, name=name, version=version, memoryless=memoryless)
    declared = declare(callee, name, version, memoryless)
    REGISTERED[declared.name] = declared
    callee.__beforehand__ = declared
    return callee


def declare(
    callee: Any, name: str | None = None, version: str = "1", memoryless: bool = False
) -> Declared:
    """A function or class as a forecaster; one that is marked already as it was marked. Raises
    InputError for what cannot be called."""
    known = getattr(callee, "__beforehand__", None)
    if isinstance(known, Declared):
        return known
    if not callable(callee):
        raise InputError(f"{callee!r} cannot be called: give a function of a Context, or a class")
    called = name or str(getattr(callee, "__name__", type(callee).__name__))
    if not called.isidentifier():
        raise InputError(f"a forecaster cannot be called {called!r}: name it (name=...)")
    return Declared(_maker(callee), called, version, memoryless)


def _maker(callee: Any) -> Callable[[], Callee]:
    if not inspect.isclass(callee):
        return lambda: callee

    def make() -> Callee:
        made = callee()
        found = getattr(made, "decide", None) or made
        if not callable(found):
            raise InputError(
                f"{callee.__name__} has no method decide(context) or __call__(context)"
            )
        return found  # type: ignore[no-any-return]

    return make


def load(target: str) -> Declared:
    """The callable at `module:name` or `path.py:name`. Raises InputError saying what is missing."""
    place, colon, name = target.rpartition(":")
    if not colon:
        if target in REGISTERED:
            return REGISTERED[target]
        raise InputError(
            f"python:{target}: write python:package.module:name or python:./file.py:name; a "
            "callable of a notebook is known to that notebook alone"
        )
    module = _of_file(place) if place.endswith(".py") else _of_name(place)
    found = getattr(module, name, None)
    if found is None:
        raise InputError(f"python:{target}: {place} has no {name!r}")
    return declare(found)


_LOADING = threading.Lock()


def _of_file(place: str) -> Any:
    path = Path(place).resolve()
    if not path.is_file():
        raise InputError(f"python:{place}: there is no file {path}")
    name = f"_beforehand_{path.stem}_{digest(str(path).encode())[:12]}"
    with _LOADING:
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            del sys.modules[name]
            if not isinstance(error, Exception):  # Ctrl-C is not about the file.
                raise
            raise InputError(f"python:{place}: it cannot be imported: {_said(error)}") from error
    return module


def _of_name(place: str) -> Any:
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name and place.startswith(error.name):
            raise InputError(
                f"python:{place}: there is no module {error.name!r}: install it, or write the path "
                "of the file (python:./file.py:name)"
            ) from None
        raise NotConfigured(f"python:{place} needs {error.name}, which is not installed") from None
    except Exception as error:
        raise InputError(f"python:{place}: it cannot be imported: {_said(error)}") from error


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


@scheme("python", shown=("python:MODULE:NAME",))
class PythonForecaster(Forecaster):
    """A callable of this process. It is asked one question at a time, in order of time; one that is
    declared memoryless is asked side by side."""

    free = True

    def __init__(self, target: str, name: str | None, declared: Declared, opening: Opening) -> None:
        super().__init__(f"python:{target}", name or declared.name)
        self.version = declared.version
        self.memoryless, self.stateful = declared.memoryless, not declared.memoryless
        self._make = declared.make
        self._made: Callee | None = None
        if opening.world is None:
            raise InputError(f"{self.name}: a callable is asked in a run, which has a world")
        self._world, self._clock = opening.world, opening.workspace.clock

    @classmethod
    def open(cls, rest: str, name: str | None, opening: Opening) -> Forecaster:
        """Raises InputError where it cannot be imported or called."""
        target = rest.partition(":")[2]
        return cls(target, name, load(target), opening)

    def kept(self) -> Kept:
        """How it is kept from the future: it runs with us, and could look."""
        return Kept(self.isolation, "declared memoryless" if self.memoryless else self.order)

    def decide(self, context: Context, meter: Meter) -> Decision:
        """What it says; of a memoryless one, what the journal has, if it was asked before. Raises
        NoDecision where it raised or returned no probability; the trace holds the traceback."""
        if not self.memoryless:
            return self._parse(self._answer(context, meter))
        return self._parse(
            meter.call(self.provider, context.wire(), lambda _: self._answer(context, meter))
        )

    def _answer(self, context: Context, meter: Meter) -> str:
        """What it returned, as JSON."""
        gateway = Gateway(self._world, self._clock)
        try:
            said = self._callee()(ShownContext(context, gateway))
            if inspect.isawaitable(said):
                said = asyncio.run(_awaited(said))
            body = _body(said, self.name)
        except NoDecision:
            raise
        except BadAnswer as error:
            raise NoDecision(str(error), [self._trace(context, meter, str(error))]) from None
        except BeforehandError:
            raise
        except Exception as error:
            trace = traceback.format_exc()[-LONGEST_TRACEBACK:]
            text = f"{self.name} raised {_said(error)}"
            raise NoDecision(text, [self._trace(context, meter, trace)]) from None
        if gateway.audit.checked or gateway.audit.refusals:
            body["audit"] = gateway.audit.wire()
        return orjson.dumps(body).decode()

    def _callee(self) -> Callee:
        if self.memoryless:
            return self._make()
        if self._made is None:
            self._made = self._make()
        return self._made

    def _parse(self, kept: str) -> Decision:
        found = parse(self.name, kept)
        body = orjson.loads(kept)
        return structs.replace(found, confidence=body.get("confidence"), audit=body.get("audit"))

    def _trace(self, context: Context, meter: Meter, error: str) -> TraceRow:
        return TraceRow(
            market_id=context.market.id,
            time=context.time,
            model_id=self.model_id,
            simulation_index=meter.simulation,
            arm="python",
            calls=[],
            error=error,
        )


async def _awaited(said: Awaitable[Any]) -> Any:
    return await said


def _body(said: Any, name: str) -> dict[str, object]:
    """What was returned, as JSON. Raises BadAnswer for what is not a forecast."""
    if isinstance(said, Mapping):
        said = Decision(
            said.get("probability"),  # type: ignore[arg-type]  # Checked below.
            said.get("confidence"),
            said.get("rationale") or "",
            said.get("evidence_ids") or (),
        )
    elif not isinstance(said, Decision):
        said = Decision(said)
    cited = [said.evidence_ids] if isinstance(said.evidence_ids, str) else said.evidence_ids
    body: dict[str, object] = {
        "probability": _share(said.probability, name, "a probability"),
        "rationale": str(said.rationale),
        "evidence_ids": [str(one) for one in cited],
    }
    if said.confidence is not None:
        body["confidence"] = _share(said.confidence, name, "a confidence")
    return body


def _share(value: object, name: str, what: str) -> float:
    """A number from 0 to 1, whatever library it comes from."""
    try:
        found = float("nan") if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = float("nan")
    if not 0.0 <= found <= 1.0:
        raise BadAnswer(f"{name} returned {_short(value)}: return {what} from 0 to 1")
    return found


def _short(said: object) -> str:
    text = repr(said)
    return text if len(text) <= 60 else text[:57] + "..."
