//! Second copies of what lives. Before one goes, the copy that stays is read: it may be damaged, and then the second one is what a repair
//! makes it whole from.

use parhelia_name::step::Step;
use std::collections::{BTreeSet, HashSet};

use super::Survey;
use crate::{
    error::{Error, Result},
    gc::Choice,
    id::PackId,
    pack::{Location, PackFile},
    progress::{self, Progress},
    store::Store,
};

impl Survey<'_> {
    /// Keeps the packs of a choice that have a second copy of something whose home cannot be read, and the packs with those homes. True
    /// if there are any, so that the choice is another one.
    pub(in crate::gc) fn keeps_only_copies(&mut self, store: &Store, choice: &Choice, progress: &dyn Progress) -> Result<bool> {
        let goes = choice.all();
        let (mut broken, mut keeps) = (HashSet::new(), false);
        for number in 0..self.packs.len() {
            if !goes.contains(&self.packs[number].id) {
                continue;
            }
            let mut without: BTreeSet<PackId> = BTreeSet::new();
            for home in std::mem::take(&mut self.packs[number].doubled) {
                progress::check(progress)?;
                if !self.is_whole(store, home)? {
                    without.insert(home.pack);
                }
            }
            if without.is_empty() {
                continue;
            }
            let packs: Vec<String> = without.iter().map(PackId::to_string).collect();
            progress.notice(&format!(
                "pack {} has whole copies of what may be damaged in {}; all of them are left as they are; run {}",
                self.packs[number].id,
                packs.join(", "),
                Step::Repair
            ));
            self.packs[number].has_only_copies = true;
            broken.extend(without);
            keeps = true;
        }
        self.packs.iter_mut().filter(|pack| broken.contains(&pack.id)).for_each(|pack| pack.is_damaged = true);
        Ok(keeps)
    }

    /// Homes that could not be read.
    pub(in crate::gc) fn unreadable_homes(&self) -> impl Iterator<Item = Location> + '_ {
        self.homes.iter().filter(|(_, is_whole)| !**is_whole).map(|(home, _)| *home)
    }

    /// True if the block at a place can be read from its pack and decoded.
    fn is_whole(&mut self, store: &Store, home: Location) -> Result<bool> {
        if let Some(known) = self.homes.get(&home) {
            return Ok(*known);
        }
        // Not by way of the cache: a long-lived process may have read it when it was whole.
        let read = PackFile::open(store.layout(), home.pack).and_then(|file| store.decode(file.read_block(home)?));
        let is_whole = match read {
            Ok(_) => true,
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            Err(e) if e.is_not_found() && self.view.is_stale()? => return Err(e),
            Err(_) => false,
        };
        self.homes.insert(home, is_whole);
        Ok(is_whole)
    }
}
