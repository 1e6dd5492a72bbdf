"""One answer from what the agents wrote: sentences, each with the records that it rests on.

Every figure is copied from an agent's output, none is made of words. What was not found is said.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from beforehand.config import MARKET_STATUS_ACTIVE, MARKET_STATUS_RESOLVED
from beforehand.jobs.ask.rules import INSTEAD, ON_A_DAY
from beforehand.jobs.ask.subject import Subject
from beforehand.jobs.ask.tasks import TASK, Task
from beforehand.jobs.ask.wording import ENDED, month_named
from beforehand.records.bus import OutputEnvelope
from beforehand.records.world import PLAY_MONEY

RELEVANT, FEW = 0.5, 5
_WHO = re.compile(r"\s*(?:who|which)\b", re.IGNORECASE)
SHOWN, PAGES, DOCUMENTS = 3, 3, 5
CODE_LINES, LINE = 20, 200
HISTORY = "price history"
DETAILS = "market-details-agent"
DAY = 86_400


@dataclass
class Answer:
    """The answer under way, as of an instant: its sentences, what they cite, what was not found,
    and the details that are at hand of markets. Of what was searched for: where nothing was
    `missed`, what was `hit`, `near` or `exact`, and of each the markets that have its names
    (`named`). `most_likely` puts the highest prices first, `ended` the markets that have ended, and
    those that ended in `month` (2026-02) before others."""

    at: str
    most_likely: bool = False
    ended: bool = False
    month: str | None = None
    lines: list[str] = field(default_factory=list)
    citations: list[dict[str, Any]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    missed: dict[str, list[str]] = field(default_factory=dict)
    hit: set[str] = field(default_factory=set)
    near: list[str] = field(default_factory=list)
    exact: set[str] = field(default_factory=set)
    named: "dict[str, list[Row]]" = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    details: dict[str, tuple[Task, str, Mapping[str, Any]]] = field(default_factory=dict)

    def cite(self, task: Task, path: str, kind: str, name: str, **more: object) -> str:
        """A citation's mark, such as [2]; one record is cited under one number."""
        found = {key: value for key, value in more.items() if value is not None}
        for known in self.citations:
            same = (known["kind"], known["id"]) == (kind, name)
            if same and (kind != HISTORY or all(known[key] == found[key] for key in found)):
                return f"[{known['n']}]"
        n = len(self.citations) + 1
        self.citations.append(
            {"n": n, "kind": kind, "id": name, **found, "task": task.id, "file": path}
        )
        return f"[{n}]"


Row = tuple[Task, str, Mapping[str, Any]]
"""A market, the task that found it, and the path of the output that it is in."""
Found = Mapping[str, tuple[str, OutputEnvelope]]
"""The path and the output of each task that succeeded, by its id."""


def compose(
    question: str,
    as_of: str,
    stated: bool,
    tasks: Sequence[Task],
    found: Found,
    failed: Mapping[str, str],
    untold: str = "",
) -> dict[str, Any]:
    """The answer as JSON. `stated` says whether the instant was asked for; `failed` has the error
    of each task without an output; `untold` is what no search could find."""
    month = month_named(question, as_of)
    answer = Answer(as_of, bool(_WHO.match(question)), bool(ENDED.search(question)), month)
    because = "" if stated else " (the last instant on record, because none was named)"
    answer.lines.append(f"As of {as_of}{because}:")
    for task in [task for task in tasks if task.agent == DETAILS and task.id in found]:
        path, output = found[task.id]
        for row in output.data:
            for name in (row["id"], row["market_id"]):
                answer.details.setdefault(name, (task, path, row))
    answer.exact |= _exact(tasks, found)
    answer.named |= _named(tasks, found)
    answer.topics |= {task.id: str(task.inputs.get("query")) for task in tasks}
    for task in in_order(tasks):
        if task.id in found:
            path, output = found[task.id]
            subject = Subject.of(str(task.inputs.get("query", "")))
            _TELLERS.get(task.agent, _rows)(answer, task, path, output, subject)
            answer.missing += _unrated(task, output)
        else:
            answer.missing.append(f"{task.why}: {failed.get(task.id, 'no answer')}")
    for query, whys in answer.missed.items():
        if query not in answer.hit:
            answer.missing.append(
                f"nothing fits {query!r} (searched: {'; '.join(dict.fromkeys(whys))})"
            )
    finders = [task for task in tasks if _TELLERS.get(task.agent) is _markets]
    if untold and {task.inputs["query"] for task in finders} - answer.hit:
        answer.missing.append(untold)
    if len(answer.lines) == 1:
        answer.lines.append("Nothing was found that answers this.")
    return {
        "question": question,
        "as_of": as_of,
        "as_of_stated": stated,
        "answer": "\n".join(answer.lines),
        "citations": answer.citations,
        "not_found": answer.missing,
    }


