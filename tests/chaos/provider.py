"""A forecaster that bills, on loopback: it counts what it was asked, and when."""

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Asked:
    """One request: its idempotency key, when it came, and how it was answered."""

    key: str
    at: float
    status: int
    path: str


class Provider:
    """Answers `{"probability": …}`, the same for the same question. `shaky` fails the first
    attempt at one key in so many with 503; `hang` never answers."""

    def __init__(self, latency: float = 0.01, shaky: int = 0) -> None:
        self.latency, self.shaky, self.hang = latency, shaky, False
        self.log: list[Asked] = []
        self.running = self.most = 0
        self.port = 0
        self.here = threading.local()
        """What the request at work carries besides: `here.run`."""
        self._lock = threading.Lock()
        self._tried: Counter[str] = Counter()

    def address(self, path: str = "/forecast") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def paid(self) -> Counter[str]:
        """How often each key was carried out, and so billed."""
        with self._lock:
            return Counter(asked.key for asked in self.log if asked.status == 200)

    def answer(self, key: str, path: str, body: bytes, index: str) -> tuple[int, bytes]:
        with self._lock:
            self._tried[key] += 1
            first = self._tried[key] == 1
            self.running += 1
            self.most = max(self.most, self.running)
        shaky = self.shaky and int(key[:8], 16) % self.shaky == 0 and first
        with self._lock:
            self.log.append(Asked(key, time.time(), 503 if shaky else 200, path))
        time.sleep(self.latency)
        while self.hang:
            time.sleep(0.05)
        with self._lock:
            self.running -= 1
        if shaky:
            return 503, b"{}"
        mark = hashlib.sha256(path.encode() + body + index.encode()).digest()
        p = 0.02 + 0.96 * int.from_bytes(mark[:4], "big") / 2**32
        said = {"probability": round(p, 6), "rationale": "a number", "tokens": 7, "cost": 0.01}
        return 200, json.dumps(said).encode()


class Judge(Provider):
    """Counts the contexts that arrive out of order: after one of a later instant, in the same run.
    `early` counts those that arrive while one of an earlier instant is still being answered."""

    def __init__(self, latency: float = 0.0, shaky: int = 0) -> None:
        super().__init__(latency, shaky)
        self.judged = self.late = self.early = 0
        self.latest: dict[str, datetime] = {}
        self.open: list[tuple[str, datetime]] = []
        self._judging = threading.Lock()

    def answer(self, key: str, path: str, body: bytes, index: str) -> tuple[int, bytes]:
        run, t = self.here.run, datetime.fromisoformat(json.loads(body)["time"])
        with self._judging:
            self.judged += 1
            self.late += t < self.latest.get(run, t)
            self.early += any(name == run and earlier < t for name, earlier in self.open)
            self.latest[run] = max(t, self.latest.get(run, t))
            self.open.append((run, t))
        try:
            return super().answer(key, path, body, index)
        finally:
            with self._judging:
                self.open.remove((run, t))


@contextmanager
def serving(provider: Provider) -> Iterator[Provider]:
    """The provider on a free port, or on its old one."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            key = self.headers.get("Idempotency-Key") or ""
            index = self.headers.get("Beforehand-Simulation") or ""
            provider.here.run = self.headers.get("Beforehand-Run") or ""
            status, data = provider.answer(key, self.path, body, index)
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except OSError:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128
        allow_reuse_address = True

        def handle_error(self, *_: object) -> None:
            """A client that was killed is no news."""

    with Server(("127.0.0.1", provider.port), Handler) as http:
        provider.port = http.server_port
        thread = threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield provider
        provider.hang = False
        http.shutdown()
        thread.join()
