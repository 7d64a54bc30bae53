//! The power goes at every step of a store's life, and no committed checkpoint is lost.
//!
//! The real binary works on a recorder; the disks that a cut could have left are rebuilt from what it wrote and synced, and checked in
//! this process. `PARHELIA_LONG=N` cuts inside every write of RocksDB as well, and reorders in N ways instead of one.

use std::{
    fs,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use fuser::Errno;
use parhelia_tests::{
    Files, Scratch, files_in, long, noise,
    recorder::{Call, Cut, Entry, Fault, History, Op, Recorder, Trap},
    story::{Step, Story, What},
    write,
};

/// Of RocksDB's own steps, the ordinary run takes one in so many.
const SAMPLED: usize = 11;

/// A store on a recorder, and what is done to it.
struct Life {
    scratch: Scratch,
    recorder: Recorder,
    story: Story,
}

impl Life {
    fn new() -> Self {
        let mut life = Life { scratch: Scratch::new(), recorder: Recorder::mount(), story: Story::default() };
        fs::create_dir_all(life.scratch.path("work")).unwrap();
        life.step(&["init"], |_| What::Other);
        life
    }

    fn arguments<'a>(&self, arguments: &[&'a str]) -> Vec<&'a str> {
        arguments.to_vec()
    }

    fn step(&mut self, arguments: &[&str], what: impl FnOnce(&serde_json::Value) -> What) {
        let start = self.recorder.mark();
        let store = self.recorder.path().join("new/store").to_string_lossy().into_owned();
        let all = [&self.arguments(arguments)[..], &["--store", &store]].concat();
        let summary = self.scratch.summary(&all);
        self.story.steps.push(Step { start, end: self.recorder.mark(), what: what(&summary) });
    }

    fn create(&mut self) -> String {
        let work = self.scratch.path("work");
        let files = files_in(&work);
        let path = work.to_string_lossy().into_owned();
        self.step(&["checkpoint", "create", "s", "--workspace", &path, "--no-default-excludes"], |summary| {
            What::Created(summary["id"].as_str().unwrap().to_owned(), files)
        });
        match &self.story.steps.last().unwrap().what {
            What::Created(id, _) => id.clone(),
            _ => unreachable!(),
        }
    }

    fn delete(&mut self, id: &str) {
        self.step(&["checkpoint", "delete", id], |_| What::Deleted(id.to_owned()));
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        write(&self.scratch.path("work").join(name), bytes).unwrap();
    }
}

/// Every kind of step that a store goes through: it is made, grows, is cleaned, repacked, and its index is made anew.
fn whole_life() -> Life {
    let mut life = Life::new();
    life.write("a/text", "some words\n".repeat(40).as_bytes());
    life.write("a/large", &noise(90_000, 1));
    life.write("b/small", b"x");
    let first = life.create();
    life.write("a/text", "other words\n".repeat(50).as_bytes());
    fs::remove_file(life.scratch.path("work/a/large")).unwrap();
    life.write("b/more", &noise(3000, 2));
    life.create();
    life.delete(&first);
    life.step(&["gc"], |_| What::Other);
    life.step(&["check", "--rebuild-index"], |_| What::Other);
    life.write("b/more", &noise(3500, 3));
    let third = life.create();
    life.delete(&third);
    life.create();
    life.step(&["gc"], |_| What::Other);
    life
}

fn is_in_index(entry: &Entry) -> bool {
    entry.path.to_string_lossy().contains("/view") || entry.path.extension().is_some_and(|e| e == "sst")
}

fn is_write(history: &History, n: usize) -> bool {
    n.checked_sub(1).is_some_and(|last| matches!(history.entries[last].op, Op::Write(..)))
}

/// The cuts to look at. Between two changes of RocksDB's files, a sample.
fn cuts(history: &History, rounds: u64) -> Vec<(usize, Cut)> {
    let mut cuts = Vec::new();
    for n in 0..=history.entries.len() {
        let around = n.checked_sub(1).map(|last| &history.entries[last]);
        if rounds == 0 && around.is_some_and(is_in_index) && n % SAMPLED != 0 {
            continue;
        }
        cuts.push((n, Cut::Lost));
        if history.unsynced(n) == 0 {
            continue;
        }
        cuts.push((n, Cut::Kept));
        let torn: &[usize] = if rounds == 0 { &[400] } else { &[0, 1, 250, 500, 999] };
        cuts.extend(torn.iter().filter(|_| is_write(history, n)).map(|part| (n, Cut::Torn(*part))));
        cuts.extend((0..rounds.max(1)).map(|seed| (n, Cut::Some(seed))));
    }
    cuts
}

