//! The review at a terminal: the real binary in a real tmux, by keys and by lines.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    process::Command,
};

use parhelia_tests::{
    Scratch, binary,
    live::{lives, wait},
    tmux::Tmux,
};
use serde_json::{Value, json};

const AGENT_SESSION: &str = "0a1b2c3d-0000-4000-8000-000000000001";

/// A session with two checkpoints that wait, and a terminal in which a shell runs.
struct Desk {
    s: Scratch,
    tmux: Tmux,
    pane: String,
    /// The checkpoint that was approved, and the two that wait.
    ids: [String; 3],
}

impl Desk {
    fn new(size: (u16, u16), variables: &[(&str, &str)]) -> Self {
        let s = Scratch::new();
        let ids = session(&s);
        let tmux = Tmux::new();
        let (home, store, tmp) = (s.path("home"), s.store(), s.path("tmp"));
        fs::create_dir_all(&tmp).unwrap();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let own = [("HOME", text(&home)), ("PARHELIA_STORE", text(&store)), ("TMPDIR", text(&tmp)), ("SHELL", "/bin/sh".into())];
        let own: Vec<(&str, &str)> = own.iter().map(|(name, value)| (*name, value.as_str())).collect();
        tmux.start(&[&own[..], &[("PS1", "$ "), ("LC_ALL", "C.UTF-8")], variables].concat());
        let (columns, rows) = (size.0.to_string(), size.1.to_string());
        let session = ["new-session", "-d", "-s", "desk", "-x", &columns, "-y", &rows, "-P", "-F", "#{pane_id}", "exec sh"];
        let pane = tmux.ask(&session).trim().to_owned();
        Desk { s, tmux, pane, ids }
    }

    /// Types a text, as it is.
    fn write(&self, text: &str) {
        self.tmux.ask(&["send-keys", "-t", &self.pane, "-l", "--", text]);
    }

    /// Presses keys, by tmux's names.
    fn press(&self, keys: &[&str]) {
        self.tmux.ask(&[&["send-keys", "-t", &self.pane], keys].concat());
    }

    /// Types a command line.
    fn enter(&self, text: &str) {
        self.write(text);
        self.press(&["Enter"]);
    }

    /// Waits until the terminal shows a text; returns all that it shows.
    fn sees(&self, text: &str) -> String {
        self.tmux.wait_for(&self.pane, text)
    }

    /// Waits until the terminal does not show a text any more.
    fn misses(&self, text: &str) {
        wait(|| (!self.tmux.server.screen(&self.pane).unwrap_or_default().contains(text)).then_some(()));
    }

    fn ask(&self, format: &str) -> String {
        self.tmux.ask(&["display-message", "-p", "-t", &self.pane, format]).trim().to_owned()
    }

    /// Opens the screen, with the terminal's settings noted before and afterwards.
    fn open(&self) {
        let at = self.s.path("");
        self.enter(&format!(
            "cd {0}; stty -a > before; {1} session review s; echo \"over:$?\"; stty -a > after",
            at.display(),
            binary().display()
        ));
        self.sees("Session s");
    }

    /// Checks that the terminal is as it was before the screen.
    fn ensure_left(&self, code: i32) {
        self.sees(&format!("over:{code}"));
        let settings = |name: &str| fs::read_to_string(self.s.path(name)).unwrap_or_default();
        wait(|| (!settings("after").is_empty()).then_some(()));
        assert_eq!(settings("after"), settings("before"));
        assert_eq!((self.ask("#{alternate_on}").as_str(), self.ask("#{cursor_flag}").as_str()), ("0", "1"));
    }

    /// Sends SIGTERM to the review.
    fn terminate(&self) {
        let shell = self.ask("#{pane_pid}");
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).unwrap();
        let review = children.split_whitespace().next().unwrap();
        assert!(Command::new("kill").args(["-TERM", review]).status().unwrap().success());
    }

    fn status(&self, id: &str) -> Value {
        let text = self.s.expect(0, &["show", id, "--json"]);
        let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        line["approval"].clone()
    }
}

fn say(s: &Scratch, records: &[Value]) {
    let project = s.path("home/.claude/projects/-work");
    fs::create_dir_all(&project).unwrap();
    let mut file = File::options().create(true).append(true).open(project.join(format!("{AGENT_SESSION}.jsonl"))).unwrap();
    for (n, record) in records.iter().enumerate() {
        let mut record = record.clone();
        record["uuid"] = json!(format!("{}{n}", record["type"]));
        record["sessionId"] = AGENT_SESSION.into();
        writeln!(file, "{record}").unwrap();
    }
}

fn prompt(text: &str) -> Value {
    json!({ "type": "user", "message": { "role": "user", "content": text } })
}

