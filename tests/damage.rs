//! Damaged bytes are noticed and named; no read returns wrong ones, and nothing panics.

use std::{
    fs,
    path::{Path, PathBuf},
};

use parhelia_tests::{Scratch, noise, write};

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
