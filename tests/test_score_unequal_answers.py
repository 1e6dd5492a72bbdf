"""Forecasters that did not answer everything, forecasters against each other, and the bets."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from beforehand.cli.app import run as cli
from beforehand.errors import InputError
from beforehand.jobs.checks import stakes
from beforehand.score.bets import Kelly, Profit, profit
from beforehand.score.compare import compare, pairs
from beforehand.score.evaluate import Result, Settings, evaluate
from beforehand.score.report.spreadsheets import bets_csv, leaderboard_csv, questions_csv
from beforehand.score.report.words import few_answers, headline
from beforehand.score.skill import MARKET, Options
from beforehand.score.summary import Summary
from beforehand.score.table import Table
from beforehand.score.validity import SetFacts
from beforehand.world.simulate import SimConfig
from tables import table

FACTS = SetFacts(documents=0)
SETTINGS = Settings(draws=400, placebo=0)


@pytest.fixture(scope="module")
def world() -> Table:
    return table(SimConfig(dates=240))[0]


def where_sure(world: Table) -> Table:
    """A forecaster that knows the outcome, and answers only where the market is sure."""
    sure = np.abs(world.market - 0.5) > 0.35
    outcome = np.clip(world.y[world.q], 0.02, 0.98)
    lazy = np.where(sure, outcome, np.nan)
    return replace(world, forecasts={"lazy": lazy, "all": outcome})


def wire(result: Result) -> Summary:
    return {**result.wire()}  # type: ignore[typeddict-item]


def test_whoever_leaves_rows_out_is_not_said_to_beat_the_market(world: Table) -> None:
    result = evaluate(where_sure(world), FACTS, SETTINGS)
    by_name = {row.forecaster: row for row in result.rows}
    assert by_name["all"].verdict == "beats the market"
    lazy = by_name["lazy"]
    assert lazy.skill is not None
    assert lazy.skill.ci[0] > 0
    assert lazy.verdict == "not shown"
    assert f"it answered {lazy.n:,} of {lazy.n + lazy.missing:,}" in lazy.reasons[0]
    # Its own bound, not everybody's: the other one still beats the market.
    check = next(c for c in result.checks if c.field == "share_answered")
    assert check.ok is False
    assert check.value == pytest.approx(lazy.answered)
    assert [row.forecaster for row in result.rows][-1] == "lazy"
    assert few_answers(wire(result))[0].startswith("lazy answered ")
    # Without the guard it would have won: the same rows alone, where nothing is missing.
    alone = where_sure(world)
    part = alone.where(np.isfinite(alone.forecasts["lazy"]))
    (row,) = [r for r in evaluate(part, FACTS, SETTINGS).rows if r.forecaster == "lazy"]
    assert row.verdict == "beats the market"


def test_a_headline_counts_its_own_questions(world: Table) -> None:
    made = where_sure(world)
    outcome = 1 - np.clip(world.y[world.q], 0.02, 0.98)
    first = world.q < 40
    made = replace(made, forecasts={"few": np.where(first, outcome, np.nan)})
    result = evaluate(made, FACTS, replace(SETTINGS, subjects=("few",)))
    assert "few is worse than the market over 40 questions" in headline(wire(result))
    both = replace(made, forecasts={**made.forecasts, "shrunk": world.forecasts["shrunk"]})
    said = headline(wire(evaluate(both, FACTS, SETTINGS)))
    assert f"over 40 to {len(world.questions):,} questions" in said


def test_common_rows_and_the_market_beside_them(world: Table) -> None:
    made = where_sure(world)
    found = evaluate(made, FACTS, SETTINGS).common
    assert found is not None
    n = int(np.isfinite(made.forecasts["lazy"]).sum())
    assert {row["n"] for row in found["leaderboard"]} == {n}
    for row in found["leaderboard"]:
        assert row["brier"] is not None
        assert row["market_brier"] == pytest.approx(row["brier"] + row["skill_vs_market"])
    assert evaluate(world, FACTS, SETTINGS).common is None  # Nothing is missing there.
    apart = replace(
        made,
        forecasts={
            "a": np.where(world.q < 30, 0.4, np.nan),
            "b": np.where(world.q >= 30, 0.4, np.nan),
        },
    )
    result = evaluate(apart, FACTS, SETTINGS)
    assert result.common is not None
    assert result.common["n_forecasts"] == 0
    assert result.pairs == []


def test_every_pair_is_what_compare_says(world: Table) -> None:
    result = evaluate(where_sure(world), FACTS, SETTINGS)
    (pair,) = result.pairs
    alone = compare(result.table, pair.a, pair.b, Options(draws=SETTINGS.draws))
    assert pair.wire() == alone.wire()
    assert {pair.a, pair.b} == {"lazy", "all"}
    three = evaluate(world, FACTS, SETTINGS).pairs
    assert len(three) == 3
    # Rows that are shared are resampled once, and give the same figures.
    for one in three:
        pair = compare(world, one.a, one.b, Options(draws=SETTINGS.draws))
        alone, wire = pair.wire(), one.wire()
        widened = ("pairs", "gain_bounds", "verdict", "power_at_0_01", "minimum_detectable_effect")
        assert {k: v for k, v in wire.items() if k not in widened} == {
            k: v for k, v in alone.items() if k not in widened
        }
        assert wire["pairs"] == 3
        assert one.gain.factor >= pair.gain.factor == 1.0


def test_whoever_compares_many_pairs_finds_no_better_one_by_chance() -> None:
    """Twelve forecasters that are noise around one truth: some of 66 pairs differ in their own
    interval, none once the number is corrected for, and a real difference stays."""
    alone = corrected = 0
    for seed in range(3):
        world, _ = table(SimConfig(dates=200, seed=seed))
        rng, noise = np.random.default_rng(seed), dict[str, np.ndarray]()
        for k in range(12):
            shift = rng.normal(0, 0.05, len(world.questions))[world.q]
            noise[f"noise{k}"] = np.clip(world.market + shift, 0.01, 0.99)
        known = np.clip(world.y[world.q], 0.2, 0.8)
        found = pairs(
            replace(world, forecasts={**noise, "known": known}),
            [*noise, "known"],
            Options(draws=200),
        )
        assert len(found) == 78
        assert {one.pairs for one in found} == {78}
        told = [one for one in found if "better" in one.verdict]
        assert sum("known is better" in one.verdict for one in told) == 12
        apart = [one for one in found if "known" not in (one.a, one.b)]
        alone += sum(not one.gain.interval[0] <= 0 <= one.gain.interval[1] for one in apart)
        corrected += sum("better" in one.verdict for one in apart)
    assert alone > 3, "the control: without the correction some are said to be better"
    assert corrected == 0


def test_slices_add_up(world: Table) -> None:
    result = evaluate(world, FACTS, SETTINGS)
    by = {part["by"] for part in result.slices}
    # One venue and no category: nothing to divide. Years it has more than one.
    assert by == {"days to end", "price", "resolved in"}
    for name in by:
        mine = [part for part in result.slices if part["by"] == name]
        assert sum(part["n_forecasts"] for part in mine) == len(world.q)
    part = next(p for p in result.slices if p["name"] == "30 to 70 %")
    rows = (world.market >= 0.3) & (world.market < 0.7)
    assert part["n_forecasts"] == rows.sum()
    held = world.where(rows)
    y = held.y[held.q]
    for row in part["leaderboard"]:
        p = {"market": held.market, **held.forecasts}[row["forecaster"]]
        squared, _ = held.question_means((p - y) ** 2, np.ones(len(y), dtype=bool))
        assert row["brier"] == pytest.approx(squared.mean())


def booked(world: Table, fee: float = 0.0) -> Table:
    return replace(
        world,
        bid=np.clip(world.market - 0.01, 0.001, 0.999),
        ask=np.clip(world.market + 0.01, 0.001, 0.999),
        fee=np.full(len(world.questions), fee),
    )


def test_the_bets_add_up(world: Table) -> None:
    made = booked(world, 0.05)
    found = profit(made, world.forecasts["truth"], Kelly(0.5, 0.05))
    assert isinstance(found, Profit)
    assert found.final_wealth == pytest.approx(1 + found.gain.sum())
    assert found.staked == pytest.approx(found.stake.sum())
    assert found.fees > 0
    assert found.wealth[-1] == pytest.approx(found.final_wealth)
    assert (found.returns <= 0.05 * (1 / found.price)).all()
    result = evaluate(made, FACTS, replace(SETTINGS, kelly=Kelly(0.5, 0.05)))
    rows = list(csv.DictReader(io.StringIO(bets_csv(result.rows, made, {}).decode())))
    mine = [row for row in rows if row["forecaster"] == "truth"]
    assert len(mine) == found.bets
    assert sum(float(row["gain"]) for row in mine) == pytest.approx(found.gain.sum())
    kelly = next(r for r in result.wire()["leaderboard"] if r["forecaster"] == "truth")["kelly"]
    assert isinstance(kelly, dict)
    assert (kelly["fraction"], kelly["cap"], kelly["start"]) == (0.5, 0.05, 1.0)
    assert kelly["path"][-1]["wealth"] == pytest.approx(found.final_wealth)
    gains = sorted(float(row["gain"]) for row in mine)
    assert [bet["gain"] for bet in kelly["lost"]] == pytest.approx(gains[:3])
    assert [bet["gain"] for bet in kelly["made"]] == pytest.approx(gains[::-1][:3])
    free = profit(booked(world), world.forecasts["truth"], Kelly(0.5, 0.05))
    assert isinstance(free, Profit)
    assert free.fees == 0
    assert free.final_wealth > found.final_wealth


def test_fees_by_venue_and_category() -> None:
    rules = stakes(fees=["0.01", "KALSHI=0.07", "polymarket/crypto=0.072"])
    assert rules.fee("KALSHI", "crypto", 0.5) == 0.07
    assert rules.fee("POLYMARKET", "Crypto", 0.5) == 0.072
    assert rules.fee("POLYMARKET", None, 0.5) == 0.01
    assert Kelly().fee("POLYMARKET", None, 0.5) == 0.5
    assert stakes(fees={"KALSHI": 0.03}).fee("KALSHI", None, 0.5) == 0.03
    assert stakes(fees=0.02).fee("X", None, 0.5) == 0.02
    for wrong in (["much"], ["KALSHI=2"], {"KALSHI": "x"}, -1):
        with pytest.raises(InputError, match="--fee"):
            stakes(fees=wrong, mark="--")  # type: ignore[arg-type]
    for name in ("kelly", "cap"):
        with pytest.raises(InputError, match=f"--{name} must lie in"):
            stakes(**{name: 0.0}, mark="--")  # type: ignore[arg-type]


def test_no_prose_in_a_column_of_numbers(world: Table) -> None:
    board = evaluate(where_sure(world), FACTS, SETTINGS).wire()["leaderboard"]
    text = {"forecaster", "leading", "verdict", "isolation", "order", "kelly_note"}
    for row in csv.DictReader(io.StringIO(leaderboard_csv(board).decode())):
        for name, cell in row.items():
            if name not in text and cell:
                float(cell)
        assert row["kelly_note"].startswith("not computable")


def test_a_blank_probability_is_a_question_left_out(
    sim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Blanking a third of the rows is not free: they count as not answered, and there is no "beats";
    rows that are not in the file at all are nobody's business."""
    monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path))
    assert cli(["world", "list", "--archive", str(sim), "--json"]) == 0
    markets = [m for m in json.loads(capsys.readouterr().out)["markets"] if m["until"]]
    rows = [f"{m['id']},{m['from'][:10]}T23:59:59Z" for m in markets]
    for name, blank in (("whole", 0), ("third", 3)):
        lines = [f"{row},{'' if blank and i % blank == 0 else 0.5}" for i, row in enumerate(rows)]
        path = tmp_path / f"{name}.csv"
        path.write_text("id,time,probability\n" + "\n".join(lines))
        cli(["score", str(path), "--archive", str(sim), "--run-id", name, "--placebo", "0"])
    scores = {
        name: json.loads((tmp_path / "data/runs" / name / "scores.json").read_text())
        for name in ("whole", "third")
    }
    said = {
        name: next(row for row in found["leaderboard"] if row["forecaster"] == name)
        for name, found in scores.items()
    }
    assert said["whole"]["answered"] == 1.0
    assert 0.6 < said["third"]["answered"] < 0.7
    assert any("counts as not answered" in why for why in scores["third"]["rejected"])
    assert said["third"]["verdict"] != "beats the market"


