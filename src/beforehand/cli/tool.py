"""`beforehand tool list|find|schema|NAME`: every tool, callable by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import orjson
from cyclopts import Parameter

from beforehand.cli.arguments import pairs
from beforehand.cli.aside import AsideFlags, aside_model
from beforehand.cli.output import (
    ArchivePath,
    Json,
    TextGrade,
    archive_path,
    emit,
    note,
    plain_table,
)
from beforehand.config import Home, Workspace, WorldMode
from beforehand.errors import EXIT_FAILED, EXIT_OK, InputError
from beforehand.tools.index import IndexedTool, listed_tools, read_index

if TYPE_CHECKING:
    from beforehand.tools.bounds import AnswerMeta, ToolAnswer
    from beforehand.tools.registry import Tool


def tool(
    name: Annotated[str, Parameter(help="A tool; or list, find WORDS, schema TOOL, check TOOL.")],
    what: Annotated[str, Parameter(help="For find: words. For schema and check: a tool.")] = "",
    /,
    *,
    arg: Annotated[
        list[str] | None,
        Parameter(name="--arg", negative="", help="An argument, as name=value. Repeat for more."),
    ] = None,
    as_of: Annotated[
        str | None, Parameter(help="Pin the call to this instant: nothing later is seen.")
    ] = None,
    server: Annotated[str | None, Parameter(help="For list and find: only this server.")] = None,
    mode: Annotated[
        WorldMode,
        Parameter(help="replay: the archive. live: the services. record: live, and stored."),
    ] = "replay",
    grade: TextGrade = "captured",
    archive: ArchivePath = None,
    aside: AsideFlags | None = None,
    json: Json = False,
) -> int:
    """Call a tool by name, or list, find, describe and check the tools.

    `beforehand tool list` shows all tools, `tool find WORDS` those that match, and `tool schema
    NAME` the arguments of one. `tool check NAME` calls one in two worlds that differ after t alone:
    exit code 1 if it shows anything from after t. With --model, searches of markets are rated by
    that model.
    """
    if name in ("list", "find"):
        if name == "list" and what:
            raise InputError(f"`tool list` takes no words: `tool find {what!r}` searches")
        return _list(_found(what, server), json)
    if name == "schema":
        return _schema(what, json)
    if what and name != "check":
        raise InputError(f"{name} takes its arguments as --arg name=value, not {what!r}")
    if server is not None:
        raise InputError("--server goes with list and find")
    if name == "check":
        return _check(what, arg, archive, json)

    found, values = _wanted(name, arg)
    answer = _call(found, values, as_of, mode, archive, aside, grade)
    if answer.spent.usd:
        note(f"it cost ${answer.spent.usd:.4f}")
    if json:
        emit(answer.content)
    else:
        _print(answer.content)
    return EXIT_OK


def _check(name: str, arg: list[str] | None, archive: Path | None, json: bool) -> int:
    if not name:
        raise InputError("name a tool: beforehand tool check NAME --arg name=value")
    from beforehand.front.progress import progress
    from beforehand.jobs.probe.check_tool import check_tool

    found, values = _wanted(name, arg)
    with progress("tool check") as update:
        checked = check_tool(found.name, values, archive_path(archive), progress=update)
    if json:
        emit(checked.wire())
    else:
        print(checked)
    return EXIT_FAILED if checked.leaks else EXIT_OK


def _wanted(name: str, arg: list[str] | None) -> "tuple[Tool, dict[str, object]]":
    """The tool with this name, and its arguments."""
    from beforehand.tools.discovery import load_tools
    from beforehand.tools.registry import coerce, find_tool

    load_tools()
    found = find_tool(name)
    return found, coerce(found, pairs(arg or ()))


def _call(
    found: "Tool",
    values: Mapping[str, object],
    as_of: str | None,
    mode: WorldMode,
    archive: Path | None,
    aside: "AsideFlags | None",
    grade: Literal["captured", "published"],
) -> "ToolAnswer":
    from beforehand.gateway.opening import connect
    from beforehand.jobs.checks import instant
    from beforehand.tools.registry import Toolbox
    from beforehand.tools.storage import Storage

    workspace = Workspace.from_environment()
    pinned = None if as_of is None else instant("as-of", as_of, "--")
    path = archive_path(archive)
    connection = connect(workspace, mode, path, grade)
    if pinned is not None:
        connection.gateway.live().narrow(pinned)
    storage = Storage(workspace.home, mode, connection.live, connection.traffic)
    try:
        with aside_model(aside, workspace, f"tool {found.name}") as model:
            storage.scorer = None if model is None else model.rate
            return Toolbox(connection.gateway, storage, pinned).call(found.name, values)
    finally:
        if moved := connection.close():
            note(f"recorded {moved} exchanges in {path}")


def _found(words: str, server: str | None) -> list[IndexedTool]:
    """The tools of the index that match, best first; only a search by words loads the tools."""
    listed = listed_tools(Home.from_environment())
    names = dict.fromkeys(tool["server"] for tool in listed)
    if server is not None and server not in names:
        raise InputError(
            f"no server {server!r}: there are {', '.join(names)} (a new one is listed after "
            "`make docs`)"
        )
    if not words:
        return [tool for tool in listed if server in (None, tool["server"])]

    from beforehand.tools.discovery import search_tools

    by_name = {tool["name"]: tool for tool in listed}
    fitting = [tool.name for tool in search_tools(words, server)]
    if new := [name for name in fitting if name not in by_name]:
        note(f"not in the index yet: {', '.join(new)} (`make docs` lists them)")
    return [by_name[name] for name in fitting if name in by_name]


def _list(found: list[IndexedTool], json: bool) -> int:
    if json:
        rows = [{key: value for key, value in tool.items() if key != "probe"} for tool in found]
        emit({"tools": rows, "discovery": read_index()["discovery"]})
        return EXIT_OK
    if not found:
        print("no tool matches: `beforehand tool list` shows all")
        return EXIT_OK
    cells = [
        [t["name"], t["server"], f"{t['label']} {t['date']}", _brief(t["summary"])] for t in found
    ]
    print(plain_table([("tool", "server", "tried on", "what it does"), *cells]))
    return EXIT_OK


def _brief(text: str) -> str:
    first = text.split(". ")[0].split(": ")[0]
    return first if len(first) <= 60 else first[:59] + "…"


def _schema(name: str, json: bool) -> int:
    if not name:
        raise InputError("name a tool: beforehand tool schema NAME")

    from beforehand.tools.discovery import describe_tool, load_tools
    from beforehand.tools.registry import find_tool

    load_tools()
    if json:
        emit(describe_tool(name))
        return EXIT_OK
    found = find_tool(name)
    print(f"{found.name} ({found.server})\n\n{found.description}\n")
    required = set(found.schema.get("required", ()))
    for key, entry in found.schema["properties"].items():
        kind = entry.get("type") or " or ".join(
            str(e.get("type", "")) for e in entry.get("anyOf", ())
        )
        default = "" if entry.get("default") is None else f" [{entry['default']}]"
        mark = " (required)" if key in required else default
        choices = entry.get("enum") or [
            c for e in entry.get("anyOf", ()) for c in e.get("enum", ())
        ]
        one_of = f" One of {', '.join(choices)}." if choices else ""
        print(f"  {key}: {kind}{mark}  {entry.get('description', '')}{one_of}")
    return EXIT_OK


def _print(content: dict[str, object]) -> None:
    """Print an answer for people: JSON without `_meta`, whose notes and cuts go to stderr."""
    meta = cast("AnswerMeta", content.pop("_meta"))
    print(orjson.dumps(content, option=orjson.OPT_INDENT_2).decode())
    for text in meta.get("notes", ()):
        note(text)
    if cut := meta.get("cut"):
        note("cut: " + ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in cut.items()))
