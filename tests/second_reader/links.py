"""Hard links: which entries of a workspace are one file. docs/format/store.md, "Hard links"."""

from dataclasses import replace

from content import pieces
from encoding import Decoder, need

WHAT = "table of hard links"


def groups(store, record):
    """Groups of paths, the leader of each first. Groups are ordered by their leaders."""
    if record["links"] is None:
        return []
    blob, size = bytes.fromhex(record["links"]["blob"]), record["links"]["bytes"]
    return decode(b"".join(pieces(store.objects, blob, size, store.config["chunking"])))


def decode(data):
    d = Decoder(data, WHAT)
    need(d.take(6) == b"links\1", f"{WHAT}: its first bytes")
    # Each member, in the table's order, and the leader of its group: (folder, name), where a folder is a tuple of names.
    leader_of = {}
    folder, leads, before = (), (), None
    while d.left():
        kept, below = d.uint(), [name(d.bytes()) for _ in range(d.count(2))]
        need(kept <= len(folder), f"{WHAT}: it keeps names that there are not")
        folder = folder[:kept] + tuple(below)
        # Tuples are compared name by name, and one that goes on comes after.
        need(before is None or before < folder, f"{WHAT}: order of folders")
        need(before is None or folder[:kept] == before[:kept] and (kept == len(before) or before[kept] != folder[kept]), f"{WHAT}: kept")
        before, last = folder, b""
        members = d.count(3)
        need(members, f"{WHAT}: a folder without members")
        for _ in range(members):
            own = name(d.bytes())
            need(own > last, f"{WHAT}: order of members")
            last, member, told = own, (folder, own), d.uint()
            if not told:
                leader_of[member] = member
                continue
            kept = told - 1
            need(kept <= len(leads), f"{WHAT}: a leader's folder keeps names that there are not")
            below = tuple(name(d.bytes()) for _ in range(d.count(2)))
            need(not below or kept == len(leads) or below[0] != leads[kept], f"{WHAT}: a leader's folder is told in more names than it needs")
            leads = leads[:kept] + below
            leader = d.bytes()
            need(leader != own, f"{WHAT}: a leader's name is told though it is the same")
            leader = (leads, leader or own)
            need(leader_of.get(leader) == leader, f"{WHAT}: a leader is not there, or leads not")
            leader_of[member] = leader
    need(leader_of, f"{WHAT}: it is empty")
    found = {}
    for member, leader in leader_of.items():
        found.setdefault(leader, []).append(b"/".join((*member[0], member[1])))
    need(all(len(group) > 1 for group in found.values()), f"{WHAT}: a group of one")
    return list(found.values())


def name(data):
    need(0 < len(data) < 256 and data not in (b".", b"..") and not set(data) & {0, ord("/")}, f"{WHAT}: a name that is none")
    return data


def check(store, record, walked):
    """Members of a group are entries of several links that differ in their names alone. `walked` is all entries of the workspace: path, entry."""
    entries = dict(walked)
    for group in groups(store, record):
        first = replace(entries[group[0]], name=b"")
        need(first.links >= len(group) and first.totals is None, "a group of hard links names what is none")
        need(all(replace(entries[path], name=b"") == first for path in group), "members of a group of hard links differ")
