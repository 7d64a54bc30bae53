//! Damaged bytes are noticed and named; no read returns wrong ones, and nothing panics.

use std::{
    fs,
    path::{Path, PathBuf},
};

use parhelia_tests::{Scratch, files_in, noise, write};

fn small_store() -> (Scratch, String) {
    let s = Scratch::new();
    for i in 0..6u64 {
        write(&s.path(&format!("work/d{}/f{i}", i % 2)), format!("content of {i}\n").repeat(20).as_bytes()).unwrap();
    }
    write(&s.path("work/noise"), &noise(4000, 1)).unwrap();
    let id = s.create("s", &s.path("work"));
    (s, id)
}

fn only_file(folder: &Path, ending: &str) -> PathBuf {
    let mut found = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).filter(|p| p.to_string_lossy().ends_with(ending));
    found.next().unwrap()
}

fn contents(s: &Scratch) -> Vec<(String, Vec<u8>)> {
    let mut names: Vec<String> = (0..6).map(|i| format!("d{}/f{i}", i % 2)).collect();
    names.push("noise".into());
    names.into_iter().map(|n| (n.clone(), fs::read(s.path("work").join(&n)).unwrap())).collect()
}

/// Every way of damage at a dense sample of places of one file.
fn damage(s: &Scratch, id: &str, path: &Path, step: usize) {
    let good = fs::read(path).unwrap();
    let originals = contents(s);
    for at in (0..good.len()).step_by(step) {
        let mut flipped = good.clone();
        flipped[at] ^= 0x20;
        let mut zeroed = good.clone();
        zeroed[at..(at + 64).min(good.len())].fill(0);
        let truncated = good[..at].to_vec();
        for (how, bytes) in [("flipped", flipped), ("zeroed", zeroed), ("truncated", truncated)] {
            if bytes == good {
                continue;
            }
            fs::write(path, &bytes).unwrap();
            let check = s.run(&["check", "--read-data"]);
            let said = String::from_utf8_lossy(&check.stdout).into_owned() + &String::from_utf8_lossy(&check.stderr);
            assert_eq!(check.status.code(), Some(12), "{how} at {at} of {}: {said}", path.display());
            assert!(!said.contains("panicked"), "{how} at {at}: {said}");
            let name = path.file_name().unwrap().to_string_lossy();
            assert!(said.contains(&*name) || said.contains("journal"), "{how} at {at}: not named: {said}");
            let (file, expected) = &originals[at % originals.len()];
            let cat = s.run(&["checkpoint", "cat", &format!("{id}:{file}")]);
            assert!(cat.stdout.is_empty() || cat.stdout == *expected, "{how} at {at}: wrong bytes of {file}");
            assert!(!cat.status.success() || cat.stdout == *expected, "{how} at {at}: {file}");
        }
    }
    fs::write(path, &good).unwrap();
    s.expect(0, &["check", "--read-data", "--quiet"]);
}

#[test]
fn damaged_packs_are_noticed() {
    let (s, id) = small_store();
    damage(&s, &id, &only_file(&s.store().join("packs"), ".pack"), 97);
}

#[test]
fn a_damaged_journal_is_noticed() {
    let (s, id) = small_store();
    damage(&s, &id, &only_file(&s.store().join("journal"), ".log"), 61);
}

#[test]
fn a_lost_pack_is_named_with_what_it_held() {
    let (s, id) = small_store();
    let pack = only_file(&s.store().join("packs"), ".pack");
    fs::remove_file(&pack).unwrap();
    let said = s.expect(12, &["check"]);
    assert!(said.contains(&*pack.file_name().unwrap().to_string_lossy()), "{said}");
    assert!(said.contains(&id), "{said}");
    s.expect(12, &["checkpoint", "cat", &format!("{id}:noise")]);
}

#[test]
fn gc_refuses_while_something_is_lost_that_a_checkpoint_needs() {
    let (s, first) = small_store();
    let packs = s.store().join("packs");
    let needed = only_file(&packs, ".pack");
    write(&s.path("other/gone"), &noise(9000, 7)).unwrap();
    let gone = s.create("other", &s.path("other"));
    s.expect(0, &["checkpoint", "delete", &gone, "--quiet"]);
    let bytes = fs::read(&needed).unwrap();
    fs::remove_file(&needed).unwrap();
    let before = files_in(&packs);
    let said = s.expect(12, &["gc"]);
    assert!(said.contains("missing") || said.contains("cannot"), "{said}");
    assert_eq!(files_in(&packs), before);
    // With what was lost, it works again.
    fs::write(&needed, bytes).unwrap();
    s.expect(0, &["gc", "--quiet"]);
    assert!(files_in(&packs) != before);
    s.expect(0, &["checkpoint", "verify", &first, "--deep", "--quiet"]);
}

