"""Restores a checkpoint's workspace into a new folder. Run as root for owners, devices and all attributes."""

import os
import stat

from content import pieces
from encoding import need
from links import groups
from trees import BLOCK_DEVICE, CHAR_DEVICE, FIFO, FILE, FOLDER, SOCKET, SYMLINK, Trees

TYPES = {FIFO: stat.S_IFIFO, SOCKET: stat.S_IFSOCK, CHAR_DEVICE: stat.S_IFCHR, BLOCK_DEVICE: stat.S_IFBLK}


def restore(store, record, to):
    """Makes the folder `to`, which must not exist."""
    trees = Trees(store.objects)
    top = trees.folder(bytes.fromhex(record["root"]))
    workspace = next(found for found in top if found.name == b"workspace")
    walked = list(trees.walk(workspace.id, workspace.totals))
    leader_of = {path: group[0] for group in groups(store, record) for path in group}
    # A leader need not be the first of its group in the walk.
    made = {}
    to = os.fsencode(to)
    folders = [(to, workspace)]
    os.mkdir(to)
    for path, entry in walked:
        place = os.path.join(to, path)
        first = made.setdefault(leader_of[path], place) if path in leader_of else place
        if first != place:
            os.link(first, place, follow_symlinks=False)
            continue
        make(store, entry, place)
        if entry.kind == FOLDER:
            folders.append((place, entry))
        else:
            set_meta(entry, place)
    for place, entry in reversed(folders):
        set_meta(entry, place)


def make(store, entry, path):
    if entry.kind == FOLDER:
        os.mkdir(path)
    elif entry.kind == SYMLINK:
        os.symlink(entry.target, path)
    elif entry.kind == FILE:
        write(store, entry, path)
    else:
        os.mknod(path, TYPES[entry.kind] | 0o600, os.makedev(*entry.device) if entry.device else 0)


def write(store, entry, path):
    """Writes a file, and leaves its holes out; they must read as zeros."""
    at, holes = 0, list(entry.holes)
    with open(path, "xb") as file:
        for piece in pieces(store.objects, entry.id, entry.size, store.config["chunking"]):
            done = 0
            while done < len(piece):
                while holes and holes[0][1] <= at:
                    holes.pop(0)
                start, end = holes[0] if holes else (entry.size, entry.size)
                in_hole = start <= at
                length = min(len(piece) - done, (end if in_hole else start) - at)
                part = piece[done : done + length]
                if in_hole:
                    need(not any(part), "a hole does not read as zeros")
                else:
                    os.pwrite(file.fileno(), part, at)
                at, done = at + length, done + length
        need(at == entry.size, "a file has another length")
        file.truncate(entry.size)


def set_meta(entry, path):
    os.chown(path, entry.uid, entry.gid, follow_symlinks=False)
    for name, value in entry.xattrs:
        os.setxattr(path, name, value, follow_symlinks=False)
    if entry.kind != SYMLINK:
        os.chmod(path, entry.mode)
    time = entry.mtime[0] * 10**9 + entry.mtime[1]
    os.utime(path, ns=(time, time), follow_symlinks=False)
