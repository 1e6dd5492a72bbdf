"""Clients of MCP as forecasters: a server of our own on this machine, and a token for each instant.

The server is `beforehand mcp all --transport http --answers FILE`, a process of its own. A client
is started with the address and a token that is pinned to an instant; what it submits is written
down by the server, with that instant. It is shown no other way to the archive.
"""

import os
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from beforehand.clock import iso, stopwatch
from beforehand.config import ENDS_WITH, Workspace
from beforehand.errors import Unavailable
from beforehand.forecast.process import Program, own_environment, start_python
from beforehand.forecast.programs import Ran, Start, end, run_once
from beforehand.store.files import read_lines, write_json
from beforehand.store.tokens import Tokens

START_S, LIVES = 60.0, timedelta(hours=1)
"""A token outlives the time that its client has by an hour at most, should we be killed before it
is revoked."""
_ADDRESS = re.compile(rb"(http://\S+/mcp)\s")


class Desk:
    """The server, started when first needed. Safe for threads."""

    def __init__(self, workspace: Workspace, archive: Path, folder: Path, grade: str) -> None:
        """`folder` holds what is submitted, and the server's log."""
        self._workspace, self._archive, self._grade = workspace, archive, grade
        self._folder, self._answers = folder, folder / "answers.jsonl"
        self._starting = threading.Lock()
        self._process: Program[bytes] | None = None
        self._url, self._tokens = "", Tokens(workspace.access)

    def url(self) -> str:
        """Its address. Raises Unavailable where it does not start."""
        with self._starting:
            if self._process is None or self._process.poll() is not None:
                self._url = self._start()
            return self._url

    def close(self) -> None:
        """End the server."""
        with self._starting:
            if self._process is not None:
                end(self._process)
                self._process = None
            self._tokens.close()

    def ask(
        self,
        start: Start,
        t: datetime,
        question: Mapping[str, Any],
        timeout: float,
        user: str | None = None,
    ) -> tuple[list[Mapping[str, Any]], Ran]:
        """Run a client at an instant: (what it submitted, how it ran). It finds the question on its
        standard input and in a file, and the server in its variables. Raises BadAnswer where it
        cannot be started."""
        url, user = self.url(), user or f"client-{secrets.token_hex(6)}"
        now = self._workspace.clock.now()
        for left in self._tokens.all(user):  # Of a start that was killed.
            self._tokens.revoke(left.id, now)
        token, held = self._tokens.issue(
            user, None, now, now + timedelta(seconds=timeout) + LIVES, t, frozenset({"tools"})
        )
        server = {"type": "http", "url": url, "headers": {"Authorization": f"Bearer {token}"}}
        try:
            # In the folder that is hidden from other clients.
            with tempfile.TemporaryDirectory(prefix="client-", dir=self._folder) as place:
                asked, config = Path(place) / "question.json", Path(place) / "mcp.json"
                write_json(asked, question)
                write_json(config, {"mcpServers": {"beforehand": server}})
                given = {
                    "BEFOREHAND_MCP_URL": url,
                    "BEFOREHAND_TOKEN": token,
                    "BEFOREHAND_AS_OF": iso(t),
                    "BEFOREHAND_QUESTION": str(asked),
                    "BEFOREHAND_MCP_CONFIG": str(config),
                }
                environment = {**start.environment, **given}
                shown = replace(start, environment=environment, own=Path(place).resolve())
                ran = run_once(shown, orjson.dumps(question), timeout)
        finally:
            self._tokens.revoke(held.id, self._workspace.clock.now())
        rows = [row for row in self._submitted() if row.get("user") == user and "id" in row]
        return rows, ran

    def _submitted(self) -> list[Mapping[str, Any]]:
        if not self._answers.is_file():
            return []
        return [orjson.loads(line) for _, line in read_lines(self._answers)]

    def _start(self) -> str:
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._process is None:  # Later, clients of ours may be at work there.
            for left in self._folder.glob("client-*"):  # Of a start that was killed.
                shutil.rmtree(left, ignore_errors=True)
        log = self._folder / "server.log"
        log.unlink(missing_ok=True)
        arguments = ["mcp", "all", "--transport", "http", "--port", "0", "--mode", "replay"]
        arguments += ["--archive", str(self._archive.resolve()), "--grade", self._grade]
        arguments += ["--answers", str(self._answers.resolve())]
        environment = {**own_environment(), "BEFOREHAND_HOME": str(self._workspace.home.root)}
        environment[ENDS_WITH] = str(os.getpid())
        self._process = start_python("beforehand", arguments, self._folder, environment, log)
        until = stopwatch() + START_S
        while stopwatch() < until:
            said = log.read_bytes() if log.is_file() else b""
            if found := _ADDRESS.search(said):
                return found[1].decode()
            if self._process.poll() is not None:
                break
            time.sleep(0.02)
        why = log.read_bytes()[-500:].decode("utf-8", "replace").strip() if log.is_file() else ""
        raise Unavailable(f"the MCP server for clients did not start: {why or 'it said nothing'}")
