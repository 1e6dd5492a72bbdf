"""Python callables: `python:package.module:name`, `python:./file.py:name`, or one of this process.

A callable is a function of one argument, a Context, or a class: then one object of it is made for
each run, and it may keep state. It returns a probability of YES, a Decision, or a mapping with a
`probability`; it may be async. Unless it is declared memoryless, it is shown one context after the
other, in order of time, and a process that takes the run up shows it the earlier contexts again.

`python:TARGET@VERSION` names its version, where that is not 1: answers are on record under target,
version and context.
"""

import asyncio
import inspect
import os
import traceback
from collections.abc import Awaitable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from msgspec import structs

from beforehand.clock import Clock, from_us
from beforehand.errors import (
    BadAnswer,
    Corrupt,
    Held,
    InputError,
    NotFound,
    Stopped,
    Unavailable,
)
from beforehand.forecast.base import (
    Abstained,
    Context,
    Decision,
    Forecaster,
    Meter,
    NoDecision,
    Opening,
    scheme,
)
from beforehand.forecast.callables import (
    ASKED,
    FIRST,
    Callee,
    Declared,
    code_digest,
    declare,
    keeps_nothing,
    load,
    place_of,
    said_of,
    split_version,
)
from beforehand.forecast.files_opened import FilesOpened
from beforehand.forecast.mapping import split_options
from beforehand.forecast.schemes.http import LONGEST_TEXT, kept_text, read_kept
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.view import View
from beforehand.gateway.worlds import World
from beforehand.records.rows import Previous, Snippet, TraceRow
from beforehand.records.text import storable
from beforehand.records.world import Market
from beforehand.score.scoreboard import Kept
from beforehand.store.run_folder import last_probe

LONGEST_TRACEBACK = 8000


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

    def __init__(self, row: Context, world: World, clock: Clock, meter: Meter) -> None:
        """`meter` is that for calls within this question."""
        self._row, self._world, self._clock, self._meter = row, world, clock, meter
        self._gateway: Gateway | None = None

    @cached_property
    def market(self) -> ShownMarket:
        """The market that is asked about: `id`, and `question`, `rules`, `closes_at` in the wording
        known at t (None where none was)."""
        return ShownMarket(self, self._row.market.id)

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
        self._gateway = Gateway(self._world, self._clock)
        return self._gateway.at(self._row.t)

    @property
    def meter(self) -> Meter:
        """Through which it pays: `meter.call(provider, request, send)` gives the answer to a
        request (JSON), which is sent once (`send` gets an idempotency key and returns a text),
        however often the run is resumed. `meter.simulation` counts the simulations."""
        return self._meter

    @property
    def audit(self) -> Mapping[str, object] | None:
        """The trail of what was looked up through `view`; None if nothing was."""
        if self._gateway is None:
            return None
        found = self._gateway.audit
        return found.wire() if found.checked or found.refusals else None

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