fn reply(content: Value) -> Value {
    json!({ "type": "assistant", "message": { "role": "assistant", "id": "m", "model": "x", "content": content } })
}

fn create(s: &Scratch) -> String {
    let work = s.path("work");
    let create = ["create", "s", "-w", work.to_str().unwrap(), "--agent-session", AGENT_SESSION];
    s.summary(&create)["id"].as_str().unwrap().to_owned()
}

/// A session under the policy `strict`, in which a person has approved the first work.
fn session(s: &Scratch) -> [String; 3] {
    let work = s.path("work");
    fs::create_dir_all(work.join("src")).unwrap();
    fs::write(work.join("src/main.rs"), "fn main() {\n    old();\n}\n").unwrap();
    s.run(&["session", "run", "--name", "s", "--policy", "strict", "-w", work.to_str().unwrap(), "--", "true"]);
    say(s, &[prompt("begin"), reply(json!([{ "type": "text", "text": "Begun." }]))]);
    let first = create(s);
    s.expect(0, &["session", "approve", &first]);
    fs::write(work.join("src/main.rs"), "fn main() {\n    new(\"text\");\n}\n").unwrap();
    fs::write(work.join("notes \u{1b}[31m.txt"), "one\n\u{1b}[2Jtwo\n").unwrap();
    say(
        s,
        &[
            prompt("repair \u{1b}[2Jthe parser"),
            reply(json!([{ "type": "tool_use", "id": "t", "name": "Bash", "input": { "command": "cargo test" } }])),
            json!({ "type": "user", "message": { "role": "user",
                "content": [{ "type": "tool_result", "tool_use_id": "t", "content": "3 tests failed", "is_error": true }] } }),
        ],
    );
    let second = create(s);
    fs::write(work.join("third.txt"), "third\n").unwrap();
    [first, second, create(s)]
}

#[test]
fn a_person_reviews_two_checkpoints_at_the_keyboard() {
    let desk = Desk::new((150, 40), &[]);
    let [first, second, third] = &desk.ids;
    desk.open();
    // Files, diff and conversation, and nothing of them steers the terminal.
    for part in
        [third.as_str(), first, "pending review", "2 waiting", "Files (3)", "\\x1b[31m.txt", "> repair \\x1b[2Jthe parser"]
    {
        desk.sees(part);
    }
    for part in ["! cargo test", "| 3 tests failed"] {
        desk.sees(part);
    }
    desk.sees("+ \\x1b[2Jtwo");
    desk.press(&["j"]);
    desk.sees("+     new(\"text\");");
    desk.press(&["G"]);
    desk.sees("+ third");
    desk.write("/main");
    desk.press(&["Enter"]);
    desk.sees("-     old();");
    desk.press(&["Enter"]);
    desk.misses("Files (3)");
    desk.press(&["Escape"]);
    desk.sees("Files (3)");
    desk.press(&["?"]);
    desk.sees("down half a page");
    desk.press(&["Escape"]);
    desk.misses("down half a page");
    // The older one is rejected, the newer one approved.
    desk.press(&["["]);
    desk.sees("Files (2)");
    desk.press(&["r"]);
    desk.write("it drops the table");
    desk.press(&["Enter"]);
    desk.sees(&format!("Checkpoint {second} is rejected"));
    desk.press(&["]"]);
    desk.sees("Files (3)");
    desk.press(&["b"]);
    desk.sees("Files (1)");
    desk.press(&["b"]);
    desk.sees("Files (3)");
    desk.press(&["a", "Enter"]);
    desk.sees(&format!("Checkpoint {third} is approved"));
    desk.press(&["L"]);
    for part in ["Checkpoints (", "rejected", "approved"] {
        desk.sees(part);
    }
    // Both at once would be another key.
    desk.press(&["Escape"]);
    desk.misses("Checkpoints (");
    desk.press(&["q"]);
    desk.ensure_left(0);
    let shown = desk.sees("session end ");
    assert!(shown.contains(&format!("Checkpoint {third} of session ")) && shown.contains("is approved."), "{shown}");
    assert_eq!(
        (&desk.status(second)["status"], &desk.status(second)["reason"]),
        (&"rejected".into(), &"it drops the table".into())
    );
    assert_eq!(desk.status(third)["status"], "approved");
}

#[test]
fn a_shell_is_in_the_mounted_checkpoint_and_nothing_is_left_of_it() {
    let desk = Desk::new((120, 30), &[]);
    desk.open();
    desk.press(&["s"]);
    desk.sees("mounted read-only");
    desk.enter("cat third.txt; echo changed > third.txt");
    desk.sees("Read-only file system");
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    assert!(mounts.contains("parhelia-review-"), "{mounts}");
    desk.enter("exit");
    desk.sees("The shell has ended");
    assert_eq!(desk.ask("#{alternate_on}"), "1");
    let tmp = desk.s.path("tmp");
    assert!(!fs::read_to_string("/proc/mounts").unwrap().contains(tmp.to_str().unwrap()));
    assert_eq!(fs::read_dir(&tmp).unwrap().count(), 0);
    desk.press(&["q"]);
    desk.ensure_left(0);
}

