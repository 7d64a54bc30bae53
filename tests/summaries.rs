//! Summaries of sessions: what was tried and failed is in the checkpoint, in its manifest, in the store's folder, and in the words for a
//! resumed agent.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
};

use parhelia_tests::{
    Scratch, binary,
    live::{lives, on_a_terminal, wait},
    receiver::{Answer, Receiver},
    scripted, write, write_program,
};
use serde_json::{Value, json};

/// An agent in name. It says what is in the file `first` in a new conversation, asks for what it should know, and ends.
const AGENT: &str = r#"test $how = startup && cat '@first' >> "$transcript"
event SessionStart $how > '@told'
"#;

const SECRET: &str = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
/// The variable with the key of an API, and the key.
const KEY: (&str, &str) = ("MODEL_KEY", "the-key-of-the-test");

/// A session `work` of that agent.
struct Work {
    scratch: Scratch,
    workspace: PathBuf,
    project: PathBuf,
}

fn line(fields: &Value) -> String {
    format!("{fields}\n")
}

impl Work {
    fn new() -> Self {
        let scratch = Scratch::new();
        let workspace = scratch.path("work");
        write(&workspace.join("src/auth.py"), b"import jwt\n").unwrap();
        let slug = workspace.to_string_lossy().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let project = scratch.path("home/.claude/projects").join(slug);
        fs::create_dir_all(&project).unwrap();
        let mut script = [scripted::HOOKED, AGENT]
            .concat()
            .replace("@project", &project.to_string_lossy())
            .replace("@parhelia", &binary().to_string_lossy());
        for name in ["work", "first", "told"] {
            script = script.replace(&format!("@{name}"), &scratch.path(name).to_string_lossy());
        }
        write_program(&scratch.path("bin/claude"), &script);
        Work { scratch, workspace, project }
    }

    /// Its agent says this, and ends.
    fn begin(&self, said: &str) {
        fs::write(self.scratch.path("first"), said).unwrap();
        let (program, place) = (self.scratch.path("bin/claude"), self.workspace.to_string_lossy().into_owned());
        let arguments = ["session", "run", "--name", "work", "--workspace", &place, "--", &program.to_string_lossy()];
        let output = self.scratch.command(&arguments).env(KEY.0, KEY.1).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Has a model asked, by these options.
    fn asks(&self, options: &str) {
        write(&self.scratch.path("home/.config/parhelia/parhelia.toml"), format!("[summary]\n{options}\n").as_bytes()).unwrap();
    }

    /// Has a command asked, which this script is.
    fn asks_script(&self, script: &str, more: &str) {
        let words = json!(["/bin/sh", "-c", script.replace("@", &format!("{}/", self.scratch.path("").display()))]);
        self.asks(&format!("command = {words}\n{more}"));
    }

    /// The model's answer that is kept, once it is about a checkpoint.
    fn answered(&self, checkpoint: &str) -> Value {
        let path = self.file(self.manifest()["session_id"].as_str().unwrap()).with_file_name("model-summary.json");
        wait(|| {
            let kept: Value = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
            (kept["checkpoint"] == checkpoint).then_some(kept)
        })
    }

    /// The log of hooks, once something is in it.
    fn logged(&self, text: &str) -> String {
        let path = self.scratch.path("home/.local/state/parhelia/hook.log");
        wait(|| fs::read_to_string(&path).ok().filter(|log| log.contains(text)))
    }

    fn id(&self) -> String {
        self.manifest()["id"].as_str().unwrap().to_owned()
    }

    fn page(&self) -> String {
        self.scratch.expect(0, &["session", "summary", "work"])
    }

    /// Makes a checkpoint by hand.
    fn checkpoint(&self) -> String {
        let place = self.workspace.to_string_lossy().into_owned();
        self.scratch.expect(0, &["checkpoint", "create", "work", "--workspace", &place]);
        self.id()
    }

    fn prompt(&self, text: &str) -> String {
        line(&json!({ "type": "user", "uuid": "u", "cwd": self.workspace, "message": { "role": "user", "content": text } }))
    }

    /// The records of a tool and of its result.
    fn did(&self, id: &str, tool: &str, input: &Value, output: &str, is_error: bool, result: &Value) -> String {
        let call = json!([{ "type": "tool_use", "id": id, "name": tool, "input": input }]);
        let message = json!({ "id": "m", "model": "m", "role": "assistant", "content": call, "stop_reason": "tool_use" });
        let block = json!([{ "type": "tool_result", "tool_use_id": id, "content": output, "is_error": is_error }]);
        line(&json!({ "type": "assistant", "uuid": "a", "message": message }))
            + &line(
                &json!({ "type": "user", "uuid": "r", "message": { "role": "user", "content": block }, "toolUseResult": result }),
            )
    }

    fn ran(&self, id: &str, command: &str, output: &str, is_error: bool) -> String {
        self.did(id, "Bash", &json!({ "command": command }), output, is_error, &Value::Null)
    }

    fn edited(&self, id: &str, old: &str, new: &str) -> String {
        let input = json!({ "file_path": self.workspace.join("src/auth.py"), "old_string": old, "new_string": new });
        self.did(id, "Edit", &input, "updated", false, &Value::Null)
    }

    /// A task with an approach that fails, one that passes, and something that is still in the way.
    fn story(&self) -> String {
        let asked = json!({ "questions": [{ "question": "Which library?" }] });
        [
            self.prompt("Fix the login"),
            self.did("1", "AskUserQuestion", &asked, "answered", false, &json!({ "answers": { "Which library?": "PyJWT" } })),
            self.edited("2", "import jwt", "import authlib"),
            self.ran("3", "pytest -q", "Exit code 1\nauthlib: incompatible with async", true),
            self.edited("4", "import authlib", "import jwt"),
            self.ran("5", "pytest -q", "15 passed", false),
            self.ran("6", "make deploy", &format!("Exit code 2\nmake: *** no key {SECRET}"), true),
        ]
        .concat()
    }

    /// Appends lines to the agent's conversation.
    fn says(&self, lines: &str) {
        let path = fs::read_dir(&self.project).unwrap().flatten().map(|entry| entry.path()).find(|path| path.is_file()).unwrap();
        File::options().append(true).open(path).unwrap().write_all(lines.as_bytes()).unwrap();
    }

    fn manifest(&self) -> Value {
        let lines = self.scratch.expect(0, &["checkpoint", "show", "work@latest", "--json"]);
        lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).find(|line| line["type"] == "manifest").unwrap()
    }

