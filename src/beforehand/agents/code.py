"""The agent in code mode: a model writes code that calls the agent's tools in the sandbox. What the
tools answer stays in the sandbox; only what the code prints or returns comes out."""

from collections.abc import Iterable
from typing import Annotated, Any

import orjson
from pydantic import Field

from beforehand.agents.base import Output, Work, agent
from beforehand.clock import iso
from beforehand.errors import BadAnswer, NotConfigured
from beforehand.forecast.prompts import Written, code_in
from beforehand.llm.prompt import Prompt
from beforehand.tools.discovery import describe_tool
from beforehand.tools.servers.code import CodeMode, CodeRun, python_name

NAME = "code-agent"
TOOLS = (
    "search_polymarket_markets",
    "search_kalshi_markets",
    "search_all_markets",
    "list_markets",
    "get_market",
    "get_prices",
    "get_order_books",
    "get_market_price_range",
    "search",
    "search_domains",
    "run_query",
)
ATTEMPTS, CODE_TOKENS, LONGEST_OUTPUT = 3, 1500, 4000
INSTRUCTIONS = (
    "You answer a question about prediction markets, as of the time in `as_of`, with Python code "
    "that calls tools. Each tool in `tools` is an async function of that name: await it, with "
    "keyword arguments alone; it returns a dict as its schema says. asyncio.gather calls several "
    "at once. There are no files and no network. Print what answers the question in a few short "
    "lines, each figure with the id or title of the market that it is of, or print that it was not "
    "found; never print a figure that no tool gave. Answer as JSON with the key code."
)


@agent(NAME, tools=TOOLS, logged=("question",))
def code(
    work: Work,
    *,
    question: Annotated[str, Field(min_length=1, max_length=2000, description="What to find out.")],
) -> Output:
    """Find something out with code that calls tools, written by a model and run in the sandbox."""
    if work.context.model is None:
        raise NotConfigured(
            f"{NAME} needs a model that writes code: name one with --model (scripted needs no key)"
        )
    written, done = _solved(work, question)
    ran = done.execution
    work.asked += [call["tool"] for call in done.calls]
    work.notes.append(f"code by {work.context.model.name}, engine {ran.engine}")
    row = {
        "question": question,
        "code": written,
        "output": _cut(ran.output),
        "result": ran.result,
        "tool_calls": [
            {"tool": call["tool"], "arguments": dict(call["arguments"])} for call in done.calls
        ],
    }
    return Output([row], f"Code: {question}", log={"tool_calls": len(done.calls)})


def _solved(work: Work, question: str) -> tuple[str, CodeRun]:
    """The code that ran to its end, and its run. After an error the model is asked again and told
    what it was, a bounded number of times. Raises BadAnswer."""
    assert work.context.model is not None
    names = sorted(work.allowed)
    mode = CodeMode(work.toolbox, work.toolbox.storage.sandbox, work.context.meter, names)
    asked: dict[str, Any] = {
        "question": question,
        "as_of": iso(work.at),
        "tools": list(_described(names)),
    }
    error = ""
    for _ in range(ATTEMPTS):
        prompt = Prompt(INSTRUCTIONS, orjson.dumps(asked).decode(), Written, CODE_TOKENS)
        written = code_in(work.context.model.ask(prompt).code)
        if written is None:
            error = "there was no code in the answer"
        else:
            done = mode.run(written)
            error = done.execution.error or ""
            if not any("error" not in call for call in done.calls):
                error = error or "the code called no tool: print only what tools answer"
            if not error and (done.execution.output.strip() or done.execution.result is not None):
                return written, done
            error = error or "the code printed nothing"
        asked |= {"failed": {"code": written, "error": error[-1000:]}}
    raise BadAnswer(f"no code ran to its end in {ATTEMPTS} attempts: {error.splitlines()[-1]}")


def _cut(text: str) -> str:
    """What was printed, whole lines, with a mark where it goes on."""
    if len(text) <= LONGEST_OUTPUT:
        return text
    return f"{text[:LONGEST_OUTPUT].rpartition(chr(10))[0]}\n… (cut)\n"


def _described(names: Iterable[str]) -> Iterable[dict[str, object]]:
    """Each tool as the model reads it: its name in Python, what it does, its schemas."""
    for name in names:
        found = describe_tool(name)
        yield {
            "name": python_name(name),
            "description": found["description"],
            "arguments": found["inputSchema"],
            "answer": found["outputSchema"],
        }
