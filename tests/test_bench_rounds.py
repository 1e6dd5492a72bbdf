"""Rounds: which markets become events, every other one with its reason, and the sealed twin."""

import json
from collections import Counter
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
import time_machine

from beforehand.cli.app import run as cli
from beforehand.clock import iso, parse_instant
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.ids import digest
from beforehand.jobs.benchmark.evaluation import MARKET_LOOKED_UP, TOO_LATE
from beforehand.jobs.benchmark.rounds import Wanted
from beforehand.records.world import Market, Odds
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.writer import ArchiveWriter
from experiments import Out, told

DAY = timedelta(days=1)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def middle(wide: Path) -> str:
    """An instant at which some markets of the world have ended, and others are open."""
    view = Gateway(RecordedWorld(Archive(wide))).full_view()
    ends = sorted(r.known_at for r in view.resolutions())
    return iso(ends[len(ends) // 2] - timedelta(hours=1))


def ingested(out: Path, wide: Path, capsys: Out, *more: str, code: int = 0) -> dict[str, Any]:
    return told(
        capsys, "bench", "ingest", "--archive", str(wide), "--out", str(out), *more, code=code
    )


def test_every_open_market_is_an_event_or_has_its_reason(
    wide: Path, home: Path, tmp_path: Path, capsys: Out, middle: str
) -> None:
    with time_machine.travel(parse_instant(middle), tick=False):
        found = ingested(tmp_path / "r", wide, capsys, "--open")
    view = Gateway(RecordedWorld(Archive(wide))).at(parse_instant(middle))
    events, left = lines(tmp_path / "r" / "events.jsonl"), lines(tmp_path / "r" / "left_out.jsonl")
    assert {e["id"] for e in events} | {one["id"] for one in left} == {m.id for m in view.markets()}
    assert not {e["id"] for e in events} & {one["id"] for one in left}
    assert len(events) > 5
    for event in events:
        assert view.resolution(event["id"]) is None, "nobody knows its end"
        assert event["baseline_probability"] == view.odds(event["id"]).price
        assert event["forecast_at"] == middle
    assert lines(tmp_path / "r" / "resolutions.jsonl") == []
    frozen = json.loads((tmp_path / "r" / "round.json").read_text())
    assert frozen == found["round"]
    assert frozen["digest"] == digest((tmp_path / "r" / "events.jsonl").read_bytes())
    assert frozen["left_out"] == Counter(one["reason"] for one in left)
    order = ["bench", "ingest", "--archive", str(wide), "--out", str(tmp_path / "r"), "--open"]
    assert cli(order) == 2
    assert "was frozen at" in capsys.readouterr().err


def test_filters_and_limits_have_reasons(
    wide: Path, home: Path, tmp_path: Path, capsys: Out, middle: str
) -> None:
    with time_machine.travel(parse_instant(middle), tick=False):
        whole = ingested(tmp_path / "all", wide, capsys, "--open")["counts"]["events"]
        bounds = ["--min-price", "0.2", "--max-price", "0.8", "--max-days", "60", "--limit", "4"]
        few = ingested(tmp_path / "few", wide, capsys, "--open", *bounds)
        rest = ingested(
            tmp_path / "rest", wide, capsys, "--open", "--not-in", str(tmp_path / "few")
        )
    events = lines(tmp_path / "few" / "events.jsonl")
    assert len(events) == few["counts"]["events"] == 4
    assert all(0.2 <= e["baseline_probability"] <= 0.8 for e in events)
    assert [e["resolution_date"] for e in events] == sorted(e["resolution_date"] for e in events)
    reasons = few["round"]["left_out"]
    assert reasons["beyond the limit"] > 0
    assert reasons["a price out of bounds"] > 0
    second = lines(tmp_path / "rest" / "events.jsonl")
    assert not {e["id"] for e in events} & {e["id"] for e in second}, "no event in two rounds"
    assert len(events) + len(second) == whole
    assert rest["round"]["left_out"]["in an earlier round"] == 4
    for wrong, why in (
        (["--limit", "0"], "at least 1"),
        (["--min-price", "0.9", "--max-price", "0.1"], "the least below the most"),
        (["--min-days", "9", "--max-days", "2"], "more than the most"),
        (["--not-in", str(tmp_path / "nowhere")], "there are no events"),
        (["--venue", "NOWHERE"], "another venue"),
        (["--min-volume", "1e15"], "too little volume"),
    ):
        order = ["bench", "ingest", "--archive", str(wide), "--out", str(tmp_path / "x"), *wrong]
        assert cli(order) == 2
        assert why in capsys.readouterr().err


def test_settled_markets_are_filtered_alike(
    wide: Path, home: Path, tmp_path: Path, capsys: Out
) -> None:
    whole = ingested(tmp_path / "all", wide, capsys)["counts"]
    few = ingested(tmp_path / "few", wide, capsys, "--limit", "10", "--min-price", "0.3")["counts"]
    assert few["events"] == 10
    assert (
        whole["events"]
        == 10 + few["left out: beyond the limit"] + few["left out: a price out of bounds"]
    )
    assert len(lines(tmp_path / "few" / "resolutions.jsonl")) == 10


def test_a_round_is_answered_sealed_resolved_and_scored(
    wide: Path, home: Path, tmp_path: Path, capsys: Out, middle: str
) -> None:
    """The sealed twin of a backtest: open events, forecasts sealed then, endings that come later.
    Nothing of the archive after the round is seen by a forecaster, and only what was sealed
    counts."""
    folder, log = tmp_path / "r", tmp_path / "sealed.jsonl"
    made, now = folder / "made.jsonl", parse_instant(middle)
    with time_machine.travel(now, tick=False):
        ingested(folder, wide, capsys, "--open")
        asked = ["--forecasters", "market,drift,extremised", "--archive", str(wide)]
        told(
            capsys,
            "bench",
            "predict",
            "--events",
            str(folder / "events.jsonl"),
            "--out",
            str(made),
            *asked,
        )
    # Two days later: each stands beside the market's price then, and not at the round's start.
    with time_machine.travel(now + timedelta(hours=50), tick=False):
        sealed = told(capsys, "bench", "seal", "--predictions", str(made), "--log", str(log))
    events = lines(folder / "events.jsonl")
    assert sealed["sealed"] == 3 * len(events)
    ends = folder / "resolutions.jsonl"
    resolve = ["bench", "resolve", "--events", str(folder / "events.jsonl"), "--out", str(ends)]
    done = told(capsys, *resolve, "--archive", str(wide))
    assert done["states"]["resolved"] > 5
    score = [
        "bench",
        "evaluate",
        "--events",
        str(folder / "events.jsonl"),
        "--resolutions",
        str(ends),
    ]
    score += ["--predictions", str(made), "--sealed", str(log), "--archive", str(wide)]
    found = told(capsys, *score, "--placebo", "0", "--draws", "200", code=3)
    board = {row["forecaster"]: row for row in found["leaderboard"]}
    assert board["drift"]["isolation"] == "by construction (sealed beforehand)"
    assert 5 < board["drift"]["n"] <= done["states"]["resolved"]
    reasons = {one["reason"] for one in found["unscored"]}
    assert reasons <= {"the event is not resolved, or void", TOO_LATE, MARKET_LOOKED_UP}
    view = Gateway(RecordedWorld(Archive(wide))).at(now + timedelta(hours=50))
    ended = {one["id"]: one["resolved_at"] for one in lines(ends)}
    kept = [name for name, at in ended.items() if parse_instant(at) > view.t]
    said = {
        r["id"]: r["prediction"]["probability"]
        for r in lines(made)
        if "drift" in r["metadata"]["model"]
    }
    paid = {one["id"]: one.get("payout", one["outcome"]) for one in lines(ends)}
    gain = [(view.odds(m).price - paid[m]) ** 2 - (said[m] - paid[m]) ** 2 for m in kept]
    assert board["drift"]["skill_vs_market"] == pytest.approx(sum(gain) / len(gain))
    assert found["audit"]["passed"] == found["audit"]["total"]
    head = ["--head", sealed["head"], "--predictions", str(made)]
    assert told(capsys, "bench", "verify", "--log", str(log), *head)["problems"] == []
    # The same rounds backtested later give the same forecasts: the gap between both is 0 here.
    again = tmp_path / "again.jsonl"
    told(
        capsys,
        "bench",
        "predict",
        "--events",
        str(folder / "events.jsonl"),
        "--out",
        str(again),
        *asked,
    )
    live = {(r["id"], r["metadata"]["model"]): r["prediction"]["probability"] for r in lines(made)}
    back = {(r["id"], r["metadata"]["model"]): r["prediction"]["probability"] for r in lines(again)}
    assert live == back


def test_markets_that_tell_or_do_not_say(tmp_path: Path) -> None:
    """A text that tells the outcome is left out; without rules only where they are asked for."""
    t = parse_instant("2026-01-05T00:00:00Z")

    def market(question: str, rules: str | None = "YES if it rains.") -> Market:
        return Market(
            id="KALSHI:m", venue="KALSHI", native_id="m", question=question, rules=rules, known_at=t
        )

    odds = Odds(market_id="KALSHI:m", price=0.5, observed_at=t, known_at=t, price_age=0.0)
    view = Gateway(RecordedWorld(Archive(stored(tmp_path, market("Rain?"))))).at(t)
    for question, rules, why in (
        ("Rain?", "YES if it rains.", None),
        (
            "Rain?",
            "This market will resolve to Yes if it rains, and has to be resolved by May.",
            None,
        ),
        ("Rain? (resolved NO)", None, "its text tells the outcome"),
        ("Rain?", 'It was resolved to "Yes" on May 5.', "its text tells the outcome"),
        ("Rain?", "This market has resolved.", "its text tells the outcome"),
    ):
        assert Wanted().refusal(market(question, rules), odds, view) == why, question
    assert (
        Wanted(with_rules=True).refusal(market("Rain?", None), odds, view)
        == "it does not say how it resolves"
    )
    assert Wanted(with_rules=True).refusal(market("Rain?"), odds, view) is None


def stored(folder: Path, *records: Market) -> Path:
    path = folder / "few"
    ArchiveWriter(path).add(records, importer="t", source="t", source_digest="t", recorded_at=parse_instant("2026-02-01T00:00:00Z"))  # fmt: skip
    return path


def test_what_is_sealed_is_a_try_and_what_is_left_out_unanswered(
    wide: Path, home: Path, tmp_path: Path, capsys: Out, middle: str
) -> None:
    """Of many that were sealed, one is handed in, without the events that it lost; and the price's
    age is the archive's, whatever the snapshot beside the events says."""
    folder, log = tmp_path / "r", tmp_path / "sealed.jsonl"
    now = parse_instant(middle)
    with time_machine.travel(now, tick=False):
        ingested(folder, wide, capsys, "--open")
    events = lines(folder / "events.jsonl")
    rng, made = Random(1), dict[str, Path]()
    for k in range(12):
        name = f"noise{k}"
        rows = [
            {
                "id": event["id"],
                "prediction": {"probability": min(max(event["baseline_probability"] + rng.gauss(0, 0.1), 0.01), 0.99)},
                "metadata": {"model": name, "predictor_id": name, "timestamp": iso(now)},
            }
            for event in events
        ]  # fmt: skip
        made[name] = tmp_path / f"{name}.jsonl"
        made[name].write_text("".join(json.dumps(row) + "\n" for row in rows))
        with time_machine.travel(now + timedelta(milliseconds=5), tick=False):
            told(capsys, "bench", "seal", "--predictions", str(made[name]), "--log", str(log))
    ends = folder / "resolutions.jsonl"
    resolve = ["bench", "resolve", "--events", str(folder / "events.jsonl"), "--out", str(ends)]
    told(capsys, *resolve, "--archive", str(wide))
    old = [{**row, "price_age": 31 * 86400.0} for row in lines(folder / "events_snapshots.jsonl")]
    (folder / "events_snapshots.jsonl").write_text("".join(json.dumps(row) + "\n" for row in old))

    def scored(name: str) -> dict[str, Any]:
        score = ["bench", "evaluate", "--events", str(folder / "events.jsonl")]
        score += ["--resolutions", str(ends), "--predictions", str(made[name])]
        score += ["--sealed", str(log), "--archive", str(wide), "--placebo", "0", "--draws", "200"]
        capsys.readouterr()
        assert cli([*score, "--json"]) in (0, 3)
        return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]

    whole = scored("noise3")
    assert whole["validity"]["variants_tried"]["value"] == 12
    assert whole["validity"]["price_age_days_p50"]["value"] < 7, "of the archive, also 5 ms later"
    (row,) = [row for row in whole["leaderboard"] if row["forecaster"] == "noise3"]
    assert row["evidence"]["widened"] > 1.2
    lost = {one["id"] for one in lines(ends)[::2]}
    for path in (ends, folder / "events.jsonl"):
        kept = [one for one in lines(path) if one["id"] not in lost]
        path.write_text("".join(json.dumps(row) + "\n" for row in kept))
        (less,) = [r for r in scored("noise3")["leaderboard"] if r["forecaster"] == "noise3"]
        assert less["verdict"] == "not shown"
        assert less["answered"] < 0.7, path
        assert any("it answered" in why for why in less["reasons"]) or less["evidence"]["mean"] < 0
