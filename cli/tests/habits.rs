//! First words of other tools, and what people type without thinking.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;

use common::*;
use parhelia_store::{
    OpenOptions, Store,
    event::{Actor, NewEvent},
};

/// A home with a folder `work` that has a file, and one checkpoint of it.
fn work() -> (Home, String) {
    let home = Home::new();
    fs::create_dir(home.folder.path().join("work")).unwrap();
    fs::write(home.folder.path().join("work/a"), "one\n").unwrap();
    let id = home.run(&["backup", "-w", "work", "-q"]).expect(0).out.trim().to_owned();
    (home, id)
}

fn run_in(home: &Home, folder: &str, args: &[&str]) -> Run {
    Run::of(home.command(args).current_dir(home.folder.path().join(folder)).output().unwrap())
}

fn last(run: &Run) -> serde_json::Value {
    run.json().pop().unwrap()
}

#[test]
fn verbs_of_checkpoint_work_alone_and_by_their_names_elsewhere() {
    let (home, id) = work();
    assert_eq!(id.len(), 26, "-q prints the id alone: {id}");
    for args in [&["snapshots"][..], &["list"], &["show", &id], &["checkpoint", "snapshots"]] {
        assert!(home.run(args).expect(0).out.contains(&id), "{args:?}");
    }
    assert_eq!(home.run(&["ls", "latest"]).expect(0).out, "a\n");
    assert_eq!(home.run(&["cat", "latest:a"]).expect(0).out, "one\n");
    home.run(&["restore", "latest", "--target", "copy"]).expect(0);
    assert_eq!(fs::read(home.folder.path().join("copy/a")).unwrap(), b"one\n");
    assert!(home.run(&["forget", &id, "--dry-run"]).expect(0).out.starts_with(&format!("Would delete {id}")));
    assert!(home.run(&["undo"]).expect(4).err.contains("was rolled back"));
    home.run(&["rm", &id]).expect(0);
    home.run(&["show", &id]).expect(10);
}

#[test]
fn help_names_each_verb_once() {
    let home = Home::new();
    for args in [&["help"][..], &["--help"]] {
        let help = home.run(args).expect(0).out;
        assert!(help.contains("\n  checkpoint ") && help.contains("\n  status "), "{help}");
        assert!(help.matches("\n  restore ").count() == 1 && help.contains("\n  init "), "{help}");
        assert!(help.contains("`backup` is `create`, `snapshots` is `list`"), "{help}");
    }
    assert!(home.run(&["help", "checkpoint", "diff"]).expect(0).out.contains("Compare two checkpoints"));
    assert!(home.run(&["diff", "--help"]).expect(0).out.contains("Usage: parhelia diff"));
}

#[test]
fn init_makes_a_store_and_says_where_nobody_needs_it() {
    let home = Home::without_store();
    let run = home.run(&["init"]).expect(0);
    assert!(run.out.starts_with("Made a store at ") && !run.out.contains("No init is needed"), "{run:?}");
    let run = Run::of(home.command(&["init"]).env_remove("PARHELIA_STORE").output().unwrap()).expect(0);
    assert!(run.out.starts_with("Made a store at ") && run.out.contains("No init is needed"), "{run:?}");
    home.run(&["list"]).expect(0);
    assert_eq!(last(&home.run(&["init", "--json"]).expect(0))["created"], false);
    let other = home.folder.path().join("other");
    home.run(&["init", "--store", other.to_str().unwrap()]).expect(0);
    assert!(other.join("store.json").is_file());
}

