"""How a forecaster was kept from the future: what the card says of it."""

from collections.abc import Iterable, Mapping, Sequence

from beforehand.engine.context import StepContext
from beforehand.forecast.base import Forecaster
from beforehand.score.scoreboard import Kept
from beforehand.sources.address import service_of
from beforehand.store.journal.memory import remembered

MAY_REMEMBER, NOT_AGAIN = "may remember", "not reproducible"
MOST_RUNS = 3
STATED_REMEMBERING = (
    "it may remember: its predictions say that it was asked about later instants before"
)


def how_kept(
    forecasters: Iterable[Forecaster], differs: Mapping[str, int], context: StepContext
) -> dict[str, Kept]:
    """How each forecaster of a run was kept from the future, by its name on the leaderboard.
    `differs` counts answers that were not the ones on record when a past was shown again."""
    restarts = list[str]()
    run_id: str | None = context.run_id
    while run_id is not None and (row := context.journal.run(run_id)) is not None:
        restarts += row.restarts  # Of the runs whose answers a fork inherits as well.
        run_id = row.parent
    database, found = context.journal.database, dict[str, Kept]()
    for one in forecasters:
        if one.memoryless:
            found[one.name] = one.kept()
            continue
        later = remembered(database, context.run_id, one.provider, restarts, service_of)
        found[one.name] = kept(one, *later, differs.get(one.name, 0), bool(restarts))
    return found


def kept(one: Forecaster, n: int, runs: Sequence[str], differs: int, restarted: bool) -> Kept:
    """Whoever may remember. `n` of its answers came after `runs` asked it about later instants; in
    `differs` cases it answered otherwise than before when it was shown its past again."""
    order = one.order + (", stated as restarted" if restarted else "")
    if differs:
        order += f"; {NOT_AGAIN} ({differs:,} answers differ when asked again)"
    if not n:
        return Kept(one.isolation, order)
    named = ", ".join(runs[:MOST_RUNS]) + (", …" if len(runs) > MOST_RUNS else "")
    return Kept(
        one.isolation,
        MAY_REMEMBER + (f"; {NOT_AGAIN} ({differs:,} answers)" if differs else ""),
        f"it may remember: {n:,} of its answers came after it was asked about later instants "
        f"(run {named}); restart it, and run again with --fresh",
    )
