//! Agents that may have a conversation open where they cannot be seen: outside of the container that this process is in.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use super::open::{Kept, files};
use crate::process::{Identity, boot_time, sees_all};

/// An agent that says in its file that it has a conversation open, and that no process here is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unseen {
    /// Its process, as it is numbered where it is.
    pub process: i32,
    /// Its start, in clock ticks since boot, where it says so.
    pub start_time: Option<u64>,
}

impl Unseen {
    /// True if it is this process, in whichever namespace.
    pub fn is(&self, known: &Identity) -> bool {
        self.process == known.process && self.start_time.is_none_or(|start| start == known.start_time)
    }
}

/// Agents that have said since the machine was started that they have a conversation open, and of which it cannot be known from here whether
/// they live. Where all of the machine's processes are seen there are none.
pub fn unseen(config: &Path, conversation: &str) -> Vec<Unseen> {
    if sees_all() {
        return Vec::new();
    }
    let booted = boot_time().unwrap_or(SystemTime::UNIX_EPOCH);
    // The kernel counts boots in whole seconds.
    let is_of_this_boot = |path: &Path| {
        let modified = fs::metadata(path).and_then(|found| found.modified());
        modified.is_ok_and(|modified| modified + Duration::from_secs(1) >= booted)
    };
    let kept = files(config).filter(|path| is_of_this_boot(path)).filter_map(|path| Kept::read(&path));
    let found = kept.filter(|kept| kept.conversation == conversation);
    let found = found.map(|kept| (Unseen { process: kept.process, start_time: kept.start_time }, kept.live()));
    found.filter(|(_, live)| live.is_none()).map(|(unseen, _)| unseen).collect()
}
