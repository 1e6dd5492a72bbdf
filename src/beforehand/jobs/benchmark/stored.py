"""Where the evidence audit looks sources up: the records of an archive, whenever they were known.

A source is an id (of a document, a market, a filing, any stored row) or an address. Of facts a
source may also be a company (`CIK320193`, `edgar:320193`, an address of data.sec.gov), with or
without the concept.
"""

import re
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from beforehand.clock import from_us, to_us
from beforehand.errors import BeforehandError
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.search import Grade
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.lazy import lazy
from beforehand.records.cutoff import document_known_at
from beforehand.records.world import Observation
from beforehand.records.xbrl import Fact
from beforehand.score.audit import (
    StoredFacts,
    StoredMarket,
    StoredRecord,
    StoredText,
)
from beforehand.sources import edgar
from beforehand.store.archive.reader import Archive

MARKETS = ("market_snapshot", "market", "price", "odds")
FACTS = ("xbrl_fact", "fact", "filing", "edgar")
ADDRESSES = ("url", "link", "permalink")
_NEVER = datetime.max.replace(tzinfo=UTC)
_ACCESSION = re.compile(r"\b\d{10}-\d\d-\d{6}\b")
_CIK = re.compile(r"(?:\bCIK|\bedgar[:/]|/data/)0*(\d{1,10})(?!\d)", re.IGNORECASE)


def open_records(archive: Path, grade: Grade = "captured") -> "ArchiveRecords":
    """The records of the archive in a folder; by `grade`, a document is known when its words were
    captured, or on its date. Raises NotConfigured where there is none."""
    return ArchiveRecords(RecordedWorld(Archive(archive), grade))


class ArchiveRecords:
    """The records of an archive as the audit needs them. Every part is read when it is first
    asked for."""

    def __init__(self, world: RecordedWorld) -> None:
        self._world = world
        self.gateway = Gateway(world)
        self._view = self.gateway.full_view()
        self._found: dict[tuple[str, str], StoredRecord | None] = {}

    def find(self, kind: str, source: str) -> StoredRecord | None:
        """The record that a source names; `kind` is the type of the evidence item."""
        key = kind, source
        if key not in self._found:
            self._found[key] = self._look(kind.lower(), source.strip())
        return self._found[key]

    def _look(self, kind: str, source: str) -> StoredRecord | None:
        if kind in MARKETS:
            return self._market(source)
        if kind in FACTS:
            return self._facts(source) or self._row(source)
        return self._document(source) or self._row(source) or self._market(source)

    def _document(self, source: str) -> StoredText | None:
        rows = self._documents.get(source) or self._documents.get(_address(source))
        if not rows:
            return None
        grade = self._world.grade
        return StoredText(
            [
                (document_known_at(row.known_at, row.text_known_at, grade) or _NEVER, said)
                for row in rows
                for said in (" ".join(part for part in (row.title, row.text) if part),)
            ]
        )

    @lazy
    def _documents(self) -> dict[str, list]:  # type: ignore[type-arg]
        """Every version of every document, by id and by address."""
        found = defaultdict(list)
        for row in self._world.archive.documents():
            found[row.id].append(row)
            if row.url:
                found[_address(row.url)].append(row)
        return dict(found)

    def _market(self, source: str) -> StoredMarket | None:
        try:
            name = self._view.resolve_id(source)
        except BeforehandError:
            return None
        series = self._world.series(name)
        if series is None or not len(series):
            return None

        def at(instant: datetime, until: datetime) -> list[float]:
            """Last, bid, ask and mid of the last price known at the instant, and of the last one
            observed until then that was known at `until`."""
            places = {series.position(to_us(instant))}
            seen = series.observed_at[: series.position(to_us(until)) + 1]
            earlier = np.flatnonzero(seen <= to_us(instant))
            if len(earlier):
                places.add(int(earlier[np.argmax(seen[earlier])]))
            found = list[float]()
            for place in sorted(p for p in places if p >= 0):
                price, bid, ask = (
                    float(column[place]) for column in (series.price, series.bid, series.ask)
                )
                found += [one for one in (price, bid, ask, (bid + ask) / 2) if one == one]
            return found

        return StoredMarket(from_us(int(series.known_at[0])), at)

    def _facts(self, source: str) -> StoredFacts | None:
        accession, company = _ACCESSION.search(source), _CIK.search(source)
        name = source if accession is None else accession[0]
        if name in self._by_accession:
            found = self._by_accession[name]
        elif company is not None or source.isdigit():
            found = self._by_company.get(edgar.cik10(company[1] if company else source), [])
        else:
            found = self._by_row.get(source, [])
        return StoredFacts(found) if found else None

    @lazy
    def _all_facts(self) -> list[tuple[Observation, Fact]]:
        rows = self._world.observations(edgar.SOURCE, "fact", None, to_us(self._view.t))
        return [(row, Fact.of(row.data, row.known_at)) for row in rows if not row.snapshot]

    @lazy
    def _by_accession(self) -> dict[str, list[Fact]]:
        found = defaultdict(list)
        for row, fact in self._all_facts:
            found[str(row.data.get("accession"))].append(fact)
        return dict(found)

    @lazy
    def _by_company(self) -> dict[str, list[Fact]]:
        found = defaultdict(list)
        for row, fact in self._all_facts:
            found[row.subject].append(fact)
        return dict(found)

    @lazy
    def _by_row(self) -> dict[str, list[Fact]]:
        found = defaultdict(list)
        for row, fact in self._all_facts:
            found[row.id].append(fact)
        return dict(found)

    def _row(self, source: str) -> StoredText | None:
        """Any other stored row (a post, a comment, a filing), by its id or address."""
        rows = self._rows.get(source) or self._rows.get(_address(source))
        return StoredText([(row.known_at, _said(row)) for row in rows]) if rows else None

    @lazy
    def _rows(self) -> dict[str, list[Observation]]:
        found = defaultdict(list)
        for row in self._world.archive.records(Observation):
            if (row.source, row.kind) == (edgar.SOURCE, "fact") or row.snapshot:
                continue
            found[row.id].append(row)
            for name in ADDRESSES:
                if isinstance(address := row.data.get(name), str):
                    found[_address(address)].append(row)
        return dict(found)


def _said(row: Observation) -> str:
    """The words and figures of a row, without those that show the moment of its fetch."""
    return " ".join(
        str(value) for value in row.data.values() if isinstance(value, str | int | float)
    )


def _address(text: str) -> str:
    """An address without what does not tell pages apart: scheme, www, fragment, last slash."""
    try:
        parts = urlsplit(text)
        host = (parts.hostname or "").removeprefix("www.")
    except ValueError:  # An address that is none.
        return text
    if not host:
        return text
    query = f"?{parts.query}" if parts.query else ""
    return f"//{host}{parts.path.rstrip('/')}{query}"
