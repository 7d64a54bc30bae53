"""Reads a file of a session's last checkpoint, tags that, pauses the session, and reads what happened: example.py SESSION FILE"""

import json
import os
import sys

import httpx
from parhelia_client import Client
from parhelia_client.api.default import get_file, health, list_checkpoints, list_sessions, pause_session, tag_checkpoint
from parhelia_client.models import Problem, TagCheckpointBody


def answered(answer):
    """The answer, unless it is a refusal."""
    if isinstance(answer, Problem):
        sys.exit(f"{answer.title}: {answer.detail}")
    return answer


name, path = sys.argv[1:]
transport = httpx.HTTPTransport(uds=os.environ["PARHELIA_SOCKET"])
client = Client(base_url="http://localhost", httpx_args={"transport": transport})
before = answered(health.sync(client=client)).sequence

for session in answered(list_sessions.sync(client=client)).sessions:
    print(f"{session.name} is {session.status}")

checkpoint = answered(list_checkpoints.sync(name, client=client)).checkpoints[0]
content = answered(get_file.sync(checkpoint.id, path, client=client)).payload.read()
print(f"{checkpoint.id} has {content!r}")

answered(tag_checkpoint.sync(checkpoint.id, client=client, body=TagCheckpointBody(tags=["seen"])))
answered(pause_session.sync(name, client=client, idempotency_key=f"pause after {before}"))

# The stream has no end; the last of these events is that of the session's new status.
with client.get_httpx_client().stream("GET", "/v1/events", params={"after": before}) as events:
    for line in events.iter_lines():
        if line.startswith("data:"):
            event = json.loads(line.removeprefix("data:"))
            print(f"{event['sequence']}: {event['kind']}")
            if event["kind"] == "session.status":
                break
