"""The purple agent: it looks up the market, the news and the company's filings as they were at t,
forecasts from what it found, and cites each find as typed, dated evidence.

Without a model it forecasts by rules: the market's price, tilted by the words of the news, as the
baseline `news_tilt` does; where no market has a price, an XBRL fact's next value from its growth
over the same quarter of the year before, with the spread that this growth had.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import NormalDist, fmean, stdev
from typing import Any

from beforehand.clock import iso
from beforehand.errors import BadAnswer, NotFound, ReplayMiss
from beforehand.gateway.view import View
from beforehand.records.rows import EvidenceLine, Snippet
from beforehand.records.world import Observation

DOCUMENTS, FACTS, PRICES = 8, 6, 5
"""The most documents, values of one fact, and prices of the past that it looks at."""
NEVER = 1e-9
"""A price of 0 or 1 has no odds to tilt."""
MONTH = timedelta(days=30)
TITLE = 300
_CIK = re.compile(r"\bCIK\s*0*(\d{1,10})\b", re.IGNORECASE)
EDGAR = "edgar"


@dataclass(frozen=True)
class Find:
    """Something that was looked up: what a model is shown of it, and how it is cited."""

    id: str
    text: str
    line: EvidenceLine

    @property
    def snippet(self) -> Snippet:
        """As a document of the context."""
        return Snippet(self.id, self.text, self.line.timestamp or "")


@dataclass
class Looked:
    """What was found for a question at t, and which tools were asked for it."""

    market: list[Find] = field(default_factory=list)
    news: list[Find] = field(default_factory=list)
    facts: list[Find] = field(default_factory=list)
    price: float | None = None
    values: list[Observation] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)

    @property
    def finds(self) -> list[Find]:
        """All of it."""
        return [*self.market, *self.news, *self.facts]

    def lines(self, cited: Sequence[str]) -> list[EvidenceLine]:
        """The evidence of a forecast: the price, and what is cited of the rest."""
        wanted = set(cited)
        return [one.line for one in self.finds if one in self.market[:1] or one.id in wanted]


@dataclass(frozen=True)
class FactRule:
    """What settles a question born from EDGAR: a concept's value for a period, and the bound."""

    cik: str
    concept: str
    unit: str
    period: str
    bound: float
    over: bool


def look(view: View, market_id: str | None, text: str, rule: FactRule | None = None) -> Looked:
    """Ask the tools, as they answer at the view's instant. `text` is the question with its
    rules."""
    found = Looked()
    if market_id is not None:
        _market(view, market_id, found)
    _news(view, text, found)
    company = _CIK.search(text)
    cik = rule.cik if rule is not None else company[1] if company else None
    if cik is not None:
        _facts(view, cik, rule, found)
    return found


