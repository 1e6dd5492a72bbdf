"""A scout plan as a run: its nodes are steps, its artifacts the files of `data/runs/{run_id}/`.

A tool node is a step for each of its calls, which may run side by side and whose answers the
journal keeps, and one more that writes what they found. So a run that was killed at any node goes
on without calling a tool twice, and an artifact that was changed is made again from what is on
record, with what depends on it and nothing else. `steps.json` is the engine's plan; `plan.json` is
the scout's.
"""

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from beforehand.clock import iso, parse_instant
from beforehand.config import Workspace, WorldMode
from beforehand.engine.context import StepContext
from beforehand.engine.job import RunLimits, job
from beforehand.engine.plan import Action, Plan, Step
from beforehand.errors import BeforehandError, InputError, NotFound
from beforehand.gateway.opening import Connection, connect
from beforehand.ids import digest
from beforehand.jobs.model_client import OpenedModel
from beforehand.jobs.scout.drawing import page
from beforehand.jobs.scout.reading import (
    COLLECTED,
    REPORT,
    ancestors,
    branches,
    check_instants,
    read_plan,
)
from beforehand.jobs.scout.scout_agent import ScoutAgent
from beforehand.llm.prompt import ModelClient
from beforehand.records.plan import PLAN_FILE, NodeSpec, ScoutPlan, Window
from beforehand.runs.evidence import (
    THREADS,
    Document,
    document_of,
    file_name,
    merged,
    rows_of,
)
from beforehand.store.archive.reader import Archive
from beforehand.store.files import read_json, write_atomic, write_json
from beforehand.store.run_folder import STEPS, RunFolder
from beforehand.tools.discovery import load_tools
from beforehand.tools.metered import metered
from beforehand.tools.registry import Toolbox
from beforehand.tools.storage import Storage

LOG = logging.getLogger(__name__)

PLAN, CALL, COLLECT, THINK, ACT = "plan", "call", "collect", "think", "act"


@dataclass(frozen=True)
class ScoutRequest:
    """A plan to carry out, or a `subject` that a model plans for; as of an instant (None: in replay
    the archive's last one, without an archive and live now)."""

    archive: Path
    plan: dict[str, Any] | None = None
    subject: str | None = None
    time_window: Window | None = None
    keywords: tuple[str, ...] = ()
    subreddits: tuple[str, ...] = ()
    as_of: datetime | None = None
    mode: WorldMode = "replay"
    limits: RunLimits = field(default_factory=RunLimits)
    model: str | None = None


