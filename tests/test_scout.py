"""Scout runs: DAGs that end in four artifacts, runs that are killed at every node, artifacts that are
made again, and nothing of the future in any byte."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import SystemClock, parse_instant
from beforehand.gateway.opening import read_threads, write_threads
from beforehand.jobs.probe.redraw import OtherFuture, all_records
from beforehand.runs.scouted import faults
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.store.files import file_digest
from beforehand.store.run_folder import RunFolder
from experiments import Out, told
from program import run_program
from proofs import some
from scouting import (
    AT,
    EIGHT,
    FILES,
    artifacts,
    cache,
    plan,
    sent,
    thread,
    write_cache,
    written,
)
from test_ask import KILLED
from toolcalls import vendor_of_shapes
from vendor import serving

__all__ = ["cache"]


def test_the_documents_own_dag(cache: Path, capsys: Out) -> None:
    """Its four artifacts, under the plan's own run id; every document by path, known by then."""
    file = written(cache / "p.json", plan(["rain", "snow"]))
    found = told(capsys, "scout", "run", file, "--as-of", AT)
    folder = cache / "data" / "runs" / "20260105_120000"
    made = {name: json.loads((folder / name).read_text()) for name in FILES}
    assert made["plan.json"]["schema"] == "scout_plan_v1"
    assert made["plan.json"]["dag"]["nodes"][1]["code"] == "collect()", "kept, and never run"
    index = made["reddit_index.json"]
    assert {one["id"] for one in index["threads"]} == {"t0", "t1", "t8"}
    assert [call["value"] for call in index["calls"]] == ["rain", "snow"]
    both = next(one for one in index["threads"] if one["id"] == "t8")
    assert both["found_by"] == ["rain", "snow"]
    assert all("selftext" not in one and "text" not in one for one in index["threads"])
    for one in index["threads"]:
        kept = json.loads((cache / one["path"]).read_text())
        assert kept["id"] == one["id"]
        assert one["known_at"] <= AT
        assert all(comment["known_at"] <= AT for comment in kept["comments"])
    assert made["scout_think.json"]["found_by"] == {"rain": 2, "snow": 2}
    output = made["scout_output.json"]
    ids = {one["id"] for one in output["evidence"]}
    assert {name for one in output["sentences"] for name in one["documents"]} <= ids
    assert found["artifacts"]["act"] == output
    for one in output["evidence"]:
        assert one["quote"] in (cache / one["path"]).read_text()
    checks = told(capsys, "runs", "verify", "20260105_120000")
    assert checks["sound"]
    assert cli(["scout", "show", "latest"]) == 0
    out = capsys.readouterr().out
    assert (
        "collect: reddit_search_and_fetch_threads × 2 by keyword → reddit_index.json, made" in out
    )


def test_a_fan_out_over_eight(cache: Path, capsys: Out) -> None:
    """Each keyword by itself, whatever the concurrency; run again, no tool is called again."""
    file = written(cache / "p.json", plan(EIGHT))
    told(capsys, "scout", "run", file, "--as-of", AT, "--run-id", "a", "--concurrency", "4")
    told(capsys, "scout", "run", file, "--as-of", AT, "--run-id", "b", "--concurrency", "1")
    index = json.loads(artifacts(cache, "a")["reddit_index.json"])
    assert [call["value"] for call in index["calls"]] == EIGHT
    assert len(index["threads"]) == 9
    one, other = (
        {
            n: c.replace(b'"b"', b'"a"').replace(b"runs/b/", b"runs/a/").replace(b"run b", b"run a")
            for n, c in made.items()
        }
        for made in (artifacts(cache, "a"), artifacts(cache, "b"))
    )
    digests = (b'"digest"', b'"path"')  # Digests cover the paths, which name the run.
    for name in one:
        lines = [
            [line for line in made[name].splitlines() if not any(d in line for d in digests)]
            for made in (one, other)
        ]
        assert lines[0] == lines[1], name
    calls = sent(cache, "a")
    assert len(calls) == 8
    before = artifacts(cache, "a")
    told(capsys, "scout", "run", file, "--as-of", AT, "--run-id", "a", "--concurrency", "4")
    assert artifacts(cache, "a") == before
    assert sent(cache, "a") == calls


