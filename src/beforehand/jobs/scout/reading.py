"""A scout plan from a file or from a model: every fault with its place, before anything is called.

A tool node calls its tool once, or once for each value that it fans out by. The arguments of a call
are, the later over the earlier: the plan's own keywords, subreddits, time window and limits where
the tool takes them; the node's `inputs`; its `params`; the value of the branch. `{keyword}` in a
text of `params` stands for that value.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from beforehand.clock import iso, parse_instant
from beforehand.errors import InputError
from beforehand.records.plan import PLAN_FILE, NodeSpec, ScoutLimits, ScoutPlan
from beforehand.store.files import read_json
from beforehand.store.run_folder import LOG, SEAL, STEPS
from beforehand.tools.discovery import load_tools
from beforehand.tools.registry import Tool

COLLECTED, REPORT = "collected", "report.html"
RESERVED = frozenset((SEAL, LOG, STEPS, REPORT, COLLECTED))
FANS = {"keyword": "keywords", "subreddit": "subreddits", "source": "sources"}
"""What the branches of a node may go by, and the field of the plan that holds the values."""
MOST_NODES, MOST_BRANCHES = 50, 100


@dataclass(frozen=True)
class Branch:
    """One call of a tool node: what it fans out by, the value, and the tool's arguments."""

    by: str | None
    value: Any
    arguments: Mapping[str, Any]


def read_plan(given: Path | Mapping[str, Any]) -> ScoutPlan:
    """A plan that can be carried out. Raises InputError with every fault, its place and what to
    do about it."""
    raw = read_json(given) if isinstance(given, Path) else given
    where = f"{given}: " if isinstance(given, Path) else ""
    if not isinstance(raw, Mapping):
        raise InputError(f"{where}a scout plan is a JSON object with the schema scout_plan_v1")
    try:
        plan = ScoutPlan.model_validate(dict(raw))
    except ValidationError as error:
        raise InputError(where + "; ".join(dict.fromkeys(_told(error)))) from None
    except RecursionError:
        raise InputError(f"{where}the plan is nested too deeply") from None
    if found := list(_faults(plan)):
        raise InputError(where + "; ".join(found))
    return plan


def _told(error: ValidationError) -> Iterator[str]:
    """Each fault as `dag.nodes[1].deps: what is wrong`."""
    for one in error.errors():
        said = one["msg"].removeprefix("Value error, ")
        place = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in one["loc"]).lstrip(".")
        if place == "dag" and one["type"] == "value_error":
            yield from (f"dag.{part}" for part in said.split("; "))
        elif one["type"] == "missing":
            yield f"{place}: it is missing, name it"
        else:
            given = repr(one.get("input"))
            shown = given if len(given) <= 60 else given[:60] + "…"
            yield f"{place or 'the plan'}: {said[:1].lower()}{said[1:]} (given {shown})"


def _faults(plan: ScoutPlan) -> Iterator[str]:
    """What the schema cannot say: artifacts, inputs, and calls against the tools that there are."""
    nodes = plan.dag.nodes
    if len(nodes) > MOST_NODES:
        yield f"dag.nodes: {len(nodes)} nodes, at most {MOST_NODES} can be"
        return
    if sum(node.stage == "plan" for node in nodes if node.type == "agent") > 1:
        yield "dag.nodes: one node at most has the stage plan"
    written: dict[str, NodeSpec] = {}
    for n, node in enumerate(nodes):
        yield from (f"dag.nodes[{n}].{said}" for said in _output_faults(node, written))
        written[node.artifact] = node
    before = ancestors(plan)
    for n, node in enumerate(nodes):
        for said in (*_input_faults(node, written, before), *_call_faults(plan, node, written)):
            yield f"dag.nodes[{n}].{said}"


def _output_faults(node: NodeSpec, written: Mapping[str, NodeSpec]) -> Iterator[str]:
    name = node.artifact
    if len(node.outputs) > 1:
        yield f"outputs: a node writes one artifact; give {node.outputs[1]!r} to another node"
    if name in RESERVED or name.startswith("."):
        yield f"outputs[0]: {name!r} is a name that every run uses itself; choose another"
    planning = node.type == "agent" and node.stage == "plan"
    if planning != (name == PLAN_FILE):
        yield f"outputs[0]: {PLAN_FILE} is the output of the node with the stage plan, and its only"
    if name in written and not node.outputs:
        yield f"outputs: {written[name].id} writes {name!r} already; name another"


def _input_faults(
    node: NodeSpec, written: Mapping[str, NodeSpec], before: Mapping[str, set[str]]
) -> Iterator[str]:
    for key, value in node.inputs.items():
        if not isinstance(value, str):
            continue
        if value in written:
            owner = written[value].id
            if owner not in before[node.id]:
                yield f"inputs.{key}: {value!r} is written by {owner}: add {owner!r} to deps"
        elif (value.endswith((".json", ".jsonl")) or "/" in value) and (
            node.type == "agent" or key not in _takes(node)
        ):
            yield f"inputs.{key}: no node writes {value!r}; name an output of this plan"


def check_instants(plan: ScoutPlan, at: datetime | None) -> None:
    """Raises InputError where a node asks for an instant after the run's (None: live)."""
    for n, node in enumerate(plan.dag.nodes):
        asked = (node.params or {}).get("as_of")
        if node.type != "tool" or not isinstance(asked, str):
            continue
        place = f"dag.nodes[{n}].params: as_of"
        try:
            instant = parse_instant(asked)
        except ValueError as error:
            raise InputError(f"{place}: {error}") from None
        if at is not None and instant > at:
            raise InputError(f"{place} {asked} lies after {iso(at)}, as of which the run answers")


