"""The front door: `import beforehand as bh`, from a world to a verdict."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import beforehand as bh
from beforehand.cli.app import run as cli
from beforehand.config import Home
from beforehand.engine.runs import PAID_AT_ONCE
from beforehand.errors import CutoffViolation, InputError, NotConfigured, NotFound, Refused, Stopped
from beforehand.front.arrow import Column
from beforehand.jobs.backtest import ask
from experiments import QUICK, Out, told
from program import run_program
from test_ask import asked

FEW = {"every": "56d", "draws": 200, "placebo": 0, "progress": False}


def shrunk(context: bh.Context) -> float:
    """A function of this module: found by its name."""
    return 0.9 * context.odds + 0.05


@pytest.fixture
def world(wide: Path, home: Path) -> bh.World:
    return bh.open_world(wide)


def test_every_name_is_there_and_documented() -> None:
    assert set(bh.__all__) <= set(dir(bh))
    for name in bh.__all__:
        found = getattr(bh, name)
        assert name == "__version__" or (found.__doc__ or "").strip(), name
    packages = {path.name for path in Path(bh.__file__).parent.iterdir() if path.is_dir()}
    assert not packages & set(bh.__all__), "no name is also a package of ours"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        bh.nothing  # noqa: B018


def test_importing_it_loads_nothing() -> None:
    code = "import sys; a = set(sys.modules); import beforehand; print(*(set(sys.modules) - a))"
    done = run_program([sys.executable, "-c", code], fresh=True, capture_output=True, text=True, check=True)  # fmt: skip
    assert done.stdout.split() == ["beforehand"]


def test_a_world_at_an_instant(world: bh.World) -> None:
    view = world.at("2025-03-01")
    price = view.odds("m0003")
    assert price.known_at <= view.t == datetime(2025, 3, 1, tzinfo=UTC)
    assert len(world.markets) == 104
    tools = bh.toolbox(view)
    assert tools.get_market(id="m0003")["market_id"].endswith("m0003")
    assert "execute_python_code" in dir(tools)
    assert "Arguments: " in tools.get_market.__doc__
    with pytest.raises(CutoffViolation):
        tools.get_market(id="m0003", as_of="2026-01-01T00:00:00Z")
    with pytest.raises(AttributeError, match="no tool is named 'get_markte'"):
        _ = tools.get_markte
    with pytest.raises(InputError, match="needs a time zone"):
        world.at(datetime(2025, 3, 1))  # noqa: DTZ001
    with pytest.raises(InputError, match="not an ISO 8601 time"):
        world.at("soon")


def test_simulated_once_and_opened_again(home: Path) -> None:
    first = bh.simulate(seed=3, dates=4)
    again = bh.simulate(seed=3, dates=4)
    assert first.digest == again.digest
    assert first.path == home / "data" / "demo-world-3-4"
    with pytest.raises(InputError, match="holds another world"):
        bh.simulate(seed=4, path=first.path)
    with pytest.raises(InputError, match="dates must lie between 1 and 5,000, not 0"):
        bh.simulate(dates=0)


def test_from_a_function_to_a_verdict(world: bh.World, home: Path, tmp_path: Path) -> None:
    @bh.forecaster(name="mine")
    def mine(context: bh.Context) -> bh.Decision:
        return bh.Decision(0.5, evidence_ids=[d.id for d in context.documents])

    run = bh.backtest(world, [shrunk, mine, "market", "drift"], **FEW)
    assert sorted(run.forecasters) == ["drift", "market", "mine", "shrunk"]
    assert run["market"].verdict == "is the market"
    assert run["shrunk"].reasons
    assert run["shrunk"].row == next(
        r for r in run.summary["leaderboard"] if r["forecaster"] == "shrunk"
    )
    assert [one.name for one in run] == run.forecasters
    assert run.status == "success"
    assert run.card["admitted_after_t"]["value"] == 0
    assert run.verify().sound
    copied = run.report(tmp_path / "report.html")
    assert copied.read_bytes() == run.report().read_bytes()
    assert run.headline in copied.read_text()
    assert bh.open_run("latest").id == bh.open_run(run.id).id == run.id
    for text in (repr(run), run._repr_html_()):
        assert "shrunk" in text
        assert "not shown" in text
    with pytest.raises(KeyError, match="it has market"):
        run["nobody"]


def test_the_same_files_as_from_the_command_line(
    sim: Path, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "userland_front.py").write_text("def mine(context):\n    return context.odds\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import userland_front  # type: ignore[import-not-found]

    monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path / "a"))
    asked = ["--forecasters", "python:userland_front:mine,drift", "--run-id", "r", "--every", "28d"]
    told(capsys, "backtest", "run", "--archive", str(sim), *asked, *QUICK)
    draws, placebo = (int(QUICK[QUICK.index(name) + 1]) for name in ("--draws", "--placebo"))
    run = bh.backtest(
        bh.open_world(sim),
        [userland_front.mine, "drift"],
        every="28d",
        draws=draws,
        placebo=placebo,
        run_id="r",
        home=tmp_path / "b",
        progress=False,
    )
    theirs = Home(tmp_path / "a").runs / "r"
    names = {p.name for p in theirs.iterdir()} - {"log.json"}
    assert names == {p.name for p in run.path.iterdir()} - {"log.json"}
    for name in sorted(names):
        assert (theirs / name).read_bytes() == (run.path / name).read_bytes(), name


def test_a_failure_is_recorded_and_the_run_goes_on(world: bh.World) -> None:
    @bh.forecaster
    def broken(context: bh.Context) -> float:
        if context.odds < 0.5:
            raise KeyError("no such thing")
        return context.odds

    run = bh.backtest(world, broken, **FEW)
    failed = list(run.failures)
    assert failed
    assert {row["error"] for row in failed} == {"broken raised KeyError: 'no such thing'"}
    assert all('raise KeyError("no such thing")' in row["traceback"] for row in failed)
    assert len(run.forecasts) + len(failed) == len(run.intervals)


def test_bad_requests_are_one_sentence(world: bh.World, home: Path) -> None:
    for more, said in (
        ({"draws": 5}, "draws must lie between 100 and 100,000, not 5"),
        ({"evidence": 21}, "evidence must lie between 0 and 20"),
        ({"every": "sometimes"}, "sometimes"),
        ({"start": "2026-01-01", "end": "2025-01-01"}, "must not be reversed"),
        ({"max_cost": -1.0}, "max_cost must lie between 0"),
        ({"markets": []}, "markets names no market"),
        ({"markets": ["nothing"]}, "no market 'nothing'"),
        ({"forecasters": 7}, "7 cannot be called"),
        ({"grade": "publishd"}, "grade must be one of captured, published"),
        ({"grid": "x"}, "grid must be one of aligned, own"),
        ({"every": 7}, "every is a time of a minute or more"),
        ({"markets": 5}, "markets is a list of ids"),
        ({"start": 5}, "start is a time such as"),
        ({"spread": "a"}, "spread must lie in"),
        ({"max_cost": "a"}, "max_cost must lie between"),
        ({"foo": 1}, "backtest takes no 'foo'"),
        ({"fresh": "x"}, "fresh is True or False"),
        ({"forecasters": {"": "drift"}}, "'' cannot be"),
    ):
        asked = {"forecasters": "market", **FEW, **more}
        with pytest.raises((InputError, NotFound), match=said):
            bh.backtest(world, **asked)
    with pytest.raises(InputError, match="is not a world"):
        bh.backtest("data/archive", "market")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="cannot be compared"):
        bh.compare("a", "b")  # type: ignore[arg-type]
    for wrong, said in (
        (lambda: bh.open_world(""), "path is a path, not ''"),
        (lambda: bh.open_world(5), "path is a path, not 5"),  # type: ignore[arg-type]
        (lambda: bh.open_run(5), "run_id is the name of a run"),  # type: ignore[arg-type]
        (lambda: bh.simulate(3, __file__), "is a file: name a folder"),
        (lambda: bh.backtest(world, "drift", home=__file__), "home .* is a file"),
        (lambda: bh.toolbox("x"), "is not a View"),  # type: ignore[arg-type]
        (lambda: bh.toolbox(world.at("2025-02-01")).get_market("m0003"), "arguments by name: id"),
        (lambda: bh.forecaster(shrunk, free="yes"), "free and memoryless are True or False"),  # type: ignore[call-overload]
        (lambda: bh.score_forecasts([], world, run_id="latest"), "stands for the newest run"),
    ):
        with pytest.raises(InputError, match=said):
            wrong()
    with pytest.raises(NotFound):
        bh.open_run("latest")
    assert not Home(home).runs.exists(), "a bad request leaves nothing behind"


def test_a_run_that_stopped_goes_on(world: bh.World) -> None:
    class Slow:
        """Stops the run once."""

        stopped = False

        def __init__(self) -> None:
            self.seen = 0

        def decide(self, context: bh.Context) -> float:
            self.seen += 1
            if self.seen == 30 and not Slow.stopped:
                Slow.stopped = True
                raise KeyboardInterrupt
            return context.odds

    with pytest.raises(BaseException):  # noqa: B017 (Ctrl-C is no Exception)
        bh.backtest(world, Slow, run_id="r", **FEW)
    stopped = bh.open_run("r")
    assert stopped.status in ("stopped", "failed")
    with pytest.raises(NotFound, match="resume"):
        _ = stopped.summary
    assert "r" in repr(stopped)
    with pytest.raises(NotFound, match="resume"):
        _ = stopped.forecasts
    run = stopped.resume(progress=False)
    whole = bh.backtest(world, Slow, run_id="s", **FEW)
    assert list(run.forecasts) == list(whole.forecasts)
    assert run.verify().sound


def test_a_run_made_free_on_the_way_goes_on(world: bh.World, tmp_path: Path) -> None:
    """Answers that were recorded row by row are not made again in batches, nor the other way."""
    for first, then in ((False, True), (True, False)):
        run_id = f"free-{then}"
        asked, stop_at = list[str](), 40

        def ask(context: bh.Context, asked: list[str] = asked) -> bh.Decision:
            if len(asked) == stop_at:  # noqa: B023
                raise KeyboardInterrupt
            asked.append(context.market.id)
            return bh.Decision(context.odds / 2, confidence=0.5, rationale="half \ud800 of it")

        half = bh.forecaster(ask, name="half", memoryless=True, free=first)
        with pytest.raises(BaseException):  # noqa: B017
            bh.backtest(world, half, run_id=run_id, **FEW)
        stop_at = -1
        again = bh.forecaster(ask, name="half", memoryless=True, free=then)
        assert again is not half
        run = bh.open_run(run_id).resume(progress=False)
        # Batches are recorded whole; of single answers, those under way at the interrupt are lost.
        assert len(asked) <= len(run.intervals) + (40 if first else PAID_AT_ONCE)
        assert run.verify().sound
        assert run["half"].isolation == "trusted"
        assert not any("reproducible" in why for why in run["half"].reasons)
        assert "half" in str(next(iter(run.forecasts))["rationale"])


def test_the_second_run_of_a_notebook(world: bh.World) -> None:
    """A class begins each run anew, a plain function keeps nothing; what may have kept something
    from the run before is marked."""
    kept: dict[str, float] = {}

    @bh.forecaster
    def remembers(context: bh.Context) -> float:
        kept[context.market.id] = context.odds
        return context.odds * 0.5

    @bh.forecaster
    class Stateful:
        def __init__(self) -> None:
            self.kept: dict[str, float] = {}

        def __call__(self, context: bh.Context) -> float:
            self.kept[context.market.id] = context.odds
            return context.odds * 0.6

    both = [shrunk, Stateful, remembers]
    bh.backtest(world, both, **FEW)
    run = bh.backtest(world, both, **FEW)
    assert run["shrunk"].order == run["Stateful"].order == "asked in order"
    assert run["remembers"].order.startswith("may remember")
    fresh = bh.backtest(world, both, fresh=True, **FEW)
    assert fresh["remembers"].order == "asked in order, stated as restarted"


def test_a_version_is_part_of_the_identity(world: bh.World) -> None:
    @bh.forecaster(version=2)
    def mine(context: bh.Context) -> float:
        return context.odds

    run = bh.backtest(world, mine, run_id="r", **FEW)
    assert set(run.calls["provider"]) == {"python:mine@2"}
    with pytest.raises(InputError, match="its version is 2 now"):
        bh.backtest(world, "python:mine@1", **FEW)
    with pytest.raises(InputError, match="a version is letters"):
        bh.forecaster(version="a b")(shrunk)


def test_names_of_ones_own(world: bh.World) -> None:
    run = bh.backtest(world, {"half": lambda c: 0.5, "calm": "always:0.3"}, **FEW)
    assert {"half", "calm"} <= set(run.forecasters)


def test_who_never_answers_is_named(world: bh.World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leaderboard has no place for it: the headline, the run and the KeyError say so."""
    monkeypatch.setattr(ask, "MOST_USELESS", 10**6)  # Else the run stops: another test.

    def dead(context: bh.Context) -> float:
        raise RuntimeError("the key is missing")

    def flaky(context: bh.Context) -> float:
        return context.odds if context.odds > 0.5 else 1 / 0

    run = bh.backtest(world, [dead, flaky], **FEW)
    n = len(run.intervals)
    for text in (repr(run), run._repr_html_()):
        assert f"dead: {n} of {n} answers failed" in text
        assert "flaky: " in text
    with pytest.raises(KeyError, match=r"no scores of 'dead'.*answers failed"):
        run["dead"]
    alone = bh.backtest(world, dead, **FEW)
    assert "No answer of dead came about" in alone.headline
    assert "No answer of dead came about" in alone.report().read_text()


