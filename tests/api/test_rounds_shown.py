"""Rounds over HTTP and on the command line: what was frozen, sealed and resolved, and what was
changed since."""

import json
import shutil
from pathlib import Path
from typing import Any

from apiserver import api
from serving import command
from test_refused import refused

NAME = "2025-04-07"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_round_is_shown_as_it_is(made: Path, tmp_path: Path) -> None:
    home = tmp_path / "copy"
    shutil.copytree(made, home)
    folder = home / "data" / "rounds" / NAME
    events, ends = lines(folder / "events.jsonl"), lines(folder / "resolutions.jsonl")
    sealed = lines(home / "data" / "rounds" / "sealed.jsonl")
    with api(home, "--archive", "data/sim") as found:
        (row,) = found.json("/api/rounds")["items"]
        assert row["name"] == NAME
        assert row["events"] == len(events)
        assert row["sealed"] == len(sealed) == 3 * len(events)
        assert row["predictors"] == ["drift", "extremised", "market"]
        assert 5 < row["resolved"] == len({e["id"] for e in events} & {r["id"] for r in ends})
        assert (row["changed"], row["problem"]) == (False, None)
        log = found.json("/api/rounds/log")
        assert log == {"lines": len(sealed), "head": sealed[-1]["digest"], "problems": []}
        shown, cursor = list[dict[str, Any]](), None
        while True:
            page = found.json(
                f"/api/rounds/{NAME}/events", limit=20, **({"cursor": cursor} if cursor else {})
            )
            shown, cursor = shown + page["items"], page["next"]
            if cursor is None:
                break
        assert {e["id"] for e in shown} == {e["id"] for e in events}
        said = {(s["id"], s["predictor"]): s["probability"] for s in sealed}
        paid = {r["id"]: r.get("payout", r["outcome"]) for r in ends}
        for event in shown:
            assert event["outcome"] == paid.get(event["id"])
            for one in event["forecasts"]:
                assert one["probability"] == said[event["id"], one["predictor"]]
        refused(found.get("/api/rounds/nope/events"), 404, "there is no round 'nope'")
        refused(found.get("/api/rounds/..%2f..%2fruns/events"), 404)
        (folder / "events.jsonl").write_text(
            (folder / "events.jsonl").read_text().replace("Will", "Would", 1)
        )
        assert found.json("/api/rounds")["items"][0]["changed"]
        forged = (
            (home / "data" / "rounds" / "sealed.jsonl").read_text().replace('"drift"', '"other"', 1)
        )
        (home / "data" / "rounds" / "sealed.jsonl").write_text(forged)
        assert "was changed" in found.json("/api/rounds/log")["problems"][0]
        (folder / "round.json").write_text("[1]")
        assert "cannot be read" in found.json("/api/rounds")["items"][0]["problem"]
    done = command(home, "bench", "rounds")
    assert done.returncode == 1
    assert "NOT AS SEALED" in done.stdout


def test_on_the_command_line(made: Path) -> None:
    done = command(made, "bench", "rounds")
    assert done.returncode == 0, done.stderr
    assert NAME in done.stdout
    assert "drift, extremised, market" in done.stdout
    told = json.loads(command(made, "bench", "rounds", "--json").stdout)
    assert told["log"]["problems"] == []
