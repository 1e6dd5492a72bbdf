"""The report: one HTML file that needs nothing from outside, not even a script."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from beforehand.score import charts

PICTURED = 8


@cache
def _template() -> Any:
    from jinja2 import Environment

    source = files("beforehand.score").joinpath("report.html.j2").read_text("utf-8")
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["show"] = charts.show
    environment.filters["value"] = card_value
    return environment.from_string(source)


def html(summary: dict[str, Any], intervals: Sequence[dict[str, Any]] = ()) -> str:
    """The page for a scored run; `intervals` are the rows of one market, to be drawn."""
    from markupsafe import Markup

    board = summary["leaderboard"]
    axis = charts.skill_axis(board)
    drawn = [row["forecaster"] for row in board if row["forecaster"] != "market"][: len(charts.INK)]
    return str(
        _template().render(
            **summary,
            headline=headline(summary),
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
        )
    )


def headline(summary: dict[str, Any]) -> str:
    """The verdict in one sentence."""
    subjects = summary.get("subjects")
    others = [
        row
        for row in summary["leaderboard"]
        if row["forecaster"] != "market" and (subjects is None or row["forecaster"] in subjects)
    ]
    card = summary["validity"]
    size = f"{card['n_questions']['value']:,} questions ({card['n_events']['value']:,} events)"
    winners = [row["forecaster"] for row in others if row["verdict"] == "beats the market"]
    if not others:
        return f"The market alone was scored, over {size}."
    if winners:
        verb = "beats" if len(winners) == 1 else "beat"
        return f"{_listed(winners)} {verb} the market over {size}."
    if len(others) == 1:
        verdict = {"not shown": "is not shown to beat the market", "is the market": "is the market"}
        said = verdict.get(others[0]["verdict"], "is worse than the market")
        return f"{others[0]['forecaster']} {said} over {size}."
    return f"None of {len(others)} forecasters is shown to beat the market over {size}."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def card_value(value: Any) -> str:
    """A field of the validity card for people."""
    if value is None:
        return "not applicable"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}".replace("-", "−") if isinstance(value, float) else str(value)
