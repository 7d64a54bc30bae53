//! The verbs that change a store, from a real folder: create, diff, delete, verify, gc, check, stats.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::common::{Home, Run};
use serde_json::Value;

fn workspace(home: &Home) -> PathBuf {
    let folder = home.folder.path().join("my project");
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("src/main.rs"), "fn main() {\n    old();\n}\n").unwrap();
    fs::write(folder.join("README"), "hello\n").unwrap();
    symlink("README", folder.join("link")).unwrap();
    folder
}

fn create(home: &Home, args: &[&str]) -> Value {
    let run = home.run(&[&["checkpoint", "create", "--workspace", "my project", "--json"], args].concat()).expect(0);
    run.json().pop().unwrap()
}

#[test]
fn create_prints_its_id_last_and_derives_the_session() {
    let home = Home::new();
    workspace(&home);
    let summary = create(&home, &["-m", "first", "--trigger", "periodic", "--trigger-detail", "turn_end"]);
    assert!(summary["session"].as_str().unwrap().starts_with("my-project-"), "{summary}");
    assert_eq!(summary["files"], 2);
    assert_eq!(summary["complete"], true);
    let id = summary["id"].as_str().unwrap();
    let shown = home.run(&["checkpoint", "show", id, "--json"]).expect(0).json();
    assert_eq!(shown[0]["trigger"], "periodic");
    assert_eq!(shown[0]["trigger_detail"], "turn_end");
    assert_eq!(shown[0]["message"], "first");
    assert_eq!(home.run(&["checkpoint", "cat", "latest:README"]).expect(0).out, "hello\n");
    let named = create(&home, &["other"]);
    assert_eq!((&named["session"], &named["root"]), (&"other".into(), &summary["root"]));
    let again = create(&home, &["other", "--skip-if-unchanged"]);
    assert_eq!((&again["skipped"], &again["id"]), (&true.into(), &named["id"]));
    let text = home.run(&["checkpoint", "create", "-w", "my project"]).expect(0).out;
    assert!(text.contains("Checkpoint 0") && text.contains("2 files, 31 B"), "{text}");
    let quiet = home.run(&["checkpoint", "create", "-q", "-w", "my project"]).expect(0).out;
    assert_eq!((quiet.len(), quiet.lines().count()), (27, 1), "{quiet}");
}

#[test]
fn create_refuses_what_makes_no_sense() {
    let home = Home::new();
    let folder = workspace(&home);
    home.run(&["checkpoint", "create", "-w", "no such folder"]).expect(10);
    home.run(&["checkpoint", "create", "-w", "my project/README"]).expect(2);
    home.run(&["checkpoint", "create", "a:b", "-w", "my project"]).expect(2);
    home.run(&["checkpoint", "create", "-w", "my project", "--trigger", "whim"]).expect(2);
    home.run(&["checkpoint", "create", "-w", "my project", "--exclude", "a{b"]).expect(2);
    home.run(&["checkpoint", "create", "-w", "my project", "--exclude-file", "none"]).expect(10);
    fs::write(home.folder.path().join("list"), "../elsewhere\n").unwrap();
    home.run(&["checkpoint", "create", "-w", "my project", "--files-from", "list"]).expect(2);
    assert!(folder.exists());
}

