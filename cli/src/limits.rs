//! Limits of the process, and what it lets others read.

use rustix::{
    fs::Mode,
    process::{Resource, Rlimit, getrlimit, setrlimit, umask},
};

/// Has every file that is made from here on be the user's own, RocksDB's and temporary ones included. Returns what the user had set.
pub fn keep_private() -> Mode {
    umask(Mode::RWXG | Mode::RWXO)
}

/// Does something by the user's own umask: a restored folder is theirs to share.
pub fn by_umask<T>(users: Mode, work: impl FnOnce() -> T) -> T {
    let before = umask(users);
    let done = work();
    umask(before);
    done
}

/// Raises the soft limit of open files to the hard one: many packs and folders are open at a time. Where that is not allowed, the
/// limit stays as it is.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}
