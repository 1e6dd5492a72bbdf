"""An unmodified MCP client at pinned tokens is a backtest: one that copies the price it is shown
is the market, at exactly zero; one that also knows the ending is not."""

import csv
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
from serving import command, over_http, served, token

from beforehand.clock import iso, parse_instant
from beforehand.gateway.gateway import Gateway
from beforehand.gateway.worlds.recorded import RecordedWorld
from beforehand.store.archive.reader import Archive

FIRST = parse_instant("2025-02-03T12:00:00Z")
INSTANTS = [FIRST + timedelta(weeks=i) for i in range(6)]


async def forecasts(url: str, text: str) -> list[tuple[str, float]]:
    """What the client makes of the active markets: their price. It knows nothing of any pin."""
    found = []
    async with over_http(url, text) as client:
        listed = await client.call_tool("list_markets", {"status": "active", "limit": 40})
        ids = [row["market_id"] for row in json.loads(listed.content[0].text)["markets"]]
        for start in range(0, len(ids), 20):
            answer = await client.call_tool("get_prices", {"ids": ids[start : start + 20]})
            for row in json.loads(answer.content[0].text)["prices"]:
                if row["price"] is not None:
                    found.append((row["market_id"], row["price"]))
    return found


def test_a_client_that_copies_the_price_is_the_market(
    tmp_path: Path, sim: Path, sim_archive: Archive
) -> None:
    rows: list[dict[str, Any]] = []
    with served(tmp_path, "--archive", str(sim)) as server:
        for at in INSTANTS:
            text = token(tmp_path, "--user", "agent", "--servers", "all", "--as-of", iso(at))
            for name, price in anyio.run(forecasts, server.url, text):
                rows.append({"id": name, "time": iso(at), "probability": price})
    assert len(rows) > 60
    assert _verdict(tmp_path, sim, rows) == ("is the market", 0.0)
    ends = {
        r.market_id: r.payout for r in Gateway(RecordedWorld(sim_archive)).full_view().resolutions()
    }
    bare = {name.partition(":")[2]: payout for name, payout in ends.items()}
    for row in rows:
        if bare.get(row["id"]) is not None:
            row["probability"] = 0.5 * row["probability"] + 0.5 * bare[row["id"]]
    verdict, skill = _verdict(tmp_path, sim, rows)
    assert verdict != "is the market"
    assert skill > 0.01


def _verdict(folder: Path, sim: Path, rows: list[dict[str, Any]]) -> tuple[str, float]:
    with (folder / "mine.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ("id", "time", "probability"))
        writer.writeheader()
        writer.writerows(rows)
    done = command(folder, "score", "mine.csv", "--archive", str(sim), "--json")
    assert done.returncode in (0, 3), done.stderr  # 3: some lie after their market's last instant.
    scored = json.loads(done.stdout)
    mine = next(row for row in scored["leaderboard"] if row["forecaster"] == "mine")
    return mine["verdict"], mine["skill_vs_market"]
