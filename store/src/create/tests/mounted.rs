//! Mounted checkpoints in a workspace, and in its place.

use super::*;
use crate::mounts::tests::Shown;

#[test]
fn a_mounted_checkpoint_in_a_workspace_is_left_out() {
    let f = fixture();
    let shown = f.workspace.with_file_name("shown");
    fs::create_dir(&shown).unwrap();
    fs::write(shown.join("inside"), "x").unwrap();
    f.write("file", b"1");
    fs::create_dir(f.workspace.join("mount")).unwrap();
    let mounted = Shown::at(&shown, &f.workspace.join("mount"));
    let outcome = f.create();
    let (_, _, looked) = look(&f.store, &f.options(), &()).unwrap();
    drop(mounted);
    let left = [Omission { path: b"mount".to_vec(), reason: Reason::Excluded("a mounted checkpoint".into()) }];
    assert_eq!((&outcome.omissions[..], &looked[..]), (&left[..], &left[..]));
    assert_eq!(f.tree(&outcome.checkpoint).into_keys().collect::<Vec<_>>(), [b"file"]);
}

#[test]
fn a_mounted_checkpoint_hides_a_session_s_workspace_and_may_be_a_new_session_s() {
    let f = fixture();
    let shown = f.workspace.with_file_name("shown");
    fs::create_dir(&shown).unwrap();
    fs::write(shown.join("inside"), "x").unwrap();
    f.write("file", b"1");
    f.create();
    let mounted = Shown::at(&shown, &f.workspace);
    let refused = run(&f.store, &f.options(), &()).map(|_| ());
    let other = run(&f.store, &Options { session: "t".into(), ..f.options() }, &()).map(|done| done.checkpoint);
    drop(mounted);
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("shows a mounted checkpoint, which is not what session s works on"), "{error}");
    assert_eq!(f.tree(&other.unwrap()).into_keys().collect::<Vec<_>>(), [b"inside"]);
    f.assert_exact(&f.create().checkpoint);
}