#[test]
fn a_damaged_index_is_noticed_and_made_anew() {
    let s = Scratch::new();
    for i in 0..2500u64 {
        write(&s.path(&format!("work/d{}/f{i}", i % 9)), &noise(60, i)).unwrap();
    }
    let id = s.create("s", &s.path("work"));
    let table = only_file(&s.store().join("view"), ".sst");
    let good = fs::read(&table).unwrap();
    for at in (0..good.len()).step_by(good.len() / 12) {
        let mut bytes = good.clone();
        bytes[at..(at + 200).min(good.len())].fill(0xee);
        fs::write(&table, &bytes).unwrap();
        let cat = s.run(&["checkpoint", "cat", &format!("{id}:d0/f0")]);
        assert!(!cat.status.success() || cat.stdout == noise(60, 0), "at {at}");
        assert!(!String::from_utf8_lossy(&cat.stderr).contains("panicked"), "at {at}");
    }
    s.expect(0, &["check", "--rebuild-index", "--quiet"]);
    s.expect(0, &["check", "--read-data", "--quiet"]);
    fs::write(s.store().join("view/CURRENT"), "").unwrap();
    assert_eq!(s.run(&["checkpoint", "cat", &format!("{id}:d0/f0")]).stdout, noise(60, 0), "an empty file locks the store");
    s.expect(12, &["check"]);
    s.create("s", &s.path("work"));
    s.expect(0, &["check", "--rebuild-index", "--quiet"]);
    s.expect(0, &["checkpoint", "verify", &id, "--deep", "--quiet"]);
}

fn zero(path: &Path, from: usize, to: usize) {
    let mut bytes = fs::read(path).unwrap();
    let to = to.min(bytes.len());
    bytes[from..to].fill(0);
    fs::write(path, bytes).unwrap();
}

/// A checkpoint of the files alone: what stands in `state/` beside them is nowhere else.
fn files_only(s: &Scratch, work: &Path) -> String {
    use parhelia_store::{OpenOptions, Store, create};
    let store = Store::open(&s.store(), &OpenOptions { create: true, ..OpenOptions::default() }).unwrap();
    let options = create::Options { workspace: work.into(), session: "s".into(), ..create::Options::default() };
    create::run(&store, &options, &()).unwrap().checkpoint.id()
}

/// A store of which half of the first pack is zeros, and its workspace.
fn half_lost(first_half: bool) -> (Scratch, Vec<String>) {
    let s = Scratch::new();
    for i in 0..120u64 {
        write(&s.path(&format!("work/d{}/f{i}", i % 9)), &noise(9000, i)).unwrap();
    }
    write(&s.path("work/large"), &noise(700_000, 900)).unwrap();
    let first = files_only(&s, &s.path("work"));
    let pack = only_file(&s.store().join("packs"), ".pack");
    let second = files_only(&s, &s.path("work"));
    let length = fs::metadata(&pack).unwrap().len() as usize;
    let (from, to) = if first_half { (100, length / 2) } else { (length / 2, length) };
    zero(&pack, from, to);
    s.expect(12, &["check", "--read-data", "--quiet"]);
    (s, vec![first, second])
}

#[test]
fn a_repair_takes_what_is_lost_from_the_live_folder() {
    for first_half in [true, false] {
        let (s, ids) = half_lost(first_half);
        let work = s.path("work").to_string_lossy().into_owned();
        let before = files_in(&s.store());
        let planned = s.run(&["check", "--repair", "--dry-run", "--from", &work]);
        assert_eq!(planned.status.code(), Some(12), "{planned:?}");
        assert!(String::from_utf8_lossy(&planned.stdout).contains("Would replace 1 pack"), "{planned:?}");
        assert_eq!(files_in(&s.store()), before, "a dry run changes something");
        let alone = s.run(&["check", "--repair", "--dry-run"]);
        assert!(String::from_utf8_lossy(&alone.stderr).contains("is lost"), "{alone:?}");

        s.expect(0, &["check", "--repair", "--from", &work]);
        for id in &ids {
            s.expect(0, &["checkpoint", "verify", id, "--deep", "--quiet"]);
        }
        s.expect(0, &["gc", "--quiet"]);
        s.expect(0, &["check", "--read-data", "--quiet"]);
        s.restore(&ids[0], &s.path("out"));
        assert_eq!(files_in(&s.path("out")), files_in(&s.path("work")));
    }
}

