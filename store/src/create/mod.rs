//! Creating a checkpoint: walk -> (stat cache says unchanged? reuse) -> chunk -> dedup -> block -> pack; nodes -> trees, children
//! first; record; one commit.

mod append_cache;
mod base;
mod commit;
mod content;
mod exclude;
mod fit_in;
mod import;
mod judge;
mod later;
mod links;
mod looking;
mod orphans;
mod outcome;
mod packs;
mod record;
mod roots;
mod running;
mod sink;
mod source;
mod state;
mod target;
#[cfg(test)]
mod tests;
mod unchanged;
mod walk;

use parhelia_name::step::Step;
use std::{
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Mutex,
};

pub use crate::maker::Maker;
pub use append_cache::AppendCache;
pub use import::{ImportMetadata, ImportOptions, import, import_with};
pub use judge::{Content, Judge};
pub use sink::LiveTree;
pub use source::{FullWalk, Scope, Source};
pub use state::{CapturedState, CapturedWorkspace, NoState, State, StateContent, StateFile};

use self::{
    base::{Base, continues},
    exclude::Excluder,
    links::store_links,
    packs::PackSink,
    record::new_record,
    roots::{Roots, list_omissions, state_before, store_root},
    sink::Sink,
    target::Target,
    unchanged::{Head, compare},
    walk::{Walk, WalkOutcome},
};
pub use self::{looking::look, outcome::Outcome};
pub use crate::tree::STATE_FOLDER;
use crate::{
    clock::{self, Clock},
    damaged::{self, DamageSet},
    error::{Error, Result},
    event::Actor,
    mounts::{self, Mount},
    name, omitted,
    pin::Pin,
    place::Place,
    progress::{Phase, Progress},
    record::{Cause, Checkpoint, Rules, Trigger},
    restore,
    statcache::{self, StatCache, Trust},
    store::Store,
    tree::Node,
};

/// Garbage collection may overtake a run this often before it gives up.
const TRIES: u32 = 5;

/// Options of a capture.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The folder.
    pub workspace: PathBuf,
    /// The session that the checkpoint belongs to.
    pub session: String,
    /// The session's run that makes it; none where it is made from outside. Of a run that a newer one has taken over from, the checkpoint
    /// is kept as a fenced one.
    pub run: Option<String>,
    /// The epoch of that run.
    pub epoch: u64,
    /// The person or program that makes it.
    pub actor: Actor,
    /// The reason for which it is made.
    pub trigger: Trigger,
    /// The cause. Never taken from what a caller has typed.
    pub cause: Cause,
    /// Details of the reason, for people.
    pub trigger_detail: Option<String>,
    /// Message of its maker.
    pub message: Option<String>,
    /// By which rules entries are left out.
    pub rules: Rules,
    /// The judge that looks at new content, and may leave files out by it.
    pub judge: Option<Judge>,
    /// Only these paths, from the workspace folder, and what is below them.
    pub listed: Option<Vec<Vec<u8>>>,
    /// Fail where nothing is captured, rather than commit a checkpoint without entries.
    pub refuses_empty: bool,
    /// Commit nothing where the session's head has the same root.
    pub skip_if_unchanged: bool,
    /// Read every file, whatever its stamps say.
    pub thorough: bool,
    /// Read every file, too, where that was not done for so many seconds.
    pub read_all_after_secs: Option<u64>,
    /// Leave the session's recorded folder as it is: what is captured at its path is another one.
    pub keeps_place: bool,
    /// Record that the captured folder is another one than the session's.
    pub of_another_folder: bool,
    /// Number of threads that walk, read and compress; 0 for one per processor.
    pub threads: usize,
}

/// Makes a checkpoint of a folder.
pub fn run(store: &Store, options: &Options, progress: &dyn Progress) -> Result<Outcome> {
    run_with(store, options, &FullWalk, &mut NoState, progress)
}

/// Makes a checkpoint of a folder, of which `source` says what may have changed, and of what `state` says belongs to it.
pub fn run_with(
    store: &Store,
    options: &Options,
    source: &dyn Source,
    state: &mut dyn State,
    progress: &dyn Progress,
) -> Result<Outcome> {
    for number in 0..TRIES {
        if let Some(outcome) = attempt(store, options, source, state, number == 0, progress)? {
            return Ok(outcome);
        }
    }
    Err(Error::Overtaken { tries: TRIES })
}

