//! Stores for tests: checkpoints from lists of paths and bytes, without capture.

mod progress;
mod sink;

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap, HashSet},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use tempfile::TempDir;

pub use self::{
    progress::{AtBegin, Notices},
    sink::Sink,
};
use crate::{
    clock,
    delete::delete_checkpoints,
    error::{Error, Result},
    gc,
    id::{BlobId, ObjectId, PackId, TreeId, Ulid},
    journal::Entry,
    keys::{Ids, Keys, Seal},
    pack::{ObjectKind, PackInfo},
    pin::Pin,
    recipe::EncodedObject,
    record::{Checkpoint, Consistency, Part, RECORD_SCHEMA, Record, Rules, Trigger, Workspace},
    store::{OpenOptions, Store},
    tree::{self, Kind, Meta, Node, Time, Totals},
    view,
};

/// The ids of stores that tests make.
pub fn ids() -> Ids {
    Keys::default().ids
}

/// The seal of such stores.
pub fn seal() -> Seal {
    Keys::default().seal
}

/// The id of content in such a store.
pub fn blob_id(bytes: &[u8]) -> BlobId {
    ids().blob(bytes)
}

/// Paths (with `/`) and contents.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Some files, different for different seeds; about a third of them are equal for all seeds.
pub fn files(seed: u64, count: usize) -> Files {
    (0..count).map(|i| (format!("dir{}/file{i}", i % 3), content(if i % 3 == 0 { 0 } else { seed }, i))).collect()
}

/// Bytes that compress a little; of different lengths, some long enough for a recipe.
pub fn content(seed: u64, i: usize) -> Vec<u8> {
    let bytes = 100 + i * 1500 % 9000;
    let mut out = blake3::Hasher::new().update(&seed.to_le_bytes()).update(&i.to_le_bytes()).finalize_xof();
    let mut noise = vec![0; bytes];
    out.fill(&mut noise);
    noise.iter().map(|b| b'a' + b % 16).collect()
}

/// A store in a temporary folder.
pub struct TestStore {
    pub store: Store,
    /// Longer files than this get a recipe of chunks this long.
    pub cut: Cell<usize>,
    /// True if new objects build on earlier ones.
    pub builds: Cell<bool>,
    /// Objects that were written, of which later ones are said to be versions: that nothing of them is the same is no fault.
    earlier: RefCell<HashMap<ObjectKind, Vec<ObjectId>>>,
    dir: Option<Arc<TempDir>>,
}

/// A checkpoint whose packs are written and that is not committed.
pub struct Draft {
    pub pin: Pin,
    pub id: Ulid,
    record: String,
    packs: Vec<PackInfo>,
    reused: HashSet<PackId>,
}

