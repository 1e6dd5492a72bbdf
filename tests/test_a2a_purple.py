"""The purple agent: what it looks up lies before t, and what it cites is there and says so."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from beforehand.clock import from_us, iso, parse_instant
from beforehand.config import Home, Workspace
from beforehand.errors import BadAnswer, InputError, NotConfigured
from beforehand.forecast.base import CallCounter, Context, Opening, open_forecaster
from beforehand.forecast.purple import FactRule, Looked, by_rules, look
from beforehand.forecast.schemes.agent import PurpleAgent
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.records.benchmark import PredictionRecord
from beforehand.records.rows import MarketSeen
from beforehand.records.world import Observation
from beforehand.store.archive.reader import Archive
from experiments import Out, told

FEW = ("--draws", "100", "--placebo", "0")
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


def facts(values: dict[str, float]) -> list[Observation]:
    return [
        Observation(
            source="edgar", kind="fact", subject="0000000001", id=end,
            data={"concept": "us-gaap:Revenues", "unit": "USD", "value": value, "end": end},
            known_at=parse_instant(f"{end}T00:00:00Z"),
        )
        for end, value in values.items()
    ]  # fmt: skip


def test_a_value_that_grows_is_expected_to_grow() -> None:
    """A tenth a year, every quarter: the next value lies a tenth above that of a year before."""
    quarters = [f"{year}-{day}" for year in range(2021, 2025) for day in ("03-31", "06-30", "09-30", "12-31")]  # fmt: skip
    values = {end: 100 * 1.1 ** (i / 4) * (1 + 0.02 * (i % 4)) for i, end in enumerate(quarters)}
    looked = Looked(values=facts(values))
    expected = values["2024-03-31"] * 1.1

    def chance(bound: float, over: bool = True) -> float:
        rule = FactRule("1", "Revenues", "USD", "2025-03-31", bound, over)
        return by_rules(looked, 0, rule)[0]

    assert chance(expected) == pytest.approx(0.5, abs=0.02)
    assert chance(expected * 1.05) < 0.05 < 0.95 < chance(expected * 0.95)
    assert chance(expected * 1.05, over=False) == pytest.approx(1 - chance(expected * 1.05))
    with pytest.raises(BadAnswer, match="no price and no reported value"):
        by_rules(Looked(), 0, None)
