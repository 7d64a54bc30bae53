//! Restores in place: of which folder they may be, whom they say they disturb, and what becomes of hard links.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Stdio,
};

use parhelia_tests::{Scratch, files_in, live::wait, noise, write};
use serde_json::{Value, json};

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn inode(path: PathBuf) -> u64 {
    fs::metadata(path).unwrap().ino()
}

#[test]
fn another_folders_checkpoint_overwrites_nothing_inside_a_sessions_folder_either() {
    let s = Scratch::new();
    let (a, b) = (s.path("a"), s.path("b"));
    for (path, content) in [("a/work", "of a"), ("a/sub/work", "deep in a"), ("b/work", "of b"), ("b/sub/work", "deep in b")] {
        write(&s.path(path), content.as_bytes()).unwrap();
    }
    let (of_a, of_b) = (s.create("a", &a), s.create("b", &b));
    let (before, sub) = (files_in(&a), a.join("sub"));
    let parts = [(of_b.clone(), text(&sub)), (format!("{of_b}:sub"), text(&sub)), (format!("{of_b}:work"), text(&sub))];
    for (what, to) in &parts {
        for more in [&[][..], &["-n"], &["--no-safety"]] {
            let said = s.expect(4, &[&["checkpoint", "restore", what, "--to", to, "--in-place"], more].concat());
            assert!(said.contains("session b") && said.contains("--other-folder"), "{said}");
            let place = format!("the folder of session a, {}", text(&a));
            assert!(said.contains(&place) && said.contains("a@latest:sub"), "{said}");
        }
    }
    assert_eq!(files_in(&a), before);
    // One file, into the folder itself.
    let file = format!("{of_b}:work");
    assert!(s.expect(4, &["checkpoint", "restore", &file, "--to", &text(&a), "--in-place"]).contains("a@latest:work"));
    // Where nothing is overwritten, nothing is refused.
    s.expect(0, &["checkpoint", "restore", &format!("{of_b}:sub"), "--to", &text(&a.join("copy")), "--in-place"]);
    fs::remove_dir_all(a.join("copy")).unwrap();
    let done = s.summary(&["checkpoint", "restore", &parts[1].0, "--to", &parts[1].1, "--in-place", "--other-folder"]);
    assert_eq!(
        (done["safeties"][0]["session"].as_str(), fs::read(sub.join("work")).unwrap()),
        (Some("a"), b"deep in b".to_vec())
    );
    // Of its own folder, anything may be put anywhere.
    s.expect(0, &["checkpoint", "restore", &format!("{of_a}:work"), "--to", &text(&sub), "--in-place"]);
    assert_eq!(fs::read(sub.join("work")).unwrap(), b"of a");
    // What was captured at this very place belongs there, also where the folder has got a session of its own.
    let of_sub = s.create("inner", &sub);
    s.expect(0, &["checkpoint", "restore", &format!("{of_a}:sub"), "--to", &text(&sub), "--in-place"]);
    assert_eq!(fs::read(sub.join("work")).unwrap(), b"deep in a");
    s.expect(4, &["checkpoint", "restore", &of_a, "--to", &text(&sub), "--in-place"]);
    s.expect(0, &["checkpoint", "restore", &of_sub, "--to", &text(&sub), "--in-place"]);
    assert_eq!(fs::read(sub.join("work")).unwrap(), b"of a");
}

