"""The purple agent: it looks up the market, the news and the company's filings as they were at t,
forecasts from what it found, and cites each find as typed, dated evidence.

Of a company's filings it shows the facts that the question asks about: those of the rule that
settles it, else those whose concepts share words with the question, of the period that it names.

Without a model it forecasts by rules: the market's price, tilted by the words of the news, as the
baseline `news_tilt` does; where no market has a price, an XBRL fact's next value from its growth
over the same period of the year before, with the spread that this growth had.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import partial
from statistics import NormalDist, fmean, stdev

from beforehand.clock import iso
from beforehand.errors import BadAnswer, NotFound, ReplayMiss
from beforehand.gateway.search import stems
from beforehand.gateway.view import View
from beforehand.records.rows import EvidenceLine, Snippet
from beforehand.records.settles import Settles
from beforehand.records.xbrl import Fact, Filings, Period, a_year_before, first_filed

DOCUMENTS, FACTS, PRICES = 8, 6, 5
"""The most documents, values of one fact, and prices of the past that it looks at."""
NEVER = 1e-9
"""A price of 0 or 1 has no odds to tilt."""
MONTH = timedelta(days=30)
TITLE = 300
FORTNIGHT = timedelta(days=14)
_CAMEL = re.compile(r"[A-Z][a-z]+|[A-Z]+(?![a-z])|[a-z]+|\d+")
_MEANS: Mapping[str, tuple[str, ...]] = {
    "sale": ("revenue",),
    "turnover": ("revenue",),
    "profit": ("income",),
    "earning": ("income",),
    "eps": ("earning", "per", "share"),
    "debt": ("liability",),
}
"""What people call a concept, and words of its name in the taxonomy."""
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
    values: list[Fact] = field(default_factory=list)
    base: Fact | None = None
    tools: list[str] = field(default_factory=list)

    @property
    def finds(self) -> list[Find]:
        """All of it."""
        return [*self.market, *self.news, *self.facts]

    def lines(self, cited: Sequence[str]) -> list[EvidenceLine]:
        """The evidence of a forecast: the price, and what is cited of the rest."""
        wanted = set(cited)
        return [one.line for one in self.finds if one in self.market[:1] or one.id in wanted]


def look(view: View, market_id: str | None, text: str, rule: Settles | None = None) -> Looked:
    """Ask the tools, as they answer at the view's instant. `text` is the question with its
    rules."""
    found = Looked()
    if market_id is not None:
        _market(view, market_id, found)
    _news(view, text, found)
    company = _CIK.search(text)
    if rule is not None and rule.kind == "xbrl_fact":
        cik, concept, period = rule.fact()
        choose = partial(_settling, concept=concept, unit=rule.unit, period=period, found=found)
        _facts(view, cik, choose, found)
    elif company is not None:
        _facts(view, company[1], partial(_asked_about, text=text), found)
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


def _facts(
    view: View, cik: str, choose: Callable[[Sequence[Fact]], list[Fact]], found: Looked
) -> None:
    """The facts of a company that `choose` takes of all that are on record, as first filed."""
    try:
        stored = view.observations(EDGAR, "fact", f"{int(cik):010d}")
    except ReplayMiss:
        found.tools.append(f"filings of CIK {int(cik)}: none on record")
        return
    rows = [row for row in stored if not row.snapshot]
    filed = [Fact.of(row.data, row.known_at) for row in rows]
    names = {id(fact): row.id for row, fact in zip(rows, filed, strict=True)}
    found.values = choose(filed)
    for fact in found.values[-FACTS:]:
        said = f"{fact.concept} {fact.value:.15g} {fact.unit} for {fact.end}"
        at, name = iso(fact.known_at), names[id(fact)]
        line = EvidenceLine("xbrl_fact", name, said, at, fact.value, fact.unit, fact.end)
        text = f"Reported: {fact.concept} {fact.value:.15g} {fact.unit} for {fact.span}"
        found.facts.append(Find(name, f"{text} (known by {at}).", line))
    found.tools.append(
        f"filings of CIK {int(cik)}: {len(found.values)} of {len(rows)} values asked about"
    )


def _by_end(facts: Iterable[Fact]) -> list[Fact]:
    return sorted(first_filed(facts), key=lambda fact: (fact.end or "", fact.concept, fact.unit))


def _settling(
    filed: Sequence[Fact], concept: str, unit: str | None, period: Period, found: Looked
) -> list[Fact]:
    """The values of a rule's concept over periods as long as the rule's: where it does not say how
    long, as long as the shortest that ended a year before (`found.base` is that one)."""
    before = period.a_year_before()
    company = Filings(filed)
    about = [fact for fact in company.facts if fact.is_of(concept, unit)]
    ended = [fact for fact in about if _ends(company, fact, before)]
    lengths = {fact.months for fact in ended or about}
    length = period.length or min((m for m in lengths if m is not None), default=None)
    values = _by_end(fact for fact in about if fact.start is None or fact.months == length)
    found.base = next((fact for fact in reversed(values) if _ends(company, fact, before)), None)
    return values


def _ends(company: Filings, fact: Fact, period: Period) -> bool:
    """Whether a fact's period ends with this one, to within two weeks."""
    if period.end is None:
        return company.fit(fact, period)
    return fact.end is not None and _apart(fact.end, period.end) <= FORTNIGHT


