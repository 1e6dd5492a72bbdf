"""The evidence audit: planted faults of each kind, sound items beside them, on real records."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from beforehand.clock import from_us, iso
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs.benchmark.stored import ArchiveRecords, open_records
from beforehand.records.bulk import EvidenceRow, PredictionRow, decode_prediction
from beforehand.records.xbrl import Fact
from beforehand.score import audit as auditing
from beforehand.score.audit import audit, check
from beforehand.store.archive.reader import Archive
from experiments import Out, told

DAY = timedelta(days=1)
N = 200
"""Planted items of each kind, and sound ones beside them."""


@pytest.fixture(scope="module")
def records(sim: Path) -> ArchiveRecords:
    return open_records(sim)


def item(kind: str, source: str, snippet: str | None, at: datetime, **more: Any) -> EvidenceRow:
    return EvidenceRow(kind, source, snippet, at, **more)


Sound = tuple[EvidenceRow, datetime]
"""An item that holds, and the instant of a forecast that may cite it."""


def quotations(world: RecordedWorld, rng: Random) -> Iterator[Sound]:
    """What documents say: their title, or words out of the middle between quotation marks."""
    rows = [row for row in world.index.rows if len(f"{row.title} {row.text}".split()) >= 6]
    while True:
        row = rng.choice(rows)
        known = max(row.known_at, row.text_known_at or row.known_at)
        said = f"{row.title} {row.text}".split()
        first = rng.randrange(len(said) - 4)
        part = " ".join(said[first : first + 5])
        snippet = rng.choice(
            [row.title, f"It says “{part}” here.", f'"{said[0]} {said[1]} … {said[-1]}" — so']
        )
        yield item("document", row.id, snippet, known), known + rng.random() * DAY


def prices(world: RecordedWorld, rng: Random) -> Iterator[Sound]:
    """What markets stood at, in the ways that people write it."""
    names = [name for name, _ in world.first_prices(2**62)]
    while True:
        name = rng.choice(names)
        series = world.series(name)
        assert series is not None
        k = rng.randrange(len(series))
        p, at = float(series.price[k]), from_us(int(series.known_at[k]))
        written = rng.choice(
            [f"price {p:g}", f"YES at {100 * p:.0f}¢", f"trading at {100 * p:.1f} %"]
        )
        yield item("market_snapshot", name, written, at), at + rng.random() * DAY


def facts(world: RecordedWorld, rng: Random) -> Iterator[Sound]:
    """What a company reported, with unit and period."""
    rows = [r for r in world.observations("edgar", "fact", None, 2**62) if not r.snapshot]
    while True:
        row = rng.choice(rows)
        data = row.data
        short = data["concept"].partition(":")[2]
        value, unit, end = data["value"], data["unit"], data["end"]
        source = rng.choice(
            [f"CIK{row.subject}", f"edgar:{row.subject}/{data['concept']}", data["accession"]]
        )
        snippet = rng.choice(
            [
                f"{short} {value:,.0f} {unit} for the period ending {end}",
                f"{short}: {value:g} {unit} ({end})",
            ]
        )
        if rng.random() < 0.5:
            yield (
                item("xbrl_fact", source, short, row.known_at, value=value, unit=unit, period=end),
                row.known_at,
            )
        else:
            yield item("xbrl_fact", source, snippet, row.known_at), row.known_at + DAY


def _changed(row: EvidenceRow, **fields: Any) -> EvidenceRow:
    return msgspec.structs.replace(row, **fields)


def false_quote(row: EvidenceRow, rng: Random) -> EvidenceRow:
    """A word of the quotation is another one."""
    words = [w.strip('“”"') for w in (row.snippet or "").split()]
    words[rng.randrange(1, len(words) - 1)] = rng.choice(["nevermore", "zigzag", "quixotic"])
    return _changed(row, snippet=f"“{' '.join(words)}”")


def wrong_figure(row: EvidenceRow, rng: Random) -> EvidenceRow:
    """A value that is a third larger."""
    if row.value is not None:
        return _changed(row, value=row.value * 1.31 + 1)
    return _changed(row, snippet=f"reported {rng.randrange(10**9, 10**10):,} USD for 2025-03-31")


def wrong_price(row: EvidenceRow, rng: Random) -> EvidenceRow:
    """A price that lies at least eleven points away."""
    p = float("".join(c for c in (row.snippet or "") if c.isdigit() or c == ".") or 0)
    p = p if (row.snippet or "").startswith("price") else p / 100
    return _changed(row, snippet=f"price {(p + rng.uniform(0.11, 0.89)) % 1:.4f}")


def wrong_period(row: EvidenceRow, rng: Random) -> EvidenceRow:
    """Another year's."""
    if row.period is not None:
        return _changed(row, period=f"19{row.period[2:]}")
    said = (
        (row.snippet or "")
        .replace("2024-", "1994-")
        .replace("2025-", "1995-")
        .replace("2026-", "1996-")
    )
    return _changed(row, snippet=said)


