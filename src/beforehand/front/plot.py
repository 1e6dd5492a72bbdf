"""Pictures of a run, as in its report: SVG that a notebook shows and a file keeps."""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Literal

from beforehand.errors import InputError, NotFound
from beforehand.records.rows import IntervalRow, label
from beforehand.score.report.pictures import (
    INK,
    gain_course,
    market_line,
    png,
    reliability,
    style,
    wealth_lines,
)
from beforehand.score.summary import BoardRow
from beforehand.store.files import write_atomic

What = Literal["calibration", "gain", "wealth", "market"]
MOST = len(INK)


class Plot:
    """A picture: a notebook shows it, `save` writes it. `svg` is its source."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def save(self, path: str | Path) -> Path:
        """Write it as SVG or PNG, as the path ends; returns the path. Raises InputError for another
        ending, NotConfigured where PNG needs the extra `paper`."""
        path = Path(path)
        if path.suffix not in (".svg", ".png"):
            raise InputError(f"{path} ends in {path.suffix or 'nothing'}: write .svg or .png")
        write_atomic(path, png(self.svg) if path.suffix == ".png" else self.svg.encode())
        return path

    def _repr_html_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Plot({len(self.svg):,} bytes of SVG: a notebook shows it, .save(path) writes it)"


def calibration(board: Sequence[BoardRow], name: str | None) -> Plot:
    """Mean forecast against mean outcome in each bin, one diagram per forecaster."""
    rows = [row for row in board if name in (None, row["forecaster"])]
    if not rows:
        known = ", ".join(row["forecaster"] for row in board)
        raise InputError(f"the run has no forecaster {name!r}: it has {known}")
    return _side_by_side([(row["forecaster"], reliability(row)) for row in rows[:MOST]])


def gain(board: Sequence[BoardRow], name: str | None) -> Plot:
    """What a forecaster's positions gained on the market over time, beside what chance alone does;
    of the first of the table, if none is named. Raises NotFound where it took none."""
    taken = [row for row in board if row.get("evidence") and row["evidence"]["course"]]
    found = next((row for row in taken if name in (None, row["forecaster"])), None)
    if found is None:
        known = ", ".join(row["forecaster"] for row in taken) or "nobody"
        raise NotFound(f"there is no gain of {name or 'anyone'} to draw: there is of {known}")
    return Plot(style(gain_course(found["forecaster"], found["evidence"])))


def wealth(board: Sequence[BoardRow], name: str | None) -> Plot:
    """What Kelly bets on the forecasts made of 1, through time. Raises NotFound without bets."""
    paths = {
        row["forecaster"]: [(point["time"], point["wealth"]) for point in kelly["path"]]
        for row in board
        if name in (None, row["forecaster"])
        and not isinstance(kelly := row["kelly"], str)
        and kelly["bets"]
    }
    dated = {
        one: [(at, value) for at, value in path if at is not None] for one, path in paths.items()
    }
    drawn = {one: path for one, path in dated.items() if path}
    if not drawn:
        why = next((row["kelly"] for row in board if isinstance(row["kelly"], str)), "no bets")
        raise NotFound(f"there is no wealth to draw: {why}")
    return Plot(style(wealth_lines(dict(list(drawn.items())[:MOST]))))


def market(
    rows: Iterable[IntervalRow], market_id: str, name: str | None, outcome: float | None
) -> Plot:
    """One market through time: its price, the forecasts, the evidence, the ending."""
    mine = [row for row in rows if row.market_id == market_id]
    if not mine:
        raise NotFound(f"market {market_id!r} was not forecast in this run")
    spoke = dict.fromkeys(label(said.model_id) for row in mine for said in row.decisions)
    drawn = [one for one in spoke if one != "market" and name in (None, one)][:MOST]
    if name is not None and not drawn:
        raise InputError(f"{name!r} made no forecast of {market_id}: {', '.join(spoke)} did")
    legend = "".join(
        f'<tspan dx="12" style="fill:{color}">{escape(one)}</tspan>'
        for one, color in zip(drawn, INK, strict=False)
    )
    line = market_line(mine, drawn, outcome)
    named = f'<text x="42" y="12">{escape(market_id)}{legend}</text></svg>'
    return Plot(style(line.removesuffix("</svg>") + named))


def _side_by_side(drawn: Sequence[tuple[str, str]]) -> Plot:
    width, height = 230, 250
    parts = [
        f'<g transform="translate({k * width} 0)"><text x="26" y="14">{escape(name)}</text>'
        f'<g transform="translate(0 20)">{svg}</g></g>'
        for k, (name, svg) in enumerate(drawn)
    ]
    size = f'viewBox="0 0 {width * len(drawn)} {height}" width="{width * len(drawn)}"'
    return Plot(style(f'<svg {size} height="{height}" role="img">{"".join(parts)}</svg>'))
