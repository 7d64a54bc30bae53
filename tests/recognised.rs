//! Folders that sessions work in are recognised by what they are, whatever path leads to them. Real mounts, and so root.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use parhelia_tests::{
    Scratch,
    filesystems::{Mountpoint, in_memory, system, text},
    live::wait,
    noise, write, write_program,
};
use serde_json::{Value, json};

/// A session with an agent that lives until this is dropped.
struct Live(Child);

impl Live {
    fn start(s: &Scratch, name: &str, workspace: &Path) -> Self {
        let arguments = ["session", "run", "--name", name, "--workspace", &text(workspace), "--", "sleep", "100000"];
        let child = s.command(&arguments).stderr(Stdio::null()).spawn().unwrap();
        wait(|| shown(s, name).iter().any(|line| line["type"] == "run" && line["pid"].is_u64()).then_some(()));
        Live(child)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        system("kill", &["-TERM", &self.0.id().to_string()]);
        self.0.wait().unwrap();
    }
}

fn shown(s: &Scratch, session: &str) -> Vec<Value> {
    let output = s.run(&["session", "show", session, "--json"]);
    String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn restore(what: &str, to: &Path, more: &[&str]) -> Vec<String> {
    let to = text(to);
    let all = [&["checkpoint", "restore", what, "--to", &to, "--in-place"], more].concat();
    all.into_iter().map(str::to_owned).collect()
}

/// A scratch folder with these files, and a checkpoint of its folder `o`.
fn with(files: &[&str]) -> (Scratch, String) {
    let s = Scratch::new();
    for path in files {
        let content = if path.starts_with("o/") { "of another folder" } else { "exists nowhere else" };
        write(&s.path(path), content.as_bytes()).unwrap();
    }
    let id = s.create("o", &s.path("o"));
    (s, id)
}

fn read(path: PathBuf) -> String {
    fs::read_to_string(path).unwrap()
}

/// Runs a program in a session, none of whose checkpoints can be made: no pack may be as large as a file in the workspace is.
fn run_without_checkpoints(s: &Scratch, name: &str, program: &[&str]) {
    let folder = s.path(name);
    write(&folder.join("large"), &noise(4 << 20, 1)).unwrap();
    let ours = s.command(&[&["session", "run", "--name", name, "--workspace", &text(&folder), "--"], program].concat());
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 4000; exec \"$@\"", "sh"]).arg(ours.get_program()).args(ours.get_args());
    limited.env_clear().envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = limited.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no checkpoint was made"), "{said}");
    let session = &shown(s, name)[0];
    assert_eq!((&session["status"], &session["totals"]["checkpoints"]), (&json!("error"), &json!(0)), "{session}");
}

#[test]
fn a_session_that_never_ran_keeps_nobody_from_its_folder() {
    let (s, id) = with(&["o/f", "w/f"]);
    // That an interpreter is not there is known only when it is started.
    write_program(&s.path("w/script"), "#!/no/such/interpreter\n");
    run_without_checkpoints(&s, "w", &["./script"]);
    assert!(s.expect(4, &restore(&id, &s.path("w"), &[])).contains("no session works in "));
    s.expect(0, &restore(&id, &s.path("w"), &["--other-folder"]));
    assert_eq!(read(s.path("w/f")), "of another folder");
}

#[test]
fn a_session_whose_agent_has_worked_keeps_its_folder_also_where_no_checkpoint_could_be_made() {
    let (s, id) = with(&["o/f", "w/f"]);
    run_without_checkpoints(&s, "w", &["sh", "-c", "echo hours > f; exit 1"]);
    let said = s.expect(4, &restore(&id, &s.path("w"), &[]));
    assert!(said.contains("--other-folder"), "{said}");
    assert_eq!(read(s.path("w/f")), "hours\n");
}

