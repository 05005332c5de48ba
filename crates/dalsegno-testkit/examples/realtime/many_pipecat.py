"""Holds calls by Pipecat, all in one event loop: takes the address of the provider, the number of calls and `text` or `audio`, and ends when
it is stopped.
"""

import asyncio
import sys
from importlib.metadata import version

from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import LLMRunFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair, LLMUserAggregatorParams
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.turns.user_turn_strategies import ExternalUserTurnStrategies
from pipecat.workers.runner import WorkerRunner


async def find(params):
    await params.result_callback("at eight")


async def call(base, modality):
    """A call whose live model hears its caller, and greets."""
    properties = events.SessionProperties(output_modalities=[modality], instructions="You are the desk.")
    if modality == "audio":
        sound = events.PCMAudioFormat()
        properties.audio = events.AudioConfiguration(input=events.AudioInput(format=sound), output=events.AudioOutput(format=sound))
    settings = OpenAIRealtimeLLMService.Settings(model="gpt-realtime-2.1", session_properties=properties)
    llm = OpenAIRealtimeLLMService(api_key="none", base_url=base, settings=settings)
    llm.register_function("book__find", find)
    tool = FunctionSchema(name="book__find", description="Finds a table.", properties={}, required=[])
    greeting = {"role": "user", "content": "Greet."}
    # The service has the aggregator take these strategies anyway. Those of its own load a model for each call before that.
    strategies = ExternalUserTurnStrategies()
    strategies.stop[0].wait_for_transcript = False
    params = LLMUserAggregatorParams(user_turn_strategies=strategies)
    context = LLMContext([greeting], tools=ToolsSchema(standard_tools=[tool]))
    aggregators = LLMContextAggregatorPair(context, user_params=params)
    worker = PipelineWorker(Pipeline([aggregators.user(), llm, aggregators.assistant()]))
    await worker.queue_frame(LLMRunFrame())
    return worker


async def main():
    base, calls, modality = sys.argv[1].replace("http", "ws", 1) + "/realtime", int(sys.argv[2]), sys.argv[3]
    runner = WorkerRunner()
    await runner.add_workers(*[await call(base, modality) for _ in range(calls)])
    print(version("pipecat-ai"), flush=True)
    await runner.run()


asyncio.run(main())
