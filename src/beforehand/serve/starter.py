"""Runs that the server starts: each in a process of its own, so that it goes on when the server
ends, and a long computation delays no answer. A server that starts again carries on those that it
had started and that nobody carries out any more."""

import os
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from beforehand.clock import epoch
from beforehand.config import NO_PROGRAMS, Workspace
from beforehand.engine.runs import enroll
from beforehand.errors import EXIT_OK, EXIT_PARTIAL, BeforehandError, Held, InputError, Unavailable
from beforehand.forecast.process import Program, own_environment, start_python
from beforehand.ids import digest, new_run_id
from beforehand.runs.query import find_journal, is_driven
from beforehand.store.files import exclusive
from beforehand.store.journal.events import last_number
from beforehand.store.journal.journal import Journal
from beforehand.store.journal.schema import RunRow
from beforehand.store.starts import Starts

AT_ONCE, LONGEST_KEY = 4, 200
START_S, LOOK_S = 30.0, 0.05
SAME = "the same request is being carried out"


class Carried(NamedTuple):
    """The process of a run, and the number of the run's last event before it began."""

    process: "Program[bytes]"
    before: int


class Start(NamedTuple):
    """A run that a request stands for: whether its key is new, and whether the run is on record."""

    run_id: str
    claimed: bool
    made: bool


@contextmanager
def _waiting(lock: Path) -> Iterator[None]:
    """Hold a lock, waiting for another request that has it. Raises Held after a while."""
    with ExitStack() as held:
        try:
            held.enter_context(exclusive(lock, SAME, wait=START_S))
        except Unavailable as error:
            raise Held(str(error)) from None
        yield


