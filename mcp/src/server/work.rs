//! The tools, on a store.

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use parhelia_host::{Host, Observer, notice::Notice, run};
use parhelia_knowledge::memory::{self, New, Project};
use parhelia_ledger::{LedgerView as _, Run, selector};
use parhelia_life::{
    checkpoint::{
        self, FolderRequest,
        target::{self, Target},
    },
    manifest::Manifest,
    secrets::secrets,
};
use parhelia_oversight::{
    changed,
    review::tag::{self, Tag},
    search::{self, Query, SearchRequest},
};
use parhelia_store::{
    Error, OpenOptions, Store,
    diff::{Summary, TextOptions, file_diff, store_content},
    name,
    pin::Pin,
    progress::Progress,
    record::{self, Outline, Trigger},
    tree::Kind,
    view::View,
};
use parhelia_wire::{
    checkpoint::{Checkpoint, SearchHit},
    diff::Change,
    memory::Knowledge,
};

use super::{
    asked::{Create, Diff, List, Read, Recall, Save, Search},
    reach::Reach,
    shown::{CreateResult, Differences, ListResult, RecallResult, SaveResult, SearchResult},
};

/// So many checkpoints are listed, and found, unless another number is asked for.
const LISTED: usize = 20;
const FOUND: usize = 10;
/// The most that may be asked for.
const LISTED_MAX: usize = 1000;
/// So many changes are handed out.
const CHANGES_MAX: usize = 500;
/// The shortest difference of a file's lines is looked for no longer.
const LINES_TIME: Duration = Duration::from_secs(5);
/// No longer file is handed out: agents take no more at once.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// The reason for which a checkpoint or a session is not shown.
const NOT_YOURS: &str =
    "works in another folder: an agent reads checkpoints of its own folder alone, unless its user sets `mcp.read_others`";

/// The way in which the store is opened.
#[derive(Clone, Debug)]
pub struct Opener {
    /// Its folder.
    pub path: PathBuf,
    /// True if a call that records something may make it. A store that was named must exist.
    pub makes_store: bool,
    /// The folder in which it is noted how far the store goes.
    pub memory: Option<PathBuf>,
    /// The longest wait for another process's commit.
    pub lock_timeout: Duration,
}

/// The tools.
pub struct Work {
    opener: Opener,
    host: Box<dyn Host + Send + Sync>,
    /// One checkpoint is made at a time.
    making: Mutex<()>,
}

/// Collects what a workflow says.
#[derive(Default)]
struct MessageCollector(Mutex<Vec<String>>);

impl Progress for MessageCollector {
    fn notice(&self, text: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    }
}

