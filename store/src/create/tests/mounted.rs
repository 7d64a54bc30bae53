//! Mounted checkpoints in a workspace, and in its place.

use std::process::Command;

use super::*;
use crate::{mounts::tests::BindMount, omitted::Omission};

#[test]
fn a_mounted_checkpoint_in_a_workspace_is_left_out() {
    let f = fixture();
    let shown = f.workspace.with_file_name("shown");
    fs::create_dir(&shown).unwrap();
    fs::write(shown.join("inside"), "x").unwrap();
    f.write("file", b"1");
    fs::create_dir(f.workspace.join("mount")).unwrap();
    let mounted = BindMount::at(&shown, &f.workspace.join("mount"));
    let outcome = f.create();
    let (_, _, looked) = look(&f.store, &f.options(), &()).unwrap();
    drop(mounted);
    let left = [Omission { path: b"mount".to_vec(), reason: Reason::Excluded("a mounted checkpoint".into()) }];
    assert_eq!((&outcome.omissions[..], &looked[..]), (&left[..], &left[..]));
    assert_eq!(f.tree(&outcome.checkpoint).into_keys().collect::<Vec<_>>(), [b"file"]);
}

#[test]
fn a_file_that_is_mounted_by_itself_is_read_each_time() {
    let (f, other) = (fixture(), tempfile::tempdir_in("/dev/shm").unwrap());
    f.write("beside", b"1");
    f.write("mounted", b"below");
    fs::create_dir(f.workspace.join("folder")).unwrap();
    fs::write(other.path().join("file"), "above").unwrap();
    let mount = |program: &str, arguments: &[&Path]| {
        assert!(Command::new(program).args(arguments).status().unwrap().success(), "this test needs root");
    };
    mount("mount", &[Path::new("--bind"), &other.path().join("file"), &f.workspace.join("mounted")]);
    let read = || {
        f.create();
        let_stamps_age();
        f.create();
        let outcome = f.create();
        (outcome.files_read, f.tree(&outcome.checkpoint)[&b"mounted"[..]].1.clone())
    };
    let with = read();
    mount("umount", &[&f.workspace.join("mounted")]);
    let without = read();
    assert_eq!((with, without), ((1, b"above".to_vec()), (0, b"below".to_vec())));
}
