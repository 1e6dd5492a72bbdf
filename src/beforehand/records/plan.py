"""The scout plan, `scout_plan_v1`: what `ScoutAgent.plan()` emits. `code` is kept, never run."""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from beforehand.errors import InputError
from beforehand.ids import check_segment
from beforehand.records.record import Record


class ScoutLimits(Record):
    """Quality filters and caps of the collection."""

    per_query_limit: int = Field(default=25, ge=0)
    comment_depth: int = Field(default=2, ge=0)
    comment_limit: int = Field(default=50, ge=0)
    min_num_comments: int = Field(default=0, ge=0)
    min_score: int = Field(default=0)


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

    @model_validator(mode="after")
    def _named(self) -> "NodeSpec":
        if self.type == "tool" and not self.tool:
            raise ValueError(f"node {self.id!r} is a tool node without a tool name")
        return self


class Dag(Record):
    """Nodes in order; every dependency names a node of the same plan, and nothing is circular."""

    run_id: str
    nodes: list[NodeSpec]

    @model_validator(mode="after")
    def _acyclic(self) -> "Dag":
        try:
            check_segment(self.run_id)
        except InputError as error:
            raise ValueError(str(error)) from error
        deps = {node.id: set(node.deps) for node in self.nodes}
        if len(deps) != len(self.nodes):
            raise ValueError("two nodes share an id")
        for name, needs in deps.items():
            if unknown := sorted(needs - deps.keys()):
                raise ValueError(
                    f"node {name!r} depends on {unknown[0]!r}, which is not in the plan"
                )
        while deps:
            ready = {name for name, needs in deps.items() if not needs}
            if not ready:
                raise ValueError(f"nodes depend on each other in a circle: {sorted(deps)}")
            deps = {name: needs - ready for name, needs in deps.items() if name not in ready}
        return self


class ScoutPlan(Record):
    """The whole plan object."""

    schema_: Literal["scout_plan_v1"] = Field(alias="schema")
    version: str | None = None
    target_market: str
    time_window: Literal["3m", "6m", "12m", "24m", "all"]
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