@scheme("python", shown=("python:MODULE:NAME",))
class PythonForecaster(Forecaster):
    """A callable of this process. It is asked one question at a time, in order of time; one that is
    declared memoryless is asked side by side."""

    free = True

    def __init__(self, entry: str, name: str | None, declared: Declared, opening: Opening) -> None:
        version = "" if declared.version == FIRST else f"@{declared.version}"
        super().__init__(f"{entry}{version}", name or declared.name)
        self.version, self.declared = declared.version, declared
        self.memoryless, self.stateful = declared.memoryless, not declared.memoryless
        self.batched = declared.free
        self.counted = not (self.stateful or self.batched)
        self._make = declared.make
        self._made: Callee | None = None
        self._runs = ASKED.setdefault(id(declared.callee), (declared.callee, set()))[1]
        if self.name == "market":
            raise InputError("a forecaster may not be called market: that is the price; rename it")
        if opening.world is None:
            raise InputError(f"{self.name}: a callable is asked in a run, which has a world")
        self._world, self._clock = opening.world, opening.workspace.clock
        home = opening.workspace.home
        ours = (home.root / "data", home.workspace, home.queries, home.archive)
        self.files = FilesOpened(ours, read=True)
        self.code = code_digest(declared.callee)
        probes, place = opening.workspace.home.probes, place_of(declared.callee)
        found = last_probe(probes, self.code, place)
        if found is not None and found["code"] != self.code:
            if found["peeked"]:
                self.isolation = "trusted, caught before it was changed"
                self.caught = (
                    "a probe found that an earlier version of it looks ahead: probe this one"
                )
        elif found is not None and found["peeked"]:
            self.isolation = "caught by a probe"
            self.caught = f"a probe found that it looks ahead: {found['why']}"
        elif found is not None and self._session_alone and not keeps_nothing(declared.callee):
            self.isolation = (
                f"trusted (0 of {found['n']:,} futures, but what its session holds in memory was "
                "not probed)"
            )
        elif found is not None and (files := found.get("files")):
            more = f" and {len(files) - 1:,} more" if len(files) > 1 else ""
            self.isolation = (
                f"trusted (0 of {found['n']:,} futures, but it reads "
                f"{os.path.basename(files[0])}{more}, which a probe does not vary)"
            )
        elif found is not None:
            self.isolation = f"probed (0 of {found['n']:,} futures)"

    @property
    def _session_alone(self) -> bool:
        """True for a callable that this process alone knows, such as one of a notebook."""
        return self.provider.partition("@")[0] == f"python:{self.declared.name}"

    @classmethod
    def open(cls, rest: str, name: str | None, opening: Opening) -> Forecaster:
        """Raises InputError where it cannot be imported or called, or has another version."""
        if options := split_options(rest)[1]:
            if "python" not in options:
                raise InputError(
                    f"{rest[:100]!r}: {next(iter(options))} is for a callable of another "
                    "environment: add python=PATH, its interpreter"
                )
            from beforehand.forecast.schemes.environment import Elsewhere

            return Elsewhere.open(rest, name, opening)
        target, _, version = split_version(rest.partition(":")[2])
        declared = load(target, opening.folder)
        if version and version != declared.version:
            raise InputError(f"{rest}: its version is {declared.version} now: begin a new run")
        return cls(f"python:{target}", name, declared, opening)

    def check(self) -> None:
        """Raises InputError where an object of the class cannot be made, or where it cannot be
        called with a context."""
        try:
            made = self._callee()
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                f"{self.name} cannot be begun ({said_of(error)})"
                + (
                    ": a class is made without arguments; give an object of it, or a function"
                    if isinstance(error, TypeError)
                    else ""
                )
            ) from error
        with suppress(ValueError):  # Some callables have no signature to look at.
            try:
                inspect.signature(made).bind(None)
            except TypeError as error:
                raise InputError(
                    f"{self.name} cannot be called with a context ({error}): it takes one argument"
                ) from None

    @property
    def started_anew(self) -> bool:
        """True if it began this run without any memory: a new object of its class, a function that
        keeps nothing, or the first run of this process that asks it."""
        callee = self.declared.callee
        return inspect.isclass(callee) or len(self._runs) <= 1 or keeps_nothing(callee)

    def newest_file(self) -> tuple[float, str] | None:
        """As it was seen; what threads and programs of its own read is not."""
        return self.files.newest()

    def kept(self) -> Kept:
        """How it is kept from the future: it runs with us and could look, unless it was probed."""
        order = "declared memoryless" if self.memoryless else self.order
        return Kept(self.isolation, order, self.caught)

    def decide(self, context: Context, meter: Meter) -> Decision:
        """What it says; of a memoryless one, what the journal has, if it was asked before. Raises
        NoDecision where it raised or returned no probability; the trace holds the traceback."""
        if self.stateful or self.batched:
            return self._said(context, meter.within())
        said = lambda _: kept_text(self._said(context, meter.within(counted=True)))  # noqa: E731
        text = meter.call(self.provider, context.wire(), said, outer=True)
        return read_kept(self.name, text)

    def _said(self, context: Context, meter: Meter) -> Decision:
        """What it returned. Raises Stopped where a call of its own was ended by the run's end or
        limits, also where it made something of that."""
        if meter.run_id not in self._runs:
            self._runs.add(meter.run_id)
        shown = ShownContext(context, self._world, self._clock, meter)
        try:
            with self.files.watching():
                said = self._callee()(shown)
                if inspect.isawaitable(said):
                    said = asyncio.run(_awaited(said))
            if meter.stopped is not None:
                raise meter.stopped
            if type(said) is float and 0.0 <= said <= 1.0:
                found = Decision(said)
            else:
                found = _decision(said, self.name)
        except (Corrupt, Held, Stopped, Unavailable):  # Not about the question.
            raise
        except (Exception, SystemExit) as error:
            if meter.stopped is not None:
                raise meter.stopped from None
            text, trace = f"{self.name} raised {said_of(error)}", traceback.format_exc()
            if isinstance(error, BadAnswer):
                text = trace = str(error)
            failed = self._trace(context, meter, storable(trace[-LONGEST_TRACEBACK:]))
            kind = Abstained if isinstance(error, Abstained) else NoDecision
            raise kind(text, [failed]) from None
        looked_up = shown.audit
        return found if looked_up is None else structs.replace(found, audit=looked_up)

    def _callee(self) -> Callee:
        if self._made is not None:
            return self._made
        with self.files.watching():
            made = self._make()
        if not self.memoryless:
            self._made = made
        return made

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


