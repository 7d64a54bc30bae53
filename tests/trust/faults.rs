//! The system refuses: a full disk, a failing one, a read-only one, too few file descriptors, too little memory. Each time the error
//! says what was being done, nothing that was committed is lost, and the next run succeeds.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Output,
};

use fuser::Errno;
use parhelia_store::{
    OpenOptions,
    check::{self, CheckOptions},
    event::{Actor, NewEvent},
};
use parhelia_tests::{
    Files, Scratch, assert_equal, files_in, long, make_store, noise,
    recorder::{Call, Fault, Recorder, Trap},
    story::{files_of, leftovers},
    write,
};

/// Of the calls at which a fault can be injected, the ordinary run takes one in so many.
const SAMPLED: usize = 13;

/// A store on a recorder with two checkpoints, one of which may go.
struct Lab {
    scratch: Scratch,
    recorder: Recorder,
    ids: [String; 2],
    files: [Files; 2],
}

impl Lab {
    fn new() -> Self {
        let mut lab =
            Lab { scratch: Scratch::new(), recorder: Recorder::mount(), ids: Default::default(), files: Default::default() };
        lab.recorder.stop_logging();
        fs::create_dir(lab.recorder.path().join("base")).unwrap();
        make_store(&lab.recorder.path().join("base/store"));
        let work = lab.work();
        write(&work.join("a"), &noise(3000, 1)).unwrap();
        write(&work.join("b/large"), &noise(80_000, 2)).unwrap();
        lab.keep(0);
        fs::remove_file(work.join("b/large")).unwrap();
        write(&work.join("b/c"), b"small").unwrap();
        lab.keep(1);
        write(&work.join("b/next"), &noise(2000, 3)).unwrap();
        lab
    }

    fn work(&self) -> PathBuf {
        self.scratch.path("work")
    }

    fn keep(&mut self, n: usize) {
        self.files[n] = files_in(&self.work());
        let output = self.run("base", Verb::Create);
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let summary: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        self.ids[n] = summary["id"].as_str().unwrap().to_owned();
    }

    fn place(&self, name: &str) -> PathBuf {
        self.recorder.path().join(name)
    }

    fn run(&self, place: &str, verb: Verb) -> Output {
        let path = |name: &str| self.place(place).join(name).to_string_lossy().into_owned();
        let (work, store, out) = (self.work().to_string_lossy().into_owned(), path("store"), path("out"));
        let arguments: Vec<&str> = match verb {
            Verb::Create => vec!["checkpoint", "create", "s", "--workspace", &work, "--no-default-excludes"],
            Verb::Delete => vec!["checkpoint", "delete", &self.ids[0]],
            Verb::Gc => vec!["gc"],
            Verb::Restore => vec!["checkpoint", "restore", &self.ids[1], "--to", &out],
            Verb::List => vec!["checkpoint", "list"],
        };
        self.scratch.run(&[&arguments[..], &["--store", &store, "--json"]].concat())
    }

