mod grown;

use std::cell::RefCell;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::record::Part;

/// Says what belongs to a checkpoint, and remembers what it was asked.
#[derive(Default)]
struct Told {
    captured: CapturedState,
    wanted: Vec<Vec<u8>>,
    found: Vec<Option<Node>>,
    begun: u32,
}

impl State for Told {
    fn begin(&mut self) {
        self.begun += 1;
    }

    fn finish(&mut self, seen: &CapturedWorkspace<'_>) -> CapturedState {
        self.found = self.wanted.iter().map(|path| seen.entry(path)).collect();
        self.captured.clone()
    }
}

pub(super) fn file(path: &str, content: StateContent) -> StateFile {
    StateFile { path: path.into(), part: "conversation".into(), content, mtime: None }
}

pub(super) fn with(f: &Fixture, files: Vec<StateFile>) -> Outcome {
    let mut told = Told { captured: CapturedState { files, ..CapturedState::default() }, ..Told::default() };
    run_with(&f.store, &f.options(), &FullWalk, &mut told, &()).unwrap()
}

pub(super) fn state_of(f: &Fixture, checkpoint: &Checkpoint) -> BTreeMap<String, Vec<u8>> {
    let node = f.store.entry(checkpoint.record.root, b"state").unwrap().unwrap();
    let found = RefCell::new(BTreeMap::new());
    f.store
        .walk(node.as_folder().unwrap().0, &mut |path, _, node| {
            if let Kind::File { size, blob, .. } = &node.kind {
                let content = f.store.blob(*blob, *size)?.read_all()?;
                found.borrow_mut().insert(String::from_utf8(path.to_vec()).unwrap(), content);
            }
            Ok(true)
        })
        .unwrap();
    found.into_inner()
}

#[test]
fn a_state_is_stored_beside_the_workspace() {
    let f = fixture();
    f.write("src/main.rs", b"fn main() {}");
    let log = f.workspace.with_file_name("log");
    fs::write(&log, noise(300_000, 3)).unwrap();
    let large = noise(300_000, 4);
    let mut told = Told { wanted: vec![b"src/main.rs".to_vec(), b"src".to_vec(), b"nothing".to_vec()], ..Told::default() };
    told.captured = CapturedState {
        files: vec![
            file("conversation/transcript.jsonl", StateContent::Beginning { path: log.clone(), bytes: 250_000 }),
            file("conversation/part", StateContent::File { path: log.clone() }),
            file("environment.json", StateContent::Bytes(b"{}".to_vec())),
            file("large", StateContent::Bytes(large.clone())),
            file("empty", StateContent::Bytes(Vec::new())),
        ],
        parts: [("conversation".to_owned(), Part::Captured), ("tmux".to_owned(), Part::Absent)].into(),
        conversation: Some(json!({ "agent_session_id": "c1", "turn_count": 3 })),
        usage: Some(json!({ "cost_estimate_usd": 0.5 })),
        ..CapturedState::default()
    };
    let outcome = run_with(&f.store, &f.options(), &FullWalk, &mut told, &()).unwrap();
    let checkpoint = &outcome.checkpoint;
    assert_eq!(told.begun, 1);
    let Some(Node { kind: Kind::File { blob, .. }, .. }) = &told.found[0] else { panic!("{:?}", told.found) };
    assert_eq!(*blob, crate::testing::blob_id(b"fn main() {}"));
    assert!(told.found[1].as_ref().unwrap().as_folder().is_some() && told.found[2].is_none());
    let state = state_of(&f, checkpoint);
    let log = fs::read(&log).unwrap();
    assert_eq!(state["conversation/transcript.jsonl"], log[..250_000]);
    assert_eq!((&state["conversation/part"][..], &state["environment.json"][..]), (&log[..], &b"{}"[..]));
    assert!(state["large"] == large && state["empty"].is_empty() && state.len() == 5);
    assert!(checkpoint.is_complete() && checkpoint.record.parts.len() == 3);
    f.assert_exact(checkpoint);
    let report = crate::check::verify(&f.store, checkpoint, true, &()).unwrap();
    assert!(report.is_ok(), "{report:?}");
    let checked = crate::check::run(f.store.layout(), &Default::default(), &()).unwrap();
    assert!(checked.is_clean(), "{:?}", checked.findings);
}

#[test]
fn what_cannot_be_read_fails_its_part_and_no_more() {
    let f = fixture();
    f.write("a", b"1");
    let there = f.workspace.with_file_name("there");
    fs::write(&there, b"0123456789").unwrap();
    let gone = f.workspace.with_file_name("gone");
    for content in [
        StateContent::File { path: gone.clone() },
        StateContent::Beginning { path: gone, bytes: 3 },
        StateContent::Beginning { path: there.clone(), bytes: 11 },
        StateContent::File { path: f.workspace.clone() },
    ] {
        let outcome = with(&f, vec![file("x/bad", content), file("x/good", StateContent::File { path: there.clone() })]);
        let Some(Part::Failed { error }) = outcome.checkpoint.record.parts.get("conversation") else { panic!() };
        assert!(error.starts_with('/'), "{error}");
        assert!(!outcome.checkpoint.is_complete());
        assert_eq!(state_of(&f, &outcome.checkpoint).keys().collect::<Vec<_>>(), ["x/good"]);
    }
    let twice = vec![file("x", StateContent::Bytes(vec![])), file("x/y", StateContent::Bytes(vec![]))];
    let mut told = Told { captured: CapturedState { files: twice, ..CapturedState::default() }, ..Told::default() };
    assert!(run_with(&f.store, &f.options(), &FullWalk, &mut told, &()).is_err());
}

