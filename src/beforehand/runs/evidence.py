"""What tools answered, as documents: each with the time from which it was known, and the file that
holds it. Texts stay in their files; an index names them by path."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from beforehand.clock import iso, parse_instant
from beforehand.errors import CutoffViolation
from beforehand.ids import digest, is_segment
from beforehand.store.files import read_json
from beforehand.tools.registry import Tool

TITLES = ("title", "headline", "question", "name")
TEXTS = ("text", "snippet", "selftext", "summary", "description", "body")
URLS = ("url", "link", "permalink")
WRITTEN = ("published_at", "published", "created_at", "timestamp")
KNOWN = ("known_at", "timestamp")
THREADS = "threads"
REDDIT = "https://www.reddit.com"


@dataclass(frozen=True)
class Document:
    """A dated text that a tool found. `path` is its file, from the home folder on; `row` its place
    among the rows of an answer that was kept whole; `found_by` the values that found it."""

    id: str
    source: str
    title: str
    url: str | None
    published_at: str | None
    known_at: str
    path: str
    row: int | None = None
    found_by: tuple[str, ...] = ()
    text: str = field(default="", compare=False)

    @property
    def day(self) -> str:
        """When it was written, where that is known; else since when it was known."""
        return (self.published_at or self.known_at)[:10]

    def wire(self) -> dict[str, Any]:
        """JSON-ready, without the text."""
        found = {key: value for key, value in vars(self).items() if key not in ("text", "row")}
        found["found_by"] = list(self.found_by)
        return found if self.row is None else {**found, "row": self.row}

    @classmethod
    def read(cls, entry: Mapping[str, Any], root: Path) -> Self:
        """A document of an index, with its text."""
        held = read_json(root / entry["path"])
        row = held if "row" not in entry else rows_of(held["answer"])[entry["row"]]
        known: dict[str, Any] = {
            key: entry.get(key) for key in cls.__dataclass_fields__ if key != "text"
        }
        known["found_by"] = tuple(entry["found_by"])
        return cls(**known, text=text_of(row))


def rows_of(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rows of a tool's answer: its first list of objects."""
    for value in content.values():
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            return value
    return []


def _first(row: Mapping[str, Any], names: Sequence[str]) -> str | None:
    return next((str(row[name]) for name in names if isinstance(row.get(name), str)), None)


def text_of(row: Mapping[str, Any]) -> str:
    """The text of a row; of a thread its comments too."""
    parts = [_first(row, TEXTS) or ""]
    parts += [str(one.get("body") or "") for one in row.get("comments") or () if one]
    return "\n\n".join(part for part in parts if part.strip())


def document_of(
    tool: Tool,
    row: Mapping[str, Any],
    at: datetime,
    path: str,
    number: int | None = None,
    *,
    by: object = None,
    pinned: bool = True,
) -> Document | None:
    """A row as a document; None for one without words, such as a price. Where a row does not say
    since when it was known, it counts from the instant of the answer. Raises CutoffViolation for a
    row that was known after an instant that is `pinned`."""
    title, text = _first(row, TITLES), text_of(row)
    if not (title or text):
        return None
    parts = [row, *(row.get("comments") or ())]
    stamps = [stamp for part in parts if (stamp := _instant(_first(part, KNOWN)))]
    known = max(stamps, default=at)
    if pinned and known > at:
        raise CutoffViolation(f"{tool.name} gave a row of {iso(known)}, after {iso(at)}")
    url = _first(row, URLS)
    return Document(
        id=str(row.get("id") or row.get("market_id") or digest(row)[:12]),
        source=tool.server,
        title=title or text[:80],
        url=REDDIT + url if url is not None and url.startswith("/r/") else url,
        published_at=_first(row, WRITTEN),
        known_at=iso(known),
        path=path,
        row=number,
        found_by=() if by is None else (str(by),),
        text=text,
    )


def _instant(text: str | None) -> datetime | None:
    try:
        return None if text is None else parse_instant(text)
    except ValueError:
        return None


def file_name(row: Mapping[str, Any]) -> str:
    """The file of a thread."""
    name = str(row.get("id"))
    return f"{name if is_segment(name) else digest(name)[:16]}.json"


def merged(documents: Iterable[Document]) -> list[Document]:
    """Each document once, with every value that found it, in the order found."""
    found: dict[tuple[str, str], Document] = {}
    for one in documents:
        key = (one.source, one.id)
        if key in found:
            both = dict.fromkeys((*found[key].found_by, *one.found_by))
            found[key] = replace(found[key], found_by=tuple(both))
        else:
            found[key] = one
    return list(found.values())
