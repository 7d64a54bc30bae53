//! Prefetching in the order of lists. Who walks through a tree finds the folders that come next decoded, and who reads its small files
//! also the blocks that hold them. A thread of its own does it, while those that answer wait for the kernel, and the kernel's caller
//! takes in what it was told; [`super::page_cache`] then finds in the cache what it pushes.

use std::{
    collections::VecDeque,
    sync::{Arc, mpsc::Receiver},
    thread::{self, JoinHandle},
};

use crate::{
    counts::{Counters, count},
    readahead::{
        Next, Scope, Source,
        access_hints::{AccessHint, Unwanted},
    },
};

/// How many entries ahead of somebody are looked at.
const ENTRIES_MAX: u64 = 2048;
/// How many bytes of small files ahead of somebody are decoded ...
const BYTES_MAX: u64 = 8 << 20;
/// ... and no more than one in so many of those that the cache has, as their blocks hold other files, too.
const BYTES_PART: u64 = 16;
/// Larger files are read ahead by [`super::blocks`].
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

/// Starts the thread. It ends with the last of the hints' senders. `None` where it cannot be had; nothing is prefetched then.
pub fn start(
    source: Arc<dyn Source>,
    (hints, unwanted): (Receiver<AccessHint>, Unwanted),
    counters: Arc<Counters>,
) -> Option<JoinHandle<()>> {
    thread::Builder::new().name("prefetch".into()).spawn(move || work(&*source, &hints, &unwanted, &counters)).ok()
}

