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
from beforehand.records.backtest import ExperimentConfig, IntervalData, SearchConfig
from beforehand.records.benchmark import EventSpec, PredictionRecord, ResolutionRecord
from beforehand.records.bulk import PredictionRow, decode_prediction
from beforehand.score.leaks import LeakReport, audit_evidence, recheck
from beforehand.store.archive import Archive
from beforehand.store.archive_writer import ArchiveWriter
from beforehand.store.runs import RunFolder, note_trials, open_run
from beforehand.work import benchmark, evaluation, grid, results, score_file
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
    ends = Gateway(world).hindsight().resolutions()
    record = next(r for r in ends if r.payout is not None)
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
        "end_time": {"end_time": grid.end_of(record)},
        "start_time: .* first price": {"start_time": first - timedelta(microseconds=1)},
        "mode": {"mode": "hybrid"},
        "num_sims": {"num_sims": 5},
        "query_mode": {"search_config": SearchConfig(query_mode="llm_generated")},
        "unknown forecaster": {"models": ["baseline:nobody"]},
    }
    for field, change in refused.items():
        with pytest.raises(InputError, match=field):
            run(request(sim, tmp_path / "no", configs=[good.model_copy(update=change)]), CLOCK)
    with pytest.raises(NotFound, match="SIMEX:none"):
        run(request(sim, tmp_path / "no", markets=["SIMEX:none"]), CLOCK)
    assert not (tmp_path / "no" / "runs").exists()
    with pytest.raises(InputError, match="listed twice"):
        run(request(sim, tmp_path / "no", configs=[good, good]), CLOCK)
    other = next(r for r in ends if r.payout is not None and r.market_id != record.market_id)
    begins = from_us(world.all_series[other.market_id].known_at[0])
    alone = good.model_copy(
        update={
            "market_id": other.market_id,
            "start_time": begins,
            "end_time": begins,
            "models": ["baseline:always:0.50"],
            "search_config": SearchConfig(max_results=1),
        }
    )
    mixed = run(request(sim, tmp_path / "mix", configs=[good, alone]), CLOCK).folder.path
    said = {
        (r["market_id"], d["model_id"])
        for r in rows(mixed / "intervals.jsonl")
        for d in r["decisions"]
    }
    assert said == {
        (record.market_id, "baseline:market"),
        (record.market_id, "baseline:drift"),
        (other.market_id, "baseline:always:0.5"),
    }
    shown = [
        len(r["context"]["search_snippets"])
        for r in rows(mixed / "intervals.jsonl")
        if r["market_id"] == other.market_id
    ]
    assert max(shown) <= 1
    run(request(sim, tmp_path / "ok", configs=[good], run_id="again"), CLOCK)
    with pytest.raises(InputError, match="exists already"):
        run(request(sim, tmp_path / "ok", configs=[good], run_id="again"), CLOCK)


def test_several_experiments_keep_their_own_settings(
    sim: Path, sim_archive: Archive, tmp_path: Path
) -> None:
    world = RecordedWorld(sim_archive)
    made = []
    for record in [r for r in Gateway(world).hindsight().resolutions() if r.payout is not None][:2]:
        first = from_us(world.all_series[record.market_id].known_at[0])
        made.append(
            ExperimentConfig(
                market_id=record.market_id,
                start_time=first,
                end_time=first + timedelta(days=9),
                interval_minutes=1440,
                models=["baseline:drift"],
                mode="baseline",
            )
        )
    made[1] = made[1].model_copy(
        update={"models": ["baseline:always:0.50"], "search_config": SearchConfig(max_results=0)}
    )
    path = run(request(sim, tmp_path, configs=made), CLOCK).folder.path
    intervals = rows(path / "intervals.jsonl")
    said = {(r["market_id"], d["model_id"]) for r in intervals for d in r["decisions"]}
    assert said == {
        (made[0].market_id, "baseline:drift"),
        (made[1].market_id, "baseline:always:0.5"),
    }
    shown = {
        c.market_id: max(
            len(r["context"]["search_snippets"]) for r in intervals if r["market_id"] == c.market_id
        )
        for c in made
    }
    assert shown[made[1].market_id] == 0 < shown[made[0].market_id]
    with pytest.raises(InputError, match="listed twice"):
        run(request(sim, tmp_path / "no", configs=[made[0], made[0]]), CLOCK)


