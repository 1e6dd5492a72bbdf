"""Agents over A2A: ours served and asked, others' that answer as they like, and the SDK's own
client against our servers."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import ClientConfig, create_client
from a2a.helpers import get_data_parts, new_data_part, new_message
from a2a.types import Role, SendMessageRequest

from beforehand.cli.app import run as cli
from beforehand.config import Home, Workspace
from beforehand.errors import BadAnswer, InputError, Unavailable
from beforehand.forecast.base import CallCounter, Context, Forecaster, Opening, open_forecaster
from beforehand.records.benchmark import PredictionRecord
from beforehand.records.rows import MarketSeen
from beforehand.serve.a2a import opened
from experiments import Out, told
from program import Program
from vendor import Asked, Vendor, serving

FEW = ("--draws", "100", "--placebo", "0")
SEEN = Context("2026-01-05T00:00:00Z", MarketSeen("KALSHI:m", "Rain?\n\nYES if it rains.", 0.4))
FORECAST = {
    "id": "KALSHI:m",
    "prediction": {
        "probability": 0.3,
        "analysis": "Dry.",
        "rationale": [
            {
                "type": "news",
                "source": "d1",
                "snippet": "Dry.",
                "timestamp": "2026-01-04T00:00:00Z",
            },
            {
                "type": "xbrl_fact",
                "source": "CIK1",
                "value": 5,
                "unit": "USD",
                "period": "2025-12-31",
            },
            {"no": "item"},
        ],
    },
    "metadata": {"model": "x", "timestamp": "2026-01-05T00:00:00Z", "tokens": 12, "cost": 0.5},
}


@contextmanager
def ours(kind: str, home: Path, archive: Path, *more: str) -> Iterator[str]:
    """`beforehand a2a KIND` in a process of its own; its address."""
    command = [sys.executable, "-m", "beforehand", "a2a", kind, "--port", "0"]
    whole = [*command, "--archive", str(archive), *more]
    with Program(whole, stderr=subprocess.PIPE, text=True, cwd=home) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert " agent at http://" in line, line
        try:
            yield line.split(" at ")[1].split(" ")[0].rstrip("/")
        finally:
            process.terminate()
            assert process.wait(30) == 0


Reply = Callable[[dict[str, Any]], Any]


class Stranger:
    """An agent of someone else: its card, and what it says to each method."""

    def __init__(self, version: str = "1.0", **replies: Reply) -> None:
        self.version, self.replies, self.vendor = version, replies, Vendor()
        self.vendor.route(".well-known", "/agent-card.json", self.card)
        self.vendor.route("agent", "/rpc", self.rpc)
        self.card_of: Callable[[str], Any] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.vendor.port}"

    def card(self, _: Asked) -> Any:
        place = f"{self.url}/agent/rpc"
        if self.card_of is not None:
            return self.card_of(place)
        if self.version == "0.3":
            return {"url": place, "preferredTransport": "JSONRPC", "protocolVersion": "0.3.0"}
        one = {"url": place, "protocolBinding": "JSONRPC", "protocolVersion": self.version}
        return {"name": "x", "supportedInterfaces": [one]}

    def rpc(self, asked: Asked) -> Any:
        name = asked.body["method"].replace("/", "_")
        found = self.replies[name](asked.body["params"])
        if isinstance(found, dict) and "error" in found:
            return {"jsonrpc": "2.0", "id": asked.body["id"], **found}
        return {"jsonrpc": "2.0", "id": asked.body["id"], "result": found}


def message(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"messageId": "1", "role": "ROLE_AGENT", "parts": list(parts)}


def task(state: str, *parts: dict[str, Any]) -> dict[str, Any]:
    kept = [{"artifactId": "1", "parts": list(parts)}] if parts else []
    return {"id": "t1", "contextId": "c", "status": {"state": state}, "artifacts": kept}


def asked(stranger: Stranger, tmp_path: Path, timeout: float = 5.0) -> Any:
    """What it decides about one context."""
    opening = Opening(Workspace(Home(tmp_path)), timeout=timeout)
    found = open_forecaster(f"a2a:{stranger.url}", opening)
    assert isinstance(found, Forecaster)
    found.ready()
    return found.decide(SEEN, CallCounter())


@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_answers_in_every_form(version: str, tmp_path: Path) -> None:
    """As data, as text with words around it, as a task's artifact, in a task that works on."""
    send, get = ("message_send", "tasks_get") if version == "0.3" else ("SendMessage", "GetTask")
    prose = f"Here you are:\n{json.dumps(FORECAST)}\nGood luck."
    for reply in (
        message({"data": FORECAST}),
        message({"text": prose}),
        message({"text": '{"probability": 0.3, "analysis": "Dry."}'}),
        {"message": message({"data": FORECAST})},
        {"task": task("TASK_STATE_COMPLETED", {"data": FORECAST})},
        task("completed", {"text": prose}),
        task("TASK_STATE_WORKING"),
    ):
        seen = list[Any]()

        def said(params: Any, reply: Any = reply, seen: list[Any] = seen) -> Any:
            seen.append(params["message"])
            return reply

        later = {get: lambda _: task("completed", {"data": FORECAST})}
        stranger = Stranger(version, **{send: said, **later})
        with serving(stranger.vendor):
            made = asked(stranger, tmp_path)
        assert (made.probability, made.rationale) == (0.3, "Dry.")
        (sent,) = seen
        data = next(part["data"] for part in sent["parts"] if "data" in part)
        assert json.loads(next(p["text"] for p in sent["parts"] if "text" in p)) == data
        assert data["event"]["id"] == "KALSHI:m"
        assert data["event"]["question"] == "Rain?"
        assert data["event"]["baseline_probability"] == 0.4
        assert sent["role"] == ("user" if version == "0.3" else "ROLE_USER")
        if made.evidence:
            news, fact = made.evidence
            assert (news.type, news.timestamp) == ("news", "2026-01-04T00:00:00Z")
            assert (fact.timestamp, fact.value, fact.period) == (None, 5.0, "2025-12-31")


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (
            {"error": {"code": -32601, "message": "no such method"}},
            "it refused the message: no such",
        ),
        (message({"text": "I do not know."}), "without a probability|no probability|probability"),
        (message({"data": {"probability": 30}}), "percent, it seems"),
        (message({"data": {"probability": "not 0.3"}}), "may mean another"),
        (task("TASK_STATE_FAILED"), "probability"),
        (None, "probability"),
        ([], "probability"),
        (task("TASK_STATE_WORKING"), "it works on after 0.2 s"),
    ],
)
def test_what_is_no_forecast_fails_one_decision(reply: Any, said: str, tmp_path: Path) -> None:
    stranger = Stranger(SendMessage=lambda _: reply, GetTask=lambda _: reply)
    with serving(stranger.vendor), pytest.raises(BadAnswer, match=said):
        asked(stranger, tmp_path, 0.2)


