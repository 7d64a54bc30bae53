//! Activity of a mount. One that is not read leaves its share of memory to the others.

use std::{
    io::{self, PipeReader, PipeWriter, Write},
    sync::atomic::{AtomicU8, Ordering::Relaxed},
};

/// Nothing was read for long.
const IDLE: u8 = 0;
/// Nothing was read since the last look.
const QUIET: u8 = 1;
/// Something was.
const USED: u8 = 2;

/// The activity of a mount, noted by the threads that answer, for its keeper.
#[derive(Debug)]
pub(crate) struct Activity {
    state: AtomicU8,
    wake: PipeWriter,
}

impl Activity {
    /// An idle mount, and what becomes readable when it is read.
    pub(crate) fn new() -> io::Result<(Self, PipeReader)> {
        let (woken, wake) = io::pipe()?;
        Ok((Activity { state: AtomicU8::new(IDLE), wake }, woken))
    }

    /// Something is read.
    pub(crate) fn note(&self) {
        if self.state.load(Relaxed) != USED && self.state.swap(USED, Relaxed) == IDLE {
            // Nobody reads it where the mount is over.
            let _ = (&self.wake).write_all(&[0]);
        }
    }

    /// Returns whether something was read since the last look but one.
    pub(crate) fn look(&self) -> bool {
        let next = |state| match state {
            USED => Some(QUIET),
            QUIET => Some(IDLE),
            _ => None,
        };
        self.state.fetch_update(Relaxed, Relaxed, next) == Ok(USED)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn whoever_begins_to_read_wakes_the_keeper_once() {
        let (activity, mut woken) = Activity::new().unwrap();
        assert!(!activity.look());
        for _ in 0..3 {
            activity.note();
        }
        assert!(activity.look(), "read since");
        activity.note();
        assert!(activity.look(), "read again");
        assert!([(); 3].into_iter().all(|()| !activity.look()), "quiet");
        activity.note();
        assert!(activity.look());
        drop(activity);
        let mut wakes = Vec::new();
        woken.read_to_end(&mut wakes).unwrap();
        assert_eq!(wakes.len(), 2);
    }
}