Teller = Any


def _exact(tasks: Sequence[Task], found: Found) -> set[str]:
    """What was searched for and asked by a market in exactly these words."""
    return {
        row["query"]
        for task in tasks
        if task.id in found and _TELLERS.get(task.agent) is _markets
        for row in found[task.id][1].data
        for market in row["markets"]
        if Subject.of(row["query"]).named_by(market["title"])
    }


def _named(tasks: Sequence[Task], found: Found) -> dict[str, list[Row]]:
    """Of what was searched for and no market fits: the markets that share its names."""
    named: dict[str, list[Row]] = {}
    fits = set[str]()
    for task in tasks:
        if task.id not in found or _TELLERS.get(task.agent) is not _markets:
            continue
        path, output = found[task.id]
        (row,) = output.data
        subject = Subject.of(row["query"])
        if row["search_method"] == "top_volume" or row["llm_scoring_enabled"]:
            continue
        for market in row["markets"]:
            if _market_fits(market, subject):
                fits.add(row["query"])
            elif subject.names_in(market["title"]) and not subject.other_time(market["title"]):
                named.setdefault(row["query"], []).append((task, path, market))
    return {query: _rarest(query, rows) for query, rows in named.items() if query not in fits}


def _rarest(query: str, rows: list[Row]) -> list[Row]:
    """The markets with all of the names; else those with the name that fewest of them have. None
    where a name is in none of them."""
    subject = Subject.of(query)
    having = [
        (subject.names_in(market["title"]), (task, path, market)) for task, path, market in rows
    ]
    every = [row for names, row in having if names == subject.names]
    counts = Counter(name for names, _ in having for name in names)
    common = len(every) > FEW or subject.years or subject.months
    if len(counts) < len(subject.names) or (len(subject.names) == 1 and common):
        return []  # A name that many markets have says little, and that of another time less.
    rare = min(counts, key=lambda name: (counts[name], name))
    return every or [row for names, row in having if rare in names]


def _unrated(task: Task, output: OutputEnvelope) -> list[str]:
    """What an agent's output notes about a model that did not rate."""
    notes = (output.metadata.model_extra or {}).get("_meta", {}).get("notes", ())
    return [f"{task.why}: {note}" for note in notes if "rating" in note]


def in_order(tasks: Sequence[Task]) -> list[Task]:
    """Tasks after those that they wait for, else in the order of the plan."""
    told, left = list[Task](), list(tasks)
    while left:
        ids = {task.id for task in told}
        ready = [task for task in left if ids.issuperset(task.deps)]
        told += ready[:1] or left[:1]
        left.remove(told[-1])
    return told


def _figure(value: float) -> str:
    """A number as its record has it, to six places."""
    text = f"{value:.6g}" if abs(value) < 1 else repr(round(value, 6))
    return text.removesuffix(".0")


def _shortened(line: str) -> str:
    """A line for people: no control characters, cut at a word."""
    text = "".join(letter if letter.isprintable() else " " for letter in line)
    return text if len(text) <= LINE else f"{text[:LINE].rpartition(' ')[0] or text[:LINE]} …"


