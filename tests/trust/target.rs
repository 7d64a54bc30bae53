//! The target of a restore refuses a call: every kind of call, every errno that a filesystem may answer with, at every place. Each entry is
//! restored, or named; what was removed is counted; nothing of it is called damage of the checkpoint; and the next run restores all.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::{MetadataExt, symlink},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    process::Output,
};

use fuser::Errno;
use parhelia_tests::{
    Scratch, long, noise,
    recorder::{Call, Fault, Recorder, Trap},
    write,
};
use serde_json::Value;

/// Entries by path: type, content, mode, links.
type Seen = BTreeMap<String, (char, Vec<u8>, u32, u64)>;

fn seen(top: &Path) -> Seen {
    fn add(folder: &Path, prefix: &str, all: &mut Seen) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let found = fs::symlink_metadata(entry.path()).unwrap();
            let (kind, content, links) = match found.file_type() {
                kind if kind.is_dir() => ('d', Vec::new(), 0),
                kind if kind.is_symlink() => {
                    ('l', fs::read_link(entry.path()).unwrap().to_string_lossy().into_owned().into_bytes(), 0)
                }
                _ => ('f', fs::read(entry.path()).unwrap(), found.nlink()),
            };
            if kind == 'd' {
                add(&entry.path(), &format!("{path}/"), all);
            }
            all.insert(path, (kind, content, found.mode() & 0o7777, links));
        }
    }
    let mut all = Seen::new();
    add(top, "", &mut all);
    all
}

/// The folder as it was captured.
fn then(top: &Path) {
    for (name, seed) in [("replaced", 1), ("gone", 2), ("folder/replaced", 3), ("mode", 4), ("joined", 5), ("was a folder", 6)] {
        write(&top.join(name), &noise(3000, seed)).unwrap();
    }
    write(&top.join("was a file/inner"), b"inner").unwrap();
    write(&top.join("missing/deep/file"), &noise(90_000, 7)).unwrap();
    symlink("replaced", top.join("link")).unwrap();
    fs::hard_link(top.join("joined"), top.join("folder/joined too")).unwrap();
}

