"""Checks everything that a store holds, and everything that its checkpoints reach."""

import links
from content import SINGLE_CHUNK_BYTES, chunk_runs, chunks_of, pieces
from encoding import need
from packs import CHUNK, RECORD_KIND, TABLE_KIND
from trees import FILE, FOLDER, Trees
from store import omissions, record_id


def check(store, cuts=True):
    """Decodes every block and follows every checkpoint. Returns counts. With `cuts`, every file with a recipe is cut anew."""
    for block in store.objects.blocks:
        store.objects.decode(block)
    counts = {"unreadable": len(store.unreadable), "checkpoints": 0, "blocks": len(store.objects.blocks), "objects": len(store.objects.places)}
    counts |= {"blobs": 0, "cut": 0, "entries": 0, "with_bases": sum(block.codec == 2 for block in store.objects.blocks)}
    blobs, trees = set(), Trees(store.objects)
    for id_, record in store.checkpoints.items():
        need(store.objects.get(RECORD_KIND, record_id(store.sealed[id_])) == store.sealed[id_], f"record of {id_}")
        counts["checkpoints"] += 1
        counts["entries"] += check_trees(store, trees, record, blobs)
    for blob, size in blobs:
        counts["blobs"] += 1
        if size <= SINGLE_CHUNK_BYTES:
            need(store.objects.length(CHUNK, blob) == size, f"blob {blob.hex()}: it has another length")
            continue
        content = b"".join(pieces(store.objects, blob, size, store.config["chunking"]))
        if cuts:
            told = chunks_of(store.objects, blob, size, store.config["chunking"])
            need(told == chunk_runs(content, store.config["chunking"]), f"blob {blob.hex()}: it is not cut where its content says")
            counts["cut"] += 1
    return counts


def check_trees(store, trees, record, blobs):
    """Follows a checkpoint's root, its tables and parts. Returns how many entries it has."""
    top = {found.name: found for found in trees.folder(bytes.fromhex(record["root"]))}
    need(b"workspace" in top and set(top) <= {b"workspace", b"state"}, "the root's entries")
    need(all(found.kind == FOLDER for found in top.values()), "the root's entries are folders")
    workspace = top[b"workspace"].totals
    told = {name: getattr(workspace, name) for name in ("files", "folders", "entries", "bytes")}
    need(all(record["workspace"][name] == value for name, value in told.items()), "the record's sums of the workspace")
    workspace_entries, state = [], {}
    for root in top.values():
        for path, found in trees.walk(root.id, root.totals):
            if found.kind == FILE and found.size:
                blobs.add((found.id, found.size))
            if root.name == b"state":
                state[path] = found
                need(found.links == 1 and found.mode == (0o700 if found.kind == FOLDER else 0o600), "an entry of `state`")
            else:
                workspace_entries.append((path, found))
    links.check(store, record, workspace_entries)
    if record["links"] is not None:
        blobs.add((bytes.fromhex(record["links"]["blob"]), record["links"]["bytes"]))
    for name, part in record["parts"].items():
        there = name == "workspace" or any(path in state for path in (name.encode(), name.encode() + b".json"))
        need(part["status"] != "captured" or there, f"part {name} is not there")
    if record["omitted"] is not None:
        found = omissions(store.objects.get(TABLE_KIND, bytes.fromhex(record["omitted"]["table"])))
        if record["omitted"].get("in_state", False):
            whole = state[b"omissions"]
            found = omissions(b"".join(pieces(store.objects, whole.id, whole.size, store.config["chunking"])))
        bare = record["omitted"].get("attributes", 0)
        need((bare > 0) == (b"attributes" in state), "the file `state/attributes`")
        if bare:
            file = state[b"attributes"]
            listed = omissions(b"".join(pieces(store.objects, file.id, file.size, store.config["chunking"])), (3,))
            need(len(listed) == bare, "count of entries without some attributes")
        counts = [sum(reason == number for _, reason, _ in found) for number in range(3)]
        need(counts == [record["omitted"][name] for name in ("excluded", "unreadable", "changing")], "counts of omissions")
    return sum(root.totals.entries for root in top.values())

