//! Stored files are the owner's alone, and what a stranger has made gets no privileges.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::Path,
};

use parhelia_tests::{Scratch, make_store, noise, recorder::Recorder, write};
use rustix::fs::XattrFlags;

#[test]
fn no_byte_of_a_store_is_ever_readable_by_others() {
    let s = Scratch::new();
    let recorder = Recorder::mount();
    let store = recorder.path().join("store").to_string_lossy().into_owned();
    let archive = recorder.path().join("out.tar.zst").to_string_lossy().into_owned();
    let work = s.path("work").to_string_lossy().into_owned();
    // Enough files for a table of RocksDB's own making, and a large one for several chunks.
    for i in 0..2100u64 {
        write(&s.path(&format!("work/d{}/f{i}", i % 20)), &i.to_le_bytes()).unwrap();
    }
    write(&s.path("work/large"), &noise(400_000, 1)).unwrap();
    let run = |code: i32, arguments: &[&str]| s.expect(code, &[arguments, &["--store", &store, "--quiet"]].concat());
    run(0, &["init"]);
    run(0, &["checkpoint", "create", "s", "--workspace", &work]);
    fs::remove_file(s.path("work/large")).unwrap();
    run(0, &["checkpoint", "create", "s", "--workspace", &work]);
    run(0, &["export", "latest~1", "-o", &archive]);
    run(0, &["import", &archive]);
    run(0, &["checkpoint", "restore", "latest", "--to", &s.path("out").to_string_lossy()]);
    run(0, &["checkpoint", "diff", "latest", "--workspace", &work]);
    run(0, &["checkpoint", "delete", "s@latest", "s-imported@latest"]);
    run(0, &["gc"]);
    run(0, &["check", "--rebuild-index"]);
    run(0, &["check", "--repair"]);
    run(0, &["stats"]);
    let mountpoint = s.path("mountpoint");
    fs::create_dir(&mountpoint).unwrap();
    run(0, &["mount", &mountpoint.to_string_lossy()]);
    run(0, &["umount", &mountpoint.to_string_lossy()]);
    let modes = recorder.modes();
    let open: Vec<_> =
        modes.iter().filter(|(_, mode)| mode & 0o077 != 0).map(|(path, mode)| format!("{path:?} {mode:o}")).collect();
    assert!(modes.len() > 60, "only {} files were seen", modes.len());
    assert!(open.is_empty(), "of {}: {open:#?}", modes.len());
    println!("{} files and folders, none for others", modes.len());
}

fn special(work: &Path) {
    write(&work.join("program"), b"#!/bin/sh\n").unwrap();
    write(&work.join("group/inside"), b"x").unwrap();
    let mode = |path: &str, mode| fs::set_permissions(work.join(path), fs::Permissions::from_mode(mode)).unwrap();
    mode("program", 0o4755);
    mode("group", 0o2755);
    let device = rustix::fs::makedev(1, 3);
    let path = work.join("null");
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::CharacterDevice, rustix::fs::Mode::RUSR, device).unwrap();
    write(&work.join("capable"), b"#!/bin/sh\n").unwrap();
    // CAP_SETUID, for whoever runs it.
    let value = [0x0200_0001u32, 0x80, 0, 0, 0].map(u32::to_le_bytes).concat();
    rustix::fs::setxattr(work.join("capable"), CAPABILITY, &value, XattrFlags::empty()).unwrap();
    rustix::fs::setxattr(work.join("group"), "trusted.note", b"mine", XattrFlags::empty()).unwrap();
    rustix::fs::setxattr(work.join("group"), "user.note", b"yours", XattrFlags::empty()).unwrap();
    let acl = [2u32.to_le_bytes().to_vec(), [(1u16, 7u16), (4, 5), (16, 5), (32, 5)].map(acl_line).concat()].concat();
    let _ = rustix::fs::setxattr(work.join("group"), "system.posix_acl_default", &acl, XattrFlags::empty());
}

const CAPABILITY: &str = "security.capability";

fn acl_line((tag, mode): (u16, u16)) -> Vec<u8> {
    [&tag.to_le_bytes()[..], &mode.to_le_bytes(), &u32::MAX.to_le_bytes()].concat()
}

fn xattrs(path: &Path) -> Vec<String> {
    let mut names = [0; 1000];
    let n = rustix::fs::listxattr(path, &mut names).unwrap();
    let names = names[..n].split(|b| *b == 0).filter(|name| !name.is_empty());
    let mut names: Vec<String> = names.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    names.sort();
    names
}

