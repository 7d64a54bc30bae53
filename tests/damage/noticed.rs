//! Damaged bytes anywhere in a pack, the journal or the index are noticed and named.

use std::{fs, path::Path};

use parhelia_tests::{Scratch, noise, write};

use crate::damage::world::{contents, files_only, only_file, small_store};

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
