//! A checkpoint from an archive: members go through the same sink as a workspace's files do.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    os::{fd::AsFd, unix::fs::FileExt},
    path::Path,
};

use jiff::Timestamp;

use super::{
    Captured, Outcome, abandon,
    belonging::{Belonging, works_in},
    commit,
    content::{Earlier, Failure, Reader as ContentReader},
    links::store_links,
    new_id, orphans,
    packs::PackSink,
    roots::{Roots, count_omissions, list_omissions, store_root},
    sink::{Batch, Sink},
    state,
};
use crate::{
    archive::import::{Member, MemberContent, Reader},
    clock,
    error::{Error, IoContext, Result},
    event::Actor,
    files::{self, How},
    format::SINGLE_CHUNK_BYTES,
    id::{BlobId, TreeId},
    links::LinkedFolder,
    name,
    omitted::{Omission, Reason},
    pin::Pin,
    progress::{self, Phase, Progress},
    projection::Session,
    record::{Consistency, IMPORTED, Part, RECORD_SCHEMA, Record, Rules, Trigger, Workspace},
    secrets,
    store::Store,
    tree::{self, Kind, Meta, Node, Totals},
    view::View,
};

/// So many names are tried for a session whose own is taken.
const NAMES_MAX: usize = 100;

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

/// Makes a checkpoint of what an archive holds.
pub fn import(store: &Store, archive: &mut Reader<'_>, options: &ImportOptions, progress: &dyn Progress) -> Result<Outcome> {
    let started_at = clock::timestamp();
    store.check_writable()?;
    [&options.session, &options.origin_session].into_iter().flatten().try_for_each(|name| name::check_session(name))?;
    let mut pin = Pin::take(&store.layout().pins(), true, "import")?;
    let view = store.refresh()?;
    if let Some(session) = options.session.as_deref().map(|name| worked_in(&view, name)).transpose()?.flatten() {
        return Err(works_in(&session.id, &session.workspace.unwrap_or_default()));
    }
    let adopted = orphans::adopt(store, pin.op, progress)?;
    progress.phase(Phase::Archive, None, None);
    let packs = PackSink::new(store, store.view(), pin.op, adopted.content);
    let sink = Sink::Store(Box::new(packs));
    let gathered = gather_and_store(store, archive, options, &sink, &mut pin, progress);
    let (gathered, omissions, roots) = match gathered {
        Ok(gathered) => gathered,
        Err(e) => return Err(abandon(pin, sink, e)),
    };
    let record = new_record(store, archive.record(), options, &gathered.root, roots, &omissions, started_at)?;
    progress.phase(Phase::Commit, None, None);
    let belonging = Belonging { actor: Actor { user: None, via: "import".into() }, place: None, keeps_place: false };
    let Some(committed) = commit::commit(store, pin, sink, record, &belonging, adopted.packs, progress)? else {
        return Err(Error::Overtaken { tries: 1 });
    };
    Ok(Outcome::committed(committed, omissions, (gathered.files, gathered.bytes), adopted.notices))
}

/// Stores what an archive holds, and the tables and the root tree of its checkpoint.
fn gather_and_store(
    store: &Store,
    archive: &mut Reader<'_>,
    options: &ImportOptions,
    sink: &Sink<'_>,
    pin: &mut Pin,
    progress: &dyn Progress,
) -> Result<(Gathered, Vec<Omission>, Roots)> {
    let gathered = gather(store, archive, sink, progress)?;
    if let Some(origin) = archive.record().filter(|_| options.session.is_none()) {
        let unfit = |e: Error| archive.refused(b"", &format!("{e}; --session gives another"));
        name::check_session(&origin.session).map_err(unfit)?;
    }
    let mut omissions = archive.omissions()?;
    omissions.extend(gathered.secrets.iter().cloned());
    omissions.sort_unstable();
    omissions.dedup();
    let mut captured = Captured::default();
    let listed = list_omissions(&omissions, &mut captured);
    let state = state::take(store, sink, pin, None, &mut captured, progress)?.folder;
    let nodes: Vec<&Node> = state.iter().chain([&gathered.root]).collect();
    let links = store_links(store, sink, &gathered.links, None, progress)?;
    let roots = store_root(sink, &nodes, None, links, listed)?;
    Ok((gathered, omissions, roots))
}

