//! Limits of the process, and what it lets others read.

use std::{
    io,
    sync::{Arc, OnceLock},
};

use rustix::{
    fs::Mode,
    io::Errno,
    process::{Resource, Rlimit, getrlimit, setrlimit, umask},
};

/// As the user had set them.
struct Users {
    umask: Mode,
    open_files: Rlimit,
}

static USERS: OnceLock<Users> = OnceLock::new();

/// Has every file that is made from here on be the user's own, RocksDB's and temporary ones included, and raises the soft limit of open
/// files to the hard one: many packs and folders are open at a time. Where that is not allowed, the limit stays as it is.
pub fn set() {
    let users = Users { umask: umask(Mode::RWXG | Mode::RWXO), open_files: getrlimit(Resource::Nofile) };
    raise(&users.open_files);
    let _ = USERS.set(users);
    // A signal that is taken over ends nothing: a file that gets too long is an error of whoever writes it. Programs that this one starts have the
    // signal as it was.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

/// What to do where the system refused something because of a limit that the user has set.
pub fn hint(error: &io::Error) -> Option<String> {
    let limited = |resource, what, option| {
        let bytes = getrlimit(resource).current?;
        Some(format!("{what} of this process are limited to {}: raise `ulimit -{option}`", crate::human::size(bytes)))
    };
    match Errno::from_io_error(error)? {
        Errno::FBIG => limited(Resource::Fsize, "files", 'f'),
        Errno::NOMEM => limited(Resource::As, "addresses", 'v'),
        _ => None,
    }
}

fn raise(limit: &Rlimit) {
    if limit.current != limit.maximum {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..*limit });
    }
}

/// Does something by the user's own umask: a restored folder is theirs to share.
pub fn by_umask<T>(work: impl FnOnce() -> T) -> T {
    let Some(users) = USERS.get() else { return work() };
    let before = umask(users.umask);
    let done = work();
    umask(before);
    done
}

/// Starts a program that is not ours by the user's own umask and limits: what it makes is the user's to share, and so is what it starts.
pub fn for_others<T>(start: impl FnOnce() -> T) -> T {
    let Some(users) = USERS.get() else { return start() };
    let _ = setrlimit(Resource::Nofile, users.open_files);
    let done = by_umask(start);
    raise(&users.open_files);
    done
}

/// The user's umask, to be handed over to another process.
pub fn users_umask() -> u32 {
    USERS.get().map_or(0o022, |users| users.umask.bits())
}

/// Takes over a user's umask before another program takes the place of this one, with the limits that this one was started with.
pub fn hand_over(users_umask: u32) {
    umask(Mode::from_bits_truncate(users_umask));
    if let Some(users) = USERS.get() {
        let _ = setrlimit(Resource::Nofile, users.open_files);
    }
}
