"""The orchestrator over live services (a vendor on loopback): what a service answered is on record, and
a run that was killed does not pay for it again."""

import json
import os
import sys
from pathlib import Path

from beforehand.config import Home
from beforehand.store.database import Database
from beforehand.store.journal.journal import Journal
from program import run_program
from test_ask import KILLED
from toolcalls import vendor_of_shapes
from vendor import Vendor, serving

QUESTION = "Will it rain in Avaria, and how did it move this month?"


def carried_out(vendor: Vendor, root: Path, *how: str) -> dict[str, object]:
    """`ask` in live mode, killed on the way where `how` says so and then resumed: the answer."""
    root.mkdir()
    environment = {**os.environ, **vendor.environment, "BEFOREHAND_HOME": str(root)}
    arguments = ["ask", QUESTION, "--mode", "live", "--run-id", "r", "--concurrency", "1"]
    done = run_program(
        [sys.executable, *how, *arguments], env=environment, capture_output=True, text=True
    )
    assert done.returncode == (0 if how[0] == "-m" else 9), done.stderr
    if done.returncode:
        command = [sys.executable, "-m", "beforehand", "runs", "resume", "r"]
        again = run_program(command, env=environment, capture_output=True, text=True)
        assert again.returncode == 0, again.stderr
    return json.loads((root / "data/runs/r/answer.json").read_text())  # type: ignore[no-any-return]


def test_what_a_service_answered_is_paid_once(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    with serving(vendor_of_shapes()) as vendor:
        whole = carried_out(vendor, tmp_path / "whole", "-m", "beforehand")
        asked = vendor.counts()
        assert asked
        assert whole["citations"], whole
        calls = Journal(Database(Home(tmp_path / "whole").journal)).calls.rows("r")
        assert {call["provider"] for call in calls} >= {
            "tool:search_polymarket_markets",
            "tool:search_domains",
        }
        paid = [(call["call_key"], call["attempts"]) for call in calls if call["cost"]]
        assert len(paid) == 1
        for step in range(2, 5):
            vendor.log.clear()
            found = carried_out(vendor, tmp_path / str(step), str(script), str(step), "before")
            # The web search is what costs money. What a venue told the dead process is asked anew.
            assert vendor.counts()["/search"] == asked["/search"] == 1, (step, vendor.counts())
            rows = Journal(Database(Home(tmp_path / str(step)).journal)).calls.rows("r")
            assert [(row["call_key"], row["attempts"]) for row in rows if row["cost"]] == paid
            assert [one["id"] for one in found["citations"]] == [  # type: ignore[attr-defined]
                one["id"]
                for one in whole["citations"]  # type: ignore[attr-defined]
            ]
