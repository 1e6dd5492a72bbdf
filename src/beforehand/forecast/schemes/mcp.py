"""An agent that is a client of MCP (`mcp:./agent.sh`): started for each question with the address
of our servers and a token that is pinned to the question's instant.

It finds `BEFOREHAND_MCP_URL`, `BEFOREHAND_TOKEN` and `BEFOREHAND_MCP_CONFIG` (a file for clients
that take one) in its variables, and the question on standard input and in the file
`BEFOREHAND_QUESTION`. It answers with the tool `submit_forecasts`, or with the last line that it
writes, as a program does (`command.py`).
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path

import orjson

from beforehand.clock import parse_instant
from beforehand.errors import InputError
from beforehand.forecast.base import Context, Forecaster, Opening, scheme
from beforehand.forecast.desk import Desk
from beforehand.forecast.mapping import split_options
from beforehand.forecast.schemes.command import Program, command_of


@scheme("mcp", shown=("mcp:CLIENT-COMMAND",))
class McpClient(Program):
    """A client, run once for each question; several run side by side within an instant."""

    _desk: Desk | None = None
    _kept: "tempfile.TemporaryDirectory[str] | None" = None

    def __init__(
        self, rest: str, name: str | None, command: tuple[str, ...], place: Path, opening: Opening
    ) -> None:
        super().__init__(rest, name, command, place, opening)
        world = opening.world
        archive = getattr(getattr(world, "archive", None), "path", None)
        if archive is None:
            raise InputError(f"{rest[:100]}: an MCP client is asked in a run, which has an archive")
        self._archive, self._workspace = Path(archive), opening.workspace
        self._grade = str(getattr(world, "grade", "captured"))
        self._each = True

    @classmethod
    def open(cls, rest: str, name: str | None, opening: Opening) -> Forecaster:
        """Raises InputError for a command that cannot be read."""
        words, place = command_of(rest, opening)
        return cls(rest, name, words, place, opening)

    def close(self) -> None:
        """End the server."""
        super().close()
        with self._turn:
            if self._desk is not None:
                self._desk.close()
            if self._kept is not None:
                self._kept.cleanup()
            self._desk = self._kept = None

    def _body(self, context: Context) -> Mapping[str, object]:
        return {**context.wire(), "question": self._questions(context)}

    def _answer(self, question: Mapping[str, object], name: str, context: Context) -> str:
        t, market = parse_instant(context.time), context.market.id
        rows, ran = self._opened().ask(self._start, t, question, self._timeout)
        mine = [row for row in rows if row["id"] == market]
        for _ in range(len(rows) - len(mine)):
            self.note("answer to no question of ours")
        for _ in mine[1:]:
            self.note("second answer to one question")
        if not mine:
            return self._read(ran.line())
        last = mine[-1]
        kept = {
            name: last[name] for name in ("probability", "rationale", "read_as") if name in last
        }
        return orjson.dumps({**kept, "answer": last}).decode()

    def _opened(self) -> Desk:
        with self._turn:
            if self._desk is None:
                # In the home: what lies there is hidden from clients.
                place = self._workspace.home.collecting
                place.mkdir(parents=True, exist_ok=True)
                self._kept = tempfile.TemporaryDirectory(prefix="run-", dir=place)
                self._desk = Desk(
                    self._workspace, self._archive, Path(self._kept.name), self._grade
                )
            return self._desk

    def _plain(self) -> str:
        return split_options(self.provider)[0]
