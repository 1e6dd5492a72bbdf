"""Lists and calls every tool with FastMCP's client; prints what came back as JSON.

python fastmcp_client.py http URL TOKEN | stdio COMMAND ARGS…   (calls on standard input)
"""

import asyncio
import json
import os
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport


async def main() -> None:
    kind, *rest = sys.argv[1:]
    calls = json.load(sys.stdin)
    if kind == "http":
        transport = StreamableHttpTransport(rest[0], auth=rest[1])
    else:
        transport = StdioTransport(rest[0], rest[1:], env=dict(os.environ))
    answers = {}
    async with Client(transport) as client:
        names = [tool.name for tool in await client.list_tools()]
        for name in names:
            found = await client.call_tool(name, calls[name], raise_on_error=False)
            answers[name] = {
                "is_error": found.is_error,
                "text": found.content[0].text,
                "structured": found.structured_content,
            }
    print(json.dumps({"names": names, "answers": answers}))


asyncio.run(main())