#[test]
fn excludes_are_recorded_and_said() {
    let home = Home::new();
    let folder = workspace(&home);
    fs::write(folder.join("a.log"), "x").unwrap();
    fs::create_dir(folder.join("cache")).unwrap();
    fs::write(folder.join("cache/.nobackup"), "").unwrap();
    fs::write(home.folder.path().join("patterns"), "# what nobody needs\n*.log\n").unwrap();
    let args =
        ["checkpoint", "create", "-w", "my project", "--exclude-file", "patterns", "--exclude-if-present", ".nobackup", "--json"];
    let lines = home.run(&args).expect(0).json();
    let left_out: Vec<&str> = lines.iter().filter(|l| l["type"] == "omission").map(|l| l["path"].as_str().unwrap()).collect();
    assert!(left_out.contains(&"a.log"), "{lines:?}");
    let listed = home.run(&["checkpoint", "ls", "-R", "latest"]).expect(0).out;
    assert!(!listed.contains("a.log"), "{listed}");
    let list = home.folder.path().join("list");
    fs::write(&list, "src/main.rs\n").unwrap();
    home.run(&["checkpoint", "create", "-w", "my project", "--files-from", "list"]).expect(0);
    assert_eq!(home.run(&["checkpoint", "ls", "-R", "latest"]).expect(0).out, "src/\nsrc/main.rs\n");
}

#[test]
fn diff_of_checkpoints_and_of_a_live_folder() {
    let home = Home::new();
    let folder = workspace(&home);
    let a = create(&home, &[])["id"].as_str().unwrap().to_owned();
    fs::write(folder.join("src/main.rs"), "fn main() {\n    new();\n}\n").unwrap();
    fs::write(folder.join("added"), "1\n2\n").unwrap();
    fs::remove_file(folder.join("link")).unwrap();
    let live = home.run(&["checkpoint", "diff", &a, "--workspace", "my project"]).expect(0);
    let b = create(&home, &[])["id"].as_str().unwrap().to_owned();
    let stored = home.run(&["checkpoint", "diff", &a, &b]).expect(0);
    assert_eq!(live.out.lines().filter(|l| !l.contains(" added, ")).collect::<Vec<_>>(), ["A added", "D link", "M src/main.rs"]);
    for said in [
        &format!("Checkpoint Comparison: {a} → {b}\n\nTime: "),
        "\nFiles Changed:\n  A added        +2     -0\n  D link         +0     -1\n  M src/main.rs  +1     -1\n",
    ] {
        assert!(stored.out.contains(said), "{said:?} in {}", stored.out);
    }
    assert_eq!(home.run(&["checkpoint", "diff", &a, &b, "--name-only"]).expect(0).out, "added\nlink\nsrc/main.rs\n");
    let stat = home.run(&["checkpoint", "diff", &a, &b, "--stat"]).expect(0).out;
    assert!(stat.contains("+2") && stat.contains("+1") && stat.contains("-1"), "{stat}");
    for newer in [&["latest"][..], &["--workspace", "my project"]] {
        let text = home.run(&[&["checkpoint", "diff", &a, "--file", "src/main.rs"], newer].concat()).expect(0).out;
        assert!(text.contains("-    old();\n+    new();\n"), "{text}");
    }
    let lines = home.run(&["checkpoint", "diff", &a, &b, "--json", "--stat"]).expect(0).json();
    assert_eq!(lines.last().unwrap()["modified"], 1);
    assert_eq!(lines[2]["lines_added"], 1);
    assert!(home.run(&["checkpoint", "diff", &b, &b]).expect(0).out.contains("Files Changed:\n  No changes\n"));
    let comparison = &home.run(&["checkpoint", "diff", &a, &b, "--json"]).expect(0).json()[0];
    assert_eq!((&comparison["type"], &comparison["old"]["id"]), (&"comparison".into(), &a.as_str().into()));
    let said = home.run(&["checkpoint", "diff", &a, &b, "--conversation"]).expect(0).out;
    assert!(said.contains("holds no conversation"), "{said}");
    assert!(home.run(&["checkpoint", "diff", &b]).expect(0).out.starts_with("No difference."));
    home.run(&["checkpoint", "diff", &a, "01ZZZZZZ"]).expect(10);
}

