//! Creating a checkpoint: walk -> (stat cache says unchanged? reuse) -> chunk -> dedup -> block -> pack; nodes -> trees, children
//! first; record; one commit.

mod append_cache;
mod belonging;
mod commit;
mod content;
mod exclude;
mod import;
mod later;
mod links;
mod orphans;
mod packs;
mod running;
mod sink;
mod source;
mod state;
#[cfg(test)]
mod tests;
mod walk;

use std::{
    collections::HashMap,
    fs,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Mutex,
};

pub use append_cache::AppendCache;
pub use import::{ImportOptions, import};
use jiff::Timestamp;
use rustix::fs::{Mode, OFlags};
pub use sink::Looked;
pub use source::{FullWalk, Scope, Source};
pub use state::{Captured, NoState, STATE_FOLDER, Seen, State, StateContent, StateFile};

use self::{
    belonging::Belonging,
    exclude::Excluder,
    links::{StoredLinks, store_links},
    packs::PackSink,
    sink::{Batch, Sink},
    walk::{Walk, Walked},
};
use crate::{
    clock,
    clock::Clock,
    damaged::Damaged,
    error::{Error, IoContext, Result},
    event::Actor,
    format::BLOCK_BYTES_MAX,
    id::{ObjectId, TreeId, Ulid},
    mounts::{self, Mount},
    name,
    omitted::{self, Listed, OMISSIONS_FILE, Omission, Reason},
    pack::ObjectKind,
    pin::Pin,
    progress::{Phase, Progress},
    projection::Place,
    recipe::Encoded,
    record::{ANOTHER_FOLDER, Checkpoint, LinksTable, Omitted, Part, RECORD_SCHEMA, Record, Rules, Trigger, Workspace},
    restore,
    statcache::{self, StatCache, Trust},
    store::Store,
    sys,
    tree::Node,
    view::View,
};

/// Garbage collection may overtake a run this often before it gives up.
const TRIES: u32 = 5;

/// What to capture, and as what.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The folder.
    pub workspace: PathBuf,
    /// The session that the checkpoint belongs to.
    pub session: String,
    /// The session's run that makes it; none where it is made from outside. Of a run that a newer one has taken over from, the checkpoint
    /// is kept as a fenced one.
    pub run: Option<String>,
    /// That run's epoch.
    pub epoch: u64,
    /// Who makes it.
    pub actor: Actor,
    /// Why it is made.
    pub trigger: Trigger,
    /// More about why.
    pub trigger_detail: Option<String>,
    /// What its maker says of it.
    pub message: Option<String>,
    /// By which rules entries are left out.
    pub rules: Rules,
    /// Only these paths, from the workspace folder, and what is below them.
    pub listed: Option<Vec<Vec<u8>>>,
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
    /// How many threads walk, read and compress; 0 for one per processor.
    pub threads: usize,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The new checkpoint; with `skip_if_unchanged`, the session's head where nothing had changed.
    pub checkpoint: Checkpoint,
    /// Nothing had changed, and nothing was committed.
    pub skipped: bool,
    /// What was left out.
    pub omissions: Vec<Omission>,
    /// Files whose content was read.
    pub files_read: u64,
    /// Their bytes.
    pub bytes_read: u64,
    /// Raw bytes of objects that the store did not have.
    pub new_bytes: u64,
    /// Bytes that its packs take.
    pub stored_bytes: u64,
    /// How long the writer lock was held, in milliseconds.
    pub lock_held_ms: u64,
    /// What the caller should know.
    pub notices: Vec<String>,
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
    for _ in 0..TRIES {
        if let Some(outcome) = attempt(store, options, source, state, progress)? {
            return Ok(outcome);
        }
    }
    Err(Error::Overtaken { tries: TRIES })
}

