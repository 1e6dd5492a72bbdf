"""Commands of one home at the same time: none waits in vain, fails, or takes what is another's."""

import json
import os
import subprocess
from pathlib import Path

from beforehand.config import Home
from beforehand.store.archive.reader import Archive
from experiments import QUICK
from program import COMMAND, Program
from proofs import count

AT_ONCE = count("commands of a kind at once in one home", 3, 8)


def at_once(home: Path, commands: list[list[str]]) -> list[str]:
    """What each printed; all begin together, and end with 0."""
    env = {**os.environ, "BEFOREHAND_HOME": str(home)}
    begun = [
        Program(
            [*COMMAND, *one], env=env, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )
        for one in commands
    ]  # fmt: skip
    said = [one.communicate(timeout=120) for one in begun]
    assert [one.returncode for one in begun] == [0] * len(begun), [err for _, err in said]
    return [out for out, _ in said]


def test_imports_into_one_archive(home: Path) -> None:
    for k in range(AT_ONCE):
        row = {
            "source": "polymarket", "id": f"0x{k}", "question": f"Q{k}?", "rounds": ["2025-01-05"],
            "history": [["2025-01-01", 0.4, 1735776000]],
            "resolution": {"date": "2025-01-20", "outcome": 1.0, "first_published": 1737417600},
        }  # fmt: skip
        (home / f"{k}.jsonl").write_text(json.dumps(row) + "\n")
    order = ["world", "import", "markets"]
    at_once(home, [[*order, f"{k}.jsonl", "--archive", "w"] for k in range(AT_ONCE)])
    assert Archive(home / "w").counts()["market"] == AT_ONCE
    assert Archive(home / "w").verify() == []


def test_files_that_are_scored(sim: Path, home: Path) -> None:
    """Each is a run of its own, and each is counted as tried."""
    rows = "id,time,probability\nSIMEX:m0000,2024-12-05T00:00:00Z,0.{}\n"
    for k in range(AT_ONCE):
        (home / f"{k}.csv").write_text(rows.format(k + 1))
    order = ["--archive", str(sim), *QUICK, "--json"]
    said = at_once(home, [["score", f"{k}.csv", *order] for k in range(AT_ONCE)])
    assert len({json.loads(one)["run_id"] for one in said}) == AT_ONCE
    tried = [json.loads(one)["validity"]["variants_tried"]["value"] for one in said]
    assert sorted(tried) == list(range(1, AT_ONCE + 1))


def test_questions_that_are_asked(sim: Path, home: Path) -> None:
    order = ["--archive", str(sim), "--json"]
    said = at_once(
        home,
        [
            ["ask", f"Will the Merovia timber index close above {k}?", *order]
            for k in range(AT_ONCE)
        ],
    )
    runs = {path.name for path in Home(home).runs.iterdir() if path.is_dir()}
    assert len(runs) == AT_ONCE
    assert all(
        f"Will the Merovia timber index close above {k}?" in one for k, one in enumerate(said)
    )
