"""Callables as forecasters: `python:module:name` and `python:./file.py:name`."""

import json
import re
import sys
from pathlib import Path

import pytest
from provider import Provider, serving

from beforehand.cli.app import run as cli
from beforehand.config import Home
from beforehand.errors import BadAnswer, InputError, Stopped
from beforehand.forecast.schemes import python
from beforehand.front.reporting import told_in_python
from beforehand.jobs.backtest import ask
from beforehand.runs.rows import read_jsonl
from experiments import QUICK, Out, intervals, told
from program import run_program

MINE = '''
"""Forecasters of a user."""

from datetime import timedelta
from pathlib import Path

from beforehand import Context, Decision, forecaster
from beforehand.errors import CutoffViolation


@forecaster
def mine(context):
    return 0.9 * context.odds + 0.05


@forecaster(memoryless=True)
async def looks(context: Context):
    prices = context.view.history(context.market.id)
    assert all(p.known_at <= context.t for p in prices)
    try:
        context.view.narrow(context.t + timedelta(hours=1))
    except CutoffViolation:
        pass
    else:
        raise AssertionError("the View lets the future in")
    with (Path(__file__).parent / "asked").open("a") as log:
        log.write(f"{context.market.id} {context.t}\\n")
    said = f"{context.market.question} {context.market.closes_at} {context.price_age}"
    return {"probability": prices[-1].price, "rationale": said}


@forecaster(name="momentum", version="2")
class Momentum:
    def __init__(self):
        self.last = {}

    def decide(self, context):
        before = self.last.get(context.market.id, context.odds)
        self.last[context.market.id] = context.odds
        p = min(max(context.odds + (context.odds - before), 0.0), 1.0)
        cited = [d.id for d in context.documents[:1]]
        return Decision(p, confidence=0.5, rationale="it goes on", evidence_ids=cited)


class Plain:
    def __call__(self, context):
        return 0.5


def broken(context):
    raise KeyError("no such thing")


def odd(context):
    return {"a": 1.5, "b": "0.5", "c": None}.get(context.market.id[-1], True)


def numbers(context):
    import decimal

    return {"probability": decimal.Decimal("0.25"), "confidence": decimal.Decimal("0.5"), "audit": 1}


seven = 7
'''


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(MINE)
    return f"python:{tmp_path / 'mine.py'}"


def command(sim: Path, *forecasters: str) -> list[str]:
    names = ",".join(["market", *forecasters])
    return [
        "backtest",
        "run",
        "--archive",
        str(sim),
        "--every",
        "28d",
        "--forecasters",
        names,
        *QUICK,
    ]


def test_every_form_of_a_callable(
    sim: Path, home: Path, capsys: Out, mine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ask, "MOST_USELESS", 10**6)  # Else the run stops: another test.
    names = ("mine", "looks", "Momentum", "Plain", "broken", "odd", "numbers")
    asked = command(sim, *(f"{mine}:{name}" for name in names))
    found = told(capsys, *asked, "--run-id", "r", code=3)  # Two never answered.
    board = {row["forecaster"]: row for row in found["leaderboard"]}
    assert board.keys() == {"market", "mine", "looks", "momentum", "Plain", "numbers"}
    assert board["looks"]["brier"] == board["market"]["brier"], "it says the last price"
    assert board["looks"]["order"] == "declared memoryless"
    assert board["momentum"]["order"] == "asked in order"
    assert {row["isolation"] for name, row in board.items() if name != "market"} == {"trusted"}
    rows = intervals(home, "r")
    said = {d["model_id"]: d for row in rows for d in row["decisions"]}
    assert said["mine"]["probability"] == pytest.approx(
        0.9 * rows[-1]["context"]["market"]["odds"] + 0.05, abs=1
    )
    assert said["momentum"]["confidence"] == said["numbers"]["confidence"] == 0.5
    assert said["numbers"]["probability"] == 0.25, "numbers of any library"
    assert "None" not in said["looks"]["rationale"]
    failed = {f["model_id"]: f["error"] for row in rows for f in row["failures"]}
    assert failed["broken"] == "broken raised KeyError: 'no such thing'"
    assert "odd returned" in failed["odd"] or "probability" in failed["odd"]
    traces = list(read_jsonl(Home(home).runs / "r" / "traces.jsonl"))
    shown = next(t["error"] for t in traces if t["model_id"] == "broken")
    assert 'raise KeyError("no such thing")' in shown, "the user's own line"
    assert found["leaks"]["admitted_after_t"] == 0
    assert told(capsys, "runs", "verify", "r")["sound"]
    assert told(capsys, "runs", "show", "r")["calls"] == len(
        (Path(mine[7:]).parent / "asked").read_text().splitlines()
    )
    told(capsys, *asked, "--run-id", "again", "--fresh", code=3)
    audits = [(Home(home).runs / name / "audit.json").read_bytes() for name in ("r", "again")]
    assert audits[0] == audits[1], "what was looked up is the same, whatever thread looked"


