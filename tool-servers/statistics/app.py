"""An MCP tool server in Python, without a library: JSON lines in, JSON lines out.

Both revisions of the handshake are answered: `server/discover` (2026-07-28) and `initialize` (2025-11-25 and older).
What is imported here is loaded while the component is built, not when it starts.
"""

import json
import statistics
import sys

from wit_world import exports

SERVER = {"name": "statistics", "version": "0.1.0"}
NEW, OLD = "2026-07-28", "2025-11-25"

TOOLS = [
    {
        "name": "summary",
        "description": "Says how many numbers there are, their mean, median, spread and extremes.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "numbers": {"type": "array", "items": {"type": "number"}, "minItems": 1, "maxItems": 10000}
            },
            "required": ["numbers"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                name: {"type": "number"} for name in ("count", "mean", "median", "spread", "least", "most")
            },
            "required": ["count", "mean", "median", "spread", "least", "most"],
        },
        "annotations": {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False},
    }
]


def summary(numbers):
    if not isinstance(numbers, list) or not numbers or len(numbers) > 10000:
        raise ValueError("`numbers` has to be a list of 1 to 10,000 numbers")
    if not all(type(number) in (int, float) for number in numbers):
        raise ValueError("`numbers` has to hold numbers only")
    return {
        "count": len(numbers),
        "mean": statistics.fmean(numbers),
        "median": statistics.median(numbers),
        "spread": statistics.pstdev(numbers),
        "least": min(numbers),
        "most": max(numbers),
    }


def call(params):
    if params.get("name") != "summary":
        raise LookupError(f"there is no tool `{params.get('name')}`")
    try:
        result = summary((params.get("arguments") or {}).get("numbers"))
    except (ValueError, OverflowError, statistics.StatisticsError) as error:
        return {"content": [{"type": "text", "text": str(error)}], "isError": True}
    return {"content": [{"type": "text", "text": json.dumps(result)}], "structuredContent": result}


def answer(method, params):
    if method == "server/discover":
        return {
            "supportedVersions": [NEW],
            "capabilities": {"tools": {}},
            "serverInfo": SERVER,
            "ttlMs": 0,
            "cacheScope": "private",
        }
    if method == "initialize":
        return {"protocolVersion": OLD, "capabilities": {"tools": {}}, "serverInfo": SERVER}
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": TOOLS, "ttlMs": 0, "cacheScope": "private"}
    if method == "tools/call":
        return call(params)
    raise LookupError(f"there is no method `{method}`")


def reply(message):
    """The line that answers a message; none for a notification."""
    if "id" not in message or "method" not in message:
        return None
    try:
        result = answer(message["method"], message.get("params") or {})
        body = {"result": {"resultType": "complete", **result}}
    except LookupError as error:
        body = {"error": {"code": -32601, "message": error.args[0]}}
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], **body})


class Run(exports.Run):
    def run(self):
        for line in sys.stdin:
            if line.strip():
                answered = reply(json.loads(line))
                if answered is not None:
                    print(answered, flush=True)