def _market(view: View, market_id: str, found: Looked) -> None:
    try:
        odds = view.odds(market_id)
    except NotFound:
        found.tools.append(f"market {market_id}: no price known")
        return
    found.price = odds.price
    line = EvidenceLine("market_snapshot", market_id, f"price {odds.price:g}", iso(odds.known_at))
    found.market.append(Find(f"market:{market_id}", f"The market's price is {odds.price:g}.", line))
    earlier = view.history(market_id, view.t - MONTH)
    step = max(1, len(earlier) // PRICES)
    for point in earlier[:-1:step][-PRICES:]:
        at, said = iso(point.known_at), f"price {point.price:g}"
        line = EvidenceLine("market_snapshot", market_id, said, at)
        text = f"Earlier, at {at}, the market's price was {point.price:g}."
        found.market.append(Find(f"market:{market_id}@{at}", text, line))
    found.tools.append(f"market {market_id}: {len(found.market)} prices of {MONTH.days} days")


def _news(view: View, text: str, found: Looked) -> None:
    query = text.partition("\n")[0][:TITLE]
    documents = view.search(query, limit=DOCUMENTS)
    for one in documents:
        title = " ".join(one.title.split())
        line = EvidenceLine("news", one.url or one.id, title, iso(one.known_at))
        body = " ".join(part for part in (one.title, one.text[:1000]) if part)
        found.news.append(Find(one.id, body, line))
    found.tools.append(f"news: {len(documents)} documents")


def _facts(view: View, cik: str, rule: FactRule | None, found: Looked) -> None:
    try:
        stored = view.observations(EDGAR, "fact", f"{int(cik):010d}")
    except ReplayMiss:
        found.tools.append(f"filings of CIK {int(cik)}: none on record")
        return
    rows = [r for r in stored if not r.snapshot and (rule is None or _is(r.data, rule))]
    rows.sort(key=lambda row: (str(row.data.get("end")), row.known_at))
    found.values = rows
    for row in rows[-FACTS:]:
        data = row.data
        value, unit, end = float(data["value"]), str(data["unit"]), data.get("end")
        said = f"{data['concept']} {value:g} {unit} for {end}"
        line = EvidenceLine("xbrl_fact", row.id, said, iso(row.known_at), value, unit, end)
        found.facts.append(Find(row.id, f"Reported: {said} (filed {data.get('filed')}).", line))
    found.tools.append(f"filings of CIK {int(cik)}: {len(rows)} values")


def _is(data: Mapping[str, Any], rule: FactRule) -> bool:
    concept = str(data.get("concept"))
    names = (concept, concept.partition(":")[2])
    return rule.concept in names and data.get("unit") == rule.unit


def by_rules(looked: Looked, words: float, rule: FactRule | None) -> tuple[float, str]:
    """A probability and its reason; `words` is how many of the news' words speak for YES rather
    than against it. Raises BadAnswer where nothing is known to forecast from."""
    if looked.price is not None:
        if words == 0:
            return looked.price, f"The market's price {looked.price:g}, as it is."
        q = min(max(looked.price, NEVER), 1 - NEVER)
        odds = math.log(q / (1 - q)) + 0.3 * math.tanh(words / 2)
        way = f"tilted {'up' if words > 0 else 'down'} by the news"
        return 1 / (1 + math.exp(-odds)), f"The market's price {looked.price:g}, {way}."
    if rule is not None and looked.values:
        return _next_value(looked.values, rule)
    raise BadAnswer("no price and no reported value is known to forecast from")


def _next_value(rows: Sequence[Observation], rule: FactRule) -> tuple[float, str]:
    """The chance that the value for the rule's period is on its side of the bound: the value of a
    year before, times the growth that the concept has had over a year, in logarithms where all
    values are above 0, with the sample's spread, or a tenth where there is too little of it."""
    last = dict[str, float]()
    for row in rows:  # As first filed.
        last.setdefault(str(row.data.get("end")), float(row.data["value"]))
    ends = sorted(last)
    growth = [
        math.log(last[end] / last[before])
        for end in ends
        if (before := _year_before(end, ends)) and last[end] > 0 and last[before] > 0
    ]
    base_end = _year_before(rule.period, ends) or ends[-1]
    base = last[base_end]
    if base <= 0 or rule.bound <= 0:
        p = 0.9 if (last[ends[-1]] > rule.bound) is rule.over else 0.1
        return p, f"The last value, {last[ends[-1]]:g} for {ends[-1]}, against {rule.bound:g}."
    drift = fmean(growth) if growth and base_end != ends[-1] else 0.0
    spread = max(stdev(growth) if len(growth) > 2 else 0.1, 0.01)
    over = 1 - NormalDist(math.log(base) + drift, spread).cdf(math.log(rule.bound))
    p = min(max(over if rule.over else 1 - over, 0.01), 0.99)
    return p, (
        f"{rule.concept} was {base:g} {rule.unit} for {base_end}; over a year it has grown by "
        f"{math.expm1(drift):.1%} on average, and the bound is {rule.bound:g}."
    )


def _year_before(end: str, ends: Sequence[str]) -> str | None:
    """The end of the same period a year before, to within two weeks."""
    try:
        wanted = datetime.fromisoformat(end) - timedelta(days=365)
    except ValueError:
        return None
    near = [one for one in ends if abs(datetime.fromisoformat(one) - wanted) < timedelta(days=15)]
    return near[-1] if near else None
