"""What is there before Schemathesis begins, and how it learns of it.

It makes documents of every kind, runs in every state and a webhook, and adds their names to the schemas of parameters and bodies as
values that are as good as any other: what may be sent stays the same.
"""

import os

import requests
import schemathesis

ADDRESS, KEY = os.environ["DALSEGNO_ADDRESS"], os.environ["DALSEGNO_KEY"]
RECEIVER = os.environ["DALSEGNO_RECEIVER"]

TOOL = {
    "name": "crm",
    "description": "Greets a customer.",
    "parameters": [{"name": "who", "type": "string", "required": True}],
    "actions": [{"type": "respond", "message": "hello {{params.who}}"}],
}
AGENT = 'name = "desk"\n[[steps]]\nrespond = "hello"\n'
TENANT = 'name = "beta"\ndescription = "A tenant."\n'


def send(method, path, **rest):
    headers = {"Authorization": f"Bearer {KEY}", **rest.pop("headers", {})}
    answer = requests.request(method, f"{ADDRESS}{path}", headers=headers, timeout=60, **rest)
    if answer.status_code >= 300:
        raise SystemExit(f"{method} {path}: {answer.status_code} {answer.text}")
    return answer


def document(path, kind, text):
    headers = {"Content-Type": f"application/{kind}", "If-None-Match": "*"}
    body = {"json": text} if kind == "json" else {"data": text.encode()}
    return send("PUT", path, headers=headers, **body).headers["ETag"].strip('"')


def started(agent):
    answer = send("POST", "/v1/runs", json={"agent": agent, "text": "x"}, headers={"Prefer": "wait=30"})
    return answer.json()["run_id"]


versions = [
    document("/v1/tools/crm", "json", TOOL),
    document("/v1/tenants/acme/tools/crm", "json", TOOL),
    document("/v1/agents/desk", "toml", AGENT),
    document("/v1/tenants/beta", "toml", TENANT),
]
runs = [started("notes"), started("ask"), started("approve")]
webhook = send("POST", "/v1/webhooks", json={"url": RECEIVER}).json()["id"]

NAMES = {
    "agent": ["desk", "notes"],
    "tool": ["crm"],
    "tenant": ["acme", "beta"],
    "version": versions,
    "step": ["1", "end"],
    "left": runs,
    "right": runs,
}


def names(path, parameter):
    name = parameter["name"]
    match (name, path.split("/")[1:3]):
        case ("id", ["v1", "runs"]):
            return runs
        case ("id", ["v1", "webhooks"]):
            return [webhook]
        case ("name", ["triggers", _]):
            return ["hook"]
        case ("name", ["v1", "sessions"]):
            return runs
        case _:
            return NAMES.get(name) if parameter["in"] in ("path", "query") else None


def also(schema, values):
    """The same values are allowed, and these are chosen often."""
    return {"anyOf": [{"enum": values}, schema]}


@schemathesis.hook
def before_load_schema(context, raw_schema):
    for path, operations in raw_schema["paths"].items():
        for operation in operations.values():
            for parameter in operation.get("parameters", []):
                if known := names(path, parameter):
                    parameter["schema"] = also(parameter["schema"], known)
            for kind, content in operation.get("requestBody", {}).get("content", {}).items():
                of_tenant = path.startswith("/v1/tenants/{tenant}") and "/tools/" not in path
                if kind == "application/toml":
                    # Any bytes are a text: there is no value that is none.
                    content["schema"] = also({}, [TENANT if of_tenant else AGENT])
                elif path.endswith("/{tool}") or path.endswith("/{tool}/check"):
                    content["schema"] = also(content["schema"], [TOOL])
    raw_schema["components"]["schemas"]["NewWebhook"]["properties"]["url"]["anyOf"] = [{"enum": [RECEIVER]}, {}]


@schemathesis.serializer("application/toml")
def toml(context, value):
    """A document of TOML is sent as the text that it is; anything else as the text of it."""
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