#[test]
fn a_repair_names_what_the_live_folder_does_not_have_any_more() {
    let (s, ids) = half_lost(true);
    let alone = s.run(&["check", "--repair", "--dry-run", "--json"]);
    let lines = String::from_utf8_lossy(&alone.stdout).into_owned();
    let lost = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let mut paths = lost.filter_map(|line| line["touches"][0]["path"].as_str().map(str::to_owned));
    let changed = paths.find(|path| path.starts_with('d')).unwrap();
    let good = fs::read(s.path("work").join(&changed)).unwrap();
    fs::write(s.path("work").join(&changed), "other content").unwrap();
    let work = s.path("work").to_string_lossy().into_owned();
    let said = s.expect(12, &["check", "--repair", "--from", &work]);
    assert!(said.contains("1 object lost") && said.contains(&format!("{}:{changed}", ids[0])), "{said}");
    s.expect(12, &["checkpoint", "cat", &format!("{}:{changed}", ids[0])]);
    let whole = format!("{}:large", ids[0]);
    assert_eq!(s.run(&["checkpoint", "cat", &whole]).stdout, fs::read(s.path("work/large")).unwrap());
    // Where a copy is, under whatever name, it is found later.
    write(&s.path("elsewhere/copy"), &good).unwrap();
    let elsewhere = s.path("elsewhere").to_string_lossy().into_owned();
    s.expect(0, &["check", "--repair", "--from", &elsewhere]);
    s.expect(0, &["checkpoint", "verify", &ids[0], "--deep", "--quiet"]);
}

#[test]
fn a_repair_takes_what_is_lost_from_another_store() {
    let (s, ids) = half_lost(false);
    let other = Scratch::new();
    files_only(&other, &s.path("work"));
    let from = other.store().to_string_lossy().into_owned();
    fs::remove_dir_all(s.path("work")).unwrap();
    s.expect(0, &["check", "--repair", "--from", &from]);
    for id in &ids {
        s.expect(0, &["checkpoint", "verify", id, "--deep", "--quiet"]);
    }
}

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

/// A store with a checkpoint of a folder, and 100 bytes flipped in the middle of its pack. The folder stays as it was.
fn flipped_in_the_middle() -> (Scratch, String) {
    let s = Scratch::without_parity();
    for i in 0..40u64 {
        write(&s.path(&format!("work/f{i}")), &noise(20_000, i)).unwrap();
    }
    let id = files_only(&s, &s.path("work"));
    let pack = only_file(&s.store().join("packs"), ".pack");
    let mut bytes = fs::read(&pack).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 100].iter_mut().for_each(|byte| *byte ^= 0xff);
    fs::write(&pack, bytes).unwrap();
    (s, id)
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

/// Flips a bit where a pack holds these bytes as they are.
fn flip_where(s: &Scratch, bytes: &[u8]) {
    for entry in fs::read_dir(s.store().join("packs")).unwrap() {
        let path = entry.unwrap().path();
        let mut pack = fs::read(&path).unwrap();
        if let Some(at) = pack.windows(bytes.len()).position(|found| found == bytes) {
            pack[at] ^= 1;
            fs::write(&path, pack).unwrap();
            return;
        }
    }
    panic!("no pack holds these bytes");
}

