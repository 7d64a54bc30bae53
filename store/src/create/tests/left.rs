//! Entries that a walk leaves out: credentials, other filesystems, and those that this user may not read.

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

#[test]
fn what_can_be_made_again_is_left_out_by_proof_alone() {
    let f = fixture();
    for path in [
        "rust/Cargo.toml",
        "rust/target/debug/x",
        "plain/target/keep",
        "js/package.json",
        "js/node_modules/m/i.js",
        "bare/node_modules/keep",
        "py/.venv/pyvenv.cfg",
        "py/.venv/lib/x",
        "other/.venv/keep",
        "py/__pycache__/x.pyc",
        "fake/CACHEDIR.TAG",
    ] {
        f.write(path, b"x");
    }
    f.write("cache/CACHEDIR.TAG", b"Signature: 8a477f597d28d172789f06886806bc55\n");
    f.write("cache/data", b"x");
    let rules = Rules { defaults: true, patterns: vec!["*.log".into(), "!keep.log".into()], ..Rules::default() };
    f.write("a.log", b"x");
    f.write("keep.log", b"x");
    let outcome = run(&f.store, &Options { rules: rules.clone(), ..f.options() }, &()).unwrap();
    let left_out: Vec<String> = outcome.omissions.iter().map(|o| name::display(&o.path)).collect();
    assert_eq!(left_out, ["a.log", "cache", "js/node_modules", "py/.venv", "py/__pycache__", "rust/target"]);
    assert_eq!(f.store.omissions(&outcome.checkpoint).unwrap(), outcome.omissions);
    assert_eq!(outcome.checkpoint.record.omitted.as_ref().unwrap().excluded, 6);
    assert_eq!(outcome.checkpoint.record.rules, rules);
    let all = f.create();
    assert!(all.omissions.is_empty());
    f.assert_exact(&all.checkpoint);
}

#[test]
fn what_git_tracks_is_never_left_out() {
    let f = fixture();
    f.write("Cargo.toml", b"");
    f.write("target/tracked/a", b"x");
    f.write("target/built", b"x");
    f.write("sub/node_modules/x.js", b"x");
    f.write("sub/package.json", b"{}");
    let git = |args: &[&str]| {
        let done = std::process::Command::new("git").args(args).current_dir(&f.workspace).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "-f", "target/tracked/a"]);
    let options = Options { rules: Rules { defaults: true, ..Rules::default() }, ..f.options() };
    let outcome = run(&f.store, &options, &()).unwrap();
    let left_out: Vec<String> = outcome.omissions.iter().map(|o| name::display(&o.path)).collect();
    assert_eq!(left_out, ["sub/node_modules", "target/built"]);
    assert!(f.tree(&outcome.checkpoint).contains_key(&b"target/tracked/a"[..]));
}

#[test]
fn the_store_inside_the_workspace_is_left_out_and_the_other_way_round_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("store"), &OpenOptions { create: true, ..Default::default() }).unwrap();
    fs::write(dir.path().join("f"), "x").unwrap();
    let options = |workspace: &Path| Options { workspace: workspace.to_owned(), session: "s".into(), ..Options::default() };
    let outcome = run(&store, &options(dir.path()), &()).unwrap();
    assert_eq!(outcome.omissions[0].path, b"store");
    for inside in [store.path().to_owned(), store.path().join("packs")] {
        assert!(matches!(run(&store, &options(&inside), &()), Err(Error::Invalid(_))));
    }
    assert!(run(&store, &options(&dir.path().join("nowhere")), &()).unwrap_err().to_string().contains("nowhere"));
    assert!(run(&store, &options(&dir.path().join("f")), &()).is_err());
}

#[test]
fn more_is_left_out_than_a_table_holds() {
    let f = fixture();
    let mut fd = rustix::fs::open(&f.workspace, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
    let part = "d".repeat(250);
    let deep = [part.as_str(); 13].join("/");
    for _ in 0..13 {
        rustix::fs::mkdirat(&fd, part.as_str(), Mode::RWXU).unwrap();
        fd = rustix::fs::openat(&fd, part.as_str(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
    }
    for i in 0..5200 {
        let name = format!("{i}.log");
        rustix::fs::openat(&fd, name.as_str(), OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap();
    }
    f.write("kept", b"x");
    let options = Options { rules: Rules { patterns: vec!["*.log".into()], ..Rules::default() }, ..f.options() };
    for round in 0..2u8 {
        f.write("kept", &[round]);
        let outcome = run(&f.store, &options, &()).unwrap();
        let checkpoint = &outcome.checkpoint;
        assert_eq!(outcome.omissions.len(), 5200);
        assert_eq!(f.store.omissions(checkpoint).unwrap(), outcome.omissions);
        assert_eq!(checkpoint.record.omitted.as_ref().map(|omitted| (omitted.excluded, omitted.in_state)), Some((5200, true)));
        let report = crate::check::verify(&f.store, checkpoint, true, &()).unwrap();
        assert!(report.is_ok(), "{report:?}");
        crate::gc::run(&f.store, &Default::default(), &()).unwrap();
    }
    let checked = crate::check::run(f.store.layout(), &Default::default(), &()).unwrap();
    assert!(checked.is_clean(), "{:?}", checked.findings);

    let last = f.store.checkpoints().unwrap().pop().unwrap();
    rustix::fs::openat(&fd, "extra", OFlags::CREATE | OFlags::WRONLY, Mode::RWXU).unwrap();
    for subpath in ["", &deep] {
        let target = f.workspace.join(subpath);
        let restored = crate::restore::Options { in_place: true, delete: true, ..crate::restore::Options::new(target) };
        let restored = crate::restore::Options { subpath: subpath.into(), ..restored };
        let plan = crate::restore::plan(&f.store, &last, &restored, &()).unwrap();
        crate::restore::execute(&f.store, &last, plan, &()).unwrap();
        assert_eq!(sys::names(fd.as_fd()).unwrap().len(), 5200);
    }

    // Whoever knows of tables alone takes more than that for left out.
    let table = last.record.omitted.as_ref().unwrap().table;
    let spared = f.store.read_object(crate::pack::ObjectKind::Table, table, omitted::decode).unwrap();
    assert_eq!(spared.iter().map(|omission| omission.path.as_slice()).collect::<Vec<_>>(), [deep.as_bytes()]);
}
