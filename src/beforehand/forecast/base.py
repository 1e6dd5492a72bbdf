"""Forecasters: a Forecaster is shown a Context and returns a Decision.

`open_forecaster("scheme:rest")` is the one place that interprets a name. Each scheme is one file in
`forecast/schemes/`. All other code uses the opened Forecaster and never looks at its name.
`NAME=scheme:rest` gives any forecaster a name of its own, which then appears in rows and tables.
"""

import re
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from beforehand.config import Workspace
from beforehand.errors import BadAnswer, InputError, Refused
from beforehand.forecast.aggregate import Method
from beforehand.forecast.cutoff_guard import CutoffGuard, Knowledge
from beforehand.gateway.panel import Panel
from beforehand.gateway.worlds import World
from beforehand.meter import CallCounter, Meter, tool_usage
from beforehand.plugins import PLUGINS, Plugin
from beforehand.records.rows import (
    Context,
    DecisionRow,
    EvidenceLine,
    Mode,
    TraceRow,
    label,
    sureness,
    yes_or_no,
)
from beforehand.records.text import storable
from beforehand.sandbox.engines import Engine, Sandbox
from beforehand.score.scoreboard import Kept
from beforehand.sources.base import Limit
from beforehand.store.journal.calls import TOOL, Usage

__all__ = [
    "NONE_HERE",
    "Abstained",
    "CallCounter",
    "Context",
    "Decision",
    "Forecaster",
    "Meter",
    "ModelOptions",
    "NoDecision",
    "Opening",
    "PanelForecaster",
    "class_of",
    "open_forecaster",
    "open_forecasters",
    "scheme",
    "split_entry",
    "usage_of",
]
VERSION = "1.0"
TIMEOUT_S = 60.0
Floats = npt.NDArray[np.float64]
Kind = Literal["baseline", "external", "model"]
Question = tuple[str, str, int]
"""A market, a time and a simulation."""
_NAMED = re.compile(r"([A-Za-z][A-Za-z0-9_.-]{0,63})=(.+)", re.DOTALL)


class Decision(Struct, frozen=True):
    """A Forecaster's answer to a Context. `probability` (of YES) and `confidence` lie in [0, 1]; a
    confidence of None means twice the distance of the probability from a half. `evidence_ids` are
    those of the snippets it rests on; `traces` record how it was made, `audit` what was looked up
    in the world for it (`Audit.wire`); `evidence` are typed items of its own (EvidenceItem): none
    is an empty list, and None leaves it to us to cite the price; `read_as` is the rule by which its
    probability was read, if it was no plain number (`answers.py`)."""

    probability: float
    confidence: float | None = None
    rationale: str = ""
    evidence_ids: Sequence[str] = ()
    mode: Mode = "external"
    answer_in_training: bool = False
    traces: Sequence[TraceRow] = ()
    audit: Mapping[str, Any] | None = None
    evidence: Sequence[EvidenceLine] | None = None
    read_as: str | None = None

    def row(self, model_id: str, simulation: int, context: Context) -> DecisionRow:
        """The documented DecisionResult. Ids that were cited but not shown are kept apart."""
        p, cited = self.probability, self.evidence_ids
        shown = {snippet.id for snippet in context.search_snippets} if cited else set[str]()
        return DecisionRow(
            model_id=model_id,
            simulation_index=simulation,
            mode=self.mode,
            decision=yes_or_no(p),
            confidence=sureness(p) if self.confidence is None else self.confidence,
            probability=p,
            rationale=self.rationale,
            key_evidence_ids=[c for c in cited if c in shown],
            created_at=context.time,
            unshown_evidence_ids=[c for c in cited if c not in shown],
            answer_in_training=self.answer_in_training,
            evidence=None if self.evidence is None else list(self.evidence),
        )


class NoDecision(BadAnswer):
    """A forecaster made no decision; `traces` record how it went."""

    def __init__(self, text: str, traces: Sequence[TraceRow] = ()) -> None:
        super().__init__(storable(text))
        self.traces = traces


NONE_HERE = "no forecast here"
NO_FORECAST = "no forecast known at t"
"""What a pure function says in a row where it has none."""


class Abstained(NoDecision):
    """A forecaster said that it has no forecast here: it works, and answers nothing."""

    def __init__(self, text: str, traces: Sequence[TraceRow] = ()) -> None:
        text = text.removesuffix(f": {NONE_HERE}")
        super().__init__(f"{text}: {NONE_HERE}", traces)


