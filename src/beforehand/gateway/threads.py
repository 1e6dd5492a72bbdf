"""Reddit threads on disk, one file each: `data/reddit_cache/threads/{id}.json`."""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from beforehand.clock import parse_instant
from beforehand.errors import BeforehandError
from beforehand.ids import is_segment
from beforehand.records.world import Observation
from beforehand.sources import reddit
from beforehand.store.files import read_json, write_json

LOG = logging.getLogger(__name__)


def read_threads(folder: Path, now: datetime) -> Iterator[Observation]:
    """Posts and comments of every thread file. A raw Reddit answer counts as fetched when it says
    (`recorded_at`), else now; a file that is no thread is left out, with a warning."""
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            raw = read_json(path)
            yield from reddit.parse_thread_file(raw, _stored_at(raw, now))
        except BeforehandError as error:
            LOG.warning("%s is left out, it is no Reddit thread: %s", path, error)


def _stored_at(raw: object, now: datetime) -> datetime:
    stamp = raw.get("recorded_at") if isinstance(raw, dict) else None
    try:
        return parse_instant(f"{stamp}Z" if stamp and len(str(stamp)) == 19 else str(stamp))
    except ValueError:
        return now


def write_threads(folder: Path, records: Iterable[Observation]) -> int:
    """Store posts with their comments, a file a thread; returns how many threads."""
    posts: dict[str, Observation] = {}
    comments: dict[str, list[Observation]] = defaultdict(list)
    for record in records:
        if record.source == reddit.SOURCE and record.kind == "post":
            posts[record.id] = record
        elif record.source == reddit.SOURCE and record.kind == "comment" and not record.snapshot:
            comments[record.subject].append(record)
    for name, post in posts.items():
        if is_segment(name):
            write_json(folder / f"{name}.json", reddit.thread_file(post, comments[name]))
    return len(posts)
