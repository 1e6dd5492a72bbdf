"""Planning by rules, without a model: which agents can tell what a question asks."""

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta

from beforehand.gateway.search import stems
from beforehand.jobs.ask.subject import Subject, aliased, also_called
from beforehand.jobs.ask.tasks import Task
from beforehand.jobs.ask.wording import (
    Known,
    Read,
    day_named,
    day_of_an_event,
    read,
    venues_named,
)
from beforehand.sources.kalshi import VENUE as KALSHI
from beforehand.sources.polymarket import VENUE as POLYMARKET
from beforehand.tools.markets import SIMULATED

MARKETS, SIBLINGS, REPORTS = 10, 30, 20
"""How many markets of a topic are looked at, how many where one of many is asked for (who, which),
and how many documents."""
ON_A_DAY = "on-a-day"
"""The ending of the ids of tasks that ask what a price was on one day."""
DOCUMENTS, INSTEAD = "documents", "instead"
"""The ids of tasks that look for documents: asked for, or only in place of a market."""


def plan(question: str, at: datetime, known: Known) -> list[Task]:
    """The tasks of a question."""
    asked = read(question, at, known)
    tasks = [*_quotes(asked, question), *_named(asked)]
    for number, topic in enumerate(asked.topics, start=1):
        tasks += _about(topic[:400], "" if number == 1 else f"-{number}", asked, known)
    return tasks


def absent(question: str, known: Known, live: bool) -> list[str]:
    """What a question asks for and no agent can look at: a venue without a market on record, a
    day that only an event names, threads and filings, which have tools of their own."""
    found = []
    for name in () if live else venues_named(question):
        if name.upper() not in known.venues and not known.venues <= SIMULATED:
            found.append(f"no market of {name.capitalize()}'s was on record then")
    if told := day_of_an_event(question):
        found.append(f"{told!r} is no date: name the day")
    for pattern, what, tool in (
        (r"\breddit\b", "Reddit's threads", "reddit_search_and_fetch_threads"),
        (r"\b(?:sec|edgar)\b|\bfilings?\b|\b10-[kq]\b", "filings", "list_company_filings"),
    ):
        if re.search(pattern, question, re.IGNORECASE):
            found.append(f"no agent reads {what}: `beforehand tool {tool}` does")
    return found


def _named(asked: Read) -> list[Task]:
    """The tasks of markets that are named by their ids."""
    if not asked.ids:
        return []
    markets: dict[str, object] = {"market_ids": list(asked.ids)}
    found = [
        Task(
            "named", "market-details-agent", f"the market {', '.join(asked.ids)}", markets,
            (), ("get_market",),
        )
    ]  # fmt: skip
    if asked.days is not None:
        found.append(_history("named", asked.days, markets))
    return found


