"""What a hostile reader asks of a scored file: counts, rows left out, training, luck, bets by hand."""

import csv
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import iso_us, to_us
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.jobs.backtest.grid import end_of
from beforehand.store.archive.reader import Archive

Rows = list[tuple[str, int, float]]
Out = pytest.CaptureFixture[str]


@pytest.fixture
def rows(sim_archive: Archive) -> Rows:
    """Market, instant and price at some instants of each settled market."""
    world = RecordedWorld(sim_archive)
    view, found = Gateway(world).full_view(), list[tuple[str, int, float]]()
    for ending in view.resolutions():
        if ending.payout is None:
            continue
        prices = world.series(ending.market_id)
        for t, p in zip(prices.known_at[:60:6], prices.price[:60:6], strict=True):
            if int(t) + 1 < to_us(end_of(ending)):
                found.append((ending.market_id, int(t) + 1, float(p)))
    return found


def write(path: Path, rows: list[tuple[str, str, int, float]]) -> Path:
    lines = [f"{who},{name},{iso_us(t)},{p!r}" for who, name, t, p in rows]
    path.write_text("\n".join(["forecaster,id,time,probability", *lines]) + "\n")
    return path


def told(capsys: Out, path: Path, sim: Path, *more: str, code: int = 0) -> dict[str, object]:
    command = ["score", str(path), "--archive", str(sim), "--draws", "300", "--placebo", "0"]
    capsys.readouterr()
    assert cli([*command, "--json", *more]) == code
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def tilted(rows: Rows, by: float = 0.1, who: str = "mine") -> list[tuple[str, str, int, float]]:
    return [(who, m, t, min(0.99, max(0.01, p + by))) for m, t, p in rows]


def test_a_mistyped_id_counts_once(rows: Rows, sim: Path, tmp_path: Path, capsys: Out) -> None:
    """Its row may stand for the market that another forecaster has: it is asked two, not three."""
    (a, t, _), (b, u, _) = rows[0], next(one for one in rows if one[0] != rows[0][0])
    both = [("a", a, t, 0.5), ("a", b, u, 0.5), ("b", a, t, 0.4), ("b", "SIMEX:m0zzz", u, 0.4)]
    found = told(capsys, write(tmp_path / "x.csv", both), sim, "--check", code=3)
    assert found["forecasters"] == {
        "a": {"n": 2, "asked": 2, "markets": 2},
        "b": {"n": 1, "asked": 2, "markets": 1},
    }
    typo_more = [*both, ("b", "SIMEX:m0yyy", u, 0.4)]
    found = told(capsys, write(tmp_path / "y.csv", typo_more), sim, "--check", code=3)
    assert found["forecasters"]["b"]["asked"] == 3, "two odd rows, one market left out"  # type: ignore[index]


