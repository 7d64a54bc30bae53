"""Hard links: which entries of a workspace are one file. docs/format/store.md, "Hard links"."""

from dataclasses import replace

from encoding import Decoder, need
from packs import TABLE_KIND


def groups(objects, record, walked):
    """Groups of paths, the first name of each first. `walked` is all entries of the workspace, in preorder: path, entry."""
    if record["links"] is None:
        return []
    d = Decoder(objects.get(TABLE_KIND, bytes.fromhex(record["links"])), "table of hard links")
    need(d.take(5) == b"links", "table of hard links: its first bytes")
    found, first_before = [], 0
    for _ in range(d.count(3)):
        group, at = [], first_before
        for number in range(d.count(1)):
            step = d.uint()
            need(step or number == 0, "table of hard links: a member twice")
            at += step
            group.append(at)
        need(len(group) > 1 and 0 < group[0] and group[-1] <= len(walked), "table of hard links: a group of one, or no entry")
        first_before = group[0]
        found.append([walked[position - 1][0] for position in group])
    d.end()
    return found


def check(objects, record, walked):
    """Members of a group are entries of several links that differ in their names alone, and none is in two groups."""
    entries, seen = dict(walked), set()
    for group in groups(objects, record, walked):
        need(not seen & set(group), "an entry is in two groups of hard links")
        seen |= set(group)
        first = replace(entries[group[0]], name=b"")
        need(first.links >= len(group) and first.totals is None, "a group of hard links names what is none")
        need(all(replace(entries[path], name=b"") == first for path in group), "members of a group of hard links differ")
