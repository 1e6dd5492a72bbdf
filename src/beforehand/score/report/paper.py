"""A scored run for a paper: the leaderboard as LaTeX or Markdown, a paragraph on methods with the
run's own figures, and a picture of every forecaster's skill with its interval."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import TYPE_CHECKING, Any, cast

from beforehand.score.report.pictures import TONES, cut_ends, drawing_style, for_print, gain_axis
from beforehand.score.report.words import (
    digits_of,
    gained,
    headline,
    kept_from_the_future,
    on_other_rows,
    show,
    unmet,
    verdict_text,
    warnings,
)

if TYPE_CHECKING:
    from beforehand.score.summary import BoardRow, Summary

Column = tuple[str, str, Callable[[Any], str]]
"""A column of a table: its heading, how it is aligned (l, c, r), and its cell of a row."""
HEADLINE = 100
"""The letters of a line of the picture's headline."""
PAIRED = (
    "Forecaster against forecaster, on the rows that both answered; two that never forecast at the "
    "same instant (n marked with +) are compared by their skills against the market, each at its "
    "own. Above 0, a is better. The intervals are of each pair alone; the verdicts are corrected "
    "for the number of pairs (Holm)."
)
_LATEX = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}"}
_LATEX |= {"[": "{[}", "*": "{*}", "|": r"\textbar{}", "<": r"\textless{}", ">": r"\textgreater{}"}
_LATEX |= {"\n": " ", "\r": " "}
_LATEX |= {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
_LATEX |= {
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "−": "$-$",
    "–": "--",
    "“": "``",
    "”": "''",
    "·": r"$\cdot$",
}


def latex(summary: "Summary") -> str:
    """A table for booktabs, its caption the headline; the bets; and the methods paragraph."""
    caption = f"{headline(summary)} Skill is the market's Brier score minus the forecaster's."
    lines = _tabular(_columns(summary), summary["leaderboard"], caption, "tab:beforehand")
    if summary["pairs"]:
        lines += ["", *_tabular(_PAIRS, summary["pairs"], PAIRED, "tab:beforehand-pairs")]
    if bettors := _bettors(summary):
        lines += ["", *_tabular(_bet_columns(), bettors, _terms(summary), "tab:beforehand-bets")]
    return "\n".join([*lines, "", _tex(methods(summary)), ""])


def _tabular(columns: Sequence[Column], rows: Sequence[Any], caption: str, name: str) -> list[str]:
    aligned = "".join(align for _, align, _ in columns)
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\begin{{tabular}}{{{aligned}}}",
        r"\toprule",
    ]
    lines += [" & ".join(_tex(head) for head, _, _ in columns) + r" \\", r"\midrule"]
    lines += [" & ".join(_tex(cell(row)) for _, _, cell in columns) + r" \\" for row in rows]
    lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{_tex(caption)}}}"]
    return [*lines, rf"\label{{{name}}}", r"\end{table}"]


def markdown(summary: "Summary") -> str:
    """The same as Markdown."""
    said = [f"**{_mark(headline(summary))}**", _pipes(_columns(summary), summary["leaderboard"])]
    if summary["pairs"]:
        said += [_pipes(_PAIRS, summary["pairs"]), PAIRED]
    if bettors := _bettors(summary):
        said += [_pipes(_bet_columns(), bettors), _mark(_terms(summary))]
    return "\n\n".join([*said, _mark(methods(summary))]) + "\n"


