"""The `reddit` server: threads from the cache, or from Reddit's API with approved credentials."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from beforehand.clock import iso
from beforehand.errors import NotFound, ReplayMiss
from beforehand.gateway.search import words
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
THREADS = Rows("threads", default=10, maximum=100, counts=("thread_count",))
WINDOW_DAYS = {"3m": 91, "6m": 182, "12m": 365, "24m": 730}
Keywords = Annotated[
    list[str], Field(min_length=1, max_length=20, description="A thread must match one of them.")
]
Name = Annotated[str, Field(pattern=r"^(r/)?[A-Za-z0-9_]{2,30}$")]
Subreddits = Annotated[tuple[Name, ...], Field(max_length=50, description="Only these [all].")]
Window = Annotated[
    Literal["3m", "6m", "12m", "24m", "all"], Field(description="Counted back from the instant.")
]
Depth = Annotated[int, Field(ge=0, le=20, description="Levels of replies.")]
Comments = Annotated[int, Field(ge=0, le=500, description="Comments a thread.")]
Least = Annotated[int, Field(ge=0, description="Only threads with at least so many.")]


@tool(SERVER, example=LISTING, rows=THREADS)
def reddit_search_and_fetch_threads(
    call: Call,
    *,
    keywords: Keywords,
    subreddits: Subreddits = (),
    time_window: Window = "all",
    comment_depth: Depth = 3,
    comment_limit: Comments = 20,
    min_num_comments: Least = 0,
    min_score: Least = 0,
) -> Threads:
    """Search stored Reddit threads (data/reddit_cache/threads and the archive). No network.

    Scores and comment counts are shown, and filtered by, only where they were seen by the
    instant of the answer.
    """
    posts = call.view.observations(reddit.SOURCE, "post", None)
    allowed = {name.lower().removeprefix("r/") for name in subreddits}
    since = None if time_window == "all" else call.at - timedelta(days=WINDOW_DAYS[time_window])
    threads, unseen = [], 0
    replies = _stored_comments(call)
    for post in _matching(posts, keywords):
        if allowed and post.subject not in allowed:
            continue
        if since is not None and post.known_at < since:
            continue
        counts = (post.now.get("num_comments"), post.now.get("score"))
        if any(value is None for value in counts) and (min_num_comments or min_score):
            unseen += 1
        elif (counts[0] or 0) < min_num_comments or (counts[1] or 0) < min_score:
            continue
        comments = _comments(replies.get(post.id, []), comment_depth, comment_limit)
        threads.append({**post.data, **post.now, "comments": comments})
    if unseen:
        call.note(f"{unseen} threads pass unfiltered: their counts were not seen by {iso(call.at)}")
    return {"threads": threads, "thread_count": len(threads)}


@tool(SERVER, example=LISTING, rows=THREADS, services=("reddit",))
def reddit_api_search_and_fetch_threads(
    call: Call,
    *,
    keywords: Keywords,
    subreddits: Subreddits = (),
    time_window: Window = "all",
    comment_depth: Depth = 3,
    comment_limit: Comments = 20,
    min_num_comments: Least = 0,
    min_score: Least = 0,
) -> Threads:
    """Search Reddit through its API and keep the threads in the cache.

    Needs approved credentials (REDDIT_CLIENT_ID, REDDIT_CLIENT_SECRET). Live Reddit cannot look
    back: under `as_of`, and on record, stored threads answer.
    """
    if call.storage.mode != "replay" and call.view.live:
        _collect(call, keywords, subreddits, time_window)
    else:
        call.note("stored threads: Reddit's API cannot look back")
    return reddit_search_and_fetch_threads(
        call,
        keywords=keywords,
        subreddits=subreddits,
        time_window=time_window,
        comment_depth=comment_depth,
        comment_limit=comment_limit,
        min_num_comments=min_num_comments,
        min_score=min_score,
    )


def _collect(call: Call, keywords: list[str], subreddits: Sequence[str], window: str) -> None:
    """Ask the API and store what it shows, thread by thread."""
    limit, fetched = max(call.wanted, 1), 0
    for keyword in keywords:
        for name in subreddits or [""]:
            subreddit = name.removeprefix("r/")
            subject = f"{subreddit}|{window}|{limit}|{keyword}"
            ids = call.view.snapshot(reddit.SOURCE, "search", subject).data["rows"]
            for post_id in ids[:limit]:
                call.progress(fetched := fetched + 1, None, f"{keyword}: thread {post_id}")
                call.view.observations(reddit.SOURCE, "comment", post_id)
    call.storage.keep_threads()


def _matching(posts: list[Observation], keywords: list[str]) -> list[Observation]:
    """Posts that hold all content words of one keyword, newest first."""
    wanted = [set(words(keyword)) or {keyword.lower()} for keyword in keywords]

    def fits(post: Observation) -> bool:
        held = set(words(f"{post.data.get('title', '')} {post.data.get('selftext', '')}"))
        return any(group <= held for group in wanted)

    return [post for post in posts if fits(post)]


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
            shown.append({**row.data, **row.now, "depth": level})
    return shown
