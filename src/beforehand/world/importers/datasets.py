"""Question sets of other benchmarks, as worlds: Prophet Arena's dataset, FutureSim's custom data.

Prophet's `events.jsonl` (or the tar.gz around it) has a market for each outcome of an event, what
the crowd gave it in each window (a price, known when it was taken), and how it ended; its sources
of a window are documents of that window. FutureSim's `questions.jsonl` has questions without
prices, and articles a day in `YYYY/MM/DD/articles.jsonl`. A day is known at its end.
"""

import io
import tarfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from beforehand.clock import end_of_day, parse_instant
from beforehand.errors import InputError
from beforehand.ids import digest, market_id
from beforehand.records.record import Record
from beforehand.records.world import Document, Event, Market, PricePoint, Resolution
from beforehand.store.files import read_bytes
from beforehand.world.importers.lines import Rejects, guarded

PROPHET, FUTURESIM = "PROPHET", "FUTURESIM"
START = parse_instant("2000-01-01T00:00:00Z")
UNOPENED = "opening not stated: known from 2000 on, as FutureSim shows its questions from day one"
_PROPHET_READ = frozenset(
    {
        "slug",
        "title",
        "category",
        "criteria",
        "mutually_exclusive",
        "close_at",
        "outcomes",
        "windows",
    }
)
_FUTURESIM_READ = frozenset(
    {
        "qid", "title", "resolution_date", "ground_truth_answer", "background",
        "resolution_criteria", "answer_type", "open_date",
    }
)  # fmt: skip
_ARTICLE_READ = frozenset({"title", "source", "date", "content", "url"})


def prophet(path: Path, rejects: Rejects, notes: dict[str, int]) -> Iterator[Record]:
    """Records of Prophet's events."""
    for number, raw in _lines(path, "events.jsonl"):
        yield from guarded(path, number, raw, rejects, partial(_event_line, notes=notes))


def _event_line(raw: bytes, notes: dict[str, int]) -> list[Record]:
    said = _object(raw)
    _note(said, _PROPHET_READ, notes)
    return list(_event(said))


def _event(said: Mapping[str, Any]) -> Iterator[Record]:
    slug, close = str(said["slug"]), parse_instant(str(said["close_at"]))
    windows = sorted(said.get("windows") or (), key=lambda one: str(one["taken_at"]))
    names = [str(one["name"]) for one in said["outcomes"]]
    ids = {name: market_id(PROPHET, f"{slug}/{_slug(name)}") for name in names}
    first = parse_instant(str(windows[0]["taken_at"])) if windows else close
    yield Event(
        id=market_id(PROPHET, slug),
        venue=PROPHET,
        title=str(said["title"]),
        market_ids=tuple(ids.values()),
        mutually_exclusive=said.get("mutually_exclusive"),
        known_at=first,
    )
    for outcome in said["outcomes"]:
        name = str(outcome["name"])
        yes = len(names) == 1 or name.lower() == "yes"
        yield Market(
            id=ids[name],
            venue=PROPHET,
            native_id=f"{slug}/{_slug(name)}",
            question=str(said["title"]) if yes else f"{said['title']}: {name}",
            rules=said.get("criteria"),
            event_id=market_id(PROPHET, slug),
            scheduled_close=close,
            domain=said.get("category"),
            known_at=first,
        )
        if (payout := _payout(outcome.get("resolution"))) is not None:
            yield Resolution(
                market_id=ids[name],
                status="resolved",
                payout=payout,
                resolved_at=close,
                known_at=close,
            )
    for window in windows:
        taken = parse_instant(str(window["taken_at"]))
        for name, p in _crowd(window.get("crowd")):
            if name in ids:
                yield PricePoint(market_id=ids[name], price=p, observed_at=taken, known_at=taken)
        yield from _sources(slug, window.get("context"), taken)


def _crowd(said: object) -> Iterator[tuple[str, float]]:
    """What the crowd gave each outcome: an object of name to p, or a list of objects."""
    if isinstance(said, Mapping):
        yield from ((str(name), float(p)) for name, p in said.items() if p is not None)
    for one in said if isinstance(said, list) else ():
        p = next(
            (one[key] for key in ("probability", "p", "price") if one.get(key) is not None), None
        )
        if p is not None:
            yield str(one["name"]), float(p)


