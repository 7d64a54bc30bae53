//! Captures that the system refuses something: a filesystem refuses calls, one after the other, with every errno; nothing is mounted at
//! `/proc`. Each entry is in the checkpoint as it was, or named, and the exit code says so.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    process::{Command, Output},
};

use parhelia_store::{
    OpenOptions, Store,
    omitted::{Omission, Reason},
    record::Checkpoint,
    tree::{Kind, Node},
};
use parhelia_tests::{
    Scratch, long, noise,
    recorder::{Call, Fault, Recorder, Trap},
    write,
};
use rustix::{
    fs::{CWD, FileType, Mode},
    io::Errno,
};

/// Of the calls at which a fault can be injected, the ordinary run takes one in so many.
const SAMPLED: u64 = 61;

/// Errors that a filesystem, or a program that serves one, may answer with. Not those by which it says that it has no such call.
const ERRNOS: &[Errno] = &[
    Errno::NOENT,
    Errno::IO,
    Errno::ACCESS,
    Errno::PERM,
    Errno::STALE,
    Errno::NOTCONN,
    Errno::NOTDIR,
    Errno::LOOP,
    Errno::INTR,
    Errno::AGAIN,
    Errno::NOMEM,
    Errno::MFILE,
    Errno::BUSY,
    Errno::TIMEDOUT,
    Errno::NODEV,
    Errno::NXIO,
    Errno::INVAL,
    Errno::NODATA,
    Errno::TOOBIG,
    Errno::UCLEAN,
    Errno::REMOTEIO,
];

/// Everything in a checkpoint's workspace, by path; folders without what is in them.
type Entries = BTreeMap<String, Node>;

struct Lab {
    scratch: Scratch,
    recorder: Recorder,
    expected: Entries,
}

