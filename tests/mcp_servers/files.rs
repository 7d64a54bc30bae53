//! A server that keeps its state in a file outside of the workspace: captured without a word of configuration, and written back.

use std::{fs, path::PathBuf};

use parhelia_tests::{
    agent::{Block, tool},
    live::{Live, wait},
    write,
};
use serde_json::{Value, json};

use crate::mcp_servers::{
    agents::{configure, kept, told},
    programs::npm,
    work::Work,
};

fn add(name: &str) -> Block {
    let entity = json!({"name": name, "entityType": "thing", "observations": [format!("größer: {name}")]});
    tool("mcp__memory__create_entities", json!({ "entities": [entity] }))
}

/// A session of an agent that has the server, and has told it of something.
struct Remembered {
    live: Live,
    session: String,
    file: PathBuf,
    /// The checkpoint that its first run ended with.
    old: String,
}

/// Waits until nothing of ours works behind the agent's hooks: it would make checkpoints of what the test does next.
fn at_rest(live: &Live) {
    let store = live.store().to_string_lossy().into_owned();
    let is_ours = |folder: &std::path::Path| {
        let read = |name: &str| fs::read(folder.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&read("environ")).contains(&store) && String::from_utf8_lossy(&read("cmdline")).contains("hook")
    };
    let processes = || fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    wait(|| (!processes().any(|folder| is_ours(&folder))).then_some(()));
}

impl Remembered {
    fn new() -> Option<Self> {
        let live = Live::new()?;
        let file = live.agent.home().join("notes/memory.jsonl");
        write(&file, b"").unwrap();
        configure(&live, &[("memory", &npm("server-memory"), json!({ "MEMORY_FILE_PATH": file }))]);
        live.expect(&["hooks", "install", "--mcp"]);
        told(&live, add("old"), |live| live.start("remember the old one"));
        let session = live.session();
        at_rest(&live);
        let old = live.checkpoints(&session)[0]["id"].as_str().unwrap().to_owned();
        Some(Remembered { live, session, file, old })
    }

    fn now(&self) -> String {
        fs::read_to_string(&self.file).unwrap()
    }

    /// The file as a checkpoint has it.
    fn in_checkpoint(&self, checkpoint: &str) -> String {
        let server = kept(&self.live, checkpoint, "memory");
        assert_eq!((&server["kept"], &server["scope"]), (&json!("files"), &json!("user")), "{server}");
        let [file] = &server["files"].as_array().unwrap()[..] else { panic!("{server}") };
        assert_eq!(file["path"], self.file.to_str().unwrap());
        String::from_utf8(self.live.state(checkpoint, file["file"].as_str().unwrap())).unwrap()
    }

    /// The names that the agent is told of by the server.
    fn told_names(&self) -> Vec<Value> {
        let call = tool("mcp__memory__read_graph", json!({}));
        let text = told(&self.live, call, |live| live.resume(&self.session, "what do you remember?"));
        let graph: Value = serde_json::from_str(&text).unwrap();
        graph["entities"].as_array().unwrap().iter().map(|entity| entity["name"].clone()).collect()
    }
}

