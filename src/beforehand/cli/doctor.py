"""`beforehand doctor`: what works here, what does not, and what to do about it."""

from typing import Annotated

from cyclopts import Parameter
from rich.text import Text

from beforehand.cli.output import Json, emit
from beforehand.cli.screen import screen
from beforehand.cli.tables import table
from beforehand.config import Workspace
from beforehand.errors import EXIT_FAILED, EXIT_OK, EXIT_PARTIAL
from beforehand.front.progress import progress
from beforehand.gateway.opening import open_traffic
from beforehand.jobs.health import checks
from beforehand.jobs.live_check import check
from beforehand.tools.index import listed_tools


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
    workspace = Workspace.from_environment()
    found = checks(workspace)
    broken = [row["name"] for row in found if row["ok"] is False]
    if json:
        emit(
            {
                "ok": not broken,
                "checks": found,
                "tools": [
                    {key: tool[key] for key in ("name", "server", "label", "date", "source")}
                    for tool in listed_tools(workspace.home)
                ],
            }
        )
    else:
        mark = {
            True: Text("ok", style="green"),
            False: Text("broken", style="red"),
            None: Text("not there", style="dim"),
        }
        _print("check", [[row["name"], mark[row["ok"]], row["detail"]] for row in found])
    return EXIT_FAILED if broken else EXIT_OK


def _print(what: str, rows: list[list[str | Text]]) -> None:
    """A table whose last column says what to do: it is folded, never cut."""
    made = table("", [(what, "left"), ("state", "left"), ("detail", "left")], rows)
    made.columns[-1].no_wrap = False
    screen().print(made)


_TONES = {"ok": "green", "drift": "red", "not reachable": "red"}


def _live(json: bool) -> int:
    workspace = Workspace.from_environment()
    with progress("doctor") as update:
        keep, ask = workspace.home.live_checks, open_traffic(workspace)
        found = check(ask, workspace.clock, keep, update, workspace.settings)
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
