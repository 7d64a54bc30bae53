//! Renewed leases, each in a file beside the journal: a run renews its own thousands of times a day, and only the last time counts.
//!
//! A renewal writes over the one before, in one call. It is not synced if it is this machine's own, which is off after a power cut; what was
//! heard of another machine is. The file stays the same one, because network filesystems look at an opened file anew, and not at a name.

use std::{
    ffi::OsStr,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use jiff::Timestamp;
use parhelia_store::{
    Error, Result, Store, disk,
    error::IoContext,
    files::{self, How},
    layout::Layout,
};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{run::Run, view::LedgerView as _};

/// The most bytes of a renewal.
const BYTES_MAX: u64 = 64 << 10;
/// The most characters of a run's id that can be the name of a file.
const NAME_MAX: usize = 100;
/// So often a renewal is read that is just being written, with a pause that grows by this each time.
const READS_MAX: u32 = 3;
const READ_PAUSE: Duration = Duration::from_millis(1);

/// Right to act for a run, and the time until which it has to be renewed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Its holder, such as a host and a process.
    pub holder: String,
    /// Time of the last renewal.
    pub renewed: Option<Timestamp>,
    /// For how many seconds it holds from then on.
    pub ttl_seconds: u64,
    /// The state of the run, as whoever renewed it from elsewhere said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<Value>,
}

/// Renews the lease of a run in an epoch. One that has ended has none, and needs none. Fails with [`Error::NoRun`], and with
/// [`Error::Fenced`] where a newer run has taken over.
pub fn renew(store: &Store, run: &str, epoch: u64, lease: &Lease) -> Result<()> {
    store.check_writable()?;
    let view = store.refresh()?;
    let found = view.run(run)?.ok_or_else(|| Error::NoRun { run: run.to_owned() })?;
    let current = view.session(&found.session)?.map_or(0, |session| session.epoch);
    if epoch < current {
        return Err(Error::Fenced { action: "renewing a lease".into(), session: found.session, epoch, current });
    }
    match file(store.layout(), run).filter(|_| found.is_open()) {
        Some(path) => write(store.layout(), &path, lease),
        None => Ok(()),
    }
}

fn write(layout: &Layout, path: &Path, lease: &Lease) -> Result<()> {
    files::make_folder(&layout.leases()).at("make folder", layout.leases())?;
    let file = files::open(path, How::Make).at("open lease", path)?;
    // One at a time, until the file is closed: the length that was found is to be the one that is written over.
    flock(&file, FlockOperation::LockExclusive).at("lock lease", path)?;
    let mut text = serde_json::to_vec(lease).unwrap_or_default();
    if text.len() as u64 > BYTES_MAX {
        return Err(Error::Invalid(format!("a lease is at most {BYTES_MAX} bytes long, and this one has {}", text.len())));
    }
    // What is longer is not cut, but written over, so that no reader meets half of it.
    let before = file.metadata().at("read lease", path)?.len().min(BYTES_MAX);
    text.resize(text.len().max(usize::try_from(before).unwrap_or_default()), b' ');
    file.write_all_at(&text, 0).at("write lease", path)?;
    if lease.said.is_none() {
        return Ok(());
    }
    disk::sync_file(&file, "sync lease", path)?;
    if before == 0 { disk::sync_folder(&layout.leases()) } else { Ok(()) }
}

/// The lease of an open run as it was renewed last, in place of the one that it began with.
pub(crate) fn renewed(layout: &Layout, mut run: Run) -> Run {
    if let Some(lease) = file(layout, &run.id).filter(|_| run.is_open()).and_then(|path| read(&path)) {
        run.lease = Some(lease);
    }
    run
}

fn read(path: &Path) -> Option<Lease> {
    // What cannot be read renews nothing, as if it had not been written.
    let file = files::open(path, How::Read).ok()?;
    (0..READS_MAX).find_map(|time| {
        thread::sleep(time * READ_PAUSE);
        let mut text = vec![0; usize::try_from(file.metadata().ok()?.len().min(BYTES_MAX)).ok()?];
        file.read_exact_at(&mut text, 0).ok()?;
        serde_json::from_slice(&text).ok()
    })
}