def ancestors(plan: ScoutPlan) -> dict[str, set[str]]:
    """The nodes that each node waits for, directly or not."""
    deps = {node.id: set(node.deps) for node in plan.dag.nodes}
    found: dict[str, set[str]] = {}

    def of(name: str) -> set[str]:
        if name not in found:
            found[name] = deps[name].union(*(of(dep) for dep in deps[name]))
        return found[name]

    return {name: of(name) for name in deps}


def _takes(node: NodeSpec) -> Mapping[str, object]:
    tool = load_tools().get(node.tool or "")
    return {} if tool is None else tool.model.model_fields


def _call_faults(plan: ScoutPlan, node: NodeSpec, written: Mapping[str, NodeSpec]) -> Iterator[str]:
    if node.type == "agent":
        if node.parallelize_by is not None:
            yield "parallelize_by: an agent reads all branches at once; leave it to tool nodes"
        return
    tool = load_tools().get(node.tool or "")
    if tool is None:
        yield f"tool: there is no tool {node.tool!r}: `beforehand tool` lists them"
        return
    for key, value in node.inputs.items():
        named = isinstance(value, str) and value in written
        if not named and key not in tool.model.model_fields:
            yield f"inputs.{key}: {tool.name} takes no {key!r}, and no node writes it"
    try:
        made = branches(plan, node)
    except InputError as error:
        yield str(error)
        return
    for branch in made:
        try:
            tool.validate(branch.arguments)
        except InputError as error:
            at = "" if branch.by is None else f" ({branch.by} {branch.value!r})"
            yield f"params: {error}{at}"
            return


def branches(plan: ScoutPlan, node: NodeSpec) -> list[Branch]:
    """The calls of a tool node, in the plan's order. Raises InputError that begins with the field,
    where the node cannot be fanned out."""
    tool, by = load_tools()[node.tool or ""], _fan(node)
    given = {
        **{key: value for key, value in node.inputs.items() if key in tool.model.model_fields},
        **(node.params or {}),
    }
    if by is None:
        filled = _filled(plan, tool, given)
        if "keywords" in tool.model.model_fields and not {"keyword", "keywords"} & filled.keys():
            raise InputError(f"params: {tool.name} needs a keyword: name one in keywords")
        return [Branch(None, None, filled)]
    values = list(dict.fromkeys(_values(plan, node, given, by)))
    if len(values) > MOST_BRANCHES:
        raise InputError(f"parallelize_by: {len(values)} branches, at most {MOST_BRANCHES} can be")
    return [Branch(by, value, _branched(plan, tool, given, by, value)) for value in values]


def _fan(node: NodeSpec) -> str | None:
    by = node.parallelize_by
    return next((one for one, many in FANS.items() if many == by), by)


def _values(plan: ScoutPlan, node: NodeSpec, given: Mapping[str, Any], by: str) -> list[Any]:
    found = getattr(plan, FANS[by]) if by in FANS else given.get(by)
    if by not in FANS and not isinstance(found, list):
        raise InputError(
            f"parallelize_by: {by!r} is none of {', '.join(FANS)}, and no list in params"
        )
    if not found:
        raise InputError(f"parallelize_by: the plan has no {FANS.get(by, by)}; name at least one")
    if any(isinstance(value, (list, dict)) for value in found):
        raise InputError(f"parallelize_by: the values of {by!r} are texts or numbers")
    return list(found)


def _branched(
    plan: ScoutPlan, tool: Tool, given: Mapping[str, Any], by: str, value: Any
) -> dict[str, Any]:
    mark, takes = f"{{{by}}}", tool.model.model_fields
    inserted = {key: _inserted(one, mark, str(value)) for key, one in given.items()}
    if inserted == dict(given):
        if by in takes:
            inserted[by] = value
        elif (many := FANS.get(by)) in takes:
            inserted[str(many)] = [value]
        else:
            raise InputError(
                f"parallelize_by: {tool.name} takes no {by!r}; write {mark} where it belongs, such "
                f'as "params": {{"query": "{mark}"}}'
            )
    if by == "keyword" and "keyword" in inserted:
        inserted.pop("keywords", None)
    return _filled(plan, tool, inserted)


def _inserted(value: Any, mark: str, by: str) -> Any:
    if isinstance(value, str):
        return value.replace(mark, by)
    if isinstance(value, list):
        return [_inserted(one, mark, by) for one in value]
    if isinstance(value, dict):
        return {key: _inserted(one, mark, by) for key, one in value.items()}
    return value


def _filled(plan: ScoutPlan, tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """The plan's own fields where the tool takes them and the node says nothing else."""
    takes = tool.model.model_fields
    own: dict[str, Any] = {"time_window": plan.time_window, "subreddits": list(plan.subreddits)}
    own |= {name: getattr(plan.limits, name) for name in ScoutLimits.model_fields}
    if "keyword" not in given and plan.keywords:
        own["keywords"] = list(plan.keywords)
    if tool.rows is not None and "per_query_limit" in takes:
        own["limit"] = tool.rows.maximum  # What the plan's own limits let through is all kept.
    return {**{name: value for name, value in own.items() if name in takes}, **given}