#[test]
fn a_state_is_its_owners_alone_and_has_the_times_that_are_known() {
    let f = fixture();
    let known = Time { secs: 1_600_000_000, nanos: 7 };
    let files = vec![
        StateFile { mtime: Some(known), ..file("deep/known", StateContent::Bytes(b"1".into())) },
        file("unknown", StateContent::Bytes(b"2".into())),
    ];
    let began = crate::clock::now();
    let root = with(&f, files).checkpoint.record.root;
    let meta = |path: &str| {
        let step = |tree: TreeId, part: &str| f.store.entry(tree, part.as_bytes()).unwrap().unwrap();
        let mut parts = path.split('/');
        let first = step(root, parts.next().unwrap());
        parts.fold(first, |node, part| step(node.as_folder().unwrap().0, part)).meta
    };
    let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    for (path, mode) in [("state", 0o700), ("state/deep", 0o700), ("state/deep/known", 0o600), ("state/unknown", 0o600)] {
        let meta = meta(path);
        assert_eq!((meta.mode, (meta.uid, meta.gid)), (mode, owner), "{path}");
    }
    assert_eq!(meta("state/deep/known").mtime, known);
    assert!(["state", "state/unknown"].iter().all(|path| meta(path).mtime >= began));
}

#[test]
fn a_file_of_the_state_that_somebody_has_mapped_is_read_again() {
    let f = fixture();
    let path = f.workspace.with_file_name("mapped");
    fs::write(&path, [b'-'; 200_000]).unwrap();
    let mapping = super::stamps::Mapping::of(&path);
    mapping.store(b'1');
    let_stamps_age();
    for byte in [b'2', b'3'] {
        with(&f, vec![file("mapped", StateContent::File { path: path.clone() })]);
        // The page is dirty already, so that this moves no time.
        mapping.store(byte);
        let made = with(&f, vec![file("mapped", StateContent::File { path: path.clone() })]);
        assert_eq!(state_of(&f, &made.checkpoint)["mapped"][0], byte);
    }
}

#[test]
fn a_long_file_that_somebody_has_mapped_is_read_where_no_look_is_taken_otherwise() {
    let f = fixture();
    let path = f.workspace.with_file_name("mapped");
    // The page that is mapped is in a chunk that is neither the first nor the last one, nor one that is looked at all the same.
    let page = 3 << 20;
    fs::write(&path, noise(8 << 20, 1)).unwrap();
    let mapping = super::stamps::Mapping::at(&path, page);
    mapping.store(b'1');
    let_stamps_age();
    let capture = || with(&f, vec![file("mapped", StateContent::File { path: path.clone() })]);
    capture();
    // It is dirty already, so that this moves no time.
    mapping.store(b'2');
    assert_eq!(state_of(&f, &capture().checkpoint)["mapped"][page as usize], b'2');
    drop(mapping);
}

#[test]
fn unchanged_is_what_has_the_same_files_and_the_same_conversation() {
    let f = fixture();
    f.write("a", b"1");
    let options = Options { skip_if_unchanged: true, ..f.options() };
    let create = |turns: u64| {
        let files = vec![file("session_state.json", StateContent::Bytes(noise(20, f.store.checkpoints().unwrap().len() as u64)))];
        let conversation = Some(json!({ "agent_session_id": "c", "turn_count": turns }));
        let mut told = Told { captured: CapturedState { files, conversation, ..CapturedState::default() }, ..Told::default() };
        run_with(&f.store, &options, &FullWalk, &mut told, &()).unwrap().skipped
    };
    let packs = || fs::read_dir(f.store.layout().packs()).unwrap().count();
    for (turns, is_skipped) in [(1, false), (1, true), (2, false), (2, true)] {
        let before = packs();
        assert_eq!((create(turns), packs() == before), (is_skipped, is_skipped), "nothing is left of what was skipped");
    }
}

#[test]
fn a_state_that_is_damaged_is_stored_anew() {
    let f = fixture();
    f.write("file", b"1");
    let of = |content: &[u8]| with(&f, vec![file("inner/file", StateContent::Bytes(content.to_vec()))]).checkpoint;
    let first = of(b"first");
    let state = f.store.entry(first.record.root, b"state").unwrap().unwrap();
    let inner = f.store.entry(state.as_folder().unwrap().0, b"inner").unwrap().unwrap();
    let at = f.store.locate(crate::pack::ObjectKind::Tree, inner.as_folder().unwrap().0.object()).unwrap();
    let path = f.store.layout().pack(at.pack);
    let mut bytes = fs::read(&path).unwrap();
    let end = (at.offset + u64::from(at.block_bytes)) as usize;
    bytes[at.offset as usize + 8..end].fill(0);
    fs::write(&path, bytes).unwrap();
    let f = Fixture { store: Store::open(f.store.path(), &OpenOptions::default()).unwrap(), ..f };
    let next = with(&f, vec![file("inner/file", StateContent::Bytes(b"second".to_vec()))]).checkpoint;
    assert_eq!(state_of(&f, &next)["inner/file"], b"second");
}
