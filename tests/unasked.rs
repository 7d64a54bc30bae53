//! No agent acts that nobody has asked to: whatever becomes of a resume, an agent is only ever given a prompt of a person.

use std::{
    fs,
    path::PathBuf,
    process::{Child, Output, Stdio},
};

use parhelia_tests::{
    Scratch,
    agent::Api,
    live::{Live, kill, on_a_terminal, shown, wait},
    tmux::Tmux,
    write, write_program,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// An agent in name, which does what the file `behave` says: `wait`, `fail`, or say that the conversation is `unknown` if it is told to resume
/// one (a new one waits). It notes its starts, and what it is told goes to the API, as a prompt would.
const AGENT: &str = r#"#!/bin/bash
test "$1" = --version && { echo "2.1.197 (Claude Code)"; exit; }
how= id= prompt=
while test $# -gt 0; do
    case $1 in
        --session-id) how=new; id=$2; shift;;
        --resume) how=resumed; id=$2; shift;;
        --settings) shift;;
        -p) case $2 in -*|'') ;; *) prompt=$2; shift;; esac;;
        --) shift; prompt=$*; break;;
    esac
    shift
done
if test -n "$prompt"; then
    prompt=${prompt//[^a-zA-Z0-9 .]/ }
    body='{"model":"m","tools":[{}],"messages":[{"role":"user","content":"'$prompt'"}]}'
    exec 3<>/dev/tcp/127.0.0.1/@port
    printf 'POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s' ${#body} "$body" >&3
    read -r -u 3 answer
fi
echo '{"type":"user","uuid":"u1","sessionId":"'$id'","cwd":"@work","message":{"role":"user","content":"a first prompt"}}' >> '@project'/$id.jsonl
trap 'exit 143' TERM
behave=$(cat '@behave')
echo "$how $id" >> '@starts'
case $behave-$how in
    done-*) exit 0;;
    gone-*) rm '@project'/$id.jsonl; exit 1;;
    fail-*) echo 'the network is gone' >&2; exit 1;;
    unknown-resumed) echo "No conversation found with session ID: $id" >&2; exit 1;;
esac
while :; do sleep 0.05; done
"#;

/// A session `work` of the scripted agent, which has been started once and has ended.
struct Work {
    scratch: Scratch,
    api: Api,
    conversation: String,
    /// Number of requests that the API had by then.
    asked: usize,
}

impl Work {
    /// The agent has these arguments.
    fn new(arguments: &[&str]) -> Self {
        let (scratch, api) = (Scratch::new(), Api::start([]));
        write(&scratch.path("work/file"), b"as it was\n").unwrap();
        let slug = scratch.path("work").to_string_lossy().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let project = scratch.path("home/.claude/projects").join(slug);
        fs::create_dir_all(&project).unwrap();
        let at = |name: &str| scratch.path(name).to_string_lossy().into_owned();
        let port = api.url().rsplit(':').next().unwrap().to_owned();
        let script = AGENT.replace("@port", &port).replace("@work", &at("work")).replace("@behave", &at("behave"));
        let script = script.replace("@starts", &at("starts")).replace("@project", &project.to_string_lossy());
        write_program(&scratch.path("bin/claude"), &script);
        let mut work = Work { scratch, api, conversation: String::new(), asked: 0 };
        work.behave("done");
        let (program, workspace) = (work.at("bin/claude"), work.at("work"));
        let all = [&["session", "run", "--name", "work", "--workspace", &workspace, "--", &program], arguments].concat();
        work.scratch.expect(0, &all);
        work.conversation = work.starts()[0].strip_prefix("new ").unwrap().to_owned();
        work.asked = work.api.exchanges().len();
        work
    }

    fn at(&self, name: &str) -> String {
        self.scratch.path(name).to_string_lossy().into_owned()
    }

    fn behave(&self, how: &str) {
        fs::write(self.scratch.path("behave"), how).unwrap();
    }