def test_bare_dates_are_said(
    sim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path))
    assert cli(["world", "list", "--archive", str(sim), "--json"]) == 0
    markets = [m for m in json.loads(capsys.readouterr().out)["markets"] if m["until"]]
    path = tmp_path / "bare.csv"
    lines = [f"{m['id']},{m['from'][:10]},0.5" for m in markets[:30]]
    path.write_text("id,time,probability\n" + "\n".join(lines))
    cli(["score", str(path), "--archive", str(sim), "--run-id", "bare", "--placebo", "0"])
    assert "30 times are dates without a time of day" in capsys.readouterr().err
    grid = json.loads((tmp_path / "data/runs/bare/scores.json").read_text())["grid"]
    assert "(30 are bare dates: the end of that day, UTC)" in grid
    assert (
        cli(["runs", "export", "bare", "--format", "markdown", "--out", str(tmp_path / "m.md")])
        == 0
    )
    said = (tmp_path / "m.md").read_text()
    assert "rows were scored" in said
    assert "was not checked" in said
    assert "shown and checked again" not in said
    assert cli(["runs", "export", "bare", "--format", "svg", "--out", str(tmp_path / "f.pdf")]) == 2


def test_odd_texts_stay_in_their_cells(world: Table) -> None:
    odd = ['a, "b"', "two\nlines", "=1+1", "", None, "-3", "plain"]
    texts = {name: odd[k % len(odd)] for k, name in enumerate(world.questions)}
    categories = [odd[k % 3] for k in range(len(world.questions))]
    result = evaluate(replace(world, category=categories), FACTS, SETTINGS)
    written = b"".join(questions_csv(result, texts)).decode()
    rows = list(csv.DictReader(io.StringIO(written, newline="")))
    assert len(rows) == len(result.rows) * len(world.questions)
    for k, row in enumerate(rows[: len(world.questions)]):
        name, said = row["market_id"], texts[row["market_id"]] or ""
        assert name == world.questions[k]
        assert row["question"] == {"=1+1": "'=1+1"}.get(said, said)
        assert row["category"] == {"=1+1": "'=1+1"}.get(categories[k], categories[k])
        assert (row["venue"], row["outcome"]) == (name.partition(":")[0], str(world.y[k]))
    again = io.StringIO(newline="")
    csv.writer(again, lineterminator="\n").writerows([[*rows[0]], *(row.values() for row in rows)])
    assert again.getvalue() == written


