//! The whole store as a filesystem, while it changes.

#![allow(clippy::unwrap_used)]

mod common;

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::ErrorKind,
    os::unix::fs::FileExt,
    path::Path,
};

use common::*;
use parhelia_fuse::{What, shown_at};
use parhelia_store::{
    create::{self, Captured, Content, FullWalk, Seen, State, StateFile},
    delete::delete_checkpoints,
    event::{Actor, NewEvent, kind},
    gc::{self, GcOptions},
    id::Ulid,
    pin,
    record::{Checkpoint, Part},
};

fn names(folder: &Path) -> BTreeSet<String> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
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
        assert_eq!(fs::read_link(at("sessions/work/latest")).unwrap(), Path::new(&next.id()));
        assert_eq!(fs::read(at("sessions/work/latest/workspace/file")).unwrap(), format!("round {round}").as_bytes());
        assert_eq!(names(&at("sessions/work")).len(), round + 3);
        assert_eq!(names(&at("by-date")).len(), round + 2);
    }
    assert_eq!(fs::read(at(&format!("sessions/work/{}/workspace/file", first.id()))).unwrap(), b"one");
    f.write("file", b"in another session");
    f.create("other");
    assert_eq!(fs::read(&absent).unwrap(), b"in another session");
    assert_eq!(names(&at("sessions")), set(&["work", "other"]));
    for link in fs::read_dir(at("by-date")).unwrap() {
        let link = link.unwrap().path();
        assert!(link.join("workspace/file").exists(), "{link:?} -> {:?}", fs::read_link(&link));
    }
    run(&f.mountpoint, "find . -ls > /dev/null && tar cf /dev/null .");
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
    assert!(!folder.exists());
    assert_eq!(names(&f.mountpoint.join("sessions/work")), set(&["latest", &stays.id()]));
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
    tag(&older, "v1/rc");
    let _mounted = f.mount(What::Store);
    assert_eq!(fs::read(f.mountpoint.join("by-tag/v1%2Frc/workspace/file")).unwrap(), b"tagged");
    tag(&older, "second");
    tag(&newer, "v1/rc");
    assert_eq!(names(&f.mountpoint.join("by-tag")), set(&["v1%2Frc", "second"]));
    let target = fs::read_link(f.mountpoint.join("by-tag/v1%2Frc")).unwrap();
    assert_eq!(target, Path::new(&format!("../sessions/work/{}", newer.id())));
}

#[test]
fn a_state_is_shown_beside_the_workspace() {
    struct Told;
    impl State for Told {
        fn begin(&mut self) {}
        fn finish(&mut self, _: &Seen<'_>) -> Captured {
            let content = Content::Bytes(b"{}".to_vec());
            let file = |path: &str| StateFile { path: path.into(), part: "p".into(), content: content.clone(), mtime: None };
            let parts = [("p".to_owned(), Part::Captured)].into();
            Captured { files: vec![file("conversation/index.json"), file("git.json")], parts, ..Captured::default() }
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
    run(&f.mountpoint, "echo 2 > /proc/sys/vm/drop_caches; cat sessions/*/0*/workspace/file > /dev/null");
}
