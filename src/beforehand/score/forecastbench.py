"""ForecastBench's leaderboard recipe, over a question set and its resolution set.

Rows whose (source, id) is in the question set are kept. The dataset score takes resolved
rows only, one per horizon; market resolved uses the outcome; market unresolved is the squared
distance to that day's market value; market overall pools both. Overall resolved and overall are
the means of the dataset score and the respective market score. Means are unweighted; rounding
to three decimals comes last. A missing forecast counts as 0.5.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from beforehand.errors import InputError

COLUMNS = (
    "dataset",
    "market_resolved",
    "market_unresolved",
    "market_overall",
    "overall_resolved",
    "overall",
)
DATASETS = frozenset({"acled", "dbnomics", "fred", "wikipedia", "yfinance"})
MARKETS = frozenset({"infer", "kalshi", "manifold", "metaculus", "polymarket"})
Kind = Literal["market", "dataset"]
MISSING = 0.5
MOST_MISSING = 0.05
"""ForecastBench ranks a forecaster that answered at least 95 % of what it was asked."""
UNKNOWN = "of the unknown source"
Key = tuple[str, tuple[str, ...]]
Forecast = Callable[[Mapping[str, Any]], float | None]


@dataclass
class Groups:
    """The scored rows of each column that has rows of its own, and what was left out."""

    dataset: list[Mapping[str, Any]] = field(default_factory=list)
    market_resolved: list[Mapping[str, Any]] = field(default_factory=list)
    market_unresolved: list[Mapping[str, Any]] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)

    def skip(self, why: str) -> None:
        """Count one row that is not scored."""
        self.left_out[why] = self.left_out.get(why, 0) + 1

    @property
    def n(self) -> dict[str, int]:
        """Questions per column. A dataset question counts once for each horizon; a market question
        counts once, although older sets hold a row of it for each horizon."""

        def count(rows: list[Mapping[str, Any]], dated: bool) -> int:
            return len({_full_key(row, row.get("resolution_date") if dated else 0) for row in rows})

        return {
            "dataset": count(self.dataset, dated=True),
            "market_resolved": count(self.market_resolved, dated=False),
            "market_unresolved": count(self.market_unresolved, dated=False),
        }

    @property
    def whole(self) -> bool:
        """Whether the figures are the leaderboard's: no row of a source that is not known to us was
        left out."""
        return not any(why.startswith(UNKNOWN) for why in self.left_out)

    @property
    def size(self) -> int:
        """All scored rows."""
        return len(self.dataset) + len(self.market_resolved) + len(self.market_unresolved)


def kind_of(question: Mapping[str, Any]) -> Kind | None:
    """Whether a question is of a market or of a dataset. A source that these sets did not have
    before is known by its dates: a dataset's questions list theirs, a market's have none. None
    where neither is said."""
    source, dates = question.get("source"), question.get("resolution_dates")
    if source in MARKETS or source in DATASETS:
        return "market" if source in MARKETS else "dataset"
    if isinstance(dates, list):
        return "dataset"
    return "market" if dates == "N/A" else None


def key_of(row: Mapping[str, Any]) -> Key:
    """(source, ids); a combination question has two ids, whose order does not matter."""
    identifier = row["id"]
    parts = [identifier] if isinstance(identifier, str) else sorted(str(i) for i in identifier)
    return str(row["source"]), tuple(parts)


def group(
    questions: Mapping[str, Any], resolutions: Mapping[str, Any], combinations: bool
) -> Groups:
    """Sort resolution rows into the columns. Raises InputError if either file is something else."""
    for what, body, other in (
        ("question", questions, "--resolutions"),
        ("resolution", resolutions, "--questions"),
    ):
        if not isinstance(body, Mapping) or not isinstance(body.get(f"{what}s"), list):
            swapped = isinstance(body, Mapping) and {"questions", "resolutions"} & body.keys()
            raise InputError(
                f"not a ForecastBench {what} set: it has no list `{what}s`"
                + (f" (it looks like the file for {other})" if swapped else "")
            )
    dates = [body.get("forecast_due_date") for body in (questions, resolutions)]
    if None not in dates and dates[0] != dates[1]:
        raise InputError(
            f"the question set is of {dates[0]} and the resolution set of {dates[1]}: take two of "
            "one forecast_due_date"
        )
    rows = list(resolutions["resolutions"])
    try:
        asked, number = dict[Key, Kind | None](), 0
        for question in questions["questions"]:
            number += 1
            asked[key_of(question)] = kind_of(question)
    except (KeyError, TypeError, AttributeError):
        raise InputError(
            f"question {number}: needs an id (text, or two of them) and a source"
        ) from None
    groups = Groups()
    for number, row in enumerate(rows, start=1):
        try:
            _place(row, asked, groups, combinations)
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            said = f" ({error})" if isinstance(error, ValueError) else ""
            raise InputError(
                f"resolution {number}: needs id, source, resolved, and resolved_to in [0, 1], and "
                f"a resolution_date that is text{said}"
            ) from None
    return groups


def _place(
    row: Mapping[str, Any], asked: Mapping[Key, Kind | None], groups: Groups, combinations: bool
) -> None:
    hash(_full_key(row, row.get("resolution_date")))  # Raises TypeError for what is no key.
    combined = not isinstance(row["id"], str)
    if combined and not combinations:
        groups.skip("combination questions")
    elif key_of(row) not in asked and not (combined and _formed(row, asked)):
        groups.skip("not in the question set")
    elif row["resolved_to"] is None:
        groups.skip("without a value")
    elif not 0.0 <= float(row["resolved_to"]) <= 1.0:
        raise ValueError("resolved_to lies outside [0, 1]")
    elif (kind := kind_of(row) or asked.get(key_of(row))) == "dataset":
        if row["resolved"]:
            groups.dataset.append(row)
        else:
            groups.skip("dataset rows not resolved")
    elif kind == "market":
        (groups.market_resolved if row["resolved"] else groups.market_unresolved).append(row)
    else:
        groups.skip(f"{UNKNOWN} {row['source']}")


def _formed(row: Mapping[str, Any], asked: Iterable[Key]) -> bool:
    """True for a combination whose parts are in the set, which does not list combinations."""
    listed = any(len(ids) > 1 for _, ids in asked)
    return not listed and all((str(row["source"]), (str(i),)) in asked for i in row["id"])


def scores(groups: Groups, forecast: Forecast) -> tuple[list[float | None], int]:
    """(the six columns rounded to 3 decimals, how many forecasts were missing)."""
    missing = 0

    def errors(rows: list[Mapping[str, Any]]) -> list[float]:
        nonlocal missing
        out = []
        for row in rows:
            p = forecast(row)
            if p is None:
                missing += 1
                p = MISSING
            out.append((p - float(row["resolved_to"])) ** 2)
        return out

    dataset, resolved, unresolved = (
        errors(rows) for rows in (groups.dataset, groups.market_resolved, groups.market_unresolved)
    )
    means = [_mean(dataset), _mean(resolved), _mean(unresolved), _mean(resolved + unresolved)]
    means += [_half(means[0], means[1]), _half(means[0], means[3])]
    return [None if m is None else round(m, 3) for m in means], missing


def from_set(body: Mapping[str, Any]) -> Forecast:
    """A forecast set as ForecastBench publishes it: rows with id, source, forecast, and for
    dataset questions resolution_date (and direction for combinations)."""
    if not isinstance(body, Mapping) or not isinstance(body.get("forecasts"), list):
        raise InputError("not a forecast set: it needs a list `forecasts`")
    exact: dict[tuple[Any, ...], float] = {}
    for number, row in enumerate(body["forecasts"], start=1):
        try:
            p = row.get("forecast")
            key = _full_key(row, row.get("resolution_date"))
            hash(key)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InputError(
                f"forecast {number}: needs an id, a source and a forecast, and for questions of "
                "datasets a resolution_date that is text"
            ) from None
        if p is None:
            continue
        if isinstance(p, bool) or not isinstance(p, int | float) or not 0.0 <= p <= 1.0:
            raise InputError(f"forecast {number}: {p!r:.80} is not a probability in [0, 1]")
        exact[key] = float(p)

    def forecast(row: Mapping[str, Any]) -> float | None:
        dated = exact.get(_full_key(row, row.get("resolution_date")))
        return exact.get(_full_key(row, None)) if dated is None else dated

    return forecast


def _full_key(row: Mapping[str, Any], date: Any) -> tuple[Any, ...]:
    identifier, direction = row["id"], row.get("direction")
    if not isinstance(identifier, str):
        pairs = sorted(zip(identifier, direction or [None] * len(identifier), strict=True))
        return row["source"], tuple(pairs), date
    return row["source"], identifier, date


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _half(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else (a + b) / 2
