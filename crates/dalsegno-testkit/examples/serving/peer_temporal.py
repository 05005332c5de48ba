"""Starts the development server of Temporal with its journal in a file, and has it perform a workflow of so many events.

    python peer_temporal.py EVENTS
"""

import asyncio
import json
import pathlib
import re
import subprocess
import sys
from datetime import timedelta

import temporalio
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from peer_processes import HERE, end, get, listening, port, start, until

# An activity is scheduled, started and completed, and so is the task in which the workflow asks for it.
EACH = 6


@activity.defn
async def look(number: int) -> str:
    return f"report {number}: a table at eight"


@workflow.defn
class Walker:
    @workflow.run
    async def run(self, times: int) -> str:
        for number in range(times):
            await workflow.execute_activity(look, number, start_to_close_timeout=timedelta(minutes=1))
        return "Done."


async def walk(grpc, events):
    """Performs the workflow; its id."""
    client = await Client.connect(f"127.0.0.1:{grpc}")
    runner = UnsandboxedWorkflowRunner()
    async with Worker(client, task_queue="walk", workflows=[Walker], activities=[look], workflow_runner=runner):
        times = max(events // EACH, 1)
        await client.execute_workflow(Walker.run, times, id="walker", task_queue="walk")
    return "walker"


def program():
    """The program, which lies beside the packages or beside Python."""
    beside = pathlib.Path(temporalio.__file__).parent.parent / "bin/temporal"
    return beside if beside.exists() else pathlib.Path(sys.executable).with_name("temporal")


try:
    grpc, http = port(), port()
    words = [program(), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--log-level", "error"]
    words += ["--port", str(grpc), "--http-port", str(http), "--db-filename", HERE / "temporal.db"]
    server = start(words, {"TEMPORAL_VERSION_CHECK_DISABLED": "1"})
    namespace = f"http://127.0.0.1:{http}/api/v1/namespaces/default"
    until(lambda: get(namespace), server)
    found = asyncio.run(walk(grpc, int(sys.argv[1])))
    shown = json.loads(get(f"{namespace}/workflows/{found}"))
    length = int(shown["workflowExecutionInfo"]["historyLength"])
    # The program has a version of its own.
    said = subprocess.run([program(), "--version"], capture_output=True, text=True).stdout
    version = re.search(r"Server ([0-9.]+)", said)[1]
    listening(http, version, path=f"/api/v1/namespaces/default/workflows/{found}/history", events=length)
finally:
    end()
