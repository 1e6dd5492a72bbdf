"""Questions and agents from Python: `beforehand ask` and `beforehand agent`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Unpack

from beforehand.agents import base as agents
from beforehand.agents.code import NAME as CODE_AGENT
from beforehand.engine.job import RunLimits
from beforehand.engine.runs import start
from beforehand.errors import InputError
from beforehand.front.reporting import reporting, told_in_python
from beforehand.front.run import workspace_of
from beforehand.front.start import Limits
from beforehand.front.world import World, need_world
from beforehand.gateway.view import View, gateway_of
from beforehand.jobs.aside_model import AsideModel
from beforehand.jobs.ask.ask_job import AGENTS_AT_ONCE, AskRequest
from beforehand.jobs.checks import checked, flag, instant
from beforehand.store.bus import Bus
from beforehand.tools.discovery import load_tools
from beforehand.tools.registry import Toolbox
from beforehand.tools.storage import Storage


@dataclass(frozen=True, repr=False)
class Answer:
    """An answer as of an instant. `text` has a line for each thing that was found, with the numbers
    of its citations; `citations` are the records that it rests on (`n`, `kind`, `id`, `file` on the
    bus, `url` where there is one); `not_found` says what is missing; `planned_by` is "rules" or the
    model; `notes` are what else there is to know; `review` is the model's check, where it was asked
    for. `path` is the run's folder."""

    question: str
    as_of: str
    text: str
    citations: list[dict[str, Any]]
    not_found: list[str]
    planned_by: str
    notes: list[str]
    review: dict[str, Any] | None
    run_id: str
    path: Path

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class AgentRun:
    """A finished run of an agent: its output's file on the bus, the rows in it, and its metadata
    (`query`, `timestamp`, `row_count`, `agent`, `version`, ours under `_meta`)."""

    agent: str
    run_id: str
    path: Path
    data: list[dict[str, Any]]
    metadata: dict[str, Any]


def ask(
    question: str,
    world: World,
    *,
    as_of: datetime | str | None = None,
    model: str | None = None,
    review: bool = False,
    run_id: str | None = None,
    home: str | Path | None = None,
    progress: bool = True,
    **limits: Unpack[Limits],
) -> Answer:
    """Answer a question from what a world knew at an instant: `beforehand ask` from Python, giving
    the same files.

    `as_of` is the instant [the last one on record]. `model` ("scripted", "openai:NAME"…) plans,
    rates markets and writes code; without one, rules plan. `review` lets it check the answer.
    Raises InputError for a question that names nothing, NotConfigured without the model's key,
    Stopped for a run that ended early: `open_run(...).resume()` continues it.
    """
    if unknown := [name for name in limits if name not in Limits.__annotations__]:
        raise InputError(f"ask takes no argument {unknown[0]!r}")
    if not isinstance(question, str):
        raise InputError(f"a question is a text, not {question!r}")
    if model is not None and not isinstance(model, str):
        raise InputError(f"a model is named by a text, not {model!r}")
    given, workspace = RunLimits(**limits), workspace_of(home)
    pinned = None if as_of is None else instant("as_of", as_of)
    if pinned is not None and pinned > workspace.clock.now():
        raise InputError(f"as_of {as_of} lies in the future")
    request = AskRequest(
        question,
        need_world(world).path.resolve(),
        pinned,
        limits=checked(replace(given, concurrency=given.concurrency or AGENTS_AT_ONCE)),
        model=model,
        review=flag("review", review),
    )
    with told_in_python(run_id), reporting("ask", progress) as report:
        finished = start(request, workspace, run_id, report)
    return answer_of(finished.summary, finished.folder.run_id, finished.folder.path)


def answer_of(found: Mapping[str, Any], run_id: str, path: Path) -> Answer:
    """An answer as a run wrote it (`answer.json`)."""
    about = found.get("model", {})
    notes = [found.get("note"), f"{about['id']}: {about['note']}" if "note" in about else None]
    return Answer(
        question=found["question"],
        as_of=found["as_of"],
        text=found["answer"],
        citations=found["citations"],
        not_found=found["not_found"],
        planned_by=found["planned_by"],
        notes=[note for note in notes if note],
        review=found.get("review"),
        run_id=run_id,
        path=path,
    )


def run_agent(
    name: str,
    view: View,
    *,
    model: str | None = None,
    max_calls: int | None = None,
    max_cost: float | None = None,
    home: str | Path | None = None,
    **inputs: object,
) -> AgentRun:
    """Run one agent as of a View's instant: its output and its log go to the file bus of the home
    folder. `inputs` are the agent's own, as `beforehand agent list` shows them; `model` rates the
    searches of markets and writes the code of code-agent; `max_calls` and `max_cost` (US dollars)
    limit what such calls may be, over all that are made outside of runs in this home. Raises
    InputError for a wrong input, NotFound for an agent that there is not; a run that fails leaves
    its log."""
    if not isinstance(view, View):
        raise InputError(f"{view!r} is not a View: world.at(TIME) gives one")
    load_tools()
    workspace, found = workspace_of(home), agents.find_agent(name)
    storage = Storage(workspace.home)
    box = Toolbox(gateway_of(view), storage, None if view.live else view.t, bounded=False)
    bus, root = Bus(workspace.home.bus, workspace.clock), workspace.home.root
    spend = checked(RunLimits(max_calls=max_calls, max_cost=max_cost))
    opened = None if model is None else AsideModel(model, spend, workspace, f"agent {name}")
    try:
        client = None
        if opened is not None:
            storage.scorer = opened.rate
            client = opened.client() if name == CODE_AGENT else None
        context = agents.AgentContext(bus, box, root, workspace.clock, model=client)
        ran = agents.run_agent(found, inputs, context)
    finally:
        if opened is not None:
            opened.close()
    wire = ran.output.wire()
    return AgentRun(name, ran.run_id, ran.path, wire["data"], wire["metadata"])
