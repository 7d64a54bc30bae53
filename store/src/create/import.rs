//! A checkpoint from an archive: members go through the same sink as a workspace's files do.

mod gather;
mod items;

use jiff::Timestamp;
use parhelia_name::step::Step;
use serde_json::Value;

use self::gather::{ArchiveContent, gather};
use super::{
    CapturedState, Outcome, abandon, commit,
    links::store_links,
    orphans,
    packs::PackSink,
    record::new_id,
    roots::{Roots, count_omissions, list_omissions, store_root},
    sink::Sink,
    state,
};
use crate::{
    archive::import::Reader,
    clock,
    error::{Error, Result},
    event::{Actor, NewEvent},
    maker::Maker,
    name,
    omitted::Omission,
    pin::Pin,
    progress::{Phase, Progress},
    record::{Cause, Consistency, IMPORTED, IMPORTED_FROM, Part, RECORD_SCHEMA, Record, Rules, Trigger, Workspace},
    store::Store,
    tree::Node,
};

/// The way by which an import's events came, and the detail of a checkpoint of which no more is known.
const IMPORT: &str = "import";

/// As what to import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The session, none that works in a folder; where it is not given, that of the exported checkpoint, or a name beside it, or else
    /// `imported`.
    pub session: Option<String>,
    /// Message of its maker; that of the exported checkpoint, where it is not given.
    pub message: Option<String>,
    /// The session that it had where it comes from, where the archive does not say.
    pub origin_session: Option<String>,
    /// The id that it had where it comes from; that of the exported checkpoint, where it is not given.
    pub origin: Option<String>,
}

/// Facts about a checkpoint that its archive does not tell, as another program has written them down.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportMetadata {
    /// The reason for which it was made there; [`Trigger::Manual`] where it is not given.
    pub trigger: Option<Trigger>,
    /// Time at which its capture began; that of its end where it is not given.
    pub started_at: Option<Timestamp>,
    /// Time at which its capture ended; that of the import where it is not given.
    pub created_at: Option<Timestamp>,
    /// The folder that was captured, as shown text.
    pub workspace: Option<String>,
    /// Its state beside the workspace.
    pub state: CapturedState,
    /// Its id, its parent and the like, as they were there. Kept in the record as they are.
    pub from: Option<Value>,
    /// Statements about it, which are appended with it. Their subject is filled in.
    pub marks: Vec<NewEvent>,
}

/// Makes a checkpoint of what an archive holds.
pub fn import(store: &Store, archive: &mut Reader<'_>, options: &ImportOptions, progress: &dyn Progress) -> Result<Outcome> {
    import_with(store, archive, options, ImportMetadata::default(), progress)
}

/// Makes a checkpoint of what an archive holds, and of what is known beside it.
pub fn import_with(
    store: &Store,
    archive: &mut Reader<'_>,
    options: &ImportOptions,
    mut beside: ImportMetadata,
    progress: &dyn Progress,
) -> Result<Outcome> {
    let started_at = clock::timestamp();
    store.check_writable()?;
    [&options.session, &options.origin_session].into_iter().flatten().try_for_each(|name| name::check_session(name))?;
    let mut pin = Pin::take(&store.layout().pins(), true, "import")?;
    if let Some(name) = &options.session {
        store.refresh()?.import_session(Some(name), name)?;
    }
    let adopted = orphans::adopt(store, pin.op, progress)?;
    progress.phase(Phase::Archive, None, None);
    let packs = PackSink::new(store, store.view(), pin.op, adopted.content);
    let sink = Sink::Store(Box::new(packs));
    let gathered = gather_and_store(store, archive, options, &mut beside.state, &sink, &mut pin, progress);
    let (gathered, omissions, roots) = match gathered {
        Ok(gathered) => gathered,
        Err(e) => return Err(abandon(pin, sink, e)),
    };
    let marks = std::mem::take(&mut beside.marks);
    let found = ImportSource { root: &gathered.root, roots, omissions: &omissions, started_at };
    let record = new_record(store, archive.record(), options, beside, &found)?;
    progress.phase(Phase::Commit, None, None);
    let maker = Maker { actor: Actor::program(IMPORT), place: None, keeps_place: false, marks };
    let Some(committed) = commit::commit(store, pin, sink, record, &maker, adopted.packs, progress)? else {
        return Err(Error::Overtaken { tries: 1 });
    };
    Ok(Outcome::committed(committed, omissions, (gathered.files, gathered.bytes), adopted.notices))
}