#[test]
fn words_of_other_tools_are_answered_with_what_to_type() {
    let home = Home::new();
    for (word, answer) in [
        ("prune", "parhelia gc"),
        ("commit", "parhelia checkpoint create"),
        ("checkout", "parhelia restore CHECKPOINT --to DIR"),
        ("unlock", "nothing to unlock"),
        ("resume", "parhelia session resume"),
    ] {
        let run = home.run(&[word]).expect(2);
        assert!(run.err.contains(answer), "{word}: {run:?}");
    }
    let run = home.run(&["snapshto"]).expect(2);
    assert!(run.err.contains("'snapshots'"), "{run:?}");
    let run = home.run(&["checkpoint", "unmake"]).expect(2);
    assert!(!run.err.contains("similar"), "{run:?}");
    let run = home.run(&["checkpoint", "list", "--target", "x"]).expect(2);
    assert!(!run.err.contains("--store"), "{run:?}");
    let run = home.run(&["checkpoint", "create", "--excldue", "x"]).expect(2);
    assert!(run.err.contains("'--exclude'"), "{run:?}");
}

#[test]
fn usage_lines_name_no_flag_that_the_environment_sets() {
    let home = Home::new();
    for args in [&["checkpoint", "cat"][..], &["restore"], &["export", "--nonsense"]] {
        let run = home.run(args).expect(2);
        assert!(run.err.contains("Usage: parhelia ") && !run.err.contains("--store"), "{run:?}");
    }
}

#[test]
fn a_diff_of_one_checkpoint_is_with_its_folder() {
    let (home, id) = work();
    fs::write(home.folder.path().join("work/b"), "new\n").unwrap();
    fs::write(home.folder.path().join("work/a"), "two\n").unwrap();
    for (folder, args) in [
        (".", &["diff", &*id][..]),
        ("work", &["diff"]),
        ("work", &["diff", "latest"]),
        ("work", &["diff", "latest", "."]),
        (".", &["diff", "latest", "./work"]),
        (".", &["checkpoint", "diff", "latest", "--workspace", "work"]),
    ] {
        let run = run_in(&home, folder, args).expect(0);
        assert!(run.out.starts_with("M a\nA b\n1 added"), "{args:?}: {run:?}");
        let summary = last(&run_in(&home, folder, &[args, &["--json"]].concat()).expect(0));
        assert!(summary["workspace"].as_str().unwrap().ends_with("/work") && summary["new"].is_null(), "{summary}");
    }
    let run = home.run(&["diff", "latest", "--file", "a"]).expect(0);
    assert!(run.out.contains("-one\n+two\n"), "{run:?}");
    home.run(&["diff", "latest", "--conversation"]).expect(2);
    home.run(&["diff", "latest", "./nowhere"]).expect(10);
    fs::remove_dir_all(home.folder.path().join("work")).unwrap();
    let run = home.run(&["diff", &id]).expect(10);
    assert!(run.err.contains("is not there") && run.err.contains("--workspace DIR"), "{run:?}");
}

#[test]
fn two_checkpoints_of_a_folder_without_an_agent_say_nothing_of_agents() {
    let (home, id) = work();
    fs::write(home.folder.path().join("work/a"), "two\n").unwrap();
    run_in(&home, "work", &["backup", "-m", "second"]).expect(0);
    let run = home.run(&["diff", &id, "latest"]).expect(0);
    assert!(run.out.contains("M a") && !run.out.contains("Environment") && !run.out.contains("Approval"), "{run:?}");
    let run = run_in(&home, "work", &["rollback", &id, "--yes"]).expect(0);
    assert!(run.out.contains("Rolled back") && !run.out.contains("session resume"), "{run:?}");
}

#[test]
fn show_takes_a_session_too() {
    let (home, id) = work();
    let session = home.run(&["show", &id, "--json"]).expect(0).json()[0]["session_id"].clone();
    let session = session.as_str().map_or_else(
        || last(&home.run(&["backup", "-w", "work", "--json"]))["session"].as_str().unwrap().to_owned(),
        str::to_owned,
    );
    let run = home.run(&["show", &session]).expect(0);
    assert!(run.out.starts_with("Session ") && run.out.contains("Checkpoints"), "{run:?}");
    assert!(home.run(&["show", "nobody"]).expect(10).err.contains("no checkpoint matches 'nobody'"));
}

