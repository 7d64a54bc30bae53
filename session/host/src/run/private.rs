//! Private files for the start of an agent: settings that may have secrets stand on no command line, which every user of the machine can read.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use parhelia_agent::process::Identity;
use parhelia_store::{
    Store,
    files::{self, Folder},
    id::Ulid,
};

/// The folder of these files, in the store's cache.
const FOLDER: &str = "launch";

/// Keeps a text in a file that only the store's owner can read, until [`forget`]. Removes those of processes that are gone.
pub(super) fn keep(store: &Store, text: &str) -> io::Result<PathBuf> {
    sweep(store);
    let me = Identity::of(std::process::id() as i32).map_err(io::Error::other)?;
    let cache = store.layout().cache();
    files::make_folder(&cache)?;
    let folder =
        Folder::made_inside(&store.layout().root, cache.strip_prefix(&store.layout().root).unwrap_or(&cache).join(FOLDER))?;
    let name = format!("{}-{}-{}.json", me.process, me.start_time, Ulid::generate());
    folder.write_synced(name.as_ref(), text.as_bytes(), true)?;
    fs::canonicalize(cache.join(FOLDER).join(name))
}

/// Removes the files that this process has kept: its agent has ended.
pub fn forget(store: &Store) {
    let Ok(me) = Identity::of(std::process::id() as i32) else { return };
    remove(store, |process, start_time| (process, start_time) == (me.process, me.start_time));
}

/// Removes the files of processes that are gone, and whose agents are.
fn sweep(store: &Store) {
    remove(store, |process, start_time| {
        !Identity::of(process).is_ok_and(|found| found.start_time == start_time) && !is_named(&format!("{process}-{start_time}-"))
    });
}

fn remove(store: &Store, is_over: impl Fn(i32, u64) -> bool) {
    let folder = store.layout().cache().join(FOLDER);
    for path in files::list(&folder).unwrap_or_default() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut parts = name.split('-');
        let Some(process) = parts.next().and_then(|part| part.parse().ok()) else { continue };
        let Some(start_time) = parts.next().and_then(|part| part.parse().ok()) else { continue };
        if is_over(process, start_time) {
            // One that stays is removed with the next start.
            let _ = files::remove(&path);
        }
    }
}

/// True if the command line of a live process names such a file: an agent may outlive the process that started it.
fn is_named(part: &str) -> bool {
    let part = Path::new(FOLDER).join(part);
    let part = part.as_os_str().as_bytes();
    let is_process = |name: &OsString| name.as_bytes().iter().all(u8::is_ascii_digit);
    let names = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name()).filter(is_process);
    let mut lines = names.filter_map(|name| fs::read(Path::new("/proc").join::<&OsStr>(&name).join("cmdline")).ok());
    lines.any(|line| line.windows(part.len()).any(|window| window == part))
}
