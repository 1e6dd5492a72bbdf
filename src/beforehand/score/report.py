"""The report: one HTML file that needs nothing from outside, not even a script.

Its four pictures are SVG, drawn in CSS variables so that they follow light and dark. They are a few
lines each, so no plotting library is used.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from beforehand.clock import from_us, parse_us
from beforehand.records.rows import IntervalRow, forecasts, label

if TYPE_CHECKING:
    from beforehand.score.summary import BoardRow, DecisionCounts, ModelCounts, Summary

INK = ("var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)", "var(--c5)", "var(--c6)")
WIDE, TALL, LEFT, RIGHT, TOP, FOOT = 920, 300, 42, 16, 14, 44
"""The market's picture in pixels: its size and its margins."""
PICTURED, MOST_NAMED = 8, 8
TONES = {"beats the market": "good", "worse than the market": "bad"}
"""Colour is the verdict's, and never the sign's."""
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


def skill_axis(rows: "Sequence[BoardRow]") -> tuple[float, float]:
    """The axis: it holds 0, every interval that reaches above 0, and the typical ones below. What
    lies far below is cut off, so that the rest keeps its size."""
    intervals = [row["skill_ci"] for row in rows]
    known = [(low, high) for low, high in intervals if low is not None and high is not None]
    widths = sorted(max(abs(low), abs(high)) for low, high in known if (low, high) != (0.0, 0.0))
    above = [high for _, high in known if high > 0]
    reach = max([*above, *widths[: (len(widths) + 1) // 2]], default=0.0) * 1.1
    return (-reach, reach) if reach > 0 else (-0.01, 0.01)


def whisker(row: "BoardRow", axis: tuple[float, float]) -> str:
    """Point and interval on a shared axis with a line at 0; an arrow where it leaves the axis."""
    width, height = 190, 22
    low, high = axis

    def x(value: float) -> float:
        return 6 + (width - 12) * (min(max(value, low), high) - low) / (high - low)

    (a, b), middle = row["skill_ci"], row["skill_vs_market"]
    parts = [f'<line class="zero" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="1" y2="{height - 1}"/>']
    if a is not None and b is not None and middle is not None:
        tone = TONES.get(row["verdict"], "dim")
        parts.append(
            f'<line class="{tone}" x1="{x(a):.1f}" x2="{x(b):.1f}" y1="11" y2="11" '
            'stroke-width="3" stroke-linecap="round"/>'
        )
        if low <= middle <= high:
            parts.append(f'<circle class="{tone}" cx="{x(middle):.1f}" cy="11" r="4.5"/>')
        else:
            at, way = (6, -1) if middle < low else (width - 6, 1)
            parts.append(f'<path class="{tone}" d="M{at} 11l{-7 * way} -5v10z"/>')
    label = escape(f"{row['forecaster']}: skill {show(middle)} [{show(a)}, {show(b)}]")
    return (
        f'<svg class="whisker" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{label}"><title>{label}</title>{"".join(parts)}</svg>'
    )


def reliability(row: "BoardRow") -> str:
    """Mean forecast against mean outcome per bin; a dot's area is the bin's share of questions."""
    size, pad = 190, 26
    bins = row["reliability_bins"]
    total = sum(bins["weight"]) or 1.0

    def at(v: float) -> float:
        return pad + (size - pad - 8) * v

    def up(v: float) -> float:
        return size - pad - (size - pad - 8) * v

    parts = [
        f'<rect class="frame" x="{at(0)}" y="{up(1)}" width="{at(1) - at(0)}" '
        f'height="{up(0) - up(1)}"/>',
        f'<line class="diagonal" x1="{at(0)}" y1="{up(0)}" x2="{at(1)}" y2="{up(1)}"/>',
    ]
    points = [
        (f, o, w)
        for f, o, w in zip(bins["forecast"], bins["outcome"], bins["weight"], strict=True)
        if f is not None and o is not None and w > 0
    ]
    path = " ".join(f"{at(f):.1f},{up(o):.1f}" for f, o, _ in points)
    parts.append(f'<polyline class="curve" points="{path}"/>')
    for f, o, w in points:
        tip = f"forecast {f:.3f}, outcome {o:.3f}, {100 * w / total:.1f} % of questions"
        radius = 2 + 9 * (w / total) ** 0.5
        parts.append(
            f'<circle class="bin" cx="{at(f):.1f}" cy="{up(o):.1f}" r="{radius:.1f}">'
            f"<title>{tip}</title></circle>"
        )
    for v in (0, 0.5, 1):
        parts.append(f'<text x="{at(v):.0f}" y="{size - 10}" text-anchor="middle">{v:g}</text>')
        parts.append(f'<text x="{pad - 5}" y="{up(v) + 3:.0f}" text-anchor="end">{v:g}</text>')
    label = escape(f"Reliability of {row['forecaster']}, ECE {show(row['ece'])}")
    return (
        f'<svg viewBox="0 0 {size} {size}" width="{size}" height="{size}" role="img" '
        f'aria-label="{label}"><title>{label}</title>{"".join(parts)}</svg>'
    )


@dataclass(frozen=True)
class _Axes:
    """Times from `first` on over `span` seconds, and probabilities upwards."""

    first: datetime
    span: float

    def x(self, t: datetime) -> float:
        return LEFT + (WIDE - LEFT - RIGHT) * (t - self.first).total_seconds() / self.span

    def y(self, p: float) -> float:
        return TALL - FOOT - (TALL - TOP - FOOT) * p

    def lines(self, last: datetime) -> Iterator[str]:
        """Lines at probabilities, and days below."""
        for v in (0, 0.25, 0.5, 0.75, 1):
            yield (
                f'<line class="grid" x1="{LEFT}" x2="{WIDE - RIGHT}" y1="{self.y(v)}" '
                f'y2="{self.y(v)}"/>'
            )
            yield f'<text x="{LEFT - 6}" y="{self.y(v) + 4}" text-anchor="end">{v:g}</text>'
        for i in range(5):
            t = self.first + (last - self.first) * (i / 4)
            anchor = ("start", "middle", "middle", "middle", "end")[i]
            yield (
                f'<text x="{self.x(t):.1f}" y="{TALL - 8}" text-anchor="{anchor}">'
                f"{t:%Y-%m-%d}</text>"
            )


def market_line(
    intervals: Sequence[IntervalRow], names: Sequence[str], outcome: float | None
) -> str:
    """One market: its price as steps, the named forecasters, evidence ticks, the ending."""
    times = [from_us(row.context.t) for row in intervals]
    span = max((times[-1] - times[0]).total_seconds(), 1.0) * (1.06 if outcome is not None else 1.0)
    axes = _Axes(times[0], span)
    parts = [*axes.lines(times[-1]), *_evidence(axes, intervals, times)]
    spoken = [forecasts(row.decisions) for row in intervals]
    for color, name in zip(INK, names, strict=False):
        points = [
            (axes.x(t), axes.y(said[name]))
            for said, t in zip(spoken, times, strict=True)
            if name in said
        ]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline class="forecast" style="stroke:{color}" points="{line}"/>')
    odds = [
        (axes.x(t), axes.y(row.context.odds))
        for row, t in zip(intervals, times, strict=True)
        if row.context.odds is not None
    ]
    steps = "".join(
        f"M{a:.1f} {b:.1f}" if i == 0 else f"H{a:.1f}V{b:.1f}" for i, (a, b) in enumerate(odds)
    )
    parts.append(f'<path class="market" d="{steps}"/>')
    if outcome is not None:
        end = WIDE - RIGHT - 4
        parts.append(
            f'<circle class="ending" cx="{end}" cy="{axes.y(outcome):.1f}" r="6">'
            f"<title>settled at {outcome:g}</title></circle>"
        )
    return (
        f'<svg class="wide" viewBox="0 0 {WIDE} {TALL}" role="img" '
        'aria-label="The market, the forecasts and the evidence through time">'
        f"{''.join(parts)}</svg>"
    )


def _evidence(
    axes: _Axes, intervals: Sequence[IntervalRow], times: Sequence[datetime]
) -> Iterator[str]:
    """A tick for each document, where it became known."""
    seen: set[str] = set()
    for row, t in zip(intervals, times, strict=True):
        fresh = [s for s in row.context.search_snippets if s.id not in seen]
        seen.update(s.id for s in fresh)
        for s in fresh:
            at = axes.x(max(from_us(parse_us(s.timestamp)), axes.first))
            tip = escape(f"{s.timestamp[:16]} {s.text} (shown at {t:%Y-%m-%d})")
            yield (
                f'<line class="evidence" x1="{at:.1f}" x2="{at:.1f}" y1="{TALL - FOOT + 4}" '
                f'y2="{TALL - FOOT + 16}"><title>{tip}</title></line>'
            )


def show(value: float | None, digits: int = 4) -> str:
    """A figure for people: fixed decimals, a true minus sign, a dash for none."""
    if value is None:
        return "–"
    text = f"{value:.{digits}f}"
    return (text[1:] if float(text) == 0 and text[0] == "-" else text).replace("-", "−")


@cache
def _source() -> str:
    return files("beforehand.score").joinpath("report.html.j2").read_text("utf-8")


@cache
def _drawing_style() -> str:
    """The report's rules for pictures, for pictures only."""
    rules = re.findall(r":root \{.*?\}|@media.*?\} \}|svg[ .][^{}]*\{[^}]*\}", _source(), re.DOTALL)
    text = "".join(rules).replace(":root", "svg")
    return re.sub(r"\bsvg(?=[ .{])", "svg.beforehand", text)


def style(svg: str) -> str:
    """A picture that stands alone: with its colours, which touch no other picture of a page."""
    tag, rest = svg.split(">", 1)
    tag = tag.replace('class="', 'class="beforehand ')
    if "class=" not in tag:
        tag += ' class="beforehand"'
    return f'{tag} xmlns="http://www.w3.org/2000/svg"><style>{_drawing_style()}</style>{rest}'


@cache
def _template() -> Any:
    from jinja2 import Environment

    source = _source()
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["show"] = show
    environment.filters["value"] = card_value
    return environment.from_string(source)


def html(summary: "Summary", intervals: Sequence[IntervalRow] = ()) -> str:
    """The page for a scored run; `intervals` are the rows of one market, to be drawn."""
    from markupsafe import Markup

    board = summary["leaderboard"]
    axis = skill_axis(board)
    spoke = {label(said.model_id) for row in intervals for said in row.decisions}
    drawn = [row["forecaster"] for row in board if row["forecaster"] != "market"]
    drawn = [name for name in drawn if name in spoke][: len(INK)]
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


def headline(summary: "Summary") -> str:
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
    named = winners or [row["forecaster"] for row in others]
    own = {(r["n_questions"], r["n_events"]) for r in others if r["forecaster"] in named}
    if len(own) == 1:
        questions, events = own.pop()
        size = f"{_count(questions, 'question')} ({_count(events, 'event')})"
    if not others:
        return f"The market alone was scored, over {size}.{_silent(summary)}"
    if winners:
        verb = "beats" if len(winners) == 1 else "beat"
        return f"{_listed(winners)} {verb} the market over {size}."
    if len(others) == 1:
        verdict = {"not shown": "is not shown to beat the market", "is the market": "is the market"}
        said = verdict.get(others[0]["verdict"], "is worse than the market")
        return f"{others[0]['forecaster']} {said} over {size}."
    return f"None of {len(others)} forecasters is shown to beat the market over {size}."


def _silent(summary: "Summary") -> str:
    """Who was asked and never answered."""
    names = never_answered(summary)
    return f" No answer of {_listed(names)} came about." if names else ""


def never_answered(summary: "Summary") -> list[str]:
    """The forecasters that were asked and failed each time."""
    decisions = summary.get("decisions")
    models = decisions["models"] if decisions else {}
    return [label(name) for name, made in models.items() if made["failed"] and not made["made"]]


def kept_from_the_future(
    board: "Sequence[BoardRow]", named: Callable[[str], str] = str
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


def _count(n: object, noun: str) -> str:
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
