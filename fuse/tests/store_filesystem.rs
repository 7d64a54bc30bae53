//! The whole store as a filesystem, while it changes.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod common;

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::ErrorKind,
    os::unix::fs::FileExt,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
};

use common::*;
use parhelia_fuse::{What, shown_at};
use parhelia_ledger::kind;
use parhelia_store::{
    create::{self, CapturedState, CapturedWorkspace, FullWalk, State, StateContent, StateFile},
    delete::delete_checkpoints,
    event::{Actor, NewEvent},
    gc::{self, GcOptions},
    id::Ulid,
    pin,
    record::{Cause, Checkpoint, Part},
};

fn names(folder: &Path) -> BTreeSet<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// One test at a time drops the kernel's caches, or relies on them: they are the whole machine's.
fn alone_with_the_kernels_caches() -> MutexGuard<'static, ()> {
    static CACHES: Mutex<()> = Mutex::new(());
    CACHES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn new_checkpoints_appear_without_mounting_anew() {
    let f = Fixture::new();
    f.write("file", b"one");
    let first = f.create("work");
    let _mounted = f.mount(What::Store);
    let at = |path: &str| f.mountpoint.join(path);
    assert_eq!(names(&f.mountpoint), set(&["sessions", "by-date", "by-tag"]));
    assert_eq!(names(&at("sessions/work")), set(&["latest", &first.id()]));
    assert_eq!(names(&at("sessions/work/latest/")), set(&["workspace", "manifest.json"]));
    assert_eq!(fs::read(at("sessions/work/latest/workspace/file")).unwrap(), b"one");
    let absent = at("sessions/other/latest/workspace/file");
    assert_eq!(fs::read(&absent).unwrap_err().kind(), ErrorKind::NotFound);

    for round in 0..5 {
        f.write("file", format!("round {round}").as_bytes());
        let next = f.create("work");
        eventually("the link moves", || fs::read_link(at("sessions/work/latest")).unwrap() == Path::new(&next.id()));
        assert_eq!(fs::read(at("sessions/work/latest/workspace/file")).unwrap(), format!("round {round}").as_bytes());
        eventually("the session has it", || names(&at("sessions/work")).len() == round + 3);
        eventually("its date has it", || names(&at("by-date")).len() == round + 2);
    }
    assert_eq!(fs::read(at(&format!("sessions/work/{}/workspace/file", first.id()))).unwrap(), b"one");
    f.write("file", b"in another session");
    f.create("other");
    assert_eq!(fs::read(&absent).unwrap(), b"in another session", "what is absent is not remembered");
    eventually("the session is listed", || names(&at("sessions")) == set(&["work", "other"]));
    eventually("its date is listed", || names(&at("by-date")).len() == 7);
    for link in fs::read_dir(at("by-date")).unwrap() {
        let link = link.unwrap().path();
        assert!(link.join("workspace/file").exists(), "{link:?} -> {:?}", fs::read_link(&link));
    }
    run(&f.mountpoint, "find . -ls > /dev/null && tar cf /dev/null .");
}

#[test]
fn a_safety_checkpoint_is_listed_and_is_not_the_latest() {
    let f = Fixture::new();
    f.write("file", b"one");
    let first = f.create("work");
    f.write("file", b"two");
    let options = create::Options {
        workspace: f.workspace.clone(),
        session: "work".into(),
        cause: Cause::Safety,
        ..create::Options::default()
    };
    let safety = create::run(&f.store(), &options, &()).unwrap().checkpoint;
    let _mounted = f.mount(What::Store);
    let at = f.mountpoint.join("sessions/work");
    assert_eq!(names(&at), set(&["latest", &first.id(), &safety.id()]));
    assert_eq!(fs::read_link(at.join("latest")).unwrap(), Path::new(&first.id()));
}

/// A manifest, which must follow its schema.
fn manifest_in(folder: &Path) -> serde_json::Value {
    let schema = serde_json::from_str(include_str!("../../docs/manifest.schema.json")).unwrap();
    let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
    let manifest = serde_json::from_slice(&fs::read(folder.join("manifest.json")).unwrap()).unwrap();
    let errors: Vec<String> = validator.iter_errors(&manifest).map(|e| e.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?} in {manifest}");
    manifest
}