class Forecaster(ABC):
    """Answers contexts.

    `entry` is its name in configurations, `name` in tables, `model_id` in rows; `provider` is the
    name under which its calls are on record. `memoryless` declares that it keeps nothing between
    two questions: all others are asked in order of time. A `stateful` one keeps what it remembers
    in the run's own process. It is asked one question at a time, and a process that continues the
    run shows it the earlier contexts again. One that is not stateful must be safe for threads.
    """

    kind: ClassVar[Kind] = "external"
    memoryless: bool = False
    stateful: bool = True
    isolation: str = "trusted"
    code: str | None = None
    """The digest of its code, where that is known: it must not change within a run."""
    caught: str | None = None
    """Why it may not be said to beat the market: a probe found that it looks ahead."""
    order: ClassVar[str] = "asked in order"
    version: str = VERSION
    ranked: bool = True
    """False for a forecaster that only tests the path: it is never ranked."""
    free: bool = False
    """True for a forecaster that runs on this machine and costs nothing."""
    program: ClassVar[bool] = True
    """False for one that runs no code of this machine outside of the sandbox. Other packages' are
    programs unless they say otherwise."""
    counted: bool = True
    """Whether each of its answers is a call among those that `--max-calls` limits."""
    batched: bool = False
    """True for one whose answers are recorded in batches: asking it twice costs nothing."""

    def __init__(self, provider: str, name: str | None = None) -> None:
        self.provider = provider
        self.entry = provider if name is None else f"{name}={provider}"
        self.model_id = provider if name is None else name
        self.name = label(self.model_id)
        self.shown: set[Question] = set()
        """What a stateful one was asked in this process."""
        self.instant: tuple[str, dict[Question, Decision | BadAnswer]] = ("", {})
        """The instant that it was asked about last, with its answers."""
        self.caught_up = False
        """True once this process has shown it what another process asked it before."""
        self.differing: set[Question] = set()
        """Questions whose answer on record is another one than it gives now."""
        self._noted: Counter[str] = Counter()
        self.asking = threading.RLock()
        """Held while a stateful one is asked: its steps may run side by side."""

    def __getstate__(self) -> dict[str, Any]:
        """What a copy in another process is made of: all but the lock."""
        return {name: value for name, value in vars(self).items() if name != "asking"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= {**state, "asking": threading.RLock()}

    def __init_subclass__(cls, **options: Any) -> None:
        """What keeps nothing is asked side by side."""
        super().__init_subclass__(**options)
        if cls.memoryless:
            cls.stateful = False

    @abstractmethod
    def decide(self, context: Context, meter: Meter) -> Decision:
        """Its decision. Raises BadAnswer (NoDecision) or Refused if there is none and never will
        be, and whatever the Meter raises."""

    def check(self) -> None:  # noqa: B027 (most have nothing to check)
        """Raise errors that would fail every question: NotConfigured, InputError."""

    def refusal(self, context: Context) -> str | None:
        """Why it may not be asked about this context, or None."""
        return None

    def arms(self, mode: str) -> "Sequence[Forecaster]":
        """The forecasters that answer one question in an experiment of this mode: here itself."""
        return (self,)

    @property
    def started_anew(self) -> bool:
        """True for one that is known to have begun this run without any memory of another."""
        return False

    def newest_file(self) -> tuple[float, str] | None:
        """Of the files that it read while it was asked, besides code and what we keep, when the
        newest was written (seconds since 1970), and its path; None where it read none that is
        known of."""
        return None

    def take_differing(self) -> int:
        """How many answers differed from those on record when a past was shown again, since the
        last call of this method."""
        found, self.differing = len(self.differing), set()
        return found

    def note(self, rule: str) -> None:
        """Count an answer that was read by a rule, or that was none. Safe for threads."""
        with self.asking:
            self._noted[rule] += 1

    def take_noted(self) -> dict[str, int]:
        """What was counted since the last call of this method."""
        with self.asking:
            found, self._noted = dict(self._noted), Counter()
        return found

    def ready(self) -> None:  # noqa: B027 (most are always ready)
        """Look whether it can be asked at all, before a run begins. Raises Unavailable."""

    def close(self) -> None:  # noqa: B027 (most open nothing)
        """Close what was opened to ask."""

    @staticmethod
    def usage(answer: str) -> Usage:
        """Tokens and US dollars that an answer states."""
        return Usage()

    @classmethod
    def on_record(cls, rest: str) -> str:
        """The provider under which the calls of the forecaster `rest` are on record."""
        return rest

    def kept(self) -> Kept:
        """How it is kept from the future, as known before it is asked anything."""
        return Kept(self.isolation, self.order, self.caught)


class PanelForecaster(Forecaster):
    """A pure function of a Panel's rows, forecast in bulk. It keeps nothing between two panels: a
    copy of it may be asked in another process. `recorded` names the predictor whose stored
    forecasts it needs in the Panel, if any; `rationale` is what its decisions rest on, where that
    is the same in each row that shows no document."""

    kind = "baseline"
    memoryless, stateful = True, False
    isolation = "by construction"
    order = "memoryless"
    recorded: str | None = None
    rationale: str | None = None

    @abstractmethod
    def forecast(self, panel: Panel) -> Floats:
        """Probabilities of YES, one per row; NaN where it has none."""

    @abstractmethod
    def decision(self, p: float, context: Context) -> Decision:
        """Its decision at one row. Raises NoDecision if p is NaN."""

    def decide(self, context: Context, meter: Meter) -> Decision:
        """Always raises InputError: it needs a Panel's row, which holds more than a Context."""
        raise InputError(f"{self.name} forecasts from a panel: ask a View for one")


@dataclass(frozen=True)
class ModelOptions:
    """How language models are used: the mode and the wording of searches if no configuration states
    them, how decisions are combined, where code runs, and what happens to questions that were
    answered before a model's training ended (`cutoffs` states that day for unlisted models)."""

    mode: Literal["daytona_agent", "direct_llm", "hybrid"] = "daytona_agent"
    query_mode: Literal["template", "llm_generated"] = "template"
    method: Method = "mean"
    engine: Engine = "auto"
    knowledge: Knowledge = "mark"
    cutoffs: dict[str, date] = field(default_factory=dict)


@dataclass
class Opening:
    """What forecasters are opened with: what the world holds (`documents`, `predictors`), where
    this caller's files are, and what the run allows. `limited_cost` says that the run has a budget
    in US dollars. `world` is for code in this process, which sees it through a View at t; `folder`
    is where that code is named from [that of this process]."""

    workspace: Workspace
    documents: bool = True
    predictors: Sequence[str] = ()
    limits: tuple[Limit, ...] = ()
    timeout: float = TIMEOUT_S
    cost_per_call: float | None = None
    limited_cost: bool = False
    models: ModelOptions = field(default_factory=ModelOptions)
    guard: CutoffGuard = field(default_factory=lambda: CutoffGuard({}))
    world: World | None = None
    folder: Path | None = None
    _sandbox: Sandbox | None = None

    @property
    def sandbox(self) -> Sandbox:
        """Where models' code runs: one for all models. Raises NotConfigured where it cannot."""
        if self._sandbox is None:
            self._sandbox = Sandbox(self.models.engine, self.workspace.settings)
            self._sandbox.check()
        return self._sandbox

    def close(self) -> None:
        """End the sandbox."""
        if self._sandbox is not None:
            self._sandbox.close()


_SCHEMES: dict[str, type[Any]] = {}
_SHOWN: list[str] = []
_EXPANDED: dict[str, Callable[[Opening], list[Forecaster]]] = {}
SchemeClass = TypeVar("SchemeClass", bound=type[Any])


def scheme(*prefixes: str, shown: Iterable[str] = ()) -> Callable[[SchemeClass], SchemeClass]:
    """Register a class of forecasters for names that begin with one of these prefixes. `shown` are
    the names that error messages suggest."""

    def register(cls: SchemeClass) -> SchemeClass:
        for prefix in prefixes:
            held = _SCHEMES.get(prefix)
            if held is not None and held.__module__ != cls.__module__:
                raise ValueError(f"the forecaster {prefix!r} is {held.__module__}'s already")
        _SCHEMES.update(dict.fromkeys(prefixes, cls))
        _SHOWN.extend(shown)
        return cls

    return register


def expanded(word: str) -> Callable[[Callable[[Opening], list[Forecaster]]], Any]:
    """Register a word that stands for several forecasters."""

    def register(function: Callable[[Opening], list[Forecaster]]) -> Any:
        _EXPANDED[word] = function
        return function

    return register


@cache
def load_schemes() -> Mapping[str, type[Any]]:
    """Every scheme by its prefix: each file in `forecast/schemes/` is one."""
    from beforehand.forecast import schemes

    for module in iter_modules(schemes.__path__):
        import_module(f"{schemes.__name__}.{module.name}")
    for _ in PLUGINS.load("forecasters", _enter):
        pass
    return _SCHEMES


def _enter(plugin: Plugin, found: object) -> None:
    """Register a forecaster of another package: a class of Forecaster, which names its own scheme,
    or any callable of a Context, which goes by the plugin's name."""
    if isinstance(found, type) and issubclass(found, Forecaster):
        if found not in _SCHEMES.values():
            raise InputError(f"{found.__name__} has no scheme: decorate it with @scheme(NAME)")
        return
    if plugin.name in _SCHEMES or plugin.name in _EXPANDED:
        raise InputError(f"the name {plugin.name!r} is taken")
    from beforehand.forecast.schemes.python import named_scheme

    _SCHEMES[plugin.name] = named_scheme(plugin.name, found)
    _SHOWN.append(plugin.name)


def class_of(text: str) -> type[Any] | None:
    """The class of the forecaster with this name; None if the name has no known scheme."""
    known = load_schemes()
    head = split_entry(text)[1].partition(":")[0]
    if head in known:
        return known[head]
    if (plain := head.rpartition("@")[0]) in known and issubclass(known[plain], Forecaster):
        return known[plain]  # NAME@VERSION.
    # NAME@http://host is a model at an address: the scheme follows the @.
    return known["@"] if re.search(r"@https?://", text) else None


def provider_of(rest: str) -> str:
    """The provider under which the calls of a forecaster (its name without NAME=) are on record."""
    found = class_of(rest)
    if found is None or not issubclass(found, Forecaster):
        return rest
    return found.on_record(rest)


def usage_of(provider: str, answer: str) -> Usage:
    """Tokens and US dollars of an answer, as its provider's scheme reads it."""
    if provider.startswith(TOOL):
        return tool_usage(answer)
    found = class_of(provider) or load_schemes()["http"]
    usage: Usage = found.usage(answer)
    return usage


def open_forecaster(text: str, opening: Opening) -> Forecaster:
    """One forecaster by name; makes no connection. Raises InputError that names what is allowed."""
    name, rest = split_entry(text.strip())
    if split_entry(rest)[0] is not None and "://" not in rest:
        raise InputError(f"{text[:100]!r} has two names: write NAME=scheme:rest")
    found = class_of(rest)
    if found is None:
        raise unknown(rest, opening)
    if getattr(found, "program", True) and not opening.workspace.programs:
        raise Refused(
            f"{rest[:100]} runs code of the server's machine: the server allows that only with "
            "--allow-programs; an address (http://…) or a file of probabilities works without"
        )
    if name is not None and name in load_schemes():
        raise InputError(f"{text!r}: {name} is the name of a forecaster already: choose another")
    forecaster: Forecaster = found.open(rest, name, opening)
    return forecaster


def open_forecasters(
    names: Iterable[str], opening: Opening, known: Mapping[str, Forecaster] = MappingProxyType({})
) -> dict[str, Forecaster]:
    """Forecasters by their entries, in the order named. A word such as `all` stands for several. A
    forecaster among the `known` is not opened again. Raises InputError if none is named, or if two
    have the same name."""
    load_schemes()
    found: dict[str, Forecaster] = {}
    for text in filter(None, (name.strip() for name in names)):
        try:
            made = (
                _EXPANDED[text](opening) if text in _EXPANDED else [open_forecaster(text, opening)]
            )
        except InputError as error:
            raise InputError(f"forecasters: {error}") from None
        for one in made:
            one = known.get(one.entry, one)
            others = (*found.values(), *known.values())
            other = next((f for f in others if f.name == one.name), None)
            if other is not None and other.entry != one.entry:
                raise InputError(
                    f"forecasters: {other.entry} and {one.entry} would both be called {one.name}: "
                    "name one of them (NAME=...)"
                )
            found.setdefault(one.entry, one)
    if not found:
        raise InputError(f"no forecaster named: choose from {', '.join(_allowed(opening))}")
    return found


def unknown(text: str, opening: Opening) -> InputError:
    """The error for an unknown name."""
    return InputError(
        f"unknown forecaster {text!r}: choose from {', '.join(_allowed(opening))}; a model "
        "(scripted, local, openai:NAME, anthropic:NAME, NAME@http://host:port/v1), or an address "
        "(http://host:port/path)"
    )


def _allowed(opening: Opening) -> Iterator[str]:
    yield from _EXPANDED
    # Those that always work before those that need something of the user's.
    yield from sorted(_SHOWN, key=lambda name: getattr(class_of(name), "kind", "") != "baseline")
    yield from (f"recorded:{name}" for name in opening.predictors)


def split_entry(text: str) -> tuple[str | None, str]:
    """(name, rest) of `NAME=scheme:rest`."""
    found = _NAMED.fullmatch(text)
    return (found[1], found[2]) if found else (None, text)
