"""Before a run is paid for: a few questions first, an end where nothing useful comes back, and a
ledger that anybody can read."""

import json
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import time_machine
from provider import Provider, serving

import beforehand as bh
from beforehand.cli.app import run as cli
from beforehand.config import Home, Workspace
from beforehand.errors import InputError, Stopped
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.runs.query import find_journal, find_run
from beforehand.score.bets import Kelly, Profit, profit
from beforehand.store.archive.reader import Archive
from program import run_program
from test_score_bets import bets_at

MINE = """
def good(context): return context.odds
def percent(context): return 55
def silent(context): return None
def late(context):
    late.asked += 1
    return 55 if late.asked < 20 else context.odds
late.asked = 0
"""


@pytest.fixture
def mine(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return f"python:{path}"


def backtest(sim: Path, forecaster: str, *more: str) -> int:
    common = ["--archive", str(sim), "--draws", "200", "--placebo", "0", "--json"]
    few = () if "--every" in more else ("--every", "28d")
    return cli(["backtest", "run", "--forecasters", forecaster, *common, *few, *more])


def test_a_trial_asks_a_few_and_counts_nothing(
    sim: Path, mine: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert backtest(sim, f"{mine}:good,drift", "--try", "3") == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["answers"]) == 3, "baselines are computed, not asked"
    assert all(one["probability"] == one["market"] for one in found["answers"])
    assert found["questions"] > 3
    times = [one["time"] for one in found["answers"]]
    assert times == sorted(times)
    assert backtest(sim, f"{mine}:percent", "--try", "2") == 3
    assert "percent?" in capsys.readouterr().out
    assert backtest(sim, f"{mine}:silent", "--try", "2") == 0, "None is an answer too"
    assert all(one["abstained"] for one in json.loads(capsys.readouterr().out)["answers"])
    workspace = Workspace.from_environment()
    assert not workspace.home.trials.exists(), "nothing counts as tried"
    assert cli(["runs", "list"]) == 0
    assert "no runs yet" in capsys.readouterr().out
    for wrong in ("0", "11"):
        assert backtest(sim, f"{mine}:good", "--try", wrong) == 2
        assert "1 to 10 questions" in capsys.readouterr().err
    assert backtest(sim, "drift", "--try", "2") == 2
    assert "computed from prices" in capsys.readouterr().err


def test_a_second_trial_asks_anew(
    sim: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was answered in an earlier trial is not taken for the answer of changed code."""
    for p in (0.25, 0.75):
        path = tmp_path / f"mine{p}.py"
        path.write_text(f"def same(context): return {p}\n")
        assert backtest(sim, f"python:{path}:same", "--try", "1") == 0
        assert json.loads(capsys.readouterr().out)["answers"][0]["probability"] == p


def test_trials_of_one_second_do_not_meet(
    sim: Path, mine: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each has calls of its own, as has a run."""
    with time_machine.travel("2026-01-06T12:00:00Z", tick=False):
        names = set()
        for _ in range(2):
            assert backtest(sim, f"{mine}:good", "--try", "3") == 0
            names.add(json.loads(capsys.readouterr().out)["name"])
        assert len(names) == 2


def test_a_run_whose_forecaster_gives_no_forecast_stops(
    sim: Path, mine: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert backtest(sim, f"{mine}:percent") == 3
    said = capsys.readouterr().err
    assert "no valid forecast in its first 20 answers" in said
    assert "--try 3" in said
    journal = find_journal(Workspace.from_environment())
    assert journal is not None
    row = journal.known_run(find_run("latest", Home(home), journal))
    assert row.status == "stopped"
    assert cli(["runs", "list"]) == 0
    assert f"{mine}:percent"[:39] in capsys.readouterr().out, "the list says of what"
    # A resume is a decision of the user: it goes on, to the end.
    assert cli(["runs", "resume", "latest", "--json"]) == 3, "and nothing came of it"
    assert json.loads(capsys.readouterr().out)["decisions"]["models"]


@pytest.mark.parametrize("name", ["silent", "late", "good"])
def test_who_abstains_or_answers_once_is_asked_to_the_end(
    sim: Path, mine: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """None is no forecast and no fault; one valid forecast among twenty is enough."""
    assert backtest(sim, f"{mine}:{name}") == (3 if name == "silent" else 0)
    found = json.loads(capsys.readouterr().out)["decisions"]["models"]
    (made,) = (row for entry, row in found.items() if entry.endswith(name))
    assert made["made"] + made["failed"] > 100
    assert (made["made"] > 0) == (name != "silent")


def test_the_ledger_says_what_was_tried_and_by_which_run(
    sim: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli(["runs", "trials"]) == 0
    assert "nothing was tried yet" in capsys.readouterr().out
    for kelly in ("0.25", "0.5", "0.25"):
        assert backtest(sim, "drift", "--kelly", kelly, "--spread", "0.02") == 0
        found = [row["kelly"] for row in json.loads(capsys.readouterr().out)["leaderboard"]]
    assert all("2 stake rules tried" in one["note"] for one in found), "each rule counts once"
    assert all("the assumed spread changes nothing" in one["note"] for one in found)
    assert backtest(sim, "drift", "--fee", "KALSHI=0.07") == 2
    assert "no market here pays it" in capsys.readouterr().err
    assert cli(["runs", "trials", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["trials"]
    assert (rows[0]["family"], rows[0]["name"]) == ("backtest", "drift")
    assert [row["family"] for row in rows].count("stakes") == 2
    assert all(row["run_id"] and row["at"] for row in rows)


def test_changed_code_is_another_variant_and_a_new_name_is_none(sim: Path, tmp_path: Path) -> None:
    path, tried = tmp_path / "tuned.py", list[int]()
    for name, factor in (("", 1.1), ("", 1.2), ("other=", 1.2), ("", 1.2)):
        path.write_text(f"def mine(c): return min(0.99, {factor} * c.odds)\n")
        code = "from beforehand.cli.app import run; import sys; sys.exit(run(sys.argv[1:]))"
        done = run_program(  # A process of its own: a module is read once.
            [sys.executable, "-c", code, "backtest", "run", "--forecasters",
             f"{name}python:{path}:mine", "--archive", str(sim), "--draws", "200", "--placebo", "0",
             "--every", "56d", "--json"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        tried.append(json.loads(done.stdout)["validity"]["variants_tried"]["value"])
    assert tried == [1, 2, 2, 2]


def test_a_decision_is_traced_on_the_terminal(
    sim: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert backtest(sim, "scripted", "--every", "30d") == 0
    run = json.loads(capsys.readouterr().out)
    market = run["pictured"]["id"]
    assert cli(["runs", "trace", "latest", market]) == 0
    said = capsys.readouterr().out
    assert "--- scripted, code" in said
    assert "code:" in said
    assert "scripted said 0." in said
    assert cli(["runs", "trace", "latest", market, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["attempts"][0]["code"]
    assert found["calls"][0]["state"] == "done"
    assert cli(["runs", "trace", "latest", market.partition(":")[2]]) == 0, "without the venue"
    assert cli(["runs", "trace", "latest", "SIMEX:none"]) == 2
    assert "has no market 'SIMEX:none': it has SIM" in capsys.readouterr().err
    for more, why in (
        (["--at", "2001-01-01"], "it was asked at 202"),
        (["--forecaster", "x"], "'x' said nothing (there are scripted)"),
    ):
        assert cli(["runs", "trace", "latest", market, *more]) == 2
        assert why in capsys.readouterr().err


def test_the_drawdown_at_prices_is_that_of_a_slow_walk() -> None:
    """Against the definition, step by step: cash and shares, with open bets at the price."""
    random = np.random.default_rng(5)
    n, each = 30, 12
    made = bets_at([0] * (n * each), [200] * (n * each), [0.0] * (n * each))
    made.q[:] = np.repeat(np.arange(n), each)
    made.t[:] = np.tile(np.arange(each) * 10, n)
    made.market[:] = np.clip(0.5 + random.normal(0, 0.1, n * each).cumsum() % 0.4 - 0.2, 0.1, 0.9)
    made.bid[:], made.ask[:] = made.market - 0.01, made.market + 0.01
    made.resolved_at[:n] = random.integers(60, 140, n)
    made.y[:n] = random.integers(0, 2, n)
    p = np.clip(made.market + random.normal(0, 0.1, n * each), 0.01, 0.99)
    got = profit(made, p, Kelly(fraction=1.0, cap=0.05))
    assert isinstance(got, Profit)
    assert got.bets > 20
    shares, paid = got.stake / got.price, got.paid
    peak, fall = 1.0, 0.0
    for now in range(201):
        wealth = 1.0
        for i in range(got.bets):
            q, t = got.question[i], got.t[i]
            if t > now:
                continue
            if made.resolved_at[q] <= now:
                wealth += got.gain[i]
                continue
            rows = (made.q == q) & (made.t >= t) & (made.t <= now)
            price = made.market[rows][-1]
            wealth += shares[i] * (price if got.yes[i] else 1 - price) - paid[i]
        peak = max(peak, wealth)
        fall = max(fall, 1 - wealth / peak)
    assert got.drawdown_at_prices == pytest.approx(fall)
    assert fall != pytest.approx(got.max_drawdown)


def test_what_was_tried_since_is_said(
    sim: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A report that was printed before counts too few: the command and the export say so."""
    path = tmp_path / "mine.py"
    path.write_text("def one(c): return c.odds\ndef two(c): return 0.9 * c.odds\n")
    assert backtest(sim, f"python:{path}:one", "--run-id", "first") == 0
    assert cli(["runs", "show", "first"]) == 0
    assert "tried on such a set since" not in capsys.readouterr().err
    assert backtest(sim, f"python:{path}:two", "--run-id", "second") == 0
    capsys.readouterr()
    assert cli(["runs", "show", "first"]) == 0
    assert "1 more tried on such a set since" in capsys.readouterr().err
    out = tmp_path / "paper.markdown"
    assert cli(["runs", "export", "first", "--format", "markdown", "--out", str(out)]) == 0
    assert "1 more tried on such a set after this run" in out.read_text()
    assert cli(["runs", "show", "second"]) == 0
    assert "tried on such a set since" not in capsys.readouterr().err


def test_a_spent_budget_is_raised_from_python(sim: Path, provider: Provider, home: Path) -> None:
    world = bh.World(sim)
    asked = {"draws": 200, "placebo": 0, "progress": False, "every": "28d"}
    with pytest.raises(Stopped):
        bh.backtest(world, provider.address(), run_id="spent", max_cost=0.2, **asked)
    with pytest.raises(Stopped):
        bh.open_run("spent").resume(progress=False)
    with pytest.raises(InputError, match="max_cost"):
        bh.open_run("spent").resume(progress=False, max_cost=-1.0)
    run = bh.open_run("spent").resume(progress=False, max_cost=1000.0)
    assert run.summary["leaderboard"]
    assert max(provider.paid().values()) == 1, "nothing is paid twice"


class Slow(Provider):
    """Hangs at one question in eight, whenever it is asked first; answers the others."""

    def answer(self, key: str, path: str, body: bytes, index: str) -> tuple[int, bytes]:
        with self._lock:
            first = self._tried[key] == 0
        if first and int(key[:4], 16) % 8 == 0:
            self._tried[key] += 1
            time.sleep(1.5)
        return super().answer(key, path, body, index)


def test_a_slow_tail_ends_no_run(sim: Path, home: Path) -> None:
    """Calls that time out beside others that are answered say nothing about the service; control:
    one that answers nobody stops the run (tests/test_engine_unanswered.py)."""
    with serving(Slow(latency=0.0)) as slow:
        more = ["--every", "28d", "--timeout", "0.5", "--concurrency", "8", "--max-calls", "100000"]
        assert backtest(sim, slow.address(), *more) == 0
        assert sum(slow._tried.values()) > 100


def test_who_looks_like_knowing_does_not_beat_on_trust(
    sim: Path, sim_archive: Archive, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A function that has the outcomes from elsewhere; control: a
    noisy hint, it beats, on trust."""
    view = Gateway(RecordedWorld(sim_archive)).full_view()
    ends = {r.market_id: r.payout for r in view.resolutions() if r.payout is not None}
    path = tmp_path / "mine.py"
    path.write_text(
        f"ENDS = {ends!r}\n"
        "def knows(c): return 0.02 + 0.96 * ENDS[c.market.id]\n"
        "def hints(c):\n"
        "    noise = (sum(map(ord, c.market.id + str(c.t))) % 25 - 12) / 60\n"
        "    return min(max(0.5 * c.odds + 0.5 * ENDS[c.market.id] + noise, 0.01), 0.99)\n"
    )
    assert backtest(sim, f"python:{path}:knows,python:{path}:hints") == 0
    board = {row["forecaster"]: row for row in json.loads(capsys.readouterr().out)["leaderboard"]}
    assert board["knows"]["verdict"] == "not shown"
    assert "looks like knowing the outcomes" in board["knows"]["reasons"][0]
    assert board["hints"]["verdict"] == "beats the market"
    assert cli(["runs", "show", "latest"]) == 0
    assert "on trust" in capsys.readouterr().out


def test_the_market_on_the_same_rows_stands_where_rows_differ(
    sim: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And nowhere else: a difference of rounding is none."""
    assert backtest(sim, "drift,extremised,reversion") == 0
    capsys.readouterr()
    assert cli(["runs", "show", "latest"]) == 0
    assert "same rows" not in capsys.readouterr().out
