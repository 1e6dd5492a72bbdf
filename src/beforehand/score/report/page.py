"""The report: one HTML file that needs nothing from outside, not even a script."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from beforehand.records.rows import IntervalRow, label
from beforehand.score.report import charts

PICTURED, MOST_NAMED = 8, 8
TILES: dict[str, tuple[str, str]] = {
    "n_questions": ("questions", "markets scored, each with one vote"),
    "n_forecasts": ("forecasts", "instants at which they were forecast"),
    "short_markets": ("short markets", "too short for the grid: scored apart"),
    "n_events": ("events", "groups of questions that share their fate"),
    "n_resolution_months": ("resolution months", "the other way to group them"),
    "effective_n": ("effective n", "independent questions' worth, for the best-ranked"),
    "price_age_days_p50": ("price age, median", "days since the price was observed"),
    "price_age_days_p90": ("price age, 90 % below", "days since the price was observed"),
    "share_price_older_than_7_days": (
        "stale prices",
        "share of forecasts at a price over 7 days old",
    ),
    "share_strict_text": ("with stored text", "share whose wording was on record by then"),
    "share_after_training_cutoff": ("after training", "share resolved after the model's cutoff"),
    "evidence_documents": ("documents", "in the world"),
    "share_with_a_document": ("with a document", "share of forecasts that were shown one"),
    "variants_tried": ("variants tried", "on such a set, counted by the ledger"),
    "minimum_detectable_effect": ("detectable skill", "found with a power of 80 %, best-ranked"),
    "void_excluded": ("void", "markets left out"),
    "unresolved": ("unresolved", "markets left out"),
    "undated_forecasts": ("undated", "forecasts without a time of their own"),
    "admitted_after_t": ("shown after t", "records: must be none"),
}
"""The card's fields in reading order: a short name and what it means."""


@cache
def _template() -> Any:
    from jinja2 import Environment

    source = files("beforehand.score.report").joinpath("report.html.j2").read_text("utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["show"] = charts.show
    environment.filters["value"] = card_value
    return environment.from_string(source)


def html(summary: dict[str, Any], intervals: Sequence[IntervalRow] = ()) -> str:
    """The page for a scored run; `intervals` are the rows of one market, to be drawn."""
    from markupsafe import Markup

    board = summary["leaderboard"]
    axis = charts.skill_axis(board)
    spoke = {label(said.model_id) for row in intervals for said in row.decisions}
    drawn = [row["forecaster"] for row in board if row["forecaster"] != "market"]
    drawn = [name for name in drawn if name in spoke][: len(charts.INK)]
    return str(
        _template().render(
            **summary,
            headline=headline(summary),
            kept=kept_from_the_future(board),
            asked=_asked(summary.get("decisions")),
            tiles=[
                (*TILES[name], name, summary["validity"][name])
                for name in TILES
                if name != "short_markets" or summary["validity"][name]["value"]
            ],
            whiskers=[Markup(charts.whisker(row, axis)) for row in board],
            axis=axis,
            diagrams=[
                (row["forecaster"], row["ece"], row["murphy"], Markup(charts.reliability(row)))
                for row in board[:PICTURED]
            ],
            line=Markup(charts.market_line(intervals, drawn, summary["pictured"]["settled"]))
            if intervals
            else None,
            drawn=list(zip(drawn, charts.INK, strict=False)),
            more=len(spoke - {"market"}) > len(drawn),
        )
    )


def _asked(decisions: dict[str, Any] | None) -> list[tuple[str, dict[str, int]]]:
    """How each language model decided; nothing for baselines and addresses."""
    models = decisions["models"] if decisions else {}
    ways = ("code", "fallback", "direct")
    return [
        (name, made)
        for name, made in models.items()
        if any(made[way] for way in ways) or (made["failed"] and made["requests"])
    ]


def headline(summary: dict[str, Any]) -> str:
    """The verdict in one sentence."""
    subjects = summary.get("subjects")
    others = [
        row
        for row in summary["leaderboard"]
        if row["forecaster"] != "market"
        and row["verdict"] != "not ranked"
        and (subjects is None or row["forecaster"] in subjects)
    ]
    card = summary["validity"]
    size = (
        f"{_count(card['n_questions']['value'], 'question')} "
        f"({_count(card['n_events']['value'], 'event')})"
    )
    winners = [row["forecaster"] for row in others if row["verdict"] == "beats the market"]
    if not others:
        return f"The market alone was scored, over {size}."
    if winners:
        own = {(r["n_questions"], r["n_events"]) for r in others if r["forecaster"] in winners}
        if len(own) == 1:
            questions, events = own.pop()
            size = f"{_count(questions, 'question')} ({_count(events, 'event')})"
        verb = "beats" if len(winners) == 1 else "beat"
        return f"{_listed(winners)} {verb} the market over {size}."
    if len(others) == 1:
        verdict = {"not shown": "is not shown to beat the market", "is the market": "is the market"}
        said = verdict.get(others[0]["verdict"], "is worse than the market")
        return f"{others[0]['forecaster']} {said} over {size}."
    return f"None of {len(others)} forecasters is shown to beat the market over {size}."


def kept_from_the_future(
    board: Sequence[dict[str, Any]], named: Callable[[str], str] = str
) -> list[str]:
    """How each forecaster was kept from the future, those alike together."""
    alike: dict[str, list[str]] = {}
    for row in board:
        if row["forecaster"] != "market" and row.get("isolation"):
            how = f"{row['isolation']}, {row['order']}"
            alike.setdefault(how, []).append(named(row["forecaster"]))
    return [
        f"{', '.join(names[:MOST_NAMED])}{', …' if len(names) > MOST_NAMED else ''}: {how}"
        for how, names in alike.items()
    ]


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def card_value(value: Any, name: str = "") -> str:
    """A field of the validity card for people."""
    if value is None:
        return "not applicable"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if name.startswith("share_"):
        return f"{100 * value:.1f} %"
    return f"{value:.3g}".replace("-", "−") if isinstance(value, float) else str(value)
