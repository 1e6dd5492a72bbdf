"""How a forecaster was kept from the future: what the card says of it."""

from collections.abc import Iterable, Mapping, Sequence

from beforehand.engine.context import StepContext
from beforehand.llm.names import is_model
from beforehand.score.scoreboard import Kept
from beforehand.sources.address import service_of
from beforehand.store.memory import remembered
from beforehand.work.voices import remembers

MAY_REMEMBER, NOT_AGAIN = "may remember", "not reproducible"
MOST_RUNS = 3
STATED_REMEMBERING = (
    "it may remember: its predictions say that it was asked about later instants before"
)


def how_kept(
    baselines: Iterable[str],
    asked: Iterable[str],
    differs: Mapping[str, int],
    context: StepContext,
) -> dict[str, Kept]:
    """How each forecaster of a run was kept from the future, by its name on the leaderboard.
    `differs` counts answers that were not the ones on record when a past was shown again."""
    restarts = list[str]()
    run_id: str | None = context.run_id
    while run_id is not None and (row := context.journal.run(run_id)) is not None:
        restarts += row.restarts  # Of the runs whose answers a fork inherits as well.
        run_id = row.parent
    found = {name: kept_by_construction(name) for name in baselines}
    for name in asked:
        later = (0, list[str]())
        if remembers(name):
            database = context.journal.database
            later = remembered(database, context.run_id, name, restarts, service_of)
        found[name] = kept(name, *later, differs.get(name, 0), bool(restarts))
    return found


def kept_by_construction(name: str) -> Kept:
    """A baseline: it gets a row of what was known at t, and nothing else. A replayed one is as good
    as the dates of its forecasts."""
    if name.startswith("recorded:"):
        return Kept("trusted", "not asked (its own dated forecasts)")
    return Kept("by construction", "memoryless")


def kept(name: str, n: int, runs: Sequence[str], differs: int, restarted: bool) -> Kept:
    """Whoever is asked. `n` of its answers came after it was asked about a later instant by `runs`;
    in `differs` cases it answered otherwise than before when it was shown its past again."""
    if is_model(name):
        return Kept("by construction", "declared memoryless")
    order = "asked in order" + (", stated as restarted" if restarted else "")
    if differs:
        order += f"; {NOT_AGAIN} ({differs:,} answers differ when asked again)"
    if not n:
        return Kept("trusted", order)
    named = ", ".join(runs[:MOST_RUNS]) + (", …" if len(runs) > MOST_RUNS else "")
    return Kept(
        "trusted",
        MAY_REMEMBER + (f"; {NOT_AGAIN} ({differs:,} answers)" if differs else ""),
        f"it may remember: {n:,} of its answers came after it was asked about later instants "
        f"(run {named}); restart it, and run again with --fresh",
    )
