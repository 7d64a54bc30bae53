use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

use parhelia_store::{
    OpenOptions, Store,
    create::{self, Options, Outcome},
    delete::delete_checkpoints,
    event::{Actor, NewEvent},
    record::{Cause, Checkpoint},
};

use crate::{
    kind,
    selector::{find_here, is_relative},
    view::LedgerView as _,
};

struct Fixture {
    _dir: tempfile::TempDir,
    store: Store,
    workspace: PathBuf,
}

fn fixture() -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let store = crate::open(&dir.path().join("store"), &OpenOptions { create: true, ..Default::default() }).unwrap();
    let workspace = dir.path().join("workspace");
    fs::create_dir(&workspace).unwrap();
    Fixture { _dir: dir, store, workspace }
}

impl Fixture {
    fn options(&self) -> Options {
        Options { workspace: self.workspace.clone(), session: "s".into(), ..Options::default() }
    }

    fn create(&self) -> Outcome {
        create::run(&self.store, &self.options(), &()).unwrap()
    }

    fn write(&self, path: &str, bytes: &[u8]) {
        fs::write(self.workspace.join(path), bytes).unwrap();
    }
}

fn start_run(f: &Fixture, run: &str, epoch: u64) {
    let event = NewEvent::new(kind::RUN_STARTED, run, Actor::default()).with("session", "s").in_epoch(epoch);
    f.store.append_events(&[event], &()).unwrap();
}

fn by_run(f: &Fixture, run: &str, epoch: u64) -> Checkpoint {
    let options = Options { run: Some(run.into()), epoch, ..f.options() };
    create::run(&f.store, &options, &()).unwrap().checkpoint
}

#[test]
fn an_old_run_commits_a_fenced_branch() {
    let f = fixture();
    f.write("a", b"1");
    let first = f.create().checkpoint;
    start_run(&f, "old", 1);
    let (a, b) = (by_run(&f, "old", 1), by_run(&f, "old", 1));
    start_run(&f, "new", 2);
    let fenced = by_run(&f, "old", 1);
    let new = by_run(&f, "new", 2);
    let fenced_again = by_run(&f, "old", 1);
    let manual = f.create().checkpoint;
    let facts = |c: &Checkpoint| (c.record.epoch, c.record.fenced, c.record.parent, c.record.depth);
    let id = |c: &Checkpoint| Some(c.record.id);
    assert_eq!(facts(&first), (0, false, None, 1));
    assert_eq!(facts(&b), (1, false, id(&a), 3));
    assert_eq!(facts(&fenced), (1, true, id(&b), 4));
    assert_eq!(facts(&new), (2, false, id(&b), 4));
    assert_eq!(facts(&fenced_again), (1, true, id(&fenced), 5));
    assert_eq!(facts(&manual), (2, false, id(&new), 5));
    assert_eq!(f.store.checkpoints().unwrap().len(), 7);
    let named = |selector: &str| crate::selector::find(&f.store.view(), selector).unwrap().record.id;
    assert_eq!((named("s@latest"), named("s@latest~1"), named("s@latest~2")), (manual.record.id, new.record.id, b.record.id));
    assert_eq!(f.store.view().session("s").unwrap().unwrap().head, id(&manual));
}

#[test]
fn latest_is_of_the_nearest_folder_and_no_safety_checkpoint() {
    let f = fixture();
    f.write("a", b"1");
    let below = f.workspace.join("below");
    fs::create_dir(&below).unwrap();
    let (first, second) = (f.create().checkpoint.record.id, f.create().checkpoint.record.id);
    let safety = Options { cause: Cause::Safety, ..f.options() };
    create::run(&f.store, &safety, &()).unwrap();
    let of_below = Options { workspace: below.clone(), session: "t".into(), ..f.options() };
    let of_below = create::run(&f.store, &of_below, &()).unwrap().checkpoint.record.id;
    let elsewhere = f.workspace.with_file_name("elsewhere");
    let here = |selector: &str, folder: &Path| find_here(&f.store.view(), selector, folder).map(|c| c.record.id).ok();
    assert_eq!((here("latest", &f.workspace), here("latest~1", &f.workspace)), (Some(second), Some(first)));
    assert_eq!(here("latest~2", &f.workspace), None);
    assert_eq!(
        (here("latest", &f.workspace.join("other/deep")), here("latest", &below.join("x"))),
        (Some(second), Some(of_below))
    );
    // A name that begins with a folder's is none below it.
    for folder in [&elsewhere, &f.workspace.with_file_name("workspace2"), Path::new("/")] {
        assert_eq!((here("latest", folder), here("latest~1", folder)), (Some(of_below), Some(second)));
    }
    assert_eq!(here("s@latest", &below), Some(second));
    assert!(is_relative("latest") && is_relative("latest~3") && !is_relative("s@latest") && !is_relative(&first.to_string()));
}

#[test]
fn a_head_that_was_moved_is_the_next_ones_parent() {
    let f = fixture();
    f.write("a", b"1");
    let (a, b) = (f.create().checkpoint, f.create().checkpoint);
    let back = NewEvent::new(kind::SESSION_HEAD, "s", Actor::default()).with("checkpoint", a.id());
    f.store.append_events(&[back], &()).unwrap();
    let c = f.create().checkpoint;
    assert_eq!((c.record.parent, c.record.depth), (Some(a.record.id), 2));
    delete_checkpoints(&f.store, &[c.record.id], None, &()).unwrap();
    assert_eq!(f.create().checkpoint.record.parent, Some(b.record.id));
}

