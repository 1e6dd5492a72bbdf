"""Options that several commands share, and their checks."""

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Literal

from cyclopts import Group, Parameter

from beforehand.cli.output import OUTPUT, note
from beforehand.engine.job import RunLimits
from beforehand.errors import InputError
from beforehand.forecast.aggregate import Method
from beforehand.forecast.base import TIMEOUT_S, ModelOptions, class_of
from beforehand.forecast.cutoff_guard import Knowledge
from beforehand.jobs.checks import checked, stakes
from beforehand.llm.names import LABEL, SCRIPTED
from beforehand.sandbox.engines import Engine
from beforehand.score.bets import Kelly

LIMITS = Group("Limits", sort_key=10)
MODELS = Group("Models", sort_key=20)
SCORING = Group("Scoring", sort_key=30)
BETS = Group("Bets", sort_key=40)

Seed = Annotated[int, Parameter(group=SCORING, help="Seed for resampling and the placebo.")]
Draws = Annotated[int, Parameter(group=SCORING, help="Bootstrap draws.")]
Margin = Annotated[
    float | None,
    Parameter(
        group=SCORING,
        help="A difference in Brier score that is stated beforehand to be none: within it, a "
        'forecaster "is the market" [what tables print as 0.0000].',
    ),
]
BinningRule = Annotated[
    Literal["snapped", "float_edges"],
    Parameter(
        help="How forecasts fall into bins: snapped (0.3 lies in [0.3, 0.4), 1.0 in the last), or "
        "float_edges (KalshiBench: edges are the floats 0.1 * i, 1.0 lies in none)."
    ),
]
AssumeUtc = Annotated[
    bool,
    Parameter(negative="", help="Take times without a zone as UTC, instead of refusing them."),
]
PlaceboDraws = Annotated[int, Parameter(group=SCORING, help="Placebo redraws; 0 leaves it out.")]
Fresh = Annotated[
    bool,
    Parameter(
        negative="",
        help="State that the forecasters were just restarted: they remember no earlier run.",
    ),
]
RunId = Annotated[str | None, Parameter(group=OUTPUT, help="Name of the run [the time].")]


@Parameter(name="*", group=BETS)
@dataclass
class BetFlags:
    """The bets behind a profit; the same for every command that scores."""

    spread: Annotated[
        float | None, Parameter(help="Spread to assume where no book was recorded, such as 0.02.")
    ] = None
    fee: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            help="Taker fee rate: 0.02, KALSHI=0.07 or POLYMARKET/crypto=0.072 [the venue's]. "
            "Repeat.",
        ),
    ] = None
    kelly: Annotated[float, Parameter(help="The part of Kelly's stake that is bet.")] = 0.25
    cap: Annotated[float, Parameter(help="The most of the wealth that one bet may stake.")] = 0.1
    settle: Annotated[
        Literal["known", "stated"],
        Parameter(
            help="When a bet pays: once it is known how the market ended, or on the venue's stated "
            "date, which may lie later."
        ),
    ] = "known"


@Parameter(name="*", group=LIMITS)
@dataclass
class LimitFlags:
    """How a run is carried out; the same for every command that asks forecasters."""

    concurrency: Annotated[
        int | None, Parameter(help="Steps and calls in flight at once [8 where calls are made].")
    ] = None
    rate: Annotated[str | None, Parameter(help="Most requests to each address: 10/s, 600/min.")] = (
        None
    )
    timeout: Annotated[float, Parameter(help="Seconds that one answer may take.")] = TIMEOUT_S
    max_calls: Annotated[int | None, Parameter(help="Stop before more paid calls than this.")] = (
        None
    )
    max_tokens: Annotated[int | None, Parameter(help="Stop before more tokens than this.")] = None
    max_cost: Annotated[float | None, Parameter(help="Stop before more US dollars than this.")] = (
        None
    )
    in_flight: Annotated[
        Literal["resend", "skip", "stop"],
        Parameter(help="For a call whose answer never came: send again, give up on it, or stop."),
    ] = "resend"
    cost_per_call: Annotated[
        float | None, Parameter(help="US dollars that a call is expected to cost.")
    ] = None


@Parameter(name="*", group=MODELS)
@dataclass
class ModelFlags:
    """How language models are used; the same for every command that takes them."""

    mode: Annotated[
        Literal["daytona_agent", "direct_llm", "hybrid"] | None,
        Parameter(
            help="For models: code with a direct fallback [the default], a direct prompt, or both."
        ),
    ] = None
    queries: Annotated[
        Literal["template", "llm_generated"],
        Parameter(help="Search with the question itself, or with words from a model."),
    ] = "template"
    aggregate: Annotated[Method, Parameter(help="How decisions are combined.")] = "mean"
    engine: Annotated[Engine, Parameter(help="Where models' code runs.")] = "auto"
    knowledge: Annotated[
        Knowledge,
        Parameter(help="Questions answered before a model's training ended: mark or refuse."),
    ] = "mark"
    cutoff: Annotated[
        list[str] | None,
        Parameter(
            negative="",
            help="MODEL=DATE (or NAME=DATE): the last day of a model's training. Repeat.",
        ),
    ] = None


def with_model(forecasters: str, given: ModelFlags | None) -> str:
    """The forecasters. If a mode for models is given and no model is named, `scripted` is added: it
    needs no key. A model that costs money is never chosen by default."""
    named = any(map(_is_model, forecasters.split(",")))
    if given is None or given.mode is None or named:
        return forecasters
    note(f"--mode {given.mode}: no model is named, so {SCRIPTED} is used ({LABEL})")
    return f"{forecasters},{SCRIPTED}"


def model_options(given: ModelFlags | None) -> ModelOptions:
    """The options of language models, checked."""
    given = given or ModelFlags()
    cutoffs: dict[str, date] = {}
    for text in given.cutoff or ():
        name, _, day = text.rpartition("=")
        try:
            cutoffs[name] = date.fromisoformat(day)
        except ValueError:
            raise InputError(f"--cutoff {text!r}: write it as MODEL=2025-01-31") from None
    return ModelOptions(
        mode=given.mode or ModelOptions().mode,
        query_mode=given.queries,
        method=given.aggregate,
        engine=given.engine,
        knowledge=given.knowledge,
        cutoffs=cutoffs,
    )


def bet_rules(given: BetFlags | None) -> Kelly:
    """The rules of the bets, checked."""
    given = given or BetFlags()
    return stakes(given.spread, given.fee, given.kelly, given.cap, "--", given.settle)


def run_limits(given: LimitFlags | None) -> RunLimits:
    """How a run is carried out, checked."""
    return checked(RunLimits(**vars(given or LimitFlags())), "--")


def _is_model(name: str) -> bool:
    found = class_of(name.strip())
    return found is not None and found.kind == "model"