def test_the_page_is_true(sim: Path, home: Path, capsys: Out, tmp_path: Path) -> None:
    page = Path(__file__).resolve().parents[1] / "docs" / "quickstart.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "mine.py").write_text(code)
    where = f"python:{tmp_path / 'mine.py'}"
    found = told(capsys, *command(sim, f"{where}:mine", f"{where}:Momentum"), "--run-id", "r")
    assert {row["forecaster"] for row in found["leaderboard"]} == {"market", "mine", "Momentum"}


def test_stopped_and_resumed(sim: Path, home: Path, capsys: Out, mine: str) -> None:
    """The same bytes as in one go; what is memoryless is not asked a second time."""
    with serving(Provider()) as provider:
        asked = command(sim, f"{mine}:Momentum", f"{mine}:looks", provider.address())
        told(capsys, *asked, "--run-id", "whole")
        log = Path(mine[7:]).parent / "asked"
        once = sorted(log.read_text().splitlines())
        log.unlink()
        assert cli([*asked, "--run-id", "parts", "--fresh", "--max-calls", "150"]) == 3
        told(capsys, "runs", "resume", "parts", "--max-calls", "99999")
    assert sorted(log.read_text().splitlines()) == once
    for name in ("intervals.jsonl", "predictions.jsonl", "audit.json"):
        whole, parts = (
            (Home(home).runs / run / name).read_text().replace(f'"{run}"', '"r"')
            for run in ("whole", "parts")
        )
        assert whole == parts, name
    assert told(capsys, "runs", "verify", "parts")["sound"]


def test_what_cannot_be_asked(
    sim: Path, home: Path, capsys: Out, mine: str, tmp_path: Path
) -> None:
    (tmp_path / "bad.py").write_text("import nothing_of_that_name\n")
    for name, said in {
        f"{mine}:nobody": "has no 'nobody'",
        f"{mine}:seven": "7 cannot be called",
        f"python:{tmp_path / 'gone.py'}:x": "there is no file",
        f"python:{tmp_path / 'bad.py'}:x": "No module named 'nothing_of_that_name'",
        "python:nothing_of_that_name:x": "there is no module 'nothing_of_that_name'",
        "python:x": "write python:package.module:name or python:./file.py:name",
    }.items():
        assert cli(command(sim, name)) == 2, name
        assert said in capsys.readouterr().err, name
    assert not Home(home).runs.exists()


