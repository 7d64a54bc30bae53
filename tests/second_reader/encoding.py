"""Primitive encodings, hashes and limits: docs/format/store.md, sections 1 and 2."""

import re

from blake3 import blake3
from crc32c import crc32c

# BLAKE3 derive_key contexts.
TREE = "parhelia 2026-11 tree node v1"
RECIPE_NODE = "parhelia 2026-11 recipe node v1"
RECIPE_ROOT = "parhelia 2026-11 recipe root of blob v1"
RECIPE_SEAL = "parhelia 2026-11 recipe seal v1"
RECORD = "parhelia 2026-11 checkpoint record v1"
TABLE = "parhelia 2026-11 table v1"
EVENT = "parhelia 2026-11 event v1"


class Damage(Exception):
    """Stored bytes are not what the format allows, or not what their id or checksum says."""


class NotForUs(Exception):
    """The store needs more than this reader knows."""


def need(condition, what):
    if not condition:
        raise Damage(what)


def plain_hash(*parts):
    return _digest(blake3(), parts)


def derived(context, *parts):
    return _digest(blake3(derive_key_context=context), parts)


def _digest(hasher, parts):
    for part in parts:
        hasher.update(part)
    return hasher.digest()


def crc(*parts):
    value = 0
    for part in parts:
        value = crc32c(part, value)
    return value


def unhex(text, length):
    """Lower-case hex of exactly `length` bytes."""
    need(isinstance(text, str) and re.fullmatch(r"[0-9a-f]*", text) and len(text) == 2 * length, f"not hex of {length} bytes: {text!r}")
    return bytes.fromhex(text)


class Decoder:
    """Reads from the front of some bytes; whatever is missing or malformed is Damage."""

    def __init__(self, data, what):
        self.data, self.at, self.what = bytes(data), 0, what

    def left(self):
        return len(self.data) - self.at

    def take(self, count):
        need(0 <= count <= self.left(), f"{self.what}: cut short")
        self.at += count
        return self.data[self.at - count : self.at]

    def fixed(self, width):
        return int.from_bytes(self.take(width), "little")

    def byte(self):
        return self.take(1)[0]

    def uint(self, bits=64):
        value, shift = 0, 0
        while True:
            byte = self.byte()
            need(not (shift and byte == 0), f"{self.what}: an integer is not in its shortest form")
            value |= (byte & 0x7F) << shift
            need(value < 1 << bits, f"{self.what}: an integer is too large")
            if not byte & 0x80:
                return value
            shift += 7

    def int(self):
        value = self.uint()
        return (value >> 1) ^ -(value & 1)

    def count(self, bytes_each):
        """A number of things that take at least so many bytes each."""
        value = self.uint()
        need(value * bytes_each <= self.left(), f"{self.what}: a count is too large")
        return value

    def bytes(self):
        return self.take(self.count(1))

    def end(self):
        need(self.left() == 0, f"{self.what}: bytes are left over")


def uint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def int_(value):
    return uint(value << 1 if value >= 0 else (-value << 1) - 1)


def bytes_(value):
    return uint(len(value)) + value
