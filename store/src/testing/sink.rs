//! A sink for forged and made-up objects.

use std::{
    collections::{BTreeMap, HashSet},
    fs::File,
};

use super::{TestStore, blob_id, folder_node, ids, meta, seal};
use crate::{
    disk,
    error::Result,
    id::{BlobId, ObjectId, ObjectKey, PackId, TreeId},
    pack::{BlockBuilder, ObjectKind, PackInfo, PackWriter},
    recipe::{self, ChunkRun, EncodedObject},
    tree::{self, Kind, Node, Totals},
};

/// Takes the objects of a checkpoint.
pub struct Sink<'a> {
    pub(super) test: &'a TestStore,
    writer: Option<PackWriter>,
    data: BlockBuilder,
    meta: BlockBuilder,
    compressor: zstd::bulk::Compressor<'static>,
    written: HashSet<ObjectKey>,
    pub(super) reused: HashSet<PackId>,
}

impl<'a> Sink<'a> {
    pub(super) fn new(test: &'a TestStore, op: crate::id::OpId) -> Self {
        let id = PackId::new(op, 0);
        Sink {
            test,
            writer: Some(PackWriter::create(test.store.layout(), id).unwrap()),
            data: BlockBuilder::default(),
            meta: BlockBuilder::default(),
            compressor: zstd::bulk::Compressor::new(3).unwrap(),
            written: HashSet::new(),
            reused: HashSet::new(),
        }
    }

    pub(super) fn has(&mut self, id: ObjectId) -> bool {
        if self.written.contains(&id.key()) {
            return true;
        }
        let found = self.test.store.view().locate(id).unwrap();
        self.reused.extend(found.map(|location| location.pack));
        found.is_some()
    }

    pub fn put(&mut self, e: EncodedObject) -> Result<()> {
        if self.has(e.id) {
            return Ok(());
        }
        self.written.insert(e.id.key());
        let base = self.base(&e)?;
        self.test.earlier.borrow_mut().entry(e.kind).or_default().push(e.id);
        if let Some((base, prefix)) = base {
            return self.put_on(&e, base, &prefix, 1);
        }
        let (builder, target) = if e.kind == ObjectKind::Chunk { (&mut self.data, 6000) } else { (&mut self.meta, 3000) };
        builder.push(e.kind, e.id, &e.bytes, e.tail_bytes);
        if builder.raw_bytes() > target {
            let (entries, block) = builder.encode(&mut self.compressor, &seal()).unwrap();
            self.writer.as_mut().unwrap().append(&block, &entries)?;
        }
        Ok(())
    }

    fn put_on(&mut self, e: &EncodedObject, base: ObjectId, prefix: &[u8], version: u32) -> Result<()> {
        let mut builder = BlockBuilder::default();
        builder.push_on(e.kind, e.id, &e.bytes, base, version);
        let mut context = zstd::zstd_safe::CCtx::create();
        let coded = builder.compress_on(&mut context, prefix, 3).unwrap();
        let (entries, block) = builder.encode_on(&coded, &seal());
        self.writer.as_mut().unwrap().append(&block, &entries).map(drop)
    }

    /// A chunk that builds on another one, and is said to have so many versions before it.
    pub fn chunk_on(&mut self, bytes: &[u8], base: &[u8], version: u32) -> BlobId {
        let id = blob_id(bytes);
        let e = EncodedObject { kind: ObjectKind::Chunk, id: id.object(), bytes: bytes.to_vec(), tail_bytes: 0 };
        self.put_on(&e, blob_id(base).object(), base, version).unwrap();
        id
    }

    /// An object that this one is to build on, and its bytes. About every other one builds on something that was committed before, if it may.
    fn base(&mut self, e: &EncodedObject) -> Result<Option<(ObjectId, Vec<u8>)>> {
        let may_build = matches!(e.kind, ObjectKind::Chunk | ObjectKind::Tree | ObjectKind::RecipeNode);
        if !may_build || !self.test.builds.get() || e.id.0[5].is_multiple_of(2) {
            return Ok(None);
        }
        let earlier = self.test.earlier.borrow().get(&e.kind).cloned().unwrap_or_default();
        let Some(base) = earlier.get(usize::from(e.id.0[6]) * earlier.len() / 256).copied() else { return Ok(None) };
        let Some(location) = self.test.store.view().locate(base)? else { return Ok(None) };
        // As creators do: a base that cannot be read is not built upon.
        let block = match self.test.store.object_block(e.kind, base) {
            Err(e) if e.is_damage() => return Ok(None),
            other => other?,
        };
        if block.depth >= 6 {
            return Ok(None);
        }
        self.reused.insert(location.pack);
        Ok(Some((base, block.object(base).unwrap().to_vec())))
    }

    pub fn chunk(&mut self, bytes: &[u8]) -> BlobId {
        let id = blob_id(bytes);
        self.put(EncodedObject { kind: ObjectKind::Chunk, id: id.object(), bytes: bytes.to_vec(), tail_bytes: 0 }).unwrap();
        id
    }

    pub(super) fn blob(&mut self, bytes: &[u8]) -> BlobId {
        let (blob, cut) = (blob_id(bytes), self.test.cut.get());
        if bytes.is_empty() || self.has(ids().recipe_root(blob)) {
            return blob;
        }
        if bytes.len() <= cut {
            return self.chunk(bytes);
        }
        let mut runs: Vec<ChunkRun> = Vec::new();
        for part in bytes.chunks(cut) {
            let id = self.chunk(part);
            match runs.last_mut() {
                Some(last) if last.id == id => last.repeat += 1,
                _ => runs.push(ChunkRun { id, bytes: part.len() as u32, repeat: 1 }),
            }
        }
        recipe::encode(&ids(), blob, &runs).into_iter().for_each(|e| self.put(e).unwrap());
        blob
    }

    /// Stores a folder's entries.
    pub fn nodes(&mut self, nodes: &[Node]) -> (TreeId, Totals) {
        tree::encode_folder(&ids(), nodes, |e| self.put(e)).unwrap()
    }

    pub(super) fn folder(&mut self, files: &[(&str, &[u8])], totals: &mut Totals) -> TreeId {
        let mut folders: BTreeMap<&str, Vec<(&str, &[u8])>> = BTreeMap::new();
        let mut nodes = BTreeMap::new();
        for (path, bytes) in files {
            if let Some((folder, rest)) = path.split_once('/') {
                folders.entry(folder).or_default().push((rest, bytes));
                continue;
            }
            let kind = Kind::File { size: bytes.len() as u64, blob: self.blob(bytes), holes: Vec::new() };
            nodes.insert(path.as_bytes().to_vec(), Node { name: (*path).into(), meta: meta(), links: 1, kind });
        }
        for (name, inside) in folders {
            let mut totals = Totals::default();
            let tree = self.folder(&inside, &mut totals);
            nodes.insert(name.as_bytes().to_vec(), folder_node(name, tree, totals));
        }
        let nodes: Vec<Node> = nodes.into_values().collect();
        let (tree, sums) = self.nodes(&nodes);
        *totals = sums;
        tree
    }

    pub(super) fn finish(&mut self) -> Vec<PackInfo> {
        let mut writer = self.writer.take().unwrap();
        for builder in [&mut self.data, &mut self.meta] {
            if !builder.is_empty() {
                let (entries, block) = builder.encode(&mut self.compressor, &seal()).unwrap();
                writer.append(&block, &entries).unwrap();
            }
        }
        let (info, file): (PackInfo, File) = writer.finish().unwrap();
        file.sync_all().unwrap();
        disk::sync_folder(&self.test.store.layout().packs()).unwrap();
        vec![info]
    }
}
