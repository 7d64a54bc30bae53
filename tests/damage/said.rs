//! Known damage is said by status, list and verify, and no verb vouches for what it did not read.

use std::fs;

use parhelia_tests::{Scratch, files_in, noise, write};

use crate::damage::world::{only_file, small_store, without_its_largest_pack};

pub fn said_by_status(s: &Scratch) -> String {
    let output = s.command(&["status"]).current_dir(s.path("work")).output().unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned()
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
