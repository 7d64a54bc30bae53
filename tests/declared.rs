//! Kinds of agents that a user declares: the real opencode as docs/agents.md has it, and a script where no CLI can be had.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
};

use parhelia_agent::{declaration::Declaration, kind::Argv, words::Takes};
use parhelia_tests::{
    agent::{Api, Opencode, Reply, documented, installed, opencode_program, tool},
    binary,
    live::{kill, shown, wait},
    make_store,
};
use serde_json::{Value, json};

/// The documented declaration.
fn declaration() -> Declaration {
    #[derive(serde::Deserialize)]
    struct File {
        agent: Vec<Declaration>,
    }
    toml::from_str::<File>(&documented("toml", "[[agent]]")).unwrap().agent.remove(0)
}

/// The sessions in a list of lines of JSON.
fn sessions(listed: &str) -> Vec<Value> {
    listed.lines().map(|line| serde_json::from_str(line).unwrap()).filter(|line: &Value| line["type"] == "session").collect()
}

/// The text of all messages that were sent with a request.
fn asked(api: &Api, number: usize) -> String {
    api.wait_for(number)[number - 1].text()
}

fn bash(text: &str) -> Reply {
    Reply::of([tool("bash", json!({ "command": text, "description": "a test" }))])
}

#[test]
fn opencode_is_killed_in_a_tool_its_home_is_moved_and_it_goes_on_in_its_conversation() {
    let api = Api::start([bash("echo begun > begun.txt; while :; do sleep 0.1; done")]);
    let Some(opencode) = Opencode::new(&api) else { return };
    let child = opencode.run("begin MARK-ONE").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    wait(|| fs::read_to_string(opencode.workspace().join("begun.txt")).ok().filter(|text| !text.is_empty()));
    let below = |above: i32| {
        let all = parhelia_agent::process::all();
        all.into_iter().map(|one| one.process).find(|process| parhelia_agent::process::parent(*process) == Some(above))
    };
    kill(wait(|| below(child.id() as i32)));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(137), "{}", shown(&output));
    let session = sessions(&opencode.expect(&["session", "list", "--json"])).remove(0);
    let id = session["id"].as_str().unwrap().to_owned();
    let show = || opencode.expect(&["session", "show", &id, "--json"]);
    let conversation = || sessions(&show()).remove(0)["conversations"].as_array().unwrap().last().unwrap()["id"].clone();
    let first = conversation();
    assert!(first.as_str().unwrap().starts_with("ses_"), "{first}");
    assert!(session["first_prompt"].as_str().unwrap().contains("begin MARK-ONE"), "{session}");

    // The whole home goes elsewhere, as with a new machine or account.
    let moved = opencode.folder().join("moved");
    fs::rename(opencode.home(), &moved).unwrap();
    api.then([Reply::text("I go on.")]);
    let mut resume = opencode.command(&["session", "resume", &id, "--prompt", "finish it"]);
    let output = resume.env("HOME", &moved).output().unwrap();
    assert!(output.status.success() && shown(&output).contains("I go on."), "{}", shown(&output));
    let text = asked(&api, 2);
    for part in ["begin MARK-ONE", "was interrupted and is resumed", "finish it"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!opencode.home().exists(), "the old home was made again");
    fs::rename(&moved, opencode.home()).unwrap();
    assert_eq!(conversation(), first);
    assert_ne!(session["last_checkpoint"], Value::Null);
}

