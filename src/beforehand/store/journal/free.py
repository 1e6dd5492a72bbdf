"""Answers that were made in this process and cost nothing: rows of the calls' table outside every
limit, one by one or in batches."""

from collections.abc import Sequence
from typing import NamedTuple, cast

from beforehand.clock import Clock, iso
from beforehand.errors import Refused, Stopped, Unavailable
from beforehand.ids import digest
from beforehand.store.database import Database, Transaction
from beforehand.store.journal.calls import Claim, Wanted, copy_answer, read_run
from beforehand.store.journal.events import run_lock

FREE = (
    "INSERT INTO calls (run_id, call_key, task_id, provider, simulation_index, question, instant, "
    "state, owner, lease_until, attempts, answer, answer_digest, first_sent_at, sent_at, "
    "answered_at) VALUES (:run_id, :key, :task_id, :provider, :index, :question, :instant, "
    "'done', :owner, 0, 1, :answer, :digest, :now, :now, :now)"
)
"""Enters an answer that cost nothing."""


REPLACING = (
    " ON CONFLICT (run_id, call_key) DO UPDATE SET state = 'done', answer = excluded.answer, "
    "answer_digest = excluded.answer_digest, error = NULL, answered_at = excluded.answered_at"
)
"""Takes the place of a call that was sent, or lost, without an answer."""


class FreeAnswer(NamedTuple):
    """An answer that was made in this process and cost nothing, with the question for people to
    read and the instant asked about (microseconds)."""

    key: str
    provider: str
    simulation: int
    question: str
    instant: int
    answer: str


class FreeCalls:
    """Records free answers. Safe for threads and processes."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock

    def record(
        self,
        run_id: str,
        key: str,
        answer: str,
        *,
        task_id: str,
        provider: str,
        index: int,
        owner: str,
        question: str | None = None,
        instant: int | None = None,
    ) -> str:
        """Record an answer that was made in this process and cost nothing: it counts towards no
        limit. Returns the answer on record (the first one is kept, also that of a fork's parent).
        Raises Stopped if the run was stopped."""
        call = Wanted(run_id, key, task_id, provider, index, owner, question, instant)

        def work(tx: Transaction) -> str:
            rows = tx.run(
                "SELECT state, answer, error FROM calls WHERE run_id = :run_id AND call_key = :key",
                run_id=run_id,
                key=key,
            )
            found = Claim(*rows[0]) if rows else None
            run = read_run(tx, run_id)
            if found is None and run.parent is not None:
                found = copy_answer(tx, run_id, run.parent, key, task_id)
            if found is not None and found.state == "failed":
                raise Refused(found.error or "refused")
            if found is not None and found.answer is not None:
                return found.answer
            if run.status != "running":
                raise Stopped(run.reason or f"cancelled: the run is {run.status}")
            self._insert_free(tx, call, answer)
            return answer

        return self._database.together(run_lock(run_id), work)

    def answers(self, run_id: str, task_id: str, keys: Sequence[str]) -> dict[str, str]:
        """The answers on record to the calls with these keys; a fork inherits its parent's."""

        def work(tx: Transaction) -> dict[str, str]:
            found = _on_record(tx, run_id, keys)
            parent = read_run(tx, run_id).parent
            if parent is not None:
                for key in keys:
                    copied = None
                    if key not in found:
                        copied = copy_answer(tx, run_id, parent, key, task_id)
                    if copied is not None and copied.answer is not None:
                        found[key] = copied.answer
            return found

        return self._database.together(run_lock(run_id), work)

    def record_all(
        self, run_id: str, task_id: str, owner: str, answers: Sequence["FreeAnswer"]
    ) -> None:
        """Record answers that were made in this process and cost nothing, in one transaction: they
        count towards no limit. Raises Stopped if the run was stopped, Unavailable if another
        process recorded other answers to the same questions meanwhile."""
        now = iso(self._clock.now())

        rows = [
            {
                "run_id": run_id,
                "key": one.key,
                "task_id": task_id,
                "provider": one.provider,
                "index": one.simulation,
                "question": one.question,
                "instant": one.instant,
                "owner": owner,
                "answer": one.answer,
                "digest": digest(one.answer.encode()),
                "now": now,
            }
            for one in answers
        ]
        with self._database.write(run_lock(run_id)) as tx:
            run = read_run(tx, run_id)
            if run.status != "running":
                raise Stopped(run.reason or f"cancelled: the run is {run.status}")
            if tx.many(f"{FREE}{REPLACING} WHERE calls.state <> 'done'", rows) == len(rows):
                return
            kept = _on_record(tx, run_id, [one.key for one in answers])
        if any(kept.get(one.key) != one.answer for one in answers):
            raise Unavailable("another process answered the same questions meanwhile")

    def _insert_free(self, tx: Transaction, call: "Wanted", answer: str) -> None:
        tx.run(
            FREE + REPLACING,
            **vars(call),
            answer=answer,
            digest=digest(answer.encode()),
            now=iso(self._clock.now()),
        )


def _on_record(tx: Transaction, run_id: str, keys: Sequence[str]) -> dict[str, str]:
    """The answers on record to these calls, by key."""
    rows = tx.run(
        "SELECT call_key, answer FROM calls WHERE run_id = :run_id AND call_key IN :keys "
        "AND state = 'done'",
        run_id=run_id,
        keys=list(keys),
    )
    return dict(cast(list[tuple[str, str]], rows))
