"""Which runs there are, and how they stand: from the journal and from their folders. Reading never
writes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from beforehand.config import Home, Workspace
from beforehand.errors import Corrupt, Held, NotFound
from beforehand.store.database import Database
from beforehand.store.files import read_json
from beforehand.store.journal.journal import Journal
from beforehand.store.journal.schema import ASIDE, RunRow
from beforehand.store.run_folder import SEAL, RunFolder, list_runs, open_run
from beforehand.store.starts import started_by
from beforehand.store.trials import tried_so_far


@dataclass(frozen=True)
class RunState:
    """How a run stands: its steps (`done`, `failed`, `running` of `total`), what it has spent so
    far, and what limits it."""

    run_id: str
    kind: str
    status: str
    reason: str | None
    done: int
    failed: int
    running: int
    total: int
    calls: int
    tokens: int
    cost: float
    limits: dict[str, float]
    parent: str | None
    created_at: str
    updated_at: str

    def wire(self) -> dict[str, object]:
        """JSON-ready."""
        return asdict(self)


def find_journal(workspace: Workspace) -> Journal | None:
    """The journal, if any run was started in this workspace."""
    if workspace.database is None and not Path(workspace.journal).is_file():
        return None
    return Journal(Database(workspace.journal), workspace.clock)


def need_journal(workspace: Workspace) -> Journal:
    """The journal. Raises NotFound where there is none."""
    found = find_journal(workspace)
    if found is None:
        raise NotFound("there is no journal yet: no run was started in this home")
    return found


def find_run(run_id: str, home: Home, journal: Journal | None, scored: bool = False) -> str:
    """A run's id; `latest` is the one started last, or of those with scores if that is asked for.
    Raises NotFound if there is none, and for a run that was removed."""
    gone = removed(home)
    if run_id in gone:
        if (home.removed / run_id / PURGED).exists():
            raise NotFound(f"run {run_id} was deleted for good: make it again")
        raise NotFound(
            f"run {run_id} was removed: `beforehand runs restore {run_id}` brings it back"
        )
    if run_id != "latest":
        return run_id
    rows = journal.runs() if journal else []
    names = [row.run_id for row in rows if row.run_id not in gone]
    names = names or [folder.run_id for folder in list_runs(home.runs)]
    if scored and (good := [n for n in names if (home.runs / n / "scores.json").is_file()]):
        return good[0]
    if not names:
        raise NotFound(f"there are no runs in {home.runs} yet")
    return names[0]


def open_sealed(run_id: str, workspace: Workspace) -> RunFolder:
    """A run whose `run.json` is the one that the journal knows. Raises NotFound, and Corrupt where
    it was changed."""
    journal = find_journal(workspace)
    name = find_run(run_id, workspace.home, journal, scored=True)
    folder, row = open_run(workspace.home.runs, name), journal.run(name) if journal else None
    folder.check_file(SEAL, row.seal if row else None)
    return folder


PURGED = "purged"
"""An empty file that stands for a run that was deleted for good."""


def removed(home: Home) -> set[str]:
    """The ids of runs that were removed, also of those that were purged."""
    return {path.name for path in home.removed.iterdir()} if home.removed.is_dir() else set()


TOLD = ("archive_digest", "subject", "headline", "valid")
"""What a list says of a run from its `run.json`; None where it has none yet."""
RESEALED: dict[str, object] = {
    **dict.fromkeys(TOLD),
    "headline": "CHANGED AFTER THE RUN: run.json. `beforehand runs verify RUN` says what can be "
    "trusted.",
}
"""What a list says of a run whose `run.json` is not the one that the journal knows."""


def state_of(row: RunRow, journal: Journal) -> RunState:
    """How a run of the journal stands."""
    counts = journal.counts(row.run_id)
    return RunState(
        run_id=row.run_id,
        kind=row.kind,
        status=row.status,
        reason=row.reason,
        done=counts.get("success", 0),
        failed=counts.get("failed", 0),
        running=counts.get("running", 0),
        total=row.total,
        calls=row.calls,
        tokens=row.tokens,
        cost=round(row.cost, 6),
        limits=row.limits,
        parent=row.parent,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def shown(run_id: str, workspace: Workspace, journal: Journal | None) -> dict[str, Any]:
    """Everything of one run: how it stands, the facts of its `run.json`, its scores (None where it
    has none), its answer where it answered a question. Raises NotFound, and Corrupt where a file is
    not what a run writes."""
    home = workspace.home
    row = journal.run(run_id) if journal else None
    folder = RunFolder(home.runs, run_id)
    folder.check_form()
    if row is None:
        folder = open_run(home.runs, run_id)
    scores, answer = folder.path / "scores.json", folder.path / "answer.json"
    summary = read_json(scores) if scores.is_file() else None
    if summary is not None and not (isinstance(summary, dict) and "leaderboard" in summary):
        raise Corrupt(f"{scores} is not what a run writes")
    found: dict[str, Any] = dict(folder.facts() if folder.path.is_dir() else {"run_id": run_id})
    if row is not None and journal is not None:
        found |= {**state_of(row, journal).wire(), "status": status_of(row, home, journal)}
    found["started_by"] = _started_by(home, journal).get(run_id)
    found["changed"] = changed(folder, row)
    if summary is not None and (since := tried_since(folder, home, summary)):
        found["tried_since"] = since
    answered = {"answer": read_json(answer)} if answer.is_file() else {}
    return {**found, "scores": summary, **answered}


def changed(folder: RunFolder, row: RunRow | None = None) -> list[str]:
    """The files of a finished run that are gone, or were changed after it; `run.json` against the
    digest in the journal's `row`. Rows may be many megabytes: they are for `runs verify`."""
    if not folder.path.is_dir():
        return []
    files = folder.facts().get("files", {})
    rows = (".jsonl", ".npy")
    found = folder.differing({n: mark for n, mark in files.items() if not n.endswith(rows)})
    return [*found, SEAL] if row is not None and folder.resealed(row.seal) else found


