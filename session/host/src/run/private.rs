//! Private files for the start of an agent: settings that may have secrets stand on no command line, which every user of the machine can read.

use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

use parhelia_agent::process::Identity;
use parhelia_store::{
    Store,
    files::{self, Folder},
    id::Ulid,
};

/// The folder of these files, in the store's cache.
const FOLDER: &str = "launch";

/// A file of a process in another namespace, of which nothing can be seen, is kept for so long.
const AGE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Keeps a text in a file that only the store's owner can read, until [`forget`]. Removes those of processes that are gone.
pub(super) fn keep(store: &Store, text: &str) -> io::Result<PathBuf> {
    let me = Identity::of(std::process::id() as i32).map_err(io::Error::other)?;
    sweep(store, &me);
    let cache = store.layout().cache();
    files::make_folder(&cache)?;
    let folder =
        Folder::made_inside(&store.layout().root, cache.strip_prefix(&store.layout().root).unwrap_or(&cache).join(FOLDER))?;
    let name = format!("{}{}.json", begins(&me), Ulid::generate());
    folder.write_synced(name.as_ref(), text.as_bytes(), true)?;
    fs::canonicalize(cache.join(FOLDER).join(name))
}

/// The beginning of the names of a process's files. Its number means something in its namespace alone.
fn begins(me: &Identity) -> String {
    format!("{}-{}-{}-", me.process, me.start_time, namespace(me))
}

fn namespace(me: &Identity) -> String {
    me.pid_namespace.iter().flat_map(|name| name.chars()).filter(char::is_ascii_digit).collect()
}

/// Removes the files that this process has kept: its agent has ended.
pub fn forget(store: &Store) {
    let Ok(me) = Identity::of(std::process::id() as i32) else { return };
    remove(store, &me, |process, start_time| (process, start_time) == (me.process, me.start_time));
}

/// Removes the files of processes that are gone, and whose agents are.
fn sweep(store: &Store, me: &Identity) {
    remove(store, me, |process, start_time| {
        !Identity::of(process).is_ok_and(|found| found.start_time == start_time) && !is_named(&format!("{process}-{start_time}-"))
    });
}

/// Removes files of processes that are over, of those whose numbers mean something here.
fn remove(store: &Store, me: &Identity, is_over: impl Fn(i32, u64) -> bool) {
    let folder = store.layout().cache().join(FOLDER);
    for path in files::list(&folder).unwrap_or_default() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut parts = name.strip_suffix(".json").unwrap_or(&name).split('-');
        let Some(process) = parts.next().and_then(|part| part.parse().ok()) else { continue };
        let Some(start_time) = parts.next().and_then(|part| part.parse().ok()) else { continue };
        let (third, fourth) = (parts.next(), parts.next());
        // Earlier releases named no namespace.
        let is_ours = fourth.is_none() || third == Some(&*namespace(me));
        let is_old =
            || fs::metadata(&path).and_then(|found| found.modified()).is_ok_and(|at| at.elapsed().is_ok_and(|age| age > AGE_MAX));
        let is_left = if is_ours { is_over(process, start_time) } else { is_old() };
        if is_left {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_processes_of_other_namespaces_have_kept_stays() {
        let dir = tempfile::tempdir().unwrap();
        let store =
            parhelia_ledger::open(dir.path(), &parhelia_store::OpenOptions { create: true, ..Default::default() }).unwrap();
        let kept = keep(&store, "{}").unwrap();
        let folder = kept.parent().unwrap();
        let me = Identity::of(std::process::id() as i32).unwrap();
        // Of a number that nobody has here.
        let names =
            [format!("999999999-1-{}-A.json", namespace(&me)), "999999999-1-B.json".into(), "999999999-1-42-C.json".into()];
        for name in &names {
            fs::write(folder.join(name), "{}").unwrap();
        }
        let next = keep(&store, "{}").unwrap();
        let there = |name: &str| folder.join(name).exists();
        assert_eq!(names.each_ref().map(|name| there(name)), [false, false, true]);
        assert!(kept.exists() && next.exists());
        forget(&store);
        assert!(!kept.exists() && !next.exists() && there(&names[2]));
    }
}