impl TestStore {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let test = Self::at(dir.path().join("store"));
        TestStore { dir: Some(Arc::new(dir)), ..test }
    }

    /// A store in a folder that the test looks after.
    pub fn at(path: PathBuf) -> Self {
        let options = OpenOptions { create: true, ..OpenOptions::default() };
        let store = Store::open(&path, &options).unwrap();
        TestStore { store, cut: Cell::new(2000), builds: Cell::new(true), earlier: RefCell::default(), dir: None }
    }

    /// Opens the store once more, as another process would.
    pub fn open(&self) -> Store {
        Store::open(self.store.path(), &OpenOptions::default()).unwrap()
    }

    /// The same store in another process.
    pub fn another(&self) -> TestStore {
        let (cut, builds) = (self.cut.clone(), self.builds.clone());
        TestStore { store: self.open(), cut, builds, earlier: self.earlier.clone(), dir: self.dir.clone() }
    }

    /// The journal's files as they are now.
    pub fn journal_files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let files = std::fs::read_dir(self.store.layout().journal()).unwrap();
        files.map(|file| file.unwrap().path()).map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
    }

    /// Makes the journal what it was, as when what was appended since could not be synced.
    pub fn put_back_journal(&self, before: &BTreeMap<PathBuf, Vec<u8>>) {
        for path in self.journal_files().into_keys().filter(|path| !before.contains_key(path)) {
            std::fs::remove_file(path).unwrap();
        }
        before.iter().for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
    }

    /// Ids of the checkpoints, in order.
    pub fn ids(&self) -> Vec<Ulid> {
        self.store.refresh().unwrap().checkpoints().unwrap().iter().map(|c| c.record.id).collect()
    }

    pub fn get(&self, id: Ulid) -> Checkpoint {
        self.store.refresh().unwrap().checkpoints().unwrap().iter().find(|c| c.record.id == id).unwrap().clone()
    }

    /// Commits a checkpoint of session `test` with these files.
    pub fn checkpoint(&self, files: &Files) -> Ulid {
        let draft = self.draft("test", files);
        self.commit(draft).unwrap()
    }

    pub fn delete(&self, id: Ulid) {
        delete_checkpoints(&self.store, &[id], None, &()).unwrap();
    }

    /// Reads a checkpoint back.
    pub fn content(&self, checkpoint: &Checkpoint) -> Result<Files> {
        content_of(&self.store, checkpoint)
    }

    /// Writes what a checkpoint needs.
    pub fn draft(&self, session: &str, files: &Files) -> Draft {
        self.draft_of(session, |sink| {
            let mut totals = Totals::default();
            let files: Vec<_> = files.iter().map(|(p, b)| (p.as_str(), b.as_slice())).collect();
            (sink.folder(&files, &mut totals), totals)
        })
    }

    /// Makes a checkpoint of a tree that a test has made up, with sums that need not be right.
    pub fn forge(&self, make: impl FnOnce(&mut Sink<'_>) -> (TreeId, Totals)) -> Checkpoint {
        let draft = self.draft_of("forged", make);
        let id = self.commit(draft).unwrap();
        self.get(id)
    }

    fn draft_of(&self, session: &str, make: impl FnOnce(&mut Sink<'_>) -> (TreeId, Totals)) -> Draft {
        let pin = Pin::take(&self.store.layout().pins(), true, "test").unwrap();
        self.store.refresh().unwrap();
        let mut sink = Sink::new(self, pin.op);
        let (workspace, totals) = make(&mut sink);
        let node = folder_node("workspace", workspace, totals);
        let (root, _) = tree::encode_folder(&ids(), &[node], |e| sink.put(e)).unwrap();
        let record = record(session, root, &totals);
        let sealed = serde_json::to_string(&record).unwrap();
        let id = ids().record(sealed.as_bytes()).object();
        sink.put(EncodedObject { kind: ObjectKind::Record, id, bytes: sealed.clone().into(), tail_bytes: 0 }).unwrap();
        let packs = sink.finish();
        let reused = sink.reused;
        Draft { pin, id: record.id, record: sealed, packs, reused }
    }

    /// Makes a checkpoint whose record is another one than this release would make.
    pub fn checkpoint_with(&self, files: &Files, change: impl FnOnce(String) -> String) -> Ulid {
        let mut draft = self.draft("test", files);
        draft.record = change(draft.record);
        self.commit(draft).unwrap()
    }

    /// Commits it, unless gc condemned what it reuses.
    pub fn commit(&self, draft: Draft) -> Result<Ulid> {
        let lock = self.store.lock(&())?;
        let view = self.store.refresh()?;
        if !view.lost(&draft.reused)?.is_empty() {
            // As whoever ends without a commit does.
            draft.pin.leave();
            return Err(Error::Overtaken { tries: 1 });
        }
        let settled = self.store.append(
            &lock,
            &[Entry::Commit { op: draft.pin.op, record: draft.record, packs: draft.packs, machine: None, is_own: false }],
        )?;
        if self.store.refresh()?.wants_absorbing() {
            view::absorb(self.store.layout(), &Default::default(), &settled)?;
            self.store.reopen()?;
        }
        Ok(draft.id)
    }
}

/// Reads a checkpoint back.
pub fn content_of(store: &Store, checkpoint: &Checkpoint) -> Result<Files> {
    let mut found = Files::new();
    let (tree, _) = store.workspace_node(checkpoint)?.as_folder().map(|(t, s)| (t, *s)).unwrap();
    let mut blobs = Vec::new();
    store.walk(tree, &mut |path, _, node| {
        if let Kind::File { size, blob, .. } = node.kind {
            blobs.push((String::from_utf8(path.to_vec()).unwrap(), blob, size));
        }
        Ok(true)
    })?;
    for (path, blob, size) in blobs {
        found.insert(path, store.blob(blob, size)?.read_all()?);
    }
    Ok(found)
}

pub fn meta() -> Meta {
    Meta { mode: 0o644, mtime: Time { secs: 1_700_000_000, nanos: 1 }, ..Meta::default() }
}

/// A folder with these sums.
pub fn folder_node(name: &str, tree: TreeId, totals: Totals) -> Node {
    Node { name: name.into(), meta: meta(), links: 1, kind: Kind::Folder { tree, totals } }
}

fn record(session: &str, root: TreeId, totals: &Totals) -> Record {
    let now = clock::timestamp();
    let workspace = Workspace {
        path: "/w".into(),
        files: totals.files,
        folders: totals.folders,
        entries: totals.entries,
        bytes: totals.bytes,
    };
    Record {
        schema: RECORD_SCHEMA,
        id: Ulid::generate(),
        session: session.into(),
        run: None,
        epoch: 0,
        fenced: false,
        parent: None,
        depth: 1,
        trigger: Trigger::Manual,
        told_cause: None,
        trigger_detail: None,
        message: None,
        root,
        links: None,
        parts: [("workspace".to_owned(), Part::Captured)].into(),
        consistency: Consistency::Unknown,
        started_at: now,
        created_at: now,
        workspace,
        rules: Rules::default(),
        omitted: None,
        conversation: None,
        git: None,
        environment: None,
        usage: None,
        extra: Default::default(),
    }
}

/// A store of many small packs, its first and last checkpoint, and a handle of its own for another process.
pub fn in_small_packs() -> (TestStore, Checkpoint, Checkpoint, TestStore) {
    let test = TestStore::new();
    let ids: Vec<_> = (0..20).map(|seed| test.checkpoint(&files(seed, 6))).collect();
    let (first, last, other) = (test.get(ids[0]), test.get(ids[19]), test.another());
    (test, first, last, other)
}

/// Collects garbage, of which there is some.
pub fn collect(test: &TestStore) {
    let report = gc::run(&test.store, &gc::GcOptions::default(), &()).unwrap();
    assert!(report.dropped_packs > 0, "{report:?}");
}

/// Runs the rest of a test, which is named, in a process of a user who is not root and to whom a new folder belongs: RocksDB's threads
/// would stay that user's in this process. `prepare` does in the folder what that user cannot do; temporary files lie in it as well.
pub fn as_ordinary(test: &str, prepare: impl FnOnce(&Path), work: impl FnOnce(&Path)) {
    const FOLDER: &str = "PARHELIA_TEST_ORDINARY";
    if let Some(folder) = std::env::var_os(FOLDER) {
        return work(Path::new(&folder));
    }
    let dir = tempfile::tempdir().unwrap();
    prepare(dir.path());
    // The program itself, wherever it lies.
    let mut again = Command::new("/proc/self/exe");
    again.args(["--exact", test, "--nocapture"]).env(FOLDER, dir.path()).env("TMPDIR", dir.path()).current_dir("/");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(dir.path(), Some(65534), Some(65534)).unwrap();
        again.uid(65534).gid(65534);
    }
    let out = again.output().unwrap();
    let text = [out.stdout, out.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(out.status.success() && text.contains("1 passed"), "{text}");
}
