"""The journal: what was done, by run and task (`workspace/orchestrator_results.db`, or Postgres).

`worker_runs` and `task_outputs` are the documented tables. `runs` holds one row a run: its request,
its state, what it has spent. `task_parts` holds the bulk output of a task, packed, until the run is
sealed. Output and status are written in one transaction. Paid calls are in `calls.py` beside it.

`workers` holds the heartbeats of the processes at work, so that the work of dead processes can be
taken over.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypedDict

import orjson
from isal import isal_zlib

from beforehand.clock import Clock, SystemClock, epoch, iso
from beforehand.config import Workspace
from beforehand.errors import Corrupt, InputError, NotFound
from beforehand.ids import canonical, digest
from beforehand.store.database import Database, Transaction
from beforehand.store.journal.calls import Calls, Policy
from beforehand.store.journal.events import What, add_event, run_lock
from beforehand.store.journal.free import FreeCalls
from beforehand.store.journal.schema import (
    ASIDE,
    RUN_COLUMNS,
    SCHEMA,
    VERSION,
    Done,
    RunRow,
    Status,
    Task,
    run_row,
)


class TaskSpan(TypedDict):
    """When a task ran; `completed_at` is None while it does."""

    task_id: str
    status: str
    started_at: str
    completed_at: str | None


class Journal:
    """Reads and writes runs and tasks; `calls` are the paid calls, `free` the
    answers that cost nothing. Safe for threads and processes.
    Raises InputError if the tables are of another version."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self.database = database
        self._clock = clock or SystemClock()
        self.calls = Calls(database, self._clock)
        self.free = FreeCalls(database, self._clock)
        tables = database.tables()
        if "journal_version" in tables:
            with database.read() as tx:
                found = int(tx.run("SELECT version FROM journal_version")[0][0])
        else:
            found = 1 if "runs" in tables else VERSION
        if found != VERSION:
            raise InputError(
                f"{database.title} is a journal of version {found}, and this beforehand writes "
                f"version {VERSION}: move it away to begin a new one (finished runs keep their "
                "files), or use the beforehand that wrote it"
            )
        database.create(SCHEMA)

    def now(self) -> str:
        """The wall clock, for the journal's own columns."""
        return iso(self._clock.now())

    def enter(
        self,
        run_id: str,
        kind: str,
        request: Mapping[str, object],
        fingerprint: str,
        home: str,
        *,
        parent: str | None = None,
        limits: Mapping[str, float] | None = None,
        policy: str = "resend",
        expected_cost: float = 0.0,
        fresh: bool = False,
    ) -> tuple[RunRow, bool]:
        """Record that a run was asked for, before anything else is written. Returns its row, or the
        row that exists already, and whether it is new. `expected_cost` is used for a call until a
        real cost is known; `fresh` says that the forecasters were restarted just before."""
        with self.database.write() as tx:
            made = tx.run(
                "INSERT INTO runs (run_id, kind, status, request, fingerprint, home, parent, "
                "limits, policy, expected_cost, restarts, created_at, updated_at) VALUES "
                "(:run_id, :kind, 'running', :request, :fingerprint, :home, :parent, :limits, "
                ":policy, :most, :restarts, :now, :now) "
                "ON CONFLICT (run_id) DO NOTHING RETURNING run_id",
                run_id=run_id,
                kind=kind,
                request=canonical(request).decode(),
                fingerprint=fingerprint,
                home=home,
                parent=parent,
                limits=canonical(limits or {}).decode(),
                policy=policy,
                most=expected_cost,
                restarts=canonical([self.now()] if fresh else []).decode(),
                now=self.now(),
            )
            found = _run(tx, run_id)
        assert found is not None
        return found, bool(made)

    def run(self, run_id: str) -> RunRow | None:
        """A run's row, if the journal has one."""
        with self.database.read() as tx:
            return _run(tx, run_id)

    def known_run(self, run_id: str) -> RunRow:
        """A run's row; raises NotFound."""
        found = self.run(run_id)
        if found is None:
            raise NotFound(
                f"the journal has no run {run_id!r}: `beforehand runs list` shows them; a run is "
                "known to the journal with which it was begun (BEFOREHAND_DATABASE_URL set, or not)"
            )
        return found

    def policy(self, run_id: str) -> Policy:
        """What happens to a call of this run that was sent and never answered."""
        with self.database.read() as tx:
            rows = tx.run("SELECT policy FROM runs WHERE run_id = :run_id", run_id=run_id)
        return rows[0][0] if rows else "resend"

    def runs(self, status: Status | None = None) -> list[RunRow]:
        """Every run (in this status), newest first; without the standing one, `aside`."""
        sql = f"SELECT {', '.join(RUN_COLUMNS)} FROM runs WHERE kind <> '{ASIDE}'"
        order = " ORDER BY created_at DESC, run_id DESC"
        with self.database.read() as tx:
            if status is None:
                rows = tx.run(sql + order)
            else:
                rows = tx.run(sql + " AND status = :status" + order, status=status)
        return [run_row(row) for row in rows]

    def purge(self, run_id: str) -> None:
        """Delete what a run's tasks and calls answered, for good. That it ran, what it spent, and
        which instants each forecaster was shown stay on record: the latter says what a forecaster
        may remember. Raises InputError while an unfinished fork may still need an answer of it."""
        with self.database.write(run_lock(run_id)) as tx:
            forks = tx.run(
                "SELECT run_id FROM runs WHERE parent = :run_id AND status <> 'success'",
                run_id=run_id,
            )
            if forks:
                raise InputError(
                    f"run {forks[0][0]} is a fork of {run_id} and not finished, so it may still "
                    "use its answers: finish or remove the fork first"
                )
            for table in ("task_outputs", "task_parts", "worker_runs", "events"):
                tx.run(f"DELETE FROM {table} WHERE run_id = :run_id", run_id=run_id)
            tx.run(
                "UPDATE calls SET answer = NULL, answer_digest = NULL, error = NULL "
                "WHERE run_id = :run_id",
                run_id=run_id,
            )
            tx.run(
                "UPDATE runs SET status = 'cancelled', reason = 'purged', updated_at = :now "
                "WHERE run_id = :run_id",
                now=self.now(),
                run_id=run_id,
            )

    def begin(self, run_id: str, total: int, what: What = "run begun") -> None:
        """A driver starts, or starts again, on a run of `total` tasks."""
        with self.database.write(run_lock(run_id)) as tx:
            tx.run(
                "UPDATE runs SET status = 'running', reason = NULL, total = :total, "
                "updated_at = :now WHERE run_id = :run_id",
                total=total,
                now=self.now(),
                run_id=run_id,
            )
            add_event(tx, run_id, self.now(), what, total=total)

    def allow(
        self,
        run_id: str,
        limits: Mapping[str, float] | None,
        policy: str | None,
        expected_cost: float | None = None,
    ) -> None:
        """Set new limits, another policy, or what a call is expected to cost, for a run that is to
        go on."""
        with self.database.write() as tx:
            if expected_cost is not None:
                tx.run(
                    "UPDATE runs SET expected_cost = :most WHERE run_id = :run_id",
                    most=expected_cost,
                    run_id=run_id,
                )
            if limits is not None:
                tx.run(
                    "UPDATE runs SET limits = :limits WHERE run_id = :run_id",
                    limits=canonical(limits).decode(),
                    run_id=run_id,
                )
            if policy is not None:
                tx.run(
                    "UPDATE runs SET policy = :policy WHERE run_id = :run_id",
                    policy=policy,
                    run_id=run_id,
                )

    def restarted(self, run_id: str) -> None:
        """The user says that the forecasters of a run were restarted just now."""
        with self.database.write() as tx:
            found = _run(tx, run_id)
            if found is not None:
                tx.run(
                    "UPDATE runs SET restarts = :restarts WHERE run_id = :run_id",
                    restarts=canonical([*found.restarts, self.now()]).decode(),
                    run_id=run_id,
                )

    def mark(
        self,
        run_id: str,
        status: Status,
        reason: str | None = None,
        seal: Mapping[str, str] | None = None,
    ) -> None:
        """Set a run's status. A seal also drops the parts, which now lie in the run's files."""
        with self.database.write(run_lock(run_id)) as tx:
            before = tx.run("SELECT status FROM runs WHERE run_id = :run_id", run_id=run_id)
            tx.run(
                "UPDATE runs SET status = :status, reason = :reason, updated_at = :now, "
                "seal = COALESCE(:seal, seal) WHERE run_id = :run_id",
                status=status,
                reason=reason,
                now=self.now(),
                seal=None if seal is None else canonical(seal).decode(),
                run_id=run_id,
            )
            if seal is not None:
                tx.run("DELETE FROM task_parts WHERE run_id = :run_id", run_id=run_id)
            if not before or before[0][0] != status:  # A call may have stopped the run already.
                add_event(tx, run_id, self.now(), "run ended", status=status, reason=reason)

    def stop(self, run_id: str, reason: str) -> None:
        """End a running run: no process makes another call for it. A run that is being cancelled,
        or has ended, stays as it is."""
        with self.database.write(run_lock(run_id)) as tx:
            found = tx.run(
                "UPDATE runs SET status = 'stopped', reason = :reason, updated_at = :now "
                "WHERE run_id = :run_id AND status = 'running' RETURNING run_id",
                reason=reason,
                now=self.now(),
                run_id=run_id,
            )
            if found:
                add_event(tx, run_id, self.now(), "run ended", status="stopped", reason=reason)

    def cancel(self, run_id: str, driven: bool, by: str = "the user") -> None:
        """Ask a run to end, and say `by` whom; a run without a driver is cancelled at once. A run
        that has ended stays as it is, and why one was stopped stays beside it."""
        with self.database.write(run_lock(run_id)) as tx:
            before = tx.run(
                "SELECT reason FROM runs WHERE run_id = :run_id AND status = 'stopped'",
                run_id=run_id,
            )
            since = f" (stopped before: {before[0][0]})" if before and before[0][0] else ""
            found = tx.run(
                "UPDATE runs SET status = :status, reason = :reason, "
                "updated_at = :now WHERE run_id = :run_id "
                "AND status NOT IN ('success', 'cancelled') RETURNING run_id",
                status="cancelling" if driven else "cancelled",
                reason=f"cancelled by {by}{since}",
                now=self.now(),
                run_id=run_id,
            )
            if found:
                add_event(tx, run_id, self.now(), "run cancelled", ended=not driven, by=by)

    def resume_asked(self, run_id: str, by: str) -> None:
        """Write down who asked over HTTP that a run goes on."""
        with self.database.write(run_lock(run_id)) as tx:
            add_event(tx, run_id, self.now(), "resume asked", by=by)

    def resumed_by(self, run_id: str) -> list[str]:
        """Who asked over HTTP that a run goes on, in order."""
        with self.database.read() as tx:
            rows = tx.run(
                "SELECT detail FROM events WHERE run_id = :run_id AND what = 'resume asked' "
                "ORDER BY number",
                run_id=run_id,
            )
        return [str(orjson.loads(detail)["by"]) for (detail,) in rows]

    def started(self, run_id: str, tasks: Iterable[tuple[str, str]]) -> None:
        """Tasks, as (task id, agent name), are about to run."""
        now = self.now()
        rows = [
            {"run_id": run_id, "task_id": task, "agent": agent, "now": now} for task, agent in tasks
        ]
        with self.database.write(run_lock(run_id)) as tx:
            tx.many(
                "INSERT INTO worker_runs (run_id, task_id, agent_name, status, started_at, "
                "created_at) VALUES (:run_id, :task_id, :agent, 'running', :now, :now) "
                "ON CONFLICT (run_id, task_id) DO UPDATE SET status = 'running', "
                "started_at = excluded.started_at, completed_at = NULL, duration_ms = NULL, "
                "error = NULL WHERE worker_runs.status <> 'success'",
                rows,
            )
            for row in rows:
                add_event(tx, run_id, now, "step begun", row["task_id"], action=row["agent"])

    def begun_before(self, run_id: str, task_id: str) -> bool:
        """True if a step was begun more than once, or may have inherited answers: then some of
        them may be on record."""
        with self.database.read() as tx:
            rows = tx.run(
                "SELECT t.started_at <> t.created_at OR r.parent IS NOT NULL FROM worker_runs t "
                "JOIN runs r ON r.run_id = t.run_id WHERE t.run_id = :run_id AND "
                "t.task_id = :task_id",
                run_id=run_id,
                task_id=task_id,
            )
        return not rows or bool(rows[0][0])

    def discard(self, run_id: str, tasks: Sequence[str]) -> None:
        """Drop the success of tasks with changed inputs: they will run again."""
        if not tasks:
            return
        with self.database.write() as tx:
            tx.run(
                "UPDATE worker_runs SET status = 'running' "
                "WHERE run_id = :run_id AND task_id IN :tasks",
                run_id=run_id,
                tasks=list(tasks),
            )
            for table in ("task_parts", "task_outputs"):
                tx.run(
                    f"DELETE FROM {table} WHERE run_id = :run_id AND task_id IN :tasks",
                    run_id=run_id,
                    tasks=list(tasks),
                )

    def finished(
        self,
        run_id: str,
        task_id: str,
        agent: str,
        output: Any,
        *,
        inputs: str,
        duration_ms: float,
        parts: Mapping[str, bytes] | None = None,
        output_file_path: str | None = None,
    ) -> None:
        """A task succeeded: its status, output, parts, and its file on the bus, all or none. The
        first success is kept."""
        data, now = canonical(output), self.now()
        said = output.get("metadata") if isinstance(output, Mapping) else None
        metadata = {**(said or {}), "inputs": inputs, "digest": digest(data)}
        with self.database.write(run_lock(run_id)) as tx:
            if not self._complete(tx, run_id, task_id, agent, "success", duration_ms, None):
                return
            if output_file_path is not None:
                tx.run(
                    "UPDATE worker_runs SET output_file_path = :path "
                    "WHERE run_id = :run_id AND task_id = :task_id",
                    path=output_file_path,
                    run_id=run_id,
                    task_id=task_id,
                )
            tx.run(
                "INSERT INTO task_outputs (run_id, task_id, agent_name, output_data, metadata, "
                "created_at) VALUES (:run_id, :task_id, :agent, :data, :metadata, :now) "
                "ON CONFLICT (run_id, task_id) DO UPDATE SET output_data = excluded.output_data, "
                "metadata = excluded.metadata, created_at = excluded.created_at",
                run_id=run_id,
                task_id=task_id,
                agent=agent,
                data=data.decode(),
                metadata=canonical(metadata).decode(),
                now=now,
            )
            tx.run(
                "DELETE FROM task_parts WHERE run_id = :run_id AND task_id = :task_id",
                run_id=run_id,
                task_id=task_id,
            )
            tx.many(
                "INSERT INTO task_parts VALUES (:run_id, :task_id, :name, :data, :digest)",
                [
                    {
                        "run_id": run_id,
                        "task_id": task_id,
                        "name": name,
                        "data": isal_zlib.compress(content, 1),
                        "digest": digest(content),
                    }
                    for name, content in (parts or {}).items()
                ],
            )

    def failed(
        self, run_id: str, task_id: str, agent: str, error: str, duration_ms: float = 0.0
    ) -> None:
        """A task failed; a success that is on record stays."""
        with self.database.write(run_lock(run_id)) as tx:
            self._complete(tx, run_id, task_id, agent, "failed", duration_ms, error)

    def _complete(
        self,
        tx: Transaction,
        run_id: str,
        task_id: str,
        agent: str,
        status: str,
        duration_ms: float,
        error: str | None,
    ) -> bool:
        """True unless a success is on record."""
        rows = tx.run(
            "INSERT INTO worker_runs (run_id, task_id, agent_name, status, started_at, "
            "completed_at, duration_ms, error, created_at) VALUES (:run_id, "
            ":task_id, :agent, :status, :now, :now, :duration, :error, :now) "
            "ON CONFLICT (run_id, task_id) DO UPDATE SET status = excluded.status, "
            "completed_at = excluded.completed_at, duration_ms = excluded.duration_ms, "
            "error = excluded.error WHERE worker_runs.status <> 'success' RETURNING task_id",
            run_id=run_id,
            task_id=task_id,
            agent=agent,
            status=status,
            now=self.now(),
            duration=round(duration_ms, 3),
            error=error,
        )
        if rows:
            detail = {"status": status, "duration_ms": round(duration_ms, 3), "error": error}
            add_event(tx, run_id, self.now(), "step ended", task_id, **detail)
        return bool(rows)

    def done(self, run_id: str, only: Sequence[str] | None = None) -> dict[str, Done]:
        """The tasks of a run that succeeded (or, of `only`, those that did)."""
        sql = (
            "SELECT o.task_id, o.metadata FROM task_outputs o JOIN worker_runs w "
            "ON w.run_id = o.run_id AND w.task_id = o.task_id "
            "WHERE o.run_id = :run_id AND w.status = 'success'"
        )
        with self.database.read() as tx:
            if only is None:
                rows = tx.run(sql, run_id=run_id)
            else:
                rows = tx.run(sql + " AND o.task_id IN :only", run_id=run_id, only=list(only))
        facts = [(task, orjson.loads(metadata)) for task, metadata in rows]
        return {task: Done(found["inputs"], found["digest"]) for task, found in facts}

    def tasks(self, run_id: str, only: Sequence[str] | None = None) -> list[Task]:
        """The tasks of a run that were ever started (or those of `only`), by id."""
        sql = (
            "SELECT task_id, agent_name, status, error, duration_ms FROM worker_runs "
            "WHERE run_id = :run_id"
        )
        with self.database.read() as tx:
            if only is None:
                rows = tx.run(sql + " ORDER BY task_id", run_id=run_id)
            else:
                rows = tx.run(sql + " AND task_id IN :only", run_id=run_id, only=list(only))
        return [Task(*row) for row in rows]

    def spans(self, run_id: str) -> list[TaskSpan]:
        """When each task ran."""
        with self.database.read() as tx:
            rows = tx.run(
                "SELECT task_id, status, started_at, completed_at FROM worker_runs "
                "WHERE run_id = :run_id ORDER BY started_at, task_id",
                run_id=run_id,
            )
        return [
            {"task_id": task, "status": status, "started_at": begun, "completed_at": ended}
            for task, status, begun, ended in rows
        ]

    def settled(self, run_id: str, task_id: str) -> bool:
        """True once a task succeeded or failed."""
        return any(task.status != "running" for task in self.tasks(run_id, [task_id]))

    def counts(self, run_id: str) -> dict[str, int]:
        """How many tasks have each status."""
        with self.database.read() as tx:
            rows = tx.run(
                "SELECT status, count(*) FROM worker_runs WHERE run_id = :run_id GROUP BY status",
                run_id=run_id,
            )
        return {status: int(n) for status, n in rows}

    def output(self, run_id: str, task_id: str) -> Any:
        """What a task returned; raises Corrupt if it no longer has its digest."""
        with self.database.read() as tx:
            rows = tx.run(
                "SELECT output_data, metadata FROM task_outputs "
                "WHERE run_id = :run_id AND task_id = :task_id",
                run_id=run_id,
                task_id=task_id,
            )
        if not rows:
            raise NotFound(f"run {run_id!r} has no output of task {task_id!r}")
        data = rows[0][0].encode()
        if digest(data) != orjson.loads(rows[0][1])["digest"]:
            raise Corrupt(f"the journal's output of {run_id}/{task_id} does not have its digest")
        return orjson.loads(data)

    def outputs(self, run_id: str) -> list[tuple[str, str, str]]:
        """(task id, output, metadata) of every output, as stored."""
        with self.database.read() as tx:
            return [
                (task, data, metadata)
                for task, data, metadata in tx.run(
                    "SELECT task_id, output_data, metadata FROM task_outputs "
                    "WHERE run_id = :run_id ORDER BY task_id",
                    run_id=run_id,
                )
            ]

    def part(self, run_id: str, task_id: str, name: str) -> bytes:
        """A bulk output; raises Corrupt if it no longer has its digest."""
        with self.database.read() as tx:
            rows = tx.run(
                "SELECT data, digest FROM task_parts WHERE run_id = :run_id "
                "AND task_id = :task_id AND name = :name",
                run_id=run_id,
                task_id=task_id,
                name=name,
            )
        if not rows:
            raise Corrupt(f"the journal has no part {name!r} of {run_id}/{task_id}")
        try:
            content = isal_zlib.decompress(bytes(rows[0][0]))
        except isal_zlib.error:  # type: ignore[misc]  # Its stub has an instance.
            content = None
        if content is None or digest(content) != rows[0][1]:
            raise Corrupt(f"the part {name!r} of {run_id}/{task_id} does not have its digest")
        return content


