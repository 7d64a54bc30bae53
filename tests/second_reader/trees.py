"""Tree nodes: a folder's entries, split folders, totals. docs/format/store.md, "Trees"."""

from dataclasses import dataclass, field

from content import EMPTY
from encoding import Decoder, need, plain_hash
from packs import TREE_KIND

FILE, FOLDER, SYMLINK, FIFO, SOCKET, CHAR_DEVICE, BLOCK_DEVICE = range(7)
LINKED, XATTRS, HOLES, EXTENSIONS = 0x10, 0x20, 0x40, 0x80
XATTR, HARD_LINK, SPARSE, SPECIAL = 1, 2, 4, 8
UNSPLIT, SPLIT_BITS, LINES_MAX, LEVEL_MAX, DEPTH_MAX = 256, 7, 4096, 8, 65_536


@dataclass
class Totals:
    entries: int = 0
    files: int = 0
    bytes: int = 0
    folders: int = 0
    subfolders: int = 0
    features: int = 0

    def add(self, other):
        for name in ("entries", "files", "bytes", "folders", "subfolders"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.features |= other.features


@dataclass
class Entry:
    kind: int
    name: bytes
    mode: int
    uid: int
    gid: int
    mtime: tuple
    links: int = 1
    xattrs: list = field(default_factory=list)
    size: int = 0
    target: bytes = b""
    device: tuple = ()
    totals: Totals = None
    id: bytes = None
    holes: list = field(default_factory=list)

    def counted(self):
        """What the entry and all below it add to its folder's totals."""
        features = XATTR * bool(self.xattrs) | HARD_LINK * (self.links > 1) | SPARSE * bool(self.holes) | SPECIAL * (self.kind >= FIFO)
        counted = Totals(1, self.kind == FILE, self.size if self.kind == FILE else 0, 0, 0, features)
        if self.kind == FOLDER:
            counted.add(self.totals)
            counted.folders, counted.subfolders = self.totals.folders + 1, 1
        return counted


def is_name(name):
    return 1 <= len(name) <= 255 and b"/" not in name and b"\0" not in name and name not in (b".", b"..")


def read_totals(d):
    return Totals(*(d.uint() for _ in range(5)), d.byte())


def entry(head, tail):
    flags = head.byte()
    kind = flags & 7
    need(flags & 0x08 == 0 and kind <= BLOCK_DEVICE, f"{head.what}: unknown flags or kind")
    need(not flags & HOLES or kind == FILE, f"{head.what}: holes in what is no file")
    name, mode, uid, gid = head.bytes(), head.uint(32), head.uint(32), head.uint(32)
    found = Entry(kind, name, mode, uid, gid, (head.int(), head.fixed(4)))
    need(is_name(name) and mode <= 0o7777 and found.mtime[1] < 10**9, f"{head.what}: name, mode or time")
    if flags & LINKED:
        found.links = head.uint(32)
        need(found.links > 1, f"{head.what}: links")
    if flags & XATTRS:
        found.xattrs = [(head.bytes(), head.bytes()) for _ in range(head.count(2))]
        names = [name for name, _ in found.xattrs]
        need(names and all(a < b for a, b in zip(names, names[1:])), f"{head.what}: order of attributes")
    if kind == FILE:
        found.size = head.uint()
        found.id = tail.take(32) if found.size else EMPTY
    elif kind == FOLDER:
        found.totals, found.id = read_totals(head), tail.take(32)
    elif kind == SYMLINK:
        found.target = head.bytes()
    elif kind in (CHAR_DEVICE, BLOCK_DEVICE):
        found.device = head.uint(32), head.uint(32)
    if flags & HOLES:
        end = 0
        for _ in range(head.count(2)):
            start = end + head.uint()
            end = start + head.uint()
            need(start < end <= found.size, f"{head.what}: holes")
            found.holes.append((start, end))
        need(found.holes, f"{head.what}: holes")
    if flags & EXTENSIONS:
        tags = []
        for _ in range(head.count(2)):
            tags.append(head.uint())
            head.bytes()
            need(tags[-1] % 2 == 0, f"{head.what}: extension {tags[-1]} is of a newer release")
        need(tags and all(a < b for a, b in zip(tags, tags[1:])), f"{head.what}: order of extensions")
    return found


def node(data, what):
    """Level, and entries of a leaf or lines (first name, totals, id) of an upper node."""
    d = Decoder(data, what)
    level, count, head = d.byte(), d.uint(), Decoder(d.bytes(), what)
    tail = Decoder(d.take(d.left()), what)
    need(level <= LEVEL_MAX and count <= len(data), f"{what}: level or count")
    if level == 0:
        lines = [entry(head, tail) for _ in range(count)]
        names = [line.name for line in lines]
    else:
        lines = [(head.bytes(), read_totals(head), tail.take(32)) for _ in range(count)]
        names = [line[0] for line in lines]
    head.end(), tail.end()
    need(all(a < b for a, b in zip(names, names[1:])) and all(map(is_name, names)), f"{what}: names or their order")
    need(level == 0 or lines, f"{what}: an empty upper node")
    return level, lines


def zero_bits(name):
    value = int.from_bytes(plain_hash(name)[:8], "little") | 1 << 64
    return (value & -value).bit_length() - 1


class Trees:
    """Reads folders, and checks that each is split as its names say and has the totals that are told of it."""

    def __init__(self, objects):
        self.objects, self.known = objects, {}

    def folder(self, id_, totals=None):
        """A folder's entries, in order."""
        if id_ not in self.known:
            lines = self.read(id_)
            self.known[id_] = lines, self.sums(lines)
        lines, sums = self.known[id_]
        need(totals is None or totals == sums, f"tree {id_.hex()}: its totals are wrong")
        return lines

    def read(self, id_):
        what = f"tree {id_.hex()}"
        level, lines = node(self.objects.get(TREE_KIND, id_), what)
        levels = [lines]
        while level:
            lower = []
            for first, told, lower_id in lines:
                below, found = node(self.objects.get(TREE_KIND, lower_id), f"tree {lower_id.hex()}")
                need(below == level - 1 and found, f"{what}: its levels do not go down by one")
                need(first == (found[0][0] if below else found[0].name), f"{what}: a first name is wrong")
                lower.append((told, found))
            for told, found in lower:
                need(told == self.sums(found), f"{what}: sums in an upper node are wrong")
            self.check_split([found for _, found in lower], level - 1, what)
            lines, level = [line for _, found in lower for line in found], level - 1
            levels.append(lines)
        names = [found.name for found in lines]
        need(all(a < b for a, b in zip(names, names[1:])), f"{what}: order of names")
        need(all(len(lower) > UNSPLIT for lower in levels[1:]), f"{what}: it is split without need")
        if len(levels[0]) > UNSPLIT:
            need(len(levels) > 1, f"{what}: it is not split")
            self.check_split([levels[0]], len(levels) - 1, what)
        return lines

    def check_split(self, nodes, level, what):
        """Nodes end where their last name says so, at the latest behind 4096 lines, and nowhere else."""
        bits = SPLIT_BITS * (level + 1)
        for number, found in enumerate(nodes):
            last = self.last_names(found)
            ends = [zero_bits(name) >= bits for name in last]
            need(not any(ends[:-1]) and len(found) <= LINES_MAX, f"{what}: a node does not end where it should")
            is_last = number + 1 == len(nodes)
            need(ends[-1] or len(found) == LINES_MAX or is_last, f"{what}: a node ends where it should not")

    def last_names(self, lines):
        """The last name that each line covers."""
        if isinstance(lines[0], Entry):
            return [found.name for found in lines]
        return [self.last_names(node(self.objects.get(TREE_KIND, id_), "tree")[1])[-1] for _, _, id_ in lines]

    @staticmethod
    def sums(lines):
        sums = Totals()
        for line in lines:
            sums.add(line.counted() if isinstance(line, Entry) else line[1])
        return sums

    def walk(self, id_, totals=None):
        """All entries below a folder in preorder: path, entry."""
        stack = [(b"", iter(self.folder(id_, totals)))]
        while stack:
            prefix, entries = stack[-1]
            found = next(entries, None)
            if found is None:
                stack.pop()
                continue
            path = prefix + found.name
            yield path, found
            if found.kind == FOLDER:
                need(len(stack) < DEPTH_MAX, "folders nest too deep")
                stack.append((path + b"/", iter(self.folder(found.id, found.totals))))
