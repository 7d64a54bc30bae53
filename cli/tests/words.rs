//! Help, and answers to what people type out of habit.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt};

use crate::common::*;

/// A home with a folder `work` that has files, and a checkpoint of it in session `second`.
fn work() -> (Home, String) {
    let home = Home::new();
    fs::create_dir_all(home.folder.path().join("work/docs")).unwrap();
    for name in ["README.md", "docs/a"] {
        fs::write(home.folder.path().join("work").join(name), "one\n").unwrap();
    }
    let id = home.run(&["create", "second", "-w", "work", "-q"]).expect(0).out.trim().to_owned();
    (home, id)
}

fn run_in(home: &Home, args: &[&str]) -> Run {
    Run::of(home.command(args).current_dir(home.folder.path().join("work")).output().unwrap())
}

#[test]
fn the_main_verbs_come_first_in_the_help() {
    let home = Home::new();
    let help = home.run(&["--help"]).expect(0).out;
    let at = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text} is not in {help}"));
    for verb in ["create", "list", "show", "ls", "cat", "find", "diff", "restore", "rollback", "undo", "verify", "delete"] {
        assert!(
            at("\nCheckpoints:\n") < at(&format!("\n  {verb} ")) && at(&format!("\n  {verb} ")) < at("\n  session "),
            "{help}"
        );
    }
    for heading in ["\nSessions of agents:\n", "\nThe store:\n", "\nThe program:\n", "\nGlobal options:\n"] {
        at(heading);
    }
    for hidden in ["mount-guard", "in-pane"] {
        assert!(!help.contains(hidden), "{help}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 110), "{help}");
    let bare = home.run(&[]).expect(2);
    assert!(bare.err.contains("\nCheckpoints:\n") && !bare.err.contains("mount-guard"), "{bare:?}");
    let bare = home.run(&["--json"]).expect(2);
    assert!(!bare.err.contains("compact") && bare.err.contains("--help"), "{bare:?}");
}

#[test]
fn flags_stand_under_their_own_heading() {
    let home = Home::new();
    let help = home.run(&["create", "--help"]).expect(0).out;
    let section = help.split("The conversation:").nth(1).unwrap();
    let section = section.split("Global options:").next().unwrap();
    assert!(section.contains("--transcript") && !section.contains("--dry-run") && !section.contains("--files-from"), "{help}");
    assert!(home.run(&["restore", "--help"]).expect(0).out.contains("Change an existing folder"));
}

#[test]
fn an_empty_variable_is_not_set() {
    let (home, _) = work();
    let run = Run::of(home.command(&["list"]).env("PARHELIA_STORE", "").env("PARHELIA_LOCK_TIMEOUT", "").output().unwrap());
    assert!(run.expect(10).err.contains(".local/share/parhelia"));
}

#[test]
fn a_session_or_a_path_in_the_place_of_a_checkpoint_is_answered() {
    let (home, id) = work();
    for verb in ["ls", "diff", "verify", "delete", "rollback"] {
        let run = home.run(&[verb, "second"]).expect(10);
        assert!(run.err.contains("'second' is a session; second@latest is its newest checkpoint"), "{run:?}");
        assert!(!run.err.contains("no checkpoint matches"), "{run:?}");
    }
    home.run(&["show", "second"]).expect(0);
    for verb in ["show", "diff", "verify", "delete", "rollback"] {
        let run = run_in(&home, &[verb, &format!("{id}:docs")]).expect(2);
        assert!(run.err.contains("leave out the path behind the colon"), "{run:?}");
    }
}

#[test]
fn habits_are_answered_with_what_to_type() {
    let (home, _) = work();
    for (args, answer) in [
        (&["restore", "latest", "README.md"][..], "`latest:README.md`"),
        (&["dump", "latest", "README.md"], "`latest:README.md`"),
        (&["ls", "latest", "docs"], "`latest:docs`"),
        (&["restore", "latest", "../o2"], "`--to ../o2`"),
        (&["forget", "--keep-last", "2"], "`parhelia session prune --dry-run`"),
        (&["list", "--repo", "x"], "`--store DIR`"),
        (&["stop"], "`parhelia session stop SESSION`"),
        (&["fsck"], "`parhelia check`"),
        (&["rebuild-index"], "`parhelia check --rebuild-index`"),
        (&["session", "run", "true"], "`parhelia session run -- true`"),
    ] {
        let run = run_in(&home, args).expect(2);
        assert!(run.err.contains(answer), "{args:?}: {run:?}");
        assert!(!run.err.contains("as a value") && !run.err.contains("\n\n\n"), "{args:?}: {run:?}");
    }
    let run = run_in(&home, &["backup", "--tag", "x"]).expect(2);
    assert!(!run.err.contains("as a value"), "{run:?}");
    let run = run_in(&home, &["diff", "README.md"]).expect(10);
    assert!(run.err.contains("`parhelia diff --file README.md`"), "{run:?}");
    let run = run_in(&home, &["cat", "latest:"]).expect(2);
    assert!(run.err.contains("'latest:' names no file: give latest:PATH"), "{run:?}");
}

#[test]
fn a_beginning_that_many_ids_have_is_answered_briefly() {
    let (home, id) = work();
    for i in 0..7 {
        run_in(&home, &["create", "second", "-q", "-m", &i.to_string()]).expect(0);
    }
    let run = home.run(&["show", &id[..4]]).expect(10);
    assert!(run.err.contains("matches 8 checkpoints") && run.err.contains(" and 3 more; "), "{run:?}");
    assert!(run.err.contains("the end of the id"), "{run:?}");
}

#[test]
fn no_checkpoints_were_asked_for() {
    let (home, _) = work();
    assert_eq!(home.run(&["list", "-n", "0"]).expect(0).out, "");
    assert_eq!(home.run(&["session", "list", "-n", "0"]).expect(0).out, "");
}

#[test]
fn names_that_are_no_text_are_taken() {
    let (home, _) = work();
    let name = OsStr::from_bytes(b"bad\xff\xfename");
    let path = home.folder.path().join("work").join(name);
    fs::write(&path, "one\n").unwrap();
    run_in(&home, &["create", "second", "-q"]).expect(0);
    fs::write(&path, "two\n").unwrap();
    let run = |args: &[&OsStr]| {
        let mut command = home.command(&[]);
        Run::of(command.args(args).current_dir(home.folder.path().join("work")).output().unwrap())
    };
    for typed in [name, OsStr::new("bad\\xff\\xfename")] {
        let diff = run(&["diff".as_ref(), "--file".as_ref(), typed]).expect(0);
        assert!(diff.out.contains("-one\n+two\n"), "{typed:?}: {diff:?}");
        let found = run(&["find".as_ref(), typed]).expect(0);
        assert!(found.out.starts_with("bad\\xff\\xfename\n"), "{typed:?}: {found:?}");
        let to = home.folder.path().join("out");
        run(&["restore".as_ref(), "latest".as_ref(), "--to".as_ref(), to.as_ref(), "--include".as_ref(), typed]).expect(0);
        assert_eq!(fs::read(to.join(name)).unwrap(), b"one\n");
        assert!(!to.join("README.md").exists());
        fs::remove_dir_all(&to).unwrap();
        run(&["restore".as_ref(), "latest".as_ref(), "--to".as_ref(), to.as_ref(), "--exclude".as_ref(), typed]).expect(0);
        assert!(!to.join(name).exists() && to.join("README.md").exists());
        fs::remove_dir_all(&to).unwrap();
    }
    let at = home.folder.path().join(OsStr::from_bytes(b"no\xffmount"));
    let run = run(&["umount".as_ref(), at.as_ref()]);
    assert!(run.err.contains("no\\xffmount") && !run.err.contains('\u{fffd}'), "{run:?}");
}

#[test]
fn a_store_that_is_no_text_is_refused_where_text_is_written() {
    let (home, _) = work();
    let store = home.folder.path().join(OsStr::from_bytes(b"st\xff"));
    for args in [&["hooks", "install"][..], &["session", "unit", "--install"]] {
        let run = Run::of(home.command(args).env("PARHELIA_STORE", &store).output().unwrap()).expect(2);
        assert!(run.err.contains("st\\xff is not UTF-8"), "{run:?}");
    }
    assert!(!home.folder.path().join(".claude").exists() && !home.folder.path().join(".config").exists());
}

#[test]
fn advice_on_hooks_is_of_the_same_settings() {
    let (home, _) = work();
    let run = run_in(&home, &["hooks", "status", "--agent", "codex", "--project"]).expect(0);
    assert!(run.out.contains("`parhelia hooks install --agent codex --project` puts"), "{run:?}");
    let run = run_in(&home, &["hooks", "status"]).expect(0);
    assert!(run.out.contains("`parhelia hooks install` puts"), "{run:?}");
    run_in(&home, &["hooks", "install", "--agent", "claude"]).expect(0);
    assert!(run_in(&home, &["hooks", "status", "--agent", "claude-code"]).expect(0).out.starts_with("All hooks"));
}

#[test]
fn a_link_of_a_project_has_no_other_file_edited() {
    let (home, _) = work();
    let project = home.folder.path().join("project");
    let other = home.folder.path().join("other.json");
    let servers = r#"{"mcpServers": {"notes": {"command": "notes"}}}"#;
    std::fs::create_dir(&project).unwrap();
    std::fs::write(&other, servers).unwrap();
    let run = |words: &[&str]| Run::of(home.command(&[&["hooks"], words].concat()).current_dir(&project).output().unwrap());
    for (name, target) in [(".mcp.json", "../other.json"), (".claude", "../made"), (".claude/settings.json", "../../made/x.json")]
    {
        let link = project.join(name);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, &link).unwrap();
        for verb in [&["install", "--project", "--mcp"][..], &["uninstall", "--project"]] {
            let refused = run(verb).expect(2);
            assert!(refused.err.contains("leads out of the project"), "{name}: {refused:?}");
        }
        assert_eq!(std::fs::read_to_string(&other).unwrap(), servers, "{name}");
        assert!(!home.folder.path().join("made").exists(), "{name}");
        std::fs::remove_file(&link).unwrap();
    }
    // One that stays in the project is followed.
    std::fs::write(project.join("shared.json"), servers).unwrap();
    std::os::unix::fs::symlink("shared.json", project.join(".mcp.json")).unwrap();
    run(&["install", "--project", "--mcp"]).expect(0);
    assert!(std::fs::read_to_string(project.join("shared.json")).unwrap().contains("mcp-proxy"));
}

