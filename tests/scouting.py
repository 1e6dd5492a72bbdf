"""Plans, threads and artifacts for the tests of the scout."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from beforehand.config import Home
from beforehand.store.database import Database
from beforehand.store.journal.journal import Journal

GOLDEN = json.loads(
    (Path(__file__).parent / "contracts" / "records" / "scout_plan.json").read_text()
)


AT = "2025-06-25T00:00:00Z"


FILES = ("plan.json", "reddit_index.json", "scout_think.json", "scout_output.json")


EIGHT = ["rain", "snow", "hail", "fog", "frost", "flood", "storm", "wind"]


def thread(name: str, title: str, day: int, comments: int = 0) -> dict[str, Any]:
    """A raw Reddit answer with one post and a comment each day."""
    at = 1_750_000_000 + 86_400 * day
    post = {
        "id": name, "subreddit": "weather", "title": title, "selftext": f"About {title}.",
        "score": 3, "num_comments": 5, "created_utc": at, "permalink": f"/r/weather/{name}/",
    }  # fmt: skip
    replies = [
        {"kind": "t1", "data": {"id": f"{name}c{n}", "link_id": f"t3_{name}", "body": f"reply {n}",
                                "parent_id": f"t3_{name}", "created_utc": at + 86_400 * n}}
        for n in range(1, comments + 1)
    ]  # fmt: skip
    listing = [[{"kind": "t3", "data": post}], replies]
    return {
        "uri": f"/comments/{name}", "recorded_at": "2025-09-01T00:00:00",
        "body": [{"kind": "Listing", "data": {"children": part}} for part in listing],
    }  # fmt: skip


def write_cache(root: Path) -> None:
    folder = root / "data" / "reddit_cache" / "threads"
    folder.mkdir(parents=True)
    for n, word in enumerate([*EIGHT, "rain and snow"]):
        made = thread(f"t{n}", f"{word} tomorrow", n, comments=3)
        (folder / f"t{n}.json").write_text(json.dumps(made))


@pytest.fixture
def cache(home: Path) -> Path:
    """Nine threads in the cache, one of two keywords; there is no archive."""
    write_cache(home)
    return home


def plan(keywords: list[str] | None = None, **collect: Any) -> dict[str, Any]:
    """The golden plan over these keywords, with other fields of its collect node."""
    made = deepcopy(GOLDEN)
    made |= {"keywords": keywords or ["rain"], "time_window": "all", "subreddits": []}
    made["limits"] |= {"min_num_comments": 0}
    made["dag"]["nodes"][1] |= {"params": None, **collect}
    return made


def written(path: Path, made: object) -> str:
    path.write_text(json.dumps(made))
    return str(path)


def artifacts(root: Path, run: str) -> dict[str, bytes]:
    folder = root / "data" / "runs" / run
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.name not in ("run.json", "log.json")
    }


def sent(root: Path, run: str) -> list[tuple[str, int]]:
    """Each call of a tool in a run, and how often it was sent."""
    rows = Journal(Database(Home(root).journal)).calls.rows(run)
    return sorted((row["call_key"], row["attempts"]) for row in rows)
