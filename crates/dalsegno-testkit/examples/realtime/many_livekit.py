"""Holds calls by LiveKit Agents, all in one event loop: takes the address of the provider, the number of calls and `text` or `audio`, and ends
when it is stopped.

An agent server of LiveKit has a process for each call; here one process has all of them.
"""

import asyncio
import sys
import time
from importlib.metadata import version

import aiohttp
from livekit.agents import Agent, AgentSession, function_tool
from livekit.agents.voice.io import AudioOutput, AudioOutputCapabilities
from livekit.plugins.openai import realtime


class Player(AudioOutput):
    """Plays nothing, and takes as long."""

    def __init__(self):
        super().__init__(label="player", capabilities=AudioOutputCapabilities(pause=False))
        self.began, self.lasts, self.end = None, 0.0, None

    async def capture_frame(self, frame):
        await super().capture_frame(frame)
        if self.began is None:
            self.began = time.time()
            self.on_playback_started(created_at=self.began)
        self.lasts += frame.duration

    def flush(self):
        super().flush()
        if self.began is not None:
            left = max(0.0, self.began + self.lasts - time.time())
            self.end = asyncio.get_running_loop().call_later(left, self.finish, False)

    def clear_buffer(self):
        if self.began is not None:
            self.finish(True)

    def finish(self, interrupted):
        if self.end is not None:
            self.end.cancel()
        played = min(time.time() - self.began, self.lasts)
        self.began, self.lasts, self.end = None, 0.0, None
        self.on_playback_finished(playback_position=played, interrupted=interrupted)


@function_tool(name="book__find", description="Finds a table.")
async def find():
    return "at eight"


async def main():
    base, calls, modality = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    # The client that it makes itself opens 50 connections at most.
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        sessions = []
        for _ in range(calls):
            model = realtime.RealtimeModel(model="gpt-realtime-2.1", base_url=base, api_key="none", modalities=[modality], http_session=http)
            # The player cannot pause, so what was interrupted is not resumed.
            session = AgentSession(llm=model, turn_handling={"interruption": {"resume_false_interruption": False}})
            if modality == "audio":
                session.output.audio = Player()
            await session.start(Agent(instructions="You are the desk.", tools=[find]))
            sessions.append(session)
        print(version("livekit-agents"), flush=True)
        await asyncio.Event().wait()


asyncio.run(main())
