"""The document's own examples hold: its store, byte by byte, and its test vectors."""

import json
import os
import tempfile
import unittest

import journal
import links
import packs
import trees
from check import check
from encoding import Damage
from explain import HEADING, explain, unpacked
from vectors import vectors
from store import Store, omissions

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "format")


def text(name):
    with open(os.path.join(DOCS, name), encoding="utf-8") as file:
        return file.read()


class Document(unittest.TestCase):
    def test_the_example_is_a_store_and_its_description_is_right(self):
        with tempfile.TemporaryDirectory() as folder:
            store = Store(unpacked(json.loads(text("example.json")), folder))
            self.assertEqual(check(store)["checkpoints"], 2)
            self.assertEqual(explain(folder), text("example.md").split(HEADING)[1])

    def test_the_vectors_are_what_this_reader_computes(self):
        self.assertEqual(vectors(), json.loads(text("vectors.json")))

    def test_the_vectors_decode(self):
        found = json.loads(text("vectors.json"))
        for kind, name in ((packs.RECIPE_ROOT_KIND, "recipe_of_noise"), (packs.TREE_KIND, "tree_leaf"), (packs.TABLE_KIND, "omissions")):
            self.assertEqual(packs.id_of(kind, bytes.fromhex(found[name]["bytes"])).hex(), found[name]["id"])
        entries = trees.node(bytes.fromhex(found["tree_leaf"]["bytes"]), "vector")[1]
        self.assertEqual([entry.name for entry in entries], [b"file\xff", b"folder", b"link"])
        self.assertEqual((entries[0].mtime, entries[0].links, entries[0].xattrs), ((-1, 500_000_000), 2, [(b"user.note", b"\0")]))
        later = bytes.fromhex(found["tree_leaf_with_extensions"]["bytes"])
        self.assertEqual([entry.name for entry in trees.node(later, "vector")[1]], [b"fifo"])
        with self.assertRaises(Damage):
            trees.node(later.replace(b"\x04\0", b"\x05\0"), "vector")
        self.assertEqual(omissions(bytes.fromhex(found["omissions"]["bytes"])), [(b"target", 0, b"target beside Cargo.toml")])
        self.assertEqual(links.decode(bytes.fromhex(found["links"]["bytes"])), [[b"a", b"d/b"], [b"d/c", b"e/c"]])
        frame = journal.whole_frame(bytes.fromhex(found["journal_record"]["bytes"]), 0)
        self.assertEqual(frame, (1, bytes(32), found["event"]["body"].encode()))


if __name__ == "__main__":
    unittest.main()
