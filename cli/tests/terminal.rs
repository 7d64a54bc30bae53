//! Completions, man pages, and output on a terminal: colours, the pager, and tables as wide as the screen.

use std::{
    fs,
    process::{Command, Stdio},
};

use crate::common::*;

fn work() -> (Home, String) {
    let home = Home::new();
    fs::create_dir(home.folder.path().join("work")).unwrap();
    fs::write(home.folder.path().join("work/a"), "one\n").unwrap();
    let message = "a message that is longer than what is left of the line on a narrow terminal";
    let id = home.run(&["backup", "named", "-w", "work", "-q", "-m", message]).expect(0).out.trim().to_owned();
    (home, id)
}

/// The candidates for the last of the words, as the script for bash gets them.
fn completed(home: &Home, words: &[&str]) -> Vec<String> {
    let mut command = home.command(&["--", "parhelia"]);
    command.args(words).env("PARHELIA_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    command.env("_CLAP_IFS", "\n").env("_CLAP_COMPLETE_COMP_TYPE", "9").env("_CLAP_COMPLETE_SPACE", "true");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn checkpoints_and_sessions_are_completed() {
    let (home, id) = work();
    assert!(completed(&home, &["ls", ""]).contains(&id));
    assert_eq!(completed(&home, &["ls", &id[..20].to_lowercase()]), std::slice::from_ref(&id));
    assert!(completed(&home, &["checkpoint", "diff", "latest", &id[..3]]).contains(&id));
    assert_eq!(completed(&home, &["session", "show", "na"]), ["named"]);
    assert!(completed(&home, &["show", "na"]).contains(&"named".to_owned()));
    assert_eq!(completed(&home, &["ls", "nam"]), ["named@latest"]);
    assert!(completed(&home, &["chec"]).contains(&"checkpoint".to_owned()));
    // The verbs of `checkpoint` are offered without that word; what is for this program's own use is not.
    let verbs = completed(&home, &[""]);
    assert!(
        ["create", "list", "diff", "restore", "undo", "session"].iter().all(|verb| verbs.contains(&(*verb).to_owned())),
        "{verbs:?}"
    );
    assert!(!verbs.contains(&"mount-guard".to_owned()), "{verbs:?}");
    // A store that is not there has nothing to offer, and is no error.
    assert!(!completed(&home, &["--store", "/nowhere", "ls", ""]).contains(&id));
    for shell in ["bash", "zsh", "fish"] {
        let script = home.run(&["completions", shell]).expect(0).out;
        assert!(script.contains("PARHELIA_COMPLETE") && script.contains("parhelia"), "{script}");
    }
}

#[test]
fn each_verb_has_a_man_page() {
    let home = Home::new();
    home.run(&["man", "man/man1"]).expect(0);
    let page = |name: &str| fs::read_to_string(home.folder.path().join("man/man1").join(name)).unwrap();
    assert!(page("parhelia.1").contains("parhelia\\-checkpoint(1)"), "{}", page("parhelia.1"));
    assert!(page("parhelia-checkpoint-diff.1").contains("Compare two checkpoints"));
    assert!(page("parhelia-session-stop.1").contains("keep\\-wanted"));
    assert!(!home.folder.path().join("man/man1/parhelia-diff.1").exists(), "one page for one verb");
}

/// The output of a command on a terminal of so many columns.
fn on_terminal(home: &Home, args: &[&str], columns: u16, variables: &[(&str, &str)]) -> String {
    let words = args.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let line = format!("stty cols {columns} rows 24; exec '{}' {words}", env!("CARGO_BIN_EXE_parhelia"));
    let ours = home.command(&[]);
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]).env_clear().stdin(Stdio::null());
    command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(home.folder.path());
    command.env("TERM", "xterm").env("SHELL", "/bin/sh").env("PATH", std::env::var_os("PATH").unwrap());
    let output = command.env_remove("NO_COLOR").envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().replace('\r', "")
}