#[test]
fn opencode_that_was_started_by_hand_is_taken_in_by_its_plugin() {
    let api = Api::start([Reply::text("One.")]);
    let Some(opencode) = Opencode::new(&api) else { return };
    let of_ours = opencode.command(&[]);
    let mut command = Command::new(opencode.program());
    command.args(["run", "-m", "ours/m", "by hand"]).env_clear().current_dir(opencode.workspace()).stdin(Stdio::null());
    command.envs(of_ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    let list = || sessions(&opencode.expect(&["session", "list", "--json"]));
    wait(|| list().first().is_some_and(|session| session["last_checkpoint"].is_object()).then_some(()));
    let id = list()[0]["id"].as_str().unwrap().to_owned();
    api.then([Reply::text("Two.")]);
    let output = opencode.command(&["session", "resume", &id, "--prompt", "go on"]).output().unwrap();
    assert!(output.status.success() && shown(&output).contains("Two."), "{}", shown(&output));
    let text = asked(&api, 2);
    assert!(text.contains("by hand") && text.contains("go on"), "{text}");
}

#[test]
fn the_documented_declaration_has_the_flags_of_opencode() {
    let Some(program) = installed("opencode", opencode_program()) else { return };
    let kind = parhelia_agent::kinds::declared::DeclaredKind::new(&declaration(), None);
    let home = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for words in [&["--help"][..], &["run", "--help"]] {
        let output = Command::new(&program).args(words).env("HOME", home.path()).env("COLUMNS", "200").output().unwrap();
        let help = shown(&output);
        // A long line goes on in the next one.
        let mut flags: Vec<String> = Vec::new();
        for line in help.lines().skip_while(|line| *line != "Options:") {
            match flags.last_mut() {
                _ if line.trim_start().starts_with('-') => flags.push(line.to_owned()),
                Some(flag) => flag.push_str(line),
                None => {}
            }
        }
        for flag in flags {
            let takes = ["[string]", "[array]", "[number]"].iter().any(|of| flag.contains(of));
            for name in flag.split("  ").map(str::trim).find(|part| !part.is_empty()).unwrap_or_default().split(", ") {
                assert_eq!(kind.takes(name) == Takes::One, takes, "{flag}");
                seen += 1;
            }
        }
        for line in help.lines().filter(|line| line.starts_with("  opencode ")) {
            let command = line.split_whitespace().nth(1).unwrap();
            let is_none = ["run"].contains(&command) || command.starts_with('[');
            assert!(is_none || declaration().commands.iter().any(|known| known == command), "{line}");
        }
    }
    assert!(seen > 40, "{seen} flags");
}

/// An agent of a kind of its own: it tells of itself by `parhelia hook`, and keeps its conversations in a folder.
const SCRIPT: &str = r#"#!/bin/sh
data=${PEN_HOME:-$HOME/.pen}
id=
tell() { printf '{"hook_event_name":"%s","session_id":"%s","cwd":"%s"%s}' "$1" "$id" "$PWD" "$2" | parhelia hook; }
[ "$1" = --version ] && { id=version-$$; tell SessionStart; echo 1.0; exit; }
[ "$1" = --open ] && { id=$2; shift 2; }
[ -n "$id" ] && [ ! -f "$data/$id" ] && { echo "no such draft" >&2; exit 1; }
source=resume
[ -n "$id" ] || { id=draft-$$; source=startup; }
mkdir -p "$data"
tell SessionStart ",\"source\":\"$source\""
tell UserPromptSubmit ",\"prompt\":\"words of a person\"" > /dev/null
echo "$*" >> "$data/$id"
echo "$id $(printf %s "$*" | tr '\n' ' ')" >> pen.log
tell Stop
"#;

const PEN: &str = r#"
[[agent]]
name = "pen"
programs = ["pen"]
resume = ["--open", "{id}"]
takes = ["--ink"]
data = { variable = "PEN_HOME", home = ".pen" }
unknown = ["No such draft"]
hooks = "~/pen-hooks"
"#;

/// The agent of that script, with a home, a workspace and a store.
struct Pen(tempfile::TempDir);

impl Pen {
    fn new() -> Self {
        let made = Pen(tempfile::tempdir().unwrap());
        for folder in ["home/.config/parhelia", "work", "bin"] {
            fs::create_dir_all(made.path(folder)).unwrap();
        }
        make_store(&made.path("store"));
        fs::write(made.path("bin/pen"), SCRIPT).unwrap();
        fs::set_permissions(made.path("bin/pen"), PermissionsExt::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(binary(), made.path("bin/parhelia")).unwrap();
        made
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    /// With the user's own configuration.
    fn declared(self, text: &str) -> Self {
        fs::write(self.path("home/.config/parhelia/parhelia.toml"), text).unwrap();
        fs::write(self.path("home/pen-hooks"), "").unwrap();
        self
    }

    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".into());
        command.args(arguments).env_clear().current_dir(self.path("work")).stdin(Stdio::null());
        command.env("PATH", format!("{}:{path}", self.path("bin").display()));
        command.env("HOME", self.path("home")).env("PARHELIA_STORE", self.path("store")).env("LANG", "C.UTF-8");
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(&binary(), arguments).output().unwrap()
    }

    /// Runs in the workspace: the conversation of each, and its words.
    fn log(&self) -> Vec<(String, String)> {
        let text = fs::read_to_string(self.path("work/pen.log")).unwrap_or_default();
        text.lines().map(|line| line.split_once(' ').map(|(id, words)| (id.to_owned(), words.to_owned())).unwrap()).collect()
    }
}

#[test]
fn a_declared_agent_is_resumed_with_its_conversation_and_its_flags() {
    let pen = Pen::new().declared(PEN);
    let output = pen.run(&["session", "run", "--name", "it", "--", "pen", "--ink", "blue", "a first prompt"]);
    assert!(output.status.success(), "{}", shown(&output));
    let first = pen.log().remove(0);
    assert_eq!(first.1, "--ink blue a first prompt");
    let said = shown(&pen.run(&["session", "show", "it"]));
    assert!(said.contains(&first.0) && said.contains("words of a person"), "{said}");
    let output = pen.run(&["session", "resume", "it"]);
    assert!(output.status.success(), "{}", shown(&output));
    assert_eq!(pen.log()[1], (first.0.clone(), "--ink blue".to_owned()), "not the prompt, which nobody gave again");
    let output = pen.run(&["session", "resume", "it", "--prompt=- more"]);
    assert!(output.status.success(), "{}", shown(&output));
    let (id, words) = pen.log().remove(2);
    assert!(id == first.0 && words.starts_with("--ink blue ") && words.ends_with(" - more"), "{words}");
    // It is asked for its version, and is no session's there.
    let listed = String::from_utf8(pen.run(&["session", "list", "--json"]).stdout).unwrap();
    assert_eq!(sessions(&listed).len(), 1, "{listed}");
    // Its folder is recorded: another shell's is not taken in its place.
    let mut resume = pen.command(&binary(), &["session", "resume", "it"]);
    let output = resume.env("PEN_HOME", pen.path("elsewhere")).output().unwrap();
    assert!(output.status.success() && pen.log()[3].0 == first.0, "{}", shown(&output));
    // What it does not know, it says.
    fs::remove_dir_all(pen.path("home/.pen")).unwrap();
    let said = shown(&pen.run(&["session", "resume", "it"]));
    assert!(pen.log().len() == 4 && said.contains("does not know"), "{said}");
}

#[test]
fn a_project_declares_no_agent_and_a_plugin_that_is_not_there_is_named() {
    let pen = Pen::new();
    fs::write(pen.path("work/parhelia.toml"), PEN).unwrap();
    let said = shown(&pen.run(&["session", "run", "--", "pen", "x"]));
    assert!(said.contains("`agent` cannot be set by a project"), "{said}");
    // Of a program that is no agent the words are run again as they were.
    let listed = String::from_utf8(pen.run(&["session", "list", "--json"]).stdout).unwrap();
    let id = sessions(&listed).remove(0)["id"].as_str().unwrap().to_owned();
    pen.run(&["session", "resume", &id, "--yes"]);
    let log = pen.log();
    assert!(log.len() == 2 && log[0].0 != log[1].0 && log[1].1 == "x", "{log:?}");

    let pen = Pen::new().declared(PEN);
    fs::remove_file(pen.path("home/pen-hooks")).unwrap();
    let said = shown(&pen.run(&["session", "run", "--", "pen", "x"]));
    assert!(said.contains("no hooks of pen come here") && said.contains("pen-hooks is not there"), "{said}");
    let wrong = Pen::new().declared(&PEN.replace("{id}", "id"));
    let said = shown(&wrong.run(&["session", "run", "--", "pen", "x"]));
    assert!(said.contains("parhelia.toml:2") && said.contains("`resume` needs one word with {id}"), "{said}");
}

#[test]
fn a_declared_agent_makes_none_of_its_users_settings_laxer() {
    let script = SCRIPT.replace("tell Stop\n", "XDG_CONFIG_HOME=$PWD/mine parhelia config show > shown.txt 2>&1\n");
    let pen = Pen::new().declared(PEN);
    fs::write(pen.path("bin/pen"), script).unwrap();
    fs::create_dir_all(pen.path("work/mine/parhelia")).unwrap();
    fs::write(pen.path("work/mine/parhelia/parhelia.toml"), "[approval]\nself_approval = true\n").unwrap();
    // Started by hand: nothing but the declaration tells that it is an agent, and its call names another configuration.
    let output = pen.command(&pen.path("bin/pen"), &["x"]).output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    let seen = fs::read_to_string(pen.path("work/shown.txt")).unwrap();
    let line = seen.lines().find(|line| line.contains("self_approval")).unwrap_or_else(|| panic!("{seen}"));
    assert!(line.contains("false") && !line.contains("true"), "{seen}");
}