fn work(source: &dyn Source, hints: &Receiver<AccessHint>, unwanted: &Unwanted, counters: &Counters) {
    let (mut listers, mut readers) = (Vec::new(), Vec::new());
    while let Ok(hint) = hints.recv() {
        match hint {
            AccessHint::Listed(ino) => {
                let lister = step(&mut listers, ino);
                go(source, lister, ino, None);
                // Until it is there, nothing is left to be looked at for it.
                let until = if readers.is_empty() { lister.tip.saturating_sub(ENTRIES_MAX / 2) } else { 0 };
                unwanted.set(ino, until);
                // A reader whose files are pushed is only seen by the folders that it lists.
                if let Some(reader) = readers.iter_mut().find(|reader: &&mut Walker| reader.is_near(ino)) {
                    go(source, reader, ino, Some(counters));
                }
            }
            AccessHint::Read(ino) => {
                unwanted.set(0, 0);
                go(source, step(&mut readers, ino), ino, Some(counters));
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
fn go(source: &dyn Source, walker: &mut Walker, ino: u64, files: Option<&Counters>) {
    let until = ino.saturating_add(ENTRIES_MAX);
    // Many small looks would cost more than they give.
    if walker.steps < STEPS_MIN || walker.tip > ino.saturating_add(ENTRIES_MAX / 2) {
        return;
    }
    while let Some((_, bytes)) = walker.lead.pop_front_if(|(passed, _)| *passed <= ino) {
        walker.lead_bytes -= bytes;
    }
    let from = walker.tip.max(ino);
    let bytes_max = BYTES_MAX.min(source.cache_bytes() / BYTES_PART);
    // What cannot be read now is reported when it is asked for.
    let _ = source.entries(from, Scope::Behind, &mut |entry| {
        walker.tip = entry.at;
        if let Some(counters) = files
            && (1..=FILE_BYTES_MAX).contains(&entry.bytes)
        {
            walker.lead.push_back((entry.at, entry.bytes));
            walker.lead_bytes += entry.bytes;
            if source.prefetch(entry.at).is_ok() {
                count(&counters.prefetched);
            }
        }
        if entry.at >= until || walker.lead_bytes >= bytes_max { Next::Stop } else { Next::On }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc::sync_channel};

    use super::*;
    use crate::{fault::Fault, readahead::Entry};

    /// Files of one length, one behind the other.
    #[derive(Default)]
    struct Row {
        bytes: u64,
        visited: Mutex<Vec<u64>>,
        decoded: Mutex<Vec<u64>>,
    }

    impl Source for Row {
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

        fn read(&self, _: u64, _: u64, _: u64, _: &mut dyn FnMut(&[u8])) -> Result<(), Fault> {
            unreachable!()
        }
    }

    /// What is visited and decoded after these hints.
    fn after(bytes: u64, asked: &[AccessHint]) -> (Vec<u64>, Vec<u64>) {
        let row = Row { bytes, ..Row::default() };
        let (send, hints) = sync_channel(asked.len());
        asked.iter().for_each(|hint| send.send(*hint).unwrap());
        drop(send);
        work(&row, &hints, &Unwanted::default(), &Counters::default());
        (row.visited.into_inner().unwrap(), row.decoded.into_inner().unwrap())
    }

    #[test]
    fn who_lists_folder_after_folder_has_the_next_ones_decoded_each_once() {
        let asked: Vec<_> = (0..3000).map(|i| AccessHint::Listed(10 + i)).collect();
        let (visited, decoded) = after(5, &asked);
        let last = *visited.last().unwrap();
        assert!((3000 + ENTRIES_MAX / 2..=3010 + ENTRIES_MAX).contains(&last), "{last}");
        assert!(visited.windows(2).all(|two| two[0] + 1 == two[1]));
        assert!(decoded.is_empty(), "nothing was read");
    }

    #[test]
    fn until_something_is_left_to_be_decoded_nothing_needs_to_be_heard_of_who_only_lists() {
        let row = Row::default();
        let unwanted_after = |asked: &[AccessHint]| {
            let (send, hints) = sync_channel(asked.len());
            asked.iter().for_each(|hint| send.send(*hint).unwrap());
            drop(send);
            let unwanted = Unwanted::default();
            work(&row, &hints, &unwanted, &Counters::default());
            unwanted
        };
        let lists: Vec<_> = (0..3).map(|i| AccessHint::Listed(10 + i)).collect();
        let unwanted = unwanted_after(&lists);
        let half = 12 + ENTRIES_MAX / 2;
        assert!([12, 13, half - 1].into_iter().all(|ino| unwanted.has(AccessHint::Listed(ino))));
        assert!([11, half, 50_000].into_iter().all(|ino| !unwanted.has(AccessHint::Listed(ino))));
        let unwanted = unwanted_after(&[&lists[..], &[AccessHint::Read(13)], &lists[2..]].concat());
        assert!(!unwanted.has(AccessHint::Listed(13)), "a reader is followed by what it lists");
    }

    #[test]
    fn who_looks_here_and_there_causes_nothing() {
        let there = [50_000, 20, 30_000, 10, 90_000, 15, 70_000, 12].map(AccessHint::Listed);
        let back = (0..100).rev().map(|i| AccessHint::Read(5 + i));
        let asked: Vec<_> =
            there.into_iter().chain(back).chain([AccessHint::Listed(40_000), AccessHint::Listed(40_001)]).collect();
        assert_eq!(after(5, &asked), Default::default());
    }

    #[test]
    fn who_reads_small_files_has_the_next_ones_decoded_within_a_bound_of_bytes() {
        let asked: Vec<_> = (0..500).map(|i| AccessHint::Read(10 + i)).collect();
        let bytes = 128 << 10;
        let (_, decoded) = after(bytes, &asked);
        assert!(decoded.windows(2).all(|two| two[0] + 1 == two[1]), "each once, in order");
        assert_eq!(decoded.last().unwrap() - 509, BYTES_MAX / bytes);
        assert!(after(FILE_BYTES_MAX + 1, &asked).1.is_empty(), "long files are not for this");
    }

    #[test]
    fn a_reader_whose_files_are_pushed_is_followed_by_the_folders_it_lists() {
        let reads = [10, 11, 12].map(AccessHint::Read);
        let lists = [2500, 4000].map(AccessHint::Listed);
        let (_, decoded) = after(10, &[&reads[..], &lists].concat());
        assert_eq!(*decoded.last().unwrap(), 4000 + ENTRIES_MAX);
    }
}
