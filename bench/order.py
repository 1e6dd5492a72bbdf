"""What asking in order of time costs: 300 markets, weekly, a forecaster that takes 200 ms, 64 calls
side by side, against the bound that `--dry-run` prints (over the instants, calls / 64 rounded up,
times the forecaster's latency). No test asserts a time.

The forecaster is a process of its own on loopback. `walk` is from the first call to the last
answer, as the journal has them; `whole` is the command, with start, scoring and report.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from beforehand.clock import SystemClock
from beforehand.config import Home
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.store.archive.reader import Archive
from beforehand.store.archive.writer import ArchiveWriter
from beforehand.store.database import Database
from beforehand.store.journal.calls import Calls
from beforehand.world.render import records
from beforehand.world.simulate import SimConfig

MARKETS, LATENCY_S, SIDE_BY_SIDE = 300, 0.2, 64


async def forecaster() -> None:
    """Answers every post after LATENCY_S; prints its port."""

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = next(
                int(line.split(b":")[1])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length")
            )
            await reader.readexactly(length)
            await asyncio.sleep(LATENCY_S)
            body = b'{"probability": 0.5}'
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            await writer.drain()

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await client(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def cli(home: Path, *arguments: str) -> dict[str, object]:
    """One command of beforehand; its JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "beforehand", *arguments, "--json"],
        env={**os.environ, "BEFOREHAND_HOME": str(home)},
        capture_output=True,
        check=True,
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print the ratios."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        archive = home / "archive"
        ArchiveWriter(archive).add(
            records(SimConfig(seed=0, dates=70)),
            importer="simulate",
            source="bench",
            source_digest="bench",
            recorded_at=SystemClock().now(),
        )
        ended = Gateway(RecordedWorld(Archive(archive))).full_view().resolutions()
        markets = [r.market_id for r in ended if r.payout is not None][:MARKETS]
        assert len(markets) == MARKETS
        (home / "ids.txt").write_text("\n".join(markets))
        serving = subprocess.Popen(
            [sys.executable, __file__, "serve"], stdout=subprocess.PIPE, text=True
        )
        try:
            assert serving.stdout is not None
            address = f"http://127.0.0.1:{serving.stdout.readline().strip()}/forecast"
            command = ["backtest", "run", "--archive", str(archive), "--forecasters", address]
            command += ["--markets", str(home / "ids.txt"), "--concurrency", str(SIDE_BY_SIDE)]
            command += ["--draws", "200", "--placebo", "0"]
            waits = cli(home, *command, "--dry-run")["in_order"]
            started = time.monotonic()
            cli(home, *command, "--run-id", "r")
            whole = time.monotonic() - started
        finally:
            serving.kill()
        rows = Calls(Database(Home(home).journal)).rows("r")
        sent = min(datetime.fromisoformat(row["sent_at"]) for row in rows)
        answered = max(datetime.fromisoformat(row["answered_at"]) for row in rows)
        walk = (answered - sent).total_seconds()
        assert isinstance(waits, dict)
        bound = waits["rounds"] * LATENCY_S
        print(
            f"{MARKETS} markets, {len(rows):,} calls, {waits['instants']} instants, "
            f"{waits['rounds']} rounds of {SIDE_BY_SIDE}: bound {bound:.1f} s; walk {walk:.1f} s, "
            f"{walk / bound:.2f} x the bound   goal <= 1.3; whole command {whole:.1f} s, "
            f"{whole / bound:.2f} x"
        )


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        asyncio.run(forecaster())
    else:
        main()
