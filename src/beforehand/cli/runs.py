"""`beforehand runs list|show|watch|resume|cancel|fork|verify|diff|export`."""

import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Literal, cast

import orjson
from cyclopts import Parameter

from beforehand.cli.answers import print_answer
from beforehand.cli.output import Json, Verbose, emit, note, plain_table
from beforehand.config import Workspace
from beforehand.errors import (
    EXIT_FAILED,
    EXIT_OK,
    EXIT_PARTIAL,
    InputError,
    NotFound,
)
from beforehand.front.progress import progress
from beforehand.runs.query import (
    RunState,
    all_runs,
    find_journal,
    find_run,
    is_driven,
    need_journal,
    shown,
    state_of,
    status_of,
)
from beforehand.store.files import read_json
from beforehand.store.journal.events import RunEvent, events_after
from beforehand.store.journal.journal import Journal
from beforehand.store.journal.schema import ASIDE
from beforehand.store.run_folder import INTERVALS, RunFolder, open_run

if TYPE_CHECKING:
    from beforehand.score.summary import Summary

Run = Annotated[str, Parameter(help="The run, or latest.")]
LOOK_S = 0.5
LONGEST_SUBJECT, LONGEST_VALUE = 40, 100


def list_(*, json: Json = False) -> int:
    """Every run, newest first."""
    workspace, journal = opened()
    found = all_runs(workspace.home, journal)
    if json:
        emit({"runs": found})
        return EXIT_OK
    if not found:
        print("no runs yet: `beforehand demo` or `beforehand backtest run` makes one")
        return EXIT_OK
    header = ["run", "kind", "status", "started", "by", "calls", "cost", "of", "verdict"]
    rows = [
        [
            f["run_id"],
            f["kind"],
            f["status"],
            (f.get("created_at") or "")[:16].replace("T", " "),
            f.get("started_by") or "",
            f"{f['calls']:,}" if f.get("calls") else "",
            f"${f['cost']:.2f}" if f.get("cost") else "",
            _brief(f.get("subject") or ""),
            f.get("headline") or "",
        ]
        for f in found
    ]
    if not any(f.get("started_by") for f in found):
        header, rows = _without(header, 4), [_without(row, 4) for row in rows]
    print(plain_table([header, *rows]))
    if any(f["status"] in ("unfinished", "stopped", "cancelled") for f in found):
        print("unfinished, stopped, cancelled: `beforehand runs resume RUN` goes on")
    return EXIT_OK


def _without(cells: list[str], place: int) -> list[str]:
    return cells[:place] + cells[place + 1 :]


def _brief(text: str, most: int = LONGEST_SUBJECT) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def show(run_id: Run, /, *, verbose: Verbose = False, json: Json = False) -> int:
    """One run: its status; once it is finished, its leaderboard, validity card and leak report."""
    workspace, journal = opened()
    home = workspace.home
    name = find_run(run_id, home, journal)
    row = journal.run(name) if journal else None
    folder = RunFolder(home.runs, name)
    folder.check_form()
    if row is None:
        folder = open_run(home.runs, name)
    answer = folder.path / "answer.json"
    found = shown(name, workspace, journal)
    if changed := found["changed"]:
        note(f"{changed[0]} was changed after the run: `beforehand runs verify {name}`")
        if not json:
            print(f"CHANGED AFTER THE RUN: {', '.join(changed)}; what follows may be untrue")
    if json:
        emit(found)
        return EXIT_OK
    summary = found["scores"]
    state = state_of(row, journal) if row and journal else None
    if state and row and journal:
        status = status_of(row, home, journal)
        _print_state(replace(state, status=status))
        if found["started_by"]:
            print(f"started by {found['started_by']}")
        if by := journal.resumed_by(name):
            print(f"resumed by {', then '.join(by)}")
        if status == "unfinished":
            print(f"no process is carrying it out; `beforehand runs resume {name}` continues it")
    if summary is not None:
        from beforehand.cli.tables import print_result

        if not state:
            print(f"run {name}")
        print_result(cast("Summary", summary), folder.path / "report.html", verbose)
        if since := found.get("tried_since"):
            note(
                f"{since:,} more tried on such a set since: the bounds here do not count them; "
                "score again for bounds that do (`beforehand runs trials`)"
            )
    elif answer.is_file():
        print()
        print_answer(read_json(answer))
    elif row is not None and row.kind == "scout" and (folder.path / "plan.json").is_file():
        from beforehand.cli.scout import print_run

        print_run(folder)
    elif not state:
        print(f"{name}: {folder.facts()['status']}, no scores; files in {folder.path}")
    return EXIT_OK