/// The record of an import. `from` is that of the exported checkpoint, where the archive has one.
fn new_record(
    store: &Store,
    from: Option<&Record>,
    options: &ImportOptions,
    root: &Node,
    roots: Roots,
    omissions: &[Omission],
    started_at: Timestamp,
) -> Result<Record> {
    let totals = root.as_folder().map(|(_, totals)| *totals).unwrap_or_default();
    let created_at = clock::timestamp();
    let had = options.origin.clone().or_else(|| from.map(|o| o.id.to_string()));
    let session = match &options.session {
        Some(session) => session.clone(),
        None => {
            let exported = options.origin_session.as_deref().or(from.map(|origin| origin.session.as_str()));
            free_session(store, exported.unwrap_or("imported"))?
        }
    };
    Ok(Record {
        schema: RECORD_SCHEMA,
        id: new_id(created_at),
        session,
        run: None,
        epoch: 0,
        fenced: false,
        parent: None,
        depth: 1,
        trigger: Trigger::Manual,
        trigger_detail: Some(had.map_or_else(|| "import".to_owned(), |id| format!("import of {id}"))),
        message: options.message.clone().or_else(|| from.and_then(|o| o.message.clone())),
        root: roots.tree,
        links: roots.links,
        parts: BTreeMap::from([("workspace".to_owned(), Part::Captured)]),
        consistency: from.map_or(Consistency::Unknown, |o| o.consistency),
        started_at,
        created_at,
        workspace: Workspace {
            path: from.map(|o| o.workspace.path.clone()).unwrap_or_default(),
            files: totals.files,
            folders: totals.folders,
            entries: totals.entries,
            bytes: totals.bytes,
        },
        rules: from.map_or_else(Rules::default, |o| o.rules.clone()),
        omitted: count_omissions(roots, omissions),
        conversation: None,
        git: None,
        environment: None,
        usage: None,
        extra: [(IMPORTED.to_owned(), true.into())].into_iter().collect(),
    })
}

/// The session of that id or name which works in a folder here. Nothing is imported into one: it would be what `latest` means in that folder,
/// and the parent of what is captured there next.
fn worked_in(view: &View, name: &str) -> Result<Option<Session>> {
    let is_it = |session: &Session| (session.id == name || session.name == name) && session.workspace.is_some();
    Ok(view.sessions()?.into_iter().find(is_it))
}

/// The exported checkpoint's session, or a name beside it where that works in a folder here.
fn free_session(store: &Store, exported: &str) -> Result<String> {
    let view = store.refresh()?;
    let names = std::iter::once(exported.to_owned()).chain((1..).map(|n| match n {
        1 => format!("{exported}-imported"),
        _ => format!("{exported}-imported-{n}"),
    }));
    for name in names.take(NAMES_MAX) {
        if name::check_session(&name).is_ok() && worked_in(&view, &name)?.is_none() {
            return Ok(name);
        }
    }
    Err(Error::Refused(format!(
        "session {exported} works in a folder here, and what is imported needs another name: give it with --session"
    )))
}

/// Content of an archive, stored but for the root.
struct Gathered {
    root: Node,
    links: Vec<LinkedFolder>,
    files: u64,
    bytes: u64,
    /// Members that were left out because they hold credentials.
    secrets: Vec<Omission>,
}

/// An entry on its way into a tree. Folders are encoded when all members were read, because members come in any order.
struct Item {
    node: Node,
    /// The folder that it is in; the root's is the root itself.
    folder: usize,
    children: Option<BTreeMap<Vec<u8>, usize>>,
    group: Option<usize>,
}

struct Items {
    items: Vec<Item>,
    groups: usize,
    /// Memory that they take, about.
    bytes: u64,
}

