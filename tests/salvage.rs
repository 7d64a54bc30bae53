//! Stores that have lost their journal or their settings, or have an older journal than packs: what can be read is read, and a new store is made of
//! what the packs hold.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use parhelia_tests::{Scratch, assert_equal, files_in, noise, write};
use serde_json::Value;

/// A session of twelve versions of some files, and a copy of each version by its checkpoint.
fn versions() -> (Scratch, BTreeMap<String, PathBuf>) {
    let s = Scratch::new();
    fs::create_dir_all(s.path("home/.config/parhelia")).unwrap();
    let work = s.path("work");
    for i in 0..40u64 {
        write(&work.join(format!("d{}/f{i}", i % 4)), format!("{i}\n").repeat(60).as_bytes()).unwrap();
    }
    write(&work.join("large"), &noise(900_000, 7)).unwrap();
    let mut made = BTreeMap::new();
    for version in 0..12u64 {
        for i in [version, version + 7, version + 20] {
            let path = work.join(format!("d{}/f{i}", i % 4));
            let more = format!("version {version}\n");
            fs::write(&path, [fs::read(&path).unwrap(), more.into_bytes()].concat()).unwrap();
        }
        // What no other version has.
        write(&work.join("only"), &noise(150_000, 100 + version)).unwrap();
        let id = s.create("s", &work);
        let like = s.path(&format!("like/{id}"));
        fs::create_dir_all(s.path("like")).unwrap();
        copy(&work, &like);
        made.insert(id, like);
    }
    (s, made)
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

fn lines(s: &Scratch, arguments: &[&str], code: i32) -> Vec<Value> {
    let output = s.run(&[&["--json"][..], arguments].concat());
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

/// Restores every checkpoint from a store, and compares each with its copy.
fn assert_restores(s: &Scratch, store: &Path, expected: &BTreeMap<String, PathBuf>) {
    let store = store.to_string_lossy().into_owned();
    for (id, like) in expected {
        let to = s.path("out");
        s.expect(0, &["--store", &store, "restore", id, "--to", &to.to_string_lossy(), "--quiet"]);
        assert_equal(like, &to);
        fs::remove_dir_all(&to).unwrap();
    }
}

fn segment(store: &Path) -> PathBuf {
    let mut found = fs::read_dir(store.join("journal")).unwrap().map(|entry| entry.unwrap().path());
    found.find(|path| path.extension().is_some_and(|ending| ending == "log")).unwrap()
}

/// Offsets of the records in a segment.
fn records(bytes: &[u8]) -> Vec<usize> {
    let (mut at, mut found) = (64, Vec::new());
    while at + 48 <= bytes.len() {
        found.push(at);
        at += 48 + u32::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize;
    }
    found
}

#[test]
fn an_older_copy_of_the_journal_after_a_repacking_gc_loses_no_checkpoint() {
    let (s, mut made) = versions();
    let older = s.path("older journal");
    copy(&s.store().join("journal"), &older);
    let deleted: Vec<String> = made.keys().take(9).cloned().collect();
    for id in &deleted {
        s.expect(0, &["delete", id, "--quiet"]);
        made.remove(id);
    }
    write(&s.path("work/new"), b"new\n").unwrap();
    let new = s.create("s", &s.path("work"));
    copy(&s.path("work"), &s.path(&format!("like/{new}")));
    made.insert(new.clone(), s.path(&format!("like/{new}")));
    assert!(s.summary(&["gc"])["dropped_packs"].as_u64() > Some(0));
    fs::remove_dir_all(s.store().join("journal")).unwrap();
    copy(&older, &s.store().join("journal"));
    // Whatever is made of the index, gc does not take the packs of which this journal does not know.
    let packs = files_in(&s.store().join("packs"));
    for view in ["kept", "gone"] {
        if view == "gone" {
            fs::remove_dir_all(s.store().join("view")).unwrap();
        }
        s.run(&["gc"]);
        assert_eq!(files_in(&s.store().join("packs")), packs, "the index is {view}");
        let to = s.path(&format!("salvaged {view}"));
        let before = files_in(&s.store());
        let said = lines(&s, &["check", "--salvage", "--to", &to.to_string_lossy()], 3);
        let found = of_type(&said, "salvaged");
        for id in made.keys() {
            let one = found.iter().find(|line| line["id"] == **id).unwrap();
            assert!(one["kept"] == true && one["hurt_paths"] == 0, "{one}");
        }
        assert_eq!(found[0]["id"], *new, "newest first");
        assert!(said.last().unwrap()["salvage"]["journal_fault"].is_string(), "{said:?}");
        assert_restores(&s, &to, &made);
        assert_eq!(files_in(&s.store()), before, "the old store is only read");
    }
    // In place, the repair takes back what the older journal does not know. It knows nothing of the deletions, either.
    let repaired = s.run(&["check", "--repair"]);
    let text = String::from_utf8_lossy(&repaired.stdout).into_owned();
    assert!(text.contains(&new), "{text}");
    assert_restores(&s, &s.store(), &made);
    for id in &deleted {
        s.expect(0, &["delete", id, "--quiet"]);
    }
    s.expect(0, &["check", "--read-data", "--quiet"]);
    assert_restores(&s, &s.store(), &made);
}

#[test]
fn without_journal_and_settings_every_checkpoint_comes_back() {
    let (s, made) = versions();
    for gone in [&["journal"][..], &["store.json", "journal"], &["store.json", "journal", "view", "cache"]] {
        let broken = s.path("broken");
        copy(&s.store(), &broken);
        for name in gone {
            let path = broken.join(name);
            if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
        }
        let path = broken.to_string_lossy().into_owned();
        let output = s.run(&["--store", &path, "list"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("check --salvage"), "{gone:?}: {said}");
        // Nor is a new store made over what is there.
        let create = s.run(&["--store", &path, "create", "s", "--workspace", &s.path("work").to_string_lossy()]);
        assert!(!create.status.success(), "{gone:?}");
        let text = s.expect(3, &["--store", &path, "check", "--salvage"]);
        assert!(text.contains("12 whole, 0 with losses") && text.contains("Unknown"), "{gone:?}: {text}");
        let salvaged = s.path("broken.salvaged");
        assert_restores(&s, &salvaged, &made);
        let salvaged_path = salvaged.to_string_lossy().into_owned();
        s.expect(0, &["--store", &salvaged_path, "check", "--read-data", "--quiet"]);
        // It is a store like any other.
        s.expect(0, &["--store", &salvaged_path, "create", "s", "--workspace", &s.path("work").to_string_lossy(), "--quiet"]);
        s.expect(0, &["--store", &salvaged_path, "gc", "--quiet"]);
        assert_restores(&s, &salvaged, &made);
        // A second one has the same name, and is refused.
        s.expect(4, &["--store", &path, "check", "--salvage"]);
        for path in [broken, salvaged] {
            fs::remove_dir_all(path).unwrap();
        }
    }
    let left: Vec<_> = fs::read_dir(s.path("")).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(!left.iter().any(|name| name.contains("salvage-")), "{left:?}");
}

#[test]
fn one_flipped_bit_of_the_settings_stops_nothing_and_is_mended() {
    let (s, made) = versions();
    let (first, work) = (made.keys().next().unwrap().clone(), s.path("work").to_string_lossy().into_owned());
    let good = fs::read(s.store().join("store.json")).unwrap();
    for name in ["store.json", "journal/store.json"] {
        let path = s.store().join(name);
        let mut bytes = good.clone();
        let at = String::from_utf8_lossy(&good).find("created_at").unwrap() + 16;
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        s.expect(0, &["list", "--quiet"]);
        s.expect(0, &["cat", &format!("{first}:d0/f0")]);
        s.expect(0, &["create", "s", "--workspace", &work, "--quiet"]);
        s.expect(0, &["gc", "--quiet"]);
        let said = s.expect(12, &["check"]);
        assert!(said.contains("store.json") && said.contains("check --repair"), "{said}");
        s.expect(12, &["check", "--repair", "--dry-run"]);
        assert_eq!(fs::read(&path).unwrap(), bytes);
        s.expect(0, &["check", "--repair"]);
        assert_eq!(fs::read(&path).unwrap(), good);
        s.expect(0, &["check", "--quiet"]);
    }
    for name in ["store.json", "journal/store.json"] {
        fs::remove_file(s.store().join(name)).unwrap();
        s.expect(0, &["list", "--quiet"]);
        s.expect(0, &["check", "--repair", "--quiet"]);
        // A store of an earlier release has no copy, and gets it with the next write.
        s.expect(0, &["create", "s", "--workspace", &work, "--quiet"]);
        assert_eq!(fs::read(s.store().join(name)).unwrap(), good);
    }
}

#[test]
fn one_flipped_bit_of_the_journals_last_records_stops_no_reading() {
    let (s, made) = versions();
    let log = segment(&s.store());
    let good = fs::read(&log).unwrap();
    let ends = records(&good);
    let work = s.path("work").to_string_lossy().into_owned();
    for (number, from) in ends.iter().rev().take(4).enumerate() {
        // RocksDB knows what it has taken in, and would not look at these.
        fs::remove_dir_all(s.store().join("view")).unwrap();
        // A length that leads behind the file's end looks like an append that was cut off, and is said to be missing.
        for at in [from + 6, from + 20, from + 50] {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << (number % 8);
            fs::write(&log, &bytes).unwrap();
            let listed = lines(&s, &["list", "-n", "100"], 0);
            assert_eq!(of_type(&listed, "checkpoint").len(), made.len(), "record {number} from the end, byte {at}");
            let said = s.expect(0, &["list"]);
            assert!(said.contains("flipped bit") && said.contains("check --repair"), "{said}");
            let refused = s.expect(12, &["create", "s", "--workspace", &work]);
            assert!(refused.contains("check --repair"), "{refused}");
            assert_eq!(fs::read(&log).unwrap(), bytes);
        }
        assert_restores(&s, &s.store(), &made.iter().take(1).map(|(id, like)| (id.clone(), like.clone())).collect());
        s.expect(12, &["check"]);
        s.expect(12, &["gc"]);
        s.expect(0, &["check", "--repair", "--quiet"]);
        assert_eq!(fs::read(&log).unwrap(), good);
    }
    s.create("s", &s.path("work"));
}

#[test]
fn lost_records_of_the_journal_take_no_others_along() {
    let (s, made) = versions();
    fs::remove_dir_all(s.store().join("view")).unwrap();
    let log = segment(&s.store());
    let good = fs::read(&log).unwrap();
    let ends = records(&good);
    let (from, to) = (ends[ends.len() - 9], ends[ends.len() - 5]);
    let mut bytes = good.clone();
    bytes[from + 8..to].fill(0);
    fs::write(&log, &bytes).unwrap();
    let listed = lines(&s, &["list", "-n", "100"], 0);
    let kept = of_type(&listed, "checkpoint").len();
    assert!(kept < made.len() && kept >= made.len() - 4, "{kept}");
    s.expect(12, &["create", "s", "--workspace", &s.path("work").to_string_lossy()]);
    let would = s.expect(12, &["check", "--repair", "--dry-run"]);
    assert!(would.contains("damaged or missing"), "{would}");
    assert_eq!(fs::read(&log).unwrap(), bytes);
    // Their checkpoints come back, as packs have them; what was whole in the journal is what it was.
    s.expect(0, &["check", "--repair"]);
    assert_restores(&s, &s.store(), &made);
    let new = s.create("s", &s.path("work"));
    s.expect(0, &["check", "--read-data", "--quiet"]);
    s.expect(0, &["check", "--rebuild-index", "--quiet"]);
    assert_eq!(of_type(&lines(&s, &["list", "-n", "100"], 0), "checkpoint")[0]["id"], *new);
    s.expect(0, &["gc", "--quiet"]);
    assert_restores(&s, &s.store(), &made);
}

#[test]
fn all_hurt_checkpoints_and_paths_are_named_newest_first() {
    let s = Scratch::without_parity();
    let work = s.path("work");
    for i in 0..60u64 {
        write(&work.join(format!("d/f{i:02}")), &noise(900, i)).unwrap();
    }
    let mut ids: Vec<String> = Vec::new();
    for version in 0..30u64 {
        write(&work.join("changes"), format!("{version}\n").as_bytes()).unwrap();
        ids.push(s.create("s", &work));
    }
    // The largest pack has the content that all of them share.
    let packs = fs::read_dir(s.store().join("packs")).unwrap().map(|entry| entry.unwrap().path());
    let pack = packs.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = fs::read(&pack).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&pack, bytes).unwrap();
    let said = lines(&s, &["check", "--read-data"], 12);
    let hurt = of_type(&said, "hurt");
    let summary = said.last().unwrap();
    let named: Vec<(String, u64)> = summary["hurt"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| (c["checkpoint"].as_str().unwrap().into(), c["paths"].as_u64().unwrap()))
        .collect();
    ids.reverse();
    assert_eq!(named.iter().map(|(id, _)| id).collect::<Vec<_>>(), ids.iter().collect::<Vec<_>>(), "all, newest first");
    let mut counted: BTreeMap<&str, u64> = BTreeMap::new();
    for line in &hurt {
        *counted.entry(line["checkpoint"].as_str().unwrap()).or_default() += 1;
        assert!(line["path"].is_string() && !line["objects"].as_array().unwrap().is_empty(), "{line}");
    }
    assert!(named.iter().all(|(id, paths)| counted[&**id] == *paths && *paths > 0), "{named:?}");
    for (number, id) in ids.iter().enumerate().filter(|(number, _)| number % 10 == 0) {
        for i in 0..60 {
            let path = format!("d/f{i:02}");
            let is_hurt = hurt.iter().any(|line| line["checkpoint"] == **id && line["path"] == *path);
            let cat = s.run(&["cat", &format!("{id}:{path}")]);
            assert_eq!(cat.status.success(), !is_hurt, "checkpoint {number}: {path}");
        }
    }
    let text = s.expect(12, &["check", "--read-data"]);
    assert!(text.contains("in 30 checkpoints, newest first") && text.contains("and 10 older checkpoints"), "{text}");
    assert!(text.find(&ids[0]).is_some() && text.contains("--json check"), "{text}");
    let verbose = s.expect(12, &["--verbose", "check", "--read-data"]);
    assert!(ids.iter().all(|id| verbose.contains(id)), "{verbose}");
}

#[test]
fn a_journal_without_a_whole_first_record_is_mended_and_gone_on_with() {
    type Hurt = fn(&mut Vec<u8>);
    let ways: [(&str, Hurt); 5] = [
        ("header alone", |bytes| bytes.truncate(64)),
        ("empty", Vec::clear),
        ("zeros behind the header", |bytes| bytes[64..].fill(0)),
        ("zeros in the first record", |bytes| bytes[300..].fill(0)),
        ("half a header", |bytes| bytes.truncate(30)),
    ];
    for (number, (way, hurt)) in ways.into_iter().enumerate() {
        for (is_mended, has_index) in [(true, number % 2 == 0), (false, true)] {
            let s = Scratch::new();
            let work = s.path("work");
            let mut made = BTreeMap::new();
            for version in 0..3u64 {
                write(&work.join(format!("f{version}")), &noise(30_000, version)).unwrap();
                let id = s.create("s", &work);
                let like = s.path(&format!("like/{id}"));
                fs::create_dir_all(s.path("like")).unwrap();
                copy(&work, &like);
                made.insert(id, like);
            }
            if has_index {
                s.expect(0, &["check", "--rebuild-index", "--quiet"]);
            }
            let log = segment(&s.store());
            let mut bytes = fs::read(&log).unwrap();
            hurt(&mut bytes);
            fs::write(&log, &bytes).unwrap();
            let note = format!("{way}, mended {is_mended}, index {has_index}");
            // Nobody is told that there is nothing.
            for verb in ["list", "status"] {
                let output = s.command(&[verb]).current_dir(&work).output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(said.contains("journal"), "{note}: {verb}: {said}");
            }
            s.expect(12, &["check"]);
            if is_mended {
                s.expect(12, &["check", "--repair", "--dry-run"]);
                s.expect(0, &["check", "--repair"]);
                assert_restores(&s, &s.store(), &made);
            }
            write(&work.join("more"), &noise(30_000, 9)).unwrap();
            let output = s.run(&["create", "s", "--workspace", &work.to_string_lossy()]);
            if !is_mended && output.status.code() == Some(12) {
                // Damage is mended first.
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                assert!(said.contains("check --repair"), "{note}: {said}");
                s.expect(0, &["check", "--repair"]);
                s.create("s", &work);
            } else {
                assert!(output.status.success(), "{note}: {}", String::from_utf8_lossy(&output.stderr));
            }
            s.create("s", &work);
            s.run(&["gc", "--quiet"]);
            s.expect(0, &["check", "--repair"]);
            assert_restores(&s, &s.store(), &made);
            s.expect(0, &["check", "--read-data", "--quiet"]);
            s.expect(0, &["check", "--rebuild-index", "--quiet"]);
            s.expect(0, &["gc", "--quiet"]);
            assert_restores(&s, &s.store(), &made);
        }
    }
}

#[test]
fn of_a_journal_of_which_nothing_is_left_no_verb_recommends_what_fails() {
    let (s, made) = versions();
    fs::remove_file(segment(&s.store())).unwrap();
    for verb in
        [&["list"][..], &["check"], &["check", "--repair"], &["create", "s", "--workspace", &s.path("work").to_string_lossy()]]
    {
        let said = s.expect(12, verb);
        assert!(said.contains("check --salvage"), "{verb:?}: {said}");
        assert!(!said.contains("--rebuild-index") && !said.contains("check --repair"), "{verb:?}: {said}");
    }
    // Some of what the journal told is unknown.
    s.expect(3, &["check", "--salvage", "--to", &s.path("new").to_string_lossy()]);
    assert_restores(&s, &s.path("new"), &made);
}