/// One try. `None` where garbage collection removed what it was going to reuse, and in the first one also where that was found damaged.
fn attempt(
    store: &Store,
    options: &Options,
    source: &dyn Source,
    state: &mut dyn State,
    is_first: bool,
    progress: &dyn Progress,
) -> Result<Option<Outcome>> {
    let started_at = clock::timestamp();
    let clock = Clock::now();
    prepare(store, options)?;
    let target = Target::open(store, &options.workspace)?;
    let maker = maker(options, &target);
    let excluder = Excluder::new(options.rules.clone(), options.listed.clone())?;
    let mut pin = Pin::take(&store.layout().pins(), true, "create")?;
    damaged::note_missing_packs(store, progress)?;
    let damaged = DamageSet::read(store.layout());
    let base = Base::open(store, options, &target.path, &clock, &mut pin, progress)?;
    let cache = base.cache.as_ref();
    let source = if continues(base.checkpoint.as_ref(), cache, &excluder, options) { source } else { &FullWalk };
    store.view().check_maker(&options.session, &maker)?;
    target.check(&store.view(), &options.session)?;
    let head = store.view().head(&options.session)?;
    let adopted = orphans::adopt(store, pin.op, progress)?;
    let cache_out = statcache::Writer::create(store.layout(), &target.path, cache).ok().map(Mutex::new);

    let expected = base.checkpoint.as_ref().map(|base| &base.record.workspace);
    progress.phase(Phase::Capture, expected.map(|w| w.files), expected.map(|w| w.bytes));
    let sink = Sink::Store(Box::new(PackSink::new(store, store.view(), pin.op, adopted.content)));
    state.begin();
    let (folder, asked) = ((&*target.path, target.forbidden), (options, head.as_ref()));
    let whole = whole_walk((store, &sink), &excluder, cache, &clock, folder, asked, progress);
    let walk = Walk { source, base_omissions: &base.omissions, cache_out, ..whole };
    let StagedCapture { walked, captured, grown, roots, is_lacked } =
        match take(store, walk, target.fd, state, &mut pin, (head.as_ref(), options)) {
            Ok(taken) => taken,
            Err(e) => return Err(abandon(pin, sink, e)),
        };

    let compared = match head.as_ref().filter(|_| options.skip_if_unchanged) {
        Some(head) => compare(store, head, &walked.root.node, roots, &captured, is_lacked, progress)?,
        None => Head::Differs,
    };
    // What was found damaged on the way may be vouched for by the stat cache: everything is read once more.
    if (store.note_unreadable() || compared == Head::IsNewlyDamaged) && is_first {
        progress.notice(&format!(
            "the store holds damage: every file is read, and what is lost of this folder is stored again; run {}",
            Step::Check
        ));
        discard(store, pin, sink);
        return Ok(None);
    }
    if let Some(head) = head.as_ref().filter(|_| compared == Head::IsSame) {
        discard(store, pin, sink);
        return Ok(Some(Outcome::unchanged(head.clone(), walked)));
    }

    let record = new_record(options, &excluder, &target.path, &walked, started_at, roots, captured);
    let WalkOutcome { root: node, omissions, is_dirty, read, cache_out, .. } = walked;
    progress.phase(Phase::Commit, None, None);
    let Some(committed) = commit::commit(store, pin, sink, record, &maker, adopted.packs, progress)? else { return Ok(None) };
    state::remember(store, &grown, committed.checkpoint.record.id);
    // What was found damaged meanwhile may be among what was taken for unchanged: the next run has to read it.
    if let Some(writer) = cache_out.filter(|_| is_dirty && DamageSet::read(store.layout()) == damaged) {
        // Without a cache the next run reads more; that is no reason to fail this one.
        let read_all_at_secs = cache.map_or(clock.time.secs, |cache| cache.trailer.read_all_at_secs);
        let _ = writer.finish(node.section, committed.checkpoint.record.id, roots.tree, &clock, read_all_at_secs);
    }
    Ok(Some(Outcome::committed(committed, omissions, read, adopted.notices)))
}

/// Checks the store and the session, and clears what dead restores have left.
fn prepare(store: &Store, options: &Options) -> Result<()> {
    store.check_writable()?;
    // What cannot be cleared now is in nobody's way.
    let _ = restore::clear_dead(store.layout());
    name::check_session(&options.session)
}

