//! Places where lost objects may still be: other stores, and live folders.

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use super::{SearchedFolder, SourceObject};
use crate::{
    create,
    error::{Error, IoContext, Result},
    graph::GraphPath,
    id::{ObjectId, Ulid},
    keys::Ids,
    layout::Layout,
    name,
    pack::ObjectKind,
    record::Checkpoint,
    store::Store,
    tree,
};

/// Nothing longer than this is one chunk.
const CHUNK_BYTES_MAX: u64 = 4 << 20;

/// Places to look, in order.
#[derive(Default)]
pub(super) struct Sources {
    stores: Vec<Store>,
    folders: Vec<Folder>,
}

struct Folder {
    path: PathBuf,
    /// Files by their length, which are looked into where none of the right name has the content.
    by_bytes: Option<HashMap<u64, Vec<PathBuf>>>,
    /// Files that may be one chunk, by their ids: made where a base is looked for.
    by_id: Option<HashMap<ObjectId, PathBuf>>,
    /// Trees and recipes as the folder has them now, by the rules of these checkpoints.
    objects: HashMap<ObjectId, Vec<u8>>,
    captured_for: HashSet<Ulid>,
    /// Tables of hard links as the folder has them now.
    tables: Vec<Vec<u8>>,
}

impl Sources {
    /// The folders that are no stores.
    pub(super) fn searched_folders(&self) -> Vec<SearchedFolder> {
        let below = |path: &Path| {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            let mut stores: Vec<PathBuf> =
                entries.map(|entry| entry.path()).filter(|path| Layout::has_settings_at(path)).collect();
            stores.sort_unstable();
            stores
        };
        self.folders.iter().map(|folder| SearchedFolder { path: folder.path.clone(), stores: below(&folder.path) }).collect()
    }

    /// Opens them: what has settings is a store. One with other keys has other ids, and nothing to give.
    pub(super) fn open(from: &[PathBuf], layout: &Layout) -> Result<Self> {
        let mut sources = Sources::default();
        for path in from {
            if Layout::has_settings_at(path) {
                sources.stores.push(Store::open_like(path, layout)?);
            } else if path.is_dir() {
                let (by_bytes, by_id, objects, captured_for, tables) = Default::default();
                sources.folders.push(Folder { path: path.clone(), by_bytes, by_id, objects, captured_for, tables });
            } else {
                return Err(Error::Invalid(format!("{} is neither a store nor a folder", path.display())));
            }
        }
        Ok(sources)
    }

    /// An object, if some source has it. Its bytes hash to its id.
    pub(super) fn find(
        &mut self,
        store: &Store,
        kind: ObjectKind,
        id: ObjectId,
        checkpoint: &Checkpoint,
        place: &GraphPath<'_>,
    ) -> Result<Option<SourceObject>> {
        if let Some(found) = self.in_stores(kind, id) {
            return Ok(Some(found));
        }
        for folder in &mut self.folders {
            let found = match kind {
                // No file has the workspace folder's path: it is one of the table of hard links.
                ObjectKind::Chunk if place.path.is_empty() => folder.table_chunk(store, id, checkpoint, place),
                ObjectKind::Chunk => folder.chunk(store.ids(), id, place),
                ObjectKind::Tree | ObjectKind::RecipeRoot | ObjectKind::RecipeNode => folder.captured(store, id, checkpoint),
                ObjectKind::Record | ObjectKind::Table => None,
            };
            if let Some(bytes) = found {
                return Ok(Some(SourceObject::whole(kind, id, bytes)));
            }
        }
        Ok(None)
    }

    /// An object that another store has.
    pub(super) fn in_stores(&self, kind: ObjectKind, id: ObjectId) -> Option<SourceObject> {
        self.stores.iter().zip(1..).find_map(|(other, number)| {
            // A block is only given out after all of it was hashed.
            let block = other.object_block(kind, id).ok()?;
            SourceObject::in_block(kind, id, &block, (number, other.locate(kind, id).ok()?))
        })
    }

    /// An object of which no path is known, because blocks build on it and no checkpoint refers to it.
    pub(super) fn find_base(&mut self, store: &Store, kind: ObjectKind, id: ObjectId) -> Option<SourceObject> {
        let found = self.in_stores(kind, id);
        found.or_else(|| self.folders.iter_mut().find_map(|folder| folder.any(store.ids(), kind, id)))
    }
}

