//! What a walk leaves out: credentials, other filesystems, and what this user may not read.

use std::{os::unix::fs::PermissionsExt, process::Command};

use super::*;
use crate::secrets::{SecretFolder, Secrets};

fn omitted(outcome: &Outcome) -> Vec<(String, Reason)> {
    outcome.omissions.iter().map(|omission| (name::display(&omission.path), omission.reason.clone())).collect()
}

fn captured_paths(f: &Fixture, outcome: &Outcome) -> Vec<String> {
    f.tree(&outcome.checkpoint).into_keys().map(|path| name::display(&path)).collect()
}

#[test]
fn credentials_never_enter_a_store_under_any_name() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = dir.path().join("workspace");
    fs::create_dir_all(workspace.join("keys")).unwrap();
    let named = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let key = dir.path().join("key");
    fs::write(&key, "secret").unwrap();
    let secrets = Secrets {
        reason: "credentials".into(),
        names: named(&[".auth"]),
        folders: vec![SecretFolder { path_end: "keys".into(), beside: named(&["agent.json"]), names: named(&["*.key"]) }],
        files: vec![key.clone()],
    };
    let options = OpenOptions { create: true, secrets, ..OpenOptions::default() };
    let store = Store::open(&dir.path().join("store"), &options).unwrap();
    let f = Fixture { _dir: dir, store, workspace };
    for name in ["file", "a/.auth", "keys/1.key", "keys/1.pub", "other/1.key", ".auth.d/file"] {
        f.write(name, name.as_bytes());
    }
    fs::create_dir(f.workspace.join("b")).unwrap();
    fs::create_dir(f.workspace.join("b/.auth")).unwrap();
    fs::hard_link(&key, f.workspace.join("linked")).unwrap();
    let left = |outcome: &Outcome| {
        let all = omitted(outcome);
        assert!(all.iter().all(|(_, reason)| *reason == Reason::Excluded("credentials".into())), "{all:?}");
        all.into_iter().map(|(path, _)| path).collect::<Vec<_>>()
    };
    let outcome = f.create();
    assert_eq!(left(&outcome), ["a/.auth", "linked"]);
    let paths = captured_paths(&f, &outcome);
    assert!(paths.contains(&"keys/1.key".to_owned()) && paths.contains(&"b/.auth".to_owned()), "{paths:?}");
    // What lies beside a folder makes names in it secret.
    f.write("agent.json", b"{}");
    let outcome = f.create();
    assert_eq!(left(&outcome), ["a/.auth", "keys/1.key", "linked"]);
    let paths = captured_paths(&f, &outcome);
    assert!(!paths.contains(&"keys/1.key".to_owned()) && paths.contains(&"keys/1.pub".to_owned()), "{paths:?}");
    assert!(paths.contains(&"other/1.key".to_owned()), "{paths:?}");
}

#[test]
fn other_filesystems_are_left_out_where_that_is_said() {
    let f = fixture();
    f.write("here/file", b"1");
    let inner = f.workspace.join("here/inner");
    fs::create_dir(&inner).unwrap();
    let run_program = |program: &str, arguments: &[&str]| {
        assert!(Command::new(program).args(arguments).arg(&inner).status().unwrap().success(), "this test needs root");
    };
    run_program("mount", &["-t", "tmpfs", "none"]);
    f.write("here/inner/file", b"2");
    let create = |one_file_system| {
        let rules = Rules { one_file_system, ..Rules::default() };
        let outcome = run(&f.store, &Options { rules, ..f.options() }, &()).unwrap();
        (captured_paths(&f, &outcome), omitted(&outcome))
    };
    let (all, one) = (create(false), create(true));
    run_program("umount", &[]);
    assert_eq!(all, (["here", "here/file", "here/inner", "here/inner/file"].map(str::to_owned).to_vec(), vec![]));
    let left = vec![("here/inner".to_owned(), Reason::Excluded("another filesystem".into()))];
    assert_eq!(one, (["here", "here/file"].map(str::to_owned).to_vec(), left));
}

#[test]
fn what_this_user_may_not_read_is_named_and_the_rest_is_captured() {
    let test = "create::tests::left::what_this_user_may_not_read_is_named_and_the_rest_is_captured";
    crate::testing::as_ordinary(
        test,
        |_| {},
        |_| {
            let f = fixture();
            for name in ["file", "closed file", "closed/file", "deep/in/closed/file", "deep/unlisted/file", "unlisted/file"] {
                f.write(name, name.as_bytes());
            }
            let set = |name: &str, mode| fs::set_permissions(f.workspace.join(name), fs::Permissions::from_mode(mode)).unwrap();
            let unreadable = ["closed", "closed file", "deep/in/closed", "deep/unlisted", "unlisted"];
            for name in unreadable {
                set(name, if name.ends_with("unlisted") { 0o300 } else { 0o000 });
            }
            let outcome = f.create();
            assert_eq!(captured_paths(&f, &outcome), ["deep", "deep/in", "file"]);
            let left = omitted(&outcome);
            assert_eq!(left.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), unreadable);
            let denied = |reason: &Reason| matches!(reason, Reason::Unreadable(text) if text.contains("denied"));
            assert!(left.iter().all(|(_, reason)| denied(reason)), "{left:?}");
            // A workspace that cannot be read at all is an error.
            for mode in [0o300, 0o000] {
                set("", mode);
                let failed = run(&f.store, &f.options(), &());
                set("", 0o700);
                assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
            }
            unreadable.into_iter().for_each(|name| set(name, 0o700));
            let captured = captured_paths(&f, &f.create());
            assert!(
                unreadable.iter().all(|name| captured.iter().any(|path| path == name)) && captured.len() == 12,
                "{captured:?}"
            );
        },
    );
}
