//! Shared parts of the command line's tests: the binary in an environment of its own, and stores made by hand.

#![allow(clippy::expect_used)]

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{
        LazyLock,
        atomic::{AtomicBool, Ordering},
    },
};

use parhelia_store::{
    OpenOptions, Store, clock,
    id::{OpId, PackId, Ulid},
    journal::{Entry, Journal, Position},
    links,
    omitted::{self, Omission, Reason},
    pack::{BlockBuilder, ObjectKind, PackWriter},
    recipe::EncodedObject,
    record::{Consistency, LinksTable, OmissionCounts, Part, RECORD_SCHEMA, Record, Rules, Trigger, Workspace},
    tree::{Hole, Kind, Meta, Node, Time, encode_folder},
};
use serde_json::Value;

/// A folder for one test, with a home and a store in it, which the first command finds made.
pub struct Home {
    pub folder: tempfile::TempDir,
    /// Set once the store has been made, or where a test wants none.
    has_store: AtomicBool,
}

impl Home {
    pub fn new() -> Self {
        Home { folder: tempfile::tempdir().unwrap(), has_store: AtomicBool::new(false) }
    }

    /// One whose store does not exist, as no command makes a store that is named.
    pub fn without_store() -> Self {
        Home { has_store: AtomicBool::new(true), ..Home::new() }
    }

    /// Makes the store, once: a test may take it away again.
    fn make_store(&self) {
        if !self.has_store.swap(true, Ordering::Relaxed) && !self.store().exists() {
            make_store(&self.store());
        }
    }

    pub fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    pub fn command(&self, args: &[&str]) -> Command {
        self.make_store();
        let mut command = Command::new(env!("CARGO_BIN_EXE_parhelia"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.folder.path())
            .env("PARHELIA_STORE", self.store())
            .env("NO_COLOR", "1")
            .env("TZ", "UTC")
            .current_dir(self.folder.path());
        command
    }

    pub fn run(&self, args: &[&str]) -> Run {
        Run::of(self.command(args).output().unwrap())
    }
}

/// Makes an empty store, as `parhelia init` does.
pub fn make_store(path: &Path) {
    drop(parhelia_ledger::open(path, &OpenOptions { create: true, ..OpenOptions::default() }).unwrap());
}

/// The result of a run.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
    pub bytes: Vec<u8>,
}

impl Run {
    pub fn of(output: Output) -> Self {
        Run {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
            bytes: output.stdout,
        }
    }

    /// Its JSON lines, each with a type; the last is the summary or an error.
    pub fn json(&self) -> Vec<Value> {
        let lines: Vec<Value> = self.out.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        assert!(lines.iter().all(|line| line["type"].is_string()), "{self:?}");
        lines.iter().for_each(follows_line_schema);
        let last = lines.last().expect("no output");
        let ends: &[&str] = match self.code {
            0 | 3 => &["summary"],
            // A verb that looks for damage ends as others do where it finds some.
            12 => &["summary", "error"],
            _ => &["error"],
        };
        assert!(last["type"].as_str().is_some_and(|last| ends.contains(&last)), "{self:?}");
        lines
    }

    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

/// Fails where a line of `--json` does not follow the schema of all lines.
pub fn follows_line_schema(line: &Value) {
    static VALIDATOR: LazyLock<jsonschema::Validator> = LazyLock::new(|| {
        let schema: Value = serde_json::from_str(include_str!("../../../docs/json.schema.json")).unwrap();
        jsonschema::validator_for(&schema).unwrap()
    });
    let errors: Vec<String> = VALIDATOR.iter_errors(line).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?} in {line}");
}

/// Fails where a manifest does not follow its schema.
pub fn follows_schema(manifest: &Value) {
    let schema: Value = serde_json::from_str(include_str!("../../../docs/manifest.schema.json")).unwrap();
    let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(manifest).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?} in {manifest}");
}

/// An entry of a tree made by hand.
#[derive(Clone)]
pub struct Item {
    pub name: Vec<u8>,
    pub meta: Meta,
    pub what: What,
    /// Entries with one number are one file.
    pub group: Option<u32>,
}

