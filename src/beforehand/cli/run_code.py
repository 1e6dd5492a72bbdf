"""`beforehand run-code`: a file of Python in the sandbox."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from cyclopts import Parameter

from beforehand.cli.output import ArchivePath, Json, archive_path, emit, note
from beforehand.clock import parse_instant
from beforehand.config import Workspace, WorldMode
from beforehand.errors import EXIT_FAILED, EXIT_OK, InputError
from beforehand.gateway.opening import connect
from beforehand.sandbox.engines import Engine, Sandbox
from beforehand.sandbox.policy import CODE_MODULES, LONGEST_CODE, LONGEST_INPUT, TIMEOUT_S, Policy
from beforehand.tools.registry import Toolbox
from beforehand.tools.servers.code import CodeMode, CodeRun
from beforehand.tools.storage import Storage


@Parameter(name="*")
@dataclass
class How:
    """Where the code runs, and within what."""

    engine: Annotated[Engine, Parameter(help="Where to run it.")] = "auto"
    timeout: Annotated[float, Parameter(help="Seconds that it may take, at most 30.")] = TIMEOUT_S
    as_of: Annotated[
        str | None, Parameter(help="The time that the sandbox's clock shows [the real time].")
    ] = None
    seed: Annotated[int, Parameter(help="Seed of random numbers in the sandbox.")] = 0
    allow: Annotated[
        list[Literal["numpy"]] | None,
        Parameter(negative="", help="A package that the code may import besides."),
    ] = None


def run_code(
    file: Annotated[
        str,
        Parameter(help="A file of Python; - reads standard input.", allow_leading_hyphen=True),
    ],
    /,
    *,
    input: Annotated[
        str | None,
        Parameter(help="The input as a JSON object, or a file of it: each key is a global."),
    ] = None,
    how: How | None = None,
    tools: Annotated[
        bool, Parameter(negative="", help="Code mode: every tool is an async function inside.")
    ] = False,
    mode: Annotated[
        WorldMode,
        Parameter(
            help="For tools. replay: the archive. live: the services. record: live, and stored."
        ),
    ] = "replay",
    archive: ArchivePath = None,
    json: Json = False,
) -> int:
    """Run Python in the sandbox: modules that only compute, 512 MB, no files, no network.

    With --tools the code can call tools, as in `await get_market(id="…")`, and find them with
    `await search_tools("order book")`. Only what it prints or returns comes back.

    Exit code 1 if the code failed. --json prints the whole Execution, with engine and layers.
    """
    code = _text(file, LONGEST_CODE, "the code")
    how = how or How()
    try:
        now = None if how.as_of is None else parse_instant(how.as_of)
    except ValueError as error:
        raise InputError(f"--as-of: {error}") from None
    modules = (*CODE_MODULES, *(how.allow or ()))
    policy = Policy(timeout=how.timeout, now=now, seed=how.seed, modules=modules)
    sandbox = Sandbox(how.engine)
    try:
        if tools:
            made = _with_tools(code, _input(input), policy, sandbox, mode, archive)
        else:
            made = CodeRun(sandbox.run(code, _input(input), policy))
    finally:
        sandbox.close()
    done = made.execution
    if json:
        emit(made.wire() if tools else done.wire())
    else:
        sys.stdout.write(done.output)
        if done.error:
            note(f"beforehand: {done.error}")
        if done.result is not None:
            print(orjson.dumps(done.result).decode())
        calls = f"; {len(made.calls)} tool calls" if tools else ""
        note(f"{done.engine}: {', '.join(done.layers)}; {done.execution_time_ms:.0f} ms{calls}")
    return EXIT_OK if done.success else EXIT_FAILED


def _with_tools(
    code: str, given: Any, policy: Policy, sandbox: Sandbox, mode: WorldMode, archive: Path | None
) -> CodeRun:
    workspace = Workspace.from_environment()
    connection = connect(workspace, mode, archive_path(archive))
    if policy.now is not None:
        connection.gateway.live().narrow(policy.now)
    toolbox = Toolbox(
        connection.gateway,
        Storage(workspace.home, mode, connection.live, connection.traffic),
        policy.now,
    )
    try:
        return CodeMode(toolbox, sandbox).run(code, given, policy)
    finally:
        connection.close()


def _input(given: str | None) -> Any:
    if given is None:
        return {}
    text = given
    if not given.lstrip().startswith(("{", "[")):
        text = _text(given, LONGEST_INPUT, "the input")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InputError(
            f"--input is not JSON ({error}): give an object, or a file that holds one"
        ) from None


def _text(name: str, longest: int, what: str) -> str:
    """The text of a file, or of standard input; InputError where there is none."""
    if name == "-":
        raw = sys.stdin.buffer.read(longest + 1)
    else:
        path = Path(name)
        if not path.is_file():
            raise InputError(
                f"{name}: {'a folder, not a file' if path.is_dir() else 'no such file'}"
            )
        if path.stat().st_size > longest:
            raise InputError(f"{name}: {what} may have at most {longest:,} bytes")
        raw = path.read_bytes()
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: {what} is not UTF-8 (byte {error.start:,})") from None