/// What became of it since.
fn now(top: &Path) {
    for name in ["replaced", "folder/replaced", "extra/one", "extra/two/three", "single"] {
        write(&top.join(name), b"made since").unwrap();
    }
    for name in ["gone", "link", "folder/joined too", "was a folder"] {
        fs::remove_file(top.join(name)).unwrap();
    }
    for name in ["was a file", "missing"] {
        fs::remove_dir_all(top.join(name)).unwrap();
    }
    fs::write(top.join("was a file"), "made since").unwrap();
    write(&top.join("was a folder/made since"), b"x").unwrap();
    symlink("elsewhere", top.join("link")).unwrap();
    fs::set_permissions(top.join("mode"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    /// Restores to a new folder.
    New,
    /// Fills an empty folder.
    Fill,
    /// Restores in place.
    InPlace,
    /// Rolls a session back.
    Rollback,
}

impl Verb {
    /// Of the calls at which a fault can be injected, one in so many is taken.
    fn step(self) -> u64 {
        match (self, long() > 0) {
            (Verb::New | Verb::Fill, false) => 17,
            (Verb::InPlace, false) => 67,
            (Verb::Rollback, false) => 307,
            (Verb::Rollback, true) => 7,
            (_, true) => 1,
        }
    }
}

struct Lab {
    scratch: Scratch,
    recorder: Recorder,
    id: String,
    then: Seen,
    now: Seen,
}

impl Lab {
    fn new() -> Self {
        let (scratch, recorder) = (Scratch::new(), Recorder::mount());
        recorder.stop_logging();
        let live = recorder.path().join("base/live");
        then(&live);
        fs::create_dir(recorder.path().join("base/empty")).unwrap();
        let first = seen(&live);
        let id = scratch.create("s", &live);
        now(&live);
        Lab { id, then: first, now: seen(&live), scratch, recorder }
    }

    /// Makes the session's folder what it was before a rollback.
    fn reset(&self) {
        let live = self.place("base", Verb::Rollback);
        for entry in fs::read_dir(&live).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => fs::remove_dir_all(entry.path()).unwrap(),
                false => fs::remove_file(entry.path()).unwrap(),
            }
        }
        then(&live);
        now(&live);
    }

    fn place(&self, place: &str, verb: Verb) -> PathBuf {
        let name = match verb {
            Verb::New => "new",
            Verb::Fill => "empty",
            Verb::InPlace | Verb::Rollback => "live",
        };
        self.recorder.path().join(place).join(name)
    }

    fn run(&self, place: &str, verb: Verb) -> Output {
        let to = self.place(place, verb).to_string_lossy().into_owned();
        let restore = ["checkpoint", "restore", &self.id, "--to", &to];
        let arguments = match verb {
            Verb::New | Verb::Fill => restore.to_vec(),
            Verb::InPlace => [&restore[..], &["--in-place", "--delete", "--no-safety", "--other-folder"]].concat(),
            Verb::Rollback => vec!["checkpoint", "rollback", &self.id, "--yes"],
        };
        self.scratch.run(&[&arguments[..], &["--json"]].concat())
    }

    fn before(&self, verb: Verb) -> Seen {
        if matches!(verb, Verb::New | Verb::Fill) { Seen::new() } else { self.now.clone() }
    }

    /// Panics unless a run has left everything restored or named, or as it was.
    fn judge(&self, place: &str, verb: Verb, output: &Output, context: &str) {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("panicked"), "{context}: {said}");
        for word in ["damaged", "corrupt"] {
            assert!(!said.contains(word), "{context}: {said}");
        }
        let target = self.place(place, verb);
        let found = if target.exists() { seen(&target) } else { Seen::new() };
        let lines: Vec<Value> =
            String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let skipped = lines.iter().filter(|line| line["type"] == "skipped").filter_map(|line| line["path"].as_str());
        let spared = lines.last().and_then(|summary| summary["spared"].as_array()).into_iter().flatten();
        let named: BTreeSet<&str> = skipped.chain(spared.filter_map(Value::as_str)).collect();
        match output.status.code() {
            // Said: a hard link that the filesystem refuses becomes a file of its own.
            Some(0) if said.contains("it is a file of its own") => {
                let contents =
                    |seen: &Seen| seen.iter().map(|(path, entry)| (path.clone(), entry.0, entry.1.clone())).collect::<Vec<_>>();
                assert_eq!(contents(&found), contents(&self.then), "{context}: {said}");
            }
            Some(0) => assert_eq!(found, self.then, "{context}: {said}"),
            Some(3) => {
                let differs = |path: &&String| found.get(*path) != self.then.get(*path);
                for path in found.keys().chain(self.then.keys()).filter(differs) {
                    let is_named = Path::new(path).ancestors().any(|above| named.contains(above.to_str().unwrap()))
                        || named.iter().any(|named| Path::new(named).starts_with(path));
                    // Of hard links, one that is not made changes the number of the others.
                    let is_partner =
                        path.contains("joined") && named.iter().any(|named| named.contains("joined") || *named == "folder");
                    assert!(is_named || is_partner, "{context}: {path} is neither restored nor named: {named:?}: {said}");
                }
            }
            Some(1 | 4) => {
                assert!(said.contains("cannot ") || said.contains("failed"), "{context}: {said}");
                let before = self.before(verb);
                for (path, entry) in &found {
                    let is_one = |known: &Seen| known.get(path).is_some_and(|known| (known.0, &known.1) == (entry.0, &entry.1));
                    let is_temporary = path.contains(".parhelia-");
                    assert!(is_one(&before) || is_one(&self.then) || is_temporary, "{context}: {path} is neither: {said}");
                }
            }
            code => panic!("{context}: {code:?}: {said}"),
        }
        let deleted = lines.last().filter(|_| verb == Verb::InPlace).and_then(|summary| summary["deleted"].as_u64());
        if let Some(deleted) = deleted {
            let gone = |path: &&String| !self.then.contains_key(*path) && !found.contains_key(*path);
            // A folder that gives its place to a file, too.
            let exchanged = found.get("was a folder").is_some_and(|entry| entry.0 == 'f');
            assert_eq!(deleted, self.now.keys().filter(gone).count() as u64 + u64::from(exchanged), "{context}: {said}");
        }
    }

    /// Panics unless the next run restores everything, and nothing is left.
    fn assert_recovers(&self, place: &str, verb: Verb, context: &str) {
        let target = self.place(place, verb);
        if verb == Verb::Rollback || verb == Verb::InPlace || !target.exists() || seen(&target).is_empty() {
            let again = self.run(place, verb);
            assert!(again.status.success(), "{context}: the next run: {again:?}");
            assert_eq!(seen(&target), self.then, "{context}: the next run");
        }
        let beside = fs::read_dir(self.recorder.path().join(place)).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(beside.into_iter().all(|name| !name.to_string_lossy().contains(".parhelia-")), "{context}: something is left");
    }

    /// Injects a fault at one call after the other. Returns at how many, and adds what went wrong to the failures.
    fn refuse_everywhere(&self, verb: Verb, calls: &'static [Call], fault: Fault, first: u64, failures: &mut Vec<String>) -> u64 {
        let (mut tried, mut at) = (0, first % verb.step());
        loop {
            let place = if verb == Verb::Rollback { "base".to_owned() } else { format!("{verb:?}{at}") };
            match verb {
                Verb::Rollback => {}
                _ => self.recorder.copy("base", &place),
            }
            self.recorder.arm(Trap::new(calls, at, fault));
            let output = self.run(&place, verb);
            let (_, has_gone_off) = self.recorder.disarm();
            let context = format!("{verb:?}, {fault:?} at call {at} of {}", calls.len());
            let judged = catch_unwind(AssertUnwindSafe(|| {
                self.judge(&place, verb, &output, &context);
                if has_gone_off {
                    self.assert_recovers(&place, verb, &context);
                }
            }));
            if let Err(failure) = judged {
                failures.push(failure.downcast_ref::<String>().cloned().unwrap_or(context.clone()));
            }
            match verb {
                Verb::Rollback => self.reset(),
                _ => self.recorder.forget(&place),
            }
            if !has_gone_off {
                assert!(output.status.success(), "{context}: {output:?}");
                return tried;
            }
            tried += 1;
            at += verb.step();
        }
    }
}

