"""A flipped byte is noticed, wherever it is, and what a power cut leaves is told from damage. On the store of docs/format/example.json."""

import json
import os
import shutil
import tempfile
import unittest

import journal
import packs
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
        """The store is refused, or the damage of what it has twice is told."""
        try:
            store = Store(self.store)
            check(store, cuts=False)
        except (Damage, NotForUs):
            return True
        return bool(store.objects.notes)

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
                    missing = Store(self.store).journal.missing
                except Damage:
                    missing = 1
                self.assertTrue(missing, f"{path}, {length} bytes")
            self.write(path, whole)

    def test_blocks_are_read_where_their_copies_are_damaged(self):
        path = next(path for path in self.example if path.startswith("packs"))
        whole = self.read(path)
        blocks, trailer = whole[: -packs.TRAILER_BYTES], whole[-packs.TRAILER_BYTES :]
        digest, file = trailer[28:60], os.path.join(self.store, path)

        def scanned(copies):
            size = len(whole) + len(copies)
            lengths = trailer[:12] + len(copies).to_bytes(8, "little") + size.to_bytes(8, "little") + digest
            self.write(path, blocks + copies + lengths + journal.crc(lengths).to_bytes(4, "little"))
            notes = []
            return packs.scan(file, size, digest, notes), len(notes)

        # The example's packs are so small that they have none.
        found, notes = scanned(b"")
        ends = [block.offset + packs.BLOCK_HEADER_BYTES + block.directory_bytes for block in found]
        copies = b"".join(whole[block.offset : end] for block, end in zip(found, ends))
        self.assertEqual((len(found), notes), (4, 0))
        self.assertEqual(scanned(copies), (found, 0))
        self.assertEqual(scanned(copies[:-10] + b"\xff" + copies[-9:]), (found, 1))

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
