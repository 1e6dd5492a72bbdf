"""A page for each server, written from the registry: `make docs` (python -m beforehand.tools.pages
FOLDER) writes them, and a test compares the committed ones with it. With names of servers after the
folder, only their pages are written: for the tools of another package."""

import sys
from pathlib import Path

from beforehand.sources.base import Provider
from beforehand.sources.catalogue import PROVIDERS
from beforehand.store.files import write_atomic, write_json
from beforehand.store.market_data.templates import TEMPLATES
from beforehand.tools.bounds import MAX_TOKENS
from beforehand.tools.discovery import index, load_tools
from beforehand.tools.index import FILE
from beforehand.tools.registry import SERVERS, Schema, Tool
from beforehand.tools.servers.discovery_mode import is_structured, listing_costs

AUTH = (
    "Over HTTP a bearer token that covers this server (`beforehand token issue --user NAME "
    "--servers {server}`); its digest alone is kept, in `workspace/access.db` or Postgres. Over "
    "stdio nobody is asked. A token or a server may be pinned to an instant: `--as-of`."
)
FAILURES = (
    "From the archive an answer takes milliseconds. What fails comes back as one sentence with "
    "`isError`, its kind under `_meta` (`beforehand/error`: InputError: correct the argument; "
    "NotFound: name something known at that time; RateLimited and Unavailable: wait `retry_after` "
    "seconds; NotConfigured: a key is missing; CutoffViolation: ask for an earlier time). An "
    "unknown tool is the protocol's error -32602."
)


def pages() -> dict[str, str]:
    """File name to text, one page a server."""
    found: dict[str, list[Tool]] = {}
    for tool in load_tools().values():
        found.setdefault(tool.server, []).append(tool)
    return {f"{server}.md": _page(server, tools) for server, tools in sorted(found.items())}


def _page(server: str, tools: list[Tool]) -> str:
    cost = next(row for row in listing_costs() if row["server"] == server)
    lines = [f"# Server `{server}`", "", SERVERS[server], ""]
    lines += ["Written from the tool registry by `make docs`.", ""]
    lines += [
        f"Served by `beforehand mcp {server}`. Connecting costs a client about "
        f"{cost['tokens']:,} tokens ({cost['tools']} tools listed), in discovery mode about "
        f"{cost['discovery_tokens']:,}.",
        "",
    ]
    lines += ["## Tools", ""]
    for tool in tools:
        lines += _tool(tool)
    lines += ["## Who may call", "", AUTH.format(server=server), ""]
    lines += ["## Keys, waiting times, failures, limits", "", FAILURES, ""]
    names = dict.fromkeys(name for tool in tools for name in tool.services)
    if not names:
        lines += ["Nothing outside is asked: no key, no network.", ""]
    for name in names:
        lines += _service(PROVIDERS[name])
    limited = [tool for tool in tools if tool.limit is not None]
    for tool in limited:
        assert tool.limit is not None
        lines += [
            f"`{tool.name}`: {tool.limit.calls} {tool.limit.name} in {tool.limit.seconds / 60:g} "
            "minutes for each user, counted on disk: a restart forgets none. Beyond it a call is "
            "refused with the time to wait. A local stdio server counts nothing.",
            "",
        ]
    lines += [
        f"No answer is longer than {MAX_TOKENS:,} estimated tokens unless `max_tokens` asks for "
        "more; `_meta` says what an answer cost and what was cut.",
        "",
    ]
    return "\n".join(lines)


def _tool(tool: Tool) -> list[str]:
    example = tool.example
    tried = {
        "recorded": f"Tried on recorded answers ({example.source}, {example.date}).",
        "simulated": f"Shape, not recorded ({example.source.split(' (')[0]}, {example.date}).",
        "offline": f"Needs nothing outside ({example.source}).",
    }[example.evidence]
    lines = [f"### `{tool.name}`", "", tool.description, "", tried, ""]
    lines += ["| argument | type | default | meaning |", "|---|---|---|---|"]
    required = tool.schema.get("required", ())
    for name, entry in tool.schema["properties"].items():
        default = "required" if name in required else _shown(entry.get("default"))
        meaning = str(entry.get("description", "")).replace("|", "\\|")
        lines.append(f"| `{name}` | {_kind(entry)} | {default} | {meaning} |")
    lines += ["", *(_templates() if tool.name == "run_query" else ())]
    sent = "text and structured content" if is_structured(tool) else "one text of JSON"
    return [*lines, f"Answers ({sent}):", "", "```", *_shape(tool.answer).split("\n"), "```", ""]


def _shape(entry: Schema, indent: str = "") -> str:
    """An output schema as it reads best; `?` marks what may be absent."""
    if "anyOf" in entry:
        return " | ".join(_shape(part, indent) for part in entry["anyOf"])
    if entry.get("type") == "array":
        return f"[{_shape(entry.get('items', {}), indent)}]"
    names = entry.get("properties")
    if not names:
        return {"object": "{…}"}.get(entry.get("type", "any"), str(entry.get("type", "any")))
    inner, required = indent + "  ", entry.get("required", ())
    lines = [
        f"{inner}{name}{'' if name in required else '?'}: {_shape(part, inner)}"
        for name, part in names.items()
    ]
    return "\n".join(["{", *lines, f"{indent}}}"])


def _templates() -> list[str]:
    """The query templates, with their parameters (optional ones in brackets)."""
    lines = ["| template | params | gives |", "|---|---|---|"]
    for name, spec in TEMPLATES.items():
        names = [f"`{n}`" for n in spec.required] + [f"[`{n}`]" for n in spec.optional]
        lines.append(f"| `{name}` | {', '.join(names)} | {spec.doc} |")
    return [*lines, ""]


def _shown(value: object) -> str:
    return "" if value in (None, "", []) else f"`{str(value).lower() if value is True else value}`"


def _kind(entry: Schema) -> str:
    if "enum" in entry:
        return ", ".join(str(choice) for choice in entry["enum"])
    if "anyOf" in entry:
        return " or ".join(_kind(part) for part in entry["anyOf"] if part.get("type") != "null")
    if entry.get("type") == "array":
        return f"list of {_kind(entry.get('items', {}))}"
    return str(entry.get("type", "any"))


def _service(provider: Provider) -> list[str]:
    """What calling a service asks for, and how it fails."""
    limits = ", ".join(
        f"{limit.calls:,} calls in {limit.seconds:g} s"
        + (f" ({', '.join(limit.endpoints)})" if limit.endpoints else "")
        for limit in provider.limits
    )
    key = "No key."
    if provider.keys:
        key = f"Needs {' and '.join(provider.keys)}: {provider.without}."
    lines = [
        f"**{provider.title}.** {key} One attempt takes at most {provider.timeout:g} s, all of "
        f"them {provider.deadline:g} s ({provider.attempts} attempts; 429, 500 and 503 are asked "
        "again, after Retry-After where it is given; 502 and 504 as well, unless the request may "
        f"have been paid for). Limits kept: {limits}."
    ]
    if provider.defer:
        codes = " and ".join(str(code) for code in sorted(provider.defer))
        lines[0] += (
            f" {codes} are not asked again: the feed waits for its next window of "
            f"{provider.window_seconds / 3600:g} hours."
        )
    return [*lines, ""]


if __name__ == "__main__":
    made, servers = pages(), sys.argv[2:]
    for name, text in made.items():
        if not servers or name.removesuffix(".md") in servers:
            write_atomic(Path(sys.argv[1]) / name, text.encode())
    if not servers:
        write_json(FILE, index())