/// A walk of a whole folder that leaves no stat cache.
fn whole_walk<'a>(
    (store, sink): (&'a Store, &'a Sink<'a>),
    excluder: &'a Excluder,
    cache: Option<&'a StatCache>,
    clock: &Clock,
    (workspace, forbidden): (&'a Path, Vec<(u64, u64)>),
    (options, head): (&'a Options, Option<&'a Checkpoint>),
    progress: &'a dyn Progress,
) -> Walk<'a> {
    Walk {
        store,
        sink,
        excluder,
        source: &FullWalk,
        cache,
        trust: Trust::new(cache, clock),
        base_omissions: &[],
        judge: options.judge.as_ref().map(|judge| (judge, head)),
        cache_out: None,
        progress,
        workspace,
        forbidden,
        mounted: mounts::ours_below(workspace).iter().filter_map(Mount::dev).collect(),
        threads: threads(options.threads),
    }
}

fn maker(options: &Options, target: &Target) -> Maker {
    Maker {
        actor: options.actor.clone(),
        place: Some(Place::of_open(&target.path, target.fd.as_fd())),
        keeps_place: options.keeps_place,
        marks: Vec::new(),
    }
}

/// Everything that was captured, stored but not committed.
struct StagedCapture {
    walked: WalkOutcome,
    captured: CapturedState,
    /// Append caches of the state's files, by their paths.
    grown: Vec<(PathBuf, AppendCache)>,
    roots: Roots,
    /// True if something of it was not in the store that the head would have, if it is the same.
    is_lacked: bool,
}

/// Walks the workspace, then takes what belongs to it, and stores the root over both.
fn take(
    store: &Store,
    walk: Walk<'_>,
    workspace: OwnedFd,
    state: &mut dyn State,
    pin: &mut Pin,
    (head, options): (Option<&Checkpoint>, &Options),
) -> Result<StagedCapture> {
    let (sink, progress) = (walk.sink, walk.progress);
    let mut walked = walk.run(workspace)?;
    let lacks_workspace = sink.lacking() > 0;
    if options.refuses_empty && has_nothing(&walked, options.listed.as_deref()) {
        return Err(Error::NothingCaptured { left_out: walked.omissions.len() as u64 });
    }
    let mut captured = state.finish(&seen(store, &mut walked));
    let listed = list_omissions(&walked.omissions, &mut captured);
    let root_before = head.map(|head| head.record.root);
    let links_before = head.and_then(|head| head.record.links);
    let before = state_before(store, root_before)?;
    let taken = state::take(store, sink, pin, before, &mut captured, progress)?;
    let links = store_links(store, sink, &std::mem::take(&mut walked.links), links_before, progress)?;
    let nodes: Vec<&Node> = taken.folder.iter().chain([&walked.root.node]).collect();
    let roots = store_root(sink, &nodes, root_before, links, listed)?;
    walked.read = (walked.read.0 + taken.read.0, walked.read.1 + taken.read.1);
    let is_lacked = lacks_workspace || root_before == Some(roots.tree) && sink.lacking() > 0;
    Ok(StagedCapture { walked, captured, grown: taken.grown, roots, is_lacked })
}

/// True if nothing was captured of what was asked for. The folders on the way to listed paths were not.
fn has_nothing(walked: &WalkOutcome, listed: Option<&[Vec<u8>]>) -> bool {
    let is_left_out = |path: &Vec<u8>| omitted::covering(&walked.omissions, path).is_some();
    let is_empty = walked.root.node.as_folder().is_none_or(|(_, totals)| totals.entries == 0);
    is_empty || listed.is_some_and(|listed| listed.iter().all(is_left_out))
}

/// Facts about the captured workspace for a state.
fn seen<'a>(store: &'a Store, walked: &'a mut WalkOutcome) -> CapturedWorkspace<'a> {
    let section = walked.root.section;
    let entries = walked.cache_out.as_mut().and_then(|out| out.lookup(section));
    let totals = walked.root.node.as_folder().map(|(_, totals)| *totals).unwrap_or_default();
    CapturedWorkspace { totals, omissions: &walked.omissions, ids: store.ids(), entries }
}

fn threads(wanted: usize) -> usize {
    match wanted {
        0 => std::thread::available_parallelism().map_or(2, usize::from).min(16),
        n => n,
    }
}

/// Ends a run that failed: whole packs stay, with the dead pin that names them, for the next run to take up.
fn abandon(pin: Pin, sink: Sink<'_>, error: Error) -> Error {
    let whole = match sink {
        Sink::Store(packs) => packs.give_up(),
        Sink::Look(..) => false,
    };
    if whole {
        pin.leave();
    }
    error
}

/// Ends a run that turned out to have nothing to commit.
fn discard(store: &Store, pin: Pin, sink: Sink<'_>) {
    if let Sink::Store(packs) = sink {
        packs.discard(store.layout());
    }
    drop(pin);
}