def watch(
    run_id: Run = "latest",
    /,
    *,
    events: Annotated[
        bool, Parameter(negative="", help="Print every event so far, and each new one, as JSON.")
    ] = False,
    json: Json = False,
) -> int:
    """Follow a run until it ends."""
    workspace = Workspace.from_environment()
    home, journal = workspace.home, need_journal(workspace)
    row = journal.known_run(find_run(run_id, home, journal))
    number = 0
    with progress(f"run {row.run_id}") as update:
        while True:
            state = state_of(row, journal)
            while found := events_after(journal.database, row.run_id, number):
                number = found[-1].number
                for event in found:
                    _tell(event, events)
            update(state.status, state.done, max(state.total, 1))
            if state.status not in ("running", "cancelling"):
                break
            if not is_driven(row, home, journal):
                note(
                    f"run {row.run_id}: no process is carrying it out; `beforehand runs resume "
                    f"{row.run_id}` continues it"
                )
                break
            time.sleep(LOOK_S)
            row = journal.known_run(row.run_id)
    if json:
        emit(state.wire())
    elif not events:
        _print_state(state)
    return {"success": EXIT_OK, "failed": EXIT_FAILED}.get(state.status, EXIT_PARTIAL)


def _tell(event: RunEvent, every: bool) -> None:
    """With `every`, print an event as a line of JSON; else note what happens to the whole run."""
    if every:
        print(orjson.dumps(event.wire()).decode(), flush=True)
    elif event.what in ("run resumed", "run taken over", "resume asked", "run cancelled"):
        by = f" by {event.detail['by']}" if "by" in event.detail else ""
        note(f"{event.at[:19]}Z  {event.what}{by}")


def cancel(run_id: Run, /, *, json: Json = False) -> int:
    """Ask a run to end: no new calls are made, those in flight are recorded."""
    workspace = Workspace.from_environment()
    home, journal = workspace.home, need_journal(workspace)
    row = journal.known_run(find_run(run_id, home, journal))
    if row.run_id == ASIDE:
        raise InputError(
            f"{ASIDE} is no run but the calls made outside of runs: it cannot be cancelled"
        )
    if row.status in ("success", "cancelled"):
        raise InputError(f"run {row.run_id} has ended already ({row.status})")
    journal.cancel(row.run_id, is_driven(row, home, journal))
    status = journal.known_run(row.run_id).status
    if json:
        emit({"run_id": row.run_id, "status": status})
    else:
        print(f"run {row.run_id}: {status}; `beforehand runs resume {row.run_id}` continues it")
    return EXIT_OK


def verify(run_id: Run, /, *, json: Json = False) -> int:
    """Check a run again from its records alone: digests, manifests, the cutoff, the journal."""
    from beforehand.runs.verify import sound, verdict
    from beforehand.runs.verify import verify as verify_run

    workspace, journal = opened()
    home = workspace.home
    folder = open_run(home.runs, find_run(run_id, home, journal))
    checks = verify_run(folder, journal)
    if json:
        emit(
            {
                "run_id": folder.run_id,
                "sound": sound(checks),
                "checks": [asdict(check) for check in checks],
            }
        )
    else:
        rows = [["check", "checked", "wrong", "what"]]
        rows += [[c.name, f"{c.n:,}", f"{c.wrong:,}", c.what] for c in checks]
        print(plain_table(rows))
        for check in checks:
            for problem in check.problems:
                print(f"{check.name}: {problem}")
        print(f"run {folder.run_id}: {verdict(checks)}")
    return EXIT_OK if sound(checks) else EXIT_FAILED


def diff(left: Run, right: Run, /, *, json: Json = False) -> int:
    """What differs between two runs: configuration, forecasts, results."""
    from beforehand.runs.diff import differences

    workspace, journal = opened()
    home = workspace.home
    folders = [open_run(home.runs, find_run(name, home, journal)) for name in (left, right)]
    found = differences(*folders)
    if json:
        emit(found)
        return EXIT_OK
    both = found["intervals"]
    print(
        f"{both['both']:,} forecasts in both, {both['different']:,} differ "
        f"({both['other_context']:,} in what was shown, {both['other_probability']:,} in the "
        "probability); only in "
        f"{found['left']}: {both['only_left']:,}, only in {found['right']}: {both['only_right']:,}"
    )
    if both["first"]:
        first = both["first"]
        print(f"first: {first['market_id']} at {first['time']} ({', '.join(first['parts'])})")
    for name, (a, b) in found["config"].items():
        print(f"{name}: {_brief(str(a), LONGEST_VALUE)} | {_brief(str(b), LONGEST_VALUE)}")
    if found["leaderboard"]:
        rows = [["forecaster", f"Brier {found['left']}", f"Brier {found['right']}"]]
        rows[0] += ["right - left, same rows", "95 %", ""]
        for row in found["leaderboard"]:
            cells = [row["forecaster"], *("–" if b is None else f"{b:.4f}" for b in row["brier"])]
            if (pair := row["paired"]) is not None:
                low, high = pair["ci"]
                cells.append("–" if (d := pair["difference"]) is None else f"{d:.4f}")
                cells.append("–" if low is None or high is None else f"[{low:.4f}, {high:.4f}]")
                cells.append(pair["verdict"])
            rows.append([*cells, *[""] * (6 - len(cells))])
        print(plain_table(rows))
    return EXIT_OK


