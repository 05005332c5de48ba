"""Starts a run, reads it, follows it and answers for it, with a client that was generated from /openapi.json."""

import json
import sys
import uuid

from dalsegno_client import AuthenticatedClient
from dalsegno_client.api.answers import answer_run, list_inbox
from dalsegno_client.api.runs import list_events, list_runs, show_run, start_run
from dalsegno_client.api.agents import list_agents
from dalsegno_client.models import Answer, AnswerReceipt, EventPage, Problem, Standing, Start, WaitingKind

address, key = sys.argv[1:]
client = AuthenticatedClient(base_url=address, token=key, timeout=60, raise_on_unexpected_status=True)


def check(what, is_right, seen):
    if not is_right:
        sys.exit(f"{what}: {seen!r}")
    print(f"  {what}")


agents = list_agents.sync(client=client)
check("lists the agents", [agent.name for agent in agents.agents] == ["approve", "ask", "notes"], agents)

key = f"client-{uuid.uuid4()}"
started = start_run.sync_detailed(
    client=client, body=Start(agent="notes", text="disk full"), idempotency_key=key, prefer="wait=30"
)
run = started.parsed
check("starts a run", started.status_code == 201 and isinstance(run, Standing), started)
check("waits for its answer", run.status == "completed" and run.answer == "Noted: disk full", run)
again = start_run.sync_detailed(client=client, body=Start(agent="notes", text="disk full"), idempotency_key=key)
check("starts it once", again.status_code == 200 and again.parsed.run_id == run.run_id, again)

page = list_events.sync(id=run.run_id, client=client)
kinds = [event.kind for event in page.items]
check("reads its events", isinstance(page, EventPage) and kinds[0] == "started" and kinds[-1] == "completed", kinds)

# A stream is no single document: what the client was generated with opens it, and its lines are read as they come.
request = {**list_events._get_kwargs(id=run.run_id)}
request["headers"] = {**request.get("headers", {}), "Accept": "text/event-stream"}
with client.get_httpx_client().stream(**request) as stream:
    lines = list(stream.iter_lines())
told = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
names = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
check("follows it as a stream", names == ["record"] * len(kinds) + ["end"], names)
check("sees the same records", told[:-1] == [event.to_dict() for event in page.items], told)

waits = start_run.sync(client=client, body=Start(agent="approve", text="go"), prefer="wait=30")
check("meets an approval", waits.status == "suspended" and waits.waiting_for[0].kind == "approval", waits)
inbox = list_inbox.sync(client=client, kind=WaitingKind.APPROVAL)
entry = next(entry for entry in inbox.items if entry.run_id == waits.run_id)
without = Answer.from_dict({"operation": entry.operation, "answer": {"approve": {}}})
refused = answer_run.sync(id=waits.run_id, client=client, body=without)
check("learns that an approval names what was shown", isinstance(refused, Problem) and refused.code == "invalid", refused)
shown = Answer.from_dict({"operation": entry.operation, "shown": entry.shown, "answer": {"approve": {}}, "by": "ada"})
answered = answer_run.sync(id=waits.run_id, client=client, body=shown)
check("answers it", isinstance(answered, AnswerReceipt), answered)
ended = show_run.sync(id=waits.run_id, client=client, wait=30)
check("sees the run end", ended.status == "completed" and ended.answer == "listed", ended)
listed = list_runs.sync(client=client, limit=2)
check("lists runs page by page", len(listed.items) == 2 and listed.items[0].run_id == waits.run_id, listed)