    /// Panics unless the checkpoints are there, and everything works again.
    fn assert_recovers(&self, place: &str, verb: Verb, context: &str) {
        let store = parhelia_ledger::open(&self.place(place).join("store"), &OpenOptions::default()).unwrap();
        let found = store.checkpoints().unwrap();
        let may_be_gone = matches!(verb, Verb::Delete | Verb::Gc);
        for (id, files) in self.ids.iter().zip(&self.files) {
            match found.iter().find(|c| c.id() == *id) {
                Some(checkpoint) => assert_eq!(&files_of(&store, checkpoint).unwrap(), files, "{context}: {id}"),
                None => assert!(may_be_gone && *id == self.ids[0], "{context}: {id} is gone"),
            }
        }
        drop(store);
        let is_deleted = verb == Verb::Delete && !found.iter().any(|c| c.id() == self.ids[0]);
        let out = self.place(place).join("out");
        if !is_deleted && !out.exists() {
            let again = self.run(place, verb);
            assert!(again.status.success(), "{context}: the next run: {again:?}");
        }
        let gc = self.run(place, Verb::Gc);
        assert!(gc.status.success(), "{context}: gc: {gc:?}");
        let store = parhelia_ledger::open(&self.place(place).join("store"), &OpenOptions::default()).unwrap();
        let report = check::run(store.layout(), &CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
        assert!(report.is_clean(), "{context}: {:?}", report.findings);
        assert_eq!(leftovers(&store), Vec::<PathBuf>::new(), "{context}");
    }

    /// Injects a fault at one call after the other of a verb. Returns at how many.
    fn refuse_everywhere(&self, verb: Verb, calls: &'static [Call], fault: Fault) -> usize {
        let base = if verb == Verb::Gc { "deleted" } else { "base" };
        let mut tried = 0;
        let mut at = 0;
        loop {
            let place = format!("{verb:?}{at}");
            self.recorder.copy(base, &place);
            // Another store has been at this place before.
            let _ = fs::remove_dir_all(self.scratch.path("home/.local/state/parhelia/stores"));
            self.recorder.arm(Trap::new(calls, at, fault));
            let output = self.run(&place, verb);
            let (_, has_gone_off) = self.recorder.disarm();
            let context = format!("{verb:?}, {fault:?} at call {at} of {calls:?}");
            assert_clear(&output, &context);
            if !has_gone_off {
                assert!(output.status.success(), "{context}: {output:?}");
                self.recorder.forget(&place);
                return tried;
            }
            self.assert_recovers(&place, verb, &context);
            self.recorder.forget(&place);
            tried += 1;
            at += if long() > 0 { 1 } else { SAMPLED as u64 };
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Create,
    Delete,
    Gc,
    Restore,
    List,
}

/// A success, or an error that says what was being done to what, and why it failed.
fn assert_clear(output: &Output, context: &str) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!said.contains("panicked"), "{context}: {said}");
    let code = output.status.code();
    assert!(matches!(code, Some(0 | 1 | 3 | 12)), "{context}: {output:?}");
    if !matches!(code, Some(0 | 3)) {
        assert!(said.contains("cannot ") || said.contains("index"), "{context}: {said}");
    }
}

#[test]
fn every_refused_call_leaves_a_store_that_recovers() {
    let lab = Lab::new();
    lab.recorder.copy("base", "deleted");
    assert!(lab.run("deleted", Verb::Delete).status.success());
    let faults: [(&'static [Call], Fault); 4] = [
        (Trap::NEEDS_SPACE, Fault::FromThenOn(Errno::ENOSPC)),
        (Trap::ALL, Fault::Once(Errno::EIO)),
        (Trap::CHANGES, Fault::FromThenOn(Errno::EROFS)),
        (Trap::OPENS, Fault::FromThenOn(Errno::EMFILE)),
    ];
    for verb in [Verb::Create, Verb::Delete, Verb::Gc, Verb::Restore, Verb::List] {
        for (calls, fault) in faults {
            let tried = lab.refuse_everywhere(verb, calls, fault);
            println!("{verb:?}: {fault:?} at {tried} calls");
        }
    }
}

/// A small ext4 on a loop device. Unmounted when dropped.
struct SmallDisk {
    path: PathBuf,
}

impl SmallDisk {
    fn mount(scratch: &Scratch, mib: u64) -> Self {
        let (image, path) = (scratch.path("image"), scratch.path("disk"));
        fs::File::create(&image).unwrap().set_len(mib << 20).unwrap();
        fs::create_dir(&path).unwrap();
        let run = |program: &str, arguments: &[&str]| {
            let output = std::process::Command::new(program).args(arguments).output().unwrap();
            assert!(output.status.success(), "{program}: {output:?}");
        };
        run("mkfs.ext4", &["-q", "-F", "-m", "0", &image.to_string_lossy()]);
        run("mount", &["-o", "loop", &image.to_string_lossy(), &path.to_string_lossy()]);
        SmallDisk { path }
    }

    /// Fills the disk to the last byte with a file.
    fn fill(&self) -> PathBuf {
        let path = self.path.join("filler");
        let mut file = fs::File::create(&path).unwrap();
        for bytes in [1 << 20, 4096, 512, 1] {
            while std::io::Write::write_all(&mut file, &vec![7; bytes]).is_ok() {}
        }
        path
    }
}

impl SmallDisk {
    /// Uses up the inodes but one, for a file that fills the disk. Before it is full, as a folder takes room.
    fn fill_inodes(&self) {
        let folder = self.path.join("empty");
        fs::create_dir(&folder).unwrap();
        for n in 0.. {
            if fs::File::create(folder.join(n.to_string())).is_err() {
                fs::remove_file(folder.join("0")).unwrap();
                return;
            }
        }
    }
}

/// Shows a folder once more, read-only. Unmounted when dropped.
struct ReadOnlyView(PathBuf);

impl ReadOnlyView {
    fn of(folder: &Path, at: PathBuf) -> Self {
        fs::create_dir(&at).unwrap();
        let mount = |arguments: &[&std::ffi::OsStr]| {
            let output = std::process::Command::new("mount").args(arguments).arg(&at).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        mount(&["--bind".as_ref(), folder.as_ref()]);
        mount(&["-o".as_ref(), "remount,bind,ro".as_ref()]);
        ReadOnlyView(at)
    }
}

impl Drop for ReadOnlyView {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Every verb that only reads, on a store that cannot be written to: each succeeds, and those that hold a checkpoint say that it
/// is not pinned.
fn assert_reads_unpinned(s: &Scratch, store: &Path, work: &Path, label: &str) {
    let path = |name: &str| s.path(&format!("{label}-{name}")).to_string_lossy().into_owned();
    let (work, store) = (work.to_string_lossy().into_owned(), store.to_string_lossy().into_owned());
    let (out, archive, point) = (path("out"), path("archive"), path("mounted"));
    let on = |arguments: &[&str]| s.expect(0, &[arguments, &["--store", &store]].concat());
    let pinning: [&[&str]; 8] = [
        &["checkpoint", "ls", "-R", "latest"],
        &["checkpoint", "cat", "latest:large"],
        &["checkpoint", "diff", "latest~1", "latest"],
        &["checkpoint", "diff", "latest", "--workspace", &work],
        &["checkpoint", "verify", "--deep"],
        &["checkpoint", "restore", "latest", "--to", &out],
        &["checkpoint", "restore", "s@latest", "--to", &out, "--in-place", "--delete"],
        &["export", "latest", "-o", &archive],
    ];
    for verb in pinning {
        let said = on(verb);
        assert_eq!(said.matches("reading goes on without a pin").count(), 1, "{label}: {verb:?}: {said}");
    }
    assert_equal(Path::new(&work), Path::new(&out));
    for verb in [&["checkpoint", "list"][..], &["checkpoint", "show", "latest"], &["log"], &["stats"], &["check", "--read-data"]]
    {
        on(verb);
    }
    for what in [&["latest"][..], &[]] {
        fs::create_dir(&point).unwrap();
        on(&[&["mount"], what, &[&point]].concat());
        let shown = if what.is_empty() { Path::new(&point).join("sessions/s/latest/workspace") } else { PathBuf::from(&point) };
        assert_equal(Path::new(&work), &shown);
        on(&["umount", &point]);
        fs::remove_dir(&point).unwrap();
    }
}

#[test]
fn what_only_reads_needs_no_room_and_no_permission_to_write() {
    let s = Scratch::new();
    let disk = SmallDisk::mount(&s, 24);
    let (store, work) = (disk.path.join("store"), s.path("work"));
    make_store(&store);
    let create = |large: u64| {
        write(&work.join("large"), &noise(500_000, large)).unwrap();
        let arguments =
            ["checkpoint", "create", "s", "--workspace", &work.to_string_lossy(), "--store", &store.to_string_lossy()];
        s.expect(0, &arguments);
    };
    write(&work.join("small"), b"some work").unwrap();
    // Mounts answer questions about attributes where there are any.
    rustix::fs::setxattr(work.join("small"), "user.note", b"1", rustix::fs::XattrFlags::empty()).unwrap();
    create(1);
    create(2);
    let view = ReadOnlyView::of(&store, s.path("view"));
    assert!(!store.join("mounts").exists(), "the store has had a mount");
    assert_reads_unpinned(&s, &view.0, &work, "read-only");
    drop(view);
    disk.fill_inodes();
    disk.fill();
    assert_reads_unpinned(&s, &store, &work, "full");
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(&self.path).status();
    }
}

#[test]
fn a_disk_that_is_really_full() {
    let s = Scratch::new();
    let disk = SmallDisk::mount(&s, 48);
    let store = disk.path.join("store").to_string_lossy().into_owned();
    let on = |code: i32, arguments: &[&str]| s.expect(code, &[arguments, &["--store", &store]].concat());
    on(0, &["init", "--quiet"]);
    let work = s.path("work").to_string_lossy().into_owned();
    let create = ["checkpoint", "create", "s", "--workspace", &work];
    write(&s.path("work/small"), b"some work").unwrap();
    on(0, &create);
    write(&s.path("work/large"), &noise(9 << 20, 1)).unwrap();
    on(0, &create);
    write(&s.path("work/huge"), &noise(60 << 20, 2)).unwrap();
    let refused = on(1, &create);
    assert!(refused.to_lowercase().contains("no space"), "{refused}");
    on(0, &["check", "--read-data", "--quiet"]);

    // A restore that does not fit is refused, and gives its space back.
    let free = || rustix::fs::statvfs(&disk.path).unwrap().f_bavail;
    on(0, &["gc", "--quiet"]);
    fs::write(disk.path.join("most"), noise(20 << 20, 3)).unwrap();
    let before = free();
    let to = disk.path.join("out").to_string_lossy().into_owned();
    let refused = on(1, &["checkpoint", "restore", "latest", "--quiet", "--to", &to]);
    assert!(refused.to_lowercase().contains("no space") && refused.contains(&to), "{refused}");
    assert!(!Path::new(&to).exists() && free() + 64 >= before, "{} blocks free, {before} before", free());

    // On a disk without a byte left, a deletion and gc make room, also where the deletion's record needs another block.
    fs::remove_file(s.path("work/huge")).unwrap();
    pad_journal(Path::new(&store));
    let filler = disk.fill();
    assert!(std::fs::write(disk.path.join("x"), [1; 4096]).is_err(), "the disk is not full");
    on(0, &["checkpoint", "list", "--quiet"]);
    let deleted = s.run(&["checkpoint", "delete", "s@latest", "--store", &store]);
    println!("delete on a full disk: {}", String::from_utf8_lossy(&deleted.stderr));
    if deleted.status.success() {
        on(0, &["gc", "--quiet"]);
    } else {
        assert!(String::from_utf8_lossy(&deleted.stderr).to_lowercase().contains("no space"), "{deleted:?}");
    }
    on(0, &["gc", "--quiet"]);
    assert!(deleted.status.success(), "a full disk does not let anything be deleted: {deleted:?}");
    assert!(free() * 4096 > 8 << 20, "gc gave back too little");
    on(0, &["check", "--read-data", "--quiet"]);
    fs::remove_file(filler).unwrap();
    fs::remove_file(s.path("work/large")).unwrap();
    on(0, &create);
    on(0, &["checkpoint", "verify", "latest~1", "--deep", "--quiet"]);
}

/// Appends events until the journal's next record does not fit into the last block that the journal has.
fn pad_journal(store: &Path) {
    let opened = parhelia_ledger::open(store, &OpenOptions::default()).unwrap();
    let journal = fs::read_dir(store.join("journal")).unwrap().flatten().map(|entry| entry.path());
    let segment = journal.filter(|path| path.extension().is_some_and(|e| e == "log")).max().unwrap();
    let used = || fs::metadata(&segment).unwrap().len() % 4096;
    let append = |bytes: u64| {
        let actor = Actor::program("test");
        let event = NewEvent::new("padding", "none", actor).with("text", "x".repeat(bytes as usize));
        opened.append_events(&[event], &()).unwrap();
    };
    append(0);
    let before = used();
    append(0);
    let alone = (used() + 4096 - before) % 4096;
    for _ in 0..50 {
        if used() >= 4096 - 100 {
            return;
        }
        // A record's length varies by a few bytes with the time in it.
        append((2 * 4096 - used() - alone - 50) % 4096);
    }
    panic!("the journal ends at {} of a block", used());
}

/// Root is not bound by a limit on processes, so that this runs as somebody else.
#[test]
fn few_threads_are_enough_or_missed_by_name() {
    const USER: u32 = 54_321;
    let s = Scratch::new();
    let program = s.path("parhelia");
    fs::copy(parhelia_tests::binary(), &program).unwrap();
    for i in 0..200u64 {
        write(&s.path(&format!("work/d{}/f{i}", i % 9)), &noise(3000, i)).unwrap();
    }
    write(&s.path("work/large"), &noise(40 << 20, 1)).unwrap();
    fs::create_dir_all(s.path("home")).unwrap();
    let owned = std::process::Command::new("chown").args(["-R", &USER.to_string()]).arg(s.path("")).status().unwrap();
    assert!(owned.success());
    make_store(&s.store());
    let (work, store) = (s.path("work").to_string_lossy().into_owned(), s.store().to_string_lossy().into_owned());
    let on = |threads: u64, verb: &[&str]| {
        let limit = format!("--nproc={threads}");
        let (id, home) = (USER.to_string(), s.path("home"));
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "prlimit", &limit]).arg(&program);
        command.args(verb).args(["--store", &store]).env_remove("XDG_CONFIG_HOME").env("HOME", home);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("panicked") && output.status.signal().is_none(), "{threads} threads: {verb:?}: {output:?}");
        if !output.status.success() {
            assert!(said.contains("temporarily unavailable"), "{threads} threads: {verb:?}: {said}");
        }
        output.status.success()
    };
    let create = ["checkpoint", "create", "s", "--workspace", &work];
    assert!(!on(1, &create), "the limit is none");
    assert!(on(40, &create));
    let mut succeeded = 0;
    for threads in 1..9 {
        let out = s.path(&format!("out{threads}")).to_string_lossy().into_owned();
        let restore = ["checkpoint", "restore", "latest", "--to", &out];
        for verb in [&create[..], &["gc"], &restore, &["check", "--read-data"], &["check", "--rebuild-index"]] {
            fs::write(s.path("work/changing"), format!("{threads}{verb:?}")).unwrap();
            succeeded += usize::from(on(threads, verb));
        }
    }
    // Two databases may be open one after the other: the caller's own, and before that to look whose call it is.
    assert!(succeeded >= 16, "only {succeeded} of 40 did with so few");
    assert!(on(40, &["check", "--read-data"]));
}

