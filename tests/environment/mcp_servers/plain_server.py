"""An MCP server of nothing but the standard library, which misbehaves as its first argument says.

It starts in a few milliseconds, and can do what a server made with a library cannot.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else "good"
ECHO: dict[str, Any] = {
    "name": "echo",
    "description": "Say it again.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "times": {"type": "integer", "minimum": 1},
            "mood": {"enum": ["calm", "loud"]},
        },
        "required": ["text"],
        "additionalProperties": False,
    },
}
DO: dict[str, Any] = {
    "name": "do",
    "description": "Do something.",
    "inputSchema": {"type": "object", "properties": {"what": {"type": "string"}}},
}
LOOK: dict[str, Any] = {"name": "look", "description": "", "inputSchema": {"type": "object"}}
TOOLS = [ECHO, DO, LOOK]
PNG = "iVBORw0KGgo="


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def flood() -> None:
    while True:
        os.write(1, b"x" * 65536)


def notify_for_ever() -> None:
    while True:
        params = {"level": "info", "data": "again"}
        say({"method": "notifications/message", "params": params})


def complain_for_ever() -> None:
    while True:
        os.write(2, b"E" * 65536)


def spawn() -> str:
    sleeper = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
    own = subprocess.Popen(sleeper, start_new_session=True, stdout=subprocess.DEVNULL)
    return f"{os.getpid()} {own.pid} {os.getppid()}"


def die() -> None:
    print("the disk is full", file=sys.stderr, flush=True)
    os._exit(3)


def die_of_secret() -> None:
    print("I said:", os.environ["PLAIN_SECRET"], file=sys.stderr, flush=True)
    os._exit(3)


def change() -> str:
    TOOLS[0] = {**ECHO, "description": "Say something else."}
    say({"method": "notifications/tools/list_changed"})
    return "changed"


def add() -> str:
    TOOLS.append({**LOOK, "name": "new"})
    say({"method": "notifications/tools/list_changed"})
    return "added"


DEEDS: dict[str, Any] = {
    "die": die,
    "hang": lambda: time.sleep(600),
    "flood": flood,
    "notify": notify_for_ever,
    "complain": complain_for_ever,
    "spawn": spawn,
    "change": change,
    "add": add,
    "die of secret": die_of_secret,
    "secret": lambda: "it is " + os.environ.get("PLAIN_SECRET", "unknown"),
    "broken secret": lambda: " | ".join(os.environ.get("PLAIN_SECRET", "")),
    "environment": lambda: " ".join(sorted(os.environ)),
    "junk": lambda: print("starting up ...", flush=True) or "fine",
    "long": lambda: "y" * 50_000,
}


def call(params: dict[str, Any]) -> dict[str, Any]:
    arguments = params.get("arguments") or {}
    if params["name"] == "look":
        return {"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]}
    if params["name"] == "do":
        what = arguments["what"]
        if what not in DEEDS:
            text = {"type": "text", "text": f"I cannot {what}"}
            return {"content": [text], "isError": True}
        return {"content": [{"type": "text", "text": str(DEEDS[what]())}]}
    return {"content": [{"type": "text", "text": arguments["text"] * arguments.get("times", 1)}]}


def listed() -> Any:
    if MODE == "no-list":
        return "tools? which tools?"
    if MODE == "bad-schema":
        schema = {"type": "object", "properties": {"x": {"type": 7}}}
        return [{"name": "echo", "inputSchema": schema}]
    if MODE == "no-object":
        return [{"name": "echo", "inputSchema": {"type": "string"}}]
    if MODE == "bad-name":
        return [{"name": "say it", "inputSchema": {"type": "object"}}]
    if MODE == "bad-reference":
        schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/missing"}}}
        return [{"name": "echo", "inputSchema": schema}]
    if MODE == "huge":
        return [{"name": "echo", "description": "d" * 60_000, "inputSchema": {"type": "object"}}]
    if MODE == "tells":
        return [{**ECHO, "description": f"Use {os.environ['PLAIN_SECRET']} for it."}]
    if MODE == "empty":
        return []
    return TOOLS


def answer(message: dict[str, Any]) -> dict[str, Any]:
    if message["method"] == "initialize":
        capabilities = {"tools": {"listChanged": True}}
        information = {"name": "plain", "version": "1"}
        version = message["params"]["protocolVersion"]
        result: Any = {
            "protocolVersion": version,
            "capabilities": capabilities,
            "serverInfo": information,
        }
    elif message["method"] == "tools/list":
        result = {"tools": listed()}
    elif message["method"] == "tools/call":
        result = call(message["params"])
    elif message["method"] == "ping":
        result = {}
    else:
        return {"error": {"code": -32601, "message": "no such method"}}
    return {"result": result}


def main() -> None:
    if MODE == "dies":
        die()
    if MODE == "hangs":
        time.sleep(600)
    if MODE == "floods":
        flood()
    if MODE == "dies-once-used" and os.path.exists(sys.argv[2]):
        die()
    if MODE == "changes-once-used" and os.path.exists(sys.argv[2]):
        TOOLS.pop()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            say({"id": message["id"], **answer(message)})


main()
