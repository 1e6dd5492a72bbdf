"""What "beats the market" needs besides skill: rows that a file got wrong are not free, colleagues
do not take a verdict away, and the headline says what the verdict rests on."""

import csv
import io
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random

import numpy as np
import pytest
from rich.console import Console

from beforehand.cli.app import run as cli
from beforehand.cli.tables import figure, leaderboard, span
from beforehand.clock import DAY_US, iso, parse_instant
from beforehand.forecast.files.forecast_file import read_rows
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs import score_file
from beforehand.score.evaluate import Settings
from beforehand.score.metrics import Murphy, Reliability
from beforehand.score.report.words import gained, headline, warnings
from beforehand.score.scoreboard import Row as Row_
from beforehand.score.scoreboard import judge
from beforehand.score.skill import Skill
from beforehand.score.summary import Summary
from beforehand.score.verdict import Estimate
from beforehand.store.archive.reader import Archive
from beforehand.store.run_folder import ProbeNote, last_probe, note_probe
from test_score_file import own_file

FAST = Settings(draws=300, placebo=0)
Row = dict[str, object]


def outcomes(archive: Archive) -> dict[str, float | None]:
    return {
        r.market_id: r.payout for r in Gateway(RecordedWorld(archive)).full_view().resolutions()
    }


SURE = Estimate(
    mean=0.02, half=0.01, leading="periods", n_eff=40.0, windows=None, cost=0.01, at_once=0.1,
    unsettled=0.0, apart=0.5, heaviest=(), age=0, step=DAY_US, factor=1.0, error=0.005, df=80.0,
    last_day=True,
)  # fmt: skip
SKILL = Skill(
    skill=0.02, n_questions=90, n_events=60, leading="event", ci=(0.01, 0.03), ci_by={},
    effective_n=50.0, ci_error=0.001, n=900, brier=0.1, identical=False,
)  # fmt: skip


def judged(sure: Estimate, fresh: Estimate | None, missing: int = 0) -> tuple[str, list[str]]:
    row = Row_(
        forecaster="f", n=900, n_questions=90, missing=missing, brier=0.1, log_loss=0.3, els=0.0,
        skill_vs_market=0.02, accuracy=0.8, ece=0.02, murphy=Murphy(0, 0, 0, 0), sharpness=(0, 0),
        bins=Reliability(*(np.zeros(10),) * 3, 0.0), worth=[0.0] * 10, market_correlation=0.9, profit="", skill=SKILL, evidence=sure,
        fresh_evidence=fresh,
    )  # fmt: skip
    return judge(row)


def test_each_condition_of_the_verdict_is_needed() -> None:
    """The interval above 0, widened for tries, on all forecasts and on the fresh ones; enough
    effective periods, and windows; not for the most part on open questions; more than what is
    printed as 0; nearly all answered: with any one of them missing nothing beats the market."""
    assert judged(SURE, SURE) == ("beats the market", [])
    assert judged(SURE, None)[0] == "not shown"
    for without, why in (
        ({"half": 0.03}, "lies between -0.0100 and 0.0500"),
        ({"factor": 2.5}, "widened for what was tried"),
        ({"n_eff": 4.0}, "4 effective periods, and 5 are needed"),
        ({"windows": 3.0}, "3 effective periods"),
        ({"unsettled": 0.6}, "60 % of its gain rests on questions that are still open"),
        ({"mean": 0.00004, "half": 0.00003, "apart": 0.5}, "printed as 0.0000"),
    ):
        verdict, reasons = judged(replace(SURE, **without), SURE)
        assert (verdict, why in reasons[0]) == ("not shown", True), (without, reasons)
        verdict, reasons = judged(SURE, replace(SURE, **without))
        assert (verdict, "7 days" in reasons[0]) == ("not shown", True), (
            without,
            "at a fresh price",
        )
    assert "it answered" in judged(SURE, SURE, missing=100)[1][0]
    small = replace(SURE, mean=0.00004, half=0.000001)
    assert judged(small, small)[0] == "is the market", "a difference that is printed as 0 is none"
    assert judged(replace(SURE, mean=-0.02), SURE)[0] == "worse than the market"
    assert judged(replace(SURE, mean=-0.02, half=0.03), SURE)[0] == "not shown"


