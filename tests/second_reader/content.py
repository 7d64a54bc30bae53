"""A file's content: recipes, chunks, and where FastCDC cuts. docs/format/store.md, "Content"."""

import hashlib

from blake3 import blake3

from encoding import RECIPE_ROOT, Decoder, derived, need, plain_hash
from packs import CHUNK, RECIPE_NODE_KIND, RECIPE_ROOT_KIND

SINGLE_CHUNK_BYTES = 64 << 10
LINES_UNSPLIT, LINES_MAX, LEVEL_MAX = 24, 512, 8
EMPTY = plain_hash(b"")

GEAR = [int.from_bytes(hashlib.md5(bytes([byte]) * 64, usedforsecurity=False).digest()[:8], "big") for byte in range(256)]
MASKS = [
    0x1804110, 0x1803110, 0x18035100, 0x1800035300, 0x19000353000, 0x590003530000, 0xD90003530000,
    0xD90103530000, 0xD90303530000, 0xD90313530000, 0xD90F03530000, 0xD90303537000, 0xD90703537000,
    0xD90707537000, 0xD91707537000, 0xD91747537000, 0xD91767537000, 0xD93767537000, 0xD93777537000,
]  # fmt: skip
FIRST_MASK = 5


def masks(bytes_avg):
    """The masks before and behind the average length: of one bit more, and of one bit less."""
    bits = (bytes_avg * bytes_avg).bit_length() // 2  # log2, rounded
    return MASKS[bits + 1 - FIRST_MASK], MASKS[bits - 1 - FIRST_MASK]


def cut(data, chunking):
    """The length of the first chunk of `data`, which goes up to the content's end or has at least `bytes_max`."""
    bytes_min, bytes_avg, bytes_max = (chunking[name] for name in ("bytes_min", "bytes_avg", "bytes_max"))
    end = min(len(data), bytes_max)
    if end <= bytes_min:
        return end
    strict, loose = masks(bytes_avg)
    centre, hash_ = min(bytes_avg, end) & ~1, 0
    for at in range(bytes_min & ~1, end & ~1):
        hash_ = ((hash_ << 1) + GEAR[data[at]]) & 0xFFFFFFFFFFFFFFFF
        if hash_ & (strict if at < centre else loose) == 0:
            return at
    return end


def chunk_runs(data, chunking):
    """The runs of a recipe of these bytes: pairs of a chunk's id and length, and how often it stands there."""
    runs, view, at = [], memoryview(data), 0
    while at < len(data):
        piece = view[at : at + chunking["bytes_max"]]
        chunk = bytes(piece) if len(data) <= SINGLE_CHUNK_BYTES else bytes(piece[: cut(piece, chunking)])
        id_ = plain_hash(chunk)
        if runs and runs[-1][0] == id_:
            runs[-1][2] += 1
        else:
            runs.append([id_, len(chunk), 1])
        at += len(chunk)
    return [tuple(run) for run in runs]


def node(data, what):
    """Level and lines (id, bytes, repeat) of a recipe's node."""
    d = Decoder(data, what)
    level, count = d.byte(), d.count(34)
    need(level <= LEVEL_MAX and count, f"{what}: level or lines")
    lengths = [(d.uint(64 if level else 32), d.uint(32)) for _ in range(count)]
    need(all(length and (repeat if level == 0 else repeat == 1) for length, repeat in lengths), f"{what}: an empty line")
    lines = [(d.take(32), length, repeat) for length, repeat in lengths]
    d.end()
    pairs = zip(lines, lines[1:]) if level == 0 else ()
    need(all(a[0] != b[0] or a[2] == 2**32 - 1 for a, b in pairs), f"{what}: equal neighbours")
    return level, lines


def recipe(objects, blob, size):
    """The chunks of a blob that has a recipe: (id, bytes, repeat)."""
    root = objects.get(RECIPE_ROOT_KIND, derived(RECIPE_ROOT, blob))
    need(root[:32] == blob, f"recipe of blob {blob.hex()}: it is another blob's")
    return flatten(objects, root[64:], size, f"recipe of blob {blob.hex()}")


def flatten(objects, data, size, what, wanted_level=None):
    level, lines = node(data, what)
    need(wanted_level in (None, level), f"{what}: its levels do not go down by one")
    need(wanted_level is not None or level or len(lines) > 1 or lines[0][2] > 1, f"{what}: of one chunk")
    need(sum(length * repeat for _, length, repeat in lines) == size, f"{what}: it makes another length")
    if level == 0:
        return lines
    return [line for id_, length, _ in lines for line in flatten(objects, objects.get(RECIPE_NODE_KIND, id_), length, what, level - 1)]


def chunks_of(objects, blob, size, chunking):
    """The chunks of any blob."""
    if size == 0:
        return []
    if size <= chunking["bytes_max"] and (CHUNK, blob) in objects.places:
        return [(blob, size, 1)]
    return recipe(objects, blob, size)


def pieces(objects, blob, size, chunking):
    """The bytes of a blob, chunk by chunk; at the end, they have been checked against the blob's id."""
    whole = blake3()
    for id_, length, repeat in chunks_of(objects, blob, size, chunking):
        chunk = objects.get(CHUNK, id_)
        need(len(chunk) == length, f"chunk {id_.hex()}: it has another length than its recipe says")
        for _ in range(repeat):
            whole.update(chunk)
            yield chunk
    need(whole.digest() == blob, f"blob {blob.hex()}: its chunks do not hash to its id")
