"""`beforehand doctor`: what works here, what does not, and what to do about it."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from rich.text import Text

from beforehand import __version__
from beforehand.cli.output import Json, emit
from beforehand.cli.tables import console, table
from beforehand.config import Home, recorded_data
from beforehand.errors import EXIT_FAILED, EXIT_OK, BeforehandError
from beforehand.store.archive import Archive

LIBRARIES = ("numpy", "pydantic", "msgspec", "orjson", "httpx2", "cyclopts", "rich", "jinja2")


def doctor(*, json: Json = False) -> int:
    """Check the installation, the home folder, the archive and the recorded data."""
    checks = [
        ("beforehand", True, __version__),
        ("python", sys.version_info >= (3, 11), platform.python_version()),
        *(_library(name) for name in LIBRARIES),
        _home(),
        _archive(),
        _data(),
    ]
    broken = [name for name, ok, _ in checks if ok is False]
    if json:
        emit(
            {
                "ok": not broken,
                "checks": [{"name": n, "ok": ok, "detail": d} for n, ok, d in checks],
            }
        )
    else:
        mark = {
            True: Text("ok", style="green"),
            False: Text("broken", style="red"),
            None: Text("not there", style="dim"),
        }
        rows: list[list[str | Text]] = [[name, mark[ok], detail] for name, ok, detail in checks]
        console().print(table("", [("check", "left"), ("state", "left"), ("detail", "left")], rows))
    return EXIT_FAILED if broken else EXIT_OK


Check = tuple[str, bool | None, str]


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
            "BEFOREHAND_DATA names no folder; simulated worlds work without",
        )
    return "recorded data", True, str(path)
