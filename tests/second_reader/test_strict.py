"""What the document refuses, and what it has one part of a store hide: structures that are made by hand."""

import json
import os
import shutil
import tempfile
import unittest

import content
import journal
import packs
from check import check
from encoding import EVENT, Damage, NotForUs, bytes_, crc, derived, plain_hash, uint
from explain import unpacked
from store import Store, omissions
from test_document import text


def id_(byte):
    return bytes([byte]) * 32


class Journals(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.scratch)
        self.store = unpacked(json.loads(text("example.json")), self.scratch)
        self.segment = os.path.join(self.store, "journal", "00000000000000000001.log")
        with open(self.segment, "rb") as file:
            self.whole = file.read()
        self.records = Store(self.store).journal.records

    def with_record(self, body, joined=0):
        """The example's store with one more record."""
        at, hash_ = journal.SEGMENT_HEADER_BYTES, bytes(32)
        while frame := journal.whole_frame(self.whole, at):
            hash_ = plain_hash(self.whole[at + 8 : at + journal.FRAME_BYTES + len(frame[2])])
            at += journal.FRAME_BYTES + len(frame[2])
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        length, rest = len(raw).to_bytes(4, "little"), (len(self.records) + 1).to_bytes(8, "little") + hash_ + raw
        with open(self.segment, "wb") as file:
            file.write(self.whole + length + crc(length, rest).to_bytes(4, "little") + rest)
        return Store(self.store)

    def commit(self):
        return next(record.body for record in self.records if record.body["type"] == "commit")

    def test_a_record_that_cannot_be_read_hides_one_checkpoint(self):
        sealed = json.loads(self.commit()["record"]) | {"id": "01M867SWQT86WRPE8R963QGBJY", "session": "other"}
        without = {key: value for key, value in sealed.items() if key != "root"}
        for record in ("{", "[]", *map(json.dumps, (sealed | {"schema": 2}, sealed | {"trigger": "A b"}, without))):
            store = self.with_record(self.commit() | {"record": record, "packs": []})
            self.assertEqual((len(store.unreadable), len(store.checkpoints)), (1, 2), record)
            self.assertEqual(check(store)["unreadable"], 1)
            self.assertNotIn("other", store.sessions)

    def test_a_word_of_a_later_release_hides_nothing(self):
        sealed = json.loads(self.commit()["record"]) | {"id": "01M867SWQT86WRPE8R963QGBJY", "trigger": "mood", "consistency": "a_1"}
        store = self.with_record(self.commit() | {"record": json.dumps(sealed), "packs": []})
        self.assertEqual((store.unreadable, store.checkpoints[sealed["id"]]["trigger"]), ([], "mood"))

    def test_an_event_of_another_schema_says_nothing(self):
        events = [record for record in self.records if record.body["type"] == "event"]
        chained = {"previous": derived(EVENT, events[-1].raw).hex()}
        later = {key: value for key, value in events[-1].body.items() if key not in ("joined", "data")} | chained
        deleted = later | {"kind": "checkpoint.deleted", "subject": next(iter(Store(self.store).checkpoints))}
        store = self.with_record(deleted | {"schema": 2})
        self.assertEqual((len(store.unreadable), len(store.checkpoints)), (1, 2))
        self.assertEqual(len(self.with_record(deleted).checkpoints), 1)
        with self.assertRaises(Damage):
            self.with_record({key: value for key, value in later.items() if key != "host"})

    def test_a_known_type_that_does_not_decode_is_damage(self):
        commit = self.commit()
        for body in (b"5", b'"x"', {"x": 1}, {"type": 1}, commit | {"op": "AB" * 12}, {**commit, "packs": None}, {"type": "condemn"}):
            with self.assertRaises(Damage, msg=body):
                self.with_record(body)
        self.assertEqual(len(self.with_record({"type": "of the future"}).checkpoints), 2)

    def test_a_snapshot_is_refused(self):
        with self.assertRaises(NotForUs):
            self.with_record({"type": "snapshot"})
        head = b"PARHJRNL\x01\0\0\0" + (41).to_bytes(8, "little") + bytes(40)
        os.remove(self.segment)
        with open(os.path.join(self.store, "journal", f"{41:020}.log"), "wb") as file:
            file.write(head + crc(head).to_bytes(4, "little"))
        with self.assertRaises(NotForUs):
            Store(self.store)


def block(objects, bases=(), codec=0, cipher=0, key=0):
    """The header and directory of a block: of each object its kind and base, three bytes long."""
    lines = b"".join(bytes([kind]) + id_(number) + uint(3) + uint(0) + uint(base) for number, (kind, base) in enumerate(objects))
    lines += b"".join(map(id_, bases))
    heads = 3 * len(objects)
    numbers = (len(objects), len(bases), len(lines), heads if codec == 0 else 9, heads, 0, 0)
    head = b"PHBK" + bytes([codec, cipher]) + key.to_bytes(2, "little") + b"".join(number.to_bytes(4, "little") for number in numbers)
    return head + crc(head, lines).to_bytes(4, "little") + lines


class Objects(unittest.TestCase):
    def test_blocks_of_later_releases_are_refused(self):
        self.assertEqual(len(packs.block_at(block([(1, 0)]), "x", 0).objects), 1)
        for later in ({"codec": 3}, {"cipher": 1}, {"key": 1}, {"key": 256}):
            with self.assertRaises(Damage, msg=later):
                packs.block_at(block([(1, 0)], **later), "x", 0)

    def test_each_base_is_of_objects_of_one_kind(self):
        self.assertEqual(len(packs.block_at(block([(1, 1), (4, 2), (1, 0)], [8, 9], codec=2), "x", 0).bases), 2)
        for objects, bases in (([(1, 1), (1, 0)], [8, 9]), ([(1, 1), (4, 1)], [8]), ([(1, 0)], [8])):
            with self.assertRaises(Damage, msg=objects):
                packs.block_at(block(objects, bases, codec=2), "x", 0)

    def test_one_content_has_one_recipe(self):
        def node(level, lines):
            lengths = b"".join(uint(length) + uint(repeat) for _, length, repeat in lines)
            return bytes([level]) + uint(len(lines)) + lengths + b"".join(id_(line[0]) for line in lines)

        self.assertEqual(len(content.node(node(0, [(1, 9, 1), (2, 9, 3)]), "x")[1]), 2)
        for level, lines in ((0, []), (1, []), (0, [(1, 9, 1), (1, 9, 3)]), (1, [(1, 9, 2)]), (9, [(1, 9, 1)])):
            with self.assertRaises(Damage, msg=lines):
                content.node(node(level, lines), "x")
        with self.assertRaises(Damage):
            content.flatten(None, node(0, [(1, 9, 1)]), 9, "x")

    def test_omissions_have_one_encoding(self):
        def table(*entries):
            return b"omits" + uint(len(entries)) + b"".join(bytes_(path) + bytes([reason]) + bytes_(said) for path, reason, said in entries)

        self.assertEqual(len(omissions(table((b"", 0, b"x"), (b"a/b", 0, b"x"), (b"a/b", 2, b"")))), 3)
        for path in (b"/a", b"a/", b"a//b", b"./a", b"a/..", b"/"):
            with self.assertRaises(Damage, msg=path):
                omissions(table((path, 0, b"x")))
        for entries in ([(b"b", 0, b"x"), (b"a", 0, b"x")], [(b"a", 0, b"x")] * 2, [(b"a", 0, b"\xff")], [(b"a", 2, b"x")], [(b"a", 3, b"")]):
            with self.assertRaises(Damage, msg=entries):
                omissions(table(*entries))


if __name__ == "__main__":
    unittest.main()
