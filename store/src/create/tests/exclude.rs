//! Entries that rules leave out, and those that stay because git tracks them.

use std::process::Command;

use super::*;
use crate::create::exclude::{Excluder, Surroundings, Verdict};

fn git(folder: &Path, args: &[&str]) {
    let done = Command::new("git").args(args).current_dir(folder).output().unwrap();
    assert!(done.status.success(), "{done:?}");
}

fn by_default() -> Rules {
    Rules { defaults: true, ..Rules::default() }
}

fn left_out(f: &Fixture) -> Vec<String> {
    let outcome = run(&f.store, &Options { rules: by_default(), ..f.options() }, &()).unwrap();
    outcome.omissions.iter().map(|omission| name::display(&omission.path)).collect()
}

#[test]
fn what_a_work_tree_around_or_inside_the_workspace_tracks_stays() {
    let f = fixture();
    for path in ["Cargo.toml", "target/sub/kept", "target/sub/built", "target/other/built", "target-x/a"] {
        f.write(path, b"x");
    }
    for path in ["package.json", "node_modules/kept", "node_modules/fetched", "sub/__pycache__/fetched", "sub/__pycache__/kept"] {
        f.write(&format!("inner/{path}"), b"x");
    }
    f.write("java/pom.xml", b"x");
    f.write("java/target/built", b"x");
    let above = f.workspace.parent().unwrap();
    git(above, &["init", "-q"]);
    // `target-x` stands between `target` and what is in it.
    git(above, &["add", "-f", "workspace/target/sub/kept", "workspace/target-x/a"]);
    let inner = f.workspace.join("inner");
    git(&inner, &["init", "-q"]);
    git(&inner, &["add", "-f", "node_modules/kept", "sub/__pycache__/kept"]);
    assert_eq!(
        left_out(&f),
        ["inner/node_modules/fetched", "inner/sub/__pycache__/fetched", "java/target", "target/other", "target/sub/built"]
    );
}

#[test]
fn an_index_that_cannot_be_read_tracks_everything_and_none_nothing() {
    let f = fixture();
    f.write("Cargo.toml", b"");
    f.write("target/built", b"x");
    git(&f.workspace, &["init", "-q"]);
    assert_eq!(left_out(&f), ["target"]);
    // One that is no file, a fifo among them, is not waited for.
    let index = f.workspace.join(".git/index");
    let made = Command::new("mkfifo").arg(&index).status().unwrap();
    assert!(made.success());
    assert!(left_out(&f).is_empty());
    fs::remove_file(&index).unwrap();
    fs::write(&index, "nonsense").unwrap();
    assert!(left_out(&f).is_empty());
    // Another work tree says in a file where its repository is.
    fs::remove_file(&index).unwrap();
    fs::rename(f.workspace.join(".git"), f.workspace.with_file_name("elsewhere")).unwrap();
    f.write(".git", b"gitdir: ../elsewhere\n");
    git(&f.workspace, &["add", "-f", "target/built"]);
    assert!(left_out(&f).is_empty());
}

#[test]
fn what_is_listed_is_captured_with_all_above_and_below_it() {
    let paths = |listed: &[&str]| listed.iter().map(|path| path.as_bytes().to_vec()).collect::<Vec<_>>();
    let listed = Excluder::new(Rules::default(), Some(paths(&["a/b", "c"]))).unwrap();
    let around = Surroundings { path: b"", names: &[], repository: None, only_tracked: false };
    let keeps = |excluder: &Excluder, path: &str, is_folder| {
        excluder.judge(&around, name::components(path.as_bytes()).last().unwrap(), path.as_bytes(), is_folder) == Verdict::Keep
    };
    for (path, is_folder, kept) in [
        ("a", true, true),
        ("a", false, false),
        ("a/b", true, true),
        ("a/b/c/d", false, true),
        ("a/bc", false, false),
        ("a/c", true, false),
        ("c", false, true),
        ("cc", true, false),
    ] {
        assert_eq!(keeps(&listed, path, is_folder), kept, "{path}");
    }
    let all = Excluder::new(Rules::default(), Some(paths(&[""]))).unwrap();
    assert!(keeps(&all, "any/thing", false));
    assert!(listed.needs_paths() && !Excluder::new(by_default(), None).unwrap().needs_paths());
}

#[test]
fn names_that_decide_about_others_are_those_of_the_rules_that_are_asked_for() {
    let goes_by = |rules: Rules, names: &[&str]| -> Vec<bool> {
        let excluder = Excluder::new(rules, None).unwrap();
        names.iter().map(|name| excluder.goes_by(name.as_bytes())).collect()
    };
    let names = ["Cargo.toml", "pom.xml", "package.json", "pyvenv.cfg", ".git", "CACHEDIR.TAG", ".nobackup", "main.rs"];
    let none = Rules::default();
    assert_eq!(goes_by(none.clone(), &names), [false; 8]);
    assert_eq!(goes_by(by_default(), &names), [true, true, true, true, true, true, false, false]);
    let caches = Rules { caches: true, ..none.clone() };
    assert_eq!(goes_by(caches, &names), [false, false, false, false, true, true, false, false]);
    let tagged = Rules { if_present: vec![".nobackup".into()], ..none };
    assert_eq!(goes_by(tagged, &names), [false, false, false, false, false, false, true, false]);
}
