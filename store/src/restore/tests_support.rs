//! Makes checkpoints of small real folders in the plainest way, so that the tests depend on nothing but the format.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fs::{self, File},
    io::Read,
    os::fd::AsFd,
    path::Path,
};

use jiff::Timestamp;

use crate::{
    error::Result,
    id::{BlobId, ObjectId, OpId, PackId, Ulid},
    journal::{Entry, Journal},
    links::Links,
    omitted::{self, Omission, Reason},
    pack::{BlockBuilder, ObjectKind, PackInfo, PackWriter},
    recipe::{self, ChunkRun, Encoded},
    record::{Checkpoint, Omitted, RECORD_SCHEMA, Record, Trigger},
    store::{OpenOptions, Store},
    sys,
    tree::{Kind, Meta, Node, Totals, encode_folder},
};

/// A store in a folder that does not exist yet.
pub fn store(root: &Path) -> Store {
    Store::open(root, &OpenOptions { create: true, ..OpenOptions::default() }).unwrap()
}

struct Maker<'a> {
    store: &'a Store,
    op: OpId,
    pack: Option<PackWriter>,
    block: BlockBuilder,
    compressor: zstd::bulk::Compressor<'static>,
    known: HashSet<ObjectId>,
    infos: Vec<PackInfo>,
    groups: HashMap<(u64, u64), Vec<u64>>,
    position: u64,
    skip: &'a [&'a str],
}

impl Maker<'_> {
    fn push(&mut self, kind: ObjectKind, id: ObjectId, bytes: &[u8], tail: usize) {
        if !self.known.insert(id) || self.store.view().locate(id).unwrap().is_some() {
            return;
        }
        self.block.push(kind, id, bytes, tail);
        if self.block.raw_bytes() > 256 << 10 {
            self.flush();
        }
    }

    fn object(&mut self, e: &Encoded) {
        self.push(e.kind, e.id, &e.bytes, e.tail_bytes);
    }

    fn flush(&mut self) {
        if self.block.is_empty() {
            return;
        }
        let (entries, bytes) = self.block.encode(&mut self.compressor).unwrap();
        let number = self.infos.len() as u32;
        let id = PackId::new(self.op, number);
        let path = self.store.layout().pack(id);
        let pack = self.pack.get_or_insert_with(|| PackWriter::create(path, id).unwrap());
        pack.append(&bytes, &entries).unwrap();
        if pack.bytes() > 64 << 20 {
            self.close();
        }
    }

    fn close(&mut self) {
        if let Some(pack) = self.pack.take() {
            let (info, file) = pack.finish().unwrap();
            file.sync_all().unwrap();
            self.infos.push(info);
        }
    }

    fn file(&mut self, fd: &mut File, size: u64) -> (BlobId, Vec<crate::tree::Hole>) {
        let holes = sys::holes(fd.as_fd(), size).unwrap();
        let mut bytes = Vec::new();
        fd.read_to_end(&mut bytes).unwrap();
        let blob = BlobId::of(&bytes);
        if bytes.len() <= 64 << 10 {
            if !bytes.is_empty() {
                self.push(ObjectKind::Chunk, blob.object(), &bytes, 0);
            }
            return (blob, holes);
        }
        let mut runs: Vec<ChunkRun> = Vec::new();
        for chunk in bytes.chunks(50_000) {
            let id = BlobId::of(chunk);
            self.push(ObjectKind::Chunk, id.object(), chunk, 0);
            match runs.last_mut() {
                Some(last) if last.id == id => last.repeat += 1,
                _ => runs.push(ChunkRun { id, bytes: chunk.len() as u32, repeat: 1 }),
            }
        }
        for encoded in recipe::encode(blob, &runs) {
            self.object(&encoded);
        }
        (blob, holes)
    }

    fn folder(&mut self, fd: std::os::fd::BorrowedFd<'_>, path: &str) -> Result<Vec<Node>> {
        let mut nodes = Vec::new();
        for name in sys::names(fd).unwrap() {
            let full = format!("{path}/{}", String::from_utf8_lossy(&name));
            if self.skip.contains(&&full[1..]) {
                continue;
            }
            self.position += 1;
            let here = self.position;
            let stat = sys::stat_at(fd, &name).unwrap();
            let meta = stat.meta(sys::xattrs_at(fd, &name).unwrap());
            let kind = if stat.is_folder() {
                let below = sys::open_folder_at(fd, &name).unwrap();
                let nodes = self.folder(below.as_fd(), &full)?;
                let (tree, totals) = self.encode(&nodes);
                Kind::Folder { tree, totals }
            } else if stat.is_file() {
                let mut file = File::from(sys::open_file_at(fd, &name).unwrap());
                let (blob, holes) = self.file(&mut file, stat.size);
                Kind::File { size: stat.size, blob, holes }
            } else {
                let symlink = || Kind::Symlink { target: sys::readlink_at(fd, &name).unwrap() };
                stat.special_kind().unwrap_or_else(symlink)
            };
            let links = if stat.is_folder() { 1 } else { stat.links };
            if links > 1 {
                self.groups.entry((stat.dev, stat.ino)).or_default().push(here);
            }
            nodes.push(Node { name, meta, links, kind });
        }
        Ok(nodes)
    }

    fn encode(&mut self, nodes: &[Node]) -> (crate::id::TreeId, Totals) {
        encode_folder(nodes, |encoded| {
            self.object(&encoded);
            Ok::<(), std::convert::Infallible>(())
        })
        .unwrap()
    }
}

