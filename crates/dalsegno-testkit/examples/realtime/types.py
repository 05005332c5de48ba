"""Checks frames against the official SDK.

Takes the folder with the frames: for each API those that are sent and those that are taken. Each must fit the SDK's type of its kind,
and those that are sent must have no field that the type does not have.
"""

import json
import sys
from importlib.metadata import version

from openai.types.live.connect_client_event import ConnectClientEvent
from openai.types.live.connect_server_event import ConnectServerEvent
from openai.types.realtime.realtime_client_event import RealtimeClientEvent
from openai.types.realtime.realtime_server_event import RealtimeServerEvent
from pydantic import TypeAdapter, ValidationError


def differences(ours, kept, path=""):
    """The places where the type has something else than the frame."""
    if isinstance(ours, dict) and isinstance(kept, dict):
        for key, member in ours.items():
            if key not in kept:
                yield f"{path}/{key}"
            else:
                yield from differences(member, kept[key], f"{path}/{key}")
    elif isinstance(ours, list) and isinstance(kept, list):
        for index, (one, other) in enumerate(zip(ours, kept)):
            yield from differences(one, other, f"{path}/{index}")
    elif ours != kept:
        yield path


def extras(value, path=""):
    """Fields that the SDK keeps although its types do not have them."""
    for key in value.model_extra or {}:
        yield f"{path}/{key}"
    for key in value.model_fields_set:
        yield from of_member(getattr(value, key, None), f"{path}/{key}")


def of_member(member, path):
    if hasattr(member, "model_extra"):
        yield from extras(member, path)
    elif isinstance(member, list):
        for index, one in enumerate(member):
            yield from of_member(one, f"{path}/{index}")


def check(path, adapter, is_ours):
    count = 0
    kinds = set()
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        frame = json.loads(line)
        count += 1
        kinds.add(frame["type"])
        place = f"{path.rsplit('/', 1)[-1]}, line {number}, {frame['type']}"
        try:
            read = adapter.validate_python(frame, strict=False)
        except ValidationError as error:
            for one in error.errors()[:3]:
                yield f"{place}: {'/'.join(map(str, one['loc']))}: {one['msg']}"
            continue
        if read.type != frame["type"]:
            yield f"{place}: the SDK takes it for {read.type}"
        if is_ours:
            yield from (f"{place}: `{found}` is no field of the SDK's type" for found in extras(read))
        kept = read.model_dump(mode="json", exclude_unset=True)
        yield from (f"{place}: `{found}` is not kept by the SDK's type" for found in differences(frame, kept))
    print(f"{count} frames of {len(kinds)} kinds in {path.rsplit('/', 1)[-1]} were checked against openai {version('openai')}")


FILES = [
    ("sent.jsonl", RealtimeClientEvent, True),
    ("taken.jsonl", RealtimeServerEvent, False),
    ("live-sent.jsonl", ConnectClientEvent, True),
    ("live-taken.jsonl", ConnectServerEvent, False),
]


def main():
    wrong = []
    for name, types, is_ours in FILES:
        wrong += check(f"{sys.argv[1]}/{name}", TypeAdapter(types), is_ours)
    for one in wrong:
        print(f"- {one}")
    sys.exit(1 if wrong else 0)


main()
