"""An agent as somebody would bring it: a client of MCP that asks for prices and submits forecasts.

`mcp_agent.py [tilt]` answers the questions of the file BEFOREHAND_QUESTION.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

TILT = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0


async def main() -> None:
    asked = json.loads(Path(os.environ["BEFOREHAND_QUESTION"]).read_text())
    ids = [one["id"] for one in asked.get("markets", [])] or [asked["market"]["id"]]
    headers = {"Authorization": f"Bearer {os.environ['BEFOREHAND_TOKEN']}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(os.environ["BEFOREHAND_MCP_URL"], http_client=http)
        async with Client(transport) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert "submit_forecasts" in tools
            forecasts = []
            for one in ids:
                found = await client.call_tool("get_prices", {"ids": [one]})
                price = json.loads(found.content[0].text)["prices"][0]["price"]
                forecasts.append({"id": one, "probability": min(max(price + TILT, 0), 1)})
            done = await client.call_tool("submit_forecasts", {"forecasts": forecasts})
            print(done.content[0].text, file=sys.stderr)


asyncio.run(main())
