"""The index of all tools: `tool list` reads it from a file, so that no tool is imported.

`make docs` writes `index.json` from the registry, and a test checks that the two agree.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from beforehand.config import Home
from beforehand.errors import InputError
from beforehand.plugins import PLUGINS
from beforehand.store.files import read_json

FILE = Path(__file__).with_name("index.json")


class Proof(TypedDict):
    """How far a tool is proven (live-verified, recorded, simulated, offline), when and on what."""

    label: str
    date: str
    source: str


class IndexedTool(Proof):
    """A tool in a line. `as_of`: it can be pinned to an instant; `probe`: what `doctor --live` asks
    for it."""

    name: str
    server: str
    summary: str
    as_of: bool
    probe: str | None


class Index(TypedDict):
    """Every tool, and the definitions of the discovery tools."""

    tools: list[IndexedTool]
    discovery: list[Mapping[str, object]]


def read_index() -> Index:
    """The index that was shipped."""
    found: Index = read_json(FILE)
    return found


def listed_tools(home: Home) -> list[IndexedTool]:
    """Every tool of the index: as live-verified if `doctor --live`, run from this home, saw the
    service answer as expected, else with what it was tried on."""
    try:
        kept = read_json(home.live_checks)
    except InputError:
        kept = None
    checks = kept if isinstance(kept, dict) else {}
    return [_checked(tool, checks) for tool in [*read_index()["tools"], *_of_others()]]


def _of_others() -> list[IndexedTool]:
    """The tools of other packages; only where there are any, tools are loaded."""
    if not PLUGINS.found("tools"):
        return []
    from beforehand.tools.discovery import index

    known = {tool["name"] for tool in read_index()["tools"]}
    return [tool for tool in index()["tools"] if tool["name"] not in known]


def _checked(tool: IndexedTool, kept: Mapping[str, Mapping[str, str]]) -> IndexedTool:
    row = kept.get(tool["probe"] or "")
    if row is None or row.get("state") != "ok" or "mirror" in row:
        return tool
    return {**tool, "label": "live-verified", "date": row["date"], "source": row["name"]}
