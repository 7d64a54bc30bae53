//! Garbage collection, safe beside live writers, readers and mounts, without a clock.
//!
//! **What creators do.** A creator holds a writer pin from its start. It lists its base checkpoint, whose unchanged entries it reuses,
//! in the pin and then looks again whether that still exists. It notes every pack in which it found an object that it does not write
//! again. At its commit, under the writer lock and after re-reading the journal, it asks [`crate::view::View::lost`] about these packs;
//! if one was condemned meanwhile it does not commit, and starts over. The packs that it wrote itself are named after its pin, and
//! are left alone while the pin is held.
//!
//! **What gc does.**
//! 1. It takes a writer pin of its own, for the new packs. It reads the view, then the pins: live are the checkpoints of the view and
//!    those that a live pin names, deleted or not. (A reader does it in the other order: it pins first, then looks whether the
//!    checkpoint is there. So one of the two sees the other.)
//! 2. *Mark*: follow the live checkpoints to every object, `mark`.
//! 3. *Survey*: an object's home is the place that the index gives for it; a second copy elsewhere is waste. Per pack, sum up what
//!    lives in it, `survey`. A pack without anything alive is condemned; one with little, and small ones of which there are many,
//!    are copied into new packs and condemned, `repack`, unless the new packs would be longer. What builds on dead versions may
//!    get another base, `survey/flatten`. The new packs are synced before anything refers to them.
//! 4. *Publish*, under the writer lock: mark what was committed meanwhile, spare what that uses, and append one record with the new
//!    packs, the condemned ones, and the writers that were running, `publish`.
//! 5. *Sweep*: the bytes of a condemned pack go once every writer that ran when it was condemned is over. Packs that nothing knows and
//!    whose writer is over go as well, `sweep`, but for those that a lost record of the journal may have been about, `unexplained`.
//!
//! Steps 1 to 5 are done in rounds if the disk has too little room for all copies at once, `room`.
//!
//! **What always holds.**
//! - Everything that a live checkpoint reaches is in the index.
//! - A recipe that the index finds is whole, even if no checkpoint uses it: recipes are found by their blob's id alone, so a creator or
//!   a reader may come upon one at any time. The packs that hold a dead recipe's dead chunks go together with the recipe's pack, or not
//!   at all.
//! - Every block that the index leads to can be decoded, even if nothing in it lives: what blocks build on lives if anything in them does,
//!   and else goes together with their pack, or not at all.
//! - A second copy of something that lives goes only where the copy that the index finds was read and is whole.
//! - Every object in a pack that stays is in the index, there or elsewhere: a creator whose view is older may have found its second
//!   copy in that pack. A dead object's home goes together with every pack that holds another copy, or not at all.

mod forecast;
mod mark;
mod publish;
mod repack;
mod room;
mod survey;
pub(crate) mod sweep;
#[cfg(test)]
mod tests;
mod unexplained;

use parhelia_name::step::Step;
use std::collections::{BTreeSet, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::{forecast::make_plan, survey::Survey};
pub use self::{
    forecast::{GcPlan, plan, plan_without},
    unexplained::UnexplainedPacks,
};
pub(crate) use self::{
    mark::read_recipe_root,
    repack::{Copier, NewPacks},
    room::Room,
    sweep::sweep_condemned,
};
use crate::{
    damaged,
    error::{Error, ErrorKind, Result},
    id::{OpId, PackId, Ulid},
    journal::Journal,
    pin::{self, Pin},
    progress::Progress,
    restore,
    store::Store,
};

/// A run starts over this often when another gc overtakes it.
const TRIES_MAX: u32 = 3;
/// Packs are copied in at most so many rounds where the disk has too little room for all at once.
const ROUNDS_MAX: u32 = 64;

/// The packs that a collection may copy besides deleting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GcOptions {
    /// Packs with less than this share alive are copied together; 0 for none.
    pub repack_below_percent: u8,
    /// True if small packs are copied together when there are many.
    pub consolidate: bool,
    /// Unused bytes that may stay, in percent of what lives: while there are more, packs are copied, those with the least alive first. `None`
    /// for any number.
    pub unused_percent_max: Option<u8>,
}

impl Default for GcOptions {
    fn default() -> Self {
        GcOptions { consolidate: true, unused_percent_max: Some(6), ..Self::below(70) }
    }
}

impl GcOptions {
    /// Only delete; copy nothing.
    pub fn no_repack() -> Self {
        Self::below(0)
    }

    /// Copy packs with less than this share alive, and nothing else.
    pub const fn below(repack_below_percent: u8) -> Self {
        GcOptions { repack_below_percent, consolidate: false, unused_percent_max: None }
    }

    fn repacks(&self) -> bool {
        self.repack_below_percent > 0 || self.consolidate || self.unused_percent_max.is_some()
    }
}

