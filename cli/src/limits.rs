//! Limits of the process, and what it lets others read.

use std::{
    io,
    sync::{Arc, OnceLock},
};

use parhelia_screen::human;
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
    // A signal that is taken over ends nothing: a file that gets too long is an error of whoever writes it. Programs that this
    // one starts have the signal as it was.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

/// The next step after an error that comes from a limit which the user has set; none for any other error.
pub fn hint(error: &io::Error) -> Option<String> {
    match Errno::from_io_error(error)? {
        Errno::FBIG => {
            let bytes = human::size(getrlimit(Resource::Fsize).current?);
            Some(format!("the files that this process writes are limited to {bytes}: raise `ulimit -f`"))
        }
        Errno::NOMEM => {
            let bytes = human::size(getrlimit(Resource::As).current?);
            let needed = human::size(OWN_ADDRESS_BYTES + addresses_needed_bytes());
            Some(format!("the address space of this process is limited to {bytes}: raise `ulimit -v`, to {needed} at least"))
        }
        _ => None,
    }
}

/// Addresses that a thread takes: its stack, and a heap of its own.
const THREAD_ADDRESS_BYTES: u64 = 72 << 20;
/// ... and what all of them share: buffers, and the index's caches.
const SHARED_ADDRESS_BYTES: u64 = 128 << 20;
/// ... and the program itself.
const OWN_ADDRESS_BYTES: u64 = 96 << 20;
/// Threads that work at a time on one store, at most; four more are the index's.
const THREADS_MAX: usize = 16;

fn addresses_needed_bytes() -> u64 {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).min(THREADS_MAX) + 4;
    threads as u64 * THREAD_ADDRESS_BYTES + SHARED_ADDRESS_BYTES
}

/// Fails where the user has limited the process to fewer addresses than working on a store may take. The index ends the process
/// without a word where it is refused any.
pub fn ensure_addresses() -> io::Result<()> {
    static ENOUGH: OnceLock<bool> = OnceLock::new();
    let is_enough = || {
        if getrlimit(Resource::As).current.is_none() {
            return true;
        }
        let bytes = usize::try_from(addresses_needed_bytes()).unwrap_or(usize::MAX);
        // Otherwise the compiler may do without memory that nothing is written to.
        std::hint::black_box(&mut Vec::<u8>::new()).try_reserve_exact(bytes).is_ok()
    };
    // Asked once: later, this process has some of them itself.
    if *ENOUGH.get_or_init(is_enough) { Ok(()) } else { Err(Errno::NOMEM.into()) }
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