#[test]
fn a_folder_below_the_target_is_its_sessions_through_a_bind_mount_too() {
    let (s, id) = with(&["o/w/f", "o/w/sub/f", "p/w/f", "p/w/sub/f", "x/mounted", "y/mounted"]);
    let (work, x, y) = (s.path("p/w"), s.path("x"), s.path("y"));
    s.create("first", &work);
    let live = Live::start(&s, "live", &work);
    system("mount", &["--bind", &text(&s.path("p")), &text(&x)]);
    let _x = Mountpoint::of(&x);
    system("mount", &["--bind", &text(&work.join("sub")), &text(&y)]);
    let _y = Mountpoint::of(&y);
    let sub = format!("{id}:w/sub");
    for (what, to) in [(&id, &x), (&sub, &y)] {
        for more in [&[][..], &["-n"], &["--no-safety"]] {
            let said = s.expect(4, &restore(what, to, more));
            assert!(said.contains("--other-folder"), "{said}");
        }
    }
    assert_eq!((read(work.join("f")), read(work.join("sub/f"))), ("exists nowhere else".into(), "exists nowhere else".into()));
    for (what, to, file) in [(&sub, &y, "sub/f"), (&id, &x, "f")] {
        let done = s.summary(&restore(what, to, &["--other-folder"]));
        assert_eq!(read(work.join(file)), "of another folder");
        assert_eq!(done["live_agents"].as_array().unwrap().len(), 1, "{done}");
        let safety = format!("{}:{file}", done["safeties"][0]["id"].as_str().unwrap());
        assert_eq!(s.expect(0, &["checkpoint", "cat", &safety]), "exists nowhere else");
    }
    drop(live);
}

#[test]
fn a_folder_is_its_sessions_where_another_disk_is_at_its_old_mount_point() {
    let (s, id) = with(&["o/memory/f"]);
    let (memory, disk) = (s.path("p/memory"), s.path("disk"));
    for folder in [&memory, &disk] {
        fs::create_dir_all(folder).unwrap();
    }
    let _memory = in_memory(&memory);
    system("mount", &["--bind", &text(&memory), &text(&disk)]);
    let mounted = Mountpoint::of(&disk);
    write(&memory.join("f"), b"exists nowhere else").unwrap();
    s.create("s", &disk);
    drop(mounted);
    let _other = in_memory(&disk);
    let said = s.expect(4, &restore(&id, &s.path("p"), &[]));
    assert!(said.contains("the folder of session s") && said.contains("--other-folder"), "{said}");
}

#[test]
fn a_rollback_keeps_a_folder_that_was_moved_into_its_workspace() {
    let (s, _) = with(&["o/f", "outer/f", "inner/f", "live/f"]);
    let (outer, deep) = (s.path("outer"), s.path("outer/new/deep"));
    let id = s.create("outer", &outer);
    s.create("inner", &s.path("inner"));
    fs::create_dir_all(&deep).unwrap();
    fs::rename(s.path("inner"), deep.join("inner2")).unwrap();
    write(&outer.join("later"), b"later").unwrap();
    let rollback = ["checkpoint", "rollback", &id, "--yes"];
    let said = s.expect(0, &rollback);
    assert!(said.contains("new/deep/inner2: session inner works there; it is kept as it is"), "{said}");
    assert_eq!(read(deep.join("inner2/f")), "exists nowhere else");
    assert!(!outer.join("later").exists());
    // Under a live agent nothing is rolled back.
    let _live = Live::start(&s, "live", &s.path("live"));
    fs::rename(s.path("live"), outer.join("live2")).unwrap();
    write(&outer.join("later"), b"later").unwrap();
    let said = s.expect(4, &rollback);
    assert!(said.contains("is alive in the same workspace"), "{said}");
    assert!(outer.join("later").exists() && outer.join("live2/f").exists());
}

#[test]
fn a_restore_in_place_keeps_what_other_sessions_work_in_below_unless_that_is_meant() {
    let (s, _) = with(&["o/f", "outer/f", "moved/f"]);
    let outer = s.path("outer");
    let id = s.create("outer", &outer);
    s.create("moved", &s.path("moved"));
    for file in ["inner/f", "later"] {
        write(&outer.join(file), b"exists nowhere else").unwrap();
    }
    let _live = Live::start(&s, "inner", &outer.join("inner"));
    fs::create_dir(outer.join("new")).unwrap();
    fs::rename(s.path("moved"), outer.join("new/moved")).unwrap();
    let planned = s.expect(0, &restore(&id, &outer, &["--delete", "-n"]));
    assert!(planned.contains("D later") && !planned.contains("D inner"), "{planned}");
    let said = s.expect(0, &restore(&id, &outer, &["--delete"]));
    assert!(said.contains("inner: session ") && said.contains("new/moved: session moved works there"), "{said}");
    for kept in ["inner/f", "new/moved/f"] {
        assert_eq!(read(outer.join(kept)), "exists nowhere else");
    }
    assert!(!outer.join("later").exists());
    s.expect(0, &restore(&id, &outer, &["--delete", "--other-folder"]));
    assert!(!outer.join("inner").exists() && !outer.join("new").exists() && outer.join("f").exists());
}