def test_one_of_a_module_by_a_name_of_its_own(
    sim: Path, home: Path, capsys: Out, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "userland.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = told(capsys, *command(sim, "ours=python:userland:mine"), "--run-id", "r")
    assert found["leaderboard"][0]["forecaster"] == "market"
    assert "ours" in {row["forecaster"] for row in found["leaderboard"]}
    config = json.loads((Home(home).runs / "r" / "config.json").read_text())
    assert any("ours=python:userland:mine" in e["models"] for e in config["experiments"])


FREE = '''
"""Forecasters whose answers are recorded in batches."""

import os
from pathlib import Path

from beforehand import forecaster

HERE = Path(__file__).parent


def noted(name, context):
    with (HERE / name).open("a") as log:
        log.write(f"{context.market.id} {context.t}\\n")
    if (HERE / "die").exists() and len((HERE / name).read_text().splitlines()) >= 90:
        os._exit(9)


@forecaster(free=True)
class Chain:
    """Each answer depends on all before."""

    def __init__(self):
        self.sum = 0.0

    def decide(self, context):
        noted("chain", context)
        self.sum = (self.sum + context.odds) % 1.0
        return {"probability": self.sum, "confidence": 0.5, "rationale": "so far"}


@forecaster(free=True, memoryless=True)
def alone(context):
    noted("alone", context)
    p = context.view.odds(context.market.id).price
    if p < 0.1:
        raise ValueError("too small")
    return p


@forecaster(free=True)
def odd(context):
    """Never the same twice."""
    return int.from_bytes(os.urandom(4), "big") / 2**32
'''


def killed_once(command: list[str], run: str, flag: Path) -> None:
    """Begin a run in a process of its own that dies in the middle."""
    flag.touch()
    asked = [sys.executable, "-m", "beforehand", *command, "--run-id", run]
    died = run_program(asked, capture_output=True, text=True, check=False)
    flag.unlink()
    assert died.returncode == 9, died.stderr


@pytest.mark.parametrize("name", ["Chain", "alone"])
def test_killed_between_two_batches(
    sim: Path, home: Path, capsys: Out, tmp_path: Path, name: str
) -> None:
    """The same bytes as in one go; answers on record are not asked for again by a memoryless one,
    and one that keeps something is shown all of its past again."""
    (tmp_path / "free.py").write_text(FREE)
    asked = command(sim, f"python:{tmp_path / 'free.py'}:{name}")
    log = tmp_path / name.lower()
    killed_once(asked, "parts", tmp_path / "die")
    before = log.read_text().splitlines()
    told(capsys, "runs", "resume", "parts")
    after = log.read_text().splitlines()
    sys.modules.pop(next((m for m in sys.modules if m.startswith("_beforehand_free")), ""), None)
    log.unlink()
    told(capsys, *asked, "--run-id", "whole")
    whole = log.read_text().splitlines()
    again = len(after) - len(before)
    assert again < len(whole) if name == "alone" else again == len(whole)
    for file in ("intervals.jsonl", "predictions.jsonl", "traces.jsonl", "audit.json"):
        texts = [
            (Home(home).runs / run / file).read_text().replace(f'"{run}"', '"r"')
            for run in ("whole", "parts")
            if (Home(home).runs / run / file).is_file()
        ]
        assert texts == [] or texts[0] == texts[1], file
    assert told(capsys, "runs", "verify", "parts")["sound"]
    board = {
        r["forecaster"]: r for r in told(capsys, "runs", "show", "parts")["scores"]["leaderboard"]
    }
    assert "not reproducible" not in board[name]["order"]


def test_what_answers_otherwise_when_shown_again_is_marked(
    sim: Path, home: Path, capsys: Out, tmp_path: Path
) -> None:
    (tmp_path / "free.py").write_text(
        FREE.replace("def odd(context):", 'def odd(context):\n    noted("odd", context)')
    )
    asked = command(sim, f"python:{tmp_path / 'free.py'}:odd")
    killed_once(asked, "parts", tmp_path / "die")
    found = told(capsys, "runs", "resume", "parts")
    (mine,) = (row for row in found["leaderboard"] if row["forecaster"] == "odd")
    assert "not reproducible" in mine["order"]
    assert told(capsys, "runs", "verify", "parts")["sound"], "the journal's answers stand"


DIES = """
import os
from pathlib import Path

asked = 0


def mine(context):
    global asked
    asked += 1
    if asked == 60 and (Path(__file__).parent / "die").exists():
        os._exit(9)
    return {}
"""


def test_a_changed_code_is_said_before_it_goes_on(
    sim: Path, home: Path, capsys: Out, tmp_path: Path
) -> None:
    """Also where no step was finished, and only then."""
    file = tmp_path / "free.py"
    file.write_text(FREE)
    asked = command(sim, f"python:{file}:alone")
    killed_once(asked, "r", tmp_path / "die")
    config = Home(home).runs / "r" / "config.json"
    begun = json.loads(config.read_text())["code"]
    said = "alone: its code changed while the run was under way"
    file.write_text(FREE.replace("    return p\n", "    return 0.5 * p\n"))
    assert cli(["runs", "resume", "r"]) == 0
    assert said in capsys.readouterr().err
    assert json.loads(config.read_text())["code"] == begun, "the code that the run was begun with"
    assert cli([*asked, "--run-id", "s"]) == 0
    assert said not in capsys.readouterr().err


def test_a_run_goes_on_from_another_folder(
    sim: Path, home: Path, capsys: Out, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder, value in ((here, "0.2"), (there, "0.8")):
        folder.mkdir()
        (folder / "mine.py").write_text(DIES.format(value))
    monkeypatch.chdir(here)
    killed_once(command(sim.resolve(), "python:./mine.py:mine"), "r", here / "die")
    monkeypatch.chdir(there)
    found = told(capsys, "runs", "resume", "r")
    (row,) = (row for row in found["leaderboard"] if row["forecaster"] == "mine")
    said = {d["probability"] for i in intervals(home, "r") for d in i["decisions"]
            if d["model_id"] == "mine"}  # fmt: skip
    assert said == {0.2}
    assert row["isolation"] == "trusted"


@pytest.mark.parametrize("options", ["", "memoryless=True", "memoryless=True, free=True"])
def test_code_that_changed_within_a_run_is_marked(
    sim: Path, home: Path, capsys: Out, tmp_path: Path, options: str
) -> None:
    """The answers on record stand, and nobody may say that one forecaster gave them all."""
    text = FREE.replace("@forecaster(free=True, memoryless=True)", f"@forecaster({options})")
    (tmp_path / "free.py").write_text(text)
    asked = command(sim, f"python:{tmp_path / 'free.py'}:alone")
    killed_once(asked, "r", tmp_path / "die")
    (tmp_path / "free.py").write_text(text.replace("    return p\n", "    return 0.5 * p\n"))
    found = told(capsys, "runs", "resume", "r")
    (mine,) = (row for row in found["leaderboard"] if row["forecaster"] == "alone")
    assert "its code changed" in mine["order"]
    assert mine["isolation"] == "trusted"
    assert mine["verdict"] != "beats the market"
    assert told(capsys, "runs", "verify", "r")["sound"]


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ({"probability": 0.5, "rationale": 3}, "the rationale 3: return a text"),
        ({"probability": 0.5, "evidence_ids": 7}, "evidence_ids 7: return a list of ids"),
        ({"probability": 0.5, "evidence_ids": {"a": 1}}, "return a list of ids"),
        ({"probability": 0.5, "evidence_ids": [None]}, "return a list of ids"),
    ],
)
def test_what_is_not_a_decision(said: object, wrong: str) -> None:
    with pytest.raises(BadAnswer, match=wrong):
        python._decision(said, "mine")
    kept = python._decision({"probability": 0.5, "evidence_ids": ("a", 7)}, "mine")
    assert kept.evidence_ids == ["a", "7"]
    assert python._decision({"probability": 0.5, "evidence_ids": "a"}, "mine").evidence_ids == ["a"]