#[test]
fn the_manifest_is_the_sealed_one() {
    let f = Fixture::new();
    f.write("file", b"x");
    let checkpoint = f.create("work");
    let _mounted = f.mount(What::Store);
    let bytes = fs::read(f.mountpoint.join("sessions/work/latest/manifest.json")).unwrap();
    let manifest = manifest_in(&f.mountpoint.join("sessions/work/latest"));
    assert_eq!(manifest["id"], checkpoint.id());
    assert_eq!(manifest["checksum"], checkpoint.checksum());
    let size = fs::metadata(f.mountpoint.join("sessions/work/latest/manifest.json")).unwrap().len();
    assert_eq!(size, bytes.len() as u64);
}

#[test]
fn where_a_checkpoint_is_shown_is_known() {
    let f = Fixture::new();
    f.write("file", b"x");
    let (checkpoint, store) = (f.create("work"), f.store());
    assert_eq!(shown_at(&store, &checkpoint).unwrap(), None);
    let mounted = f.mount(What::Store);
    let shown = shown_at(&store, &checkpoint).unwrap().unwrap();
    assert!(shown.starts_with(&f.mountpoint));
    assert_eq!(fs::read(shown.join("file")).unwrap(), b"x");
    drop(mounted);
    let other = f.create("other");
    let _mounted = f.mount_tree(&other);
    assert_eq!(shown_at(&store, &checkpoint).unwrap(), None);
    assert_eq!(shown_at(&store, &other).unwrap(), Some(f.mountpoint.clone()));
}

#[test]
fn a_deleted_checkpoint_disappears_and_its_handles_are_stale() {
    let f = Fixture::new();
    f.write("big", &noise(8 << 20, 1));
    let gone = f.create("work");
    f.write("big", b"small now");
    let stays = f.create("work");
    let _mounted = f.mount(What::Store);
    let folder = f.mountpoint.join(format!("sessions/work/{}", gone.id()));
    let file = File::open(folder.join("workspace/big")).unwrap();
    let mut page = [0; 4096];
    file.read_exact_at(&mut page, 0).unwrap();
    let pins = f.store().layout().pins();
    let pinned = |id: Ulid| pin::list(&pins).unwrap().iter().any(|pin| pin.alive && pin.text.checkpoints.contains(&id));
    assert!(pinned(gone.record.id) && !pinned(stays.record.id));

    delete_checkpoints(&f.store(), &[gone.record.id], None, &()).unwrap();
    eventually("it disappears", || !folder.exists());
    eventually("the list is without it", || names(&f.mountpoint.join("sessions/work")) == set(&["latest", &stays.id()]));
    eventually("the pin goes", || !pinned(gone.record.id));
    gc::run(&f.store(), &GcOptions::default(), &()).unwrap();
    let failed = file.read_exact_at(&mut page, 6 << 20).unwrap_err();
    assert_eq!(failed.raw_os_error(), Some(rustix::io::Errno::STALE.raw_os_error()));
    assert_eq!(fs::read(f.mountpoint.join("sessions/work/latest/workspace/big")).unwrap(), b"small now");
    assert!(f.log.lock().unwrap().is_empty(), "{:?}", f.log);
}

