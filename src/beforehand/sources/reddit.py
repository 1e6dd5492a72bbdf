"""Reddit posts and comments as observations. Reads need OAuth with approved credentials since
2025; stored threads (`data/reddit_cache/threads/*.json`) need nothing.

A post or comment is known when it was written, or last edited, because the answer holds the edited
text. Scores and counts show the moment of the fetch and go to `now`.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NotRequired, TypedDict
from urllib.parse import quote

from beforehand.clock import iso, parse_instant, to_us
from beforehand.ids import digest
from beforehand.records.record import Record
from beforehand.records.world import Observation
from beforehand.sources.base import Limit, Parse, Provider, Request, Source, params, snapshot
from beforehand.sources.fields import answer, each, mapping, number, required, rows, seconds, text

SOURCE = "reddit"
WINDOWS = {"3m": "year", "6m": "year", "12m": "year", "24m": "all", "all": "all"}


def search_request(query: str, subreddit: str | None, window: str, limit: int) -> Request:
    """Posts that match, in one subreddit or in all."""
    path = f"/r/{quote(subreddit, safe='')}/search" if subreddit else "/search"
    values = {
        "q": query,
        "restrict_sr": bool(subreddit),
        "sort": "relevance",
        "t": WINDOWS[window],
        "limit": limit,
        "type": "link",
        "raw_json": 1,
    }
    return Request("reddit", "search", path, params(values))


def thread_request(post_id: str, depth: int, limit: int) -> Request:
    """A post with its comments."""
    values = {"depth": depth, "limit": limit, "sort": "confidence", "raw_json": 1}
    return Request(
        "reddit",
        "comments",
        f"/comments/{quote(post_id.removeprefix('t3_'), safe='')}",
        params(values),
    )


@answer("a Reddit answer")
def parse(raw: Any, fetched_at: datetime) -> list[Observation]:
    """Every post (t3) and comment (t1) of a listing, of a thread, or of `morechildren`."""
    if isinstance(raw, dict) and isinstance(raw.get("json"), dict):
        raw = mapping(raw["json"].get("data"), "data").get("things")
    out: list[Callable[[], Observation]] = []
    stack = list(reversed(rows(raw if isinstance(raw, list) else [raw], "a Reddit answer")))
    while stack:
        thing = mapping(stack.pop(), "a thing")
        kind, data = thing.get("kind"), mapping(thing.get("data"), "data")
        if kind == "Listing":
            stack += reversed(rows(data.get("children"), "children"))
        elif kind == "t3":
            out.append(partial(_post, data, fetched_at))
        elif kind == "t1":
            out.append(partial(_comment, data, fetched_at))
            if isinstance(data.get("replies"), dict):
                stack.append(data["replies"])
    return each(out, lambda read: read())


def _written(data: Mapping[str, object], fetched_at: datetime) -> tuple[datetime, datetime]:
    """(created, known): an edit makes the text known later; where it has no time (`true`, on very
    old posts, and a removal) the text counts as of the fetch."""
    created = seconds(required(data, "created_utc"))
    edited = data.get("edited")
    gone = {"[removed]", "[deleted]"} & {
        data.get(k) for k in ("selftext", "body", "author", "title")
    }
    if edited is True or gone:
        return created, fetched_at
    return created, max(created, seconds(edited)) if edited else created


def _post(data: Mapping[str, object], fetched_at: datetime) -> Observation:
    created, known = _written(data, fetched_at)
    name = str(required(data, "id"))
    return Observation(
        source=SOURCE,
        kind="post",
        subject=str(data.get("subreddit") or "").lower(),
        id=name,
        data={
            "id": name,
            "subreddit": text(data.get("subreddit")),
            "title": text(data.get("title")) or "",
            "selftext": text(data.get("selftext")) or "",
            "author": text(data.get("author")),
            "created_at": iso(created),
            "permalink": text(data.get("permalink")),
            "url": text(data.get("url")),
        },
        known_at=known,
        now={
            "score": number(data.get("score")),
            "num_comments": number(data.get("num_comments")),
        },
        now_known_at=fetched_at,
    )


def _comment(data: Mapping[str, object], fetched_at: datetime) -> Observation:
    created, known = _written(data, fetched_at)
    name = str(required(data, "id"))
    return Observation(
        source=SOURCE,
        kind="comment",
        subject=str(data.get("link_id") or "").removeprefix("t3_"),
        id=name,
        data={
            "id": name,
            "body": text(data.get("body")) or "",
            "author": text(data.get("author")),
            "created_at": iso(created),
            "parent": text(data.get("parent_id")),
        },
        known_at=known,
        now={"score": number(data.get("score"))},
        now_known_at=fetched_at,
    )


class StoredThread(TypedDict):
    """A file of the cache: the post and its comments, each an Observation in its wire form, and the
    digest of both."""

    post: dict[str, object]
    comments: list[dict[str, object]]
    digest: NotRequired[str]


def thread_file(post: Observation, comments: Sequence[Observation]) -> StoredThread:
    """A thread as the cache keeps it: what was parsed, with its times."""
    made: StoredThread = {
        "post": post.wire(),
        "comments": [comment.wire() for comment in comments],
    }
    return {**made, "digest": digest(made)}


@answer("a cached Reddit thread")
def parse_thread_file(raw: Any, stored_at: datetime) -> list[Observation]:
    """A cache file: ours, a raw Reddit answer, or a plain thread (both known as of `stored_at`, its
    `recorded_at`, as far as they do not say when they were written). Raises ValueError for one of
    ours that was changed."""
    if isinstance(raw, dict) and "post" in raw and "comments" in raw:
        held = {key: raw[key] for key in ("post", "comments")}
        if "digest" in raw and raw["digest"] != digest(held):
            raise ValueError("it was changed after it was stored: it does not have its digest")
        return [Observation.model_validate(row) for row in [raw["post"], *raw["comments"]]]
    if isinstance(raw, dict) and "body" in raw and "uri" in raw:
        return parse(raw["body"], stored_at)
    if isinstance(raw, dict) and "title" in raw and "kind" not in raw:
        return _plain(raw, stored_at)
    return parse(raw, stored_at)


def _plain(raw: Mapping[str, object], stored_at: datetime) -> list[Observation]:
    """A thread as programs write it: `id`, `title`, `selftext`, `subreddit`, `author`,
    `created_utc` (seconds; or `created_at`, ISO 8601) and `comments`, each with `id`, `body`,
    `author`, its time, and its own `comments` or `replies`. What has no time is known from when it
    was stored."""
    post = _post(_dated(raw, stored_at), stored_at)
    out, stack = [post], [raw]
    while stack:
        parent = stack.pop()
        for key in ("comments", "replies"):
            for one in rows(parent.get(key) or [], key):
                comment = mapping(one, "a comment")
                filed = {"parent_id": parent["id"], **_dated(comment, stored_at)}
                out.append(_comment({**filed, "link_id": f"t3_{post.id}"}, stored_at))
                stack.append(comment)
    return out


def _dated(data: Mapping[str, object], stored_at: datetime) -> dict[str, object]:
    """With the time at which it was written as Reddit has it."""
    said = data.get("created_utc")
    if said is None:
        written = data.get("created_at")
        said = to_us(stored_at if written is None else parse_instant(str(written))) / 1e6
    return {**data, "created_utc": said}


THREAD_LIMIT, THREAD_DEPTH = 200, 8


def _posts(subject: str, until: datetime, live: bool) -> list[tuple[Request, Parse]]:
    subreddit, window, limit, query = subject.split("|", 3)

    def read(body: Any, at: datetime) -> list[Any]:
        posts = parse(body, at)
        ids = [post.id for post in posts]
        return [snapshot(SOURCE, "search", subject, ids, at), *posts]

    return [(search_request(query, subreddit or None, window, int(limit)), read)]


def _thread(subject: str, until: datetime, live: bool) -> list[tuple[Request, Parse]]:
    request = thread_request(subject, THREAD_DEPTH, THREAD_LIMIT)
    return [(request, lambda b, at: list(parse(b, at)))]


def read_recorded(raw: Any, fetched_at: datetime, market: str | None) -> list[Record]:
    """A thread file of the cache."""
    return list(parse_thread_file(raw, fetched_at))


THE_SOURCE = Source(
    SOURCE,
    (
        Provider(
            "reddit",
            "Reddit Data API",
            "https://oauth.reddit.com",
            (Limit(60, 60.0),),  # The lower of the figures in circulation.
            auth="reddit",
            keys=("REDDIT_CLIENT_ID", "REDDIT_CLIENT_SECRET"),
            without="Reddit needs approved credentials since late 2025; the cache-backed "
            "reddit_search_and_fetch_threads works without",
        ),
        Provider(
            "reddit-auth",
            "Reddit sign-in",
            "https://www.reddit.com",
            (Limit(10, 60.0),),
            auth="reddit",
            keys=("REDDIT_CLIENT_ID", "REDDIT_CLIENT_SECRET"),
        ),
    ),
    answers={"search": _posts, "comment": _thread},
    recorded=read_recorded,
)
