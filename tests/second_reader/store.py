"""A store: its settings, what the journal adds up to, and the objects that its packs hold. docs/format/store.md."""

import json
import os
import re
from dataclasses import dataclass, field

import journal
import packs
from encoding import RECORD, Damage, Decoder, NotForUs, crc, derived, need, unhex
from trees import is_name

CONFIG_KEYS = (
    "parhelia_store", "id", "created_at", "compatible", "read_compatible", "incompatible", "chunking", "compression_level", "checksum",
)  # fmt: skip
CHUNKING_KEYS = ("bytes_min", "bytes_avg", "bytes_max")
FEATURES = ("journal_gaps@0.1", "parity@0.1")
# How long a chunk is at most in a store whose settings are lost, unless there is a longer one.
USUAL_BYTES_MAX = 256 << 10


# Fields that a record always has.
RECORD_KEYS = (
    "schema", "id", "session", "run", "epoch", "parent", "depth", "trigger", "trigger_detail", "message", "root", "links", "parts",
    "consistency", "started_at", "created_at", "workspace", "rules", "omitted", "conversation", "git", "environment", "usage",
)  # fmt: skip
EVENT_KEYS = ("id", "at", "host", "schema", "kind", "subject", "actor", "epoch")


@dataclass
class Session:
    head: str = None
    epoch: int = 0
    status: str = "active"
    checkpoints: list = field(default_factory=list)


class Store:
    """An open store."""

    def __init__(self, folder):
        self.folder = folder
        self.config = read_settings(folder)
        self.journal = journal.read(os.path.join(folder, "journal"))
        self.checkpoints, self.sealed, self.sessions, self.packs = {}, {}, {}, {}
        self.unreadable = []  # what is told of checkpoints and events that this reader cannot read
        for record in self.journal.records:
            self.take(record)
        self.objects = packs.Objects()
        for id_, (length, digest) in self.packs.items():
            self.objects.add(packs.scan(os.path.join(folder, "packs", f"{id_}.pack"), length, digest, self.objects.notes))

    @classmethod
    def from_packs(cls, folder):
        """A store without its journal and settings: what its packs hold. docs/format/store.md, "Without the journal"."""
        store = cls.__new__(cls)
        store.folder, store.journal = folder, journal.Journal()
        store.checkpoints, store.sealed, store.sessions, store.packs, store.unreadable = {}, {}, {}, {}, []
        store.objects = packs.Objects()
        for name in sorted(os.listdir(os.path.join(folder, "packs"))):
            if re.fullmatch(r"[0-9a-f]{32}\.pack", name):
                store.objects.add_copies(packs.salvaged(os.path.join(folder, "packs", name), store.objects.notes))
        longest = max((head + tail for block in store.objects.blocks for kind, _, head, tail, _ in block.objects if kind == packs.CHUNK), default=0)
        store.config = {"chunking": {"bytes_min": 16 << 10, "bytes_avg": 64 << 10, "bytes_max": max(USUAL_BYTES_MAX, longest)}}
        found = {}
        for kind, id_ in list(store.objects.places):
            if kind != packs.RECORD_KIND:
                continue
            try:
                sealed = store.objects.get(kind, id_)
                record = read_record(sealed.decode())
            except (Damage, KeyError, TypeError, ValueError) as error:
                store.unreadable.append(f"record {id_.hex()}: {error}")
                continue
            age = (instant(record["created_at"]), record["epoch"], record["depth"])
            if record["id"] not in found or age > found[record["id"]][0]:
                found[record["id"]] = age, sealed.decode()
        parents = {id_: read_record(sealed)["parent"] for id_, (_, sealed) in found.items()}
        for id_ in sorted(found, key=lambda id_: (found[id_][0][0], id_)):
            line = []
            while id_ in found and id_ not in store.checkpoints and id_ not in line:
                line.append(id_)
                id_ = parents[id_]
            for id_ in reversed(line):
                store.commit(found[id_][1], f"record of {id_}")
        return store

    def take(self, record):
        """Takes in one record of the journal. Unknown types say nothing to this reader."""
        body, what = record.body, f"journal record {record.sequence}"
        try:
            if body.get("type") == "commit":
                self.add_packs(body["packs"])
                unhex(body["op"], 12)
                self.commit(body["record"], what)
            elif body.get("type") == "condemn":
                self.add_packs(body["added"])
                self.remove_packs(body["condemned"])
            elif body.get("type") == "dropped":
                self.remove_packs(body["packs"])
            elif body.get("type") == "event" and body["schema"] != 1:
                self.unreadable.append(f"{what}: an event of schema {body['schema']}")
            elif body.get("type") == "event":
                need(all(key in body for key in EVENT_KEYS), f"{what}: a field is missing")
                self.event(body["kind"], body["subject"], body.get("data", {}))
        except (KeyError, TypeError, ValueError) as error:
            raise Damage(f"{what}: {error!r}") from error

    def add_packs(self, named):
        for pack in named:
            unhex(pack["id"], 16)
            self.packs[pack["id"]] = pack["bytes"], unhex(pack["digest"], 32)

    def remove_packs(self, named):
        for id_ in named:
            self.packs.pop(id_, None)

    def commit(self, sealed, what):
        need(isinstance(sealed, str), f"{what}: its record is no text")
        try:
            record = read_record(sealed)
        except (Damage, KeyError, TypeError, ValueError) as error:
            # It hides this one checkpoint.
            self.unreadable.append(f"{what}: a checkpoint's record: {error}")
            return
        self.checkpoints[record["id"]], self.sealed[record["id"]] = record, sealed.encode()
        session = self.sessions.setdefault(record["session"], Session())
        session.checkpoints.append(record["id"])
        if not record.get("fenced", False):
            session.head, session.epoch = record["id"], max(session.epoch, record["epoch"])

    def event(self, kind, subject, data):
        session = self.sessions.get(data.get("session") if kind == "run.started" else subject)
        if kind == "session.created":
            self.sessions.setdefault(subject, Session())
        elif kind == "checkpoint.deleted":
            record = self.checkpoints.pop(subject, None)
            if record is not None:
                self.sessions[record["session"]].checkpoints.remove(subject)
        elif session is None:
            return
        elif kind == "session.head":
            session.head = data["checkpoint"]
        elif kind == "session.status" and session.status != "ended":
            session.status = data["status"]
        elif kind == "run.started" and session.status != "ended":
            session.status = "active"

    def head(self, session):
        """The checkpoint that a session's next one builds on; where it was deleted, the newest one that is not fenced."""
        found = self.sessions[session]
        if found.head in self.checkpoints:
            return found.head
        return next((id_ for id_ in reversed(found.checkpoints) if not self.checkpoints[id_].get("fenced", False)), None)

    def latest(self):
        """The newest checkpoint that `latest` may name."""
        for id_, record in reversed(self.checkpoints.items()):
            is_safety = record["trigger_detail"] == "safety"
            if not (record.get("fenced", False) or is_safety or record.get("another_folder", False)):
                return id_
        return None


