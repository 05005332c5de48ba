"""The long conversation with LangGraph and its SQLite saver, for the table of budgets.

A model that is a function asks for the next report until it has had all; a report is 5 KB of random words, drawn from
as many as a person uses. Prints one line of JSON, also when it stops early: at so many bytes on disk, or so many seconds.

    python peer.py FOLDER CALLS MOST_BYTES MOST_SECONDS
"""

import json
import pathlib
import random
import resource
import sys
import time

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

REPORT = 5_000
WORDS = 10_000


def vocabulary():
    draw = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    return ["".join(draw.choices(letters, k=draw.randrange(2, 11))) for _ in range(WORDS)]


def report(words, number):
    draw = random.Random(number)
    text = ""
    while len(text) < REPORT:
        text += draw.choice(words) + " "
    return text


class Enough(Exception):
    """A bound of the measurement is reached."""


def main():
    folder, calls, most_bytes, most_seconds = pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:5])
    words = vocabulary()
    began = time.monotonic()
    turns = []
    last = [None]

    def on_disk():
        return sum(file.stat().st_size for file in folder.glob("langgraph.db*"))

    def model(state):
        now = time.monotonic()
        if last[0] is not None:
            turns.append(now - last[0])
        last[0] = now
        if len(turns) % 20 == 0 and (on_disk() > most_bytes or now - began > most_seconds):
            raise Enough
        number = len(turns)
        if number >= calls:
            return {"messages": [AIMessage("That was all.")]}
        call = {"name": "report", "args": {"number": number}, "id": f"call_{number}"}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    def tool(state):
        call = state["messages"][-1].tool_calls[0]
        number = call["args"]["number"]
        content = json.dumps({"number": number, "text": report(words, number)})
        return {"messages": [ToolMessage(content, tool_call_id=call["id"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tool", tool)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tool" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tool", "model")
    with SqliteSaver.from_conn_string(str(folder / "langgraph.db")) as saver:
        compiled = graph.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "1"}, "recursion_limit": 2 * calls + 10}
        try:
            # As Dalsegno does it: what was done is on the disk before anything follows from it.
            compiled.invoke({"messages": [HumanMessage("read all reports")]}, config, durability="sync")
        except Enough:
            pass
        size = on_disk()
    tenth = max(len(turns) // 10, 1)
    mean = lambda some: 1e3 * sum(some) / max(len(some), 1)
    print(
        json.dumps(
            {
                "calls": len(turns),
                "bytes": size,
                "first": mean(turns[:tenth]),
                "last": mean(turns[-tenth:]),
                "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            }
        )
    )


main()
