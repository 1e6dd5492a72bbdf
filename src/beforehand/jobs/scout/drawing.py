"""A plan's DAG for people: as a tree of text, as a picture, and on the page of a run."""

from collections.abc import Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from beforehand.jobs.scout.reading import branches
from beforehand.records.plan import NodeSpec, ScoutPlan

WIDE, TALL, ACROSS, DOWN, MARGIN = 210, 52, 60, 22, 12
"""Pixels: a box, the space between boxes, the margin."""


def drawn(plan: ScoutPlan, folder: Path | None = None) -> str:
    """The nodes, each below the last one that it waits for. With the folder of a run each says
    whether its artifact is there."""
    places = {node.id: n for n, node in enumerate(plan.dag.nodes)}
    below: dict[str | None, list[NodeSpec]] = {}
    for node in plan.dag.nodes:
        last = max(node.deps, key=lambda dep: places[dep], default=None)
        below.setdefault(last, []).append(node)
    lines = [f"{plan.target_market} (run {plan.dag.run_id}, {plan.time_window})"]

    def draw(parent: str | None, lead: str) -> None:
        nodes = below.get(parent, [])
        for n, node in enumerate(nodes, start=1):
            end = n == len(nodes)
            lines.append(f"{lead}{'└─' if end else '├─'} {_told(plan, node, folder, parent)}")
            draw(node.id, lead + ("   " if end else "│  "))

    draw(None, "")
    return "\n".join(lines)


def _told(plan: ScoutPlan, node: NodeSpec, folder: Path | None, parent: str | None) -> str:
    others = [dep for dep in node.deps if dep != parent]
    also = f" (and after {', '.join(others)})" if others else ""
    state = ""
    if folder is not None:
        state = ", made" if (folder / node.artifact).is_file() else ", not made yet"
    return f"{node.id}: {what(plan, node)}{also} → {node.artifact}{state}"


def what(plan: ScoutPlan, node: NodeSpec) -> str:
    """What a node does, in a few words."""
    if node.type == "agent":
        return f"scout, {node.stage}"
    n = len(branches(plan, node))
    return f"{node.tool}" + (f" × {n} by {node.parallelize_by}" if node.parallelize_by else "")


def picture(plan: ScoutPlan) -> str:
    """The DAG as SVG, from left to right; colours are the page's own variables."""
    level: dict[str, int] = {}
    left = list(plan.dag.nodes)
    while left:
        ready = [node for node in left if all(dep in level for dep in node.deps)]
        for node in ready:
            level[node.id] = max((level[dep] + 1 for dep in node.deps), default=0)
            left.remove(node)
    rows: dict[int, int] = {}
    place: dict[str, tuple[int, int]] = {}
    for node in plan.dag.nodes:
        across, down = level[node.id], rows.get(level[node.id], 0)
        rows[across] = down + 1
        place[node.id] = (MARGIN + across * (WIDE + ACROSS), MARGIN + down * (TALL + DOWN))
    wide = MARGIN + (max(level.values()) + 1) * (WIDE + ACROSS) - ACROSS + MARGIN
    tall = MARGIN + max(rows.values()) * (TALL + DOWN) - DOWN + MARGIN
    parts = [
        f'<svg viewBox="0 0 {wide} {tall}" role="img" aria-label="The nodes of the plan, and what '
        'each waits for">'
    ]
    for node in plan.dag.nodes:
        x, y = place[node.id]
        for dep in node.deps:
            a, b = place[dep][0] + WIDE, place[dep][1] + TALL // 2
            parts.append(
                f'<path class="edge" d="M{a} {b} C{a + 30} {b} {x - 30} {y + TALL // 2} '
                f'{x} {y + TALL // 2}"/>'
            )
    for node in plan.dag.nodes:
        x, y = place[node.id]
        does = what(plan, node)
        short = does if len(does) <= 30 else f"{does[:29]}…"
        parts.append(
            f'<rect class="{node.type}" x="{x}" y="{y}" width="{WIDE}" height="{TALL}" rx="8"/>'
            f'<text x="{x + 10}" y="{y + 21}">{escape(node.id)}</text>'
            f'<text class="small" x="{x + 10}" y="{y + 39}">{escape(short)}'
            f"<title>{escape(does)}</title></text>"
        )
    return "".join([*parts, "</svg>"])


def page(plan: ScoutPlan, output: Mapping[str, Any] | None) -> str:
    """The page of a run: its DAG, what its last node says, and the evidence. It needs nothing from
    outside."""
    from jinja2 import Environment
    from markupsafe import Markup

    source = files("beforehand.jobs.scout").joinpath("page.html.j2").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    evidence = output["evidence"] if output else ()
    numbers = {one["id"]: n for n, one in enumerate(evidence, start=1)}
    shown = Markup(picture(plan))
    return environment.from_string(source).render(
        plan=plan, output=output, picture=shown, numbers=numbers
    )
