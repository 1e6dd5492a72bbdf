"""A run's folder, `data/runs/{run_id}/`, and the ledger of variants tried.

Every file is written whole by one writer; `run.json` lists them with their digests and is
written last. Wall-clock times go to `log.json` alone: two runs with the same seed have the same
bytes except for the run id.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NotRequired, Required, TypedDict, TypeGuard

import orjson

from beforehand import __version__
from beforehand.errors import Corrupt, InputError, NotFound
from beforehand.ids import check_segment, is_segment
from beforehand.store.files import (
    TURN,
    append_jsonl,
    exclusive,
    file_digest,
    read_json,
    read_lines,
    write_json,
)

SEAL, LOG, STEPS = "run.json", "log.json", "steps.json"
"""Files that every run may have: its seal, its wall-clock times, and the engine's plan where
`plan.json` is a document of the run's own."""
INTERVALS = "intervals.jsonl"
ROWS = (INTERVALS, "predictions.jsonl")
COLUMNS = "intervals/"
"""A large run has a folder of columns in the place of these two files."""
UNDER_WAY = ("running", "cancelling")
FORM = 3
"""The form of a run's files; it goes up when code for the old files would misread the new ones."""


class Told(TypedDict, total=False):
    """What a list says of a run: what it was about (`subject`: forecasters, a file, a question),
    the verdict in one sentence, and whether every bound of its validity card is met."""

    subject: str
    headline: str
    valid: bool


class RunFacts(Told):
    """`run.json`: a finished run has all of it; without a leaderboard no headline."""

    run_id: Required[str]
    status: Required[str]
    kind: NotRequired[str]
    version: NotRequired[str]
    form: NotRequired[int]
    archive_digest: NotRequired[str]
    files: NotRequired[dict[str, str]]


class RunFolder:
    """One run's files."""

    def __init__(self, root: Path, run_id: str) -> None:
        self.run_id = check_segment(run_id)
        self.path = root / run_id

    def create(self) -> None:
        """Claim the folder; raises InputError if the run exists already, or was removed."""
        if (self.path.parent.with_name("removed") / self.run_id).exists():
            raise InputError(
                f"a run {self.run_id!r} was removed: choose another --run-id, or bring it back "
                f"with `beforehand runs restore {self.run_id}`"
            )
        try:
            self.path.mkdir(parents=True, exist_ok=False)
        except FileExistsError:
            raise InputError(
                f"run {self.run_id!r} exists already at {self.path}: choose another --run-id"
            ) from None

    def claim(self) -> None:
        """Make the folder if it does not exist, and delete temporary files that a killed process
        left. The caller holds the run's lock. Raises InputError where it is a link, or holds one to
        a folder: a run writes in its own folder and nowhere else."""
        links = [self.path, *(self.path.iterdir() if self.path.is_dir() else ())]
        for path in links:
            if path.is_symlink() and path.is_dir():
                raise InputError(f"{path} is a link: a run writes nowhere but in its own folder")
        self.path.mkdir(parents=True, exist_ok=True)
        for leftover in self.path.glob(".*.tmp"):
            leftover.unlink()

    def digests(self, *names: str) -> dict[str, str]:
        """The digests of files that a step has written, for its output."""
        return {name: file_digest(self.path / name) for name in names}

    def unchanged(self, remedy: str) -> None:
        """Raises InputError for a finished run of which a file was changed or removed since; the
        message ends with the `remedy`."""
        facts = self.facts()
        if facts["status"] == "success" and (found := self.differing(facts.get("files", {}))):
            raise InputError(f"{found[0]} was changed or removed after run {self.run_id}: {remedy}")

    def differing(self, digests: Mapping[str, str]) -> list[str]:
        """The files that are gone, or differ from what their step wrote."""
        return [
            name
            for name, expected in digests.items()
            if (path := self.path / name).is_symlink()  # What it points to may change.
            or not path.is_file()
            or file_digest(path) != expected
        ]

    def check_file(self, name: str, seal: Mapping[str, str] | None = None) -> None:
        """Raises Corrupt where a file that a finished run wrote was changed or removed since, or
        `run.json` is not the one of which the journal holds the digest (`seal`)."""
        facts = self.facts()
        if facts["status"] == "damaged" or self.resealed(seal):
            name = SEAL
        elif not self.differing({k: v for k, v in facts.get("files", {}).items() if _is(k, name)}):
            return
        raise Corrupt(
            f"{self.path / name} was changed or removed after run {self.run_id} wrote it: "
            f"`beforehand runs verify {self.run_id}` says what of the run can be trusted"
        )

    def resealed(self, seal: Mapping[str, str] | None) -> bool:
        """True where `run.json` is not the one that the journal holds the digest of (`seal`)."""
        expected = (seal or {}).get(SEAL)
        return expected is not None and bool(self.differing({SEAL: expected}))

    def whole(self) -> bool:
        """True for a finished run of which no file was changed or removed."""
        facts = self.facts()
        return facts["status"] == "success" and not self.differing(facts.get("files", {}))

    def seal(self, kind: str, archive_digest: str, told: Told) -> dict[str, str]:
        """Write `run.json` of a finished run: its kind, the world it used, what a list says of it,
        the version, and the digest of every other file but the log. Returns the digests of these
        two, for the journal: no file of the run holds them."""
        files = {
            path.relative_to(self.path).as_posix(): file_digest(path)
            for path in sorted(self.path.rglob("*"))
            if path.is_file() and path.name not in (SEAL, LOG)
        }
        facts: RunFacts = {
            "run_id": self.run_id,
            "kind": kind,
            "status": "success",
            "version": __version__,
            "form": FORM,
            "archive_digest": archive_digest,
            **told,
            "files": files,
        }
        write_json(self.path / SEAL, facts)
        last = [self.path / name for name in (SEAL, LOG)]
        return {path.name: file_digest(path) for path in last if path.is_file()}

    def check_form(self) -> None:
        """Raises InputError for a finished run whose files have another form."""
        facts = self.facts()
        form = facts.get("form", 0)
        if facts["status"] == "success" and (type(form) is not int or form != FORM):
            raise InputError(
                f"run {self.run_id} has files of the form {form}, and this "
                f"beforehand reads form {FORM}: make the run again, or use the beforehand that "
                "wrote it"
            )

    def wrote(self, name: str) -> bool:
        """True if the run wrote this file, or columns in its place, also where they are gone."""
        if (self.path / name).is_file() or (name in ROWS and (self.path / COLUMNS).is_dir()):
            return True
        return any(_is(listed, name) for listed in self.facts().get("files", {}))

    def facts(self) -> RunFacts:
        """`run.json`, or a note that the run did not finish."""
        sealed = self.path / SEAL
        if not sealed.is_file():
            return {"run_id": self.run_id, "status": "unfinished"}
        try:
            facts = read_json(sealed)
        except InputError:
            facts = None
        if not _are_facts(facts, self.run_id):
            return {"run_id": self.run_id, "status": "damaged"}
        return facts

    def times(self) -> tuple[str | None, str | None]:
        """When it was started, and when it was finished; None where its log does not say so."""
        try:
            log = read_json(self.path / LOG) if (self.path / LOG).is_file() else {}
        except InputError:
            log = {}
        if not isinstance(log, dict):
            return None, None
        found = [log.get(name) for name in ("started_at", "finished_at")]
        started, finished = [at if isinstance(at, str) else None for at in found]
        return started, finished

    def without_scores(self, status: str | None = None) -> NotFound:
        """Why this run has no scores, as an error to raise."""
        facts = self.facts()
        show = f"`beforehand runs show {self.run_id}`"
        if facts["status"] == "success":
            return NotFound(f"run {self.run_id} ({facts.get('kind')}) has no scores: {show}")
        now = status or facts["status"]
        verb, does = ("watch", "follows") if now in UNDER_WAY else ("resume", "continues")
        return NotFound(
            f"run {self.run_id} has no scores: it is {now}; `beforehand runs {verb} {self.run_id}` "
            f"{does} it"
        )