def test_any_tool_is_a_node(sim: Path, home: Path, capsys: Out) -> None:
    """Markets and documents of the archive, under a pin, with a branch's value in a parameter."""
    made = plan(["Avaria", "Jorvia"])
    think, act = made["dag"]["nodes"][2:]
    nodes = [
        made["dag"]["nodes"][0],
        {"id": "markets", "type": "tool", "tool": "search_all_markets", "deps": ["plan"],
         "params": {"query": "{keyword} index", "limit": 5}, "parallelize_by": "keyword",
         "code": "raise SystemExit(9)"},
        {"id": "papers", "type": "tool", "tool": "search", "deps": ["plan"],
         "inputs": {"plan": "plan.json", "query": "Jorvia reservoir"}},
        {"id": "one", "type": "tool", "tool": "get_market", "deps": ["markets"],
         "params": {"id": ["m0026", "m0003"]}, "parallelize_by": "id"},
        {**think, "deps": ["markets", "papers", "one"]},
        act,
    ]  # fmt: skip
    made["dag"]["nodes"] = nodes
    at = "2025-02-20T00:00:00Z"
    found = told(
        capsys, "scout", "run", written(home / "p.json", made), "--as-of", at,
        "--archive", str(sim),
    )  # fmt: skip
    assert found["artifacts"]["think"]["documents"] > 0
    folder = home / "data" / "runs" / "20260105_120000"
    markets = json.loads((folder / "markets.json").read_text())
    assert [call["arguments"]["query"] for call in markets["calls"]] == [
        "Avaria index", "Jorvia index",
    ]  # fmt: skip
    for one in found["artifacts"]["act"]["evidence"]:
        assert one["known_at"] <= at
        assert (home / one["path"]).is_file()
    assert told(capsys, "runs", "verify", "latest")["sound"]


def test_nothing_is_written_through_a_link(cache: Path, capsys: Out, tmp_path: Path) -> None:
    file = written(cache / "p.json", plan(["rain"]))
    aside = tmp_path / "aside"
    aside.mkdir()
    (cache / "data" / "runs").mkdir(parents=True)
    (cache / "data" / "runs" / "r").symlink_to(aside)
    assert cli(["scout", "run", file, "--as-of", AT, "--run-id", "r"]) == 2
    assert cli(["scout", "run", file, "--as-of", AT, "--run-id", "s"]) == 0
    shutil.rmtree(cache / "data" / "runs" / "s" / "collected")
    (cache / "data" / "runs" / "s" / "collected").symlink_to(aside)
    capsys.readouterr()
    assert cli(["scout", "resume", "s"]) == 2
    assert "is a link" in capsys.readouterr().err
    assert not list(aside.iterdir())


DAMAGE = (*FILES, "steps.json", "collected/collect/t0.json")


def test_a_resume_leaves_the_plan_as_it_is(
    cache: Path, capsys: Out, caplog: pytest.LogCaptureFixture
) -> None:
    """The file is not written again; a changed one is put back, and that is said."""
    file = written(cache / "p.json", plan(["rain"]))
    told(capsys, "scout", "run", file, "--as-of", AT, "--run-id", "r")
    folder = cache / "data" / "runs" / "r"
    (folder / DAMAGE[-1]).unlink()
    path = folder / "plan.json"
    before = path.stat().st_ino, path.stat().st_mtime_ns
    assert cli(["scout", "resume", "r"]) == 0
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == before
    assert "plan.json" not in caplog.text
    path.write_bytes(path.read_bytes().replace(b"rain", b"snow"))
    (folder / DAMAGE[-1]).unlink()
    assert cli(["scout", "resume", "r"]) == 0
    assert "plan.json is not the plan that the run began with" in caplog.text
    assert b"rain" in path.read_bytes()