#[test]
fn tags_are_links() {
    let f = Fixture::new();
    f.write("file", b"tagged");
    let (older, newer) = (f.create("work"), f.create("work"));
    let tag = |checkpoint: &Checkpoint, tag: &str| {
        let event = NewEvent::new(kind::CHECKPOINT_TAGGED, checkpoint.id(), Actor::default()).with("tag", tag);
        f.store().append_events(&[event], &()).unwrap();
    };
    let untag = |checkpoint: &Checkpoint, tag: &str| {
        let event = NewEvent::new(kind::CHECKPOINT_UNTAGGED, checkpoint.id(), Actor::default()).with("tag", tag);
        f.store().append_events(&[event], &()).unwrap();
    };
    tag(&older, "v1/rc");
    let _mounted = f.mount(What::Store);
    let at = |path: &str| f.mountpoint.join("by-tag").join(path);
    assert_eq!(fs::read(at("v1/rc/workspace/file")).unwrap(), b"tagged");
    tag(&older, "second");
    tag(&newer, "v1/rc");
    eventually("the tags are listed", || names(&at("")) == set(&["v1", "second"]));
    let target = || fs::read_link(at("v1/rc")).unwrap();
    eventually("the tag points to the newer one", || target() == Path::new(&format!("../../sessions/work/{}", newer.id())));
    // A tag that becomes a folder, and is a link again.
    tag(&older, "v1/rc/a");
    eventually("it is a folder", || at("v1/rc/a").is_dir() && names(&at("v1/rc")) == set(&["@", "a"]));
    assert_eq!(fs::read(at("v1/rc/@/workspace/file")).unwrap(), b"tagged");
    assert_eq!(fs::canonicalize(at("v1/rc/a/..")).unwrap(), fs::canonicalize(f.mountpoint.join("sessions/work")).unwrap());
    untag(&older, "v1/rc/a");
    eventually("it is a link", || fs::read_link(at("v1/rc")).is_ok() && !at("v1/rc/a").exists());
    untag(&older, "v1/rc");
    untag(&newer, "v1/rc");
    eventually("its folder is gone", || names(&at("")) == set(&["second"]) && !at("v1").exists());
}

/// Everything that can be asked of the paths to a checkpoint's files.
fn look_everywhere(f: &Fixture) -> String {
    run(
        &f.mountpoint,
        "find . -ls > /dev/null; find -L sessions/*/latest by-date by-tag -type f -exec cat {} +; \
         for path in sessions/*/*/workspace/a/b/file by-*/*/workspace/a/b/file; do stat -L -c '%i %Y' $path; readlink -f $path; done",
    )
}

#[test]
fn warm_paths_from_the_root_on_ask_nothing() {
    let f = Fixture::new();
    f.write("a/b/file", b"deep");
    let first = f.create("work");
    f.create("work");
    f.create("other");
    let event = NewEvent::new(kind::CHECKPOINT_TAGGED, first.id(), Actor::default()).with("tag", "v1");
    f.store().append_events(&[event], &()).unwrap();
    let mounted = f.mount(What::Store);
    let _alone = alone_with_the_kernels_caches();
    let cold = look_everywhere(&f);
    // What the first look has taught the kernel it knows by the second.
    look_everywhere(&f);
    // Sums over the filesystem, for which find asks, are never remembered.
    let asked = || parhelia_fuse::Counts { other: 0, ..mounted.counts() };
    let before = asked();
    assert_eq!(look_everywhere(&f), cold);
    assert_eq!(asked(), before);
}

/// The list above the checkpoints of a mounted store, in text.
fn shown(mountpoint: &Path) -> String {
    run(
        mountpoint,
        "shopt -s nullglob; ls -U sessions by-date by-tag sessions/* | sort; ls -R by-tag; \
         for link in sessions/*/latest by-*/* by-tag/*/*/*; do [ -L $link ] || continue; readlink $link 2>&1; \
         cat $link/workspace/file; done; stat -c '%n %h' sessions sessions/*",
    )
}