#[test]
fn a_path_in_a_checkpoint_may_be_the_whole_one() {
    let (home, _) = work();
    let path = home.folder.path().join("work/a").canonicalize().unwrap();
    let place = format!("latest:{}", path.display());
    assert_eq!(home.run(&["cat", &place]).expect(0).out, "one\n");
    assert_eq!(home.run(&["ls", &place]).expect(0).out, "a\n");
    home.run(&["restore", &place, "--to", "b"]).expect(0);
    assert_eq!(fs::read(home.folder.path().join("b")).unwrap(), b"one\n");
}

#[test]
fn one_file_goes_into_the_folder_that_is_named() {
    let (home, _) = work();
    fs::create_dir(home.folder.path().join("empty")).unwrap();
    for to in ["empty", "new/", "deeper/new/"] {
        let run = home.run(&["restore", "latest:a", "--to", to, "--dry-run"]).expect(0);
        assert!(run.out.contains(": 1 file, 4 B"), "{to}: {run:?}");
        assert!(to == "empty" || !home.folder.path().join(to).exists(), "a dry run makes nothing");
        home.run(&["restore", "latest:a", "--to", to]).expect(0);
        assert_eq!(fs::read(home.folder.path().join(to).join("a")).unwrap(), b"one\n", "{to}");
    }
    home.run(&["restore", "latest:a", "--to", "name"]).expect(0);
    assert_eq!(fs::read(home.folder.path().join("name")).unwrap(), b"one\n");
}

#[test]
fn a_dry_run_of_create_says_what_would_be_captured_and_writes_nothing() {
    let home = Home::new();
    let at = |name: &str| home.folder.path().join("work").join(name);
    fs::create_dir_all(at("x")).unwrap();
    fs::write(at("a"), "one\n").unwrap();
    fs::write(at("x/log"), "noise").unwrap();
    let args = ["create", "-w", "work", "--exclude", "*og", "--dry-run"];
    let run = Run::of(home.command(&args).env_remove("PARHELIA_STORE").output().unwrap()).expect(0);
    assert!(run.out.contains("Would capture 1 file, 4 B") && run.out.contains("first checkpoint"), "{run:?}");
    assert!(run.out.contains("Would leave out 1 entry:\n  x/log: excluded"), "{run:?}");
    assert!(!home.folder.path().join(".local/share/parhelia").exists());
    let id = home.run(&["create", "-w", "work", "-q"]).expect(0).out.trim().to_owned();
    fs::write(at("a"), "two!\n").unwrap();
    fs::remove_file(at("x/log")).unwrap();
    let run = home.run(&["create", "-w", "work", "-n"]).expect(0);
    assert!(run.out.contains(&format!("Changed since checkpoint {id}: 1 modified, 1 deleted.\n  M a\n  D x/log\n")), "{run:?}");
    let summary = last(&home.run(&["create", "-w", "work", "-n", "--json"]).expect(0));
    assert_eq!(
        (summary["files"].as_u64(), summary["modified"].as_u64(), summary["parent"].as_str()),
        (Some(1), Some(1), Some(&*id))
    );
    assert_eq!(last(&home.run(&["list", "--json"]).expect(0))["checkpoints"], 1);
}

#[test]
fn a_folder_that_is_given_is_captured_and_so_are_several() {
    let (home, _) = work();
    let path = home.folder.path().join("work").canonicalize().unwrap();
    for name in [path.to_str().unwrap(), "work", "./work", "work/"] {
        let made = last(&home.run(&["backup", name, "--json"]).expect(0));
        assert_eq!(made["workspace"], path.to_str().unwrap(), "{name}");
    }
    let at = |name: &str| home.folder.path().join(name);
    fs::create_dir_all(at("secret")).unwrap();
    fs::write(at("secret/s"), "s").unwrap();
    let run = home.run(&["-q", "backup", "work", "secret"]).expect(0);
    assert_eq!(run.out.lines().count(), 2, "{run:?}");
    assert_eq!(home.run(&["ls", "secret@latest"]).expect(0).out, "s\n", "a new session has the folder's name");
    let lines = home.run(&["--json", "backup", "work", "secret"]).expect(0).json();
    let folders: Vec<_> = lines.iter().filter(|line| line["type"] == "summary").map(|line| &line["workspace"]).collect();
    assert_eq!(folders, [path.to_str().unwrap(), path.with_file_name("secret").to_str().unwrap()]);
    let run = home.run(&["backup", "work", "nothing"]).expect(2);
    assert!(run.err.contains("nothing is no folder"), "{run:?}");
    assert!(home.run(&["backup", "./nothing"]).expect(10).err.contains("./nothing"));
    // What cannot be captured keeps nothing else from it.
    let run = home.run(&["-q", "backup", "store", "work"]).expect(2);
    assert!(run.out.lines().count() == 1 && run.err.contains("is the store"), "{run:?}");
}