/// Checks every disk that the cuts leave; returns how many.
fn survive(life: &Life, history: &History, cuts: &[(usize, Cut)]) -> usize {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    let workspace = life.scratch.path("work");
    let check = || {
        while let Some((n, cut)) = cuts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let folder = tempfile::tempdir_in(memory()).unwrap();
            let store = folder.path().join("store");
            history.image(*n, *cut).write_out(Path::new("new/store"), &store).unwrap();
            if let Err(reason) = life.story.holds(&store, *n, &workspace) {
                let last = n.checked_sub(1).map(|last| &history.entries[last]);
                let last = last.map(|e| format!("{} {:?}", e.path.display(), e.op).chars().take(120).collect::<String>());
                failures.lock().unwrap().push(format!("cut at {n}, {cut:?}, behind {last:?}: {reason}"));
            }
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(check))));
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {} cuts:\n{}", failures.len(), cuts.len(), failures[..failures.len().min(25)].join("\n"));
    cuts.len()
}

/// Folder in which images are built: in memory, if that can be had.
fn memory() -> &'static Path {
    let shm = Path::new("/dev/shm");
    if shm.is_dir() { shm } else { Path::new("/tmp") }
}

#[test]
fn a_cut_at_every_step_loses_nothing_that_was_committed() {
    let life = whole_life();
    let history = life.recorder.history();
    let cuts = cuts(&history, long());
    let checked = survive(&life, &history, &cuts);
    println!("{checked} disks after cuts at {} steps", history.entries.len());
}

/// Makes a store's index one that another release has written.
fn give_the_index_another_shape(store: &Path) {
    let (options, view) = (rocksdb::Options::default(), store.join("view"));
    let families = rocksdb::DB::list_cf(&options, &view).unwrap();
    let db = rocksdb::DB::open_cf(&options, &view, families).unwrap();
    assert!(db.get("version").unwrap().is_some(), "the index does not say what shape it has");
    db.put("version", "another").unwrap();
    db.flush().unwrap();
}

#[test]
fn a_cut_while_the_index_of_another_release_is_replaced_loses_nothing() {
    let mut life = Life::new();
    life.write("a", &noise(5000, 1));
    life.create();
    // So far, the journal has everything: only now is there an index.
    life.step(&["check", "--rebuild-index"], |_| What::Other);
    give_the_index_another_shape(&life.recorder.path().join("new/store"));
    life.recorder.cut(Cut::Kept);
    life.story.steps.iter_mut().for_each(|step| (step.start, step.end) = (0, 0));
    life.write("b", &noise(3000, 2));
    life.create();
    let history = life.recorder.history();
    assert!(history.entries.iter().any(is_in_index), "the index was not replaced");
    let cuts = cuts(&history, long());
    let checked = survive(&life, &history, &cuts);
    println!("{checked} disks after cuts at {} steps of a create that replaces the index", history.entries.len());
}

/// Enough objects for a commit to hand RocksDB a table of them.
const MANY: u64 = 2010;

#[test]
fn a_cut_while_the_index_takes_in_a_table_loses_nothing() {
    let mut life = Life::new();
    for i in 0..MANY {
        life.write(&format!("d{}/f{i}", i % 40), &i.to_le_bytes());
    }
    life.create();
    life.write("last", b"and one more");
    life.create();
    let history = life.recorder.history();
    let takes_table = |entry: &Entry| entry.path.extension().is_some_and(|e| e == "sst");
    assert!(history.entries.iter().any(takes_table), "no table was written");
    // What came before the first pack was there is as in any other life.
    let begins = history.entries.iter().position(|entry| entry.path.extension().is_some_and(|e| e == "pack")).unwrap();
    let wanted = if long() > 0 { 120 * long() as usize } else { 12 };
    let step = ((history.entries.len() - begins) / wanted).max(1);
    let steps = (begins..=history.entries.len()).step_by(step);
    let cuts: Vec<(usize, Cut)> = steps.zip([Cut::Lost, Cut::Kept, Cut::Some(1)].into_iter().cycle()).collect();
    let checked = survive(&life, &history, &cuts);
    println!("{checked} disks after cuts at {} steps of a create with a table", history.entries.len());
}

