"""Holds a call by the official client: takes the address of the provider and the number of turns, of which each has a tool."""

import sys
from importlib.metadata import version

from openai import OpenAI


def main():
    base, turns = sys.argv[1], int(sys.argv[2])
    client = OpenAI(api_key="none", base_url=base, websocket_base_url=base.replace("http", "ws", 1))
    said = []
    with client.realtime.connect(model="gpt-realtime-2.1") as connection:

        def until(kind):
            """The next event of a kind; an error ends the call."""
            for event in connection:
                assert event.type != "error", event
                if event.type == "response.output_text.done":
                    said.append(event.text)
                if event.type == kind:
                    return event

        until("session.created")
        tool = {"type": "function", "name": "book__find", "parameters": {"type": "object", "properties": {}}}
        connection.session.update(session={"type": "realtime", "output_modalities": ["text"], "instructions": "You are the desk.", "tools": [tool]})
        until("session.updated")
        for _ in range(turns):
            message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "A table?"}]}
            connection.conversation.item.create(item=message)
            connection.response.create()
            call = until("response.output_item.done").item
            assert (call.type, call.name, call.status) == ("function_call", "book__find", "completed"), call
            output = {"type": "function_call_output", "call_id": call.call_id, "output": "at eight"}
            connection.conversation.item.create(item=output)
            assert until("response.done").response.status == "completed"
            connection.response.create()
            assert until("response.done").response.status == "completed"
    assert said == ["There is one at eight."] * turns, said
    print(version("openai"))


main()
