//! A repair takes what is lost from the live folder and from other stores, and leaves the rest as it is.

use std::{fs, path::Path};

use parhelia_tests::{Scratch, files_in, noise, write};

use crate::damage::world::{files_only, half_lost, only_file, small_store};

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
fn packs_that_are_out_of_reach_are_no_damage() {
    let s = Scratch::new();
    for i in 0..40u64 {
        write(&s.path(&format!("work/{}/f{i}", i / 20)), &noise(20_000, i)).unwrap();
        if i == 19 {
            files_only(&s, &s.path("work"));
        }
    }
    let id = files_only(&s, &s.path("work"));
    let (packs, away) = (s.store().join("packs"), s.path("away"));
    fs::rename(&packs, &away).unwrap();
    fs::create_dir(&packs).unwrap();
    for arguments in [&["check"][..], &["check", "--repair"], &["gc"]] {
        let output = s.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("mount it"), "{arguments:?}: {said}");
    }
    // One finding, which is noted, instead of one for each of them and all that needs it.
    let found = s.run(&["check", "--json"]);
    let last = String::from_utf8_lossy(&found.stdout)
        .lines()
        .last()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    assert_eq!((found.status.code(), &last.unwrap()["findings"]), (Some(12), &1.into()));
    fs::remove_dir(&packs).unwrap();
    fs::rename(&away, &packs).unwrap();
    let status = s.command(&["status"]).current_dir(s.path("work")).output().unwrap();
    let said = String::from_utf8_lossy(&status.stdout).into_owned() + &String::from_utf8_lossy(&status.stderr);
    assert!(said.contains("1 problem was found"), "{said}");
    s.expect(0, &["check", "--read-data"]);

    // One that was away in a repair, and comes back.
    let pack = only_file(&packs, ".pack");
    fs::rename(&pack, s.path("pack")).unwrap();
    s.run(&["check", "--repair"]);
    assert_ne!(s.run(&["checkpoint", "verify", &id, "--deep"]).status.code(), Some(0));
    fs::rename(s.path("pack"), &pack).unwrap();
    s.expect(0, &["check", "--repair"]);
    s.expect(0, &["check", "--read-data"]);
    s.restore(&id, &s.path("out"));
    assert_eq!(files_in(&s.path("out")), files_in(&s.path("work")));
}
