//! States of the protocol, and the steps between them.

/// Writers.
pub const W: usize = 2;
/// Gcs.
pub const G: usize = 2;
/// Packs: one that lies in the bucket and that nobody needs, then each writer's own, one for each try.
pub const TRIES: usize = 3;
pub const SHARED: u8 = 0;

/// The rules of the protocol.
#[derive(Clone, Copy)]
pub struct Rules {
    /// A writer reads gc's chain after its put, and before it reports.
    pub read_after_put: bool,
    /// A writer relies on no pack that is condemned.
    pub not_condemned: bool,
    /// A commit behind the heads, of an older epoch, with a deleted pack, is void.
    pub void: bool,
    /// gc reads the chains after its condemnation is in its chain.
    pub condemn_first: bool,
    /// gc deletes bytes after the record that says so.
    pub record_first: bool,
    /// gc's records are put where none is: who loses reads again. Else it puts what it had at the next number.
    pub one_gc_wins: bool,
    /// A commit is written again with packs of new names. Else under the name that it had.
    pub fresh_names: bool,
    /// A put without an answer is put again. Else a look that finds nothing counts as "not done".
    pub same_bytes_again: bool,
    /// Segments are emptied. Else they are deleted.
    pub numbers_stay: bool,
}

pub const ALL: Rules = Rules {
    read_after_put: true,
    not_condemned: true,
    void: true,
    condemn_first: true,
    record_first: true,
    one_gc_wins: true,
    fresh_names: true,
    same_bytes_again: true,
    numbers_stay: true,
};