def test_the_ledger_counts_variants_once(tmp_path: Path) -> None:
    ledger, markets = tmp_path / "trials.jsonl", [f"A:{i}" for i in range(10)]
    assert note_trials(ledger, markets, ["a", "b"]) == 2
    assert note_trials(ledger, markets, ["b", "a"]) == 2
    assert note_trials(ledger, markets[:6], ["c"]) == 3, "dropping rows does not start anew"
    assert note_trials(ledger, [f"B:{i}" for i in range(10)], ["c"]) == 1
    with ledger.open("ab") as out:
        out.write(b'{"variant": "torn", "mark')
    assert note_trials(ledger, markets, ["d"]) == 4
    assert note_trials(ledger, markets, ["d"]) == 4


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
    total, passed, failures = audit_evidence(made)
    assert (total, passed) == (4, 1)
    assert "after the prediction" in failures[0]
    assert "evidence 's' has no timestamp" in failures[1]
    assert "the prediction that cites it has no timestamp" in failures[2]


def test_a_later_market_price_is_no_skill(sim: Path, tmp_path: Path) -> None:
    """The market itself, read six days after the price it is compared with, must not win."""
    archive = Archive(sim)
    benchmark.ingest(archive, timedelta(days=7), tmp_path)
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
    done = evaluation.evaluate_files(*paths, FAST)
    assert done.counts["predictions_made_after_the_market_price"] == len(lines)
    assert [r.forecaster for r in done.result.rows] == ["market"]
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
    benchmark.ingest(Archive(sim), timedelta(days=7), tmp_path)
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
    counts = benchmark.predict(
        Archive(sim), path, "market,drift", out, RunFolder(tmp_path / "runs", "x")
    )
    assert counts == {"events": 4, "predictions": 6, "missing": 2}
    assert sorted(r["id"] for r in rows(out)) == ["a", "a", "b", "b", "c", "c"]
    for row in rows(tmp_path / "runs" / "x" / "intervals.jsonl"):
        assert row["context"]["previous_intervals"] == []
    path.write_text(json.dumps({**made[0], "forecast_at": "2199-01-01T00:00:00Z"}))
    with pytest.raises(InputError, match="does not lie before the market's end"):
        benchmark.predict(Archive(sim), path, "market", out, RunFolder(tmp_path / "runs", "y"))


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
        (name, ok, "0,6", "4 cells under 3 columns"),
        (name, ok, '"0.6', "not CSV"),
        (name, ok, "0_1", "not a number in"),
        (name, "9999-12-31", "0.5", "ISO 8601 with a zone"),
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


def test_yardsticks_names_and_rejected_forecasters(sim: Path, tmp_path: Path) -> None:
    archive = Archive(sim)
    own_file(archive, tmp_path / "shrunk.csv")
    with pytest.raises(InputError, match="name of a yardstick"):
        score_file.run(tmp_path / "shrunk.csv", archive, tmp_path / "runs", tmp_path / "t.jsonl")
    lines = (tmp_path / "shrunk.csv").read_text().splitlines()
    text = "\n".join(
        [
            lines[0] + ",forecaster",
            *(line + ",a" for line in lines[1:]),
            "NO:x,2026-01-01T00:00:00Z,0.5,b",
        ]
    )
    (tmp_path / "two.csv").write_text(text)
    done = score_file.run(
        tmp_path / "two.csv", archive, tmp_path / "runs", tmp_path / "t.jsonl", settings=FAST
    )
    assert done.summary["subjects"] == ["a"]
    assert done.rejected.count == 1


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