    fn file(&self, session: &str) -> PathBuf {
        self.scratch.store().join("sessions").join(session).join("summary.md")
    }

    /// Resumes, and returns what the agent is told.
    fn told(&self) -> String {
        self.scratch.expect(0, &["session", "resume", "work"]);
        let answer: Value = serde_json::from_slice(&fs::read(self.scratch.path("told")).unwrap()).unwrap();
        answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap().to_owned()
    }
}

const REVERTED: &str = "Edit of src/auth.py (`import authlib`), reverted: `pytest -q` failed: authlib: incompatible with async";
const PASSED: &str = "`pytest -q`: authlib: incompatible with async (passed after: edits of src/auth.py)";
const BLOCKER: &str = "`make deploy` fails: make: *** no key [redacted]";

#[test]
fn what_failed_is_summed_up_kept_and_told() {
    let work = Work::new();
    work.begin(&work.story());
    let page = work.scratch.expect(0, &["session", "summary", "work"]);
    let part = |title: &str| {
        let (_, behind) = page.split_once(&format!("### {title}\n")).unwrap_or_else(|| panic!("{page}"));
        behind.split("\n### ").next().unwrap_or_default().to_owned()
    };
    let manifest = work.manifest();
    let session = manifest["session_id"].as_str().unwrap();
    assert!(page.starts_with(&format!("## Session Summary: {session}\n")), "{page}");
    assert!(part("Progress").contains("Changed 1 file: src/auth.py (+2 -2)"), "{page}");
    assert_eq!(part("Decisions").trim(), "- Which library? PyJWT");
    assert_eq!(part("Failed Approaches").trim(), format!("- {REVERTED}\n- {PASSED}"));
    assert_eq!(part("Blockers").trim(), format!("- {BLOCKER}"));
    assert!(part("Context for Resume").contains("- Task: Fix the login\n"), "{page}");

    assert_eq!(manifest["session_summary"].as_str(), Some(page.as_str()));
    assert_eq!(manifest["parts"]["summary"]["status"], "captured");
    let schema: Value =
        serde_json::from_str(&fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/manifest.schema.json")).unwrap())
            .unwrap();
    jsonschema::validate(&schema, &manifest).unwrap_or_else(|e| panic!("{e}"));
    let file = work.file(session);
    assert_eq!(fs::read_to_string(&file).unwrap(), page);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);

    let line = work.scratch.expect(0, &["session", "summary", "work", "--json"]);
    let summary: Value = serde_json::from_str(line.lines().next().unwrap()).unwrap();
    assert_eq!((&summary["type"], &summary["generated_by"]), (&json!("session_summary"), &json!("rules")));
    assert_eq!(summary["approaches"][2]["resolved_by"], "edits of src/auth.py");
    assert_eq!(summary["recent_commands"][0], json!({ "command": "make deploy", "failed": true }));

    let told = work.told();
    let failed = format!("## Failed approaches: do not repeat them unless something has changed\n- {REVERTED}\n- {PASSED}\n");
    assert!(told.contains(&failed), "{told}");
    assert!(told.contains(&format!("## Blockers\n- {BLOCKER}\n")), "{told}");
    assert!(!page.contains(SECRET) && !told.contains(SECRET) && !line.contains(SECRET));
}