#[test]
fn a_small_terminal_is_reviewed_as_well_and_new_checkpoints_are_told() {
    let desk = Desk::new((120, 30), &[("NO_COLOR", "1")]);
    desk.open();
    desk.sees("cargo test");
    desk.tmux.ask(&["resize-window", "-t", "desk", "-x", "60", "-y", "15"]);
    desk.misses("cargo test");
    desk.sees("Tab: diff, conversation");
    desk.press(&["BTab"]);
    desk.sees("! cargo test");
    desk.press(&["Tab", "j"]);
    fs::write(desk.s.path("work/fourth.txt"), "fourth\n").unwrap();
    let fourth = create(&desk.s);
    desk.sees("A new checkpoint waits");
    desk.sees(">M src/main.rs");
    desk.press(&["]"]);
    desk.sees(&fourth);
    desk.tmux.ask(&["resize-window", "-t", "desk", "-x", "40", "-y", "10"]);
    desk.sees("needs 50 columns");
    desk.tmux.ask(&["resize-window", "-t", "desk", "-x", "120", "-y", "30"]);
    desk.sees("Files (4)");
    desk.press(&["C-c"]);
    desk.ensure_left(0);
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    let desk = Desk::new((120, 30), &[]);
    desk.open();
    desk.terminate();
    desk.ensure_left(130);
}

#[test]
fn a_signal_ends_the_shell_and_its_mount_as_well() {
    let desk = Desk::new((120, 30), &[]);
    desk.open();
    desk.press(&["s"]);
    desk.sees("mounted read-only");
    desk.enter("cat third.txt");
    desk.sees("third");
    desk.terminate();
    desk.ensure_left(130);
    assert_eq!(fs::read_dir(desk.s.path("tmp")).unwrap().count(), 0);
}

#[test]
fn a_decision_that_is_refused_is_said_in_the_footer() {
    let desk = Desk::new((160, 30), &[]);
    desk.open();
    desk.s.expect(0, &["session", "reject", &desk.ids[2], "--reason", "first"]);
    desk.press(&["a", "Enter"]);
    desk.sees("that holds, and this decision is recorded as refused");
    desk.sees("rejected by");
    desk.press(&["q"]);
    desk.ensure_left(0);
}

#[test]
fn a_terminal_of_lines_is_asked_in_a_line() {
    let desk = Desk::new((150, 50), &[]);
    let third = &desk.ids[2];
    desk.enter(&format!("TERM=dumb {} session review s; echo \"over:$?\"", binary().display()));
    let shown = desk.sees("or [q]uit?");
    assert!(shown.contains("Commands that the agent ran") && desk.ask("#{alternate_on}") == "0", "{shown}");
    desk.enter("d");
    desk.sees("+    new(\"text\");");
    desk.enter("l");
    desk.sees("STATE");
    desk.enter("s");
    desk.sees("mounted read-only");
    desk.enter("cat third.txt; exit");
    desk.enter("r");
    desk.sees("Reason:");
    desk.enter("not yet");
    let shown = desk.sees("over:0");
    assert!(shown.contains(&format!("Checkpoint {third} of session ")) && shown.contains("is rejected."), "{shown}");
    assert_eq!(desk.status(third)["reason"], "not yet");
    desk.enter(&format!("clear; {} session review s --print | cat; echo \"printed:$?\"", binary().display()));
    let shown = desk.sees("printed:0");
    assert!(shown.contains("It is decided; to decide otherwise:") && !shown.contains("or [q]uit?"), "{shown}");
}

#[test]
fn a_review_that_continues_resumes_the_session() {
    let desk = Desk::new((120, 30), &[]);
    desk.open();
    desk.press(&["c"]);
    // The session's command has come to its end, which only a resume asks about.
    desk.sees("Run it again");
    desk.enter("n");
    desk.ensure_left(0);
}

#[test]
fn when_the_terminal_goes_away_the_screen_ends() {
    let desk = Desk::new((120, 30), &[]);
    desk.open();
    let shell = desk.ask("#{pane_pid}");
    let found = Command::new("pgrep").args(["-P", &shell]).output().unwrap();
    let process = String::from_utf8(found.stdout).unwrap().trim().parse().unwrap();
    assert!(lives(process));
    desk.tmux.ask(&["kill-pane", "-t", &desk.pane]);
    wait(|| (!lives(process)).then_some(()));
}