def _markets(
    answer: Answer, task: Task, path: str, output: OutputEnvelope, subject: Subject
) -> None:
    """What the best markets say."""
    (row,) = output.data
    fitting = [market for market in row["markets"] if _market_fits(market, subject)]
    fitting.sort(key=lambda market: _rank(market, answer, subject))
    query = row["query"]
    if row["search_method"] == "top_volume" or not fitting:
        answer.missed.setdefault(query, []).append(task.why.partition(" on ")[0])
        _told_by_name(answer, query)
        return
    answer.hit.add(query)
    if query in answer.exact and not (row["llm_scoring_enabled"] or answer.most_likely):
        fitting = [market for market in fitting if subject.named_by(market["title"])]
        if not fitting:  # Another venue has it.
            return
    elif not (row["llm_scoring_enabled"] or answer.most_likely or query in answer.near):
        answer.near.append(query)
        answer.lines.append(f"No market asks exactly {query!r}; the nearest:")
    if answer.ended:
        fitting = [one for one in fitting if _has_ended(one)] or fitting
        fitting = [one for one in fitting if _ended_in(answer, one)] or fitting
    known = {one["id"] for one in answer.citations if one["kind"] == "market"}
    for market in [one for one in fitting[:SHOWN] if one["market_id"] not in known]:
        _market(answer, *answer.details.get(_name(market), (task, path, market)))
    if len(fitting) > SHOWN:
        answer.lines.append(f"  ({len(fitting) - SHOWN} more in {path})")


def _told_by_name(answer: Answer, query: str) -> None:
    """Markets that share names with what was searched for, said to be no more than that; once."""
    rows = answer.named.pop(query, [])
    if not rows:
        return
    answer.lines.append(f"No market asks {query!r}; of the same names:")
    rows.sort(key=lambda row: _has_ended(row[2]))
    for task, path, market in rows[:SHOWN]:
        _market(answer, *answer.details.get(_name(market), (task, path, market)))


def _has_ended(market: Mapping[str, Any]) -> bool:
    return bool(market["status"] != MARKET_STATUS_ACTIVE)


def _ended_in(answer: Answer, market: Mapping[str, Any]) -> bool:
    """True for a market that ended in the month that is asked about."""
    _, _, details = answer.details.get(_name(market), (None, "", market))
    when = (details.get("resolution") or {}).get("resolved_at") or ""
    return answer.month is not None and when[:7] == answer.month


def _rank(
    market: Mapping[str, Any], answer: Answer, subject: Subject
) -> tuple[bool, bool, bool, float]:
    """Markets that ask exactly this come first, then those that are open; of ended ones the winner,
    and where the question asks who, the likeliest."""
    ended = _has_ended(market)
    _, _, details = answer.details.get(_name(market), (None, "", market))
    payout = (details.get("resolution") or {}).get("payout")
    likely = _first_price(market) if answer.most_likely else 0.0
    unpriced = not market["prices"]
    other = not answer.most_likely and not subject.named_by(market["title"])
    return other, ended, unpriced, -(payout or likely)


def _first_price(market: Mapping[str, Any]) -> float:
    return float(market["prices"].get(market["outcomes"][0], -1))


def _name(market: Mapping[str, Any]) -> str:
    found: str = market.get("id") or market["market_id"]
    return found


def _market_fits(market: Mapping[str, Any], subject: Subject) -> bool:
    """True where the model rated it so, or its title has all of the words; without a model most
    of the words are enough."""
    rated: float | None = market.get("relevance_score")
    if rated is None:
        closes, title = market["close_time"], market["title"]
        early = (
            closes
            and subject.years
            and closes[:4] < min(subject.years)
            and subject.names_no_year(title)
        )
        return not early and subject.fits(market["title"])
    return rated >= RELEVANT or subject.named_by(market["title"])


def _details(
    answer: Answer, task: Task, path: str, output: OutputEnvelope, subject: Subject
) -> None:
    """Markets that were named by their ids. Those that a search found were told with it."""
    if "market_ids" not in task.inputs:
        return
    for row in output.data:
        _market(answer, task, path, row)
    if len(output.data) < len(task.inputs["market_ids"]):
        found = {name for row in output.data for name in (row["id"], row["market_id"], row["slug"])}
        left = [name for name in task.inputs["market_ids"] if name not in found]
        answer.missing.append(f"no market {', '.join(left)} was known then")