#[test]
fn restore_to_a_new_folder_and_in_place() {
    let home = Home::new();
    let folder = workspace(&home);
    let a = create(&home, &[])["id"].as_str().unwrap().to_owned();
    let run = home.run(&["checkpoint", "restore", &a, "--to", "copy", "--verify", "--json"]).expect(0);
    assert_eq!(run.json().last().unwrap()["files"], 2);
    let same =
        || Command::new("diff").args(["-r", "--no-dereference"]).arg(&folder).arg(home.folder.path().join("copy")).status();
    assert!(same().unwrap().success());
    home.run(&["checkpoint", "restore", &a, "--to", "copy"]).expect(4);
    home.run(&["checkpoint", "restore", &a, "--to", "other", "--delete"]).expect(2);
    home.run(&["checkpoint", "restore", &a]).expect(2);
    home.run(&["checkpoint", "restore", "latest:no/such", "--to", "other"]).expect(10);
    let copy = home.folder.path().join("copy");
    fs::write(copy.join("README"), "changed").unwrap();
    fs::write(copy.join("extra"), "x").unwrap();
    let args = ["checkpoint", "restore", &a, "--to", "copy", "--in-place", "--delete", "--other-folder"];
    let plan = home.run(&[&args[..], &["--dry-run"]].concat()).expect(0).out;
    assert!(plan.starts_with("D extra\n") && plan.contains("M README\n"), "{plan}");
    assert!(copy.join("extra").exists());
    home.run(&args).expect(0);
    assert!(same().unwrap().success());
    home.run(&["checkpoint", "restore", "latest:src", "--to", "part"]).expect(0);
    assert!(home.folder.path().join("part/main.rs").exists());
}

#[test]
fn delete_gc_verify_check_and_stats() {
    let home = Home::new();
    let folder = workspace(&home);
    let noise: Vec<u8> = (0..100_000u32).flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    fs::write(folder.join("noise"), noise).unwrap();
    let a = create(&home, &[])["id"].as_str().unwrap().to_owned();
    fs::remove_file(folder.join("noise")).unwrap();
    let b = create(&home, &[])["id"].as_str().unwrap().to_owned();
    for args in [&["verify", &a][..], &["verify", "--deep"]] {
        assert!(home.run(&[&["checkpoint"], args].concat()).expect(0).out.contains("is whole"));
    }
    let stats = home.run(&["stats", "--json"]).expect(0).json();
    assert_eq!(stats.last().unwrap()["checkpoints"], 2);
    assert_eq!(stats[0]["type"], "usage");
    assert!(home.run(&["stats"]).expect(0).out.contains("my-project-"));
    home.run(&["checkpoint", "delete", &a, "--dry-run"]).expect(0);
    assert_eq!(home.run(&["checkpoint", "list", "--json"]).json().len(), 3);
    home.run(&["checkpoint", "delete", &a, "01ZZZZZZ"]).expect(10);
    let deleted = home.run(&["checkpoint", "delete", &a, "--json"]).expect(0).json();
    assert_eq!(deleted.last().unwrap()["deleted"], 1);
    home.run(&["checkpoint", "show", &a]).expect(10);
    let plan = home.run(&["gc", "--dry-run", "--json"]).expect(0).json().pop().unwrap();
    assert!(plan["plan"]["freed_bytes"].as_u64().unwrap() > 300_000, "{plan}");
    let done = home.run(&["gc", "--json"]).expect(0).json().pop().unwrap();
    assert!(done["freed_bytes"].as_u64().unwrap() > 300_000, "{done}");
    home.run(&["checkpoint", "verify", &b, "--deep"]).expect(0);
    assert!(home.run(&["check", "--read-data"]).expect(0).out.contains("Nothing is wrong"));
    home.run(&["check", "--read-data=101"]).expect(2);
    fs::remove_dir_all(home.store().join("view")).unwrap();
    home.run(&["check", "--rebuild-index", "--read-data=50"]).expect(0);
    assert_eq!(home.run(&["checkpoint", "cat", "latest:README"]).expect(0).out, "hello\n");
    let pack = fs::read_dir(home.store().join("packs")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&pack).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&pack, bytes).unwrap();
    let run = home.run(&["check", "--read-data", "--json"]);
    assert_eq!(run.code, 12, "{run:?}");
    assert!(run.out.lines().last().unwrap().contains("\"ok\":false"), "{run:?}");
}

