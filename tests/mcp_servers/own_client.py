"""Drives `parhelia mcp` with the client of the package `mcp`: own_client.py WORKSPACE PROGRAM ARGUMENT..."""

import asyncio
import json
import os
import pathlib
import sys

from mcp import ClientSession, MCPError, StdioServerParameters, stdio_client

workspace = pathlib.Path(sys.argv[1])
server = StdioServerParameters(command=sys.argv[2], args=sys.argv[3:], env=dict(os.environ), cwd=workspace)
TOOLS = {
    "create_checkpoint", "list_checkpoints", "show_checkpoint", "diff_checkpoints", "search_checkpoints", "read_file",
}


class Caller:
    def __init__(self, session):
        self.session = session

    async def call(self, name, **arguments):
        result = await self.session.call_tool(name, arguments)
        assert not result.is_error, (name, arguments, result)
        return result

    async def json(self, name, **arguments):
        result = await self.call(name, **arguments)
        # The text is for clients that know no structured content.
        assert json.loads(result.content[0].text) == result.structured_content, result
        return result.structured_content

    async def text(self, name, **arguments):
        return (await self.call(name, **arguments)).content[0].text

    async def refused(self, name, **arguments):
        """The words of a tool, or of the protocol, that refuses something."""
        try:
            result = await self.session.call_tool(name, arguments)
        except MCPError as error:
            return error.error.message
        assert result.is_error, (name, arguments, result)
        return result.content[0].text


async def begins(session):
    hello = await session.initialize()
    assert hello.server_info.name == "parhelia" and "parhelia checkpoint rollback" in hello.instructions, hello
    tools = {tool.name: tool for tool in (await session.list_tools()).tools}
    assert tools.keys() >= TOOLS, tools
    for name in TOOLS:
        assert tools[name].annotations.read_only_hint == (name != "create_checkpoint"), tools[name]
    for tool in tools.values():
        assert tool.description, tool
        assert not tool.annotations.destructive_hint, tool
        for about in tool.input_schema.get("properties", {}).values():
            assert about.get("description"), tool


async def creates(caller):
    made = await caller.json("create_checkpoint", message="before größer", tags=["risky", "by-mcp"])
    first = made["checkpoint"]
    assert first["message"] == "before größer" and first["trigger"] == "manual" and first["trigger_detail"] == "mcp", first
    assert sorted(first["tags"]) == ["by-mcp", "risky"] and made["warnings"] == [], made
    (workspace / "text.txt").write_text("one\nTWO\n")
    (workspace / "new.txt").write_text("new\n")
    second = (await caller.json("create_checkpoint"))["checkpoint"]
    listed = await caller.json("list_checkpoints")
    assert [one["id"] for one in listed["checkpoints"]] == [second["id"], first["id"]] and not listed["truncated"], listed
    listed = await caller.json("list_checkpoints", limit=1)
    assert [one["id"] for one in listed["checkpoints"]] == [second["id"]] and listed["truncated"], listed
    for name in (first["id"], "latest~1", "tag:risky"):
        shown = json.loads(await caller.text("show_checkpoint", checkpoint=name))
        assert first["id"] in json.dumps(shown), shown
    return first["id"], second["id"]


async def differs(caller, first, second):
    diff = await caller.json("diff_checkpoints", old=first)
    assert (diff["old"], diff["new"]) == (first, second), diff
    assert {change["path"] for change in diff["changes"]} == {"text.txt", "new.txt"} and not diff["truncated"], diff
    assert all("diff" not in change or change["diff"] is None for change in diff["changes"]), diff
    diff = await caller.json("diff_checkpoints", old=first, new=second, path="text.txt")
    assert [change["path"] for change in diff["changes"]] == ["text.txt"], diff
    assert "-two\n+TWO\n" in diff["changes"][0]["diff"], diff
    diff = await caller.json("diff_checkpoints", old=first, path="./text.txt")
    assert [change["path"] for change in diff["changes"]] == ["text.txt"], diff
    await caller.refused("diff_checkpoints", old=first, path="no-such-file")


async def finds(caller, first):
    found = await caller.json("search_checkpoints", query="größer")
    assert found["matching"] == 1 and first in json.dumps(found["found"]), found
    assert (await caller.json("search_checkpoints", query="nowhere"))["matching"] == 0


async def reads(caller, first):
    assert await caller.text("read_file", checkpoint=first, path="text.txt") == "one\ntwo\n"
    assert await caller.text("read_file", checkpoint="latest", path="text.txt") == "one\nTWO\n"
    assert await caller.text("read_file", checkpoint=first, path="folder") == "deeper/\nünder"
    assert await caller.text("read_file", checkpoint=first, path="folder/ünder") == "below\n"
    assert "no-such-file" in await caller.refused("read_file", checkpoint=first, path="no-such-file")
    assert "is no text" in await caller.refused("read_file", checkpoint=first, path="binary")
    assert "300000 bytes" in await caller.refused("read_file", checkpoint=first, path="large")
    assert "symlink" in await caller.refused("read_file", checkpoint=first, path="link")
    assert (await caller.text("read_file", checkpoint=first, path="")).startswith("binary\nfolder/\n")
    for path in ("../a", "/etc/passwd", "link/passwd"):
        assert "root:" not in await caller.refused("read_file", checkpoint=first, path=path)


async def refuses(caller):
    wrong = [
        ("create_checkpoint", {"tags": ["not a tag"]}),
        ("create_checkpoint", {"tags": "risky"}),
        ("create_checkpoint", {"message": 7}),
        ("create_checkpoint", {"unknown": 1}),
        ("list_checkpoints", {"limit": -1}),
        ("list_checkpoints", {"session": "no-such-session"}),
        ("show_checkpoint", {}),
        ("show_checkpoint", {"checkpoint": "no-such-one"}),
        ("show_checkpoint", {"checkpoint": "latest~99"}),
        ("diff_checkpoints", {"old": "\0"}),
        ("search_checkpoints", {"query": ""}),
        ("restore_checkpoint", {"checkpoint": "latest"}),
    ]
    for name, arguments in wrong:
        assert await caller.refused(name, **arguments), (name, arguments)


async def hands_out(session, ids):
    listed = (await session.list_resources()).resources
    addresses = [str(resource.uri) for resource in listed]
    assert [f"parhelia://checkpoints/{one}/manifest" for one in reversed(ids)] == addresses[-2:], addresses
    templates = (await session.list_resource_templates()).resource_templates
    assert [one.uri_template for one in templates] == ["parhelia://checkpoints/{checkpoint}/manifest"], templates
    content = (await session.read_resource(addresses[-1])).contents[0]
    assert content.mime_type == "application/json" and ids[0] in content.text, content
    for address in ("parhelia://checkpoints/none/manifest", "parhelia://checkpoints//manifest", "file:///etc/passwd"):
        try:
            await session.read_resource(address)
        except MCPError:
            continue
        raise AssertionError(address)


async def main():
    async with stdio_client(server) as (reader, writer), ClientSession(reader, writer) as session:
        caller = Caller(session)
        await begins(session)
        first, second = await creates(caller)
        await differs(caller, first, second)
        await finds(caller, first)
        await reads(caller, first)
        await refuses(caller)
        await hands_out(session, [first, second])
        # All at once, and after all that was refused.
        ids = await asyncio.gather(*(caller.json("create_checkpoint", message=str(number)) for number in range(5)))
        assert len({one["checkpoint"]["id"] for one in ids}) == 5, ids
        assert len((await caller.json("list_checkpoints"))["checkpoints"]) == 7


asyncio.run(main())
print("done")
