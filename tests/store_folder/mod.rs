//! Actions of people, tools and other users on a store's folder: they copy it while it is written to, or without its empty folders; they
//! delete locks and pins; they put links, fifos and devices into it; root uses the store of somebody else.

mod guest;

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown, symlink},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use parhelia_store::{
    OpenOptions,
    journal::{Journal, Position},
};
use parhelia_tests::{Files, Scratch, binary, files_in, noise, write};

/// An ordinary user.
const NOBODY: u32 = 65534;

/// A store with three checkpoints of different sessions, each with content of its own.
fn three() -> (Scratch, Vec<String>) {
    let s = Scratch::new();
    let ids = (0..3u64)
        .map(|n| {
            let work = s.path(&format!("work{n}"));
            write(&work.join("noise"), &noise(9000, n)).unwrap();
            s.create(&format!("s{n}"), &work)
        })
        .collect();
    (s, ids)
}

fn segment(store: &Path) -> PathBuf {
    let mut found: Vec<PathBuf> = fs::read_dir(store.join("journal")).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.extension().is_some_and(|ending| ending == "log"));
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// The offsets at which the records of the only segment begin, and its length.
fn records(log: &[u8]) -> Vec<usize> {
    let mut at = vec![64];
    while at[at.len() - 1] < log.len() {
        let last = at[at.len() - 1];
        at.push(last + 48 + u32::from_le_bytes(*log[last..].first_chunk().unwrap()) as usize);
    }
    at
}

/// Start and end of the record that commits a checkpoint.
fn record_of(log: &[u8], id: &str) -> (usize, usize) {
    let at = records(log);
    let has = |from: usize, to: usize| {
        let text = String::from_utf8_lossy(&log[from + 48..to]);
        text.starts_with("{\"type\":\"commit\"") && text.contains(&format!("\\\"id\\\":\\\"{id}"))
    };
    at.windows(2).map(|pair| (pair[0], pair[1])).find(|(from, to)| has(*from, *to)).unwrap()
}

#[test]
fn a_flipped_bit_in_the_journal_is_damage_also_without_the_hint() {
    let (s, ids) = three();
    let log = segment(&s.store());
    let good = fs::read(&log).unwrap();
    let packs = files_in(&s.store().join("packs"));
    fs::remove_file(s.store().join("journal/synced")).unwrap();
    // RocksDB is not asked: it could know more than the journal.
    for id in &ids {
        let (from, to) = record_of(&good, id);
        for at in [from + 5, from + 9, from + 30, from + 60, to - 1] {
            let mut bad = good.clone();
            bad[at] ^= 4;
            fs::write(&log, bad).unwrap();
            let listed = s.expect(0, &["checkpoint", "list"]);
            assert!(ids.iter().all(|id| listed.contains(&id[..])) && listed.contains("flipped bit"), "{listed}");
            s.expect(12, &["check"]);
            s.expect(12, &["gc"]);
            s.expect(12, &["checkpoint", "create", "s", "--workspace", &s.path("work0").to_string_lossy()]);
            assert_eq!(files_in(&s.store().join("packs")), packs);
        }
    }
    // The last record, which notes that the last checkpoint was verified, may be an append that was cut off. It does not look like one.
    let from = *records(&good).iter().nth_back(1).unwrap();
    let mut bad = good.clone();
    bad[from + 100] ^= 4;
    fs::write(&log, bad).unwrap();
    let said = s.expect(12, &["check"]);
    assert!(said.contains("may be damaged"), "{said}");
    s.expect(0, &["gc"]);
    assert_eq!(files_in(&s.store().join("packs")), packs);
    fs::write(&log, &good).unwrap();
    s.expect(0, &["check", "--read-data"]);
    // The hint is made anew by the next commit.
    s.create("s0", &s.path("work0"));
    assert!(s.store().join("journal/synced").exists());
}

