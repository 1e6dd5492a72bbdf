"""What an attacker found, and does not find again: files written by name, programs run by callers,
requests that take all memory, keys that make two runs, damaged files, links, stale answers."""

import base64
import json
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from apiserver import Api, api
from serving import command, token
from test_refused import refused
from test_starting import CSV

import beforehand as bh
from beforehand.errors import BadAnswer, BeforehandError, InputError
from proofs import some

EVIL = "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\ndef f(context):\n    return 0.5\n"


def test_no_name_of_a_caller_is_part_of_a_path(serving: Api, tmp_path: Path) -> None:
    content = (serving.home / "mine.csv").read_bytes()
    for name in (str(tmp_path / "PWN"), "../../../../tmp/PWN", "a/b", "x" * 64):
        answer = serving.post(f"/api/scores?archive=sim&draws=100&placebo=0&name={name}", content, **CSV)  # fmt: skip
        assert answer.status_code in (201, 422), answer.text
    assert [p.name for p in tmp_path.iterdir()] == ["home"]
    assert not list(Path("/tmp").glob("PWN*"))
    assert not list((serving.home / "workspace" / "engine" / "uploads").iterdir())
    refused(serving.post("/api/scores?archive=sim&name=a%00b", content, **CSV), 422)


def test_no_caller_runs_a_program(made: Path, tmp_path: Path) -> None:
    """Neither under another name, nor in a configuration, nor by a fork or a resume of a run that
    the owner began."""
    evil = tmp_path / "evil.py"
    evil.write_text(EVIL)
    own = command(made, "backtest", "run", "--archive", "data/sim", "--every", "28d", "--draws", "100",
                  "--placebo", "0", "--forecasters", f"market,f=python:{evil}:f", "--run-id", "own")  # fmt: skip
    assert own.returncode in (0, 3), own.stderr
    ran = evil.with_suffix(".ran")
    assert ran.exists(), "the owner may"
    (made / "data" / "runs" / "own" / "run.json").unlink()
    with api(made, "--archive", "data/sim", "--auth", "token") as guarded:
        ran.unlink()
        text = token(made, "--user", "mallory", "--scopes", "read,start")
        entry = f"python:{evil}:f"
        config = {"market_id": "m0000", "start_time": "2025-01-13T00:00:00Z", "end_time": "2025-01-20T00:00:00Z",
                  "interval_minutes": 10080, "models": [entry], "mode": "external"}  # fmt: skip
        for body in (
            {"forecasters": [entry]}, {"forecasters": [f"A=B={entry}"]}, {"forecasters": [f"A={entry}"]},
            {"forecasters": [f"market,{entry}"]}, {"forecasters": ["market", f" {entry}"]},
            {"configs": [config]}, {"forecasters": [f"A=B=C={entry}"]},
        ):  # fmt: skip
            answer = guarded.post("/api/backtests?dry_run=true", body, text)
            assert answer.status_code in (403, 422), (body, answer.text)
            assert guarded.post("/api/backtests", body, text).status_code in (403, 422)
        for model in (f"market={entry}", f"market=A=B={entry}"):
            fork = {"at": "2025-02-03", "models": [model]}
            assert guarded.post("/api/runs/walk/fork", fork, text).status_code in (403, 422)
        again = guarded.post("/api/runs/own/fork", {"at": "2025-02-03", "models": ["market=drift"]}, text)  # fmt: skip
        assert again.status_code == 403
        assert not ran.exists()
    shutil.rmtree(made / "data" / "runs" / "own")


def test_one_key_makes_one_scored_run(serving: Api) -> None:
    """Six at once; then a server that was killed while it scored."""
    content = (serving.home / "mine.csv").read_bytes()
    path = "/api/scores?archive=sim&draws=200&placebo=0"
    key = {**CSV, "Idempotency-Key": "score-1"}
    with ThreadPoolExecutor(6) as pool:
        answers = [
            f.result() for f in [pool.submit(serving.post, path, content, **key) for _ in range(6)]
        ]
    done = [a for a in answers if a.status_code in (200, 201)]
    assert len({a.json()["run_id"] for a in done}) == 1
    assert [a.status_code for a in done].count(201) == 1
    assert {a.status_code for a in answers} <= {200, 201, 503}
    with api(serving.home, "--archive", "data/sim") as other:
        key = {**CSV, "Idempotency-Key": "score-2"}
        before = {p.name for p in (serving.home / "data" / "runs").iterdir()}

        def send() -> None:
            try:
                other.post(f"{path}&draws=20000", content, **key)
            except httpx2.HTTPError:
                return

        sending = threading.Thread(target=send)
        sending.start()
        while not {p.name for p in (serving.home / "data" / "runs").iterdir()} - before:
            time.sleep(0.005)
        other.kill()
        sending.join()
    with api(serving.home, "--archive", "data/sim") as third:
        answer = third.post(f"{path}&draws=20000", content, **key)
        assert answer.status_code in (200, 201), answer.text
        made = {p.name for p in (serving.home / "data" / "runs").iterdir()} - before
        assert made == {answer.json()["run_id"]}


