"""Packs and blocks: finding every object, decoding the block that holds it. docs/format/store.md, "Packs"."""

import io
import os
from collections import OrderedDict
from dataclasses import dataclass, field

import zstandard

import parity
from encoding import RECIPE_NODE, RECIPE_ROOT, RECIPE_SEAL, RECORD, TABLE, TREE, Damage, Decoder, crc, derived, need, plain_hash

CHUNK, RECIPE_ROOT_KIND, RECIPE_NODE_KIND, TREE_KIND, RECORD_KIND, TABLE_KIND = 1, 2, 3, 4, 5, 6
MAY_HAVE_BASE = (CHUNK, RECIPE_NODE_KIND, TREE_KIND)
HEADER_BYTES, TRAILER_BYTES, BLOCK_HEADER_BYTES = 16, 64, 40
BLOCK_BYTES_MAX, PAYLOAD_BYTES_MAX, OBJECTS_MAX, PREFIX_BYTES_MAX, COPIES_BYTES_MAX = 16 << 20, 24 << 20, 1 << 18, 16 << 20, 1 << 30
DEPTH_MAX = 256
CACHED_BLOCKS = 256


@dataclass
class Block:
    """A block's header and directory, and where it lies."""

    path: str
    offset: int
    codec: int
    objects: list  # kind, id, head length, tail length, number of its base
    bases: list
    directory_bytes: int
    payload_bytes: int
    heads_bytes: int
    tails_bytes: int
    payload_crc: int
    healed: bytes = field(default=None, compare=False, repr=False)  # The pack as it was written, where it is damaged.

    def bytes(self):
        return BLOCK_HEADER_BYTES + self.directory_bytes + self.payload_bytes

    def name(self):
        return f"{os.path.basename(self.path)}, block at {self.offset}"


def block_at(data, path, offset):
    """Decodes the header and directory at the front of `data`."""
    what = f"{os.path.basename(path)}, block at {offset}"
    d = Decoder(data[:BLOCK_HEADER_BYTES], what)
    need(d.take(4) == b"PHBK", f"{what}: no block")
    codec, cipher, key = d.byte(), d.byte(), d.fixed(2)
    need(codec <= 2 and cipher == 0 and key == 0, f"{what}: unknown codec, cipher or key")
    count, base_count, directory, payload, heads, tails, payload_crc, header_crc = (d.fixed(4) for _ in range(8))
    need(count <= OBJECTS_MAX and base_count <= count, f"{what}: number of objects or bases")
    need(count * 36 <= directory - base_count * 32 <= count * 48, f"{what}: directory length")
    lines = data[BLOCK_HEADER_BYTES : BLOCK_HEADER_BYTES + directory]
    need(crc(data[: BLOCK_HEADER_BYTES - 4], lines) == header_crc, f"{what}: header checksum")
    need(heads + tails <= BLOCK_BYTES_MAX and tails <= payload <= PAYLOAD_BYTES_MAX, f"{what}: lengths")
    need(codec != 0 or payload == heads + tails, f"{what}: lengths")
    need((codec == 2) == (base_count > 0) and not (base_count and tails), f"{what}: bases")
    d, objects = Decoder(lines, what), []
    for _ in range(count):
        kind, id_, head, tail, base = d.byte(), d.take(32), d.uint(32), d.uint(32), d.uint(32)
        if codec == 2:
            tail = 0  # The number of its version stands there.
        need(1 <= kind <= 6 and base <= base_count and (base == 0 or kind in MAY_HAVE_BASE), f"{what}: object kind or base")
        objects.append((kind, id_, head, tail, base))
    bases = [d.take(32) for _ in range(base_count)]
    d.end()
    kinds = [{kind for kind, _, _, _, base in objects if base == number} for number in range(1, base_count + 1)]
    need(all(len(found) == 1 for found in kinds), f"{what}: a base of no object, or of objects of several kinds")
    need((sum(o[2] for o in objects), sum(o[3] for o in objects)) == (heads, tails), f"{what}: sums of lengths")
    return Block(path, offset, codec, objects, bases, directory, payload, heads, tails, payload_crc)