impl Folder {
    /// A whole file, or what was captured for a checkpoint.
    fn any(&mut self, ids: &Ids, kind: ObjectKind, id: ObjectId) -> Option<SourceObject> {
        if kind != ObjectKind::Chunk {
            return self.objects.get(&id).map(|bytes| SourceObject::whole(kind, id, bytes.clone()));
        }
        if self.by_id.is_none() {
            let files = self.by_bytes.get_or_insert_with(|| list(&self.path));
            let short = files.iter().filter(|(bytes, _)| (1..=CHUNK_BYTES_MAX).contains(*bytes)).flat_map(|(_, paths)| paths);
            let id_of = |path: &PathBuf| Some((ids.blob(&std::fs::read(path).ok()?).object(), path.clone()));
            self.by_id = Some(short.filter_map(id_of).collect());
        }
        let bytes = std::fs::read(self.by_id.as_ref()?.get(&id)?).ok()?;
        (ids.blob(&bytes).object() == id).then(|| SourceObject::whole(kind, id, bytes))
    }

    fn chunk(&mut self, ids: &Ids, id: ObjectId, place: &GraphPath<'_>) -> Option<Vec<u8>> {
        let same_name = self.path.join(name::as_path(place.path));
        if let Some(found) = read_range(ids, &same_name, id, place) {
            return Some(found);
        }
        let by_bytes = self.by_bytes.get_or_insert_with(|| list(&self.path));
        // A chunk that is a whole file may be any file of its length; of a part, only the place in files like it is known.
        by_bytes
            .get(&place.bytes)
            .into_iter()
            .flatten()
            .find_map(|path| read_range(ids, path, id, &GraphPath { offset: 0, ..*place }))
    }

    /// A part of the table of hard links.
    fn table_chunk(&mut self, store: &Store, id: ObjectId, checkpoint: &Checkpoint, place: &GraphPath<'_>) -> Option<Vec<u8>> {
        self.capture(store, checkpoint);
        let start = usize::try_from(place.offset).ok()?;
        let end = start.checked_add(usize::try_from(place.bytes).ok()?)?;
        let mut found = self.tables.iter().filter_map(|table| table.get(start..end));
        found.find(|bytes| store.ids().blob(bytes).object() == id).map(<[u8]>::to_vec)
    }

    fn captured(&mut self, store: &Store, id: ObjectId, checkpoint: &Checkpoint) -> Option<Vec<u8>> {
        self.capture(store, checkpoint);
        self.objects.get(&id).cloned()
    }

    /// Looks at the folder as it would be captured for a checkpoint, once for each.
    fn capture(&mut self, store: &Store, checkpoint: &Checkpoint) {
        let record = &checkpoint.record;
        if self.captured_for.insert(record.id) {
            let options = create::Options {
                workspace: self.path.clone(),
                rules: record.rules.clone(),
                thorough: true,
                ..create::Options::default()
            };
            // A folder that cannot be captured has nothing to give.
            if let Ok((workspace, looked, _)) = create::look(store, &options, &()) {
                self.objects.extend(looked.objects);
                self.tables.push(looked.links);
                // The root that holds the workspace is not part of the look.
                let _ = tree::encode_folder(store.ids(), std::slice::from_ref(&workspace), |root| {
                    self.objects.insert(root.id, root.bytes);
                    Ok::<_, Infallible>(())
                });
            }
        }
    }
}

/// The bytes of a file at a place, if they hash to the id.
fn read_range(ids: &Ids, path: &Path, id: ObjectId, place: &GraphPath<'_>) -> Option<Vec<u8>> {
    if place.bytes > CHUNK_BYTES_MAX || !std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file()) {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(place.bytes).ok()?];
    let read = File::open(path).at("open", path).and_then(|file| file.read_exact_at(&mut bytes, place.offset).at("read", path));
    (read.is_ok() && ids.blob(&bytes).object() == id).then_some(bytes)
}

/// Regular files below a folder, by length. What cannot be read is passed over.
fn list(folder: &Path) -> HashMap<u64, Vec<PathBuf>> {
    let mut files: HashMap<u64, Vec<PathBuf>> = HashMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => folders.push(entry.path()),
                Ok(meta) if meta.is_file() => files.entry(meta.len()).or_default().push(entry.path()),
                _ => {}
            }
        }
    }
    files
}
