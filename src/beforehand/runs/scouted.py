"""A scout run, read back: its documents, its trace, and the checks of its artifacts."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from beforehand.clock import parse_instant
from beforehand.errors import BeforehandError
from beforehand.records.plan import PLAN_FILE, NodeSpec, ScoutPlan
from beforehand.runs.evidence import THREADS, Document
from beforehand.runs.traces.galileo import call_span, facts_of, identity, said_as_text, took
from beforehand.store.files import read_json
from beforehand.store.journal.journal import Journal
from beforehand.store.run_folder import RunFolder

KIND = "scout"
COLUMNS = {
    "id": "VARCHAR",
    "title": "VARCHAR",
    "text": "VARCHAR",
    "url": "VARCHAR",
    "source": "VARCHAR",
    "published_at": "VARCHAR",
    "captured_at": "VARCHAR",
    "captured_how": "VARCHAR",
}
"""A document's columns, as `world import documents` reads them; `captured_at` is since when it was
known."""


def is_scouted(folder: RunFolder) -> bool:
    """True for a finished scout run."""
    return folder.facts().get("kind") == KIND


def unchanged(folder: RunFolder) -> None:
    """Raises InputError for a finished run of which a file was changed: it is not shown as what the
    run made."""
    folder.unchanged(f"`beforehand scout resume {folder.run_id}` makes it again")


def plan_of(folder: RunFolder) -> ScoutPlan:
    """The run's plan. Raises InputError and ValueError where it cannot be read."""
    return ScoutPlan.model_validate(read_json(folder.path / PLAN_FILE))


def home_of(folder: RunFolder) -> Path:
    """The home folder, from which artifacts name files (`data/runs/{run_id}/…`)."""
    return folder.path.parent.parent.parent


def documents(folder: RunFolder) -> Iterator[Mapping[str, object]]:
    """Every document that was collected, once, with its text."""
    root, seen = home_of(folder), set[str]()
    for node in plan_of(folder).dag.nodes:
        for entry in _listed(folder, node):
            one = Document.read(entry, root)
            name = f"{one.source}:{one.id}"
            if name in seen:
                continue
            seen.add(name)
            yield {
                "id": name,
                "title": one.title,
                "text": one.text,
                "url": one.url,
                "source": one.source,
                "published_at": one.published_at,
                "captured_at": one.known_at,
                "captured_how": f"scout {folder.run_id}",
            }


def _listed(folder: RunFolder, node: NodeSpec) -> Sequence[Mapping[str, Any]]:
    """The documents in the index of a tool node."""
    if node.type != "tool":
        return ()
    index = read_json(folder.path / node.artifact)
    found: Sequence[Mapping[str, Any]] = index.get(THREADS, index.get("documents", ()))
    return found


def trace(folder: RunFolder, journal: Journal | None) -> Mapping[str, object]:
    """The run as one trace: a span for each node with the times of the journal, and in it a span
    for each call on record, of a tool or of a model."""
    plan = plan_of(folder)
    times = {} if journal is None else {s["task_id"]: s for s in journal.spans(folder.run_id)}
    calls = [] if journal is None else journal.calls.rows(folder.run_id)
    seed, facts = f"beforehand/{folder.run_id}", facts_of(plan.target_market, None)
    output = _output(folder, plan)
    spans = []
    for node in plan.dag.nodes:
        span = times.get(node.id)
        own = [c for c in calls if c["task_id"].partition("/")[0] == node.id]
        spans.append(
            {
                "type": "agent" if node.type == "agent" else "workflow",
                **({"agent_type": "default"} if node.type == "agent" else {}),
                "input": said_as_text(node.wire()),
                "output": said_as_text(
                    {"artifact": node.artifact, "documents": len(_listed(folder, node))}
                ),
                "name": node.tool or f"scout {node.stage}",
                "created_at": output["as_of"] if span is None else span["started_at"],
                "user_metadata": {"node": node.id},
                "tags": [] if span is None or span["status"] == "success" else ["failed"],
                "metrics": took(span),
                **facts,
                "id": identity(seed, f"node/{node.id}"),
                "spans": [call_span(call, facts, seed) for call in own],
            }
        )
    return {
        "type": "trace",
        "input": plan.target_market,
        "output": said_as_text(output["sentences"]),
        "name": f"scout@{output['as_of']}",
        "created_at": output["as_of"],
        "user_metadata": {"run_id": folder.run_id},
        "tags": [KIND],
        "metrics": {},
        **facts,
        "id": identity(seed, "trace"),
        "spans": spans,
    }


def _output(folder: RunFolder, plan: ScoutPlan) -> Mapping[str, Any]:
    """What the last node that acts has said; of a plan without one, nothing."""
    for node in reversed(plan.dag.nodes):
        if node.type == "agent" and node.stage == "act":
            found: Mapping[str, Any] = read_json(folder.path / node.artifact)
            return found
    ended = read_json(folder.path / plan.dag.nodes[-1].artifact)
    return {"as_of": ended.get("as_of", ""), "sentences": [], "evidence": []}


def faults(folder: RunFolder) -> tuple[int, list[str]]:
    """(how many documents were checked, what is wrong): each is in its file as its index says, was
    known by the run's instant, and is quoted as it stands; sentences name documents that there are.
    """
    try:
        return _faults(folder)
    except (BeforehandError, AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        return 0, [f"an artifact cannot be read: {error!r:.200}"]


def _faults(folder: RunFolder) -> tuple[int, list[str]]:
    plan, root = plan_of(folder), home_of(folder)
    wrong, texts = list[str](), dict[tuple[str, str], str]()
    n = 0
    for node in plan.dag.nodes:
        if node.type != "tool":
            continue
        at = read_json(folder.path / node.artifact)["as_of"]
        for entry in _listed(folder, node):
            n += 1
            if not (root / entry["path"]).resolve().is_relative_to(folder.path.resolve()):
                wrong.append(f"{node.artifact}: {entry['path']} lies outside of the run")
                continue
            one = Document.read(entry, root)
            texts[one.source, one.id] = one.text
            if parse_instant(one.known_at) > parse_instant(at) and not _live(folder, node):
                wrong.append(f"{node.artifact}: {one.id} was known at {one.known_at}, after {at}")
    output = _output(folder, plan)
    for one in output["evidence"]:
        if one["quote"] not in texts.get((one["source"], one["id"]), ""):
            wrong.append(f"the quote of {one['id']} is not in its text")
    known = {one["id"] for one in output["evidence"]}
    for sentence in output["sentences"]:
        if lacking := set(sentence["documents"]) - known:
            wrong.append(f"a sentence names {sorted(lacking)[0]}, which is no evidence of the run")
    return n, wrong


def _live(folder: RunFolder, node: NodeSpec) -> bool:
    return bool(read_json(folder.path / node.artifact)["world"] != "replay")