def _market(answer: Answer, task: Task, path: str, market: Mapping[str, Any]) -> None:
    mark = answer.cite(
        task, path, "market", market["market_id"], url=market["url"], title=market["title"]
    )
    said = "; ".join(filter(None, (_ended(market), _price(market))))
    title = market["title"] or market["market_id"]
    answer.lines.append(f"- {title} {said} ({_state(market, answer.at)}) {mark}")


def _ended(market: Mapping[str, Any]) -> str:
    """How a market ended, where that was known."""
    ended = market.get("resolution")
    if ended is None:
        return ""
    outcomes, payout = market["outcomes"], ended["payout"]
    how = {1: f"ended {outcomes[0]}", 0: f"ended {outcomes[-1]}"}.get(payout)
    if how is None:
        how = f"ended {ended['status']}" + ("" if payout is None else f" at {_figure(payout)}")
    return how + (f" on {ended['resolved_at'][:10]}" if ended["resolved_at"] else "")


def _price(market: Mapping[str, Any]) -> str:
    prices = market["prices"]
    name = next((outcome for outcome in market["outcomes"] if outcome in prices), None)
    if name is None:
        return "" if market.get("resolution") else "has no price on record"
    is_at = "is at" if market["status"] == MARKET_STATUS_ACTIVE else "was last at"
    return f"{name} {is_at} {_figure(prices[name])}"


def _state(market: Mapping[str, Any], at: str) -> str:
    """Where it is traded, whether it still is, and how old its price is after a day."""
    venue = str(market.get("id", "")).partition(":")[0]
    said = [f"{venue.capitalize()}, not for money"] if venue in PLAY_MONEY else []
    closes = market["close_time"]
    if closes and market["status"] != MARKET_STATUS_RESOLVED:
        ended = closes <= at
        said += [] if ended else [market["status"]]
        said.append(f"{'was to close' if ended else 'closes'} {closes[:10]}")
    else:
        said.append(market["status"])
    age = (market.get("quote") or {}).get("age_seconds", 0)
    if age >= DAY and market["status"] != MARKET_STATUS_RESOLVED:
        said.append(f"price of {market['quote']['observed_at'][:10]}")
    return ", ".join(said)


def _moves(answer: Answer, task: Task, path: str, output: OutputEnvelope, subject: Subject) -> None:
    """How the markets that were shown moved."""
    shown = {one["id"]: one for one in answer.citations if one["kind"] == "market"}
    told = 0
    for row in output.data:
        if row["market_id"] not in shown:
            continue
        first, last, told = row["first"], row["last"], told + 1
        change = row["change"]
        title = shown[row["market_id"]].get("title") or row["market_id"]
        moved = "did not move" if not change else f"moved {'+' * (change > 0)}{_figure(change)}"
        cited = shown[row["market_id"]]
        mark = answer.cite(
            task, path, HISTORY, row["market_id"], title=cited.get("title"),
            start=first["date"], end=last["date"],
        )  # fmt: skip
        if first["date"] == last["date"] or task.id.endswith(ON_A_DAY):
            answer.lines.append(f"- {title} was at {_figure(last['yes'])} on {last['date']} {mark}")
            continue
        answer.lines.append(
            f"- {title} {moved}: {_figure(first['yes'])} on {first['date']}, "
            f"{_figure(last['yes'])} on {last['date']} (low {_figure(row['low'])}, high "
            f"{_figure(row['high'])}) {mark}"
        )
    source = task.inputs.get("input_path", {}).get(TASK)
    if not told and any(one["task"] in (source, f"{source}-details") for one in shown.values()):
        answer.missing.append(f"{task.why}: no price in that time of a market that fits")


def _pages(answer: Answer, task: Task, path: str, output: OutputEnvelope, subject: Subject) -> None:
    """Pages of the sites, where the markets said little."""
    (row,) = output.data
    shown = sum(one["kind"] == "market" for one in answer.citations)
    if shown >= SHOWN or row["query"] in answer.exact:
        return
    known = {one.get("url") for one in answer.citations}
    fitting = [hit for hit in row["results"] if subject.fits(hit["title"])]
    if not fitting:
        answer.missed.setdefault(row["query"], []).append("pages of the markets")
    for hit in [hit for hit in fitting if hit["url"] not in known][:PAGES]:
        mark = answer.cite(task, path, "page", hit["url"], title=hit["title"])
        answer.lines.append(f"- {hit['domain']}: {hit['title']} {mark}")