#[test]
fn a_log_that_was_copied_before_the_hint_is_a_store_and_gc_keeps_what_it_does_not_tell_of() {
    let (s, ids) = three();
    let log = segment(&s.store());
    let good = fs::read(&log).unwrap();
    let packs = files_in(&s.store().join("packs"));
    let (from, to) = record_of(&good, &ids[2]);
    // Events may stand before the commit in its append.
    let before = *records(&good).iter().filter(|at| **at <= from).nth_back(1).unwrap();
    for length in [before, from, from + 20, from + 100, to - 1] {
        let copy = Scratch::new();
        copy_files(&s.store(), &copy.store());
        let path = copy.store().join("journal").join(log.file_name().unwrap());
        fs::write(&path, &good[..length]).unwrap();
        let listed = copy.expect(0, &["checkpoint", "list"]);
        assert!(listed.contains(&ids[0]) && listed.contains(&ids[1]) && !listed.contains(&ids[2]), "{listed}");
        let said = copy.expect(12, &["check"]);
        assert!(said.contains("records are missing"), "{said}");
        copy.expect(0, &["gc"]);
        assert_eq!(files_in(&copy.store().join("packs")), packs, "at {length}");
        // It can be gone on with, and what was cut off stays in the packs.
        let next = copy.create("next", &s.path("work0"));
        let said = copy.expect(0, &["check", "--read-data"]);
        assert!(said.contains(&ids[2]) && said.contains("gc keeps them"), "{said}");
        copy.expect(0, &["checkpoint", "delete", &next, "--quiet"]);
        copy.expect(0, &["gc"]);
        let kept = files_in(&copy.store().join("packs"));
        assert!(packs.keys().all(|name| kept.contains_key(name)), "at {length}");
        copy.expect(0, &["checkpoint", "verify", &ids[1], "--deep", "--quiet"]);
    }
}

#[test]
fn an_index_that_is_ahead_of_the_journal_keeps_what_the_journal_lost() {
    let (s, ids) = three();
    parhelia_ledger::open(&s.store(), &OpenOptions::default()).unwrap().absorb().unwrap();
    let log = segment(&s.store());
    let good = fs::read(&log).unwrap();
    let packs = files_in(&s.store().join("packs"));
    let (_, end) = record_of(&good, &ids[0]);
    let work = s.path("work0").to_string_lossy().into_owned();
    let restored = |copy: &Scratch, id: &str, n: usize| {
        let out = copy.path("out");
        copy.restore(id, &out);
        assert_eq!(files_in(&out), files_in(&s.path(&format!("work{n}"))));
        fs::remove_dir_all(&out).unwrap();
    };
    let all_there = |copy: &Scratch| ids.iter().enumerate().for_each(|(n, id)| restored(copy, id, n));
    let copied = || {
        let copy = Scratch::new();
        copy_files(&s.store(), &copy.store());
        fs::remove_file(copy.store().join("journal/synced")).unwrap();
        let log = copy.store().join("journal").join(log.file_name().unwrap());
        (copy, log)
    };
    // The log is cut short, and what tells of that in the journal is gone.
    let (copy, cut) = copied();
    fs::write(&cut, &good[..end]).unwrap();
    let said = copy.expect(0, &["gc"]);
    assert!(said.contains("gc removes nothing"), "{said}");
    let said = copy.expect(12, &["check"]);
    assert!(said.contains("records are missing") && said.contains("check --salvage"), "{said}");
    assert_eq!(files_in(&copy.store().join("packs")), packs);
    let said = copy.expect(0, &["checkpoint", "create", "s0", "--workspace", &work]);
    assert!(said.contains("gc keeps the packs"), "{said}");
    copy.expect(0, &["gc", "--quiet"]);
    let said = copy.expect(0, &["check", "--read-data"]);
    assert!(said.contains(&ids[1]) && said.contains(&ids[2]) && said.contains("gc keeps them"), "{said}");
    // The log is gone.
    for verb in [&["gc"][..], &["checkpoint", "create", "s0", "--workspace", &work], &["checkpoint", "delete", &ids[0]]] {
        let (copy, cut) = copied();
        fs::remove_file(&cut).unwrap();
        for verb in [verb, &["checkpoint", "list"], &["check"], &["check", "--rebuild-index"], &["check", "--repair"], verb] {
            let said = copy.expect(12, verb);
            assert!(said.contains("check --salvage"), "{verb:?}: {said}");
        }
        assert_eq!(files_in(&copy.store().join("packs")), packs);
        fs::write(&cut, &good).unwrap();
        all_there(&copy);
        copy.expect(0, &["check", "--read-data"]);
    }
}