impl Lab {
    fn new() -> Self {
        let recorder = Recorder::mount();
        recorder.stop_logging();
        let work = recorder.path().join("work");
        fs::create_dir_all(work.join("empty")).unwrap();
        write(&work.join("file"), b"some work").unwrap();
        write(&work.join("nothing"), b"").unwrap();
        write(&work.join("folder/large"), &noise(150_000, 1)).unwrap();
        write(&work.join("folder/deeper/file"), &noise(3000, 2)).unwrap();
        fs::hard_link(work.join("file"), work.join("folder/same")).unwrap();
        symlink("file", work.join("link")).unwrap();
        symlink("nowhere", work.join("folder/deeper/link")).unwrap();
        rustix::fs::mknodat(CWD, work.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        rustix::fs::mknodat(CWD, work.join("folder/socket"), FileType::Socket, Mode::RUSR, 0).unwrap();
        for path in ["work", "work/file", "work/folder", "work/folder/deeper/file"] {
            recorder.set_attribute(path, "user.one", b"1");
            recorder.set_attribute(path, "user.long", &noise(2000, 3));
        }
        for path in ["work/link", "work/fifo"] {
            recorder.set_attribute(path, "trusted.one", b"1");
        }
        let mut lab = Lab { scratch: Scratch::new(), recorder, expected: Entries::new() };
        let (code, made) = lab.capture();
        let (entries, omissions) = made.unwrap();
        assert_eq!((code, omissions), (0, Vec::new()));
        assert_eq!(entries.len(), 13);
        assert_eq!(entries["link"].meta.xattrs.len() + entries["folder"].meta.xattrs.len(), 3);
        lab.expected = entries;
        lab
    }

    /// Makes a checkpoint that reads everything. Returns the exit code, and what the checkpoint has and names.
    fn capture(&self) -> (i32, Option<(Entries, Vec<Omission>)>) {
        let work = self.recorder.path().join("work").to_string_lossy().into_owned();
        let arguments = ["checkpoint", "create", "s", "--workspace", &work, "--no-default-excludes", "--thorough", "--quiet"];
        let output = self.scratch.run(&arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code().unwrap_or(-1);
        assert!(!said.contains("panicked") && matches!(code, 0..=3 | 10), "{output:?}");
        if !matches!(code, 0 | 3) {
            // The workspace folder itself was refused.
            assert!(said.contains("cannot ") || said.contains("the workspace "), "{said}");
            return (code, None);
        }
        let id = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        let store = parhelia_ledger::open(&self.scratch.store(), &OpenOptions::default()).unwrap();
        let checkpoint = store.checkpoints().unwrap().into_iter().find(|checkpoint| checkpoint.id() == id).unwrap();
        let omissions = store.omissions(&checkpoint).unwrap();
        // What belongs to a checkpoint beside the workspace may fail, too.
        let is_incomplete = said.contains("the checkpoint is incomplete: ");
        assert_eq!(said.contains("the checkpoint is partial: "), !omissions.is_empty(), "{said}");
        assert_eq!(code, if is_incomplete || !omissions.is_empty() { 3 } else { 0 }, "{said}");
        (code, Some((entries(&store, &checkpoint), omissions)))
    }

    /// Makes checkpoints with a fault at one call after the other, and looks that nothing is missed silently. Returns at how many, and how
    /// many of them named something.
    fn refuse(&mut self, calls: &'static [Call], errno: Errno, fault: fn(fuser::Errno) -> Fault, step: u64) -> (u64, u64) {
        self.scratch.put_store(self.scratch.path(&format!("store{}{}", errno.raw_os_error(), calls.len())));
        let (mut tried, mut named) = (0, 0);
        // Each errno has other calls in its sample.
        let mut at = if calls.len() > 1 { errno.raw_os_error() as u64 % step } else { 0 };
        loop {
            let fault = fault(fuser::Errno::from_i32(errno.raw_os_error()));
            self.recorder.arm(Trap::new(calls, at, fault));
            let (code, made) = self.capture();
            let (_, has_gone_off) = self.recorder.disarm();
            let context = format!("{fault:?} at call {at} of {calls:?}");
            if let Some((entries, omissions)) = made {
                self.ensure_complete(&entries, &omissions, &context);
                named += u64::from(!omissions.is_empty());
            }
            if !has_gone_off {
                assert_eq!(code, 0, "{context}");
                return (tried, named);
            }
            (tried, at) = (tried + 1, at + step);
        }
    }

    /// Panics unless each entry is there as it was, or named.
    fn ensure_complete(&self, entries: &Entries, omissions: &[Omission], context: &str) {
        let is =
            |path: &str, wanted: fn(&Reason) -> bool| omissions.iter().any(|o| o.path == path.as_bytes() && wanted(&o.reason));
        for (path, expected) in &self.expected {
            let Some(found) = entries.get(path) else {
                let above = path.match_indices('/').map(|(at, _)| &path[..at]).chain([path.as_str()]);
                let is_named = above.into_iter().any(|path| is(path, Reason::is_left_out));
                assert!(is_named, "{context}: {path} is missing, and not named: {omissions:?}");
                continue;
            };
            let is_same = match (&found.kind, &expected.kind) {
                (Kind::Folder { .. }, Kind::Folder { .. }) => true,
                (found, expected) => found == expected,
            };
            assert!(is_same || is(path, |reason| *reason == Reason::Changing), "{context}: {path}: {:?}", found.kind);
            let has_attributes = found.meta.xattrs == expected.meta.xattrs;
            let is_named = is(path, |reason| matches!(reason, Reason::Attributes(_)));
            // Where the list cannot be read, nobody knows that there are none.
            assert!(has_attributes || is_named, "{context}: attributes of {path}: {omissions:?}");
        }
        assert!(entries.keys().all(|path| self.expected.contains_key(path)), "{context}: {entries:?}");
    }
}

/// What a checkpoint has of its workspace.
fn entries(store: &Store, checkpoint: &Checkpoint) -> Entries {
    fn add(store: &Store, path: &str, node: Node, found: &mut Entries) {
        if let Some((tree, _)) = node.as_folder() {
            for below in store.folder(tree).unwrap() {
                let name = String::from_utf8(below.name.clone()).unwrap();
                add(store, &if path.is_empty() { name } else { format!("{path}/{}", name) }, below, found);
            }
        }
        found.insert(path.to_owned(), node);
    }
    let mut found = Entries::new();
    add(store, "", store.workspace_node(checkpoint).unwrap(), &mut found);
    found
}

#[test]
fn whatever_call_of_a_walk_is_refused_each_entry_is_captured_or_named() {
    let mut lab = Lab::new();
    let step = if long() > 0 { 1 } else { SAMPLED };
    let (mut tried, mut named) = (0, 0);
    for errno in ERRNOS {
        let (at, naming) = lab.refuse(Trap::LOOKS, *errno, Fault::Once, step);
        println!("{}: {at} calls, {naming} checkpoints that name something", errno);
        (tried, named) = (tried + at, named + naming);
    }
    assert!(tried > 50 && named > 20, "{named} of {tried}");
}

#[test]
fn a_kind_of_call_that_is_always_refused_takes_no_entry_out_of_a_checkpoint_silently() {
    let mut lab = Lab::new();
    let errnos = if long() > 0 { ERRNOS } else { &ERRNOS[..3] };
    let kinds: [&'static [Call]; 7] = [
        &[Call::ListAttributes],
        &[Call::ReadAttribute],
        &[Call::Follow],
        &[Call::Open],
        &[Call::OpenFolder],
        &[Call::Read],
        &[Call::Find],
    ];
    // What is interrupted is done again.
    for errno in errnos.iter().filter(|errno| **errno != Errno::INTR) {
        for calls in kinds {
            // The first folders that are opened lead to the workspace; few are in it.
            let step = if long() > 0 || calls == [Call::OpenFolder] { 1 } else { 7 };
            let (tried, named) = lab.refuse(calls, *errno, Fault::FromThenOn, step);
            assert!(tried > 0 && (calls == [Call::Find] || named > 0), "{calls:?}: {errno}: {named} of {tried}");
        }
    }
}

/// Runs a command line where nothing is mounted at `/proc` but an empty folder.
fn without_proc(s: &Scratch, arguments: &[&str]) -> Output {
    let plain = s.command(arguments);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", "mount -t tmpfs none /proc && exec \"$0\" \"$@\""]);
    command.arg(plain.get_program()).args(plain.get_args()).env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.output().unwrap()
}

