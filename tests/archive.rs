//! Exports are archives that GNU tar reads; imports give the same root back.

use std::{fs, process::Command};

use parhelia_tests::{Scratch, assert_equal, every_kind};

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
