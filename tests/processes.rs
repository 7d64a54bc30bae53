//! Several processes on one store.

use std::{fs, path::Path, process::Stdio};

use parhelia_tests::{Scratch, assert_equal, noise, write};

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
