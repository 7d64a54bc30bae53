//! Prefetching in the order of lists. Who walks through a tree finds the folders that come next decoded, and who reads its small files
//! also the blocks that hold them. A thread of its own does it, while those that answer wait for the kernel, and the kernel's caller
//! takes in what it was told; [`crate::push`] then finds in the cache what it pushes.

use std::{
    collections::VecDeque,
    sync::{Arc, mpsc::Receiver},
    thread::{self, JoinHandle},
};

use crate::{
    counts::{Counters, count},
    notes::{Note, Unheard},
    view::{Next, Scope, View},
};

/// How many entries ahead of somebody are looked at.
const ENTRIES_MAX: u64 = 2048;
/// How many bytes of small files ahead of somebody are decoded ...
const BYTES_MAX: u64 = 8 << 20;
/// ... and no more than one in so many of those that the cache has, as their blocks hold other files, too.
const BYTES_PART: u64 = 16;
/// Larger files are read ahead by [`crate::ahead`].
const FILE_BYTES_MAX: u64 = 256 << 10;
/// So many steps forward make somebody who walks on.
const STEPS_MIN: u32 = 2;
/// Who goes on at most so many entries further is still the same.
const STRIDE_MAX: u64 = 4096;
/// How many are told apart, of those who list and of those who read.
const WALKERS_MAX: usize = 8;

/// Somebody who walks through the tree.
#[derive(Default)]
struct Walker {
    /// Where it is.
    at: u64,
    /// How often it went forward.
    steps: u32,
    /// Up to where was looked.
    tip: u64,
    /// Files between both, with their bytes, and the sum of these.
    lead: VecDeque<(u64, u64)>,
    lead_bytes: u64,
}

impl Walker {
    fn is_near(&self, ino: u64) -> bool {
        self.at <= ino && ino <= self.at.saturating_add(STRIDE_MAX)
    }
}

/// Starts the thread. It ends with the last of the notes' senders. `None` where it cannot be had; nothing is prefetched then.
pub fn start(
    view: Arc<dyn View>,
    (notes, unheard): (Receiver<Note>, Unheard),
    counters: Arc<Counters>,
) -> Option<JoinHandle<()>> {
    thread::Builder::new().name("prefetch".into()).spawn(move || work(&*view, &notes, &unheard, &counters)).ok()
}

fn work(view: &dyn View, notes: &Receiver<Note>, unheard: &Unheard, counters: &Counters) {
    let (mut listers, mut readers) = (Vec::new(), Vec::new());
    while let Ok(note) = notes.recv() {
        match note {
            Note::Listed(ino) => {
                let lister = step(&mut listers, ino);
                go(view, lister, ino, None);
                // Until it is there, nothing is left to be looked at for it.
                let until = if readers.is_empty() { lister.tip.saturating_sub(ENTRIES_MAX / 2) } else { 0 };
                unheard.set(ino, until);
                // A reader whose files are pushed is only seen by the folders that it lists.
                if let Some(reader) = readers.iter_mut().find(|reader: &&mut Walker| reader.is_near(ino)) {
                    go(view, reader, ino, Some(counters));
                }
            }
            Note::Read(ino) => {
                unheard.set(0, 0);
                go(view, step(&mut readers, ino), ino, Some(counters));
            }
        }
    }
}

/// The one who has come to an inode. The one seen last comes first.
fn step(walkers: &mut Vec<Walker>, ino: u64) -> &mut Walker {
    let known = walkers.iter().position(|walker| walker.is_near(ino));
    let mut walker = known.map(|at| walkers.remove(at)).unwrap_or_default();
    walker.steps = walker.steps.saturating_add(u32::from(ino > walker.at && known.is_some()));
    walker.at = ino;
    walkers.truncate(WALKERS_MAX - 1);
    walkers.insert(0, walker);
    &mut walkers[0]
}

