"""The purple agent: what it looks up lies before t, and what it cites is there and says so."""

import json
import math
import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import from_us, iso, parse_instant
from beforehand.config import Home, Workspace
from beforehand.errors import BadAnswer, InputError, NotConfigured
from beforehand.forecast.base import CallCounter, Context, Opening, open_forecaster
from beforehand.forecast.purple import Looked, by_rules, look
from beforehand.forecast.schemes.agent import PurpleAgent
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.records.benchmark import PredictionRecord
from beforehand.records.record import Record
from beforehand.records.rows import MarketSeen
from beforehand.records.settles import Settles
from beforehand.records.world import Market, Observation, PricePoint
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.writer import ArchiveWriter
from experiments import Out, told

FEW = ("--draws", "100", "--placebo", "0")
NOW = parse_instant("2025-12-01T00:00:00Z")
WRITTEN = Path(__file__).parent / "written" / "purple.json"


@pytest.fixture
def agent(sim: Path, tmp_path: Path) -> PurpleAgent:
    opening = Opening(Workspace(Home(tmp_path)), world=RecordedWorld(Archive(sim)))
    found = open_forecaster("agent:purple", opening)
    assert isinstance(found, PurpleAgent)
    return found


def contexts(sim: Path) -> list[Context]:
    """Every settled market a week before its end."""
    world = RecordedWorld(Archive(sim))
    found = []
    for ending in Gateway(world).full_view().resolutions():
        view = Gateway(world).at(ending.resolved_at - timedelta(days=7))
        series = world.series(ending.market_id)
        if series is None or from_us(int(series.known_at[0])) > view.t:
            continue
        market = view.market(ending.market_id)
        text = "\n\n".join(part for part in (market.question, market.rules) if part)
        found.append(Context(iso(view.t), MarketSeen(market.id, text or None)))
    return found


def test_nothing_that_it_sees_or_cites_is_later(agent: PurpleAgent, sim: Path) -> None:
    """Of every question of the world; and asked of the whole world it would say otherwise (so
    there was something to see)."""
    asked, moved, cited = contexts(sim), 0, 0
    assert len(asked) > 50
    whole = Gateway(RecordedWorld(Archive(sim))).full_view()
    for context in asked:
        made = agent.decide(context, CallCounter())
        for line in made.evidence:
            assert line.timestamp is not None
            assert parse_instant(line.timestamp) <= parse_instant(context.time)
            cited += 1
        ahead = look(whole, context.market.id, context.market.description or "")
        moved += ahead.price is not None and abs(ahead.price - made.probability) > 0.05
    assert cited > len(asked)
    assert moved > len(asked) / 2


def test_every_citation_holds_in_the_audit(sim: Path, home: Path, capsys: Out) -> None:
    made = told(
        capsys, "bench", "run", "--archive", str(sim), "--forecasters", "market,agent:purple", *FEW,
        "--run-id", "round",
    )  # fmt: skip
    audit = made["audit"]
    assert audit["against_records"]
    assert audit["passed"] == audit["total"]
    assert audit["levels"] == {"supported": audit["items"]}
    assert audit["precision"] == 1
    kinds = {
        item["type"]
        for line in (home / "data" / "runs" / "round" / "predictions.jsonl")
        .read_text()
        .splitlines()
        for item in json.loads(line)["prediction"]["rationale"]
    }
    assert {"market_snapshot", "news"} <= kinds
    row = next(r for r in made["leaderboard"] if r["forecaster"] == "agent:purple")
    assert (row["isolation"], row["order"]) == ("by construction", "memoryless")