#[test]
fn without_proc_no_entry_is_missing_and_going_back_removes_none() {
    let s = Scratch::new();
    let work = s.path("work");
    write(&work.join("folder/file"), b"inside").unwrap();
    write(&work.join("file"), b"old").unwrap();
    symlink("file", work.join("link")).unwrap();
    symlink("../file", work.join("folder/link")).unwrap();
    rustix::fs::mknodat(CWD, work.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    rustix::fs::lsetxattr(work.join("link"), "trusted.one", b"1", rustix::fs::XattrFlags::empty()).unwrap();
    let shown = work.to_string_lossy().into_owned();
    let id = s.create("s", &work);
    let store = || parhelia_ledger::open(&s.store(), &OpenOptions::default()).unwrap();
    let of = |id: &str| {
        let store = store();
        let checkpoint = store.checkpoints().unwrap().into_iter().find(|checkpoint| checkpoint.id() == id).unwrap();
        (entries(&store, &checkpoint), store.omissions(&checkpoint).unwrap())
    };
    let (expected, none) = of(&id);
    assert_eq!((expected.len(), none.len()), (7, 0));

    let made =
        without_proc(&s, &["checkpoint", "create", "s", "--workspace", &shown, "--no-default-excludes", "--thorough", "-q"]);
    let (found, omissions) = of(String::from_utf8_lossy(&made.stdout).trim());
    assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{made:?}");
    // Before Linux 6.13, there is no way to the attributes of a link.
    assert!(omissions.iter().all(|omission| matches!(omission.reason, Reason::Attributes(_))), "{omissions:?}");
    assert_eq!(made.status.code(), Some(if omissions.is_empty() { 0 } else { 3 }), "{made:?}");
    assert!(!omissions.is_empty() || found == expected);

    write(&work.join("file"), b"new").unwrap();
    fs::remove_file(work.join("folder/link")).unwrap();
    let back = without_proc(&s, &["rollback", &id, "--yes"]);
    assert!(matches!(back.status.code(), Some(0 | 3)), "{back:?}");
    assert_eq!(fs::read(work.join("file")).unwrap(), b"old");
    for link in ["link", "folder/link"] {
        assert!(fs::read_link(work.join(link)).is_ok(), "{link}: {back:?}");
    }
    assert!(work.join("fifo").symlink_metadata().is_ok());
}
