"""One answer from what the agents wrote: sentences, each with the records that it rests on.

Every figure is copied from an agent's output, none is made of words. What was not found is said.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rapidfuzz.distance import OSA

from beforehand.config import MARKET_STATUS_ACTIVE
from beforehand.gateway.search import SIMILAR, stems
from beforehand.jobs.ask.tasks import Task
from beforehand.records.bus import OutputEnvelope

RELEVANT = 0.5
_YEAR = re.compile(r"(?:19|20)\d{2}")
_COMMON = re.compile(
    r"january|february|march|april|may|june|july|august|september|october|november|december|"
    r"\d{1,2}|end|ends|predictions?|forecasts?|markets?|odds|prices?|chances?"
)
_AMOUNT = re.compile(r"(\$)?(?<![\w.])(\d[\d,]*(?:\.\d+)?)(?:\s?([kKmMbB]))?(?![\w%])")
_FIGURE = re.compile(r"\d+amount")
MISSPELT, LONG = 5, 5
SHOWN, PAGES, DOCUMENTS = 3, 3, 5
CODE_LINES, LINE = 20, 200
HISTORY = "price history"


@dataclass
class Answer:
    """The answer under way: its sentences, what they cite, and what was not found."""

    lines: list[str] = field(default_factory=list)
    citations: list[dict[str, Any]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

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


Found = Mapping[str, tuple[str, OutputEnvelope]]
"""The path and the output of each task that succeeded, by its id."""


def compose(
    question: str,
    as_of: str,
    stated: bool,
    tasks: Sequence[Task],
    found: Found,
    failed: Mapping[str, str],
) -> dict[str, Any]:
    """The answer as JSON. `stated` says whether the instant was asked for; `failed` has the error
    of each task without an output."""
    answer = Answer()
    because = "" if stated else " (the last instant on record, because none was named)"
    answer.lines.append(f"As of {as_of}{because}:")
    for task in in_order(tasks):
        if task.id in found:
            path, output = found[task.id]
            words = _subject(str(task.inputs.get("query", "")))
            _TELLERS.get(task.agent, _rows)(answer, task, path, output, words)
        else:
            answer.missing.append(f"{task.why}: {failed.get(task.id, 'no answer')}")
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


def _words(text: str) -> list[str]:
    """The words of a text; an amount is one word, however it is written: $140k, $140,000."""
    return stems(_AMOUNT.sub(_amount, text))


def _amount(found: re.Match[str]) -> str:
    digits, unit = found[2].replace(",", ""), (found[3] or "").lower()
    if not found[1] and not unit and "," not in found[2] and len(digits) < LONG:
        return found[0]
    value = float(digits) * {"": 1, "k": 1_000, "m": 1_000_000, "b": 1_000_000_000}[unit]
    return f" {value:.0f}amount " if value >= 1 else found[0]


def _alike(one: str, other: str) -> bool:
    if one == other:
        return True
    long = one.isalpha() and other.isalpha() and min(len(one), len(other)) >= MISSPELT
    return long and bool(OSA.normalized_similarity(one, other) >= SIMILAR)


def _subject(topic: str) -> frozenset[str]:
    """The words that say what a topic is about: its dates, and the words of the field, fit many
    other markets too. Its years stay: a market of another year is another market."""
    every = _words(topic)
    return frozenset([word for word in every if not _COMMON.fullmatch(word)] or every)


def _fits(words: frozenset[str], title: str | None) -> bool:
    """True where a title has more than half of the topic's words, or half with a figure among them,
    and no other year. A word may be misspelt."""
    found = set(_words(title or ""))
    years, others = ({w for w in said if _YEAR.fullmatch(w)} for said in (words, found))
    if years and others and not years & others:
        return False
    asked = words - years or words
    shared = {word for word in asked if any(_alike(word, other) for other in found)}
    figure = any(_FIGURE.fullmatch(word) for word in shared)
    return 2 * len(shared) > len(asked) or (figure and 2 * len(shared) == len(asked))


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
    """A number as its record has it, without the noise of floating point."""
    text = repr(round(value, 10))
    return text.removesuffix(".0")


def _shortened(line: str) -> str:
    """A line for people: no control characters, cut at a word."""
    text = "".join(letter if letter.isprintable() else " " for letter in line)
    return text if len(text) <= LINE else f"{text[:LINE].rpartition(' ')[0] or text[:LINE]} …"


def _markets(
    answer: Answer, task: Task, path: str, output: OutputEnvelope, words: frozenset[str]
) -> None:
    """What the best markets say."""
    (row,) = output.data
    fitting = [market for market in row["markets"] if _market_fits(market, words)]
    fitting.sort(key=lambda market: bool(market["status"] != MARKET_STATUS_ACTIVE))
    if row["search_method"] == "top_volume" or not fitting:
        answer.missing.append(f"{task.why}: no market fits {row['query']!r}")
        return
    known = {one["id"] for one in answer.citations if one["kind"] == "market"}
    for market in [one for one in fitting[:SHOWN] if one["market_id"] not in known]:
        mark = answer.cite(
            task, path, "market", market["market_id"], url=market["url"], title=market["title"]
        )
        answer.lines.append(f"- {market['title']} {_price(market)} ({_state(market)}) {mark}")
    if len(fitting) > SHOWN:
        answer.lines.append(f"  ({len(fitting) - SHOWN} more in {path})")


def _market_fits(market: Mapping[str, Any], words: frozenset[str]) -> bool:
    """True where the model rated it so, or without a model where its title has the words."""
    rated: float | None = market.get("relevance_score")
    return _fits(words, market["title"]) if rated is None else rated >= RELEVANT


def _price(market: Mapping[str, Any]) -> str:
    prices = market["prices"]
    name = next((outcome for outcome in market["outcomes"] if outcome in prices), None)
    if name is None:
        return "has no price on record"
    is_at = "is at" if market["status"] == MARKET_STATUS_ACTIVE else "was last at"
    return f"{name} {is_at} {_figure(prices[name])}"


def _state(market: Mapping[str, Any]) -> str:
    close = f", closes {market['close_time'][:10]}" if market["close_time"] else ""
    return f"{market['status']}{close}"


def _moves(
    answer: Answer, task: Task, path: str, output: OutputEnvelope, words: frozenset[str]
) -> None:
    """How the markets that were shown moved."""
    shown = {one["id"]: one for one in answer.citations if one["kind"] == "market"}
    told = 0
    for row in output.data:
        if row["market_id"] not in shown:
            continue
        first, last, told = row["first"], row["last"], told + 1
        change = row["change"]
        moved = "did not move" if not change else f"moved {'+' * (change > 0)}{_figure(change)}"
        cited = shown[row["market_id"]]
        mark = answer.cite(
            task, path, HISTORY, row["market_id"], title=cited.get("title"),
            start=first["date"], end=last["date"],
        )  # fmt: skip
        answer.lines.append(
            f"- {cited.get('title')} {moved}: {_figure(first['yes'])} on {first['date']}, "
            f"{_figure(last['yes'])} on {last['date']} (low {_figure(row['low'])}, high "
            f"{_figure(row['high'])}) {mark}"
        )
    if not told:
        answer.missing.append(f"{task.why}: no price in that time of a market that fits")


def _pages(
    answer: Answer, task: Task, path: str, output: OutputEnvelope, words: frozenset[str]
) -> None:
    """Pages of the sites that say more than the markets did."""
    (row,) = output.data
    known = {one.get("url") for one in answer.citations}
    fitting = [hit for hit in row["results"] if _fits(words, hit["title"])]
    if not fitting:
        answer.missing.append(f"{task.why}: no page of {row['domains_searched']}")
    for hit in [hit for hit in fitting if hit["url"] not in known][:PAGES]:
        mark = answer.cite(task, path, "page", hit["url"], title=hit["title"])
        answer.lines.append(f"- {hit['domain']}: {hit['title']} {mark}")


def _documents(
    answer: Answer, task: Task, path: str, output: OutputEnvelope, words: frozenset[str]
) -> None:
    """What was reported, newest first."""
    if not output.data:
        answer.missing.append(f"{task.why}: no document fits")
    newest = sorted(output.data, key=lambda row: row["timestamp"], reverse=True)
    for row in newest[:DOCUMENTS]:
        mark = answer.cite(
            task, path, "document", row["id"], url=row["url"], known_at=row["timestamp"]
        )
        answer.lines.append(f"- {row['timestamp'][:10]} {row['title']} {mark}")


def _quotes(
    answer: Answer, task: Task, path: str, output: OutputEnvelope, words: frozenset[str]
) -> None:
    """How many rows there are; their statistics are another task's."""
    if not output.data:
        answer.missing.append(f"{task.why}: no row of the market-data table fits")
        return
    mark = answer.cite(task, path, "quotes", path, query=output.metadata.query)
    answer.lines.append(f"- {len(output.data):,} rows: {task.why} {mark}")


def _statistics(
    answer: Answer, task: Task, path: str, output: OutputEnvelope, words: frozenset[str]
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


def _code(
    answer: Answer, task: Task, path: str, output: OutputEnvelope, words: frozenset[str]
) -> None:
    """What code printed, made of what its tools answered."""
    (row,) = output.data
    printed = row["output"].strip() or str(row["result"])
    lines = printed.splitlines()
    mark = answer.cite(task, path, "code", path, question=row["question"])
    answer.lines.append(f"- {task.why} {mark}:")
    answer.lines += [f"    {_shortened(line)}" for line in lines[:CODE_LINES]]
    if len(lines) > CODE_LINES:
        answer.lines.append(f"    ({len(lines) - CODE_LINES} more lines in {path})")


def _rows(
    answer: Answer, task: Task, path: str, output: OutputEnvelope, words: frozenset[str]
) -> None:
    """What another agent wrote: how much, and where."""
    n = len(output.data)
    mark = answer.cite(task, path, "output", path, query=output.metadata.query)
    answer.lines.append(f"- {task.why}: {n:,} row{'' if n == 1 else 's'} by {task.agent} {mark}")


_TELLERS: dict[str, Teller] = {
    "polymarket-agent": _markets,
    "kalshi-agent": _markets,
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
