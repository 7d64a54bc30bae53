//! Traps: what makes a call fail, or kills the process that makes it.

use fuser::Errno;
use rustix::process::{Pid, Signal};

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Opening a file.
    Open,
    /// Opening a folder.
    OpenFolder,
    /// Reading.
    Read,
    /// Finding a name.
    Find,
    /// Looking at an entry.
    Look,
    /// Listing a folder.
    List,
    /// Reading a symlink.
    Follow,
    /// Listing the extended attributes of an entry.
    ListAttributes,
    /// Reading an extended attribute.
    ReadAttribute,
    /// Asking how much space there is.
    Space,
    /// Making a file, folder, symlink or special file, or another name.
    Make,
    /// Writing, or making longer.
    Write,
    /// Making shorter.
    Cut,
    /// Renaming.
    Rename,
    /// Removing a name.
    Remove,
    /// Setting mode, owner, time.
    Attributes,
    /// Syncing.
    Sync,
}

/// Effect of a fault on the call.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// It fails, once.
    Once(Errno),
    /// It fails, and so do all others of its kind from then on.
    FromThenOn(Errno),
    /// Its process is killed, and nothing that it asks for is done any more.
    Kill,
}

/// The calls of two lists, `N` altogether.
const fn both<const N: usize>(first: &[Call], second: &[Call]) -> [Call; N] {
    assert!(first.len() + second.len() == N);
    let mut all = [Call::Open; N];
    let mut i = 0;
    while i < N {
        all[i] = if i < first.len() { first[i] } else { second[i - first.len()] };
        i += 1;
    }
    all
}

/// Goes off at the n-th call of some kinds.
pub struct Trap {
    /// Calls that count.
    pub calls: &'static [Call],
    /// At which of them it goes off, from 0.
    pub at: u64,
    /// The fault.
    pub fault: Fault,
    /// Calls so far.
    pub seen: u64,
    /// True if it went off.
    pub has_gone_off: bool,
}

impl Trap {
    /// Every call that changes something.
    pub const CHANGES: &'static [Call] =
        &[Call::Make, Call::Write, Call::Cut, Call::Rename, Call::Remove, Call::Attributes, Call::Sync];
    /// Every call that a full disk refuses.
    pub const NEEDS_SPACE: &'static [Call] = &[Call::Make, Call::Write];
    /// Every call that takes a file descriptor.
    pub const OPENS: &'static [Call] = &[Call::Open, Call::OpenFolder, Call::Make];
    /// Every call that only looks, but those for extended attributes, which a store does not use.
    const STORE_LOOKS: &'static [Call] =
        &[Call::Open, Call::OpenFolder, Call::Read, Call::Find, Call::Look, Call::List, Call::Follow, Call::Space];
    /// Every call that only looks.
    pub const LOOKS: &'static [Call] = &both::<10>(Self::STORE_LOOKS, &[Call::ListAttributes, Call::ReadAttribute]);
    /// Every call but those for extended attributes.
    pub const ALL: &'static [Call] = &both::<15>(Self::STORE_LOOKS, Self::CHANGES);

    /// A trap for the n-th of these calls.
    pub fn new(calls: &'static [Call], at: u64, fault: Fault) -> Self {
        Trap { calls, at, fault, seen: 0, has_gone_off: false }
    }

    /// Decides on a call of the process `pid`.
    pub(super) fn step(&mut self, call: Call, pid: u32) -> Result<(), Errno> {
        let is_dead = self.has_gone_off && matches!(self.fault, Fault::Kill);
        if is_dead {
            return Err(Errno::EIO);
        }
        if !self.calls.contains(&call) {
            return Ok(());
        }
        self.seen += 1;
        if self.seen <= self.at {
            return Ok(());
        }
        let is_first = !std::mem::replace(&mut self.has_gone_off, true);
        match self.fault {
            Fault::Once(errno) if is_first => Err(errno),
            Fault::Once(_) => Ok(()),
            Fault::FromThenOn(errno) => Err(errno),
            Fault::Kill => {
                if let Some(pid) = Pid::from_raw(pid as i32) {
                    let _ = rustix::process::kill_process(pid, Signal::KILL);
                }
                Err(Errno::EIO)
            }
        }
    }
}