def test_intervals_can_be_drawn_again_from_the_questions(world: Table) -> None:
    """The scores of questions.csv add up to the leaderboard's, and its clusters give the same
    intervals. (Redrawn by other code: whole clusters, then the mean over questions.)"""
    result = evaluate(world, FACTS, SETTINGS)
    rows = list(csv.DictReader(io.StringIO(b"".join(questions_csv(result, {})).decode())))
    for row in result.rows:
        mine = [each for each in rows if each["forecaster"] == row.forecaster]
        skill = np.array([float(each["skill_vs_market"]) for each in mine])
        assert sum(int(each["n"]) for each in mine) == row.n
        assert np.mean([float(each["brier"]) for each in mine]) == pytest.approx(row.brier)
        assert skill.mean() == pytest.approx(row.skill.skill, abs=1e-12)
        if row.forecaster == MARKET:
            continue
        clusters = {}
        for each, gain in zip(mine, skill, strict=True):
            clusters.setdefault(each[row.skill.leading.replace("period", "month")], []).append(gain)
        sums = np.array([(sum(gains), len(gains)) for gains in clusters.values()])
        draws = np.random.default_rng(9).integers(0, len(sums), (4000, len(sums)))
        means = sums[draws].sum(axis=1)
        low, high = np.quantile(means[:, 0] / means[:, 1], [0.025, 0.975])
        found_low, found_high = row.skill.ci
        assert high - low == pytest.approx(found_high - found_low, rel=0.15)
        assert (low + high) / 2 == pytest.approx(
            (found_low + found_high) / 2, abs=0.1 * (high - low)
        )