def missing(row: EvidenceRow, rng: Random) -> EvidenceRow:
    """A source that is none."""
    return _changed(
        row,
        source=f"CIK{rng.randrange(10**8):010d}x"
        if row.type == "xbrl_fact"
        else f"no-{row.source}",
    )


PLANTED: list[tuple[str, Callable[..., Iterator[Sound]], Callable[..., EvidenceRow], set[str]]] = [
    ("false quote", quotations, false_quote, {auditing.QUOTE, auditing.FIGURE}),
    ("wrong price", prices, wrong_price, {auditing.FIGURE}),
    ("wrong figure", facts, wrong_figure, {auditing.FIGURE}),
    ("wrong period", facts, wrong_period, {auditing.PERIOD}),
    ("missing document", quotations, missing, {auditing.MISSING}),
    ("missing market", prices, missing, {auditing.MISSING}),
    ("missing fact", facts, missing, {auditing.MISSING}),
]


@pytest.mark.parametrize(("name", "sound", "plant", "faults"), PLANTED, ids=[p[0] for p in PLANTED])
def test_planted_faults_are_caught_and_sound_items_pass(
    records: ArchiveRecords, sim: Path, name: str, sound: Any, plant: Any, faults: set[str]
) -> None:
    rng, world = Random(name), RecordedWorld(Archive(sim))
    caught, passed = Counter[str | None](), Counter[str]()
    made = sound(world, rng)
    for _ in range(N):
        good, at = next(made)
        said = check(good, at, records)
        passed[said.level] += 1
        assert said.level == "supported", (good, said)
        bad = plant(good, rng)
        caught[check(bad, at, records).fault] += 1
    assert passed == {"supported": N}
    assert set(caught) <= faults, caught
    assert caught.total() == N


@pytest.mark.parametrize("sound", [quotations, prices, facts])
def test_what_was_known_only_later_is_caught(
    records: ArchiveRecords, sim: Path, sound: Any
) -> None:
    """The forecast was made before the record was known: whatever date the item states."""
    rng, world = Random("later"), RecordedWorld(Archive(sim))
    made, caught = sound(world, rng), Counter[str | None]()
    first = dict(world.first_prices(2**62))
    tried = 0
    while tried < N:
        good, _ = next(made)
        assert good.timestamp is not None
        early = good.timestamp - timedelta(seconds=1 + rng.random() * 5)
        if good.type == "market_snapshot":
            early = from_us(first[good.source]) - timedelta(seconds=1)
        dated_then = _changed(good, timestamp=early)
        tried += 1
        caught[check(dated_then, early, records).fault] += 1
        assert check(good, early, records).fault == auditing.LATER
    # A company has facts of its own from earlier filings: then the figure is not among them.
    assert set(caught) <= {auditing.KNOWN_LATER, auditing.FIGURE, auditing.PERIOD}
    assert caught.total() == N


def test_without_the_records_only_dates_are_checked(records: ArchiveRecords, sim: Path) -> None:
    """The control: the same planted faults pass where nothing is looked up."""
    rng, world = Random(0), RecordedWorld(Archive(sim))
    for _, sound, plant, _ in PLANTED:
        good, at = next(sound(world, rng))
        assert check(plant(good, rng), at).level == "dated"


