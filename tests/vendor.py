"""A real HTTP server on loopback that plays the vendors: routes to answers, and misbehaviour."""

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from beforehand.sources.catalogue import PROVIDERS

Answer = Callable[["Asked"], Any]


class Asked:
    """One request: method, path, parameters, body, headers, and when it came."""

    def __init__(
        self, method: str, path: str, query: list[tuple[str, str]], body: Any, headers: Any
    ) -> None:
        self.method, self.path, self.query, self.body = method, path, query, body
        self.headers, self.at = headers, time.monotonic()

    def param(self, name: str) -> str | None:
        return next((value for key, value in self.query if key == name), None)


class Vendor:
    """Routes: (provider, path) to a value, a function, or a misbehaviour by name."""

    def __init__(self) -> None:
        self.routes: dict[tuple[str, str], Any] = {}
        self.log: list[Asked] = []
        self.port = 0
        self._lock = threading.Lock()

    def route(self, provider: str, path: str, answer: Any) -> None:
        self.routes[provider, path] = answer

    @property
    def environment(self) -> dict[str, str]:
        """Overrides for every provider, and made-up keys."""
        found = {p.override: f"http://127.0.0.1:{self.port}/{p.name}" for p in PROVIDERS.values()}
        keys = {key: "secret-" + key.lower() for p in PROVIDERS.values() for key in p.keys}
        return found | keys

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = defaultdict(int)
        for asked in self.log:
            found[asked.path] += 1
        return dict(found)

    def answer(self, provider: str, asked: Asked) -> Any:
        with self._lock:
            self.log.append(asked)
        for length in range(len(asked.path), 0, -1):
            if (provider, asked.path[:length]) in self.routes:
                found = self.routes[provider, asked.path[:length]]
                return found(asked) if callable(found) else found
        return 404


@contextmanager
def serving(vendor: Vendor) -> Iterator[Vendor]:
    """The vendor on a free port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            parts = urlsplit(self.path)
            _, provider, *rest = parts.path.split("/")
            length = int(self.headers.get("Content-Length") or 0)
            raw = self.rfile.read(length)
            try:
                body = json.loads(raw) if raw else None
            except ValueError:
                body = raw.decode()
            asked = Asked(
                self.command, "/" + "/".join(rest), parse_qsl(parts.query), body, dict(self.headers)
            )
            self._send(vendor.answer(provider, asked))

        do_GET = do_POST = _handle  # noqa: N815

        def _send(self, found: Any) -> None:
            status, headers = 200, {}
            if isinstance(found, tuple):
                status, headers, found = found
            elif isinstance(found, int):
                status, found = found, {"error": "no"}
            if found == "drop":
                self.close_connection = True
                self.connection.close()
                return
            if found == "truncate":
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(b'{"cut": ')
                self.close_connection = True
                return
            if found == "drip":
                self.send_response(200)
                self.send_header("Content-Length", "100")
                self.end_headers()
                try:
                    for _ in range(100):
                        self.wfile.write(b" ")
                        self.wfile.flush()
                        time.sleep(0.1)
                except OSError:
                    self.close_connection = True
                return
            data = found if isinstance(found, bytes) else json.dumps(found).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, *_: object) -> None:
            """A connection that we cut is no news."""

    with Server(("127.0.0.1", 0), Handler) as http:
        vendor.port = http.server_port
        thread = threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield vendor
        http.shutdown()
        thread.join()
