"""Whole runs over a simulated world: same bytes, honest files, the benchmark, a stranger's file."""

import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from beforehand.clock import FrozenClock, from_us, iso, parse_instant
from beforehand.errors import InputError, NotFound
from beforehand.gateway import Gateway, RecordedWorld
from beforehand.records.backtest import ExperimentConfig, IntervalData
from beforehand.records.benchmark import EventSpec, PredictionRecord, ResolutionRecord
from beforehand.score.leaks import LeakReport, audit_evidence, recheck
from beforehand.store.archive import Archive, ArchiveWriter
from beforehand.store.runs import RunFolder, note_trials, open_run
from beforehand.work import benchmark, grid, results, score_file
from beforehand.work.run import Request, run
from beforehand.work.scoring import Settings
from beforehand.world.render import records
from beforehand.world.simulate import SimConfig

FAST = Settings(draws=200, placebo=20)
CLOCK = FrozenClock(parse_instant("2026-11-01T00:00:00Z"))


def request(archive: Path, home: Path, **changes: object) -> Request:
    made = Request(
        archive=archive, runs=home / "runs", ledger=home / "trials.jsonl", run_id="r", settings=FAST
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def finished(sim: Path, tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    return run(request(sim, tmp_path_factory.mktemp("home")), CLOCK)


def rows(path: Path) -> list[dict]:  # type: ignore[type-arg]
    return list(results.read_jsonl(path))


def test_same_seed_same_bytes(sim: Path, tmp_path: Path) -> None:
    folders = []
    for name, clock in (("a", CLOCK), ("b", FrozenClock(parse_instant("2031-01-01T00:00:00Z")))):
        folders.append(run(request(sim, tmp_path / name), clock).folder.path)
    files = sorted(p.name for p in folders[0].iterdir())
    assert files == sorted(p.name for p in folders[1].iterdir())
    for name in files:
        same = (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
        assert same == (name != "log.json"), name


def test_files_follow_their_schemas(finished) -> None:  # type: ignore[no-untyped-def]
    path = finished.folder.path
    intervals = rows(path / "intervals.jsonl")
    for row in intervals:
        IntervalData.model_validate(row)
    for row in rows(path / "predictions.jsonl"):
        PredictionRecord.model_validate(row)
    events = {EventSpec.model_validate(row).id for row in rows(path / "events.jsonl")}
    endings = {ResolutionRecord.model_validate(r).id for r in rows(path / "resolutions.jsonl")}
    assert events == endings == {row["market_id"] for row in intervals}
    for config in json.loads((path / "config.json").read_text())["experiments"]:
        ExperimentConfig.model_validate(config)
    sealed = json.loads((path / "run.json").read_text())
    assert sealed["files"].keys() == {p.name for p in path.iterdir()} - {"run.json", "log.json"}
    assert any(row["failures"] == [] and row["context"]["search_snippets"] for row in intervals)


def test_the_grid(finished, sim_archive: Archive) -> None:  # type: ignore[no-untyped-def]
    world = RecordedWorld(sim_archive)
    endings = {r.market_id: r for r in Gateway(world).hindsight().resolutions()}
    by_market: dict[str, list[str]] = {}
    for row in rows(finished.folder.path / "intervals.jsonl"):
        by_market.setdefault(row["market_id"], []).append(row["time"])
    for name, times in by_market.items():
        first, end = from_us(world.all_series[name].known_at[0]), grid.end_of(endings[name])
        expected = []
        while first < end:
            expected.append(iso(first))
            first += timedelta(days=7)
        assert times == expected
        assert end.hour == end.minute == 0


def test_nothing_after_t_is_in_the_rows(finished, sim_archive: Archive) -> None:  # type: ignore[no-untyped-def]
    leaks = finished.summary["leaks"]
    assert leaks["admitted_after_t"] == 0 < leaks["rechecked"]
    assert leaks["canaries_seen"] == 0 < leaks["canaries_planted"]
    assert leaks["checked"] > 0
    assert "showings" in leaks["evidence"]


def test_a_planted_leak_is_found_in_the_rows(finished, sim_archive: Archive) -> None:  # type: ignore[no-untyped-def]
    intervals = rows(finished.folder.path / "intervals.jsonl")
    planted = results.canaries(sim_archive)
    later = iso(parse_instant(intervals[0]["time"]) + timedelta(microseconds=1))
    canary = next(name for name, at in planted.items() if at > parse_instant(intervals[0]["time"]))
    tampered = json.loads(json.dumps(intervals[:3]))
    tampered[0]["context"]["market"]["odds_known_at"] = later
    tampered[1]["context"]["search_snippets"].append(
        {"id": canary, "text": "x", "timestamp": tampered[1]["time"]}
    )
    tampered[2]["decisions"][0]["key_evidence_ids"] = ["never-shown"]
    report = LeakReport()
    recheck(report, tampered, planted)
    assert report.admitted_after_t == 2
    assert report.canaries_seen == 1
    assert LeakReport().evidence.startswith("untested")
    assert LeakReport().canaries.startswith("untested")


def test_truth_is_first_and_the_market_is_itself(finished) -> None:  # type: ignore[no-untyped-def]
    board = finished.summary["leaderboard"]
    assert [row["forecaster"] for row in board[:2]] == ["market", "recorded:truth"]
    assert board[0]["skill_vs_market"] == 0.0
    assert board[0]["verdict"] == "is the market"
    assert finished.summary["validity"]["void_excluded"]["value"] >= 1
    assert finished.summary["placebo"]["draws"] == 20


def test_markets_without_documents_or_book(tmp_path: Path) -> None:
    bare = [
        r
        for r in records(SimConfig(seed=4, dates=8))
        if type(r).__name__ in ("Market", "PricePoint", "Resolution")
    ]
    stripped = [
        r.model_copy(update={"bid": None, "ask": None}) if type(r).__name__ == "PricePoint" else r
        for r in bare
    ]
    ArchiveWriter(tmp_path / "a").add(
        stripped, importer="t", source="t", source_digest="t", recorded_at=CLOCK.now()
    )
    summary = run(request(tmp_path / "a", tmp_path), CLOCK).summary
    assert summary["leaks"]["evidence"] == "untested: no evidence layer"
    assert summary["leaks"]["canaries"].startswith("untested")
    names = [row["forecaster"] for row in summary["leaderboard"]]
    assert "news_tilt" not in names
    assert all("not computable" in row["kelly"] for row in summary["leaderboard"])


def test_explicit_experiments_and_their_refusals(
    sim: Path, sim_archive: Archive, tmp_path: Path
) -> None:
    world = RecordedWorld(sim_archive)
    record = next(r for r in Gateway(world).hindsight().resolutions() if r.payout is not None)
    first = from_us(world.all_series[record.market_id].known_at[0])
    good = ExperimentConfig(
        market_id=record.market_id,
        start_time=first,
        end_time=first + timedelta(days=2),
        interval_minutes=1440,
        models=["baseline:market", "baseline:drift"],
        mode="baseline",
    )
    done = run(request(sim, tmp_path / "ok", configs=[good]), CLOCK)
    assert [r["n"] for r in done.summary["leaderboard"]] == [3, 3]
    refused = {
        "start_time": {"start_time": record.resolved_at, "end_time": record.resolved_at},
        "end_time": {"start_time": first - timedelta(9), "end_time": first - timedelta(8)},
        "mode": {"mode": "hybrid"},
        "unknown forecaster": {"models": ["baseline:nobody"]},
    }
    for field, change in refused.items():
        with pytest.raises(InputError, match=field):
            run(request(sim, tmp_path / "no", configs=[good.model_copy(update=change)]), CLOCK)
    with pytest.raises(NotFound, match="SIMEX:none"):
        run(request(sim, tmp_path / "no", markets=["SIMEX:none"]), CLOCK)
    assert not (tmp_path / "no" / "runs").exists()
    run(request(sim, tmp_path / "ok", configs=[good], run_id="again"), CLOCK)
    with pytest.raises(InputError, match="exists already"):
        run(request(sim, tmp_path / "ok", configs=[good], run_id="again"), CLOCK)


def test_the_ledger_counts_variants_once(tmp_path: Path) -> None:
    ledger = tmp_path / "trials.jsonl"
    assert note_trials(ledger, "set", ["a", "b"]) == 2
    assert note_trials(ledger, "set", ["b", "a"]) == 2
    assert note_trials(ledger, "set", ["c"]) == 3
    assert note_trials(ledger, "other", ["c"]) == 1


def test_runs_by_name(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="none yet"):
        open_run(tmp_path / "none", "x")
    for bad in ("../x", "", "a/b", ".hidden"):
        with pytest.raises(InputError):
            RunFolder(tmp_path, bad)


def test_the_report_needs_nothing_from_outside(finished) -> None:  # type: ignore[no-untyped-def]
    page = (finished.folder.path / "report.html").read_text()
    assert not re.findall(r"(?:src|href)\s*=|url\(|@import|<script|https?://(?!www\.w3\.org)", page)
    for part in ("validity", "leaderboard", "reliability", "market", "leaks", "placebo"):
        assert f'id="{part}"' in page
    for row in finished.summary["leaderboard"]:
        assert row["forecaster"] in page
    assert "simulated world" in page
    assert (finished.folder.path / "leaderboard.csv").read_text().count("\n") == 1 + len(
        finished.summary["leaderboard"]
    )


def test_the_benchmark_over_files(sim: Path, tmp_path: Path) -> None:
    archive = Archive(sim)
    benchmark.ingest(archive, timedelta(days=7), tmp_path)
    events = rows(tmp_path / "events.jsonl")
    assert len(rows(tmp_path / "events_snapshots.jsonl")) == len(events) > 50
    out = tmp_path / "p.jsonl"
    benchmark.predict(
        archive, tmp_path / "events.jsonl", "all", out, RunFolder(tmp_path / "runs", "p")
    )
    done = benchmark.evaluate_files(
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


def test_a_foreign_agents_predictions(sim: Path, tmp_path: Path) -> None:
    benchmark.ingest(Archive(sim), timedelta(days=7), tmp_path)
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
    done = benchmark.evaluate_files(
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
        benchmark.evaluate_files(
            tmp_path / "events.jsonl", bad, tmp_path / "resolutions.jsonl", FAST
        )


def test_evidence_after_the_prediction_fails_the_audit() -> None:
    def record(stamp: str | None) -> dict:  # type: ignore[type-arg]
        item = {"type": "a", "source": "s", **({"timestamp": stamp} if stamp else {})}
        return {
            "id": "e",
            "prediction": {"probability": 0.5, "rationale": [item]},
            "metadata": {"timestamp": "2026-01-01T00:00:00Z"},
        }

    stamps = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000001Z", None]
    total, passed, failures = audit_evidence(record(s) for s in stamps)
    assert (total, passed) == (3, 1)
    assert "after the prediction" in failures[0]
    assert "no timestamp" in failures[1]


def own_file(archive: Archive, path: Path, change: str = "") -> int:
    """The market's own weekly prices, as a stranger's CSV."""
    world = RecordedWorld(archive)
    lines = ["id,time,probability"]
    for record in Gateway(world).hindsight().resolutions():
        if record.payout is None:
            continue
        series = world.all_series[record.market_id]
        for t in grid.instants(series, grid.end_of(record), timedelta(days=7)):
            price = series.price[series.position(int(t))]
            lines.append(f"{record.market_id},{iso(from_us(t))},{price}")
    path.write_text("\n".join(lines) + "\n" + change)
    return len(lines) - 1


def test_a_stranger_brings_the_market_itself(sim: Path, tmp_path: Path) -> None:
    archive = Archive(sim)
    n = own_file(archive, tmp_path / "mine.csv")
    done = score_file.run(
        tmp_path / "mine.csv",
        archive,
        tmp_path / "runs",
        tmp_path / "t.jsonl",
        settings=FAST,
        run_id="s",
    )
    mine = next(r for r in done.summary["leaderboard"] if r["forecaster"] == "mine")
    assert (mine["n"], mine["skill_vs_market"], mine["verdict"]) == (n, 0.0, "is the market")
    assert done.rejected.count == 0
    assert done.summary["validity"]["variants_tried"]["value"] == 1


def test_every_row_is_scored_or_listed(sim: Path, tmp_path: Path) -> None:
    archive = Archive(sim)
    world = RecordedWorld(archive)
    ends = Gateway(world).hindsight().resolutions()
    good = next(r for r in ends if r.payout is not None)
    void = next(r for r in ends if r.status == "void")
    name, end = good.market_id, grid.end_of(good)
    first = from_us(world.all_series[name].known_at[0])
    ok = iso(end - timedelta(microseconds=1))
    bad = [
        ("NO:where", ok, "0.5", "no such market"),
        (name, iso(end), "0.5", "at or after the market's end"),
        (name, iso(first - timedelta(microseconds=1)), "0.5", "before the market's first"),
        (name, ok, "1.5", "not a number in"),
        (name, ok, "nan", "not a number in"),
        (name, ok, "yes", "not a number in"),
        (name, ok, "", "not a number in"),
        (name, "2026-01-01T00:00:00", "0.5", "ISO 8601 with a zone"),
        (void.market_id, ok, "0.5", "is void"),
        ("", ok, "0.5", "id is missing"),
        (name, ok, "0.6", "second forecast"),
    ]
    own_file(
        archive,
        tmp_path / "m.csv",
        f"{name},{ok},0.5\n" + "".join(f"{a},{b},{c}\n" for a, b, c, _ in bad),
    )
    done = score_file.run(
        tmp_path / "m.csv", archive, tmp_path / "runs", tmp_path / "t.jsonl", settings=FAST
    )
    assert done.rejected.count == len(bad)
    said = "; ".join(done.rejected.reasons)
    assert all(reason in said for *_, reason in bad), said
    listed = rows(done.folder.path / "rejected.jsonl")
    assert len(listed) == len(bad)
    page = (done.folder.path / "report.html").read_text()
    assert 'id="rejected"' in page


def test_a_file_with_nothing_to_score_says_why(sim: Path, tmp_path: Path) -> None:
    archive = Archive(sim)
    for text, reason in (
        ("id,time,probability\nNO:x,2026-01-01T00:00:00Z,0.5\n", "no such market"),
        ("id,when,p\n", "lacks time, probability"),
        ("", "empty"),
    ):
        (tmp_path / "x.csv").write_text(text)
        with pytest.raises(InputError, match=reason):
            score_file.run(tmp_path / "x.csv", archive, tmp_path / "runs", tmp_path / "t.jsonl")
    assert not (tmp_path / "runs").exists()


def test_jsonl_and_prediction_records_score_alike(sim: Path, tmp_path: Path) -> None:
    archive = Archive(sim)
    own_file(archive, tmp_path / "a.csv")
    plain, wrapped = [], []
    for line in (tmp_path / "a.csv").read_text().splitlines()[1:]:
        name, time, p = line.rsplit(",", 2)
        plain.append({"id": name, "time": time, "probability": float(p) * 0.9})
        wrapped.append(
            {
                "id": name,
                "prediction": {"probability": float(p) * 0.9},
                "metadata": {"model": "b", "timestamp": time},
            }
        )
    boards = []
    for stem, lines in (("b", plain), ("c", wrapped)):
        path = tmp_path / f"{stem}.jsonl"
        path.write_text("\n".join(json.dumps(line) for line in lines))
        done = score_file.run(
            path,
            archive,
            tmp_path / "runs",
            tmp_path / "t.jsonl",
            name="b",
            settings=FAST,
            run_id=stem,
        )
        boards.append(done.summary["leaderboard"])
    assert boards[0] == boards[1]
