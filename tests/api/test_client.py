"""`beforehand.Client`: a run on a server looks like one of this machine."""

from pathlib import Path
from typing import Any

import pytest
from apiserver import Api, api
from serving import token

import beforehand as bh
from beforehand.errors import (
    CutoffViolation,
    InputError,
    NotFound,
    Refused,
    Stopped,
    Unauthorized,
    Unavailable,
)
from modelserver import model_server

TABLES = (
    "leaderboard",
    "forecasts",
    "intervals",
    "evidence",
    "failures",
    "calls",
    "costs",
    "rejected",
)


@pytest.mark.parametrize("run_id", ["walk", "scored", "benched"])
def test_a_remote_run_looks_like_a_local_one(serving: Api, run_id: str) -> None:
    local = bh.open_run(run_id, home=serving.home)
    with bh.Client(serving.url) as client:
        remote = client.open_run(run_id)
        assert remote.summary == local.summary
        assert remote.headline == local.headline
        assert remote.forecasters == local.forecasters
        assert remote.status == local.status == "success"
        assert remote.card == local.card
        for name in local.forecasters:
            one, other = remote[name], local[name]
            assert (one.verdict, one.reasons, one.skill_ci) == (other.verdict, other.reasons, other.skill_ci)  # fmt: skip
        for name in TABLES:
            mine, theirs = _table(remote, name), _table(local, name)
            assert mine == theirs, name
        assert remote.verify().sound == local.verify().sound
        assert remote.report().read_bytes() == local.report().read_bytes()
        assert repr(remote) == repr(local)
        assert remote._repr_html_() == local._repr_html_()
        with pytest.raises(KeyError, match="nobody"):
            remote["nobody"]
        folder = remote.path
    assert not folder.exists(), "what was fetched is deleted"


def _table(run: bh.Run, name: str) -> Any:
    try:
        table = getattr(run, name)
    except (NotFound, InputError) as error:
        return type(error)
    return (table.columns, list(table.rows()))


def test_comparisons_across_machines(serving: Api) -> None:
    local = bh.open_run("walk", home=serving.home)
    with bh.Client(serving.url) as client:
        remote = client.open_run("walk")
        both = client.compare(remote["drift"], remote["market"], draws=300)
        assert both.wire() == bh.compare(local["drift"], local["market"], draws=300).wire()
        mixed = bh.compare(remote["drift"], local["market"], draws=300)
        assert mixed.difference == both.difference


def test_everything_of_the_front_door(serving: Api, tmp_path: Path) -> None:
    with bh.Client(serving.url) as client:
        world = client.open_world()
        local = bh.open_world(serving.home / "data" / "sim")
        assert (world.digest, world.counts) == (local.digest, local.counts)
        assert world.markets == local.markets
        run = client.backtest(world, ["market", "drift"], every="28d", draws=100, placebo=0, run_id="far", progress=False)  # fmt: skip
        near = bh.backtest(local, ["market", "drift"], every="28d", draws=100, placebo=0, run_id="near", home=tmp_path, progress=False)  # fmt: skip
        # (Bounds that are deflated for what this home tried before are left out.)
        figures = [(s.name, s.brier, s.skill, s.skill_ci, s.n) for s in run]
        assert figures == [(s.name, s.brier, s.skill, s.skill_ci, s.n) for s in near]
        assert run.forecasts.rows is not None
        assert _table(run, "forecasts") == _table(near, "forecasts")
        scored = client.score_forecasts(serving.home / "mine.csv", world, draws=200, placebo=0)
        assert scored.headline == bh.open_run("scored", home=serving.home).headline
        rows = [{"id": r["market_id"], "time": r["time"], "probability": 0.4} for r in list(near.forecasts)[:40]]  # fmt: skip
        table = client.score_forecasts(rows, world, name="mine", draws=200, placebo=0)
        assert table["mine"].n + len(table.rejected) == 40
        answer = client.ask("Merovia timber index?", world, progress=False)
        assert answer.text
        assert answer.question == "Merovia timber index?"
        market = world.markets[0]
        t = "2025-06-02T00:00:00Z"
        seen = world.market(market, t)
        assert seen["t"] == t
        tools = client.toolbox(world, t)
        mine = tools.list_markets(limit=3)
        theirs = bh.toolbox(local.at(t)).list_markets(limit=3)
        assert mine["markets"] == theirs["markets"]
        assert "list_markets" in dir(tools)
        assert client.runs()[0]["run_id"]
        assert client.workspace["default_archive"] == "sim"


def test_a_run_that_stops_and_goes_on(serving: Api) -> None:
    with model_server() as model, bh.Client(serving.url) as client:
        world = client.open_world("sim")
        options: Any = {"every": "56d", "draws": 100, "placebo": 0, "progress": False}
        with pytest.raises(InputError, match="cost money"):
            client.backtest(world, model.model(), **options)
        direct = bh.ModelOptions(mode="direct_llm")
        with pytest.raises(Stopped):
            client.backtest(world, model.model(), models=direct, max_calls=3, run_id="far_stop", **options)  # fmt: skip
        run = client.open_run("far_stop")
        assert run.status == "stopped"
        with pytest.raises(NotFound, match="no scores"):
            _ = run.summary
        client.post("/api/runs/far_stop/resume", {"max_calls": 10_000})
        run.wait(progress=False)
        assert run.status == "success"
        assert run.summary["leaderboard"]
        assert run.log()[-1]["what"] == "run ended"
        assert len(model.log) == len(run.calls)


def test_errors_say_what_the_server_says(serving: Api, made: Path) -> None:
    with bh.Client(serving.url) as client:
        with pytest.raises(NotFound, match="walk"):
            client.open_run("wlk")
        with pytest.raises(NotFound, match="sim"):
            client.open_world("sin")
        with pytest.raises(InputError, match="callable of this machine"):
            client.backtest(client.open_world(), lambda context: 0.5)
        with pytest.raises(InputError, match="not an interval"):
            client.backtest(client.open_world(), "market", every="x", progress=False)
        with pytest.raises(InputError, match="not a world of the server"):
            client.backtest(bh.open_world(made / "data" / "sim"), "market")  # type: ignore[arg-type]
        with pytest.raises(AttributeError, match="no tool"):
            client.toolbox(client.open_world()).nothing()
    with pytest.raises(InputError, match="not the address"):
        bh.Client("localhost:1")
    with bh.Client("http://127.0.0.1:9", timeout=2) as gone, pytest.raises(Unavailable, match="is it running"):  # fmt: skip
        gone.runs()
    with api(made, "--archive", "data/sim", "--auth", "token") as guarded:
        with bh.Client(guarded.url) as stranger, pytest.raises(Unauthorized, match="bearer token"):
            stranger.runs()
        reader = token(made, "--user", "eve", "--scopes", "read")
        with bh.Client(guarded.url, reader) as client:
            assert client.open_run("walk").forecasters
            with pytest.raises(Unauthorized, match="--scopes read,start"):
                client.backtest(client.open_world("sim"), "market", progress=False)
        pinned = token(made, "--user", "fay", "--as-of", "2025-02-03")
        with bh.Client(guarded.url, pinned) as client:
            world = client.open_world("sim")
            seen = world.market(world.markets[0])
            assert seen["t"] == "2025-02-03T00:00:00Z"
            assert client.toolbox(world).list_markets(limit=2)["markets"]
            with pytest.raises(Refused, match="as of 2025-02-03"):
                client.runs()
            with pytest.raises(CutoffViolation):
                client.get("/api/archives/sim/markets", t="2025-02-04")
