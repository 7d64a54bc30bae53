"""A second reader of buckets, written from docs/format/bucket.md alone: reads a bucket in a folder, and checks every object in it.

    python bucket.py FOLDER [passphrase TEXT | recovery TEXT | key HEX]
"""

import json
import os
import re
import struct
import sys

from argon2.low_level import Type, hash_secret_raw
from blake3 import blake3
from crc32c import crc32c
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

PLAIN = b"parhelia 2026-12 bucket without encryption v1"
OBJECT_KEY = "parhelia 2026-12 bucket object key v1"
KEY_CHECK = "parhelia 2026-12 bucket key check v1"
FINGERPRINT = "parhelia 2026-12 bucket key fingerprint v1"
SEGMENT = "parhelia 2026-12 bucket segment v1"
SECRET = "parhelia 2026-12 bucket slot secret v1"
WRAP = "parhelia 2026-12 bucket slot wrap v1"
SLOT_VOUCH = "parhelia 2026-12 bucket slot vouch v1"
PHRASE = "parhelia 2026-12 bucket recovery phrase v1"
VOUCH = "parhelia 2026-12 bucket generation vouch v1"
CONFIRM = "parhelia 2026-12 bucket generation confirm v1"


class Damage(Exception):
    """Stored bytes are not what the format allows."""


def need(condition, what):
    if not condition:
        raise Damage(what)


def derived(context, *parts):
    hasher = blake3(derive_key_context=context)
    for part in parts:
        hasher.update(part)
    return hasher.digest()


def keyed(key, *parts):
    hasher = blake3(key=key)
    for part in parts:
        hasher.update(part)
    return hasher.digest()


def padme(length):
    if length < 2:
        return length
    exponent = length.bit_length() - 1
    step = 1 << (exponent - exponent.bit_length())
    return (length + step - 1) // step * step


