"""Checks requests against the official SDKs.

Reads lines of JSON from standard input, each with `wire`, `row` and `body`. A request must fit the type of its SDK, and have no
field that the type does not have. The row `image, then two calls` is one conversation that each SDK sends as well, written as its
documentation shows; the two requests are compared field by field.
"""

import base64
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.metadata import version

import anthropic
import botocore.exceptions
import botocore.session
import openai
from anthropic.types import MessageCreateParams
from google import genai
from google.genai import types
from botocore.config import Config
from botocore.validate import ParamValidator
from openai.types.chat.completion_create_params import CompletionCreateParams
from openai.types.responses.response_create_params import ResponseCreateParams
from pydantic import BaseModel, TypeAdapter, ValidationError


class GeminiRequest(BaseModel, extra="forbid"):
    """The body of `generateContent`, which the SDK puts together of its types. These refuse fields that they do not have."""

    contents: list[types.Content]
    systemInstruction: types.Content | None = None
    tools: list[types.Tool] | None = None
    toolConfig: types.ToolConfig | None = None
    generationConfig: types.GenerationConfig | None = None
    serviceTier: types.ServiceTier | None = None


ADAPTERS = {
    "anthropic": TypeAdapter(MessageCreateParams),
    "openai": TypeAdapter(CompletionCreateParams),
    "openai-responses": TypeAdapter(ResponseCreateParams),
}

# Fields that the types do not have, and why they are sent all the same.
EXPLAINED = {
    ("openai", "reasoning_details"): "OpenRouter's own, which wants back what it sent",
}

# Where our request differs from the one that the SDK sends, and why.
DIFFERENT = {
    ("openai-responses", "/input/0/content/1/detail"): "`auto` is the default; validators built from the SDK's types demand it",
    ("anthropic", "/system/0/cache_control"): "a mark lets the provider keep the prefix of a conversation in its cache",
    ("anthropic", "/messages/0/content/1/cache_control"): "the same, for the request before, which the provider has kept",
    ("anthropic", "/messages/2/content/1/cache_control"): "the same, for the conversation up to here",
    ("gemini", "/generationConfig"): "the SDK sends it empty",
    ("gemini", "/systemInstruction/role"): "the SDK calls it a user's, which has no effect",
}

COMPARED = "image, then two calls"


def aws(url):
    """A client of Bedrock that signs with a key of nobody."""
    config = Config(retries={"max_attempts": 0, "mode": "standard"})
    return botocore.session.get_session().create_client(
        "bedrock-runtime",
        region_name="eu-central-1",
        endpoint_url=url,
        aws_access_key_id="none",
        aws_secret_access_key="none",
        config=config,
    )


class OfAws:
    """The type of a request to Bedrock, which is a description of the service."""

    def __init__(self):
        model = aws("http://127.0.0.1:1").meta.service_model
        self.shape = model.operation_model("ConverseStream").input_shape

    def wrong(self, body):
        report = ParamValidator().validate({"modelId": "some-model", **body}, self.shape)
        return [report.generate_report()] if report.has_errors() else []


OF_AWS = OfAws()


def whole(value):
    """Reads iterators, which pydantic checks only as they are read."""
    if isinstance(value, dict):
        return {name: whole(member) for name, member in value.items()}
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        return value
    return [whole(member) for member in value]


def of_types(wire, body):
    """The body as the types of the SDK have it."""
    if wire != "gemini":
        return whole(ADAPTERS[wire].validate_python(body))
    request = GeminiRequest.model_validate_json(json.dumps(body))
    # It writes bytes in the other alphabet of base64.
    return plain(request.model_dump(mode="json", by_alias=True, exclude_none=True))


def plain(value):
    """Writes bytes in the usual alphabet of base64."""
    if isinstance(value, dict):
        bytes_of = lambda name, member: member.replace("-", "+").replace("_", "/") if name in BYTES else plain(member)
        return {name: bytes_of(name, member) for name, member in value.items()}
    return [plain(member) for member in value] if isinstance(value, list) else value


BYTES = ("data", "thoughtSignature")


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


