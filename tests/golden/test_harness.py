"""The golden harness itself: it goes red when one digit of one figure changes."""

import hashlib
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import harness

ACCEPTED = json.loads(harness.DIGESTS.read_text())


def test_the_accepted_files_are_those_of_the_digests() -> None:
    """At least fifteen commands over each kind of world, and each file that is kept is intact."""
    for world, least in (("simulated", 15), ("real", 5)):
        assert sum(command.startswith(world) for command in ACCEPTED) >= least
    kept = [path for path in harness.ACCEPTED.rglob("*") if path.is_file()]
    assert len(kept) > 100
    for path in kept:
        world, command, *name = path.relative_to(harness.ACCEPTED).parts
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert ACCEPTED[f"{world}/{command}"]["/".join(name)] == digest, path
        assert world != "real", "recorded texts are not ours to keep"


def test_one_digit_of_one_figure(tmp_path: Path) -> None:
    """A command's accepted bytes with one digit changed: that file is named, with the line."""
    command, name = "simulated/aligned", "data/runs/aligned/leaderboard.csv"
    old = (harness.ACCEPTED / command / name).read_bytes()
    at = old.index(b"0.", old.index(b"\n")) + 4
    new = old[:at] + bytes([old[at] ^ 1]) + old[at + 1 :]
    written = harness.Written({command: {name: new}})
    found = harness.differences({command: {name: ACCEPTED[command][name]}}, written.digests())
    assert found == [(command, name, "changed")]
    lines = harness.shown(harness.accepted_bytes(command, name, ACCEPTED[command][name]), new)
    assert [line.strip()[0] for line in lines] == ["@", "-", "+"]
    same = harness.Written({command: {name: old}})
    assert harness.differences({command: {name: ACCEPTED[command][name]}}, same.digests()) == []
    assert harness.differences({}, same.digests()) == [(command, name, "new")]
    assert harness.differences({command: {name: "x"}}, {}) == [(command, name, "gone")]


def test_a_command_is_run_under_a_clock_that_stands(tmp_path: Path) -> None:
    """The same bytes twice, and what a command writes is found; one that fails is said."""
    from commands import of

    seen = []
    for home in (tmp_path / "a", tmp_path / "b"):
        home.mkdir()
        made = harness.carry_out("w", [of("list", "runs", "list", "--json")], home)
        seen.append(made.digests())
    assert seen[0] == seen[1]
    assert "stdout" in seen[0]["w/list"]
    with pytest.raises(RuntimeError, match="runs show"):
        harness.carry_out("w", [of("runs show", "runs", "show", "nothing")], tmp_path / "a")
