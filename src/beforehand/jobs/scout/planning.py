"""How a scout plan is made: by rules from the words of a subject, or by a model.

A model chooses keywords, subreddits, limits and tools, which are listed for it from the registry;
for each tool that needs more than the plan says, it is asked for the arguments, by the tool's own
schema. The DAG around that is always the same, so that plans stay small: plan, collect, think, act.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, Field, create_model

from beforehand.clock import iso
from beforehand.errors import BadAnswer, InputError
from beforehand.jobs.ask.subject import Subject
from beforehand.jobs.scout.reading import read_plan
from beforehand.llm.prompt import ModelClient, Prompt
from beforehand.records.plan import AGENTS, FILES, PLAN_FILE, ScoutLimits, ScoutPlan, Window
from beforehand.tools.discovery import load_tools
from beforehand.tools.registry import Tool

VERSION, DEFAULT_TOOL, INDEX = "1.1", "reddit_search_and_fetch_threads", "reddit_index.json"
ATTEMPTS, MOST_KEYWORDS, MOST_TOOLS = 2, 8, 4
PLAN_TOKENS, CALL_TOKENS, MOST_SAID = 600, 600, 500
HIDDEN = frozenset(("cursor", "as_of", "max_tokens"))
INSTRUCTIONS = (
    "You plan what is collected about a subject as of the time `as_of`: nothing later is known. "
    "Name short keywords to search for, subreddits (or none: all), how far to look back, limits, "
    "and the tools to call, by their exact names. Use as few as the subject needs."
)
DETAIL = (
    "You prepare one call of a tool for a study of `subject` as of the time `as_of`. Give its "
    "arguments. Dates lie at or before `as_of`."
)


class Choice(BaseModel):
    """What a model plans; the tools are added when it is asked."""

    keywords: list[Annotated[str, Field(min_length=1, max_length=60)]] = Field(
        min_length=1, max_length=MOST_KEYWORDS
    )
    subreddits: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{2,30}$")]] = Field(
        default_factory=list, max_length=MOST_KEYWORDS
    )
    time_window: Window
    limits: ScoutLimits = ScoutLimits()


def keywords_in(subject: str) -> list[str]:
    """Keywords by rule: the words that say what a subject is about, together and each by itself."""
    found = Subject.of(subject).words
    kept = [word.strip(".,;:?!\"'()") for word in subject.split()]
    own = [word for word in kept if found & Subject.of(word).words] if found else []
    own = list(dict.fromkeys(word.lower() for word in own if word))
    together = [" ".join(own)] if 1 < len(own) <= 4 else []
    return [*together, *own][:MOST_KEYWORDS]


def composed(
    target_market: str,
    run_id: str,
    time_window: str,
    keywords: Sequence[str],
    subreddits: Sequence[str],
    limits: Mapping[str, int] | None = None,
    calls: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """A plan's JSON around the documented small DAG: one tool node for each of `calls` (tool and
    arguments) [stored Reddit threads, a branch for each keyword]."""
    named = calls or {DEFAULT_TOOL: {}}
    nodes: list[dict[str, Any]] = []
    for n, (tool, params) in enumerate(named.items(), start=1):
        by = "keyword" if "keyword" in load_tools()[tool].model.model_fields else None
        own = {"parallelize_by": by} if by else {}
        given = f"{', '.join(f'{key}={value!r}' for key, value in params.items())}"
        name = "collect" if len(named) == 1 else f"collect-{n}"
        nodes.append(
            {
                "id": name, "type": "tool", "tool": tool, "params": dict(params),
                "code": f"{tool}({given})", **own, "inputs": {},
                "outputs": [INDEX if _is_reddit(tool) and n == 1 else f"{name}.json"],
                "deps": ["plan"],
            }
        )  # fmt: skip
    agent = {"type": "agent", "agent": AGENTS[0]}
    collected = [node["id"] for node in nodes]
    files = {node["id"]: node["outputs"][0] for node in nodes}
    dag = [
        {"id": "plan", **agent, "stage": "plan", "inputs": {}, "outputs": [PLAN_FILE], "deps": []},
        *nodes,
        {
            "id": "think", **agent, "stage": "think", "inputs": files,
            "outputs": [FILES["think"]], "deps": collected,
        },
        {
            "id": "act", **agent, "stage": "act", "inputs": {"think": FILES["think"]},
            "outputs": [FILES["act"]], "deps": ["think"],
        },
    ]  # fmt: skip
    return {
        "schema": "scout_plan_v1",
        "version": VERSION,
        "target_market": target_market,
        "time_window": time_window,
        "sources": list(dict.fromkeys(load_tools()[tool].server for tool in named)),
        "keywords": list(keywords),
        "subreddits": list(subreddits),
        "limits": dict(limits or ScoutLimits().wire()),
        "dag": {"run_id": run_id, "nodes": dag},
    }


def _is_reddit(tool: str) -> bool:
    return load_tools()[tool].server == "reddit"


class Planner:
    """Plans one subject with one model."""

    def __init__(self, client: ModelClient, subject: str, at: datetime) -> None:
        self._client, self._subject, self._at = client, subject, at

    def plan(
        self,
        run_id: str,
        time_window: Window | None,
        keywords: Sequence[str],
        subreddits: Sequence[str],
    ) -> ScoutPlan:
        """A plan that can be carried out; what the caller gave stands over what the model says.
        Asked for again once, with the faults; then InputError tells them."""
        error = ""
        for _ in range(ATTEMPTS):
            try:
                return read_plan(self._asked(run_id, time_window, keywords, subreddits, error))
            except (InputError, BadAnswer) as said:
                error = str(said)[:MOST_SAID]
        raise InputError(
            f"the plan of {self._client.name} cannot be carried out ({error}): ask another model, "
            "or leave --model out"
        )

    def _asked(
        self,
        run_id: str,
        time_window: Window | None,
        keywords: Sequence[str],
        subreddits: Sequence[str],
        error: str,
    ) -> dict[str, Any]:
        names: Any = Literal[tuple(load_tools())]
        tools: Any = Annotated[list[names], Field(min_length=1, max_length=MOST_TOOLS)]
        output = create_model("ScoutChoice", __base__=Choice, tools=(tools, ...))
        listed = {name: tool.summary for name, tool in load_tools().items()}
        wrong = {"the_last_plan_failed": error} if error else {}
        said: Any = self._ask(INSTRUCTIONS, {"tools": listed, **wrong}, output, PLAN_TOKENS)
        calls = {name: self._arguments(load_tools()[name], error) for name in said.tools}
        return composed(
            self._subject,
            run_id,
            time_window or said.time_window,
            list(keywords) or said.keywords,
            list(subreddits) or said.subreddits,
            said.limits.wire(),
            calls,
        )

    def _arguments(self, tool: Tool, error: str) -> dict[str, Any]:
        """The arguments of a tool that needs some which the plan does not hold."""
        fields = tool.model.model_fields
        if not any(entry.is_required() for entry in fields.values()):
            return {}
        wanted: dict[str, Any] = {
            name: (entry.rebuild_annotation(), ... if entry.is_required() else entry.default)
            for name, entry in fields.items()
            if name not in HIDDEN
        }
        shown: dict[str, object] = {"tool": tool.name, "does": tool.summary}
        shown |= {"the_last_plan_failed": error} if error else {}
        said: Any = self._ask(DETAIL, shown, create_model("ToolCall", **wanted), CALL_TOKENS)
        found: dict[str, Any] = said.model_dump(mode="json", exclude_none=True, exclude_unset=True)
        return found

    def _ask(self, instructions: str, shown: Mapping[str, object], output: Any, most: int) -> Any:
        about = {"as_of": iso(self._at), "subject": self._subject}
        return self._client.ask(
            Prompt(instructions, orjson.dumps({**about, **shown}).decode(), output, most)
        )
