"""The journal of paid calls: the intent before, the answer after, in one row per call of a run.

A row is keyed by what is asked (provider, request, simulation index), so that every process that
comes to the same question finds the answer. States:

    sent     the intent is on record; no answer yet. Held by an owner with a lease
    done     answered; the answer is in the row
    failed   answered with a refusal that asking again would not change
    lost     known not to have been carried out: may be asked again

Only `done` and `failed` are final. A `sent` row with a lapsed lease is the one case that cannot be
decided: the call may have been paid. The policy of the run says what happens then (resend, skip,
stop).
"""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict, cast

import orjson

from beforehand.clock import Clock, SystemClock, epoch, iso, lease_clock
from beforehand.errors import Stopped
from beforehand.ids import digest
from beforehand.store.database import Database, Transaction
from beforehand.store.journal.events import add_event, run_lock
from beforehand.store.journal.schema import CALL_COLUMNS

TOOL = "tool:"
"""How the provider of a call of a tool begins, before the tool's name. What a tool costs is
counted; `--max-calls` does not limit such calls."""
LEASE_S = 5.0
"""How long a claim is valid without a heartbeat of its owner."""
MOST_UNANSWERED = 5
"""After this many attempts without an answer, over all resumes, a call has failed for good."""
Policy = Literal["resend", "skip", "stop"]
State = Literal["sent", "lost"]
UNITS = {"calls": "calls", "tokens": "tokens", "cost": "USD"}


@dataclass(frozen=True)
class Usage:
    """What one answer cost: tokens, and US dollars."""

    tokens: int | None = None
    cost: float | None = None


@dataclass(frozen=True)
class Claim:
    """What the journal says of a call. `ask` means: send it now, you hold the lease. `wait` means:
    another owner is making the call. Otherwise `answer` or `error` is final."""

    state: Literal["ask", "wait", "done", "failed"]
    answer: str | None = None
    error: str | None = None
    attempts: int = 0


class CallRow(TypedDict):
    """A call of a run, by the names of the columns. `answer` is a text where the state is `done`,
    else None; `origin` is the run that paid for it, where that is another one."""

    call_key: str
    task_id: str
    provider: str
    simulation_index: int
    question: str | None
    instant: int | None
    state: str
    attempts: int
    answer: Any
    answer_digest: str | None
    error: str | None
    tokens: int | None
    cost: float | None
    sent_at: str
    answered_at: str | None
    latency_ms: float | None
    origin: str | None


ROUNDING = 1e-9


def call_key(provider: str, request: Any, index: int) -> str:
    """The content key of a call; it is also its idempotency key."""
    return digest([provider, request, index])


