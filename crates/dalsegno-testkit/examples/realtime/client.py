"""Holds a call with a tool by the official client, at the provider whose address is given."""

import sys
from importlib.metadata import version

from openai import OpenAI


def main():
    base = sys.argv[1]
    client = OpenAI(api_key="none", base_url=base, websocket_base_url=base.replace("http", "ws", 1))
    said = []
    with client.realtime.connect(model="gpt-realtime-2.1") as connection:
        kinds = []

        def until(kind):
            """The next event of a kind; an error is one that nobody wants."""
            for event in connection:
                kinds.append(event.type)
                assert event.type != "error", event
                if event.type == "response.output_text.done":
                    said.append(event.text)
                if event.type == kind:
                    return event

        until("session.created")
        tool = {"type": "function", "name": "book__find", "parameters": {"type": "object", "properties": {}}}
        connection.session.update(session={"type": "realtime", "output_modalities": ["text"], "instructions": "You are the desk.", "tools": [tool]})
        until("session.updated")
        message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "A table?"}]}
        connection.conversation.item.create(item=message)
        until("conversation.item.done")
        connection.response.create()
        call = until("response.output_item.done").item
        assert (call.type, call.name, call.status) == ("function_call", "book__find", "completed"), call
        assert until("response.done").response.status == "completed"
        connection.conversation.item.create(item={"type": "function_call_output", "call_id": call.call_id, "output": "at eight"})
        until("conversation.item.done")
        connection.response.create()
        assert until("response.done").response.status == "completed"
    assert said == ["There is one at eight."], said
    print(f"openai {version('openai')} held a call with a tool: {len(kinds)} events of {len(set(kinds))} kinds")


main()