def _sources(slug: str, said: object, taken: datetime) -> Iterator[Document]:
    """The sources of a window: a text, or a list of objects with title and text."""
    items = [{"title": slug, "text": said}] if isinstance(said, str) else said
    for one in items if isinstance(items, list) else ():
        if isinstance(one, Mapping):
            text = str(one.get("text") or one.get("summary") or one.get("content") or "")
            yield Document(
                id=f"prophet:{digest([slug, text, taken.isoformat()])[:16]}",
                title=str(one.get("title") or slug),
                text=text,
                url=one.get("url"),
                source="prophet",
                known_at=taken,
                text_known_at=taken,
            )


def _payout(said: object) -> float | None:
    if said is None:
        return None
    if isinstance(said, str):
        known = {"yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}
        if said.strip().lower() not in known:
            raise ValueError(f"the resolution {said[:50]!r} is neither YES nor NO")
        return known[said.strip().lower()]
    found = float(said)  # type: ignore[arg-type]
    if not 0.0 <= found <= 1.0:
        raise ValueError(f"the resolution {found:g} does not lie in [0, 1]")
    return found


def futuresim(path: Path, rejects: Rejects, notes: dict[str, int]) -> Iterator[Record]:
    """Records of FutureSim's questions (a file whose lines have `qid`), or of a day's articles."""
    for number, raw in _lines(path, path.name):
        yield from guarded(path, number, raw, rejects, partial(_futuresim_line, notes=notes))


def _futuresim_line(raw: bytes, notes: dict[str, int]) -> list[Record]:
    said = _object(raw)
    if "qid" not in said:
        _note(said, _ARTICLE_READ, notes)
        return [_article(said)]
    _note(said, _FUTURESIM_READ, notes)
    if not said.get("open_date"):
        notes[UNOPENED] = notes.get(UNOPENED, 0) + 1
    return list(_question(said))


def _question(said: Mapping[str, Any]) -> Iterator[Record]:
    answer = str(said["ground_truth_answer"]).strip().lower()
    if said.get("answer_type", "binary") not in ("binary", "boolean", "yes/no") or answer not in (
        "yes", "no", "true", "false",
    ):  # fmt: skip
        raise ValueError("only questions that end with YES or NO are read")
    end = end_of_day(parse_instant(str(said["resolution_date"])))
    opened = parse_instant(str(said["open_date"])) if said.get("open_date") else None
    name = market_id(FUTURESIM, str(said["qid"]))
    yield Market(
        id=name,
        venue=FUTURESIM,
        native_id=str(said["qid"]),
        question=str(said["title"]),
        background=said.get("background"),
        rules=said.get("resolution_criteria"),
        scheduled_close=end,
        opened_at=opened,
        known_at=opened or START,
    )
    yield Resolution(
        market_id=name,
        status="resolved",
        payout=1.0 if answer in ("yes", "true") else 0.0,
        resolved_at=end,
        known_at=end,
    )


def _article(said: Mapping[str, Any]) -> Document:
    text, date = str(said["content"]), str(said["date"])
    known = parse_instant(date)
    if len(date) == len("2026-01-05"):
        known = end_of_day(known)
    return Document(
        id=f"futuresim:{digest([date, said['title'], text])[:16]}",
        title=str(said["title"]),
        text=text,
        url=said.get("url"),
        source=str(said.get("source") or "futuresim"),
        published_at=known,
        known_at=known,
        text_known_at=known,
    )


def _slug(name: str) -> str:
    return "-".join(name.lower().split()) or "yes"


def _note(said: Mapping[str, Any], known: frozenset[str], notes: dict[str, int]) -> None:
    """Count the fields that have no place in a record."""
    for name in said.keys() - known:
        key = f"field {name} not read"
        notes[key] = notes.get(key, 0) + 1


def _object(raw: bytes) -> Mapping[str, Any]:
    found = orjson.loads(raw)
    if not isinstance(found, Mapping):
        raise ValueError("the line is not a JSON object")
    return found


def _lines(path: Path, member: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a JSONL file, or of one in a tar."""
    data = read_bytes(path)
    if path.name.endswith((".tar", ".tar.gz", ".tgz")):
        try:
            with tarfile.open(fileobj=io.BytesIO(data)) as opened:
                place = next(one for one in opened.getmembers() if Path(one.name).name == member)
                inner = opened.extractfile(place)
                data = b"" if inner is None else inner.read()
        except StopIteration:
            raise InputError(f"{path} holds no {member}") from None
        except (tarfile.TarError, OSError, EOFError) as error:
            raise InputError(f"{path} is a damaged tar: {error}") from None
    yield from ((n, line) for n, line in enumerate(data.splitlines(), start=1) if line.strip())