#[derive(Clone)]
pub enum What {
    File(Vec<u8>, Vec<Hole>),
    Folder(Vec<Item>),
    Other(Kind),
}

pub const MTIME: Time = Time { secs: 1_700_000_000, nanos: 123_456_789 };

pub fn item(name: impl Into<Vec<u8>>, mode: u32, what: What) -> Item {
    Item { name: name.into(), meta: Meta { mode, mtime: MTIME, ..Meta::default() }, what, group: None }
}

pub fn file(name: impl Into<Vec<u8>>, content: impl Into<Vec<u8>>) -> Item {
    item(name, 0o644, What::File(content.into(), vec![]))
}

pub fn folder(name: impl Into<Vec<u8>>, items: Vec<Item>) -> Item {
    item(name, 0o755, What::Folder(items))
}

pub fn symlink(name: impl Into<Vec<u8>>, target: &[u8]) -> Item {
    item(name, 0o777, What::Other(Kind::Symlink { target: target.to_vec() }))
}

/// A store that is filled by hand.
pub struct Builder {
    pub store: Store,
    objects: Vec<EncodedObject>,
    path: Vec<u8>,
    groups: HashMap<u32, Vec<Vec<u8>>>,
    group_sizes: HashMap<u32, u32>,
    /// The environment of checkpoints to come.
    pub environment: Option<Value>,
}

fn count_groups(items: &[Item], sizes: &mut HashMap<u32, u32>) {
    for item in items {
        if let Some(group) = item.group {
            *sizes.entry(group).or_default() += 1;
        }
        if let What::Folder(items) = &item.what {
            count_groups(items, sizes);
        }
    }
}

impl Builder {
    pub fn new(home: &Home) -> Self {
        let options = OpenOptions { create: true, ..OpenOptions::default() };
        let store = parhelia_ledger::open(&home.store(), &options).unwrap();
        Builder { store, objects: vec![], path: vec![], groups: HashMap::new(), group_sizes: HashMap::new(), environment: None }
    }

    fn node(&mut self, item: &Item) -> Node {
        let above = self.path.clone();
        self.path = parhelia_store::name::join(&above, &item.name);
        let links = item.group.map_or(1, |group| {
            self.groups.entry(group).or_default().push(self.path.clone());
            self.group_sizes[&group]
        });
        let kind = match &item.what {
            What::File(content, holes) => {
                assert!(content.len() <= 256 << 10);
                let blob = self.store.ids().blob(content);
                if !content.is_empty() {
                    let bytes = content.clone();
                    self.objects.push(EncodedObject { kind: ObjectKind::Chunk, id: blob.object(), bytes, tail_bytes: 0 });
                }
                Kind::File { size: content.len() as u64, blob, holes: holes.clone() }
            }
            What::Folder(items) => {
                let mut items = items.clone();
                items.sort_by(|a, b| a.name.cmp(&b.name));
                let nodes: Vec<Node> = items.iter().map(|item| self.node(item)).collect();
                let (tree, totals) = self.encode(&nodes);
                Kind::Folder { tree, totals }
            }
            What::Other(kind) => kind.clone(),
        };
        self.path = above;
        Node { name: item.name.clone(), meta: item.meta.clone(), links, kind }
    }

    /// A folder of these nodes.
    pub fn encode(&mut self, nodes: &[Node]) -> (parhelia_store::id::TreeId, parhelia_store::tree::Totals) {
        encode_folder(&self.store.ids().clone(), nodes, |object| {
            self.objects.push(object);
            Ok::<_, std::convert::Infallible>(())
        })
        .unwrap()
    }

    /// Commits a checkpoint of these entries and returns its id.
    pub fn commit(&mut self, session: &str, message: &str, items: Vec<Item>) -> String {
        self.commit_with(session, message, items, &[])
    }

