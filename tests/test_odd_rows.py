"""One odd row costs itself alone, and is counted: feeds, listings, documents, public sets."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.pull import kalshi_markets
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.gateway.worlds.settled import LeftOut, _note
from beforehand.records.world import Document, Market
from beforehand.score import forecastbench
from beforehand.sources import google_news
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.writer import ArchiveWriter
from experiments import Out, told

NOW = datetime(2026, 1, 6, 18, tzinfo=UTC)
DATES: dict[str, str | None] = {
    "Tue, 06 Jan 2026 10:00:00 GMT": "2026-01-06T10:00:00+00:00",
    "Tue, 06 Jan 2026 10:00:00 +0300": "2026-01-06T07:00:00+00:00",
    "Tue, 06 Jan 2026 10:00:00 -0000": "2026-01-06T10:00:00+00:00",
    "Tue, 06 Jan 2026 10:00:00 EST": "2026-01-06T15:00:00+00:00",
    "2026-01-06T10:00:00Z": "2026-01-06T10:00:00+00:00",
    "2026-01-06T10:00:00+02:00": "2026-01-06T08:00:00+00:00",
    "2026-01-06T10:00:00": None,
    "2026-01-06": None,
    "Tue, 06 Jan 2026 10:00:00": None,
    "Tue, 06 Jan 2026 10:00:00 BRT": None,
    "Tue, 06 Jan 2026 10:00:00 HST": None,
    "8/21/2025 9:00:00 AM": None,
    "Tue, 06 Jan 99999 10:00:00 GMT": None,
    " ": None,
    "": None,
    "never": None,
}


@pytest.mark.parametrize("stated", DATES)
def test_a_date_of_a_feed_is_certain_or_none(stated: str) -> None:
    """The other item of the feed is read all the same."""
    items = "".join(
        f"<item><title>{k}</title><link>http://e.org/{k}</link><pubDate>{date}</pubDate></item>"
        for k, date in enumerate((stated, "Tue, 06 Jan 2026 10:00:00 GMT"))
    )
    body = f"<rss><channel>{items}</channel></rss>"
    found = google_news.parse(body, google_news.build("x"), NOW)
    odd, good = (r for r in found if isinstance(r, Document))
    expected = DATES[stated]
    assert odd.published_at == (None if expected is None else datetime.fromisoformat(expected))
    assert good.published_at is not None
    assert odd.known_at == NOW


def test_a_document_that_is_dated_ahead_is_no_damage(tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "d.jsonl"
    row = {"id": "a", "title": "A dam", "published_at": "2027-01-06T10:00:00Z", "captured_at": "2026-01-06T10:00:00Z"}  # fmt: skip
    path.write_text(json.dumps(row))
    archive = str(tmp_path / "a")
    told(capsys, "world", "import", "documents", str(path), "--archive", archive)
    assert told(capsys, "world", "verify", "--archive", archive)["problems"] == []
    view = Gateway(RecordedWorld(Archive(tmp_path / "a"))).at(datetime(2026, 12, 1, tzinfo=UTC))
    assert not view.search("dam"), "and it is shown from the later of the two on"


def test_what_a_listing_does_not_give_is_counted() -> None:
    rows = [
        {"ticker": f"KX{name}", "title": "?", "status": status, "result": result, "volume": 1}
        for name, status, result in (
            ("A", "finalized", "yes"),
            ("B", "finalized", "unknown_new"),
            ("C", "finalized", ""),
            ("D", "active", ""),
        )
    ]
    left = LeftOut()
    _note(kalshi_markets({"markets": rows}, NOW), left)
    assert len(left.unread) == 1
    assert "'unknown_new'" in left.unread[0]
    assert left.without_result == ["KALSHI:KXC"]


@pytest.mark.parametrize(
    ("venue", "native", "address"),
    [
        ("METACULUS", "100", "https://www.metaculus.com/questions/100/some-slug/"),
        ("METACULUS", "100", "https://www.metaculus.com/questions/100/some-slug/?tab=x#y"),
        ("METACULUS", "100", "https://www.metaculus.com/questions/100"),
        ("MANIFOLD", "will-it", "https://manifold.markets/somebody/will-it"),
        ("KALSHI", "KXA-26DEC31", "https://kalshi.com/markets/kxa/what-it-is/kxa-26dec31"),
        ("PREDICTIT", "7456", "https://www.predictit.org/markets/detail/7456/Which-party"),
        ("INFER", "1234-will-it", "https://www.infer-pub.com/questions/1234-will-it"),
    ],
)
def test_an_address_is_read(tmp_path: Path, venue: str, native: str, address: str) -> None:
    market = Market(id=f"{venue}:{native}", venue=venue, native_id=native, known_at=NOW)
    facts: dict[str, Any] = {"importer": "t", "source": "t", "source_digest": "t"}
    ArchiveWriter(tmp_path).add([market], **facts, recorded_at=NOW)
    view = Gateway(RecordedWorld(Archive(tmp_path))).full_view()
    assert view.resolve_id(address) == market.id


def resolution(source: str, name: str, value: float) -> dict[str, Any]:
    return {"id": name, "source": source, "resolution_date": "2026-01-01", "resolved_to": value, "resolved": True}  # fmt: skip


def test_a_new_source_of_a_public_set_is_taken_or_said() -> None:
    questions = [
        {"id": "a", "source": "kalshi", "resolution_dates": "N/A"},
        {"id": "b", "source": "newvenue", "resolution_dates": "N/A"},
        {"id": "c", "source": "newdata", "resolution_dates": ["2026-01-01"]},
    ]
    rows = [resolution(q["source"], q["id"], 1.0) for q in questions]
    groups = forecastbench.group({"questions": questions}, {"resolutions": rows}, False)
    assert (len(groups.market_resolved), len(groups.dataset)) == (2, 1)
    assert groups.whole
    strange = [{"id": "d", "source": "strange"}]
    left = forecastbench.group(
        {"questions": [*questions, *strange]},
        {"resolutions": [*rows, resolution("strange", "d", 1.0)]},
        False,
    )
    assert left.left_out == {"of the unknown source strange": 1}
    assert not left.whole, "these are not the leaderboard's figures"


def test_an_event_that_several_values_fit_is_left_open(tmp_path: Path, capsys: Out) -> None:
    """It costs itself; both values are named, and the others are resolved."""
    filing = {"accn": "0001234567-25-000012", "fy": 2025, "fp": "Q2", "form": "10-Q", "filed": "2025-08-01"}  # fmt: skip
    values = [
        {"start": start, "end": "2025-06-30", "val": value, **filing}
        for start, value in (("2025-04-01", 90), ("2025-01-01", 170))
    ]
    facts = {"cik": 1234567, "facts": {"us-gaap": {"Revenues": {"units": {"USD": values}}}}}
    (tmp_path / "facts.json").write_text(json.dumps(facts))
    rule = {"kind": "xbrl_fact", "cik": "1234567", "concept": "Revenues", "above": 100}
    events = [
        {"id": name, "question": "?", "resolution_date": "2025-09-01T00:00:00Z", "resolves_by": {**rule, "period": period, **more}}
        for name, period, more in (
            ("day", "2025-06-30", {}),
            ("label", "2025 Q2", {}),
            ("months", "2025-06-30", {"months": 6}),
        )
    ]  # fmt: skip
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, events)))
    archive = str(tmp_path / "a")
    told(
        capsys, "world", "import", "edgar", str(tmp_path / "facts.json"), "--fetched-at",
        "2025-10-01T00:00:00Z", "--archive", archive,
    )  # fmt: skip
    out = tmp_path / "r.jsonl"
    found = told(
        capsys, "bench", "resolve", "--events", str(tmp_path / "events.jsonl"), "--out", str(out),
        "--archive", archive, code=3,
    )  # fmt: skip
    assert found["states"] == {"undecided": 1, "resolved": 2}
    made = {line["id"]: line["verified_value"] for line in map(json.loads, out.read_text().splitlines())}  # fmt: skip
    assert made == {"label": 90.0, "months": 170.0}
