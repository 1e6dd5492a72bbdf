"""How events ended: venues, filings, prices and people, with history and conflicts."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import iso
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.records.benchmark import ResolutionRecord
from beforehand.store.archive.reader import Archive
from settled import vendor_of_settled
from vendor import serving

Out = pytest.CaptureFixture[str]
LAST = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture
def place(wide: Path, home: Path, tmp_path: Path) -> Path:
    """A folder whose events.jsonl has every market of the simulated world."""
    view = Gateway(RecordedWorld(Archive(wide))).full_view()
    lines = [
        {"id": m.id, "question": m.question or m.id, "resolution_date": iso(LAST)}
        for m in view.markets()
    ]
    (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tmp_path


def resolved(place: Path, archive: Path, capsys: Out, *more: str, code: int = 0) -> dict[str, Any]:
    files = ["--events", str(place / "events.jsonl"), "--out", str(place / "out.jsonl")]
    capsys.readouterr()
    assert cli(["bench", "resolve", *files, "--archive", str(archive), *more, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_state_is_counted(place: Path, wide: Path, capsys: Out) -> None:
    """Resolved, partial, void, disputed, still open, and unknown: each event in one of them."""
    with (place / "events.jsonl").open("a") as file:
        file.write('\n{"id": "SIMEX:nothing", "question": "?"}')
    found = resolved(place, wide, capsys)
    view = Gateway(RecordedWorld(Archive(wide))).full_view()
    endings = {r.market_id: r for r in view.resolutions()}
    paid = {name: r.payout for name, r in endings.items() if r.payout is not None}
    assert found["events"] == len(view.markets()) + 1
    assert found["states"]["resolved"] == len(paid)
    assert found["states"]["void"] == sum(r.status == "void" for r in endings.values()) > 0
    assert found["states"]["not in the archive"] == 1
    assert found["early"] == len(paid), "all of them before their date"
    made = [ResolutionRecord.model_validate(line) for line in lines(place / "out.jsonl")]
    assert {one.id: one.settled for one in made} == paid
    assert all(one.verified_source for one in made)


def test_resolving_again_changes_nothing_and_a_correction_is_history(
    place: Path, wide: Path, capsys: Out
) -> None:
    first = resolved(place, wide, capsys)
    kept = (place / "out.jsonl").read_bytes()
    again = resolved(place, wide, capsys)
    assert len(first["changed"]) == first["states"]["resolved"]
    assert again["changed"] == []
    assert (place / "out.jsonl").read_bytes() == kept
    wrong = lines(place / "out.jsonl")
    whole = next(one for one in wrong if "payout" not in one)
    whole["outcome"] = 1 - whole["outcome"]
    (place / "out.jsonl").write_text("\n".join(map(json.dumps, wrong)) + "\n")
    mended = resolved(place, wide, capsys)
    (change,) = mended["changed"]
    assert change["id"] == whole["id"]
    assert change["before"]["outcome"] != change["now"]["outcome"]
    history = lines(place / "out_history.jsonl")
    assert len(history) == len(first["changed"]) + 1, "nothing of it is rewritten"
    assert history[-1] == change


def test_two_sources_that_disagree_are_both_named(place: Path, wide: Path, capsys: Out) -> None:
    done = {
        one["id"]: one for one in (resolved(place, wide, capsys), lines(place / "out.jsonl"))[1]
    }
    one = next(r for r in done.values() if "payout" not in r)
    manual = place / "manual.jsonl"
    said = {
        "id": one["id"],
        "outcome": 1 - one["outcome"],
        "author": "Ada",
        "reason": "I was there",
    }
    manual.write_text(json.dumps(said))
    found = resolved(place, wide, capsys, "--manual", str(manual), code=3)
    assert [s["source"] for s in found["conflicts"][one["id"]]] == ["SIMEX", "by hand: Ada"]
    assert one["id"] not in {r["id"] for r in lines(place / "out.jsonl")}
    manual.write_text(json.dumps({**said, "outcome": one["outcome"]}))
    agreed = resolved(place, wide, capsys, "--manual", str(manual))
    assert one["id"] in {r["id"] for r in lines(place / "out.jsonl")}
    assert agreed["conflicts"] == {}


def test_a_person_resolves_what_no_source_does(place: Path, wide: Path, capsys: Out) -> None:
    with (place / "events.jsonl").open("a") as file:
        file.write('\n{"id": "mine", "question": "Did it?"}')
    manual = place / "manual.jsonl"
    manual.write_text('{"id": "mine", "outcome": 1, "author": "Ada", "reason": "seen"}')
    resolved(place, wide, capsys, "--manual", str(manual))
    (record,) = (r for r in lines(place / "out.jsonl") if r["id"] == "mine")
    assert record["verified_source"] == "Ada: seen"
    for text, why in (
        ('{"id": "mine", "outcome": 1, "author": "Ada"}', "reason"),
        ('{"id": "mine", "outcome": 2, "author": "Ada", "reason": "x"}', "outcome"),
    ):
        manual.write_text(text)
        files = ["--events", str(place / "events.jsonl"), "--out", str(place / "out.jsonl")]
        order = ["bench", "resolve", *files, "--archive", str(wide), "--manual", str(manual)]
        assert cli(order) == 2
        said = capsys.readouterr().err
        assert "manual.jsonl:1" in said
        assert why in said
    manual.write_text('{"id": "nobody", "outcome": 1, "author": "Ada", "reason": "x"}')
    found = resolved(place, wide, capsys, "--manual", str(manual), code=3)
    assert "no event has this id" in found["problems"][0]


def test_a_fact_settles_by_its_first_filing(place: Path, wide: Path, capsys: Out) -> None:
    world = RecordedWorld(Archive(wide))
    rows = [r for r in world.observations("edgar", "fact", None, 2**62) if not r.snapshot]
    fact = rows[0]
    value, rule = fact.data["value"], {"kind": "xbrl_fact", "cik": fact.subject}
    rule |= {"concept": "Revenues", "unit": "USD", "period": fact.data["end"]}
    events = [
        {"id": "yes", "question": "?", "resolves_by": {**rule, "above": value - 1}},
        {"id": "no", "question": "?", "resolves_by": {**rule, "above": value}},
        {"id": "just", "question": "?", "resolves_by": {**rule, "at_least": value}},
        {"id": "below", "question": "?", "resolves_by": {**rule, "below": value}},
        {
            "id": "never",
            "question": "?",
            "resolves_by": {**rule, "period": "1999-03-31", "above": 1},
        },
    ]
    (place / "events.jsonl").write_text("\n".join(map(json.dumps, events)))
    found = resolved(place, wide, capsys)
    assert found["states"] == {"resolved": 4, "open": 1}
    made = {r["id"]: r for r in lines(place / "out.jsonl")}
    assert {name: r["outcome"] for name, r in made.items()} == {
        "yes": 1,
        "no": 0,
        "just": 1,
        "below": 0,
    }
    assert made["yes"]["verified_value"] == value
    assert made["yes"]["verified_source"] == f"edgar:{fact.subject}/{fact.data['accession']}"
    assert made["yes"]["resolved_at"] == iso(fact.known_at)
    for bad, why in (({**rule}, "one of above"), ({"kind": "xbrl_fact", "above": 1}, "needs cik"),
                     ({"kind": "?", "above": 1}, "resolves_by.kind")):  # fmt: skip
        (place / "events.jsonl").write_text(
            json.dumps({"id": "x", "question": "?", "resolves_by": bad})
        )
        files = ["--events", str(place / "events.jsonl"), "--out", str(place / "out.jsonl")]
        assert cli(["bench", "resolve", *files, "--archive", str(wide)]) == 2
        assert why in capsys.readouterr().err


def test_a_price_settles_once_its_time_has_passed(place: Path, wide: Path, capsys: Out) -> None:
    at = datetime(2026, 3, 1, tzinfo=UTC)
    rule = {"kind": "price", "id": "BTC", "at": iso(at), "above": 65_000}
    (place / "events.jsonl").write_text(
        json.dumps({"id": "e", "question": "?", "resolves_by": rule})
    )
    csv_file = place / "prices.csv"

    def state(*rows: tuple[timedelta, float]) -> dict[str, Any]:
        body = [f"BTC,{iso(at + since)},{price}" for since, price in rows]
        csv_file.write_text("\n".join(["id,time,price", *body]))
        return resolved(place, wide, capsys, "--prices", str(csv_file))["states"]

    hour = timedelta(hours=1)
    assert state((-hour, 70_000.0)) == {"open": 1}, "more of before may still come"
    assert state((-hour, 70_000.0), (hour, 60_000.0)) == {"resolved": 1}
    (record,) = lines(place / "out.jsonl")
    assert (record["outcome"], record["verified_value"]) == (1, 70_000.0)
    assert state((-30 * hour, 70_000.0), (hour, 60_000.0)) == {"open": 1}, "older than a day"
    csv_file.write_text("id,time,price\nBTC,soon,1")
    files = ["--events", str(place / "events.jsonl"), "--out", str(place / "out.jsonl")]
    assert cli(["bench", "resolve", *files, "--archive", str(wide), "--prices", str(csv_file)]) == 2
    assert "prices.csv:2" in capsys.readouterr().err


def test_endings_come_from_the_venues_and_are_stored(
    sim_archive: Archive, wide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """Events on markets that are fetched from Polymarket on loopback: recorded, and the same again
    from the archive without a request."""
    vendor = vendor_of_settled(sim_archive, datetime(2025, 4, 1, tzinfo=UTC), frozenset())
    with serving(vendor):
        for name, value in vendor.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path / "home"))
        archive = tmp_path / "a"
        order = ["world", "fetch", "polymarket", "--since", "2020-01-01", "--limit", "5"]
        assert cli([*order, "--archive", str(archive)]) == 0
        view = Gateway(RecordedWorld(Archive(archive))).full_view()
        wanted = {r.market_id: r.payout for r in view.resolutions()}
        assert len(wanted) >= 5
        text = "\n".join(json.dumps({"id": name, "question": "?"}) for name in wanted)
        (tmp_path / "events.jsonl").write_text(text)
        fresh = tmp_path / "fresh"
        live = resolved(tmp_path, fresh, capsys, "--mode", "record")
        paid = {name: payout for name, payout in wanted.items() if payout is not None}
        states = {"resolved": len(paid), "void": len(wanted) - len(paid)}
        assert live["states"] == {state: n for state, n in states.items() if n}
        asked = len(vendor.log)
        assert {
            r["id"]: r.get("payout", r["outcome"]) for r in lines(tmp_path / "out.jsonl")
        } == paid
        again = resolved(tmp_path, fresh, capsys)
        assert (again["states"], again["changed"]) == (live["states"], [])
        assert len(vendor.log) == asked
