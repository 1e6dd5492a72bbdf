"""`beforehand runs compare`."""

from typing import Annotated

from cyclopts import Parameter

from beforehand.cli.options import Draws, Margin, Seed
from beforehand.cli.output import Json, emit
from beforehand.cli.runs import opened
from beforehand.cli.screen import screen
from beforehand.cli.tables import figure, table
from beforehand.clock import iso
from beforehand.errors import EXIT_FAILED, EXIT_OK, InputError
from beforehand.jobs.checks import between, settings
from beforehand.runs.compare import (
    FailIf,
    GateWire,
    Subject,
    compare_forecasters,
    compare_questions,
    gate,
    gate_power,
    subject_of,
)
from beforehand.runs.query import find_run
from beforehand.score.skill import Options
from beforehand.score.summary import number
from beforehand.store.run_folder import open_run

Compared = Annotated[
    str, Parameter(help="RUN:FORECASTER; RUN alone stands for its only forecaster under test.")
]


def compare(
    a: Compared,
    b: Compared | None = None,
    /,
    *,
    fail_if: Annotated[
        FailIf | None,
        Parameter(
            help="End with 1 if a is shown to be worse than b; or unless a is shown to be worse by "
            "less than --margin. It may be looked at as often as one likes. Without b: the power "
            "of such a gate, before anything is spent."
        ),
    ] = None,
    effect: Annotated[
        float, Parameter(help="The difference in Brier score of which the power is stated.")
    ] = 0.01,
    margin: Margin = None,
    questions: Annotated[
        int | None, Parameter(help="List the questions instead on which they differ most.")
    ] = None,
    draws: Draws = 2000,
    seed: Seed = 0,
    json: Json = False,
) -> int:
    """Two forecasters against each other, of one run or of two, on the rows that both forecast.

    What a gains on b rests on the positions that their forecasts take, marked at every price on
    record; beside it stand both Brier scores, and the gain that is found with a power of 80 %.
    """
    workspace, journal = opened()
    home, checked = workspace.home, settings(seed, draws, 0, mark="--", margin=margin)
    if not 0 < effect < 1:
        raise InputError(f"--effect is a difference in Brier score between 0 and 1, not {effect:g}")
    subjects = []
    for text in (a, b) if b is not None else (a,):
        name, _, forecaster = text.partition(":")
        folder = open_run(home.runs, find_run(name, home, journal, scored=True))
        subjects.append(subject_of(folder, forecaster or None))
    if b is None:
        return _power(subjects[0], effect, json)
    if questions is not None:
        most = between("questions", questions, 1, 1_000_000, "--")
        rows = compare_questions(subjects[0], subjects[1])
        if json:
            emit({"a": a, "b": b, "total": len(rows), "questions": rows[:most]})
            return EXIT_OK
        head = [("market", "left"), ("outcome", "right"), ("forecasts", "right")]
        head += [("error of a", "right"), ("error of b", "right"), ("b - a", "right")]
        cells = [
            [row["market_id"], f"{row['outcome']:g}", f"{row['n']:,}"]
            + [figure(row[name]) for name in ("a", "b", "difference")]
            for row in rows[:most]
        ]
        screen().print(table(f"a = {a}, b = {b}: mean squared errors", head, cells))
        print(f"{len(cells):,} of {len(rows):,} questions; above 0, a is better")
        return EXIT_OK
    options = Options(draws=checked.draws, seed=checked.seed, margin=checked.margin)
    if fail_if is not None:
        now = iso(workspace.clock.now())
        found, told = gate(subjects[0], subjects[1], fail_if, home, now, effect, options)
        if json:
            emit({**found.wire(), "gate": told})
        else:
            print(found)
            print(_told(told))
        return EXIT_FAILED if told["failed"] else EXIT_OK
    found = compare_forecasters(subjects[0], subjects[1], options)
    if json:
        emit(found.wire())
    else:
        print(found)
    return EXIT_OK


def _told(found: GateWire) -> str:
    """What a gate says, and how much that is worth."""
    said = "fails" if found["failed"] else "passes"
    tried = found["candidates"]
    many = f", as {tried:,} were held against such a set" if tried > 1 else ""
    power = "unknown" if found["power"] is None else f"{100 * found['power']:.0f} %"
    return (
        f"gate ({found['fail_if']}): {said}; the evidence that a is worse is "
        f"{found['e_value']:.3g} of the {found['needed']:g} that it takes{many}, however often one "
        f"looks; one that is worse by {found['effect']:g} is found with a probability of {power}"
    )


def _power(subject: Subject, effect: float, json: bool) -> int:
    """The power of a gate before a candidate is asked."""
    daily, once = gate_power(subject, effect)
    known = [number(value) for value in (daily, once)]
    if json:
        emit({"effect": effect, "power": known[0], "power_at_one_look": known[1]})
        return EXIT_OK
    said = ["unknown" if value is None else f"{100 * value:.0f} %" for value in known]
    print(
        f"a candidate that is worse by {effect:g} in Brier score is found with a probability of "
        f"{said[0]} by whoever looks every day, and of {said[1]} at one look at the end, if it "
        f"differs from {subject.name} as much as {subject.name} differs from the market (like "
        "forecasters are told apart more easily)"
    )
    return EXIT_OK