/// Checkpoints a folder, but for these paths, which are recorded as excluded.
pub fn capture(store: &Store, folder: &Path, skip: &[&str]) -> Checkpoint {
    let mut maker = Maker {
        store,
        op: OpId::generate(),
        pack: None,
        block: BlockBuilder::default(),
        compressor: zstd::bulk::Compressor::new(3).unwrap(),
        known: HashSet::new(),
        infos: Vec::new(),
        groups: HashMap::new(),
        position: 0,
        skip,
    };
    let fd = File::open(folder).unwrap();
    let nodes = maker.folder(fd.as_fd(), "").unwrap();
    let (tree, totals) = maker.encode(&nodes);
    let stat = sys::stat_fd(&fd).unwrap();
    let meta = Meta { ..stat.meta(sys::xattrs_fd(fd.as_fd()).unwrap()) };
    let top = Node { name: b"workspace".to_vec(), meta, links: 1, kind: Kind::Folder { tree, totals } };
    let (root, _) = maker.encode(&[top]);
    let links = Links::new(std::mem::take(&mut maker.groups).into_values()).encode();
    if let Some(links) = &links {
        maker.object(links);
    }
    let omissions: Vec<Omission> =
        skip.iter().map(|path| Omission { path: path.as_bytes().to_vec(), reason: Reason::Excluded("test".into()) }).collect();
    let table = omitted::encode(&omissions);
    maker.object(&table);
    maker.flush();
    maker.close();
    let now = Timestamp::now();
    let record = Record {
        schema: RECORD_SCHEMA,
        id: Ulid::generate(),
        session: "test".into(),
        run: None,
        epoch: 0,
        parent: None,
        depth: 1,
        trigger: Trigger::Manual,
        trigger_detail: None,
        message: None,
        root,
        links: links.map(|l| l.id),
        parts: BTreeMap::new(),
        consistency: Default::default(),
        started_at: now,
        created_at: now,
        workspace: Default::default(),
        rules: Default::default(),
        omitted: Some(Omitted { table: table.id, excluded: skip.len() as u64, unreadable: 0, changing: 0 }),
        conversation: None,
        git: None,
        environment: None,
        usage: None,
        extra: Default::default(),
    };
    let record = serde_json::to_string(&record).unwrap();
    let journal = Journal::new(store.layout().journal());
    let lock = store.lock(&()).unwrap();
    let tail = journal.read(store.view().end()).unwrap();
    journal.append(&tail, &[Entry::Commit { op: maker.op, record, packs: maker.infos }]).unwrap();
    drop(lock);
    store.refresh().unwrap();
    store.checkpoints().unwrap().pop().unwrap()
}

/// All paths below a folder, for messages.
pub fn paths(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        found.push(entry.path().to_string_lossy().into_owned());
        if entry.file_type().unwrap().is_dir() {
            found.extend(paths(&entry.path()));
        }
    }
    found.sort();
    found
}