def _about(topic: str, end: str, asked: Read, known: Known) -> list[Task]:
    """The tasks of one topic; `end` tells their ids from those of another."""
    tasks, venues = list[Task](), known.venues
    most = SIBLINGS if asked.many else MARKETS
    whose = "the markets" if venues and venues <= SIMULATED else "Polymarket's markets"
    about = f"on {topic!r}" if len(topic) <= 60 else f"on {topic[:60] + '…'!r}"
    tasks.append(
        Task(
            f"markets{end}", "polymarket-agent", f"{whose} {about}",
            {"query": topic, "limit": most}, (), ("search_polymarket_markets",),
        )
    )  # fmt: skip
    found = [f"markets{end}"]
    if KALSHI in venues:
        tasks.append(
            Task(
                f"kalshi{end}", "kalshi-agent", f"Kalshi's markets {about}",
                {"query": topic, "limit": most}, (), ("search_kalshi_markets",),
            )
        )  # fmt: skip
        found.append(f"kalshi{end}")
    if others := sorted(venues - {POLYMARKET, KALSHI} - SIMULATED):
        said = ", ".join(name.capitalize() for name in others)
        tasks.append(
            Task(
                f"venues{end}", "all-markets-agent", f"the markets of {said} {about}",
                {"query": topic, "venues": others, "limit": most}, (), ("search_all_markets",),
            )
        )  # fmt: skip
        found.append(f"venues{end}")
    for source in found:
        tasks.append(
            Task(
                f"{source}-details", "market-details-agent", "how those markets stand",
                {"input_path": {"task": source}, "limit": most}, (source,), ("get_market",),
            )
        )  # fmt: skip
    tasks.append(
        Task(
            f"sites{end}", "predictive-markets-agent", f"pages of the prediction markets {about}",
            {"query": topic, "max_results": MARKETS}, (), ("search_domains",),
        )
    )  # fmt: skip
    if asked.days is not None:
        tasks += [_history(source, asked.days, most=most) for source in found]
    if asked.documents or known.documents:
        tasks.append(
            Task(
                f"{DOCUMENTS if asked.documents else INSTEAD}{end}", "documents-agent",
                f"reports {about}",
                {"query": _reported(topic), "limit": REPORTS, **_since(asked)}, (), ("search",),
            )
        )  # fmt: skip
    return tasks


def _reported(topic: str) -> str:
    """The words of a topic that say what it is about, and how else it is called: reports seldom
    name a market's year."""
    subject, short = Subject.of(topic), aliased(topic)
    kept = [word for word in short.split() if subject.words.intersection(stems(word))]
    return " ".join([*kept, *also_called(short)] if kept else [topic])


def _since(asked: Read) -> dict[str, object]:
    """Reports of the days that are asked about, and of the week before them; or of the month that
    is named."""
    if asked.days is not None:
        return {"start_date": (asked.days[0] - timedelta(days=7)).isoformat()}
    if asked.documents and asked.month is not None:
        start, end = asked.month
        return {"start_date": start.isoformat(), "end_date": end.isoformat()}
    return {}


def _history(
    source: str,
    days: tuple[date, date],
    markets: Mapping[str, object] | None = None,
    most: int = MARKETS,
) -> Task:
    """How the markets that a task found moved, or those that are named; of one day what they were
    at, by the last price of the week until then."""
    first, last = days
    one = first == last
    start, end = (first - timedelta(days=7 * one)).isoformat(), last.isoformat()
    followed = markets or {"input_path": {"task": source}}
    return Task(
        f"{source}-{ON_A_DAY if one else 'history'}", "price-history-agent",
        f"what their prices were on {end}" if one else f"how their prices moved, {start} to {end}",
        {**followed, "start_date": start, "end_date": end, "limit": most},
        () if markets else (source,), ("get_market_price_range",),
    )  # fmt: skip


def _quotes(asked: Read, question: str) -> list[Task]:
    """Tasks over the market-data table: the rows, then their statistics."""
    if not asked.quotes:
        return []
    day = day_named(question)
    wanted: Sequence[str | None] = asked.symbols or (None,)
    tasks = []
    for number, symbol in enumerate(wanted, start=1):
        end = "" if number == 1 else f"-{number}"
        params: dict[str, object] = {}
        if symbol is not None:
            params["symbol_pattern"] = symbol if "%" in symbol else f"{symbol}%"
        if day:
            params["file_date"] = day
        template = "_and_".join(["symbol"] * (symbol is not None) + ["date"] * (day is not None))
        said = f"the quotes of {symbol or params['file_date']}"
        tasks.append(
            Task(
                f"quotes{end}", "market-data-agent", said,
                {"template": f"by_{template}", "params": params, "limit": 10_000},
                (), ("run_query",),
            )
        )  # fmt: skip
        tasks.append(
            Task(
                f"statistics{end}", "consumer-agent", "their statistics",
                {"input_path": {"task": f"quotes{end}"}}, (f"quotes{end}",), (),
            )
        )  # fmt: skip
    return tasks