@pytest.mark.parametrize(
    ("text", "snippet", "level", "fault"),
    [
        ("Fed holds rates at 4.25 %, officials say", "Fed holds rates at 4.25 %", "supported", None),
        ("Fed holds rates at 4.25 %, officials say", "The Fed kept rates at 4.25 %.", "supported", None),
        ("Fed holds rates at 4.25 %, officials say", "The Fed kept rates at 4.5 %.", "failed", auditing.FIGURE),
        ("Fed holds rates at 4.25 %, officials say", "Rates did not move.", "exists", None),
        ("Fed holds rates at 4.25 %, officials say", "“Fed … officials say”", "supported", None),
        ("Fed holds rates at 4.25 %, officials say", "“officials … Fed holds rates”", "failed", auditing.QUOTE),
        ("Fed holds rates", "the paper says 'so' of “the Fed”", "exists", None),
        ("Revenue of $1.2 billion in 2025", "It made 1,200 million", "supported", None),
        ("Revenue of $1.2 billion in 2025", "It made 1.3bn", "failed", auditing.FIGURE),
        ("A fall of −3.5 points", "It fell by 3.5 points", "supported", None),
        ("Fed holds rates", None, "exists", None),
        ("Fed holds rates", "  ", "exists", None),
    ],
)  # fmt: skip
def test_words_and_figures_of_a_text(
    text: str, snippet: str | None, level: str, fault: str | None
) -> None:
    at = datetime.fromisoformat("2026-01-01T00:00:00+00:00")

    class One:
        def find(self, kind: str, source: str) -> auditing.StoredText:
            return auditing.StoredText([(at, text)])

    said = check(item("news", "x", snippet, at), at, One())
    assert (said.level, said.fault) == (level, fault)


@pytest.mark.parametrize(
    ("snippet", "fields", "fault", "level"),
    [
        ("Revenues 100 USD, 2025-03-31", {}, None, "supported"),
        ("Revenues 100 USD for Q1 2025", {}, None, "supported"),
        ("Revenues 100 USD for FY2025 Q1", {}, None, "supported"),
        ("revenues of $100 in fiscal 2025 Q1", {}, None, "supported"),
        ("Revenues 100 USD", {}, None, "exists"),
        ("Revenues 100", {"period": "2025-03-31"}, None, "exists"),
        ("Revenues 100 USD for Q2 2025", {}, auditing.PERIOD, "failed"),
        ("Revenues 100 EUR for Q1 2025", {}, auditing.UNIT, "failed"),
        ("Revenues 101 USD for Q1 2025", {}, auditing.FIGURE, "failed"),
        ("Assets 100 USD for Q1 2025", {}, auditing.FIGURE, "failed"),
        ("Assets 7 million USD for Q1 2025", {}, None, "supported"),
        ("Assets $7.4M, 2025-03-31", {}, auditing.FIGURE, "failed"),
        ("", {"value": 100.0, "unit": "USD", "period": "2025 Q1"}, None, "supported"),
        ("", {"value": 100.0, "unit": "shares", "period": "2025 Q1"}, auditing.UNIT, "failed"),
        ("earnings of 1.25 USD per share, Q1 2025", {}, None, "supported"),
        ("It reported revenues", {}, None, "exists"),
    ],
)  # fmt: skip
def test_figures_of_facts(
    snippet: str, fields: dict[str, Any], fault: str | None, level: str
) -> None:
    filed = datetime.fromisoformat("2025-05-01T00:00:00+00:00")

    def fact(concept: str, value: float, unit: str, quarter: int) -> Fact:
        start, end = f"2025-0{3 * quarter - 2}-01", f"2025-0{3 * quarter}-{31 - (quarter > 1)}"
        late = filed + 90 * (quarter - 1) * DAY
        return Fact(f"us-gaap:{concept}", value, unit, start, end, 2025, f"Q{quarter}", "10-Q", f"a{quarter}", late)  # fmt: skip

    held = [
        fact("Revenues", 100.0, "USD", 1),
        fact("Revenues", 120.0, "USD", 2),
        replace(fact("Assets", 7e6, "USD", 1), start=None),
        fact("EarningsPerShareBasic", 1.25, "USD/shares", 1),
    ]

    class Company:
        def find(self, kind: str, source: str) -> auditing.StoredFacts:
            return auditing.StoredFacts(held)

    said = check(item("xbrl_fact", "CIK1", snippet, filed, **fields), filed + DAY, Company())
    assert (said.fault, said.level) == (fault, level), said.why
    # A figure of the quarter that is filed later is none of these yet.
    later = check(
        item("xbrl_fact", "CIK1", "Revenues 120 USD for Q2 2025", filed), filed + DAY, Company()
    )
    assert later.level == "failed"