/// Answers that filesystems give, on failing disks, dead servers, read-only mounts, and to users without permission.
const ERRNOS: [Errno; 11] = [
    Errno::EIO,
    Errno::EACCES,
    Errno::EPERM,
    Errno::EROFS,
    Errno::EBUSY,
    Errno::ENOSPC,
    Errno::EXDEV,
    Errno::ENOTCONN,
    Errno::ESTALE,
    Errno::ENOENT,
    Errno::EMFILE,
];

fn refuse(verb: Verb) {
    let (lab, mut failures) = (Lab::new(), Vec::new());
    for (i, errno) in (0..).zip(ERRNOS) {
        let once = lab.refuse_everywhere(verb, Trap::ALL, Fault::Once(errno), i * 31, &mut failures);
        let for_good = lab.refuse_everywhere(verb, Trap::CHANGES, Fault::FromThenOn(errno), i * 3, &mut failures);
        println!("{verb:?}: {errno:?} once at {once} calls, and for good at {for_good}");
    }
    assert!(failures.is_empty(), "{} failures: {failures:#?}", failures.len());
}

#[test]
fn a_new_folder_is_made_whole_or_not_at_all_whatever_its_disk_answers() {
    refuse(Verb::New);
}

#[test]
fn an_empty_folder_is_filled_with_what_is_restored_or_named() {
    refuse(Verb::Fill);
}

#[test]
fn in_place_everything_is_restored_or_named() {
    refuse(Verb::InPlace);
}

#[test]
fn a_rollback_puts_back_everything_or_nothing_but_what_is_named() {
    refuse(Verb::Rollback);
}