def _is(listed: str, name: str) -> bool:
    """True for the file of this name, and for columns in its place."""
    return listed == name or (name in ROWS and listed.startswith(COLUMNS))


def _are_facts(found: object, run_id: str) -> TypeGuard[RunFacts]:
    return isinstance(found, dict) and found.get("run_id") == run_id and "status" in found


def list_runs(root: Path) -> list[RunFolder]:
    """Every run, newest first; folders with names that no run can have are left out."""
    folders = (
        [p for p in root.iterdir() if p.is_dir() and is_segment(p.name)] if root.is_dir() else []
    )
    folders.sort(key=lambda p: (p.stat().st_mtime_ns, p.name), reverse=True)
    return [RunFolder(root, p.name) for p in folders]


def open_run(root: Path, run_id: str) -> RunFolder:
    """An existing run. Raises NotFound, which names the latest runs, and InputError if another
    version wrote the files."""
    folder = RunFolder(root, run_id)
    if not folder.path.is_dir():
        known = [run.run_id for run in list_runs(root)[:5]]
        hint = f"the latest are {', '.join(known)}" if known else "there are none yet"
        raise NotFound(
            f"no run {run_id!r} in {root}: {hint} (a run keeps its files in the home folder that "
            "began it: see BEFOREHAND_HOME)"
        )
    folder.check_form()
    return folder


class ProbeNote(TypedDict):
    """What a probe found about a forecaster's code (its SHA-256): of `n` pairs, whether it peeked,
    and why that is said; the code's `place` (its file and name); and where it looked: the archive's
    digest, the text grade, and the time between two forecasts in seconds. `files` are those that it
    read besides its code and the archive: a probe does not vary them."""

    code: str
    n: int
    peeked: bool
    why: str
    place: NotRequired[str]
    archive: NotRequired[str]
    grade: NotRequired[str]
    every_s: NotRequired[int]
    files: NotRequired[list[str]]


def note_probe(ledger: Path, note: ProbeNote) -> None:
    """Add what a probe found."""
    with exclusive(ledger.with_suffix(".lock"), wait=TURN):
        append_jsonl(ledger, [note])


def last_probe(ledger: Path, code: str | None, place: str | None) -> ProbeNote | None:
    """What the last probe of this code found, or else of other code at its place: another version
    of it. One that found it looking ahead outweighs all that found nothing: what is caught once
    stays caught until the code changes. None where neither was probed."""
    if code is None or not ledger.is_file():
        return None
    found: ProbeNote | None = None
    before: ProbeNote | None = None
    for _, line in read_lines(ledger):
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if not isinstance(row, dict) or not row.keys() >= _NOTED:
            continue
        if row["code"] == code:
            if found is None or row["peeked"] or not found["peeked"]:
                found = row  # type: ignore[assignment]
        elif place is not None and row.get("place") == place:
            before = row  # type: ignore[assignment]
    return found or before


_NOTED = ProbeNote.__required_keys__
