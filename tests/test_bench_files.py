"""The benchmark over files: ingest, predict, evaluate, and foreign predictions."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from beforehand.clock import iso, parse_instant
from beforehand.config import Home, Workspace
from beforehand.engine.runs import start
from beforehand.errors import InputError
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs.benchmark import evaluation
from beforehand.jobs.benchmark import events as benchmark
from beforehand.jobs.benchmark.benchmark_job import BenchmarkRequest, PredictRequest
from beforehand.records.benchmark import ResolutionRecord
from beforehand.records.bulk import PredictionRow, decode_prediction
from beforehand.runs.rows import read_jsonl
from beforehand.score.audit import audit
from beforehand.score.bets import Kelly, Profit
from beforehand.score.evaluate import Settings
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.world.render import records
from beforehand.world.simulate import SimConfig

FAST = Settings(draws=200, placebo=20)


def predict(archive: Archive, events: Path, names: str, out: Path, run_id: str) -> dict:  # type: ignore[type-arg]
    request = PredictRequest(archive.path, events, names, out)
    return start(request, Workspace(Home(out.parent)), run_id).summary


def rows(path: Path) -> list[dict]:  # type: ignore[type-arg]
    return list(read_jsonl(path))


def test_the_benchmark_over_files(sim: Path, tmp_path: Path) -> None:
    archive = Archive(sim)
    benchmark.ingest(archive, timedelta(days=7)).write(tmp_path)
    events = rows(tmp_path / "events.jsonl")
    assert len(rows(tmp_path / "events_snapshots.jsonl")) == len(events) > 50
    out = tmp_path / "p.jsonl"
    predict(archive, tmp_path / "events.jsonl", "all", out, "p")
    done = evaluation.evaluate_files(
        tmp_path / "events.jsonl", out, tmp_path / "resolutions.jsonl", FAST
    )
    assert done.audit["passed"] == done.audit["total"] == len(rows(out))
    market = done.result.rows[0]
    brier = sum(
        (e["baseline_probability"] - ResolutionRecord.model_validate(r).settled) ** 2
        for e, r in zip(events, rows(tmp_path / "resolutions.jsonl"), strict=True)
    ) / len(events)
    assert market.brier == pytest.approx(brier)
    # An event must not show when its market really ended, only what was scheduled then.
    for event in events:
        close = event.get("resolution_date")
        assert close is None or parse_instant(close) >= parse_instant(event["forecast_at"])


def test_bets_are_made_at_the_books_on_record_else_at_the_price_itself(
    sim: Path, tmp_path: Path
) -> None:
    archive = Archive(sim)
    benchmark.ingest(archive, timedelta(days=7)).write(tmp_path)
    files = [tmp_path / f"{name}.jsonl" for name in ("events", "p", "resolutions")]
    predict(archive, files[0], "market,drift", files[1], "p")

    def money(settings: Settings = FAST, gateway: Gateway | None = None) -> Profit:
        done = evaluation.evaluate_files(*files, settings, gateway=gateway)
        found = next(row for row in done.result.rows if row.forecaster == "drift").profit
        assert isinstance(found, Profit), "not: not computable"
        return found

    alone = money()
    assert alone.note.startswith("the market's price itself (no spread); fee")
    prices = {e["id"]: e["baseline_probability"] for e in rows(files[0])}
    said = {r["id"]: r["prediction"]["probability"] for r in rows(files[1]) if r["metadata"]["model"] != "baseline:market"}  # fmt: skip
    assert {round(p, 9) for p in alone.price.tolist()} <= {
        round(p if said[name] > p else 1 - p, 9) for name, p in prices.items()
    }
    stated = money(replace(FAST, kelly=Kelly(spread=0.02)))
    assert stated.note.startswith("assumed spread 0.02")
    booked = money(gateway=Gateway(RecordedWorld(archive)))
    assert booked.note.startswith("recorded book; fee")
    assert set(booked.price.tolist()) != set(alone.price.tolist())


def test_all_stages_in_one_run(sim: Path, tmp_path: Path) -> None:
    """The same figures as stage by stage, and the same files."""
    request = BenchmarkRequest(sim, "market,drift", settings=FAST)
    done = start(request, Workspace(Home(tmp_path)), "b")
    benchmark.ingest(Archive(sim), timedelta(days=7)).write(tmp_path)
    out = tmp_path / "p.jsonl"
    predict(Archive(sim), tmp_path / "events.jsonl", "market,drift", out, "p")
    single = evaluation.evaluate_files(
        tmp_path / "events.jsonl",
        out,
        tmp_path / "resolutions.jsonl",
        FAST,
        gateway=Gateway(RecordedWorld(Archive(sim))),
    )
    both = done.summary["leaderboard"], single.result.wire()["leaderboard"]
    kept = [[(row.pop("isolation"), row.pop("order")) for row in board] for board in both]
    assert both[0] == both[1]
    assert kept[0] == [("by construction", "memoryless")] * 2
    assert kept[1][1] == ("trusted", "not asked (times as stated)"), "a file says nothing of that"
    for name in ("events", "events_snapshots", "resolutions"):
        mine, theirs = done.folder.path / f"{name}.jsonl", tmp_path / f"{name}.jsonl"
        assert mine.read_bytes() == theirs.read_bytes()
    with pytest.raises(InputError, match="no market of"):
        start(BenchmarkRequest(sim, horizon=timedelta(days=3000)), Workspace(Home(tmp_path)), "c")


def test_a_foreign_agents_predictions(sim: Path, tmp_path: Path) -> None:
    benchmark.ingest(Archive(sim), timedelta(days=7)).write(tmp_path)
    events = rows(tmp_path / "events.jsonl")
    lines = [
        {
            "id": e["id"],
            "prediction": {
                "probability": 0.4,
                "rationale": [
                    {
                        "type": "note",
                        "source": "x",
                        **({"timestamp": e["forecast_at"]} if i else {}),
                    }
                ],
            },
            "metadata": {"model": "agent", "timestamp": e["forecast_at"]},
        }
        for i, e in enumerate(events[:-5])
    ] + [{"id": "nobody", "prediction": {"probability": 0.4}}]
    (tmp_path / "mine.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    done = evaluation.evaluate_files(
        tmp_path / "events.jsonl", tmp_path / "mine.jsonl", tmp_path / "resolutions.jsonl", FAST
    )
    agent = next(r for r in done.result.rows if r.forecaster == "agent")
    assert (agent.n, agent.missing) == (len(events) - 5, 5)
    assert done.counts["predictions_of_unknown_events"] == 1
    assert done.counts["events_without_prediction"] == 5
    assert done.audit["total"] - done.audit["passed"] == 1
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"id": "x", "prediction": {"probability": 1.5}}')
    with pytest.raises(InputError, match=r"bad\.jsonl:1: .*<= 1"):
        evaluation.evaluate_files(
            tmp_path / "events.jsonl", bad, tmp_path / "resolutions.jsonl", FAST
        )


def test_evidence_after_the_prediction_fails_the_audit() -> None:
    def record(stamp: str | None, own: bool = True) -> PredictionRow:
        item = {"type": "a", "source": "s", **({"timestamp": stamp} if stamp else {})}
        raw = {"id": "e", "prediction": {"probability": 0.5, "rationale": [item]}}
        if own:
            raw["metadata"] = {"model": "m", "timestamp": "2026-01-01T00:00:00Z"}
        return decode_prediction(json.dumps(raw).encode())

    stamps = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000001Z", None]
    made = [*(record(s) for s in stamps), record(stamps[0], own=False)]
    found = audit(made)
    total, passed, failures = found.total, found.passed, found.failures
    assert (total, passed) == (4, 1)
    assert "after the prediction" in failures[0]
    assert "evidence 's' has no timestamp" in failures[1]
    assert "the prediction that cites it has no timestamp" in failures[2]


def test_a_later_market_price_is_no_skill(sim: Path, tmp_path: Path) -> None:
    """The market itself, read six days after the price it is compared with, must not win."""
    archive = Archive(sim)
    benchmark.ingest(archive, timedelta(days=7)).write(tmp_path)
    gateway = Gateway(RecordedWorld(archive))
    lines = []
    for event in rows(tmp_path / "events.jsonl"):
        later = parse_instant(event["forecast_at"]) + timedelta(days=6)
        lines.append(
            {
                "id": event["id"],
                "prediction": {"probability": gateway.at(later).odds(event["id"]).price},
                "metadata": {"model": "late", "timestamp": iso(later)},
            }
        )
    late = tmp_path / "late.jsonl"
    late.write_text("\n".join(json.dumps(line) for line in lines))
    paths = (tmp_path / "events.jsonl", late, tmp_path / "resolutions.jsonl")
    with pytest.raises(InputError, match=f"none .* {len(lines)} × {evaluation.AFTER_PRICE}"):
        evaluation.evaluate_files(*paths, FAST)
    # The same forecasts, dated as if made in time: that lie is beyond any file. With evidence
    # from later, the audit turns the verdict.
    for line, event in zip(lines, rows(paths[0]), strict=True):
        line["metadata"]["timestamp"] = event["forecast_at"]
        line["prediction"]["rationale"] = [
            {"type": "x", "source": "later", "timestamp": "2099-01-01T00:00:00Z"}
        ]
    late.write_text("\n".join(json.dumps(line) for line in lines))
    done = evaluation.evaluate_files(*paths, FAST)
    row = next(r for r in done.result.rows if r.forecaster == "late")
    assert row.skill_vs_market > 0
    assert row.verdict == "not shown"
    assert done.audit["passed"] == 0


def test_two_events_of_one_market_keep_their_ids(sim: Path, tmp_path: Path) -> None:
    benchmark.ingest(Archive(sim), timedelta(days=7)).write(tmp_path)
    event = rows(tmp_path / "events.jsonl")[0]
    t = parse_instant(event["forecast_at"])
    made = [
        {**event, "id": "b", "forecast_at": iso(t)},
        {**event, "id": "a", "forecast_at": iso(t)},
        {**event, "id": "c", "forecast_at": iso(t - timedelta(days=3))},
        {**event, "id": "d", "forecast_at": "2001-01-01T00:00:00Z"},
    ]
    for row in made:
        row["source"] = {"type": event["id"].split(":")[0], "market_id": event["id"].split(":")[1]}
    path, out = tmp_path / "e.jsonl", tmp_path / "o.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in made))
    counts = predict(Archive(sim), path, "market,drift", out, "x")
    assert counts == {
        "events": 4, "predictions": 6, "missing": 2, "without_market": 0, "unanswered": ["d"],
    }  # fmt: skip
    assert sorted(r["id"] for r in rows(out)) == ["a", "a", "b", "b", "c", "c"]
    for row in rows(tmp_path / "data" / "runs" / "x" / "intervals.jsonl"):
        assert row["context"]["previous_intervals"] == []
    path.write_text(json.dumps({**made[0], "forecast_at": "2199-01-01T00:00:00Z"}))
    with pytest.raises(InputError, match="does not lie before the market's end"):
        predict(Archive(sim), path, "market", out, "y")


def test_what_a_predictions_file_may_not_do(wide: Path, tmp_path: Path) -> None:
    """No time, a forged market, a forecast after the resolution: counted, and no win."""
    archive = Archive(wide)
    benchmark.ingest(archive, timedelta(days=7)).write(tmp_path)
    events = rows(tmp_path / "events.jsonl")
    endings = {
        r["id"]: ResolutionRecord.model_validate(r) for r in rows(tmp_path / "resolutions.jsonl")
    }
    paths = (tmp_path / "events.jsonl", tmp_path / "p.jsonl", tmp_path / "resolutions.jsonl")

    def evaluate(lines: list[dict]) -> evaluation.Evaluation:  # type: ignore[type-arg]
        paths[1].write_text("\n".join(json.dumps(line) for line in lines))
        gateway = Gateway(RecordedWorld(archive))
        return evaluation.evaluate_files(*paths, FAST, gateway=gateway)

    def line(event: dict, p: float, who: str | None, at: str) -> dict:  # type: ignore[type-arg]
        meta = {"metadata": {"model": who, "timestamp": at}} if who else {}
        return {"id": event["id"], "prediction": {"probability": p}, **meta}

    oracle = [
        line(e, min(max(endings[e["id"]].settled, 0.02), 0.98), "o", e["forecast_at"])
        for e in events
    ]
    assert (
        next(r for r in evaluate(oracle).result.rows if r.forecaster == "o").verdict
        == "beats the market"
    )
    undated = evaluate([{k: v for k, v in row.items() if k != "metadata"} for row in oracle])
    assert undated.counts["predictions_without_a_time"] == len(events)
    assert [r.verdict for r in undated.result.rows if r.forecaster == "unnamed"] == ["not shown"]
    forged = [line(e, 0.5, "market", e["forecast_at"]) for e in events]
    copies = [line(e, e["baseline_probability"], "copy", e["forecast_at"]) for e in events]
    with pytest.raises(InputError, match=f"{len(events)} market_rows_that_contradict"):
        evaluate(forged + copies)
    late = [line(e, 0.5, "late", "2031-01-01T00:00:00Z") for e in events]
    counts = evaluate(late + oracle).counts
    assert counts["predictions_at_or_after_the_resolution"] == len(events)


def test_the_flow_of_the_readme_can_be_won(tmp_path: Path) -> None:
    ArchiveWriter(tmp_path / "a").add(
        records(SimConfig(seed=3, dates=120)),
        importer="simulate",
        source="s",
        source_digest="s",
        recorded_at=parse_instant("2026-11-01T00:00:00Z"),
    )
    archive = Archive(tmp_path / "a")
    benchmark.ingest(archive, timedelta(days=7)).write(tmp_path)
    out = tmp_path / "p.jsonl"
    predict(archive, tmp_path / "events.jsonl", "all", out, "p")
    endings = {
        r["id"]: ResolutionRecord.model_validate(r) for r in rows(tmp_path / "resolutions.jsonl")
    }
    mine = [
        {
            "id": e["id"],
            "prediction": {"probability": min(max(endings[e["id"]].settled, 0.05), 0.95)},
            "metadata": {"model": "mine", "timestamp": e["forecast_at"]},
        }
        for e in rows(tmp_path / "events.jsonl")
    ]
    with out.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in mine)
    done = evaluation.evaluate_files(
        tmp_path / "events.jsonl", out, tmp_path / "resolutions.jsonl", FAST
    )
    row = next(r for r in done.result.rows if r.forecaster == "mine")
    assert row.verdict == "beats the market", (row.reasons, row.skill)
    folder = tmp_path / "evaluation"
    paths = (tmp_path / "events.jsonl", out, tmp_path / "resolutions.jsonl")
    page = evaluation.store(done, paths, folder).read_text()
    assert "mine beats the market" in page
    assert 'id="audit"' in page
    assert sorted(p.name for p in folder.iterdir()) == [
        "bets.csv",
        "leaderboard.csv",
        "pairs.csv",
        "questions.csv",
        "rejected.jsonl",
        "report.html",
        "scores.json",
    ]
    ages = {c.field: c.value for c in done.result.checks}
    assert ages["price_age_days_p50"] is not None


def test_resolutions_without_a_time_get_no_date_of_ours(sim: Path, tmp_path: Path) -> None:
    benchmark.ingest(Archive(sim), timedelta(days=7)).write(tmp_path)
    events = [
        {k: v for k, v in e.items() if k != "resolution_date"}
        for e in rows(tmp_path / "events.jsonl")
    ]
    endings = [
        {k: v for k, v in r.items() if k not in ("resolved_at", "known_at")}
        for r in rows(tmp_path / "resolutions.jsonl")
    ]
    mine = [
        {
            "id": e["id"],
            "prediction": {"probability": 0.4},
            "metadata": {"model": "m", "timestamp": e["forecast_at"]},
        }
        for e in events
    ]
    paths = [tmp_path / name for name in ("e.jsonl", "p.jsonl", "r.jsonl")]
    for path, lines in zip(paths, (events, mine, endings), strict=True):
        path.write_text("\n".join(json.dumps(line) for line in lines))
    done = evaluation.evaluate_files(*paths, FAST)
    assert done.counts["resolutions_without_a_time"] == len(endings)
    assert done.result.table.resolved_at.tolist() == [0] * len(endings)
    row = next(r for r in done.result.rows if r.forecaster == "m")
    assert row.brier > 0
    assert row.verdict == "not shown"
    assert "rests on 1 effective periods" in row.reasons[0]
