"""Ways in that once ended in silence: a dead address, text grades, two forecasters by name, a server
without an archive."""

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from beforehand.cli.app import run as cli
from beforehand.config import Home

Out = pytest.CaptureFixture[str]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("BEFOREHAND_HOME", str(tmp_path))
    return Home(tmp_path)


@pytest.fixture
def counting() -> Iterator[tuple[str, list[str]]]:
    """A forecaster's address, and what was asked there."""
    asked = list[str]()

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers["Content-Length"]))
            body = b'{"probability": 0.5}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/decide", asked
        server.shutdown()


def test_a_dead_address_ends_before_the_run(home: Home, sim: Path, capsys: Out) -> None:
    asked = ["--archive", str(sim), "--every", "56d", "--run-id", "r"]
    for forecaster in ("http://127.0.0.1:9/decide", "any@http://127.0.0.1:9/v1"):
        assert cli(["backtest", "run", "--forecasters", forecaster, *asked]) == 1
        said = capsys.readouterr().err
        assert "at http://127.0.0.1:9/" in said
        assert "does its server run?" in said
        assert not home.runs.exists() or not list(home.runs.iterdir())
    assert cli(["runs", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == []


def test_a_living_address_is_only_connected_to(
    home: Home, sim: Path, counting: tuple[str, list[str]], capsys: Out
) -> None:
    address, asked = counting
    order = ["--archive", str(sim), "--every", "56d", "--run-id", "r", "--placebo", "0"]
    assert cli(["backtest", "run", "--forecasters", address, *order, "--json"]) == 0
    board = json.loads(capsys.readouterr().out)["leaderboard"]
    row = next(row for row in board if row["forecaster"] == address)
    # One question a forecast, and none to find out whether anybody is there.
    short = json.loads((home.runs / "r" / "config.json").read_text())["short"]
    assert len(asked) == row["n"] + len(short)


def test_two_forecasters_by_name(home: Home, sim: Path, capsys: Out) -> None:
    order = ["--archive", str(sim), "--draws", "200", "--run-id", "ab", "--json"]
    assert cli(["backtest", "ab", "--a", "drift", "--b", "mine=extremised", *order]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [arm["arm"] for arm in found["arms"]] == ["drift", "mine"]
    assert found["arms"][1]["verdict"]
    assert (home.runs / "ab-mine" / "scores.json").is_file()
    for wrong, said in (
        (["--a", "drift"], "name two forecasters"),
        (["--a", "drift", "--b", "drift"], "both arms are called drift"),
        (["x.json", "y.json", "--a", "drift"], "not both"),
        (["--a", "drift", "--b", "shrunk", "--start", "2026-01-01", "--end", "2025-01-01"], "end"),
    ):
        assert cli(["backtest", "ab", *wrong, *order]) == 2
        assert said in capsys.readouterr().err


def test_a_document_captured_later_counts_under_published(
    home: Home, tmp_path: Path, capsys: Out
) -> None:
    rows = [
        {"id": "d1", "title": "Cobalt cobalt strike", "text": "cobalt strike at the mine"},
        {"id": "d2", "title": "Cobalt strike ends", "text": "the cobalt strike ends"},
    ]
    rows[0] |= {"published_at": "2025-03-01", "captured_at": "2025-06-01T00:00:00Z"}
    rows[1] |= {"published_at": "2025-06-02", "captured_at": "2025-05-01T00:00:00Z"}
    (tmp_path / "d.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    assert cli(["world", "import", "documents", str(tmp_path / "d.jsonl")]) == 0
    capsys.readouterr()

    def found(t: str, grade: str) -> set[str]:
        asked = ["tool", "search", "--arg", "query=cobalt strike", "--as-of", t]
        assert cli([*asked, "--grade", grade, "--json"]) == 0
        return {one["id"] for one in json.loads(capsys.readouterr().out)["results"]}

    assert found("2025-03-01T12:00:00Z", "published") == set()  # A bare date: the end of the day.
    assert found("2025-03-02T00:00:00Z", "published") == {"d1"}
    assert found("2025-05-31T00:00:00Z", "captured") == set()
    assert found("2025-06-01T00:00:00Z", "captured") == {"d1"}
    # What says that it was captured before it was published counts from the later instant.
    assert found("2025-06-02T12:00:00Z", "captured") == {"d1"}
    assert found("2025-06-03T00:00:00Z", "captured") == {"d1", "d2"}


def test_a_server_without_an_archive_serves_live(home: Home, sim: Path) -> None:
    from beforehand.cli.mcp import mode_of
    from beforehand.serve.backend import SERVING

    assert mode_of(None, None, None) == "live"
    assert mode_of(None, "2025-01-01", None) == "replay"
    assert mode_of(None, None, sim) == "replay"
    assert mode_of("record", None, sim) == "record"
    assert set(SERVING) == {"replay", "live", "record"}
