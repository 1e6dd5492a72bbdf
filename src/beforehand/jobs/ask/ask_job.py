"""The orchestrator as a run: plan, tasks side by side, one answer.

The plan is the output of the first step, and the other steps are compiled from it: a run that was
killed goes on with the plan that it had. Every task writes to the file bus under an id that it
claimed first, so that a task that runs again after a crash leaves no second output.
"""

import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from beforehand.agents.base import AgentContext, find_agent, load_agents, run_agent, written
from beforehand.clock import iso, parse_instant, to_us
from beforehand.config import Workspace, WorldMode
from beforehand.engine.context import StepContext
from beforehand.engine.job import RunLimits, job
from beforehand.engine.plan import Action, Plan, Step
from beforehand.errors import InputError
from beforehand.gateway.opening import Connection, connect
from beforehand.ids import digest
from beforehand.jobs.ask import rules, wording
from beforehand.jobs.ask.answer import compose
from beforehand.jobs.ask.planner import Planner
from beforehand.jobs.ask.review import review
from beforehand.jobs.ask.tasks import ANSWER, PLAN, Task, check, files_named
from beforehand.jobs.model_client import OpenedModel
from beforehand.llm.prompt import ModelClient
from beforehand.llm.rating import rate
from beforehand.records.bus import OutputEnvelope
from beforehand.sources.kalshi import VENUE as KALSHI
from beforehand.store.archive.reader import Archive
from beforehand.store.bus import Bus, read_output
from beforehand.store.files import read_json, write_atomic, write_json
from beforehand.store.run_folder import RunFolder
from beforehand.tools.discovery import load_tools
from beforehand.tools.registry import Toolbox
from beforehand.tools.storage import Storage

AGENTS_AT_ONCE = 4
"""How many agents work at once where nothing else is asked for."""
LARGEST_KEPT = 256_000
"""Bytes of an output up to which the journal keeps it whole; of a larger one it names the file."""


def _unchanged(path: Path, expected: str) -> OutputEnvelope:
    """A task's output, as the task wrote it. Raises InputError where the file is another one."""
    try:
        same = digest(path.read_bytes()) == expected
    except OSError:
        same = False
    if not same:
        raise InputError(
            f"{path} is not what its task wrote: it was changed or removed. Ask again as a new run"
        )
    return read_output(path)


@dataclass(frozen=True)
class AskRequest:
    """A question, as of an instant (None: in replay the archive's last one, live now). `model`
    plans, rates markets and writes code (None: rules plan, and nothing is rated); with `review` it
    also checks the answer."""

    question: str
    archive: Path
    as_of: datetime | None = None
    mode: WorldMode = "replay"
    limits: RunLimits = field(default_factory=RunLimits)
    model: str | None = None
    review: bool = False


