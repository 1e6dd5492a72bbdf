"""What an agent is, and how it runs: an output and a log on the file bus, also where it fails.

    @agent("consumer-agent", tools=(), logged=("input_path",))
    def consume(work: Work, *, input_path: str) -> Output:

From the signature come the validation and the help text, as with a tool. An agent uses the tools
that it names and no others, and gets all the rows that it asks for.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Annotated, Any, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from beforehand import agents as agents_folder
from beforehand.clock import Clock, iso, stopwatch
from beforehand.config import AGENT_VERSION, OUTPUT_VERSION
from beforehand.errors import BeforehandError, InputError, NotFound, Refused
from beforehand.ids import check_storable, digest, is_storable, new_session_id
from beforehand.llm.prompt import ModelClient
from beforehand.meter import Meter
from beforehand.records.bus import EnvelopeMetadata, OutputEnvelope, RunLog
from beforehand.store.bus import Bus, read_output
from beforehand.tools.metered import metered
from beforehand.tools.registry import Toolbox, first_error

SESSION = Annotated[
    str | None,
    Field(min_length=1, max_length=100, description="Session identifier [a new one]."),
]


@dataclass(frozen=True)
class Output:
    """What an agent found: its rows, the `query` of the documented metadata, further metadata, and
    what its log says besides (`row_count`, `sql`…)."""

    data: Sequence[Mapping[str, Any]]
    query: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    log: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Agent:
    """A registered agent: its name on the bus, the tools that it may use, its function, and which
    of its inputs stand in its log."""

    name: str
    tools: tuple[str, ...]
    function: Callable[..., Output]
    logged: tuple[str, ...] = ()

    @cached_property
    def model(self) -> type[BaseModel]:
        """Its inputs as a pydantic model."""
        hints = get_type_hints(self.function, include_extras=True)
        fields: dict[str, Any] = {
            name: (hints[name], ... if given.default is given.empty else given.default)
            for name, given in inspect.signature(self.function).parameters.items()
            if name != "work"
        }
        name = f"{self.name.replace('-', '_')}_inputs"
        return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)

    @property
    def inputs(self) -> list[str]:
        """The names of its inputs."""
        return list(self.model.model_fields)

    @property
    def summary(self) -> str:
        """The first sentence of its docstring."""
        return " ".join((inspect.getdoc(self.function) or "").split("\n\n")[0].split())

    def validate(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs as Python values. Raises InputError naming the first that is wrong."""
        if unknown := [name for name in inputs if name not in self.model.model_fields]:
            raise InputError(
                f"{self.name} has no input {unknown[0]!r}: it takes {', '.join(self.inputs)}"
            )
        try:
            check_storable(inputs, f"the inputs of {self.name}")
            made = self.model.model_validate(dict(inputs))
        except ValidationError as error:
            raise InputError(f"{self.name}: {first_error(error)}") from None
        return {name: getattr(made, name) for name in self.inputs}


AGENTS: dict[str, Agent] = {}
F = TypeVar("F", bound=Callable[..., Output])