def named_scheme(known_as: str, callee: Any) -> type[PythonForecaster]:
    """The class that opens a callable of another package by a name. Raises InputError for what
    cannot be called."""
    declared = replace(declare(callee, known_as), name=known_as)

    class Named(PythonForecaster):
        """A callable of another package."""

        @classmethod
        def open(cls, rest: str, name: str | None, opening: Opening) -> Forecaster:
            """Raises InputError for another version, or for words after its name."""
            stated, _, version = split_version(rest)
            if stated != known_as:
                raise InputError(f"{rest!r}: write {known_as} alone")
            if version and version != declared.version:
                raise InputError(f"{rest}: its version is {declared.version} now: begin a new run")
            return cls(known_as, name, declared, opening)

    return Named


async def _awaited(said: Awaitable[Any]) -> Any:
    return await said


def _decision(said: Any, name: str) -> Decision:
    """What was returned, checked. Raises BadAnswer for what is not a forecast."""
    if said is None:
        raise Abstained(f"{name} returned None")
    if isinstance(said, Mapping):
        if "probability" not in said:
            raise BadAnswer(f"{name} returned {_short(said)}: a mapping needs a probability")
        said = Decision(
            said.get("probability"),  # type: ignore[arg-type]  # Checked below.
            said.get("confidence"),
            said.get("rationale") or "",
            said.get("evidence_ids") or (),
        )
    elif not isinstance(said, Decision):
        said = Decision(said)
    if said.rationale is not None and not isinstance(said.rationale, str):
        raise BadAnswer(f"{name} returned the rationale {_short(said.rationale)}: return a text")
    sure = said.confidence
    return Decision(
        _share(said.probability, name, "a probability"),
        None if sure is None else _share(sure, name, "a confidence"),
        _text(said.rationale or "")[:LONGEST_TEXT],
        _ids(said.evidence_ids, name),
    )


def _ids(cited: Any, name: str) -> list[str]:
    """The ids of a decision's evidence; a single text is one id."""
    listed = [cited] if isinstance(cited, str) else cited
    if isinstance(listed, Iterable) and not isinstance(listed, Mapping):
        kept = list(listed)
        if all(isinstance(one, (str, Integral)) for one in kept):
            return [_text(one) for one in kept]
    raise BadAnswer(f"{name} returned evidence_ids {_short(cited)}: return a list of ids")


def _text(value: object) -> str:
    """A text that can be stored: what is no Unicode is replaced."""
    return str(value).encode("utf-8", "replace").decode()


def _share(value: object, name: str, what: str) -> float:
    """A number from 0 to 1, whatever library it comes from."""
    try:
        is_number = not isinstance(value, (bool, np.bool_, str, bytes))
        found = float(value) if is_number else float("nan")  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = float("nan")
    if not 0.0 <= found <= 1.0:
        percent = ", or is this percent?" if 1.0 < found <= 100.0 else ""
        raise BadAnswer(
            f"{name} returned no {what.removeprefix('a ')} from 0 to 1: {_short(value)} (return "
            f"{what} from 0 to 1{percent})"
        )
    return found


def _short(said: object) -> str:
    text = repr(said)
    return text if len(text) <= 60 else text[:57] + "..."
