"""Writes out a small store byte by byte, with what each byte means: docs/format/example.md is made by this.

    python tests/second_reader/explain.py make BINARY docs/format    make a store with parhelia, and write example.json and example.md
    python tests/second_reader/explain.py STORE                      print the bytes of a store
"""

import json
import os
import subprocess
import sys
import tempfile
import textwrap

import parity
import trees
from encoding import Decoder
from packs import CHUNK, TRAILER_BYTES, TREE_KIND, is_plain
from store import Store

KINDS = {1: "chunk", 2: "recipe root", 3: "recipe node", 4: "tree node", 5: "record", 6: "table"}
ENTRY_KINDS = ["file", "folder", "symlink", "fifo", "socket", "character device", "block device"]


class Dump:
    """Fields of some bytes, one a line: offset, hex, meaning."""

    def __init__(self, data, start=0):
        self.data, self.at, self.start, self.lines = data, 0, start, []

    def field(self, length, meaning):
        part = self.data[self.at : self.at + length]
        rows = [part[i : i + 16].hex(" ") for i in range(0, len(part), 16)] or [""]
        if len(rows) > 4:
            rows[3:] = [f"... {len(part) - 48} more"]
        for number, row in enumerate(rows):
            offset = self.start + self.at + 16 * number
            self.lines.append(f"{offset:6}  {row:47}  {meaning if number == 0 else ''}".rstrip())
        self.at += length
        return part

    def number(self, length, meaning):
        value = int.from_bytes(self.data[self.at : self.at + length], "little")
        self.field(length, f"{meaning} {value}")
        return value

    def decoded(self, read, meaning):
        """A field that a Decoder reads."""
        d = Decoder(self.data[self.at :], "example")
        value = read(d)
        self.field(d.at, meaning.format(value))
        return value


def text_of(path):
    with open(path) as file:
        return file.read().strip()


def explain(folder):
    """The whole store, as text."""
    store = Store(folder)
    out = ["### store.json", "", "```json", text_of(os.path.join(folder, "store.json")), "```"]
    for name in sorted(os.listdir(os.path.join(folder, "journal"))):
        if name.endswith(".log"):
            out += ["", f"### journal/{name}", "", "```text", *segment(os.path.join(folder, "journal", name)), "```"]
    for id_ in store.packs:
        out += ["", f"### packs/{id_}.pack", "", "```text", *pack(store, id_), "```"]
    return "\n".join(out) + "\n"


def segment(path):
    with open(path, "rb") as file:
        dump = Dump(file.read())
    dump.field(8, '"PARHJRNL"')
    dump.number(2, "version")
    dump.number(2, "reserved")
    dump.number(8, "sequence of the first record")
    dump.number(8, "offset at which the segment before ends")
    dump.field(32, "chain hash there")
    dump.field(4, "CRC of the 60 bytes before")
    while dump.at < len(dump.data):
        length = dump.number(4, "body length")
        dump.field(4, "CRC of the length and of all that follows")
        dump.number(8, "sequence")
        dump.field(32, "chain hash before")
        body = dump.data[dump.at : dump.at + length].decode()
        dump.field(length, "body:")
        dump.lines += textwrap.wrap(body, 110, initial_indent=" " * 8, subsequent_indent=" " * 8, break_on_hyphens=False)
    return dump.lines


def pack(store, id_):
    with open(os.path.join(store.folder, "packs", f"{id_}.pack"), "rb") as file:
        dump = Dump(file.read())
    dump.field(8, '"PARHPACK"')
    dump.number(2, "version")
    dump.number(2, "flags")
    dump.field(4, "CRC of the 12 bytes before")
    for block in (block for block in store.objects.blocks if id_ in block.path):
        block_lines(dump, store, block)
    found = None if is_plain(dump.data) else parity.trailer(dump.data[-parity.TRAILER_BYTES :], b"PARHPEN2", id_)
    copies = (found.covered if found else len(dump.data) - TRAILER_BYTES) - dump.at
    if copies:
        dump.field(copies, "the copies of all headers and directories")
    if found:
        trailer_lines(dump, '"PARHPRTY"', found)
        dump.field(found.parity_shards() * found.shard_bytes, f"{found.parity_shards()} parity shards")
        dump.field(4 * found.shards(), f"CRCs of {found.shards()} shards")
        dump.field(4 * found.parity_shards(), "CRCs of the parity shards")
        trailer_lines(dump, '"PARHPEN2"', found)
    else:
        trailer_lines(dump, '"PARHPEND"', found)
    return dump.lines


def trailer_lines(dump, magic, with_parity):
    start = dump.at
    dump.field(8, magic)
    dump.number(4, "blocks")
    dump.number(8, "length of the copies")
    dump.number(8, "length of the pack")
    dump.field(32, "BLAKE3 of all headers and directories, in order")
    if with_parity:
        dump.number(8, "bytes that parity covers")
        dump.number(4, "shard length")
        dump.number(4, "stripes")
        dump.number(4, "rows of parity")
    dump.field(4, f"CRC of the {dump.at - start} bytes before")


