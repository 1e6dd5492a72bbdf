"""Forecasts of a file, side by side with others in a backtest: `file:forecasts.csv`.

At each instant it says what the file said last by then; before its first forecast of a market it
has none. The file may be one of other benchmarks (`forecast/files/`). Where it holds several
forecasters, `#who=NAME` says which; `columns`, `timezone`, `percent` and `dates` are those of
`beforehand score`. A file does not prove when its forecasts were made.
"""

from bisect import bisect_right
from contextlib import suppress
from pathlib import Path

import numpy as np

from beforehand.clock import to_us
from beforehand.errors import InputError, NotFound
from beforehand.forecast.base import (
    Context,
    Decision,
    Floats,
    Forecaster,
    NoDecision,
    Opening,
    PanelForecaster,
    scheme,
)
from beforehand.forecast.files.forecast_file import Line, read_file, reading
from beforehand.forecast.mapping import flag, split_options
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.panel import Panel
from beforehand.store.files import file_digest

Said = dict[str, tuple[list[int], list[float]]]
"""By market: the instants (microseconds) in order, and what was said at each."""


@scheme("file", shown=("file:PATH",))
class FileForecaster(PanelForecaster):
    """The last forecast of a file that was made by t, as the file states its times."""

    isolation = "trusted (a file states its own times)"
    order = "not asked (its own dated forecasts)"

    def __init__(self, rest: str, name: str | None, path: Path, said: Said) -> None:
        super().__init__(rest, name)
        self._path, self._said = path, said
        self.code = file_digest(path)

    @classmethod
    def open(cls, rest: str, name: str | None, opening: Opening) -> Forecaster:
        """Raises InputError for a file that holds no forecast of a market in the archive."""
        plain, options = split_options(rest)
        path = (opening.folder or Path.cwd()) / plain.partition(":")[2]
        how = reading(
            options.get("columns"),
            options.get("timezone"),
            flag(options, "percent", rest),
            "#",
            options.get("dates"),
        )
        stated = read_file(path, how=how)
        names = sorted({line.forecaster for line in stated.lines})
        wanted = options.get("who", names[0] if len(names) == 1 else "")
        if wanted not in names:
            there = f"it holds {', '.join(names[:5])}: say which with #who=NAME"
            why = there if names else f"no forecast can be read: {stated.rejected.sentence}"
            raise InputError(f"{rest[:100]}: {why}")
        said = _by_market([one for one in stated.lines if one.forecaster == wanted], opening)
        if not said:
            raise InputError(
                f"{rest[:100]}: none of its markets is in the archive, such as "
                f"{stated.lines[0].id!r} (`beforehand score {path.name} --check` lists them)"
            )
        one = cls(rest, name, path, said)
        for why, rows in stated.rejected.reasons.items():
            for row in rows:
                if stated.rejected.stated[row].get("forecaster", wanted) == wanted:
                    one.note(f"row left out: {why}")
        known = sum(len(times) for times, _ in said.values())
        for _ in range(sum(one.forecaster == wanted for one in stated.lines) - known):
            one.note("row left out: no such market in the archive, or a second one of its instant")
        return one

    def forecast(self, panel: Panel) -> Floats:
        """What it said last by each row's instant, NaN before its first forecast."""
        found = np.full(len(panel), np.nan)
        for k, (market, t) in enumerate(zip(panel.market, panel.t.tolist(), strict=True)):
            times, values = self._said.get(market, ([], []))
            if last := bisect_right(times, t):
                found[k] = values[last - 1]
        return found

    def decision(self, p: float, context: Context) -> Decision:
        """The forecast; NoDecision where the file has none by t."""
        if p != p:
            raise NoDecision("the file has no forecast by t")
        says = f"The last forecast that {self._path.name} had by t."
        return Decision(p, rationale=says, mode="baseline")


def _by_market(lines: list[Line], opening: Opening) -> Said:
    if opening.world is None:
        raise InputError("a file of forecasts is read in a run, which has a world")
    view = Gateway(opening.world, opening.workspace.clock).full_view()
    found = dict[str, dict[int, float]]()
    for line in lines:
        with suppress(NotFound, InputError):
            found.setdefault(view.resolve_id(line.id), {})[to_us(line.t)] = line.probability
    return {name: (sorted(said), [said[t] for t in sorted(said)]) for name, said in found.items()}