def test_what_is_left_is_another_variant(
    rows: Rows, sim: Path, tmp_path: Path, capsys: Out
) -> None:
    path = write(tmp_path / "mine.csv", tilted(rows))
    whole = told(capsys, path, sim)
    middle = iso_us(sorted(t for _, t, _ in rows)[len(rows) // 2])
    venue = rows[0][0].partition(":")[0]
    parts = [
        told(capsys, path, sim, "--leave-out", rule)
        for rule in (f"before={middle}", f"after={middle}", f"venue={venue}")
    ]
    counts = [one["rows"] for one in parts]
    assert all(sum(n.values()) == len(rows) for n in counts)  # type: ignore[attr-defined]
    assert counts[0]["scored"] + counts[1]["scored"] >= len(rows)  # type: ignore[index]
    for n, one in enumerate((whole, *parts), 1):
        assert one["validity"]["variants_tried"]["value"] == n  # type: ignore[index]
    out = capsys.readouterr
    command = ["score", str(path), "--archive", str(sim), "--draws", "300", "--placebo", "0"]
    assert cli([*command, "--leave-out", f"venue={venue}"]) == 0
    assert f"Left out on request: venue={venue} (" in " ".join(out().out.split())
    capsys.readouterr()
    assert cli(["runs", "trials"]) == 0
    listed = " ".join(out().out.split())
    assert f"mine venue={venue}" in listed
    assert parts[0]["leave_out"] == {f"before={middle}": counts[0]["left_out"]}  # type: ignore[index]
    cut = write(tmp_path / "cut.csv", tilted(rows[: len(rows) // 2 + 20]))
    assert told(capsys, cut, sim)["validity"]["variants_tried"]["value"] >= 4  # type: ignore[index]
    for wrong, why in (("venue=NOWHERE", "leaves out no row"), ("when=2", "FIELD=VALUE"),
                       ("before=soon", "--leave-out before=soon"),
                       ("after=2000-01-01", "nothing is left")):  # fmt: skip
        assert cli(["score", str(path), "--archive", str(sim), "--leave-out", wrong]) == 2
        assert why in capsys.readouterr().err


def test_skill_before_and_after_the_end_of_training(
    rows: Rows, sim: Path, tmp_path: Path, capsys: Out
) -> None:
    path = write(tmp_path / "mine.csv", tilted(rows))
    ends = sorted(to_us(end) for end in _ends(sim).values())
    cutoff = iso_us(ends[len(ends) // 2])
    found = told(capsys, path, sim, "--training-cutoff", cutoff)
    parts = [one for one in found["slices"] if one["by"] == "training"]  # type: ignore[attr-defined]
    names = ["resolved before its end", "forecast before it, resolved after", "forecast after it"]
    assert [one["name"] for one in parts] == names
    assert sum(one["n_forecasts"] for one in parts) == len(rows)


def knowing(rows: Rows, sim: Path) -> list[tuple[str, str, int, float]]:
    """Towards the outcome, with noise: beats the market."""
    view = Gateway(RecordedWorld(Archive(sim))).full_view()
    paid = {r.market_id: r.payout for r in view.resolutions()}
    noise = np.random.default_rng(0).normal(0, 0.15, len(rows))
    return [
        ("mine", m, t, float(np.clip(0.6 * p + 0.4 * float(paid[m] or 0) + e, 0.01, 0.99)))
        for (m, t, p), e in zip(rows, noise, strict=True)
    ]


def test_a_softened_outcome_is_seen(rows: Rows, sim: Path, tmp_path: Path, capsys: Out) -> None:
    """A tenth of the way to the outcome, without noise; the control has noise."""
    view = Gateway(RecordedWorld(Archive(sim))).full_view()
    paid = {r.market_id: float(r.payout or 0) for r in view.resolutions()}
    said = [("soft", m, t, 0.9 * p + 0.1 * paid[m]) for m, t, p in rows]
    said += [("able", m, t, p) for _, m, t, p in knowing(rows, sim)]
    found = told(capsys, write(tmp_path / "x.csv", said), sim)
    by = {r["forecaster"]: r for r in found["leaderboard"]}  # type: ignore[attr-defined]
    assert by["soft"]["verdict"] == "not shown"
    assert "looks like knowing the outcomes" in by["soft"]["reasons"][0]
    assert by["able"]["verdict"] == "beats the market"


def test_a_forecast_from_before_the_end_of_training_is_no_fair_one(
    rows: Rows, sim: Path, tmp_path: Path, capsys: Out
) -> None:
    """All of it resolved after the cutoff, and all of it was made before: the model knows news that
    the market did not. The control is a cutoff before the first forecast."""
    ends = {name: to_us(at) for name, at in _ends(sim).items()}  # type: ignore[arg-type]
    middle = sorted(ends.values())[len(ends) // 3]
    mine = [r for r in knowing(rows, sim) if r[2] < middle < ends[r[1]]]
    path = write(tmp_path / "mine.csv", mine)
    for cutoff, share in ((middle, 0.0), (min(t for _, _, t, _ in mine), 1.0)):
        card = told(capsys, path, sim, "--training-cutoff", iso_us(cutoff))["validity"]
        assert card["share_after_training_cutoff"]["value"] == 1.0  # type: ignore[index]
        made = card["share_made_after_training"]  # type: ignore[index]
        assert (made["value"], made["ok"]) == (share, share == 1.0)


def test_a_forecaster_of_which_nothing_can_be_scored_is_named(
    rows: Rows, sim: Path, tmp_path: Path, capsys: Out
) -> None:
    before = 1_546_300_800_000_000  # 2019: before every price.
    ghost = [("ghost", m, before + k, 0.5) for k, (m, _, _) in enumerate(rows[:10])]
    path = write(tmp_path / "x.csv", [*tilted(rows), *ghost])
    found = told(capsys, path, sim, code=3)
    assert "ghost has no score: none of its 10 rows could be scored" in found["hints"]  # type: ignore[operator]


@pytest.mark.parametrize("days", [1, 3, 7, 20])
@pytest.mark.parametrize("weight", [1.0, 0.5])
def test_who_copies_later_prices_is_seen(
    rows: Rows, sim: Path, tmp_path: Path, capsys: Out, days: int, weight: float
) -> None:
    """Whole or by half, at instants of which the file holds no later one. The controls: a
    forecaster that is as good without it, and noise."""
    world = RecordedWorld(Archive(sim))
    taken, said = set[str](), []
    rng = np.random.default_rng(days)
    for m, t, p in rows[::-1]:
        if m in taken:
            continue  # One row a market: nothing of the file shows what came later.
        taken.add(m)
        (point,) = world.last_price(m, t + days * 86_400_000_000)
        later = (1 - weight) * p + weight * point.price
        noise = p + float(rng.normal(0, 0.03))
        said += [("late", m, t, later), ("noise", m, t, min(max(noise, 0.01), 0.99))]
    halfway = {m: p for _, m, _, p in knowing(rows, sim)}
    said += [("able", m, t, halfway[m]) for who, m, t, _ in said if who == "late"]
    found = told(capsys, write(tmp_path / "x.csv", said), sim)
    reasons = {r["forecaster"]: " ".join(r["reasons"]) for r in found["leaderboard"]}  # type: ignore[attr-defined]
    verdicts = {r["forecaster"]: r["verdict"] for r in found["leaderboard"]}  # type: ignore[attr-defined]
    moved = verdicts["late"] != "not shown" or "later prices" in reasons["late"]
    assert verdicts["late"] != "beats the market"
    assert moved or days == 1, "in a day too few prices move"
    assert "later prices" not in reasons["noise"] + reasons["able"]


def _ends(sim: Path) -> dict[str, object]:
    view = Gateway(RecordedWorld(Archive(sim))).full_view()
    return {r.market_id: r.resolved_at for r in view.resolutions()}


def test_pairs_without_a_shared_instant_are_there(
    rows: Rows, sim: Path, tmp_path: Path, capsys: Out
) -> None:
    both = [*tilted(rows[::2], 0.1, "even"), *tilted(rows[1::2], -0.05, "odd")]
    found = told(capsys, write(tmp_path / "x.csv", both), sim, "--run-id", "apart")
    (pair,) = found["pairs"]  # type: ignore[misc]
    assert len(pair["skills"]) == 2
    report = Path(str(found["report"]))
    (line,) = csv.DictReader((report.parent / "pairs.csv").read_text().splitlines())
    assert line["compared_by"] == "skill at own instants"
    assert "†" in report.read_text()
    assert cli(["runs", "export", "apart", "--format", "latex"]) == 0
    made = next(report.parent.parent.rglob("*.tex")).read_text()
    assert "tab:beforehand-pairs" in made
    assert "Corrected 95" in made


def test_a_file_of_the_next_price_is_seen(
    rows: Rows, sim: Path, tmp_path: Path, capsys: Out
) -> None:
    """Prices of an instant later are caught; those of one before, and noise, are not."""
    by_market = dict[str, list[tuple[int, float]]]()
    for m, t, p in rows:
        by_market.setdefault(m, []).append((t, p))
    ahead, behind, noise = [], [], []
    rng = np.random.default_rng(1)
    for m, line in by_market.items():
        for (t, now), (_, later) in itertools.pairwise(line):
            ahead.append(("ahead", m, t, min(max(later, 0.001), 0.999)))
            noise.append(("noise", m, t, float(np.clip(now + rng.normal(0, 0.05), 0.01, 0.99))))
        for (_, before), (t, _) in itertools.pairwise(line):
            behind.append(("behind", m, t, min(max(before, 0.001), 0.999)))
    found = told(capsys, write(tmp_path / "x.csv", [*ahead, *behind, *noise]), sim)
    said = {row["forecaster"]: " ".join(row["reasons"]) for row in found["leaderboard"]}  # type: ignore[attr-defined]
    assert "looks like knowing later prices" in said["ahead"]
    assert "later prices" not in said["behind"] + said["noise"]


def test_every_bet_can_be_checked_from_its_own_row(
    rows: Rows, sim: Path, tmp_path: Path, capsys: Out
) -> None:
    """Stake from forecast, price, fee and the wealth then; luck is never an exact 0."""
    found = told(capsys, write(tmp_path / "mine.csv", tilted(rows)), sim, "--spread", "0.02")
    kelly = next(r for r in found["leaderboard"] if r["forecaster"] == "mine")["kelly"]  # type: ignore[attr-defined]
    folder = Path(str(found["report"])).parent
    lines = csv.DictReader((folder / "bets.csv").read_text().splitlines())
    bets = [b for b in lines if b["forecaster"] == "mine"]
    assert len(bets) == kelly["bets"] > 20
    full = 0
    for bet in bets:
        p = float(bet["forecast"]) if bet["side"] == "YES" else 1 - float(bet["forecast"])
        price, rate, wealth = (float(bet[k]) for k in ("price", "fee_rate", "wealth"))
        cost = price + rate * price * (1 - price)
        share = min(kelly["fraction"] * (p - cost) / (1 - cost), kelly["cap"])
        outlay = float(bet["stake"]) + float(bet["fee"])
        assert float(bet["wanted"]) == pytest.approx(share)
        assert outlay <= share * wealth * (1 + 1e-9), "less where the cash did not reach"
        full += outlay == pytest.approx(share * wealth)
    assert full >= len(bets) - kelly["cut"]
    returns = [float(b["gain"]) / (float(b["stake"]) + float(b["fee"])) for b in bets]
    assert kelly["roi_equal"] == pytest.approx(np.mean(returns))
    assert 0 < kelly["by_chance"] <= kelly["best_by_chance"] <= 1
    by_year = [one for one in found["slices"] if one["by"] == "resolved in"]  # type: ignore[attr-defined]
    gained = sum(m["gain"] for one in by_year for m in one["money"] if m["forecaster"] == "mine")
    assert not by_year or gained == pytest.approx(kelly["gain"])


def test_who_says_both_is_hedging(rows: Rows, sim: Path, tmp_path: Path, capsys: Out) -> None:
    """One that beats the market alone does not beside one that says the opposite; beside one that
    says something else it does, and a copy of the price has the correlation 1."""
    draw, view = np.random.default_rng(7), Gateway(RecordedWorld(Archive(sim))).full_view()
    paid = {r.market_id: r.payout or 0.0 for r in view.resolutions()}
    beyond = [0.35 * (paid[m] - p) + draw.normal(0, 0.1) for m, _, p in rows]

    def file(*forecasters: tuple[str, float]) -> Path:
        found = []
        for who, sign in forecasters:
            for (m, t, p), d in zip(rows, beyond, strict=True):
                found.append((who, m, t, min(0.99, max(0.01, p + sign * d))))
        return write(tmp_path / f"{len(forecasters)}.csv", found)

    alone = told(capsys, file(("mine", 1.0)), sim)
    (row,) = [r for r in alone["leaderboard"] if r["forecaster"] == "mine"]  # type: ignore[union-attr]
    assert row["verdict"] == "beats the market", row["reasons"]
    both = told(capsys, file(("mine", 1.0), ("other", -1.0)), sim)
    by = {r["forecaster"]: r for r in both["leaderboard"]}  # type: ignore[union-attr]
    assert by["mine"]["verdict"] == "not shown"
    assert any("hedging: other says the opposite" in text for text in by["mine"]["reasons"])
    assert by["market"]["market_correlation"] == pytest.approx(1)
    assert 0 < by["mine"]["market_correlation"] < 1
    friends = told(capsys, file(("mine", 1.0), ("other", 0.5), ("third", 0.0)), sim)
    by = {r["forecaster"]: r for r in friends["leaderboard"]}  # type: ignore[union-attr]
    assert by["mine"]["verdict"] == "beats the market", by["mine"]["reasons"]
    assert by["third"]["verdict"] == "is the market"
    assert by["third"]["market_correlation"] == pytest.approx(1)