def read_record(sealed):
    record = json.loads(sealed)
    need(record["schema"] == 1, f"schema {record['schema']}")
    need(all(key in record for key in RECORD_KEYS), "a field is missing")
    for word in (record["trigger"], record["consistency"]):
        need(re.fullmatch(r"[a-z0-9_]{1,31}", word), "a trigger or consistency that is no word")
    return record


def instant(text):
    """A time as seconds and nanoseconds, as text of which later ones are greater."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return whole, fraction.ljust(9, "0")


def read_settings(folder):
    """The settings, from whichever copy is whole; the first one counts."""
    try:
        return read_config(os.path.join(folder, "store.json"))
    except (Damage, FileNotFoundError) as error:
        try:
            return read_config(os.path.join(folder, "journal", "store.json"))
        except (Damage, FileNotFoundError):
            raise error from None


def read_config(path):
    with open(path, "rb") as file:
        config = journal.parse(file.read(1 << 20), "store.json")
    if not isinstance(config.get("parhelia_store"), int):
        raise Damage("store.json: it has no version")
    if config["parhelia_store"] > 1:
        raise NotForUs(f"store format {config['parhelia_store']}")
    need(all(key in config for key in CONFIG_KEYS) and all(key in config["chunking"] for key in CHUNKING_KEYS), "store.json: a field is missing")
    # Unknown keys are not covered.
    known = {key: config[key] for key in CONFIG_KEYS}
    known |= {"chunking": {key: config["chunking"][key] for key in CHUNKING_KEYS}, "checksum": ""}
    text = json.dumps(known, separators=(",", ":"), ensure_ascii=False)
    need(config["checksum"] == f"{crc(text.encode()):08x}", "store.json: its checksum")
    if unknown := [feature for feature in config["incompatible"] if feature not in FEATURES]:
        raise NotForUs(f"the feature {unknown[0]}")
    sizes = [config["chunking"][key] for key in CHUNKING_KEYS]
    even = all(size % 2 == 0 for size in sizes)
    in_range = 64 <= sizes[0] <= 1 << 20 and sizes[1] >= 256 and 1024 <= sizes[2] <= 4 << 20
    need(even and in_range and sizes[0] <= sizes[1] <= sizes[2], "store.json: its chunk lengths")
    return config


def record_id(sealed):
    return derived(RECORD, sealed)


def omissions(data, reasons=(0, 1, 2)):
    """What capture left out: path, reason (0 excluded, 1 unreadable, 2 kept changing, 3 without some attributes), text."""
    d = Decoder(data, "table of omissions")
    need(d.take(5) == b"omits", "table of omissions: its first bytes")
    found = [(d.bytes(), d.byte(), d.bytes()) for _ in range(d.count(3))]
    d.end()
    need(all(reason in reasons for _, reason, _ in found), "table of omissions: an unknown reason")
    need(all(a < b for a, b in zip(found, found[1:])), "table of omissions: its order")
    for path, reason, said in found:
        need(not path or all(is_name(part) for part in path.split(b"/")), "table of omissions: a path")
        need(is_utf8(said) and not (reason == 2 and said), "table of omissions: a text")
    return found


def is_utf8(data):
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True

