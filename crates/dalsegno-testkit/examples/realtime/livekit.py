"""Holds a call by LiveKit Agents: takes the address of the provider and the number of turns, of which each has a tool."""

import asyncio
import sys
from importlib.metadata import version

from livekit.agents import Agent, AgentSession, function_tool
from livekit.plugins.openai import realtime


async def main():
    base, turns = sys.argv[1], int(sys.argv[2])
    asked, said, errors = [], [], []

    @function_tool(name="book__find", description="Finds a table.")
    async def find():
        asked.append("A table?")
        return "at eight"

    model = realtime.RealtimeModel(model="gpt-realtime-2.1", base_url=base, api_key="none", modalities=["text"])
    session = AgentSession(llm=model)
    more = asyncio.Event()

    @session.on("conversation_item_added")
    def added(event):
        if event.item.type == "message" and event.item.role == "assistant":
            said.append(event.item.text_content)
            more.set()

    @session.on("error")
    def failed(event):
        errors.append(event)
        more.set()

    await session.start(Agent(instructions="You are the desk.", tools=[find]))
    for _ in range(turns):
        more.clear()
        session.generate_reply(user_input="A table?")
        await asyncio.wait_for(more.wait(), 20)
        assert not errors, errors
    await session.aclose()
    await model.aclose()
    assert len(asked) == turns and said == ["There is one at eight."] * turns, (asked, said)
    print(version("livekit-agents"))


asyncio.run(main())