#[test]
fn hooks_in_the_other_settings_of_a_folder_are_told() {
    let (home, _) = work();
    let project = home.folder.path().join("project");
    std::fs::create_dir(&project).unwrap();
    let servers = r#"{"mcpServers": {"notes": {"command": "notes"}}}"#;
    std::fs::write(project.join(".mcp.json"), "{").unwrap();
    let words = ["hooks", "install", "--project", "--mcp"];
    let broken = Run::of(home.command(&words).current_dir(&project).output().unwrap());
    assert!(broken.code != 0 && broken.err.contains("it is not JSON") && !project.join(".claude").exists(), "{broken:?}");
    std::fs::write(project.join(".mcp.json"), servers).unwrap();
    let run =
        |words: &[&str]| Run::of(home.command(&[&["hooks"], words].concat()).current_dir(&project).output().unwrap()).expect(0);
    let alone = run(&["install", "--project", "--mcp"]);
    assert!(
        !alone.out.contains("runs both") && alone.out.contains("which others who have the project may not have"),
        "{alone:?}"
    );
    let both = run(&["install"]);
    assert!(both.out.contains("./.claude/settings.json has hooks, too"), "{both:?}");
    for verb in ["status", "uninstall"] {
        let told = run(&[verb]);
        assert!(
            told.out.contains("settings.json as well.") && told.out.contains("before these MCP servers of ./.mcp.json: notes"),
            "{told:?}"
        );
    }
    run(&["uninstall", "--project"]);
    assert!(!run(&["status"]).out.contains("as well"));
}