/// Memory that an entry takes until all are there, about: its name is a key of its folder as well.
fn kept_bytes(node: &Node) -> u64 {
    let xattrs: usize = node.meta.xattrs.iter().map(|(name, value)| name.len() + value.len() + size_of::<tree::Xattr>()).sum();
    let content = match &node.kind {
        Kind::File { holes, .. } => size_of_val(holes.as_slice()),
        Kind::Symlink { target } => target.len(),
        _ => 0,
    };
    (size_of::<Item>() + 2 * node.name.len() + size_of::<(Vec<u8>, usize)>() + xattrs + content) as u64
}

fn folder_node(name: &[u8], meta: Meta) -> Node {
    let kind = Kind::Folder { tree: TreeId([0; 32]), totals: Totals::default() };
    Node { name: name.to_vec(), meta, links: 1, kind }
}

impl Items {
    fn new() -> Self {
        let node = folder_node(b"workspace", Meta { mode: 0o755, ..Meta::default() });
        Items { items: vec![Item { node, folder: 0, children: Some(BTreeMap::new()), group: None }], groups: 0, bytes: 0 }
    }

    fn path(&self, mut at: usize) -> Vec<u8> {
        let mut parts = Vec::new();
        while at != 0 {
            parts.push(self.items[at].node.name.as_slice());
            at = self.items[at].folder;
        }
        parts.reverse();
        if parts.is_empty() { b".".to_vec() } else { parts.join(&b'/') }
    }

    fn find(&self, path: &[u8]) -> Option<usize> {
        name::components(path).try_fold(0, |at, part| self.items[at].children.as_ref()?.get(part).copied())
    }

    /// Puts an entry at a path; folders that no member has named yet are made on the way. A later member replaces an earlier one.
    /// `None` where something that is no folder is on the way.
    fn put(&mut self, path: &[u8], node: Node, group: Option<usize>) -> Option<()> {
        let parts: Vec<&[u8]> = name::components(path).collect();
        let Some((last, folders)) = parts.split_last() else {
            self.items[0].node.meta = node.meta;
            return Some(());
        };
        let mut at = 0;
        for part in folders {
            let next = match self.items[at].children.as_ref().and_then(|c| c.get(*part)) {
                Some(next) => *next,
                None => self.add(at, folder_node(part, Meta { mode: 0o755, ..Meta::default() }), None),
            };
            self.items[next].children.as_ref()?;
            at = next;
        }
        let existing = self.items[at].children.as_ref().and_then(|c| c.get(*last)).copied();
        match existing {
            Some(old) if self.items[old].children.is_some() && node.as_folder().is_some() => {
                self.items[old].node.meta = node.meta;
            }
            _ => {
                self.add(at, Node { name: last.to_vec(), ..node }, group);
            }
        }
        Some(())
    }

    fn add(&mut self, folder: usize, node: Node, group: Option<usize>) -> usize {
        let index = self.items.len();
        let name = node.name.clone();
        let children = node.as_folder().is_some().then(BTreeMap::new);
        self.bytes = self.bytes.saturating_add(kept_bytes(&node));
        self.items.push(Item { node, folder, children, group });
        if let Some(siblings) = &mut self.items[folder].children {
            siblings.insert(name, index);
        }
        index
    }

    /// Encodes all folders, the deepest first, and lists the hard-linked entries in the order of a walk.
    fn encode(mut self, batch: &mut Batch<'_>) -> Result<(Node, Vec<LinkedFolder>)> {
        // Children come behind their folder in this order, so that it can be taken from its end.
        let mut preorder = Vec::with_capacity(self.items.len());
        let mut links = Vec::new();
        let mut stack = vec![(0, 0)];
        while let Some((at, depth)) = stack.pop() {
            preorder.push(at);
            let Some(children) = &self.items[at].children else { continue };
            stack.extend(children.values().rev().map(|child| (*child, depth + 1)));
            let mut linked = LinkedFolder::new(depth, &self.items[at].node.name);
            for (name, child) in children {
                if let Some(group) = self.items[*child].group {
                    linked.push(name, (0, group as u64));
                }
            }
            links.push(linked);
        }
        for at in preorder.iter().rev() {
            let Some(children) = self.items[*at].children.take() else { continue };
            let entries: Vec<Node> = children.values().map(|child| self.items[*child].node.clone()).collect();
            let (tree, totals) = batch.folder(&entries, None).map_err(|e| e.at(&self.path(*at)))?;
            self.items[*at].node.kind = Kind::Folder { tree, totals };
        }
        let root = self.items.swap_remove(0).node;
        Ok((root, links))
    }
}

