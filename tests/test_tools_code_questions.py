"""Code mode against plain tool calls: the same fifteen questions by one scripted caller. In code mode
a model reads what the code prints; with plain calls it reads every answer."""

import ast
import asyncio
import io
import textwrap
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import orjson

from beforehand.clock import FrozenClock, parse_instant
from beforehand.config import Home, Workspace
from beforehand.gateway.opening import connect
from beforehand.meter import CallCounter
from beforehand.sandbox.engines import Sandbox
from beforehand.tools.bounds import estimate_tokens
from beforehand.tools.discovery import describe_tool
from beforehand.tools.registry import MAX_ALLOWED_TOKENS, Toolbox
from beforehand.tools.servers.code import CodeMode
from beforehand.tools.storage import Storage
from codequestions import QUESTIONS

T = parse_instant("2025-03-01T00:00:00Z")


def box(home: Path, sim: Path) -> Toolbox:
    clock = FrozenClock(parse_instant("2026-11-01T00:00:00Z"))
    connection = connect(Workspace(Home(home), clock=clock), "replay", sim)
    return Toolbox(connection.gateway, Storage(Home(home)), T)


def tools_of(code: str) -> list[str]:
    """The tools that a program awaits."""
    awaited = {node.func.id for node in ast.walk(ast.parse(f"async def f():\n{textwrap.indent(code, ' ')}"))
               if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}  # fmt: skip
    known = "search_polymarket_markets list_markets get_prices get_order_books search list_events "
    known += "get_market_price_range get_price_history get_event"
    return sorted(awaited & set(known.split()))


class Plain:
    """The caller without code mode: it makes the same calls and reads each answer in full."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox, self.tokens, self.calls = toolbox, 0, 0

    def run(self, code: str, names: list[str]) -> str:
        """What the program says when its caller makes the calls."""
        found: dict[str, Any] = {name: self._function(name) for name in names}
        exec(f"async def main():\n{textwrap.indent(code, '    ')}", found)
        with redirect_stdout(io.StringIO()) as said:
            asyncio.run(found["main"]())
        return said.getvalue()

    def _function(self, name: str) -> Callable[..., Any]:
        async def call(**arguments: Any) -> dict[str, object]:
            asked = {"max_tokens": MAX_ALLOWED_TOKENS, **arguments}
            content = dict(self._toolbox.call(name, asked).content)
            self.calls += 1
            self.tokens += estimate_tokens(orjson.dumps(arguments))
            self.tokens += estimate_tokens(orjson.dumps(content))
            return content

        return call


def test_fifteen_questions_both_ways(home: Path, sim: Path, sandbox: Sandbox) -> None:
    """The same answers; each call of the code passes the meter; tokens and calls side by side."""
    toolbox, rows = box(home, sim), []
    assert len(QUESTIONS) == 15
    for question, code in QUESTIONS.items():
        names, meter, plain = tools_of(code), CallCounter(), Plain(toolbox)
        listed = sum(estimate_tokens(orjson.dumps(describe_tool(name))) for name in names)
        by_code = CodeMode(toolbox, sandbox, meter, names).run(code)
        assert by_code.execution.error is None, (question, by_code.execution.error)
        said = plain.run(code, names)
        assert by_code.execution.output == said != "", question
        assert meter.calls == plain.calls == len(by_code.calls) > 0
        # A model writes the code and reads what it printed; or it writes and reads every call.
        spent = estimate_tokens(code) + estimate_tokens(by_code.execution.output)
        rows.append((question, listed, spent, 1, plain.tokens, plain.calls))
    print(f"\n{'tools':>6} {'code':>6} {'calls':>5} {'plain':>7} {'calls':>5}")
    for question, listed, spent, one, tokens, calls in rows:
        print(f"{listed:>6,} {spent:>6,} {one:>5} {tokens:>7,} {calls:>5}  {question}")
    spent, tokens = sum(row[2] for row in rows), sum(row[4] for row in rows)
    turns = sum(row[5] for row in rows)
    print(
        f"{'':6} {spent:>6,} {len(rows):>5} {tokens:>7,} {turns:>5}  all; tools are read either way"
    )
    assert 10 * spent < tokens, "the code is read once, and the answers never"


def test_the_code_has_no_other_tools(home: Path, sim: Path, sandbox: Sandbox) -> None:
    """Control: a tool that the task does not name is not there."""
    mode = CodeMode(box(home, sim), sandbox, None, ["search"])
    done = mode.run('print(await search(query="Jorvia", limit=1))')
    assert done.execution.error is None
    done = mode.run("print(await list_markets(limit=1))")
    assert "list_markets" in (done.execution.error or "")