#[test]
fn each_checkpoint_has_its_own_summary_and_deleted_ones_leave_nothing() {
    let work = Work::new();
    work.begin(&work.story());
    let (first, file) =
        (work.manifest()["id"].as_str().unwrap().to_owned(), work.file(work.manifest()["session_id"].as_str().unwrap()));
    let place = work.workspace.to_string_lossy().into_owned();
    work.says(&work.ran("7", "make deploy", "deployed", false));
    work.scratch.expect(0, &["checkpoint", "create", "work", "--workspace", &place]);
    let second = work.manifest()["id"].as_str().unwrap().to_owned();
    let page = |checkpoint: &str| work.scratch.expect(0, &["session", "summary", "--checkpoint", checkpoint]);
    assert!(
        page(&first).contains(&format!("### Blockers\n- {BLOCKER}")) && page(&second).contains("### Blockers\nNone are known.")
    );
    assert!(page(&second).contains("(passed after: no step that is known)"), "{}", page(&second));
    let kept = || fs::read_to_string(&file);
    assert_eq!(kept().unwrap(), page(&second));
    work.scratch.expect(0, &["checkpoint", "delete", "--protected", &second]);
    work.scratch.expect(0, &["gc"]);
    assert_eq!(kept().unwrap(), work.scratch.expect(0, &["session", "summary", "work"]));
    assert!(kept().unwrap().contains(BLOCKER));
}

#[test]
fn a_folder_without_an_agent_has_none_and_so_has_a_session_that_wants_none() {
    let work = Work::new();
    let place = work.workspace.to_string_lossy().into_owned();
    work.scratch.expect(0, &["checkpoint", "create", "plain", "--workspace", &place]);
    let output = work.scratch.run(&["session", "summary", "plain"]);
    assert_eq!(output.status.code(), Some(10));
    assert!(String::from_utf8_lossy(&output.stderr).contains("has none"), "{}", String::from_utf8_lossy(&output.stderr));
    fs::write(work.workspace.join("parhelia.toml"), "[context]\ncapture_analysis = false\n").unwrap();
    work.begin(&work.story());
    let manifest = work.manifest();
    assert_eq!((&manifest["session_summary"], &manifest["parts"]["summary"]), (&Value::Null, &Value::Null));
    assert!(!work.scratch.store().join("sessions").exists());
    assert!(!work.told().contains("Failed approaches"));
}

