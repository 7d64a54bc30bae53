//! Bad input, and the exit code for each.

use std::fs;

use crate::common::{Builder, Home, file};

#[test]
fn no_such_store_is_10() {
    let home = Home::without_store();
    let run = home.run(&["checkpoint", "list"]).expect(10);
    assert!(run.err.contains("no store at") && run.err.contains("`parhelia init`"), "{run:?}");
    assert!(!home.store().exists(), "reading makes no store");
    let run = home.run(&["checkpoint", "list", "--json"]).expect(10);
    assert_eq!(run.json()[0]["code"], 10);
    assert!(run.err.contains("no store at"));
}

#[test]
fn what_is_not_a_store_is_10() {
    let home = Home::without_store();
    fs::create_dir(home.store()).unwrap();
    fs::write(home.store().join("thesis.tex"), "").unwrap();
    let run = home.run(&["checkpoint", "list"]).expect(10);
    assert!(run.err.contains("is not a parhelia store"), "{run:?}");
    let run = home.run(&["checkpoint", "list", "--store", home.store().join("thesis.tex").to_str().unwrap()]).expect(10);
    assert!(run.err.contains("not a folder"), "{run:?}");
}

#[test]
fn a_newer_format_is_1_and_says_so() {
    let home = Home::new();
    drop(Builder::new(&home));
    let path = home.store().join("store.json");
    let text = fs::read_to_string(&path).unwrap().replace("\"parhelia_store\": 1", "\"parhelia_store\": 99");
    fs::write(&path, text).unwrap();
    let run = home.run(&["checkpoint", "list"]).expect(1);
    assert!(run.err.contains("store format 99") && run.err.contains("newer parhelia"), "{run:?}");
}

#[test]
fn damaged_settings_are_12() {
    let home = Home::new();
    drop(Builder::new(&home));
    let damage = |name: &str| {
        let path = home.store().join(name);
        let text = fs::read_to_string(&path).unwrap().replace("\"compression_level\": 3", "\"compression_level\": 4");
        fs::write(&path, text).unwrap();
    };
    // The other copy is as good for reading, and a check names the one that is damaged.
    damage("store.json");
    let run = home.run(&["checkpoint", "list"]).expect(0);
    assert!(run.err.contains("store.json") && run.err.contains("check --repair"), "{run:?}");
    let run = home.run(&["check"]).expect(12);
    assert!(run.out.contains("store.json") || run.err.contains("store.json"), "{run:?}");
    damage("journal/store.json");
    let run = home.run(&["checkpoint", "list"]).expect(12);
    assert!(run.err.contains("store.json"), "{run:?}");
}

#[test]
fn bad_arguments_are_2() {
    let home = Home::new();
    for args in [
        &["frobnicate"][..],
        &[],
        &["checkpoint"],
        &["checkpoint", "list", "--no-such-flag"],
        &["checkpoint", "list", "-q", "-v"],
        &["checkpoint", "cat"],
        &["checkpoint", "list", "--lock-timeout", "soon"],
        &["checkpoint", "list", "--lock-timeout", "-1"],
        &["checkpoint", "list", "--store", ""],
    ] {
        let run = home.run(args);
        assert_eq!(run.code, 2, "{args:?}: {run:?}");
        assert!(run.out.is_empty() && !run.err.is_empty(), "{args:?}: {run:?}");
    }
    let run = home.run(&["checkpoint", "list", "--lock-timeout", "-1"]).expect(2);
    assert!(run.err.contains("from 0 on"), "{run:?}");
    let run = home.run(&["checkpoint", "frobnicate", "--json"]).expect(2);
    assert_eq!(run.json().last().unwrap()["code"], 2);
}

