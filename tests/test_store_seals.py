"""Forecasts sealed before the outcome: any change is found, and only what was sealed counts."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from beforehand.cli.app import run as cli
from beforehand.clock import iso, parse_instant
from beforehand.errors import Corrupt, InputError
from beforehand.ids import digest
from beforehand.jobs.benchmark import evaluation
from beforehand.store.seals import NOTHING, Record, Seal, check, read_seals, seal
from experiments import Out, told
from program import Program

NOW = datetime(2026, 5, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
N = 200


def record(k: int, p: float = 0.5, who: str = "mine") -> Record:
    return Record(f"e{k}", who, p, None, {"id": f"e{k}", "p": p, "by": who})


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Forty lines, sealed an hour apart."""
    path = tmp_path / "sealed.jsonl"
    for k in range(40):
        seal(path, [record(k, round(0.1 + k / 50, 3))], NOW + k * HOUR)
    return path


def test_a_log_is_whole_and_sealing_again_adds_nothing(log: Path) -> None:
    lines = read_seals(log)
    found = check(lines)
    assert (found.n, found.problems) == (40, [])
    assert found.head == lines[-1]["digest"]
    assert lines[0]["before"] == NOTHING
    assert seal(log, [record(0, 0.1), record(39, 0.88)], NOW + 50 * HOUR) == []
    (new,) = seal(log, [record(0, 0.1), record(7, 0.9)], NOW + 50 * HOUR)
    assert (new["n"], new["before"]) == (40, found.head)


def changed(lines: list[Seal], rng: random.Random) -> None:
    lines[rng.randrange(len(lines))]["probability"] = round(rng.random(), 6)


def renamed(lines: list[Seal], rng: random.Random) -> None:
    lines[rng.randrange(len(lines))]["predictor"] = "another"


def dropped(lines: list[Seal], rng: random.Random) -> None:
    del lines[rng.randrange(len(lines) - 1)]


def cut_short(lines: list[Seal], rng: random.Random) -> None:
    del lines[rng.randrange(1, len(lines)) :]


def inserted(lines: list[Seal], rng: random.Random) -> None:
    place = rng.randrange(len(lines))
    lines.insert(place, {**lines[place], "id": "late", "probability": 0.99})


def moved(lines: list[Seal], rng: random.Random) -> None:
    a, b = rng.sample(range(len(lines)), 2)
    lines[a], lines[b] = lines[b], lines[a]


def back_dated(lines: list[Seal], rng: random.Random) -> None:
    lines[rng.randrange(len(lines))]["sealed_at"] = "2020-01-01T00:00:00Z"


EDITS = [changed, renamed, dropped, cut_short, inserted, moved, back_dated]


def rechained(lines: list[Seal]) -> list[Seal]:
    """The same lines with numbers, chain and digests made anew: what a forger would do."""
    made, before = list[Seal](), NOTHING
    for n, line in enumerate(lines):
        body: dict[str, Any] = {**line, "n": n, "before": before}
        body.pop("digest")
        before = digest(body)
        made.append({**body, "digest": before})  # type: ignore[typeddict-item]
    return made


@pytest.mark.parametrize("edit", EDITS)
def test_every_edit_is_found(log: Path, edit: Callable[[list[Seal], random.Random], None]) -> None:
    """Without the chain redone by the chain (but for a log that was cut short: by a digest that was
    published); with it by the digest."""
    lines, rng = read_seals(log), random.Random(edit.__name__)
    head = lines[-1]["digest"]
    chain = anchor = 0
    for _ in range(N):
        edited = [Seal(**line) for line in lines]  # type: ignore[typeddict-item]
        edit(edited, rng)
        chain += bool(check(edited).problems)
        assert check(edited, [head]).problems
        forged = rechained(edited)
        anchor += bool(check(forged, [head]).problems)
        if edit not in (back_dated, moved):  # Times still go back.
            assert not check(forged).problems, "the control: only the digest tells"
    assert anchor == N
    assert chain == (0 if edit is cut_short else N)


def test_what_cannot_be_sealed(log: Path) -> None:
    ahead = Record("e", "mine", 0.5, NOW + 60 * HOUR, {"id": "e"})
    with pytest.raises(InputError, match="lies ahead of now"):
        seal(log, [record(50), ahead], NOW + 50 * HOUR)
    assert len(read_seals(log)) == 40, "not one of them"
    with pytest.raises(Corrupt, match="ahead of this machine's clock"):
        seal(log, [record(50)], NOW)
    text = log.read_text()
    log.write_text(text + '{"n": 40, "sealed')
    assert len(read_seals(log)) == 40, "what a crash cut short was never sealed"
    seal(log, [record(50)], NOW + 50 * HOUR)
    assert check(read_seals(log)).n == 41
    log.write_text(text.replace("e7", "e8", 1))
    with pytest.raises(Corrupt, match="is not whole"):
        seal(log, [record(51)], NOW + 60 * HOUR)
    log.write_text("{}\n")
    with pytest.raises(Corrupt, match="this line is no seal"):
        read_seals(log)