class Fields:
    """Reads from the front of some bytes."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def raw(self, length):
        need(self.at + length <= len(self.data), "it is too short")
        self.at += length
        return self.data[self.at - length : self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.raw(struct.calcsize("<" + form)))[0]

    def block(self):
        return self.raw(self.number("I"))

    def list(self, item):
        return [item() for _ in range(self.number("I"))]

    def end(self):
        need(self.at == len(self.data), "it has bytes behind its end")


def checksummed(data, name):
    """A JSON object with a CRC in it, over its own bytes with an empty checksum."""
    fields = json.loads(data)
    found = fields["checksum"]
    empty = re.sub(rb'"checksum":"[0-9a-f]*"\}$', b'"checksum":""}', data)
    need(f"{crc32c(empty):08x}" == found, f"{name}: wrong checksum")
    return fields


class Bucket:
    def __init__(self, folder, secret):
        self.folder = folder
        self.settings = checksummed(self.read("store.json"), "store.json")
        need(self.settings["parhelia_bucket"] == 1 and not self.settings["incompatible"], "it is newer")
        self.masters = self.unlock(secret) if self.settings["encrypted"] else None
        self.gc = self.read_gc()
        self.chains = {machine: self.read_chain(machine) for machine in self.names("journal")}

    def read(self, name):
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()

    def names(self, name):
        path = os.path.join(self.folder, name)
        return sorted(os.listdir(path)) if os.path.isdir(path) else []

    # Keys

    def unlock(self, secret):
        name = "keys/" + self.names("keys")[-1]
        document = checksummed(self.read(name), name)
        need(f"keys/{document['number']:020}" == name and document["parhelia_keys"] == 1, "keys of another number")
        store = bytes.fromhex(document["store"])
        need(store.hex() == self.settings["id"], "keys of another store")
        listed = [generation["generation"] for generation in document["generations"]]
        need(listed and listed == list(range(1, len(listed) + 1)), "generations out of order")
        need(sum(slot["kind"] == "passphrase" for slot in document["slots"]) <= 16, "too many passphrases")
        for slot in document["slots"]:
            opened = self.open_slot(store, slot, listed, *secret)
            if opened:
                masters, vouching = opened
                self.check_generations(store, document, slot, masters, vouching)
                return masters
        raise Damage("no slot opens")

    def open_slot(self, store, slot, listed, kind, text):
        if slot["kind"] != kind:
            return None
        salt, vouching = bytes.fromhex(slot["salt"]), None
        if kind == "key":
            private = bytes.fromhex(text)
        else:
            if kind == "passphrase":
                cost = slot["cost"]
                if cost["memory_kib"] > 256 << 10 or cost["passes"] > 8 or cost["lanes"] > 8:
                    return None
                hashed = hash_secret_raw(text.encode(), salt, cost["passes"], cost["memory_kib"], cost["lanes"], 32, Type.ID, 0x13)
            else:
                hashed = derived(SECRET, phrase(text), salt)
            private, vouching = derived(WRAP, hashed), derived(SLOT_VOUCH, hashed)
        private = X25519PrivateKey.from_private_bytes(private)
        masters = {}
        for wrap in slot["wraps"]:
            if wrap["generation"] not in listed:
                continue
            ephemeral, public = bytes.fromhex(wrap["ephemeral"]), bytes.fromhex(slot["public"])
            key = derived(WRAP, private.exchange(X25519PublicKey.from_public_bytes(ephemeral)), ephemeral, public)
            covered = store + bytes.fromhex(slot["id"]) + struct.pack("<I", wrap["generation"])
            try:
                masters[wrap["generation"]] = ChaCha20Poly1305(key).decrypt(bytes(12), bytes.fromhex(wrap["sealed"]), covered)
            except InvalidTag:
                return None
        return (masters, vouching) if masters else None

    def check_generations(self, store, document, slot, masters, vouching):
        before, listed = None, store
        for place, generation in enumerate(document["generations"], 1):
            number, fingerprint = generation["generation"], bytes.fromhex(generation["fingerprint"])
            need(number in masters, "a key is missing")
            master = masters[number]
            said = store + struct.pack("<I", number) + fingerprint
            need(number == place and derived(FINGERPRINT, master)[:16] == fingerprint, "another key than is listed")
            if before:
                need(keyed(derived(VOUCH, before), said).hex() == generation["vouch"], "nothing vouches for a generation")
            need(keyed(derived(CONFIRM, master), listed, fingerprint).hex() == generation["confirm"], "a generation follows others")
            if vouching and slot["vouch"]["generation"] == number:
                need(keyed(vouching, said).hex() == slot["vouch"]["mac"], "the slot does not vouch")
            before, listed = master, listed + struct.pack("<I", number) + fingerprint

    # Sealing

    def open(self, name, data=None):
        data = self.read(name) if data is None else data
        need(len(data) >= 72 and data[:8] == b"PARHSEAL", f"{name}: no sealed object")
        need(struct.unpack("<I", data[68:72])[0] == crc32c(data[:68]), f"{name}: wrong checksum of the header")
        version, cipher, log2, generation = struct.unpack("<HBBI", data[8:16])
        name32, check, reserved = data[16:48], data[48:64], data[64:68]
        need(version == 1 and 12 <= log2 <= 22 and cipher <= 2 and reserved == bytes(4), f"{name}: unknown header")
        need((cipher == 0) == (not self.masters) == (generation == 0), f"{name}: encrypted or not, unlike the bucket")
        master = self.masters[generation] if self.masters else PLAIN
        need(keyed(derived(KEY_CHECK, master), name32)[:16] == check, f"{name}: wrong key")
        key = keyed(derived(OBJECT_KEY, master), bytes([cipher]), name32)
        padded, body, piece = b"", data[72:], (1 << log2) + 16
        for index, at in enumerate(range(0, len(body), piece)):
            stored, is_last = body[at : at + piece], at + piece >= len(body)
            covered = struct.pack("<HBBI", version, cipher, log2, generation) + name32
            covered += struct.pack("<QB", index, is_last) + name.encode()
            padded += open_piece(cipher, key, index, covered, stored, name)
        need(len(padded) >= 1024, f"{name}: it is too short")
        length = struct.unpack("<Q", padded[-8:])[0]
        need(len(padded) == max(1024, padme(length + 8)) and not any(padded[length:-8]), f"{name}: wrong padding")
        return padded[:length], (name32, cipher, log2, generation)

    # Chains

    def read_chain(self, machine):
        segments, previous = [], bytes(32)
        for number, file in enumerate(self.names("journal/" + machine), 1):
            name = f"journal/{machine}/{number:020}"
            need(file == f"{number:020}", f"{name} is missing")
            content, _ = self.open(name)
            fields = Fields(content)
            need(fields.raw(8) == b"PARHSEGM" and fields.number("H") == 1, f"{name}: no segment")
            kind = fields.number("B")
            need(fields.raw(16).hex() == machine and fields.number("Q") == number, f"{name}: another's segment")
            if kind == 2:
                fields.raw(32)
                previous = fields.raw(32)
            else:
                need(kind == 1, f"{name}: unknown kind")
                epoch, before, _cursor = fields.number("Q"), fields.raw(32), fields.number("Q")
                need(before == previous, f"{name}: it does not follow the one before")
                if fields.number("B"):
                    fields.raw(24)
                records = fields.list(lambda: (fields.number("B"), fields.block()))
                segments.append((number, epoch, [self.record(kind, block) for kind, block in records]))
                previous = derived(SEGMENT, content)
            fields.end()
        return segments

    def record(self, kind, block):
        fields = Fields(block)
        if kind == 1:
            commit = {"id": fields.raw(16).hex(), "body": fields.block().hex(), "packs": fields.list(lambda: self.pack(fields))}
            fields.end()
            return "commit", commit
        if kind == 2:
            return "event", block.hex()
        if kind == 3:
            return "deletion", fields.raw(16).hex()
        need(kind >= 128, f"unknown record {kind}")
        return "other", None

    def pack(self, fields):
        pack = {"name": self.pack_name(fields), "sealing": (fields.number("B"), fields.number("B"), fields.number("I"))}
        return pack | {"bytes": fields.number("Q"), "digest": fields.raw(32).hex(), "label": fields.block().hex()}

    def pack_name(self, fields):
        machine, number, name = fields.raw(16).hex(), fields.number("Q"), fields.raw(32).hex()
        return f"packs/{machine}/{number:020}-{name}"

    def read_gc(self):
        epochs, condemned, deleted = 0, {}, {}
        for number, file in enumerate(self.names("gc"), 1):
            need(file == f"{number:020}", f"gc/{number:020} is missing")
            fields = Fields(self.open("gc/" + file)[0])
            need(fields.raw(8) == b"PARHGCCH" and fields.number("H") == 1, "no record of gc")
            kind, epoch = fields.number("B"), fields.number("Q")
            if kind == 1:
                epochs += 1
                need(epoch == epochs, "a condemnation of another epoch")
                condemned[epoch] = sorted(fields.list(lambda: self.pack_name(fields)))
            else:
                need(kind == 2, "unknown record of gc")
                heads = dict(fields.list(lambda: (fields.raw(16).hex(), fields.number("Q"))))
                gone, kept = (fields.list(lambda: self.pack_name(fields)) for _ in range(2))
                need(sorted(gone + kept) == condemned.pop(epoch, None), "other packs than were condemned")
                deleted |= {pack: (epoch, heads) for pack in gone}
            fields.end()
        return deleted

    def is_void(self, machine, number, epoch, commit):
        for pack in commit["packs"]:
            if pack["name"] in self.gc:
                resolved, heads = self.gc[pack["name"]]
                need(number > heads.get(machine, 0) and epoch < resolved, f"{commit['id']} lost a pack")
                return True
        return False

    def check(self):
        """Everything that counts, with the content of each pack read."""
        records = [(m, n, e, r) for m, chain in self.chains.items() for n, e, rs in chain for r in rs]
        deletions = {value for *_, (kind, value) in records if kind == "deletion"}
        commits, packs = {}, {}
        for machine, number, epoch, (kind, commit) in records:
            if kind == "commit" and commit["id"] not in deletions and not self.is_void(machine, number, epoch, commit):
                for pack in commit["packs"]:
                    content, (name, *sealing) = self.open(pack["name"])
                    need(name.hex() == pack["name"][-64:] and tuple(sealing) == pack["sealing"], "another pack")
                    need(len(content) == pack["bytes"] and blake3(content).hexdigest() == pack["digest"], "another content")
                    packs[pack["name"]] = pack["digest"]
                commits[commit["id"]] = commit["body"]
        events = [value for *_, (kind, value) in records if kind == "event"]
        return {"commits": commits, "events": events, "packs": packs}


def open_piece(cipher, key, index, covered, stored, name):
    need(len(stored) > 16, f"{name}: a piece is cut off")
    if cipher == 0:
        tag = keyed(key, struct.pack("<Q", len(covered)), covered, stored[:-16])[:16]
        need(tag == stored[-16:], f"{name}: piece {index} is damaged")
        return stored[:-16]
    nonce = struct.pack("<Q", index) + bytes(4)
    try:
        return (AESGCM if cipher == 1 else ChaCha20Poly1305)(key).decrypt(nonce, stored, covered)
    except InvalidTag:
        raise Damage(f"{name}: piece {index} does not open") from None


def phrase(text):
    digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
    bits = "".join(f"{digits.index(c):05b}" for c in text.upper() if c not in "- ")
    need(len(bits) == 180, "a phrase has 36 digits")
    value = int(bits[:160], 2).to_bytes(20, "big")
    check = "".join(f"{byte:08b}" for byte in derived(PHRASE, value)[:3])[:20]
    need(check == bits[160:], "the phrase is mistyped")
    return value


def main(arguments):
    if len(arguments) not in (1, 3):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        print(json.dumps(Bucket(arguments[0], arguments[1:]).check()))
    except Damage as error:
        print(f"damaged: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