impl Observer for MessageCollector {
    fn warn(&self, notice: &Notice) {
        self.notice(&notice.to_string());
    }
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Work {
    pub fn new(opener: Opener, host: Box<dyn Host + Send + Sync>) -> Self {
        Work { opener, host, making: Mutex::default() }
    }

    /// The store as it is now. It is opened for each call: an agent may live for days beside other programs that work on the store.
    fn store(&self, create: bool) -> Result<Store, String> {
        let secrets = secrets(&|name| self.host.variable(name));
        let create = create && self.opener.makes_store;
        let (lock_timeout, memory) = (self.opener.lock_timeout, self.opener.memory.clone());
        let options = OpenOptions { create, lock_timeout, secrets, memory, ..OpenOptions::default() };
        parhelia_ledger::open(&self.opener.path, &options).map_err(said)
    }

    /// The run that the agent is of: that of its marker, where it descends from it, else the one above this process.
    fn own(&self, store: &Store) -> parhelia_host::Result<Option<Run>> {
        match run::own_run(store, &*self.host)?.filter(|run| run::is_inside(run, &*self.host)) {
            None => run::above(store),
            own => Ok(own),
        }
    }

    /// The session that the agent works in: its run's, else that of its folder.
    fn target(&self, store: &Store, folder: &Path) -> parhelia_host::Result<Target> {
        let own = self.own(store)?;
        let target = target::target(store, &*self.host, own.as_ref().map(|run| run.session.clone()), folder)?;
        Ok(Target { run: own, ..target })
    }

    /// The folder whose checkpoints belong to the agent: its session's, wherever it has gone from there.
    fn own_folder(&self, store: &Store, folder: PathBuf) -> parhelia_host::Result<PathBuf> {
        let Some(own) = self.own(store)? else { return Ok(folder) };
        let place = store.view().session(&own.session)?.and_then(|session| session.workspace);
        Ok(place.map_or(folder, |place| place.folder()))
    }

    fn session(&self, store: &Store) -> Result<String, String> {
        let folder = self.host.folder().ok_or("the working folder is gone")?;
        Ok(self.target(store, &folder).map_err(said)?.session)
    }

    /// The checkpoints that the agent may read, as its user has configured it.
    fn reach<'v>(&self, store: &Store, view: &'v View) -> Result<Reach<'v>, String> {
        let folder = self.host.folder().ok_or("the working folder is gone")?;
        let target = self.target(store, &folder).map_err(said)?;
        let folder = self.own_folder(store, folder).map_err(said)?;
        let reads_others = self.host.config(&folder).map_err(said)?.mcp.read_others;
        Reach::of(view, target.session, &folder, reads_others).map_err(said)
    }

    pub fn create(&self, asked: &Create) -> Result<CreateResult, String> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let tags = asked.tags.iter().map(|tag| tag.parse::<Tag>()).collect::<Result<Vec<_>, _>>().map_err(said)?;
        let (store, host, heard) = (self.store(true)?, &*self.host, MessageCollector::default());
        let made = (|| {
            let folder = host.folder().unwrap_or_else(|| "/".into());
            let target = self.target(&store, &folder)?;
            let known = target.known.as_ref().filter(|_| target.run.is_some());
            let workspace = known.and_then(|known| known.workspace.as_ref()).map_or(folder, parhelia_ledger::Place::folder);
            let config = host.config(&workspace)?;
            let (detail, message) = (Some("mcp".into()), asked.message.clone());
            let request = FolderRequest { trigger: Trigger::Manual, detail, message, ..FolderRequest::default() };
            let made = checkpoint::make_of_folder(&store, host, (&workspace, &config), &target, request, &heard)?;
            let id = made.outcome.checkpoint.record.id;
            if !tags.is_empty() {
                tag::tag(&store, host, id, &tags, &heard)?;
            }
            Ok::<_, parhelia_host::Error>(made)
        })();
        let made = made.map_err(said)?;
        let mut warnings = heard.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        warnings.extend(made.failed());
        let view = store.refresh().map_err(said)?;
        Ok(CreateResult { checkpoint: shown(&view, &made.outcome.checkpoint)?, warnings })
    }

    pub fn list(&self, asked: &List) -> Result<ListResult, String> {
        let store = self.store(false)?;
        let view = store.view();
        let session = match &asked.session {
            Some(name) => {
                let id = view.session_id(name).map_err(said)?;
                if !self.reach(&store, &view)?.has_session(&id) {
                    return Err(format!("session {id} {NOT_YOURS}"));
                }
                id
            }
            None => self.session(&store)?,
        };
        let limit = asked.limit.unwrap_or(LISTED).clamp(1, LISTED_MAX);
        let mut found = view.newest_first_of(&session).map_err(said)?;
        let some: Vec<_> = found.by_ref().take(limit).collect::<Result<_, _>>().map_err(said)?;
        let checkpoints = some.iter().map(|checkpoint| shown(&view, checkpoint)).collect::<Result<_, _>>()?;
        Ok(ListResult { checkpoints, truncated: found.next().is_some() })
    }

    pub fn manifest(&self, checkpoint: &str) -> Result<String, String> {
        let store = self.store(false)?;
        let found = self.find(&store, checkpoint)?;
        let marks = store.view().marks(found.record.id).map_err(said)?;
        serde_json::to_string_pretty(&Manifest::with(&store, &found, &marks).to_json()).map_err(said)
    }

    pub fn diff(&self, asked: &Diff) -> Result<Differences, String> {
        let store = self.store(false)?;
        let (old, _old) = self.pinned(&store, &asked.old)?;
        let (new, _new) = self.pinned(&store, asked.new.as_deref().unwrap_or("latest"))?;
        let mut changes = changed::between(&store, &old, &new).map_err(said)?;
        let counts = Summary::of(&changes);
        if let Some(path) = &asked.path {
            let wanted = name::parse(path);
            let wanted = name::as_path(&wanted).strip_prefix(".").map_or(&wanted[..], |path| path.as_os_str().as_bytes());
            changes.retain(|change| change.path == wanted || change.old_path() == wanted);
            if changes.is_empty() {
                // A path that is in neither is a mistake, not one that is the same in both.
                store.node_at(&old, wanted).or_else(|_| store.node_at(&new, wanted)).map_err(said)?;
            }
        }
        let truncated = changes.len() > CHANGES_MAX;
        changes.truncate(CHANGES_MAX);
        let shown = |change| -> Result<Change, Error> {
            let shown = Change::from(change);
            if asked.path.is_none() {
                return Ok(shown);
            }
            let (old, new) = (store_content(&store), store_content(&store));
            let options = TextOptions { time_max: Some(LINES_TIME), ..TextOptions::default() };
            let lines = file_diff(change, &old, &new, options)?;
            Ok(shown.with_diff(lines.map(|lines| String::from_utf8_lossy(&lines).into_owned())))
        };
        let changes = changes.iter().map(shown).collect::<Result<_, _>>().map_err(said)?;
        Ok(Differences { old: old.id(), new: new.id(), changes, truncated, counts })
    }

    pub fn search(&self, asked: &Search) -> Result<SearchResult, String> {
        let query: Query = asked.query.parse().map_err(said)?;
        let store = self.store(false)?;
        let limit = asked.limit.unwrap_or(FOUND).clamp(1, LISTED_MAX);
        let view = store.view();
        let reach = self.reach(&store, &view)?;
        let request = SearchRequest { query: &query, session: None, since: None, limit: usize::MAX };
        let mut found = search::search(&store, &*self.host, &request, &()).map_err(said)?;
        let mut own = Vec::new();
        for hit in found.hits.drain(..) {
            if reach.has(&hit.checkpoint).map_err(said)? {
                own.push(hit);
            }
        }
        Ok(SearchResult { found: own.iter().take(limit).map(SearchHit::of).collect(), matching: own.len() as u64 })
    }

    pub fn recall(&self, asked: &Recall) -> Result<RecallResult, String> {
        let store = self.store(true)?;
        let known = memory::read(&store.layout().root, &self.project(&store)?, self.host.now()).map_err(said)?;
        let hits = memory::recall(&known, &asked.words);
        let entries = hits.iter().map(|hit| Knowledge {
            text: memory::said(hit.entry),
            ..Knowledge::of(hit.section, hit.entry, hit.contradicts.iter().copied())
        });
        Ok(RecallResult { entries: entries.collect() })
    }

    pub fn save(&self, asked: Save) -> Result<SaveResult, String> {
        let store = self.store(true)?;
        let new = New { key: asked.key, text: asked.text, files: asked.files, replaces: false };
        let folder = self.host.folder().ok_or("the working folder is gone")?;
        let session = self.target(&store, &folder).map_err(said)?.run.map(|run| run.session);
        let kept = memory::save_for_agent(&store, &*self.host, &self.project(&store)?, &new, session).map_err(said)?;
        Ok(SaveResult { entry: Knowledge::of(kept.section, &kept.entry, &kept.contradicts), recorded: kept.is_new })
    }

    /// The project of the agent's session.
    fn project(&self, store: &Store) -> Result<Project, String> {
        let folder = self.host.folder().ok_or("the working folder is gone")?;
        let target = self.target(store, &folder).map_err(said)?;
        Ok(Project::of(&store.layout().root, &folder, target.known.as_ref()))
    }

    pub fn read(&self, asked: &Read) -> Result<String, String> {
        let store = self.store(false)?;
        let (checkpoint, _pin) = self.pinned(&store, &asked.checkpoint)?;
        let node = store.node_at(&checkpoint, &name::parse(&asked.path)).map_err(said)?;
        match node.kind {
            Kind::File { size, .. } if size > FILE_BYTES_MAX => {
                Err(format!("{} has {size} bytes, and files of {FILE_BYTES_MAX} bytes at most are read here", asked.path))
            }
            Kind::File { blob, size, .. } => {
                let bytes = store.blob(blob, size).and_then(|blob| blob.read_all()).map_err(said)?;
                String::from_utf8(bytes).map_err(|_| format!("{} is no text", asked.path))
            }
            Kind::Folder { tree, .. } => {
                let nodes = store.folder(tree).map_err(said)?;
                let names = nodes.iter().map(|node| {
                    let slash = if node.as_folder().is_some() { "/" } else { "" };
                    format!("{}{slash}", name::display(&node.name))
                });
                Ok(names.collect::<Vec<_>>().join("\n"))
            }
            kind => Err(format!("{} is a {}, and no file", asked.path, kind.name())),
        }
    }

    /// A checkpoint by what names it; `latest` is that of the agent's session.
    fn find(&self, store: &Store, text: &str) -> Result<record::Checkpoint, String> {
        let text = match text.strip_prefix("latest") {
            Some(_) => format!("{}@{text}", self.session(store)?),
            None => text.to_owned(),
        };
        let view = store.view();
        let found = selector::find(&view, &text).map_err(said)?;
        match self.reach(store, &view)?.has(&found).map_err(said)? {
            true => Ok(found),
            false => Err(format!("checkpoint {} is of session {}, which {NOT_YOURS}", found.id(), found.record.session)),
        }
    }

    /// The same, kept readable as long as the pin is held.
    fn pinned(&self, store: &Store, text: &str) -> Result<(record::Checkpoint, Option<Pin>), String> {
        let found = self.find(store, text)?;
        let pin = store.pin_for_reading([found.record.id], "an MCP server", |_| {});
        // It may have been deleted before it was pinned.
        let found = store.refresh().and_then(|view| view.checkpoint(found.record.id)).map_err(said)?;
        Ok((found.ok_or_else(|| said(Error::NoCheckpoint { selector: text.to_owned() }))?, pin))
    }
}

/// A checkpoint as other programs see it.
fn shown(view: &View, checkpoint: &record::Checkpoint) -> Result<Checkpoint, String> {
    Ok(Checkpoint::of(&Outline::from(checkpoint), &view.marks(checkpoint.record.id).map_err(said)?))
}
