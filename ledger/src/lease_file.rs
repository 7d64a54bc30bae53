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

use parhelia_store::{
    Error, Result, disk,
    error::IoContext,
    files::{self, How},
    layout::Layout,
};
use rustix::fs::{FlockOperation, flock};

use crate::{lease::Lease, run::Run};

/// The most bytes of a renewal.
const BYTES_MAX: u64 = 64 << 10;
/// The most characters of a run's id that can be the name of a file.
const NAME_MAX: usize = 100;
/// So often a renewal is read that is just being written, with a pause that grows by this each time.
const READS_MAX: u32 = 3;
const READ_PAUSE: Duration = Duration::from_millis(1);

pub(crate) fn write(layout: &Layout, path: &Path, lease: &Lease) -> Result<()> {
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
pub(crate) fn file(layout: &Layout, run: &str) -> Option<PathBuf> {
    let is_name =
        run.len() <= NAME_MAX && !run.is_empty() && run.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    is_name.then(|| layout.leases().join(format!("{run}{ENDING}")))
}
