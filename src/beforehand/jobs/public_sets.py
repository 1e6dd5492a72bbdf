"""Download ForecastBench's public sets: of one due date, or as they stood night after night.

A resolution set is written anew every night. For a market that has not ended it holds the day's
price, so the nights of a set, read from the history of its repository, are a price history in which
every price carries the time at which it was published.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from beforehand.clock import iso, parse_instant
from beforehand.errors import BadAnswer, InputError
from beforehand.gateway.transport import file_request
from beforehand.ids import digest
from beforehand.store.files import write_atomic
from beforehand.traffic import Traffic

FORECASTBENCH = (
    "https://raw.githubusercontent.com/forecastingresearch/forecastbench-datasets/main/datasets"
)
COMMITS = "https://api.github.com/repos/forecastingresearch/forecastbench-datasets/commits"
PER_PAGE = 100


def forecastbench(
    traffic: Traffic,
    due: str,
    out: Path,
    base: str = FORECASTBENCH,
    kind: str = "llm",
    sha256: Sequence[str] = (),
) -> list[dict[str, str]]:
    """Download the question set and the resolution set of a due date (YYYY-MM-DD) into `out`.

    If `sha256` is given (in the order question set, resolution set), a file with another digest is
    refused and nothing of it is kept.
    """
    names = (f"question_sets/{due}-{kind}.json", f"resolution_sets/{due}_resolution_set.json")
    if sha256 and len(sha256) != len(names):
        raise InputError(f"--sha256 takes {len(names)} digests: question set, resolution set")
    found = []
    for i, name in enumerate(names):
        url = f"{base.rstrip('/')}/{name}"
        body = traffic.fetch(file_request(url)).body
        if body[:1] not in (b"{", b"\x1f"):
            raise BadAnswer(f"{url} did not answer with JSON")
        mark = digest(body)
        if sha256 and mark != sha256[i]:
            raise BadAnswer(f"{url} has the digest {mark}, expected {sha256[i]}: not kept")
        target = out / Path(name).name
        write_atomic(target, body)
        found.append({"url": url, "path": str(target), "sha256": mark})
    return found


@dataclass(frozen=True)
class Night:
    """A resolution set as it stood after one night: its file, and when it was published."""

    path: Path
    published_at: datetime
    commit: str
    new: bool


def nights(
    traffic: Traffic,
    due: str,
    out: Path,
    since: datetime,
    until: datetime,
    base: str = FORECASTBENCH,
    commits: str = COMMITS,
    progress: Callable[[str, int, int], None] = lambda *_: None,
) -> list[Night]:
    """Download every version of the resolution set of a due date that was published in [since,
    until), oldest first. A version that is in `out` already is not asked for again: it never
    changes. Raises InputError where `base` does not name the branch `main`, BadAnswer for an answer
    that is not the history of a file."""
    if "/main/" not in base:
        raise InputError(f"--base-url {base}: it must contain /main/, which stands for the night")
    name = f"resolution_sets/{due}_resolution_set.json"
    found = sorted(_versions(traffic, commits, f"datasets/{name}", since, until))
    done = []
    for i, (at, commit) in enumerate(found):
        progress(iso(at), i, len(found))
        target = out / f"{due}_resolution_set.{at:%Y-%m-%d}.{commit[:12]}.json"
        new = not target.exists()
        if new:
            url = f"{base.rstrip('/').replace('/main/', f'/{commit}/', 1)}/{name}"
            body = traffic.fetch(file_request(url)).body
            if body[:1] != b"{":
                raise BadAnswer(f"{url} did not answer with JSON")
            write_atomic(target, body)
        done.append(Night(target, at, commit, new))
    progress("", len(found), len(found))
    return done


def _versions(
    traffic: Traffic, commits: str, path: str, since: datetime, until: datetime
) -> Iterator[tuple[datetime, str]]:
    """(published at, commit) of every version of a file, from GitHub's list of commits."""
    for number in range(1, 100):
        query = f"path={path}&since={iso(since)}&until={iso(until)}"
        url = f"{commits}?{query}&per_page={PER_PAGE}&page={number}"
        rows = _list(traffic.fetch(file_request(url)).text, commits)
        for row in rows:
            try:
                at, commit = parse_instant(row["commit"]["committer"]["date"]), str(row["sha"])
            except (KeyError, TypeError, ValueError):
                raise BadAnswer(f"{commits}: a commit without a date or an id") from None
            if not commit.isalnum():
                raise BadAnswer(f"{commits}: {commit!r} is not the id of a commit")
            if since <= at < until:
                yield at, commit
        if len(rows) < PER_PAGE:
            return


def _list(text: str, where: str) -> list[dict[str, dict[str, dict[str, str]]]]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list):
        raise BadAnswer(f"{where} did not answer with a list of commits")
    return found
