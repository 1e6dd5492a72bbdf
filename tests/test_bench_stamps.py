"""RFC 3161 time stamps of a sealed log, from a real service on loopback (openssl's)."""

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from beforehand.cli.app import run as cli
from experiments import Out, told

CONFIG = """
[tsa]
default_tsa = one
[one]
serial = {folder}/serial
crypto_device = builtin
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha512
accuracy = secs:1
ess_cert_id_chain = no
[ca]
basicConstraints = critical,CA:true
keyUsage = critical,keyCertSign
[stamping]
basicConstraints = critical,CA:false
keyUsage = critical,digitalSignature
extendedKeyUsage = critical,timeStamping
[req]
distinguished_name = name
[name]
"""


def openssl(*order: str, text: bytes | None = None) -> bytes:
    return subprocess.run(["openssl", *order], input=text, capture_output=True, check=True).stdout


class Service:
    """A time stamp service with its own root."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.garbled = folder, False
        folder.mkdir()
        config = folder / "tsa.cnf"
        config.write_text(CONFIG.format(folder=folder))
        (folder / "serial").write_text("01")
        key = ("-newkey", "rsa:2048", "-nodes", "-config", str(config))
        openssl("req", "-x509", *key, "-keyout", str(folder / "ca.key"), "-out", str(folder / "ca.pem"),
                "-subj", "/CN=test root", "-days", "30", "-extensions", "ca")  # fmt: skip
        openssl("req", *key, "-keyout", str(folder / "tsa.key"), "-out", str(folder / "tsa.csr"), "-subj", "/CN=test tsa")  # fmt: skip
        openssl("x509", "-req", "-in", str(folder / "tsa.csr"), "-CA", str(folder / "ca.pem"), "-CAkey", str(folder / "ca.key"),
                "-CAcreateserial", "-out", str(folder / "tsa.pem"), "-days", "30", "-extfile", str(config), "-extensions", "stamping")  # fmt: skip

    @property
    def roots(self) -> str:
        return str(self.folder / "ca.pem")

    def answer(self, query: bytes) -> bytes:
        if self.garbled:
            return b"no stamp"
        (self.folder / "query").write_bytes(query)
        return openssl("ts", "-reply", "-queryfile", str(self.folder / "query"), "-config", str(self.folder / "tsa.cnf"))  # fmt: skip


@pytest.fixture
def service(tmp_path: Path) -> Iterator[tuple[Service, str]]:
    if shutil.which("openssl") is None:
        pytest.skip("it needs openssl")
    made = Service(tmp_path / "tsa")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == "application/timestamp-query"
            body = made.answer(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Type", "application/timestamp-reply")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True).start()
        yield made, f"http://127.0.0.1:{http.server_port}/stamp"
        http.shutdown()


def forecasts(path: Path, n: int, first: int = 0) -> Path:
    rows = [
        {"id": f"e{i}", "prediction": {"probability": 0.3}, "metadata": {"model": "m", "timestamp": "2026-01-01T00:00:00Z"}}
        for i in range(first, first + n)
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_stamp_says_when_a_log_existed(
    service: tuple[Service, str], home: Path, tmp_path: Path, capsys: Out
) -> None:
    """Signed by its root, and by no other; of a log that was made anew, cut short or stamped by
    something else it does not hold."""
    made, url = service
    log = tmp_path / "sealed.jsonl"
    order = ["bench", "seal", "--log", str(log), "--predictions"]
    first = told(capsys, *order, str(forecasts(tmp_path / "a.jsonl", 5)), "--timestamp", url)
    assert first["stamp"] == str(tmp_path / "sealed.jsonl.5.tsr")
    told(capsys, *order, str(forecasts(tmp_path / "b.jsonl", 3, 5)), "--timestamp", url)
    verify = ["bench", "verify", "--log", str(log)]
    bare = told(capsys, *verify)
    assert [(one["lines"], one["signed"], one["problem"]) for one in bare["stamps"]] == [(5, False, None), (8, False, None)]  # fmt: skip
    known = told(capsys, *verify, "--tsa-roots", made.roots)
    assert [one["signed"] for one in known["stamps"]] == [True, True]
    assert cli([*verify, "--tsa-roots", made.roots]) == 0
    assert "lines 1 to 5 existed at 20" in capsys.readouterr().out
    other = Service(tmp_path / "other")
    wrong = told(capsys, *verify, "--tsa-roots", other.roots, code=1)
    assert all("its signature does not hold" in text for text in wrong["problems"])
    whole = log.read_bytes()
    anew = tmp_path / "new" / "sealed.jsonl"
    anew.parent.mkdir()
    rows = forecasts(tmp_path / "c.jsonl", 8).read_text().replace("0.3", "0.9")
    (tmp_path / "c.jsonl").write_text(rows)
    told(capsys, "bench", "seal", "--log", str(anew), "--predictions", str(tmp_path / "c.jsonl"))
    log.write_bytes(anew.read_bytes())
    changed = told(capsys, *verify, "--tsa-roots", made.roots, code=1)
    assert sum("it stamps something else" in text for text in changed["problems"]) == 2
    log.write_bytes(b"".join(whole.splitlines(keepends=True)[:5]))
    cut = told(capsys, *verify, "--tsa-roots", made.roots, code=1)
    assert "the log has no line 8: it was cut short" in cut["problems"][0]
    log.write_bytes(whole)
    stamp = tmp_path / "sealed.jsonl.5.tsr"
    for content in (b"", b"no stamp", stamp.read_bytes()[:100]):
        stamp.write_bytes(content)
        assert "no time stamp" in told(capsys, *verify, code=1)["problems"][0]


def test_a_service_that_gives_none(
    service: tuple[Service, str], home: Path, tmp_path: Path, capsys: Out,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """What was sealed stays sealed; the stamp is missing, and it is said."""
    made, url = service
    made.garbled = True
    monkeypatch.setenv("BEFOREHAND_TSA", url)
    log = tmp_path / "sealed.jsonl"
    order = [
        "bench",
        "seal",
        "--log",
        str(log),
        "--predictions",
        str(forecasts(tmp_path / "a.jsonl", 2)),
    ]
    assert cli(order) == 1
    assert "gave no stamp" in capsys.readouterr().err
    assert len(log.read_text().splitlines()) == 2
    made.garbled = False
    again = told(capsys, *order)
    assert (again["sealed"], Path(again["stamp"]).name) == (0, "sealed.jsonl.2.tsr")
    assert cli([*order, "--timestamp", "http://127.0.0.1:9/"]) == 1
    assert cli([*order, "--timestamp", "nowhere"]) == 2