class Recorder(BaseHTTPRequestHandler):
    """Keeps the body of a request, and refuses it."""

    bodies = []

    def do_POST(self):
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        answer = b'{"error": {"message": "recorded", "type": "invalid_request_error"}}'
        self.send_response(400)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def converse(wire, url, image):
    """Lets the SDK send the conversation, as its documentation shows each part."""
    text = f"cell {COMPARED} over {wire}, straight."
    calls = [("call_1", "first"), ("call_2", "second")]
    schema = {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "What to write."}},
        "required": ["text"],
        "additionalProperties": False,
    }
    tool = {"name": "note", "description": "Writes a note."}
    arguments = [json.dumps({"text": word}, separators=(",", ":")) for _, word in calls]
    results = [json.dumps({"written": word}, separators=(",", ":")) for _, word in calls]
    ids = [name for name, _ in calls]
    address = f"data:image/png;base64,{image}"
    if wire == "openai":
        openai.OpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0).chat.completions.create(
            model="some-model",
            messages=[
                {"role": "system", "content": "You write notes."},
                {"role": "user", "content": [
                    {"type": "text", "text": text},
                    {"type": "image_url", "image_url": {"url": address}},
                ]},
                {"role": "assistant", "tool_calls": [
                    {"id": name, "type": "function", "function": {"name": "note", "arguments": words}}
                    for name, words in zip(ids, arguments)
                ]},
                *({"role": "tool", "tool_call_id": name, "content": words} for name, words in zip(ids, results)),
            ],
            tools=[{"type": "function", "function": {**tool, "parameters": schema}}],
            tool_choice="auto",
            stream=True,
            stream_options={"include_usage": True},
        )
    elif wire == "openai-responses":
        openai.OpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0).responses.create(
            model="some-model",
            instructions="You write notes.",
            input=[
                {"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": text},
                    {"type": "input_image", "image_url": address},
                ]},
                *(
                    {"type": "function_call", "call_id": name, "name": "note", "arguments": words}
                    for name, words in zip(ids, arguments)
                ),
                *(
                    {"type": "function_call_output", "call_id": name, "output": words}
                    for name, words in zip(ids, results)
                ),
            ],
            tools=[{"type": "function", **tool, "parameters": schema, "strict": False}],
            tool_choice="auto",
            store=False,
            stream=True,
        )
    elif wire == "gemini":
        parts = [
            [types.Part(text=text), types.Part.from_bytes(data=base64.b64decode(image), mime_type="image/png")],
            [
                types.Part(function_call=types.FunctionCall(id=name, name="note", args=json.loads(words)))
                for name, words in zip(ids, arguments)
            ],
            [
                types.Part(function_response=types.FunctionResponse(id=name, name="note", response={"output": words}))
                for name, words in zip(ids, results)
            ],
        ]
        declaration = types.FunctionDeclaration(**tool, parameters_json_schema=schema)
        calling = types.FunctionCallingConfig(mode="AUTO")
        client = genai.Client(api_key="none", http_options=types.HttpOptions(base_url=url, api_version="v1beta"))
        for _ in client.models.generate_content_stream(
            model="some-model",
            contents=[types.Content(role=role, parts=list) for role, list in zip(("user", "model", "user"), parts)],
            config=types.GenerateContentConfig(
                system_instruction="You write notes.",
                tools=[types.Tool(function_declarations=[declaration])],
                tool_config=types.ToolConfig(function_calling_config=calling),
            ),
        ):
            pass
    elif wire == "bedrock":
        aws(url).converse_stream(
            modelId="some-model",
            system=[{"text": "You write notes."}],
            messages=[
                {"role": "user", "content": [
                    {"text": text},
                    {"image": {"format": "png", "source": {"bytes": base64.b64decode(image)}}},
                ]},
                {"role": "assistant", "content": [
                    {"toolUse": {"toolUseId": name, "name": "note", "input": json.loads(words)}}
                    for name, words in zip(ids, arguments)
                ]},
                {"role": "user", "content": [
                    {"toolResult": {"toolUseId": name, "content": [{"text": words}]}}
                    for name, words in zip(ids, results)
                ]},
            ],
            toolConfig={"tools": [{"toolSpec": {**tool, "inputSchema": {"json": schema}}}]},
        )
    else:
        anthropic.Anthropic(api_key="none", base_url=url, max_retries=0).messages.create(
            model="some-model",
            max_tokens=8192,
            system=[{"type": "text", "text": "You write notes."}],
            messages=[
                {"role": "user", "content": [
                    {"type": "text", "text": text},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}},
                ]},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": name, "name": "note", "input": json.loads(words)}
                    for name, words in zip(ids, arguments)
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": name, "content": words}
                    for name, words in zip(ids, results)
                ]},
            ],
            tools=[{**tool, "input_schema": schema}],
            tool_choice={"type": "auto"},
            stream=True,
        )


def compared(ours):
    """Compares our requests with those of the SDKs, by wire, and says what differs without a reason."""
    server = HTTPServer(("127.0.0.1", 0), Recorder)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for wire, body in ours.items():
        text = json.dumps(body)
        image = text[text.index("iVBOR"):].split('"', 1)[0]
        try:
            converse(wire, f"http://127.0.0.1:{server.server_port}", image)
        except (
            openai.BadRequestError, anthropic.BadRequestError, genai.errors.ClientError, botocore.exceptions.ClientError,
        ):
            pass
        theirs = Recorder.bodies.pop()
        if wire == "gemini":
            # It writes some names in the other spelling that the wire takes.
            theirs = of_types(wire, theirs)
        found = {*differences(body, theirs), *differences(theirs, body)}
        reasons = {path for known, path in DIFFERENT if known == wire}
        yield from (f"{wire}, {COMPARED}: `{path}` is not what the SDK sends" for path in sorted(found - reasons))
        yield from (f"{wire}: `{path}` is explained, and does not differ" for path in sorted(reasons - found))


def main():
    count = 0
    wrong = set()
    ours = {}
    for line in sys.stdin:
        request = json.loads(line)
        wire, row, body = request["wire"], request["row"], request["body"]
        count += 1
        # The longest one of the straight run has the results.
        if row == COMPARED and "straight." in line and len(line) > len(json.dumps(ours.get(wire, ""))):
            ours[wire] = body
        if wire == "bedrock":
            wrong.update(f"{wire}, {row}: {report}" for report in OF_AWS.wrong(body))
            continue
        try:
            kept = of_types(wire, body)
        except ValidationError as error:
            for one in error.errors()[:3]:
                place = "/".join(str(part) for part in one["loc"])
                wrong.add(f"{wire}, {row}: {place}: {one['msg']}")
            continue
        for path in differences(body, kept):
            if (wire, path.rsplit("/", 1)[-1]) not in EXPLAINED:
                wrong.add(f"{wire}, {row}: `{path}` is no field of the SDK's type")
    wrong.update(compared(ours))
    print(json.dumps({
        "requests": count,
        "compared": len(ours),
        "types": {name: version(name) for name in ("openai", "anthropic", "google-genai", "botocore")},
        "wrong": sorted(wrong),
    }))


main()