@pytest.mark.parametrize("how", ["deleted", "truncated", "edited", "linked"])
def test_what_was_changed_is_made_again(cache: Path, capsys: Out, how: str) -> None:
    """With what depends on it, and no tool is called again."""
    file = written(cache / "p.json", plan(["rain", "snow"]))
    told(capsys, "scout", "run", file, "--as-of", AT, "--run-id", "r")
    folder, before = cache / "data" / "runs" / "r", artifacts(cache, "r")
    calls = sent(cache, "r")
    for name in DAMAGE:
        path = folder / name
        whole = path.read_bytes()
        if how in ("deleted", "linked"):
            path.unlink()
        elif how == "truncated":
            path.write_bytes(whole[: len(whole) // 2])
        else:
            path.write_bytes(whole.replace(b"a", b"b"))
        if how == "linked":
            (cache / "copy").write_bytes(whole)
            path.symlink_to(cache / "copy")
        if how != "linked":
            assert cli(["runs", "verify", "r"]) == 1, name
        assert cli(["scout", "resume", "r"]) == 0, name
        capsys.readouterr()
        assert artifacts(cache, "r") == before, name
        assert not path.is_symlink()
        assert told(capsys, "runs", "verify", "r")["sound"], name
    assert sent(cache, "r") == calls
    assert cli(["scout", "resume", "r"]) == 2
    assert "is finished" in capsys.readouterr().err


def test_killed_at_every_node_and_resumed(tmp_path: Path) -> None:
    """Before a step is on record and after it: the same bytes, and each tool called once."""
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    file = written(tmp_path / "p.json", plan(["rain", "snow", "hail"]))
    arguments = ["scout", "run", file, "--as-of", AT, "--run-id", "r", "--concurrency", "1"]

    def call(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "BEFOREHAND_HOME": str(root)}
        return run_program(command, env=environment, capture_output=True, text=True, check=False)

    whole = tmp_path / "whole"
    write_cache(whole)
    program = (sys.executable, "-m", "beforehand")
    assert call(whole, *program, *arguments).returncode == 0
    wanted = artifacts(whole, "r")
    assert set(FILES) <= wanted.keys()
    shown = json.loads(call(whole, *program, "runs", "show", "r", "--json").stdout)
    places = [(step, when) for step in range(1, shown["total"] + 1) for when in ("before", "after")]
    for step, when in some("kills of a scout run, before and after each step", places[4:5], places):
        root = tmp_path / f"{step}-{when}"
        write_cache(root)
        done = call(root, sys.executable, str(script), str(step), when, *arguments)
        assert done.returncode == 9, (step, when, done.stderr)
        for stored in (root / "data" / "reddit_cache" / "threads").glob("*.json"):
            if (step, when) == places[-1]:
                stored.unlink()  # Everything is on record: nothing is read again.
        resumed = call(root, *program, "scout", "resume", "r")
        assert resumed.returncode == 0, (step, when, resumed.stderr)
        assert artifacts(root, "r") == wanted, (step, when)
        assert [n for _, n in sent(root, "r")] == [1, 1, 1], (step, when)


def test_nothing_of_the_future_in_any_byte(sim: Path, tmp_path: Path) -> None:
    """Two worlds that differ after T alone: byte-identical artifacts."""
    at = "2025-02-20T00:00:00Z"
    kept, said = all_records(Archive(sim)), []
    other = OtherFuture(kept, parse_instant(at))
    everything = (record for records in kept.values() for record in records)
    made = plan(["Avaria", "Jorvia"], tool="search_all_markets", params={"query": "{keyword}"})
    made["dag"]["nodes"].insert(
        2, {"id": "papers", "type": "tool", "tool": "search", "params": {"query": "reservoir"}}
    )
    made["dag"]["nodes"][3]["deps"].append("papers")
    for name, records in (("a", everything), ("b", other.records())):
        root = tmp_path / name
        ArchiveWriter(root / "world").add(
            records, importer="t", source="t", source_digest="t", recorded_at=SystemClock().now()
        )
        environment = {**os.environ, "BEFOREHAND_HOME": str(root)}
        for run, model in (("r", []), ("m", ["--model", "scripted", "--concurrency", "1"])):
            command = ["scout", "run", written(root / "p.json", made), "--as-of", at, *model]
            command += ["--archive", str(root / "world"), "--run-id", run]
            run_program(
                [sys.executable, "-m", "beforehand", *command], env=environment, check=True,
                capture_output=True,
            )  # fmt: skip
        said.append(
            {**artifacts(root, "r"), **{f"m/{n}": c for n, c in artifacts(root, "m").items()}}
        )
    assert other.changes, "the worlds do differ"
    assert len(said[0]) == 20
    assert said[0] == said[1]


def test_the_page_of_a_run(cache: Path, capsys: Out) -> None:
    """It needs nothing from outside, and what people wrote is text in it."""
    folder = cache / "data" / "reddit_cache" / "threads"
    made = thread("t9", "rain <script>alert(1)</script>", 1)
    (folder / "t9.json").write_text(json.dumps(made))
    told(capsys, "scout", "run", written(cache / "p.json", plan(["rain"])), "--as-of", AT)
    page = (cache / "data/runs/20260105_120000/report.html").read_text()
    assert "<svg" in page
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "src=" not in page


def test_exported(cache: Path, capsys: Out, tmp_path: Path) -> None:
    """Documents as `world import documents` reads them, and one trace."""
    told(capsys, "scout", "run", written(cache / "p.json", plan(EIGHT)), "--as-of", AT)
    out = tmp_path / "documents.jsonl"
    found = told(capsys, "runs", "export", "latest", "--format", "jsonl", "--out", str(out))
    assert (found["rows"], found["what"]) == (9, "documents")
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert all(row["captured_at"] <= AT and row["text"] for row in rows)
    archive = tmp_path / "world"
    assert cli(["world", "import", "documents", str(out), "--archive", str(archive)]) == 0
    capsys.readouterr()
    (hit,) = told(
        capsys, "tool", "search", "--arg", "query=hail", "--archive", str(archive), "--as-of", AT
    )["results"]
    assert hit["id"] == "reddit:t2"
    assert hit["timestamp"] == next(r for r in rows if r["id"] == hit["id"])["captured_at"]
    out = tmp_path / "trace.json"
    told(capsys, "runs", "export", "latest", "--format", "galileo", "--out", str(out))
    (trace,) = json.loads(out.read_text())["traces"]
    assert [len(span["spans"]) for span in trace["spans"]] == [0, 8, 0, 0]


def test_artifacts_are_checked_against_their_files(cache: Path, capsys: Out) -> None:
    """Beside the digests: a run that sealed something untrue is not sound."""
    told(capsys, "scout", "run", written(cache / "p.json", plan(["rain"])), "--as-of", AT)
    folder = RunFolder(cache / "data" / "runs", "20260105_120000")
    assert faults(folder) == (2, [])
    for name, old, new, said in (
        ("scout_output.json", "About rain tomorrow.", "About snow.", "is not in its text"),
        ("reddit_index.json", '"known_at": "2025-06', '"known_at": "2026-06', "was known at 2026"),
        ("reddit_index.json", '"path": "data/', '"path": "../data/', "lies outside of the run"),
        ("scout_output.json", '"documents": [\n        "t0"', '"documents": [\n        "t7"', "t7"),
        ("scout_output.json", '"sentences"', '"phrases"', "cannot be read"),
    ):
        path = folder.path / name
        whole = path.read_text()
        assert old in whole, old
        path.write_text(whole.replace(old, new))
        _, wrong = faults(folder)
        assert any(said in text for text in wrong), (said, wrong)
        path.write_text(whole)


def test_what_was_changed_is_not_shown_as_the_runs(cache: Path, capsys: Out) -> None:
    told(capsys, "scout", "run", written(cache / "p.json", plan(["rain"])), "--as-of", AT)
    folder = cache / "data" / "runs" / "20260105_120000"
    output, seal = folder / "scout_output.json", folder / "run.json"
    before, old = output.read_bytes(), file_digest(output)
    output.write_text("[]")
    for command in (("scout", "show"), ("runs", "show"), ("runs", "export")):
        assert cli([*command, "20260105_120000"]) == 2, command
        assert "scout_output.json was changed or removed after" in capsys.readouterr().err
    seal.write_text(seal.read_text().replace(old, file_digest(output)))  # The seal made to agree.
    assert cli(["runs", "verify", "20260105_120000"]) == 1
    assert cli(["scout", "resume", "20260105_120000"]) == 0
    capsys.readouterr()
    assert output.read_bytes() == before
    assert told(capsys, "runs", "verify", "20260105_120000")["sound"]
    (cache / "mine.json").write_text("{}")
    assert cli(["scout", "plan", "rain", "--out", str(cache / "mine.json")]) == 2
    assert cli(["scout", "run", "nowhere/p"]) == 2


def test_a_stored_thread_has_its_digest(cache: Path, capsys: Out) -> None:
    folder = cache / "data" / "reddit_cache" / "threads"
    records = list(read_threads(folder, parse_instant(AT)))
    assert write_threads(folder, records) == 9
    file = folder / "t0.json"
    assert json.loads(file.read_text())["digest"]
    assert len([r for r in read_threads(folder, parse_instant(AT)) if r.kind == "post"]) == 9
    file.write_text(file.read_text().replace("rain tomorrow", "snow tomorrow"))
    assert len([r for r in read_threads(folder, parse_instant(AT)) if r.kind == "post"]) == 8


def test_over_recorded_threads(data: Path, home: Path, capsys: Out) -> None:
    """Real listings and comments, from a file, by rules and by `scripted`."""
    for file in sorted((data / "reddit").glob("*.json")):
        when = json.loads(file.read_text())["recorded_at"] + "Z"
        assert cli(["world", "import", "reddit", str(file), "--fetched-at", when]) == 0
    capsys.readouterr()
    words = ["help", "people", "friends", "girlfriend", "school", "christmas", "money", "food"]
    made = plan(words, tool="reddit_search_and_fetch_threads")
    file = Path(written(home / "p.json", made))
    at = "2016-08-01T00:00:00Z"
    found = told(capsys, "scout", "run", str(file), "--as-of", at, "--run-id", "f")
    index = json.loads((home / "data/runs/f/reddit_index.json").read_text())
    assert len(index["calls"]) == 8
    assert sum(call["rows"] for call in index["calls"]) >= len(index["threads"]) > 20
    assert all(one["known_at"] <= at for one in index["threads"])
    assert found["artifacts"]["act"]["evidence"]
    for run, more in (("rules", ()), ("scripted", ("--model", "scripted"))):
        asked = ("scout", "run", "Will people help their friends?", "--window", "all", *more)
        found = told(capsys, *asked, "--as-of", at, "--run-id", run)
        assert found["artifacts"]["act"]["evidence"], run
        assert told(capsys, "runs", "verify", run)["sound"]
    early = told(
        capsys, "scout", "run", str(file), "--as-of", "2006-01-01T00:00:00Z", "--run-id", "e"
    )
    assert early["artifacts"]["act"]["evidence"] == []
    assert "Nothing was found" in early["artifacts"]["act"]["sentences"][0]["text"]


def test_live_threads_are_recorded_and_asked_for_once(tmp_path: Path) -> None:
    """Killed and resumed, no request to the vendor is repeated; what it showed is in the cache, each
    thread with its digest, and without credentials the cache answers."""
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    made = plan(["rain"], tool="reddit_api_search_and_fetch_threads")
    file = written(tmp_path / "p.json", made)
    program = [sys.executable, "-m", "beforehand"]
    with serving(vendor_of_shapes()) as vendor:
        environment = {**os.environ, **vendor.environment, "BEFOREHAND_HOME": str(tmp_path / "h")}

        def call(*command: str, env: dict[str, str] = environment) -> Any:
            return run_program(command, env=env, capture_output=True, text=True, check=False)

        live = ["scout", "run", file, "--mode", "record", "--run-id", "r", "--concurrency", "1"]
        died = call(sys.executable, str(script), "3", "before", *live)
        assert died.returncode == 9, died.stderr
        asked = vendor.counts()
        assert any("search" in path for path in asked), asked
        assert call(*program, "scout", "resume", "r").returncode == 0
        assert vendor.counts() == asked
        index = json.loads((tmp_path / "h/data/runs/r/reddit_index.json").read_text())
        assert index["threads"]
        assert index["world"] == "record"
        cached = list((tmp_path / "h/data/reddit_cache/threads").glob("*.json"))
        assert cached
        assert all(json.loads(one.read_text())["digest"] for one in cached)
        assert call(*program, "runs", "verify", "r").returncode == 0
        without = {k: v for k, v in environment.items() if not k.startswith("REDDIT_")}
        stored = plan(["rain"], tool="reddit_search_and_fetch_threads")
        again = call(
            *program, "scout", "run", written(tmp_path / "s.json", stored), "--run-id", "s",
            "--json", env=without,
        )  # fmt: skip
        assert again.returncode == 0, again.stderr
        assert vendor.counts() == asked
        api = call(
            *program, "scout", "run", file, "--mode", "live", "--run-id", "w", "--json", env=without
        )
        assert api.returncode == 0, api.stderr
        think = json.loads(api.stdout)["artifacts"]["think"]
        assert think["documents"]
        assert any(
            "stored threads: " in note and "REDDIT_CLIENT_ID" in note for note in think["notes"]
        )
        assert vendor.counts() == asked