/// Stores what an archive holds, and the tables and the root tree of its checkpoint.
fn gather_and_store(
    store: &Store,
    archive: &mut Reader<'_>,
    options: &ImportOptions,
    captured: &mut CapturedState,
    sink: &Sink<'_>,
    pin: &mut Pin,
    progress: &dyn Progress,
) -> Result<(ArchiveContent, Vec<Omission>, Roots)> {
    let gathered = gather(store, archive, sink, progress)?;
    if let Some(origin) = archive.record().filter(|_| options.session.is_none()) {
        let unfit = |e: Error| archive.refused(b"", &format!("{e}; {} gives another", Step::SessionOption));
        name::check_session(&origin.session).map_err(unfit)?;
    }
    let mut omissions = archive.omissions()?;
    omissions.extend(gathered.secrets.iter().cloned());
    omissions.sort_unstable();
    omissions.dedup();
    let listed = list_omissions(&omissions, captured);
    let state = state::take(store, sink, pin, None, captured, progress)?.folder;
    let nodes: Vec<&Node> = state.iter().chain([&gathered.root]).collect();
    let links = store_links(store, sink, &gathered.links, None, progress)?;
    let roots = store_root(sink, &nodes, None, links, listed)?;
    Ok((gathered, omissions, roots))
}

/// The finds of an import in its archive.
struct ImportSource<'a> {
    root: &'a Node,
    roots: Roots,
    omissions: &'a [Omission],
    started_at: Timestamp,
}

/// The record of an import. `from` is that of the exported checkpoint, where the archive has one.
fn new_record(
    store: &Store,
    from: Option<&Record>,
    options: &ImportOptions,
    beside: ImportMetadata,
    found: &ImportSource<'_>,
) -> Result<Record> {
    let totals = found.root.as_folder().map(|(_, totals)| *totals).unwrap_or_default();
    let now = clock::timestamp();
    let started_at = beside.started_at.or(beside.created_at).unwrap_or(found.started_at);
    let had = options.origin.clone().or_else(|| from.map(|o| o.id.to_string()));
    let exported = options.origin_session.as_deref().or(from.map(|origin| origin.session.as_str())).unwrap_or("imported");
    let session = store.refresh()?.import_session(options.session.as_deref(), exported)?;
    let told = beside.from.map(|from| (IMPORTED_FROM.to_owned(), from));
    Ok(Record {
        schema: RECORD_SCHEMA,
        id: new_id(now),
        session,
        run: None,
        epoch: 0,
        fenced: false,
        parent: None,
        depth: 1,
        trigger: beside.trigger.unwrap_or_default(),
        told_cause: Some(Cause::Import),
        trigger_detail: Some(had.map_or_else(|| IMPORT.to_owned(), |id| format!("import of {id}"))),
        message: options.message.clone().or_else(|| from.and_then(|o| o.message.clone())),
        root: found.roots.tree,
        links: found.roots.links,
        parts: beside.state.parts.into_iter().chain([("workspace".to_owned(), Part::Captured)]).collect(),
        consistency: match (beside.state.consistency, from) {
            (Consistency::Unknown, Some(origin)) => origin.consistency,
            (told, _) => told,
        },
        started_at,
        created_at: beside.created_at.unwrap_or(now),
        workspace: Workspace {
            path: beside.workspace.or_else(|| from.map(|o| o.workspace.path.clone())).unwrap_or_default(),
            files: totals.files,
            folders: totals.folders,
            entries: totals.entries,
            bytes: totals.bytes,
        },
        rules: from.map_or_else(Rules::default, |o| o.rules.clone()),
        omitted: count_omissions(found.roots, found.omissions),
        conversation: beside.state.conversation,
        git: beside.state.git,
        environment: beside.state.environment,
        usage: beside.state.usage,
        extra: [(IMPORTED.to_owned(), true.into())].into_iter().chain(told).collect(),
    })
}