#[test]
fn what_cannot_be_read_is_named_and_exits_3() {
    let home = Home::new();
    let folder = workspace(&home);
    // As root every file can be read, so the name of one is put where only a race could put it: a file that is truncated all the time.
    let busy = folder.join("busy");
    fs::write(&busy, vec![1; 1 << 20]).unwrap();
    let script = "i=0; while :; do i=$((i+1)); head -c $((1048576 + i % 4096)) /dev/zero > \"$1\"; done";
    let mut writer = Command::new("sh").args(["-c", script, "sh"]).arg(&busy).stderr(Stdio::null()).spawn().unwrap();
    let run = home.run(&["checkpoint", "create", "-w", "my project", "--json"]);
    writer.kill().unwrap();
    writer.wait().unwrap();
    match run.code {
        3 => {
            assert!(run.err.contains("busy"), "{run:?}");
            assert_eq!(run.json().last().unwrap()["complete"], false);
        }
        code => assert_eq!(code, 0, "{run:?}"),
    }
}

#[test]
fn an_interrupted_create_exits_130_and_has_made_none_or_3_and_has_made_one() {
    const ROUNDS: u32 = 24;
    let home = Home::new();
    let folder = workspace(&home);
    for i in 0..100 {
        fs::write(folder.join(format!("{i}")), format!("{i}").repeat(200_000)).unwrap();
    }
    let create = |round: &str| {
        crate::common::make_store(&home.folder.path().join(format!("store-{round}")));
        let mut command = home.command(&["checkpoint", "create", "-w", "my project", "--json", "--deep"]);
        command.env("PARHELIA_STORE", home.folder.path().join(format!("store-{round}")));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut whole = std::time::Duration::MAX;
    // The first one also waits for what was just written.
    for first in ["a", "b"] {
        let began = std::time::Instant::now();
        Run::of(create(first).wait_with_output().unwrap()).expect(0);
        whole = whole.min(began.elapsed());
    }
    let mut codes = BTreeSet::new();
    for round in 1..=ROUNDS {
        let child = create(&round.to_string());
        std::thread::sleep(whole * round / ROUNDS);
        let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
        // It may be over already.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let run = Run::of(child.wait_with_output().unwrap());
        codes.insert(run.code);
        // Not yet listening, it is ended by the signal, which is no code.
        if run.code == -1 {
            continue;
        }
        let last = run.json().pop().unwrap();
        let mut list = home.command(&["checkpoint", "list", "--json"]);
        list.env("PARHELIA_STORE", home.folder.path().join(format!("store-{round}")));
        let list = Run::of(list.output().unwrap());
        let made = list.expect(0).json().pop().unwrap()["checkpoints"].clone();
        match run.code {
            130 => assert_eq!((&last["code"], made), (&130.into(), 0.into()), "{run:?}"),
            code => {
                assert_eq!(made, 1, "{run:?}");
                let is_verified = last["verified"] == true;
                assert_eq!(code, if is_verified { 0 } else { 3 }, "{run:?}");
                assert!(is_verified || run.err.contains("could not be verified: interrupted"), "{run:?}");
            }
        }
    }
    assert!(codes.contains(&130), "{codes:?}");
}

#[test]
fn a_locked_store_exits_11() {
    let home = Home::new();
    workspace(&home);
    let id = create(&home, &[])["id"].as_str().unwrap().to_owned();
    let held = fs::File::options().read(true).write(true).open(home.store().join("lock")).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let run = home.run(&["checkpoint", "delete", &id, "--lock-timeout", "0.1"]).expect(11);
    assert!(run.err.contains("is locked by"), "{run:?}");
}

#[test]
fn a_checkpoint_waits_until_the_session_is_not_rolled_back_any_more() {
    let home = Home::new();
    workspace(&home);
    create(&home, &["own"]);
    create(&home, &["own"]);
    let turn = fs::read_dir(home.store().join("turns")).unwrap().next().unwrap().unwrap().path();
    let held = fs::File::options().read(true).write(true).open(turn).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let mut waits = home.command(&["checkpoint", "create", "own", "-w", "my project"]).stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(waits.try_wait().unwrap().is_none());
    // Others that make checkpoints do not wait for each other.
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockShared).unwrap();
    assert!(waits.wait().unwrap().success());
    create(&home, &["own"]);
}