def scan(path, wanted_bytes, wanted_digest, notes):
    """All blocks of a pack, from the copies before its parity or trailer, where it has some. If those are damaged, which is noted, from the
    blocks. What parity gives back is noted, too."""
    name, before = os.path.basename(path), len(notes)
    with open(path, "rb") as file:
        data = file.read()
    if is_plain(data):
        covered, count, copies_bytes, pack_bytes, digest = plain(data, name)
    else:
        covered, t = parity.whole(data, name, notes)
        count, copies_bytes, pack_bytes, digest = t.blocks, t.copies_bytes, t.pack_bytes, t.digest
        need(covered[:HEADER_BYTES] == header(2), f"{name}: its header")
    end = len(covered) - copies_bytes
    need(pack_bytes == wanted_bytes, f"{name}: its length is not the journal's")
    need(HEADER_BYTES <= end and copies_bytes <= COPIES_BYTES_MAX, f"{name}: its trailer's lengths")
    need(digest == wanted_digest, f"{name}: its digest is not the journal's")
    copies = covered[end:]
    if not copies:
        blocks = from_blocks(io.BytesIO(covered), path, end, digest)
    elif plain_hash(copies) == digest:
        blocks = from_copies(copies, path)
    else:
        notes.append(f"{name}: the copies of its directories are damaged")
        blocks = from_blocks(io.BytesIO(covered), path, end, digest)
    need(len(blocks) == count and sum(b.bytes() for b in blocks) == end - HEADER_BYTES, f"{name}: its blocks do not fill it")
    if len(notes) > before:
        for block in blocks:
            block.healed = covered
    return blocks


def header(version):
    start = b"PARHPACK" + version.to_bytes(2, "little") + b"\0\0"
    return start + crc(start).to_bytes(4, "little")


def is_plain(data):
    """True for a pack without parity."""
    return data[:HEADER_BYTES] == header(1)


def plain(data, name):
    """Header, blocks and copies of a pack without parity, and what its trailer says."""
    need(len(data) >= HEADER_BYTES + TRAILER_BYTES, f"{name}: its length is not the journal's")
    d = Decoder(data[-TRAILER_BYTES:], f"{name}: trailer")
    magic, count, copies_bytes, pack_bytes, digest, sum_ = d.take(8), d.fixed(4), d.fixed(8), d.fixed(8), d.take(32), d.fixed(4)
    need(magic == b"PARHPEND" and sum_ == crc(data[-TRAILER_BYTES:][:60]), f"{name}: its trailer")
    need(pack_bytes == len(data), f"{name}: its trailer's lengths")
    return data[:-TRAILER_BYTES], count, copies_bytes, pack_bytes, digest


def salvaged(path, notes):
    """All blocks that can be found in a pack of which nothing tells what it should be."""
    name, size = os.path.basename(path), os.path.getsize(path)
    with open(path, "rb") as file:
        data = file.read()
    try:
        need(size >= HEADER_BYTES + TRAILER_BYTES, f"{name}: it is too short")
        start = TRAILER_BYTES if is_plain(data) else parity.TRAILER_BYTES
        return scan(path, size, data[-start:][28:60], notes)
    except Damage as error:
        notes.append(f"{error}; its blocks are searched for")
    blocks, at = [], data.find(b"PHBK")
    while at >= 0:
        try:
            blocks.append(block_at(data[at:], path, at))
            at = data.find(b"PHBK", at + blocks[-1].bytes())
        except Damage:
            at = data.find(b"PHBK", at + 1)
    return blocks


def from_copies(copies, path):
    copies, blocks, at, offset = memoryview(copies), [], 0, HEADER_BYTES
    while at < len(copies):
        blocks.append(block_at(copies[at:], path, offset))
        at += BLOCK_HEADER_BYTES + blocks[-1].directory_bytes
        offset += blocks[-1].bytes()
    return blocks


def from_blocks(file, path, end, digest):
    blocks, offset, parts = [], HEADER_BYTES, []
    while offset < end:
        file.seek(offset)
        head = file.read(BLOCK_HEADER_BYTES)
        head += file.read(min(int.from_bytes(head[16:20], "little"), 48 << 20))
        blocks.append(block_at(head, path, offset))
        parts.append(head)
        offset += blocks[-1].bytes()
    need(plain_hash(*parts) == digest, f"{os.path.basename(path)}: neither the copies nor the blocks are what the trailer says")
    return blocks