def test_cards_that_lead_elsewhere(tmp_path: Path) -> None:
    """Another host is not asked, whatever a card says; nor one that speaks something else."""
    for made, said in (
        (lambda _: {"supportedInterfaces": [
            {"url": "http://127.0.0.1:1/steal", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ]}, "says that it takes messages at '127.0.0.1:1'"),
        (lambda url: {"supportedInterfaces": [{"url": url, "protocolBinding": "GRPC"}]}, "names no address for A2A"),
        (lambda _: {}, "names no address for A2A over JSON-RPC"),
        (lambda _: {"supportedInterfaces": "x", "url": 7}, "names no address for A2A"),
    ):  # fmt: skip
        stranger = Stranger(SendMessage=lambda _: message({"data": FORECAST}))
        stranger.card_of = made
        with serving(stranger.vendor), pytest.raises(InputError, match=said):
            asked(stranger, tmp_path)
        assert all("/rpc" not in one.path for one in stranger.vendor.log)
    with pytest.raises(Unavailable, match="the agent"):
        open_forecaster("a2a:http://127.0.0.1:9", Opening(Workspace(Home(tmp_path)))).ready()
    with pytest.raises(InputError, match="an address must hold no key"):
        open_forecaster("a2a:http://127.0.0.1:9/?token=abc", Opening(Workspace(Home(tmp_path))))


def deep(n: int) -> dict[str, Any]:
    found: dict[str, Any] = {"data": {"probability": 0.5}}
    for _ in range(n):
        found = {"x": found}
    return found


@pytest.mark.parametrize("reply", [message({"data": deep(300)}), {"task": deep(600)}, message({"data": {"error": "no price is known"}})])  # fmt: skip
def test_answers_that_nest_and_errors_that_are_said(reply: Any, tmp_path: Path) -> None:
    stranger = Stranger(SendMessage=lambda _: reply)
    with (
        serving(stranger.vendor),
        pytest.raises(BadAnswer, match=r"probability|too deeply|no price"),
    ):
        asked(stranger, tmp_path)


def test_a_look_that_fails_sends_nothing_again(tmp_path: Path) -> None:
    """The task was taken, and paid: only looks are repeated, until it is done or its time is up."""
    sent, looks = list[Any](), list[Any]()

    def send(params: Any) -> Any:
        sent.append(params)
        return task("TASK_STATE_WORKING")

    def look(params: Any) -> Any:
        looks.append(params)
        return (
            {"error": {"code": -1, "message": "busy"}}
            if len(looks) < 3
            else task("completed", {"data": FORECAST})
        )

    stranger = Stranger(SendMessage=send, GetTask=look)
    plain = stranger.rpc
    stranger.vendor.route("agent", "/rpc", lambda a: 503 if a.body["method"] == "GetTask" and len(looks) < 3 and not looks.append(a) else plain(a))  # fmt: skip
    with serving(stranger.vendor):
        assert asked(stranger, tmp_path, 30.0).probability == 0.3
    assert len(sent) == 1


def test_cited_items_without_a_time_stay_and_fail(tmp_path: Path) -> None:
    """A bare date is no time: the item is kept, so that the audit sees it; and who cites nothing
    is not made to cite the price."""
    late = {
        "probability": 0.4,
        "rationale": [{"type": "news", "source": "d9", "timestamp": "2099-01-01"}],
    }
    stranger = Stranger(SendMessage=lambda _: message({"data": late}))
    with serving(stranger.vendor):
        (line,) = asked(stranger, tmp_path).evidence
    assert (line.type, line.source, line.timestamp) == ("news", "d9", None)
    stranger = Stranger(SendMessage=lambda _: message({"data": {"probability": 0.4}}))
    with serving(stranger.vendor):
        assert asked(stranger, tmp_path).evidence == []


@pytest.mark.parametrize("url", ["http://[bad", "http://[::1", "http://[x]/"])
def test_cards_with_no_address(url: str, tmp_path: Path) -> None:
    stranger = Stranger(SendMessage=lambda _: message({"data": FORECAST}))
    stranger.card_of = lambda place: {"url": url, "supportedInterfaces": [
        {"url": "http://public.example/", "protocolBinding": "JSONRPC"},
        {"url": f"{place}?tenant=7", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
    ]}  # fmt: skip
    with serving(stranger.vendor):
        assert asked(stranger, tmp_path).probability == 0.3
    assert [one.query for one in stranger.vendor.log if one.path == "/rpc"] == [[("tenant", "7")]]


@pytest.mark.parametrize(
    "said",
    [
        {"participants": {"purple": "http://127.0.0.1:1,y=python:this:s"}},
        {"participants": {"purple": "python:this:s"}},
        {"participants": {"purple": 7}},
        {"participants": {"purple": "http://127.0.0.1:1 ,openai:gpt-5"}},
        {"participants": {"a b": "http://127.0.0.1:1", "a_b": "http://127.0.0.1:2"}},
        {"participants": {"a": "http://127.0.0.1:1"}, "config": {"seed": "abc"}},
        {"participants": {"a": "http://127.0.0.1:1"}, "config": {"draws": []}},
        {"participants": {"a": "http://127.0.0.1:1"}, "config": {"horizon": 7}},
        {"participants": [], "config": {}},
    ],
)
def test_green_opens_nothing_but_addresses(said: Any, sim: Path, home: Path) -> None:
    green = opened("green", sim, Workspace(Home(home)), None, print)
    with pytest.raises(InputError):
        green(said)


def test_a_round_with_the_purple_agent_over_a2a(sim: Path, home: Path, capsys: Out) -> None:
    """Over the wire and in the process it says the same, in every record; each is paid once, also
    when the run is made again from its journal; and the run is sound."""
    with ours("purple", home, sim) as url:
        done = told(
            capsys, "bench", "run", "--archive", str(sim), "--run-id", "r", *FEW,
            "--forecasters", f"market,agent:purple,far=a2a:{url}",
        )  # fmt: skip
    lines = (home / "data" / "runs" / "r" / "predictions.jsonl").read_text().splitlines()
    records: dict[str, dict[str, Any]] = {"far": {}, "agent:purple": {}}
    for line in lines:
        record = json.loads(line)
        if (who := record["metadata"]["predictor_id"]) in records:
            records[who][record["id"]] = record["prediction"]
    assert records["far"] == records["agent:purple"]
    assert len(records["far"]) > 50
    rows = {row["forecaster"]: row for row in done["leaderboard"]}
    assert rows["far"]["isolation"] == "trusted"
    assert done["audit"]["passed"] == done["audit"]["total"]
    assert told(capsys, "runs", "verify", "r")["sound"]


def test_the_sdk_plays_with_both(sim: Path, home: Path) -> None:
    """Its client sends an event to purple, and a whole round to green."""
    from beforehand.gateway.gateway import Gateway
    from beforehand.gateway.worlds.recorded import RecordedWorld
    from beforehand.store.archive.reader import Archive

    view = Gateway(RecordedWorld(Archive(sim))).full_view()
    ending = view.resolutions()[0]
    event = {
        "id": ending.market_id, "question": "Whatever it asks.",
        "forecast_at": ending.resolved_at.isoformat(),
    }  # fmt: skip
    fact = {
        "id": "edgar:next", "question": "Will revenues exceed 1 USD?", "forecast_at": "2025-12-01T00:00:00Z",
        "resolves_by": {"kind": "xbrl_fact", "cik": "1", "concept": "Revenues", "unit": "USD",
                        "period": "2026-03-31", "above": 1},
    }  # fmt: skip

    async def told_by(url: str, *messages: Any) -> list[Any]:
        async with httpx.AsyncClient(timeout=120) as http:
            client = await create_client(url, client_config=ClientConfig(httpx_client=http))
            found = []
            for said in messages:
                sent = new_message([new_data_part(said)], role=Role.ROLE_USER)
                async for reply in client.send_message(SendMessageRequest(message=sent)):
                    found += get_data_parts(reply.message.parts)
            return found

    with ours("purple", home, sim) as url:
        late = {**event, "forecast_at": "2099-01-01T00:00:00Z"}
        market, again, later, nothing, value = asyncio.run(
            told_by(url, event, {"event": event}, late, {"x": 1}, fact)
        )
        assert market == again
        record = PredictionRecord.model_validate(market)
        assert record.id == ending.market_id
        assert record.prediction.rationale
        assert "which is not yet" in later["error"]
        assert "no EventSpec was sent" in nothing["error"]
        assert "no price and no reported value" in value["error"] or value["prediction"]
        with ours("green", home, sim) as green:
            config = {"horizon": "30d", "draws": 100, "placebo": 0}
            played, refused = asyncio.run(
                told_by(
                    green,
                    {"participants": {"purple": url}, "config": config},
                    {"participants": {}},
                )
            )
        assert played["winner"] == "market"
        names = [row["forecaster"] for row in played["detail"]["leaderboard"]]
        assert sorted(names) == ["market", "purple"]
        assert "participants" in refused["error"]


def test_servers_are_for_this_machine(sim: Path, home: Path, capsys: Out) -> None:
    for more, said in (
        (["purple", "--host", "0.0.0.0"], "agents are served to this machine alone"),
        (["green", "--model", "local"], "--model is the purple agent's"),
        (["purple", "--model", "openai:gpt-5"], "OPENAI_API_KEY"),
    ):
        assert cli(["a2a", *more, "--archive", str(sim), "--port", "0"]) in (1, 2)
        assert said in capsys.readouterr().err