#[test]
fn few_file_descriptors_and_little_memory_lose_nothing() {
    let s = Scratch::new();
    for i in 0..120u64 {
        write(&s.path(&format!("work/d{}/e{}/f{i}", i % 4, i % 11)), &noise(500 + i as usize * 40, i)).unwrap();
    }
    let id = s.create("s", &s.path("work"));
    let binary = parhelia_tests::binary().to_string_lossy().into_owned();
    let (work, store) = (s.path("work").to_string_lossy().into_owned(), s.store().to_string_lossy().into_owned());
    let out = s.path("out").to_string_lossy().into_owned();
    let verbs: [Vec<&str>; 3] =
        [vec!["checkpoint", "create", "s", "--workspace", &work], vec!["gc"], vec!["checkpoint", "restore", &id, "--to", &out]];
    let mut refused = 0;
    let limits = (6..40).step_by(if long() > 0 { 1 } else { 5 }).map(|n| format!("ulimit -n {n}"));
    // With less than the first, the program itself does not start.
    let memory = [90_000, 120_000, 200_000, 300_000, 700_000, 2_000_000].map(|kib| format!("ulimit -v {kib}"));
    for limit in limits.chain(memory) {
        for verb in &verbs {
            write(&s.path("work/changing"), limit.as_bytes()).unwrap();
            let script = format!("{limit}; exec \"$0\" \"$@\"");
            let all = [&["-c", &script, &binary], &verb[..], &["--store", &store]].concat();
            let output = std::process::Command::new("sh").args(all).env_clear().env("HOME", s.path("home")).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let aborted = output.status.signal().is_some() || matches!(output.status.code(), Some(126 | 127 | 101));
            assert!(!said.contains("panicked"), "{limit}: {verb:?}: {said}");
            assert!(!aborted || said.contains("open files"), "{limit}: {verb:?}: {output:?}");
            if limit.contains("-v") && !output.status.success() {
                assert!(
                    said.contains("cannot open the store") && said.contains("raise `ulimit -v`"),
                    "{limit}: {verb:?}: {said}"
                );
            }
            refused += usize::from(!output.status.success());
            s.expect(0, &["check", "--quiet"]);
            let _ = fs::remove_dir_all(&out);
        }
    }
    assert!(refused > 3, "the limits were none");
    s.expect(0, &["checkpoint", "verify", &id, "--deep", "--quiet"]);
    s.create("s", &s.path("work"));
    s.expect(0, &["gc", "--quiet"]);
    s.expect(0, &["check", "--read-data", "--quiet"]);
    let store = parhelia_ledger::open(&s.store(), &OpenOptions::default()).unwrap();
    assert_eq!(leftovers(&store), Vec::<PathBuf>::new());
}