@job("ask", AskRequest)
class AskJob:
    """A question's plan, its tasks, and its answer."""

    def __init__(self, request: AskRequest, run_id: str, workspace: Workspace) -> None:
        if not request.question.strip():
            raise InputError("ask a question, such as: Will Bitcoin reach $100k?")
        self.folder = RunFolder(workspace.home.runs, run_id)
        self._request, self._workspace = request, workspace
        self._archive = Archive(request.archive) if request.mode == "replay" else None
        self._at = request.as_of
        if self._at is None and self._archive is not None:
            self._at = self._archive.last_known()
        wording.read(request.question, self._now)  # What names nothing is refused before it begins.
        self._model = self._opened_model(request)
        self._bus = Bus(workspace.home.bus, workspace.clock)
        self._opened: Connection | None = None
        self._opening = threading.Lock()
        load_agents()
        load_tools()
        first = Step(PLAN, PLAN, {}, here=True, grows=True)
        self.plan = Plan(run_id, [first])
        self.actions: Mapping[str, Action] = {
            PLAN: self._plan,
            ANSWER: self._answer,
            **dict.fromkeys(load_agents(), self._task),
        }

    def _opened_model(self, request: AskRequest) -> OpenedModel | None:
        if request.model is not None:
            return OpenedModel(request.model, request.limits, self._workspace)
        if request.review:
            raise InputError("--review checks the answer by a model: name one with --model")
        return None

    @property
    def fingerprint(self) -> str:
        """The question, the instant, and the world."""
        request = self._request
        world = None if self._archive is None else self._archive.digest
        at = None if self._at is None else iso(self._at)
        return digest([request.question, at, request.mode, world, request.model, request.review])

    @property
    def paid(self) -> Mapping[str, int]:
        """How many calls there will be is not known before the plan is made."""
        return {}

    def prepare(self) -> None:
        """Write the plan, as far as it is made."""
        self.folder.claim()
        write_json(self.folder.path / "plan.json", self.plan.wire())

    def grow(self, outputs: Mapping[str, Any]) -> None:
        """The steps of the tasks, and of the answer."""
        if PLAN not in outputs:
            return
        tasks = [Task.read(row) for row in outputs[PLAN]["tasks"]]
        steps = [Step(task.id, task.agent, task.wire(), (PLAN, *task.deps)) for task in tasks]
        last = Step(
            ANSWER, ANSWER, {}, (PLAN, *(task.id for task in tasks)), here=True, tolerant=True
        )
        self.plan = Plan(self.plan.run_id, [self.plan.steps[0], *steps, last])

    def seal(self) -> dict[str, str]:
        """Write the last file of a finished run."""
        shutil.rmtree(self._notes, ignore_errors=True)
        found = "" if self._archive is None else self._archive.digest
        return self.folder.seal("ask", found, {"subject": self._request.question})

    def summary(self) -> dict[str, Any]:
        """The answer."""
        found: dict[str, Any] = read_json(self.folder.path / "answer.json")
        return found

    def close(self) -> None:
        """Store what was recorded, and close the model's connections. They open again at the next
        call: the first step is driven by itself, and the others after it."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None
        if self._model is not None:
            self._model.close()

    def _plan(
        self, _: Mapping[str, Any], __: Mapping[str, Any], context: StepContext
    ) -> Mapping[str, object]:
        row = context.journal.known_run(context.run_id)
        return self.planned(self._client(context), self._at or parse_instant(row.created_at))

    def planned(
        self, client: ModelClient | None = None, at: datetime | None = None
    ) -> dict[str, Any]:
        """Which tasks, agents and dependencies; checked before anything else is spent. By rules
        where there is no model, and where its plan cannot be carried out: then `note` says why."""
        at, question, note = at or self._now, self._request.question, ""
        tasks: list[Task] = []
        known = self._known(at)
        if client is not None:
            tasks, why = Planner(client, question, at).plan()
            if not tasks:
                note = f"the plan of {client.name} cannot be carried out ({why}): rules planned"
        by = client.name if client is not None and tasks else "rules"
        if not tasks:
            tasks = rules.plan(question, at, known)
            check(tasks)
        found: dict[str, Any] = {"as_of": iso(at), "planned_by": by}
        if absent := rules.absent(question, known, live=self._archive is None):
            found["absent"] = absent
        if known.untold:
            found["untold"] = (
                f"{known.untold} of {len(known.ids)} markets on record had no title yet: no search "
                "finds them"
            )
        return {**found, **({"note": note} if note else {}), "tasks": [t.wire() for t in tasks]}

    def _client(self, context: StepContext) -> ModelClient | None:
        """The model, with the run's journal around its calls."""
        if self._model is None:
            return None
        return self._model.client(context.about(self._request.question, to_us(self._now), 0))

    @property
    def _now(self) -> datetime:
        return self._at or self._workspace.clock.now()

    def _known(self, at: datetime) -> wording.Known:
        """What there was to search then. A market that came later changes no plan."""
        if self._archive is None:
            return wording.Known(frozenset({KALSHI}))
        markets = self._connected().gateway.at(at).markets()
        ids = frozenset(market.native_id for market in markets)
        untold = sum(market.question is None for market in markets)
        pages = {market.url.rstrip("/"): market.id for market in markets if market.url}
        venues = frozenset(market.venue for market in markets)
        return wording.Known(venues, ids, untold, pages, documents=True)

    def _task(
        self, args: Mapping[str, Any], outputs: Mapping[str, Any], context: StepContext
    ) -> Mapping[str, object]:
        """Run one agent. Its output's id is claimed under the task's name, once."""
        task, root = Task.read(args), self._workspace.home.root
        agent, inputs = find_agent(task.agent), dict(task.inputs)
        for name, other in files_named(task.inputs):
            inputs[name] = outputs[other]["output_file_path"]
        number, begun = self._claimed(task), parse_instant(outputs[PLAN]["as_of"])
        ran = run_agent(
            agent, inputs, self._agent_context(context, begun), tools=task.tools, number=number
        )
        path = written(ran.path, root)
        content, said = ran.path.read_bytes(), ran.output.model_dump(mode="json")
        kept = {"data": said["data"]}
        if len(content) > LARGEST_KEPT:
            kept = {"left_out": f"{len(content):,} bytes: they are in output_file_path"}
        return {
            "output_file_path": path,
            "rows": ran.output.metadata.row_count,
            "digest": digest(content),
            "metadata": said["metadata"],
            **kept,
        }

    @property
    def _notes(self) -> Path:
        """Which id each task has claimed, while the run is under way."""
        mark = digest([self.fingerprint])[:12]  # Another question may have had the name before.
        return self._workspace.home.engine / "ask" / f"{self.folder.run_id}-{mark}"

    def _claimed(self, task: Task) -> int:
        """The id of a task's output: the one that an earlier attempt claimed, else a new one."""
        note = self._notes / f"{task.id}.id"
        if note.is_file():
            return int(note.read_text())
        number = self._bus.agent(task.agent).manifest.increment()
        write_atomic(note, str(number).encode())
        return number

    def _agent_context(self, context: StepContext, begun: datetime) -> AgentContext:
        """What a task's agent works with. A search's ratings are asked while a tool is called, so
        they take no slot of their own."""
        request, workspace, opened = self._request, self._workspace, self._connected()
        storage = Storage(workspace.home, request.mode, opened.live, opened.traffic)
        if (rater := self._client(context.within())) is not None:
            storage.scorer = partial(rate, rater)
        box = Toolbox(opened.gateway, storage, self._at, bounded=False)
        root, model = workspace.home.root, self._client(context)
        return AgentContext(self._bus, box, root, workspace.clock, context, begun, model)

    def _connected(self) -> Connection:
        """The world's connection, opened once: tasks run side by side, and a second one would not
        be closed."""
        with self._opening:
            if self._opened is None:
                request = self._request
                self._opened = connect(self._workspace, request.mode, request.archive)
            return self._opened

    def _answer(
        self, _: Mapping[str, Any], outputs: Mapping[str, Any], context: StepContext
    ) -> Mapping[str, object]:
        """One answer from the outputs on the bus."""
        made, root = outputs[PLAN], self._workspace.home.root
        tasks = [Task.read(row) for row in made["tasks"]]
        found: dict[str, tuple[str, OutputEnvelope]] = {}
        for task in tasks:
            if task.id in outputs:
                path = outputs[task.id]["output_file_path"]
                found[task.id] = (path, _unchanged(root / path, outputs[task.id]["digest"]))
        rows = context.journal.tasks(context.run_id, [task.id for task in tasks])
        failed = {row.task_id: (row.error or "").partition(": ")[2] for row in rows if row.error}
        stated = self._request.as_of is not None or self._archive is None
        question, untold = self._request.question, made.get("untold", "")
        answer = compose(question, made["as_of"], stated, tasks, found, failed, untold)
        answer["not_found"] += made.get("absent", [])
        answer |= {key: made[key] for key in ("planned_by", "note") if key in made}
        client = self._client(context)
        if self._model is not None and client is not None:
            answer["model"] = self._model.about(self._now)
            if self._request.review:
                answer["review"] = review(client, answer, {n: o for n, (_, o) in found.items()})
        write_json(self.folder.path / "answer.json", {**answer, "run_id": context.run_id})
        return {"files": self.folder.digests("answer.json")}