    pub fn commit_with(&mut self, session: &str, message: &str, items: Vec<Item>, omissions: &[Omission]) -> String {
        self.groups.clear();
        self.group_sizes.clear();
        count_groups(&items, &mut self.group_sizes);
        let mut workspace = self.node(&folder("", items));
        workspace.name = b"workspace".to_vec();
        let totals = *workspace.as_folder().unwrap().1;
        let (root, _) = self.encode(&[workspace]);
        let groups: Vec<Vec<Vec<u8>>> = self.groups.values().cloned().collect();
        let table = links::encode(&links::folders_of(&groups)).map(|bytes| {
            assert!(bytes.len() <= 256 << 10);
            let table = LinksTable { blob: self.store.ids().blob(&bytes), bytes: bytes.len() as u64 };
            self.objects.push(EncodedObject { kind: ObjectKind::Chunk, id: table.blob.object(), bytes, tail_bytes: 0 });
            table
        });
        let omitted = (!omissions.is_empty()).then(|| self.omitted(omissions));
        let view = self.store.refresh().unwrap();
        let before: Vec<_> = view.checkpoints().unwrap().iter().filter(|c| c.record.session == session).collect();
        let now = clock::timestamp();
        let record = Record {
            schema: RECORD_SCHEMA,
            id: Ulid::generate(),
            session: session.into(),
            run: None,
            epoch: 0,
            fenced: false,
            parent: before.last().map(|c| c.record.id),
            depth: before.len() as u64 + 1,
            trigger: Trigger::Manual,
            told_cause: None,
            trigger_detail: None,
            message: Some(message.into()).filter(|m: &String| !m.is_empty()),
            root,
            links: table,
            parts: [("workspace".to_owned(), Part::Captured)].into(),
            consistency: Consistency::Unknown,
            started_at: now,
            created_at: now,
            workspace: Workspace {
                path: "/somewhere/demo".into(),
                files: totals.files,
                folders: totals.folders,
                entries: totals.entries,
                bytes: totals.bytes,
            },
            rules: Rules { defaults: true, ..Rules::default() },
            omitted,
            conversation: None,
            git: None,
            environment: self.environment.clone(),
            usage: None,
            extra: Default::default(),
        };
        let id = record.id.to_string();
        self.append(serde_json::to_string(&record).unwrap());
        id
    }

    fn omitted(&mut self, omissions: &[Omission]) -> OmissionCounts {
        let bytes = omitted::encode(omissions);
        let id = self.store.ids().table(&bytes);
        self.objects.push(EncodedObject { kind: ObjectKind::Table, id, bytes, tail_bytes: 0 });
        let count = |wanted: fn(&Reason) -> bool| omissions.iter().filter(|o| wanted(&o.reason)).count() as u64;
        OmissionCounts {
            table: id,
            excluded: count(|r| matches!(r, Reason::Excluded(_))),
            unreadable: count(|r| matches!(r, Reason::Unreadable(_))),
            changing: count(|r| matches!(r, Reason::Changing)),
            in_state: false,
            attributes: 0,
        }
    }

    /// Commits a record with what was encoded for it.
    pub fn append(&mut self, record: String) {
        let sealed = self.store.ids().record(record.as_bytes()).object();
        self.objects.push(EncodedObject { kind: ObjectKind::Record, id: sealed, bytes: record.clone().into(), tail_bytes: 0 });
        let op = OpId::generate();
        let id = PackId::new(op, 0);
        let mut pack = PackWriter::create(self.store.layout(), id).unwrap();
        let mut compressor = zstd::bulk::Compressor::new(3).unwrap();
        for object in self.objects.drain(..) {
            let mut block = BlockBuilder::default();
            block.push(object.kind, object.id, &object.bytes, object.tail_bytes);
            let (entries, bytes) = block.encode(&mut compressor, &self.store.layout().keys.seal).unwrap();
            pack.append(&bytes, &entries).unwrap();
        }
        let (info, file) = pack.finish().unwrap();
        file.sync_all().unwrap();
        let journal = Journal::of(self.store.layout());
        let tail = journal.read(&Position::start()).unwrap();
        journal.append(&tail, &[Entry::Commit { op, record, packs: vec![info], machine: None, is_own: false }]).unwrap();
    }
}
