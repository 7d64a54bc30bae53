"""Hard links: which entries of a workspace are one file. docs/format/store.md, "Hard links"."""

from encoding import Decoder, need
from packs import TABLE_KIND


def groups(objects, record):
    """Groups of preorder positions under `workspace`."""
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
        need(len(group) > 1, "table of hard links: a group of one")
        first_before = group[0]
        found.append(group)
    d.end()
    return found


def leaders(objects, record):
    """For every member of a group, its first member."""
    return {member: group[0] for group in groups(objects, record) for member in group}