def _cursor(*parts: Any) -> str:
    return (
        base64.urlsafe_b64encode(json.dumps(parts, separators=(",", ":")).encode())
        .decode()
        .rstrip("=")
    )


def test_forged_cursors_and_numbers(serving: Api) -> None:
    for name in ("forecasts", "intervals", "evidence", "failures"):
        for parts in ([2**63 + 1, 0], [10**12, 0], [5, 0], [-1, 0], [0, 2**63], [True, 0], ["0", 0], [None, None]):  # fmt: skip
            answer = serving.get(f"/api/runs/walk/{name}", cursor=_cursor(name, *parts))
            assert answer.status_code in (200, 422), (name, parts, answer.text)
    t = "2025-02-03T00:00:00Z"
    for parts in ([5, "x"], [None, "x"], [["2025"], "z"], ["2025-01-13T12:00:00Z", 5], ["9999-01-01", "x"]):  # fmt: skip
        cursor = _cursor(f"documents/{t}", *parts)
        answer = serving.get("/api/archives/sim/documents", t=t, cursor=cursor)
        assert answer.status_code in (200, 422), (parts, answer.text)
    for number in ("\u00b2", "9" * 5000, "1.5", ""):
        headers = {"Last-Event-ID": number.encode("latin-1")}
        answer = httpx2.get(f"{serving.url}/api/runs/walk/events", headers=headers)  # type: ignore[arg-type]
        refused(answer, 422, "Last-Event-ID")


DAMAGE: list[tuple[str, str]] = [
    ("scores.json", "[]"), ("scores.json", "null"), ("scores.json", '{"leaderboard": null}'),
    ("scores.json", '{"leaderboard": [1]}'), ("config.json", "[]"), ("config.json", '{"short": 5}'),
    ("resolutions.jsonl", "{}"), ("traces.jsonl", '{"a": 1}'), ("traces.jsonl", "[1]"),
    ("plan.json", '{"steps": ["x"]}'), ("plan.json", '{"steps": [{"id": 1, "action": 2, "deps": 5}]}'),
    ("run.json", '{"run_id": "walk", "status": "success", "form": 1, "files": []}'), ("run.json", "x"),
    ("intervals.jsonl", '{"x": 1}'), ("events.jsonl", "[]"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), some("damages of a run's files", DAMAGE[::5], DAMAGE))
def test_damaged_files_are_said_to_be_damaged(serving: Api, name: str, text: str) -> None:
    """Never a 500, never a path; and what was right before is right after."""
    folder = serving.home / "data" / "runs" / "walk"
    kept = (folder / name).read_bytes()
    (folder / name).write_text(text)
    try:
        for path in (
            "", "/leaderboard", "/forecasts", "/intervals", "/evidence", "/failures", "/traces", "/steps",
            "/files", "/verify", "/config", "/calibration?forecaster=drift", "/diff?other=benched",
            "/calibration/questions?forecaster=drift&bin=3", f"/files/{name}",
        ):  # fmt: skip
            answer = serving.get(f"/api/runs/walk{path}")
            assert answer.status_code in (200, 404, 409, 422), (path, answer.text)
            assert str(serving.home) not in answer.text, path
        both = serving.get("/api/comparisons", a="walk:drift", b="walk:market")
        assert both.status_code in (200, 404, 409, 422), both.text
        assert serving.get("/api/runs").status_code == 200
    finally:
        (folder / name).write_bytes(kept)
    assert serving.get("/api/runs/walk/verify").json()["sound"]
    assert serving.get("/api/runs/walk/forecasts").status_code == 200


def test_a_damaged_archive_hides_no_other(serving: Api) -> None:
    broken = serving.home / "data" / "broken"
    broken.mkdir()
    (broken / "archive.json").write_text("{}")
    try:
        rows = {row["name"]: row for row in serving.json("/api/archives")["items"]}
        assert rows["sim"]["problem"] is None
        assert rows["broken"]["problem"]
        assert str(serving.home) not in rows["broken"]["problem"]
        refused(serving.get("/api/archives/broken"), 409)
        refused(serving.get("/api/archives/broken/markets"), 409)
        assert serving.json("/api/runs/walk")["archive"] == "sim"
    finally:
        shutil.rmtree(broken)


def test_a_link_is_not_followed(serving: Api, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"secret": "outside"}')
    folder = serving.home / "data" / "runs" / "walk"
    link = folder / "link.json"
    link.symlink_to(secret)
    other = serving.home / "data" / "runs" / "linked"
    other.symlink_to(folder)
    try:
        for path in ("config", "forecasts", "files", "files/link.json", "leaderboard"):
            refused(serving.get(f"/api/runs/walk/{path}"), 403, "is a link")
            assert serving.get(f"/api/runs/linked/{path}").status_code in (403, 404, 409)
    finally:
        link.unlink()
        other.unlink()
    assert serving.get("/api/runs/walk/config").status_code == 200