/// One try. `None` where garbage collection removed what it was going to reuse.
fn attempt(
    store: &Store,
    options: &Options,
    source: &dyn Source,
    state: &mut dyn State,
    progress: &dyn Progress,
) -> Result<Option<Outcome>> {
    let started_at = clock::timestamp();
    let clock = Clock::now();
    store.check_writable()?;
    // What cannot be cleared now is in nobody's way.
    let _ = restore::clear_dead(store.layout());
    name::check_session(&options.session)?;
    let target = Target::open(store, &options.workspace)?;
    let belonging = Belonging {
        actor: options.actor.clone(),
        place: Some(Place::of_open(&target.path, target.fd.as_fd())),
        keeps_place: options.keeps_place,
    };
    let excluder = Excluder::new(options.rules.clone(), options.listed.clone())?;
    let mut pin = Pin::take(&store.layout().pins(), true, "create")?;
    let damaged = Damaged::read(store.layout());
    let cache = StatCache::open(store.layout(), &target.path).filter(|cache| !reads_all(options, cache, &clock, progress));
    let base = pin_base(store, Some(&mut pin), cache.as_ref())?;
    let (base, base_omissions) = read_base(store, base, progress)?;
    let cache = cache.filter(|_| base.is_some());
    let source = if continues(base.as_ref(), cache.as_ref(), &excluder, options) { source } else { &FullWalk };
    belonging.check(&store.view(), &options.session)?;
    target.check(&store.view(), &options.session)?;
    let head = store.view().head(&options.session)?;
    let adopted = orphans::adopt(store, pin.op, progress)?;
    let cache_out = statcache::Writer::create(store.layout(), &target.path, cache.as_ref()).ok().map(Mutex::new);

    let expected = base.as_ref().map(|base| &base.record.workspace);
    progress.phase(Phase::Capture, expected.map(|w| w.files), expected.map(|w| w.bytes));
    let packs = PackSink::new(store, store.view(), pin.op, adopted.content);
    let sink = Sink::Store(Box::new(packs));
    state.begin();
    let walk = Walk {
        store,
        sink: &sink,
        excluder: &excluder,
        source,
        cache: cache.as_ref(),
        trust: Trust::new(cache.as_ref(), &clock),
        base_omissions: &base_omissions,
        cache_out,
        progress,
        workspace: &target.path,
        forbidden: target.forbidden,
        mounted: mounts::ours_below(&target.path).iter().filter_map(Mount::dev).collect(),
        threads: threads(options.threads),
    };
    let mut walked = match walk.run(target.fd) {
        Ok(walked) => walked,
        Err(e) => return Err(abandon(pin, sink, e)),
    };
    let mut captured = state.finish(&seen(store, &mut walked));
    let workspace = walked.root.node.clone();
    let listed = list_omissions(&walked.omissions, &mut captured);
    let root_before = head.as_ref().map(|head| head.record.root);
    let links_before = head.as_ref().and_then(|head| head.record.links);
    let stored = state_before(store, root_before)
        .and_then(|before| state::take(store, &sink, &mut pin, before, &mut captured, progress))
        .and_then(|taken| {
            let nodes: Vec<&Node> = taken.folder.iter().chain([&workspace]).collect();
            let links = store_links(store, &sink, &std::mem::take(&mut walked.links), links_before, progress)?;
            store_root(&sink, &nodes, root_before, links, listed).map(|roots| (taken, roots))
        });
    let (taken, roots) = match stored {
        Ok(stored) => stored,
        Err(e) => return Err(abandon(pin, sink, e)),
    };
    walked.read = (walked.read.0 + taken.read.0, walked.read.1 + taken.read.1);

    if let Some(head) = head.as_ref().filter(|_| options.skip_if_unchanged && !sink.heals())
        && is_unchanged(store, head, &workspace, roots, &captured, progress)?
    {
        let Walked { omissions, read, .. } = walked;
        discard(store, pin, sink);
        return Ok(Some(Outcome {
            checkpoint: head.clone(),
            skipped: true,
            omissions,
            files_read: read.0,
            bytes_read: read.1,
            new_bytes: 0,
            stored_bytes: 0,
            lock_held_ms: 0,
            notices: Vec::new(),
        }));
    }

    let record = new_record(options, &excluder, &target.path, &walked, started_at, roots, captured);
    let Walked { root: node, omissions, is_dirty, read, cache_out, .. } = walked;
    progress.phase(Phase::Commit, None, None);
    let Some(committed) = commit::commit(store, pin, sink, record, &belonging, adopted.packs, progress)? else { return Ok(None) };
    state::remember(store, &taken.grown, committed.checkpoint.record.id);
    // What was found damaged meanwhile may be among what was taken for unchanged: the next run has to read it.
    if let Some(writer) = cache_out.filter(|_| is_dirty && Damaged::read(store.layout()) == damaged) {
        // Without a cache the next run reads more; that is no reason to fail this one.
        let read_all_at_secs = cache.as_ref().map_or(clock.time.secs, |cache| cache.trailer.read_all_at_secs);
        let _ = writer.finish(node.section, committed.checkpoint.record.id, roots.tree, &clock, read_all_at_secs);
    }
    Ok(Some(Outcome {
        checkpoint: committed.checkpoint,
        skipped: false,
        omissions,
        files_read: read.0,
        bytes_read: read.1,
        new_bytes: committed.new_bytes,
        stored_bytes: committed.stored_bytes,
        lock_held_ms: committed.lock_held_ms,
        notices: adopted.notices,
    }))
}