#[test]
fn a_flipped_bit_is_healed_on_read_and_by_a_repair() {
    let s = Scratch::new();
    let bytes = noise(700_000, 12);
    write(&s.path("work/log"), &bytes).unwrap();
    for i in 0..3u64 {
        write(&s.path(&format!("work/f{i}")), format!("content of {i}\n").repeat(20).as_bytes()).unwrap();
        s.create("s", &s.path("work"));
    }
    let work = s.path("work").to_string_lossy().into_owned();
    let packs = files_in(&s.store().join("packs"));
    flip_where(&s, &bytes[499_900..499_999]);
    // A sector of 4 KiB, as a disk loses them.
    let largest = fs::read_dir(s.store().join("packs")).unwrap().map(|entry| entry.unwrap().path());
    let largest = largest.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    zero(&largest, 40 * 4096, 41 * 4096);
    let damaged = files_in(&s.store().join("packs"));
    assert_ne!(damaged, packs);

    s.expect(0, &["checkpoint", "verify", "s@latest", "--deep", "--quiet"]);
    s.restore("s@latest", &s.path("out"));
    assert_eq!(files_in(&s.path("out")), files_in(&s.path("work")));
    assert_eq!(files_in(&s.store().join("packs")), damaged, "a reader writes to a pack");
    let said = s.expect(0, &["status", "--workspace", &work]);
    assert!(said.contains("1 damaged pack") && said.contains("check --repair"), "{said}");
    let said = s.expect(12, &["check"]);
    assert!(
        said.contains(&*largest.file_name().unwrap().to_string_lossy()) && said.contains("Nothing of these packs is lost"),
        "{said}"
    );
    let planned = s.expect(12, &["check", "--repair", "--dry-run"]);
    assert!(planned.contains("Would write 1 damaged pack anew as it was"), "{planned}");
    assert_eq!(files_in(&s.store().join("packs")), damaged, "a dry run changes something");
    // A create takes it for what it is: readable.
    s.create("s", &s.path("work"));
    s.expect(0, &["check", "--repair"]);
    let after = files_in(&s.store().join("packs"));
    assert!(packs.iter().all(|(name, bytes)| after.get(name) == Some(bytes)), "a repair changes a pack's content");
    s.expect(0, &["check", "--read-data", "--quiet"]);
    assert!(!s.expect(0, &["status", "--workspace", &work]).contains("damaged"));
}

#[test]
fn gc_writes_what_was_healed_into_packs_with_parity() {
    let s = Scratch::new();
    write(&s.path("work/large"), &noise(3_000_000, 1)).unwrap();
    write(&s.path("work/small"), &noise(300_000, 2)).unwrap();
    let first = s.create("s", &s.path("work"));
    fs::remove_file(s.path("work/large")).unwrap();
    write(&s.path("work/other"), b"more").unwrap();
    let second = s.create("s", &s.path("work"));
    flip_where(&s, &noise(300_000, 2)[1000..1099]);
    s.expect(0, &["checkpoint", "delete", &first, "--quiet"]);
    s.expect(0, &["gc", "--quiet"]);
    s.expect(0, &["check", "--read-data", "--quiet"]);
    // Both ends of each new pack are those of one with parity.
    for (name, pack) in files_in(&s.store().join("packs")) {
        assert!(pack.starts_with(b"PARHPACK\x02") && pack[pack.len() - 84..].starts_with(b"PARHPEN2"), "{name:?}");
    }
    flip_where(&s, &noise(300_000, 2)[2000..2099]);
    s.restore(&second, &s.path("out"));
    assert_eq!(files_in(&s.path("out")), files_in(&s.path("work")));
}

/// A conversation of a file that only grows.
struct Transcript(PathBuf);

impl parhelia_store::create::State for Transcript {
    fn begin(&mut self) {}

    fn finish(&mut self, _seen: &parhelia_store::create::Seen<'_>) -> parhelia_store::create::Captured {
        use parhelia_store::create::{Captured, StateContent, StateFile};
        let bytes = fs::metadata(&self.0).unwrap().len();
        let content = StateContent::Beginning { path: self.0.clone(), bytes };
        let file = StateFile { path: "conversation/t.jsonl".into(), part: "conversation".into(), content, mtime: None };
        Captured { files: vec![file], ..Captured::default() }
    }
}