/// Copies the files of a folder, with the folders that they need and no others.
fn copy_files(from: &Path, to: &Path) {
    for (name, bytes) in files_in(from) {
        write(&to.join(parhelia_store::name::as_path(&name)), &bytes).unwrap();
    }
}

#[test]
fn a_copy_without_empty_folders_is_a_store() {
    let (s, ids) = three();
    type Verb<'a> = &'a [&'a str];
    let id: &str = &ids[1];
    let file = format!("{id}:noise");
    let verbs: [Verb; 7] = [
        &["checkpoint", "list"],
        &["checkpoint", "cat", &file],
        &["checkpoint", "verify", id, "--deep"],
        &["gc"],
        &["check", "--read-data"],
        &["check", "--repair"],
        &["check", "--rebuild-index"],
    ];
    for verb in verbs {
        for and_more in [&[][..], &["view", "cache", "pins"], &["lock", "lock.index", "ballast"]] {
            let copy = Scratch::new();
            copy_files(&s.store(), &copy.store());
            for name in and_more {
                let path = copy.store().join(name);
                let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
            }
            assert!(!copy.store().join("pins").exists());
            copy.expect(0, verb);
            for name in ["pins", "cache", "view", "packs", "journal"] {
                assert!(copy.store().join(name).is_dir(), "{name} was not made by {verb:?}");
            }
            copy.create("s1", &s.path("work1"));
            copy.restore(id, &copy.path("out"));
            assert_eq!(files_in(&copy.path("out")), files_in(&s.path("work1")));
        }
    }
    // A store without a checkpoint has hardly any files. One that lost its journal is no such store.
    let empty = Scratch::new();
    let work = s.path("work0").to_string_lossy().into_owned();
    write(&empty.store().join("store.json"), &fs::read(s.store().join("store.json")).unwrap()).unwrap();
    empty.expect(0, &["checkpoint", "list"]);
    empty.create("s0", &s.path("work0"));
    empty.expect(0, &["check", "--read-data"]);
    fs::remove_dir_all(empty.store().join("journal")).unwrap();
    for verb in [&["checkpoint", "list"][..], &["gc"], &["checkpoint", "create", "s", "--workspace", &work]] {
        assert!(!empty.run(verb).status.success(), "{verb:?}");
    }
    assert!(!empty.store().join("journal").exists());
}

/// Deletes lock and pins, again and again: whenever a create has ended, and a little later, so that a slow machine comes to an end as well.
fn keep_deleting(store: &Path, until: &AtomicBool, ended: &AtomicU64) -> u64 {
    let (mut deleted, mut seen) = (0, 0);
    while !until.load(Ordering::Relaxed) {
        if ended.load(Ordering::Relaxed) == seen {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        seen = ended.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(seen * 7 % 60));
        let pins = fs::read_dir(store.join("pins")).into_iter().flatten().flatten().map(|entry| entry.path());
        let doomed = pins.chain([store.join("lock"), store.join("lock.index")]);
        deleted += doomed.filter(|path| fs::remove_file(path).is_ok()).count() as u64;
    }
    deleted
}

#[test]
fn deleting_lock_and_pins_under_load_loses_nothing_and_forks_nothing() {
    let s = Scratch::new();
    let seed = s.path("seed");
    write(&seed.join("f"), &noise(3000, 1)).unwrap();
    s.create("seed", &seed);
    let (until, ended, began) = (AtomicBool::new(false), AtomicU64::new(1), Instant::now());
    let (mut made, mut deleted) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let (s, until, ended) = (&s, &until, &ended);
        let vandal = scope.spawn(|| keep_deleting(&s.store(), until, ended));
        let creators: Vec<_> = (0..4u64).map(|n| scope.spawn(move || keep_creating(s, n, until, ended))).collect();
        while began.elapsed() < Duration::from_secs(8) && !creators.iter().any(|creator| creator.is_finished()) {
            s.run(&["gc", "--quiet"]);
        }
        until.store(true, Ordering::Relaxed);
        made = creators.into_iter().flat_map(|creator| creator.join().unwrap()).collect();
        deleted = vandal.join().unwrap();
    });
    println!("{} checkpoints of {} tries, {deleted} files deleted", made.len(), ended.into_inner() - 1);
    assert!(!made.is_empty() && deleted > 0);
    s.expect(0, &["gc", "--quiet"]);
    s.expect(0, &["check", "--read-data", "--quiet"]);
    let listed = s.expect(0, &["checkpoint", "list", "--json"]);
    for (id, files) in &made {
        assert!(listed.contains(id), "{id} is lost");
        let out = s.path(&format!("out-{id}"));
        s.restore(id, &out);
        assert_eq!(&files_in(&out), files, "{id}");
    }
    // The chain of all events is one, from the first to the last.
    let store = parhelia_ledger::open(&s.store(), &OpenOptions::default()).unwrap();
    let all = Journal::of(store.layout()).read(&Position::start()).unwrap();
    assert!(!all.was_cut && all.missing == 0);
    assert!(s.store().join("lock").exists());
}

