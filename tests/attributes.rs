//! What the kernel tells of a file only in part: extended attributes too many to be listed, and lengths that are not those of the content.

use std::{fs, path::Path};

use parhelia_tests::{
    Scratch,
    filesystems::{Kind, Mounted, system, text},
    write,
};
use rustix::fs::{XattrFlags, setxattr};
use serde_json::Value;

/// Attributes that a file gets: XFS keeps more of them than Linux lists, 64 KiB.
const ATTRIBUTES: usize = 300;

fn give_too_many(path: &Path) {
    for n in 0..ATTRIBUTES {
        setxattr(path, format!("user.{n:04}{}", "x".repeat(230)).as_str(), b"v", XattrFlags::CREATE).unwrap();
    }
}

/// How many of them a file has.
fn counted(path: &Path) -> usize {
    let has = |n: &usize| {
        let name = format!("user.{n:04}{}", "x".repeat(230));
        rustix::fs::getxattr(path, name.as_str(), &mut [0_u8; 8][..]).is_ok()
    };
    (0..ATTRIBUTES).filter(has).count()
}

#[test]
fn a_file_whose_attributes_cannot_be_listed_is_neither_replaced_nor_removed_without_a_word() {
    let s = Scratch::new();
    let Some(volume) = Mounted::new(Kind::Xfs, 0, |_| {}) else { panic!("this test needs root and XFS") };
    let work = volume.path().join("work");
    write(&work.join("many"), b"then").unwrap();
    write(&work.join("plain"), b"then").unwrap();
    give_too_many(&work.join("many"));
    let output = s.run(&["create", "s", "-w", &text(&work), "--json"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let last = String::from_utf8_lossy(&output.stdout).lines().last().unwrap().to_owned();
    let id = serde_json::from_str::<Value>(&last).unwrap()["id"].as_str().unwrap().to_owned();
    let change = || {
        for name in ["many", "plain", "newer"] {
            write(&work.join(name), b"now").unwrap();
        }
        if counted(&work.join("newer")) == 0 {
            give_too_many(&work.join("newer"));
        }
    };
    let read = |name: &str| fs::read_to_string(work.join(name)).unwrap();
    let is_left = |said: &str, verb: &str| {
        assert_eq!(
            (read("many").as_str(), read("plain").as_str(), read("newer").as_str()),
            ("now", "then", "now"),
            "{verb}: {said}"
        );
        assert_eq!((counted(&work.join("many")), counted(&work.join("newer"))), (ATTRIBUTES, ATTRIBUTES), "{verb}: {said}");
        assert!(said.contains("many") && said.contains("extended attributes"), "{verb}: {said}");
    };
    change();
    let said = s.expect(3, &["restore", &id, "--to", &text(&work), "--in-place", "--no-safety"]);
    is_left(&said, "restore");
    change();
    let said = s.expect(4, &["rollback", &id, "--yes"]);
    assert!(said.contains("nothing was changed"), "{said}");
    assert_eq!(read("plain"), "now");
    for how in ["--dry-run", "--yes"] {
        let said = s.expect(3, &["rollback", &id, "--leave-unwritable", how]);
        assert!(said.contains("newer") && !said.contains("D newer"), "{said}");
        if how == "--yes" {
            is_left(&said, "rollback");
        }
    }
}

#[test]
fn a_file_that_says_it_is_empty_and_is_read_at_once_is_captured_whole() {
    let s = Scratch::new();
    let work = s.path("work");
    fs::create_dir_all(work.join("vm")).unwrap();
    system("mount", &["--bind", "/proc/sys/vm", &text(&work.join("vm"))]);
    let output = s.run(&["create", "s", "-w", &text(&work)]);
    let names = ["swappiness", "dirty_expire_centisecs", "dirty_writeback_centisecs"];
    let told: Vec<(Vec<u8>, Vec<u8>)> = names
        .iter()
        .map(|name| (s.run(&["cat", &format!("s@latest:vm/{name}")]).stdout, fs::read(work.join("vm").join(name)).unwrap()))
        .collect();
    system("umount", &["--lazy", &text(&work.join("vm"))]);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    for (stored, there) in told {
        assert_eq!(String::from_utf8_lossy(&stored), String::from_utf8_lossy(&there));
    }
}
