"""`beforehand runs list|show`."""

from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.output import Json, emit, plain_table
from beforehand.config import Home
from beforehand.errors import EXIT_OK, Corrupt, NotFound
from beforehand.store.files import read_json
from beforehand.store.runs import list_runs, open_run


def list_(*, json: Json = False) -> int:
    """Every run, newest first."""
    found = [run.facts() for run in list_runs(Home.from_environment().runs)]
    if json:
        emit({"runs": [{k: v for k, v in f.items() if k != "files"} for f in found]})
        return EXIT_OK
    if not found:
        print("no runs yet: `beforehand demo` or `beforehand backtest run` makes one")
        return EXIT_OK
    header = ["run", "kind", "status", "world"]
    rows = [
        [f["run_id"], f.get("kind", ""), f["status"], f.get("archive_digest", "")[:12]]
        for f in found
    ]
    print(plain_table([header, *rows]))
    return EXIT_OK


def show(
    run_id: Annotated[str, Parameter(help="The run, or latest.")], /, *, json: Json = False
) -> int:
    """One run: its leaderboard, validity card and leak report."""
    root = Home.from_environment().runs
    if run_id == "latest":
        found = list_runs(root)
        if not found:
            raise NotFound(f"there are no runs in {root} yet")
        run_id = found[0].run_id
    folder = open_run(root, run_id)
    scores = folder.path / "scores.json"
    summary = read_json(scores) if scores.is_file() else None
    if summary is not None and not (isinstance(summary, dict) and "leaderboard" in summary):
        raise Corrupt(f"{scores} is not what a run writes")
    if json:
        emit({**folder.facts(), "scores": summary})
    elif summary is None:
        facts = folder.facts()
        print(f"{facts['run_id']}: {facts['status']}, no scores; files in {folder.path}")
    else:
        from beforehand.cli.tables import print_result

        print(f"run {folder.run_id}")
        print_result(summary, folder.path / "report.html")
    return EXIT_OK