#[test]
fn a_session_has_its_folders_name() {
    let (home, _) = work();
    let made = last(&home.run(&["create", "work", "-w", "work", "--json"]).expect(0));
    assert_eq!(
        last(&home.run(&["create", "work", "--json"]).expect(0))["parent"],
        made["id"],
        "the folder's own session goes on"
    );
}

#[test]
fn what_is_no_folder_captures_another_one_only_where_that_is_said() {
    let (home, _) = work();
    let at = |name: &str| home.folder.path().join(name);
    fs::create_dir(at("documents")).unwrap();
    fs::write(at("notes.txt"), "n").unwrap();
    std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
    let number = || last(&home.run(&["list", "--json", "-n", "1000"]).expect(0))["checkpoints"].clone();
    let before = number();
    for (name, answers) in [
        ("notes.txt", &["is a file", "--files-from -", "create notes.txt --workspace ."][..]),
        ("dangling", &["is a file"]),
        ("documnets", &["did you mean the folder documents?", "create documnets --workspace ."]),
        ("Documents", &["did you mean the folder documents?"]),
    ] {
        for verb in ["backup", "create"] {
            let run = home.run(&["-q", verb, name]).expect(2);
            assert!(answers.iter().all(|answer| run.err.contains(answer)), "{name}: {run:?}");
        }
    }
    assert_eq!(number(), before, "nothing was captured");
    // Meant, it is said once, and then known.
    home.run(&["create", "notes.txt", "-w", "."]).expect(0);
    home.run(&["create", "notes.txt"]).expect(0);
    let run = home.run(&["create", "notes.tx"]).expect(2);
    assert!(run.err.contains("did you mean the session notes.txt?"), "{run:?}");
    home.run(&["create", "release-1", "-w", "."]).expect(0);
    home.run(&["create", "release-2"]).expect(0);
}

#[test]
fn restore_starts_no_agent_and_says_what_does() {
    let (home, id) = work();
    let run = home.run(&["restore", &id]).expect(2);
    assert!(run.err.contains("give --to DIR\n") && run.err.contains(&format!("`parhelia checkpoint rollback {id}`")), "{run:?}");
    assert!(!run.err.contains("session resume"), "no agent works there: {run:?}");
    home.run(&["session", "run", "-w", "work", "--name", "agents", "--", "true"]).expect(0);
    let run = home.run(&["restore", "agents@latest"]).expect(2);
    assert!(run.err.contains("session resume") && run.err.contains("--from"), "{run:?}");
    home.run(&["restore", &id, "--yes"]).expect(2);
}

#[test]
fn status_is_of_this_folder() {
    let (home, id) = work();
    let run = run_in(&home, "work", &["status"]).expect(0);
    assert!(
        run.out.contains(&format!("Last checkpoint of {}", home.folder.path().canonicalize().unwrap().join("work").display()))
    );
    assert!(run.out.contains(&id) && run.out.contains("Nothing has changed since."), "{run:?}");
    assert!(!run.out.contains("Session "), "no agent works there: {run:?}");
    fs::write(home.folder.path().join("work/b"), "").unwrap();
    let run = run_in(&home, "work", &["status"]).expect(0);
    assert!(run.out.contains("Changed since: 1 added\n  A b\n"), "{run:?}");
    fs::create_dir(home.folder.path().join("elsewhere")).unwrap();
    let run = run_in(&home, "elsewhere", &["status"]).expect(0);
    assert!(run.out.contains("has no checkpoint yet; `parhelia checkpoint create` makes one"), "{run:?}");
    let run = run_in(&home, "work", &["status", "--json"]).expect(0);
    let summary = last(&run);
    assert_eq!((summary["checkpoint"]["id"].as_str(), summary["added"].as_u64()), (Some(&*id), Some(1)));
    home.run(&["session", "run", "-w", "work", "--name", "agents", "--", "true"]).expect(0);
    let run = run_in(&home, "work", &["status"]).expect(0);
    assert!(run.out.starts_with("Session work-"), "{run:?}");
}

