//! A workspace goes in and comes out exactly, again and again.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

use parhelia_tests::{Scratch, assert_equal, every_kind, noise, write};

fn tree(s: &Scratch) -> PathBuf {
    let root = s.path("work");
    every_kind(&root, true).unwrap();
    root
}

fn settle() {
    std::thread::sleep(std::time::Duration::from_millis(200));
}

#[test]
fn every_kind_of_entry_survives() {
    let s = Scratch::new();
    let work = tree(&s);
    let first = s.create("s", &work);
    s.restore(&first, &s.path("one"));
    assert_equal(&work, &s.path("one"));
    settle();
    let second = s.create("s", &work);
    write(&work.join("src/m0/file0.rs"), b"edited").unwrap();
    fs::remove_file(work.join("links/middle 2")).unwrap();
    let third = s.create("s", &work);
    for (id, to) in [(second, "two"), (third, "three")] {
        s.restore(&id, &s.path(to));
    }
    assert_equal(&s.path("one"), &s.path("two"));
    assert_equal(&work, &s.path("three"));
}

#[test]
fn a_repository_survives() {
    let s = Scratch::new();
    let work = s.path("work");
    fs::create_dir(&work).unwrap();
    let git = |folder: &Path, arguments: &[&str]| {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
        let output = Command::new("git").args(identity).args(arguments).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    git(&work, &["init", "-q"]);
    for i in 0..5 {
        write(&work.join(format!("f{i}")), &noise(3000, i)).unwrap();
        git(&work, &["add", "."]);
        git(&work, &["commit", "-qm", "step"]);
    }
    git(&work, &["gc", "-q"]);
    write(&work.join("f1"), b"uncommitted").unwrap();
    let id = s.create("s", &work);
    s.restore(&id, &s.path("out"));
    assert_equal(&work, &s.path("out"));
    git(&s.path("out"), &["fsck", "--strict"]);
    assert_eq!(git(&work, &["status", "--porcelain"]), git(&s.path("out"), &["status", "--porcelain"]));
    assert_eq!(git(&work, &["log", "--oneline"]), git(&s.path("out"), &["log", "--oneline"]));
}

/// Twelve versions at one path: some files change, some come and go, some move.
fn version(work: &Path, n: u64) {
    for i in 0..200u64 {
        let path = work.join(format!("d{}/f{i}", i % 9));
        match (i + n) % 40 {
            0 => write(&path, format!("version {n} of {i}\n").repeat(50).as_bytes()).unwrap(),
            1 if path.exists() => fs::remove_file(&path).unwrap(),
            _ if !path.exists() => write(&path, format!("file {i}\n").repeat(40).as_bytes()).unwrap(),
            _ => {}
        }
    }
    let _ = fs::remove_dir_all(work.join(format!("only-{}", n - 1)));
    write(&work.join(format!("only-{n}/x")), b"x").unwrap();
}

#[test]
fn twelve_versions_restore_exactly_and_in_place() {
    let s = Scratch::new();
    let work = s.path("work");
    fs::create_dir(&work).unwrap();
    let mut ids = Vec::new();
    for n in 1..=12 {
        version(&work, n);
        ids.push(s.create("s", &work));
        s.restore(&ids[n as usize - 1], &s.path(&format!("out{n}")));
        assert_equal(&work, &s.path(&format!("out{n}")));
    }
    for target in [1, 12, 6] {
        let unchanged = s.path(&format!("out{target}"));
        let inode = |path: &Path| fs::symlink_metadata(path).unwrap().ino();
        let same: Vec<PathBuf> = (0..200)
            .map(|i| PathBuf::from(format!("d{}/f{i}", i % 9)))
            .filter(|p| {
                let (a, b) = (fs::read(work.join(p)), fs::read(unchanged.join(p)));
                let mtime = |root: &Path| fs::metadata(root.join(p)).map(|m| (m.mtime(), m.mtime_nsec())).ok();
                a.is_ok() && a.ok() == b.ok() && mtime(&work) == mtime(&unchanged)
            })
            .collect();
        assert!(!same.is_empty());
        let before: Vec<u64> = same.iter().map(|p| inode(&work.join(p))).collect();
        let path = work.to_string_lossy().into_owned();
        let id = &ids[target - 1];
        s.expect(0, &["checkpoint", "restore", id, "--to", &path, "--in-place", "--delete", "--quiet"]);
        assert_equal(&work, &unchanged);
        let after: Vec<u64> = same.iter().map(|p| inode(&work.join(p))).collect();
        assert_eq!(before, after, "files that did not differ were replaced");
        let again = s.create("s", &work);
        let show = |id: &str| s.summary(&["checkpoint", "show", id])["root"].clone();
        assert_eq!(show(&again), show(id));
    }
}

#[test]
fn a_checkpoint_after_a_restore_reads_no_content() {
    let s = Scratch::new();
    let work = tree(&s);
    settle();
    let id = s.create("s", &work);
    s.restore(&id, &s.path("out"));
    let out = s.path("out").to_string_lossy().into_owned();
    let summary = s.summary(&["checkpoint", "create", "t", "--workspace", &out, "--no-default-excludes"]);
    assert_eq!(summary["files_read"], 0, "{summary}");
}

#[test]
fn a_growing_transcript_costs_its_growth() {
    let s = Scratch::new();
    let work = s.path("work");
    let line =
        |i: u64| format!("{{\"n\":{i},\"text\":\"{}\"}}\n", noise(60, i).iter().map(|b| format!("{b:02x}")).collect::<String>());
    let mut text: String = (0..40_000).map(line).collect();
    write(&work.join("log.jsonl"), text.as_bytes()).unwrap();
    s.create("s", &work);
    let size = || -> u64 {
        let packs = fs::read_dir(s.store().join("packs")).unwrap();
        packs.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    };
    let before = size();
    for round in 0..5 {
        text.extend((0..1500).map(|i| line(1_000_000 * (round + 1) + i)));
        fs::write(work.join("log.jsonl"), &text).unwrap();
        let id = s.create("s", &work);
        s.restore(&id, &s.path(&format!("out{round}")));
        assert_eq!(fs::read(s.path(&format!("out{round}")).join("log.jsonl")).unwrap(), text.as_bytes());
    }
    // 120 of about 145 bytes a line are hex digits of noise, which compress to half.
    let compressed = 5 * 1500 * 75;
    assert!(size() - before < compressed * 13 / 10, "{} against {compressed}", size() - before);
}

#[test]
fn sub_paths_includes_and_excludes_restore_what_they_name() {
    let s = Scratch::new();
    let work = tree(&s);
    let id = s.create("s", &work);
    let to = |name: &str| s.path(name).to_string_lossy().into_owned();
    s.expect(0, &["checkpoint", "restore", &format!("{id}:src/m1"), "--to", &to("m1"), "--quiet"]);
    assert_equal(&work.join("src/m1"), &s.path("m1"));
    s.expect(0, &["checkpoint", "restore", &format!("{id}:middle"), "--to", &to("file"), "--quiet"]);
    assert_eq!(fs::read(s.path("file")).unwrap(), fs::read(work.join("middle")).unwrap());
    s.expect(0, &["checkpoint", "restore", "latest", "--to", &to("rs"), "--include", "*.rs", "--quiet"]);
    assert!(s.path("rs/src/m0/file0.rs").exists() && !s.path("rs/big.bin").exists());
    s.expect(0, &["checkpoint", "restore", "latest", "--to", &to("not"), "--exclude", "/src", "--quiet"]);
    assert!(!s.path("not/src").exists() && s.path("not/big.bin").exists());
    let planned = s.expect(0, &["checkpoint", "restore", "latest", "--to", &to("dry"), "--dry-run"]);
    assert!(planned.contains("big.bin") || planned.contains("create"), "{planned}");
    assert!(!s.path("dry").exists());
}

#[test]
fn diff_tells_what_changed() {
    let s = Scratch::new();
    let work = s.path("work");
    for i in 0..400 {
        write(&work.join(format!("d{}/f{i}.txt", i % 20)), format!("line {i}\nsecond\n").as_bytes()).unwrap();
    }
    let a = s.create("s", &work);
    write(&work.join("d1/f1.txt"), b"line 1\nchanged\nthird\n").unwrap();
    fs::remove_file(work.join("d2/f2.txt")).unwrap();
    fs::rename(work.join("d3/f3.txt"), work.join("d4/moved.txt")).unwrap();
    write(&work.join("new.bin"), &noise(3000, 7)).unwrap();
    let path = work.to_string_lossy().into_owned();
    let live = s.expect(0, &["checkpoint", "diff", &a, "--workspace", &path, "--name-only"]);
    let b = s.create("s", &work);
    let stored = s.expect(0, &["checkpoint", "diff", &a, &b, "--name-only"]);
    assert_eq!(live, stored);
    for name in ["d1/f1.txt", "d2/f2.txt", "d4/moved.txt", "new.bin"] {
        assert!(stored.lines().any(|l| l.contains(name)), "{name}: {stored}");
    }
    let text = s.expect(0, &["checkpoint", "diff", &a, &b, "--file", "d1/f1.txt"]);
    assert!(text.contains("-second\n") && text.contains("+changed\n+third\n"), "{text}");
    let binary = s.expect(0, &["checkpoint", "diff", &a, &b, "--file", "new.bin"]);
    assert!(binary.to_lowercase().contains("binary"), "{binary}");
}
