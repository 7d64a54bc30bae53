use super::*;

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
