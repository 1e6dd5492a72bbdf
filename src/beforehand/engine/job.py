"""Kinds of runs: a Job compiles a request to a Plan and brings the actions.

`@job("backtest", BacktestRequest)` registers a kind, in a module of `beforehand/jobs` with a name
that ends in `_job`. No other code knows kinds by name: code that starts, resumes, works on or
verifies a run looks the kind up here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from pydantic import TypeAdapter, ValidationError

from beforehand.config import Workspace
from beforehand.engine.plan import Action, Plan
from beforehand.errors import Corrupt, InputError
from beforehand.store.journal.journal import Journal
from beforehand.store.journal.schema import ASIDE, RunRow
from beforehand.store.run_folder import RunFolder

SUFFIX = "_job"


@dataclass(frozen=True)
class RunLimits:
    """How a run is carried out; not part of its identity. `concurrency` limits the steps and calls
    in flight in one process, `rate` the requests to each address over all processes, `timeout` the
    seconds that one answer may take."""

    concurrency: int | None = None
    rate: str | None = None
    timeout: float = 60.0
    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    in_flight: Literal["resend", "skip", "stop"] = "resend"
    cost_per_call: float | None = None

    @property
    def budget(self) -> dict[str, float]:
        """The limits that are set, by name."""
        found = {"calls": self.max_calls, "tokens": self.max_tokens, "cost": self.max_cost}
        return {name: value for name, value in found.items() if value is not None}


class RunRequest(Protocol):
    """What a user asks for: a dataclass that the journal can keep as JSON."""

    @property
    def limits(self) -> RunLimits: ...


class Job(Protocol):
    """What a run is made of, opened from its request; the same in every process. `paid` counts the
    calls that the run will make to each provider; `parent` is the run that it repeats, if any."""

    @property
    def folder(self) -> RunFolder: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def actions(self) -> Mapping[str, Action]: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def paid(self) -> Mapping[str, int]: ...
    def prepare(self) -> None:
        """Write what is known before the first step; the same bytes at every start."""

    def seal(self) -> dict[str, str]:
        """The last file of a finished run; returns the digests that the journal keeps."""

    def summary(self) -> dict[str, Any]:
        """The result of the finished run, from its files."""

    def close(self) -> None:
        """Close what was opened."""


@runtime_checkable
class Asking(Protocol):
    """A job that asks others."""

    def ready(self) -> None:
        """Look whether they can be asked, before anything is written. Raises Unavailable."""


@runtime_checkable
class Growing(Protocol):
    """A job whose later steps follow from the outputs of its first ones."""

    def grow(self, outputs: Mapping[str, Any]) -> None:
        """Compile the plan anew; `outputs` has what the steps that grow have returned so far."""


@runtime_checkable
class Divided(Protocol):
    """A job that has a second process for its steps."""

    @property
    def at_once(self) -> int:
        """How many steps are carried out at once where nobody is asked over the network."""
        ...


def grown(job: Job, journal: Journal) -> bool:
    """Compile the later steps of a job as far as their plan is on record; True if there are more
    steps than before."""
    if not isinstance(job, Growing):
        return False
    run_id, before = job.plan.run_id, len(job.plan.steps)
    growing = [step.id for step in job.plan.steps if step.grows]
    done = journal.done(run_id, growing)
    job.grow({name: journal.output(run_id, name) for name in growing if name in done})
    return len(job.plan.steps) > before


@dataclass(frozen=True)
class Kind:
    """A registered kind of run."""

    name: str
    request: type[Any]
    job: Callable[[Any, str, Workspace], Job]

    def load(self, row: RunRow) -> Any:
        """The request of a run on record. Raises Corrupt."""
        try:
            return TypeAdapter(self.request).validate_python(row.request)
        except ValidationError as error:
            raise Corrupt(
                f"the journal's request of run {row.run_id} cannot be read: {error}"
            ) from None

    def wire(self, request: Any) -> dict[str, object]:
        """A request as the journal keeps it."""
        found: dict[str, object] = TypeAdapter(self.request).dump_python(request, mode="json")
        return found

    def forked(
        self, request: Any, parent: str, at: datetime, models: Sequence[str], fresh: bool
    ) -> Any:
        """The request of a fork. Raises InputError for a kind that cannot be forked."""
        make = getattr(self.job, "forked", None)
        if make is None:
            raise InputError(f"run {parent} is a {self.name}, which cannot be forked")
        return make(request, parent, at, models, fresh)


_KINDS: dict[str, Kind] = {}
JobClass = TypeVar("JobClass", bound=type[Any])


def job(name: str, request: type[Any]) -> Callable[[JobClass], JobClass]:
    """Register a kind of run: its name in the journal, its request, and this class, which is opened
    with (request, run id, workspace)."""

    def register(cls: JobClass) -> JobClass:
        _KINDS[name] = Kind(name, request, cls)
        return cls

    return register


def kind_named(name: str) -> Kind:
    """The kind of a run on record. Raises Corrupt for a name that is not registered, InputError for
    the standing run, which has no steps."""
    if name == ASIDE:
        raise InputError(f"{ASIDE} holds calls that were made outside of runs: it has no steps")
    if name not in _KINDS and name not in _load():
        raise Corrupt(f"this version of beforehand has no kind of run named {name!r}")
    return _KINDS[name]


def kind_of(request: Any) -> Kind:
    """The kind that a request is for."""
    known = [kind for kind in _KINDS.values() if kind.request is type(request)]
    return known[0] if known else next(k for k in _load().values() if k.request is type(request))


def kinds() -> Mapping[str, Kind]:
    """Every kind of run, by name."""
    return _load()


@cache
def _load() -> Mapping[str, Kind]:
    """Import every module that registers kinds."""
    jobs = import_module("beforehand.jobs")
    for module in walk_packages(jobs.__path__, f"{jobs.__name__}."):
        if module.name.endswith(SUFFIX):
            import_module(module.name)
    return _KINDS