#[test]
fn what_is_captured_of_another_folder_in_a_workspaces_place_is_not_the_sessions_own() {
    let (s, _) = with(&["o/f", "p/f"]);
    let (p, own) = (s.path("p"), s.path("p2"));
    s.expect(0, &["session", "run", "--workspace", &text(&p), "--", "true"]);
    let listed = s.expect(0, &["checkpoint", "list", "--json"]);
    let first: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let (first, session) = (first["id"].as_str().unwrap(), first["session"].as_str().unwrap());
    let create = ["checkpoint", "create", session, "--workspace", &text(&p)];
    fs::rename(&p, &own).unwrap();
    write(&p.join("clone"), b"of a clone").unwrap();
    let other = s.summary(&create);
    let other = other["id"].as_str().unwrap();
    assert!(s.expect(0, &["checkpoint", "show", other]).contains("another folder than the session's"));
    let latest = |at: &str| s.summary(&["checkpoint", "show", at])["id"].clone();
    assert_eq!(latest(&format!("{session}@latest")), json!(first));
    // In the session's own folder, `latest` is of that, and the other one is not.
    write(&own.join("f"), b"changed").unwrap();
    let mut command = s.command(&["checkpoint", "restore", "latest", "--to", ".", "--in-place", "--delete"]);
    assert!(command.current_dir(&own).output().unwrap().status.success());
    assert_eq!((read(own.join("f")), own.join("clone").exists()), ("exists nowhere else".into(), false));
    // Its own checkpoint does not go over the other folder, also where that has got a session of its own.
    s.create("clones", &p);
    let back = |what: &str, to: &Path, code| s.expect(code, &restore(what, to, &["--delete"]));
    let said = back(first, &p, 4);
    assert!(said.contains("is another folder than session") && said.contains("--other-folder"), "{said}");
    // The other one goes where it was captured, and not over the session's own.
    write(&p.join("clone"), b"changed").unwrap();
    back(other, &p, 0);
    assert_eq!(read(p.join("clone")), "of a clone");
    assert!(back(other, &own, 4).contains("--other-folder"));
    s.expect(0, &["session", "move", session, &text(&own)]);
    assert!(back(other, &own, 4).contains("--other-folder"));
    let said = s.expect(0, &["session", "resume", session, "--yes"]);
    assert!(said.contains(&format!("checkpoint {other} is newer, and was passed over: it was made of another folder")), "{said}");
    write(&own.join("f"), b"changed").unwrap();
    let mut command = s.command(&["checkpoint", "rollback", "latest", "--yes"]);
    assert!(command.current_dir(&own).output().unwrap().status.success());
    assert_eq!((read(own.join("f")), own.join("clone").exists()), ("exists nowhere else".into(), false));
}

#[test]
fn a_folders_first_checkpoint_joins_no_session_that_was_imported() {
    let s = Scratch::new();
    let work = s.path("work");
    write(&work.join("f"), b"elsewhere").unwrap();
    let create = ["checkpoint", "create", "--workspace", &text(&work)];
    // As of another machine, where the path is the same.
    let name = s.summary(&create)["session"].as_str().unwrap().to_owned();
    let archive = text(&s.path("out.tar.zst"));
    s.expect(0, &["export", &format!("{name}@latest"), "-o", &archive, "--quiet"]);
    fs::remove_dir_all(s.store()).unwrap();
    s.expect(0, &["init", "--new", "--quiet"]);
    write(&work.join("f"), b"here").unwrap();
    let imported = s.summary(&["import", &archive]);
    assert_eq!(imported["session"], json!(name));
    let (first, second) = (s.summary(&create), s.summary(&create));
    assert_eq!((&first["session"], &first["parent"]), (&json!(format!("{name}-2")), &Value::Null));
    assert_eq!((&second["session"], &second["parent"]), (&first["session"], &first["id"]));
    // Wherever it says that it was captured, it is of the session alone.
    let said = s.expect(4, &restore(imported["id"].as_str().unwrap(), &work, &[]));
    assert!(said.contains("--other-folder"), "{said}");
    assert_eq!(read(work.join("f")), "here");
}