#[test]
fn status_without_a_store_says_how_to_begin() {
    let home = Home::new();
    let run = Run::of(home.command(&["status"]).env_remove("PARHELIA_STORE").output().unwrap()).expect(0);
    assert!(run.out.contains("has no checkpoint yet"), "{run:?}");
    assert!(!home.folder.path().join(".local").exists());
}

#[test]
fn lists_and_the_log_are_cut_by_number_and_by_time() {
    let (home, id) = work();
    run_in(&home, "work", &["backup", "-m", "second"]).expect(0);
    assert_eq!(last(&home.run(&["list", "--since", "1h", "--json"]).expect(0))["checkpoints"], 2);
    assert_eq!(last(&home.run(&["list", "--since", "2999-01-01", "--json"]).expect(0))["checkpoints"], 0);
    assert!(
        home.run(&["list", "--since", "2999-01-01"]).expect(0).out.starts_with("No checkpoints since 2999-01-01 00:00:00 in ")
    );
    let run = home.run(&["list", "--since", "whenever"]).expect(2);
    assert!(run.err.contains("give a time such as"), "{run:?}");
    let run = home.run(&["log", "-n", "1", "--kind", "checkpoint.created"]).expect(0);
    assert!(run.out.lines().count() == 1 && run.out.contains("second") && !run.out.contains(&id), "{run:?}");
    assert_eq!(home.run(&["log", "--since", "2999-01-01"]).expect(0).out, "");
    assert_eq!(last(&home.run(&["session", "list", "-n", "0", "--json"]).expect(0))["sessions"], 0);
}

#[test]
fn the_last_few_of_a_log_are_those_of_all_wherever_the_journal_was_split() {
    let (home, id) = work();
    let tag = |text: &str| home.run(&["tag", &id, text]).expect(0);
    let untag = |text: &str| home.run(&["untag", &id, text]).expect(0);
    tag("a");
    untag("a");
    // A segment ends behind eight MiB.
    let event = NewEvent::new("test.large", "x", Actor::default()).with("text", "x".repeat(9 << 20));
    Store::open(&home.store(), &OpenOptions::default()).unwrap().append_events(&[event], &()).unwrap();
    tag("b");
    untag("b");
    run_in(&home, "work", &["backup", "-m", "second"]).expect(0);
    assert!(fs::read_dir(home.store().join("journal")).unwrap().count() >= 3, "two segments and a hint");
    let lines = |args: &[&str]| {
        let mut lines = home.run(&[args, &["--json"]].concat()).expect(0).json();
        lines.pop();
        lines
    };
    let session = lines(&["list"])[0]["session"].as_str().unwrap().to_owned();
    for filter in [&[][..], &["--kind", "checkpoint."], &["--session", &session], &["--since", "1h"], &["--after", "3"]] {
        for verb in [&["log"][..], &["audit", "log"]] {
            if verb.len() > 1 && filter.iter().any(|word| ["--kind", "--after"].contains(word)) {
                continue;
            }
            let all = lines(&[verb, filter].concat());
            assert!(all.len() > 1, "{verb:?} {filter:?}");
            for n in 0..=all.len() + 1 {
                let shown = lines(&[verb, filter, &["-n", &n.to_string()]].concat());
                assert_eq!(shown, all[all.len().saturating_sub(n)..], "{verb:?} {filter:?} -n {n}");
            }
        }
    }
}

