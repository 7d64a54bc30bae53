//! Several processes on one store.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use parhelia_tests::{Files, Scratch, assert_equal, files_in, long, noise, recorder::Dice, write};

fn fill(root: &Path, files: u64, seed: u64) {
    for i in 0..files {
        let bytes = noise(200 + (i % 40) as usize * 100, seed * 1_000_000 + i / 2);
        write(&root.join(format!("d{}/e{}/f{i}", i % 31, i % 7)), &bytes).unwrap();
    }
}

#[test]
fn creates_at_once_are_all_right_while_others_read() {
    let s = Scratch::new();
    let seed = s.path("seed");
    fill(&seed, 500, 9);
    let first = s.create("seed", &seed);
    let work: Vec<_> = (0..3).map(|n| s.path(&format!("work{n}"))).collect();
    for (n, work) in work.iter().enumerate() {
        fill(work, 4000, n as u64);
    }
    let running: Vec<_> = work
        .iter()
        .enumerate()
        .map(|(n, work)| {
            let path = work.to_string_lossy().into_owned();
            let session = format!("s{n}");
            s.command(&["checkpoint", "create", &session, "--workspace", &path, "--no-default-excludes", "--quiet"])
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for round in 0..3 {
        s.restore(&first, &s.path(&format!("read{round}")));
        assert_equal(&seed, &s.path(&format!("read{round}")));
        s.expect(0, &["gc", "--quiet"]);
    }
    for mut process in running {
        assert!(process.wait().unwrap().success());
    }
    for (n, work) in work.iter().enumerate() {
        s.restore(&format!("s{n}@latest"), &s.path(&format!("out{n}")));
        assert_equal(work, &s.path(&format!("out{n}")));
    }
    s.expect(0, &["check", "--read-data", "--quiet"]);
}

#[test]
fn a_killed_create_leaves_nothing_that_hurts() {
    let s = Scratch::new();
    let work = s.path("work");
    fill(&work, 3000, 5);
    let path = work.to_string_lossy().into_owned();
    let arguments = ["checkpoint", "create", "s", "--workspace", &path, "--no-default-excludes", "--quiet"];
    for wait_ms in [5, 20, 40, 60, 80, 100, 150, 200] {
        let mut process = s.command(&arguments).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(wait_ms));
        let _ = process.kill();
        process.wait().unwrap();
        if s.store().join("store.json").exists() {
            s.expect(0, &["check", "--quiet"]);
        }
    }
    let id = s.create("s", &work);
    s.restore(&id, &s.path("out"));
    assert_equal(&work, &s.path("out"));
    s.expect(0, &["gc", "--quiet"]);
    s.expect(0, &["check", "--read-data", "--quiet"]);
    let pins = fs::read_dir(s.store().join("pins")).unwrap().count();
    assert_eq!(pins, 0, "dead pins stay");
}

#[test]
fn gc_gives_back_what_deleted_checkpoints_held() {
    let s = Scratch::new();
    let work = s.path("work");
    fill(&work, 300, 1);
    let keep = s.create("s", &work);
    write(&work.join("huge"), &noise(30 << 20, 77)).unwrap();
    let gone = s.create("s", &work);
    let size = || -> u64 {
        let packs = fs::read_dir(s.store().join("packs")).unwrap();
        packs.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    };
    s.expect(0, &["checkpoint", "delete", &gone, "--quiet"]);
    s.expect(10, &["checkpoint", "show", &gone]);
    let before = size();
    s.expect(0, &["gc", "--dry-run"]);
    assert_eq!(size(), before);
    s.expect(0, &["gc", "--quiet"]);
    assert!(size() + (29 << 20) < before, "{} {before}", size());
    s.restore(&keep, &s.path("out"));
    fs::remove_file(work.join("huge")).unwrap();
    s.expect(0, &["check", "--read-data", "--quiet"]);
    s.create("s", &work);
    fs::remove_dir_all(s.store().join("view")).unwrap();
    s.expect(0, &["check", "--rebuild-index", "--quiet"]);
    s.expect(10, &["checkpoint", "show", &gone]);
    s.expect(0, &["checkpoint", "verify", &keep, "--deep", "--quiet"]);
}

#[test]
fn a_commit_waits_for_the_lock_says_for_whom_and_gives_up_with_its_own_code() {
    let s = Scratch::new();
    let work = s.path("work");
    write(&work.join("f"), b"content").unwrap();
    let id = s.create("s", &work);
    let path = work.to_string_lossy().into_owned();
    let held = fs::File::options().read(true).write(true).open(s.store().join("lock")).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    fs::write(s.store().join("lock"), "process 4711 since 2026-01-01T00:00:00Z\n").unwrap();
    let create = ["checkpoint", "create", "s", "--workspace", &path, "--lock-timeout", "3"];
    for arguments in [&create[..], &["checkpoint", "delete", &id, "--lock-timeout", "0"]] {
        let said = s.expect(11, arguments);
        assert!(said.contains("process 4711") && said.contains("s ago") && said.contains("--lock-timeout"), "{said}");
    }
    assert!(s.expect(11, &create).contains("waiting for the store's lock"));

    // Nobody who reads waits.
    let out = s.path("out").to_string_lossy().into_owned();
    let mountpoint = s.path("mountpoint");
    fs::create_dir(&mountpoint).unwrap();
    let mountpoint_text = mountpoint.to_string_lossy().into_owned();
    s.expect(0, &["mount", &id, &mountpoint_text, "--quiet"]);
    // Read by another process: one that another test forks meanwhile would keep the file open.
    let read = std::process::Command::new("cat").arg(mountpoint.join("f")).output().unwrap();
    assert_eq!(read.stdout, b"content");
    s.expect(0, &["umount", &mountpoint_text, "--quiet"]);
    for arguments in [
        &["checkpoint", "list"][..],
        &["checkpoint", "cat", &format!("{id}:f")],
        &["checkpoint", "verify", &id, "--deep"],
        &["checkpoint", "diff", &id, "--workspace", &path],
        &["checkpoint", "restore", &id, "--to", &out],
        &["check", "--read-data"],
    ] {
        s.expect(0, &[arguments, &["--lock-timeout", "0", "--quiet"]].concat());
    }
    // The kernel's lock decides; what the file says of a process that is gone is nothing.
    drop(held);
    s.expect(0, &create);
}

/// Creates one checkpoint after the other of a folder that it changes; returns what it made.
fn keep_creating(s: &Scratch, n: u64, until: &AtomicBool) -> Vec<(String, Files)> {
    let work = s.path(&format!("creator{n}"));
    let mut dice = Dice(n);
    let mut made = Vec::new();
    fill(&work, 40, n);
    while !until.load(Ordering::Relaxed) {
        let path = work.join(format!("d{}/f{}", dice.roll() % 5, dice.roll() % 30));
        write(&path, &noise((dice.roll() % 20_000) as usize, dice.roll() % 50)).unwrap();
        made.push((s.create(&format!("s{n}"), &work), files_in(&work)));
        if made.len() > 4 {
            let (id, _) = made.remove(dice.roll() as usize % 3);
            s.expect(0, &["checkpoint", "delete", &id, "--quiet"]);
        }
    }
    made
}

/// Mounts a checkpoint, reads all of it, and unmounts, again and again.
fn keep_mounting(s: &Scratch, n: u64, id: &str, expected: &Files, until: &AtomicBool) -> u64 {
    let mountpoint = s.path(&format!("mountpoint{n}"));
    fs::create_dir(&mountpoint).unwrap();
    let text = mountpoint.to_string_lossy().into_owned();
    let mut mounts = 0;
    while !until.load(Ordering::Relaxed) {
        s.expect(0, &["mount", id, &text, "--quiet"]);
        for _ in 0..3 {
            assert_eq!(&files_in(&mountpoint), expected);
        }
        // A child that another thread has just forked holds what this one had open, until it becomes another program.
        while s.run(&["umount", &text, "--quiet"]).status.code() == Some(1) {
            std::thread::sleep(Duration::from_millis(20));
        }
        mounts += 1;
    }
    mounts
}

#[test]
fn collection_beside_eight_creators_and_four_mounts() {
    let s = Scratch::new();
    let seed = s.path("seed");
    fill(&seed, 120, 9);
    let first = s.create("seed", &seed);
    let expected = files_in(&seed);
    let time = if long() > 0 { Duration::from_secs(60 * long()) } else { Duration::from_secs(5) };
    let (until, collections, began) = (AtomicBool::new(false), AtomicU64::new(0), Instant::now());
    let (mut made, mut mounts) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let (s, until, expected, first) = (&s, &until, &expected, &first);
        let creators: Vec<_> = (0..8).map(|n| scope.spawn(move || keep_creating(s, n, until))).collect();
        let mounters: Vec<_> = (0..4).map(|n| scope.spawn(move || keep_mounting(s, n, first, expected, until))).collect();
        while began.elapsed() < time && !creators.iter().any(|c| c.is_finished()) && !mounters.iter().any(|m| m.is_finished()) {
            s.expect(0, &["gc", "--quiet"]);
            collections.fetch_add(1, Ordering::Relaxed);
        }
        until.store(true, Ordering::Relaxed);
        made = creators.into_iter().flat_map(|creator| creator.join().unwrap()).collect();
        mounts = mounters.into_iter().map(|mounter| mounter.join().unwrap()).sum();
    });
    s.expect(0, &["gc", "--quiet"]);
    s.expect(0, &["check", "--read-data", "--quiet"]);
    for (id, files) in &made {
        let out = s.path(&format!("out-{id}"));
        s.restore(id, &out);
        assert_eq!(&files_in(&out), files, "{id}");
    }
    let left: Vec<PathBuf> = fs::read_dir(s.store().join("pins")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "{left:?}");
    let collections = collections.into_inner();
    println!("{} checkpoints at the end, {collections} collections, {mounts} mounts in {} s", made.len(), time.as_secs());
    assert!(!made.is_empty() && collections > 0 && mounts > 0);
}