class Calls:
    """Claims and answers. Safe for threads and processes."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = clock or SystemClock()
        self._held: dict[tuple[str, str], float] = {}
        """The calls that this process has in flight, by run and key, and when it last took or
        renewed each lease. Only these leases are renewed."""

    def claim(
        self,
        run_id: str,
        key: str,
        *,
        task_id: str,
        provider: str,
        index: int,
        owner: str,
        question: str | None = None,
        instant: int | None = None,
        peek: bool = False,
        outer: bool = False,
        within: bool = False,
        counted: bool = False,
    ) -> Claim:
        """Look a call up, and claim it if no owner holds it. With `peek`, return what a claim would
        return, but write no intent. `question` names the question for people to read, `instant`
        (microseconds) is the time that is asked about. Raises Stopped if the run was stopped or its
        budget allows no further call.

        An `outer` call is one of this process that costs nothing itself and may make others. These
        are claimed `within` it: they do not wait for any outer call, which may wait for them. One
        that is `counted` takes the place among `--max-calls` that its outer call has.
        """
        call = Wanted(run_id, key, task_id, provider, index, owner, question, instant)
        place = Place(outer, within, counted)
        began = 0.0

        def work(tx: Transaction) -> Claim:
            nonlocal began
            began = lease_clock()  # The lease starts here, however long we waited before.
            return self._claim(tx, call, peek, place)

        found = self._database.together(run_lock(run_id), work)
        if found.state == "ask" and not peek:
            self._held[run_id, key] = began
        return found

    def holds(self, run_id: str, key: str) -> bool:
        """False if the lease may have lapsed: another process may be making this call by now."""
        return lease_clock() - self._held.get((run_id, key), float("-inf")) < LEASE_S

    def _claim(self, tx: Transaction, call: "Wanted", peek: bool, place: "Place") -> Claim:
        run_id, key = call.run_id, call.key
        now = tx.epoch(epoch(self._clock.now()))
        run = read_run(tx, run_id)
        rows = tx.run(
            "SELECT state, lease_until, answer, error, attempts FROM calls "
            "WHERE run_id = :run_id AND call_key = :key",
            run_id=run_id,
            key=key,
        )
        state, lease, answer, error, attempts = rows[0] if rows else (None,) * 5
        if state in ("done", "failed"):
            return Claim(state, answer, error, attempts)
        if state is None and run.parent is not None:
            copied = copy_answer(tx, run_id, run.parent, key, call.task_id)
            if copied is not None:
                return copied
        # A lease that ends too far ahead was written before the clock stepped back.
        if state == "sent" and now < lease <= now + LEASE_S:
            return Claim("wait")
        if state == "sent" and run.policy == "skip":
            return _skip(tx, run_id, key, attempts)
        if state == "sent" and run.policy == "stop":
            raise Stopped(
                f"a call to {call.provider} was sent and its answer never arrived "
                f"({call.question or call.task_id}); the policy is to stop: look at the "
                "provider's records, then resume with --in-flight resend or --in-flight skip"
            )
        counted = place.counted or state == "lost" or call.provider.startswith(TOOL)
        if not self._afford(tx, run_id, run, now, counted, place.within):
            return Claim("wait")
        if peek:
            return Claim("ask")
        if not counted:
            tx.run("UPDATE runs SET calls = calls + 1 WHERE run_id = :id", id=run_id)
        return self._intend(tx, call, now, (attempts or 0) + 1, 0.0 if place.outer else None)

    def _intend(
        self, tx: Transaction, call: "Wanted", now: float, attempt: int, cost: float | None
    ) -> Claim:
        """Write the intent: from now on the call belongs to its owner, until the lease ends."""
        tx.run(
            "INSERT INTO calls (run_id, call_key, task_id, provider, simulation_index, "
            "question, instant, state, owner, lease_until, attempts, first_sent_at, sent_at, cost) "
            "VALUES (:run_id, :key, :task_id, :provider, :index, :question, :instant, 'sent', "
            ":owner, :lease, 1, :now, :now, :cost) ON CONFLICT (run_id, call_key) DO UPDATE SET "
            "state = 'sent', owner = excluded.owner, cost = excluded.cost, lease_until = "
            "excluded.lease_until, attempts = calls.attempts + 1, error = NULL, "
            "first_sent_at = CASE WHEN calls.instant IS NULL THEN excluded.sent_at "
            "ELSE calls.first_sent_at END, instant = excluded.instant, "
            "sent_at = excluded.sent_at",
            **vars(call),
            lease=now + LEASE_S,
            now=iso(self._clock.now()),
            cost=cost,
        )
        detail = {
            "provider": call.provider,
            "key": call.key,
            "attempt": attempt,
            "owner": call.owner,
        }
        add_event(tx, call.run_id, iso(self._clock.now()), "call sent", call.task_id, **detail)
        return Claim("ask", attempts=attempt)

    def answered(self, run_id: str, key: str, answer: str, usage: Usage, latency_ms: float) -> str:
        """Record an answer as soon as it arrives, even if another owner holds the call by now.
        Returns the recorded answer (the first one is kept)."""
        kept = self._database.together(
            run_lock(run_id), lambda tx: self._answered(tx, run_id, key, answer, usage, latency_ms)
        )
        self._held.pop((run_id, key), None)
        return kept

    def _answered(
        self, tx: Transaction, run_id: str, key: str, answer: str, usage: Usage, latency_ms: float
    ) -> str:
        rows = tx.run(
            "SELECT answer FROM calls WHERE run_id = :run_id AND call_key = :key "
            "AND state = 'done'",
            run_id=run_id,
            key=key,
        )
        if rows:
            return str(rows[0][0])
        tx.run(
            "UPDATE calls SET state = 'done', answer = :answer, answer_digest = :digest, "
            "error = NULL, tokens = :tokens, cost = :cost, answered_at = :now, "
            "latency_ms = :latency WHERE run_id = :run_id AND call_key = :key",
            answer=answer,
            digest=digest(answer.encode()),
            tokens=usage.tokens,
            cost=usage.cost,
            now=iso(self._clock.now()),
            latency=round(latency_ms, 3),
            run_id=run_id,
            key=key,
        )
        tx.run(
            "UPDATE runs SET answered = answered + 1, tokens = tokens + :tokens, "
            "cost = cost + :cost, most_tokens = "
            "CASE WHEN most_tokens > :tokens THEN most_tokens ELSE :tokens END, most_cost = "
            "CASE WHEN most_cost > :cost THEN most_cost ELSE :cost END "
            "WHERE run_id = :run_id",
            tokens=usage.tokens or 0,
            cost=usage.cost or 0.0,
            run_id=run_id,
        )
        detail = {"state": "done", "tokens": usage.tokens, "cost": usage.cost}
        self._ended(tx, run_id, key, **detail, latency_ms=round(latency_ms, 3))
        return answer

    def _ended(self, tx: Transaction, run_id: str, key: str, **detail: Any) -> None:
        """Add the event that an attempt at a call ended."""
        add_event(tx, run_id, iso(self._clock.now()), "call ended", key=key, **detail)

    def refused(self, run_id: str, key: str, owner: str, error: str) -> None:
        """The provider refused for good."""
        self._let_go(run_id, key, owner, "failed", error)

    def lost(self, run_id: str, key: str, owner: str, error: str, arrived: bool = True) -> None:
        """The call was not carried out, or its service said that it failed: it may be asked again.
        If it cannot have `arrived`, the service saw nothing about its instant."""
        self._let_go(run_id, key, owner, "lost", error, arrived)

    def unknown(self, run_id: str, key: str, owner: str, error: str) -> None:
        """No answer came, and the call may have been carried out: the run's policy decides."""
        self._let_go(run_id, key, owner, "sent", error)

    def unanswered(self, run_id: str, key: str, owner: str, error: str, state: State) -> bool:
        """An attempt ended without an answer. True if it was the last attempt allowed: then the
        call has failed, else it is in `state`."""
        with self._database.write(run_lock(run_id)) as tx:
            rows = tx.run(
                "UPDATE calls SET unanswered = unanswered + 1, state = CASE WHEN unanswered + 1 < "
                ":most THEN :state ELSE 'failed' END, error = :error, lease_until = 0 "
                "WHERE run_id = :run_id AND call_key = :key AND state = 'sent' "
                "AND owner = :owner RETURNING state",
                most=MOST_UNANSWERED,
                state=state,
                error=error,
                run_id=run_id,
                key=key,
                owner=owner,
            )
            if rows:
                self._ended(tx, run_id, key, state=rows[0][0], error=error)
        self._held.pop((run_id, key), None)
        return bool(rows) and rows[0][0] == "failed"

    def drop(self, run_id: str, key: str) -> None:
        """Stop renewing a lease, so that it lapses: the end of the call could not be written."""
        self._held.pop((run_id, key), None)

    def _let_go(
        self, run_id: str, key: str, owner: str, state: str, error: str, arrived: bool = True
    ) -> None:
        """End a claim with this state. Only the owner that still holds the call may do so."""
        with self._database.write(run_lock(run_id)) as tx:
            rows = tx.run(
                "UPDATE calls SET state = :state, error = :error, lease_until = 0, answered_at = "
                ":now, instant = CASE WHEN :arrived = 1 THEN instant ELSE NULL END "
                "WHERE run_id = :run_id AND call_key = :key AND state = 'sent' AND owner = :owner "
                "RETURNING call_key",
                state=state,
                error=error,
                now=iso(self._clock.now()) if state == "failed" else None,
                arrived=int(arrived),
                run_id=run_id,
                key=key,
                owner=owner,
            )
            if rows:
                self._ended(tx, run_id, key, state=state, error=error)
        self._held.pop((run_id, key), None)

    def _afford(
        self, tx: Transaction, run_id: str, run: "Run", now: float, counted: bool, within: bool
    ) -> bool:
        """True if one more call fits the run's limits; False if it may fit once the calls in flight
        are answered. Raises Stopped if it does not fit, or if the run was stopped.

        A call in flight counts as much as the most expensive call so far. While no cost is known,
        one call is made at a time.
        """
        if run.status == "stopped" and run.reason:
            raise Stopped(run.reason)
        if run.status != "running":
            raise Stopped(f"cancelled: the run is {run.status}")
        if not run.limits:
            return True
        flight = tx.run(
            "SELECT count(*) FROM calls WHERE run_id = :run_id AND state = 'sent' "
            "AND lease_until > :now AND provider NOT LIKE :tools"
            + (" AND cost IS NULL" if within else ""),  # Not for those that may wait for this one.
            run_id=run_id,
            now=now,
            tools=f"{TOOL}%",  # A model that a tool asks must not wait for that tool.
        )[0][0]
        most_cost = run.most_cost or run.expected_cost
        unknown = not run.answered and not run.expected_cost
        checks = (
            ("calls", run.calls, 0 if counted else 1, 0, False),
            ("tokens", run.tokens, run.most_tokens, flight, not run.answered),
            ("cost", run.cost, most_cost, flight, unknown),
        )
        for name, spent, one, others, unsure in checks:
            limit = run.limits.get(name)
            if limit is None:
                continue
            most = limit + ROUNDING  # Thirty times a hundredth is a little more than .3.
            if (unsure and others) or (others and spent + (others + 1) * one > most):
                return False
            if spent + one > most or (name != "calls" and spent >= limit):
                raise Stopped(
                    f"skipped: the budget of {limit:g} {UNITS[name]} allows no further call "
                    f"({spent:g} spent): resume with a larger --max-{name} to go on"
                )
        return True

    def renew(self, owner: str) -> None:
        """Extend the leases of what this process has in flight."""
        held, began = list(self._held), lease_clock()
        if not held:
            return
        with self._database.write() as tx:
            rows = tx.run(
                "UPDATE calls SET lease_until = :lease WHERE owner = :owner AND state = 'sent' "
                "AND call_key IN :held RETURNING run_id, call_key",
                lease=tx.epoch(epoch(self._clock.now())) + LEASE_S,
                owner=owner,
                held=list({key for _, key in held}),
            )
        ours = {(run_id, key) for run_id, key in rows}
        for call in held:
            if call not in ours:  # Answered, or taken over by another process.
                self._held.pop(call, None)
            elif call in self._held:
                self._held[call] = began

    def release(self, run_id: str, owner: str) -> int:
        """End every lease of a run but the owner's: the processes that held them are known to be
        dead. Returns how many calls were in flight then."""
        with self._database.write() as tx:
            return len(
                tx.run(
                    "UPDATE calls SET lease_until = 0 WHERE run_id = :run_id AND state = 'sent' "
                    "AND owner <> :owner RETURNING call_key",
                    run_id=run_id,
                    owner=owner,
                )
            )

    def sent_again(self, run_id: str) -> int:
        """How many attempts of a run's calls came after a first one."""
        with self._database.read() as tx:
            found = tx.run(
                "SELECT coalesce(sum(attempts - 1), 0) FROM calls WHERE run_id = :run_id "
                "AND origin IS NULL AND attempts > 1",
                run_id=run_id,
            )
        return int(found[0][0])

    def knows(self, run_id: str) -> bool:
        """True if this journal has the run: else its calls are on record elsewhere."""
        with self._database.read() as tx:
            found = tx.run("SELECT 1 FROM runs WHERE run_id = :run_id", run_id=run_id)
        return bool(found)

    def rows(self, run_id: str) -> list[CallRow]:
        """Every call of a run, in the order sent."""
        names = list(CallRow.__annotations__)
        with self._database.read() as tx:
            found = tx.run(
                f"SELECT {', '.join(names)} FROM calls WHERE run_id = :run_id "
                "ORDER BY sent_at, call_key",
                run_id=run_id,
            )
        return cast(list[CallRow], [dict(zip(names, row, strict=True)) for row in found])

    def forget_failed(self, run_id: str) -> None:
        """Let what was refused be asked again: only in the standing run, which never ends."""
        with self._database.write() as tx:
            tx.run("DELETE FROM calls WHERE run_id = :run_id AND state = 'failed'", run_id=run_id)

    def settled(self, run_id: str) -> int:
        """How many calls of a run have their final answer."""
        with self._database.read() as tx:
            return int(
                tx.run(
                    "SELECT count(*) FROM calls WHERE run_id = :run_id "
                    "AND state IN ('done', 'failed')",
                    run_id=run_id,
                )[0][0]
            )

    def usual(self, provider: str) -> tuple[float | None, float | None, float | None]:
        """(tokens, US dollars, seconds) that a call to this provider has taken on average."""
        with self._database.read() as tx:
            tokens, cost, took = tx.run(
                "SELECT avg(tokens), avg(cost), avg(latency_ms) FROM calls WHERE provider = "
                ":provider AND state = 'done' AND origin IS NULL",
                provider=provider,
            )[0]
        return (
            None if tokens is None else float(tokens),
            None if cost is None else float(cost),
            None if took is None else float(took) / 1000,
        )


