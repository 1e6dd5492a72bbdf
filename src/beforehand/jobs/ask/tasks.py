"""A task of a plan: which agent does what, with which inputs and tools, after which other tasks."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from beforehand.agents.base import find_agent
from beforehand.errors import InputError, NotFound
from beforehand.ids import check_storable

PLAN, ANSWER = "plan", "answer"
TASK = "task"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,40}")


@dataclass(frozen=True)
class Task:
    """One task. An input that is `{"task": ID}` stands for the output file of that task. `tools`
    are those of its agent that it needs."""

    id: str
    agent: str
    why: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    deps: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()

    def wire(self) -> dict[str, Any]:
        """JSON-ready."""
        return {**asdict(self), "deps": list(self.deps), "tools": list(self.tools)}

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> "Task":
        """A task from its JSON."""
        found = dict(row)
        return cls(**{**found, "deps": tuple(found["deps"]), "tools": tuple(found["tools"])})


def files_named(inputs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(input, task) of each input that is another task's output."""
    for name, value in inputs.items():
        if isinstance(value, Mapping) and value.keys() == {TASK}:
            yield name, str(value[TASK])


def check(tasks: Sequence[Task]) -> None:
    """Raises InputError for a plan that cannot be carried out, before anything is spent: unknown
    agents, inputs that are missing or wrong, tools that a task may not use, tasks that wait for
    each other."""
    if not tasks:
        raise InputError("the plan has no task")
    known = {task.id for task in tasks}
    if len(known) != len(tasks):
        raise InputError("two tasks of the plan have one id")
    for task in tasks:
        if not _NAME.fullmatch(task.id) or task.id in (PLAN, ANSWER):
            raise InputError(f"a task cannot be called {task.id!r}")
        _check_one(task, known)
    _check_order(tasks)


def _check_one(task: Task, known: set[str]) -> None:
    try:
        agent = find_agent(task.agent)
    except NotFound as error:
        raise InputError(f"task {task.id}: {error}") from None
    if unknown := [name for name in task.deps if name not in known]:
        raise InputError(f"task {task.id} waits for {unknown[0]!r}, which is not in the plan")
    if unknown := [name for name in task.tools if name not in agent.tools]:
        allowed = ", ".join(agent.tools) or "no tools"
        raise InputError(
            f"task {task.id}: {task.agent} may not use {unknown[0]!r}; it has {allowed}"
        )
    given = dict(task.inputs)
    check_storable(task.wire(), f"task {task.id}")
    for name, value in given.items():
        if name.endswith("_path") and not (isinstance(value, Mapping) and value.keys() == {TASK}):
            raise InputError(f"task {task.id}: {name} must name a task that it waits for")
    for name, other in files_named(given):
        if other not in task.deps:
            raise InputError(f"task {task.id} reads the output of {other!r}: it must wait for it")
        given[name] = "output.json"  # A path, once the other task has run.
    try:
        agent.validate(given)
    except InputError as error:
        raise InputError(f"task {task.id}: {error}") from None
    if agent.tools and not task.tools:
        raise InputError(f"task {task.id} has no tool: {task.agent} has {', '.join(agent.tools)}")


def _check_order(tasks: Sequence[Task]) -> None:
    waits = {task.id: set(task.deps) for task in tasks}
    while free := [name for name, deps in waits.items() if not deps]:
        for name in free:
            del waits[name]
        for deps in waits.values():
            deps -= set(free)
    if waits:
        raise InputError(f"tasks wait for each other in a circle: {', '.join(sorted(waits))}")