fn gather(store: &Store, archive: &mut Reader<'_>, sink: &Sink<'_>, progress: &dyn Progress) -> Result<Gathered> {
    let mut batch = Batch::new(sink)?;
    let mut reader = ContentReader::new(store, progress);
    let mut items = Items::new();
    let (mut files, mut bytes) = (0, 0u64);
    let mut secrets: BTreeSet<Vec<u8>> = BTreeSet::new();
    while let Some(member) = archive.next_member()? {
        progress::check(progress)?;
        let Member { path, meta, links, content } = member;
        let is_secret = match &content {
            MemberContent::Folder => false,
            MemberContent::HardLink { leader } if secrets.contains(&plain(leader)) => true,
            _ => is_secret(store, archive, &items, &secrets, &path),
        };
        if is_secret {
            items.bytes = items.bytes.saturating_add((size_of::<Omission>() + 2 * path.len()) as u64);
            secrets.insert(plain(&path));
            archive.check_kept(&path, items.bytes)?;
            continue;
        }
        let file_name = path.rsplit(|b| *b == b'/').next().unwrap_or_default().to_vec();
        let node = |kind| Node { name: file_name.clone(), meta: meta.clone(), links: links.max(1), kind };
        let placed = match content {
            MemberContent::File { size, holes } => {
                let blob =
                    read_file(store, archive, &mut reader, &mut batch, &file_name, size, &holes).map_err(|e| e.at(&path))?;
                files += 1;
                bytes = bytes.saturating_add(size);
                progress.advance(1, size);
                items.put(&path, node(Kind::File { size, blob, holes }), None)
            }
            MemberContent::HardLink { leader } => {
                let missing = || archive.refused(&path, "a hard link to a member that is not there");
                let at = items.find(&leader).filter(|at| items.items[*at].children.is_none()).ok_or_else(missing)?;
                let fresh = items.groups;
                let group = *items.items[at].group.get_or_insert(fresh);
                items.groups = items.groups.max(group + 1);
                let node = items.items[at].node.clone();
                items.put(&path, node, Some(group))
            }
            MemberContent::Folder => items.put(&path, folder_node(&file_name, meta), None),
            MemberContent::Symlink { target } => items.put(&path, node(Kind::Symlink { target }), None),
            MemberContent::Fifo => items.put(&path, node(Kind::Fifo), None),
            MemberContent::Socket => items.put(&path, node(Kind::Socket), None),
            MemberContent::CharDevice { major, minor } => items.put(&path, node(Kind::CharDevice { major, minor }), None),
            MemberContent::BlockDevice { major, minor } => items.put(&path, node(Kind::BlockDevice { major, minor }), None),
        };
        placed.ok_or_else(|| archive.refused(&path, "it lies in something that is no folder"))?;
        archive.check_kept(&path, items.bytes)?;
    }
    count_links(&mut items);
    let (root, links) = items.encode(&mut batch)?;
    batch.finish()?;
    let reason = || Reason::Excluded(store.secrets().reason.clone());
    let secrets = secrets.into_iter().map(|path| Omission { path, reason: reason() }).collect();
    Ok(Gathered { root, links, files, bytes, secrets })
}

fn plain(path: &[u8]) -> Vec<u8> {
    name::components(path).collect::<Vec<_>>().join(&b'/')
}

