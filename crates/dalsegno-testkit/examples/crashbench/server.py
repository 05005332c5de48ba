"""The tools of BFCL's multi-turn tasks behind one MCP server that outlives the engine.

Each trial of a task has an address of its own, `/mcp/TRIAL`, with fresh instances of the benchmark's classes. The server
writes down what it performed for which operation, so that afterwards nobody has to guess. It can misbehave: answer with
500 after it performed a call, cut the connection before or after, or answer late.

    python3 server.py

It prints its port, and answers each line of JSON on standard input with one on standard output (`order`).
"""

import ast
import copy
import importlib
import inspect
import itertools
import json
import pathlib
import random
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import bfcl_eval
from bfcl_eval.constants.executable_backend_config import (
    CLASS_FILE_PATH_MAPPING,
    MULTI_TURN_FUNC_DOC_FILE_MAPPING,
    STATELESS_CLASSES,
)
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import state_checker
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_utils import execute_multi_turn_func_call

DATA = pathlib.Path(bfcl_eval.__file__).parent / "data"
CATEGORIES = ["multi_turn_base", "multi_turn_long_context"]
# What a misbehaving trial does instead of answering, and how often.
FAULTS = ["fail_after", "cut_after", "cut_before", "slow"]
FAULT_SHARE = 0.15
SLOW_SECONDS = 0.25
# The benchmark's types, in the words of JSON Schema.
TYPES = {"dict": "object", "float": "number", "tuple": "array", "list": "array"}
OPERATION = "dalsegno/operation"


def instances(entry):
    """Fresh instances of the classes of a task, as the benchmark makes them."""
    made = {}
    for name in entry["involved_classes"]:
        made[name] = getattr(importlib.import_module(CLASS_FILE_PATH_MAPPING[name]), name)()
        if name not in STATELESS_CLASSES:
            scenario = copy.deepcopy(entry["initial_config"].get(name, {}))
            made[name]._load_scenario(scenario, long_context="long_context" in entry["id"])
    return made


def methods(made):
    """The public methods by name. Where two classes share one, the later class has it, as in the benchmark."""
    return {
        name: method
        for instance in made.values()
        for name, method in inspect.getmembers(instance, predicate=inspect.ismethod)
        if not name.startswith("_")
    }


def schema(given):
    """A schema of the benchmark as JSON Schema."""
    if not isinstance(given, dict):
        return given
    kind = given.get("type")
    out = {"description": given["description"]} if "description" in given else {}
    if kind != "any":
        out["type"] = TYPES.get(kind, kind)
    if "properties" in given:
        out["properties"] = {name: schema(one) for name, one in given["properties"].items()}
    if "required" in given:
        out["required"] = given["required"]
    if "items" in given:
        out["items"] = schema(given["items"])
    return out


KINDS = {"integer": int, "string": str, "boolean": bool, "number": (int, float), "array": (list, tuple), "object": dict}


def fits(tool, name, value):
    """Says whether a tool's schema takes this value for a parameter."""
    kind = tool["inputSchema"].get("properties", {}).get(name, {}).get("type")
    return kind not in KINDS or isinstance(value, KINDS[kind])


class Task:
    """A task of the benchmark: what the user says in each turn, and the calls that answer it."""

    def __init__(self, entry, answer):
        self.entry = entry
        self.answer = answer
        made = instances(entry)
        known = methods(made)
        self.tools = [tool for name in made for tool in DOCUMENTS[name] if tool["name"] in known]
        # A name of two classes is offered once.
        self.tools = list({tool["name"]: tool for tool in self.tools}.values())
        self.widen()

    def widen(self):
        """Lets the tools take what the benchmark's own answer gives them: one ticket's id is a text where an integer is
        documented, and the engine refuses arguments that do not fit."""
        given = {}
        for turn in self.turns():
            for call in turn["calls"]:
                for name, value in call["arguments"].items():
                    given.setdefault(call["name"], []).append((name, value))
        for number, tool in enumerate(self.tools):
            wrong = [name for name, value in given.get(tool["name"], ()) if not fits(tool, name, value)]
            if wrong:
                tool = copy.deepcopy(tool)
                for name in wrong:
                    tool["inputSchema"]["properties"][name].pop("type", None)
                self.tools[number] = tool

    def turns(self):
        """The turns with their calls by name and named arguments."""
        known = methods(instances(self.entry))
        turns = []
        for said, calls in zip(self.entry["question"], self.answer):
            text = "\n".join(message["content"] for message in said) or "Go ahead."
            turns.append({"text": text, "calls": [self.call(known, call) for call in calls]})
        return turns

    @staticmethod
    def call(known, text):
        call = ast.parse(text, mode="eval").body
        arguments = [ast.literal_eval(argument) for argument in call.args]
        named = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
        bound = inspect.signature(known[call.func.id]).bind_partial(*arguments, **named)
        return {"name": call.func.id, "arguments": bound.arguments}


