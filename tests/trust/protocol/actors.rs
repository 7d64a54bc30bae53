//! The processes, step by step, as `create`, `delete`, `gc` and whoever reads go about it.

use std::collections::BTreeSet;

use super::model::{Checkpoint, OLD, Op, Pack, Pin, Record, State};

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// Makes a checkpoint.
    Creator(Creator),
    /// Deletes the first one.
    Deleter(Deleter),
    /// Collects garbage.
    Collector(Collector),
    /// Reads the first one.
    Reader(Reader),
}

/// A step: what it is called, and what it leads to.
type Step = (&'static str, State, Actor);

impl Actor {
    /// True if it has nothing left to do.
    pub fn is_done(&self) -> bool {
        match self {
            Actor::Creator(a) => a.at == 99,
            Actor::Deleter(a) => a.at == 99,
            Actor::Collector(a) => a.at == 99,
            Actor::Reader(a) => a.at == 99,
        }
    }

    /// Dead operations whose pins it holds.
    pub fn seized(&self) -> Vec<Op> {
        match self {
            Actor::Creator(a) => a.seized.iter().copied().collect(),
            Actor::Collector(a) => a.seized.iter().copied().collect(),
            _ => Vec::new(),
        }
    }

    /// Every way in which its next step may go.
    pub fn steps(&self, op: Op, state: &State) -> Vec<Step> {
        match self {
            Actor::Creator(a) => a.step(op, state),
            Actor::Deleter(a) => a.step(op, state),
            Actor::Collector(a) => a.step(op, state),
            Actor::Reader(a) => a.step(op, state),
        }
    }
}

/// Makes a checkpoint that needs X.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Creator {
    wants_base: bool,
    at: u8,
    seized: BTreeSet<Op>,
    adopted: Vec<Pack>,
    own: Vec<Pack>,
    reused: Option<Pack>,
    has_base: bool,
    seen: usize,
}

impl Creator {
    /// One whose stat cache names the first checkpoint as where X is from.
    pub fn from_base() -> Self {
        Creator { wants_base: true, ..Creator::default() }
    }

    fn step(&self, op: Op, before: &State) -> Vec<Step> {
        match self.at {
            0..=3 => self.pins(op, before),
            4..=7 => self.adopts(op, before),
            _ => self.commits(op, before),
        }
    }

    fn go(self, step: &'static str, state: State) -> Vec<Step> {
        vec![(step, state, Actor::Creator(self))]
    }

    /// It pins itself and its base.
    fn pins(&self, op: Op, before: &State) -> Vec<Step> {
        let (mut me, mut state) = (self.clone(), before.clone());
        me.at += 1;
        match self.at {
            0 => {
                state.pins.insert(op, Pin { held: false, writer: true, checkpoints: BTreeSet::new() });
                me.go("makes its pin", state)
            }
            1 => match state.pins.get_mut(&op) {
                // Somebody took it for a dead one's, and is about to remove it.
                Some(pin) if pin.held => Vec::new(),
                Some(pin) => {
                    pin.held = true;
                    me.go("locks its pin", state)
                }
                None => {
                    me.at = 0;
                    me.go("finds its pin removed", state)
                }
            },
            2 => {
                if self.wants_base {
                    state.pins.entry(op).or_default().checkpoints.insert(OLD);
                } else {
                    me.at = 4;
                    me.seen = state.journal.len();
                }
                me.go("pins its base, or reads the journal", state)
            }
            _ => {
                me.seen = state.journal.len();
                me.has_base = !state.rules.pinner_looks_again || state.now().checkpoints.contains(&OLD);
                me.go("looks for its base", state)
            }
        }
    }

    /// It takes up what a dead run has left.
    fn adopts(&self, op: Op, before: &State) -> Vec<Step> {
        let (mut me, mut state) = (self.clone(), before.clone());
        me.at += 1;
        match self.at {
            4 => {
                let dead = state.pins.iter().find(|(_, pin)| !pin.held && pin.writer).map(|(dead, _)| *dead);
                match dead {
                    Some(dead) => {
                        if state.rules.adoption_seizes {
                            state.pins.entry(dead).or_default().held = true;
                        }
                        me.seized.insert(dead);
                        me.go("seizes a dead pin", state)
                    }
                    None => {
                        me.at = 8;
                        me.go("finds no dead pin", state)
                    }
                }
            }
            5 => {
                if state.rules.adopter_looks_again {
                    me.seen = state.journal.len();
                }
                me.go("reads the journal again", state)
            }
            6 => {
                let known = state.view(self.seen).packs;
                let found = state.files.iter().find(|p| self.seized.contains(&p.0) && !known.contains_key(p)).copied();
                if let Some(pack) = found {
                    state.files.remove(&pack);
                    state.files.insert((op, 0));
                    me.adopted.push((op, 0));
                }
                me.go("takes up a pack", state)
            }
            _ => {
                me.seized.clear();
                self.seized.iter().for_each(|dead| drop(state.pins.remove(dead)));
                me.go("removes the dead pin", state)
            }
        }
    }

