use std::cell::RefCell;

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Says what belongs to a checkpoint, and remembers what it was asked.
#[derive(Default)]
struct Told {
    captured: Captured,
    wanted: Vec<Vec<u8>>,
    found: Vec<Option<Node>>,
    begun: u32,
}

impl State for Told {
    fn begin(&mut self) {
        self.begun += 1;
    }

    fn finish(&mut self, seen: &Seen<'_>) -> Captured {
        self.found = self.wanted.iter().map(|path| seen.entry(path)).collect();
        self.captured.clone()
    }
}

pub(super) fn file(path: &str, content: StateContent) -> StateFile {
    StateFile { path: path.into(), part: "conversation".into(), content, mtime: None }
}

pub(super) fn with(f: &Fixture, files: Vec<StateFile>) -> Outcome {
    let mut told = Told { captured: Captured { files, ..Captured::default() }, ..Told::default() };
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
    told.captured = Captured {
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
        ..Captured::default()
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
    let session = f.store.view().session("s").unwrap().unwrap();
    assert_eq!((session.conversations[0].turn_count, session.totals.cost_usd), (Some(3), Some(0.5)));
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
    let mut told = Told { captured: Captured { files: twice, ..Captured::default() }, ..Told::default() };
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
        let mut told = Told { captured: Captured { files, conversation, ..Captured::default() }, ..Told::default() };
        run_with(&f.store, &options, &FullWalk, &mut told, &()).unwrap().skipped
    };
    let packs = || fs::read_dir(f.store.layout().packs()).unwrap().count();
    for (turns, is_skipped) in [(1, false), (1, true), (2, false), (2, true)] {
        let before = packs();
        assert_eq!((create(turns), packs() == before), (is_skipped, is_skipped), "nothing is left of what was skipped");
    }
}

/// One capture of a file that grows: its content, read whole and read by what is known.
fn capture(f: &Fixture, log: &Path, end: u64) -> Outcome {
    with(f, vec![file("log", StateContent::Beginning { path: log.to_owned(), bytes: end })])
}

#[test]
fn of_a_file_that_grew_only_what_is_new_is_read_and_stored() {
    let f = fixture();
    f.write("a", b"1");
    let log = f.workspace.with_file_name("log");
    let mut content = noise(6 << 20, 1);
    fs::write(&log, &content).unwrap();
    assert!(capture(&f, &log, content.len() as u64).bytes_read >= 6 << 20);
    let mut stored = 0;
    for step in 0..30u64 {
        let more = noise(4000, 100 + step);
        content.extend_from_slice(&more);
        File::options().append(true).open(&log).unwrap().write_all(&more).unwrap();
        let outcome = capture(&f, &log, content.len() as u64);
        assert!(outcome.bytes_read < 600 << 10, "{}", outcome.bytes_read);
        // The last chunk is cut anew, and builds on what it was; now and then it is stored whole.
        stored += outcome.stored_bytes;
        assert!(state_of(&f, &outcome.checkpoint)["log"] == content);
    }
    assert!(stored < 30 * 12_000, "{stored}");
    let latest = f.create().checkpoint;
    let ids: Vec<_> = f.store.checkpoints().unwrap().iter().map(|c| c.record.id).filter(|id| *id != latest.record.id).collect();
    crate::delete::delete_checkpoints(&f.store, &ids, None, &()).unwrap();
    crate::gc::run(&f.store, &Default::default(), &()).unwrap();
    // What was known is in no checkpoint any more.
    let outcome = capture(&f, &log, content.len() as u64);
    assert!(outcome.bytes_read >= 6 << 20 && state_of(&f, &outcome.checkpoint)["log"] == content);
}

#[test]
fn a_file_that_was_rewritten_is_read_anew() {
    let f = fixture();
    f.write("a", b"1");
    let log = f.workspace.with_file_name("log");
    let content = noise(3 << 20, 1);
    fs::write(&log, &content).unwrap();
    let end = content.len() as u64;
    capture(&f, &log, end);
    let check = |content: &[u8], end: u64| {
        let outcome = capture(&f, &log, end);
        assert!(state_of(&f, &outcome.checkpoint)["log"] == content[..end as usize]);
    };
    // Another file in its place, which begins otherwise.
    let other = noise(4 << 20, 2);
    fs::write(log.with_extension("new"), &other).unwrap();
    fs::rename(log.with_extension("new"), &log).unwrap();
    check(&other, 4 << 20);
    // The same file, written over from the beginning, at its end, and cut.
    for at in [0, (4 << 20) - 10] {
        let mut changed = fs::read(&log).unwrap();
        changed[at..at + 5].copy_from_slice(b"other");
        let mut file = File::options().write(true).open(&log).unwrap();
        file.seek(SeekFrom::Start(at as u64)).unwrap();
        file.write_all(b"other").unwrap();
        check(&changed, 4 << 20);
    }
    let kept = fs::read(&log).unwrap();
    check(&kept, 1 << 20);
    File::options().write(true).open(&log).unwrap().set_len(100_000).unwrap();
    check(&kept, 100_000);
}