/// Whether every file is to be read, though there is a cache.
fn reads_all(options: &Options, cache: &StatCache, now: &Clock, progress: &dyn Progress) -> bool {
    let age_secs = now.time.secs.saturating_sub(cache.trailer.read_all_at_secs);
    let is_due = options.read_all_after_secs.is_some_and(|after| u64::try_from(age_secs).is_ok_and(|age| age >= after));
    if is_due && !options.thorough {
        progress.notice(&format!("reading every file: the last time was {} days ago", age_secs / 86_400));
    }
    options.thorough || is_due
}

/// What a state may know of the captured workspace.
fn seen<'a>(store: &'a Store, walked: &'a mut Walked) -> Seen<'a> {
    let section = walked.root.section;
    let entries = walked.cache_out.as_mut().and_then(|out| out.lookup(section));
    let totals = walked.root.node.as_folder().map(|(_, totals)| *totals).unwrap_or_default();
    Seen { totals, omissions: &walked.omissions, ids: store.ids(), entries }
}

/// Whether a checkpoint has the same workspace, and the same conversation. A damaged one is no reason to make no other.
fn is_unchanged(
    store: &Store,
    head: &Checkpoint,
    workspace: &Node,
    roots: Roots,
    captured: &Captured,
    progress: &dyn Progress,
) -> Result<bool> {
    if head.record.links != roots.links || head.record.conversation != captured.conversation {
        return Ok(false);
    }
    match store.workspace_node(head) {
        Ok(node) => Ok(node == *workspace),
        Err(e) if e.is_damage() => {
            progress.notice(&format!("{} is damaged, and taken for another state: {e}", head.id()));
            Ok(false)
        }
        Err(e) => Err(e),
    }
}

/// Whether what a source says did not change may stay as the stat cache and its checkpoint have it: only by the same rules, and if what
/// the checkpoint left out belongs to that cache.
fn continues(base: Option<&Checkpoint>, cache: Option<&StatCache>, excluder: &Excluder, options: &Options) -> bool {
    let (Some(base), Some(cache)) = (base, cache) else { return false };
    let has_same_rules = options.listed.is_none() && base.record.rules == *excluder.rules();
    base.record.id == cache.trailer.base && has_same_rules
}

/// What the checkpoint left out whose content the stat cache names. Without one that is damaged everything is read.
fn read_base(store: &Store, base: Option<Checkpoint>, progress: &dyn Progress) -> Result<(Option<Checkpoint>, Vec<Omission>)> {
    let Some(base) = base else { return Ok((None, Vec::new())) };
    match store.omissions(&base) {
        Ok(mut omissions) => {
            omissions.sort_unstable();
            Ok((Some(base), omissions))
        }
        Err(e) if e.is_damage() => {
            progress.notice(&format!("{} is damaged, so that everything is read: {e}", base.id()));
            Ok((None, Vec::new()))
        }
        Err(e) => Err(e),
    }
}