def test_how_a_run_goes_on_that_this_program_alone_knows() -> None:
    said = "run r stopped; `beforehand runs resume r` goes on from here"
    with pytest.raises(Stopped) as caught, told_in_python(None, here_alone=True):
        raise Stopped(said)
    assert 'run this program again with run_id="r"' in str(caught.value)
    assert caught.value.__notes__ == ['in this session: beforehand.open_run("r").resume()']
    with pytest.raises(Stopped) as caught, told_in_python(None):
        raise Stopped(said)
    assert caught.value.__notes__ == ['in Python: beforehand.open_run("r").resume()']


def test_a_path_is_not_an_option() -> None:
    """In Python an option of the command line reads as an argument; a path stays as it is."""
    with pytest.raises(InputError) as caught, told_in_python(None):
        raise InputError("--max-calls 0: see /a/--b/c--d")
    assert str(caught.value) == "max_calls= 0: see /a/--b/c--d"


def test_a_file_finds_what_lies_beside_it(
    sim: Path, home: Path, tmp_path: Path, capsys: Out
) -> None:
    (tmp_path / "sibling_of_mine.py").write_text("K = 0.25\n")
    (tmp_path / "own_one.py").write_text(
        "from sibling_of_mine import K\nimport beforehand as bh\n\n"
        "@bh.forecaster(free=True)\ndef f(context):\n    return K\n"
    )
    told(capsys, *command(sim, f"python:{tmp_path / 'own_one.py'}:f"), "--run-id", "r")
    rows = intervals(home, "r")
    said = {
        one["probability"]
        for row in rows
        for one in row["decisions"]
        if "market" not in one["model_id"]
    }
    assert said == {0.25}