def _pipes(columns: Sequence[Column], rows: Sequence[Any]) -> str:
    lines = [[head for head, _, _ in columns]]
    lines.append([{"l": "---", "c": ":-:", "r": "--:"}[align] for _, align, _ in columns])
    lines += [[_mark(cell(row)) for _, _, cell in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _columns(summary: "Summary") -> list[Column]:
    """The leaderboard's columns; where some left rows out, of how many, and the market there."""
    gaps = any(row["missing"] for row in summary["leaderboard"])
    own = on_other_rows(summary["leaderboard"])
    found: list[Column] = [
        ("Forecaster", "l", lambda row: row["forecaster"]),
        ("Questions", "r", lambda row: f"{row['n_questions']:,}"),
        ("n", "r", lambda row: f"{row['n']:,}"),
    ]
    if gaps:
        found.append(("of", "r", lambda row: f"{row['n'] + row['missing']:,}"))
    found += [
        ("Brier ↓", "r", lambda row: show(row["brier"])),
        ("95 %", "c", lambda row: _span(row["brier_ci"])),
    ]
    if gaps or own:
        found.append(("Market, same rows", "r", lambda row: show(row["market_brier"])))
    return [
        *found,
        ("Skill ↑", "r", lambda row: show(row["skill_vs_market"])),
        ("95 %", "c", lambda row: _span(row["skill_ci"])),
        ("Gain ↑", "r", lambda row: show(gained(row)[0])),
        ("Corrected 95 %", "c", lambda row: _span(gained(row)[2])),
        ("Verdict", "l", verdict_text),
    ]


def _bettors(summary: "Summary") -> "list[BoardRow]":
    return [
        r for r in summary["leaderboard"] if isinstance(r["kelly"], dict) and r["kelly"]["bets"]
    ]


def _bet_columns() -> list[Column]:
    """What Kelly bets on the forecasts made."""

    def of(name: str, digits: int) -> "Callable[[BoardRow], str]":
        return lambda row: show(cast(Any, row["kelly"])[name], digits)

    def share(value: float | None) -> str:
        return "–" if value is None else f"{show(100 * value, 1)} %"

    return [
        ("Forecaster", "l", lambda row: row["forecaster"]),
        ("Bets", "r", lambda row: f"{cast(Any, row['kelly'])['bets']:,}"),
        ("No cash", "r", lambda row: f"{cast(Any, row['kelly'])['unfunded']:,}"),
        ("Staked", "r", of("staked", 2)),
        ("Fees", "r", of("fees", 3)),
        ("Wealth", "r", of("final_wealth", 3)),
        ("Gain over cost", "r", lambda row: share(cast(Any, row["kelly"])["roi"])),
        (
            "95 %",
            "c",
            lambda row: " to ".join(share(end) for end in cast(Any, row["kelly"])["roi_ci"]),
        ),
        ("Drawdown", "r", lambda row: share(cast(Any, row["kelly"])["max_drawdown"])),
        (
            "At prices",
            "r",
            lambda row: share(cast(Any, row["kelly"]).get("drawdown_at_prices")),
        ),
        ("By chance", "r", lambda row: share(cast(Any, row["kelly"]).get("by_chance"))),
        ("Best tried", "r", lambda row: share(cast(Any, row["kelly"]).get("best_by_chance"))),
    ]


_PAIRS: list[Column] = [
    ("a", "l", lambda pair: pair["a"]),
    ("b", "l", lambda pair: pair["b"]),
    ("Questions", "r", lambda pair: f"{pair['n_questions']:,}"),
    ("n", "r", lambda pair: f"{pair['n']:,}" + ("+" if "skills" in pair else "")),
    ("Difference", "r", lambda pair: show(pair["difference"])),
    ("Gain", "r", lambda pair: show(pair["gain"])),
    ("Corrected 95 %", "c", lambda pair: _span(pair["gain_bounds"])),
    ("Found with 80 %", "r", lambda pair: show(pair["minimum_detectable_effect"])),
    ("Verdict", "l", lambda pair: pair["verdict"]),
]


def _terms(summary: "Summary") -> str:
    """On what terms the bets were made."""
    kelly = cast(Any, _bettors(summary)[0]["kelly"])
    return (
        f"Kelly bets on the forecasts, from a wealth of 1: {kelly['fraction']:g} of Kelly's stake "
        f"behind spread and fee, at most {kelly['cap']:g} of the wealth a bet, one bet a question; "
        f"{kelly['note']}. Bets that found no cash were not made; the drawdown is at settlements, "
        "with open bets at what they cost; at prices, with open bets at the market's price. By "
        "chance: the most that the probability of so much wealth can be where the market's prices "
        "are right (1 over the wealth of the bets filled at the midnight after each: Ville 1939); "
        "best tried: a bound of it for the best of all ways to bet that were tried on such a set. "
        "What bets gained is no verdict."
    )


def methods(summary: "Summary") -> str:
    """How the figures came about, in sentences that a paper can take over."""
    card = {name: check["value"] for name, check in summary["validity"].items()}
    placebo = summary["placebo"]
    said = [
        f"We scored forecasts at {_count(card['n_forecasts'], 'instant')} of "
        f"{_count(card['n_questions'], 'question')} in {_count(card['n_events'], 'event')} "
        f"({summary['world_kind']}) with beforehand {summary['version']} ({summary['settings']}).",
        *(f"{text}." for text in _sampled(summary)),
        "Markets of one venue event, and questions that read alike and resolve together, count as "
        f"one event; the questions resolved in {_count(card['n_resolution_months'], 'month')}.",
        "The Brier score is taken per question over its instants, then over questions with equal "
        "weights. Skill is the market's Brier score minus the forecaster's at the same instants, "
        "with the latest price known then.",
        "Their intervals of 95 % resample events, and separately the months in which questions "
        "resolved; the wider one is reported.",
        "Verdicts rest on the gain: the profit, in Brier score, of the positions that forecasts "
        "take against the price, each weighed by what was known when it was taken, counted from "
        "the next midnight on (at once, if markets are forecast on their last day as on any "
        "other), and marked at every price on record; open questions count at their last price. "
        "Its interval is the widest that its variances over periods and over events give, that "
        "which the prices implied, and, where prices came late or not at all, those of "
        "late marks and of overlapping windows.",
        "A forecaster is said to beat the market if that interval, corrected for "
        f"{_count(card['variants_tried'], 'variant')} tried on this set, lies above 0 over all "
        "forecasts and again over those at a price at most seven days old, with at least 5 "
        "effective periods, at most half of the gain on open questions, and at least 95 % of what "
        "it was asked answered; it is worse if the interval lies below 0.",
        *_venues(summary),
        *_of_the_set(card, summary.get("training_ends", {})),
        *_yardsticks(summary),
    ]
    if placebo is not None:
        most = 1 - 0.05 ** (1 / placebo["draws"])
        bound = f" (so at most {100 * most:.1f} %, with 95 % confidence)"
        said.append(
            f"Where prices and endings were redrawn {placebo['draws']:,} times so that nobody can "
            "gain, with each forecaster saying beyond the price what it said here, a winner was "
            f"found in {100 * placebo['any_share']:.1f} % of the draws"
            f"{bound if placebo['any_share'] == 0 else ''}."
        )
    if lacking := unmet(summary):
        said.append(f"Bounds not met: {'; '.join(lacking)}.")
    if licences := summary.get("licences"):
        said.append(f"Licences of the data: {', '.join(licences)}.")
    leaks, rows = summary["leaks"], summary.get("rows")
    if kept := kept_from_the_future(summary["leaderboard"]):
        said.append(f"How each forecaster was kept from the future: {'; '.join(kept)}.")
    said += [f"Note: {text}." for text in warnings(summary)]
    if rows is None:
        said.append(
            f"Of {leaks['rechecked']:,} records shown and checked again, "
            f"{leaks['admitted_after_t']:,} were later than the forecast."
        )
    else:
        if card["share_after_training_cutoff"] is None:
            said.append("No end of training was stated for what made the forecasts.")
        said.append(_of_a_file(rows, summary.get("rejected", {}), summary.get("leave_out", {})))
    return " ".join(said)


def _sampled(summary: "Summary") -> Iterator[str]:
    """When questions were asked, and which."""
    for name in ("grid", "left_out"):
        if text := str(summary.get(name) or "").rstrip(". "):
            yield text


def _of_the_set(card: "Mapping[str, Any]", trained: "Mapping[str, str]") -> Iterator[str]:
    """What a referee asks of the set: its worth, the age of its prices, what a model may know."""
    if (effective := card["effective_n"]) is not None:
        said = f"The set is worth {effective:.0f} independent questions"
        if (least := card["minimum_detectable_effect"]) is not None:
            said += f", with which a gain of {least:.4f} is found with a power of 80 %"
        yield f"{said} (for the best-ranked forecaster)."
    if (stale := card["share_price_older_than_7_days"]) is not None:
        yield f"{100 * stale:.1f} % of the prices were more than seven days old."
    ends = ", ".join(f"{name}: {at[:10]}" for name, at in trained.items())
    if (after := card["share_after_training_cutoff"]) is not None:
        yield (
            f"{100 * after:.1f} % of the forecasts are of questions that resolved after the end of "
            f"training that was stated for the model{f' ({ends})' if ends else ''}."
        )
    if (made := card.get("share_made_after_training")) is not None:
        yield f"{100 * made:.1f} % of the forecasts were made after it."


def _venues(summary: "Summary") -> Iterator[str]:
    """Where the questions were traded."""
    if found := summary.get("venues"):
        told = [
            f"{one['venue']} ({one['n_questions']:,}{', play money' if one['play_money'] else ''})"
            for one in found
        ]
        yield f"Questions by venue: {', '.join(told)}."


def _yardsticks(summary: "Summary") -> Iterator[str]:
    """What the baselines in the table are."""
    told = [f"{name}: {says}" for name, says in summary.get("baselines", {}).items()]
    if told:
        yield f"Baselines: {'; '.join(told)}."


def _of_a_file(
    rows: Mapping[str, int], rejected: Mapping[str, Sequence[int]], on_request: Mapping[str, int]
) -> str:
    """What has to be said of forecasts that came in a file: which were left out, and that nobody
    saw them being made."""
    total = sum(rows.values())
    left = "; ".join(f"{len(lines):,}: {why}" for why, lines in rejected.items())
    asked = "; ".join(f"{n:,} on request, {rule}" for rule, n in on_request.items())
    left = "; ".join(part for part in (left, asked) if part)
    without = f" (left out: {left})" if left else ""
    return (
        f"The forecasts came in a file, of which {rows['scored']:,} of {total:,} rows were "
        f"scored{without}. Their times are as stated in it: that they were made then, and with "
        "what knowledge, was not checked."
    )


def picture(summary: "Summary") -> str:
    """The headline, and every forecaster's gain with its interval (thick) and its corrected bounds
    (thin), as SVG for print: its colours are fixed."""
    rows = [row for row in summary["leaderboard"] if row["forecaster"] != "market"]
    low, high = gain_axis(rows, summary.get("subjects", ()))
    said = wrap(headline(summary), HEADLINE)
    left, wide, line, top = 190, 740, 26, 40 + 18 * len(said)
    tall = top + line * len(rows) + 56

    def x(value: float) -> float:
        return left + (wide - left - 40) * (min(max(value, low), high) - low) / (high - low)

    parts = [
        f'<text x="12" y="{20 + 18 * i}" font-weight="600">{escape(text)}</text>'
        for i, text in enumerate(said)
    ]
    head = top - 12
    parts += [
        f'<text x="{left - 12}" y="{head}" text-anchor="end">gain on the market (Brier)</text>'
    ]
    parts.append(f'<text x="{x(0) - 8:.1f}" y="{head}" text-anchor="end">worse</text>')
    parts.append(f'<text x="{x(0) + 8:.1f}" y="{head}">better</text>')
    parts.append(
        f'<line class="zero" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="{top - 6}" y2="{tall - 50}"/>'
    )
    for tick in (low, 0.0, high):
        parts.append(
            f'<text x="{x(tick):.1f}" y="{tall - 34}" text-anchor="middle">{show(tick)}</text>'
        )
    tried = summary["validity"]["variants_tried"]["value"]
    legend = f"point: gain; thick: 95 % interval; thin: corrected for {_count(tried, 'variant')}"
    parts.append(f'<text x="12" y="{tall - 10}">{escape(legend)} tried on this set</text>')
    for i, row in enumerate(rows):
        parts += _drawn(row, top + line * i + 10, (left, wide - 40), (low, high), x)
    title = escape(headline(summary))
    return for_print(
        f'<svg xmlns="http://www.w3.org/2000/svg" class="beforehand" viewBox="0 0 {wide} {tall}" '
        f'width="{wide}" height="{tall}" role="img"><title>{title}</title>'
        f"<style>{drawing_style()}</style>{''.join(parts)}</svg>"
    )


def _drawn(
    row: "BoardRow",
    y: int,
    edges: tuple[int, int],
    axis: tuple[float, float],
    x: Callable[[float], float],
) -> Iterator[str]:
    """One forecaster's line of the picture, between these edges; an arrow where it leaves the
    axis."""
    (low, high), (middle, (a, b), bounds) = axis, gained(row)
    name = escape(row["forecaster"])
    yield f'<text x="{edges[0] - 12}" y="{y + 4}" text-anchor="end">{name}</text>'
    if a is None or b is None or middle is None:
        return
    tone = TONES.get(row["verdict"], "dim")
    if not low <= middle <= high:
        at, way = (edges[0], -1) if middle < low else (edges[1], 1)
        yield f'<path class="{tone}" d="M{at} {y}l{-7 * way} -5v10z"/>'
        side = "start" if way < 0 else "end"
        yield f'<text x="{at - 13 * way}" y="{y + 4}" text-anchor="{side}">{show(middle)}</text>'
        return
    for ends, width in (((a, b), 3), (tuple(bounds), 1)):
        first, last = ends
        if first is not None and last is not None:
            yield (
                f'<line class="{tone}" x1="{x(first):.1f}" x2="{x(last):.1f}" y1="{y}" y2="{y}" '
                f'stroke-width="{width}"/>'
            )
    yield cut_ends((a, b), axis, x, y, tone)
    yield f'<circle class="{tone}" cx="{x(middle):.1f}" cy="{y}" r="4.5"/>'


def _span(interval: Sequence[float | None]) -> str:
    low, high = interval
    digits = digits_of(interval)
    return "–" if low is None or high is None else f"[{show(low, digits)}, {show(high, digits)}]"


def _count(value: object, noun: str) -> str:
    if not isinstance(value, int):
        return f"an unknown number of {noun}s"
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def _tex(text: str) -> str:
    return "".join(_LATEX.get(mark, mark) for mark in text)


def _mark(text: str) -> str:
    """Text as Markdown that shows it: no link, no HTML, no table cell comes of it."""
    flat = re.sub(r"([\\|*_`\[\]])", r"\\\1", " ".join(text.split()))
    return flat.replace("<", "&lt;").replace(">", "&gt;")