def agent(name: str, *, tools: tuple[str, ...], logged: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Register a function as an agent."""

    def register(function: F) -> F:
        AGENTS[name] = Agent(name, tools, function, logged)
        return function

    return register


@cache
def load_agents() -> Mapping[str, Agent]:
    """Every agent, by name."""
    for module in iter_modules(agents_folder.__path__):
        import_module(f"{agents_folder.__name__}.{module.name}")
    ordered = dict(sorted(AGENTS.items()))
    AGENTS.clear()
    AGENTS.update(ordered)
    return AGENTS


def find_agent(name: str) -> Agent:
    """An agent by its name. Raises NotFound naming those that there are."""
    found = load_agents().get(name)
    if found is None:
        raise NotFound(f"no agent is named {name!r}: there is {', '.join(load_agents())}")
    return found


@dataclass(frozen=True)
class AgentContext:
    """What agents work with: the bus that they write to, their tools, the home folder, the clock;
    in a run its journal (`meter`) and when its plan was made (`begun`); and the model that writes
    code, where there is one."""

    bus: Bus
    toolbox: Toolbox
    root: Path
    clock: Clock
    meter: Meter | None = None
    begun: datetime | None = None
    model: ModelClient | None = None


@dataclass
class Work:
    """What an agent's function is given. `notes` and `asked` (the tools that it called) go to the
    output's `_meta`."""

    agent: Agent
    context: AgentContext
    allowed: frozenset[str]
    notes: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    @property
    def toolbox(self) -> Toolbox:
        """The tools, pinned as they are."""
        return self.context.toolbox

    @property
    def at(self) -> datetime:
        """The instant as of which the agent works: that of its toolbox, else now."""
        if self.toolbox.pinned is not None:
            return self.toolbox.pinned
        return self.toolbox.gateway.clock.now().replace(microsecond=0)

    def tool(self, name: str, **arguments: object) -> dict[str, Any]:
        """The whole answer of a tool. Raises Refused for a tool that the agent may not use."""
        if name not in self.allowed:
            raise Refused(
                f"{self.agent.name} may not use {name}: it has {', '.join(sorted(self.allowed))}"
            )
        found = {key: value for key, value in arguments.items() if value is not None}
        # What a service answers may have cost money; the archive answers again, and the same.
        meter = None if self.toolbox.storage.mode == "replay" else self.context.meter
        answer: dict[str, Any] = metered(self.toolbox, meter, name, found)
        meta: Any = answer.pop("_meta", {})
        self.asked.append(name)
        self.notes += [str(note) for note in meta.get("notes", ())]
        if (cut := meta.get("cut")) is not None and cut["reason"] == "limit":
            known = f" of {cut['rows_found']:,}" if "rows_found" in cut else ", and there are more"
            self.notes.append(f"{name} gave {cut['rows_shown']:,} rows{known}")
        return answer

    def session(self, given: str | None, query: str) -> str:
        """The session's id: the one given, else a new one. Under a pin, and in a run, it follows
        from the question and the instant: a task that runs again asks the same."""
        at = self.toolbox.pinned or self.context.begun
        if given is not None:
            return given
        if at is None:
            return new_session_id(self.at)
        return f"{at:%Y%m%d%H%M%S}_{digest([query, iso(at)])[:6]}"

    def read(self, path: str) -> OutputEnvelope:
        """Another agent's output, by its path on the bus (a relative one: from the home folder).
        Raises InputError where it is not there or not as documented, Refused for one that knows
        more than this work may: its instant lies after ours."""
        try:
            found = (self.context.root / path).resolve()
            there = found.is_relative_to(self.context.bus.root.resolve()) and found.is_file()
        except (OSError, ValueError):
            there = False
        if not there:
            raise InputError(f"{path!r:.200} is no output on the bus (`beforehand bus list`)")
        output, at = read_output(found), self.toolbox.pinned
        if at is not None and output.metadata.timestamp > at:
            raise Refused(
                f"{path} is of {iso(output.metadata.timestamp)}, after {iso(at)}, as of which "
                f"{self.agent.name} works"
            )
        return output


@dataclass(frozen=True)
class Ran:
    """A finished run of an agent: where its output and its log are, and what they say."""

    agent: str
    run_id: str
    path: Path
    output: OutputEnvelope


def run_agent(
    found: Agent,
    inputs: Mapping[str, Any],
    context: AgentContext,
    *,
    tools: Sequence[str] | None = None,
    number: int | None = None,
) -> Ran:
    """Run an agent: its output and its log are on the bus when this returns. `tools` are those of
    its own that it may use here [all]; `number` is an id of an output that was claimed before.
    Raises what the agent raises, after its log says so."""
    folder, started = context.bus.agent(found.name), stopwatch()
    run_id = folder.begin()
    allowed = frozenset(found.tools).intersection(found.tools if tools is None else tools)
    work, root = Work(found, context, allowed), context.root

    kept = inputs if is_storable(inputs) else {}

    def log(status: str, more: Mapping[str, Any]) -> None:
        body = {
            "run_id": run_id,
            **{name: kept[name] for name in found.logged if kept.get(name) is not None},
            **more,
            "status": status,
            "timestamp": context.clock.now().replace(microsecond=0),
            "duration_ms": round(1000 * (stopwatch() - started), 2),
            "agent": found.name,
            "version": AGENT_VERSION,
            "_meta": {"inputs": {n: v for n, v in kept.items() if v is not None}},
        }
        folder.log(RunLog.model_validate(body))

    try:
        made = found.function(work, **found.validate(inputs))
        output = _enveloped(made, work)
        path = folder.write(output, number)
    except BeforehandError as error:
        log("failed", {"error": str(error) or type(error).__name__})
        raise
    except BaseException as error:
        log("failed", {"error": f"{type(error).__name__}: {error}"})
        raise
    log("success", {**made.log, "output_path": written(path, root)})
    return Ran(found.name, run_id, path, output)


def written(path: Path, root: Path) -> str:
    """A path of the bus as logs name it: from the home folder on."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


def _enveloped(made: Output, work: Work) -> OutputEnvelope:
    check_storable(made.data, f"the output of {work.agent.name}")
    metadata = EnvelopeMetadata.model_validate(
        {
            "query": made.query,
            **made.metadata,
            "timestamp": work.at,
            "row_count": len(made.data),
            "agent": work.agent.name,
            "version": OUTPUT_VERSION,
            "_meta": _meta(work),
        }
    )
    return OutputEnvelope(data=[dict(row) for row in made.data], metadata=metadata)


def _meta(work: Work) -> dict[str, object]:
    """What is ours in an output: as of when, from which world, by which tools, with which notes."""
    found: dict[str, object] = {"world": work.toolbox.storage.mode, "tools": work.asked}
    if work.toolbox.pinned is not None:
        found["as_of"] = iso(work.toolbox.pinned)
    if work.notes:
        found["notes"] = list(dict.fromkeys(work.notes))
    return found