def tried_since(folder: RunFolder, home: Home, summary: Mapping[str, Any]) -> int:
    """How many variants were tried on such a set of markets after this run: its bounds do not count
    them."""
    counted = summary["validity"].get("variants_tried", {}).get("value")
    events = folder.path / "events.jsonl"
    if counted is None or not (events.is_file() and home.trials.is_file()):
        return 0
    found = _tried(folder.run_id, events, home.trials, _mark(events), _mark(home.trials))
    return 0 if found is None else max(0, found - int(counted))


Mark = tuple[int, int, int]
"""Tells a file from what it was before: when it was changed, its size and its inode."""


def _mark(path: Path) -> Mark:
    at = path.stat()
    return at.st_mtime_ns, at.st_size, at.st_ino


@lru_cache(maxsize=64)
def _tried(run_id: str, events: Path, ledger: Path, *_: Mark) -> int | None:
    """Counted once for as long as both files stay as they are: of a large world each line of the
    ledger names all its markets."""
    from beforehand.runs.rows import read_jsonl  # A list of runs does not need it.

    return tried_so_far(ledger, run_id, [row["id"] for row in read_jsonl(events)])


def _asked(row: RunRow) -> str | None:
    """What a run that is not finished is about, as it was asked for."""
    for name in ("question", "forecasters", "models"):
        said = row.request.get(name)
        if isinstance(said, list):
            said = ", ".join(map(str, said))
        if isinstance(said, str) and said:
            return said
    return None


def _started_by(home: Home, journal: Journal | None) -> dict[str, str]:
    """Whose token started a run over HTTP, by the run's id."""
    found = {} if journal is None else started_by(journal.database)
    return found if found or not home.access.is_file() else started_by(Database(home.access))


def all_runs(home: Home, journal: Journal | None) -> list[Mapping[str, Any]]:
    """Every run, newest first: those of the journal, and folders of runs that need no journal."""
    gone = removed(home)
    rows = [row for row in journal.runs() if row.run_id not in gone] if journal else []
    found_here = {run.run_id: run for run in list_runs(home.runs)}
    folders = [run.facts() for run in found_here.values()]
    told = {facts["run_id"]: {name: facts.get(name) for name in TOLD} for facts in folders}
    known, by = {row.run_id for row in rows}, _started_by(home, journal)
    states = [
        {**state_of(row, journal).wire(), "status": status_of(row, home, journal)}
        for row in rows
        if journal
    ]
    nothing: dict[str, object] = dict.fromkeys(TOLD)
    found = [{**state, **told.get(str(state["run_id"]), nothing)} for state in states]
    for row, each in zip(rows, found, strict=False):
        if row.run_id in found_here and found_here[row.run_id].resealed(row.seal):
            each |= RESEALED
        each["subject"] = each["subject"] or _asked(row)
    for facts in folders:
        if facts["run_id"] not in known:
            started, finished = found_here[facts["run_id"]].times()
            times = {"created_at": started, "updated_at": finished}
            held = {k: v for k, v in facts.items() if k != "files"}
            found.append({"kind": "", **nothing, **times, **held})
    for each in found:
        each["started_by"] = by.get(str(each["run_id"]))
    found.sort(key=lambda run: str(run.get("created_at") or ""), reverse=True)
    return [*found]


def status_of(row: RunRow, home: Home, journal: Journal) -> str:
    """A run's status; `unfinished` where it is on record as running, and no process carries it
    out."""
    if row.kind == ASIDE:
        return "standing"
    if row.status == "running" and not is_driven(row, home, journal):
        return "unfinished"
    return row.status


def is_driven(row: RunRow, home: Home, journal: Journal) -> bool:
    """True if a process is carrying out the run, that is, holds its lock."""
    try:
        with journal.database.hold(f"drive:{row.run_id}", home.engine / f"{row.run_id}.lock"):
            return False
    except Held:
        return True
