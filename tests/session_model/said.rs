//! Statements after each step, judged by what the test knows: the processes that live, the bytes that lie in the workspace, the checkpoints
//! that the journal has, and the agent's own records.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    process::Stdio,
};

use parhelia_ledger::{EndKind, LedgerView as _, Run};
use parhelia_store::record::{Cause, Checkpoint};
use parhelia_tests::{Files, files_in, live::wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::world::World;

/// States of an agent that is there.
pub const ALIVE: [&str; 4] = ["starting", "live", "idle", "waiting"];
/// Fields of a session in which the service and the command line agree.
pub const SHARED: [&str; 10] = [
    "observed",
    "wanted",
    "status",
    "epoch",
    "head",
    "last_checkpoint",
    "checkpoints",
    "last_prompt",
    "review",
    "interrupted_rollback",
];

/// The facts, by which statements are judged.
#[derive(PartialEq)]
pub struct Facts {
    agent: Option<i32>,
    /// The checkpoints of the session, in order of commit.
    pub checkpoints: Vec<String>,
    pub files: Files,
}

impl Facts {
    pub fn of(world: &World) -> Self {
        let (store, session) = (world.opened(), world.session().id);
        let all = store.checkpoints().unwrap();
        let own = all.iter().filter(|checkpoint| checkpoint.record.session == session);
        let checkpoints = own.map(|checkpoint| checkpoint.id()).collect();
        Facts { agent: world.agent.process(), checkpoints, files: files_in(&world.workspace) }
    }
}

/// Asserts that the command line tells the truth.
pub fn check(world: &mut World) {
    let id = world.session().id;
    let folder = world.workspace.to_string_lossy().into_owned();
    let (facts, [listed, shown, status]) = settled(world, |world| {
        let listed = object(world, &["session", "list"], "session", &id);
        let shown = object(world, &["session", "show", &id], "session", &id);
        [listed, shown, object(world, &["status", "-w", &folder], "summary", "")]
    });
    judge(world, &facts, &listed);
    for name in SHARED {
        assert_eq!(shown[name], listed[name], "{name}: `session show` and `session list` differ");
    }
    ends_are_true(world, &id);
    let Some(last) = facts.checkpoints.last() else { return };
    // A checkpoint that nobody has read yet is read now.
    super::oracle::check(world);
    let Some(saved) = world.saved.get(status["checkpoint"]["id"].as_str().unwrap_or_default()) else {
        panic!("`status` has another last checkpoint than {last}: {status}")
    };
    if status["compared"] == true {
        let kinds = ["added", "deleted", "modified", "renamed", "type_changed"];
        let count: u64 = kinds.iter().map(|kind| status[kind].as_u64().unwrap()).sum();
        assert_eq!(count == 0, saved.files == facts.files, "`status` is wrong about what has changed: {status}");
    }
}

/// Asserts that the service says what the command line does. It leaves the session alone.
pub fn check_service(world: &mut World) {
    let id = world.session().id;
    let socket = world.scratch.path("run.sock");
    let mut command = world.command(&["serve", "--no-resume", "--socket", &socket.to_string_lossy()]);
    let mut service = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let line = BufReader::new(service.stdout.as_mut().unwrap()).lines().next();
    let (facts, [listed, served]) = settled(world, |world| {
        let listed = object(world, &["session", "list"], "session", &id);
        let text = served(&socket, &format!("/api/sessions/{id}"));
        let answer: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}: {line:?}"));
        [listed, answer["session"].clone()]
    });
    kill_process(Pid::from_child(&service), Signal::TERM).unwrap();
    wait(|| service.try_wait().unwrap());
    judge(world, &facts, &served);
    for name in SHARED {
        assert_eq!(served[name], listed[name], "{name}: the service and `session list` differ");
    }
}

