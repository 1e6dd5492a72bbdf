"""Every resource of the API, and that each figure is that of the command line."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import polars
import pytest
from apiserver import Api, pages, taken
from serving import HTTP, command

from beforehand.front.arrow import Table
from beforehand.serve.api.thinning import thinned

RUNS = ("walk", "scored", "asked", "benched")
T = "2025-02-03T00:00:00Z"


def shown(home: Path, *arguments: str) -> Any:
    done = command(home, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("run_id", RUNS)
def test_a_run_is_what_runs_show_says(serving: Api, run_id: str) -> None:
    """Every field that the command line gives, with the same value."""
    mine, theirs = serving.json(f"/api/runs/{run_id}"), shown(serving.home, "runs", "show", run_id)
    assert {**mine, **theirs} == mine
    assert set(mine) - set(theirs) - {"headline"} == {"archive", "card", "kept", "warnings"}
    assert mine["archive"] == "sim"
    assert (mine["headline"] is None) == (mine["scores"] is None)
    if mine["scores"] is not None:
        board = serving.json(f"/api/runs/{run_id}/leaderboard")["items"]
        rows = [{k: v for k, v in row.items() if k != "place"} for row in board]
        assert rows == theirs["scores"]["leaderboard"]
        assert len(rows) >= 2


def test_the_list_of_runs(serving: Api) -> None:
    theirs = {run["run_id"]: run for run in shown(serving.home, "runs", "list")["runs"]}
    mine = serving.json("/api/runs")["items"]
    names = {run["run_id"] for run in mine}
    twin = {name for name in names if "twin" in name}
    assert len(twin) == 2, "the backtest, and its forecasters live"
    assert names - twin == set(RUNS)
    assert names <= set(theirs)
    for run in mine:
        held = theirs[run["run_id"]]
        assert {k: v for k, v in run.items() if k in held} == {k: held[k] for k in run if k in held}
    assert [run["created_at"] for run in mine] == sorted(
        (r["created_at"] for r in mine), reverse=True
    )
    assert [r["run_id"] for r in serving.json("/api/runs", kind="ask")["items"]] == ["asked"]
    assert serving.json("/api/runs", status="failed")["items"] == []
    by_name = [r["run_id"] for r in pages(serving, "/api/runs", 1, sort="run_id", descending=False)]
    assert [name for name in by_name if "twin" not in name] == sorted(RUNS)


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        ("/api/runs/walk/forecasts", 97),
        ("/api/runs/walk/forecasts", 7),
        ("/api/runs/walk/intervals", 10),
        ("/api/runs/walk/evidence", 13),
        ("/api/runs/walk/failures", 5),
        ("/api/runs/walk/calls", 31),
        ("/api/runs/walk/costs", 1),
        ("/api/runs/walk/traces", 17),
        ("/api/runs/walk/steps", 3),
        ("/api/runs/walk/files", 2),
        ("/api/runs/walk/log", 11),
        ("/api/runs/scored/forecasts", 50),
        ("/api/runs/scored/rejected", 1),
        ("/api/runs/walk/leaderboard", 2),
        ("/api/archives/sim/markets", 40),
        ("/api/archives/sim/events", 30),
        ("/api/archives/sim/documents", 100),
        ("/api/tools", 9),
        ("/api/agents", 3),
        ("/api/forecasters", 2),
        ("/api/bus", 1),
        ("/api/bus/documents-agent", 1),
    ],
)
def test_pages_together_are_the_whole_list(serving: Api, path: str, limit: int) -> None:
    whole = pages(serving, path, 1000)
    assert pages(serving, path, limit) == whole
    assert len(whole) >= 1 or "failures" in path


@pytest.mark.parametrize("name", ["forecasts", "intervals", "evidence", "failures", "calls"])
def test_tables_as_json_csv_and_arrow(serving: Api, name: str) -> None:
    """The same rows in three forms, by the Accept header or by `format`."""
    path = f"/api/runs/walk/{name}"
    rows = pages(serving, path, 500)
    for how in ({"format": "csv"}, None):
        headers = {} if how else {"Accept": "text/csv"}
        answer = HTTP.get(serving.url + path, params=how, headers=headers)
        assert answer.headers["content-type"].startswith("text/csv")
        found = list(csv.DictReader(io.StringIO(answer.text)))
        assert len(found) == len(rows)
        for mine, theirs in zip(found, rows, strict=True):
            assert {k: "" if v is None else str(v) for k, v in theirs.items()} == mine
    answer = serving.get(path, format="arrow")
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    frame = polars.read_ipc_stream(answer.content)
    assert frame.height == len(rows)
    again = Table.from_ipc(answer.content)
    assert again.columns == (list(rows[0]) if rows else again.columns)


def test_a_table_is_the_one_of_the_command_line(serving: Api) -> None:
    done = command(serving.home, "runs", "export", "walk", "--format", "csv", "--out", "again.csv")
    assert done.returncode == 0, done.stderr
    theirs = list(csv.DictReader(io.StringIO((serving.home / "again.csv").read_text())))
    mine = pages(serving, "/api/runs/walk/forecasts", 1000)
    said = [row for row in theirs if row["probability"]]
    assert len(mine) == len(said) > 300
    key = [(r["market_id"], r["probability"]) for r in mine]
    assert sorted(key) == sorted((r["market_id"], float(r["probability"])) for r in said)
    board = serving.get("/api/runs/walk/leaderboard", format="csv").text
    kept = (serving.home / "data" / "runs" / "walk" / "leaderboard.csv").read_text()
    assert [r["forecaster"] for r in csv.DictReader(io.StringIO(board))] == [
        r["forecaster"] for r in csv.DictReader(io.StringIO(kept))
    ]


def test_filters(serving: Api) -> None:
    every = pages(serving, "/api/runs/walk/forecasts", 1000)
    market, time = every[-1]["market_id"], every[len(every) // 2]["time"]
    for params, fits in (
        ({"market_id": market}, lambda r: r["market_id"] == market),
        ({"forecaster": "drift"}, lambda r: r["forecaster"] == "drift"),
        ({"since": time}, lambda r: r["time"] >= time),
        ({"until": time, "forecaster": "market"}, lambda r: r["time"] <= time and r["forecaster"] == "market"),
    ):  # fmt: skip
        found = pages(serving, "/api/runs/walk/forecasts", 23, **params)
        assert found == [row for row in every if fits(row)], params
        assert found
    whole = serving.json("/api/runs/walk/interval", market_id=market, time=every[-1]["time"])
    said = {d["model_id"]: d["probability"] for row in whole["rows"] for d in row["decisions"]}
    assert said["baseline:market"] == next(
        r["probability"] for r in every if r["market_id"] == market and r["time"] == every[-1]["time"] and r["forecaster"] == "market"
    )  # fmt: skip


def test_calibration(serving: Api) -> None:
    """The bins are those of the leaderboard; intervals hold their rate; a bin opens its questions;
    the command line says the same."""
    board = {r["forecaster"]: r for r in serving.json("/api/runs/walk/leaderboard")["items"]}
    for name in ("market", "scripted"):
        found = serving.json("/api/runs/walk/calibration", forecaster=name)
        row = board[name]
        assert (found["n"], found["n_questions"]) == (row["n"], row["n_questions"])
        assert found["ece"] == pytest.approx(row["ece"])
        assert found["murphy"] == pytest.approx(row["murphy"])
        bins = row["reliability_bins"]
        for k, one in enumerate(found["bins"]):
            assert one["weight"] == pytest.approx(bins["weight"][k])
            assert one["forecast"] == pytest.approx(bins["forecast"][k])
            assert one["outcome"] == pytest.approx(bins["outcome"][k])
            questions = pages(
                serving, "/api/runs/walk/calibration/questions", 60, forecaster=name, bin=k
            )
            assert len(questions) == one["n"]
            assert sum(q["weight"] for q in questions) == pytest.approx(one["weight"])
            assert all(one["low"] <= q["probability"] <= one["high"] for q in questions)
            if one["ci"][0] is not None:
                assert one["ci"][0] <= one["outcome"] + 1e-9
                assert one["outcome"] <= one["ci"][1] + 1e-9
        theirs = shown(serving.home, "runs", "calibration", "walk", "--forecaster", name)
        assert theirs == found
    mine = serving.json("/api/runs/scored/calibration")
    held = serving.json("/api/runs/scored/leaderboard")["items"]
    assert mine["n"] == next(r["n"] for r in held if r["forecaster"] == mine["forecaster"]) > 100
    odd = serving.get("/api/runs/walk/calibration", forecaster="nobody")
    assert odd.status_code == 422
    assert "scripted" in odd.json()["detail"]


def test_comparisons_and_diff(serving: Api) -> None:
    mine = serving.json("/api/comparisons", a="walk:drift", b="walk:market", draws=500)
    assert mine == shown(
        serving.home, "runs", "compare", "walk:drift", "walk:market", "--draws", "500"
    )
    assert serving.json("/api/runs/walk/diff", other="benched") == shown(
        serving.home, "runs", "diff", "walk", "benched"
    )


def test_verify_files_and_config(serving: Api) -> None:
    assert serving.json("/api/runs/walk/verify") == shown(serving.home, "runs", "verify", "walk")
    rows = {row["name"]: row for row in serving.json("/api/runs/walk/files")["items"]}
    assert rows["scores.json"]["sealed"]
    folder = serving.home / "data" / "runs" / "walk"
    for name in rows:
        answer = serving.get(f"/api/runs/walk/files/{name}")
        assert answer.content == (folder / name).read_bytes(), name
    report = serving.get("/api/runs/walk/files/report.html")
    assert "sandbox" in report.headers["content-security-policy"]
    config = serving.json("/api/runs/walk/config")["config"]
    assert config == json.loads((folder / "config.json").read_text())
    assert serving.get("/api/runs/asked/config").status_code == 404


def test_a_market_at_t_is_what_a_forecaster_was_shown(serving: Api) -> None:
    """The context of each of a run's intervals, as the archive gives it at that instant."""
    rows = pages(serving, "/api/runs/walk/intervals", 1000)
    checked = 0
    for row in rows[:: max(1, len(rows) // 25)]:
        shown_then = serving.json(
            "/api/runs/walk/interval", market_id=row["market_id"], time=row["time"]
        )["rows"][0]["context"]
        found = serving.json(f"/api/archives/sim/markets/{row['market_id']}", t=row["time"])
        mine = found["context"]
        assert mine["market"] == shown_then["market"]
        assert mine["search_snippets"] == shown_then["search_snippets"]
        assert all(one["known_at"] <= row["time"] for one in found["provenance"])
        assert {"market", "price"} <= {one["kind"] for one in found["provenance"]}
        assert all(len(one["digest"]) == 64 and one["source"] for one in found["provenance"])
        for snippet in mine["search_snippets"]:
            held = serving.json(f"/api/archives/sim/documents/{snippet['id']}", t=row["time"])
            assert held["document"]["known_at"] == snippet["timestamp"]
        checked += 1
    assert checked >= 20


def test_markets_events_and_documents(serving: Api) -> None:
    early = pages(serving, "/api/archives/sim/markets", 100, t=T)
    late = pages(serving, "/api/archives/sim/markets", 100)
    assert 0 < len(early) < len(late)
    assert all(row["known_at"] <= T and row["status"] == "open" for row in early[:3])
    assert all((row["payout"] is not None) <= (row["status"] == "ended") for row in late)
    by_price = pages(serving, "/api/archives/sim/markets", 33, t=T, sort="price", descending=True)
    prices = [row["price"] for row in by_price if row["price"] is not None]
    assert prices == sorted(prices, reverse=True)
    assert sorted(r["id"] for r in by_price) == [r["id"] for r in early]
    ended = serving.json("/api/archives/sim/markets", status="ended", limit=1000)["items"]
    assert {r["id"] for r in ended} == {r["id"] for r in late if r["status"] == "ended"}
    words = next(row["question"] for row in early if row["question"])
    found = serving.json("/api/archives/sim/markets", q=words, t=T)["items"]
    assert found[0]["question"] == words
    event = serving.json("/api/archives/sim/events", limit=1)["items"][0]
    whole = serving.json(f"/api/archives/sim/events/{event['id']}")
    assert whole["event"] == event
    assert whole["markets"]
    documents = pages(serving, "/api/archives/sim/documents", 37, t=T)
    stamps = [(d["known_at"], d["id"]) for d in documents]
    assert stamps == sorted(stamps, reverse=True)
    assert len({d["id"] for d in documents}) == len(documents) > 100
    assert serving.json("/api/archives/sim/documents", q="timber", t=T, limit=3)["items"]
    about = serving.json("/api/archives/sim")
    assert about["kind"] == "simulated"
    assert about["markets"] > 50


def test_series_keep_what_matters(serving: Api) -> None:
    market = serving.json("/api/runs/walk/intervals", limit=1)["items"][0]["market_id"]
    whole = serving.json(f"/api/archives/sim/series/{market}", points=100_000)
    assert whole["method"] is None
    assert whole["n"] == len(whole["price"]) > 12
    mark = whole["observed_at"][5]
    stamp = np.datetime64(mark, "us").item().isoformat() + "Z"
    few = serving.json(f"/api/archives/sim/series/{market}", points=10, keep=stamp)
    assert few["method"] == "lttb"
    assert few["n"] == whole["n"]
    assert few["observed_at"][0] == whole["observed_at"][0]
    assert few["observed_at"][-1] == whole["observed_at"][-1]
    assert mark in few["observed_at"]
    points = set(zip(whole["observed_at"], whole["price"], strict=True))
    assert set(zip(few["observed_at"], few["price"], strict=True)) <= points
    table = serving.get(f"/api/archives/sim/series/{market}", format="csv")
    assert len(list(csv.DictReader(io.StringIO(table.text)))) == whole["n"]
    long = np.arange(10_000, dtype=np.int64)
    kept = thinned(long, np.sin(long / 50.0), 500, [1234, 777, -5])
    assert {0, 9999, 1234, 777} <= set(kept.tolist())
    assert len(kept) <= 504


def test_etags_and_compression(serving: Api) -> None:
    first = serving.get("/api/runs/walk")
    assert first.headers["etag"]
    for path in (
        "/api/runs/walk",
        "/api/archives/sim/markets",
        "/api/runs/walk/forecasts",
        "/api/tools",
    ):
        one = serving.get(path)
        again = httpx2.get(serving.url + path, headers={"If-None-Match": one.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        other = httpx2.get(serving.url + path, headers={"If-None-Match": 'W/"no"'})
        assert other.status_code == 200
        plain = httpx2.get(serving.url + path, headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert one.headers.get("content-encoding") == "gzip"
        assert one.content == plain.content
        head = httpx2.head(serving.url + path)
        assert head.status_code in (200, 405)


def test_everything_else_answers(serving: Api) -> None:
    assert serving.json("/api/workspace")["default_archive"] == "sim"
    tools = serving.json("/api/tools", limit=1000)["items"]
    assert len(tools) == len(shown(serving.home, "tool", "list")["tools"]) > 40
    tool = serving.json("/api/tools/get_market")
    assert "id" in json.dumps(tool["arguments"])
    market = serving.json("/api/archives/sim/markets", limit=1)["items"][0]["id"]
    called = serving.post("/api/tools/get_market", {"id": market, "as_of": T})
    assert called.status_code == 200
    theirs = command(
        serving.home,
        "tool",
        "get_market",
        "--arg",
        f"id={market}",
        "--as-of",
        T,
        "--archive",
        "data/sim",
    )
    assert called.json()["market_id"] in theirs.stdout
    assert called.json()["_meta"]["as_of"] == T
    agents = serving.json("/api/agents")["items"]
    assert {"documents-agent", "consumer-agent"} <= {one["name"] for one in agents}
    files = serving.json("/api/bus/documents-agent")["items"]
    for one in files:
        held = serving.json(f"/api/bus/documents-agent/{one['folder']}/{one['name']}")
        place = (
            serving.home / "workspace" / "agents" / "documents-agent" / one["folder"] / one["name"]
        )
        assert {k: held[k] for k in json.loads(place.read_text())}.keys() == json.loads(
            place.read_text()
        ).keys()
    answer = serving.json("/api/runs/asked")["answer"]
    assert answer["citations"] or answer["not_found"]
    doctor = serving.json("/api/doctor")
    assert {c["name"] for c in doctor["checks"]} >= {"home", "tools", "numpy"}
    schemes = {one["scheme"] for one in serving.json("/api/forecasters")["items"]}
    assert {"market", "drift", "python", "http", "scripted", "openai"} <= schemes
    assert serving.json("/api/tokens")["items"] == []
    assert "<h1>" in serving.get("/api").text
    assert "<title>beforehand</title>" in serving.get("/").text


def test_reading_writes_nothing(serving: Api) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {
            str(p): (p.stat().st_mtime_ns, p.stat().st_size)
            for p in serving.home.rglob("*")
            if p.is_file() and p.suffix not in (".db-shm", ".db-wal") and "traffic" not in p.name
        }

    before = state()
    document = serving.json("/api/openapi.json")
    for path, operations in document["paths"].items():
        if "get" in operations and not path.endswith("/events"):
            filled = path.replace("{archive}", "sim").replace("{run_id}", "walk").replace("{agent}", "documents-agent")  # fmt: skip
            for name in ("{market_id}", "{event_id}", "{document_id}", "{name}"):
                filled = filled.replace(name, "scores.json")
            serving.get(filled, **taken(operations["get"], bin=1, a="walk:drift", b="walk:market", other="benched", market_id="m", time=T))  # fmt: skip
    assert state() == before


def test_the_card_is_the_terminals(serving: Api) -> None:
    """Label, value and bound of each fact as `runs show` prints them."""
    found = serving.json("/api/runs/walk")
    stated = found["scores"]["validity"]
    assert {row["name"] for row in found["card"]} == set(stated)
    for row in found["card"]:
        check = stated[row["name"]]
        assert (row["value"], row["bound"], row["ok"]) == (
            check["value"],
            check["bound"],
            check["ok"],
        )
        assert row["text"]
    shown = command(serving.home, "runs", "show", "walk", "--verbose").stdout
    for name in ("n_questions", "n_events", "n_forecasts"):
        row = next(row for row in found["card"] if row["name"] == name)
        assert f"{row['label']} {row['text']}" in " ".join(shown.split())
    assert any("memoryless" in text for text in found["kept"])


def test_questions_on_which_two_differ(serving: Api) -> None:
    """Their mean is the comparison's difference; pages, filters and the terminal agree."""
    pair = {"a": "walk:drift", "b": "walk:market"}
    every = pages(serving, "/api/comparisons/questions", 37, **pair)
    whole = serving.json("/api/comparisons", **pair)
    assert len(every) == whole["n_questions"]
    assert sum(row["n"] for row in every) == whole["n"]
    mean = sum(row["difference"] for row in every) / len(every)
    assert mean == pytest.approx(whole["difference"], abs=1e-12)
    assert [row["apart"] for row in every] == sorted((row["apart"] for row in every), reverse=True)
    for row in every[:5]:
        said = serving.json(
            "/api/runs/walk/forecasts", market_id=row["market_id"], forecaster="drift"
        )["items"]
        errors = [(one["probability"] - row["outcome"]) ** 2 for one in said]
        assert row["a"] == pytest.approx(sum(errors) / len(errors))
        assert row["forecast_a"] == said[-1]["probability"]
        with_prices = serving.json(
            "/api/comparisons/questions", **pair, prices=100, q=row["market_id"]
        )
        assert with_prices["items"][0]["prices"] == [one["market"] for one in said]
    first = serving.json("/api/comparisons/questions", **pair, outcome=1)
    assert first["total"] == first["outcomes"]["1"] == sum(row["outcome"] == 1 for row in every)
    assert sum(first["venues"].values()) == len(every)
    venue = next(iter(first["venues"]))
    assert (
        serving.json("/api/comparisons/questions", **pair, venue=venue)["total"]
        == first["venues"][venue]
    )
    shown = command(
        serving.home, "runs", "compare", pair["a"], pair["b"], "--questions", "3", "--json"
    )
    assert json.loads(shown.stdout)["questions"] == every[:3]
    csv = serving.get("/api/comparisons/questions", **pair, format="csv").text.splitlines()
    assert len(csv) == len(every) + 1


def test_one_decision_whole(serving: Api) -> None:
    one = serving.json("/api/runs/walk/traces", forecaster="scripted", limit=1)["items"][0]
    asked = {"market_id": one["market_id"], "time": one["time"], "forecaster": "scripted"}
    found = serving.json("/api/runs/walk/trace", **asked)
    assert found["traces"] == [one]
    assert found["prompts"][0]["arm"] == "code"
    assert one["market_id"] in found["prompts"][0]["text"]
    assert len(found["calls"]) == len(one["calls"]) == 1
    assert found["context"]["time"] == one["time"]
    assert all(s["timestamp"] <= one["time"] for s in found["context"]["search_snippets"])
    bare = serving.json("/api/runs/walk/trace", **{**asked, "forecaster": "drift"})
    assert bare["traces"] == bare["prompts"] == bare["calls"] == []
    assert (
        serving.get("/api/runs/walk/trace", **{**asked, "time": "2001-01-01T00:00:00Z"}).status_code
        == 404
    )


def test_versions_of_a_text(serving: Api) -> None:
    """Each version appears once it was known, and not before."""
    rows = serving.json("/api/archives/sim/markets", limit=1000)["items"]
    found = (serving.json(f"/api/archives/sim/markets/{row['id']}") for row in rows)
    whole = next(one for one in found if len(one["wordings"]) > 2)
    known = [version["known_at"] for version in whole["wordings"]]
    assert known == sorted(known)
    before = serving.json(f"/api/archives/sim/markets/{whole['market']['id']}", t=known[-2])
    assert [version["known_at"] for version in before["wordings"]] == [
        k for k in known if k <= known[-2]
    ]