class Trial:
    """One trial of a task: its instances, what was performed, and how the server misbehaves."""

    def __init__(self, task, keyed, faults, seed):
        self.task = task
        self.keyed = keyed
        self.faults = faults
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.made = instances(task.entry)
        self.known = methods(self.made)
        self.results = {}
        self.performed = {}
        self.deduplicated = 0

    def call(self, operation, name, arguments):
        """Performs a call and returns its result with the fault that goes with it."""
        with self.lock:
            fault = None
            if self.faults and self.random.random() < FAULT_SHARE:
                fault = self.random.choice(FAULTS)
            if fault == "cut_before":
                return None, fault
            if self.keyed and operation in self.results:
                self.deduplicated += 1
                return self.results[operation], fault
            self.performed[operation] = self.performed.get(operation, 0) + 1
            try:
                said = self.known[name](**arguments)
                said = said if isinstance(said, str) else json.dumps(said, default=str)
                result = {"content": [{"type": "text", "text": said}], "isError": False}
            except Exception as error:
                text = f"Error during execution: {error}"
                result = {"content": [{"type": "text", "text": text}], "isError": True}
            self.results[operation] = result
            return result, fault

    def judge(self):
        """Compares the instances with those on which the benchmark's own executor made the calls of its answer."""
        entry = self.task.entry
        # The executor keeps its instances by this name for good.
        unique = f"{entry['id']}_{next(COUNT)}"
        theirs = {}
        for calls in self.task.answer:
            _, theirs = execute_multi_turn_func_call(
                calls, entry["initial_config"], entry["involved_classes"], "own", unique, "long_context" in entry["id"]
            )
        verdict = state_checker(self.made, theirs)
        return {
            "equal": verdict["valid"],
            "difference": "" if verdict["valid"] else str(verdict)[:2000],
            "performed": sum(self.performed.values()),
            "operations": len(self.performed),
            "repeated": sorted(one for one, times in self.performed.items() if times > 1),
            "deduplicated": self.deduplicated,
        }


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


DOCUMENTS = {
    name: [
        {"name": one["name"], "description": one["description"], "inputSchema": schema(one["parameters"])}
        for one in lines(DATA / "multi_turn_func_doc" / file)
    ]
    for name, file in MULTI_TURN_FUNC_DOC_FILE_MAPPING.items()
}
TASKS = {}
COUNT = itertools.count()
TRIALS = {}


def load():
    for category in CATEGORIES:
        answers = {one["id"]: one["ground_truth"] for one in lines(DATA / "possible_answer" / f"BFCL_v4_{category}.json")}
        for entry in lines(DATA / f"BFCL_v4_{category}.json"):
            TASKS[entry["id"]] = Task(entry, answers[entry["id"]])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, body, status=200):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        # There is no stream of its own to listen to.
        self.answer(None, 405)

    def do_DELETE(self):
        self.answer(None)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        self.mcp(TRIALS[self.path.removeprefix("/mcp/")], message)

    def mcp(self, trial, message):
        method, identity = message.get("method"), message.get("id")
        if identity is None:
            return self.answer(None, 202)
        if method == "initialize":
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "bfcl", "version": "1"},
            }
        elif method == "tools/list":
            result = {"tools": trial.task.tools}
        elif method == "tools/call":
            params = message["params"]
            operation = params["_meta"][OPERATION]
            result, fault = trial.call(operation, params["name"], params.get("arguments") or {})
            if fault == "fail_after":
                return self.answer({"error": "out of order"}, 500)
            if fault in ("cut_after", "cut_before"):
                self.close_connection = True
                return self.connection.close()
            if fault == "slow":
                time.sleep(SLOW_SECONDS)
        elif method == "ping":
            result = {}
        else:
            error = {"code": -32601, "message": f"no method {method}"}
            return self.answer({"jsonrpc": "2.0", "id": identity, "error": error})
        return self.answer({"jsonrpc": "2.0", "id": identity, "result": result})

    def handle_one_request(self):
        # Whoever asked was killed meanwhile.
        try:
            super().handle_one_request()
        except (ConnectionError, OSError, ValueError):
            self.close_connection = True


def order(asked):
    """What the harness asks for, by the key `do`."""
    do = asked["do"]
    if do == "tasks":
        return sorted(TASKS)
    if do == "task":
        task = TASKS[asked["task"]]
        return {"turns": task.turns(), "tools": [tool["name"] for tool in task.tools]}
    if do == "begin":
        TRIALS[asked["trial"]] = Trial(TASKS[asked["task"]], asked["keyed"], asked["faults"], asked["seed"])
        return None
    if do == "performed":
        trial = TRIALS[asked["trial"]]
        with trial.lock:
            return trial.results.get(asked["operation"])
    if do == "end":
        return TRIALS.pop(asked["trial"]).judge()
    raise ValueError(do)


def main():
    load()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    # The harness holds the other end of standard input: when it is gone, so is this server.
    for line in sys.stdin:
        print(json.dumps(order(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