#[test]
fn what_is_remembered_follows_each_change() {
    let f = Fixture::new();
    let create = |session: &str, content: &str| {
        f.write("file", content.as_bytes());
        f.create(session)
    };
    let tag = |checkpoint: &Checkpoint, tag: &str| {
        let event = NewEvent::new(kind::CHECKPOINT_TAGGED, checkpoint.id(), Actor::default()).with("tag", tag);
        f.store().append_events(&[event], &()).unwrap();
    };
    let delete = |checkpoint: &Checkpoint| delete_checkpoints(&f.store(), &[checkpoint.record.id], None, &()).unwrap();
    let first = create("a", "1");
    tag(&first, "t");
    let mounted = f.mount(What::Store);
    let other = f.folder("other");
    let mut made = vec![first];
    type Step<'a> = &'a dyn Fn(&mut Vec<Checkpoint>);
    let steps: [Step<'_>; 9] = [
        &|made| made.push(create("a", "2")),
        &|made| made.push(create("b", "3")),
        &|made| tag(&made[1], "t"),
        // The newest of its session, so that the link goes back.
        &|made| delete(&made.remove(1)),
        &|made| tag(&made[0], "u"),
        &|made| tag(&made[0], "u/v/w"),
        // A session's last, so that it is gone.
        &|made| delete(&made.remove(1)),
        &|made| made.push(create("b", "4")),
        &|made| delete(&made.remove(0)),
    ];
    for (at, step) in steps.iter().enumerate() {
        // All of it is in the kernel's caches.
        shown(&f.mountpoint);
        step(&mut made);
        // One that is mounted now has told the kernel nothing before.
        let fresh = parhelia_fuse::mount(f.store(), What::Store, &other, &f.options()).unwrap();
        let expected = shown(&other);
        drop(fresh);
        eventually(&format!("step {at} is seen"), || shown(&f.mountpoint) == expected);
    }
    let ids: BTreeSet<String> = made.iter().map(Checkpoint::id).collect();
    assert_eq!(names(&f.mountpoint.join("sessions/b")), ids.into_iter().chain(["latest".into()]).collect());
    // The kernel may still be hearing of the last change after it is seen.
    eventually("all of it is in the kernel's caches", || {
        let before = mounted.counts();
        shown(&f.mountpoint);
        mounted.counts() == before
    });
}

