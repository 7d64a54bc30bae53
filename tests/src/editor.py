"""Edits files below the current folder in every way that a program can. A whole-system test drives it.

Each line of standard input is a JSON list: an operation and its arguments. Each answer is a line: `ok`, `no` and an errno's name, or a
traceback on standard error. Mappings and open files live until they are closed by name, so that edits outlast other programs.
"""

import ctypes
import errno
import fcntl
import hashlib
import json
import os
import shutil
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mmap.restype = ctypes.c_void_p
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
PROT_READ, PROT_WRITE, MAP_SHARED, MAP_FAILED, MS_SYNC = 1, 2, 1, ctypes.c_void_p(-1).value, 4
AT_FDCWD, RENAME_EXCHANGE, FICLONE, KEEP_SIZE, PUNCH_HOLE = -100, 2, 0x40049409, 1, 2
maps = {}


def noise(length, seed):
    return hashlib.shake_128(str(seed).encode()).digest(length)


def checked(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), "refused")


def opened(path, flags):
    # Neither waits for a pipe's other end nor follows a link.
    return os.fdopen(os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644), "r+b" if flags & os.O_RDWR else "wb", 0)


class Mapping:
    """Python's own mappings keep a descriptor that is open for writing; this one keeps the memory alone."""

    def __init__(self, path):
        with opened(path, os.O_RDWR) as file:
            self.length = os.fstat(file.fileno()).st_size
            self.address = libc.mmap(None, self.length, PROT_READ | PROT_WRITE, MAP_SHARED, file.fileno(), 0)
        if self.address == MAP_FAILED:
            raise OSError(ctypes.get_errno(), "refused")
        # Knows the file's length, without having it open.
        self.file = os.open(path, os.O_PATH)

    def store(self, seed):
        length = min(self.length, os.fstat(self.file).st_size)
        ctypes.memmove(self.address, noise(length, seed), length)

    def close(self):
        checked(libc.munmap(self.address, self.length))
        os.close(self.file)


class Edits:
    def write(self, path, length, seed):
        """Empties the file, or makes it, and writes it."""
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with opened(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
            file.write(noise(length, seed))

    def rewrite(self, path, seed):
        """New bytes in place, of the same length."""
        with opened(path, os.O_RDWR) as file:
            file.write(noise(os.fstat(file.fileno()).st_size, seed))

    def patch(self, path, seed):
        """A few new bytes in the middle."""
        with opened(path, os.O_RDWR) as file:
            size = os.fstat(file.fileno()).st_size
            os.pwrite(file.fileno(), noise(min(16, size - size // 2), seed), size // 2)

    def rewrite_old(self, path, seed):
        """New bytes of the same length, and the old time of modification set again."""
        old = os.lstat(path)
        self.rewrite(path, seed)
        os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))

    def append(self, path, length, seed):
        with opened(path, os.O_WRONLY | os.O_APPEND) as file:
            file.write(noise(length, seed))

    def truncate(self, path, length):
        with opened(path, os.O_RDWR) as file:
            file.truncate(length)

    def replace(self, path, length, seed):
        """A new file, renamed over the old one."""
        self.write(path + ".new", length, seed)
        os.rename(path + ".new", path)

    def replace_old(self, path, seed):
        """A new file of the same length and time of modification, renamed over the old one."""
        old = os.lstat(path)
        self.write(path + ".new", old.st_size, seed)
        os.utime(path + ".new", ns=(old.st_atime_ns, old.st_mtime_ns))
        os.rename(path + ".new", path)

    def map(self, name, path):
        """Maps a whole file for writing, shared, and closes the descriptor."""
        self.unmap(name)
        maps[name] = Mapping(path)

    def store(self, name, seed):
        """Writes through a mapping, as far as the file reaches now."""
        if name in maps:
            maps[name].store(seed)

    def msync(self, name):
        if name in maps:
            checked(libc.msync(maps[name].address, maps[name].length, MS_SYNC))

    def unmap(self, name):
        if name in maps:
            maps.pop(name).close()

    def allocate(self, path, length):
        """Makes a file longer by allocating blocks behind its end."""
        with opened(path, os.O_RDWR) as file:
            checked(libc.fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size, length))

    def punch(self, path, start, length):
        with opened(path, os.O_RDWR) as file:
            checked(libc.fallocate(file.fileno(), PUNCH_HOLE | KEEP_SIZE, start, length))

    def clone(self, path, to):
        """Shares a file's extents with another one, in whose place they are."""
        with opened(path, os.O_RDWR) as source, opened(to, os.O_RDWR | os.O_CREAT) as target:
            fcntl.ioctl(target.fileno(), FICLONE, source.fileno())

    def copy_range(self, path, to):
        """Lets the kernel copy a file over the beginning of another one."""
        with opened(path, os.O_RDWR) as source, opened(to, os.O_RDWR | os.O_CREAT) as target:
            os.copy_file_range(source.fileno(), target.fileno(), os.fstat(source.fileno()).st_size)

    def rename(self, path, to):
        os.makedirs(os.path.dirname(to) or ".", exist_ok=True)
        os.rename(path, to)

    def exchange(self, path, to):
        checked(libc.renameat2(AT_FDCWD, path.encode(), AT_FDCWD, to.encode(), RENAME_EXCHANGE))

    def link(self, path, to):
        os.makedirs(os.path.dirname(to) or ".", exist_ok=True)
        os.link(path, to, follow_symlinks=False)

    def link_over(self, path, to):
        """Makes a name another link of a file, in place of what it was, as `ln -f` does."""
        os.link(path, to + ".new", follow_symlinks=False)
        os.rename(to + ".new", to)
        # A rename of one link over another of the same file does nothing.
        if os.path.lexists(to + ".new"):
            os.unlink(to + ".new")

    def unlink(self, path):
        os.unlink(path)

    def remove(self, path):
        shutil.rmtree(path)

    def mkdir(self, path):
        os.makedirs(path)

    def symlink(self, target, path):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        os.symlink(target, path)

    def fifo(self, path):
        os.mkfifo(path, 0o640)

    def chmod(self, path, mode):
        if not os.path.islink(path):
            os.chmod(path, mode)

    def touch(self, path, nanoseconds):
        os.utime(path, ns=(nanoseconds, nanoseconds), follow_symlinks=False)

    def setxattr(self, path, name, length, seed):
        os.setxattr(path, "user." + name, noise(length, seed), follow_symlinks=False)

    def removexattr(self, path, name):
        os.removexattr(path, "user." + name, follow_symlinks=False)


def main():
    edits = Edits()
    for line in sys.stdin:
        operation, *arguments = json.loads(line)
        try:
            getattr(edits, operation)(*arguments)
            answer = "ok"
        except OSError as error:
            answer = "no " + errno.errorcode.get(error.errno, str(error.errno))
        print(answer, flush=True)


main()