/// Looks at a folder as [`run`] would, without storing anything: its node and trees, for comparing it with a checkpoint.
pub fn look<'a>(store: &'a Store, options: &Options, progress: &dyn Progress) -> Result<(Node, Looked<'a>, Vec<Omission>)> {
    let target = Target::open(store, &options.workspace)?;
    let excluder = Excluder::new(options.rules.clone(), options.listed.clone())?;
    let cache = StatCache::open(store.layout(), &target.path).filter(|_| !options.thorough);
    let base = cache.as_ref().map(|cache| cache.trailer.base);
    let mut pin = store.pin_for_reading(base, "look", |text| progress.notice(text));
    let base = pin_base(store, pin.as_mut(), cache.as_ref())?;
    let cache = cache.filter(|_| base.is_some());
    progress.phase(Phase::Plan, None, None);
    let sink = Sink::Look(store, Mutex::default());
    let walk = Walk {
        store,
        sink: &sink,
        excluder: &excluder,
        source: &FullWalk,
        cache: cache.as_ref(),
        trust: Trust::new(cache.as_ref(), &Clock::now()),
        base_omissions: &[],
        cache_out: None,
        progress,
        workspace: &target.path,
        forbidden: target.forbidden,
        mounted: mounts::ours_below(&target.path).iter().filter_map(Mount::dev).collect(),
        threads: threads(options.threads),
    };
    let walked = walk.run(target.fd)?;
    let links = store_links(store, &sink, &walked.links, None, progress)?.map_or_else(Vec::new, |links| links.bytes);
    let Sink::Look(_, objects) = sink else { return Err(Error::Invalid("looking stored something".into())) };
    let objects: HashMap<ObjectId, Vec<u8>> = objects.into_inner().unwrap_or_default();
    Ok((walked.root.node, Looked { objects, links, store, _pin: pin }, walked.omissions))
}

fn threads(wanted: usize) -> usize {
    match wanted {
        0 => std::thread::available_parallelism().map_or(2, usize::from).min(16),
        n => n,
    }
}

/// The folder to capture, open.
struct Target {
    path: PathBuf,
    fd: OwnedFd,
    device: u64,
    forbidden: Vec<(u64, u64)>,
}

impl Target {
    fn open(store: &Store, workspace: &Path) -> Result<Self> {
        let path = fs::canonicalize(workspace).at("open workspace", workspace)?;
        let store_path = fs::canonicalize(store.path()).at("open store", store.path())?;
        if path.starts_with(&store_path) {
            return Err(Error::Invalid(format!(
                "the workspace {} is the store, or inside it; choose another folder",
                workspace.display()
            )));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&path, flags, Mode::empty()).at("open workspace", workspace)?;
        let store_fd = rustix::fs::open(&store_path, flags, Mode::empty()).at("open store", &store_path)?;
        let stat = sys::stat_fd(&store_fd).at("open store", &store_path)?;
        let own = sys::stat_fd(&fd).at("open workspace", workspace)?;
        Ok(Target { path, fd, device: own.dev, forbidden: vec![(stat.dev, stat.ino)] })
    }

    /// Fails where a session's workspace is hidden by a mounted checkpoint, which would become the session's next one. A session that
    /// has no workspace yet may have that one.
    fn check(&self, view: &View, session: &str) -> Result<()> {
        let has_workspace = view.session(session)?.is_some_and(|known| known.workspace.is_some());
        if !has_workspace || !mounts::is_ours(self.device) {
            return Ok(());
        }
        let path = self.path.display();
        Err(Error::Refused(format!(
            "{path} shows a mounted checkpoint, which is not what session {session} works on; unmount it with `parhelia umount`, \
             or give a checkpoint of what it shows a session of its own"
        )))
    }
}

/// Pins the checkpoint whose content the stat cache names, so that all of it can be reused. `None` where it is gone.
fn pin_base(store: &Store, mut pin: Option<&mut Pin>, cache: Option<&StatCache>) -> Result<Option<Checkpoint>> {
    let Some(cache) = cache else {
        store.refresh()?;
        return Ok(None);
    };
    let base = cache.trailer.base;
    if let Some(pin) = &mut pin {
        pin.add([base])?;
    }
    let view = store.refresh()?;
    if let Some(found) = view.checkpoint(base)?.filter(|found| found.record.root == cache.trailer.root) {
        return Ok(Some(found));
    }
    // The checkpoint is gone, but another one with the same root keeps the same content.
    let Some(other) = view.checkpoints()?.iter().rev().find(|c| c.record.root == cache.trailer.root) else { return Ok(None) };
    if let Some(pin) = pin {
        pin.add([other.record.id])?;
    }
    store.refresh()?.checkpoint(other.record.id)
}

/// The ids of what a record points to.
#[derive(Clone, Copy, Debug)]
struct Roots {
    tree: TreeId,
    links: Option<LinksTable>,
    omitted: Option<ObjectId>,
    /// Whether the table of what was left out only stands in for a file in `state`.
    omitted_in_state: bool,
}