def test_the_record_is_the_documented_one(wide: Path, home: Path, capsys: Out) -> None:
    """A whole record, against the file that was read and agreed with the document's tables."""
    args = ("--archive", str(wide), "--forecasters", "agent:purple", *FEW, "--run-id", "round")
    told(capsys, "bench", "run", *args)
    lines = (home / "data" / "runs" / "round" / "predictions.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines if "agent:purple" in line]
    chosen = next(r for r in rows if len(r["prediction"]["rationale"]) == 3)
    written = json.loads(WRITTEN.read_text())
    assert chosen == written
    assert PredictionRecord.model_validate(written).wire() == written


def test_a_model_is_shown_the_finds_and_cites_them(sim: Path, home: Path, capsys: Out) -> None:
    """Its calls are the model's; two agents with one model share nothing but its answers."""
    names = "market,agent:purple:scripted,mine=agent:purple:scripted,scripted"
    done = told(
        capsys, "backtest", "run", "--archive", str(sim), "--forecasters", names, "--every", "90d",
        "--mode", "direct_llm", "--run-id", "r", *FEW,
    )  # fmt: skip
    assert {"agent:purple:scripted", "mine", "scripted"} <= {
        row["forecaster"] for row in done["leaderboard"]
    }
    assert told(capsys, "runs", "verify", "r")["sound"]
    traces = (home / "data" / "runs" / "r" / "traces.jsonl").read_text().splitlines()
    assert {json.loads(line)["model_id"] for line in traces} == {
        "agent:purple:scripted", "mine", "scripted",
    }  # fmt: skip


def test_agents_that_cannot_be(sim: Path, tmp_path: Path) -> None:
    opening = Opening(Workspace(Home(tmp_path)), world=RecordedWorld(Archive(sim)))
    for entry, said in (
        ("agent:green", "the agent is called purple"),
        ("agent", "the agent is called purple"),
        ("agent:purple:nobody", "'nobody' is no model"),
    ):
        with pytest.raises(InputError, match=said):
            open_forecaster(entry, opening)
    with pytest.raises(InputError, match="is asked in a run, which has a world"):
        open_forecaster("agent:purple", Opening(Workspace(Home(tmp_path))))
    with pytest.raises(NotConfigured, match="OPENAI_API_KEY"):
        open_forecaster("agent:purple:openai:gpt-5", opening).check()


def fact(concept: str, end: str, value: float, months: int = 3, unit: str = "USD") -> Observation:
    """A value of a period of so many months, filed a month after it."""
    last = date.fromisoformat(end)
    start = last - timedelta(days=round(months * 30.4) - 1)
    known = datetime.combine(last, datetime.min.time(), UTC) + timedelta(days=30)
    return Observation(
        source="edgar", kind="fact", subject="0000000001", id=f"{concept}/{unit}/{start}/{end}",
        data={"concept": concept, "unit": unit, "value": value, "start": f"{start}", "end": end,
              "accession": f"a-{end}", "filed": f"{known:%Y-%m-%d}"},
        known_at=known,
    )  # fmt: skip


def company(path: Path, *rows: Observation, more: tuple[Record, ...] = ()) -> RecordedWorld:
    """A world in which these were filed."""
    writer = ArchiveWriter(path)
    writer.add([*rows, *more], importer="t", source="t", source_digest="t", recorded_at=NOW)
    return RecordedWorld(Archive(path))


def rule(period: str, above: float, **more: object) -> Settles:
    said = {"kind": "xbrl_fact", "cik": "1", "concept": "Revenues", "unit": "USD"}
    return Settles.read({**said, "period": period, "above": above, **more})


def test_a_value_that_grows_is_expected_to_grow(tmp_path: Path) -> None:
    """A tenth a year, every quarter: the next value lies a tenth above that of a year before."""
    quarters = [f"{year}-{day}" for year in range(2021, 2025) for day in ("03-31", "06-30", "09-30", "12-31")]  # fmt: skip
    values = {end: 100 * 1.1 ** (i / 4) * (1 + 0.02 * (i % 4)) for i, end in enumerate(quarters)}
    view = Gateway(
        company(tmp_path, *(fact("us-gaap:Revenues", *one) for one in values.items()))
    ).at(NOW)
    expected = values["2024-03-31"] * 1.1

    def chance(bound: float, over: bool = True) -> float:
        asked = rule("2025-03-31", bound)
        if not over:
            asked = Settles.read({**asked.wire(), "above": None, "below": bound})
        return by_rules(look(view, None, "?", asked), 0, asked)[0]

    assert chance(expected) == pytest.approx(0.5, abs=0.02)
    assert chance(expected * 1.05) < 0.05 < 0.95 < chance(expected * 0.95)
    assert chance(expected * 1.05, over=False) == pytest.approx(1 - chance(expected * 1.05))
    with pytest.raises(BadAnswer, match="no price and no reported value"):
        by_rules(Looked(), 0, None)


YEARS = {"2022-12-31": 25.6e6, "2023-12-31": 32.0e6, "2024-12-31": 39.4e6}


def test_yearly_values_grow_by_what_they_grew_by(tmp_path: Path) -> None:
    """Of a year's question the years count, and not the quarters that end on the same days; every
    figure that is said is computed from what is on record."""
    yearly = [fact("us-gaap:Revenues", end, value, 12) for end, value in YEARS.items()]
    quarters = [fact("us-gaap:Revenues", end, value / 5) for end, value in YEARS.items()]
    view = Gateway(company(tmp_path, *quarters, *yearly)).at(NOW)
    drift = math.log(39.4 / 25.6) / 2
    for period, more in (("2025-12-31", {"months": 12}), ("2025-01-01/2025-12-31", {})):
        asked = rule(period, 39.4e6 * math.exp(drift), **more)
        p, why = by_rules(look(view, None, "?", asked), 0, asked)
        assert p == pytest.approx(0.5, abs=1e-9)
        assert (
            f"grown by {math.expm1(drift):.1%} on average (2 pairs of values a year apart)" in why
        )
        assert "Revenues was 39,400,000 USD for the year 2024-01-02 to 2024-12-31" in why
    asked = rule("2025-12-31", 7.9e6, months=3)
    assert "7,880,000 USD for the quarter" in by_rules(look(view, None, "?", asked), 0, asked)[1]
    alone = Gateway(company(tmp_path / "one", yearly[-1])).at(NOW)
    why = by_rules(look(alone, None, "?", rule("2025-12-31", 4e7)), 0, rule("2025-12-31", 4e7))[1]
    assert "no two values a year apart are on record: no growth is assumed" in why
    late = rule("2027-12-31", 4e7)
    why = by_rules(look(view, None, "?", late), 0, late)[1]
    assert "no value of a year before the question's period is on record" in why


@pytest.mark.parametrize(
    ("question", "concept", "months"),
    [
        ("Will CIK 1 report revenue above 40 million for FY2025?", "us-gaap:Revenues", 12),
        ("Will sales of CIK 1 in Q4 2025 exceed 8 million?", "us-gaap:Revenues", 3),
        ("Will CIK 1's EPS beat 1.50 in Q4 2025?", "us-gaap:EarningsPerShareDiluted", 3),
        ("Will CIK 1 turn a profit in FY2025?", "us-gaap:NetIncomeLoss", 12),
        ("Will CIK 1 be mentioned in a speech?", None, 0),
    ],
)
def test_the_facts_are_those_that_are_asked_about(
    question: str, concept: str | None, months: int, tmp_path: Path
) -> None:
    """Of a dozen concepts, whatever their order in the alphabet; where none is asked about, none."""
    others = ("AccountsPayableCurrent", "Assets", "CommonStockValue", "Goodwill", "NetIncomeLoss",
              "EarningsPerShareDiluted", "Revenues", "StockholdersEquity", "UnrecognizedTaxBenefits")  # fmt: skip
    rows = [
        fact(f"us-gaap:{name}", end, 5.0, span)
        for name in others
        for end in YEARS
        for span in (3, 12)
    ]
    market = Market(id="K:1", venue="K", native_id="1", question=question, known_at=NOW)
    price = PricePoint(market_id="K:1", price=0.3, observed_at=NOW, known_at=NOW)
    world = company(tmp_path, *rows, more=(market, price))
    found = look(Gateway(world).at(NOW), "K:1", question)
    assert {one.line.snippet.split()[0] for one in found.facts} == ({concept} if concept else set())
    assert {one.months for one in found.values} == ({months} if concept else set())
    agent = open_forecaster("agent:purple", Opening(Workspace(Home(tmp_path)), world=world))
    made = agent.decide(Context(iso(NOW), MarketSeen("K:1", question)), CallCounter())
    cited = {line.source for line in made.evidence or () if line.type == "xbrl_fact"}
    assert cited == {one.id for one in found.facts}
    assert made.probability == 0.3
    assert ("Reported: " in made.rationale) is (concept is not None)


def test_events_without_a_market_are_answered_from_their_own_sources(
    sim: Path, home: Path, capsys: Out, tmp_path: Path
) -> None:
    """An event of the SEC beside a market's: who can, answers it; who cannot, is listed."""
    shutil.copytree(sim, tmp_path / "w")
    world = company(tmp_path / "w", *(fact("us-gaap:Revenues", e, v, 12) for e, v in YEARS.items()))
    ending = Gateway(world).full_view().resolutions()[0]
    at = iso(ending.resolved_at - timedelta(days=7))
    said = {"kind": "xbrl_fact", "cik": "1", "concept": "Revenues", "unit": "USD", "period": "2025-12-31",
            "months": 12, "above": 40e6}  # fmt: skip
    events = [
        {"id": ending.market_id, "question": "?", "forecast_at": at},
        {"id": "sec-1", "question": "Will revenues exceed 40 million?", "forecast_at": iso(NOW), "resolves_by": said},
        {"id": "KALSHI:GONE", "question": "Will it?", "forecast_at": at},
    ]  # fmt: skip
    path, out = tmp_path / "events.jsonl", tmp_path / "predictions.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in events))
    order = (
        "bench",
        "predict",
        "--events",
        str(path),
        "--out",
        str(out),
        "--archive",
        str(tmp_path / "w"),
    )
    done = told(capsys, *order, "--forecasters", "market,agent:purple", "--run-id", "p")
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    by = {(line["id"], line["metadata"]["model"]): line["prediction"] for line in lines}
    assert set(by) == {(ending.market_id, "baseline:market"), (ending.market_id, "agent:purple"), ("sec-1", "agent:purple")}  # fmt: skip
    assert "39,400,000 USD" in by["sec-1", "agent:purple"]["analysis"]
    assert {one["type"] for one in by["sec-1", "agent:purple"]["rationale"]} == {"xbrl_fact"}
    assert done["counts"] == {
        "events": 3, "predictions": 3, "missing": 3, "without_market": 2, "unanswered": ["KALSHI:GONE"],
    }  # fmt: skip
    told(capsys, "runs", "verify", "p")
    for wrong in ({"cik": "AAPL"}, {"period": "soon"}, {"below": 1.0}):
        bad = {**events[1], "resolves_by": {**said, **wrong}}
        path.write_text(json.dumps(bad))
        assert cli([*order, "--forecasters", "agent:purple", "--run-id", "bad"]) == 2
        assert "event 'sec-1': resolves_by" in capsys.readouterr().err
    path.write_text("".join(json.dumps(one) + "\n" for one in events))
    assert cli([*order, "--forecasters", "market", "--run-id", "q"]) == 0
    said_of = capsys.readouterr().out
    assert "without a market in this archive, and so without a price: 2" in said_of
    assert "answered by nobody: 2 (sec-1, KALSHI:GONE)" in said_of