    /// It writes X, and commits.
    fn commits(&self, op: Op, before: &State) -> Vec<Step> {
        let (mut me, mut state) = (self.clone(), before.clone());
        me.at += 1;
        match self.at {
            8 => {
                me.reused = None;
                if self.has_base || !self.adopted.is_empty() || !self.own.is_empty() {
                    return me.go("has X", state);
                }
                match state.view(self.seen).locate() {
                    Some(pack) => me.reused = Some(pack),
                    None => {
                        state.files.insert((op, 1));
                        me.own.push((op, 1));
                    }
                }
                me.go("finds X or writes it", state)
            }
            9 => match state.take_lock(op) {
                true => me.go("takes the lock", state),
                false => Vec::new(),
            },
            10 => {
                let view = state.now();
                let lost = |pack: &Pack| view.packs.get(pack).is_none_or(Option::is_some);
                if state.rules.commit_checks_condemned && self.reused.as_ref().is_some_and(lost) {
                    state.release(op);
                    me.at = 8;
                    me.seen = state.journal.len();
                    return me.go("starts over", state);
                }
                me.go("finds nothing condemned", state)
            }
            11 => {
                let packs = self.adopted.iter().chain(&self.own).copied().collect();
                state.journal.push(Record::Commit(op as Checkpoint, packs));
                state.release(op);
                me.go("commits, and releases the lock", state)
            }
            _ => {
                state.pins.remove(&op);
                me.at = 99;
                me.go("is over", state)
            }
        }
    }
}

/// Deletes the first checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Deleter {
    at: u8,
}

impl Deleter {
    fn step(&self, op: Op, before: &State) -> Vec<Step> {
        let mut state = before.clone();
        let next = |state: State, step: &'static str, at: u8| vec![(step, state, Actor::Deleter(Deleter { at }))];
        match self.at {
            0 => match state.take_lock(op) {
                true => next(state, "takes the lock", 1),
                false => Vec::new(),
            },
            1 => {
                state.journal.push(Record::Delete(OLD));
                next(state, "deletes", 2)
            }
            _ => {
                state.release(op);
                next(state, "is over", 99)
            }
        }
    }
}

/// Collects garbage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Collector {
    at: u8,
    seen: usize,
    kept: bool,
    pinned: BTreeSet<Checkpoint>,
    packs: Vec<Pack>,
    condemned: Vec<Pack>,
    added: Vec<Pack>,
    gone: Vec<Pack>,
    listed: Vec<Pack>,
    seized: BTreeSet<Op>,
}

impl Collector {
    fn step(&self, op: Op, before: &State) -> Vec<Step> {
        match self.at {
            0..=3 => self.marks(op, before),
            4..=7 => self.condemns(op, before),
            8..=10 => self.sweeps(op, before),
            _ => self.clears(op, before),
        }
    }

    fn go(self, step: &'static str, state: State) -> Vec<Step> {
        vec![(step, state, Actor::Collector(self))]
    }

    /// It finds what is dead, and copies what lives.
    fn marks(&self, op: Op, before: &State) -> Vec<Step> {
        let (mut me, mut state) = (self.clone(), before.clone());
        me.at += 1;
        match self.at {
            0 => {
                state.pins.insert(op, Pin { held: true, writer: true, checkpoints: BTreeSet::new() });
                me.go("pins", state)
            }
            1 | 2 => {
                let reads_view = (self.at == 1) == state.rules.view_before_pins;
                if reads_view {
                    me.seen = state.journal.len();
                    me.go("reads the journal", state)
                } else {
                    let held = state.pins.values().filter(|pin| pin.held);
                    me.pinned = held.flat_map(|pin| pin.checkpoints.clone()).collect();
                    me.go("reads the pins", state)
                }
            }
            _ => {
                let view = state.view(self.seen);
                me.kept = !view.checkpoints.is_empty() || state.rules.pins_keep && !self.pinned.is_empty();
                me.packs = view.packs.iter().filter(|(_, c)| c.is_none()).map(|(pack, _)| *pack).collect();
                let home = view.locate();
                let dead: Vec<Pack> = me.packs.iter().filter(|pack| !me.kept || Some(**pack) != home).copied().collect();
                let mut ways = Collector { condemned: dead, ..me.clone() }.go("finds what is dead", state.clone());
                if me.kept && home.is_some() {
                    // Copying what lives, so that its pack can go, too.
                    let pack = (op, 0);
                    state.files.insert(pack);
                    let me = Collector { condemned: me.packs.clone(), added: vec![pack], ..me };
                    ways.extend(me.go("copies what lives", state));
                }
                ways
            }
        }
    }