def test_killed_while_sealing_nothing_is_lost_and_nothing_sealed_twice(tmp_path: Path) -> None:
    """kill -9 at random moments of a process that seals one by one."""
    log, rng = tmp_path / "sealed.jsonl", random.Random(0)
    code = (
        "import sys; from datetime import UTC, datetime; from pathlib import Path\n"
        "from beforehand.store.seals import Record, seal\n"
        "for k in range(400):\n"
        "    seal(Path(sys.argv[1]), [Record(f'e{k}', 'm', .5, None, {'k': k})], datetime.now(UTC))\n"
        "    print(k, flush=True)\n"
    )
    told_of = -1
    for _ in range(5):
        process = Program([sys.executable, "-c", code, str(log)], stdout=subprocess.PIPE, text=True)
        with process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(rng.uniform(0.05, 0.4))
            os.kill(process.pid, signal.SIGKILL)
            said = process.stdout.read().split()
        told_of = max(told_of, *(int(k) for k in said if k.isdigit()), told_of)
        lines = read_seals(log)
        assert check(lines).problems == []
        assert [line["id"] for line in lines] == [f"e{k}" for k in range(len(lines))]
        assert len(lines) >= told_of + 1, "what was told to be sealed is there"


@pytest.fixture
def bench(sim: Path, home: Path, tmp_path: Path, capsys: Out) -> tuple[Path, list[dict[str, Any]]]:
    """A folder of a benchmark, and predictions of its events by one predictor."""
    told(capsys, "bench", "ingest", "--archive", str(sim), "--out", str(tmp_path))
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    made = [
        {
            "id": e["id"],
            "prediction": {"probability": 0.9 * e["baseline_probability"] + 0.05},
            "metadata": {"model": "mine", "timestamp": "2020-01-01T00:00:00Z"},
        }
        for e in events
    ]
    return tmp_path, made


def scored(folder: Path, capsys: Out, *more: str, code: int = 0) -> dict[str, Any]:
    files = [f"--{n}={folder / f'{n}.jsonl'}" for n in ("events", "predictions", "resolutions")]
    return told(
        capsys, "bench", "evaluate", *files, "--draws", "200", "--placebo", "0", *more, code=code
    )


def test_only_what_was_sealed_in_time_counts(
    bench: tuple[Path, list[dict[str, Any]]], sim: Path, capsys: Out
) -> None:
    """Sealed in time, sealed too late, changed after it was sealed, never sealed: whatever time the
    file states."""
    folder, made = bench
    events = {
        e["id"]: e for e in map(json.loads, (folder / "events.jsonl").read_text().splitlines())
    }
    path, log = folder / "predictions.jsonl", folder / "sealed.jsonl"
    order = sorted(made, key=lambda one: events[one["id"]]["forecast_at"])
    late, never, altered = order[:3], order[3:6], order[6:9]

    def records(rows: list[dict[str, Any]]) -> list[Record]:
        return [Record(r["id"], "mine", r["prediction"]["probability"], None, r) for r in rows]

    for one in order:
        if one in late or one in never:
            continue
        at = parse_instant(events[one["id"]]["forecast_at"])
        seal(log, records([one]), at)
    seal(log, records(late), datetime(2030, 1, 1, tzinfo=UTC))  # After every end.
    for one in altered:
        one["prediction"]["probability"] = 0.123
    path.write_text("\n".join(map(json.dumps, made)))
    found = scored(folder, capsys, "--sealed", str(log), "--archive", str(sim), code=3)
    reasons = {one["id"]: one["reason"] for one in found["unscored"]}
    assert set(reasons) == {one["id"] for one in (*late, *never, *altered)}
    assert {reasons[one["id"]] for one in (*never, *altered)} == {evaluation.UNSEALED}
    assert {reasons[one["id"]] for one in late} == {evaluation.TOO_LATE}
    row = next(r for r in found["leaderboard"] if r["forecaster"] == "mine")
    assert (row["n"], row["missing"]) == (len(made) - 9, 9), "leaving some out is counted"
    assert row["isolation"] == "by construction (sealed beforehand)"
    control = scored(folder, capsys)
    row = next(r for r in control["leaderboard"] if r["forecaster"] == "mine")
    assert (row["n"], row["isolation"]) == (len(made), "trusted")


def test_the_commands(bench: tuple[Path, list[dict[str, Any]]], capsys: Out) -> None:
    folder, made = bench
    path, log = folder / "predictions.jsonl", folder / "sealed.jsonl"
    path.write_text("\n".join(map(json.dumps, made[:-1])))
    first = told(capsys, "bench", "seal", "--predictions", str(path), "--log", str(log))
    assert (first["sealed"], first["lines"]) == (len(made) - 1, len(made) - 1)
    path.write_text("\n".join(map(json.dumps, made)))
    second = told(capsys, "bench", "seal", "--predictions", str(path), "--log", str(log))
    assert (second["sealed"], second["lines"]) == (1, len(made))
    verify = ["bench", "verify", "--log", str(log)]
    heads = ["--head", first["head"], "--head", second["head"]]
    assert told(capsys, *verify, *heads, "--predictions", str(path))["problems"] == []
    assert told(capsys, *verify, "--head", "0" * 64, code=1)["problems"]
    made[0]["prediction"]["probability"] = 0.777
    path.write_text("\n".join(map(json.dumps, [*made[:-1], {**made[1], "id": "new"}])))
    problems = told(capsys, *verify, "--predictions", str(path), code=1)["problems"]
    assert sum("was changed" in text for text in problems) == 1
    assert sum("was never sealed" in text for text in problems) == 1
    assert sum("is not in the file" in text for text in problems) == 2
    assert cli([*verify[:2], "--log", str(folder / "none.jsonl")]) != 0
    assert "bench seal" in capsys.readouterr().err
    made[1]["metadata"]["timestamp"] = iso(datetime.now(UTC) + timedelta(days=3))
    path.write_text(json.dumps(made[1]))
    assert cli(["bench", "seal", "--predictions", str(path), "--log", str(log)]) == 2
    assert "lies ahead of now" in capsys.readouterr().err
