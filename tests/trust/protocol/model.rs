//! State that the processes share. One object, X, is all that is stored; every checkpoint needs it.

use std::collections::{BTreeMap, BTreeSet};

use super::actors::Actor;

/// A process, by its place in the list; [`OLD`] wrote what is there at first.
pub type Op = u8;
/// The operation that made the first checkpoint, and is over.
pub const OLD: Op = 100;

/// A pack: who wrote it, and which of his it is.
pub type Pack = (Op, u8);
/// A checkpoint, by who made it.
pub type Checkpoint = Op;

/// Rules of the protocol, each of which can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules {
    /// A commit starts over where a pack that it reuses was condemned.
    pub commit_checks_condemned: bool,
    /// Bytes go only when every writer that ran before they were condemned is over. Nothing would be lost without it.
    pub sweep_waits: bool,
    /// Under the lock gc marks what was committed since it looked.
    pub publish_catches_up: bool,
    /// One process at a time has the lock.
    pub lock_excludes: bool,
    /// Whoever pins a checkpoint looks again whether it is there.
    pub pinner_looks_again: bool,
    /// gc reads the journal first and the pins then.
    pub view_before_pins: bool,
    /// A checkpoint that a live pin names is kept, deleted or not.
    pub pins_keep: bool,
    /// Packs that the journal does not know go only when their writer is over.
    pub orphans_are_dead: bool,
    /// Whoever takes up a dead run's packs holds its pin meanwhile.
    pub adoption_seizes: bool,
    /// Whoever takes up a dead run's packs reads the journal when it holds the pin, and not before.
    pub adopter_looks_again: bool,
    /// A reader that misses a pack looks the object up again.
    pub reader_retries: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            commit_checks_condemned: true,
            sweep_waits: true,
            publish_catches_up: true,
            lock_excludes: true,
            pinner_looks_again: true,
            view_before_pins: true,
            pins_keep: true,
            orphans_are_dead: true,
            adoption_seizes: true,
            adopter_looks_again: true,
            reader_retries: true,
        }
    }
}

/// A record of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    /// A checkpoint, and the packs that it adds.
    Commit(Checkpoint, Vec<Pack>),
    /// A deletion.
    Delete(Checkpoint),
    /// Packs that come, packs that go, and for whom they wait.
    Condemn(Vec<Pack>, Vec<Pack>, BTreeSet<Op>),
    /// Packs that are gone.
    Dropped(Vec<Pack>),
}

/// State of the store as the journal tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Checkpoints that exist.
    pub checkpoints: BTreeSet<Checkpoint>,
    /// Packs, and for whom the condemned ones wait.
    pub packs: BTreeMap<Pack, Option<BTreeSet<Op>>>,
}

impl View {
    /// The pack in which X is found; `None` where nothing that may be referred to holds it. Every pack holds X.
    pub fn locate(&self) -> Option<Pack> {
        self.packs.iter().find(|(_, condemned)| condemned.is_none()).map(|(pack, _)| *pack)
    }
}

/// A pin's file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pin {
    /// True if its process lives, or somebody else has seized it.
    pub held: bool,
    /// True if its process writes packs.
    pub writer: bool,
    /// Checkpoints that it keeps.
    pub checkpoints: BTreeSet<Checkpoint>,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The rules.
    pub rules: Rules,
    /// The journal.
    pub journal: Vec<Record>,
    /// Files of packs.
    pub files: BTreeSet<Pack>,
    /// Pins.
    pub pins: BTreeMap<Op, Pin>,
    /// Holder of the writer lock.
    pub lock: Option<Op>,
    /// The processes; `None` once they are dead.
    pub actors: Vec<Option<Actor>>,
    /// Number of processes that may still die.
    pub crashes: u8,
    /// Something that was seen going wrong.
    pub wrong: Option<String>,
}

impl State {
    /// A store with one checkpoint.
    pub fn new(rules: Rules, actors: Vec<Actor>, crashes: u8) -> Self {
        State {
            rules,
            journal: vec![Record::Commit(OLD, vec![(OLD, 0)])],
            files: BTreeSet::from([(OLD, 0)]),
            pins: BTreeMap::new(),
            lock: None,
            actors: actors.into_iter().map(Some).collect(),
            crashes,
            wrong: None,
        }
    }

    /// The same without that checkpoint, so that who needs X has to write it.
    pub fn empty(self) -> Self {
        State { journal: Vec::new(), files: BTreeSet::new(), ..self }
    }

    /// The view of the first records.
    pub fn view(&self, records: usize) -> View {
        let mut view = View::default();
        for record in &self.journal[..records] {
            match record {
                Record::Commit(checkpoint, packs) => {
                    view.checkpoints.insert(*checkpoint);
                    view.packs.extend(packs.iter().map(|pack| (*pack, None)));
                }
                Record::Delete(checkpoint) => drop(view.checkpoints.remove(checkpoint)),
                Record::Condemn(added, condemned, waits) => {
                    view.packs.extend(added.iter().map(|pack| (*pack, None)));
                    for pack in condemned {
                        view.packs.insert(*pack, Some(waits.clone()));
                    }
                }
                Record::Dropped(packs) => packs.iter().for_each(|pack| drop(view.packs.remove(pack))),
            }
        }
        view
    }

    /// The view of all records.
    pub fn now(&self) -> View {
        self.view(self.journal.len())
    }

    /// Operations whose pins are held.
    pub fn live(&self) -> BTreeSet<Op> {
        self.pins.iter().filter(|(_, pin)| pin.held).map(|(op, _)| *op).collect()
    }

    /// Takes the lock, if that can be.
    pub fn take_lock(&mut self, op: Op) -> bool {
        if self.rules.lock_excludes && self.lock.is_some() {
            return false;
        }
        self.lock = Some(op);
        true
    }

    /// Gives the lock up.
    pub fn release(&mut self, op: Op) {
        if self.lock == Some(op) {
            self.lock = None;
        }
    }

    /// Every state that one step of one process leads to.
    pub fn next(&self) -> Vec<(Op, &'static str, State)> {
        let mut next = Vec::new();
        for (i, actor) in self.actors.iter().enumerate() {
            let Some(actor) = actor.as_ref().filter(|actor| !actor.is_done()) else { continue };
            let op = i as Op;
            for (step, mut state, actor) in actor.steps(op, self) {
                state.actors[i] = Some(actor);
                next.push((op, step, state));
            }
            if self.crashes > 0 {
                let mut state = self.clone();
                state.crashes -= 1;
                state.actors[i] = None;
                state.release(op);
                let others_have_it = self.actors.iter().flatten().any(|other| other.seized().contains(&op));
                if let Some(pin) = state.pins.get_mut(&op).filter(|_| !others_have_it) {
                    pin.held = false;
                }
                for dead in actor.seized() {
                    if let Some(pin) = state.pins.get_mut(&dead) {
                        pin.held = false;
                    }
                }
                next.push((op, "dies", state));
            }
        }
        next
    }

    /// True if all is as it must be.
    pub fn check(&self, is_final: bool) -> Result<(), String> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        let view = self.now();
        let located = view.locate();
        let readable = located.is_some_and(|pack| self.files.contains(&pack));
        if !view.checkpoints.is_empty() && !readable {
            return Err(format!("{:?} exist, and X is in {located:?} of {:?}", view.checkpoints, self.files));
        }
        let stuck = self.actors.iter().flatten().any(|actor| !actor.is_done());
        if is_final && stuck {
            return Err("nobody can go on".into());
        }
        Ok(())
    }
}