def prediction(name: str, at: datetime, *rationale: EvidenceRow) -> PredictionRow:
    return decode_prediction(
        json.dumps(
            {
                "id": name,
                "prediction": {
                    "probability": 0.5,
                    "rationale": [json.loads(msgspec.json.encode(r)) for r in rationale],
                },
                "metadata": {"model": "m", "timestamp": iso(at)},
            }
        ).encode()
    )


def test_the_counts_have_their_denominators(records: ArchiveRecords, sim: Path) -> None:
    rng, world = Random(1), RecordedWorld(Archive(sim))
    good = [next(quotations(world, rng)) for _ in range(30)]
    made = [prediction(f"e{k}", at, row) for k, (row, at) in enumerate(good)]
    made += [prediction("none", good[0][1])]
    made += [prediction("bad", at, row, false_quote(row, rng)) for row, at in good[:10]]
    late = good[0][0]
    assert late.timestamp is not None
    made += [prediction("late", late.timestamp - DAY, late)]
    found = audit(made, records)
    assert (found.total, found.citing, found.items) == (42, 41, 51)
    assert found.passed == 31
    assert found.levels == {"supported": 40, "failed": 11}
    assert found.precision == pytest.approx(40 / 51)
    assert len(found.leaking) == 1, "a false quotation is no leak"
    assert found.faults.total() == 11


def test_our_own_runs_pass_and_a_forged_file_does_not(
    sim: Path, home: Path, tmp_path: Path, capsys: Out
) -> None:
    """Ingest, predict, evaluate --archive: all of our own evidence holds. A predictor that quotes
    what no document says scores with and without those forecasts."""
    folder = tmp_path / "bench"
    told(capsys, "bench", "ingest", "--archive", str(sim), "--out", str(folder))
    files = [
        "--events",
        str(folder / "events.jsonl"),
        "--resolutions",
        str(folder / "resolutions.jsonl"),
    ]
    made = tmp_path / "made.jsonl"
    asked = ["--forecasters", "market,news_tilt", "--out", str(made), "--archive", str(sim)]
    told(capsys, "bench", "predict", "--events", str(folder / "events.jsonl"), *asked)
    score = ["bench", "evaluate", *files, "--placebo", "0", "--draws", "200"]
    found = told(capsys, *score, "--predictions", str(made), "--archive", str(sim))["audit"]
    assert found["against_records"]
    assert found["passed"] == found["total"] > 100
    assert found["levels"]["supported"] == found["items"] > 100
    assert found["precision"] == 1.0
    assert found["without_failing"] is None
    lines = [json.loads(line) for line in made.read_text().splitlines()]
    mine = [line for line in lines if "news_tilt" in line["metadata"]["model"]]
    for k, line in enumerate(mine):
        if k % 2:
            line["prediction"]["rationale"] = [
                {
                    "type": "news",
                    "source": "nowhere",
                    "snippet": "It is over",
                    "timestamp": line["metadata"]["timestamp"],
                }
            ]
    forged = tmp_path / "forged.jsonl"
    forged.write_text("\n".join(map(json.dumps, lines)))
    told(capsys, *score, "--predictions", str(forged))
    done = told(capsys, *score, "--predictions", str(forged), "--archive", str(sim))
    bad = done["audit"]
    assert bad["faults"] == {auditing.MISSING: bad["total"] - bad["passed"]}
    assert bad["leakage_passed"] == bad["total"]
    scores = bad["without_failing"]
    name = next(who for who in scores["all"] if "news_tilt" in who)
    kept, same = (scores[which][name] for which in ("kept", "same_rows"))
    assert kept == same, "what is left is scored as it was on these rows"
    assert 0 < kept["n"] < scores["all"][name]["n"]
    assert scores["kept"]["market"]["n"] == scores["all"]["market"]["n"]
