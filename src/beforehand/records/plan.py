"""The scout plan, `scout_plan_v1`: what `ScoutAgent.plan()` emits. `code` is kept, never run.

Every fault of a plan is told with its place in the file, such as `dag.nodes[2].deps`.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from beforehand.errors import InputError
from beforehand.ids import check_segment, is_segment
from beforehand.records.record import Record

PER_QUERY_LIMIT, MOST_PER_QUERY, COMMENT_DEPTH, COMMENT_LIMIT = 25, 100, 2, 50
PerQuery = Annotated[int, Field(ge=1, le=MOST_PER_QUERY, description="Most threads a keyword.")]
Depth = Annotated[int, Field(ge=0, le=20, description="Levels of replies.")]
Comments = Annotated[int, Field(ge=0, le=500, description="Most comments a thread.")]
LeastComments = Annotated[
    int, Field(ge=0, description="Only threads with at least so many comments.")
]
LeastScore = Annotated[int, Field(description="Only threads with at least this score.")]
Window = Annotated[
    Literal["3m", "6m", "12m", "24m", "all"],
    Field(description="How old a thread may be at the instant."),
]
"""The limits of a plan and of the Reddit tools, stated here for both."""

AGENTS = ("scout", "scout_agent")
"""Two names of one agent."""
PLAN_FILE = "plan.json"
FILES = {"plan": PLAN_FILE, "think": "scout_think.json", "act": "scout_output.json"}
"""What an agent node writes where it names no output."""


class ScoutLimits(Record):
    """Quality filters and caps of the collection."""

    per_query_limit: PerQuery = PER_QUERY_LIMIT
    comment_depth: Depth = COMMENT_DEPTH
    comment_limit: Comments = COMMENT_LIMIT
    min_num_comments: LeastComments = 0
    min_score: LeastScore = 0


class NodeSpec(Record):
    """One node: an agent at a stage, or an exact tool name with its params."""

    id: str = Field(min_length=1)
    type: Literal["agent", "tool"]
    agent: str | None = None
    stage: Literal["plan", "think", "act"] | None = None
    tool: str | None = None
    params: dict[str, Any] | None = None
    code: str | None = None
    parallelize_by: str | None = None
    inputs: dict[str, Any] = Field(default_factory=dict)
    outputs: list[str] = Field(default_factory=list)
    deps: list[str] = Field(default_factory=list)

    @property
    def artifact(self) -> str:
        """The file that it writes."""
        if self.outputs:
            return self.outputs[0]
        return FILES[self.stage] if self.type == "agent" and self.stage else f"{self.id}.json"

    def faults(self) -> list[tuple[str, str]]:
        """(field, what is wrong) of this node by itself."""
        found = []
        if not is_segment(self.id):
            found.append(("id", f"{self.id!r} must be one plain name: letters, digits, '_' or '-'"))
        for n, name in enumerate(self.outputs):
            if not is_segment(name):
                found.append((f"outputs[{n}]", f"{name!r} must be a plain file name in the run"))
        if self.type == "tool" and not self.tool:
            found.append(("tool", "a tool node names the tool that it calls"))
        if self.type == "agent":
            if not self.agent:
                found.append(("agent", f"an agent node names its agent: {AGENTS[0]}"))
            elif self.agent not in AGENTS:
                found.append(("agent", f"there is no agent {self.agent!r}: name {AGENTS[0]}"))
            if not self.stage:
                found.append(("stage", "an agent node has a stage: plan, think or act"))
        return found


class Dag(Record):
    """Nodes in order; every dependency names a node of the same plan, and nothing is circular."""

    run_id: str
    nodes: list[NodeSpec] = Field(min_length=1)

    @model_validator(mode="after")
    def _whole(self) -> "Dag":
        if found := self.faults():
            raise ValueError("; ".join(f"{place}: {said}" for place, said in found))
        return self

    def faults(self) -> list[tuple[str, str]]:
        """(place below `dag`, what is wrong) of the nodes, each by itself and together."""
        found = []
        try:
            check_segment(self.run_id)
        except InputError as error:
            found.append(("run_id", str(error)))
        first, written = dict[str, int](), dict[str, int]()
        for n, node in enumerate(self.nodes):
            found += [(f"nodes[{n}].{field}", said) for field, said in node.faults()]
            if node.id in first:
                found.append((f"nodes[{n}].id", f"nodes[{first[node.id]}] is {node.id!r} already"))
            first.setdefault(node.id, n)
            for k, name in enumerate(node.outputs):
                if name in written:
                    said = f"nodes[{written[name]}] writes {name!r} already"
                    found.append((f"nodes[{n}].outputs[{k}]", said))
                written.setdefault(name, n)
        for n, node in enumerate(self.nodes):
            for k, name in enumerate(node.deps):
                if name not in first:
                    found.append((f"nodes[{n}].deps[{k}]", f"there is no node {name!r}"))
        return found or self._circles()

    def _circles(self) -> list[tuple[str, str]]:
        deps = {node.id: set(node.deps) for node in self.nodes}
        while ready := {name for name, needs in deps.items() if not needs}:
            deps = {name: needs - ready for name, needs in deps.items() if name not in ready}
        if not deps:
            return []
        n = next(n for n, node in enumerate(self.nodes) if node.id in deps)
        return [(f"nodes[{n}].deps", f"nodes wait for each other in a circle: {', '.join(deps)}")]


class ScoutPlan(Record):
    """The whole plan object."""

    schema_: Literal["scout_plan_v1"] = Field(alias="schema")
    version: str | None = None
    target_market: str = Field(min_length=1)
    time_window: Window
    sources: list[str]
    keywords: list[str]
    subreddits: list[str] = Field(default_factory=list)
    limits: ScoutLimits = ScoutLimits()
    dag: Dag


SCOUT_PLAN = Path(__file__).resolve().parents[1] / "schemas" / "scout_plan_v1.json"


def scout_plan_schema() -> str:
    """The schema file's text; a test compares the shipped file with it."""
    schema = ScoutPlan.model_json_schema(by_alias=True)
    return json.dumps({"$id": "scout_plan_v1", **schema}, indent=2, sort_keys=True) + "\n"
