"""The report's pictures, as SVG drawn in CSS variables so that they follow light and dark. They are
a few lines each, so no plotting library is used."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from html import escape
from importlib.resources import files
from math import log
from typing import TYPE_CHECKING

from beforehand.clock import from_us, parse_us
from beforehand.errors import NotConfigured
from beforehand.records.rows import IntervalRow, forecasts
from beforehand.score.metrics import wilson
from beforehand.score.report.words import gained, show

if TYPE_CHECKING:
    from beforehand.score.summary import BoardRow, EvidenceWire, ProfitWire

INK = ("var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)", "var(--c5)", "var(--c6)")
WIDE, TALL, LEFT, RIGHT, TOP, FOOT = 920, 300, 42, 16, 14, 44
"""The market's picture in pixels: its size and its margins."""
LEAST = 1e-6
FONTS = ("Inter", "DejaVu Sans", "Liberation Sans", "Noto Sans", "Helvetica", "Arial", "Verdana")
TONES = {"beats the market": "good", "worse than the market": "bad"}
"""Colour is the verdict's, and never the sign's."""


def gain_axis(rows: "Sequence[BoardRow]", whole: Sequence[str] = ()) -> tuple[float, float]:
    """The axis: it holds 0, every interval that reaches above 0, the typical ones below, and those
    of the forecasters that are to be seen `whole`. What else lies far below is cut off, so that the
    rest keeps its size."""
    seen = [gained(row)[1] for row in rows if row["forecaster"] in whole]
    ends = [abs(end) for interval in seen for end in interval if end is not None]
    intervals = [gained(row)[1] for row in rows]
    known = [(low, high) for low, high in intervals if low is not None and high is not None]
    widths = sorted(max(abs(low), abs(high)) for low, high in known if (low, high) != (0.0, 0.0))
    above = [high for _, high in known if high > 0]
    reach = max([*above, *ends, *widths[: (len(widths) + 1) // 2]], default=0.0) * 1.1
    return (-reach, reach) if reach > 0 else (-0.01, 0.01)


def whisker(row: "BoardRow", axis: tuple[float, float]) -> str:
    """Point and interval on a shared axis with a line at 0; an arrow where it leaves the axis."""
    width, height = 100, 22
    low, high = axis

    def x(value: float) -> float:
        return 6 + (width - 12) * (min(max(value, low), high) - low) / (high - low)

    middle, (a, b), _ = gained(row)
    parts = [f'<line class="zero" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="1" y2="{height - 1}"/>']
    if a is not None and b is not None and middle is not None:
        tone = TONES.get(row["verdict"], "dim")
        parts.append(
            f'<line class="{tone}" x1="{x(a):.1f}" x2="{x(b):.1f}" y1="11" y2="11" '
            'stroke-width="3" stroke-linecap="round"/>'
        )
        if low <= middle <= high:
            parts.append(cut_ends((a, b), axis, x, 11, tone))
        if low <= middle <= high:
            parts.append(f'<circle class="{tone}" cx="{x(middle):.1f}" cy="11" r="4.5"/>')
        else:
            at, way = (6, -1) if middle < low else (width - 6, 1)
            parts.append(f'<path class="{tone}" d="M{at} 11l{-7 * way} -5v10z"/>')
    label = escape(f"{row['forecaster']}: gain {show(middle)} [{show(a)}, {show(b)}]")
    return (
        f'<svg class="whisker" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{label}"><title>{label}</title>{"".join(parts)}</svg>'
    )


def cut_ends(
    ends: tuple[float, float],
    axis: tuple[float, float],
    at: Callable[[float], float],
    y: float,
    tone: str,
) -> str:
    """A mark at each end of an interval that goes on beyond the axis."""
    (a, b), (low, high) = ends, axis
    marks = [(low, -1)] * (a < low) + [(high, 1)] * (b > high)
    return "".join(
        f'<path class="{tone} open" d="M{at(edge) - 3 * way:.1f} {y - 5}'
        f'l{5 * way} 5l{-5 * way} 5"/>'
        for edge, way in marks
    )


def png(svg: str) -> bytes:
    """A picture as PNG, three times its size. Raises NotConfigured without the extra, and where no
    font is found: a picture without its words is none."""
    try:
        import resvg_py
    except ImportError:
        raise NotConfigured(
            "png needs the extra: pip install 'beforehand[paper]'; svg works without"
        ) from None
    plain = for_print(svg)
    return bytes(
        resvg_py.svg_to_bytes(
            svg_string=plain, zoom=3, background="#ffffff", sans_serif_family=_font()
        )
    )


@cache
def _font() -> str:
    """The first font of FONTS that is on this machine and draws letters."""
    import resvg_py

    def drawn(letters: str, font: str) -> bytes:
        svg = (
            '<svg xmlns="http://www.w3.org/2000/svg" width="60" height="20">'
            f'<text x="2" y="15" font-family="sans-serif">{letters}</text></svg>'
        )
        return bytes(resvg_py.svg_to_bytes(svg_string=svg, sans_serif_family=font))

    for font in FONTS:
        if drawn("Ag", font) != drawn("", font):
            return font
    raise NotConfigured(
        f"png needs a font for its words, and none of {', '.join(FONTS)} is installed: svg works "
        "without"
    )


def for_print(svg: str) -> str:
    """A picture in the colours of the light theme, which every program that reads SVG understands,
    in a plain sans-serif."""
    colours = dict(re.findall(r"--([\w-]+):\s*(#\w+)", drawing_style().split("@media")[0]))
    plain = re.sub(r"@media.*?\} \}|svg(\.beforehand)? \{ color-scheme.*?\}", "", svg, flags=re.S)
    plain = re.sub(r"var\(--([\w-]+)\)", lambda found: colours.get(found[1], "#000"), plain)
    plain = re.sub(r"system-ui[^;}]*", "sans-serif", plain)
    if "xmlns" not in plain:
        plain = plain.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return plain


def reliability(row: "BoardRow") -> str:
    """Mean forecast against mean outcome per bin; a dot's area is the bin's share of questions."""
    size, pad = 220, 40
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
        (f, o, w, n)
        for f, o, w, n in zip(
            bins["forecast"], bins["outcome"], bins["weight"], bins["worth"], strict=True
        )
        if f is not None and o is not None and w > 0
    ]
    path = " ".join(f"{at(f):.1f},{up(o):.1f}" for f, o, *_ in points)
    parts.append(f'<polyline class="curve" points="{path}"/>')
    for f, o, w, n in points:
        tip = f"forecast {f:.3f}, outcome {o:.3f}, {100 * w / total:.1f} % of questions"
        radius = 2 + 9 * (w / total) ** 0.5
        (a, b), count = wilson(o, n), f"worth {n:,.0f} independent ones"
        parts.append(
            f'<line class="bar" x1="{at(f):.1f}" x2="{at(f):.1f}" y1="{up(a):.1f}" '
            f'y2="{up(b):.1f}"/>'
        )
        tip = f"{tip} ({count}), 95 % from {a:.2f} to {b:.2f}"
        parts.append(
            f'<circle class="bin" cx="{at(f):.1f}" cy="{up(o):.1f}" r="{radius:.1f}">'
            f"<title>{tip}</title></circle>"
        )
    for v in (0, 0.5, 1):
        parts.append(f'<text x="{at(v):.0f}" y="{size - 24}" text-anchor="middle">{v:g}</text>')
        parts.append(f'<text x="{pad - 5}" y="{up(v) + 3:.0f}" text-anchor="end">{v:g}</text>')
    middle = at(0.5)
    parts.append(f'<text x="{middle:.0f}" y="{size - 7}" text-anchor="middle">said</text>')
    parts.append(
        f'<text transform="translate(11 {up(0.5):.0f}) rotate(-90)" text-anchor="middle">'
        "came true</text>"
    )
    label = escape(f"Reliability of {row['forecaster']}, ECE {show(row['ece'])}")
    return (
        f'<svg viewBox="0 0 {size} {size}" width="{size}" height="{size}" role="img" '
        f'aria-label="{label}"><title>{label}</title>{"".join(parts)}</svg>'
    )


def wealth_line(name: str, kelly: "ProfitWire") -> str:
    """The wealth after each settlement, on its own scale, with a line at the start and the ends of
    the scale beside it."""
    width, height, pad, left = 170, 44, 6, 40
    values = [kelly["start"], *(point["wealth"] for point in kelly["path"])]
    low, high = min(values), max(values)
    reach = (high - low) or 1.0

    def up(value: float) -> float:
        return height - pad - (height - 2 * pad) * (value - low) / reach

    step = (width - left - pad) / max(len(values) - 1, 1)
    points = " ".join(f"{left + i * step:.1f},{up(value):.1f}" for i, value in enumerate(values))
    label = escape(f"Wealth of {name}: from 1 to {show(kelly['final_wealth'], 3)}")
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{label}"><title>{label}, between {show(low, 3)} and {show(high, 3)}</title>'
        f'<text class="tick" x="{left - 4}" y="{up(high) + 4:.1f}" text-anchor="end">'
        f"{show(high, 2)}</text>"
        f'<text class="tick" x="{left - 4}" y="{up(low) + 4:.1f}" text-anchor="end">'
        f"{show(low, 2)}</text>"
        f'<line class="zero" x1="{left}" x2="{width}" y1="{up(1.0):.1f}" y2="{up(1.0):.1f}"/>'
        f'<polyline class="curve" points="{points}"/></svg>'
    )


def wealth_lines(paths: Mapping[str, Sequence[tuple[str, float]]]) -> str:
    """Wealth through time of several forecasters, from 1, on a scale of factors."""
    times = [parse_us(at) for path in paths.values() for at, _ in path]
    values = [max(value, LEAST) for path in paths.values() for _, value in path]
    first, reach = min(times), (max(times) - min(times)) or 1
    low, high = min(*values, 0.9), max(*values, 1.1)

    def x(at: int) -> float:
        return LEFT + 14 + (WIDE - LEFT - 14 - RIGHT) * (at - first) / reach

    def y(value: float) -> float:
        share = (log(max(value, LEAST)) - log(low)) / (log(high) - log(low))
        return TALL - FOOT - (TALL - TOP - FOOT) * share

    parts = [f'<text x="{LEFT + 14}" y="11">wealth, from 1 (scale of factors)</text>']
    for value in sorted({low, 1.0, high}):
        if value != 1.0 and abs(y(value) - y(1.0)) < 14:
            continue  # Two labels would lie on each other.
        kind = "zero" if value == 1.0 else "grid"
        parts.append(
            f'<line class="{kind}" x1="{LEFT + 14}" x2="{WIDE - RIGHT}" y1="{y(value):.1f}" '
            f'y2="{y(value):.1f}"/><text x="{LEFT + 8}" y="{y(value) + 4:.1f}" '
            f'text-anchor="end">{show(value, 2)}</text>'
        )
    for at, anchor in ((first, "start"), (first + reach, "end")):
        parts.append(
            f'<text x="{x(at):.1f}" y="{TALL - FOOT + 18}" text-anchor="{anchor}">'
            f"{from_us(at):%Y-%m-%d}</text>"
        )
    for k, (name, path) in enumerate(paths.items()):
        points = [f"{x(first):.1f},{y(1.0):.1f}"]
        for time, value in path:
            along = f"{x(parse_us(time)):.1f}"
            points += [f"{along},{points[-1].partition(',')[2]}", f"{along},{y(value):.1f}"]
        parts.append(
            f'<polyline class="forecast" style="stroke:{INK[k % len(INK)]}" '
            f'points="{" ".join(points)}"/><text x="{LEFT + 14 + 150 * k}" y="{TALL - 6}" '
            f'style="fill:{INK[k % len(INK)]}">{escape(name)} {show(path[-1][1], 2)}</text>'
        )
    label = escape(", ".join(f"{name} {show(path[-1][1], 2)}" for name, path in paths.items()))
    return (
        f'<svg viewBox="0 0 {WIDE} {TALL}" width="{WIDE}" height="{TALL}" role="img" '
        f'aria-label="Wealth: {label}">{"".join(parts)}</svg>'
    )


def gain_course(name: str, found: "EvidenceWire") -> str:
    """The gain over time of a forecaster's positions, the band in which it lies by chance where
    there is no skill, and the three periods that make most of the variance."""
    times = [parse_us(point["time"]) for point in found["course"]]
    gains = [point["gain"] or 0.0 for point in found["course"]]
    bands = [point["band"] or 0.0 for point in found["course"]]
    if not times:
        return ""
    first, reach = min(times), (max(times) - min(times)) or 1
    most = max(map(abs, [*gains, *bands])) * 1.08 or 0.01

    def x(at: int) -> float:
        return LEFT + 20 + (WIDE - LEFT - 20 - RIGHT) * (at - first) / reach

    def y(value: float) -> float:
        return TOP + 8 + (TALL - TOP - 8 - FOOT) * (most - value) / (2 * most)

    there = [f"{x(at):.1f},{y(band):.1f}" for at, band in zip(times, bands, strict=True)]
    back = [f"{x(at):.1f},{y(-band):.1f}" for at, band in zip(times, bands, strict=True)]
    line = " ".join(f"{x(at):.1f},{y(gain):.1f}" for at, gain in zip(times, gains, strict=True))
    parts = [
        f'<text x="{LEFT + 20}" y="11">gain of {escape(name)} so far; shaded: what chance alone '
        "does (95 %)</text>",
        f'<polygon class="chance" points="{" ".join(there + back[::-1])}"/>',
    ]
    for value in (-most / 1.08, 0.0, most / 1.08):
        kind = "grid" if value else "zero"
        parts.append(
            f'<line class="{kind}" x1="{LEFT + 20}" x2="{WIDE - RIGHT}" y1="{y(value):.1f}" '
            f'y2="{y(value):.1f}"/><text x="{LEFT + 14}" y="{y(value) + 4:.1f}" '
            f'text-anchor="end">{show(value)}</text>'
        )
    for i in range(5):
        at, anchor = first + reach * i // 4, ("start", "middle", "middle", "middle", "end")[i]
        parts.append(
            f'<text x="{x(at):.1f}" y="{TALL - FOOT + 18}" text-anchor="{anchor}">'
            f"{from_us(at):%Y-%m-%d}</text>"
        )
    for k, one in enumerate(found["heaviest"], 1):
        along = x(min(max(parse_us(one["time"]), first), first + reach))
        parts.append(
            f'<line class="heavy" x1="{along:.1f}" x2="{along:.1f}" y1="{TOP + 8}" '
            f'y2="{TALL - FOOT}"/><text x="{along + 3:.1f}" y="{TALL - FOOT - 4}">{k}</text>'
        )
    parts.append(f'<polyline class="course" points="{line}"/>')
    label = escape(f"Gain of {name} over time: {show(found['mean'])} at the end")
    return (
        f'<svg viewBox="0 0 {WIDE} {TALL}" width="{WIDE}" height="{TALL}" role="img" '
        f'aria-label="{label}"><title>{label}</title>{"".join(parts)}</svg>'
    )


def heavy_lines(found: "EvidenceWire") -> list[str]:
    """The three periods that make most of the variance, in words."""
    said = list[str]()
    for k, one in enumerate(found["heaviest"], 1):
        share = f"{100 * one['share']:.0f} % of the variance"
        moved = f", when {one['market']} moved by {one['move']:+.3f}" if one["market"] else ""
        said.append(f"{k}: {one['time'][:10]}, {share}{moved}")
    return said


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


@cache
def source() -> str:
    """The report's template, with its style."""
    return files("beforehand.score.report").joinpath("report.html.j2").read_text("utf-8")


@cache
def drawing_style() -> str:
    """The report's rules for pictures, for pictures only."""
    rules = re.findall(r":root \{.*?\}|@media.*?\} \}|svg[ .][^{}]*\{[^}]*\}", source(), re.DOTALL)
    text = "".join(rules).replace(":root", "svg")
    return re.sub(r"\bsvg(?=[ .{])", "svg.beforehand", text)


def style(svg: str) -> str:
    """A picture that stands alone: with its colours, which touch no other picture of a page."""
    tag, rest = svg.split(">", 1)
    tag = tag.replace('class="', 'class="beforehand ')
    if "class=" not in tag:
        tag += ' class="beforehand"'
    return f'{tag} xmlns="http://www.w3.org/2000/svg"><style>{drawing_style()}</style>{rest}'