#[test]
fn a_file_that_is_no_archive_is_no_damage() {
    let (home, _) = work();
    let run = home.run(&["import", "work/README.md"]).expect(1);
    assert!(run.err.contains("cannot import work/README.md: it is not a tar or tar.zst archive\n"), "{run:?}");
    fs::write(home.folder.path().join("x.tar.gz"), b"\x1f\x8b\x08\0\0\0\0\0\0\x03").unwrap();
    let run = home.run(&["import", "x.tar.gz"]).expect(1);
    assert!(run.err.contains("it looks like gzip\n`zcat x.tar.gz | parhelia import -`"), "{run:?}");
    fs::write(home.folder.path().join("long"), "x".repeat(2000)).unwrap();
    home.run(&["import", "long"]).expect(1);
}

#[test]
fn what_can_only_be_salvaged_is_said_to_be() {
    for (file, advice) in [("store.json", "check --salvage"), ("journal", "check --salvage")] {
        let (home, _) = work();
        run_in(&home, &["create", "second", "-q", "-m", "another"]).expect(0);
        let mut path = home.store().join(file);
        if path.is_dir() {
            path = fs::read_dir(&path)
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .find(|path| path.ends_with("log") || path.extension().is_some_and(|e| e == "log"))
                .unwrap();
            fs::remove_file(path).unwrap();
        } else {
            fs::write(&path, "{}").unwrap();
            fs::write(home.store().join("journal/store.json"), "{}").unwrap();
        }
        fs::remove_dir_all(home.store().join("view")).unwrap();
        for args in [&["list"][..], &["check"], &["check", "--read-data"], &["check", "--repair"]] {
            let run = home.run(args).expect(12);
            assert!(run.err.contains(advice), "{args:?}: {run:?}");
        }
    }
}

#[test]
fn a_preview_speaks_of_what_is_to_come() {
    let (home, id) = work();
    fs::write(home.folder.path().join("work/README.md"), "two\n").unwrap();
    fs::write(home.folder.path().join("work/new"), "new\n").unwrap();
    let run = run_in(&home, &["rollback", &id, "--dry-run"]).expect(0);
    assert!(run.out.contains("M README.md (to be restored)") && run.out.contains("(to be removed; "), "{run:?}");
    let run = run_in(&home, &["rollback", &id, "--yes"]).expect(0);
    assert!(run.out.contains("M README.md (restored)"), "{run:?}");
}
