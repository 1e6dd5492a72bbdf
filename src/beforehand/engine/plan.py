"""A Plan: steps with ids, dependencies and JSON arguments. Compiled in `jobs/`, run by a driver."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from beforehand.errors import InputError
from beforehand.ids import digest

if TYPE_CHECKING:
    from beforehand.engine.context import StepContext

ATTEMPTS = 3


@dataclass(frozen=True)
class Step:
    """One unit of work: the `action` by that name is called with `args` (JSON) and the outputs of
    `deps`. `id` is `node` or `node/key` for a fan-out.

    `here` keeps the step in the driver's own process, which writes the run's files. `attempts`
    bounds how often a failure that may pass is tried again. Of one that `grows`, the output says
    which steps follow: the job compiles them. One that is `tolerant` runs once its dependencies
    have ended, well or not, and gets the outputs of those that succeeded.
    """

    id: str
    action: str
    args: Mapping[str, Any] = field(default_factory=dict)
    deps: tuple[str, ...] = ()
    here: bool = False
    attempts: int = ATTEMPTS
    grows: bool = False
    tolerant: bool = False

    def inputs(self, outputs: Mapping[str, str]) -> str:
        """The digest of everything the step is given; `outputs` holds the digests of its
        dependencies."""
        given = {dep: outputs[dep] for dep in self.deps if dep in outputs or not self.tolerant}
        return digest([self.action, dict(self.args), given])


@dataclass(frozen=True)
class Plan:
    """Steps in any order; `ordered` gives them so that each follows what it depends on."""

    run_id: str
    steps: Sequence[Step]

    def ordered(self) -> list[Step]:
        """The steps in execution order, ties in the order given. Raises InputError on an unknown
        dependency, a repeated id or a circle."""
        by_id = {step.id: step for step in self.steps}
        if len(by_id) != len(self.steps):
            raise InputError("two steps of the plan share an id")
        for step in self.steps:
            for dep in step.deps:
                if dep not in by_id:
                    raise InputError(
                        f"step {step.id!r} depends on {dep!r}, which is not in the plan"
                    )
        place = {step.id: i for i, step in enumerate(self.steps)}
        waits = {step.id: len(set(step.deps)) for step in self.steps}
        followers: dict[str, list[str]] = {}
        for step in self.steps:
            for dep in dict.fromkeys(step.deps):
                followers.setdefault(dep, []).append(step.id)
        order: list[Step] = []
        ready = [step for step in self.steps if not step.deps]
        while ready:
            order += ready
            freed = list[str]()
            for step in ready:
                for name in followers.get(step.id, ()):
                    waits[name] -= 1
                    if not waits[name]:
                        freed.append(name)
            ready = [by_id[name] for name in sorted(freed, key=place.__getitem__)]
        if len(order) < len(self.steps):
            stuck = next(step.id for step in self.steps if waits[step.id])
            raise InputError(f"steps depend on each other in a circle: {stuck!r}")
        return order

    def wire(self) -> dict[str, object]:
        """JSON-ready, for `plan.json`."""
        return {
            "run_id": self.run_id,
            "steps": [
                {
                    "id": s.id,
                    "action": s.action,
                    "args": dict(s.args),
                    "deps": list(s.deps),
                    **({"tolerant": True} if s.tolerant else {}),
                }
                for s in self.steps
            ],
        }


Action = Callable[[Mapping[str, Any], Mapping[str, Any], "StepContext"], Any]
"""Gets (args, outputs of its dependencies by id, context) and returns a JSON value."""


def files_of(output: object) -> Mapping[str, str]:
    """The digests of the files that a step wrote, from its output (`files`)."""
    found = output.get("files") if isinstance(output, dict) else None
    return found if isinstance(found, dict) else {}


def bus_file_of(output: object) -> str | None:
    """Where a step wrote to the file bus, from its output (`output_file_path`)."""
    found = output.get("output_file_path") if isinstance(output, dict) else None
    return found if isinstance(found, str) else None


Progress = Callable[[str, int, int], None]
"""Called as (step id, steps done, steps in all)."""