#[test]
fn bad_values_in_the_environment_are_2() {
    let home = Home::new();
    for (name, value) in [("PARHELIA_LOCK_TIMEOUT", "soon"), ("PARHELIA_LOCK_TIMEOUT", "-1")] {
        let output = home.command(&["checkpoint", "list"]).env(name, value).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}={value}: {output:?}");
    }
    let output = home.command(&["checkpoint", "list"]).env_clear().output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn unknown_and_ambiguous_ids() {
    let home = Home::new();
    let mut builder = Builder::new(&home);
    let ids: Vec<String> = (0..3).map(|i| builder.commit("demo", "", vec![file("a", format!("{i}"))])).collect();
    home.run(&["checkpoint", "show", "01ZZZZZZ"]).expect(10);
    home.run(&["checkpoint", "show", "latest~3"]).expect(10);
    home.run(&["checkpoint", "show", "other@latest"]).expect(10);
    home.run(&["checkpoint", "show", "01"]).expect(2);
    let shared = &ids[0][..5];
    let run = home.run(&["checkpoint", "show", shared]).expect(10);
    assert!(ids.iter().all(|id| run.err.contains(id)), "{run:?}");
    let run = home.run(&["checkpoint", "show", &ids[1][16..].to_lowercase()]).expect(0);
    assert!(run.out.contains(&ids[1]));
    home.run(&["checkpoint", "cat", "latest:no/such"]).expect(10);
    home.run(&["checkpoint", "cat", "latest"]).expect(2);
    home.run(&["checkpoint", "cat", "latest:../a"]).expect(2);
    home.run(&["checkpoint", "ls", "latest:a/b"]).expect(10);
    home.run(&["checkpoint", "find", "[a"]).expect(2);
    home.run(&["export", "latest:a"]).expect(2);
    home.run(&["export", "latest", "--json"]).expect(2);
}

#[test]
fn flipped_bytes_are_12_and_nothing_panics() {
    let home = Home::new();
    let mut builder = Builder::new(&home);
    let content: Vec<u8> = (0..4000u32).flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    builder.commit("demo", "", vec![file("a", content)]);
    drop(builder);
    let pack = fs::read_dir(home.store().join("packs")).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&pack).unwrap();
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut broken = whole.clone();
        broken[at] ^= 0x20;
        fs::write(&pack, broken).unwrap();
        let run = home.run(&["checkpoint", "cat", "latest:a"]);
        assert!(matches!(run.code, 0 | 12), "byte {at}: {run:?}");
        assert!(run.code == 12 || !run.bytes.is_empty());
        assert!(!run.err.contains("panicked"), "byte {at}: {run:?}");
    }
    fs::remove_file(&pack).unwrap();
    home.run(&["checkpoint", "cat", "latest:a"]).expect(12);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let home = Home::new();
    let mut builder = Builder::new(&home);
    let items = (0..3000).map(|i| file(format!("a-file-with-a-rather-long-name-{i:06}"), "x")).collect();
    builder.commit("demo", "", items);
    for args in ["checkpoint ls latest", "checkpoint ls latest --json", "export latest"] {
        let mut command = home.command(&args.split(' ').collect::<Vec<_>>());
        let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args}: {output:?}");
        assert!(output.stderr.is_empty(), "{args}: {output:?}");
    }
}

#[test]
fn a_reader_that_has_enough_is_no_failure() {
    let home = Home::new();
    let folder = home.folder.path().join("work");
    fs::create_dir(&folder).unwrap();
    let content: Vec<u8> = (0..2_000_000u32).flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    fs::write(folder.join("a"), content).unwrap();
    home.run(&["checkpoint", "create", "s", "-w", "work"]).expect(0);
    for args in ["export latest", "checkpoint cat latest:a"] {
        let mut command = home.command(&args.split(' ').collect::<Vec<_>>());
        let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        std::io::Read::read_exact(&mut out, &mut [0; 10]).unwrap();
        drop(out);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args}: {output:?}");
        assert!(output.stderr.is_empty(), "{args}: {output:?}");
    }
}