def _asked_about(filed: Sequence[Fact], text: str) -> list[Fact]:
    """The facts whose concepts share most with a question's words, of the period that it names."""
    asked = {word for said in stems(text) for word in (said, *_MEANS.get(said, ()))}
    share = {name: _likeness(name, asked) for name in {fact.concept for fact in filed}}
    best = max(share.values(), default=0.0)
    if best == 0:
        return []
    about = [fact for fact in filed if share[fact.concept] == best]
    period = Period.read(text)
    if period is not None and period.months is not None:
        about = [f for f in about if f.start is None or f.months == period.months]
    return _by_end(about)


def _likeness(concept: str, asked: Set[str]) -> float:
    """The cosine of a concept's words, such as `NetIncomeLoss`, with those asked for."""
    own = {*stems(" ".join(_CAMEL.findall(concept.partition(":")[2] or concept)))}
    return len(own & asked) / math.sqrt(len(own)) if own else 0.0


def by_rules(looked: Looked, words: float, rule: Settles | None) -> tuple[float, str]:
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
        return _next_value(looked.values, looked.base, rule)
    raise BadAnswer("no price and no reported value is known to forecast from")


def _next_value(facts: Sequence[Fact], base: Fact | None, rule: Settles) -> tuple[float, str]:
    """The chance that the value for the rule's period is on its side of the bound: the value of a
    year before (`base`; else the last), times the growth that the concept has had over a year, in
    logarithms where all values are above 0, with the sample's spread, or a tenth where there is too
    little of it."""
    last = facts[-1]
    growth = [
        math.log(fact.value / earlier.value)
        for fact in facts
        if (earlier := _of_the_year_before(fact, facts)) and fact.value > 0 and earlier.value > 0
    ]
    start, bound = base or last, rule.bound
    said = f"{start.concept} was {start.value:,.15g} {start.unit} for {start.span}"
    if start.value <= 0 or bound <= 0:
        p = 0.9 if (last.value > bound) is rule.over else 0.1
        newest = f"the last value, for {last.span}, is {last.value:,.15g}"
        return p, f"{said}; {newest}, and the bound is {bound:,.15g}."
    grows = bool(growth) and base is not None
    drift = fmean(growth) if grows else 0.0
    spread = max(stdev(growth) if len(growth) > 2 else 0.1, 0.01)
    over = 1 - NormalDist(math.log(start.value) + drift, spread).cdf(math.log(bound))
    p = min(max(over if rule.over else 1 - over, 0.01), 0.99)
    if grows:
        pairs = f"{len(growth)} pair{'s' if len(growth) > 1 else ''} of values a year apart"
        how = f"over a year it has grown by {math.expm1(drift):.1%} on average ({pairs})"
    elif base is None:
        how = "no value of a year before the question's period is on record: the last one stands"
    else:
        how = "no two values a year apart are on record: no growth is assumed"
    return p, f"{said}; {how}, and the bound is {bound:,.15g}."


def _of_the_year_before(fact: Fact, facts: Sequence[Fact]) -> Fact | None:
    assert fact.end is not None
    day = a_year_before(fact.end)
    return next((one for one in facts if one.end and _apart(one.end, day) <= FORTNIGHT), None)


def _apart(day: str, other: str) -> timedelta:
    return abs(date.fromisoformat(day) - date.fromisoformat(other))
