"""Redirects: what a forecaster or a model is sent goes to nobody else; a source leads to its own hosts
alone."""

import asyncio
import json
from pathlib import Path

import httpx2
import pytest

from beforehand.cli.app import run as cli
from beforehand.errors import BadAnswer, BeforehandError
from beforehand.gateway import transport
from beforehand.gateway.transport import HttpTransport
from beforehand.jobs.backtest import ask
from beforehand.sources.base import Request
from beforehand.store.ledger import Ledger
from beforehand.traffic import Traffic
from experiments import QUICK, Out
from vendor import Vendor, serving

READ = Request("gamma", "markets", "/markets")


def gamma(vendor: Vendor, folder: Path) -> Traffic:
    return Traffic(Ledger(folder / "t.db"), HttpTransport(vendor.environment).send)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_context_is_posted_to_nobody_else(
    status: int, sim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    """The other service is never asked; each question is a recorded failure, and the run goes on to
    its end."""
    vendor = Vendor()
    vendor.route("other", "/answer", {"probability": 0.99})
    with serving(vendor):
        base = f"http://127.0.0.1:{vendor.port}"
        vendor.route("mine", "/forecast", (status, {"Location": f"{base}/other/answer"}, {}))
        monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path))
        monkeypatch.setattr(ask, "MOST_USELESS", 10**6)  # Else the run stops: another test.
        command = ["backtest", "run", "--archive", str(sim), "--every", "112d", "--json"]
        code = cli([*command, *QUICK, "--forecasters", f"market,{base}/mine/forecast"])
        assert code == 3
        scores = json.loads(capsys.readouterr().out)
    asked = vendor.counts()
    assert asked["/forecast"] > 5
    assert "/answer" not in asked
    assert scores["decisions"]["failed"] == asked["/forecast"]


def test_a_model_is_not_followed(
    sim: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Out
) -> None:
    vendor = Vendor()
    with serving(vendor):
        base = f"http://127.0.0.1:{vendor.port}"
        where = {"Location": f"{base}/other/elsewhere"}
        vendor.route("mine", "/v1/chat/completions", (307, where, {}))
        monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path))
        command = ["backtest", "run", "--archive", str(sim), "--every", "112d", "--json"]
        cli([*command, "--forecasters", f"market,m@{base}/mine/v1", "--mode", "direct_llm"])
    assert {asked.path for asked in vendor.log} == {"/v1/chat/completions"}
    capsys.readouterr()


def test_a_source_is_followed_at_home(tmp_path: Path) -> None:
    vendor = Vendor()
    with serving(vendor):
        base = f"http://127.0.0.1:{vendor.port}"
        vendor.route("gamma", "/markets", (302, {"Location": f"{base}/gamma/moved"}, {}))
        vendor.route("gamma", "/moved", [1])
        assert json.loads(gamma(vendor, tmp_path).fetch(READ).body) == [1]
        vendor.route("gamma", "/moved", (302, {"Location": f"{base}/gamma/markets"}, {}))
        with pytest.raises(BeforehandError):  # A circle ends.
            gamma(vendor, tmp_path).fetch(READ)
    assert len(vendor.log) <= 2 + 6 * 5


@pytest.mark.parametrize(
    ("start", "target", "said"),
    [
        ("https://gamma-api.polymarket.com/m", "https://evil.example/m", "is not followed"),
        ("https://gamma-api.polymarket.com/m", "http://gamma-api.polymarket.com/m", "http://"),
        ("https://gamma-api.polymarket.com/m", "file:///etc/passwd", "file://"),
        ("https://gamma-api.polymarket.com/m", "https://127.0.0.1/m", "is not followed"),
        ("http://127.0.0.1:1/m", "http://127.0.0.2:1/m", "is not followed"),
        ("https://localtest.example/m", "https://inner.localtest.example/m", "no public address"),
    ],
)
def test_a_hop_that_is_not_taken(
    start: str, target: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "_is_public", private)
    with pytest.raises(BadAnswer, match=said):
        hop(start, target)


def test_another_owner_is_not_followed_although_it_is_public(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport, "_is_public", public)
    with pytest.raises(BadAnswer, match=r"to evil\.example is not followed"):
        hop("https://gamma-api.polymarket.com/m", "https://evil.example/m")


def test_a_hop_that_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    start, target = "https://data.example.org/a", "https://files.example.org/b"
    monkeypatch.setattr(transport, "_is_public", public)
    assert hop(start, target) == target
    assert hop(start, "/c") == "https://data.example.org/c"


def test_an_address_of_this_network_is_not_public() -> None:
    for host in ("127.0.0.1", "10.0.0.1", "169.254.169.254", "localhost", "::1"):
        assert not asyncio.run(transport._is_public(host))
    assert asyncio.run(transport._is_public("1.1.1.1"))


async def private(host: str) -> bool:
    return False


async def public(host: str) -> bool:
    return True


def hop(start: str, target: str) -> str:
    request = httpx2.Request("GET", start)
    response = httpx2.Response(302, headers={"Location": target}, request=request)
    return asyncio.run(transport._next_hop(response))
