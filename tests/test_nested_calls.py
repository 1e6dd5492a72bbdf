"""What a callable asks through its meter, inside a call of its own: nothing waits for itself, each
is counted once, and a limit that it meets ends the run."""

import itertools
import threading
from pathlib import Path
from typing import Any

import pytest

import beforehand as bh
from beforehand.cli.app import run as cli
from beforehand.config import Workspace
from beforehand.errors import Stopped
from beforehand.runs.query import find_journal
from experiments import QUICK, Out, told
from proofs import some

EVERY = "56d"
DECLARED: list[dict[str, Any]] = [{}, {"memoryless": True}, {"free": True}]
LIMITS: list[dict[str, Any]] = [
    {},
    {"max_calls": 100_000},
    {"max_cost": 5.0},
    {"max_tokens": 100_000},
    {"max_cost": 5.0, "max_tokens": 100_000, "max_calls": 100_000},
]
GRID = list(itertools.product(DECLARED, LIMITS, [1, 4], [1, 3]))
SMALL = [
    (DECLARED[1], LIMITS[2], 4, 1),
    (DECLARED[1], LIMITS[3], 1, 3),
    (DECLARED[0], LIMITS[4], 4, 1),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> bh.World:
    return bh.simulate(seed=1, dates=4, path=tmp_path_factory.mktemp("world") / "archive")


def paying(calls: int, sent: list[str], cost: float = 0.001) -> Any:
    """A function that pays for so many answers to each question."""

    def pay(context: bh.Context) -> float:
        for k in range(calls):
            asked = {"market": context.market.id, "t": str(context.t), "k": k}
            context.meter.call(
                "stub", asked, lambda key: sent.append(key) or "0.5",
                lambda text: bh.Usage(tokens=1, cost=cost),
            )  # fmt: skip
        return 0.5

    return pay


@pytest.mark.parametrize(
    ("declared", "limits", "concurrency", "calls"), some("nested calls", SMALL, GRID)
)
def test_nothing_waits_for_itself(
    world: bh.World, declared: Any, limits: Any, concurrency: int, calls: int
) -> None:
    sent: list[str] = []
    marked = bh.forecaster(name="pays", **declared)(paying(calls, sent))
    few: Any = {"every": EVERY, "draws": 100, "placebo": 0, "progress": False}
    run = bh.backtest(world, marked, concurrency=concurrency, **limits, **few)
    assert run.status == "success"
    assert len(sent) == len(set(sent)) == calls * len(run.forecasts)
    journal = find_journal(Workspace.from_environment())
    assert journal is not None
    row = journal.known_run(run.id)
    assert row.calls == len(sent), "each is counted once"
    assert row.cost == pytest.approx(0.001 * len(sent))


@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("limit", [{"max_calls": 5}, {"max_cost": 0.0055}, {"max_tokens": 5}])
def test_a_limit_ends_the_run_whoever_catches_it(world: bh.World, limit: Any, raises: bool) -> None:
    """It is met at the second call of a question. What a function makes of "the budget allows no
    further call", a forecast or an error of its own, is no answer."""
    sent: list[str] = []
    pay = paying(2, sent)
    caught: list[Exception] = []

    @bh.forecaster(memoryless=True, name="careless")
    def careless(context: bh.Context) -> float:
        try:
            return pay(context)
        except Exception as error:
            caught.append(error)
            if raises:
                raise ValueError("no answer") from error
            return 0.99

    few: Any = {"every": EVERY, "draws": 100, "placebo": 0, "progress": False}
    with pytest.raises(Stopped, match="budget"):
        bh.backtest(world, careless, run_id="careless", concurrency=1, **limit, **few)
    assert len(sent) == 5
    assert caught, "the control: it met the limit"
    run = bh.open_run("careless")
    run.resume(max_calls=10_000, max_cost=100.0, max_tokens=100_000, progress=False)
    assert len(sent) == len(set(sent)) == 2 * len(run.forecasts)
    assert not len(run.failures)
    assert {row["probability"] for row in run.forecasts.rows()} == {0.5}


def test_two_questions_do_not_wait_for_each_other(world: bh.World) -> None:
    """Both have begun when the first answer turns out dearer than what is left for two."""
    begun, dear = threading.Barrier(2), itertools.count()

    @bh.forecaster(memoryless=True, name="dear")
    def pay(context: bh.Context) -> float:
        if next(dear) < 2:
            begun.wait(20)
        cost = lambda text: bh.Usage(tokens=1, cost=1.0)  # noqa: E731
        return float(context.meter.call("stub", {"q": str(context.t)}, lambda key: "0.5", cost))

    few: Any = {"every": "7d", "draws": 100, "placebo": 0, "progress": False}
    with pytest.raises(Stopped, match="budget"):
        bh.backtest(world, pay, concurrency=2, cost_per_call=0.1, max_cost=1.5, **few)


def test_one_number_everywhere(world: bh.World, home: Path, tmp_path: Path, capsys: Out) -> None:
    """Dry run, limit, trial, journal and costs agree on how many calls there are."""
    code = tmp_path / "pays.py"
    code.write_text(
        "import beforehand as bh\n\n\n@bh.forecaster(memoryless=True)\ndef pay(c):\n"
        "    asked = {'q': c.market.id, 't': str(c.t)}\n"
        "    cost = lambda text: bh.Usage(tokens=1, cost=0.001)\n"
        "    return float(c.meter.call('stub', asked, lambda key: '0.5', cost))\n"
    )
    who = ["--forecasters", f"python:{code}:pay", "--archive", str(world.path), "--every", EVERY]
    order = ["backtest", "run", *who, *QUICK]
    (asked,) = told(capsys, *order, "--dry-run")["calls"]
    assert cli([*order, "--try", "3"]) == 0
    assert "3 paid calls" in capsys.readouterr().out
    found = told(capsys, *order, "--run-id", "r", "--max-calls", str(asked["calls"]))
    assert found["leaderboard"]
    assert told(capsys, "runs", "list")["runs"][0]["calls"] == asked["calls"]
    costs = told(capsys, "runs", "costs", "r")["costs"]
    (tmp_path / "plain.py").write_text("def plain(c): return 0.5\n")
    plain = [part.replace("pays.py:pay", "plain.py:plain") for part in order]
    (asked_none,) = told(capsys, *plain, "--dry-run")["calls"]
    assert asked_none["calls"] == 0, (
        "no call of its own: what it pays for is counted as it is asked"
    )
    assert [row["asked"] for row in costs] == [asked["calls"]] * 2
