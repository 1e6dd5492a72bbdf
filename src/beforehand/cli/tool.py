"""`beforehand tool list|find|schema|NAME`: every tool, callable by name."""

from typing import Annotated, Any

import orjson
from cyclopts import Parameter

from beforehand.cli.output import ArchivePath, Json, archive_path, emit, note
from beforehand.clock import parse_instant
from beforehand.config import Home, Workspace
from beforehand.errors import EXIT_OK, InputError
from beforehand.gateway.opening import Mode, open_door
from beforehand.tools.bounds import ToolAnswer
from beforehand.tools.caller import Storage
from beforehand.tools.discovery import describe_tool, label, load_tools, search_tools, servers
from beforehand.tools.registry import Tool, Toolbox, coerce, find_tool
from beforehand.tools.servers.discovery_mode import DESK, definition


def tool(
    name: Annotated[str, Parameter(help="A tool; or list, find WORDS, schema TOOL.")],
    what: Annotated[str, Parameter(help="Of find and schema: words, or a tool.")] = "",
    /,
    *,
    arg: Annotated[
        list[str] | None,
        Parameter(name="--arg", negative="", help="An argument, as name=value. Repeat for more."),
    ] = None,
    as_of: Annotated[
        str | None, Parameter(help="Pin the call to this instant: nothing later is seen.")
    ] = None,
    server: Annotated[str | None, Parameter(help="Of list and find: only this server.")] = None,
    mode: Annotated[
        Mode, Parameter(help="replay: the archive. live: the services. record: both, kept.")
    ] = "replay",
    archive: ArchivePath = None,
    json: Json = False,
) -> int:
    """Call a tool by name, or list, find and describe the tools.

    `beforehand tool list` shows all, `tool find WORDS` some, and `tool schema NAME` what one takes.
    """
    load_tools()
    if name in ("list", "find"):
        if server is not None and server not in servers():
            raise InputError(f"no server {server!r}: there are {', '.join(servers())}")
        if name == "list" and what:
            raise InputError(f"`tool list` takes no words: `tool find {what!r}` searches")
        return _list(search_tools(what if name == "find" else "", server), json)
    if name == "schema":
        return _schema(what, json)
    if what:
        raise InputError(f"{name} takes its arguments as --arg name=value, not {what!r}")
    found = find_tool(name)
    if server is not None:
        raise InputError("--server goes with list and find")
    pairs = [_pair(text) for text in arg or ()]
    names = [key for key, _ in pairs]
    if repeated := [key for key in names if names.count(key) > 1]:
        raise InputError(f"--arg {repeated[0]} stands twice: a list is written {repeated[0]}=a,b")
    values = coerce(found, dict(pairs))
    answer = _call(found, values, as_of, mode, archive)
    if answer.spent.usd:
        note(f"it cost ${answer.spent.usd:.4f}")
    if json:
        emit(answer.content)
    else:
        _print(answer.content)
    return EXIT_OK


def _call(
    found: Tool, values: dict[str, Any], as_of: str | None, mode: Mode, archive: Any
) -> ToolAnswer:
    workspace = Workspace.from_environment()
    try:
        pinned = None if as_of is None else parse_instant(as_of)
    except ValueError as error:
        raise InputError(f"--as-of: {error}") from None
    path = archive_path(archive)
    door = open_door(workspace, mode, path)
    if pinned is not None:
        door.gateway.live().narrow(pinned)
    storage = Storage(workspace.home, mode, door.live, door.traffic)
    try:
        return Toolbox(door.gateway, storage, pinned).call(found.name, values)
    finally:
        if moved := door.close():
            note(f"recorded {moved} exchanges in {path}")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InputError(f"--arg {text!r} must be name=value")
    return name.strip(), value


def _list(found: list[Tool], json: bool) -> int:
    home = Home.from_environment()
    rows = [
        {
            "name": t.name,
            "server": t.server,
            "summary": t.summary,
            **label(t, home),
            "as_of": t.outside,
        }
        for t in found
    ]
    if json:
        emit({"tools": rows, "discovery": [definition(t, False) for t in DESK.values()]})
        return EXIT_OK
    if not found:
        print("no tool fits: `beforehand tool list` shows all")
        return EXIT_OK
    from beforehand.cli.tables import console, table

    columns = ("tool", "server", "tried on", "what it does")
    cells = [
        [r["name"], r["server"], f"{r['label']} {r['date']}", _brief(r["summary"])] for r in rows
    ]
    console().print(table("", [(name, "left") for name in columns], cells, 40))
    return EXIT_OK


def _brief(text: str) -> str:
    first = text.split(". ")[0].split(": ")[0]
    return first if len(first) <= 60 else first[:59] + "…"


def _schema(name: str, json: bool) -> int:
    if not name:
        raise InputError("name a tool: beforehand tool schema NAME")
    found = describe_tool(name)
    if json:
        emit(found)
        return EXIT_OK
    print(f"{found['name']} ({found['server']})\n\n{found['description']}\n")
    required = set(found["inputSchema"].get("required", ()))
    for key, entry in found["inputSchema"]["properties"].items():
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


def _print(content: dict[str, Any]) -> None:
    """The answer for people: JSON without `_meta`, what was cut as a note."""
    meta = content.pop("_meta")
    print(orjson.dumps(content, option=orjson.OPT_INDENT_2).decode())
    for text in meta.get("notes", ()):
        note(text)
    if cut := meta.get("cut"):
        note("cut: " + ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in cut.items()))
