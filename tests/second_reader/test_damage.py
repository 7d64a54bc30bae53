"""A flipped byte is noticed, wherever it is, and what a power cut leaves is told from damage. On the store of docs/format/example.json."""

import json
import os
import shutil
import tempfile
import unittest

import journal
import packs
import parity
from check import check
from encoding import Damage
from explain import unpacked
from test_document import text
from store import NotForUs, Store


class Damaged(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.scratch)
        self.example = json.loads(text("example.json"))
        self.store = unpacked(self.example, self.scratch)
        self.segment = os.path.join(self.store, "journal", "00000000000000000001.log")

    def read(self, path):
        with open(os.path.join(self.store, path), "rb") as file:
            return file.read()

    def write(self, path, data):
        with open(os.path.join(self.store, path), "wb") as file:
            file.write(data)

    def is_noticed(self):
        """The store is refused, or what it misses is told, or the damage of what it has twice or has parity for."""
        try:
            store = Store(self.store)
            check(store, cuts=False)
        except (Damage, NotForUs):
            return True
        return bool(store.objects.notes or store.journal.missing)

    def test_the_example_is_whole(self):
        self.assertFalse(self.is_noticed())

    def test_every_flipped_byte_is_noticed(self):
        for path in self.example:
            if path == "journal/synced":
                continue  # a hint, which may be anything
            whole = self.read(path)
            for at in range(len(whole)):
                with self.subTest(path=path, at=at):
                    self.write(path, whole[:at] + bytes([whole[at] ^ (0x80 >> at % 8)]) + whole[at + 1 :])
                    self.assertTrue(self.is_noticed())
            self.write(path, whole)

    def test_every_shortened_file_is_noticed(self):
        for path in self.example:
            whole = self.read(path)
            for length in {len(whole) - 1, len(whole) // 2, 0} if path.startswith("packs") else {len(whole) // 2, 0}:
                if path == "journal/synced":
                    continue
                self.write(path, whole[:length])
                try:
                    store = Store(self.store)
                    missing = store.journal.missing or len(store.objects.notes)
                except Damage:
                    missing = 1
                self.assertTrue(missing, f"{path}, {length} bytes")
            self.write(path, whole)

    def test_blocks_are_read_where_their_copies_are_damaged(self):
        path = next(path for path in self.example if path.startswith("packs"))
        file, pack = os.path.join(self.store, path), self.read(path)
        covered, t = parity.whole(pack, path, [])

        def scanned(copies):
            """The pack without parity, with these copies."""
            size = len(covered) + len(copies) + packs.TRAILER_BYTES
            trailer = b"PARHPEND" + t.blocks.to_bytes(4, "little") + len(copies).to_bytes(8, "little") + size.to_bytes(8, "little") + t.digest
            self.write(path, packs.header(1) + covered[16:] + copies + trailer + journal.crc(trailer).to_bytes(4, "little"))
            notes = []
            return packs.scan(file, size, t.digest, notes), len(notes)

        # The example's packs are so small that they have none.
        found, notes = scanned(b"")
        ends = [block.offset + packs.BLOCK_HEADER_BYTES + block.directory_bytes for block in found]
        copies = b"".join(covered[block.offset : end] for block, end in zip(found, ends))
        self.assertEqual((len(found), notes), (4, 0))
        self.assertEqual(scanned(copies), (found, 0))
        self.assertEqual(scanned(copies[:-10] + b"\xff" + copies[-9:]), (found, 1))

    def test_a_damaged_byte_of_a_pack_is_given_back_by_its_parity(self):
        path = next(path for path in self.example if path.startswith("packs"))
        file, whole = os.path.join(self.store, path), self.read(path)
        covered, t = parity.whole(whole, path, [])
        for at in range(len(whole)):
            notes, damaged = [], whole[:at] + bytes([whole[at] ^ 0x11]) + whole[at + 1 :]
            self.assertEqual(parity.whole(damaged, path, notes), (covered, t), at)
            self.assertTrue(notes)
        # Three shards of a stripe, and no more.
        for lost in ((0, 1, 2), (3, 5, 7), (0, t.shards() - 1), (5,)):
            damaged = bytearray(whole)
            for shard in lost:
                start = shard * t.shard_bytes
                damaged[start : min(start + t.shard_bytes, t.covered)] = bytes(min(t.shard_bytes, t.covered - start))
            self.assertEqual(parity.whole(bytes(damaged), path, [])[0], covered, lost)
            self.write(path, bytes(damaged))
            self.assertTrue(self.is_noticed())
            self.assertEqual(len(packs.scan(file, len(whole), t.digest, [])), t.blocks)
        damaged[0 : 5 * t.shard_bytes] = bytes(5 * t.shard_bytes)
        with self.assertRaises(Damage):
            parity.whole(bytes(damaged), path, [])

    def test_an_append_that_was_cut_off_is_no_damage(self):
        whole, last = self.read(self.segment), self.last_record()
        before = len(journal.read(os.path.dirname(self.segment)).records)
        # As a power cut leaves it: the hint names the record before, and of the last one any part is there.
        number = str(before - 1).encode()
        self.write("journal/synced", number + b" %08x\n" % journal.crc(number))
        for tail in (whole[last:-7], bytes(len(whole) - last), whole[last : last + 100] + bytes(len(whole) - last - 100)):
            self.write(self.segment, whole[:last] + tail)
            found = journal.read(os.path.dirname(self.segment))
            self.assertEqual((len(found.records), found.missing, found.is_doubtful), (before - 1, 0, False))
        # All bytes are there, and are not what was written.
        self.write(self.segment, whole[:-2] + b"?" + whole[-1:])
        self.assertTrue(journal.read(os.path.dirname(self.segment)).is_doubtful)

    def last_record(self):
        data, at, last = self.read(self.segment), journal.SEGMENT_HEADER_BYTES, 0
        while frame := journal.whole_frame(data, at):
            last, at = at, at + journal.FRAME_BYTES + len(frame[2])
        return last

    def test_unknown_features_are_refused(self):
        for change in ({"incompatible": ["encryption@2.0"]}, {"parhelia_store": 2}):
            config = json.loads(self.read("store.json")) | change | {"checksum": ""}
            config["checksum"] = f"{journal.crc(json.dumps(config, separators=(',', ':')).encode()):08x}"
            self.write("store.json", json.dumps(config).encode())
            with self.assertRaises(NotForUs):
                Store(self.store)


if __name__ == "__main__":
    unittest.main()
