"""An MCP server that keeps its state in memory, and hands it out and takes it back by the convention of docs/mcp.md.

Needs the package `mcp` (2.3 or later) from PyPI. Start it as an agent does, behind the proxy:

    parhelia mcp-proxy --name notes -- python notes_server.py
"""

import json

from mcp.server.mcpserver import MCPServer

server = MCPServer("notes")
notes: list[str] = []


@server.tool()
def add_note(text: str) -> str:
    """Keep a note."""
    notes.append(text)
    return f"{len(notes)} notes"


@server.tool()
def list_notes() -> str:
    """All notes, one a line."""
    return "\n".join(notes)


@server.resource("checkpoint://state", mime_type="application/json")
def state() -> str:
    """Everything that has to outlive this process, as one text."""
    return json.dumps({"version": 1, "notes": notes})


@server.tool()
def restore_checkpoint(state: str) -> str:
    """Take back what checkpoint://state has handed out."""
    given = json.loads(state)
    if given.get("version") != 1:
        raise ValueError(f"version {given.get('version')!r} of the state is not known")
    # Nothing is kept of what was there: the state is the whole.
    notes[:] = given["notes"]
    return f"{len(notes)} notes"


if __name__ == "__main__":
    server.run(transport="stdio")
