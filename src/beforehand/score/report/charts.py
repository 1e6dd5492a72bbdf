"""Small SVG pictures for the report, drawn in CSS variables so that they follow light and dark.

Hand-drawn rather than by a plotting library: the report is one file without scripts, and the
four pictures it needs are a few lines of SVG each.
"""

from collections.abc import Sequence
from datetime import datetime
from html import escape
from typing import Any

from beforehand.clock import from_us, parse_us
from beforehand.records.rows import IntervalRow, forecasts

INK = ("var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)", "var(--c5)", "var(--c6)")


def skill_axis(rows: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """A range that holds 0, every interval that reaches above it, and the typical ones below;
    what lies far below is cut rather than squeezing the rest."""
    known = [row["skill_ci"] for row in rows if None not in row["skill_ci"]]
    widths = sorted(max(abs(low), abs(high)) for low, high in known if (low, high) != (0.0, 0.0))
    above = [high for _, high in known if high > 0]
    reach = max([*above, *widths[: (len(widths) + 1) // 2]], default=0.0) * 1.1
    return (-reach, reach) if reach > 0 else (-0.01, 0.01)


def whisker(row: dict[str, Any], axis: tuple[float, float]) -> str:
    """Point and interval on a shared axis with a line at 0; an arrow where it leaves the axis."""
    width, height = 190, 22
    low, high = axis

    def x(value: float) -> float:
        return 6 + (width - 12) * (min(max(value, low), high) - low) / (high - low)

    (a, b), middle = row["skill_ci"], row["skill_vs_market"]
    parts = [f'<line class="zero" x1="{x(0):.1f}" x2="{x(0):.1f}" y1="1" y2="{height - 1}"/>']
    if a is not None and b is not None and middle is not None:
        tone = "good" if a > 0 else ("bad" if b < 0 else "dim")
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


def reliability(row: dict[str, Any]) -> str:
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


def market_line(
    intervals: Sequence[IntervalRow], names: Sequence[str], outcome: float | None
) -> str:
    """One market: its price as steps, the named forecasters, evidence ticks, the ending."""
    width, height, left, right, top, foot = 920, 300, 42, 16, 14, 44
    times = [from_us(row.context.t) for row in intervals]
    first = times[0]
    span = max((times[-1] - first).total_seconds(), 1.0) * (1.06 if outcome is not None else 1.0)

    def x(t: datetime) -> float:
        return left + (width - left - right) * (t - first).total_seconds() / span

    def y(p: float) -> float:
        return height - foot - (height - top - foot) * p

    parts = []
    for v in (0, 0.25, 0.5, 0.75, 1):
        parts.append(
            f'<line class="grid" x1="{left}" x2="{width - right}" y1="{y(v)}" y2="{y(v)}"/>'
        )
        parts.append(f'<text x="{left - 6}" y="{y(v) + 4}" text-anchor="end">{v:g}</text>')
    for i in range(5):
        t = times[0] + (times[-1] - times[0]) * (i / 4)
        anchor = ("start", "middle", "middle", "middle", "end")[i]
        parts.append(
            f'<text x="{x(t):.1f}" y="{height - 8}" text-anchor="{anchor}">{t:%Y-%m-%d}</text>'
        )
    seen: set[str] = set()
    for row, t in zip(intervals, times, strict=True):
        fresh = [s for s in row.context.search_snippets if s.id not in seen]
        seen.update(s.id for s in fresh)
        for s in fresh:
            known = max(from_us(parse_us(s.timestamp)), first)
            tip = escape(f"{s.timestamp[:16]} {s.text} (shown at {t:%Y-%m-%d})")
            parts.append(
                f'<line class="evidence" x1="{x(known):.1f}" x2="{x(known):.1f}" '
                f'y1="{height - foot + 4}" y2="{height - foot + 16}"><title>{tip}</title></line>'
            )
    spoken = [forecasts(row.decisions) for row in intervals]
    for color, name in zip(INK, names, strict=False):
        points = [
            (x(t), y(said[name])) for said, t in zip(spoken, times, strict=True) if name in said
        ]
        line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        parts.append(f'<polyline class="forecast" style="stroke:{color}" points="{line}"/>')
    odds = [
        (x(t), y(row.context.odds))
        for row, t in zip(intervals, times, strict=True)
        if row.context.odds is not None
    ]
    steps = "".join(
        f"M{a:.1f} {b:.1f}" if i == 0 else f"H{a:.1f}V{b:.1f}" for i, (a, b) in enumerate(odds)
    )
    parts.append(f'<path class="market" d="{steps}"/>')
    if outcome is not None:
        end = width - right - 4
        parts.append(
            f'<circle class="ending" cx="{end}" cy="{y(outcome):.1f}" r="6">'
            f"<title>settled at {outcome:g}</title></circle>"
        )
    return (
        f'<svg class="wide" viewBox="0 0 {width} {height}" role="img" '
        'aria-label="The market, the forecasts and the evidence through time">'
        f"{''.join(parts)}</svg>"
    )


def show(value: float | None, digits: int = 4) -> str:
    """A figure for people: fixed decimals, a true minus sign, a dash for none."""
    if value is None:
        return "–"
    text = f"{value:.{digits}f}"
    return (text[1:] if float(text) == 0 and text[0] == "-" else text).replace("-", "−")
