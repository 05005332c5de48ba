"""Holds a call by Pipecat: takes the address of the provider and the number of turns, of which each has a tool."""

import asyncio
import sys
from importlib.metadata import version

from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
from pipecat.frames.frames import LLMMessagesAppendFrame, LLMRunFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.services.openai.realtime import events
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.workers.runner import WorkerRunner


async def main():
    base, turns = sys.argv[1].replace("http", "ws", 1) + "/realtime", int(sys.argv[2])
    asked, said, errors = [], [], []

    async def find(params):
        asked.append(params.tool_call_id)
        await params.result_callback("at eight")

    properties = events.SessionProperties(output_modalities=["text"], instructions="You are the desk.")
    settings = OpenAIRealtimeLLMService.Settings(model="gpt-realtime-2.1", session_properties=properties)
    llm = OpenAIRealtimeLLMService(api_key="none", base_url=base, settings=settings)
    llm.register_function("book__find", find)
    tool = FunctionSchema(name="book__find", description="Finds a table.", properties={}, required=[])
    question = {"role": "user", "content": "A table?"}
    aggregators = LLMContextAggregatorPair(LLMContext([question], tools=ToolsSchema(standard_tools=[tool])))
    worker = PipelineWorker(Pipeline([aggregators.user(), llm, aggregators.assistant()]))

    @worker.event_handler("on_pipeline_error")
    async def failed(_worker, frame):
        errors.append(frame)
        await worker.cancel()

    @aggregators.assistant().event_handler("on_assistant_turn_stopped")
    async def stopped(_aggregator, message):
        if message.content:
            said.append(message.content)
            if len(said) < turns:
                # Behind the aggregator of the user: of a live model, that of the assistant asks for the response.
                await llm.queue_frame(LLMMessagesAppendFrame([question], run_llm=True))
            else:
                await worker.stop_when_done()

    await worker.queue_frame(LLMRunFrame())
    runner = WorkerRunner()
    await runner.add_workers(worker)
    await asyncio.wait_for(runner.run(), 120)
    assert not errors, errors
    assert len(asked) == turns and said == ["There is one at eight."] * turns, (asked, said)
    print(version("pipecat-ai"))


asyncio.run(main())
