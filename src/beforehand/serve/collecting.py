"""Taking forecasts from MCP clients: `submit_forecasts`, beside the read-only tools.

What a client submits is written down with the user that its token names and the instant that it is
pinned to, as the server saw them: nobody states a time. With days it is FutureSim's interface,
three tools over a pinned world: `search_news`, `submit_forecasts`, and `next_day`, which moves the
user's instant on by a day and never back.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import Field
from typing_extensions import TypedDict

from beforehand.clock import Clock, iso, parse_instant
from beforehand.errors import BadAnswer, InputError, NotFound
from beforehand.forecast.answers import read_probability
from beforehand.store.files import TURN, append_jsonl, exclusive, read_lines
from beforehand.tools.registry import Call, Tool
from beforehand.tools.servers.discovery_mode import INSIDE

MOST, LONGEST_REASON, MOST_NEWS = 1000, 4000, 20
"""Forecasts of one call, characters of a reason, articles of one search."""
DAY = timedelta(days=1)
NAMES = ("market_id", "id", "qid", "question_id", "ticker")
VALUES = ("probability", "p_yes", "p", "prediction", "forecast", "answer")


class Refusal(TypedDict):
    """A forecast that was not taken, and why."""

    id: str
    why: str


class Submitted(TypedDict):
    """How many forecasts were taken, those that were not, and the instant that they count for."""

    accepted: int
    as_of: str
    refused: list[Refusal]


class Article(TypedDict):
    """A text as it was known."""

    title: str
    source: str | None
    date: str
    content: str
    url: str | None


class News(TypedDict):
    """What a search found, best first, and the day that it is."""

    date: str
    articles: list[Article]


class Moved(TypedDict):
    """The day that it is now, which of the forecast questions ended on the way, and whether the
    last day is reached."""

    date: str
    resolved: list[dict[str, Any]]
    done: bool


@dataclass(frozen=True)
class Days:
    """FutureSim's days: the first and the last instant."""

    first: datetime
    last: datetime


class Collecting:
    """The file of what was submitted. Safe for threads and processes."""

    def __init__(self, path: Path, clock: Clock, days: Days | None = None) -> None:
        self._path, self._clock, self.days = path, clock, days
        self._today: dict[str | None, datetime] = {}
        self._guard = threading.Lock()
        for row in submitted(path) if path.is_file() else ():
            if "day" in row:
                self._today[row["user"]] = parse_instant(row["day"])

    @property
    def tools(self) -> dict[str, Tool]:
        """The tools that it adds; with days they are all there are."""
        made = [_tool("submit_forecasts", self._submit(), Submitted)]
        if self.days is not None:
            made += [_tool("search_news", _search, News), _tool("next_day", self._next(), Moved)]
        return {tool.name: tool for tool in made}

    def today(self, user: str | None) -> datetime | None:
        """The day that it is for a user; None without days."""
        if self.days is None:
            return None
        return min(self._today.get(user, self.days.first), self.days.last)

    def _submit(self) -> Any:
        def submit_forecasts(
            call: Call,
            *,
            forecasts: Annotated[
                list[dict[str, object]],
                Field(
                    max_length=MOST,
                    description='[{"id": market, "probability": p of YES, "rationale": why}].',
                ),
            ],
        ) -> Submitted:
            """Submit forecasts, as made at the instant that you are pinned to. A later one of the
            same market replaces an earlier one of the same instant."""
            return self._take(call, forecasts)

        return submit_forecasts

    def _take(self, call: Call, forecasts: list[dict[str, object]]) -> Submitted:
        view, user = call.view, call.toolbox.caller.user
        kept, refused = list[dict[str, object]](), list[Refusal]()
        for said in forecasts:
            name = str(next((said[key] for key in NAMES if key in said), ""))[:300]
            try:
                found = view.resolve_id(name)
                ending = view.resolution(found)
                if ending is not None:
                    raise InputError("its end is known already")
                value = next((said[key] for key in VALUES if key in said), None)
                read = read_probability(value)
            except (BadAnswer, InputError, NotFound) as error:
                refused.append({"id": name, "why": str(error)[:300]})
                continue
            why = said.get("rationale") or said.get("reasoning") or ""
            row: dict[str, object] = {
                "user": user,
                "id": found,
                "time": iso(view.t),
                "probability": read.p,
                "rationale": str(why)[:LONGEST_REASON],
                "received_at": iso(self._clock.now()),
            }
            kept.append(row if read.rule is None else {**row, "read_as": read.rule})
        self._write(kept)
        return {"accepted": len(kept), "as_of": iso(view.t), "refused": refused}

    def _next(self) -> Any:
        def next_day(call: Call) -> Moved:
            """Go on to the next day: what was known by its end is seen from now on. There is no way
            back."""
            return self._moved(call)

        return next_day

    def _moved(self, call: Call) -> Moved:
        days, user = self.days, call.toolbox.caller.user
        assert days is not None
        with self._guard:
            before = self._today.get(user, days.first)
            now = min(before + DAY, days.last)
            if now > before:
                self._write([{"user": user, "day": iso(now)}])
                self._today[user] = now
        rows = submitted(self._path)
        mine = {row["id"] for row in rows if row.get("user") == user and "id" in row}
        later = call.toolbox.gateway.at(now)
        ended = []
        for ending in later.resolutions():
            if ending.market_id in mine and ending.known_at > before:
                ended.append({"id": ending.market_id, "outcome": ending.payout})
        return {"date": iso(now), "resolved": ended, "done": now >= days.last}

    def _write(self, rows: list[dict[str, object]]) -> None:
        if rows:
            lock = self._path.with_name(self._path.name + ".lock")
            with self._writing, exclusive(lock, wait=TURN):
                append_jsonl(self._path, rows)

    _writing = threading.Lock()


def _search(
    call: Call,
    *,
    query: Annotated[str, Field(max_length=400, description="Words.")],
    max_results: Annotated[int, Field(ge=1, le=MOST_NEWS, description="Articles.")] = 10,
) -> News:
    """Search the news, as it was known today."""
    found = call.view.search(query, max_results)
    articles: list[Article] = [
        {
            "title": one.title,
            "source": one.source,
            "date": iso(one.known_at),
            "content": one.text,
            "url": one.url,
        }
        for one in found
    ]
    return {"date": iso(call.view.t), "articles": articles}


def _tool(name: str, function: Any, returns: Any) -> Tool:
    return Tool(name, "", function, returns, INSIDE, None, (), name == "search_news", None)


def submitted(path: Path) -> list[Mapping[str, Any]]:
    """What was written down, oldest first."""
    return [orjson.loads(line) for _, line in read_lines(path)] if path.is_file() else []