    fn starts(&self) -> Vec<String> {
        let text = fs::read_to_string(self.scratch.path("starts")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The starts after the first one.
    fn resumed(&self) -> Vec<String> {
        self.starts().split_off(1)
    }

    /// Resumes where a person is: on a terminal. What is printed goes to the file `terminal`.
    fn on_terminal(&self, more: &[&str]) -> Child {
        let mut command = on_a_terminal(&self.scratch.command(&[&["session", "resume", "work"], more].concat()));
        let terminal = fs::File::create(self.scratch.path("terminal")).unwrap();
        command.stdout(terminal).spawn().unwrap()
    }

    fn terminal(&self) -> String {
        fs::read_to_string(self.scratch.path("terminal")).unwrap()
    }

    /// The process of the newest run, once its agent has been started for the second time.
    fn process(&self) -> i32 {
        wait(|| (self.resumed().len() == 1).then_some(()));
        wait(|| {
            let output = self.scratch.run(&["session", "show", "work", "--json"]);
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let runs = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).filter(|l| l["type"] == "run");
            let runs: Vec<Value> = runs.collect();
            (runs.len() == 2).then(|| runs[1]["pid"].as_i64()).flatten().and_then(|pid| i32::try_from(pid).ok())
        })
    }

    /// The agent was started with its conversation, and not again, and was told nothing.
    fn assert_only_resumed(&self) {
        assert_eq!(self.resumed(), [format!("resumed {}", self.conversation)], "{}", self.terminal_if_any());
        assert_eq!(self.api.exchanges().len(), self.asked);
    }

    fn terminal_if_any(&self) -> String {
        fs::read_to_string(self.scratch.path("terminal")).unwrap_or_default()
    }
}

#[test]
fn a_prompt_behind_an_unknown_flag_is_not_given_again() {
    // A prompt of several words, and no event that told of it.
    let work = Work::new(&["--from-the-future", "do everything"]);
    work.behave("wait");
    let mut child = work.on_terminal(&[]);
    let process = work.process();
    let told = fs::read(format!("/proc/{process}/cmdline")).unwrap();
    let told = String::from_utf8_lossy(&told).replace('\0', " ");
    assert!(told.contains("--from-the-future") && !told.contains("everything"), "{told}");
    kill_process(Pid::from_raw(process).unwrap(), Signal::KILL).unwrap();
    child.wait().unwrap();
    work.assert_only_resumed();
}

#[test]
fn a_program_that_is_no_agent_takes_no_prompt() {
    let s = Scratch::new();
    let work = s.path("work").to_string_lossy().into_owned();
    fs::create_dir_all(&work).unwrap();
    s.run(&["session", "run", "--name", "s", "-w", &work, "--", "sh", "-c", "echo ran >> ran; exit 1"]);
    let refused = s.expect(2, &["session", "resume", "s", "--no-tmux", "--prompt", "something else"]);
    assert!(refused.contains("takes no prompt") && refused.contains("runs it again as it was"), "{refused}");
    assert_eq!(fs::read_to_string(s.path("work/ran")).unwrap(), "ran\n");
}

#[test]
fn commands_and_modes_that_are_no_conversation_begin_no_session() {
    let s = Scratch::new();
    for words in [&["stop", "x"][..], &["--debug-file", "log", "respawn"], &["purge"], &["--version"]] {
        let refused = s.expect(2, &[&["session", "run", "--", "claude"][..], words].concat());
        assert!(refused.contains("no conversation"), "{refused}");
    }
    for flag in ["--bg", "--background", "--cloud", "--desktop"] {
        let refused = s.expect(2, &["session", "run", "--", "claude", flag]);
        assert!(refused.contains(flag) && refused.contains("--tmux --detach"), "{refused}");
    }
    assert!(!s.expect(0, &["session", "list", "--json"]).contains("\"session\""));
}

#[test]
fn an_agent_that_is_killed_at_once_is_replaced_by_none() {
    for signal in [Signal::KILL, Signal::TERM] {
        let work = Work::new(&[]);
        work.behave("wait");
        let mut child = work.on_terminal(&[]);
        kill_process(Pid::from_raw(work.process()).unwrap(), signal).unwrap();
        assert!(!child.wait().unwrap().success());
        work.assert_only_resumed();
    }
}

#[test]
fn an_agent_that_a_rollback_stops_right_after_its_resume_is_replaced_by_none() {
    let work = Work::new(&[]);
    work.behave("wait");
    let mut child = work.on_terminal(&[]);
    work.process();
    fs::write(work.at("work/file"), "spoiled\n").unwrap();
    work.scratch.expect(0, &["checkpoint", "rollback", "work@latest", "--stop", "--yes"]);
    assert!(!child.wait().unwrap().success());
    assert!(!work.terminal().contains("--new-conversation"), "{}", work.terminal());
    work.assert_only_resumed();
    assert_eq!(fs::read(work.at("work/file")).unwrap(), b"as it was\n");
}

#[test]
fn an_agent_that_fails_for_another_reason_is_replaced_by_none() {
    let work = Work::new(&[]);
    work.behave("fail");
    let mut child = work.on_terminal(&[]);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(work.terminal().contains("the network is gone"), "what it says is passed on: {}", work.terminal());
    assert!(!work.terminal().contains("--new-conversation"), "its conversation is there: {}", work.terminal());
    work.assert_only_resumed();
    let newest = work.scratch.expect(0, &["checkpoint", "list", "--json"]);
    let newest: Value = serde_json::from_str(newest.lines().next().unwrap()).unwrap();
    assert_eq!(newest["trigger"], "error", "{newest}");
}

#[test]
fn where_there_is_no_conversation_a_new_one_is_offered() {
    let work = Work::new(&[]);
    work.behave("gone");
    assert_eq!(work.on_terminal(&[]).wait().unwrap().code(), Some(1));
    assert!(work.terminal().contains("`parhelia session resume"), "{}", work.terminal());
    assert!(work.terminal().contains("--new-conversation"), "{}", work.terminal());
    work.assert_only_resumed();
}

#[test]
fn without_a_terminal_no_new_conversation_begins() {
    let work = Work::new(&[]);
    work.behave("unknown");
    let before = work.scratch.summary(&["checkpoint", "show", "latest"])["id"].clone();
    let text = work.scratch.expect(1, &["session", "resume", "work"]);
    assert!(text.contains("does not know conversation") && text.contains("needs a terminal"), "{text}");
    work.assert_only_resumed();
    let after = work.scratch.summary(&["checkpoint", "show", "latest"])["id"].clone();
    assert_eq!(before, after, "there is nothing new to keep of a run that has not come to life");
    // Not even where a person has left word.
    work.scratch.expect(1, &["session", "resume", "work", "--prompt", "go on"]);
    assert!(work.starts().iter().skip(1).all(|start| start.starts_with("resumed")), "{:?}", work.starts());
}

#[test]
fn an_agent_that_answers_one_prompt_is_given_none_of_ours() {
    let work = Work::new(&["-p", "the first prompt"]);
    assert_eq!(work.asked, 1);
    work.behave("unknown");
    let text = work.scratch.expect(2, &["session", "resume", "work"]);
    assert!(text.contains("--prompt"), "{text}");
    assert_eq!((work.resumed().len(), work.api.exchanges().len()), (0, 1));
    // At a terminal, a person wants it to go on; but a new one knows nothing of what it would go on with.
    assert_eq!(work.on_terminal(&[]).wait().unwrap().code(), Some(1));
    assert_eq!(work.resumed(), [format!("resumed {}", work.conversation)]);
    let texts = || work.api.exchanges().iter().map(|exchange| exchange.text()).collect::<Vec<_>>();
    assert_eq!(texts()[1..], ["Continue from where you left off."]);
    assert!(work.terminal().contains("give --prompt"), "{}", work.terminal());

    let child = work.scratch.command(&["session", "resume", "work", "--prompt", "by a person"]).stderr(Stdio::null()).spawn();
    wait(|| (work.starts().len() == 4).then_some(()));
    assert!(work.starts()[3].starts_with("new ") && !work.starts()[3].ends_with(&work.conversation), "{:?}", work.starts());
    // To the one that did not know the conversation, and to the new one.
    assert_eq!(texts()[2..], ["by a person", "by a person"]);
    stop(work, child.unwrap());
}

/// Ends what waits.
fn stop(work: Work, mut child: Child) {
    work.scratch.expect(0, &["checkpoint", "rollback", "work@latest", "--stop", "--yes"]);
    let _ = child.wait();
}

#[test]
fn a_conversation_that_the_agent_does_not_know_is_replaced_by_one_that_waits() {
    for asks in [&[][..], &["--new-conversation"]] {
        let work = Work::new(&[]);
        work.behave("unknown");
        let child = work.on_terminal(asks);
        let starts = 2 - asks.len();
        wait(|| (work.resumed().len() == starts).then_some(()));
        let last = work.resumed().pop().unwrap();
        assert!(last.starts_with("new ") && !last.ends_with(&work.conversation), "{last}");
        wait(|| work.terminal().contains("waits for you").then_some(()));
        assert_eq!(work.api.exchanges().len(), work.asked);
        stop(work, child);
    }
}

#[test]
fn an_agent_without_hooks_is_told_what_is_known_only_together_with_a_prompt() {
    let work = Work::new(&["--bare"]);
    work.behave("unknown");
    let child = work.on_terminal(&[]);
    wait(|| (work.resumed().len() == 2).then_some(()));
    wait(|| work.terminal().contains("is told nothing of the earlier one").then_some(()));
    assert_eq!(work.api.exchanges().len(), work.asked);
    stop(work, child);

    let work = Work::new(&["--bare"]);
    work.behave("unknown");
    let child = work.on_terminal(&["--prompt", "by a person"]);
    wait(|| (work.resumed().len() == 2).then_some(()));
    let said: Vec<String> = work.api.exchanges().iter().skip(work.asked).map(|exchange| exchange.text()).collect();
    assert_eq!((said.len(), said[0].as_str()), (2, "by a person"));
    assert!(said[1].starts_with("You are resuming a previous session") && said[1].ends_with("by a person"), "{}", said[1]);
    stop(work, child);
}

/// A command line of ours that starts the real agent on a terminal in tmux.
fn in_tmux(live: &Live, tmux: &Tmux, words: &[&str]) -> Output {
    let socket = tmux.socket().to_string_lossy().into_owned();
    live.run(&[&words[..2], &["--tmux-socket", &socket, "--detach"], &words[2..]].concat())
}

/// A session of the real agent in tmux that nobody has said anything to, and its process.
fn silent(live: &Live, tmux: &Tmux) -> (String, i32) {
    live.agent.prepare_interactive();
    let (workspace, program) = (live.agent.workspace(), live.agent.program().to_string_lossy().into_owned());
    let words = ["session", "run", "--tmux", "--workspace", &workspace.to_string_lossy(), "--", &program];
    let output = in_tmux(live, tmux, &words);
    assert!(output.status.success(), "{}", shown(&output));
    let id = live.objects(&["session", "list"], "session")[0]["id"].as_str().unwrap().to_owned();
    let process = newest_process(live, &id);
    (id, process)
}

fn newest_process(live: &Live, id: &str) -> i32 {
    let run = live.objects(&["session", "show", id], "run").pop().unwrap();
    i32::try_from(run["pid"].as_i64().unwrap()).unwrap()
}

/// A killed agent's short-lived helpers, a search of files say, end a moment after it.
fn all_ended(live: &Live, id: &str) {
    wait(|| live.processes(id).is_empty().then_some(()));
}

fn conversations(live: &Live) -> Vec<PathBuf> {
    let projects = fs::read_dir(live.agent.config().join("projects")).into_iter().flatten().flatten();
    let files = projects.flat_map(|project| fs::read_dir(project.path()).into_iter().flatten().flatten());
    files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|e| e == "jsonl")).collect()
}

