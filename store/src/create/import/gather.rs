//! Reads an archive and gathers its entries.

use std::{
    collections::{BTreeSet, HashMap},
    os::{fd::AsFd, unix::fs::FileExt},
    path::Path,
};

use super::items::{Items, folder_node};
use crate::{
    archive::import::{Member, MemberContent, Reader},
    create::{
        content::{Earlier, Failure, Reader as ContentReader},
        sink::{Batch, Sink},
    },
    error::{IoContext, Result},
    files::{self, How},
    format::SINGLE_CHUNK_BYTES,
    id::BlobId,
    links::LinkedFolder,
    name,
    omitted::{Omission, Reason},
    progress::{self, Progress},
    secrets,
    store::Store,
    tree::{self, Kind, Node},
};

/// Content of an archive, stored but for the root.
pub(super) struct ArchiveContent {
    pub(super) root: Node,
    pub(super) links: Vec<LinkedFolder>,
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// Members that were left out because they hold credentials.
    pub(super) secrets: Vec<Omission>,
}

pub(super) fn gather(
    store: &Store,
    archive: &mut Reader<'_>,
    sink: &Sink<'_>,
    progress: &dyn Progress,
) -> Result<ArchiveContent> {
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
    Ok(ArchiveContent { root, links, files, bytes, secrets })
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