def costs(run_id: Run = "latest", /, *, json: Json = False) -> int:
    """What each forecaster of a run cost; of one that was stopped, what it has cost so far."""
    from beforehand.runs.rows import read_intervals
    from beforehand.runs.spent import cost_by_forecaster, cost_so_far

    workspace, journal = opened()
    folder = open_run(workspace.home.runs, find_run(run_id, workspace.home, journal))
    if folder.wrote(INTERVALS):
        rows = read_intervals(folder.path / "intervals.jsonl")
        if journal is None or journal.run(folder.run_id) is None:
            raise NotFound(
                f"what run {folder.run_id} cost is not on record here: the journal with which it "
                "was begun knows it (BEFOREHAND_DATABASE_URL set, or not)"
            )
        found = cost_by_forecaster(rows, folder, journal.calls)
    else:
        found = [] if journal is None else cost_so_far(folder.run_id, journal.calls)
    if not found:
        raise NotFound(f"run {folder.run_id} has no call on record: there is nothing to count")
    if json:
        emit({"run_id": folder.run_id, "costs": [asdict(one) for one in found]})
        return EXIT_OK
    header = ["forecaster", "forecasts", "on calls", "tokens", "US dollars", "ms per forecast"]
    cells = [
        [
            one.forecaster,
            f"{one.forecasts:,}",
            f"{one.asked:,}",
            "–" if one.tokens is None else f"{one.tokens:,}",
            "–" if one.cost is None else f"{one.cost:.4f}",
            "–" if one.latency_ms is None else f"{one.latency_ms:,.0f}",
        ]
        for one in found
    ]
    print(plain_table([header, *cells]))
    if journal is not None and (again := journal.calls.sent_again(folder.run_id)):
        print(f"{again:,} calls were sent again: what attempts without an answer cost is not known")
    return EXIT_OK


def export(
    run_id: Run,
    /,
    *,
    format: Annotated[
        Literal[
            "csv",
            "parquet",
            "jsonl",
            "intervals",
            "predictions",
            "latex",
            "markdown",
            "svg",
            "png",
            "gain",
            "galileo",
            "otlp",
        ],
        Parameter(
            help="csv, parquet, jsonl: one row per forecast; intervals, predictions: the lines of "
            "the run's own .jsonl, also where it keeps columns; latex, markdown: the leaderboard "
            "with a paragraph on methods; svg, png: its picture; gain: the gain of the first "
            "forecaster under test over time, as SVG; galileo, otlp: traces."
        ),
    ] = "csv",
    out: Annotated[
        str | None, Parameter(help="The file; for otlp the collector's address (http://host:4318).")
    ] = None,
    json: Json = False,
) -> int:
    """A finished run for other tools and for papers: tables, pictures, traces."""
    from beforehand.runs.export import export as export_run

    workspace, journal = opened()
    folder = open_run(workspace.home.runs, find_run(run_id, workspace.home, journal, scored=True))
    counts = export_run(folder, format, out, journal, workspace.home)
    if json:
        emit(counts)
    else:
        stated = f"; data: {', '.join(found)}" if (found := counts.get("licences")) else ""
        print(f"{counts['out']}: {counts['rows']:,} {counts['what']}{stated}")
    return EXIT_OK


def opened() -> tuple[Workspace, Journal | None]:
    """The workspace, and the journal if any run was started."""
    workspace = Workspace.from_environment()
    return workspace, find_journal(workspace)


def _print_state(state: RunState) -> None:
    spent = ""
    if state.calls:
        spent = f"; {state.calls:,} paid calls, {state.tokens:,} tokens, ${state.cost:.4f}"
    steps = f", {state.done:,} of {state.total:,} steps done" if state.total else ""
    print(f"run {state.run_id}: {state.status}{steps}{spent}")
    if state.reason:
        print(state.reason)
