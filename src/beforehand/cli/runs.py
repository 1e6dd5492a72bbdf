"""`beforehand runs list|show|watch|resume|cancel|fork|verify|diff|export`."""

import re
import time
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from beforehand.cli.options import Fresh, RunEffort, RunId, effort
from beforehand.cli.output import Json, emit, note, plain_table, progress, telling
from beforehand.clock import parse_instant
from beforehand.config import Home, database_url
from beforehand.errors import (
    EXIT_FAILED,
    EXIT_OK,
    EXIT_PARTIAL,
    Corrupt,
    Held,
    InputError,
    NotFound,
)
from beforehand.store.calls import Calls
from beforehand.store.files import read_json
from beforehand.store.journal import Journal
from beforehand.store.journal_schema import RunRow
from beforehand.store.runs import RunFolder, list_runs, open_run

Run = Annotated[str, Parameter(help="The run, or latest.")]
LOOK_S = 0.5


def list_(*, json: Json = False) -> int:
    """Every run, newest first."""
    home = Home.from_environment()
    found = _known(home)
    if json:
        emit({"runs": found})
        return EXIT_OK
    if not found:
        print("no runs yet: `beforehand demo` or `beforehand backtest run` makes one")
        return EXIT_OK
    header = ["run", "kind", "status", "steps", "calls", "cost", "world"]
    rows = [
        [
            f["run_id"],
            f["kind"],
            f["status"],
            f"{f['done']}/{f['total']}" if f.get("total") else "",
            f"{f['calls']:,}" if f.get("calls") else "",
            f"${f['cost']:.2f}" if f.get("cost") else "",
            (f.get("archive_digest") or "")[:12],
        ]
        for f in found
    ]
    print(plain_table([header, *rows]))
    return EXIT_OK


def show(run_id: Run, /, *, json: Json = False) -> int:
    """One run: how it stands; once it is finished, its leaderboard, validity card, leak report."""
    home, journal, _ = opened()
    name = named(run_id, home, journal)
    row = journal.run(name) if journal else None
    folder = RunFolder(home.runs, name)
    if row is None:
        folder = open_run(home.runs, name)
    scores = folder.path / "scores.json"
    summary = read_json(scores) if scores.is_file() else None
    if summary is not None and not (isinstance(summary, dict) and "leaderboard" in summary):
        raise Corrupt(f"{scores} is not what a run writes")
    state = _state(row, journal) if row and journal else {}
    if json:
        facts = folder.facts() if folder.path.is_dir() else {"run_id": name}
        emit({**facts, **state, "scores": summary})
        return EXIT_OK
    if state:
        _print_state(state)
    if summary is not None:
        from beforehand.cli.tables import print_result

        if not state:
            print(f"run {name}")
        print_result(summary, folder.path / "report.html")
    elif not state:
        print(f"{name}: {folder.facts()['status']}, no scores; files in {folder.path}")
    return EXIT_OK


def watch(run_id: Run = "latest", /, *, json: Json = False) -> int:
    """Follow a run until it ends."""
    home, journal, _ = opened()
    if journal is None:
        raise NotFound("there is no journal yet: no run was begun in this home")
    row = journal.known_run(named(run_id, home, journal))
    with progress(f"run {row.run_id}") as update:
        while True:
            state = _state(row, journal)
            update(state["status"], state["done"], max(state["total"], 1))
            if state["status"] not in ("running", "cancelling"):
                break
            if not _driven(journal, row, home):
                note(
                    f"run {row.run_id}: no process is carrying it out; `beforehand runs resume "
                    f"{row.run_id}` goes on with it"
                )
                break
            time.sleep(LOOK_S)
            row = journal.known_run(row.run_id)
    if json:
        emit(state)
    else:
        _print_state(state)
    return {"success": EXIT_OK, "failed": EXIT_FAILED}.get(state["status"], EXIT_PARTIAL)


