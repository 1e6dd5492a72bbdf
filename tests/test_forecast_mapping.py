"""Addresses and A2A agents that are asked, and answer, in words of their own."""

import json
from pathlib import Path
from typing import Any

import pytest
from provider import Provider, serving

from beforehand.cli.app import run as cli
from beforehand.clock import FrozenClock, iso, parse_instant
from beforehand.config import Home, Workspace
from beforehand.errors import BadAnswer, InputError
from beforehand.forecast.base import Opening, open_forecaster
from beforehand.forecast.mapping import Questions, with_options
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.meter import CallCounter
from beforehand.records.rows import Context, MarketSeen
from beforehand.records.world import Market
from beforehand.store.archive.reader import Archive
from experiments import Out, intervals, told
from test_a2a import Stranger, message
from vendor import serving as vending

QUICK = ("--every", "60d", "--draws", "100", "--placebo", "0")


class Other(Provider):
    """A service that knows nothing of us; `bodies` is what it was sent."""

    def __init__(self, reply: Any) -> None:
        super().__init__(latency=0.0)
        self.reply, self.bodies = reply, list[Any]()

    def answer(self, key: str, path: str, body: bytes, index: str) -> tuple[int, bytes]:
        sent = json.loads(body)
        self.bodies.append(sent)
        super().answer(key, path, body, index)
        said = self.reply(sent) if callable(self.reply) else self.reply
        return 200, said if isinstance(said, bytes) else json.dumps(said).encode()


def test_prophets_predict_as_published(home: Path, sim: Path, capsys: Out) -> None:
    """Its schema: texts where they are required, and a number from 0.01 to 0.99."""

    def predict(event: dict[str, Any]) -> dict[str, Any]:
        for name in ("event_ticker", "market_ticker", "title", "category", "close_time"):
            assert isinstance(event[name], str)
        assert set(event) == {"event_ticker", "market_ticker", "title", "subtitle", "description", "category", "rules", "close_time"}  # fmt: skip
        return {"p_yes": 0.4, "rationale": event["title"]}

    with serving(Other(predict)) as other:
        entry = f"market,pro={other.address('/predict')}#protocol=prophet"
        told(capsys, "backtest", "run", "--archive", str(sim), *QUICK, "--forecasters", entry, "--run-id", "r")  # fmt: skip
        asked = len(other.bodies)
        assert cli(["runs", "verify", "r"]) == 0
    rows = [d for row in intervals(home, "r") for d in row["decisions"] if d["model_id"] == "pro"]
    assert len(rows) == asked
    assert {row["probability"] for row in rows} == {0.4}
    assert all(row["rationale"].startswith("Will the ") for row in rows)


def test_rules_are_counted_and_stand_in_the_scores(home: Path, sim: Path, capsys: Out) -> None:
    said = iter(["70%", "about 0.6", "0,7", 0.5] * 1000)
    with serving(Other(lambda _: {"choices": [{"chance": next(said)}]})) as other:
        entry = f"market,mine={other.address()}#p=choices.0.chance"
        run = ["backtest", "run", "--archive", str(sim), *QUICK, "--forecasters", entry, "--run-id", "r"]  # fmt: skip
        done = told(capsys, *run)
        n = len(other.bodies)
    counted = done["answers"]["mine"]
    assert set(counted) == {"percent sign", "number in words", "decimal comma"}
    assert sum(counted.values()) in range(3 * n // 4 - 3, 3 * n // 4 + 4)
    assert cli(["runs", "show", "r"]) == 0
    assert f"{counted['percent sign']:,} percent sign" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "reply", "p"),
    [
        ("", {"probability": "70%"}, 0.7),
        ("#p=a.b", {"a": {"b": {"yes": 0.2, "no": 0.8}}}, 0.2),
        ("#percent", {"probability": 3}, 0.03),
        ("#p=x", b"0.25", 0.25),
        ("", {"error": "no credit"}, "no credit"),
        ("#p=a", {"b": 1}, "there is no `a` in it: it has b"),
        ("#p=a", {"a": [0.1, 0.9]}, "a distribution"),
        ("#p=a", {"a": None}, "no forecast here"),
        ("#p=a", b"<html>", "is no number"),
    ],
)
def test_what_an_address_answers(more: str, reply: Any, p: float | str, tmp_path: Path) -> None:
    seen = Context("2026-01-05T00:00:00Z", MarketSeen("KALSHI:K-1", "Rain?", 0.4))
    with serving(Other(reply)) as other:
        one = open_forecaster(other.address() + more, Opening(Workspace(Home(tmp_path))))
        if isinstance(p, str):
            with pytest.raises(BadAnswer, match=p):
                one.decide(seen, CallCounter())
        else:
            assert one.decide(seen, CallCounter()).probability == p


def test_an_a2a_agent_of_other_words(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(
        '[request]\nask = "{question}"\n[answer]\nprobability = "p_yes"\n'
    )
    heard = list[Any]()

    def reply(asked: Any) -> Any:
        heard.append(json.loads(asked["message"]["parts"][0]["text"]))
        return message({"text": 'Well: {"p_yes": "30%", "rationale": "so"}'})

    stranger = Stranger(SendMessage=reply)
    seen = Context("2026-01-05T00:00:00Z", MarketSeen("KALSHI:K-1", "Rain?\nRules.", 0.4))
    with vending(stranger.vendor):
        opening = Opening(Workspace(Home(tmp_path)), folder=tmp_path)
        one = open_forecaster(f"a2a:{stranger.url}#map=m.toml", opening)
        said = one.decide(seen, CallCounter())
    assert (said.probability, said.rationale, said.read_as) == (0.3, "so", "percent sign")
    assert heard == [{"ask": "Rain?"}]


def test_a_question_is_as_it_was_worded_at_t(sim: Path, sim_archive: Archive) -> None:
    """A later wording of the rules, and how it ended, are in no request."""
    world = RecordedWorld(sim_archive)
    clock = FrozenClock(parse_instant("2026-01-01T00:00:00Z"))
    questions, changed = Questions(world, clock), 0
    texts = [r for r in world.archive.records(Market) if r.question is not None]
    for late in [r for r in texts if "Clarified" in (r.rules or "")][:20]:
        early = next(r for r in texts if r.id == late.id and r.rules != late.rules)
        for record in (early, late):
            shown = questions(Context(iso(record.known_at), MarketSeen(late.id, None, 0.4)))
            assert shown["rules"] == record.rules
            assert shown["odds"] == 0.4
        changed += 1
    assert changed > 3


def test_options_for_all_of_a_kind() -> None:
    given = "market,a=http://h/x,b=http://h/y#p=q,python:./f.py:f,m@http://h/v1,sh=command:./x"
    assert with_options(given, {}) == given
    assert with_options(given, {"protocol": "prophet", "python": "./e/bin/python"}) == (
        "market,a=http://h/x#protocol=prophet,b=http://h/y#p=q&protocol=prophet,"
        "python:./f.py:f#python=./e/bin/python,m@http://h/v1,sh=command:./x"
    )
    with pytest.raises(InputError, match="--python: none of the forecasters"):
        with_options("market,http://h/x", {"python": "x"})