/// True if a member must not enter the store. Where that depends on what lies beside its folder, on the members before it.
fn is_secret(store: &Store, archive: &Reader<'_>, items: &Items, left_out: &BTreeSet<Vec<u8>>, path: &[u8]) -> bool {
    let parts: Vec<&[u8]> = name::components(path).collect();
    let Some((last, folder)) = parts.split_last() else { return false };
    if store.secrets().has_name(last) {
        return true;
    }
    let beside = |name: &str| {
        let around = folder.split_last().map_or(&[][..], |(_, around)| around);
        let path = [around, &[name.as_bytes()]].concat().join(&b'/');
        !folder.is_empty() && (left_out.contains(&path) || items.find(&path).is_some())
    };
    let workspace = archive.record().map(|record| name::parse(&record.workspace.path)).unwrap_or_default();
    let folder = Path::new("/").join(name::as_path(&workspace)).join(name::as_path(&folder.join(&b'/')));
    secrets::matches_one_of(&store.secrets().names_in(&folder, &beside), last)
}

/// Gives each member of a group at least as many links as the group has members: not every archive tells link counts.
fn count_links(items: &mut Items) {
    let mut members: HashMap<usize, u32> = HashMap::new();
    for group in items.items.iter().filter_map(|item| item.group) {
        *members.entry(group).or_default() += 1;
    }
    for item in &mut items.items {
        let counted = item.group.and_then(|group| members.get(&group)).copied().unwrap_or(1);
        item.node.links = item.node.links.max(counted);
    }
}

fn read_file(
    store: &Store,
    archive: &mut Reader<'_>,
    reader: &mut ContentReader<'_>,
    batch: &mut Batch<'_>,
    file_name: &[u8],
    size: u64,
    holes: &[tree::Hole],
) -> Result<BlobId> {
    if size as usize <= SINGLE_CHUNK_BYTES {
        let mut bytes = vec![0; size as usize];
        archive.read_content(|offset, piece| {
            let start = offset as usize;
            bytes[start..start + piece.len()].copy_from_slice(piece);
            Ok(())
        })?;
        let blob = store.ids().blob(&bytes);
        if size > 0 {
            batch.small_chunk(blob.object(), &bytes, file_name, None)?;
        }
        return Ok(blob);
    }
    // A large file is put down first, because its chunks are cut by what comes after them.
    let folder = store.layout().cache();
    let path = folder.join(format!("{}.tmp", crate::id::OpId::generate()));
    let open = || -> std::io::Result<std::fs::File> {
        let file = files::open(&path, How::New)?;
        files::remove(&path)?;
        file.set_len(size)?;
        Ok(file)
    };
    let file = open().at("create file", &path)?;
    archive.read_content(|offset, piece| file.write_all_at(piece, offset).at("write", &path))?;
    match reader.read_once(file.as_fd(), file_name, size, holes, &Earlier::new(store, None), batch) {
        Ok((blob, _)) => Ok(blob),
        Err(Failure::Store(e)) => Err(e),
        Err(Failure::Unreadable(errno)) => Err(errno).at("read", &path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Hole;

    #[test]
    fn an_entry_takes_the_memory_of_all_that_it_holds() {
        let file = |holes| Kind::File { size: 9, blob: BlobId([0; 32]), holes };
        let node = |name: &str, xattrs: &[(&str, &str)], kind| {
            let xattrs = xattrs.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect();
            kept_bytes(&Node { name: name.into(), meta: Meta { xattrs, ..Meta::default() }, links: 1, kind })
        };
        let least = (size_of::<Item>() + size_of::<(Vec<u8>, usize)>()) as u64;
        assert_eq!(node("", &[], Kind::Fifo), least);
        assert_eq!(node("12345", &[], file(Vec::new())), least + 10);
        assert_eq!(node("1", &[], file(vec![Hole { start: 1, bytes: 1 }; 3])), least + 2 + 3 * size_of::<Hole>() as u64);
        assert_eq!(node("1", &[], Kind::Symlink { target: b"1234567".to_vec() }), least + 2 + 7);
        let xattr = size_of::<tree::Xattr>() as u64;
        assert_eq!(node("1", &[("a", "1234"), ("bcd", "")], Kind::Fifo), least + 2 + 8 + 2 * xattr);
    }
}
