"""The test vectors of docs/format/vectors.json: what the format makes of given bytes. `python tests/second_reader/vectors.py` prints them."""

import json

import encoding
import parity
from blake3 import blake3

from content import GEAR, chunk_runs, masks
from encoding import bytes_, crc, derived, int_, plain_hash, uint

DEFAULT = {"bytes_min": 16 << 10, "bytes_avg": 64 << 10, "bytes_max": 256 << 10}
SMALL = {"bytes_min": 64, "bytes_avg": 256, "bytes_max": 1024}


def noise(length):
    """The first bytes of BLAKE3's extended output for the ASCII text `parhelia`."""
    return blake3(b"parhelia").digest(length=length)


def recipe_node(level, runs):
    lines = b"".join(uint(length) + uint(repeat) for _, length, repeat in runs)
    return bytes([level]) + uint(len(runs)) + lines + b"".join(id_ for id_, _, _ in runs)


def cuts(name, data, chunking):
    runs = chunk_runs(data, chunking)
    return {"content": name, "blake3": plain_hash(data).hex(), "chunking": chunking, "chunks": [[length, repeat] for _, length, repeat in runs]}


def tree_leaf():
    """A leaf with a file, a folder and a symlink."""
    head = b"\x30" + bytes_(b"file\xff") + uint(0o644) + uint(1000) + uint(100) + int_(-1) + (500_000_000).to_bytes(4, "little")
    head += uint(2) + uint(1) + bytes_(b"user.note") + bytes_(b"\0") + uint(5)
    head += b"\x01" + bytes_(b"folder") + uint(0o2755) + uint(0) + uint(0) + int_(1) + bytes(4) + uint(0) * 5 + b"\0"
    head += b"\x02" + bytes_(b"link") + uint(0o777) + uint(0) + uint(0) + int_(300) + (999_999_999).to_bytes(4, "little") + bytes_(b"file")
    empty = b"\0\0\0"
    return b"\0" + uint(3) + bytes_(head) + plain_hash(b"hello") + derived(encoding.TREE, empty)


def extended_leaf():
    """A leaf with a fifo that has extensions of a later release."""
    head = b"\x83" + bytes_(b"fifo") + uint(0o644) + uint(0) + uint(0) + int_(0) + bytes(4)
    head += uint(2) + uint(2) + bytes_(b"later") + uint(4) + bytes_(b"")
    return b"\0" + uint(1) + bytes_(head)


def links_table():
    """The groups a, d/b and d/c, e/c."""
    workspace = uint(0) + uint(0) + uint(1) + bytes_(b"a") + uint(0)
    d = uint(0) + uint(1) + bytes_(b"d") + uint(2) + bytes_(b"b") + uint(1) + uint(0) + bytes_(b"a") + bytes_(b"c") + uint(0)
    e = uint(0) + uint(1) + bytes_(b"e") + uint(1) + bytes_(b"c") + uint(1) + uint(1) + bytes_(b"d") + bytes_(b"")
    return b"links\1" + workspace + d + e


def parity_section():
    """The parity of the first 1000 bytes of noise: two stripes of shards of 64 bytes, three rows."""
    data, found = noise(1000), parity.Trailer(0, 0, 0, b"", 1000, 64, 2, 3)
    shards = [data[at : at + 64] for at in range(0, 1000, 64)]
    rows = parity.parity_of(data, found)
    sums = b"".join(crc(shard).to_bytes(4, "little") for shard in shards + rows)
    return {"content": "noise, the first 1000 bytes", "shard_length": 64, "stripes": 2, "rows": 3, "bytes": (b"".join(rows) + sums).hex()}


def vectors():
    text, content = b"parhelia", noise(1_000_000)
    runs = chunk_runs(content, DEFAULT)
    node, blob = recipe_node(0, runs), plain_hash(content)
    seal = derived(encoding.RECIPE_SEAL, blob, node)
    event = b'{"type":"event","id":"01M0000000000000000000000A","kind":"note","subject":"s"}'
    body = (1).to_bytes(8, "little") + bytes(32) + event
    size = len(event).to_bytes(4, "little")
    leaf = tree_leaf()
    contexts = {"tree": encoding.TREE, "recipe_node": encoding.RECIPE_NODE, "record": encoding.RECORD, "table": encoding.TABLE}
    omitted = b"omits" + uint(1) + bytes_(b"target") + b"\0" + bytes_(b"target beside Cargo.toml")
    return {
        "uint": {str(value): uint(value).hex() for value in (0, 127, 128, 300, 2**32, 2**64 - 1)},
        "int": {str(value): int_(value).hex() for value in (0, -1, 1, -64, 64, -(2**63), 2**63 - 1)},
        "crc32c": {"123456789": f"{crc(b'123456789'):08x}"},
        "ids_of_the_text_parhelia": {
            "chunk_and_blob": plain_hash(text).hex(),
            **{name: derived(context, text).hex() for name, context in contexts.items()},
            "event": derived(encoding.EVENT, text).hex(),
            "recipe_root_of_that_blob": derived(encoding.RECIPE_ROOT, plain_hash(text)).hex(),
        },
        "gear": {str(byte): f"{GEAR[byte]:016x}" for byte in (0, 1, 127, 255)},
        "masks": {str(size): [f"{mask:016x}" for mask in masks(size)] for size in (256, 64 << 10, 90 << 10, 92 << 10, 1 << 20)},
        "cuts": [
            cuts("noise", content, DEFAULT),
            cuts("noise, the first 65536 bytes", content[:65536], DEFAULT),
            cuts("noise, the first 65537 bytes", content[:65537], DEFAULT),
            cuts("noise, the first 70000 bytes", content[:70000], SMALL),
            cuts("1000000 zero bytes", bytes(1_000_000), DEFAULT),
        ],
        "recipe_of_noise": {"id": derived(encoding.RECIPE_ROOT, blob).hex(), "bytes": (blob + seal + node).hex()},
        "tree_leaf": {"bytes": leaf.hex(), "id": derived(encoding.TREE, leaf).hex()},
        "tree_leaf_with_extensions": {"bytes": extended_leaf().hex(), "id": derived(encoding.TREE, extended_leaf()).hex()},
        "links": {"bytes": links_table().hex(), "id": plain_hash(links_table()).hex()},
        "omissions": {"bytes": omitted.hex(), "id": derived(encoding.TABLE, omitted).hex()},
        "event": {"body": event.decode(), "hash": derived(encoding.EVENT, event).hex()},
        "journal_record": {
            "bytes": (size + crc(size, body).to_bytes(4, "little") + body).hex(),
            "chain_hash": plain_hash(body).hex(),
        },
        "parity": parity_section(),
        "paths": {name.hex(): shown for name, shown in ((b"a\nb\\\xff", "a\\nb\\\\\\xff"), ("\u202eä".encode(), "\\xe2\\x80\\xaeä"))},
    }


if __name__ == "__main__":
    print(json.dumps(vectors(), indent=1, ensure_ascii=False))