/// Removes the leases of runs that are over.
pub(crate) fn sweep(layout: &Layout, is_open: impl Fn(&str) -> Result<bool>) -> Result<()> {
    for path in files::list(&layout.leases()).at("list", layout.leases())? {
        let run = path.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_suffix(ENDING));
        if run.map(&is_open).transpose()? == Some(false) {
            files::remove(&path).at("remove lease", &path)?;
        }
    }
    Ok(())
}

const ENDING: &str = ".lease";

/// The file of a run's lease; none of one whose id is no name of a file, which no run has that begins by itself.
fn file(layout: &Layout, run: &str) -> Option<PathBuf> {
    let is_name =
        run.len() <= NAME_MAX && !run.is_empty() && run.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_name.then(|| layout.leases().join(format!("{run}{ENDING}")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use parhelia_store::{
        clock,
        event::{Actor, NewEvent},
        gc,
    };

    use crate::{kind, testing::TestStore};

    fn lease(holder: &str) -> Lease {
        Lease { holder: holder.into(), renewed: Some(clock::timestamp()), ttl_seconds: 90, said: None }
    }

    fn begun(test: &TestStore, run: &str) -> u64 {
        let new = |kind, subject| NewEvent::new(kind, subject, Actor::default());
        let events = [new(kind::RUN_STARTED, run).with("session", "s"), new(kind::RUN_LEASE, run).with("holder", "first")];
        let created = new(kind::SESSION_CREATED, "s");
        let created = test.store.view().session("s").unwrap().is_none().then_some(created);
        let events: Vec<NewEvent> = created.into_iter().chain(events).collect();
        test.store.append_events(&events, &()).unwrap().last().unwrap().event.epoch
    }

    #[test]
    fn renewals_are_seen_by_everyone_and_leave_the_journal_as_it_is() {
        let test = TestStore::new();
        let epoch = begun(&test, "r1");
        let other = test.open();
        let (end, of) =
            (test.store.view().end().sequence, |store: &Store| store.view().run("r1").unwrap().unwrap().lease.unwrap());
        assert_eq!(of(&other).holder, "first");
        for holder in ["a-rather-long-name-of-a-machine", "b"] {
            renew(&test.store, "r1", epoch, &lease(holder)).unwrap();
            assert_eq!(of(&other).holder, holder);
            assert_eq!(other.view().runs().unwrap()["r1"].lease.as_ref().unwrap().holder, holder);
        }
        assert_eq!(test.open().view().end().sequence, end);
        // What is no lease renews nothing.
        fs::write(test.store.layout().leases().join("r1.lease"), "{").unwrap();
        assert_eq!(of(&other).holder, "first");
        let long = Lease { said: Some("x".repeat(70_000).into()), ..lease("b") };
        assert!(renew(&test.store, "r1", epoch, &long).is_err());
        assert!(matches!(renew(&test.store, "r7", 1, &lease("b")), Err(Error::NoRun { .. })));
    }

    #[test]
    fn nobody_renews_what_a_newer_run_has_taken_over_or_what_is_over() {
        let test = TestStore::new();
        let first = begun(&test, "r1");
        renew(&test.store, "r1", first, &lease("a")).unwrap();
        let second = begun(&test, "r2");
        let late = renew(&test.store, "r1", first, &lease("a"));
        assert!(matches!(late, Err(Error::Fenced { epoch, current, .. }) if (epoch, current) == (first, second)), "{late:?}");
        renew(&test.store, "r2", second, &lease("b")).unwrap();
        let names = || files::list(&test.store.layout().leases()).unwrap().len();
        assert_eq!(names(), 2);
        let ended = |run: &str| NewEvent::new(kind::RUN_ENDED, run, Actor::default());
        test.store.append_events(&[ended("r1"), ended("r2")], &()).unwrap();
        renew(&test.store, "r2", second, &lease("b")).unwrap();
        assert_eq!(test.store.view().run("r2").unwrap().unwrap().lease, None);
        let open = begun(&test, "r3");
        renew(&test.store, "r3", open, &lease("c")).unwrap();
        gc::run(&test.store, &Default::default(), &()).unwrap();
        assert_eq!(files::list(&test.store.layout().leases()).unwrap(), [test.store.layout().leases().join("r3.lease")]);
    }
}
