"""An MCP server over standard streams with a state in memory, which misbehaves in the way that its first argument says."""

import json
import os
import signal
import sys
import time

WAY = sys.argv[1] if len(sys.argv) > 1 else "good"
SIZE = int(sys.argv[2]) if len(sys.argv) > 2 else 0
STATE = "checkpoint://state"
PARENT = os.getppid()
notes = ["first"]


def say(message):
    sys.stdout.write(json.dumps(message, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def notify(number):
    say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": number}})


def answer(request, result):
    if WAY == "noisy":
        sys.stdout.write("a line that is no JSON\n{\n\n")
    if WAY == "id-last":
        return say({"result": result, "jsonrpc": "2.0", "id": request["id"]})
    say({"jsonrpc": "2.0", "id": request["id"], "result": result})


def refuse(request, code, message):
    say({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}})


def initialize(request):
    version = "2024-11-05" if WAY == "old" else request["params"]["protocolVersion"]
    capabilities = {"tools": {}} if WAY == "no-resources" else {"tools": {}, "resources": {}}
    info = {"name": "odd", "version": "1"}
    answer(request, {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info})


def tool(name):
    field = {"restore_checkpoint": "state"}.get(name, "text")
    return {"name": name, "inputSchema": {"type": "object", "properties": {field: {"type": "string"}}}}


def list_tools(request):
    names = ["echo", "notes", "stop"] + ([] if WAY == "restore-missing" else ["restore_checkpoint"])
    if WAY == "endless-pages":
        return answer(request, {"tools": [tool("echo")], "nextCursor": "more"})
    if WAY == "pages":
        at = int(request.get("params", {}).get("cursor", "0"))
        more = {"nextCursor": str(at + 1)} if at + 1 < len(names) else {}
        return answer(request, {"tools": [tool(names[at])], **more})
    answer(request, {"tools": [tool(name) for name in names]})


def call(request):
    name, arguments = request["params"]["name"], request["params"].get("arguments", {})
    text, is_error = "", False
    if name == "echo":
        text = arguments["text"]
    elif name == "notes":
        text = " ".join(notes)
    elif name == "stop":
        # It reads no more, and does not end before its proxy does.
        while os.getppid() == PARENT:
            time.sleep(0.05)
        os._exit(0)
    elif WAY == "restore-hangs":
        return
    elif WAY == "restore-crashes":
        os._exit(9)
    elif WAY == "restore-fails":
        text, is_error = "no, thank you", True
    else:
        notes[:] = json.loads(arguments["state"])
        text = "taken"
    answer(request, {"content": [{"type": "text", "text": text}], "isError": is_error})


def read(request):
    if request["params"]["uri"] != STATE or WAY == "stateless":
        return refuse(request, -32002, "Resource not found")
    if WAY == "hangs":
        return
    if WAY == "crashes" or WAY == "crashes-later" and os.path.exists("crash"):
        os._exit(7)
    if WAY == "refuses":
        return refuse(request, -32603, "the disk is on fire")
    if WAY == "floods-a-line":
        say({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * SIZE}})
    if WAY == "floods-lines":
        for number in range(SIZE):
            notify(number)
    text = "s" * SIZE if WAY == "large" else json.dumps(notes)
    answer(request, {"contents": [{"uri": STATE, "mimeType": "application/json", "text": text}]})


HANDLERS = {
    "initialize": initialize,
    "ping": lambda request: answer(request, {}),
    "tools/list": list_tools,
    "tools/call": call,
    "resources/read": read,
}


def ended(number, frame):
    with open("signalled", "w") as out:
        out.write(str(number))
    os._exit(3)


if WAY == "exits":
    sys.exit(SIZE)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, ended)
for line in sys.stdin:
    message = json.loads(line)
    if "method" in message and "id" in message:
        handler = HANDLERS.get(message["method"])
        handler(message) if handler else refuse(message, -32601, "Method not found")
with open("closed", "w"):
    pass