@job("scout", ScoutRequest)
class ScoutJob:
    """The steps of a plan's nodes, and what each of them does."""

    mends = True

    def __init__(self, request: ScoutRequest, run_id: str, workspace: Workspace) -> None:
        self.folder = RunFolder(workspace.home.runs, run_id)
        self._request, self._workspace = request, workspace
        replay = request.mode == "replay"
        self._archive = Archive(request.archive) if replay and request.archive.exists() else None
        self._at = request.as_of
        if self._at is None and self._archive is not None:
            self._at = self._archive.last_known()
        self._model = None
        if request.model is not None:
            self._model = OpenedModel(request.model, request.limits, workspace)
        self._opened: Connection | None = None
        self._opening = threading.Lock()
        load_tools()
        self._scout: ScoutPlan | None = None
        self.plan = Plan(run_id, [Step(PLAN, PLAN, {}, here=True, grows=True)])
        if request.plan is not None:
            self._compile(request.plan)
        self.actions: Mapping[str, Action] = {
            PLAN: self._plan,
            CALL: self._call,
            COLLECT: self._collect,
            THINK: self._think,
            ACT: self._act,
        }

    @property
    def fingerprint(self) -> str:
        """The plan or the subject, the instant, the model, and the world."""
        request = self._request
        world = None if self._archive is None else self._archive.digest
        at = None if self._at is None else iso(self._at)
        asked = [request.subject, request.time_window, request.keywords, request.subreddits]
        return digest([request.plan, asked, at, request.mode, world, request.model])

    @property
    def paid(self) -> Mapping[str, int]:
        """Nothing that is known beforehand."""
        return {}

    def _compile(self, raw: Mapping[str, Any]) -> None:
        """The steps of a plan, under the run's own id."""
        run_id = self.plan.run_id
        plan = read_plan({**raw, "dag": {**raw["dag"], "run_id": run_id}})
        check_instants(plan, self._at)
        steps: list[Step] = []
        for node in plan.dag.nodes:
            deps = tuple(node.deps)
            if node.type == "agent":
                action = node.stage or ""
                grows = self._request.plan is None and action == PLAN
                steps.append(Step(node.id, action, {}, deps, here=True, grows=grows))
                continue
            calls = []
            for n, branch in enumerate(branches(plan, node), start=1):
                args = {"tool": node.tool, "by": branch.by, "value": branch.value}
                args["arguments"] = dict(branch.arguments)
                calls.append(Step(f"{node.id}/{n:03d}", CALL, args, deps))
            after = (*deps, *(step.id for step in calls))
            steps += [*calls, Step(node.id, COLLECT, {"tool": node.tool}, after, here=True)]
        self._scout, self.plan = plan, Plan(run_id, steps)

    def grow(self, outputs: Mapping[str, Any]) -> None:
        """The steps of a plan that a model made."""
        if PLAN in outputs and self._request.plan is None:
            self._compile(outputs[PLAN]["plan"])

    def prepare(self) -> None:
        """Write the plan, as far as it is made. The one that is there stays as it is, unless it is
        not the run's: then it is put back, with a warning."""
        self.folder.claim()
        write_json(self.folder.path / STEPS, self.plan.wire())
        path = self.folder.path / PLAN_FILE
        if self._scout is None or _holds(path, self._scout):
            return
        if path.exists():
            LOG.warning(
                "%s is not the plan that the run began with, and is put back: give a changed one "
                "to `scout run`, as another run", path,
            )  # fmt: skip
        write_json(path, self._scout.wire())

    def seal(self) -> dict[str, str]:
        """Write the last files of a finished run: the page, and the seal."""
        plan = self._planned()
        last = [n for n in plan.dag.nodes if n.type == "agent" and n.stage == ACT][-1:]
        output = read_json(self.folder.path / last[0].artifact) if last else None
        write_atomic(self.folder.path / REPORT, page(plan, output).encode())
        found = "" if self._archive is None else self._archive.digest
        return self.folder.seal("scout", found, {"subject": plan.target_market})

    def summary(self) -> dict[str, Any]:
        """The plan, and what the last nodes made."""
        plan = self._planned()
        made = {}
        for node in plan.dag.nodes:
            if node.type == "agent" and node.stage != PLAN:
                made[node.id] = read_json(self.folder.path / node.artifact)
        return {"run_id": self.folder.run_id, "plan": plan.wire(), "artifacts": made}

    def close(self) -> None:
        """Store what was recorded, and close the model's connections."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None
        if self._model is not None:
            self._model.close()

    def _planned(self) -> ScoutPlan:
        if self._scout is None:
            self._scout = read_plan(self.folder.path / PLAN_FILE)
        return self._scout

    def _node(self, context: StepContext) -> NodeSpec:
        name = context.task_id.partition("/")[0]
        return next(node for node in self._planned().dag.nodes if node.id == name)

    def _instant(self, context: StepContext) -> datetime:
        """As of when: the pin, else when the run was begun."""
        if self._at is not None:
            return self._at
        return parse_instant(context.journal.known_run(context.run_id).created_at)

    def _agent(self, context: StepContext) -> ScoutAgent:
        """The scout, with its model around the run's journal."""
        client: ModelClient | None = None
        if self._model is not None:
            client = self._model.client(context)
        return ScoutAgent(client)

    def _plan(
        self, _: Mapping[str, Any], __: Mapping[str, Any], context: StepContext
    ) -> Mapping[str, object]:
        """The plan that was given, which `prepare` wrote; or a model's."""
        request = self._request
        if request.plan is not None:
            return {"files": self.folder.digests(PLAN_FILE)}
        made = self._agent(context).plan(
            request.subject or "",
            at=self._instant(context),
            run_id=context.run_id,
            time_window=request.time_window,
            keywords=request.keywords,
            subreddits=request.subreddits,
        )
        return {"plan": made.wire(), "planned_by": request.model}

    def _call(
        self, args: Mapping[str, Any], _: Mapping[str, Any], context: StepContext
    ) -> Mapping[str, object]:
        """One call of a tool; its answer is on record before anything reads it."""
        content, error = self._answer(args, context)
        return {"error": error} if content is None else {"digest": digest(content)}

    def _answer(
        self, args: Mapping[str, Any], context: StepContext
    ) -> tuple[dict[str, Any] | None, str]:
        """(the answer on record or of the tool, "") or (None, what was not found)."""
        opened = self._connected()
        storage = Storage(self._workspace.home, self._request.mode, opened.live, opened.traffic)
        box = Toolbox(opened.gateway, storage, self._at, bounded=False)
        try:
            return metered(box, context, args["tool"], args["arguments"]), ""
        except NotFound as error:
            return None, str(error)

    def _collect(
        self, args: Mapping[str, Any], _: Mapping[str, Any], context: StepContext
    ) -> Mapping[str, object]:
        """Write what the calls of a node found: an index by path, and the files that it names."""
        node, plan = self._node(context), self._planned()
        at, folder = self._instant(context), f"{COLLECTED}/{node.id}"
        tool = load_tools()[args["tool"]]
        calls: list[dict[str, Any]] = []
        documents: list[Document] = []
        files: dict[str, Any] = {}
        for n, branch in enumerate(branches(plan, node), start=1):
            asked = {"tool": node.tool, "arguments": dict(branch.arguments)}
            content, error = self._answer(asked, context)
            call: dict[str, Any] = {"by": branch.by, "value": branch.value, **asked}
            calls.append(call)
            if content is None:
                call["error"], call["rows"] = error, 0
                continue
            meta = content.pop("_meta", {})
            found = rows_of(content)
            call["rows"], call["notes"] = len(found), list(meta.get("notes", ()))
            whole = THREADS not in content
            if whole:
                call["path"] = f"{folder}/{n:03d}.json"
                files[call["path"]] = {"arguments": asked["arguments"], "answer": content}
            for number, row in enumerate(found):
                path = call["path"] if whole else f"{folder}/{file_name(row)}"
                place = number if whole else None
                one = document_of(
                    tool, row, at, self._named(path), place,
                    by=branch.value, pinned=self._at is not None,
                )  # fmt: skip
                if not whole:
                    files[path] = row
                if one is not None:
                    documents.append(one)
            if whole:
                call["path"] = self._named(call["path"])
        listed = [one.wire() for one in merged(documents)]
        kind = THREADS if tool.server == "reddit" else "documents"
        index = {
            "node": node.id,
            "tool": tool.name,
            "as_of": iso(at),
            "world": self._request.mode,
            "calls": calls,
            kind: listed,
        }
        for path, content in files.items():
            write_json(self.folder.path / path, content)
        write_json(self.folder.path / node.artifact, index)
        return {"files": self.folder.digests(node.artifact, *files), kind: len(listed)}

    def _named(self, path: str) -> str:
        """A file of the run as artifacts name it: from the home folder on."""
        root = self._workspace.home.root
        return (self.folder.path / path).relative_to(root).as_posix()

    def _think(
        self, _: Mapping[str, Any], __: Mapping[str, Any], context: StepContext
    ) -> Mapping[str, object]:
        """The analysis of everything that the nodes before it collected."""
        node, plan = self._node(context), self._planned()
        before, root = ancestors(plan)[node.id], self._workspace.home.root
        documents: list[Document] = []
        calls: list[dict[str, Any]] = []
        for one in plan.dag.nodes:
            if one.type == "tool" and one.id in before:
                index = read_json(self.folder.path / one.artifact)
                rows = index.get(THREADS, index.get("documents", ()))
                documents += [Document.read(row, root) for row in rows]
                calls += index["calls"]
        made = self._agent(context).think(plan, merged(documents), calls)
        return self._written(node, {**made, "as_of": iso(self._instant(context))})

    def _act(
        self, _: Mapping[str, Any], __: Mapping[str, Any], context: StepContext
    ) -> Mapping[str, object]:
        """The last word, from the analyses before it."""
        node, plan = self._node(context), self._planned()
        before = ancestors(plan)[node.id]
        thought = [one for one in plan.dag.nodes if one.id in before and one.stage == THINK]
        if not thought:
            raise InputError(f"node {node.id} acts on an analysis: let it depend on a think node")
        made = self._agent(context).act(
            plan, read_json(self.folder.path / thought[-1].artifact), self._instant(context)
        )
        world = {"world": self._request.mode, "run_id": context.run_id}
        return self._written(node, {**made, **world})

    def _written(self, node: NodeSpec, content: Mapping[str, Any]) -> Mapping[str, object]:
        write_json(self.folder.path / node.artifact, content)
        return {"files": self.folder.digests(node.artifact)}

    def _connected(self) -> Connection:
        """The world's connection, opened once for all steps of this process."""
        with self._opening:
            if self._opened is None:
                request = self._request
                self._opened = connect(self._workspace, request.mode, request.archive)
            return self._opened


def _holds(path: Path, plan: ScoutPlan) -> bool:
    """Whether a file of its own is this plan."""
    try:
        return not path.is_symlink() and read_json(path) == plan.wire()
    except (BeforehandError, OSError):
        return False
