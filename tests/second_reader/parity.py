"""Parity of packs: which shards are damaged, and what was in them. docs/format/store.md, "Parity"."""

import functools
from dataclasses import dataclass

from encoding import Damage, Decoder, crc, need

TRAILER_BYTES = 84
SHARD_BYTES_MIN, SHARD_BYTES_MAX, ROWS_MAX, SHARDS_MAX, PARITY_BYTES_MAX = 64, 64 << 10, 255, 1 << 20, 16 << 20

# GF(2^8) with the polynomial 0x11d: powers of 2, and their logarithms.
POWERS = [1]
while len(POWERS) < 255:
    POWERS.append((POWERS[-1] << 1) ^ (0x11D if POWERS[-1] & 0x80 else 0))
LOGARITHMS = {value: exponent for exponent, value in enumerate(POWERS)}


def product(a, b):
    return POWERS[(LOGARITHMS[a] + LOGARITHMS[b]) % 255] if a and b else 0


@functools.cache
def table(factor):
    return bytes(product(factor, value) for value in range(256))


def times(factor, data):
    """Each byte of some data times a factor."""
    return data.translate(table(factor))


def added(a, b):
    return (int.from_bytes(a, "little") ^ int.from_bytes(b, "little")).to_bytes(len(a), "little")


@dataclass
class Trailer:
    blocks: int
    copies_bytes: int
    pack_bytes: int
    digest: bytes
    covered: int
    shard_bytes: int
    stripes: int
    rows: int

    def shards(self):
        return -(-self.covered // self.shard_bytes)

    def stripe_rows(self):
        return -(-self.shards() // self.stripes)

    def parity_shards(self):
        return self.stripes * self.rows

    def end(self):
        """Length of what follows header, blocks and copies."""
        return 2 * TRAILER_BYTES + self.parity_shards() * (self.shard_bytes + 4) + self.shards() * 4


def trailer(data, magic, name):
    """Decodes a trailer with parity, by either of its magics."""
    d = Decoder(data, f"{name}: trailer")
    need(len(data) == TRAILER_BYTES and d.take(8) == magic and crc(data[:-4]) == int.from_bytes(data[-4:], "little"), f"{name}: its trailer")
    found = Trailer(d.fixed(4), d.fixed(8), d.fixed(8), d.take(32), d.fixed(8), d.fixed(4), d.fixed(4), d.fixed(4))
    need(SHARD_BYTES_MIN <= found.shard_bytes <= SHARD_BYTES_MAX and 1 <= found.rows <= 3 and found.stripes, f"{name}: its parity's shape")
    need(found.covered > 0 and found.shards() <= SHARDS_MAX and found.stripe_rows() <= ROWS_MAX, f"{name}: its parity's shape")
    need(found.parity_shards() * found.shard_bytes <= PARITY_BYTES_MAX, f"{name}: its parity's shape")
    need(found.covered + found.end() == found.pack_bytes, f"{name}: its trailer's lengths")
    return found


def parity_of(data, t):
    """The parity shards of some data: all of row 0, then row 1, then row 2."""
    shards = [data[at : at + t.shard_bytes].ljust(t.shard_bytes, b"\0") for at in range(0, t.covered, t.shard_bytes)]
    shards += [bytes(t.shard_bytes)] * (t.stripes * t.stripe_rows() - len(shards))
    found = []
    for row in range(t.rows):
        for stripe in range(t.stripes):
            sum_ = bytes(t.shard_bytes)
            for shard in shards[stripe :: t.stripes]:
                sum_ = added(times(POWERS[row], sum_), shard)
            found.append(sum_)
    return found


def whole(data, name, notes):
    """A pack with parity as it was written. What was damaged is noted."""
    t = either_trailer(data, name, notes)
    at = t.covered + TRAILER_BYTES
    sums_at = at + t.parity_shards() * t.shard_bytes
    sums = data[sums_at : sums_at + 4 * (t.shards() + t.parity_shards())]
    known = [int.from_bytes(sums[i : i + 4], "little") for i in range(0, len(sums), 4)]
    covered = bytearray(data[: t.covered].ljust(t.covered, b"\0"))
    stored = [data[at + n * t.shard_bytes : at + (n + 1) * t.shard_bytes] for n in range(t.parity_shards())]
    known += [None] * (t.shards() + t.parity_shards() - len(known))
    rights = [crc(shard) == sum_ for shard, sum_ in zip(stored, known[t.shards() :])]
    bad = [n for n in range(t.shards()) if crc(covered[n * t.shard_bytes : min((n + 1) * t.shard_bytes, t.covered)]) != known[n]]
    computed = parity_of(bytes(covered), t)
    for stripe in sorted({n % t.stripes for n in bad}):
        suspects = [n for n in bad if n % t.stripes == stripe]
        differences = {row: added(computed[row * t.stripes + stripe], stored[row * t.stripes + stripe])
                       for row in range(t.rows) if rights[row * t.stripes + stripe]}  # fmt: skip
        heal(covered, t, suspects, differences, name)
    made = [crc(covered[n * t.shard_bytes : min((n + 1) * t.shard_bytes, t.covered)]) for n in range(t.shards())]
    made += [crc(shard) for shard in parity_of(bytes(covered), t)]
    if bad or not all(rights) or made != known:
        notes.append(f"{name}: damaged, and read by its parity")
    return bytes(covered), t


def either_trailer(data, name, notes):
    """The trailer at the end, or the one before the parity."""
    try:
        found = trailer(data[-TRAILER_BYTES:], b"PARHPEN2", name)
        need(found.pack_bytes == len(data), f"{name}: its trailer's lengths")
        if data[found.covered : found.covered + TRAILER_BYTES] != before_parity(data[-TRAILER_BYTES:]):
            notes.append(f"{name}: the trailer before its parity is damaged")
        return found
    except Damage:
        at = data.find(b"PARHPRTY")
        while at >= 0:
            try:
                found = trailer(data[at : at + TRAILER_BYTES], b"PARHPRTY", name)
                if found.covered == at:
                    notes.append(f"{name}: its trailer is damaged")
                    return found
            except Damage:
                pass
            at = data.find(b"PARHPRTY", at + 1)
        raise


def before_parity(end):
    lines = b"PARHPRTY" + end[8:-4]
    return lines + crc(lines).to_bytes(4, "little")


def heal(covered, t, suspects, differences, name):
    """Adds to each suspect shard of a stripe what it lacks. By Gauss and Jordan, over the rows of parity that are right."""
    need(len(differences) >= len(suspects), f"{name}: damaged beyond what its parity gives back")
    exponents = [t.stripe_rows() - 1 - n // t.stripes for n in suspects]
    rows = [([POWERS[row * e % 255] for e in exponents], differences[row]) for row in sorted(differences)[: len(suspects)]]
    for column in range(len(suspects)):
        pivot = next(i for i in range(column, len(rows)) if rows[i][0][column])
        rows[column], rows[pivot] = rows[pivot], rows[column]
        factor = POWERS[-LOGARITHMS[rows[column][0][column]] % 255]
        rows[column] = [product(factor, v) for v in rows[column][0]], times(factor, rows[column][1])
        for i, (values, data) in enumerate(rows):
            if i != column and values[column]:
                factor = values[column]
                line = [v ^ product(factor, p) for v, p in zip(values, rows[column][0])]
                rows[i] = line, added(data, times(factor, rows[column][1]))
    for n, (_, error) in zip(suspects, rows):
        at, end = n * t.shard_bytes, min((n + 1) * t.shard_bytes, t.covered)
        covered[at:end] = added(bytes(covered[at:end]), error[: end - at])