@pytest.fixture(scope="module")
def skilled(sim: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """Forecasts between the market's price and the outcome, with enough noise not to look like a
    softened outcome: they do beat it."""
    archive, path = Archive(sim), tmp_path_factory.mktemp("skilled") / "m.csv"
    own_file(archive, path)
    endings, rng = outcomes(archive), Random(0)

    def said(row: dict[str, str]) -> float:
        knows = 0.7 * float(row["probability"]) + 0.3 * (endings[row["id"]] or 0.0)
        return min(max(knows + rng.gauss(0, 0.12), 0.01), 0.99)

    return [
        {**row, "probability": said(row)} for row in csv.DictReader(path.read_text().splitlines())
    ]


def scored(rows: list[Row], sim: Path, tmp_path: Path) -> Summary:
    stated = read_rows(rows, "mine")
    return score_file.run(stated, Archive(sim), tmp_path, tmp_path / "t", settings=FAST).summary


def mine(summary: Summary, name: str = "mine") -> tuple[str, float]:
    row = next(r for r in summary["leaderboard"] if r["forecaster"] == name)
    return row["verdict"], row["answered"]


@pytest.mark.parametrize("slip", ["id", "late", "early", "number", "blank", "time"])
def test_rows_that_a_file_got_wrong_count_as_not_answered(
    slip: str, skilled: list[Row], sim: Path, tmp_path: Path
) -> None:
    wrong = {
        "id": {"id": "SIMEX:nothing"},
        "late": {"time": "2035-01-01T00:00:00Z"},
        "early": {"time": "2019-01-01T00:00:00Z"},
        "number": {"probability": "1.7"},
        "blank": {"probability": ""},
        "time": {"time": "yesterday"},
    }[slip]
    rows = [{**row, **wrong} if i % 8 == 0 else row for i, row in enumerate(skilled)]
    verdict, answered = mine(scored(rows, sim, tmp_path))
    assert verdict == "not shown"
    assert answered == pytest.approx(7 / 8, abs=0.005)


def test_the_whole_file_beats_and_says_by_whose_clock(
    skilled: list[Row], sim: Path, tmp_path: Path
) -> None:
    found = scored(skilled, sim, tmp_path)
    assert mine(found) == ("beats the market", 1.0)
    assert headline(found).endswith("at the times stated in the file.")
    assert any("nobody saw these forecasts being made" in text for text in warnings(found))
    assert "settled markets of the archive" in found["subtitle"]


def test_rows_left_out_by_name_are_exploration(
    skilled: list[Row], sim: Path, tmp_path: Path
) -> None:
    """Chosen once it is known how they ended, they make anyone win; a rule of time does not."""
    market = str(skilled[0]["id"])
    stated = read_rows(skilled, "mine")
    how = {"settings": FAST, "leave_out": [f"id={market}"]}
    found = score_file.run(stated, Archive(sim), tmp_path, tmp_path / "t", **how).summary  # type: ignore[arg-type]
    row = next(r for r in found["leaderboard"] if r["forecaster"] == "mine")
    assert row["verdict"] == "not shown"
    assert "left out by name" in row["reasons"][0]
    first = min(str(row["time"]) for row in skilled)
    how["leave_out"] = [f"before={first[:10]}T23:59:00Z"]
    stated = read_rows(skilled, "mine")
    found = score_file.run(stated, Archive(sim), tmp_path, tmp_path / "t", **how).summary  # type: ignore[arg-type]
    assert mine(found)[0] == "beats the market"
    assert found["validity"]["variants_tried"]["value"] == 2


def test_a_colleague_at_other_instants_takes_nothing_away(
    skilled: list[Row], sim: Path, tmp_path: Path
) -> None:
    later = [
        {
            **row,
            "time": iso(parse_instant(str(row["time"])) + timedelta(minutes=1)),
            "probability": 0.5,
            "forecaster": "colleague",
        }
        for row in skilled
    ]
    both = scored([*({**row, "forecaster": "mine"} for row in skilled), *later], sim, tmp_path)
    assert mine(both) == ("beats the market", 1.0)
    few = [row for row in skilled if str(row["id"]) < "SIMEX:m0020"]
    picked = [{**row, "forecaster": "picker"} for row in few]
    both = scored(
        [*({**row, "forecaster": "mine"} for row in skilled), *picked], sim, tmp_path / "b"
    )
    assert mine(both) == ("beats the market", 1.0)
    verdict, answered = mine(both, "picker")
    assert verdict == "not shown"
    assert answered == pytest.approx(len(few) / len(skilled))


def test_odd_files_are_remarked_on(skilled: list[Row], sim: Path, tmp_path: Path) -> None:
    turned = [{**row, "probability": 1 - float(str(row["probability"]))} for row in skilled]
    assert any("probabilities of NO" in text for text in scored(turned, sim, tmp_path)["hints"])
    endings = outcomes(Archive(sim))
    known = [{**row, "probability": endings[str(row["id"])]} for row in skilled]
    found = scored(known, sim, tmp_path / "k")
    row = next(r for r in found["leaderboard"] if r["forecaster"] == "mine")
    assert (row["verdict"], "knowing the outcomes" in row["reasons"][0]) == ("not shown", True)
    softened = [
        {**row, "probability": 0.2 + 0.6 * float(endings[str(row["id"])] or 0.0)}
        for row in skilled
        if endings[str(row["id"])] in (0.0, 1.0)
    ]
    found = scored(softened, sim, tmp_path / "soft")
    row = next(r for r in found["leaderboard"] if r["forecaster"] == "mine")
    assert "on the right side in every forecast" in row["reasons"][0]
    assert row["verdict"] == "not shown"
    assert scored(skilled, sim, tmp_path / "s")["hints"] == []


def test_who_was_caught_once_stays_caught(tmp_path: Path) -> None:
    ledger = tmp_path / "probes.jsonl"

    def noted(code: str, peeked: bool, n: int) -> None:
        note: ProbeNote = {"code": code, "n": n, "peeked": peeked, "why": "w", "place": "f.py:f"}
        note_probe(ledger, note)

    def last(code: str) -> ProbeNote:
        found = last_probe(ledger, code, "f.py:f")
        assert found is not None
        return found

    noted("one", False, 20)
    assert last("one")["peeked"] is False
    noted("one", True, 20)
    noted("one", False, 200)
    assert last("one")["peeked"] is True
    noted("two", False, 40)
    assert (last("two")["peeked"], last("two")["n"]) == (False, 40)


PEEKER = """
import json, pathlib
from beforehand import forecaster

@forecaster(free=True)
def reader(context):
    known = json.loads((pathlib.Path(__file__).parent / "outcomes.json").read_text())
    noise = (sum(map(ord, context.market.id + str(context.t))) % 25 - 12) / 60
    p = 0.7 * (context.odds or 0.5) + 0.3 * known.get(context.market.id, 0.5) + noise
    return min(max(p, 0.01), 0.99)

@forecaster(free=True)
def honest(context):
    return 0.9 * (context.odds or 0.5) + 0.05
"""


def test_a_file_that_a_forecaster_reads_is_named_beside_its_verdict(
    sim: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "mine.py").write_text(PEEKER)
    endings = outcomes(Archive(sim))
    (home / "outcomes.json").write_text(json.dumps(endings))
    names = [f"python:{home / 'mine.py'}:{name}" for name in ("reader", "honest")]
    order = ["backtest", "run", "--archive", str(sim), "--every", "28d", "--forecasters"]
    order += [",".join(["market", *names]), "--draws", "200", "--placebo", "0"]
    assert cli(order) == 0
    said = capsys.readouterr().out
    assert "on trust alone" in said
    assert "nothing kept reader from the outcomes but trust" in said
    for name in names:
        assert cli(["backtest", "probe", name, "--archive", str(sim), "--n", "10"]) == 0
        assert ("outcomes.json: the same in every world" in capsys.readouterr().out) == (
            name == names[0]
        )
    assert cli(order) == 0
    said = capsys.readouterr().out
    assert "it reads outcomes.json, which a probe does not vary" in said
    assert "on trust alone" in said


CACHER = """
import json, pathlib
from beforehand import forecaster

KEPT = pathlib.Path(__file__).with_name("features.json")

@forecaster(free=True)
def cached(context):
    try:
        known = json.loads(KEPT.read_text())
    except OSError:
        known = {}
    return min(max(known.get(context.market.id, context.odds or 0.5) + 0.01, 0.01), 0.99)
"""


def test_a_cache_that_is_not_there_yet_is_named_too(
    sim: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bug that many caches have: what a first run writes, a second one knows beforehand."""
    (home / "caching.py").write_text(CACHER)
    name = f"python:{home / 'caching.py'}:cached"
    assert cli(["backtest", "probe", name, "--archive", str(sim), "--n", "10"]) == 0
    assert "features.json" in capsys.readouterr().out
    order = ["backtest", "run", "--archive", str(sim), "--every", "28d", "--forecasters", name]
    assert cli([*order, "--draws", "200", "--placebo", "0", "--json"]) == 0
    board = json.loads(capsys.readouterr().out)["leaderboard"]
    (row,) = (r for r in board if r["forecaster"] == "cached")
    assert row["isolation"].startswith("trusted")
    assert "features.json" in row["isolation"]


@pytest.mark.parametrize("width", [60, 80, 100, 130, 200])
def test_no_figure_is_cut_at_any_width(
    width: int, skilled: list[Row], sim: Path, tmp_path: Path
) -> None:
    few = [row for row in skilled if str(row["id"]) < "SIMEX:m0020"]
    rows = [{**row, "forecaster": "mine"} for row in skilled]
    rows += [{**row, "forecaster": "a_name_that_goes_on_and_on"} for row in few]
    found = scored(rows, sim, tmp_path)
    out = Console(width=width, record=True, file=io.StringIO())
    out.print(leaderboard(found, width))
    text = out.export_text()
    for row in found["leaderboard"]:
        gain, _, bounds = gained(row)
        for cell in (figure(row["brier"]), figure(gain), span(bounds)):
            assert cell in text, (row["forecaster"], cell)
    assert max(map(len, text.splitlines())) <= width