#[test]
fn listed_paths_that_do_not_exist_are_named_and_nothing_is_no_checkpoint() {
    let home = Home::new();
    let folder = workspace(&home);
    for name in ["a", "b", "d/keep"] {
        fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
        fs::write(folder.join(name), name).unwrap();
    }
    symlink("d", folder.join("way")).unwrap();
    let list = |text: &[u8]| fs::write(home.folder.path().join("list"), text).unwrap();
    let create = |more: &[&str]| home.run(&[&["create", "s", "-w", "my project", "--files-from", "list"], more].concat());
    let number = || home.run(&["list", "s", "--json"]).json().len();
    list(b"a\nnot-there\nd/gone\nway/keep\na/below\n");
    for more in [&[][..], &["-q"], &["-n"]] {
        let run = create(more).expect(3);
        for missing in ["not-there", "d/gone", "way/keep", "a/below"] {
            assert!(run.err.contains(&format!("{missing}: not read: ")), "{more:?}: {run:?}");
        }
        assert!(run.err.contains("way is a symlink") && !run.err.contains("parhelia: a:"), "{run:?}");
    }
    let lines = create(&["--json"]).expect(3).json();
    assert_eq!(lines.last().unwrap()["unreadable"], 4);
    let made = number();
    for nothing in [&b"nope\nneither\n"[..], b"", b"\n\n", b"nope\nnope\n"] {
        list(nothing);
        for more in [&[][..], &["-n"]] {
            let run = create(more).expect(1);
            assert!(run.err.contains("cannot create a checkpoint of what is listed in list"), "{run:?}");
            assert!(nothing.len() < 5 || run.err.contains("nope: not read"), "{run:?}");
        }
    }
    // What exists and is left out by a rule is nothing, too.
    list(b"a\n");
    assert!(create(&["--exclude", "a"]).expect(1).err.contains("nothing that was asked for is left"));
    assert_eq!(number(), made);
    // The folder itself is everything.
    let whole = folder.canonicalize().unwrap();
    for all in [".", "./", whole.to_str().unwrap()] {
        list(all.as_bytes());
        create(&[]).expect(0);
        assert!(home.run(&["ls", "s@latest"]).expect(0).out.contains("d/"), "{all}");
    }
}

#[test]
fn a_mark_at_the_beginning_of_a_list_is_no_part_of_it() {
    let home = Home::new();
    let folder = workspace(&home);
    for name in ["a", "b", "c"] {
        fs::write(folder.join(name), name).unwrap();
    }
    let at = |name: &str| home.folder.path().join(name);
    fs::write(at("list"), b"\xef\xbb\xbfa\r\nb\r\n").unwrap();
    home.run(&["create", "s", "-w", "my project", "--files-from", "list"]).expect(0);
    let out = home.run(&["ls", "s@latest"]).expect(0).out;
    assert!(out.contains("a\n") && out.contains("b\n") && !out.contains("c\n"), "{out}");
    for comment in ["", "# not these\n"] {
        fs::write(at("rules"), format!("\u{feff}{comment}a\nb\n")).unwrap();
        home.run(&["create", "t", "-w", "my project", "--exclude-file", "rules"]).expect(0);
        let out = home.run(&["ls", "t@latest"]).expect(0).out;
        assert!(out.contains("c\n") && !out.contains("a\n") && !out.contains("b\n"), "{out}");
    }
}