def block_lines(dump, store, block):
    dump.field(4, '"PHBK"')
    dump.number(1, "codec")
    dump.number(1, "cipher")
    dump.number(2, "reserved")
    for meaning in ("objects", "bases", "directory length", "payload length", "heads length", "tails length"):
        dump.number(4, meaning)
    dump.field(4, "CRC of the payload")
    dump.field(4, "CRC of the 36 bytes before and the directory")
    for _ in block.objects:
        kind = dump.data[dump.at]
        dump.field(1, f"kind {kind}: {KINDS[kind]}")
        dump.field(32, "id")
        dump.decoded(lambda d: d.uint(), "head length {}")
        dump.decoded(lambda d: d.uint(), "version {}" if block.codec == 2 else "tail length {}")
        dump.decoded(lambda d: d.uint(), "base {}")
    for number, _ in enumerate(block.bases, 1):
        dump.field(32, f"id of base {number}")
    dump.field(block.payload_bytes, "payload")
    for (kind, id_, *_), data in zip(block.objects, store.objects.decode(block)):
        dump.lines += ["", f"        {KINDS[kind]} {id_.hex()[:16]}..., {len(data)} bytes:"]
        inner = Dump(data)
        if kind == TREE_KIND:
            tree_node(inner)
        elif kind == CHUNK:
            dump.lines += [f"          {line}" for line in data.decode().splitlines()]
        else:
            dump.lines.append("          (it stands in the journal as well)")
        dump.lines += [f"  {line}" for line in inner.lines]
    dump.lines.append("")


def tree_node(dump):
    level = dump.number(1, "level")
    lines = dump.decoded(lambda d: d.uint(), "lines {}")
    dump.decoded(lambda d: d.uint(), "head length {}")
    assert level == 0, "examples have small folders"
    found = trees.node(dump.data, "example")[1]
    for _ in range(lines):
        flags = dump.data[dump.at]
        dump.field(1, f"kind {flags & 7}: {ENTRY_KINDS[flags & 7]}, flags 0x{flags & 0xF0:02x}")
        dump.decoded(lambda d: d.bytes(), "name {}")
        dump.decoded(lambda d: d.uint(), "mode {:#o}")
        dump.decoded(lambda d: d.uint(), "uid {}")
        dump.decoded(lambda d: d.uint(), "gid {}")
        dump.decoded(lambda d: d.int(), "mtime, seconds {}")
        dump.number(4, "mtime, nanoseconds")
        if flags & trees.LINKED:
            dump.decoded(lambda d: d.uint(), "links {}")
        if flags & 7 == trees.FILE:
            dump.decoded(lambda d: d.uint(), "size {}")
        elif flags & 7 == trees.FOLDER:
            dump.decoded(trees.read_totals, "totals {}")
        elif flags & 7 == trees.SYMLINK:
            dump.decoded(lambda d: d.bytes(), "target {}")
    for entry in found:
        if entry.kind == trees.FOLDER or entry.kind == trees.FILE and entry.size:
            dump.field(32, f"id of {entry.name.decode()}")


def unpacked(example, folder):
    """Writes the files of docs/format/example.json to a folder."""
    for path, data in example.items():
        os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
        with open(os.path.join(folder, path), "wb") as file:
            file.write(bytes.fromhex(data))
    return folder


def make(binary, docs):
    with tempfile.TemporaryDirectory() as scratch:
        work, store = os.path.join(scratch, "work"), os.path.join(scratch, "store")
        lines = [f"line {number} of some notes\n" for number in range(1, 13)]
        os.makedirs(os.path.join(work, "folder"))
        os.symlink("notes", os.path.join(work, "link"))
        for text in ("".join(lines), "".join(lines[:5] + ["an edited line\n"] + lines[6:])):
            with open(os.path.join(work, "notes"), "w") as file:
                file.write(text)
            environment = {"HOME": scratch, "PATH": os.environ["PATH"], "PARHELIA_STORE": store}
            subprocess.run([binary, "checkpoint", "create", "example", "--workspace", work, "--quiet"], env=environment, check=True)
        files = ["store.json", "journal/synced"]
        for folder in ("journal", "packs"):
            files += [f"{folder}/{name}" for name in sorted(os.listdir(os.path.join(store, folder))) if name != "synced"]
        example = {}
        for path in files:
            with open(os.path.join(store, path), "rb") as file:
                example[path] = file.read().hex()
        with open(os.path.join(docs, "example.json"), "w") as file:
            json.dump(example, file, indent=1)
            file.write("\n")
        write_example(docs, explain(store))


HEADING = "## The store\n\n"


def write_example(docs, text):
    """Replaces what is generated in example.md, behind its heading."""
    path = os.path.join(docs, "example.md")
    before = text_of(path).split(HEADING)[0] if os.path.exists(path) else ""
    with open(path, "w") as file:
        file.write(before + HEADING + text)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], sys.argv[3])
    else:
        print(explain(sys.argv[1]), end="")