#[test]
fn a_live_agent_whose_files_are_overwritten_is_named() {
    let s = Scratch::new();
    let work = s.path("work");
    write(&work.join("sub/file"), b"then").unwrap();
    let arguments = ["session", "run", "--name", "live", "--workspace", &text(&work), "--", "sleep", "100000"];
    let mut supervisor = s.command(&arguments).stderr(Stdio::null()).spawn().unwrap();
    let (session, process) = wait(|| {
        let shown = String::from_utf8_lossy(&s.run(&["session", "show", "live", "--json"]).stdout).into_owned();
        let lines: Vec<Value> = shown.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let run = lines.iter().find(|line| line["type"] == "run")?;
        Some((run["session"].as_str()?.to_owned(), run["pid"].as_i64()?))
    });
    let first = s.create("live", &work);
    let sub = text(&work.join("sub"));
    let restore = ["checkpoint", "restore", &format!("{first}:sub"), "--to", &sub, "--in-place"].map(str::to_owned);
    // Where nothing of it is overwritten, there is nothing to say.
    assert_eq!(s.summary(&restore)["live_agents"], json!([]));
    let named = format!("the agent of session {session} is alive (process {process}) in {}", text(&work));
    let agents = json!([{ "session": session, "process": process, "host": null, "workspace": text(&work) }]);
    for more in [&["-n"][..], &[], &["--no-safety"]] {
        let all: Vec<String> = restore.iter().cloned().chain(more.iter().map(|flag| (*flag).to_owned())).collect();
        fs::write(work.join("sub/file"), "now").unwrap();
        let said = s.expect(0, &all);
        assert!(said.contains(&named) && said.contains("not told"), "{said}");
        fs::write(work.join("sub/file"), "now").unwrap();
        assert_eq!(s.summary(&all)["live_agents"], agents, "{more:?}");
    }
    assert_eq!(fs::read(work.join("sub/file")).unwrap(), b"then");
    let pid = rustix::process::Pid::from_raw(supervisor.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    supervisor.wait().unwrap();
    fs::write(work.join("sub/file"), "now").unwrap();
    assert!(!s.expect(0, &restore).contains("alive"));
}

#[test]
fn of_a_hard_link_that_is_parted_the_restored_name_is_named() {
    let s = Scratch::new();
    let work = s.path("work");
    write(&work.join("a/x"), b"joined").unwrap();
    fs::create_dir(work.join("b")).unwrap();
    fs::hard_link(work.join("a/x"), work.join("b/y")).unwrap();
    let id = s.create("s", &work);
    let part = format!("{id}:a");
    let said = s.expect(0, &["checkpoint", "restore", &part, "--to", &text(&s.path("out"))]);
    assert!(said.contains("a/x: its other name in the checkpoint lies outside of what was restored (b/y)"), "{said}");
    let done = s.summary(&["checkpoint", "restore", &part, "--to", &text(&s.path("again"))]);
    assert_eq!(done["parted"], json!([{ "names": ["a/x"], "outside": ["b/y"] }]));
    // One that stays as it is stays linked.
    write(&work.join("a/other"), b"later").unwrap();
    let said = s.expect(0, &["checkpoint", "restore", &part, "--to", &text(&work.join("a")), "--in-place", "--delete"]);
    assert!(!said.contains("other name"), "{said}");
    assert_eq!(inode(work.join("a/x")), inode(work.join("b/y")));
}

#[test]
fn a_whole_restore_beside_one_of_a_folder_inside_loses_no_hard_link() {
    let s = Scratch::new();
    let work = s.path("work");
    fs::create_dir_all(work.join("b")).unwrap();
    for i in 0..400 {
        write(&work.join(format!("a/f{i}")), &noise(200, i)).unwrap();
        fs::hard_link(work.join(format!("a/f{i}")), work.join(format!("b/f{i}"))).unwrap();
    }
    let id = s.create("s", &work);
    for round in 0..12 {
        let (out, part) = (s.path("out"), ["a", "b"][round / 2 % 2]);
        fs::create_dir(&out).unwrap();
        // Not empty, so that it is changed and not replaced.
        fs::write(out.join("mine"), "mine").unwrap();
        let whole = ["checkpoint", "restore", &id, "--quiet", "--in-place", "--to", &text(&out)].map(str::to_owned).to_vec();
        let inside = ["checkpoint", "restore", &format!("{id}:{part}"), "--quiet", "--to", &text(&out.join(part))]
            .map(str::to_owned)
            .to_vec();
        // Each is the first at times.
        let (first, second) = if round % 2 == 0 { (&whole, &inside) } else { (&inside, &whole) };
        let mut first_of_two = s.command(first).stderr(Stdio::null()).spawn().unwrap();
        let output = s.run(second);
        let first_code = first_of_two.wait().unwrap().code();
        let code = if round % 2 == 0 { first_code } else { output.status.code() };
        assert_eq!(code, Some(0), "round {round}: {}", String::from_utf8_lossy(&output.stderr));
        for i in 0..400 {
            let [one, other] = ["a", "b"].map(|folder| inode(out.join(format!("{folder}/f{i}"))));
            assert_eq!(one, other, "round {round}: f{i}");
        }
        assert_eq!(fs::read_dir(&out).unwrap().count(), 3, "nothing is left behind");
        fs::remove_dir_all(&out).unwrap();
    }
}