/// Makes checkpoints and verifies them; a create that fails says so and is tried again.
fn keep_creating(s: &Scratch, n: u64, until: &AtomicBool, ended: &AtomicU64) -> Vec<(String, Files)> {
    let work = s.path(&format!("work{n}"));
    let session = format!("s{n}");
    let mut made = Vec::new();
    for round in 0u64.. {
        if until.load(Ordering::Relaxed) {
            break;
        }
        write(&work.join(format!("f{}", round % 7)), &noise(20_000, n * 1000 + round)).unwrap();
        let path = work.to_string_lossy().into_owned();
        let output = s.run(&["checkpoint", "create", &session, "--workspace", &path, "--no-default-excludes", "--json"]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{output:?}");
        ended.fetch_add(1, Ordering::Relaxed);
        if !output.status.success() {
            continue;
        }
        let summary: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        let id = summary["id"].as_str().unwrap().to_owned();
        // It is noted, as an event.
        let _ = s.run(&["checkpoint", "verify", &id, "--quiet"]);
        made.push((id, files_in(&work)));
    }
    made
}

/// Runs a command line that must come to an end.
fn must_end(command: &mut Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(300) {
            child.kill().unwrap();
            panic!("{command:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{output:?}");
    output
}

fn remove(path: &Path) {
    let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
}

/// Everything in a store's folder, files and folders.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        found.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            found.extend(entries(&entry.path()));
        }
    }
    found
}

#[test]
fn a_fifo_a_device_or_an_endless_link_in_a_store_hangs_nothing() {
    let (s, ids) = three();
    s.expect(0, &["check", "--rebuild-index", "--quiet"]);
    let work = s.path("work0").to_string_lossy().into_owned();
    let file = format!("{}:noise", ids[0]);
    let make: [fn(&Path); 3] = [
        |path| rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap(),
        |path| symlink("/dev/zero", path).unwrap(),
        |path| {
            let device = rustix::fs::makedev(1, 5);
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::CharacterDevice, rustix::fs::Mode::RWXU, device)
                .unwrap();
        },
    ];
    let mut paths = entries(&s.store());
    paths.extend(["pins/0123456789abcdef01234567.pin", "lock.index", "cache/x.stat"].map(|name| s.store().join(name)));
    for path in paths {
        for put in make {
            let copy = Scratch::new();
            copy_files(&s.store(), &copy.store());
            let place = copy.store().join(path.strip_prefix(s.store()).unwrap());
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            remove(&place);
            put(&place);
            for verb in [
                &["checkpoint", "list"][..],
                &["checkpoint", "cat", &file],
                &["checkpoint", "create", "s0", "--workspace", &work, "--lock-timeout", "1"],
                &["gc", "--lock-timeout", "1"],
                &["check", "--read-data"],
            ] {
                must_end(&mut copy.command(verb));
            }
        }
    }
}