/// Looks at what lies ahead of a walker that is at `ino`, so that the folders on the way are decoded. With counters, small files as well.
fn go(view: &dyn View, walker: &mut Walker, ino: u64, files: Option<&Counters>) {
    let until = ino.saturating_add(ENTRIES_MAX);
    // Many small looks would cost more than they give.
    if walker.steps < STEPS_MIN || walker.tip > ino.saturating_add(ENTRIES_MAX / 2) {
        return;
    }
    while let Some((_, bytes)) = walker.lead.pop_front_if(|(passed, _)| *passed <= ino) {
        walker.lead_bytes -= bytes;
    }
    let from = walker.tip.max(ino);
    let bytes_max = BYTES_MAX.min(view.cache_bytes() / BYTES_PART);
    // What cannot be read now is reported when it is asked for.
    let _ = view.entries(from, Scope::Behind, &mut |entry| {
        walker.tip = entry.at;
        if let Some(counters) = files
            && (1..=FILE_BYTES_MAX).contains(&entry.bytes)
        {
            walker.lead.push_back((entry.at, entry.bytes));
            walker.lead_bytes += entry.bytes;
            if view.prefetch(entry.at).is_ok() {
                count(&counters.prefetched);
            }
        }
        if entry.at >= until || walker.lead_bytes >= bytes_max { Next::Stop } else { Next::On }
    });
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Mutex, mpsc::sync_channel},
        time::Duration,
    };

    use super::*;
    use crate::{
        errno::Fault,
        view::{Entry, Line, Needs, Shown, Space},
    };

    /// Files of one length, one behind the other.
    #[derive(Default)]
    struct Row {
        bytes: u64,
        visited: Mutex<Vec<u64>>,
        decoded: Mutex<Vec<u64>>,
    }

    impl View for Row {
        fn entries(&self, ino: u64, scope: Scope, visit: &mut dyn FnMut(Entry) -> Next) -> Result<(), Fault> {
            assert_eq!(scope, Scope::Behind);
            for at in ino + 1..100_000 {
                self.visited.lock().unwrap().push(at);
                // A hard link, as one says, to what stands before everything.
                if visit(Entry { at, ino: 1, bytes: self.bytes }) == Next::Stop {
                    break;
                }
            }
            Ok(())
        }

        fn prefetch(&self, ino: u64) -> Result<(), Fault> {
            self.decoded.lock().unwrap().push(ino);
            Ok(())
        }

        fn needs(&self) -> Needs {
            unreachable!()
        }
        fn lookup(&self, _: u64, _: &[u8]) -> Result<Result<Shown, Duration>, Fault> {
            unreachable!()
        }
        fn attr(&self, _: u64) -> Result<Shown, Fault> {
            unreachable!()
        }
        fn list(&self, _: u64, _: u64, _: &mut dyn FnMut(Line<'_>) -> bool) -> Result<(), Fault> {
            unreachable!()
        }
        fn readlink(&self, _: u64) -> Result<Vec<u8>, Fault> {
            unreachable!()
        }
        fn read(&self, _: u64, _: u64, _: u64, _: &mut dyn FnMut(&[u8])) -> Result<(), Fault> {
            unreachable!()
        }
        fn seek(&self, _: u64, _: u64, _: bool) -> Result<u64, Fault> {
            unreachable!()
        }
        fn xattr(&self, _: u64, _: &[u8]) -> Result<Vec<u8>, Fault> {
            unreachable!()
        }
        fn xattr_names(&self, _: u64) -> Result<Vec<u8>, Fault> {
            unreachable!()
        }
        fn space(&self) -> Result<Space, Fault> {
            unreachable!()
        }
        fn path(&self, _: u64) -> String {
            unreachable!()
        }
    }

    /// What is visited and decoded after these notes.
    fn after(bytes: u64, asked: &[Note]) -> (Vec<u64>, Vec<u64>) {
        let row = Row { bytes, ..Row::default() };
        let (send, notes) = sync_channel(asked.len());
        asked.iter().for_each(|note| send.send(*note).unwrap());
        drop(send);
        work(&row, &notes, &Unheard::default(), &Counters::default());
        (row.visited.into_inner().unwrap(), row.decoded.into_inner().unwrap())
    }

    #[test]
    fn who_lists_folder_after_folder_has_the_next_ones_decoded_each_once() {
        let asked: Vec<_> = (0..3000).map(|i| Note::Listed(10 + i)).collect();
        let (visited, decoded) = after(5, &asked);
        let last = *visited.last().unwrap();
        assert!((3000 + ENTRIES_MAX / 2..=3010 + ENTRIES_MAX).contains(&last), "{last}");
        assert!(visited.windows(2).all(|two| two[0] + 1 == two[1]));
        assert!(decoded.is_empty(), "nothing was read");
    }

    #[test]
    fn until_something_is_left_to_be_decoded_nothing_needs_to_be_heard_of_who_only_lists() {
        let row = Row::default();
        let unheard_after = |asked: &[Note]| {
            let (send, notes) = sync_channel(asked.len());
            asked.iter().for_each(|note| send.send(*note).unwrap());
            drop(send);
            let unheard = Unheard::default();
            work(&row, &notes, &unheard, &Counters::default());
            unheard
        };
        let lists: Vec<_> = (0..3).map(|i| Note::Listed(10 + i)).collect();
        let unheard = unheard_after(&lists);
        let half = 12 + ENTRIES_MAX / 2;
        assert!([12, 13, half - 1].into_iter().all(|ino| unheard.has(Note::Listed(ino))));
        assert!([11, half, 50_000].into_iter().all(|ino| !unheard.has(Note::Listed(ino))));
        let unheard = unheard_after(&[&lists[..], &[Note::Read(13)], &lists[2..]].concat());
        assert!(!unheard.has(Note::Listed(13)), "a reader is followed by what it lists");
    }

    #[test]
    fn who_looks_here_and_there_causes_nothing() {
        let there = [50_000, 20, 30_000, 10, 90_000, 15, 70_000, 12].map(Note::Listed);
        let back = (0..100).rev().map(|i| Note::Read(5 + i));
        let asked: Vec<_> = there.into_iter().chain(back).chain([Note::Listed(40_000), Note::Listed(40_001)]).collect();
        assert_eq!(after(5, &asked), Default::default());
    }

    #[test]
    fn who_reads_small_files_has_the_next_ones_decoded_within_a_bound_of_bytes() {
        let asked: Vec<_> = (0..500).map(|i| Note::Read(10 + i)).collect();
        let bytes = 128 << 10;
        let (_, decoded) = after(bytes, &asked);
        assert!(decoded.windows(2).all(|two| two[0] + 1 == two[1]), "each once, in order");
        assert_eq!(decoded.last().unwrap() - 509, BYTES_MAX / bytes);
        assert!(after(FILE_BYTES_MAX + 1, &asked).1.is_empty(), "long files are not for this");
    }

    #[test]
    fn a_reader_whose_files_are_pushed_is_followed_by_the_folders_it_lists() {
        let reads = [10, 11, 12].map(Note::Read);
        let lists = [2500, 4000].map(Note::Listed);
        let (_, decoded) = after(10, &[&reads[..], &lists].concat());
        assert_eq!(*decoded.last().unwrap(), 4000 + ENTRIES_MAX);
    }
}
