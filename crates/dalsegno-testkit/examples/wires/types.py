"""Checks requests against the types of the official SDKs.

Reads lines of JSON from standard input, each with `wire`, `row` and `body`. A request must fit the type of its SDK, and have no
field that the type does not have.
"""

import json
import sys
from importlib.metadata import version

from anthropic.types import MessageCreateParams
from openai.types.chat.completion_create_params import CompletionCreateParams
from openai.types.responses.response_create_params import ResponseCreateParams
from pydantic import TypeAdapter, ValidationError

ADAPTERS = {
    "anthropic": TypeAdapter(MessageCreateParams),
    "openai": TypeAdapter(CompletionCreateParams),
    "openai-responses": TypeAdapter(ResponseCreateParams),
}

# Fields that the types do not have, and why they are sent all the same.
EXPLAINED = {
    ("openai", "reasoning_details"): "OpenRouter's own, which wants back what it sent",
}


def whole(value):
    """Reads iterators, which pydantic checks only as they are read."""
    if isinstance(value, dict):
        return {name: whole(member) for name, member in value.items()}
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        return value
    return [whole(member) for member in value]


def differences(sent, kept, path=""):
    """Says what the types do not have of what was sent."""
    if isinstance(sent, dict) and isinstance(kept, dict):
        for name, member in sent.items():
            if name not in kept:
                yield f"{path}/{name}"
            else:
                yield from differences(member, kept[name], f"{path}/{name}")
    elif isinstance(sent, list) and isinstance(kept, list) and len(sent) == len(kept):
        for number, (one, other) in enumerate(zip(sent, kept)):
            yield from differences(one, other, f"{path}/{number}")
    elif sent != kept:
        yield path


def main():
    count = 0
    wrong = {}
    for line in sys.stdin:
        request = json.loads(line)
        wire, row, body = request["wire"], request["row"], request["body"]
        count += 1
        try:
            kept = whole(ADAPTERS[wire].validate_python(body))
        except ValidationError as error:
            for one in error.errors()[:3]:
                place = "/".join(str(part) for part in one["loc"])
                wrong.setdefault(f"{wire}, {row}: {place}: {one['msg']}", 0)
            continue
        for path in differences(body, kept):
            if (wire, path.rsplit("/", 1)[-1]) not in EXPLAINED:
                wrong.setdefault(f"{wire}, {row}: `{path}` is no field of the SDK's type", 0)
    print(json.dumps({
        "requests": count,
        "types": {name: version(name) for name in ("openai", "anthropic")},
        "wrong": sorted(wrong),
    }))


main()