class Objects:
    """Every object in the packs that the journal names, found by kind and id."""

    def __init__(self):
        self.places, self.others, self.blocks, self.cache, self.notes = {}, {}, [], OrderedDict(), []

    def add(self, blocks):
        self.blocks.extend(blocks)
        for block in blocks:
            for number, (kind, id_, *_) in enumerate(block.objects):
                self.places[kind, id_] = (block, number)

    def add_copies(self, blocks):
        """As `add`, for packs of which nobody knows which was named last: of several copies, one that can be decoded is used."""
        self.blocks.extend(blocks)
        for block in blocks:
            for number, (kind, id_, *_) in enumerate(block.objects):
                if (kind, id_) in self.places:
                    self.others.setdefault((kind, id_), []).append((block, number))
                else:
                    self.places[kind, id_] = (block, number)

    def get(self, kind, id_, depth=0):
        """The bytes of an object, checked against its id."""
        need((kind, id_) in self.places, f"object {id_.hex()} of kind {kind}: it is in no pack")
        copies = [self.places[kind, id_], *self.others.get((kind, id_), ())]
        for tried, (block, number) in enumerate(copies, 1):
            try:
                return self.decode(block, depth)[number]
            except Damage:
                if tried == len(copies):
                    raise

    def length(self, kind, id_):
        """The length of an object, by its directory."""
        need((kind, id_) in self.places, f"object {id_.hex()} of kind {kind}: it is in no pack")
        block, number = self.places[kind, id_]
        return block.objects[number][2] + block.objects[number][3]

    def decode(self, block, depth=0):
        """The bytes of all objects of a block."""
        key = block.path, block.offset
        if key in self.cache:
            self.cache.move_to_end(key)
            return self.cache[key]
        need(depth <= DEPTH_MAX, f"{block.name()}: too many blocks build on each other")
        with open(block.path, "rb") if block.healed is None else io.BytesIO(block.healed) as file:
            file.seek(block.offset)
            head = file.read(BLOCK_HEADER_BYTES + block.directory_bytes)
            payload = file.read(block.payload_bytes)
        need(block_at(head, block.path, block.offset) == block, f"{block.name()}: it is not its copy")
        need(len(payload) == block.payload_bytes and crc(payload) == block.payload_crc, f"{block.name()}: payload checksum")
        objects = self.split(block, payload, depth)
        for (kind, id_, *_), found in zip(block.objects, objects):
            need(id_of(kind, found) == id_, f"{block.name()}: object {id_.hex()} does not hash to its id")
        self.cache[key] = objects
        if len(self.cache) > CACHED_BLOCKS:
            self.cache.popitem(last=False)
        return objects

    def split(self, block, payload, depth):
        coded, tails = payload[: len(payload) - block.tails_bytes], payload[len(payload) - block.tails_bytes :]
        heads = coded if block.codec == 0 else decompress(block, coded, self.prefix(block, depth))
        need(len(heads) == block.heads_bytes, f"{block.name()}: it decodes to another length")
        objects, head_at, tail_at = [], 0, 0
        for _, _, head, tail, _ in block.objects:
            objects.append(heads[head_at : head_at + head] + tails[tail_at : tail_at + tail])
            head_at, tail_at = head_at + head, tail_at + tail
        return objects

    def prefix(self, block, depth):
        """The bases' bytes. A base is of the kind of the objects that are later versions of it."""
        parts = []
        for number, id_ in enumerate(block.bases, 1):
            kind = next(kind for kind, _, _, _, base in block.objects if base == number)
            parts.append(self.get(kind, id_, depth + 1))
        need(sum(map(len, parts)) <= PREFIX_BYTES_MAX, f"{block.name()}: its bases are too long")
        return b"".join(parts)


def decompress(block, coded, prefix):
    """One zstd frame. An empty prefix is none."""
    dictionary = zstandard.ZstdCompressionDict(prefix, dict_type=zstandard.DICT_TYPE_RAWCONTENT) if prefix else None
    need(coded[:4] == b"\x28\xb5\x2f\xfd", f"{block.name()}: no zstd frame")
    try:
        size = zstandard.frame_content_size(coded)
        need(size in (-1, block.heads_bytes), f"{block.name()}: its frame has another length")
        decompressor = zstandard.ZstdDecompressor(dict_data=dictionary)
        return decompressor.decompress(coded, max_output_size=max(block.heads_bytes, 1), allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise Damage(f"{block.name()}: {error}") from error


def id_of(kind, data):
    """The id of an object's bytes. A recipe root is found by the id of the blob that it names, and its seal is checked."""
    if kind == CHUNK:
        return plain_hash(data)
    if kind == RECIPE_ROOT_KIND:
        blob, seal, node = data[:32], data[32:64], data[64:]
        need(derived(RECIPE_SEAL, blob, node) == seal, f"recipe of blob {blob.hex()}: its seal")
        return derived(RECIPE_ROOT, blob)
    return derived({RECIPE_NODE_KIND: RECIPE_NODE, TREE_KIND: TREE, RECORD_KIND: RECORD, TABLE_KIND: TABLE}[kind], data)
