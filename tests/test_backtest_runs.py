"""Whole runs over a simulated world: same bytes, honest files, refusals."""

import json
import re
import time
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import Clock, FrozenClock, from_us, iso, parse_instant
from beforehand.config import Home, Workspace
from beforehand.engine.runs import Finished, start
from beforehand.errors import InputError, NotFound
from beforehand.forecast.files import forecast_file
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs import results, score_file
from beforehand.jobs.backtest import grid
from beforehand.jobs.backtest.backtest_job import BacktestRequest
from beforehand.records.backtest import ExperimentConfig, IntervalData, SearchConfig
from beforehand.records.benchmark import EventSpec, PredictionRecord, ResolutionRecord
from beforehand.records.rows import decode_interval
from beforehand.records.world import Document, Market, PricePoint, Resolution
from beforehand.runs.rows import read_jsonl
from beforehand.score.evaluate import Settings
from beforehand.score.leaks.report import LeakReport, recheck
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.store.run_folder import RunFolder, open_run
from beforehand.store.trials import note_trials
from beforehand.world.render import records
from beforehand.world.simulate import SimConfig

FAST = Settings(draws=200, placebo=20)
CLOCK = FrozenClock(parse_instant("2026-11-01T00:00:00Z"))


def run(
    archive: Path, home: Path, clock: Clock = CLOCK, run_id: str = "r", **changes: object
) -> Finished:
    made = BacktestRequest(archive=archive, settings=FAST)
    return start(replace(made, **changes), Workspace(Home(home), clock=clock), run_id)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def finished(wide: Path, tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    return run(wide, tmp_path_factory.mktemp("home"))


def rows(path: Path) -> list[dict]:  # type: ignore[type-arg]
    return list(read_jsonl(path))


def test_same_seed_same_bytes(sim: Path, tmp_path: Path) -> None:
    folders = []
    for name, clock in (("a", CLOCK), ("b", FrozenClock(parse_instant("2031-01-01T00:00:00Z")))):
        folders.append(run(sim, tmp_path / name, clock).folder.path)
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


@pytest.mark.parametrize("kind", ["aligned", "own"])
def test_the_grid(kind: grid.Kind, sim: Path, sim_archive: Archive, tmp_path: Path) -> None:
    """Every market at the same Mondays, or each from its own first price on; rows in the order of
    time, then of the markets."""
    done = run(sim, tmp_path, grid=kind, forecasters="market")
    world = RecordedWorld(sim_archive)
    endings = {r.market_id: r for r in Gateway(world).full_view().resolutions()}
    by_market: dict[str, list[str]] = {}
    found = rows(done.folder.path / "intervals.jsonl")
    order = [(parse_instant(row["time"]), row["market_id"]) for row in found]
    assert order == sorted(order)
    for row in found:
        by_market.setdefault(row["market_id"], []).append(row["time"])
    assert done.summary["grid"].startswith(grid.STATEMENTS[kind])
    for name, times in by_market.items():
        first, end = from_us(world.series(name).known_at[0]), grid.end_of(endings[name])
        expected = []
        if kind == "aligned":
            first = next(t for d in range(8) if (t := _midnight(first, d)).weekday() == 0)
        while first < end:
            expected.append(iso(first))
            first += timedelta(days=7)
        assert times == expected
        assert end.hour == end.minute == 0


def _midnight(instant: datetime, days: int) -> datetime:
    """The first midnight (UTC) at or after an instant, and so many days."""
    day = (instant - timedelta(microseconds=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return day + timedelta(days=days + 1)


def test_nothing_after_t_is_in_the_rows(finished, sim_archive: Archive) -> None:  # type: ignore[no-untyped-def]
    leaks = finished.summary["leaks"]
    assert leaks["admitted_after_t"] == 0 < leaks["rechecked"]
    assert leaks["canaries_seen"] == 0 < leaks["canaries_planted"]
    assert leaks["checked"] > 0
    assert "showings" in leaks["evidence"]
    assert leaks["documents_nominated"] == 0, "documents of an archive that was filled at the time"


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
    recheck(report, [decode_interval(json.dumps(row)) for row in tampered], planted)
    assert report.admitted_after_t == 2
    assert report.canaries_seen == 1
    assert LeakReport().evidence.startswith("untested")


def test_the_rows_carry_the_date_of_the_grade(tmp_path: Path) -> None:
    """A text stored after its date counts from then, in the rows as at the wall: the audit of the
    rows would find it shown too early."""
    start = CLOCK.now() - timedelta(days=90)
    made = [
        Market(
            id="KALSHI:x",
            venue="KALSHI",
            native_id="x",
            question="Ferry strike ends?",
            known_at=start,
        ),
        Document(
            id="d",
            title="ferry strike talks",
            known_at=start,
            text_known_at=start + timedelta(days=8),
        ),
        *(
            PricePoint(
                market_id="KALSHI:x",
                price=0.5,
                observed_at=start + timedelta(days=d),
                known_at=start + timedelta(days=d),
            )
            for d in range(30)
        ),
        Resolution(
            market_id="KALSHI:x",
            status="resolved",
            payout=1.0,
            resolved_at=start + timedelta(days=30),
            known_at=start + timedelta(days=30),
        ),
    ]
    ArchiveWriter(tmp_path / "a").add(
        made, importer="t", source="t", source_digest="t", recorded_at=start
    )
    stamps = {}
    for grade in ("captured", "published"):
        done = run(tmp_path / "a", tmp_path / grade, grade=grade)
        shown = [
            (r["time"], s["timestamp"])
            for r in rows(done.folder.path / "intervals.jsonl")
            for s in r["context"]["search_snippets"]
        ]
        stamps[grade] = (len(shown), {stamp for _, stamp in shown})
    assert stamps == {
        "captured": (3, {iso(start + timedelta(days=8))}),
        "published": (5, {iso(start)}),
    }


def test_untested_is_said() -> None:
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
    summary = run(tmp_path / "a", tmp_path).summary
    assert summary["leaks"]["evidence"] == "untested: no evidence layer"
    assert summary["leaks"]["canaries"].startswith("untested")
    names = [row["forecaster"] for row in summary["leaderboard"]]
    assert "news_tilt" not in names
    assert all("not computable" in row["kelly"] for row in summary["leaderboard"])


def test_explicit_experiments_and_their_refusals(
    sim: Path, sim_archive: Archive, tmp_path: Path
) -> None:
    world = RecordedWorld(sim_archive)
    ends = Gateway(world).full_view().resolutions()
    record = next(r for r in ends if r.payout is not None)
    first = from_us(world.series(record.market_id).known_at[0])
    good = ExperimentConfig(
        market_id=record.market_id,
        start_time=first,
        end_time=first + timedelta(days=2),
        interval_minutes=1440,
        models=["baseline:market", "baseline:drift"],
        mode="baseline",
    )
    done = run(sim, tmp_path / "ok", configs=[good])
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
            run(sim, tmp_path / "no", configs=[good.model_copy(update=change)])
    with pytest.raises(NotFound, match="SIMEX:none"):
        run(sim, tmp_path / "no", markets=["SIMEX:none"])
    assert not (tmp_path / "no" / "data" / "runs").exists()
    with pytest.raises(InputError, match="by two experiments"):
        run(sim, tmp_path / "no", configs=[good, good])
    other = next(r for r in ends if r.payout is not None and r.market_id != record.market_id)
    begins = from_us(world.series(other.market_id).known_at[0])
    alone = good.model_copy(
        update={
            "market_id": other.market_id,
            "start_time": begins,
            "end_time": begins,
            "models": ["baseline:always:0.50"],
            "search_config": SearchConfig(max_results=1),
        }
    )
    mixed = run(sim, tmp_path / "mix", configs=[good, alone]).folder.path
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
    run(sim, tmp_path / "ok", configs=[good], run_id="again")
    with pytest.raises(InputError, match="exists already"):
        run(sim, tmp_path / "ok", configs=[good], run_id="again")


def test_several_experiments_keep_their_own_settings(wide: Path, tmp_path: Path) -> None:
    world = RecordedWorld(Archive(wide))
    made = []
    for record in [r for r in Gateway(world).full_view().resolutions() if r.payout is not None][:2]:
        first = from_us(world.series(record.market_id).known_at[0])
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
    path = run(wide, tmp_path, configs=made).folder.path
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
    with pytest.raises(InputError, match="by two experiments"):
        run(wide, tmp_path / "no", configs=[made[0], made[0]])


def test_the_ledger_counts_variants_once(tmp_path: Path) -> None:
    ledger, markets = tmp_path / "trials.jsonl", [f"A:{i}" for i in range(10)]

    def tried(family: str, of: list[str], variants: list[str]) -> int:
        return note_trials(
            ledger, family, of, dict.fromkeys(variants, "mine"), "r1", "2026-01-01", "d"
        )

    assert tried("file", markets, ["a", "b"]) == 2
    assert tried("file", markets, ["b", "a"]) == 2
    assert tried("file", markets[:6], ["c"]) == 3, "dropping rows starts no new count"
    assert tried("file", markets[:3], ["scratch"]) == 4
    assert tried("file", markets, ["a"]) == 4, "a tenth of the set is enough to choose by"
    large = [f"C:{i}" for i in range(100)]
    assert tried("file", large[:9], ["scratch"]) == 1
    assert tried("file", large, ["a"]) == 1, "a scratch file costs nothing"
    assert tried("backtest", markets, ["x"]) == 1, "families are counted apart"
    assert tried("file", [f"B:{i}" for i in range(10)], ["c"]) == 1
    with ledger.open("ab") as out:
        out.write(
            b'{"family": "file", "variant": ["x"], "markets": null}\n{"variant": "torn", "mark'
        )
    assert tried("file", markets, ["d"]) == 5
    assert tried("file", markets, ["d"]) == 5
    kept = ledger.read_bytes()
    assert b'"variant": ["x"]' in kept, "a damaged line is passed over, not deleted"
    assert b"torn" not in kept
    assert kept.endswith(b"\n")


def test_scratch_files_do_not_change_a_backtests_verdict(sim: Path, tmp_path: Path) -> None:
    before = run(sim, tmp_path).summary
    csv = tmp_path / "mine.csv"
    for i in range(3):
        name = before["pictured"]["id"]
        row = rows(tmp_path / "data" / "runs" / "r" / "predictions.jsonl")[0]
        csv.write_text(f"id,time,probability\n{row['id']},{row['metadata']['timestamp']},0.{i}1\n")
        score_file.run(
            forecast_file.read_file(csv),
            Archive(sim),
            tmp_path / "data" / "runs",
            tmp_path / "data" / "trials.jsonl",
            settings=FAST,
            run_id=f"s{i}",
        )
        assert name
    after = run(sim, tmp_path, run_id="again").summary
    assert after["leaderboard"] == before["leaderboard"]
    assert after["validity"] == before["validity"]


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


def test_a_run_has_a_bound(wide: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    assert cli(["backtest", "run", "--archive", str(wide), "--every", "1m"]) == 2
    assert "at most 5,000,000" in capsys.readouterr().err
    assert time.monotonic() - began < 30