/// A garbage collection that was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "CollectionReport")]
pub struct GcReport {
    /// The plan that it carried out.
    #[serde(skip)]
    pub plan: GcPlan,
    /// Packs that it condemned.
    pub condemned_packs: u64,
    /// Packs that it wrote.
    pub added_packs: u64,
    /// Length of the packs that were written, in bytes.
    pub added_bytes: u64,
    /// Condemned packs, from now or earlier, whose bytes went.
    pub dropped_packs: u64,
    /// Length of the dropped packs, in bytes.
    pub dropped_bytes: u64,
    /// Forgotten packs that were removed.
    pub orphans: u64,
    /// Length of the forgotten packs, in bytes.
    pub orphan_bytes: u64,
    /// Condemned packs that wait for running writers.
    pub waiting_packs: u64,
    /// Length of the packs that wait, in bytes.
    pub waiting_bytes: u64,
    /// The writers that they wait for.
    pub waits_for: Vec<OpId>,
    /// Bytes freed, less what was written.
    pub freed_bytes: u64,
    /// True if the disk was too full for everything that was to be copied, so that the ballast was released.
    pub disk_was_full: bool,
    /// Packs that would have been copied if there had been room.
    pub left_packs: u64,
}

impl GcReport {
    /// Adds what a further round has done.
    fn add(&mut self, round: GcReport) {
        self.condemned_packs += round.condemned_packs;
        self.added_packs += round.added_packs;
        self.added_bytes += round.added_bytes;
        self.dropped_packs += round.dropped_packs;
        self.dropped_bytes += round.dropped_bytes;
        self.orphans += round.orphans;
        self.orphan_bytes += round.orphan_bytes;
        self.waiting_packs = round.waiting_packs;
        self.waiting_bytes = round.waiting_bytes;
        self.waits_for = round.waits_for;
        self.left_packs = round.left_packs;
    }
}

/// Packs that no record of the journal explains, and that gc keeps because one that was lost may.
pub fn unexplained(store: &Store) -> Result<UnexplainedPacks> {
    Ok(sweep::forgotten(store.layout(), || store.refresh()?.packs())?.1)
}

/// Collects garbage.
pub fn run(store: &Store, options: &GcOptions, progress: &dyn Progress) -> Result<GcReport> {
    store.check_writable()?;
    store.ensure_not_younger()?;
    damaged::ensure_packs_are_there(store)?;
    let mut room = Room::new(store.layout());
    if store.view().is_in_place_of_index() {
        // Perhaps it could not be read at that moment alone; if it cannot be made anew either, as on a full disk, gc does without.
        if let Err(e) = store.absorb() {
            progress.notice(&format!("gc works without the index: {e}"));
        }
    }
    let pin = room.make(|| Pin::take(&store.layout().pins(), true, "gc"))?;
    let mut numbers = 0;
    let mut report = retried(store, || attempt(store, &pin, options, &mut numbers, &mut room, progress))?;
    restore::clear_dead(store.layout())?;
    sweep::sweep(store, pin.op, &mut room, &mut report, progress)?;
    // What a round has freed is room for the next one.
    let mut has_freed = report.dropped_bytes + report.orphan_bytes > report.added_bytes;
    for _ in 1..ROUNDS_MAX {
        if report.left_packs == 0 || !has_freed {
            break;
        }
        let mut round = retried(store, || attempt(store, &pin, options, &mut numbers, &mut room, progress))?;
        sweep::sweep(store, pin.op, &mut room, &mut round, progress)?;
        has_freed = round.dropped_bytes > round.added_bytes;
        report.add(round);
    }
    if store.view().wants_absorbing()
        && let Err(e) = store.absorb()
    {
        progress.notice(&format!("the index is brought up to date later: {e}"));
    }
    let freed = report.dropped_bytes + report.orphan_bytes;
    report.freed_bytes = freed.saturating_sub(report.added_bytes);
    report.disk_was_full = room.give_back();
    Ok(report)
}

/// Tries again where gc in another process changed the store under this one.
pub(crate) fn retried<T>(store: &Store, mut work: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 0..TRIES_MAX {
        let before = store.refresh()?.end().clone();
        match work() {
            Err(Error::Overtaken { .. }) => {}
            Err(e) if e.is_not_found() || e.kind() == ErrorKind::Corrupt => {
                store.reopen()?;
                if !Journal::of(store.layout()).has_collected_since(&before)? {
                    return Err(e);
                }
            }
            other => return other,
        }
    }
    Err(Error::Overtaken { tries: TRIES_MAX })
}

