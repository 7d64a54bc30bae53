//! Real programs on a mounted checkpoint find what they find in the source folder.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use std::{fs, path::Path};

use common::*;
use parhelia_fuse::MountHandle;

/// Runs a command in the source and in the mount, and expects the same words.
fn same_words(f: &Fixture, command: &str) -> String {
    let (source, shown) = (run(&f.workspace, command), run(&f.mountpoint, command));
    assert_eq!(source, shown, "{command}");
    shown
}

fn mounted(f: &Fixture) -> MountHandle {
    let checkpoint = f.create("s");
    f.mount_tree(&checkpoint)
}

/// A repository with packed and loose commits, and unfinished work.
fn grow_checkout(root: &Path) {
    run(root, "git init --quiet && git config user.name test && git config user.email test@example.org && git config gc.auto 0");
    for commit in 0..12 {
        for file in 0..30 {
            let path = root.join(format!("src/m{}/f{file}.rs", file % 5));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text(400 + 37 * file, (commit / 3 + file) as u64)).unwrap();
        }
        fs::write(root.join("log"), format!("commit {commit}\n")).unwrap();
        run(root, &format!("git add -A && git commit --quiet -m 'commit {commit}'"));
        if commit == 8 {
            run(root, "git gc --quiet && git tag v1");
        }
    }
    run(root, "echo staged > log && git add log && echo unstaged >> log && echo new > untracked && rm src/m0/f0.rs");
}

#[test]
fn git_finds_the_same_repository() {
    let f = Fixture::new();
    grow_checkout(&f.workspace);
    let _mounted = mounted(&f);
    // Without a place for locks git works read-only by itself; it must only be told that the owner is right.
    let git = "git -c safe.directory='*'";
    let status = same_words(&f, &format!("{git} status --porcelain"));
    assert_eq!(status, "MM log\n D src/m0/f0.rs\n?? untracked\n");
    assert_eq!(same_words(&f, &format!("{git} log --format='%H %s %ct' --stat")).matches("commit").count(), 12);
    same_words(&f, &format!("{git} fsck --full --strict 2>&1"));
    same_words(&f, &format!("{git} diff HEAD~5 --stat && {git} show v1:log && {git} grep -c a && {git} blame -s log"));
    let clone = f.folder("clone");
    run(&clone, &format!("{git} clone --quiet --no-hardlinks '{}' c && cd c && {git} fsck --full", f.mountpoint.display()));
}

#[test]
fn tar_makes_the_same_archive() {
    let f = Fixture::new();
    grow_everything(&f.workspace);
    let _mounted = mounted(&f);
    // Not --sparse: that puts tar's process id into the archive.
    let sum = "tar --xattrs --xattrs-include='user.*' --acls --sort=name --format=posix \
               --pax-option=delete=atime,delete=ctime --exclude=./socket -cf - . | sha256sum";
    same_words(&f, sum);
    run(&f.mountpoint, "tar --sparse -cf - . 2>/dev/null | tar df - -C . 2>&1");
}

#[test]
fn python_compiles_what_is_there_into_another_place() {
    let f = Fixture::new();
    for i in 0..60 {
        let code = format!("def f{i}(x):\n    return x + {i}\n\nVALUE = f{i}(1)\n");
        f.write(&format!("package/p{}/m{i}.py", i % 7), code.as_bytes());
    }
    let _mounted = mounted(&f);
    let cache = f.folder("cache");
    let prefix = format!("PYTHONPYCACHEPREFIX='{}'", cache.display());
    run(&f.mountpoint, &format!("{prefix} python3 -m compileall -q package"));
    assert_eq!(run(&cache, "find . -path '*/package/*' -name '*.pyc' | wc -l").trim(), "60");
    let out = run(&f.mountpoint, &format!("{prefix} python3 -B -c 'import package.p3.m3 as m; print(m.VALUE)'"));
    assert_eq!(out, "4\n");
}

#[test]
fn cargo_checks_a_crate_with_its_target_elsewhere() {
    let f = Fixture::new();
    f.write("Cargo.toml", b"[package]\nname = \"shown\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[workspace]\n");
    f.write("src/lib.rs", b"mod other;\npub use other::twice;\n");
    f.write("src/other.rs", b"//! Doubles.\n/// Twice.\npub fn twice(x: u32) -> u32 {\n    2 * x\n}\n");
    f.write("src/main.rs", b"fn main() {\n    println!(\"{}\", shown::twice(21));\n}\n");
    let cargo = |folder: &Path, verb: &str, target: &Path| {
        let clean = "env -u CARGO_INCREMENTAL -u RUSTFLAGS";
        run(folder, &format!("{clean} CARGO_TARGET_DIR='{}' cargo {verb} --quiet --offline 2>&1", target.display()))
    };
    cargo(&f.workspace, "generate-lockfile", &f.folder("none"));
    let checkpoint = f.create("s");
    let mounted = f.mount_tree(&checkpoint);
    let target = f.folder("target");
    // Of each of the crate's two parts, whether it was up to date.
    let is_fresh = || {
        let said = cargo(&f.mountpoint, "check --locked --message-format=json", &target);
        let lines = said.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines.filter(|line| line["reason"] == "compiler-artifact").map(|line| line["fresh"] == true).collect::<Vec<_>>()
    };
    assert_eq!(is_fresh(), [false, false]);
    assert_eq!(cargo(&f.mountpoint, "run --locked", &target), "42\n");
    // What is fresh stays fresh, however it is mounted: the times are those of the source.
    assert_eq!(is_fresh(), [true, true]);
    drop(mounted);
    let _mounted = f.mount_tree(&checkpoint);
    assert_eq!(is_fresh(), [true, true]);
    assert_same(&f.workspace, &f.mountpoint);
}

#[test]
fn copies_out_of_the_mount_are_whole() {
    let f = Fixture::new();
    grow_everything(&f.workspace);
    let _mounted = mounted(&f);
    let copies = f.folder("copies");
    let at = f.mountpoint.display();
    run(&copies, &format!("cp -a '{at}' cp && rsync -aHAX --modify-window=-1 --sparse '{at}/' rsync"));
    assert_same(&f.mountpoint, &copies.join("rsync"));
    assert_eq!(run(&copies, &format!("rsync -aHnci --checksum --delete '{at}/' cp/")), "");
}