@dataclass(frozen=True)
class Wanted:
    """A call to be made: the arguments of `claim`."""

    run_id: str
    key: str
    task_id: str
    provider: str
    index: int
    owner: str
    question: str | None
    instant: int | None


class Place(NamedTuple):
    """What a call takes of a run's limits: see `claim`."""

    outer: bool
    within: bool
    counted: bool


def copy_answer(
    tx: Transaction, run_id: str, parent: str | None, key: str, task_id: str
) -> Claim | None:
    """The answer that a fork inherits from its parent run, or from the run that paid for it."""
    seen = {run_id}
    while parent is not None and parent not in seen:
        seen.add(parent)
        found = tx.run(
            f"INSERT INTO calls ({CALL_COLUMNS}) SELECT :run_id, call_key, :task_id, "
            "provider, simulation_index, question, instant, state, owner, 0, attempts, "
            "unanswered, answer, answer_digest, error, tokens, cost, first_sent_at, sent_at, "
            "answered_at, latency_ms, :parent FROM calls "
            "WHERE run_id = :parent AND call_key = :key AND state IN ('done', 'failed') "
            "RETURNING state, answer, error, attempts",
            run_id=run_id,
            task_id=task_id,
            parent=parent,
            key=key,
        )
        if found:
            return Claim(*found[0])
        parent = read_run(tx, parent).parent
    return None


def _skip(tx: Transaction, run_id: str, key: str, attempts: int) -> Claim:
    """Give up for good a call that was sent and never answered."""
    error = "sent without an answer: skipped, as the run's policy says"
    tx.run(
        "UPDATE calls SET state = 'failed', error = :error "
        "WHERE run_id = :run_id AND call_key = :key",
        error=error,
        run_id=run_id,
        key=key,
    )
    return Claim("failed", None, error, attempts)


@dataclass(frozen=True)
class Run:
    """What a claim needs to know of its run."""

    status: str = "running"
    parent: str | None = None
    policy: Policy = "resend"
    limits: dict[str, float] = field(default_factory=dict)
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    answered: int = 0
    most_tokens: int = 0
    most_cost: float = 0.0
    expected_cost: float = 0.0
    reason: str | None = None


def read_run(tx: Transaction, run_id: str) -> Run:
    rows = tx.run(
        "SELECT status, parent, policy, limits, calls, tokens, cost, answered, most_tokens, "
        "most_cost, expected_cost, reason FROM runs WHERE run_id = :run_id",
        run_id=run_id,
    )
    if not rows:
        return Run()
    status, parent, policy, limits, *spent = rows[0]
    return Run(status, parent, policy, orjson.loads(limits), *spent)