    /// It condemns packs, under the lock.
    fn condemns(&self, op: Op, before: &State) -> Vec<Step> {
        let (mut me, mut state) = (self.clone(), before.clone());
        me.at += 1;
        match self.at {
            4 if self.condemned.is_empty() => {
                me.at = 8;
                me.go("finds nothing to condemn", state)
            }
            4 => match state.take_lock(op) {
                true => me.go("takes the lock", state),
                false => Vec::new(),
            },
            5 => {
                let since = &state.journal[self.seen..];
                if since.iter().any(|record| matches!(record, Record::Condemn(..))) {
                    state.release(op);
                    state.files.retain(|pack| !self.added.contains(pack));
                    me = Collector { at: 1, ..Collector::default() };
                    return me.go("was overtaken, starts over", state);
                }
                let is_new = since.iter().any(|record| matches!(record, Record::Commit(..)));
                if is_new && state.rules.publish_catches_up && self.added.is_empty() {
                    let home = state.now().locate();
                    me.condemned.retain(|pack| Some(*pack) != home);
                }
                me.go("marks what is new", state)
            }
            _ => {
                let mut writers: BTreeSet<Op> = state.live();
                writers.retain(|w| *w != op && state.pins[w].writer);
                if !self.condemned.is_empty() {
                    state.journal.push(Record::Condemn(self.added.clone(), self.condemned.clone(), writers));
                }
                state.release(op);
                me.at = 8;
                me.go("condemns, and releases the lock", state)
            }
        }
    }

    /// It removes condemned packs.
    fn sweeps(&self, op: Op, before: &State) -> Vec<Step> {
        let (mut me, mut state) = (self.clone(), before.clone());
        me.at += 1;
        match self.at {
            8 => {
                let view = state.now();
                me.seen = state.journal.len();
                let live = state.live();
                let may_go = |waits: &BTreeSet<Op>| !state.rules.sweep_waits || waits.is_disjoint(&live);
                let packs = view.packs.iter().filter(|(_, waits)| waits.as_ref().is_some_and(may_go));
                me.gone = packs.map(|(pack, _)| *pack).collect();
                me.go("looks what may go", state)
            }
            9 => {
                state.files.retain(|pack| !self.gone.contains(pack));
                me.go("removes condemned packs", state)
            }
            _ => match state.take_lock(op) {
                true => {
                    if !self.gone.is_empty() {
                        state.journal.push(Record::Dropped(self.gone.clone()));
                    }
                    me.go("takes the lock, notes what is gone", state)
                }
                false => Vec::new(),
            },
        }
    }

    /// It removes what dead runs have left.
    fn clears(&self, op: Op, before: &State) -> Vec<Step> {
        let (mut me, mut state) = (self.clone(), before.clone());
        me.at += 1;
        match self.at {
            11 => {
                me.listed = state.files.iter().copied().collect();
                me.go("lists files", state)
            }
            12 => {
                // The journal cannot grow now: the lock is held.
                let (alive, known) = (state.live(), state.now().packs);
                let is_over = |p: &Pack| !state.rules.orphans_are_dead || !alive.contains(&p.0);
                me.listed.retain(|p| !known.contains_key(p) && p.0 != op && is_over(p));
                me.at = 14;
                me.go("lists pins, finds orphans", state)
            }
            14 => {
                let dead: Vec<Op> = state.pins.iter().filter(|(o, pin)| !pin.held && **o != op).map(|(o, _)| *o).collect();
                for dead in dead {
                    state.pins.entry(dead).or_default().held = true;
                    me.seized.insert(dead);
                }
                me.go("seizes dead pins", state)
            }
            15 => {
                // A pin that somebody else has seized by now keeps what belongs to it.
                let kept =
                    |p: &Pack| state.pins.contains_key(&p.0) && !self.seized.contains(&p.0) && state.rules.orphans_are_dead;
                let gone: Vec<Pack> = self.listed.iter().filter(|p| !kept(p)).copied().collect();
                state.files.retain(|pack| !gone.contains(pack));
                me.go("removes orphans", state)
            }
            _ => {
                self.seized.iter().for_each(|dead| drop(state.pins.remove(dead)));
                me.seized.clear();
                state.release(op);
                state.pins.remove(&op);
                me.at = 99;
                me.go("removes dead pins, is over", state)
            }
        }
    }
}

/// Reads the first checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reader {
    at: u8,
    seen: usize,
    place: Option<Pack>,
}

impl Reader {
    fn step(&self, op: Op, before: &State) -> Vec<Step> {
        let (mut me, mut state) = (self.clone(), before.clone());
        let go = |state: State, step: &'static str, me: Reader| vec![(step, state, Actor::Reader(me))];
        me.at += 1;
        match self.at {
            0 => {
                state.pins.insert(op, Pin { held: true, writer: false, checkpoints: BTreeSet::from([OLD]) });
                go(state, "pins what it reads", me)
            }
            1 => {
                me.seen = state.journal.len();
                if !state.now().checkpoints.contains(&OLD) {
                    me.at = 4;
                }
                go(state, "looks whether it is there", me)
            }
            2 => {
                me.place = state.view(self.seen).locate();
                go(state, "looks X up", me)
            }
            3 => {
                if self.place.is_some_and(|pack| state.files.contains(&pack)) {
                    return go(state, "reads X", me);
                }
                // What was missed was moved, and the journal says where to.
                if !state.rules.reader_retries || self.seen == state.journal.len() {
                    state.wrong = Some("a reader does not find what it has pinned".into());
                }
                me.seen = state.journal.len();
                me.at = 2;
                go(state, "misses X, and reads the journal again", me)
            }
            _ => {
                state.pins.remove(&op);
                me.at = 99;
                go(state, "is over", me)
            }
        }
    }
}