/// A life in which one sync of a create fails, and two more follow; and what that create said. `None` once it has no such sync.
fn with_a_failed_sync(at: u64) -> Option<(Life, String)> {
    let mut life = Life::new();
    life.write("a", b"some words");
    let first = life.create();
    life.write("b", &noise(3000, 1));
    let work = life.scratch.path("work").to_string_lossy().into_owned();
    let store = life.recorder.path().join("new/store").to_string_lossy().into_owned();
    let create = ["checkpoint", "create", "s", "--workspace", &work, "--no-default-excludes", "--store", &store, "--json"];
    life.recorder.arm(Trap::new(&[Call::Sync], at, Fault::Once(Errno::EIO)));
    let files = files_in(&life.scratch.path("work"));
    let start = life.recorder.mark();
    let output = life.scratch.run(&create);
    if !life.recorder.disarm().1 {
        return None;
    }
    let said = format!("sync {at} failed: {output:?}");
    // What is there by now stays there, also where it was what comes behind the commit that failed.
    let list = life.scratch.run(&["checkpoint", "list", "s", "--store", &store, "--json"]);
    let text = String::from_utf8_lossy(&list.stdout).into_owned();
    let newest = text.lines().next().and_then(|line| serde_json::from_str::<serde_json::Value>(line).ok()).unwrap_or_default();
    let what = match newest["id"].as_str().filter(|id| *id != first) {
        Some(id) => What::Created(id.to_owned(), files),
        None => What::Other,
    };
    assert!(!output.status.success() || matches!(what, What::Created(..)), "{said}");
    let end = life.recorder.mark();
    life.story.steps.push(Step { start, end, what });
    life.create();
    life.write("c", b"more");
    life.create();
    Some((life, said))
}

#[test]
fn a_sync_that_fails_takes_nothing_with_it_that_is_committed_later() {
    let mut failed = 0;
    while let Some((life, said)) = with_a_failed_sync(failed) {
        let history = life.recorder.history();
        let folder = tempfile::tempdir_in(memory()).unwrap();
        let store = folder.path().join("store");
        let n = history.entries.len();
        history.image(n, Cut::Lost).write_out(Path::new("new/store"), &store).unwrap();
        life.story.holds(&store, n, &life.scratch.path("work")).unwrap_or_else(|reason| panic!("{reason}; {said}"));
        failed += 1;
    }
    println!("{failed} syncs of a create failed");
    assert!(failed > 2, "only {failed} syncs were seen");
}

/// Two checkpoints of a folder, and a recorder to restore them into.
struct Target {
    scratch: Scratch,
    recorder: Recorder,
    /// The checkpoints, with the files that they hold.
    held: [(String, Files); 2],
}

impl Target {
    fn new() -> Self {
        let scratch = Scratch::new();
        let work = scratch.path("work");
        write(&work.join("same"), b"the same in both").unwrap();
        write(&work.join("changed"), &noise(150_000, 1)).unwrap();
        write(&work.join("folder/gone"), b"only in the first").unwrap();
        write(&work.join("old/a/b"), b"a whole folder that goes").unwrap();
        write(&work.join("to folder"), b"a file that becomes a folder").unwrap();
        write(&work.join("to file/inner"), b"a folder that becomes a file").unwrap();
        fs::hard_link(work.join("same"), work.join("second name")).unwrap();
        let first = (scratch.create("s", &work), files_in(&work));
        write(&work.join("changed"), &noise(160_000, 2)).unwrap();
        fs::remove_file(work.join("folder/gone")).unwrap();
        fs::remove_dir_all(work.join("old")).unwrap();
        fs::remove_file(work.join("to folder")).unwrap();
        fs::remove_dir_all(work.join("to file")).unwrap();
        write(&work.join("to folder/inner"), b"the folder that was a file").unwrap();
        write(&work.join("to file"), b"the file that was a folder").unwrap();
        write(&work.join("new/c/d"), b"a whole folder that comes").unwrap();
        write(&work.join("folder/other"), b"only in the second").unwrap();
        let second = (scratch.create("s", &work), files_in(&work));
        Target { scratch, recorder: Recorder::mount(), held: [first, second] }
    }

    fn restore(&self, number: usize, to: &Path, flags: &[&str]) {
        let to = to.to_string_lossy().into_owned();
        self.scratch.expect(0, &[&["checkpoint", "restore", &self.held[number].0, "--quiet", "--to", &to], flags].concat());
    }

    /// Has `look` see what each cut leaves of a folder in the recorder; nothing where there is no such folder.
    fn after_cuts(&self, path: &str, mut look: impl FnMut(usize, Cut, Option<&Path>)) {
        let history = self.recorder.history();
        let (cuts, end) = (cuts(&history, long()), history.entries.len());
        for (n, cut) in &cuts {
            let folder = tempfile::tempdir_in(memory()).unwrap();
            let out = folder.path().join("out");
            history.image(*n, *cut).write_out(Path::new(path), &out).unwrap();
            look(*n, *cut, out.is_dir().then_some(&*out));
        }
        assert!(cuts.contains(&(end, Cut::Lost)), "the end is not looked at");
        println!("{} disks after cuts at {end} steps of a restore to {path}", cuts.len());
    }
}

/// Files without what a restore was building.
fn without_staged(files: Files) -> Files {
    files.into_iter().filter(|(path, _)| !String::from_utf8_lossy(path).contains(".parhelia-")).collect()
}

