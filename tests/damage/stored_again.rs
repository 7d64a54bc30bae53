//! The next create stores again what is lost and still there.

use std::{fs, path::PathBuf};

use parhelia_tests::{Scratch, files_in, noise, write};

use crate::damage::world::{files_only, flip_where, flipped_in_the_middle, half_lost, without_its_largest_pack};

#[test]
fn what_a_repair_does_not_find_comes_back_with_the_next_create() {
    for first_half in [true, false] {
        let (s, ids) = half_lost(first_half);
        let said = s.expect(12, &["check", "--repair"]);
        assert!(said.contains("is lost") && said.contains(&ids[0]), "{said}");
        // Twice does no harm.
        s.expect(12, &["check", "--repair", "--quiet"]);
        s.expect(12, &["checkpoint", "verify", &ids[0], "--deep", "--quiet"]);
        files_only(&s, &s.path("work"));
        for id in &ids {
            s.expect(0, &["checkpoint", "verify", id, "--deep", "--quiet"]);
        }
        s.expect(0, &["check", "--read-data", "--quiet"]);
        s.expect(0, &["gc", "--quiet"]);
    }
}

#[test]
fn what_a_check_found_damaged_is_stored_again_by_the_next_create() {
    let (s, first) = flipped_in_the_middle();
    let said = s.expect(12, &["check", "--read-data"]);
    assert!(said.contains("`parhelia check --repair`"), "{said}");
    // It is known from now on.
    s.expect(12, &["checkpoint", "verify", &first, "--quiet"]);
    let second = files_only(&s, &s.path("work"));
    for id in [&first, &second] {
        s.expect(0, &["checkpoint", "verify", id, "--deep", "--quiet"]);
        let out = s.path(&format!("out-{id}"));
        s.restore(id, &out);
        assert_eq!(files_in(&out), files_in(&s.path("work")));
    }
    s.expect(0, &["check", "--repair", "--quiet"]);
    s.expect(0, &["check", "--read-data", "--quiet"]);
    s.expect(0, &["gc", "--quiet"]);
    s.expect(0, &["checkpoint", "verify", &first, "--deep", "--quiet"]);
}

#[test]
fn a_deep_create_stores_again_what_it_finds_damaged() {
    let (s, first) = flipped_in_the_middle();
    let work = s.path("work").to_string_lossy().into_owned();
    let said = s.expect(0, &["checkpoint", "create", "s", "--workspace", &work, "--no-default-excludes", "--deep"]);
    assert!(said.contains("another one is made"), "{said}");
    for id in [first.as_str(), "s@latest"] {
        s.expect(0, &["checkpoint", "verify", id, "--deep", "--quiet"]);
    }
    // Where nothing is damaged, one is made.
    let said = s.expect(0, &["checkpoint", "create", "s", "--workspace", &work, "--no-default-excludes", "--deep"]);
    assert!(!said.contains("another one"), "{said}");
}

/// A conversation of a file that only grows.
struct Transcript(PathBuf);

impl parhelia_store::create::State for Transcript {
    fn begin(&mut self) {}

    fn finish(&mut self, _seen: &parhelia_store::create::CapturedWorkspace<'_>) -> parhelia_store::create::CapturedState {
        use parhelia_store::create::{CapturedState, StateContent, StateFile};
        let bytes = fs::metadata(&self.0).unwrap().len();
        let content = StateContent::Beginning { path: self.0.clone(), bytes };
        let file = StateFile { path: "conversation/t.jsonl".into(), part: "conversation".into(), content, mtime: None };
        CapturedState { files: vec![file], ..CapturedState::default() }
    }
}