#[test]
fn a_command_sums_up_and_the_next_checkpoint_takes_that_in() {
    let work = Work::new();
    let event = r#"{"hook_event_name":"SessionStart","session_id":"x","source":"startup","cwd":"/"}"#;
    let script = format!(
        "cat > @input; env > @env; pwd > @pwd; echo call >> @calls; echo '{event}' | '{}' hook; \
         printf '# Progress\\n- MARKED {SECRET} \\033[1m\\n'",
        binary().display()
    );
    work.asks_script(&script, "");
    work.begin(&work.story());
    let first = work.id();
    let kept = work.answered(&first);
    assert_eq!((&kept["schema"], &kept["text"]), (&json!(1), &json!("# Progress\n- MARKED [redacted] \\x1b[1m")));
    assert!(kept["generated_by"]["command"].as_str().unwrap().starts_with("/bin/sh -c "), "{kept}");
    let read = |name: &str| fs::read_to_string(work.scratch.path(name)).unwrap();
    let input = read("input");
    for told in ["Fix the login", "### Failed Approaches", "## User\n\nFix the login", "[redacted]"] {
        assert!(input.contains(told), "{told}: {input}");
    }
    assert!(!input.contains(SECRET) && !read("env").contains("PARHELIA_RUN_ID="), "{input}");
    assert_eq!(fs::read_dir(read("pwd").trim()).unwrap().count(), 0);
    // An agent that the command starts is no session's.
    work.logged("of an agent that is asked for a summary");
    assert_eq!(work.scratch.expect(0, &["session", "list", "--json"]).matches(r#""type":"session""#).count(), 1);

    let page = work.page();
    let quoted = format!(", of checkpoint {first}:\n\n> # Progress\n> - MARKED [redacted]");
    assert!(page.contains("\n### Summary by a Model\nWritten by `/bin/sh -c ") && page.contains(&quoted), "{page}");
    let file = work.file(work.manifest()["session_id"].as_str().unwrap());
    wait(|| fs::read_to_string(&file).ok().filter(|text| *text == page));
    assert!(!work.manifest()["session_summary"].as_str().unwrap().contains("MARKED"), "it was made after the checkpoint");
    let line = work.scratch.expect(0, &["session", "summary", "work", "--json"]);
    let summary: Value = serde_json::from_str(line.lines().next().unwrap()).unwrap();
    assert_eq!((&summary["generated_by"], &summary["model"]["checkpoint"]), (&json!("rules"), &json!(first)));

    let second = work.checkpoint();
    assert_ne!(first, second);
    assert_eq!(work.manifest()["session_summary"].as_str().unwrap(), work.page());
    assert!(work.page().contains(&quoted));
    assert_eq!(read("calls"), "call\n", "not more often than every ten minutes");
    // It begins for somebody at a terminal alone.
    let resume = work.scratch.command(&["session", "resume", "work", "--new-conversation"]);
    let mut terminal = on_a_terminal(&resume).spawn().unwrap();
    let input = terminal.stdin.take();
    terminal.wait().unwrap();
    drop(input);
    let told = read("told");
    assert!(told.contains(r"## Summary (written by a model)\n> # Progress\n> - MARKED [redacted]"), "{told}");
    // The second run's end has another conversation, of which the command is asked as well.
    let third = work.id();
    work.answered(&third);
    for checkpoint in [&third, &first] {
        work.scratch.expect(0, &["checkpoint", "delete", "--protected", checkpoint]);
    }
    work.scratch.expect(0, &["gc"]);
    assert!(!file.with_file_name("model-summary.json").exists());
}

#[test]
fn a_rollback_goes_back_behind_what_a_model_wrote() {
    let work = Work::new();
    work.asks_script("cat > /dev/null; echo call >> @calls; echo MARKED of call $(wc -l < @calls)", "every_minutes = 0");
    work.begin(&work.story());
    let first = work.id();
    work.answered(&first);
    work.says(&work.ran("7", "make deploy", "deployed", false));
    let second = work.checkpoint();
    work.answered(&second);
    assert!(work.page().contains("MARKED of call 2"));
    work.scratch.expect(0, &["rollback", &first, "--yes"]);
    assert!(!work.page().contains("MARKED of call 2"), "{}", work.page());
    work.scratch.expect(0, &["undo", "work", "--yes"]);
    assert!(work.page().contains("MARKED of call 2"), "{}", work.page());
}

#[test]
fn commands_that_fail_hang_or_flood_do_no_harm() {
    for (script, more, why) in [
        ("echo half; echo oops >&2; exit 3", "", "failed (exit status: 3): oops"),
        ("cat > /dev/null", "", "the answer is empty"),
        ("while :; do echo flood; done", "", "printed more than 64 KiB"),
        ("sleep 1000 & echo $! > @child; echo $$ > @parent; wait", "timeout_seconds = 5", "did not answer within 5 s"),
    ] {
        let work = Work::new();
        work.asks_script(script, more);
        work.begin(&work.story());
        let log = work.logged(why);
        assert!(log.contains("no model has summed up session "), "{log}");
        for name in ["child", "parent"].map(|name| work.scratch.path(name)) {
            let number = fs::read_to_string(name).ok().map(|number| number.trim().parse::<i32>().unwrap());
            assert!(number.is_some() || more.is_empty());
            if let Some(number) = number {
                wait(|| (!lives(number)).then_some(()));
            }
        }
        let page = work.page();
        assert!(page.contains(PASSED) && !page.contains("Summary by a Model"), "{page}");
        let file = work.file(work.manifest()["session_id"].as_str().unwrap());
        assert!(!file.with_file_name("model-summary.json").exists());
        assert_eq!(fs::read_to_string(file).unwrap(), page);
    }
}

#[test]
fn apis_are_asked_by_their_own_rules() {
    for (api, path) in [("anthropic", "/v1/messages"), ("openai", "/v1/chat/completions")] {
        let (work, receiver) = (Work::new(), Receiver::new());
        let answer = match api {
            "anthropic" => json!({ "content": [{ "type": "thinking", "thinking": "x" }, { "type": "text", "text": "MARKED" }] }),
            _ => json!({ "choices": [{ "message": { "role": "assistant", "content": "MARKED" } }] }),
        };
        let refusal = r#"{"error":{"message":"use 'max_completion_tokens' instead"}}"#;
        let refusal = (api == "openai").then(|| Answer::Status(400, String::new(), refusal.into()));
        receiver.will_answer(refusal.into_iter().chain([Answer::json(answer)]));
        let url = format!("{}{path}", receiver.url());
        work.asks(&format!(
            "url = \"{url}\"\napi = \"{api}\"\nmodel = \"m-1\"\nkey_variable = \"{}\"\nmax_output_tokens = 300",
            KEY.0
        ));
        work.begin(&work.story());
        let kept = work.answered(&work.id());
        assert_eq!((&kept["text"], &kept["generated_by"]), (&json!("MARKED"), &json!({ "api": api, "model": "m-1" })));
        assert!(work.page().contains(&format!("Written by m-1 ({api}) at ")), "{}", work.page());
        let request = receiver.requests_to(path).pop().unwrap();
        let body = request.json();
        assert_eq!(body["model"], "m-1");
        let told = body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
        assert!(told.contains("Fix the login") && !request.body.contains(SECRET), "{told}");
        let (key, bound) = match api {
            "anthropic" => (request.header("x-api-key").unwrap().to_owned(), &body["max_tokens"]),
            _ => (request.header("authorization").unwrap().replace("Bearer ", ""), &body["max_completion_tokens"]),
        };
        assert_eq!((key.as_str(), bound), (KEY.1, &json!(300)));
    }
}

#[test]
fn what_an_api_refuses_is_logged_without_the_key() {
    let (work, receiver) = (Work::new(), Receiver::new());
    let refusal = json!({ "error": { "message": format!("invalid key {}", KEY.1) } });
    receiver.will_answer([Answer::Status(401, String::new(), refusal.to_string())]);
    let url = receiver.url();
    work.asks(&format!("url = \"{url}/v1/messages\"\napi = \"anthropic\"\nmodel = \"m\"\nkey_variable = \"{}\"", KEY.0));
    work.begin(&work.story());
    let log = work.logged("it answered with status 401: invalid key (secret)");
    assert!(!log.contains(KEY.1) && !work.page().contains("Summary by a Model"), "{log}");
}

#[test]
fn a_project_has_no_model_asked() {
    let work = Work::new();
    let place = work.workspace.to_string_lossy().into_owned();
    let create = ["checkpoint", "create", "work", "--workspace", &place];
    write(&work.workspace.join("parhelia.toml"), b"[summary]\ncommand = [\"sh\", \"-c\", \"echo\"]\n").unwrap();
    let said = work.scratch.expect(0, &create);
    assert!(said.contains("parhelia.toml:2 does not count: `summary.command` cannot be set by a project"), "{said}");
    fs::remove_file(work.workspace.join("parhelia.toml")).unwrap();
    work.asks("command = [\"llm\"]\nurl = \"https://api.example/v1\"");
    let refused = work.scratch.expect(2, &create);
    assert!(refused.contains("parhelia.toml:2: `summary.command`: `command` and `url` exclude each other"), "{refused}");
}
