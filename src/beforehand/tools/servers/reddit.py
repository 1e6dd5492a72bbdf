"""The `reddit` server: threads from the cache, or from Reddit's API with approved credentials."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Self

from pydantic import Field
from typing_extensions import TypedDict

from beforehand.clock import iso, parse_instant
from beforehand.errors import InputError, NotConfigured, NotFound, ReplayMiss
from beforehand.gateway.search import words
from beforehand.records.plan import (
    COMMENT_DEPTH,
    COMMENT_LIMIT,
    MOST_PER_QUERY,
    PER_QUERY_LIMIT,
    Comments,
    Depth,
    LeastComments,
    LeastScore,
    PerQuery,
    ScoutLimits,
    Window,
)
from beforehand.records.world import Observation
from beforehand.sources import reddit
from beforehand.tools.bounds import Rows
from beforehand.tools.registry import Call, Example, Row, server, tool


class Threads(TypedDict):
    threads: list[Row]
    thread_count: int


SERVER = server(
    "reddit",
    "Reddit threads, stored or fetched with approved credentials.",
)
LISTING = Example("recorded", "2016-07-12", "Reddit listings and comments (old shape)")
MOST_KEYWORDS = 20
THREADS = Rows(
    "threads",
    default=PER_QUERY_LIMIT,
    maximum=MOST_KEYWORDS * MOST_PER_QUERY,
    counts=("thread_count",),
)
WINDOW_DAYS = {"3m": 91, "6m": 182, "12m": 365, "24m": 730}
Keyword = Annotated[
    str | None, Field(min_length=1, max_length=400, description="A thread must match it.")
]
Keywords = Annotated[
    list[str] | None,
    Field(min_length=1, max_length=MOST_KEYWORDS, description="A thread must match one of them."),
]
Name = Annotated[str, Field(pattern=r"^(r/)?[A-Za-z0-9_]{2,30}$")]
Subreddits = Annotated[tuple[Name, ...], Field(max_length=50, description="Only these [all].")]


@dataclass(frozen=True)
class Wanted:
    """Which threads are wanted, and how much of each."""

    keywords: Sequence[str]
    subreddits: Sequence[str]
    time_window: str
    limits: ScoutLimits

    @classmethod
    def of(
        cls,
        keyword: str | None,
        keywords: list[str] | None,
        subreddits: Sequence[str],
        time_window: str,
        **limits: int,
    ) -> Self:
        """Raises InputError without a keyword."""
        named = list(dict.fromkeys([*([keyword] if keyword else []), *(keywords or [])]))
        if not named:
            raise InputError("name a keyword, or several with keywords")
        return cls(named, subreddits, time_window, ScoutLimits(**limits))


@tool(SERVER, example=LISTING, rows=THREADS)
def reddit_search_and_fetch_threads(
    call: Call,
    *,
    keyword: Keyword = None,
    keywords: Keywords = None,
    subreddits: Subreddits = (),
    time_window: Window = "all",
    per_query_limit: PerQuery = PER_QUERY_LIMIT,
    comment_depth: Depth = COMMENT_DEPTH,
    comment_limit: Comments = COMMENT_LIMIT,
    min_num_comments: LeastComments = 0,
    min_score: LeastScore = 0,
) -> Threads:
    """Search stored Reddit threads (data/reddit_cache/threads and the archive). No network.

    Scores and comment counts are shown, and filtered by, only where they were seen by the
    instant of the answer.
    """
    wanted = Wanted.of(
        keyword, keywords, subreddits, time_window, per_query_limit=per_query_limit,
        comment_depth=comment_depth, comment_limit=comment_limit,
        min_num_comments=min_num_comments, min_score=min_score,
    )  # fmt: skip
    return _stored(call, wanted)


@tool(SERVER, example=LISTING, rows=THREADS, services=("reddit",))
def reddit_api_search_and_fetch_threads(
    call: Call,
    *,
    keyword: Keyword = None,
    keywords: Keywords = None,
    subreddits: Subreddits = (),
    time_window: Window = "all",
    per_query_limit: PerQuery = PER_QUERY_LIMIT,
    comment_depth: Depth = COMMENT_DEPTH,
    comment_limit: Comments = COMMENT_LIMIT,
    min_num_comments: LeastComments = 0,
    min_score: LeastScore = 0,
) -> Threads:
    """Search Reddit through its API and keep the threads in the cache.

    Needs approved credentials (REDDIT_CLIENT_ID, REDDIT_CLIENT_SECRET). Without them, and since
    live Reddit cannot look back also under `as_of` and on record, stored threads answer, and a note
    says so.
    """
    wanted = Wanted.of(
        keyword, keywords, subreddits, time_window, per_query_limit=per_query_limit,
        comment_depth=comment_depth, comment_limit=comment_limit,
        min_num_comments=min_num_comments, min_score=min_score,
    )  # fmt: skip
    if call.storage.mode != "replay" and call.view.live:
        try:
            _collect(call, wanted)
        except NotConfigured as error:
            call.note(f"stored threads: {error}")
    else:
        call.note("stored threads: Reddit's API cannot look back")
    return _stored(call, wanted)


def _stored(call: Call, wanted: Wanted) -> Threads:
    """For each keyword the newest stored threads that pass the filters; a thread is shown once."""
    limits, window = wanted.limits, wanted.time_window
    posts = call.view.observations(reddit.SOURCE, "post", None)
    allowed = {name.lower().removeprefix("r/") for name in wanted.subreddits}
    since = None if window == "all" else call.at - timedelta(days=WINDOW_DAYS[window])
    posts = [
        post
        for post in posts
        if (not allowed or post.subject in allowed) and (since is None or _written(post) >= since)
    ]
    held = [(post, _words_of(post)) for post in posts]
    filtered, unseen = bool(limits.min_num_comments or limits.min_score), set[str]()
    found = dict[str, Observation]()
    for keyword in wanted.keywords:
        taken = 0
        for post in _matching(held, keyword):
            counts = (post.now.get("num_comments"), post.now.get("score"))
            if filtered and None in counts:
                unseen.add(post.id)
            elif not _passes(counts, limits):
                continue
            if taken == limits.per_query_limit:
                break
            taken += 1
            found.setdefault(post.id, post)
    unseen &= found.keys()
    if unseen:
        at = iso(call.at)
        call.note(f"{len(unseen)} threads pass unfiltered: their counts were not seen by {at}")
    replies = _stored_comments(call)
    threads = [
        {
            **post.data,
            **post.now,
            "known_at": iso(post.known_at),
            "comments": _comments(
                replies.get(post.id, []), limits.comment_depth, limits.comment_limit
            ),
        }
        for post in sorted(found.values(), key=lambda post: post.known_at, reverse=True)
    ]
    return {"threads": threads, "thread_count": len(threads)}


def _passes(counts: tuple[Any, Any], limits: ScoutLimits) -> bool:
    comments, score = counts
    return (comments or 0) >= limits.min_num_comments and (score or 0) >= limits.min_score


def _collect(call: Call, wanted: Wanted) -> None:
    """Ask the API and store what it shows, thread by thread."""
    limit, fetched = wanted.limits.per_query_limit, 0
    for keyword in wanted.keywords:
        for name in wanted.subreddits or [""]:
            subreddit = name.removeprefix("r/")
            subject = f"{subreddit}|{wanted.time_window}|{limit}|{keyword}"
            ids = call.view.snapshot(reddit.SOURCE, "search", subject).data["rows"]
            for post_id in ids[:limit]:
                call.progress(fetched := fetched + 1, None, f"{keyword}: thread {post_id}")
                call.view.observations(reddit.SOURCE, "comment", post_id)
    call.storage.keep_threads()


def _written(post: Observation) -> datetime:
    """When a post was written. (It may be known later: since its last edit.)"""
    return parse_instant(str(post.data["created_at"]))


def _words_of(post: Observation) -> set[str]:
    return set(words(f"{post.data.get('title', '')} {post.data.get('selftext', '')}"))


def _matching(held: list[tuple[Observation, set[str]]], keyword: str) -> list[Observation]:
    """Posts that hold all content words of a keyword, newest first."""
    wanted = set(words(keyword)) or {keyword.lower()}
    return [post for post, found in held if wanted <= found]


def _stored_comments(call: Call) -> dict[str, list[Observation]]:
    """Every stored comment known at t, by thread; no thread is asked for."""
    try:
        rows = call.view.observations(reddit.SOURCE, "comment", None)
    except (ReplayMiss, NotFound):
        return {}
    threads: dict[str, list[Observation]] = {}
    for row in rows:
        threads.setdefault(row.subject, []).append(row)
    return threads


def _comments(found: list[Observation], depth: int, limit: int) -> list[Row]:
    """A thread's comments, oldest first, to a depth."""
    levels: dict[str, int] = {}
    shown: list[Row] = []
    for row in reversed(found):
        parent = str(row.data.get("parent") or "")
        level = levels.get(parent.removeprefix("t1_"), 0) + 1 if parent.startswith("t1_") else 1
        levels[row.id] = level
        if level <= max(depth, 0) and len(shown) < limit:
            shown.append({**row.data, **row.now, "known_at": iso(row.known_at), "depth": level})
    return shown
