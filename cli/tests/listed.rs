//! `create --files-from`: each path of the list is in the checkpoint, or is named.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::common::*;

/// A home with a folder `work` of some files, one of them below a folder that a default rule leaves out.
fn work() -> Home {
    let home = Home::new();
    for path in ["top", "src/a", "docs/b", "web/package.json", "web/node_modules/m/x.js"] {
        let path = at(&home, path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "content").unwrap();
    }
    home
}

fn at(home: &Home, path: &str) -> PathBuf {
    home.folder.path().join("work").join(path)
}

/// Creates a checkpoint of `work` with a list on standard input.
fn create(home: &Home, list: &[u8], more: &[&str]) -> Run {
    let args = [&["create", "s", "-w", "work", "--files-from", "-"], more].concat();
    let mut child = home.command(&args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(list).unwrap();
    Run::of(child.wait_with_output().unwrap())
}

fn files(home: &Home) -> String {
    home.run(&["ls", "-R", "s@latest"]).expect(0).out
}

fn checkpoints(home: &Home) -> u64 {
    home.run(&["list", "--json"]).expect(0).json().last().unwrap()["checkpoints"].as_u64().unwrap()
}

#[test]
fn a_list_that_is_separated_by_nul_bytes_is_read_as_one_where_that_is_said() {
    let home = work();
    for list in [&b"src/a\0docs/b\0"[..], b"top\0", b"src/a\ndocs/b\0\n"] {
        let run = create(&home, list, &[]).expect(2);
        assert!(run.err.contains("holds a NUL byte") && run.err.contains("--null (-0)"), "{run:?}");
    }
    assert_eq!(checkpoints(&home), 0);
    fs::write(at(&home, "src/new\nline\r"), "").unwrap();
    for null in ["--null", "-0"] {
        create(&home, b"src/a\0\0src/new\nline\r\0docs/b", &[null]).expect(0);
        assert_eq!(files(&home), "docs/\ndocs/b\nsrc/\nsrc/a\nsrc/new\\nline\\x0d\n", "{null}");
    }
    home.run(&["create", "-w", "work", "--null"]).expect(2);
}

#[test]
fn a_listed_path_that_a_rule_leaves_out_is_named() {
    let home = work();
    let run = create(&home, b"top\nweb/node_modules/m/x.js\nweb/package.json\n", &[]).expect(3);
    assert!(
        run.err.contains(
            "web/node_modules/m/x.js: not read: it is listed, and web/node_modules is excluded (node_modules beside package.json)"
        ),
        "{run:?}"
    );
    assert!(run.err.contains("the checkpoint is partial: 1 not read"), "{run:?}");
    assert_eq!(files(&home), "top\nweb/\nweb/package.json\n");
    let run = create(&home, b"top\nsrc/a\n", &["--exclude", "a", "-n"]).expect(3);
    assert!(run.err.contains("src/a: not read: it is listed, and excluded (pattern a)"), "{run:?}");
    let lines = create(&home, b"top\nsrc/a\n", &["--exclude", "a", "--json"]).expect(3).json();
    assert_eq!(lines.last().unwrap()["unreadable"], 1);
    assert!(lines.iter().any(|line| line["path"] == "src/a" && line["reason"] == "unreadable"), "{lines:?}");
    // Nothing else than that is no checkpoint.
    let made = checkpoints(&home);
    for list in [&b"web/node_modules/m/x.js\n"[..], b"web/node_modules/m/x.js\nweb/node_modules/m\nnot-there\n"] {
        let run = create(&home, list, &[]).expect(1);
        assert!(run.err.contains("nothing that was asked for is left"), "{run:?}");
        create(&home, list, &["-n"]).expect(3);
    }
    assert_eq!(checkpoints(&home), made);
    create(&home, b"web/node_modules/m/x.js\n", &["--no-default-excludes"]).expect(0);
    assert!(files(&home).contains("x.js"));
}

#[test]
fn a_listed_path_that_cannot_exist_is_named() {
    let home = work();
    let long = "n".repeat(300);
    for more in [&[][..], &["-n"], &["--null"]] {
        let separator = if more == ["--null"] { "\0" } else { "\n" };
        let list = [&format!("{long}/x"), "src/a", &long, "src/gone"].join(separator);
        let run = create(&home, list.as_bytes(), more).expect(3);
        assert_eq!(
            run.err.matches(": not read: it is listed, and no file has a name of more than 255 bytes").count(),
            2,
            "{run:?}"
        );
        assert!(run.err.contains("src/gone: not read: it is listed, and does not exist"), "{run:?}");
    }
    assert_eq!(files(&home), "src/\nsrc/a\n", "nothing on the way to what is not there");
}

#[test]
fn a_path_is_found_by_whatever_way_it_is_listed() {
    let home = work();
    symlink("work", home.folder.path().join("way")).unwrap();
    let way = home.folder.path().join("way/src/a");
    for path in ["./src//a", "src/../src/a", "../work/src/a", "../way/src/a", way.to_str().unwrap()] {
        create(&home, format!("{path}\n").as_bytes(), &[]).expect(0);
        assert_eq!(files(&home), "src/\nsrc/a\n", "{path}");
    }
    for path in ["../elsewhere", "src/../../x", "/etc/passwd"] {
        let run = create(&home, format!("{path}\n").as_bytes(), &[]).expect(2);
        assert!(run.err.contains("is not in"), "{run:?}");
    }
}

#[test]
fn a_long_list_is_looked_up_folder_by_folder() {
    let home = work();
    let mut list = String::new();
    for number in 0..3000 {
        let path = format!("many/{}/{number}", number % 7);
        fs::create_dir_all(at(&home, &path).parent().unwrap()).unwrap();
        fs::write(at(&home, &path), "").unwrap();
        list = format!("{path}\n{list}");
    }
    create(&home, list.as_bytes(), &[]).expect(0);
    assert_eq!(files(&home).lines().count(), 3008);
}

/// Runs a command line as it is printed.
fn as_printed(home: &Home, folder: &str, command: &str) -> Run {
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_parhelia"));
    let usual = home.command(&[]);
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).env_clear().current_dir(home.folder.path().join(folder));
    shell.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.env("PATH", format!("{}:/usr/bin:/bin", binary.parent().unwrap().display()));
    Run::of(shell.output().unwrap())
}

#[test]
fn the_command_for_a_file_works_as_it_is_printed() {
    let home = work();
    for (name, folder) in [("-n", "work"), ("back\\slash 'x'", "work"), ("deep/notes.txt", "work"), ("plain", "")] {
        let file = home.folder.path().join(folder).join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "x").unwrap();
    }
    for (word, from, session) in [
        ("top", "work", "work"),
        ("../work/top", "work", "work"),
        ("../work/top", "src", "work"),
        ("deep/notes.txt", "work", "work"),
        ("./-n", "work", "work"),
        ("back\\slash 'x'", "work", "work"),
    ] {
        let from = if from == "src" { "work/src" } else { from };
        let word = if from == "work/src" { "../top" } else { word };
        let run =
            Run::of(home.command(&["create", "--", word]).current_dir(home.folder.path().join(from)).output().unwrap()).expect(2);
        let command = run.err.split('`').nth(1).unwrap_or_else(|| panic!("{run:?}"));
        let made = as_printed(&home, from, &format!("{command} --json")).expect(0).json().pop().unwrap();
        assert_eq!((&made["files"], made["workspace"].as_str().unwrap().ends_with(session)), (&1.into(), true), "{word} {made}");
    }
}
