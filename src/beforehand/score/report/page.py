"""The report: one HTML file that needs nothing from outside, not even a script."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from beforehand.records.rows import IntervalRow, label
from beforehand.records.text import straight
from beforehand.score.report.pictures import (
    INK,
    gain_axis,
    gain_course,
    heavy_lines,
    market_line,
    reliability,
    source,
    wealth_line,
    whisker,
)
from beforehand.score.report.words import (
    TILES,
    audit_lines,
    bound_text,
    card_value,
    ends,
    headline,
    kept_from_the_future,
    on_other_rows,
    show,
    unmet,
    verdict_text,
    warnings,
)

if TYPE_CHECKING:
    from beforehand.score.summary import DecisionCounts, ModelCounts, Summary

PICTURED, MOST_SLICED, MOST_COURSES = 8, 5, 3


@cache
def _template() -> Any:
    from jinja2 import Environment

    environment = Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda shown: straight(shown) if type(shown) is str else shown,
    )
    environment.filters["show"] = show
    environment.filters["ends"] = ends
    environment.filters["value"] = card_value
    environment.filters["bound"] = bound_text
    environment.filters["verdict"] = verdict_text
    return environment.from_string(source())


def html(
    summary: "Summary",
    intervals: Sequence[IntervalRow] = (),
    names: Mapping[str, str] | None = None,
) -> str:
    """The page for a scored run; `intervals` are the rows of one market, to be drawn, `names` the
    questions by the ids of their markets."""
    from markupsafe import Markup

    board = summary["leaderboard"]
    axis = gain_axis(board)
    tested = [row["forecaster"] for row in board if row["forecaster"] != "market"]
    none = {row["kelly"] for row in board if isinstance(row["kelly"], str)}
    paid = [row["forecaster"] for row in board if not isinstance(row["kelly"], str)]
    spoke = {label(said.model_id) for row in intervals for said in row.decisions}
    drawn = [row["forecaster"] for row in board if row["forecaster"] != "market"]
    drawn = [name for name in drawn if name in spoke][: len(INK)]
    return str(
        _template().render(
            **summary,
            headline=headline(summary),
            other=on_other_rows(board),
            warnings=warnings(summary),
            unmet=unmet(summary),
            audited=list(audit_lines(summary["audit"])) if "audit" in summary else [],
            names={**(names or {})},
            sliced=tested[:MOST_SLICED],
            paid=[name for name in paid if name in tested][:MOST_SLICED],
            money=any(part["money"] for part in summary["slices"]),
            bettors=[
                (row, Markup(wealth_line(row["forecaster"], kelly)))
                for row in board
                if not isinstance(kelly := row["kelly"], str) and kelly["bets"]
            ],
            no_bets="; ".join(sorted(none)) or "no forecaster saw an edge behind the spread",
            kept=kept_from_the_future(board),
            asked=_asked(summary.get("decisions")),
            tiles=[
                (*TILES[name], name, summary["validity"][name])
                for name in TILES
                if name in summary["validity"]
                and (name != "short_markets" or summary["validity"][name]["value"])
            ],
            courses=[
                (name, Markup(gain_course(name, found)), heavy_lines(found))
                for row in board[1:]
                if (name := row["forecaster"]) in summary.get("subjects", tested)
                and (found := row.get("evidence")) is not None
                and found["course"]
            ][:MOST_COURSES],
            whiskers=[Markup(whisker(row, axis)) for row in board],
            axis=axis,
            added=board[0].get("added", {}),
            diagrams=[
                (row["forecaster"], row["ece"], row["murphy"], Markup(reliability(row)))
                for row in board[:PICTURED]
            ],
            line=Markup(market_line(intervals, drawn, summary["pictured"]["settled"]))
            if intervals
            else None,
            drawn=list(zip(drawn, INK, strict=False)),
            more=len(spoke - {"market"}) > len(drawn),
        )
    )


def _asked(decisions: "DecisionCounts | None") -> "list[tuple[str, ModelCounts]]":
    """How each language model decided; nothing for baselines and addresses."""
    return [
        (name, made)
        for name, made in (decisions["models"].items() if decisions else ())
        if made["code"] + made["fallback"] + made["direct"] or (made["failed"] and made["requests"])
    ]
