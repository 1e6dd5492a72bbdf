"""An OpenAI- and Anthropic-shaped server on loopback: it says what it is told to, and misbehaves."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GOOD = {"probability": 0.7, "confidence": 0.4, "rationale": "so it seems", "key_evidence_ids": []}
CODE = 'print(\'{"probability": 0.25, "key_evidence_ids": ["nowhere"]}\')'
Answer = Callable[[dict[str, Any]], Any]


def completion(content: str | None, finish: str = "stop", **message: Any) -> dict[str, Any]:
    """A chat completion with this content."""
    return {
        "id": "c-1",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": "m-1",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "message": {"role": "assistant", "content": content, **message},
            }
        ],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    }


def wanted(body: dict[str, Any]) -> set[str]:
    """The keys of the answer that a request asks for."""
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema", {})
    return set(schema.get("properties", {}))


def sensible(body: dict[str, Any]) -> Any:
    """Code, queries or a direct answer, as asked."""
    keys = wanted(body)
    if "code" in keys:
        return completion(json.dumps({"code": CODE}))
    if "queries" in keys:
        return completion(json.dumps({"queries": ["north harvest", "index"]}))
    return completion(json.dumps(GOOD))


class Drip:
    """An answer that comes a byte at a time."""


class ModelServer:
    """`answer` maps a request's body to a completion, a status, (status, headers), raw bytes,
    seconds to hang, or a Drip."""

    def __init__(self, answer: Answer = sensible) -> None:
        self.answer, self.port = answer, 0
        self.log: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.lock = threading.Lock()

    def model(self, name: str = "m-1") -> str:
        return f"{name}@http://127.0.0.1:{self.port}/v1"


@contextmanager
def model_server(answer: Answer = sensible, port: int = 0) -> Iterator[ModelServer]:
    """The server on this port, or a free one."""
    told = ModelServer(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with told.lock:
                told.log.append(body)
                told.headers.append(self.headers)
            found = told.answer(body)
            status, headers, raw = 200, {}, b""
            if isinstance(found, float):
                time.sleep(found)
                found = sensible(body)
            drip = isinstance(found, Drip)
            if drip:
                found = sensible(body)
            if isinstance(found, int):
                status, raw = found, b'{"error": {"message": "no", "type": "t"}}'
            elif isinstance(found, tuple):
                status, headers = found
                raw = b'{"error": {"message": "slow down"}}'
            elif isinstance(found, bytes):
                raw = found
            else:
                raw = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                for i in range(len(raw) if drip else 0):
                    self.wfile.write(raw[i : i + 1])
                    self.wfile.flush()
                    time.sleep(0.05)
                self.wfile.write(raw if not drip else b"")
            except (BrokenPipeError, ConnectionResetError):
                return

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    told.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
