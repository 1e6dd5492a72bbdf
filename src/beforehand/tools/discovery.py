"""Find tools: list all of them, search by what they do, and describe one in full."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from typing_extensions import TypedDict

from beforehand.gateway.search import stems
from beforehand.plugins import PLUGINS, Plugin
from beforehand.tools import servers as servers_folder
from beforehand.tools.index import Index
from beforehand.tools.registry import REGISTRY, Tool, find_tool


class Described(TypedDict):
    """`outputSchema` is that of the answer's JSON."""

    name: str
    server: str
    description: str
    inputSchema: Mapping[str, object]
    outputSchema: Mapping[str, object]


class Named(TypedDict):
    """One line of a search."""

    name: str
    server: str
    summary: str


def search_tools(query: str = "", server: str | None = None, limit: int = 10) -> list[Tool]:
    """Tools whose name, server and summary share most words with the query, best first."""
    load_tools()
    found = [t for t in REGISTRY.values() if server in (None, t.server)]
    asked = stems(query)
    if not asked:
        return sorted(found, key=lambda t: (t.server, t.name))
    scored = []
    for tool in found:
        name = stems(tool.name.replace("_", " ").replace("-", " "))
        text = stems(f"{tool.server.replace('-', ' ')} {tool.description}")
        score = sum(3 * (w in name) + (w in text) for w in asked)
        if score:
            scored.append((-score, tool.name, tool))
    return [tool for _, _, tool in sorted(scored, key=lambda s: s[:2])[:limit]]


def describe_tool(name: str) -> Described:
    """A tool's name, server, description, and the schemas of its arguments and its answer."""
    load_tools()
    tool = find_tool(name)
    return {
        "name": tool.name,
        "server": tool.server,
        "description": tool.description,
        "inputSchema": tool.schema,
        "outputSchema": tool.answer,
    }


def servers() -> list[str]:
    """The names of the servers, in the order of their tools."""
    return list(dict.fromkeys(tool.server for tool in load_tools().values()))


@cache
def load_tools() -> dict[str, Tool]:
    """Import every file of tools; returns the registry, in the order of the files' names."""
    modules = [f"{servers_folder.__name__}.{m.name}" for m in iter_modules(servers_folder.__path__)]
    for name in modules:
        import_module(name)
    for _ in PLUGINS.load("tools", _enter):
        pass
    broken = {one.value.partition(":")[0] for one in PLUGINS.broken if one.group == "tools"}
    for name in [n for n, tool in REGISTRY.items() if tool.function.__module__ in broken]:
        del REGISTRY[name]
    place = {name: i for i, name in enumerate(modules)}
    ordered = sorted(
        REGISTRY.items(), key=lambda item: place.get(item[1].function.__module__, len(place))
    )
    REGISTRY.clear()
    REGISTRY.update(ordered)
    return REGISTRY


def _enter(plugin: Plugin, found: object) -> None:
    """Importing a plugin's module registers the tools that it decorates."""
    if not any(tool.function is found for tool in REGISTRY.values()):
        raise TypeError(f"{plugin.value} is not a tool: decorate it with @tool(SERVER, ...)")


def index() -> Index:
    """The index as the registry has it now."""
    from beforehand.tools.servers.discovery_mode import DISCOVERY, definition

    return {
        "tools": [
            {
                "name": tool.name,
                "server": tool.server,
                "summary": tool.summary,
                "label": tool.example.evidence,
                "date": tool.example.date,
                "source": tool.example.source,
                "as_of": tool.outside,
                "probe": tool.probe,
            }
            for tool in search_tools()
        ],
        "discovery": [definition(tool, False) for tool in DISCOVERY.values()],
    }
