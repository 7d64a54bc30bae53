//! Extended attributes that cannot be read cost nobody the entry, and are named.

use std::os::unix::fs::symlink;

use rustix::fs::XattrFlags;

use super::*;
use crate::restore;

/// A fixture on a filesystem whose entries may have more attributes than the kernel lists (64 KiB of names).
fn roomy() -> Fixture {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = Store::open(&dir.path().join("store"), &OpenOptions { create: true, ..Default::default() }).unwrap();
    let workspace = dir.path().join("workspace");
    fs::create_dir(&workspace).unwrap();
    Fixture { _dir: dir, store, workspace }
}

fn set(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()).unwrap();
}

/// Gives an entry more attributes than can be listed.
fn overfill(path: &Path) {
    for i in 0..300 {
        set(path, &format!("trusted.n{i:03}{}", "x".repeat(230)), b"v");
    }
    assert!(rustix::fs::llistxattr(path, &mut vec![0; 1 << 20][..]).is_err());
}

fn named(outcome: &Outcome) -> Vec<String> {
    let is_one = |reason: &Reason| matches!(reason, Reason::Attributes(why) if why.starts_with("the list of attributes: "));
    assert!(outcome.omissions.iter().all(|omission| is_one(&omission.reason)), "{:?}", outcome.omissions);
    outcome.omissions.iter().map(|omission| name::display(&omission.path)).collect()
}

#[test]
fn entries_with_unreadable_attributes_are_captured_and_named() {
    let f = roomy();
    for path in ["many", "folder/inside", "plain"] {
        f.write(path, path.as_bytes());
    }
    symlink("many", f.workspace.join("link")).unwrap();
    fs::hard_link(f.workspace.join("many"), f.workspace.join("same")).unwrap();
    for path in ["many", "folder", "link"] {
        overfill(&f.workspace.join(path));
    }
    set(&f.workspace.join("plain"), "trusted.one", b"1");
    let mut last = None;
    for round in 0..2 {
        let outcome = f.create();
        assert_eq!(named(&outcome), ["folder", "link", "many", "same"], "{round}");
        f.assert_exact(&outcome.checkpoint);
        assert_eq!(f.tree(&outcome.checkpoint)[&b"plain"[..]].0.meta.xattrs, [(b"trusted.one".to_vec(), b"1".to_vec())]);
        assert!(!outcome.checkpoint.is_complete());
        let omitted = outcome.checkpoint.record.omitted.clone().unwrap();
        assert_eq!((omitted.excluded, omitted.unreadable, omitted.attributes), (0, 0, 4));
        assert_eq!(f.store.omissions(&outcome.checkpoint).unwrap(), outcome.omissions);
        // Releases that do not know of it find a table that names nothing.
        let table = f.store.read_object(crate::pack::ObjectKind::Table, omitted.table, omitted::decode).unwrap();
        assert_eq!(table, []);
        last = Some(outcome.checkpoint);
    }
    // As soon as they can be read, they are, though no content has changed.
    fs::remove_file(f.workspace.join("link")).unwrap();
    symlink("many", f.workspace.join("link")).unwrap();
    assert_eq!(named(&f.create()), ["folder", "many", "same"]);
    drop(last);
}

#[test]
fn a_restore_in_place_leaves_attributes_that_the_checkpoint_could_not_read() {
    let f = roomy();
    f.write("many", b"content");
    f.write("folder/inside", b"inside");
    for path in ["many", "folder"] {
        overfill(&f.workspace.join(path));
    }
    set(&f.workspace.join("many"), "trusted.kept", b"1");
    let checkpoint = f.create().checkpoint;
    for (path, mode) in [("many", 0o600), ("folder", 0o711)] {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(f.workspace.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    f.write("folder/inside", b"changed");
    let options = restore::Options { in_place: true, delete: true, ..restore::Options::new(&f.workspace) };
    let plan = restore::plan(&f.store, &checkpoint, &options, &()).unwrap();
    let report = restore::execute(&f.store, &checkpoint, plan, &()).unwrap();
    assert_eq!(report.skipped, []);
    f.assert_exact(&checkpoint);
    let mut value = [0; 8];
    for (path, attribute) in [("many", "trusted.kept".to_owned()), ("folder", format!("trusted.n007{}", "x".repeat(230)))] {
        assert_eq!(rustix::fs::lgetxattr(f.workspace.join(path), &attribute, &mut value[..]), Ok(1), "{path}");
    }
    // Nor does it find anything to do once more.
    let plan = restore::plan(&f.store, &checkpoint, &options, &()).unwrap();
    assert_eq!(plan.summary.counts.metadata_changed, 0);
}