def test_what_can_never_answer_is_refused_before(world: bh.World, home: Path) -> None:
    class Needs:
        def __init__(self, share: float) -> None:
            self.share = share

        def decide(self, context: bh.Context) -> float:
            return self.share * context.odds

    class Nothing:
        pass

    def market(context: bh.Context) -> float:
        return 0.5

    for given, said in (
        (Needs, "a class is made without arguments"),
        (Nothing, "has no method decide"),
        (lambda a, b: 0.5, "it takes one argument"),
        (market, "may not be called market"),
    ):
        with pytest.raises(InputError, match=said):
            bh.backtest(world, given if given is market else {"mine": given}, **FEW)
    assert not Home(home).runs.exists()
    run = bh.backtest(world, {"whole": Needs(1.0), "half": Needs(0.5).decide}, **FEW)
    assert run["whole"].skill == 0.0
    named = bh.forecaster(Needs(1.0).decide, name="bound")
    assert bh.backtest(world, named, **FEW)["bound"].skill == 0.0


def test_answers_of_the_wrong_kind_are_failures_with_a_reason(
    world: bh.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask, "MOST_USELESS", 10**6)  # Else the run stops: another test.
    answers = {
        "text": "0.3",
        "yes": np.bool_(True),
        "keys": {"p": 0.3},
        "nothing": None,
        "many": [0.1, 0.2],
        "outside": 57,
    }
    asked = {name: (lambda context, value=value: value) for name, value in answers.items()}
    asked["exits"] = lambda context: sys.exit(3)
    asked["fine"] = lambda context: np.float32(0.25)
    run = bh.backtest(world, asked, **FEW)
    errors = {row["forecaster"]: row["error"] for row in run.failures}
    assert errors.keys() == asked.keys() - {"fine"}
    assert "a mapping needs a probability" in errors["keys"]
    assert "exits raised SystemExit: 3" in errors["exits"]
    assert all(
        "return a probability from 0 to 1" in errors[name] for name in ("text", "yes", "outside")
    )