#[test]
fn a_file_that_may_be_written_anew_is_taken_whole() {
    let f = fixture();
    f.write("a", b"1");
    let side = f.workspace.with_file_name("side");
    let whole = |path: &Path| with(&f, vec![file("side", StateContent::File { path: path.to_owned() })]);
    let mut content = noise(3 << 20, 1);
    fs::write(&side, &content).unwrap();
    whole(&side);
    // Written over where somebody who looks at some of it does not look.
    for at in (100_000..3 << 20).step_by(500_000) {
        content[at..at + 5].copy_from_slice(b"other");
        let mut open = File::options().write(true).open(&side).unwrap();
        open.seek(SeekFrom::Start(at as u64)).unwrap();
        open.write_all(b"other").unwrap();
        assert!(state_of(&f, &whole(&side).checkpoint)["side"] == content, "{at}");
    }
    for other in [noise(10, 2), noise(4 << 20, 3), Vec::new(), noise(70_000, 4)] {
        fs::write(&side, &other).unwrap();
        assert!(state_of(&f, &whole(&side).checkpoint)["side"] == other);
    }
    // A file that was not touched for long: this program.
    let old = std::env::current_exe().unwrap();
    let bytes = fs::metadata(&old).unwrap().len();
    while crate::clock::now().secs - rustix::fs::stat(&old).unwrap().st_ctime < 3 {
        std::thread::yield_now();
    }
    assert!(whole(&old).bytes_read >= bytes);
    let again = whole(&old);
    assert!(again.bytes_read < 2 << 20, "{}", again.bytes_read);
    assert!(state_of(&f, &again.checkpoint)["side"] == fs::read(&old).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn read_by_what_is_known_it_equals_what_is_there(
        steps in proptest::collection::vec((prop_oneof![1usize..9000, 1usize..700_000], 0u8..8), 1..8), seed in any::<u64>()
    ) {
        let f = fixture();
        f.write("a", b"1");
        let log = f.workspace.with_file_name("log");
        fs::write(&log, b"").unwrap();
        let mut content = Vec::new();
        for (i, (bytes, what)) in steps.into_iter().enumerate() {
            if what == 0 {
                content = noise(content.len(), seed ^ 1);
                fs::write(&log, &content).unwrap();
            }
            // Some of what is appended repeats, as logs do.
            let more = if what % 2 == 0 { noise(bytes, seed.wrapping_add(i as u64)) } else { vec![b'x'; bytes] };
            content.extend_from_slice(&more);
            File::options().append(true).open(&log).unwrap().write_all(&more).unwrap();
            let cut = (content.len() as u64).saturating_sub(u64::from(what));
            let outcome = capture(&f, &log, cut);
            let node = f.store.entry(outcome.checkpoint.record.root, b"state").unwrap().unwrap();
            let node = f.store.entry(node.as_folder().unwrap().0, b"log").unwrap().unwrap();
            let Kind::File { blob, size, .. } = node.kind else { panic!() };
            prop_assert_eq!((blob, size), (crate::testing::blob_id(&content[..cut as usize]), cut));
            prop_assert!(state_of(&f, &outcome.checkpoint)["log"] == content[..cut as usize]);
        }
    }
}

#[test]
fn a_file_that_grows_by_equal_chunks_has_the_recipe_of_one_that_is_read_at_once() {
    let chunks = |captured: &[u64]| {
        let f = fixture();
        f.write("a", b"1");
        let log = f.workspace.with_file_name("log");
        let mut last = None;
        for end in captured {
            fs::write(&log, vec![0; *end as usize]).unwrap();
            last = Some(capture(&f, &log, *end).checkpoint);
        }
        let state = f.store.entry(last.unwrap().record.root, STATE_FOLDER.as_bytes()).unwrap().unwrap();
        let Kind::File { blob, size, .. } = f.store.entry(state.as_folder().unwrap().0, b"log").unwrap().unwrap().kind else {
            panic!()
        };
        f.store.blob(blob, size).unwrap().runs().to_vec()
    };
    assert_eq!(chunks(&[868 << 10, 1280 << 10]), chunks(&[1280 << 10]));
}

#[test]
fn what_the_store_has_lost_of_a_file_that_grew_is_stored_again() {
    let f = fixture();
    let log = f.workspace.with_file_name("log");
    let content = noise(2 << 20, 5);
    let (first, more) = (1_500_000, content.len() - 1000);
    fs::write(&log, &content[..first]).unwrap();
    capture(&f, &log, first as u64);
    let packs: Vec<PathBuf> = fs::read_dir(f.store.layout().packs()).unwrap().map(|entry| entry.unwrap().path()).collect();
    File::options().append(true).open(&log).unwrap().write_all(&content[first..more]).unwrap();
    capture(&f, &log, more as u64);
    packs.iter().for_each(|pack| fs::remove_file(pack).unwrap());
    let plan = crate::check::plan_repair(f.store.layout(), &[], &()).unwrap();
    crate::check::repair(f.store.layout(), &plan, std::time::Duration::from_secs(60), &()).unwrap();
    let again = Fixture { store: Store::open(f.store.path(), &OpenOptions::default()).unwrap(), ..f };
    File::options().append(true).open(&log).unwrap().write_all(&content[more..]).unwrap();
    let outcome = capture(&again, &log, content.len() as u64);
    let state = state_of(&again, &outcome.checkpoint);
    assert!(state["log"] == content);
    let report = crate::check::verify(&again.store, &outcome.checkpoint, true, &()).unwrap();
    assert!(report.is_ok(), "{:?}", report.problems);
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
