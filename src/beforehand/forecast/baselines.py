"""The baselines: no network, no keys. Each is one function of a Panel, row by row.

A row's answer depends on that row alone (a test holds every baseline to it), so forecasting one
market at t and walking a thousand of them give the same numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from beforehand.errors import InputError
from beforehand.gateway.panel import Panel

Floats = npt.NDArray[np.float64]
EDGE = 1e-4
VERSION = "1.0"


@dataclass(frozen=True)
class Baseline:
    """A named forecaster. `needs_documents` leaves it out where the archive has none; it cites
    the documents it saw if `cites` is set."""

    name: str
    says: str
    forecast: Callable[[Panel], Floats]
    needs_documents: bool = False
    cites: bool = False
    version: str = VERSION


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


def news_tilt(panel: Panel) -> Floats:
    """The price, tilted in log odds by the words of the documents found for the question."""
    tilt = np.zeros(len(panel))
    for i, documents in enumerate(panel.documents):
        tokens = [w for d in documents for w in d.title.lower().replace(",", " ").split()]
        tilt[i] = sum(w in _UP for w in tokens) - sum(w in _DOWN for w in tokens)
    return expit(logit(panel.price) + 0.3 * np.tanh(tilt / 2))


def extremised(panel: Panel) -> Floats:
    """Price and base rate averaged in log odds (4 to 1), pushed out by 1.3 (Baron et al. 2014)."""
    return expit(1.3 * (0.8 * logit(panel.price) + 0.2 * logit(panel.base_rate)))


def always(p: float) -> Baseline:
    """The forecaster that says p whatever it sees."""
    return Baseline(f"always:{p}", f"Always {p}.", lambda panel: np.full(len(panel), p))


def recorded(source: str) -> Baseline:
    """Somebody else's stored forecasts, the last one known at t."""
    return Baseline(
        f"recorded:{source}",
        f"The last forecast that {source} had made by t.",
        lambda panel: panel.recorded[source],
    )


BASELINES: dict[str, Baseline] = {
    b.name: b
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
        ),
        Baseline("extremised", "Price and base rate blended, made bolder.", extremised),
    )
}


def choose(names: str, *, documents: bool, predictors: list[str]) -> list[Baseline]:
    """Forecasters for a comma-separated list: names, `always:P`, `recorded:NAME`, or `all`.

    `all` takes what can run: no news tilt without documents, and every recorded predictor.
    Raises InputError naming what is allowed.
    """
    chosen: dict[str, Baseline] = {}
    for raw in filter(None, (part.strip() for part in names.split(","))):
        name = raw.removeprefix("baseline:")
        if name == "all":
            found = [b for b in BASELINES.values() if documents or not b.needs_documents]
            found += [recorded(p) for p in predictors]
        else:
            found = [_one(name, documents, predictors)]
        chosen.update({b.name: b for b in found})
    if not chosen:
        raise InputError(f"no forecaster named: choose from all, {', '.join(BASELINES)}")
    return list(chosen.values())


def _one(name: str, documents: bool, predictors: list[str]) -> Baseline:
    if name in BASELINES:
        found = BASELINES[name]
        if found.needs_documents and not documents:
            raise InputError(f"{name} needs documents, and this archive has none")
        return found
    kind, _, argument = name.partition(":")
    if kind == "always":
        try:
            p = float(argument)
        except ValueError:
            p = -1.0
        if not 0.0 <= p <= 1.0:
            raise InputError(f"{name!r}: always takes a probability in [0, 1], as in always:0.3")
        return always(p)
    if kind == "recorded" and argument in predictors:
        return recorded(argument)
    allowed = [*BASELINES, "always:P", *(f"recorded:{p}" for p in predictors)]
    raise InputError(f"unknown forecaster {name!r}: choose from all, {', '.join(allowed)}")