#[test]
fn what_is_lost_of_a_conversation_comes_back_with_the_next_create() {
    use parhelia_store::{OpenOptions, Store, create};
    let s = Scratch::without_parity();
    write(&s.path("work/f"), b"a file").unwrap();
    let (transcript, bytes) = (s.path("t.jsonl"), noise(900_000, 11));
    let checkpoint = || {
        let store = Store::open(&s.store(), &OpenOptions { create: true, ..OpenOptions::default() }).unwrap();
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
    use parhelia_store::{OpenOptions, Store, tree::Kind};
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
    let store = Store::open(&s.store(), &OpenOptions::default()).unwrap();
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
fn what_the_index_leaves_out_of_a_lost_pack_is_read_again() {
    let (s, _) = small_store();
    files_only(&s, &s.path("work"));
    fs::remove_file(only_file(&s.store().join("packs"), ".pack")).unwrap();
    s.expect(12, &["check", "--rebuild-index", "--quiet"]);
    let again = files_only(&s, &s.path("work"));
    s.expect(0, &["checkpoint", "verify", &again, "--deep", "--quiet"]);
}

#[test]
fn a_pack_that_cannot_be_read_now_is_not_repaired() {
    let (s, id) = small_store();
    let pack = only_file(&s.store().join("packs"), ".pack");
    let aside = s.path("aside");
    let in_its_place: [fn(&Path); 2] =
        [|path| std::os::unix::fs::symlink(path, path).unwrap(), |path| fs::create_dir(path).unwrap()];
    for put in in_its_place {
        fs::rename(&pack, &aside).unwrap();
        put(&pack);
        for flags in [&["--dry-run"][..], &[]] {
            let said = s.expect(1, &[&["check", "--repair"], flags].concat());
            assert!(said.contains(&*pack.file_name().unwrap().to_string_lossy()) && said.contains("it may be whole"), "{said}");
        }
        let _ = fs::remove_file(&pack).or_else(|_| fs::remove_dir(&pack));
        fs::rename(&aside, &pack).unwrap();
        s.expect(0, &["check", "--read-data", "--quiet"]);
        s.expect(0, &["checkpoint", "verify", &id, "--deep", "--quiet"]);
    }
}

#[test]
fn a_repair_of_a_sound_store_changes_no_pack() {
    let (s, id) = small_store();
    let before = files_in(&s.store().join("packs"));
    s.expect(0, &["check", "--repair"]);
    assert_eq!(files_in(&s.store().join("packs")), before);
    s.expect(0, &["checkpoint", "verify", &id, "--deep", "--quiet"]);
}

#[test]
fn a_store_without_its_index_has_lost_nothing_and_gained_nothing() {
    let s = Scratch::new();
    let mut ids = Vec::new();
    for round in 0..5u64 {
        write(&s.path(&format!("work/f{round}")), &noise(5000, round)).unwrap();
        ids.push(s.create(&format!("s{}", round % 2), &s.path("work")));
    }
    let (deleted, kept) = (ids.remove(3), ids);
    s.expect(0, &["checkpoint", "delete", &deleted, "--quiet"]);
    s.expect(0, &["gc", "--quiet"]);
    // A verification is noted, and shown in the list.
    let list = || {
        let lines = s.expect(0, &["checkpoint", "list", "--json"]);
        lines.lines().map(|line| line.split("\"verification\"").next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let listed = list();
    let roots: Vec<_> = kept.iter().map(|id| s.summary(&["checkpoint", "show", id])).collect();
    for round in 0..2 {
        fs::remove_dir_all(s.store().join("view")).unwrap();
        if round == 0 {
            fs::create_dir(s.store().join("view")).unwrap();
        }
        assert_eq!(list(), listed);
        for (id, root) in kept.iter().zip(&roots) {
            assert_eq!(s.summary(&["checkpoint", "show", id]), *root);
            s.expect(0, &["checkpoint", "verify", id, "--deep", "--quiet"]);
        }
        s.expect(10, &["checkpoint", "show", &deleted]);
        let again = s.create("s0", &s.path("work"));
        s.expect(0, &["checkpoint", "delete", &again, "--quiet"]);
        s.expect(0, &["gc", "--quiet"]);
        s.expect(0, &["check", "--read-data", "--quiet"]);
        s.expect(10, &["checkpoint", "show", &deleted]);
    }
}

/// A store with thirty files, of which the pack that holds them is gone; the pack's place, and the head's id.
fn without_its_largest_pack() -> (Scratch, PathBuf, String) {
    let s = Scratch::new();
    for i in 0..30u64 {
        write(&s.path(&format!("work/f{i}")), &noise(20_000, i)).unwrap();
    }
    s.create("s", &s.path("work"));
    write(&s.path("work/x"), b"hi").unwrap();
    let head = s.create("s", &s.path("work"));
    let packs = fs::read_dir(s.store().join("packs")).unwrap().map(|entry| entry.unwrap().path());
    let pack = packs.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    (s, pack, head)
}

fn said_by_status(s: &Scratch) -> String {
    let output = s.command(&["status"]).current_dir(s.path("work")).output().unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned()
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

#[test]
fn what_a_check_found_is_told_by_status_and_list() {
    let (s, pack, head) = without_its_largest_pack();
    s.expect(0, &["verify", &head]);
    assert!(!said_by_status(&s).contains("parhelia check"));
    let (away, second) = (s.path("away"), s.path("second"));
    assert!(std::process::Command::new("cp").arg("-a").arg(s.store()).arg(&second).status().unwrap().success());
    for find in [&["check"][..], &["check", "--read-data"], &["verify", &head], &["check", "--repair"]] {
        fs::copy(&pack, &away).unwrap();
        fs::remove_file(&pack).unwrap();
        s.expect(12, find);
        let said = said_by_status(&s);
        assert!(said.contains("found in the store") && said.contains("parhelia check"), "{find:?}: {said}");
        let listed = s.expect(0, &["list", "-d"]);
        assert!(listed.contains('✗'), "{find:?}: {listed}");
        if find.contains(&"--repair") {
            break;
        }
        fs::copy(&away, &pack).unwrap();
        s.expect(0, &["check", "--read-data"]);
        assert_eq!(said_by_status(&s), "", "{find:?}");
        let listed = s.expect(0, &["list", "-d"]);
        assert!(!listed.contains('✗'), "{find:?}: {listed}");
    }
    // What is lost is found elsewhere.
    s.expect(0, &["check", "--repair", "--from", &second.to_string_lossy()]);
    assert_eq!(said_by_status(&s), "");
}

#[test]
fn more_damage_than_parity_gives_back_is_not_called_whole() {
    let (s, pack, _) = without_its_largest_pack();
    let mut bytes = fs::read(&pack).unwrap();
    bytes[100_000..300_000].copy_from_slice(&noise(200_000, 99));
    fs::write(&pack, &bytes).unwrap();
    s.expect(12, &["check", "--read-data"]);
    let said = said_by_status(&s);
    assert!(said.contains("found in the store") && !said.contains("whole by its parity"), "{said}");
}

#[test]
fn a_verification_says_what_it_did_not_reach() {
    let s = Scratch::new();
    for i in 0..30u64 {
        write(&s.path(&format!("work/f{i}")), &noise(20_000, i)).unwrap();
    }
    let id = s.create("s", &s.path("work"));
    fs::remove_file(only_file(&s.store().join("packs"), ".pack")).unwrap();
    let output = s.run(&["--json", "verify", &id, "--deep"]);
    assert_eq!(output.status.code(), Some(12));
    let text = String::from_utf8_lossy(&output.stdout);
    let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((&last["deep"], &last["read_bytes"]), (&false.into(), &0.into()), "{last}");
    assert_eq!((&last["unread_bytes"], &last["level"]), (&last["bytes"], &"index".into()), "{last}");
}

#[test]
fn a_store_whose_settings_have_one_copy_left_is_not_called_new() {
    let (s, _) = small_store();
    let default = s.path("home/.local/share/parhelia");
    fs::create_dir_all(default.parent().unwrap()).unwrap();
    assert!(std::process::Command::new("cp").arg("-a").arg(s.store()).arg(&default).status().unwrap().success());
    for store in [s.store(), default] {
        let settings = fs::read(store.join("store.json")).unwrap();
        for verb in [&["create", "s", "--workspace"][..], &["init"]] {
            fs::remove_file(store.join("store.json")).unwrap();
            let work = s.path("work").to_string_lossy().into_owned();
            let arguments = if verb.len() > 1 { [verb, &[work.as_str()]].concat() } else { verb.to_vec() };
            let mut command = s.command(&arguments);
            match store == s.store() {
                true => &mut command,
                false => command.env_remove("PARHELIA_STORE"),
            };
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success() && !said.contains("new one is made") && !said.contains("Made a store"),
                "{verb:?}: {said}"
            );
            fs::write(store.join("store.json"), &settings).unwrap();
        }
    }
}

#[test]
fn a_check_finds_that_an_older_copy_is_in_the_stores_place() {
    let (s, _) = small_store();
    let older = s.path("older");
    assert!(std::process::Command::new("cp").arg("-a").arg(s.store()).arg(&older).status().unwrap().success());
    for text in ["one", "two"] {
        write(&s.path("work/more"), text.as_bytes()).unwrap();
        s.create("s", &s.path("work"));
    }
    fs::rename(s.store(), s.path("newer")).unwrap();
    fs::rename(&older, s.store()).unwrap();
    for check in [&["check"][..], &["check", "--read-data"], &["check", "--repair"]] {
        let said = s.expect(12, check);
        assert!(said.contains("older copy") && !said.contains("Nothing is wrong"), "{check:?}: {said}");
    }
    s.expect(0, &["init", "--accept-older"]);
    s.expect(0, &["check"]);
}