/// Limits of a search.
#[derive(Clone, Copy)]
pub struct Bounds {
    pub condemnations: usize,
    /// Packs that gc condemns, as bits.
    pub condemnable: u16,
    /// Times that a writer writes its commit.
    pub tries: u8,
    pub states_max: usize,
    /// True if writers delete what they reported, and segments are emptied.
    pub has_deletions: bool,
    pub gcs: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Slot {
    Free,
    Commit { epoch: u8, pack: u8 },
    Deletion,
    Event,
    Emptied,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum GcEvent {
    Condemn { pack: u8 },
    Resolve { epoch: u8, heads: [u8; W], is_deleted: bool },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum WriterStep {
    Read,
    Upload,
    Put,
    Check,
    Report,
    Done,
    Deleted,
    Ended,
    NotDone,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Writer {
    step: WriterStep,
    epoch: u8,
    pack: u8,
    attempt: u8,
    /// Slots whose put may still land once more.
    late: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum GcStep {
    Idle,
    Condemn,
    List(u8),
    Resolve,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Gc {
    step: GcStep,
    /// Records of gc's chain that it has read.
    read: u8,
    heads: [u8; W],
    /// Packs that it found needed.
    needed: u16,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// Packs whose bytes are there.
    present: u16,
    chains: [Vec<Slot>; W],
    gc_chain: Vec<GcEvent>,
    writers: [Writer; W],
    gcs: [Gc; G],
    /// The content of a put that may land again.
    first: [Vec<Slot>; W],
}

/// The state of a pack, by gc's chain.
#[derive(Clone, Copy, PartialEq)]
enum Pack {
    Usable,
    Condemned(u8),
    Deleted(u8, [u8; W]),
}

fn pack_status(chain: &[GcEvent], pack: u8) -> Pack {
    let (mut status, mut epoch) = (Pack::Usable, 0);
    let mut condemned = [255; 8];
    for event in chain {
        match event {
            GcEvent::Condemn { pack: named } => {
                epoch += 1;
                condemned[epoch] = *named;
                if *named == pack && !matches!(status, Pack::Deleted(..)) {
                    status = Pack::Condemned(epoch as u8);
                }
            }
            GcEvent::Resolve { epoch, heads, is_deleted } if condemned[usize::from(*epoch)] == pack => {
                if *is_deleted {
                    status = Pack::Deleted(*epoch, *heads);
                } else if status == Pack::Condemned(*epoch) {
                    status = Pack::Usable;
                }
            }
            GcEvent::Resolve { .. } => {}
        }
    }
    status
}

fn epoch_of(chain: &[GcEvent]) -> u8 {
    chain.iter().filter(|event| matches!(event, GcEvent::Condemn { .. })).count() as u8
}

/// The first condemnation that is not resolved.
fn open_of(chain: &[GcEvent]) -> Option<(u8, u8)> {
    let packs = chain.iter().filter_map(|event| if let GcEvent::Condemn { pack } = event { Some(*pack) } else { None });
    let is_resolved = |epoch: u8| chain.iter().any(|event| matches!(event, GcEvent::Resolve { epoch: e, .. } if *e == epoch));
    packs.enumerate().map(|(index, pack)| (index as u8 + 1, pack)).find(|(epoch, _)| !is_resolved(*epoch))
}

impl State {
    pub fn start() -> Self {
        let writer = Writer { step: WriterStep::Read, epoch: 0, pack: 0, attempt: 0, late: 0 };
        let gc = Gc { step: GcStep::Idle, read: 0, heads: [0; W], needed: 0 };
        let (chains, first, gc_chain) = Default::default();
        State { present: 1, chains, gc_chain, writers: [writer; W], gcs: [gc; G], first }
    }

    /// The same state without what no step looks at any more, and with gcs, which are all alike, in order.
    fn canonical(mut self, rules: &Rules) -> Self {
        for gc in &mut self.gcs {
            match gc.step {
                GcStep::Idle => *gc = Gc { step: GcStep::Idle, read: 0, heads: [0; W], needed: 0 },
                GcStep::Condemn if rules.condemn_first => (gc.heads, gc.needed) = ([0; W], 0),
                _ => {}
            }
        }
        self.gcs.sort_unstable();
        for writer in &mut self.writers {
            match writer.step {
                WriterStep::Read if rules.fresh_names => (writer.epoch, writer.pack) = (0, 0),
                WriterStep::Check => writer.epoch = 0,
                WriterStep::Report | WriterStep::Done | WriterStep::Deleted | WriterStep::Ended => {
                    (writer.epoch, writer.pack, writer.attempt) = (0, 0, 0);
                }
                _ => {}
            }
        }
        self
    }

    fn own_pack(writer: usize, attempt: u8) -> u8 {
        1 + (writer * TRIES) as u8 + attempt
    }

    fn is_void(&self, rules: &Rules, chain: &[GcEvent], writer: usize, number: usize, epoch: u8, pack: u8) -> bool {
        match pack_status(chain, pack) {
            Pack::Deleted(resolved, heads) => rules.void && number > usize::from(heads[writer]) && epoch < resolved,
            _ => false,
        }
    }

    /// Commits of a writer that count, up to a head, as somebody sees them who has read so much of gc's chain.
    fn live(&self, rules: &Rules, chain: &[GcEvent], writer: usize, head: usize) -> impl Iterator<Item = u8> {
        let slots = &self.chains[writer][..head.min(self.chains[writer].len())];
        let is_deleted = slots.contains(&Slot::Deletion);
        let found: Vec<u8> = slots
            .iter()
            .enumerate()
            .filter_map(|(index, slot)| match slot {
                Slot::Commit { epoch, pack } if !is_deleted && !self.is_void(rules, chain, writer, index + 1, *epoch, *pack) => {
                    Some(*pack)
                }
                _ => None,
            })
            .collect();
        found.into_iter()
    }

    /// The fault, if there is one.
    pub fn violation(&self, rules: &Rules) -> Option<String> {
        for (index, writer) in self.writers.iter().enumerate() {
            let live: Vec<u8> = self.live(rules, &self.gc_chain, index, usize::MAX).collect();
            if let Some(pack) = live.iter().find(|pack| self.present & 1 << **pack == 0) {
                return Some(format!("a commit of writer {index} counts, and its pack {pack} is gone"));
            }
            if writer.step == WriterStep::Done && live.is_empty() {
                return Some(format!("writer {index} reported a commit that does not count"));
            }
            if writer.step == WriterStep::NotDone && !live.is_empty() {
                return Some(format!("writer {index} said that nothing was done, and the commit counts"));
            }
        }
        None
    }

    pub fn steps(&self, rules: &Rules, bounds: &Bounds) -> Vec<(State, String)> {
        let mut next = Vec::new();
        for writer in 0..W {
            self.writer_steps(rules, bounds, writer, &mut next);
        }
        // Idle ones come first: with one gc, it is the last.
        for gc in G - bounds.gcs..G {
            self.gc_steps(rules, bounds, gc, &mut next);
        }
        // A delete that gc has asked for lands at any time.
        for pack in 0..(1 + W * TRIES) as u8 {
            if self.present & 1 << pack != 0 && matches!(pack_status(&self.gc_chain, pack), Pack::Deleted(..)) {
                let mut state = self.clone();
                state.present &= !(1 << pack);
                next.push((state, format!("the bytes of pack {pack} go")));
            }
        }
        next.into_iter().map(|(state, step)| (state.canonical(rules), step)).collect()
    }

    fn writer_steps(&self, rules: &Rules, bounds: &Bounds, index: usize, next: &mut Vec<(State, String)>) {
        let writer = self.writers[index];
        let mut push = |what: &str, change: &dyn Fn(&mut State)| {
            let mut state = self.clone();
            change(&mut state);
            next.push((state, format!("writer {index} {what}")));
        };
        let epoch = epoch_of(&self.gc_chain);
        match writer.step {
            WriterStep::Read => {
                let is_usable =
                    !rules.not_condemned && self.present & 1 != 0 || pack_status(&self.gc_chain, SHARED) == Pack::Usable;
                if writer.attempt == 0 && is_usable && self.present & 1 != 0 {
                    push("chooses the shared pack", &|state| {
                        let new = &mut state.writers[index];
                        (new.step, new.epoch, new.pack) = (WriterStep::Put, epoch, SHARED);
                    });
                }
                if writer.attempt < bounds.tries {
                    let own = State::own_pack(index, writer.attempt);
                    push("chooses a pack of its own", &|state| {
                        let again = !rules.fresh_names && writer.attempt > 0;
                        let new = &mut state.writers[index];
                        (new.step, new.epoch, new.pack) = (WriterStep::Upload, epoch, if again { writer.pack } else { own });
                    });
                }
            }
            WriterStep::Upload => push("uploads", &|state| {
                state.present |= 1 << writer.pack;
                state.writers[index].step = WriterStep::Put;
            }),
            WriterStep::Put => {
                let slot = self.chains[index].len();
                let commit = Slot::Commit { epoch: writer.epoch, pack: writer.pack };
                let land = |state: &mut State, is_answered: bool| {
                    state.chains[index].push(commit);
                    state.first[index].push(if is_answered { Slot::Emptied } else { commit });
                    let new = &mut state.writers[index];
                    new.step = if rules.read_after_put { WriterStep::Check } else { WriterStep::Report };
                    if !is_answered {
                        // The put was sent more than once: one of them is still on its way.
                        new.late |= 1 << slot;
                    }
                };
                push("puts its segment", &|state| land(state, true));
                if rules.same_bytes_again {
                    if bounds.has_deletions {
                        push("puts its segment, and again, as no answer came", &|state| land(state, false));
                    }
                } else {
                    push("gets no answer, finds nothing, and says that nothing was done", &|state| {
                        state.writers[index].step = WriterStep::NotDone;
                    });
                }
            }
            // The put lands late.
            WriterStep::NotDone if self.chains[index].is_empty() => push("has its put land late", &|state| {
                state.chains[index].push(Slot::Commit { epoch: writer.epoch, pack: writer.pack });
            }),
            WriterStep::NotDone | WriterStep::Ended => {}
            WriterStep::Check => push("reads gc's chain", &|state| {
                let is_safe = pack_status(&state.gc_chain, writer.pack) == Pack::Usable;
                let new = &mut state.writers[index];
                new.step = if is_safe { WriterStep::Report } else { WriterStep::Read };
                new.attempt += u8::from(!is_safe);
            }),
            WriterStep::Report => push("reports", &|state| {
                state.writers[index].step = WriterStep::Done;
            }),
            WriterStep::Done if bounds.has_deletions => push("deletes its commit", &|state| {
                state.chains[index].push(Slot::Deletion);
                state.first[index].push(Slot::Emptied);
                state.writers[index].step = WriterStep::Deleted;
            }),
            WriterStep::Deleted => push("writes an event", &|state| {
                state.chains[index].push(Slot::Event);
                state.first[index].push(Slot::Emptied);
                state.writers[index].step = WriterStep::Ended;
            }),
            WriterStep::Done => {}
        }
        // A put that was sent twice lands again, if its number is free.
        for slot in 0..self.chains[index].len() {
            if writer.late & 1 << slot != 0 && self.chains[index][slot] == Slot::Free {
                push("has a put land again", &|state| {
                    state.chains[index][slot] = self.first[index][slot];
                    state.writers[index].late &= !(1 << slot);
                });
            }
        }
        // Segments that nobody needs: deleted commits, then their deletions. The last segment stays.
        let last = self.chains[index].len().saturating_sub(1);
        for slot in 0..last {
            let has_commits = self.chains[index].iter().any(|slot| matches!(slot, Slot::Commit { .. }));
            let is_deleted = self.chains[index].contains(&Slot::Deletion);
            let is_free = match self.chains[index][slot] {
                Slot::Commit { .. } => is_deleted,
                Slot::Deletion => !has_commits,
                _ => false,
            };
            if bounds.has_deletions && is_free {
                push("has a segment emptied", &|state| {
                    state.chains[index][slot] = if rules.numbers_stay { Slot::Emptied } else { Slot::Free };
                });
            }
        }
    }

    fn gc_steps(&self, rules: &Rules, bounds: &Bounds, index: usize, next: &mut Vec<(State, String)>) {
        let gc = self.gcs[index];
        let read = &self.gc_chain[..usize::from(gc.read)];
        let mut push = |what: &str, change: &dyn Fn(&mut State)| {
            let mut state = self.clone();
            change(&mut state);
            next.push((state, format!("gc {index} {what}")));
        };
        let wins = usize::from(gc.read) == self.gc_chain.len();
        match gc.step {
            GcStep::Idle => push("reads its chain", &|state| {
                let open = open_of(&state.gc_chain);
                let new = &mut state.gcs[index];
                (new.read, new.needed) = (state.gc_chain.len() as u8, 0);
                let lists = open.is_some() || !rules.condemn_first;
                new.step = if lists { GcStep::List(0) } else { GcStep::Condemn };
            }),
            GcStep::Condemn if usize::from(epoch_of(&self.gc_chain)) < bounds.condemnations => {
                // It may condemn whatever is there: what it knew before counts for nothing.
                for pack in (0..(1 + W * TRIES) as u8).filter(|pack| self.present & bounds.condemnable & 1 << pack != 0) {
                    if wins && pack_status(read, pack) == Pack::Usable {
                        push(&format!("condemns pack {pack}"), &|state| {
                            state.gc_chain.push(GcEvent::Condemn { pack });
                            let new = &mut state.gcs[index];
                            new.read += 1;
                            new.step = if rules.condemn_first { GcStep::List(0) } else { GcStep::Resolve };
                        });
                    }
                }
                if !wins {
                    push("finds another gc's record", &|state| state.gcs[index].step = GcStep::Idle);
                }
            }
            GcStep::Condemn => {}
            GcStep::List(writer) => push(&format!("reads the chain of writer {writer}"), &|state| {
                let at = usize::from(writer);
                let head = state.chains[at].len();
                let live: u16 = state.live(rules, read, at, head).map(|pack| 1 << pack).sum::<u16>();
                let new = &mut state.gcs[index];
                (new.heads[at], new.needed) = (head as u8, new.needed | live);
                let is_last = at + 1 == W;
                let has_open = open_of(read).is_some();
                new.step = match (is_last, has_open) {
                    (false, _) => GcStep::List(writer + 1),
                    (true, true) => GcStep::Resolve,
                    (true, false) => GcStep::Condemn,
                };
            }),
            GcStep::Resolve => {
                let Some((epoch, pack)) = open_of(read) else { return };
                let is_deleted = gc.needed & 1 << pack == 0;
                let record = GcEvent::Resolve { epoch, heads: gc.heads, is_deleted };
                if !rules.record_first && is_deleted && self.present & 1 << pack != 0 {
                    push("deletes before it says so", &|state| state.present &= !(1 << pack));
                }
                if wins || !rules.one_gc_wins {
                    push(if is_deleted { "resolves: deleted" } else { "resolves: kept" }, &|state| {
                        state.gc_chain.push(record);
                        state.gcs[index].step = GcStep::Idle;
                    });
                } else {
                    push("finds another gc's record", &|state| state.gcs[index].step = GcStep::Idle);
                }
            }
        }
    }
}
