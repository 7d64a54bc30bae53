mod sealed;

use std::{
    collections::{BTreeMap, HashSet},
    fs,
    path::Path,
    sync::Arc,
    time::Duration,
};

use proptest::prelude::*;
use rustix::fs::XattrFlags;

use super::*;
use crate::{
    OpenOptions, Store,
    archive::{self, import::Limits},
    check::{self, CheckOptions},
    create::{self, CapturedState, CapturedWorkspace, FullWalk, State, StateContent, StateFile},
    delete::delete_checkpoints,
    diff::{DiffOptions, Side, compare},
    event::{Actor, NewEvent},
    files, gc,
    id::{BlobId, ObjectId},
    layout::Layout,
    pack::{ObjectKind, PackFile},
    record::{Checkpoint, Rules},
    restore,
    view::{Db, Family},
};

/// No cipher that hides anything from anybody, but one that notices what was not sealed, or as something else.
struct Xor(u8);

impl Xor {
    fn turned(&self, part: Part, bytes: &[u8]) -> Vec<u8> {
        bytes.iter().map(|byte| byte ^ self.0 ^ ((part as u8) << 3)).collect()
    }

    fn tag(&self, part: Part, bytes: &[u8]) -> [u8; 4] {
        crc32c::crc32c_append(u32::from(self.0) << 8 | part as u32, bytes).to_le_bytes()
    }
}

impl Cipher for Xor {
    fn overhead(&self) -> usize {
        4
    }

    fn seal(&self, part: Part, bytes: &[u8]) -> Vec<u8> {
        [&self.tag(part, bytes)[..], &self.turned(part, bytes)].concat()
    }

    fn open(&self, part: Part, stored: &[u8]) -> Option<Vec<u8>> {
        let (tag, turned) = stored.split_first_chunk::<4>()?;
        let bytes = self.turned(part, turned);
        (*tag == self.tag(part, &bytes)).then_some(bytes)
    }
}

pub(super) fn keys(number: u8) -> Keys {
    Keys { ids: Ids::keyed(&[number; 32]), seal: Seal::by(Arc::new(Xor(number))) }
}

impl Default for Keys {
    /// The keys of a sealed store, in every test of the crate, if that is asked for.
    fn default() -> Self {
        if std::env::var_os("PARHELIA_TEST_SEALED").is_some() { keys(7) } else { plain_keys() }
    }
}

/// Those of a store without encryption, whichever ones these tests are run with.
fn plain_keys() -> Keys {
    Keys { ids: Ids::default(), seal: Seal::default() }
}

/// A word in every name, path, content, message and event of the story, and nowhere in the store's files.
const MARK: &str = "unmistakable";

fn mark(what: &str) -> String {
    format!("{MARK}-{what}")
}

/// Lines that compress well.
fn text(bytes: usize, seed: u64) -> Vec<u8> {
    let line = |number: u64| format!("{} {} {}\n", mark("line"), number, number.wrapping_mul(seed * 2_654_435_761 + 977));
    (0..).map(line).flat_map(String::into_bytes).take(bytes).collect()
}

fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut out = vec![0; bytes];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut out);
    // Such content is stored raw: it would stand in the pack as it is.
    out.chunks_mut(4096).for_each(|piece| piece[..MARK.len()].copy_from_slice(MARK.as_bytes()));
    out
}

struct Log(Vec<StateFile>);

impl State for Log {
    fn begin(&mut self) {}

    fn finish(&mut self, _seen: &CapturedWorkspace<'_>) -> CapturedState {
        CapturedState { files: self.0.clone(), ..CapturedState::default() }
    }
}

struct Place {
    dir: tempfile::TempDir,
    keys: Keys,
}