#[test]
fn a_table_is_as_wide_as_the_terminal() {
    let (home, id) = work();
    let plain = [("PAGER", "cat"), ("NO_COLOR", "1")];
    let narrow = on_terminal(&home, &["list"], 100, &plain);
    assert!(narrow.contains(&id) && narrow.contains('…'), "{narrow}");
    assert!(narrow.lines().all(|line| line.chars().count() <= 100), "{narrow}");
    let wide = on_terminal(&home, &["list"], 250, &plain);
    assert!(wide.contains("on a narrow terminal") && !wide.contains('…'), "{wide}");
}

#[test]
fn nothing_is_wider_than_a_narrow_terminal() {
    let home = Home::new();
    let (long, longer) = ("a-folder-with-a-long-name/".repeat(3), "a-session-with-a-long-name-".repeat(2));
    for (session, folder) in [(longer.as_str(), format!("work/{long}")), ("short", "work/two".to_owned())] {
        let path = home.folder.path().join(&folder);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("a"), "one\n").unwrap();
        home.run(&["backup", session, "-w", &folder, "-q", "-m", "a message that goes on for longer than a line"]).expect(0);
        home.run(&["session", "run", "-w", &folder, "--name", &format!("{session}-agent"), "--", "true"]).expect(0);
        fs::write(path.join("a-file-with-a-long-name".repeat(5)), "new").unwrap();
    }
    // A dumb terminal has no progress bar, whose lines are drawn over themselves.
    let plain = [("PAGER", "cat"), ("NO_COLOR", "1"), ("TERM", "dumb")];
    let here = format!("work/{long}");
    for args in [
        &["list"][..],
        &["list", "-d"],
        &["session", "list"],
        &["session", "show", &longer],
        &["show", "latest"],
        &["status", "-w", &here],
        &["stats"],
    ] {
        for columns in [60, 80, 100] {
            let shown = on_terminal(&home, args, columns, &plain);
            let is_wide = |line: &&str| line.chars().count() > usize::from(columns);
            assert_eq!(shown.lines().find(is_wide), None, "{args:?} on {columns} columns: {shown}");
        }
    }
    let listed = on_terminal(&home, &["list"], 80, &plain);
    assert!(listed.starts_with("ID ") && !listed.contains("WORKSPACE") && !listed.contains("TRIGGER"), "{listed}");
    assert!(listed.contains("a message") && listed.contains("s ago") | listed.contains("now "), "{listed}");
    let listed = on_terminal(&home, &["session", "list"], 80, &plain);
    assert!(listed.contains("STATE") && listed.contains("ended"), "{listed}");
}

#[test]
fn colours_are_for_terminals_and_can_be_switched_off() {
    let (home, _) = work();
    let args = ["show", "latest"];
    assert!(on_terminal(&home, &args, 100, &[("PAGER", "")]).contains("\x1b[1m"));
    assert!(!on_terminal(&home, &args, 100, &[("PAGER", ""), ("NO_COLOR", "1")]).contains('\x1b'));
    let piped = home.command(&args).env_remove("NO_COLOR").env("TERM", "xterm").output().unwrap();
    assert!(!piped.stdout.contains(&b'\x1b'));
}

#[test]
fn the_pager_is_the_user_s_and_for_terminals_alone() {
    let (home, id) = work();
    let quoting = ("PARHELIA_PAGER", "sed 's/^/> /'");
    for args in [&["list"][..], &["show", "latest"], &["log"], &["diff", "latest", "latest"]] {
        let paged = on_terminal(&home, args, 200, &[("PAGER", "false"), quoting]);
        assert!(!paged.is_empty() && paged.lines().all(|line| line.starts_with("> ")), "{args:?}: {paged}");
    }
    let plain = on_terminal(&home, &["list"], 200, &[("PARHELIA_PAGER", "no-such-pager -R")]);
    assert!(plain.contains(&id), "{plain}");
    let piped = home.command(&["list"]).envs([quoting]).env("TERM", "xterm").output().unwrap();
    assert!(String::from_utf8(piped.stdout).unwrap().starts_with("ID "));
    // Less ends by itself where one screen is enough.
    if Command::new("less").arg("--version").output().is_ok() {
        assert!(on_terminal(&home, &["list"], 200, &[]).contains(&id));
    }
}