class Starter:
    """Starts runs and keeps count of those under way. Safe for threads."""

    def __init__(
        self, workspace: Workspace, log: Callable[[str], None], at_once: int = AT_ONCE
    ) -> None:
        self._workspace, self._log, self._at_once = workspace, log, at_once
        self._running: dict[str, Program[bytes]] = {}
        self._starting = 0
        self._lock = threading.Lock()
        self._affording = threading.Lock()

    @property
    def uploads(self) -> Path:
        """Where files that are sent lie while they are scored."""
        return self._workspace.home.engine / "uploads"

    def tell(self, text: str) -> None:
        """Write a line of who did what to the server's log."""
        self._log(text)

    def begin(
        self,
        request: Any,
        asked: object,
        holder: str,
        key: str | None,
        run_id: str | None,
        afford: Callable[[], None],
    ) -> tuple[RunRow, bool]:
        """Enter a run and start its process; the row, and False where the key (or the run's own id)
        stands for a run that exists. `asked` is the request as it was sent; `afford` raises where
        a new run would spend too much."""
        with self.once(holder, key, asked, run_id) as start, self._room(start.made):
            with self._affording:  # Two runs at once do not share one rest of a budget.
                if not start.made:
                    afford()
                row, new = enroll(request, self._workspace, start.run_id)
            if row.status == "running" and not self._driven(row):
                self._under_way(row.run_id, self.carry_on(row.run_id))
        return row, new

    @contextmanager
    def once(
        self, holder: str, key: str | None, asked: object, run_id: str | None
    ) -> Iterator["Start"]:
        """The run that a request stands for. Requests with one key wait for each other, in all
        processes; where the block raises, a new key is free again."""
        if key is not None and not 1 <= len(key) <= LONGEST_KEY:
            raise InputError(f"an Idempotency-Key has between 1 and {LONGEST_KEY} characters")
        now, runs = self._workspace.clock.now(), self._workspace.home.runs
        mine = key or secrets.token_hex(16)
        lock = self._workspace.home.engine / "starts" / f"{digest([holder, mine])[:24]}.lock"
        with _waiting(lock), closing(Starts(self._workspace.access)) as starts:
            name = run_id or new_run_id(now, lambda n: self._taken(n) or (runs / n).exists())
            name, claimed = starts.claim(holder, mine, digest(asked), name, now)
            try:
                yield Start(name, claimed, self._taken(name))
            except BeforehandError:
                if claimed:
                    starts.drop(holder, mine)
                raise
        if key is None:  # Nobody else can wait for it.
            lock.unlink(missing_ok=True)

    def carry_on(self, run_id: str, options: Sequence[str] = ()) -> "Carried":
        """Start the process of a run that is on record, unless one of this server has it already;
        the process, and the last event from before."""
        home, journal = self._workspace.home, self._journal()
        with self._lock:
            before = 0 if journal is None else last_number(journal.database, run_id)
            held = self._running.get(run_id)
            if held is not None and held.poll() is None:
                return Carried(held, before - 1)
            environment = {**own_environment(), "BEFOREHAND_HOME": str(home.root)}
            if not self._workspace.programs:
                environment[NO_PROGRAMS] = "1"
            log = home.engine / f"{run_id}.out"
            arguments = ["runs", "resume", run_id, *options, "--json"]
            process = start_python("beforehand", arguments, home.root, environment, log)
            self._running[run_id] = process
        threading.Thread(target=self._wait, args=(run_id, process), daemon=True).start()
        return Carried(process, before)

    def _under_way(self, run_id: str, carried: "Carried") -> None:
        """Wait until the process has taken the run up. Raises InputError, with what it said, where
        it ended before."""
        journal = self._journal()
        for _ in range(int(START_S / LOOK_S)):
            if journal is None or last_number(journal.database, run_id) > carried.before:
                return
            if (code := carried.process.poll()) is not None:
                if code == EXIT_OK:
                    return
                raise InputError(self._last_words(run_id))
            time.sleep(LOOK_S)

    def _last_words(self, run_id: str) -> str:
        """The last line that a run's process wrote."""
        log = self._workspace.home.engine / f"{run_id}.out"
        lines = log.read_text("utf-8", "replace").splitlines() if log.is_file() else []
        said = next((line for line in reversed(lines) if line.strip()), "it said nothing")
        return said.removeprefix("beforehand: ")

    def resume(self, row: RunRow, options: Sequence[str]) -> None:
        """Carry on with a run that stopped. Raises Held where a process has it, InputError where it
        is finished."""
        if self._driven(row):
            raise Held(f"run {row.run_id} is being carried out already")
        if row.status == "success":
            raise InputError(f"run {row.run_id} is finished: there is nothing to resume")
        held = self._running.get(row.run_id)
        if held is not None:  # It has ended the run, and is about to end itself.
            held.wait(START_S)
        with self._room():
            self._under_way(row.run_id, self.carry_on(row.run_id, options))

    def recover(self) -> list[str]:
        """Carry on the runs that a server had started here and that nobody carries out; their ids.
        Uploads that a killed server left are deleted."""
        last_hour = epoch(self._workspace.clock.now()) - 3600.0
        for left in self.uploads.iterdir() if self.uploads.is_dir() else ():
            if left.stat().st_mtime < last_hour:
                shutil.rmtree(left, ignore_errors=True)
        if not os.path.exists(self._workspace.access) and self._workspace.database is None:
            return []
        journal = self._journal()
        if journal is None:
            return []
        with closing(Starts(self._workspace.access)) as starts:
            names = dict.fromkeys(starts.runs())
        found = []
        for row in journal.runs("running"):
            if row.run_id in names and not is_driven(row, self._workspace.home, journal):
                self.carry_on(row.run_id)
                found.append(row.run_id)
        return found

    def starting(self, run_id: str) -> bool:
        """True while the process that was started for a run lives."""
        held = self._running.get(run_id)
        return held is not None and held.poll() is None

    @contextmanager
    def _room(self, made: bool = False) -> Iterator[None]:
        """Room for one more run; one that is made already needs none. Raises Unavailable where
        there is none."""
        if made:
            yield
            return
        with self._lock:
            running = self._starting + sum(one.poll() is None for one in self._running.values())
            if running >= self._at_once:
                raise Unavailable(
                    f"{running} runs are under way here, the most at once: start it when one has "
                    "ended",
                    retry_after=10.0,
                )
            self._starting += 1
        try:
            yield
        finally:
            with self._lock:
                self._starting -= 1

    def _journal(self) -> Journal | None:
        return find_journal(self._workspace)

    def _driven(self, row: RunRow) -> bool:
        """True if a process carries the run out: of this server, of an earlier one, of a user."""
        journal = self._journal()
        return journal is not None and is_driven(row, self._workspace.home, journal)

    def _taken(self, name: str) -> bool:
        journal = self._journal()
        return journal is not None and journal.run(name) is not None

    def _wait(self, run_id: str, process: "Program[bytes]") -> None:
        code = process.wait()
        if code not in (EXIT_OK, EXIT_PARTIAL):
            self._log(f"run {run_id} failed: `beforehand runs show {run_id}` says why")
        with self._lock:
            if self._running.get(run_id) is process:
                del self._running[run_id]