#[test]
fn a_session_has_one_workspace_at_a_time() {
    let f = fixture();
    f.write("a", b"1");
    f.create();
    let session = f.store.view().session("s").unwrap().unwrap();
    let inode = fs::metadata(&f.workspace).unwrap().ino();
    let place = session.workspace.unwrap();
    assert_eq!((place.path.as_str(), place.inode), (f.workspace.to_str().unwrap(), Some(inode)));
    let other = f.workspace.with_file_name("other");
    fs::create_dir(&other).unwrap();
    let elsewhere = Options { workspace: other.clone(), ..f.options() };
    let refused = create::run(&f.store, &elsewhere, &()).unwrap_err();
    assert!(refused.to_string().contains("another folder"), "{refused}");
    // Another session may work in the same folder.
    create::run(&f.store, &Options { session: "t".into(), ..f.options() }, &()).unwrap();
    // Moved, the folder is still the session's; gone, another one may take its place.
    let moved = f.workspace.with_file_name("moved");
    fs::rename(&f.workspace, &moved).unwrap();
    create::run(&f.store, &Options { workspace: moved.clone(), ..f.options() }, &()).unwrap();
    assert_eq!(f.store.view().session("s").unwrap().unwrap().workspace.unwrap().path, moved.to_str().unwrap());
    fs::remove_dir_all(&moved).unwrap();
    create::run(&f.store, &elsewhere, &()).unwrap();
    assert_eq!(f.store.view().session("s").unwrap().unwrap().workspace.unwrap().path, other.to_str().unwrap());
}

#[test]
fn an_empty_folder_in_the_place_of_a_disk_that_is_not_mounted_is_no_workspace() {
    let f = fixture();
    f.write("a", b"1");
    f.create();
    let mut place = f.store.view().session("s").unwrap().unwrap().workspace.unwrap();
    (place.filesystem, place.mountpoint) = (Some("00ff".into()), Some(place.path.clone()));
    let workspace = serde_json::to_value(&place).unwrap();
    let changed = NewEvent::new(kind::SESSION_CHANGED, "s", Actor::default()).with("workspace", workspace);
    f.store.append_events(std::slice::from_ref(&changed), &()).unwrap();
    // Something is in it: somebody works there.
    let count = f.store.refresh().unwrap().checkpoints().unwrap().len();
    f.create();
    f.store.append_events(&[changed], &()).unwrap();
    fs::remove_file(f.workspace.join("a")).unwrap();
    let refused = create::run(&f.store, &f.options(), &()).unwrap_err();
    assert!(refused.to_string().contains("is empty, and"), "{refused}");
    assert_eq!(f.store.refresh().unwrap().checkpoints().unwrap().len(), count + 1);
}

#[test]
fn that_a_workspace_was_moved_is_recorded_once_and_not_for_an_old_run() {
    let f = fixture();
    f.write("a", b"1");
    f.create();
    start_run(&f, "old", 1);
    start_run(&f, "new", 2);
    let moved = f.workspace.with_file_name("moved");
    fs::rename(&f.workspace, &moved).unwrap();
    let recorded = |f: &Fixture| f.store.view().session("s").unwrap().unwrap().workspace.unwrap().path;
    let before = recorded(&f);
    let f = Fixture { workspace: moved, ..f };
    assert!(by_run(&f, "old", 1).record.fenced);
    assert_eq!(recorded(&f), before);
    let last = |f: &Fixture| f.store.view().last_event().unwrap();
    let first = last(&f);
    by_run(&f, "new", 2);
    assert!(recorded(&f).ends_with("/moved") && last(&f) != first);
    let second = last(&f);
    by_run(&f, "new", 2);
    assert_eq!(last(&f), second);
}

/// A folder that shows another one, as a mounted checkpoint does.
struct Shown(PathBuf);

impl Shown {
    fn at(content: &Path, folder: &Path) -> Self {
        // What is not empty is not taken by every release of it, but by mount.
        let (dir, run) = (tempfile::tempdir().unwrap(), |program: &mut Command| assert!(program.status().unwrap().success()));
        run(Command::new("bindfs").args(["-o", "subtype=parhelia"]).args([content, dir.path()]));
        run(Command::new("mount").arg("--bind").args([dir.path(), folder]));
        run(Command::new("umount").arg(dir.path()));
        Shown(folder.to_owned())
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_mounted_checkpoint_hides_a_session_s_workspace_and_may_be_a_new_session_s() {
    let f = fixture();
    let shown = f.workspace.with_file_name("shown");
    fs::create_dir(&shown).unwrap();
    fs::write(shown.join("inside"), "x").unwrap();
    f.write("file", b"1");
    let first = f.create().checkpoint;
    let mounted = Shown::at(&shown, &f.workspace);
    let refused = create::run(&f.store, &f.options(), &()).map(|_| ());
    let other = create::run(&f.store, &Options { session: "t".into(), ..f.options() }, &()).map(|done| done.checkpoint);
    drop(mounted);
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("shows a mounted checkpoint, which is not what session s works on"), "{error}");
    assert!(other.unwrap().record.root != first.record.root);
    assert_eq!(f.create().checkpoint.record.root, first.record.root);
}