/// The body of a service's answer at a path.
pub fn served(socket: &Path, path: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap_or_else(|e| panic!("{}: {e}", socket.display()));
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{path}: {text}"));
    assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {text}");
    body.to_owned()
}

/// Asserts that each run of the session that nobody saw end has the cause of its death, and did not end before its agent gave cause for its last
/// checkpoint.
fn ends_are_true(world: &World, session: &str) {
    let store = world.opened();
    let (checkpoints, runs) = (store.checkpoints().unwrap(), store.view().runs().unwrap());
    let is_unseen = |run: &&Run| run.session == session && run.ending().is_some_and(|end| end.kind == EndKind::Unknown);
    for run in runs.values().filter(is_unseen) {
        let why = run.exit_reason.as_deref().unwrap_or_default();
        assert!(why.starts_with("its "), "nothing says why run {} is dead: {why:?}", run.id);
        let of_turns = |checkpoint: &&Checkpoint| {
            let record = &checkpoint.record;
            let is_turn = matches!(record.cause(), Some(Cause::Prompt | Cause::TurnEnd | Cause::Clear));
            record.run.as_deref() == Some(&*run.id) && is_turn && !record.fenced
        };
        let last = checkpoints.iter().filter(of_turns).map(|checkpoint| checkpoint.record.created_at).max();
        assert!(world.has_stepped || run.ended_at >= last, "run {} ended before its last checkpoint: {last:?}", run.id);
    }
}

/// What was asked, and the facts, which were the same before and after.
pub fn settled<T>(world: &World, ask: impl Fn(&World) -> T) -> (Facts, T) {
    wait(|| {
        let before = Facts::of(world);
        let said = ask(world);
        let after = Facts::of(world);
        (before == after).then_some((after, said))
    })
}

fn judge(world: &World, facts: &Facts, said: &Value) {
    let observed = said["observed"].as_str().unwrap();
    match facts.agent {
        // An agent that somebody has started by hand has the conversation of a session whose own one is dead.
        Some(agent) if observed == "dead" => assert_eq!(said["open_in"], agent, "an agent lives, and nobody says so: {said}"),
        Some(_) => assert!(ALIVE.contains(&observed), "an agent lives: {said}"),
        None => assert!(observed == "dead" && said["open_in"].is_null(), "no agent lives: {said}"),
    }
    if let Some(state) = said["attention"]["state"].as_str() {
        let wanted = match state {
            "left_alone" | "resume_failed" => &["dead"][..],
            "recovered" | "cut_off" => &ALIVE,
            _ => &[state],
        };
        assert!(wanted.contains(&observed), "a verdict does not hold any more: {said}");
    }
    let worked = said["totals"]["active_seconds"].as_u64().unwrap();
    assert!(
        world.has_stepped || worked <= world.began.elapsed().as_secs() + 1,
        "it was worked in for longer than it is there: {said}"
    );
    assert_eq!(said["checkpoints"], facts.checkpoints.len(), "{said}");
    let head = said["last_checkpoint"]["id"].as_str().unwrap_or_default();
    assert!(facts.checkpoints.iter().any(|id| id == head) || facts.checkpoints.is_empty(), "the last checkpoint is none: {said}");
    let newest = said["conversations"].as_array().unwrap().last();
    let Some(conversation) = newest.and_then(|newest| newest["id"].as_str()) else { return };
    if let Some(turn) = world.turns(conversation).last() {
        assert_eq!(said["last_prompt"], turn.prompt, "another prompt was the last: {said}");
    }
}

/// The first line of JSON of a type that a command prints; of a session, its own.
pub fn object(world: &World, arguments: &[&str], kind: &str, session: &str) -> Value {
    let output = world.command(&[arguments, &["--json"]].concat()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let found = lines.find(|line| line["type"] == kind && (session.is_empty() || line["id"] == session));
    found.unwrap_or_else(|| panic!("{arguments:?} says nothing of it: {text}{}", String::from_utf8_lossy(&output.stderr)))
}
