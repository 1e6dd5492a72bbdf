"""The baselines: no network, no keys. Each is one function of a Panel, row by row.

A row's answer depends on that row alone (a test checks this for every baseline), so forecasting one
market at t and walking a thousand of them give the same numbers.
"""

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from beforehand.errors import InputError
from beforehand.forecast.base import (
    NO_FORECAST,
    Context,
    Decision,
    Floats,
    Forecaster,
    NoDecision,
    Opening,
    PanelForecaster,
    expanded,
    open_forecaster,
    scheme,
    unknown,
)
from beforehand.gateway.panel import Panel
from beforehand.records.rows import BASELINE

EDGE = 1e-4


class Baseline(PanelForecaster):
    """A function of a Panel, by name. `needs_documents` leaves it out where the archive has none;
    it cites the documents it saw if `cites` is set. `why` says what its answer rests on [what it
    does in general]."""

    def __init__(
        self,
        known_as: str,
        says: str,
        function: Callable[[Panel], Floats],
        *,
        needs_documents: bool = False,
        cites: bool = False,
        why: Callable[[Context], str] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(f"{BASELINE}{known_as}", name)
        self.known_as, self.says, self.function = known_as, says, function
        self.needs_documents, self.cites, self.why = needs_documents, cites, why
        self.rationale = says if why is None else None

    def called(self, name: str | None) -> "Baseline":
        """The same baseline under another name."""
        if name is None:
            return self
        return Baseline(
            self.known_as,
            self.says,
            self.function,
            needs_documents=self.needs_documents,
            cites=self.cites,
            why=self.why,
            name=name,
        )

    def forecast(self, panel: Panel) -> Floats:
        """Probabilities of YES, one per row."""
        return self.function(panel)

    def decision(self, p: float, context: Context) -> Decision:
        """The probability, with what it saw as evidence if it cites."""
        if p != p:
            raise NoDecision(NO_FORECAST)
        cited = [s.id for s in context.search_snippets] if self.cites else ()
        says = self.says if self.why is None else self.why(context)
        return Decision(p, rationale=says, evidence_ids=cited, mode="baseline")


def logit(p: Floats) -> Floats:
    """Log odds, with p kept off 0 and 1 by `EDGE`."""
    q = np.clip(p, EDGE, 1 - EDGE)
    return np.asarray(np.log(q / (1 - q)))


def expit(x: Floats) -> Floats:
    """The inverse of `logit`."""
    return np.asarray(1 / (1 + np.exp(-x)))


def market(panel: Panel) -> Floats:
    """The market's price at t."""
    return panel.price


def base_rate(panel: Panel) -> Floats:
    """The share of YES among the venue's resolutions known at t, with a prior of one in two."""
    return panel.base_rate


def shrunk(panel: Panel) -> Floats:
    """The price moved a tenth of the way to 0.5."""
    return np.asarray(0.5 + 0.9 * (panel.price - 0.5))


def _week_move(panel: Panel) -> Floats:
    past = np.where(np.isnan(panel.week_ago), panel.price, panel.week_ago)
    return logit(panel.price) - logit(past)


def drift(panel: Panel) -> Floats:
    """The price, carried on by a quarter of last week's move in log odds."""
    return expit(logit(panel.price) + 0.25 * _week_move(panel))


def reversion(panel: Panel) -> Floats:
    """The price, taken back by a quarter of last week's move in log odds."""
    return expit(logit(panel.price) - 0.25 * _week_move(panel))


_UP = frozenset(
    "wins won win beats beat surges surge rises rise gains gain confirmed confirms approves "
    "approved passes passed advances advance announces announced launches launched signs "
    "signed leads lead record deal agree agrees victory".split()
)
_DOWN = frozenset(
    "loses lost lose misses miss falls fall drops drop slumps slump rejects rejected denies "
    "denied delays delayed fails failed cancels cancelled canceled postponed setback suspends "
    "suspended blocks blocked collapse collapses out".split()
)


def telling(titles: Iterable[str]) -> tuple[list[str], list[str]]:
    """The words of headlines that speak for YES, and those that speak against it."""
    words = [w for title in titles for w in title.lower().replace(",", " ").split()]
    return [w for w in words if w in _UP], [w for w in words if w in _DOWN]


def _tilted_by(context: Context) -> str:
    """Which words news_tilt counted."""
    up, down = telling(s.text.partition("\n")[0] for s in context.search_snippets)
    if not up and not down:
        return "The price as it is: no word of the headlines counts for or against it."
    counted = "; ".join(
        f"{side}: {', '.join(words)}" for side, words in (("for", up), ("against", down)) if words
    )
    if len(up) == len(down):
        return f"The price as it is: the words of the headlines cancel out ({counted})."
    way = "up" if len(up) > len(down) else "down"
    return f"The price, tilted {way} by the words of the headlines ({counted})."


def news_tilt(panel: Panel) -> Floats:
    """The price, tilted in log odds by the words of the documents found for the question."""
    tilt = np.zeros(len(panel))
    for i, documents in enumerate(panel.documents):
        up, down = telling(d.title for d in documents)
        tilt[i] = len(up) - len(down)
    return expit(logit(panel.price) + 0.3 * np.tanh(tilt / 2))


def extremised(panel: Panel) -> Floats:
    """Price and base rate averaged in log odds (4 to 1), pushed out by 1.3 (Baron et al. 2014)."""
    return expit(1.3 * (0.8 * logit(panel.price) + 0.2 * logit(panel.base_rate)))


def always(p: float) -> Baseline:
    """The forecaster that says p whatever it sees."""
    return Baseline(f"always:{p}", f"Always {p}.", partial(_the_same, p))


def _the_same(p: float, panel: Panel) -> Floats:
    return np.full(len(panel), p)


BASELINES: dict[str, Baseline] = {
    b.known_as: b
    for b in (
        Baseline("market", "The market's price at t: skill exactly 0.", market),
        always(0.5),
        Baseline("base_rate", "The venue's share of YES so far.", base_rate),
        Baseline("shrunk", "The price, a tenth nearer to 0.5.", shrunk),
        Baseline("drift", "The price, carried on by last week's move.", drift),
        Baseline("reversion", "The price, taken back by last week's move.", reversion),
        Baseline(
            "news_tilt",
            "The price, tilted by the words of the news.",
            news_tilt,
            needs_documents=True,
            cites=True,
            why=_tilted_by,
        ),
        Baseline("extremised", "Price and base rate blended, made bolder.", extremised),
    )
}


@scheme(*BASELINES, "always", BASELINE.removesuffix(":"), shown=[*BASELINES, "always:P"])
class Baselines:
    """A baseline by its name, `always:P`, or either after `baseline:`."""

    kind, program = "baseline", False
    usage = Forecaster.usage

    @classmethod
    def open(cls, rest: str, name: str | None, opening: Opening) -> Forecaster:
        """The baseline of that name. Raises InputError."""
        if rest.startswith(BASELINE):
            bare = rest.removeprefix(BASELINE)
            return open_forecaster(bare if name is None else f"{name}={bare}", opening)
        found = BASELINES.get(rest)
        if found is None and rest.partition(":")[0] == "always":
            found = always(_probability(rest))
        if found is None:
            raise unknown(rest, opening)
        if found.needs_documents and not opening.documents:
            raise InputError(f"{rest} needs documents, and this archive has none")
        return found.called(name)


@expanded("all")
def every_baseline(opening: Opening) -> list[Forecaster]:
    """Every baseline that can run (news tilt only with documents), and every recorded predictor."""
    found: list[Forecaster] = [
        b for b in BASELINES.values() if opening.documents or not b.needs_documents
    ]
    return found + [open_forecaster(f"recorded:{p}", opening) for p in opening.predictors]


def _probability(text: str) -> float:
    try:
        p = float(text.partition(":")[2])
    except ValueError:
        p = -1.0
    if not 0.0 <= p <= 1.0:
        raise InputError(f"{text!r}: always takes a probability in [0, 1], as in always:0.3")
    return p
