"""What the programs share that start a server of others: they print where it listens, and end it when their input ends."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent

# How long a server has until it answers.
PATIENCE = 120

# Nothing is sent to anywhere: no traces, no figures of use, no question for a newer version.
QUIET = {
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGGRAPH_CLI_NO_ANALYTICS": "1",
    "LANGGRAPH_NO_VERSION_CHECK": "true",
    "OTEL_SDK_DISABLED": "true",
}

processes = []


def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def start(words, env=None, **options):
    """Starts a process that ends with this program; what it says goes to the log."""
    log = open(HERE / "servers.log", "a")
    env = {**os.environ, **QUIET, **(env or {})}
    processes.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, **options))
    return processes[-1]


def until(answers, process):
    """Waits until this answers without an error."""
    began = time.monotonic()
    while True:
        try:
            return answers()
        except Exception as error:
            if process.poll() is not None:
                raise SystemExit(f"a server ended before it listened: {tail()}")
            if time.monotonic() - began > PATIENCE:
                raise SystemExit(f"a server does not listen within {PATIENCE} s: {error}: {tail()}")
            time.sleep(0.05)


def tail():
    """The last lines that a server said."""
    lines = (HERE / "servers.log").read_text(errors="replace").splitlines()
    return "; ".join([line.strip() for line in lines if line.strip()][-3:])


def get(url):
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=10) as answer:
        return answer.read()


def listening(number, version, **more):
    """Says where the server listens and which version it has, and waits until the input of this program ends."""
    print(json.dumps({"address": f"127.0.0.1:{number}", "version": version, **more}), flush=True)
    sys.stdin.read()


def end():
    """Ends all servers, the last one first: before its database."""
    for process in reversed(processes):
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