def _documents(
    answer: Answer, task: Task, path: str, output: OutputEnvelope, subject: Subject
) -> None:
    """What was reported, best first."""
    fitting = [row for row in output.data if subject.found_in(row["title"], row["text"])]
    if task.id.startswith(INSTEAD):
        topic = answer.topics.get(f"markets{task.id.removeprefix(INSTEAD)}", "")
        asked = Subject.of(topic)
        fitting = [
            row
            for row in fitting
            if asked.meant_by(row["title"], row["text"])
            and (not asked.years or row["timestamp"][:4] in asked.years)
        ]
        if topic in answer.hit:
            return
        if not fitting:
            answer.missed.setdefault(topic, []).append("documents")
            return
    if not fitting:
        answer.missing.append(f"{task.why}: no document fits")
    for row in fitting[:DOCUMENTS]:
        mark = answer.cite(
            task, path, "document", row["id"], url=row["url"], known_at=row["timestamp"]
        )
        published = (row.get("published_at") or "")[:10]
        known = published or f"known from {row['timestamp'][:10]} on"
        by = ", ".join(filter(None, (row["source"], known)))
        answer.lines.append(f"- {row['title']} ({by}) {mark}")


def _quotes(
    answer: Answer, task: Task, path: str, output: OutputEnvelope, subject: Subject
) -> None:
    """How many rows there are; their statistics are another task's."""
    if not output.data:
        answer.missing.append(f"{task.why}: no row of the market-data table fits")
        return
    mark = answer.cite(task, path, "quotes", path, query=output.metadata.query)
    answer.lines.append(f"- {len(output.data):,} rows: {task.why} {mark}")


def _statistics(
    answer: Answer, task: Task, path: str, output: OutputEnvelope, subject: Subject
) -> None:
    (row,) = output.data
    figures = row["statistics"]
    if not figures["total_records"]:
        return
    mark = answer.cite(task, path, "statistics", path, query=row["source_query"])
    sides = [
        f"{side} {_figure(figures[f'{side}_min'])} to {_figure(figures[f'{side}_max'])}, mean "
        f"{_figure(figures[f'{side}_avg'])} ({figures[f'records_with_{side}']:,} rows)"
        for side in ("bid", "ask")
        if figures[f"{side}_avg"] is not None
    ]
    rows = f"{figures['total_records']:,} rows of {row['source']}"
    answer.lines.append(f"- {rows}: {'; '.join(sides) or 'no bid and no ask'} {mark}")


def _code(answer: Answer, task: Task, path: str, output: OutputEnvelope, subject: Subject) -> None:
    """What code printed, made of what its tools answered."""
    (row,) = output.data
    printed = row["output"].strip() or str(row["result"])
    lines = printed.splitlines()
    mark = answer.cite(task, path, "code", path, question=row["question"])
    answer.lines.append(f"- {task.why} {mark}:")
    answer.lines += [f"    {_shortened(line)}" for line in lines[:CODE_LINES]]
    if len(lines) > CODE_LINES:
        answer.lines.append(f"    ({len(lines) - CODE_LINES} more lines in {path})")


def _rows(answer: Answer, task: Task, path: str, output: OutputEnvelope, subject: Subject) -> None:
    """What another agent wrote: how much, and where."""
    n = len(output.data)
    mark = answer.cite(task, path, "output", path, query=output.metadata.query)
    answer.lines.append(f"- {task.why}: {n:,} row{'' if n == 1 else 's'} by {task.agent} {mark}")


_TELLERS: dict[str, Teller] = {
    "polymarket-agent": _markets,
    "kalshi-agent": _markets,
    "all-markets-agent": _markets,
    DETAILS: _details,
    "price-history-agent": _moves,
    "predictive-markets-agent": _pages,
    "documents-agent": _documents,
    "market-data-agent": _quotes,
    "consumer-agent": _statistics,
    "code-agent": _code,
}


def cited(text: str) -> Iterator[int]:
    """The numbers of the citations in a text."""
    for part in text.split("[")[1:]:
        number = part.partition("]")[0]
        if number.isdecimal():
            yield int(number)