#[test]
fn a_cut_under_a_restore_leaves_a_new_folder_whole_or_not_at_all() {
    let target = Target::new();
    target.restore(0, &target.recorder.path().join("not/there/out"), &[]);
    let end = target.recorder.mark();
    let (mut absent, mut whole) = (0, 0);
    target.after_cuts("not/there/out", |n, cut, out| match out {
        None => {
            assert!(n < end, "restored and lost: {cut:?}");
            absent += 1;
        }
        Some(out) => {
            assert_eq!(files_in(out), target.held[0].1, "at {n}, {cut:?}");
            whole += 1;
        }
    });
    assert!(absent > 10 && whole > 1, "{absent} {whole}");
}

#[test]
fn a_cut_under_a_restore_in_place_leaves_each_file_as_it_was_or_as_it_shall_be() {
    let target = Target::new();
    let out = target.recorder.path().join("out");
    target.restore(0, &out, &[]);
    target.recorder.cut(Cut::Kept);
    target.restore(1, &out, &["--in-place", "--delete", "--other-folder"]);
    let end = target.recorder.mark();
    let [(_, old), (_, new)] = &target.held;
    let (mut mixed, mut finished) = (0, 0);
    target.after_cuts("out", |n, cut, out| {
        let out = out.unwrap();
        let found = without_staged(files_in(out));
        for path in old.keys().chain(new.keys()) {
            let (found, allowed) = (found.get(path), [old.get(path), new.get(path)]);
            let said = || format!("{} at {n}, {cut:?}: {:?}", String::from_utf8_lossy(path), found.map(Vec::len));
            assert!(allowed.contains(&found), "{}", said());
        }
        assert!(found.keys().all(|path| old.contains_key(path) || new.contains_key(path)), "at {n}, {cut:?}");
        for name in ["to folder", "to file"] {
            let inner = format!("{name}/inner");
            let has_either = [name, &inner].iter().any(|path| found.contains_key(path.as_bytes()));
            assert!(has_either, "'{name}' is neither what it was nor what it shall be at {n}, {cut:?}");
        }
        assert!(n < end || found == *new, "restored and lost: {cut:?}");
        mixed += usize::from(found != *old && found != *new);
        // The next restore finishes; a few of them tell.
        if finished < 5 && found != *new && n % 7 == 0 {
            target.restore(1, out, &["--in-place", "--delete", "--other-folder"]);
            assert_eq!(files_in(out), *new, "after {n}, {cut:?}");
            finished += 1;
        }
    });
    assert!(mixed > 2 && finished > 0, "{mixed} {finished}");
}

#[test]
fn a_cut_behind_a_restore_across_filesystems_loses_nothing_on_the_inner_one() {
    let target = Target::new();
    let out = target.scratch.path("out");
    target.restore(0, &out, &[]);
    // The recorder in the place of two folders of it.
    for inner in ["folder", "to file"] {
        fs::remove_dir_all(out.join(inner)).unwrap();
        fs::create_dir_all(out.join(inner)).unwrap();
        fs::create_dir_all(target.recorder.path().join(inner)).unwrap();
    }
    let mounted: Vec<_> =
        ["folder", "to file"].map(|inner| Mounted::at(&target.recorder.path().join(inner), &out.join(inner))).into();
    target.recorder.cut(Cut::Kept);
    target.restore(0, &out, &["--in-place", "--delete"]);
    assert_eq!(files_in(&out), target.held[0].1);
    drop(mounted);
    target.recorder.cut(Cut::Lost);
    for inner in ["folder", "to file"] {
        let prefix = format!("{inner}/");
        let wanted = target.held[0]
            .1
            .iter()
            .filter_map(|(path, bytes)| Some((path.strip_prefix(prefix.as_bytes())?.to_vec(), bytes.clone())));
        assert_eq!(files_in(&target.recorder.path().join(inner)), wanted.collect::<Files>(), "{inner}");
    }
}

/// A folder that is seen in another place, until this is dropped.
struct Mounted(std::path::PathBuf);

impl Mounted {
    fn at(folder: &Path, place: &Path) -> Self {
        rustix::mount::mount_bind(folder, place).unwrap();
        Mounted(place.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::empty());
    }
}

#[test]
fn replaying_everything_gives_the_disk_that_is_there() {
    let mut life = Life::new();
    life.write("f", b"content");
    life.create();
    let folder = tempfile::tempdir_in(memory()).unwrap();
    let history = life.recorder.history();
    history.image(history.entries.len(), Cut::Kept).write_out(Path::new("new"), &folder.path().join("replayed")).unwrap();
    life.recorder.disk().write_out(Path::new("new"), &folder.path().join("there")).unwrap();
    assert_eq!(files_in(&folder.path().join("there")), files_in(&folder.path().join("replayed")));
    let syncs = history.entries.iter().filter(|entry| matches!(entry.op, Op::Sync(_))).count();
    assert!(syncs > 3, "only {syncs} syncs were seen");
}
