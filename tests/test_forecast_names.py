"""Forecasters by name: schemes that are found, names of their own, decisions as rows."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from provider import Provider, serving

from beforehand.cli.app import run as cli
from beforehand.config import Home, Workspace
from beforehand.errors import EXIT_USAGE, InputError
from beforehand.forecast import base
from beforehand.forecast.base import (
    CallCounter,
    Context,
    Decision,
    Forecaster,
    Meter,
    Opening,
    class_of,
    open_forecaster,
    open_forecasters,
    scheme,
    usage_of,
)
from beforehand.records.backtest import DecisionResult, IntervalContext
from beforehand.records.rows import MarketSeen, Previous, Snippet, encode
from beforehand.store.journal.calls import Usage
from experiments import QUICK, Out, intervals, told

SEEN = Context(
    "2026-01-05T00:00:00Z",
    MarketSeen("KALSHI:m", "Rain?", 0.4, 60.0),
    [Snippet("d1", "It may rain.", "2026-01-04T00:00:00Z")],
    [Previous("2025-12-29T00:00:00Z", 0.3)],
)


@pytest.fixture
def opening(tmp_path: Path) -> Opening:
    return Opening(Workspace(Home(tmp_path)), predictors=["truth"])


@pytest.fixture
def steady() -> Iterator[None]:
    """A scheme that only this test has."""

    @scheme("steady")
    class Steady(Forecaster):
        @classmethod
        def open(cls, rest: str, name: str | None, opening: Opening) -> Forecaster:
            return cls(rest, name)

        def decide(self, context: Context, meter: Meter) -> Decision:
            said = meter.call(self.provider, context.wire(), lambda key: "0.9")
            return Decision(float(said), rationale="as ever", evidence_ids=["d1", "d2"])

    yield
    del base._SCHEMES["steady"]


def test_context_and_decision_are_the_documented_records(opening: Opening) -> None:
    shown = IntervalContext.model_validate(SEEN.wire())
    assert shown.market.odds == SEEN.odds == 0.4
    assert shown.previous_intervals[0].aggregated_probability == 0.3
    assert SEEN.t == 1_767_571_200_000_000
    row = Decision(0.7, evidence_ids=["d1", "never"]).row("x", 1, SEEN)
    result = DecisionResult.model_validate(json.loads(encode(row)))
    assert (result.decision, result.confidence) == ("YES", pytest.approx(0.4))
    assert (row.key_evidence_ids, row.unshown_evidence_ids) == (["d1"], ["never"])


def test_a_scheme_is_found_by_its_prefix(opening: Opening, steady: None) -> None:
    one = open_forecaster("steady:x", opening)
    meter = CallCounter()
    assert one.decide(SEEN, meter).probability == 0.9
    assert meter.calls == 1
    assert not one.memoryless
    named = open_forecaster("mine=steady:x", opening)
    assert (named.name, named.model_id, named.entry) == ("mine", "mine", "mine=steady:x")
    assert named.provider == "steady:x"


def test_names(opening: Opening) -> None:
    for text, entry in (
        ("market", "baseline:market"),
        ("baseline:always:0.3", "baseline:always:0.3"),
        ("truth=recorded:truth", "truth=baseline:recorded:truth"),
        ("a=http://h:1/p?x=1", "a=http://h:1/p?x=1"),
        ("http://h:1/p?x=1", "http://h:1/p?x=1"),
        ("m@http://h:1/v1", "m@http://h:1/v1"),
        ("b=m@http://h:1/v1", "b=m@http://h:1/v1"),
    ):
        assert open_forecaster(text, opening).entry == entry
    kinds = [
        getattr(class_of(t), "kind", None) for t in ("scripted", "http://h", "drift", "nobody")
    ]
    assert kinds == ["model", "external", "baseline", None]
    assert usage_of("http://h/p", '{"tokens": 7, "cost": 0.5}') == Usage(7, 0.5)
    assert list(open_forecasters(["all"], opening))[-1] == "baseline:recorded:truth"
    for bad, why in (
        (["market=http://h:1/p"], "is the name of a forecaster already"),
        (["a=drift", "a=shrunk"], "would both be called a"),
        (["drift", "drift=http://h:1/p"], "is the name of a forecaster already"),
        (["nobody"], "choose from all, market"),
        ([""], "no forecaster named"),
        (["http://u:p@h/x"], "secret|user|password"),
    ):
        with pytest.raises(InputError, match=why):
            open_forecasters(bad, opening)


def test_a_name_stands_in_rows_tables_and_files(sim: Path, home: Path, capsys: Out) -> None:
    with serving(Provider()) as provider:
        mine = f"mine={provider.address()}"
        command = ["backtest", "run", "--archive", str(sim), "--every", "28d", "--run-id", "r"]
        found = told(capsys, *command, "--forecasters", f"market,half=always:0.5,{mine}", *QUICK)
        board = {row["forecaster"]: row for row in found["leaderboard"]}
        assert set(board) == {"market", "half", "mine"}
        assert board["half"]["isolation"] == "by construction"
        assert board["mine"]["order"] == "asked in order"
        rows = intervals(home, "r")
        assert {d["model_id"] for row in rows for d in row["decisions"]} == {
            "baseline:market",
            "half",
            "mine",
        }
        assert told(capsys, "runs", "verify", "r")["sound"], "the journal has the address"
        out = home / "r.jsonl"
        told(capsys, "runs", "export", "r", "--format", "jsonl", "--out", str(out))
        costs = [json.loads(line) for line in out.read_text().splitlines()]
        assert all(c["cost"] == 0.01 for c in costs if c["model_id"] == "mine")
        paid = len(provider.log)
        at = rows[len(rows) // 2]["time"]
        fork = ["runs", "fork", "r", "--at", at, "--model", "mine=other=drift", "--new-id", "f"]
        told(capsys, *fork)
        assert len(provider.log) == paid, "what was answered is not asked again"
    before = {d["model_id"] for row in intervals(home, "f") for d in row["decisions"]}
    assert before == {"baseline:market", "half", "mine", "other"}


def test_two_of_one_name_are_refused(sim: Path, home: Path, capsys: Out) -> None:
    asked = ["--forecasters", "a=drift,a=shrunk", "--archive", str(sim)]
    assert cli(["backtest", "run", *asked]) == EXIT_USAGE
    assert "would both be called a" in capsys.readouterr().err


def test_scripted_is_never_ranked_whatever_it_is_called(sim: Path, home: Path, capsys: Out) -> None:
    command = ["--archive", str(sim), "--forecasters", "market,mine=scripted", *QUICK]
    for more in (["backtest", "run", "--every", "56d"], ["bench", "run", "--horizon", "30d"]):
        found = told(capsys, *more, *command)
        row = next(r for r in found["leaderboard"] if r["forecaster"] == "mine")
        assert row["verdict"] == "not ranked"