#[test]
fn what_is_lost_of_a_conversation_comes_back_with_the_next_create() {
    use parhelia_store::{OpenOptions, create};
    let s = Scratch::without_parity();
    write(&s.path("work/f"), b"a file").unwrap();
    let (transcript, bytes) = (s.path("t.jsonl"), noise(900_000, 11));
    let checkpoint = || {
        let store = parhelia_ledger::open(&s.store(), &OpenOptions { create: true, ..OpenOptions::default() }).unwrap();
        let options = create::Options { workspace: s.path("work"), session: "s".into(), ..create::Options::default() };
        let mut state = Transcript(transcript.clone());
        create::run_with(&store, &options, &create::FullWalk, &mut state, &()).unwrap().checkpoint.id()
    };
    let mut ids = Vec::new();
    for end in [500_000, 600_000] {
        fs::write(&transcript, &bytes[..end]).unwrap();
        ids.push(checkpoint());
    }
    // One that only the steps in which the file has grown have made, and one in its middle.
    flip_where(&s, &bytes[499_900..499_999]);
    flip_where(&s, &bytes[250_000..250_099]);
    let said = s.expect(12, &["check", "--repair"]);
    assert!(said.contains("objects lost"), "{said}");
    for end in [700_000, 900_000] {
        fs::write(&transcript, &bytes[..end]).unwrap();
        ids.push(checkpoint());
    }
    for id in &ids[1..] {
        s.expect(0, &["checkpoint", "verify", id, "--deep", "--quiet"]);
    }
    // The chunk with which the first one ended is a part of a longer one by now.
    s.expect(12, &["checkpoint", "verify", &ids[0], "--deep", "--quiet"]);
    fs::write(&transcript, &bytes[..500_000]).unwrap();
    checkpoint();
    s.expect(0, &["checkpoint", "verify", &ids[0], "--deep", "--quiet"]);
    s.expect(0, &["gc", "--quiet"]);
    s.expect(0, &["check", "--read-data", "--quiet"]);
}

#[test]
fn of_a_file_with_a_lost_chunk_the_rest_can_be_read_and_another_copy_of_it_completes_it() {
    use parhelia_store::{OpenOptions, tree::Kind};
    let s = Scratch::without_parity();
    let bytes = noise(700_000, 12);
    let mut ids = Vec::new();
    for end in [500_000, 700_000] {
        write(&s.path("work/log"), &bytes[..end]).unwrap();
        ids.push(files_only(&s, &s.path("work")));
    }
    flip_where(&s, &bytes[499_900..499_999]);
    let said = s.expect(12, &["check", "--repair"]);
    assert!(said.contains("lost") && ids.iter().all(|id| said.contains(&format!("{id}:log"))), "{said}");
    let store = parhelia_ledger::open(&s.store(), &OpenOptions::default()).unwrap();
    let newest = store.checkpoints().unwrap().pop().unwrap();
    let Kind::File { blob, size, .. } = store.node_at(&newest, b"log").unwrap().kind else { panic!("no file") };
    let reader = store.blob(blob, size).unwrap();
    let mut found = Vec::new();
    let mut take = |piece: &[u8]| {
        found.extend_from_slice(piece);
        Ok(())
    };
    reader.read_range(600_000..700_000, &mut take).unwrap();
    assert_eq!(found, bytes[600_000..]);
    assert!(reader.read_range(499_000..500_000, |_| Ok(())).is_err());
    s.expect(12, &["gc", "--quiet"]);
    // The same contents, in a folder that was never captured.
    write(&s.path("elsewhere/copy"), &bytes).unwrap();
    ids.push(s.create("other", &s.path("elsewhere")));
    s.expect(0, &["checkpoint", "verify", &ids[1], "--deep", "--quiet"]);
    write(&s.path("elsewhere/earlier"), &bytes[..500_000]).unwrap();
    ids.push(s.create("other", &s.path("elsewhere")));
    for id in &ids {
        s.expect(0, &["checkpoint", "verify", id, "--deep", "--quiet"]);
    }
    s.expect(0, &["gc", "--quiet"]);
    s.expect(0, &["check", "--read-data", "--quiet"]);
}

#[test]
fn what_is_lost_of_the_last_checkpoint_is_stored_again_also_if_nothing_has_changed() {
    for is_repaired in [false, true] {
        let (s, pack, head) = without_its_largest_pack();
        let create = || s.summary(&["create", "s", "--workspace", &s.path("work").to_string_lossy(), "--skip-if-unchanged"]);
        assert_eq!(create()["skipped"], true);
        fs::remove_file(&pack).unwrap();
        if is_repaired {
            s.expect(12, &["check", "--repair"]);
        }
        let made = create();
        assert!(made["skipped"] == false && made["id"] != *head, "{made}");
        s.expect(0, &["verify", made["id"].as_str().unwrap(), "--deep"]);
        s.expect(0, &["verify", &head, "--deep"]);
        assert_eq!(create()["skipped"], true);
    }
}
