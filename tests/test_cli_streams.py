"""Where output goes: streams that hold few signs, or none at all."""

import io
import json
import sys

import pytest

from beforehand.cli.app import run as cli
from beforehand.cli.clean import open_streams
from beforehand.cli.output import emit

SIGNS = "Brier ↓ 0.1 – 0.2 × 3 … € 😀 ж \udce9"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_signs_go_where_they_can(
    encoding: str, errors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(held, encoding, errors))
    open_streams()
    print(SIGNS)
    print("{" + f'"a": "{SIGNS[:-1]}"' + "}")
    sys.stdout.flush()
    first, second = held.getvalue().decode(encoding).splitlines()
    if encoding == "utf-8":
        assert first == SIGNS[:-1] + "\\udce9"
    else:
        assert first.startswith("Brier v 0.1 ")
        assert "\\u0436" in first
    assert json.loads(second)["a"].endswith("😀 ж "), "what is escaped is escaped as JSON is"


def test_json_is_whole_on_any_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    held = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(held, "ascii"))
    emit({"a": SIGNS[:-1]})
    sys.stdout.flush()
    assert json.loads(held.getvalue()) == {"a": SIGNS[:-1]}


def test_no_stream_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert cli(["runs", "list"]) == 0
    assert cli(["runs", "show", "nothing"]) == 2
    for name in ("stdout", "stderr"):
        getattr(sys, name).close()