#[test]
fn paths_that_are_not_there_are_10_and_named() {
    let home = Home::new();
    fs::create_dir_all(home.folder.path().join("work/sub")).unwrap();
    fs::write(home.folder.path().join("work/a"), "x").unwrap();
    fs::write(home.folder.path().join("work/sub/b"), "x").unwrap();
    home.run(&["session", "run", "--workspace", "work", "--name", "s", "--", "true"]).expect(0);
    let session = home.run(&["session", "list", "--json"]).expect(0).json()[0]["id"].as_str().unwrap().to_owned();
    let latest = format!("{session}@latest");
    fs::write(home.folder.path().join("work/sub/c"), "new").unwrap();
    for verb in [
        &["checkpoint", "diff", &latest, &latest, "--file", "typo"][..],
        &["checkpoint", "diff", &latest, "--workspace", "work", "--file", "typo"],
        &["checkpoint", "diff", &latest, "--workspace", "work", "--file", "a/typo", "--json"],
        &["checkpoint", "diff", &latest, "--workspace", "typo"],
        &["checkpoint", "create", "new", "-w", "typo"],
        &["checkpoint", "create", "new", "-w", "work", "--files-from", "typo"],
        &["checkpoint", "create", "new", "-w", "work", "--exclude-file", "typo"],
        &["session", "run", "-w", "typo", "--", "true"],
        &["session", "move", &session, "typo"],
        &["import", "typo"],
        &["hooks", "status", "--project", "typo"],
        &["hooks", "install", "--project", "typo"],
        &["umount", "typo"],
    ] {
        let run = home.run(verb).expect(10);
        assert!(run.err.contains("typo"), "{verb:?}: {run:?}");
    }
    assert!(!home.folder.path().join("typo").exists());
    let file = |path| home.run(&["checkpoint", "diff", &latest, "--workspace", "work", "--file", path]);
    for path in ["a", "./a", "sub/b"] {
        assert!(file(path).expect(0).out.contains("no difference"), "{path}");
    }
    assert!(file("sub/c").expect(0).out.contains("+new"));
    fs::remove_file(home.folder.path().join("work/sub/b")).unwrap();
    assert!(file("sub/b").expect(0).out.contains("-x"));
    fs::remove_file(home.folder.path().join("work/sub/c")).unwrap();
    fs::create_dir(home.folder.path().join("work/sub/d")).unwrap();
    home.run(&["checkpoint", "create", &session, "-w", "work"]).expect(0);
    fs::write(home.folder.path().join("work/sub/d/e"), "new").unwrap();
    let folder = file("sub").expect(2);
    assert!(folder.err.contains("sub is a folder"), "{folder:?}");
}

#[test]
fn limits_of_the_process_are_errors_that_name_them() {
    let home = Home::new();
    let folder = home.folder.path().join("work");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a"), "small").unwrap();
    home.run(&["checkpoint", "create", "s", "-w", "work"]).expect(0);
    let content: Vec<u8> = (0..500_000u32).flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    fs::write(folder.join("large"), content).unwrap();
    let limited = |limit: &str, args: &[&str]| {
        let command = home.command(args);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &format!("ulimit {limit}; exec \"$0\" \"$@\"")]).arg(command.get_program()).args(command.get_args());
        shell.env_clear().envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        crate::common::Run::of(shell.current_dir(home.folder.path()).output().unwrap())
    };
    // So is the limit where the store is to be made; that leaves nothing in the way of the next try.
    for limit in ["-f 0", "-f 1", "-f 4", "-f 8"] {
        let create = &["--store", "new", "checkpoint", "create", "s", "-w", "work"];
        let make = &["--store", "new", "init", "--new"];
        let run = limited(limit, make).expect(1);
        assert!(run.err.contains("File too large") && run.err.contains("ulimit -f"), "{limit}: {run:?}");
        assert!(!run.err.contains("rebuild-index"), "{limit}: {run:?}");
        home.run(make).expect(0);
        home.run(create).expect(0);
        home.run(&["--store", "new", "check", "--read-data"]).expect(0);
        fs::remove_dir_all(home.folder.path().join("new")).unwrap();
    }
    let run = limited("-f 64", &["checkpoint", "create", "s", "-w", "work"]).expect(1);
    assert!(run.err.contains("File too large") && run.err.contains("ulimit -f"), "{run:?}");
    home.run(&["checkpoint", "create", "s", "-w", "work"]).expect(0);
    // The other files are restored.
    let run = limited("-f 64", &["checkpoint", "restore", "latest", "--to", "out"]).expect(3);
    assert!(run.err.contains("large: File too large"), "{run:?}");
    assert!(home.folder.path().join("out/a").exists() && !home.folder.path().join("out/large").exists());
    home.run(&["check", "--read-data"]).expect(0);
    for verb in [&["checkpoint", "list"][..], &["gc"], &["check"]] {
        let run = limited("-v 200000", verb).expect(1);
        assert!(run.err.contains("cannot open the store") && run.err.contains("raise `ulimit -v`"), "{verb:?}: {run:?}");
    }
}

#[test]
fn a_full_disk_is_1() {
    let home = Home::new();
    Builder::new(&home).commit("demo", "", vec![file("a", "x")]);
    for verb in [&["checkpoint", "cat", "latest:a"][..], &["--help"], &["checkpoint", "create", "--help"], &["--version"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = home.command(verb).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{verb:?}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("No space left"), "{verb:?}: {output:?}");
    }
    let run = home.run(&["export", "latest", "-o", "/dev/full"]).expect(1);
    assert!(run.err.contains("No space left"), "{run:?}");
    home.run(&["export", "latest", "-o", "/no/such/folder/x.tar.zst"]).expect(1);
}
