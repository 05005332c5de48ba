"""A tool server with the Python SDK: over standard input and output, or with `--http PORT` over streamable HTTP."""

import sys

from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel

server = MCPServer("python")


class Sum(BaseModel):
    value: int
    terms: list[int]


@server.tool()
def add(a: int, b: int) -> Sum:
    """Adds two numbers."""
    return Sum(value=a + b, terms=[a, b])


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Counts, and says how far it is."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to)
    return f"counted to {to}"


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("it was asked to fail")


@server.resource("note://today")
def today() -> str:
    """What is up today."""
    return "nothing"


@server.prompt()
def greeting(name: str) -> str:
    """A greeting."""
    return f"Say hello to {name}."


if sys.argv[1:2] == ["--http"]:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
else:
    server.run("stdio")
