"""What a service may remember: the later instants that other runs asked it about before.

A service that was asked about July before it is asked about March may have kept what it saw. The
journal knows when each call was sent, and which instant it was about. If the user says that the
forecasters were restarted, calls sent before that no longer count. Answers that a fork inherits are
judged as answers of the run that paid for them.
"""

from collections.abc import Callable, Sequence

from beforehand.store.database import Database


def remembered(
    database: Database,
    run_id: str,
    provider: str,
    restarts: Sequence[str],
    service_of: Callable[[str], str] = str,
) -> tuple[int, list[str]]:
    """Returns (how many answers of this run came after another run had asked the same service about
    a later instant, those other runs). `restarts` are the times at which the service is said to
    have been restarted; `service_of` names the service behind a provider."""
    with database.read() as tx:
        mine = tx.run(
            "SELECT sent_at, instant, origin FROM calls WHERE run_id = :run_id "
            "AND provider = :provider AND instant IS NOT NULL",
            run_id=run_id,
            provider=provider,
        )
        if not mine:
            return 0, []
        known = [name for (name,) in tx.run("SELECT DISTINCT provider FROM calls")]
        others = tx.run(
            "SELECT first_sent_at, sent_at, instant, run_id FROM calls "
            "WHERE provider IN :same AND origin IS NULL AND instant > :first "
            "AND first_sent_at <= :last",
            same=[name for name in known if service_of(name) == service_of(provider)],
            first=min(instant for _, instant, _ in mine),
            last=max(at for at, _, _ in mine),
        )
    # In the order of the wall clock: a restart forgets, a call of another run adds to what may be
    # remembered, and a call of ours is compared with it. Ties count against the service.
    events = [(at, 0, 0, "") for at in restarts]
    for first, last, instant, run in others:  # A call sent again after a restart counts again.
        events += [(at, 1, instant, run) for at in {first, last}]
    events += [(at, 2, instant, origin or run_id) for at, instant, origin in mine]
    latest: dict[str, int] = {}
    n, runs = 0, set[str]()
    for _, kind, instant, run in sorted(events):
        if kind == 0:
            latest.clear()
        elif kind == 1:
            latest[run] = max(instant, latest.get(run, instant))
        else:
            later = [name for name, seen in latest.items() if seen > instant and name != run]
            n, runs = n + bool(later), runs | set(later)
    return n, sorted(runs)
