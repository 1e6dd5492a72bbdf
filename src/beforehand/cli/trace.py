"""`beforehand runs trace`."""

from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from beforehand.cli.output import Json, emit
from beforehand.cli.runs import Run, opened
from beforehand.clock import to_us
from beforehand.errors import EXIT_OK, NotFound
from beforehand.jobs.checks import instant
from beforehand.records.rows import label
from beforehand.runs.query import find_run
from beforehand.runs.traces.decision import Traced, traced, whole_id
from beforehand.store.run_folder import INTERVALS, open_run

if TYPE_CHECKING:
    from beforehand.store.journal.journal import Journal


def trace(
    run_id: Run,
    market: Annotated[str, Parameter(help="The market (VENUE:id).")],
    /,
    *,
    at: Annotated[str | None, Parameter(help="The instant (ISO 8601) [the last].")] = None,
    forecaster: Annotated[str | None, Parameter(help="The forecaster [every one].")] = None,
    simulation: Annotated[int, Parameter(help="Which simulation.")] = 0,
    json: Json = False,
) -> int:
    """One decision, whole: what was shown, what a model was told, the code that it wrote, what that
    printed, its answer, and what each of its calls cost."""
    workspace, journal = opened()
    folder = open_run(workspace.home.runs, find_run(run_id, workspace.home, journal))
    if not folder.wrote(INTERVALS):
        raise NotFound(f"run {folder.run_id} asked nobody: it has no traces")
    t = None if at is None else to_us(instant("at", at, "--"))
    found = traced(folder, journal, whole_id(folder, market), t, forecaster, simulation)
    if json:
        emit(
            {
                "run_id": folder.run_id,
                "intervals": [msgspec.to_builtins(row) for row in found.rows],
                "attempts": [msgspec.to_builtins(one) for one in found.attempts],
                "calls": found.calls,
            }
        )
    else:
        _print(found, forecaster, journal)
    return EXIT_OK


def _print(found: Traced, forecaster: str | None, journal: "Journal | None") -> None:
    """The decision as a person reads it, from what was shown to what was said."""
    from beforehand.cli.tables import figure
    from beforehand.forecast.prompts import prompt_of

    row, context = found.rows[0], found.rows[0].context
    print(f"{row.market_id} at {row.time}, market {figure(context.odds)}")
    print(context.market.description or "(no wording was known)")
    for shown in context.search_snippets:
        print(f"shown: {shown.id} ({shown.timestamp}) {shown.text}")
    for earlier in context.previous_intervals:
        print(f"before: {earlier.aggregated_probability:g} at {earlier.time}")
    for one in found.attempts:
        print(f"\n--- {label(one.model_id)}, {one.arm}")
        if one.arm in ("code", "direct"):
            print(prompt_of(one.arm, context.wire()).instructions)
        for title in ("code", "output", "answer", "queries", "fallback_reason", "error"):
            if (value := getattr(one, title)) not in (msgspec.UNSET, None, ""):
                print(f"{title}:\n{value}" if "\n" in str(value) else f"{title}: {value}")
    print()
    for call in found.calls:
        print(
            f"call: {call['provider']}, {call['state']}, {call['tokens'] or 0:,} tokens, "
            f"${call['cost'] or 0:.4f}, {call['latency_ms'] or 0:,.0f} ms"
        )
    for said in (said for row in found.rows for said in row.decisions):
        if forecaster in (None, label(said.model_id)):
            rationale = f": {said.rationale}" if said.rationale else ""
            print(f"{label(said.model_id)} said {said.probability:g}{rationale}")
    for failed in (failed for row in found.rows for failed in row.failures):
        if forecaster in (None, label(failed.model_id)):
            print(f"{label(failed.model_id)} failed: {failed.error}")
    if not found.attempts:
        print("nothing else is on record: only models leave a trace")
    elif journal is None:
        print("the journal is not here: what was paid is not shown")
