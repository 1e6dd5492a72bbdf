"""Planning by a model, in two stages: which tasks, agents and dependencies; then, for each task,
its inputs and only the tools that it needs.

What the model says is checked as a plan by rules is. A plan that cannot be carried out is asked for
once more with the reason; after that the rules plan, and the answer says so.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, Field, create_model

from beforehand.agents.base import Agent, find_agent, load_agents
from beforehand.clock import iso
from beforehand.errors import BadAnswer, InputError, Refused
from beforehand.jobs.ask.tasks import TASK, Task, check
from beforehand.llm.prompt import ModelClient, Prompt
from beforehand.tools.discovery import load_tools

MOST_TASKS, ATTEMPTS = 8, 2
OUTLINE_TOKENS, TASK_TOKENS = 1200, 600
SESSION_INPUT = "session_id"
OUTLINE = (
    "You plan how a question about prediction markets is answered. The time is `as_of`: nothing "
    "later is known. `agents` can each do one kind of work. Name the tasks (at most "
    f"{MOST_TASKS}, as few as answer the question): for each an id in lower case, its agent, why "
    "it is done (a few words that complete 'not found: '), and the ids of the tasks whose output "
    "it reads. A search says what markets are priced at; market-details-agent reads its output and "
    "says how old the prices are and how markets ended. Do not answer the question."
)
DETAIL = (
    "You prepare one task of a plan that answers a question as of the time `as_of`. Give the "
    "inputs of its agent, as `inputs` describes them, and the names of the tools that the task "
    "needs, and no others. Dates lie at or before `as_of`. Words to search for are short: names, "
    "things, figures. Where an input is the path of an output, write the id of the task that "
    "writes it: one of `reads`. Leave out optional inputs that need no other value."
)


class Planner:
    """Plans one question with one model."""

    def __init__(self, client: ModelClient, question: str, at: datetime) -> None:
        self._client, self._question, self._at = client, question, at
        load_tools()

    def plan(self) -> tuple[list[Task], str]:
        """(the tasks, ""), or ([], why the model's plan cannot be used). Raises what the calls
        raise besides BadAnswer and Refused: a budget that is spent, a model that is away."""
        error = ""
        for _ in range(ATTEMPTS):
            try:
                tasks = self._asked(error)
                check(tasks)
            except (BadAnswer, Refused) as said:
                return [], str(said)[:300]
            except InputError as said:
                error = str(said)
            else:
                return tasks, ""
        return [], error

    def _asked(self, error: str) -> list[Task]:
        """Both stages. Raises InputError for a plan that cannot be carried out."""
        outline = self._ask(OUTLINE, self._outline(error), _outline_model(), OUTLINE_TOKENS)
        lines: list[Any] = outline.tasks
        with ThreadPoolExecutor(len(lines), "plan") as pool:
            return list(pool.map(self._task, lines))

    def _outline(self, error: str) -> dict[str, object]:
        agents = [
            {"agent": one.name, "does": one.summary, "inputs": one.inputs}
            for one in load_agents().values()
        ]
        wrong = {"the_last_plan_failed": error} if error else {}
        return {"question": self._question, "agents": agents, **wrong}

    def _task(self, line: Any) -> Task:
        """One task with its inputs and tools."""
        found = find_agent(line.agent)
        shown = {
            "question": self._question,
            "task": line.why,
            "agent": {"agent": found.name, "does": found.summary},
            "inputs": _described(found),
            "tools": [_tool(name) for name in found.tools],
            "reads": list(line.after),
        }
        said = self._ask(DETAIL, shown, _detail_model(found), TASK_TOKENS)
        given = said.inputs.model_dump(exclude_none=True)
        inputs = {name: _resolved(name, value, line.after) for name, value in given.items()}
        tools = tuple(dict.fromkeys(getattr(said, "tools", ())))
        # The model's reason is not shown: in an answer it would stand beside what is on record.
        about = next((str(inputs[name]) for name in ("query", "question") if name in inputs), "")
        why = f"{found.name} on {_quoted(about)}" if about else found.name
        return Task(line.id, found.name, why, inputs, tuple(dict.fromkeys(line.after)), tools)

    def _ask(self, instructions: str, shown: Mapping[str, object], output: Any, most: int) -> Any:
        text = orjson.dumps({"as_of": iso(self._at), **shown}).decode()
        return self._client.ask(Prompt(instructions, text, output, most))


def _outline_model() -> type[BaseModel]:
    """The first stage's answer; an agent is one of those that there are."""
    names: Any = Literal[tuple(load_agents())]
    identifier = Annotated[
        str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$", description="In lower case, such as news.")
    ]
    line = create_model(
        "PlannedTask",
        id=(identifier, ...),
        agent=(names, ...),
        why=(Annotated[str, Field(max_length=200)], ...),
        after=(Annotated[list[str], Field(max_length=MOST_TASKS)], Field(default_factory=list)),
    )
    tasks: Any = Annotated[list[line], Field(min_length=1, max_length=MOST_TASKS)]
    return create_model("Outline", tasks=(tasks, ...))


def _detail_model(found: Agent) -> type[BaseModel]:
    """The second stage's answer for an agent: its own inputs, some of its own tools."""
    fields: dict[str, Any] = {
        name: (entry.rebuild_annotation(), entry.default if not entry.is_required() else ...)
        for name, entry in _inputs(found).items()
    }
    more: dict[str, Any] = {}
    if found.tools:
        names: Any = Literal[found.tools]
        # Without an end a weak model names the same tool until its answer is cut.
        most = len(found.tools)
        more["tools"] = (Annotated[list[names], Field(min_length=1, max_length=most)], ...)
    return create_model("TaskDetail", inputs=(create_model("Inputs", **fields), ...), **more)


def _inputs(found: Agent) -> dict[str, Any]:
    """The inputs that a plan may give: a session belongs to the run."""
    fields = found.model.model_fields
    return {name: entry for name, entry in fields.items() if name != SESSION_INPUT}


def _described(found: Agent) -> dict[str, str]:
    return {name: entry.description or "" for name, entry in _inputs(found).items()}


def _tool(name: str) -> dict[str, str]:
    return {"tool": name, "does": load_tools()[name].summary}


def _quoted(text: str) -> str:
    """What was searched for, in one line."""
    line = " ".join(text.replace('"', "'").replace("[", "(").replace("]", ")").split())
    return f'"{line if len(line) <= 80 else line[:79] + "…"}"'


def _resolved(name: str, value: Any, after: Sequence[str]) -> Any:
    """An input that names a task is that task's output."""
    return {TASK: value} if name.endswith("_path") and value in after else value