/// Nothing in a folder has privileges that `special` gives; what else it gives is there.
fn assert_is_plain(folder: &Path) {
    assert_eq!((mode_of(&folder.join("program")), mode_of(&folder.join("group"))), (0o755, 0o755));
    assert_eq!(xattrs(&folder.join("capable")), Vec::<String>::new());
    assert_eq!(xattrs(&folder.join("group")), ["system.posix_acl_default", "user.note"]);
    assert_eq!(fs::read(folder.join("program")).unwrap(), b"#!/bin/sh\n");
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn assert_no_privileges(s: &Scratch, store: &Path, id: &str) {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let store = text(store);
    let out = s.path("plain");
    let said = s.expect(3, &["checkpoint", "restore", id, "--store", &store, "--to", &text(&out)]);
    assert!(said.contains("--preserve-special") && said.contains("null"), "{said}");
    assert!(said.contains(CAPABILITY) && said.contains("trusted.note"), "{said}");
    assert_is_plain(&out);
    assert!(!out.join("null").exists());
    // Onto a folder that has the bits, they are taken away; they are not left standing on other content.
    let live = s.path("live");
    special(&live);
    fs::write(live.join("program"), "something else").unwrap();
    fs::set_permissions(live.join("program"), fs::Permissions::from_mode(0o4755)).unwrap();
    let said =
        s.expect(3, &["checkpoint", "restore", id, "--store", &store, "--to", &text(&live), "--in-place", "--other-folder"]);
    assert!(said.contains(CAPABILITY) && !said.contains("null"), "{said}");
    assert_eq!(xattrs(&live.join("group")), ["system.posix_acl_default", "trusted.note", "user.note"]);
    rustix::fs::removexattr(live.join("group"), "trusted.note").unwrap();
    assert_is_plain(&live);
    let asked = s.path("asked");
    s.expect(0, &["checkpoint", "restore", id, "--store", &store, "--to", &text(&asked), "--preserve-special", "--quiet"]);
    assert_eq!((mode_of(&asked.join("program")), mode_of(&asked.join("group"))), (0o4755, 0o2755));
    assert!(fs::symlink_metadata(asked.join("null")).unwrap().file_type().is_char_device());
    assert_eq!(xattrs(&asked.join("capable")), [CAPABILITY]);
    assert_eq!(xattrs(&asked.join("group")), ["system.posix_acl_default", "trusted.note", "user.note"]);
}

#[test]
fn one_s_own_store_gives_everything_back() {
    let s = Scratch::new();
    special(&s.path("work"));
    let id = s.create("s", &s.path("work"));
    s.restore(&id, &s.path("out"));
    parhelia_tests::assert_equal(&s.path("work"), &s.path("out"));
}

#[test]
fn an_imported_checkpoint_brings_no_privileges_unless_asked() {
    let s = Scratch::new();
    special(&s.path("work"));
    let id = s.create("s", &s.path("work"));
    let archive = s.path("a.tar.zst").to_string_lossy().into_owned();
    s.expect(0, &["export", &id, "-o", &archive, "--quiet"]);
    assert_eq!(mode_of(Path::new(&archive)), 0o600);
    let other = s.path("other");
    make_store(&other);
    let imported = s.summary(&["import", &archive, "--store", &other.to_string_lossy()]);
    assert_no_privileges(&s, &other, imported["id"].as_str().unwrap());
}

#[test]
fn a_store_of_another_owner_brings_no_privileges_unless_asked() {
    let s = Scratch::new();
    special(&s.path("work"));
    let id = s.create("s", &s.path("work"));
    let chown = std::process::Command::new("chown").arg("-R").arg("12345:12345").arg(s.store()).status().unwrap();
    assert!(chown.success());
    assert_no_privileges(&s, &s.store(), &id);
}

/// A session of a program that ends at once, in a workspace that has what gives privileges; and its checkpoint.
fn session_with_special(s: &Scratch) -> (String, String) {
    special(&s.path("work"));
    s.expect(0, &["session", "run", "--workspace", &s.path("work").to_string_lossy(), "--", "true"]);
    let listed = s.expect(0, &["checkpoint", "list", "--json"]);
    let first: serde_json::Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let text = |name: &str| first[name].as_str().unwrap().to_owned();
    (text("session"), text("id"))
}

fn spoil(work: &Path) {
    fs::write(work.join("program"), "spoiled").unwrap();
    fs::write(work.join("capable"), "spoiled").unwrap();
    fs::remove_file(work.join("null")).unwrap();
    fs::remove_dir_all(work.join("group")).unwrap();
}

fn give_away(s: &Scratch) {
    let chown = std::process::Command::new("chown").arg("-R").arg("12345:12345").arg(s.store()).status().unwrap();
    assert!(chown.success());
}

#[test]
fn a_rollback_and_a_resume_in_one_s_own_store_give_everything_back() {
    let s = Scratch::new();
    let (session, id) = session_with_special(&s);
    let (work, before) = (s.path("work"), s.path("before"));
    assert!(std::process::Command::new("cp").arg("-a").args([&work, &before]).status().unwrap().success());
    spoil(&work);
    s.expect(0, &["checkpoint", "rollback", &id, "--yes"]);
    parhelia_tests::assert_equal(&before, &work);
    fs::remove_dir_all(&work).unwrap();
    s.expect(0, &["session", "resume", &session, "--yes"]);
    parhelia_tests::assert_equal(&before, &work);
}

#[test]
fn a_rollback_to_an_imported_checkpoint_brings_no_privileges() {
    let s = Scratch::new();
    let (_, id) = session_with_special(&s);
    let archive = s.path("a.tar.zst").to_string_lossy().into_owned();
    s.expect(0, &["export", &id, "-o", &archive, "--quiet"]);
    let imported = s.summary(&["import", &archive, "--session", "joined"])["id"].as_str().unwrap().to_owned();
    let work = s.path("work");
    // Whoever names that session goes on behind what was imported.
    s.create("joined", &work);
    spoil(&work);
    let said = s.expect(0, &["checkpoint", "rollback", &imported, "--yes"]);
    assert!(said.contains("imported") && said.contains("null") && said.contains(CAPABILITY), "{said}");
    assert_is_plain(&work);
    assert!(!work.join("null").exists());
}

#[test]
fn a_rollback_and_its_undo_in_another_owner_s_store_bring_no_privileges() {
    let s = Scratch::new();
    let (session, id) = session_with_special(&s);
    give_away(&s);
    let work = s.path("work");
    spoil(&work);
    let said = s.expect(0, &["checkpoint", "rollback", &id, "--yes"]);
    assert!(said.contains("somebody else") && said.contains("null") && said.contains(CAPABILITY), "{said}");
    assert_is_plain(&work);
    assert!(!work.join("null").exists());
    // The safety checkpoint lies in that store, too.
    fs::set_permissions(work.join("program"), fs::Permissions::from_mode(0o4755)).unwrap();
    s.expect(0, &["checkpoint", "undo", &session, "--yes"]);
    assert_eq!((mode_of(&work.join("program")), fs::read(work.join("program")).unwrap()), (0o755, b"spoiled".to_vec()));
}

#[test]
fn a_resume_from_another_owner_s_store_brings_no_privileges() {
    for by_checkpoint in [false, true] {
        let s = Scratch::new();
        let (session, id) = session_with_special(&s);
        give_away(&s);
        let work = s.path("work");
        fs::remove_dir_all(&work).unwrap();
        let said = match by_checkpoint {
            false => s.expect(0, &["session", "resume", &session, "--yes"]),
            true => s.expect(0, &["session", "resume", &session, "--from", &id, "--yes"]),
        };
        assert!(said.contains("somebody else") && said.contains("null") && said.contains(CAPABILITY), "{said}");
        assert_is_plain(&work);
        assert!(!work.join("null").exists());
    }
}

#[test]
fn a_store_that_borrows_one_s_own_settings_is_somebody_else_s() {
    let s = Scratch::new();
    special(&s.path("work"));
    let id = s.create("s", &s.path("work"));
    let own = s.path("own.json");
    fs::rename(s.store().join("store.json"), &own).unwrap();
    give_away(&s);
    let settings = s.store().join("store.json");
    fs::hard_link(&own, &settings).unwrap();
    assert_no_privileges(&s, &s.store(), &id);
    fs::remove_file(&settings).unwrap();
    std::os::unix::fs::symlink(&own, &settings).unwrap();
    fs::remove_file(s.store().join("journal/store.json")).unwrap();
    let said = s.expect(1, &["checkpoint", "restore", &id, "--to", &s.path("linked").to_string_lossy()]);
    assert!(said.contains("a symbolic link"), "{said}");
}

#[test]
fn a_restore_follows_no_link_out_of_its_target() {
    let s = Scratch::new();
    write(&s.path("work/a/b/f"), b"restored").unwrap();
    let id = s.create("s", &s.path("work"));
    write(&s.path("outside/b/f"), b"not ours").unwrap();
    let live = s.path("live");
    fs::create_dir(&live).unwrap();
    std::os::unix::fs::symlink("../outside", live.join("a")).unwrap();
    let to = live.to_string_lossy().into_owned();
    s.expect(0, &["checkpoint", "restore", &id, "--to", &to, "--in-place", "--other-folder", "--quiet"]);
    assert_eq!(fs::read(s.path("outside/b/f")).unwrap(), b"not ours");
    assert_eq!(fs::read(live.join("a/b/f")).unwrap(), b"restored");
    assert!(fs::symlink_metadata(live.join("a")).unwrap().is_dir());
}