#[test]
fn the_log_is_followed_until_ctrl_c() {
    use std::{
        io::{BufRead, BufReader},
        process::Stdio,
    };
    let (home, id) = work();
    let mut follow =
        home.command(&["log", "--follow", "-n", "1", "--kind", "checkpoint.created"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains(&id));
    run_in(&home, "work", &["backup", "-m", "second"]).expect(0);
    assert!(lines.next().unwrap().unwrap().contains("second"));
    rustix::process::kill_process(rustix::process::Pid::from_child(&follow), rustix::process::Signal::INT).unwrap();
    assert_eq!(follow.wait().unwrap().code(), Some(0));
}

/// A session whose program sleeps, and the process that waits for it.
fn sleeping(home: &Home) -> std::process::Child {
    let mut child = home.command(&["session", "run", "-w", "work", "--name", "busy", "--", "sleep", "600"]).spawn().unwrap();
    for _ in 0..1200 {
        let run = home.run(&["session", "show", "busy", "--json"]);
        if run.code == 0 && run.json()[0]["observed"] == "live" {
            return child;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    child.kill().and_then(|()| child.wait()).unwrap();
    panic!("the session does not start");
}

fn busy(home: &Home) -> serde_json::Value {
    home.run(&["session", "show", "busy", "--json"]).expect(0).json()[0].clone()
}

#[test]
fn stop_keeps_what_was_done_last_also_where_nobody_waits_for_the_agent() {
    let (home, _) = work();
    let mut child = sleeping(&home);
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::write(home.folder.path().join("work/late"), "late").unwrap();
    let run = home.run(&["session", "stop", "busy"]).expect(0);
    assert!(run.out.contains("has ended. The session is set aside"), "{run:?}");
    let id = busy(&home)["id"].as_str().unwrap().to_owned();
    assert!(home.run(&["ls", &format!("{id}@latest")]).expect(0).out.contains("late"));
    // It stays as the last one of its agent, and is not thinned as periodic ones are.
    let newest = home.run(&["show", &format!("{id}@latest"), "--json"]).expect(0).json()[0].clone();
    assert_eq!((newest["trigger"].as_str(), newest["trigger_detail"].as_str()), (Some("shutdown"), Some("stop")), "{newest}");
    let refused = home.run(&["session", "stop", "work"]);
    assert!(refused.code != 0 && !refused.out.contains("set aside"), "{refused:?}");
}

#[test]
fn stop_leaves_a_last_checkpoint_though_nothing_has_changed() {
    let (home, _) = work();
    let mut child = sleeping(&home);
    child.kill().unwrap();
    child.wait().unwrap();
    home.run(&["create", "busy", "-w", "work", "--trigger", "periodic"]).expect(0);
    home.run(&["session", "stop", "busy"]).expect(0);
    let listed = home.run(&["list", busy(&home)["id"].as_str().unwrap(), "--json"]).expect(0).json();
    assert_eq!(
        (listed[0]["trigger"].as_str(), listed[1]["trigger"].as_str()),
        (Some("shutdown"), Some("periodic")),
        "{listed:?}"
    );
}

#[test]
fn stop_ends_the_agent_and_says_what_is_wanted() {
    let (home, _) = work();
    let mut child = sleeping(&home);
    let refused = home.run(&["session", "end", "busy"]).expect(4);
    assert!(refused.err.contains("is alive; `parhelia session stop ") && refused.err.contains("--leave-agent"), "{refused:?}");
    let run = home.run(&["session", "attach", "busy"]).expect(4);
    assert!(run.err.contains("is not in tmux"), "{run:?}");
    let run = home.run(&["session", "stop", "busy", "--keep-wanted"]).expect(0);
    assert!(run.out.contains("has ended. The session is still wanted"), "{run:?}");
    child.wait().unwrap();
    // That is no failure of the agent's.
    let listed = home.run(&["list", busy(&home)["id"].as_str().unwrap(), "--json"]).expect(0).out;
    assert!(listed.contains("\"trigger\"") && !listed.contains("\"trigger\":\"error\""), "{listed}");
    assert_eq!((busy(&home)["observed"].as_str(), busy(&home)["wanted"].as_str()), (Some("dead"), Some("running")));
    let run = home.run(&["session", "stop", "busy"]).expect(0);
    assert!(run.out.contains("was not alive. The session is set aside"), "{run:?}");
    assert_eq!(busy(&home)["wanted"], "paused");
    let run = home.run(&["session", "attach", "busy"]).expect(4);
    assert!(run.err.contains("it has no live agent\n"), "{run:?}");
}

#[test]
fn an_agent_that_was_left_alone_at_the_end_can_be_stopped() {
    let (home, _) = work();
    let mut child = sleeping(&home);
    home.run(&["session", "end", "busy", "--leave-agent"]).expect(0);
    let run = home.run(&["session", "stop", "busy"]).expect(0);
    assert!(run.out.contains("has ended, as the session had before"), "{run:?}");
    child.wait().unwrap();
    assert_eq!(busy(&home)["status"], "ended");
    let run = home.run(&["session", "stop", "busy"]).expect(4);
    assert!(run.err.contains("no agent of it is alive"), "{run:?}");
}

#[test]
fn pause_makes_a_checkpoint_and_ends_the_agent_unless_it_is_to_be_left() {
    let (home, _) = work();
    let mut child = sleeping(&home);
    fs::write(home.folder.path().join("work/a"), "later\n").unwrap();
    let left = home.run(&["session", "pause", "busy", "--leave-agent"]).expect(0);
    assert!(left.out.contains("was left alone") && busy(&home)["observed"] == "live", "{left:?}");
    let run = home.run(&["session", "pause", "busy", "--json"]).expect(0);
    let summary = last(&run);
    assert_eq!((summary["status"].as_str(), summary["alive"].as_bool()), (Some("paused"), Some(false)));
    child.wait().unwrap();
    assert_eq!((busy(&home)["observed"].as_str(), busy(&home)["wanted"].as_str()), (Some("dead"), Some("paused")));
    assert_eq!(home.run(&["cat", &format!("{}:a", summary["checkpoint"].as_str().unwrap())]).expect(0).out, "later\n");
}

#[test]
fn an_agents_output_is_not_among_the_objects() {
    let home = Home::new();
    let run = home.run(&["session", "run", "--name", "it", "--json", "--", "sh", "-c", "echo hello; exit 3"]);
    let lines = run.json();
    assert_eq!((run.code, lines.len(), lines[0]["type"].as_str()), (3, 2, Some("started")), "{run:?}");
    assert!(run.err.contains("hello") && !run.out.contains("hello"), "{run:?}");
    let summary = &lines[1];
    assert_eq!((&summary["verb"], &summary["exit_code"]), (&"session run".into(), &3.into()));
    assert_eq!((&summary["id"], &summary["run"]), (&lines[0]["session"], &lines[0]["run"]));

    let again = home.run(&["session", "resume", "it", "--yes", "--json"]);
    let lines = again.json();
    assert_eq!((again.code, lines.last().unwrap()["exit_code"].as_u64()), (3, Some(3)), "{again:?}");
    let described = home.run(&["session", "recover", "it", "--end", "--json"]).expect(0).json();
    assert_eq!((described[0]["type"].as_str(), described[1]["verb"].as_str()), (Some("recovery"), Some("session end")));
}

#[test]
fn a_restore_says_whether_it_changes_a_folder_that_is_there() {
    let (home, id) = work();
    let last = |args: &[&str]| home.run(args).expect(0).json().pop().unwrap();
    let planned = last(&["restore", &id, "--to", "new", "--dry-run", "--json"]);
    assert_eq!((&planned["dry_run"], &planned["in_place"]), (&true.into(), &false.into()), "{planned}");
    let done = last(&["restore", &id, "--to", "work", "--in-place", "--json"]);
    assert_eq!((&done["dry_run"], &done["in_place"]), (&false.into(), &true.into()), "{done}");
}