impl Place {
    fn new(number: u8) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(mark("workspace"))).unwrap();
        Place { dir, keys: keys(number) }
    }

    fn options(&self) -> OpenOptions {
        OpenOptions { create: true, keys: self.keys.clone(), ..OpenOptions::default() }
    }

    fn open(&self) -> Store {
        Store::open(&self.dir.path().join("store"), &self.options()).unwrap()
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn work(&self, name: &str) -> std::path::PathBuf {
        self.path(&mark("workspace")).join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.work(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn create(&self, store: &Store) -> Checkpoint {
        let log = self.path("log");
        let bytes = fs::metadata(&log).unwrap().len();
        let content = StateContent::Beginning { path: log, bytes };
        let file = StateFile { path: mark("log"), part: "conversation".into(), content, mtime: None };
        let rules = Rules { patterns: vec![format!("{}/", mark("left-out"))], ..Rules::default() };
        let options = create::Options {
            workspace: self.path(&mark("workspace")),
            session: mark("session"),
            message: Some(mark("message")),
            rules,
            ..create::Options::default()
        };
        create::run_with(store, &options, &FullWalk, &mut Log(vec![file]), &()).unwrap().checkpoint
    }

    fn assert_clean(&self, store: &Store) {
        let report = check::run(store.layout(), &CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
    }
}

/// The regular files below a folder.
fn files_below(folder: &Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => found.extend(files_below(&entry.path())),
            kind if kind.is_file() => drop(found.insert(entry.path(), fs::read(entry.path()).unwrap())),
            _ => {}
        }
    }
    found
}

fn object_ids(store: &Store) -> HashSet<ObjectId> {
    let mut ids = HashSet::new();
    for path in files::list(&store.layout().packs()).unwrap() {
        let pack = PackFile::open(store.layout(), Layout::pack_of(&path).unwrap()).unwrap();
        pack.scan(|_, directory| {
            ids.extend(directory.entries.iter().map(|entry| entry.id));
            Ok(())
        })
        .unwrap();
    }
    ids
}

/// Does with a store all that one does, and returns it with its checkpoints.
fn story(place: &Place) -> (Store, Vec<Checkpoint>) {
    let store = place.open();
    for number in 0..300u64 {
        place.write(&format!("{}/{}", mark("many"), number), text(200 + number as usize, number));
    }
    place.write("empty", "");
    place.write("middle", text(50_000, 7));
    place.write("large", text(2 << 20, 8));
    place.write("raw", noise(1 << 20, 9));
    place.write(&format!("{}/{}", mark("left-out"), mark("file")), "x");
    std::os::unix::fs::symlink(mark("target"), place.work("link")).unwrap();
    fs::hard_link(place.work("middle"), place.work(&mark("second-name"))).unwrap();
    rustix::fs::setxattr(place.work("middle"), "user.note", mark("attribute").as_bytes(), XattrFlags::empty()).unwrap();
    fs::write(place.path("log"), text(400_000, 10)).unwrap();

    let mut checkpoints = vec![place.create(&store)];
    for number in 1..5 {
        place.write("raw", noise(1 << 20, 9 + number as u64));
        place.write("middle", [text(20_000, 7), text(30_000 * number, number as u64)].concat());
        place.write("large", [text(number << 17, number as u64), text(2 << 20, 8)].concat());
        place.write(&format!("{}/{number}", mark("many")), text(500, 1000 + number as u64));
        fs::write(place.path("log"), text(400_000 + 10_000 * number, 10)).unwrap();
        // By whoever has it open, and whoever opens it anew.
        let anew = place.open();
        checkpoints.push(place.create(if number % 2 == 0 { &anew } else { &store }));
    }
    let renamed = NewEvent::new("session.changed", mark("session"), Actor::default()).with("name", mark("name"));
    store.append_events(&[renamed.once(mark("key"))], &()).unwrap();
    store.absorb().unwrap();
    (place.open(), checkpoints)
}

#[test]
fn stores_with_different_keys_share_no_id() {
    let [one, other] = [4, 5].map(|number| object_ids(&story(&Place::new(number)).0));
    let plain = Place { keys: plain_keys(), ..Place::new(0) };
    let plain = object_ids(&story(&plain).0);
    assert!(one.len() > 300 && one.is_disjoint(&other) && one.is_disjoint(&plain) && other.is_disjoint(&plain));
}

#[test]
fn each_kind_of_bytes_has_ids_of_its_own_in_each_store() {
    let mut seen = HashSet::new();
    for ids in [Ids::default(), Ids::keyed(&[1; 32]), Ids::keyed(&[2; 32])] {
        let blob = BlobId([7; 32]);
        let bytes = b"bytes";
        let all = [
            ids.blob(bytes).0,
            ids.tree(bytes).0,
            ids.recipe_node(bytes).0,
            ids.recipe_root(blob).0,
            ids.recipe_seal(blob, bytes),
            ids.record(bytes).0,
            ids.table(bytes).0,
        ];
        assert!(all.iter().all(|id| seen.insert(*id)));
        assert_eq!(ids.blob(b""), BlobId::EMPTY);
        assert_eq!(ids.blob_hasher().finish(), BlobId::EMPTY);
        assert!(ids.matches(ObjectKind::Tree, ids.tree(bytes).object(), bytes));
        assert!(!ids.matches(ObjectKind::Record, ids.tree(bytes).object(), bytes));
    }
    assert_eq!(Ids::default().blob(b"bytes").0, *blake3::hash(b"bytes").as_bytes());
    assert_ne!(Ids::default().event(b"x"), Ids::keyed(&[1; 32]).event(b"x"));
    assert_ne!(Ids::default().name(b"x"), Ids::keyed(&[1; 32]).name(b"x"));
}

proptest! {
    #[test]
    fn a_blobs_id_does_not_depend_on_how_it_was_read(bytes in proptest::collection::vec(any::<u8>(), 0..5000), at in 0usize..5000) {
        let at = at.min(bytes.len());
        for ids in [Ids::default(), Ids::keyed(&[9; 32])] {
            let mut hasher = ids.blob_hasher();
            hasher.update(&bytes[..at]);
            hasher.update(&bytes[at..]);
            prop_assert_eq!(hasher.finish(), ids.blob(&bytes));
        }
    }
}