def test_two_callables_of_one_name_are_refused(world: bh.World) -> None:
    """Else one of them would be asked under the other's name."""

    def made(p: float) -> object:
        def mine(context: bh.Context) -> float:
            return p

        return mine

    with pytest.raises(InputError, match="two callables are called mine"):
        bh.backtest(world, [made(0.2), made(0.4)], **FEW)
    marked = bh.forecaster(made(0.4))
    run = bh.backtest(world, {"low": bh.forecaster(made(0.2)), "high": marked}, **FEW)
    assert run["low"].brier != run["high"].brier


def test_a_run_that_was_killed_is_unfinished(world: bh.World, home: Path, capsys: Out) -> None:
    """In Python and on the command line, with what goes on from there."""
    script = (
        "import os, sys, beforehand as bh\n"
        "def dies(context):\n"
        "    os._exit(9)\n"
        f"bh.backtest(bh.open_world({str(world.path)!r}), dies, run_id='r', every='28d')\n"
    )
    done = run_program([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 9
    assert bh.open_run("r").status == "unfinished"
    listed = told(capsys, "runs", "list")["runs"]
    assert [row["status"] for row in listed] == ["unfinished"]
    assert cli(["runs", "show", "r"]) == 0
    assert "`beforehand runs resume r` continues it" in capsys.readouterr().out
    problems = bh.open_run("r").verify().problems
    assert any("it is not finished" in text for text in problems)


def test_two_against_each_other(world: bh.World, capsys: Out) -> None:
    run = bh.backtest(world, [shrunk, "market", "drift", "base_rate"], run_id="r", **FEW)
    again = bh.backtest(world, shrunk, run_id="s", **FEW)
    found = bh.compare(run["shrunk"], run["market"])
    assert found.difference == pytest.approx(run["shrunk"].skill, abs=1e-12)
    assert found.n == run["shrunk"].n
    low, high = found.ci
    assert low < found.difference < high
    mirrored = bh.compare(run["market"], run["shrunk"])
    assert mirrored.difference == pytest.approx(-found.difference)
    assert mirrored.gain.mean == pytest.approx(-found.gain.mean)
    assert mirrored.gain.detectable == pytest.approx(found.gain.detectable)
    worse = bh.compare(run["base_rate"], run["drift"])
    assert worse.verdict == "drift is better than base_rate"
    alike = bh.compare(run["shrunk"], again)
    assert (alike.difference, alike.ci) == (0.0, (0.0, 0.0)), "a copier: exactly 0"
    assert "forecast alike" in alike.verdict
    assert 0.7 < found.power(found.gain.detectable) < 0.9
    assert found.power(0.0) == pytest.approx(0.03, abs=0.03)
    with pytest.raises(InputError, match="power of 'x': give a difference in Brier score"):
        found.power("x")
    wire = told(capsys, "runs", "compare", "r:shrunk", "r:market")
    assert wire["difference"] == found.difference
    assert cli(["runs", "compare", "r:shrunk", "s"]) == 0
    assert "forecast alike" in capsys.readouterr().out
    for arguments, said in (
        (["r:shrunk", "r:shrunk"], "compared with itself"),
        (["r:nobody", "r:market"], "has no forecaster 'nobody'"),
        (["r", "r:market"], "has no forecaster"),
    ):
        code = cli(["runs", "compare", *arguments])
        text = capsys.readouterr().err
        assert (code, said in text) == (2, True) or arguments[0] == "r", text


def test_forecasts_of_every_kind_of_table(world: bh.World, tmp_path: Path) -> None:
    import duckdb

    run = bh.backtest(world, [shrunk, "drift"], **FEW)
    said = run.forecasts
    rows = [
        {"id": row["market_id"], "time": row["time"], "probability": row["probability"]}
        for row in said
        if row["forecaster"] == "shrunk"
    ]
    lines = [f"{r['id']},{r['time'].isoformat()},{r['probability']!r}" for r in rows]
    (tmp_path / "mine.csv").write_text("\n".join(["id,time,probability", *lines]))
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    asked = {"draws": 200, "placebo": 0, "progress": False}
    of_file = bh.score_forecasts(tmp_path / "mine.csv", world, **asked)
    boards = [of_file.summary["leaderboard"]]
    relation = duckdb.sql("SELECT * FROM said WHERE forecaster = 'shrunk'")
    for given in (rows, iter(rows), columns, relation):
        scored = bh.score_forecasts(given, world, name="mine", **asked)
        if given is relation:
            assert scored["shrunk"].brier == of_file["mine"].brier
            continue
        boards.append(scored.summary["leaderboard"])
    assert all(board == boards[0] for board in boards)
    whole = bh.score_forecasts(said, world, **asked)
    assert {"shrunk", "drift"} <= set(whole.forecasters), "a run's own table, as it is"
    assert len(of_file.forecasts) == len(rows)
    assert len(of_file.intervals) == len(of_file.evidence) == 0
    with pytest.raises(NotFound, match="keeps no prices to draw"):
        of_file.plot("market")
    paired = bh.compare(of_file, of_file["market"])
    assert paired.n == len(rows)
    assert paired.difference == pytest.approx(of_file["mine"].skill), "its skill"
    rows_of = [r for r in said if r["forecaster"] == "shrunk" and not r["short"]]
    assert len(rows_of) == run["shrunk"].n, "short markets are scored apart"


def test_rows_that_cannot_be_scored_are_listed(world: bh.World) -> None:
    good = {"id": world.markets[0], "time": "2025-03-01", "probability": 0.5}
    rows = [
        {"id": "nothing", "time": "2025-03-01", "probability": 0.5},
        {"id": world.markets[0], "time": datetime(2025, 3, 1), "probability": 0.5},  # noqa: DTZ001
        {"id": world.markets[0], "time": "2025-03-01", "probability": 50},
    ]
    first = world.at("2027-01-01").history(world.markets[0])[0].known_at
    run = bh.score_forecasts(
        [*rows, {**good, "time": first}], world, draws=200, placebo=0, progress=False
    )
    listed = {row["line"]: row["reason"] for row in run.rejected}
    assert listed.keys() == {1, 2, 3}
    assert "3 of 4 rows were not scored" in repr(run)
    assert "no such market" in listed[1]
    assert "no zone" in listed[2]
    assert "not a number in [0, 1]" in listed[3]
    stated = {row["line"]: (row["id"], row["time"], row["probability"]) for row in run.rejected}
    assert stated[1][::2] == ("nothing", "0.5")
    assert stated[3] == (world.markets[0], "2025-03-01", "50")
    with pytest.raises(InputError, match="no row of forecasts can be scored"):
        bh.score_forecasts(rows, world, progress=False)
    with pytest.raises(InputError, match="int is not a table of forecasts"):
        bh.score_forecasts(7, world)
    with pytest.raises(InputError, match="unequal length"):
        bh.score_forecasts({"id": ["a"], "time": []}, world)
    with pytest.raises(InputError, match="give a list of one row"):
        bh.score_forecasts(good, world)
    with pytest.raises(InputError, match="no column for time among id, p"):
        bh.score_forecasts([{"id": "a", "p": 0.5}], world)
    with pytest.raises(InputError, match=r"row 1 .* has the id '.*' and the market_id 'b'"):
        bh.score_forecasts([{**good, "market_id": "b"}], world)
    unnamed = [{**good, "time": first, "forecaster": nothing} for nothing in (None, float("nan"))]
    run = bh.score_forecasts(unnamed[1:], world, name="mine", draws=200, placebo=0)
    assert "mine" in run.forecasters


def test_what_a_view_is_asked_wrongly(world: bh.World) -> None:
    view = world.at("2025-03-01")
    assert view.narrow("2025-02-01").t == datetime(2025, 2, 1, tzinfo=UTC)
    for question, said in (
        (lambda: view.odds(5), "a market's id is text"),  # type: ignore[arg-type]
        (lambda: view.narrow("soon"), "not an ISO 8601 time"),
        (lambda: view.narrow(5), "an aware datetime"),  # type: ignore[arg-type]
        (lambda: view.search(5), "a query is text"),  # type: ignore[arg-type]
        (lambda: view.search("x", "y"), "limit must lie between"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InputError, match=said):
            question()


def test_what_a_callable_pays_for_is_paid_once(world: bh.World) -> None:
    """Through the meter of its context, also where it is asked inside a call of its own, and also
    where its answers are recorded in batches; a budget stops it, and nothing is sent again."""
    sent: list[str] = []

    def paying(context: bh.Context) -> float:
        def send(key: str) -> str:
            sent.append(key)
            return "0.5"

        request = {"ask": context.market.id, "at": context.t.isoformat()}
        spent = bh.Usage(tokens=812, cost=0.0031)
        return float(context.meter.call("an-llm", request, send, lambda text: spent))

    for options in ({}, {"free": True}, {"memoryless": True}, {"memoryless": True, "free": True}):
        sent.clear()
        name = "paying" + "".join(options)
        marked = bh.forecaster(name=name, **options)(_wrapped(paying))
        asked = {"run_id": name, "concurrency": 1, **FEW}
        with pytest.raises(Stopped, match="budget"):
            bh.backtest(world, marked, max_calls=40, **asked)
        first = len(sent)
        assert 0 < first <= 40
        run = bh.open_run(name)
        bh.backtest(world, marked, max_calls=100_000, **asked)
        assert len(sent) == len(set(sent)) == len(run.forecasts)
        assert (run.calls["provider"] == "an-llm").sum() == len(sent)
        assert run.verify().sound
        (row,) = (r for r in run.costs.rows() if "an-llm" in str(r["forecaster"]))
        assert row["asked"] == len(sent)
        assert row["cost"] == pytest.approx(0.0031 * len(sent))


def _wrapped(function):  # type: ignore[no-untyped-def]
    """The same function as another object, so that it is marked anew."""
    return lambda context: function(context)


def test_a_column_that_cannot_be_read_is_said(world: bh.World) -> None:
    class Odd:
        """A table of a type that is not known."""

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise KeyError("Can't resolve iterator for type 'run_end_encoded'")

    with pytest.raises(InputError, match=r"run_end_encoded.*give plain columns"):
        bh.score_forecasts(Odd(), world, draws=100, placebo=0)


def test_truth_values_are_no_probabilities(world: bh.World) -> None:
    rows = [
        {"id": name, "time": "2025-01-20T12:00:00Z", "probability": p}
        for name, p in zip(world.markets, (0.35, True, False, None, 0), strict=False)
    ]
    said = bh.score_forecasts(rows, world, draws=100, placebo=0).rejected.rows()
    reasons = {row["line"]: row["reason"] for row in said}
    assert reasons[2] == reasons[3]
    assert "is not a number in [0, 1]" in reasons[2]
    assert "is missing" in reasons[4]


def test_tables_in_other_peoples_hands() -> None:
    """Unknown values, empty tables and shared memory, in pandas, polars and DuckDB."""
    import duckdb
    import pandas
    import polars

    shares = np.array([0.25, np.nan])
    table = bh.Table(
        {
            "share": Column("float", shares),
            "time": Column.of("time", [None, 5]),
            "text": Column.of("text", [None, "x\ny"]),
            "count": Column.of("int", [1, 2]),
            "flag": Column.of("bool", [True, False]),
        }
    )
    one, two = table.rows()
    assert one == {"share": 0.25, "time": None, "text": None, "count": 1, "flag": True}
    assert two["time"] == datetime(1970, 1, 1, 0, 0, 0, 5, tzinfo=UTC)
    assert two["share"] is None
    frame, other = table.to_pandas(), table.to_polars()
    assert np.shares_memory(frame["share"].to_numpy(), shares)
    assert frame["time"].isna().tolist() == [True, False]
    assert str(frame["time"].dtype) == "datetime64[us, UTC]"
    assert other.to_dicts() == [one, two]
    assert np.shares_memory(polars.DataFrame(table)["count"].to_numpy(), table["count"])
    said = table  # noqa: F841 (DuckDB finds it by its name)
    rows = duckdb.sql("SELECT share, text, count, flag, epoch_us(time) FROM said").fetchall()
    assert rows == [(0.25, None, 1, True, None), (None, "x\ny", 2, False, 5)]
    empty = bh.Table({"share": Column.of("float", []), "text": Column.of("text", [])})
    assert (len(empty), list(empty), empty.to_pandas().shape) == (0, [], (0, 2))
    assert polars.DataFrame(empty).shape == (0, 2)
    assert "(0 rows)" in repr(empty)
    with pytest.raises(KeyError, match="table has no column 'nothing'"):
        table["nothing"]
    assert isinstance(frame, pandas.DataFrame)
    assert "<td>x y</td>" in table._repr_html_()
    long = bh.Table({"n": Column.of("int", list(range(100)))})
    assert "…" in repr(long)
    assert "(100 rows)" in repr(long)


AT = "2025-02-20"
QUESTION = "Will the Jorvia pipeline index close above 772, and how did it move this month?"


def test_a_question_in_python(sim: Path, home: Path, capsys: Out) -> None:
    world = bh.open_world(sim)
    plain = bh.ask(QUESTION, world, as_of=AT, run_id="p", progress=False)
    assert (plain.planned_by, plain.notes, plain.review) == ("rules", [], None)
    assert repr(plain) == plain.text
    assert {one["kind"] for one in plain.citations} == {"market", "price history"}
    shell = asked(capsys, sim, QUESTION, "--as-of", AT, "--run-id", "c")
    assert shell["answer"].replace("000002.json", "000001.json") == plain.text
    files = [json.loads((home / f"data/runs/{run}/answer.json").read_text()) for run in "pc"]
    assert [{**body, "run_id": ""}["not_found"] for body in files] == [plain.not_found] * 2
    helped = bh.ask(QUESTION, world, as_of=AT, model="scripted", review=True, progress=False)
    assert helped.planned_by == "scripted"
    assert helped.review is not None
    assert helped.review["responds"] is True
    assert helped.notes == ["scripted: a path test, not a forecaster"]
    assert bh.open_run(plain.run_id).verify().sound


def test_an_agent_in_python(sim: Path, home: Path) -> None:
    view = bh.open_world(sim).at(AT)
    ran = bh.run_agent("polymarket-agent", view, query="Jorvia pipeline", limit=3)
    assert ran.path == home / "workspace/agents/polymarket-agent/out/000001.json"
    assert json.loads(ran.path.read_text()) == {"data": ran.data, "metadata": ran.metadata}
    assert ran.metadata["timestamp"] == f"{AT}T00:00:00Z"
    coded = bh.run_agent("code-agent", view, question="Jorvia pipeline", model="scripted")
    assert "Jorvia pipeline" in coded.data[0]["output"]
    with pytest.raises(Refused, match="a larger --max-calls raises it"):
        bh.run_agent("code-agent", view, question="Avaria", model="scripted", max_calls=1)


def test_what_is_refused(sim: Path, home: Path) -> None:
    world = bh.open_world(sim)
    view = world.at(AT)
    for call, kind, said in (
        (lambda: bh.ask(5, world), InputError, "a question is a text"),  # type: ignore[arg-type]
        (lambda: bh.ask("x", world, nothing=1), InputError, "takes no argument 'nothing'"),  # type: ignore[call-arg]
        (lambda: bh.ask("?", world), InputError, "does not say what it is about"),
        (lambda: bh.ask("Jorvia", world, as_of="x"), InputError, "as_of: 'x' is not"),
        (lambda: bh.ask("Jorvia", world, review=True), InputError, "name one with model="),
        (lambda: bh.ask("Jorvia", "sim"), InputError, "is not a world"),  # type: ignore[arg-type]
        (lambda: bh.run_agent("nobody", view), NotFound, "no agent is named 'nobody'"),
        (lambda: bh.run_agent("polymarket-agent", view, q=1), InputError, "no input 'q'"),
        (lambda: bh.run_agent("polymarket-agent", world), InputError, "is not a View"),  # type: ignore[arg-type]
        (lambda: bh.run_agent("code-agent", view, question="x"), NotConfigured, "needs a model"),
    ):
        with pytest.raises(kind, match=said):
            call()  # type: ignore[no-untyped-call]