def test_an_answer_is_never_older_than_its_files(serving: Api) -> None:
    """Rows that are changed without the seal are not answered from what was kept."""
    folder = serving.home / "data" / "runs" / "walk"
    first = serving.get("/api/runs/walk/forecasts", limit=3)
    kept = (folder / "intervals.jsonl").read_bytes()
    lines = kept.splitlines(keepends=True)
    (folder / "intervals.jsonl").write_bytes(b"".join(lines[1:]))
    try:
        headers = {"If-None-Match": first.headers["etag"]}
        again = httpx2.get(f"{serving.url}/api/runs/walk/forecasts?limit=3", headers=headers)
        assert again.status_code == 200
        assert again.json()["items"] != first.json()["items"]
    finally:
        (folder / "intervals.jsonl").write_bytes(kept)
    assert serving.get("/api/runs/walk/forecasts", limit=3).json() == first.json()


def test_busy_with_long_answers(serving: Api) -> None:
    """Twenty checks of a run at once: some are told to wait, and others are answered meanwhile."""
    statuses: list[int] = []
    threads = [
        threading.Thread(target=lambda: statuses.append(serving.get("/api/runs/walk/verify").status_code))
        for _ in range(20)
    ]  # fmt: skip
    for one in threads:
        one.start()
    began = time.monotonic()
    assert serving.get("/api/health").status_code == 200
    assert time.monotonic() - began < 5
    for one in threads:
        one.join()
    assert set(statuses) == {200, 503}


def test_pages_of_other_sites(serving: Api) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    refused(httpx2.get(f"{serving.url}/api/runs", headers=headers), 403)
    body = {**headers, "Content-Type": "text/plain"}
    refused(httpx2.post(f"{serving.url}/api/asks", content=b"{}", headers=body), 403)
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert httpx2.get(serving.url, headers=link).status_code == 200, "a link may lead here"


def test_no_line_of_the_log_is_forged(made: Path) -> None:
    with api(made, "--archive", "data/sim", "--auth", "token") as guarded:
        assert guarded.get("/api/runs%0aFORGED 200").status_code == 401
        time.sleep(0.5)
    assert any("FORGED" in line for line in guarded.said)
    assert not any(line.startswith("FORGED") for line in guarded.said)


class _Liar(BaseHTTPRequestHandler):
    """A server that is none of ours."""

    said: tuple[int, bytes] = (200, b"{}")

    def do_GET(self) -> None:
        status, body = self.said
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:9/")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.mark.parametrize(
    "said",
    [(200, b"{}"), (200, b'{"run_id": 5}'), (200, b'{"run_id": "../../x"}'), (200, b"<html>"), (302, b""),
     (304, b""), (404, b'{"error": ["x"], "detail": 5}'), (500, b""), (200, b"[]"), (200, b'{"run_id": "/etc"}')],
)  # fmt: skip
def test_the_client_and_a_server_that_lies(said: tuple[int, bytes], tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Liar", (_Liar,), {"said": said}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with bh.Client(f"http://127.0.0.1:{server.server_address[1]}") as client:
            with pytest.raises(BeforehandError) as caught:
                _ = client.open_run("x").summary
            assert said[0] != 200 or isinstance(caught.value, (BadAnswer, InputError)), caught.value
    finally:
        server.shutdown()
        server.server_close()


def test_a_changed_file_is_not_handed_out(made: Path, tmp_path: Path) -> None:
    """Neither a report with another verdict, nor a headline whose seal was redone."""
    home = tmp_path / "copy"
    shutil.copytree(made, home)
    with api(home, "--archive", "data/sim") as found:
        run = found.get("/api/runs?limit=1&status=success").json()["items"][0]["run_id"]
        folder = home / "data" / "runs" / run
        name, facts = "scores.json", json.loads((folder / "run.json").read_text())
        assert found.get(f"/api/runs/{run}/files/{name}").status_code == 200
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole.replace(b"not shown", b"beats the market", 1) + b" ")
        answer = refused(found.get(f"/api/runs/{run}/files/{name}"), 409)
        assert "was changed or removed after run" in answer["detail"]
        (folder / name).write_bytes(whole)
        assert found.get(f"/api/runs/{run}/files/{name}").status_code == 200
        (folder / "run.json").write_text(json.dumps({**facts, "headline": "it beats the market"}))
        refused(found.get(f"/api/runs/{run}/files/{name}"), 409)
        listed = {each["run_id"]: each for each in found.get("/api/runs").json()["items"]}
        assert listed[run]["headline"].startswith("CHANGED AFTER THE RUN: run.json")
        assert found.get(f"/api/runs/{run}").json()["changed"] == ["run.json"]
