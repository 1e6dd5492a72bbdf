"""The in-process driver: every step once, in order, in this process. Nothing is remembered."""

from collections.abc import Callable, Mapping
from typing import Any

from beforehand.engine.plan import Plan
from beforehand.errors import InputError

Action = Callable[[Mapping[str, Any], Mapping[str, Any]], Any]
Progress = Callable[[str, int, int], None]


def run(
    plan: Plan, actions: Mapping[str, Action], progress: Progress | None = None
) -> dict[str, Any]:
    """Run the plan; returns every step's output by its id.

    An action gets (args, outputs of its dependencies by id) and returns a JSON value. The first
    failing step ends the run with its own exception. `progress(step id, done, total)` is called
    before each step, and once more at the end.
    """
    order = plan.ordered()
    unknown = sorted({step.action for step in order} - actions.keys())
    if unknown:
        raise InputError(f"the plan names the unknown action {unknown[0]!r}")
    outputs: dict[str, Any] = {}
    for done, step in enumerate(order):
        if progress:
            progress(step.id, done, len(order))
        outputs[step.id] = actions[step.action](step.args, {dep: outputs[dep] for dep in step.deps})
    if progress:
        progress("done", len(order), len(order))
    return outputs