#[test]
fn a_real_agent_that_was_killed_before_its_first_prompt_comes_back_idle() {
    let (Some(live), tmux) = (Live::new(), Tmux::new()) else { return };
    let (id, process) = silent(&live, &tmux);
    kill(process);
    wait(|| tmux.sessions().is_empty().then_some(()));
    let output = in_tmux(&live, &tmux, &["session", "resume", &id]);
    assert!(output.status.success(), "{}", shown(&output));
    // Twice, and at once: whatever is killed, nobody takes its place.
    let process = newest_process(&live, &id);
    kill(process);
    wait(|| tmux.sessions().is_empty().then_some(()));
    all_ended(&live, &id);
    assert_eq!(live.api.exchanges().len(), 0);
    assert!(conversations(&live).is_empty(), "{:?}", conversations(&live));
}

#[test]
fn a_real_agent_without_a_terminal_does_nothing() {
    let (Some(live), tmux) = (Live::new(), Tmux::new()) else { return };
    let (id, process) = silent(&live, &tmux);
    kill(process);
    wait(|| tmux.sessions().is_empty().then_some(()));
    let command = live.command(&["session", "resume", &id, "--no-tmux"]).output().unwrap();
    assert_eq!(command.status.code(), Some(1), "{}", shown(&command));
    assert!(shown(&command).contains("needs a terminal"), "{}", shown(&command));
    assert_eq!(live.api.exchanges().len(), 0);
    all_ended(&live, &id);
}

#[test]
fn a_policy_has_a_dead_session_wait_for_a_person() {
    let work = Work::new(&[]);
    work.behave("wait");
    let resumed = work.on_terminal(&[]);
    kill(work.process());
    let output = resumed.wait_with_output().unwrap();
    assert!(!output.status.success(), "{}", shown(&output));
    let before = work.starts().len();
    write(&work.scratch.path("home/.config/parhelia/parhelia.toml"), b"[approval]\ndefault_policy = \"strict\"\n").unwrap();
    let said = work.scratch.expect(0, &["session", "resume", "--all"]);
    assert!(said.contains("policy strict has it wait for a person"), "{said}");
    assert_eq!(work.starts().len(), before, "nothing was started");
    let shown = work.scratch.expect(0, &["session", "show", "work"]);
    assert!(shown.contains("Wanted") && shown.contains("paused") && shown.contains("policy strict has it wait"), "{shown}");
    // It is a person's from now on, whatever the policy says later.
    fs::remove_file(work.scratch.path("home/.config/parhelia/parhelia.toml")).unwrap();
    assert!(work.scratch.expect(0, &["session", "resume", "--all"]).contains("No session needs to be resumed"));
}
