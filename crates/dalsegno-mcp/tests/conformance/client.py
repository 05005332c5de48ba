"""The Python SDK's client against a server of this project: `client.py TOOL ARGUMENTS EXPECTED PROGRAM ARGUMENT…`."""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters


async def main() -> None:
    tool, arguments, expected, program, *words = sys.argv[1:]
    async with Client(StdioServerParameters(command=program, args=words)) as client:
        tools = (await client.list_tools()).tools
        assert tool in [known.name for known in tools], [known.name for known in tools]
        result = await client.call_tool(tool, json.loads(arguments))
        assert not result.is_error, result
        said = json.dumps(result.structured_content) if result.structured_content else str(result.content)
        assert expected in said, said
        print(f"{len(tools)} tools; `{tool}` says: {said[:200]}")


asyncio.run(main())