#[test]
fn a_rollback_writes_it_back_and_its_undoing_as_well() {
    let Some(work) = Remembered::new() else { return };
    let first = work.now();
    assert!(first.contains("größer: old"), "{first}");
    assert_eq!(work.in_checkpoint(&work.old), first);
    told(&work.live, add("new"), |live| live.resume(&work.session, "remember the new one"));
    at_rest(&work.live);
    let second = work.now();
    assert!(second.contains("größer: new"), "{second}");

    work.live.expect(&["checkpoint", "rollback", &work.old, "--yes"]);
    assert_eq!(work.now(), first);
    let safety = work.live.checkpoints(&work.session)[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(work.in_checkpoint(&safety), second, "the safety checkpoint has what was there");
    work.live.expect(&["checkpoint", "undo", &work.session, "--yes"]);
    assert_eq!(work.now(), second);
    work.live.expect(&["checkpoint", "rollback", &work.old, "--yes"]);
    assert_eq!(work.told_names(), ["old"]);
}

#[test]
fn a_resume_makes_what_is_missing_and_leaves_what_is_newer() {
    let Some(work) = Remembered::new() else { return };
    let first = work.now();
    fs::remove_dir_all(work.file.parent().unwrap()).unwrap();
    assert_eq!(work.told_names(), ["old"]);
    assert_eq!(work.now(), first);
    let newer = first.replace("old", "newer");
    fs::write(&work.file, &newer).unwrap();
    assert_eq!(work.told_names(), ["newer"]);
    assert_eq!(work.now(), newer);
}

fn memory(work: &Work, text: &str) -> PathBuf {
    let file = work.scratch.path("memory");
    fs::write(&file, text).unwrap();
    work.of_user(&json!({"memory": {"command": "serve", "env": {"MEMORY_FILE_PATH": file}}}));
    file
}

#[test]
fn what_the_safety_checkpoint_does_not_have_is_not_overwritten() {
    for options in ["[mcp]\nmax_state_bytes = 10\n", "[mcp]\ncapture = false\n"] {
        let work = Work::of_script();
        let file = memory(&work, "old");
        let (old, servers) = work.checkpoint(0);
        assert_eq!(servers["memory"]["kept"], "files", "{servers}");
        let newer = "newer, and more than is kept";
        fs::write(&file, newer).unwrap();
        fs::write(work.workspace.join("a"), "2").unwrap();
        work.options(options);
        let output = work.scratch.run(&["checkpoint", "rollback", &old, "--yes"]);
        let said = parhelia_tests::live::shown(&output);
        assert_eq!(fs::read_to_string(&file).unwrap(), newer, "{said}");
        assert!(said.contains("MCP server memory does not get its state back"), "{said}");
        assert_eq!(fs::read_to_string(work.workspace.join("a")).unwrap(), "1", "the rest goes back: {said}");
    }
}

#[test]
fn folders_go_back_whole_with_permissions_and_without_what_was_not_there() {
    use std::os::unix::fs::PermissionsExt;
    let work = Work::of_script();
    work.options("[mcp.servers.notes]\nstate_files = [\"~/state\", \"state.json\"]\n");
    work.of_user(&json!({"notes": {"command": "serve"}}));
    let folder = work.scratch.path("home/state");
    write(&folder.join("one"), b"1").unwrap();
    write(&folder.join("below/ü two"), b"2").unwrap();
    fs::set_permissions(folder.join("one"), fs::Permissions::from_mode(0o600)).unwrap();
    let (old, servers) = work.checkpoint(0);
    assert_eq!(servers["notes"]["files"].as_array().unwrap().len(), 3, "{servers}");
    fs::set_permissions(folder.join("one"), fs::Permissions::from_mode(0o644)).unwrap();
    write(&folder.join("one"), b"changed").unwrap();
    fs::remove_dir_all(folder.join("below")).unwrap();
    write(&folder.join("three"), b"3").unwrap();
    write(&work.workspace.join("state.json"), b"{}").unwrap();
    work.scratch.expect(0, &["checkpoint", "rollback", &old, "--yes"]);
    let found = parhelia_tests::files_in(&folder);
    let expected = [("below/ü two", "2"), ("one", "1")].map(|(path, text)| (path.as_bytes().to_vec(), text.as_bytes().to_vec()));
    assert_eq!(found, expected.into());
    assert_eq!(fs::metadata(folder.join("one")).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!work.workspace.join("state.json").exists());
    let text = work.scratch.expect(0, &["checkpoint", "undo", &work.session, "--yes"]);
    assert!(!text.contains("does not get its state back"), "{text}");
    assert_eq!(fs::read(folder.join("three")).unwrap(), b"3");
    assert_eq!(fs::read(folder.join("one")).unwrap(), b"changed");
    assert!(!folder.join("below/ü two").exists());
}
