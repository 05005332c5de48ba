"""The graphs that the servers of others serve, for LangGraph's server and for aegra alike. None of them asks a model."""

import asyncio
import time
from typing import TypedDict

from langgraph.graph import END, START, StateGraph

# As long as the service takes that the tool of a run of ours asks.
PAUSE = 0.005


class Said(TypedDict, total=False):
    text: str


class Rung(TypedDict, total=False):
    left: int
    at: str


async def say(state):
    return {"text": "You said: " + state["text"]}


async def ring(state):
    await asyncio.sleep(PAUSE)
    # As text: a number of this size is not the same in every JSON.
    return {"left": state["left"] - 1, "at": str(time.time_ns())}


def one(name, node, state):
    graph = StateGraph(state)
    graph.add_node(name, node)
    graph.add_edge(START, name)
    return graph


echo = one("say", say, Said)
echo.add_edge("say", END)
echo = echo.compile()

ringer = one("ring", ring, Rung)
ringer.add_conditional_edges("ring", lambda state: "ring" if state["left"] > 0 else END)
ringer = ringer.compile()
