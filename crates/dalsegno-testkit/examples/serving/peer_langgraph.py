"""Starts LangGraph's server as `langgraph dev` has it: all that it keeps is in memory.

    python peer_langgraph.py JOBS
"""

import json
import sys
from importlib.metadata import version

from peer_processes import HERE, end, get, listening, port, start, until

try:
    graphs = {name: f"./peer_graphs.py:{name}" for name in ["echo", "ringer"]}
    (HERE / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": graphs}))
    number = port()
    words = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload"]
    words += ["--host", "127.0.0.1", "--port", str(number), "--n-jobs-per-worker", sys.argv[1]]
    server = start(words + ["--server-log-level", "ERROR"], {"LOG_LEVEL": "ERROR"}, cwd=HERE)
    until(lambda: get(f"http://127.0.0.1:{number}/ok"), server)
    listening(number, version("langgraph-api"))
finally:
    end()
