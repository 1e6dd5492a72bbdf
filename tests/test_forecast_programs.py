"""Programs of any language as forecasters, one forecaster in another environment, and the rules for
what comes back."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import beforehand as bh
from beforehand.cli.app import run as cli
from beforehand.clock import SystemClock
from beforehand.config import Home, Workspace
from beforehand.errors import BadAnswer, InputError
from beforehand.forecast import programs
from beforehand.forecast.answers import read_probability
from beforehand.forecast.base import Opening, open_forecaster
from beforehand.forecast.mapping import answer_map, split_options, with_options
from beforehand.meter import CallCounter
from beforehand.records.rows import Context, MarketSeen, label
from beforehand.world.render import store_world
from beforehand.world.simulate import SimConfig
from experiments import Out, intervals, told
from program import Program

SEEN = Context(
    "2026-01-05T00:00:00Z", MarketSeen("KALSHI:KXRAIN-1", "Will it rain?\nIt must.", 0.4)
)
START = "import json, os, sys, time\n"
LOOP = (
    START + "for line in sys.stdin:\n    q = json.loads(line)\n    p = q['market']['odds'] or 0.5\n"
)
"""The beginning of a program that answers question after question."""


def written(folder: Path, body: str, name: str = "bot.py") -> str:
    (folder / name).write_text(body)
    return f"command:{sys.executable} {name}"


def opened(folder: Path, entry: str, timeout: float = 10.0) -> Any:
    workspace = Workspace(Home(folder))
    return open_forecaster(entry, Opening(workspace, timeout=timeout, folder=folder))


@pytest.mark.parametrize(
    ("value", "p", "rule"),
    [
        (0.3, 0.3, None),
        (1, 1.0, None),
        ("0.7", 0.7, "number as text"),
        ("70%", 0.7, "percent sign"),
        ("12,5 %", 0.125, "percent sign"),
        ("0,7", 0.7, "decimal comma"),
        ("7/10", 0.7, "fraction"),
        ("7 out of 10", 0.7, "fraction"),
        ("about 0.6", 0.6, "number in words"),
        ("I'd say 7 in 10.", 0.7, "number in words"),
        ({"yes": 0.7, "no": 0.3}, 0.7, "outcome YES of several"),
        (
            [{"name": "No", "probability": 0.6}, {"name": "Yes", "p": 0.4}],
            0.4,
            "outcome YES of several",
        ),
    ],
)
def test_what_is_a_probability(value: object, p: float, rule: str | None) -> None:
    assert read_probability(value) == (pytest.approx(p), rule)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (True, "no number"),
        (70, "percent, it seems"),
        ("70", "percent, it seems"),
        (-0.1, "outside"),
        (float("nan"), "outside"),
        ("no idea", "is no number"),
        ("hm", "no number"),
        ("", "no number"),
        ("60% for NO", "may mean another"),
        ("less than 5%", "may mean another"),
        ("60% to 70%", "several numbers"),
        ("50/50", "may be odds"),
        ("1 in 1,000", "in thousands"),
        ("1,000", "in thousands"),
        ("-7/10", "several numbers"),
        ("7/10%", "several numbers"),
        ("<5%", "may mean another"),
        ("up to 20%", "may mean another"),
        ("It won’t happen: 90%", "may mean another"),
        ("90% unlikely", "may mean another"),
        ({"Yes": 0.7, "yes ": 0.3}, "names an outcome twice"),
        ({"yes": {"yes": 0.5}}, "no probability for each outcome"),
        (10**400, "outside"),
        ({"yes": 0.7, "no": 0.5}, "add up to 1.2"),
        ({"rain": 0.7, "sun": 0.3}, "no outcome YES"),
        ([0.1, 0.5, 0.9], "a distribution"),
        ({"0.1": 12, "0.9": 30}, "a distribution"),
        ({"continuous_cdf": [0, 1]}, "a distribution"),
        (None, "no number"),
    ],
)
def test_what_is_none(value: object, why: str) -> None:
    with pytest.raises(BadAnswer, match=why):
        read_probability(value)


def test_the_words_of_others(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(
        '[request]\nprompt = "{question} Ends {close_time}, at {odds}."\nodds = "{odds}"\n'
        '[answer]\nprobability = "choices.0.p"\npercent = true\n'
    )
    mapped = answer_map("x", {"map": "m.toml"}, tmp_path)
    question = {"question": "Rain?", "close_time": None, "odds": 0.4}
    sent = mapped.body(SEEN, lambda _: question)
    assert sent == {"prompt": "Rain? Ends , at 0.4.", "odds": 0.4}
    kept = json.loads(mapped.kept('{"choices": [{"p": 70}], "cost": 0.5}'))
    assert (kept["probability"], kept["cost"], kept["read_as"]) == (0.7, 0.5, "percent, as stated")
    assert kept["answer"] == {"choices": [{"p": 70}], "cost": 0.5}
    assert "there is no `choices.0.p`" in json.loads(mapped.kept('{"choices": []}'))["error"]
    assert split_options("http://h/p#p=a.b&percent") == (
        "http://h/p",
        {"p": "a.b", "percent": "yes"},
    )
    assert split_options("command:./a#b.sh") == ("command:./a#b.sh", {})
    assert split_options("command:./a --fast #each") == ("command:./a --fast", {"each": "yes"})
    assert split_options("file:a.csv#who=A%26B") == ("file:a.csv", {"who": "A&B"})
    assert with_options("file:a.csv#who=A%26B%2CC,http://h", {"protocol": "prophet"}) == (
        "file:a.csv#who=A%26B%2CC,http://h#protocol=prophet"
    )
    for body, why in (
        ("[answer]\nodds = 1", "has probability, rationale and percent"),
        ("[request]\nx = '{nothing}'", "is nothing that a question has"),
        ("[other]\n", "write the tables"),
        ("[", "no TOML"),
    ):
        (tmp_path / "m.toml").write_text(body)
        with pytest.raises(InputError, match=why):
            answer_map("x", {"map": "m.toml"}, tmp_path)
    for options, why in (({"protocol": "no"}, "no protocol"), ({"percent": "so"}, "yes or no")):
        with pytest.raises(InputError, match=why):
            answer_map("x", options)
    with pytest.raises(InputError, match="no option 'nope'"):
        split_options("command:./a#p=x&nope=1")


def test_a_program_goes_on_running_and_may_answer_in_its_own_words(tmp_path: Path) -> None:
    body = LOOP + (
        "    n = globals().get('n', 0) + 1\n    print('thinking')\n"
        "    print(json.dumps({'id': q['id'], 'r': {'p': '40%', 'why': f'{n}. {os.getpid()}'}}), flush=True)\n"
    )
    one = opened(tmp_path, written(tmp_path, body) + "#p=r.p&why=r.why")
    said = [one.decide(SEEN, CallCounter()) for _ in range(3)]
    one.close()
    assert [s.probability for s in said] == [0.4] * 3
    assert [s.rationale.split(".")[0] for s in said] == ["1", "2", "3"]
    assert len({s.rationale.split()[1] for s in said}) == 1, "it is one process"
    assert one.take_noted() == {"line that is no answer": 3}
    assert said[0].read_as == "percent sign"


def test_started_for_each_question(tmp_path: Path) -> None:
    entry = written(
        tmp_path, START + "q = json.loads(sys.stdin.read())\nprint('so')\nprint(0.25)\n"
    )
    one = opened(tmp_path, entry + "#each")
    assert [one.decide(SEEN, CallCounter()).probability for _ in range(2)] == [0.25] * 2


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (LOOP + "    time.sleep(60)\n", "no answer within 3 s"),
        (LOOP + "    sys.exit('no key')\n", "ended with code 1; it said: no key"),
        (LOOP + "    print('x' * 3_000_000, flush=True)\n", "a line of more than"),
        (LOOP + "    while True: print('x')\n", "lines that are no answer"),
        (LOOP + "    print(json.dumps({'id': 'other', 'probability': 0.5}), flush=True)\n", "no answer within"),
        (LOOP + "    print('{}', flush=True)\n", "no answer within"),
        (LOOP + "    os.close(0); os.close(1); time.sleep(60)\n", "no answer|ended"),
    ],
)  # fmt: skip
def test_what_a_program_does_wrong_fails_one_question(tmp_path: Path, body: str, why: str) -> None:
    """Asked again it is started anew, and answers what it can."""
    first = body.replace(LOOP, LOOP + "    if os.path.exists('done'): print(0.5, flush=True); continue\n    open('done', 'w').close()\n")  # fmt: skip
    timeout = 3.0 if why.startswith("no answer") else 60.0
    one = opened(tmp_path, written(tmp_path, first), timeout)
    with pytest.raises(BadAnswer, match=why):
        one.decide(SEEN, CallCounter())
    assert one.decide(SEEN, CallCounter()).probability == 0.5
    one.close()


def test_second_and_strange_answers_are_counted(tmp_path: Path) -> None:
    body = LOOP + (
        "    say = lambda i, p: print(json.dumps({'id': i, 'probability': p}), flush=True)\n"
        "    say('nobody', 0.9); say(q['id'], 0.3); say(q['id'], 0.8)\n"
    )
    one = opened(tmp_path, written(tmp_path, body))
    meters = [CallCounter(calls=n) for n in range(20)]
    assert {one.decide(SEEN, meter).probability for meter in meters} == {0.3}
    one.close()
    noted = one.take_noted()
    assert noted[programs.WRONG] + noted.get(programs.LATE, 0) >= 19
    assert noted[programs.TWICE] >= 19


def test_a_banner_shifts_no_answer(tmp_path: Path) -> None:
    """An object that is no answer, a line that came unasked, a text with a number in it."""
    asked = [
        Context("2026-01-05T00:00:00Z", MarketSeen(f"KALSHI:K-{n}", "?", n / 10)) for n in range(6)
    ]
    for first, safe in (
        ("print('{\"ready\": true}', flush=True)", True),
        ("print(0.99, flush=True)", False),
    ):
        one = opened(
            tmp_path, written(tmp_path, START + first + "\n" + LOOP + "    print(p, flush=True)\n")
        )
        said = list[float]()
        for context in asked:
            time.sleep(0.05)
            try:
                said.append(one.decide(context, CallCounter(calls=len(said))).probability)
            except BadAnswer as error:
                said.append(-1 if "write the id of the question" in str(error) else -2)
        one.close()
        allowed = [{n / 10} if safe else {n / 10, -1} for n in range(1, 6)]
        fits = [p in either for p, either in zip(said[1:], allowed, strict=True)]
        assert all(fits), "no answer is given to the next question"
    words = opened(
        tmp_path,
        written(tmp_path, START + "sys.stdin.read()\nprint('Done, 0 errors.')\n") + "#each",
    )
    with pytest.raises(BadAnswer, match="its last line is no answer"):
        words.decide(SEEN, CallCounter())


def test_percent_and_null_are_answers(tmp_path: Path) -> None:
    for line, more, p in (
        ("70", "#percent", 0.7),
        ("null", "", "no forecast here"),
        ("70", "", "percent, it seems"),
    ):
        one = opened(
            tmp_path, written(tmp_path, LOOP + f"    print('{line}', flush=True)\n") + more
        )
        if isinstance(p, str):
            with pytest.raises(BadAnswer, match=p):
                one.decide(SEEN, CallCounter())
        else:
            assert one.decide(SEEN, CallCounter()).probability == p
        one.close()


def test_a_program_that_does_not_read_holds_nobody_up(tmp_path: Path) -> None:
    start = programs.Start(("sleep", "20"), tmp_path, {"PATH": os.environ["PATH"]})
    began = time.monotonic()
    assert "no answer within 0.5 s" in str(programs.run_once(start, b"x" * 300_000, 0.5).why)
    assert time.monotonic() - began < 10


def test_names_that_cannot_be(tmp_path: Path) -> None:
    for entry, why in (
        ("command:", "name a program"),
        ("command:./none.sh", "there is no file"),
        ("command:'", "cannot be read"),
        ("python:./none.py:Bot#python=python3", "there is no file"),
        ("python:./none.py:Bot#python=./none", "there is no interpreter"),
        ("python:./none.py:Bot#python=python3&as=it", "as is one of"),
        ("python:./none.py:Bot#as=prophet", "add python=PATH"),
        ("command:./none.sh#ech", "no option 'ech' .do you mean each"),
        ("http://127.0.0.1:9/p#fragment", "no option 'fragment'"),
    ):
        with pytest.raises(InputError, match=why):
            opened(tmp_path, entry)
    (tmp_path / "plain.sh").write_text("#!/bin/sh\n")
    for entry, why in (("./plain.sh", "plain.sh is not executable"), ("none", "is ./none")):
        with pytest.raises(InputError, match=why):
            opened(tmp_path, f"command:{entry}").check()


PEEKS = LOOP + (
    "    import glob, gzip\n    seen = 0\n"
    "    for path in sorted(glob.glob(ARCHIVE + '/**/*', recursive=True)):\n"
    "        if os.path.isfile(path): seen += sum(open(path, 'rb').read())\n"
    "    print(json.dumps({'id': q['id'], 'probability': seen % 1000 / 1000 if seen else p}), flush=True)\n"
)


@pytest.mark.skipif(not programs.can_hide(), reason="bubblewrap does not work here")
def test_a_program_does_not_see_the_archive(home: Path, sim: Path, capsys: Out) -> None:
    """In a run it is hidden: what looks for it finds nothing. In a probe it is not."""
    path = home / "data" / "archive"
    shutil.copytree(sim, path)
    bots = home / "bots"
    bots.mkdir()
    (bots / "peek.py").write_text(PEEKS.replace("ARCHIVE", repr(str(path))))
    entry = f"peek=command:{sys.executable} {bots / 'peek.py'}"
    done = told(capsys, "backtest", "run", "--forecasters", f"market,{entry}", "--every", "60d", "--draws", "100", "--placebo", "0", "--run-id", "r", code=0)  # fmt: skip
    rows = intervals(home, "r")
    said = [{d["model_id"]: d["probability"] for d in row["decisions"]} for row in rows]
    assert said
    both = {label(name): p for row in said for name, p in row.items()}
    assert set(both) == {"market", "peek"}
    by_question = zip(said[::2], said[1::2], strict=True)
    assert all({*one.values()} == {*two.values()} for one, two in by_question), "its price alone"
    kept = {row["forecaster"]: row for row in done["leaderboard"]}["peek"]["isolation"]
    assert kept == "trusted (archive and journal hidden from it)"


def test_a_program_that_looks_ahead_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path / "home"))
    folder = tmp_path / "probed"
    store_world(SimConfig(5, 6), folder / "archive", SystemClock())
    world = bh.open_world(folder / "archive")
    (folder / "peek.py").write_text(PEEKS.replace("ARCHIVE", repr(str(folder / "archive"))))
    (folder / "honest.py").write_text(LOOP + "    print(0.5 * p + 0.25, flush=True)\n")
    for name, peeks in (("peek", True), ("honest", False)):
        entry = f"{name}=command:{sys.executable} {folder / name}.py"
        found = bh.probe(entry, world, 10, draws=8, progress=False)
        assert found.peeked is peeks, found
        one = opened(tmp_path / "home", entry)
        assert one.isolation == ("caught by a probe" if peeks else "probed (0 of 10 futures)")


def test_another_environment(tmp_path: Path) -> None:
    """The interpreter of the machine: it has nothing of ours, and needs nothing."""
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin") or sys.executable
    (tmp_path / "bots.py").write_text(
        "import sys\nassert 'beforehand' not in sys.modules\n"
        "class Ours:\n    def decide(self, context):\n        print('hello')\n        return context.odds / 2\n"
        "async def later(context): return {'probability': 0.3, 'rationale': context.market.id}\n"
        "def fails(context): raise KeyError('x')\n"
        "def predict(event): return {'p_yes': 0.6, 'rationale': event['market_ticker']}\n"
        "class Agent:\n    def forecast(self, event): return type('F', (), {'p_yes': 0.1, 'rationale': event.title})()\n"
        "class Module:\n    def __call__(self, question, context): return {'answer': {'p': '20%'}, 'reasoning': question}\n"
    )
    for name, more, p, why in (
        ("Ours", "", 0.2, ""),
        ("later", "", 0.3, "KALSHI:KXRAIN-1"),
        ("predict", "&as=prophet", 0.6, "KXRAIN-1"),
        ("Agent", "&as=prophet", 0.1, "Will it rain?"),
        ("Module", "&as=dspy&p=answer.p", 0.2, "Will it rain?"),
    ):
        one = opened(tmp_path, f"python:./bots.py:{name}#python={python}{more}")
        said = one.decide(SEEN, CallCounter())
        one.close()
        assert (said.probability, said.rationale) == (p, why), name
    for name, why in (("fails", "it raised KeyError"), ("missing", "cannot be imported")):
        one = opened(tmp_path, f"python:./bots.py:{name}#python={python}")
        with pytest.raises(BadAnswer, match=why):
            one.decide(SEEN, CallCounter())
        one.close()


def test_killed_and_resumed_nothing_is_asked_again(home: Path, sim: Path, capsys: Out) -> None:
    body = LOOP + (
        "    with open('asked', 'a') as out: out.write(q['time'] + ' ' + q['market']['id'] + '\\n')\n"
        "    time.sleep(0.02)\n    print(p, flush=True)\n"
    )
    entry = written(home, body)
    words = ["backtest", "run", "--forecasters", f"market,slow={entry}", "--every", "30d", "--archive", str(sim), "--draws", "100", "--placebo", "0", "--run-id", "r"]  # fmt: skip
    started = Program(
        [sys.executable, "-m", "beforehand", *words],
        cwd=home,
        env={**os.environ, "BEFOREHAND_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    asked = home / "asked"
    while not asked.is_file() or len(asked.read_text().splitlines()) < 20:
        assert started.poll() is None, "it ended before it was killed"
        time.sleep(0.02)
    os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    before = asked.read_text().splitlines()
    os.chdir(home)
    assert cli(["runs", "resume", "r"]) == 0
    lines = asked.read_text().splitlines()
    times = [line.split()[0] for line in lines]
    again = [line for line in set(lines) if lines.count(line) > 1]
    assert len(again) <= 1, "only the question in flight may be asked twice"
    assert len(lines) > len(before)
    assert times == sorted(times), "in order of time"
    rows = intervals(home, "r")
    assert len(set(lines)) == len({(row["market_id"], row["time"]) for row in rows})
    capsys.readouterr()
    assert cli(["runs", "verify", "r"]) == 0


@pytest.mark.skipif(not programs.can_hide(), reason="bubblewrap does not work here")
def test_a_program_inside_of_what_is_hidden_is_said_to_see_it(tmp_path: Path) -> None:
    for folder, said in (("bots", "archive and journal hidden"), ("data/bots", "it can see that")):
        place = tmp_path / folder
        place.mkdir(parents=True)
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "workspace").mkdir(exist_ok=True)
        entry = written(place, LOOP)
        opening = Opening(Workspace(Home(tmp_path)), folder=place)
        assert said in open_forecaster(entry, opening).isolation


FOREVER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_forecast_programs import SEEN, CallCounter, opened
opened(Path({folder!r}), {entry!r}, 60).decide(SEEN, CallCounter())
"""


@pytest.mark.skipif(not programs.can_hide(), reason="bubblewrap does not work here")
@pytest.mark.parametrize("how", ["", "#each"])
def test_a_program_ends_with_its_run(tmp_path: Path, how: str) -> None:
    """Killed with -9, a run leaves no program behind, not even one that hangs."""
    beats = tmp_path / "beats"
    (tmp_path / "bots").mkdir()
    beat = f"    open({str(beats)!r}, 'a').write('x')\n    time.sleep(0.05)\n"
    # A minute and a half at most: should it be left behind, it ends by itself.
    (tmp_path / "bots" / "hang.py").write_text(f"{START}for _ in range(1800):\n{beat}")
    entry = f"command:{sys.executable} bots/hang.py{how}"
    code = FOREVER.format(
        tests=str(Path(__file__).parent),
        folder=str(tmp_path),
        entry=entry,
    )
    run = Program([sys.executable, "-c", code], cwd=tmp_path)
    until = time.monotonic() + 60
    while not beats.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert beats.exists()
    run.kill()
    run.wait()
    time.sleep(1)
    size = beats.stat().st_size
    time.sleep(1)
    assert beats.stat().st_size == size