@contextmanager
def opened_journal(workspace: Workspace) -> Iterator[Journal]:
    """The journal of a workspace, created where there is none; closed at the end."""
    journal = Journal(Database(workspace.journal), workspace.clock)
    try:
        yield journal
    finally:
        journal.database.close()


def _run(tx: Transaction, run_id: str) -> RunRow | None:
    rows = tx.run(
        f"SELECT {', '.join(RUN_COLUMNS)} FROM runs WHERE run_id = :run_id", run_id=run_id
    )
    return run_row(rows[0]) if rows else None


class Workers:
    """The journal's table of processes. Safe for threads and processes."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self._database, self._clock = database, clock or SystemClock()

    def beat(self, worker_id: str, host: str, pid: int) -> None:
        """A worker's heartbeat."""
        with self._database.write() as tx:
            tx.run(
                "INSERT INTO workers VALUES (:id, :host, :pid, :now, :at) ON CONFLICT (worker_id) "
                "DO UPDATE SET beat_at = excluded.beat_at",
                id=worker_id,
                host=host,
                pid=pid,
                now=iso(self._clock.now()),
                at=tx.epoch(epoch(self._clock.now())),
            )

    def rest(self, worker_id: str) -> None:
        """Remove a worker that ends normally."""
        with self._database.write() as tx:
            tx.run("DELETE FROM workers WHERE worker_id = :id", id=worker_id)

    def living(self, stale: float) -> set[str]:
        """The workers with a last beat no older than `stale` seconds; after an hour without one, a
        worker's row is deleted."""
        with self._database.write() as tx:
            now = tx.epoch(epoch(self._clock.now()))
            tx.run("DELETE FROM workers WHERE beat_at < :gone", gone=now - 3600.0)
            rows = tx.run("SELECT worker_id FROM workers WHERE beat_at >= :at", at=now - stale)
        return {row[0] for row in rows}