fn attempt(
    store: &Store,
    pin: &Pin,
    options: &GcOptions,
    numbers: &mut u32,
    room: &mut Room,
    progress: &dyn Progress,
) -> Result<GcReport> {
    // Flattening copies much at once, or nothing: on a full disk, what can be freed without it comes first.
    let (mut flatten, mut leaves_flattening, mut lacks_room) = (options.repacks(), false, false);
    loop {
        let (mut survey, chosen) = survey_and_choose(store, &HashSet::new(), flatten, options, progress)?;
        damaged::note(store, survey.unreadable_homes(), None);
        let mut choice = room.fit(&survey, &chosen);
        lacks_room |= choice != chosen;
        if lacks_room && !survey.rebased.is_empty() {
            (flatten, leaves_flattening) = (false, true);
            continue;
        }
        let mut added = NewPacks::new(store, pin.op, numbers);
        while let Err(e) = repack::copy(store, &mut survey, &mut choice, &mut added, progress) {
            if !e.is_disk_full() {
                return Err(e);
            }
            lacks_room = true;
            added.discard();
            survey.marker.forget_copies();
            choice = room.fit_less(&survey, &chosen, &choice);
        }
        if choice.repack.is_empty() {
            added.discard();
        } else if !added.is_smaller_than(survey.replaced_bytes(&choice)) && !survey.is_repair(&choice) {
            added.discard();
            if !survey.rebased.is_empty() {
                flatten = false;
                continue;
            }
            choice = survey.choose(&GcOptions::no_repack());
        }
        let left_packs = match lacks_room {
            true => survey.left_packs(&chosen, &choice).max(u64::from(leaves_flattening)),
            false => 0,
        };
        if left_packs > 0 {
            progress.notice(&format!(
                "the disk has too little room to copy all at once; packs that are left for later: {left_packs}"
            ));
        }
        let plan = make_plan(store, &survey, &choice, Some(pin.op))?;
        let published = publish::publish(store, pin.op, &mut survey, choice.all(), added, room, progress)?;
        return Ok(GcReport {
            plan,
            condemned_packs: published.condemned,
            added_packs: published.added.len() as u64,
            added_bytes: published.added.iter().map(|pack| pack.bytes).sum(),
            left_packs,
            ..GcReport::default()
        });
    }
}

/// Looks at the store as it is without some checkpoints, and chooses what goes. Where copies would be longer than what they replace, by
/// estimate, nothing is copied.
fn survey_and_choose<'s>(
    store: &'s Store,
    without: &HashSet<Ulid>,
    flatten: bool,
    options: &GcOptions,
    progress: &dyn Progress,
) -> Result<(Survey<'s>, Choice)> {
    let mut survey = Survey::of(store, without, flatten, progress)?;
    let choice = choose(store, &mut survey, options, progress)?;
    if survey.copied_bytes(&choice) <= survey.replaced_bytes(&choice) || survey.is_repair(&choice) {
        return Ok((survey, choice));
    }
    if !survey.rebased.is_empty() {
        return survey_and_choose(store, without, false, options, progress);
    }
    let choice = survey.choose(&GcOptions::no_repack());
    Ok((survey, choice))
}

/// Chooses what goes. Nothing goes while the journal lacks records: what those need cannot be told from garbage.
fn choose(store: &Store, survey: &mut Survey<'_>, options: &GcOptions, progress: &dyn Progress) -> Result<Choice> {
    if !survey.view.unreadable()?.is_empty() {
        progress.notice("a checkpoint cannot be read by this release, which does not know what it needs, so gc removes nothing");
        return Ok(Choice::default());
    }
    if survey.view.lacks_records() {
        let text = format!("records of the journal are missing or damaged, so gc removes nothing; run {}", Step::Check);
        progress.notice(&text);
        return Ok(Choice::default());
    }
    // The end of a dead writer is told by its pin, so these were committed. They may need anything.
    let older = unexplained(store)?;
    if older.is_journal_whole && !older.checkpoints.is_empty() {
        progress.notice(&format!(
            "packs hold checkpoints that the journal does not know ({}), as if it were an older copy, so gc removes nothing in use; put the \
             newer journal back, or run {}, which takes them in",
            older.checkpoints.len(),
            Step::Repair
        ));
        return Ok(Choice::default());
    }
    if survey.has_unreadable_blocks {
        let text = format!("blocks cannot be read that may build on others, so gc removes nothing; run {}", Step::Repair);
        progress.notice(&text);
        return Ok(Choice::default());
    }
    loop {
        let choice = survey.choose(options);
        if !survey.keeps_only_copies(store, &choice, progress)? {
            return Ok(choice);
        }
    }
}

/// Packs to delete, and packs to repack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Choice {
    delete: BTreeSet<PackId>,
    repack: BTreeSet<PackId>,
}

impl Choice {
    /// The packs that go.
    fn all(&self) -> BTreeSet<PackId> {
        self.delete.union(&self.repack).copied().collect()
    }

    /// Leaves those that are not among `packs`.
    fn retain(&mut self, packs: &BTreeSet<PackId>) {
        self.delete.retain(|id| packs.contains(id));
        self.repack.retain(|id| packs.contains(id));
    }
}

pub(crate) fn running_writers(store: &Store, own: Option<OpId>) -> Result<Vec<OpId>> {
    let pins = pin::list(&store.layout().pins())?;
    Ok(pins.into_iter().filter(|pin| pin.alive && pin.text.writer && Some(pin.op) != own).map(|pin| pin.op).collect())
}