#[test]
fn whoever_reads_while_much_is_committed_ends_with_what_is_there() {
    let f = Fixture::new();
    f.write("file", b"x");
    f.create("s");
    let _mounted = f.mount(What::Store);
    let done = std::sync::atomic::AtomicBool::new(false);
    let latest = f.mountpoint.join("sessions/s/latest");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    names(&f.mountpoint.join("sessions/s"));
                    let _ = fs::read(latest.join("workspace/file"));
                    fs::metadata(f.mountpoint.join("by-date")).unwrap();
                }
            });
        }
        let mut before: Option<Checkpoint> = None;
        for round in 0..40 {
            f.write("file", format!("{round}").as_bytes());
            let next = f.create("s");
            if let Some(before) = before.replace(next.clone()).filter(|_| round % 3 == 0) {
                delete_checkpoints(&f.store(), &[before.record.id], None, &()).unwrap();
            }
            if round % 4 == 0 {
                eventually("the link moves", || fs::read_link(&latest).unwrap() == Path::new(&next.id()));
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    let mut expected: BTreeSet<String> = f.store().checkpoints().unwrap().iter().map(Checkpoint::id).collect();
    expected.insert("latest".into());
    eventually("the list is whole", || names(&f.mountpoint.join("sessions/s")) == expected);
    eventually("each name can be looked up", || {
        expected.iter().all(|name| fs::metadata(f.mountpoint.join("sessions/s").join(name)).is_ok())
    });
    assert!(f.log.lock().unwrap().is_empty(), "{:?}", f.log);
}

#[test]
fn a_commit_that_takes_the_sequence_of_one_that_was_taken_back_is_shown_as_itself() {
    let f = Fixture::new();
    f.write("file", b"kept");
    let kept = f.create("s");
    let journal = f.store().layout().journal();
    let files = || fs::read_dir(&journal).unwrap().map(|entry| entry.unwrap().path());
    let before: Vec<_> = files().map(|path| (path.clone(), fs::read(path).unwrap())).collect();
    let pages = 64 << 10;
    f.write("file", &noise(pages, 1));
    f.write("big", &noise(1 << 20, 2));
    let gone = f.create("s");
    let _mounted = f.mount(What::Store);
    let at =
        |checkpoint: &Checkpoint, path: &str| f.mountpoint.join("sessions/s").join(checkpoint.id()).join("workspace").join(path);
    assert_eq!(fs::read(at(&gone, "file")).unwrap(), noise(pages, 1));
    let open = File::open(at(&gone, "big")).unwrap();
    let mut page = [0; 4096];
    open.read_exact_at(&mut page, 0).unwrap();
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let gone_inode = inode(&at(&gone, "file"));

    // Its sync failed, and whoever wrote it has taken it back; the next commit has its sequence.
    files().filter(|path| !before.iter().any(|(known, _)| known == path)).for_each(|path| fs::remove_file(path).unwrap());
    before.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    f.write("file", &noise(pages, 3));
    f.write("big", &noise(1 << 20, 4));
    let next = f.create("s");
    assert_eq!(next.sequence, gone.sequence);
    eventually("it is listed", || names(&f.mountpoint.join("sessions/s")) == set(&["latest", &kept.id(), &next.id()]));
    eventually("the other is gone", || !at(&gone, "").exists());
    assert!(fs::read(at(&next, "file")).unwrap() == noise(pages, 3));
    assert!(fs::read(f.mountpoint.join("sessions/s/latest/workspace/big")).unwrap() == noise(1 << 20, 4));
    assert_ne!(inode(&at(&next, "file")), gone_inode);
    // Whoever still has the other open is told, instead of reading something else.
    let failed = open.read_exact_at(&mut page, 900 << 10).unwrap_err();
    assert_eq!(failed.raw_os_error(), Some(rustix::io::Errno::STALE.raw_os_error()));
}

#[test]
fn a_state_is_shown_beside_the_workspace() {
    struct Told;
    impl State for Told {
        fn begin(&mut self) {}
        fn finish(&mut self, _: &CapturedWorkspace<'_>) -> CapturedState {
            let content = StateContent::Bytes(b"{}".to_vec());
            let file = |path: &str| StateFile { path: path.into(), part: "p".into(), content: content.clone(), mtime: None };
            let parts = [("p".to_owned(), Part::Captured)].into();
            CapturedState { files: vec![file("conversation/index.json"), file("git.json")], parts, ..CapturedState::default() }
        }
    }
    let f = Fixture::new();
    f.write("sub/file", b"1");
    fs::hard_link(f.workspace.join("sub/file"), f.workspace.join("other")).unwrap();
    let options = create::Options { workspace: f.workspace.clone(), session: "work".into(), ..Default::default() };
    create::run_with(&f.store(), &options, &FullWalk, &mut Told, &()).unwrap();
    let _mounted = f.mount(What::Store);
    let at = f.mountpoint.join("sessions/work/latest/");
    assert_eq!(names(&at), set(&["workspace", "state", "manifest.json"]));
    assert_eq!(fs::read(at.join("state/conversation/index.json")).unwrap(), b"{}");
    assert_eq!(names(&at.join("state")), set(&["conversation", "git.json"]));
    assert_same(&f.workspace, &at.join("workspace"));
    let manifest = manifest_in(&at);
    assert_eq!(manifest["parts"]["p"]["status"], "captured");
}

#[test]
fn sessions_of_any_name_are_shown() {
    let f = Fixture::new();
    f.write("file", b"x");
    // What only a forged store has is looked at where the folders' names are made.
    let sessions = ["a.b", "1", "With_underscore-and-dash", &"x".repeat(128)];
    for session in sessions {
        f.create(session);
    }
    let _mounted = f.mount(What::Store);
    assert_eq!(names(&f.mountpoint.join("sessions")), set(&sessions));
    let out = run(&f.mountpoint, "cat sessions/*/latest/workspace/file by-date/*/workspace/file");
    assert_eq!(out.len(), 2 * sessions.len());
}

#[test]
fn many_checkpoints_hold_few_pins() {
    let f = Fixture::new();
    for i in 0..80 {
        f.write("file", format!("{i}").as_bytes());
        f.create(if i % 2 == 0 { "even" } else { "odd" });
    }
    let _mounted = f.mount(What::Store);
    let sum = run(&f.mountpoint, "cat sessions/*/0*/workspace/file | wc -c");
    assert_eq!(sum.trim(), "150");
    let pins = pin::list(&f.store().layout().pins()).unwrap();
    assert!((1..=64).contains(&pins.len()), "{}", pins.len());
    // What was let go is opened again.
    let _alone = alone_with_the_kernels_caches();
    run(&f.mountpoint, "echo 2 > /proc/sys/vm/drop_caches; cat sessions/*/0*/workspace/file > /dev/null");
}
