"""The real server in a process of its own, and what the tests of the API ask of it."""

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from serving import COMMAND, HTTP, environment

from program import Program

START_S = 60.0


@dataclass
class Api:
    """A running `beforehand serve`."""

    process: subprocess.Popen[str]
    url: str
    home: Path
    said: list[str]

    def get(self, path: str, token: str | None = None, **params: Any) -> httpx2.Response:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return HTTP.get(self.url + path, params=params, headers=headers)

    def json(self, path: str, **params: Any) -> Any:
        found = self.get(path, **params)
        assert found.status_code == 200, found.text
        return found.json()

    def post(self, path: str, body: Any, token: str | None = None, **headers: str) -> Any:
        given = dict(headers) | ({} if token is None else {"Authorization": f"Bearer {token}"})
        if isinstance(body, bytes):
            return HTTP.post(self.url + path, content=body, headers=given)
        return HTTP.post(self.url + path, json=body, headers=given)

    def ended(self, run_id: str, wait: float = 90.0) -> Any:
        """The run, once it has ended."""
        end = time.monotonic() + wait
        while time.monotonic() < end:
            found = self.json(f"/api/runs/{run_id}")
            if found["status"] not in ("running", "unfinished", "cancelling"):
                return found
            time.sleep(0.2)
        raise AssertionError(f"{run_id} did not end")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def api(home: Path, *arguments: str, port: int = 0, more: Any = None) -> Iterator[Api]:
    """`beforehand serve --port 0 --json …`, until the block ends."""
    process = Program(
        [*COMMAND, "serve", "--port", str(port), "--json", *arguments],
        env=environment(home, more),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=home,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.extend(process.stderr), daemon=True)  # type: ignore[arg-type]
    reader.start()
    line = process.stdout.readline()
    if not line:
        process.wait(10)
        reader.join(5)
        raise AssertionError("".join(said))
    made = Api(process, json.loads(line)["url"], home, said)
    try:
        for _ in range(100):
            try:
                HTTP.get(f"{made.url}/api/health", timeout=10)
                break
            except httpx2.HTTPError:
                time.sleep(0.05)
        yield made
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()
        process.wait()
        reader.join(5)
        process.stderr.close()
        process.stdout.close()


def pages(api: Api, path: str, limit: int, **params: Any) -> list[Any]:
    """Every row of a list, page by page."""
    rows: list[Any] = []
    cursor: dict[str, str] = {}
    while True:
        found = api.json(path, limit=limit, **params, **cursor)
        assert len(found["items"]) <= limit
        rows += found["items"]
        if found["next"] is None:
            return rows
        cursor = {"cursor": found["next"]}


def taken(operation: Any, **given: Any) -> dict[str, Any]:
    """Those of the parameters that an operation of the OpenAPI document takes in its query."""
    names = {one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"}
    return {name: value for name, value in given.items() if name in names}