def resume(
    run_id: Run,
    /,
    *,
    max_calls: Annotated[int | None, Parameter(help="A new limit of paid calls.")] = None,
    max_tokens: Annotated[int | None, Parameter(help="A new limit of tokens.")] = None,
    max_cost: Annotated[float | None, Parameter(help="A new limit in US dollars.")] = None,
    in_flight: Annotated[
        Literal["resend", "skip", "stop"] | None,
        Parameter(help="For calls whose answer never came: send again, give up, or stop."),
    ] = None,
    concurrency: Annotated[int | None, Parameter(help="Steps and calls in flight.")] = None,
    fresh: Fresh = False,
    json: Json = False,
) -> int:
    """Go on with a run that was stopped, killed, cancelled or failed."""
    from beforehand.work.jobs import resume as resume_run

    home, journal, _ = opened()
    given = {
        "max_calls": max_calls,
        "max_tokens": max_tokens,
        "max_cost": max_cost,
        "in_flight": in_flight,
        "concurrency": concurrency,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    effort(RunEffort(**changes))  # type: ignore[arg-type]  # Refuses what a new run is refused.
    name = named(run_id, home, journal)
    with telling("resume") as told:
        finished = resume_run(home, name, changes, told=told, fresh=fresh)
    _print_finished(finished.folder, finished.summary, json)
    return EXIT_OK


def cancel(run_id: Run, /, *, json: Json = False) -> int:
    """Ask a run to end: no new calls are made, those in flight are recorded."""
    home, journal, _ = opened()
    if journal is None:
        raise NotFound("there is no journal yet: no run was begun in this home")
    row = journal.known_run(named(run_id, home, journal))
    if row.status in ("success", "cancelled"):
        raise InputError(f"run {row.run_id} has ended already ({row.status})")
    journal.cancel(row.run_id, _driven(journal, row, home))
    status = journal.known_run(row.run_id).status
    if json:
        emit({"run_id": row.run_id, "status": status})
    else:
        print(
            f"run {row.run_id}: {status}; `beforehand runs resume {row.run_id}` takes it up again"
        )
    return EXIT_OK


def fork(
    run_id: Run,
    /,
    *,
    at: Annotated[str, Parameter(help="From this instant on (ISO 8601).")],
    model: Annotated[
        list[str], Parameter(help="OLD=NEW: which model stands in for which from there on.")
    ],
    new_id: RunId = None,
    fresh: Fresh = False,
    json: Json = False,
) -> int:
    """Repeat a run up to an instant, from its own answers and for free, and go on from there with
    another model."""
    from beforehand.work.jobs import fork as fork_run

    home, journal, _ = opened()
    name = named(run_id, home, journal)
    with telling("fork") as told:
        moment, pairs = _instant("--at", at), _pairs(model)
        finished = fork_run(home, name, moment, pairs, new_id, told=told, fresh=fresh)
    _print_finished(finished.folder, finished.summary, json)
    return EXIT_OK


def verify(run_id: Run, /, *, json: Json = False) -> int:
    """Check a run again from its records alone: digests, manifests, the cutoff, the journal."""
    from beforehand.work.verify import sound
    from beforehand.work.verify import verify as verify_run

    home, journal, calls = opened()
    folder = open_run(home.runs, named(run_id, home, journal))
    checks = verify_run(folder, journal, calls)
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
        print(f"run {folder.run_id}: {'sound' if sound(checks) else 'NOT sound'}")
    return EXIT_OK if sound(checks) else EXIT_FAILED


def diff(left: Run, right: Run, /, *, json: Json = False) -> int:
    """What differs between two runs: configuration, forecasts, results."""
    from beforehand.work.compare import differences

    home, journal, _ = opened()
    folders = [open_run(home.runs, named(name, home, journal)) for name in (left, right)]
    found = differences(*folders)
    if json:
        emit(found)
        return EXIT_OK
    both = found["intervals"]
    print(
        f"{both['both']:,} forecasts in both, {both['different']:,} differ; only in "
        f"{found['left']}: {both['only_left']:,}, only in {found['right']}: {both['only_right']:,}"
    )
    if both["first"]:
        first = both["first"]
        print(f"first: {first['market_id']} at {first['time']} ({', '.join(first['parts'])})")
    for name, (a, b) in found["config"].items():
        print(f"{name}: {a} | {b}")
    if found["leaderboard"]:
        rows = [["forecaster", f"Brier {found['left']}", f"Brier {found['right']}"]]
        rows += [
            [row["forecaster"], *("–" if b is None else f"{b:.4f}" for b in row["brier"])]
            for row in found["leaderboard"]
        ]
        print(plain_table(rows))
    return EXIT_OK


def export(
    run_id: Run,
    /,
    *,
    format: Annotated[
        Literal["csv", "parquet", "jsonl", "galileo", "otlp"],
        Parameter(help="csv, parquet, jsonl: a row a decision; galileo, otlp: traces."),
    ] = "csv",
    out: Annotated[
        str | None, Parameter(help="The file; of otlp, the collector's address (http://host:4318).")
    ] = None,
    json: Json = False,
) -> int:
    """A finished run for other tools: tables, Galileo traces, OpenTelemetry over OTLP."""
    from beforehand.work.export import export as export_run

    home, journal, calls = opened()
    folder = open_run(home.runs, named(run_id, home, journal))
    counts = export_run(folder, format, out, calls)
    if json:
        emit(counts)
    else:
        print(f"{counts['out']}: {counts['rows']:,} {counts['what']}")
    return EXIT_OK


def opened() -> tuple[Home, Journal | None, Calls | None]:
    """The home and, if any run was begun, the journal."""
    home = Home.from_environment()
    if database_url() is None and not home.journal.is_file():
        return home, None, None
    from beforehand.work.jobs import open_journal

    return home, *open_journal(home)


def named(run_id: str, home: Home, journal: Journal | None) -> str:
    """The run's id; `latest` is the one begun last."""
    if run_id != "latest":
        return run_id
    rows = journal.runs() if journal else []
    if rows:
        return rows[0].run_id
    folders = list_runs(home.runs)
    if not folders:
        raise NotFound(f"there are no runs in {home.runs} yet")
    return folders[0].run_id


def _known(home: Home) -> list[dict[str, Any]]:
    """Runs of the journal, and folders of runs that need none."""
    _, journal, _ = opened()
    rows = journal.runs() if journal else []
    known = {row.run_id for row in rows}
    found = [_state(row, journal) for row in rows if journal]
    folders = [run.facts() for run in list_runs(home.runs)]
    worlds = {f["run_id"]: f.get("archive_digest") for f in folders}
    for state in found:
        state["archive_digest"] = worlds.get(state["run_id"])
    found += [
        {"kind": "", **{k: v for k, v in facts.items() if k != "files"}}
        for facts in folders
        if facts["run_id"] not in known
    ]
    return sorted(found, key=lambda f: str(f.get("created_at", "")), reverse=True)


def _state(row: RunRow, journal: Journal) -> dict[str, Any]:
    counts = journal.counts(row.run_id)
    return {
        "run_id": row.run_id,
        "kind": row.kind,
        "status": row.status,
        "reason": row.reason,
        "done": counts.get("success", 0),
        "failed": counts.get("failed", 0),
        "running": counts.get("running", 0),
        "total": row.total,
        "calls": row.calls,
        "tokens": row.tokens,
        "cost": round(row.cost, 6),
        "limits": row.limits,
        "parent": row.parent,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
    }


def _print_state(state: dict[str, Any]) -> None:
    spent = ""
    if state["calls"]:
        spent = f"; {state['calls']:,} paid calls, {state['tokens']:,} tokens, ${state['cost']:.4f}"
    steps = f", {state['done']:,} of {state['total']:,} steps done" if state["total"] else ""
    print(f"run {state['run_id']}: {state['status']}{steps}{spent}")
    if state["reason"]:
        print(state["reason"])


def _print_finished(folder: RunFolder, summary: dict[str, Any], json: bool) -> None:
    report = folder.path / "report.html"
    if json:
        emit({**summary, "run_id": folder.run_id, "report": str(report)})
    elif "leaderboard" in summary:
        from beforehand.cli.tables import print_result

        print_result(summary, report)
    else:
        print(f"run {folder.run_id}: {summary}")


def _driven(journal: Journal, row: RunRow, home: Home) -> bool:
    """True if some process holds the run's lock."""
    try:
        with journal.database.hold(f"drive:{row.run_id}", home.engine / f"{row.run_id}.lock"):
            return False
    except Held:
        return True


def _instant(option: str, text: str) -> datetime:
    try:
        return parse_instant(text)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None


def _pairs(given: list[str]) -> dict[str, str]:
    pairs = {}
    for text in given:
        # Addresses may hold '=' themselves: the one before a model's beginning counts.
        found = re.match(r"(.+?)=(https?://.+|baseline:.+)", text) or re.match(r"(.+)=(.+)", text)
        if found is None:
            raise InputError(f"--model {text!r}: write OLD=NEW, such as baseline:drift=market")
        pairs[found[1]] = found[2]
    return pairs
