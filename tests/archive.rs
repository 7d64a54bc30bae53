//! Exports are archives that GNU tar reads; imports give the same root back.

use std::{
    fs,
    process::{Command, Stdio},
};

use serde_json::json;

use parhelia_tests::{Scratch, assert_equal, every_kind, write};

#[test]
fn tar_extracts_an_export_exactly() {
    let s = Scratch::new();
    let work = s.path("work");
    every_kind(&work, false).unwrap();
    let id = s.create("s", &work);
    let archive = s.path("out.tar.zst").to_string_lossy().into_owned();
    s.expect(0, &["export", &id, "-o", &archive, "--quiet"]);
    fs::create_dir(s.path("tar")).unwrap();
    let tar = Command::new("tar")
        .args(["--zstd", "--xattrs", "--xattrs-include=*", "--acls", "-xpf", &archive, "-C"])
        .arg(s.path("tar"))
        .output()
        .unwrap();
    assert!(tar.status.success(), "{}", String::from_utf8_lossy(&tar.stderr));
    s.restore(&id, &s.path("restored"));
    assert_equal(&s.path("restored"), &s.path("tar"));
}

#[test]
fn an_import_has_the_same_root() {
    let s = Scratch::new();
    let work = s.path("work");
    every_kind(&work, true).unwrap();
    let id = s.create("s", &work);
    let archive = s.path("out.tar.zst").to_string_lossy().into_owned();
    s.expect(0, &["export", &id, "-o", &archive, "--quiet"]);
    let other = Scratch::new();
    let imported = other.summary(&["import", &archive]);
    let root = |s: &Scratch, id: &str| s.summary(&["checkpoint", "show", id])["root"].clone();
    assert_eq!(root(&other, imported["id"].as_str().unwrap()), root(&s, &id));
    let restored = other.path("restored").to_string_lossy().into_owned();
    let said = other.expect(3, &["checkpoint", "restore", "latest", "--to", &other.path("plain").to_string_lossy()]);
    assert!(said.contains("the checkpoint was imported"), "{said}");
    other.expect(0, &["checkpoint", "restore", "latest", "--preserve-special", "--quiet", "--to", &restored]);
    assert_equal(&work, &other.path("restored"));
}

#[test]
fn an_import_joins_no_session_that_works_in_a_folder() {
    let s = Scratch::new();
    let (work, elsewhere) = (s.path("work"), Scratch::new());
    write(&work.join("f"), b"here").unwrap();
    write(&elsewhere.path("work/f"), b"elsewhere").unwrap();
    elsewhere.create("same", &elsewhere.path("work"));
    let archive = s.path("out.tar.zst").to_string_lossy().into_owned();
    elsewhere.expect(0, &["export", "same@latest", "-o", &archive, "--quiet"]);
    // Here it is nobody's yet, and has its name; a second one joins it.
    for _ in 0..2 {
        assert_eq!(s.summary(&["import", &archive])["session"], "same");
    }
    let id = s.create("work", &work);
    elsewhere.create("work", &elsewhere.path("work"));
    elsewhere.expect(0, &["export", "work@latest", "-o", &archive, "--quiet"]);
    for _ in 0..2 {
        assert_eq!(s.summary(&["import", &archive])["session"], "work-imported");
    }
    let said = s.expect(4, &["import", &archive, "--session", "work"]);
    assert!(said.contains("session work works in") && said.contains(&*work.to_string_lossy()), "{said}");
    assert_eq!(s.summary(&["checkpoint", "show", "work@latest"])["id"], json!(id));
    assert_eq!(s.summary(&["import", &archive, "--session", "mine"])["session"], "mine");
    // What is captured next goes on behind the session's own.
    write(&work.join("f"), b"more").unwrap();
    let next = s.summary(&["checkpoint", "create", "work", "--workspace", &work.to_string_lossy()]);
    assert_eq!(next["parent"], json!(id));
}

/// An export as a plain tar, in which the record gives another name to the session; both names are as long.
fn renamed(s: &Scratch, id: &str, session: &str, name: &str) -> Vec<u8> {
    let archive = s.path("whole.tar.zst").to_string_lossy().into_owned();
    s.expect(0, &["export", id, "-o", &archive, "--quiet"]);
    let unpacked = Command::new("zstd").args(["-dcq", &archive]).stdin(Stdio::null()).output().unwrap();
    assert!(unpacked.status.success());
    let (from, to) = (format!("\"session\":\"{session}\""), format!("\"session\":\"{name}\""));
    assert_eq!(from.len(), to.len());
    let mut tar = unpacked.stdout;
    let at = tar.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
    tar[at..at + to.len()].copy_from_slice(to.as_bytes());
    tar
}

#[test]
fn a_session_that_is_a_path_is_refused() {
    let s = Scratch::new();
    write(&s.path("work/f"), b"content").unwrap();
    let id = s.create("session", &s.path("work"));
    let checkpoints = || s.expect(0, &["checkpoint", "list", "--json"]).matches("\"type\":\"checkpoint\"").count();
    let before = checkpoints();
    for name in ["../../x", "/tmp/xx", "a/../..", ".hidden", "\\u0000x"] {
        let file = s.path("hostile.tar");
        fs::write(&file, renamed(&s, &id, "session", name)).unwrap();
        let file = file.to_string_lossy().into_owned();
        let said = s.expect(12, &["import", &file]);
        assert!(said.contains("session's name") && said.contains("hostile.tar"), "{said}");
        assert_eq!(checkpoints(), before);
        s.expect(0, &["import", &file, "--session", "other"]);
        s.expect(0, &["checkpoint", "delete", "other@latest"]);
    }
    let archive = s.path("whole.tar.zst").to_string_lossy().into_owned();
    for name in ["../x", "/tmp/x", ".hidden"] {
        assert!(s.expect(2, &["import", &archive, "--session", name]).contains("session's name"));
    }
    assert_eq!(checkpoints(), before);
}