/// What was left out, as it is to be stored. A list that is too long for a table becomes one of the files beside the workspace.
fn list_omissions(omissions: &[Omission], captured: &mut Captured) -> Option<Listed> {
    let mut listed = (!omissions.is_empty()).then(|| omitted::list(omissions, BLOCK_BYTES_MAX))?;
    if let Some(whole) = &mut listed.whole {
        let (path, part) = (OMISSIONS_FILE.to_owned(), OMISSIONS_FILE.to_owned());
        captured.files.push(StateFile { path, part, content: StateContent::Bytes(std::mem::take(whole)), mtime: None });
    }
    Some(listed)
}

/// The tree of the state folder below a root, if there is one that can be read.
fn state_before(store: &Store, root: Option<TreeId>) -> Result<Option<TreeId>> {
    match root.map_or(Ok(None), |root| store.entry(root, STATE_FOLDER.as_bytes())) {
        Ok(state) => Ok(state.as_ref().and_then(Node::as_folder).map(|(tree, _)| tree)),
        Err(e) if e.is_damage() => Ok(None),
        Err(e) => Err(e),
    }
}

/// Stores the root tree, which takes the place of `before`, and the table of what was left out.
fn store_root(
    sink: &Sink<'_>,
    nodes: &[&Node],
    before: Option<TreeId>,
    links: Option<StoredLinks>,
    listed: Option<Listed>,
) -> Result<Roots> {
    let mut batch = Batch::new(sink)?;
    let (tree, _) = batch.folder(nodes, before)?;
    let omitted = listed.as_ref().map(|listed| sink.ids().table(&listed.table));
    let roots = Roots {
        tree,
        links: links.map(|links| links.table),
        omitted,
        omitted_in_state: listed.as_ref().is_some_and(|listed| listed.whole.is_some()),
    };
    if let Some((listed, id)) = listed.zip(omitted) {
        batch.meta(Encoded { kind: ObjectKind::Table, id, bytes: listed.table, tail_bytes: 0 }, None)?;
    }
    batch.finish()?;
    Ok(roots)
}

fn count_omissions(roots: Roots, omissions: &[Omission]) -> Option<Omitted> {
    let count = |wanted: fn(&Reason) -> bool| omissions.iter().filter(|o| wanted(&o.reason)).count() as u64;
    roots.omitted.map(|table| Omitted {
        table,
        excluded: count(|r| matches!(r, Reason::Excluded(_))),
        unreadable: count(|r| matches!(r, Reason::Unreadable(_))),
        changing: count(|r| matches!(r, Reason::Changing)),
        in_state: roots.omitted_in_state,
    })
}

fn new_id(created_at: Timestamp) -> Ulid {
    Ulid::from_parts(created_at.as_millisecond().max(0) as u64, Ulid::generate().random())
}

fn new_record(
    options: &Options,
    excluder: &Excluder,
    path: &Path,
    walked: &Walked,
    started_at: Timestamp,
    roots: Roots,
    captured: Captured,
) -> Record {
    use std::os::unix::ffi::OsStrExt;
    let created_at = clock::timestamp();
    let totals = walked.root.node.as_folder().map(|(_, totals)| *totals).unwrap_or_default();
    Record {
        schema: RECORD_SCHEMA,
        id: new_id(created_at),
        session: options.session.clone(),
        run: options.run.clone(),
        epoch: options.epoch,
        fenced: false,
        parent: None,
        depth: 1,
        trigger: options.trigger,
        trigger_detail: options.trigger_detail.clone(),
        message: options.message.clone(),
        root: roots.tree,
        links: roots.links,
        parts: captured.parts.into_iter().chain([("workspace".to_owned(), Part::Captured)]).collect(),
        consistency: captured.consistency,
        started_at,
        created_at,
        workspace: Workspace {
            path: name::display(path.as_os_str().as_bytes()),
            files: totals.files,
            folders: totals.folders,
            entries: totals.entries,
            bytes: totals.bytes,
        },
        rules: Rules { listed_only: options.listed.is_some(), ..excluder.rules().clone() },
        omitted: count_omissions(roots, &walked.omissions),
        conversation: captured.conversation,
        git: captured.git,
        environment: captured.environment,
        usage: captured.usage,
        extra: options.of_another_folder.then(|| (ANOTHER_FOLDER.to_owned(), true.into())).into_iter().collect(),
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
