use super::*;

const ID: &str = "11111111-2222-4333-8444-555555555555";

fn argv(text: &str) -> Vec<OsString> {
    text.split_whitespace().map(OsString::from).collect()
}

fn agent(text: &str) -> Agent {
    Agent::of(&argv(text)).unwrap()
}

fn resumed(text: &str, resume: &Resume) -> String {
    let words: Vec<_> = agent(text).resume_argv(resume).iter().map(|w| w.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

fn of(id: &str) -> Resume {
    Resume { conversation: Some(id.into()), ..Resume::default() }
}

#[test]
fn a_relative_program_is_found_from_any_folder() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("bin");
    std::fs::create_dir(&place).unwrap();
    for name in ["claude", "node"] {
        std::fs::write(place.join(name), "").unwrap();
    }
    let found = |text: &str| {
        let words = Agent::found_anywhere(argv(text), folder.path());
        words
            .iter()
            .map(|word| word.to_string_lossy().replace(&*folder.path().to_string_lossy(), "/w"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    for (text, expected) in [
        ("./bin/claude -p ./bin/claude", "/w/bin/claude -p ./bin/claude"),
        ("bin/node bin/claude --resume x", "/w/bin/node /w/bin/claude --resume x"),
        ("./gone/claude", "./gone/claude"),
        ("claude --add-dir bin/x", "claude --add-dir bin/x"),
        ("/opt/claude", "/opt/claude"),
        ("./bin/node other", "./bin/node other"),
    ] {
        assert_eq!(found(text), expected);
    }
}

#[test]
fn the_agent_is_known_by_its_name() {
    for text in ["claude", "/opt/x/claude -p hi", "npx -y @anthropic-ai/claude-code", "env A=1 claude"] {
        assert!(Agent::of(&argv(text)).is_some(), "{text}");
    }
    for text in [
        "bash -c claude",
        "vim",
        "claude mcp list",
        "",
        "sleep 1 claude",
        "claude doctor",
        "claude --debug-file x stop y",
        "claude --version",
    ] {
        assert!(Agent::of(&argv(text)).is_none(), "{text}");
    }
}

#[test]
fn a_launch_pins_the_conversation_once() {
    let launch = |text: &str| agent(text).launch_argv(Some(ID), &[]);
    assert_eq!(launch("claude --model x"), argv(&format!("claude --session-id {ID} --model x")));
    for own in ["claude --session-id 99999999-2222-4333-8444-555555555555", "claude -c", "claude -r", "claude --resume name"] {
        assert_eq!(launch(own), argv(own));
    }
    assert!(agent("claude -c").chooses_itself());
    assert_eq!(agent(&format!("claude -r {ID}")).conversation().as_deref(), Some(ID));
    assert_eq!(agent(&format!("claude --resume={ID} --fork-session")).conversation(), None);
    let with = agent("claude --settings mine --model x hello").launch_argv(Some(ID), &["--settings".into(), "{}".into()]);
    assert_eq!(with, argv(&format!("claude --session-id {ID} --settings {{}} --model x hello")));
}

#[test]
fn a_launch_leaves_the_words_as_they_are() {
    for text in
        ["claude -p --allowedTools Bash Write -- do it", "claude -p -- -v fails", "claude --model=x --mcp-config=a.json hi"]
    {
        let rest = text.strip_prefix("claude ").unwrap();
        let launched = agent(text).launch_argv(Some(ID), &[]);
        assert_eq!(launched, argv(&format!("claude --session-id {ID} {rest}")), "{text}");
    }
}

#[test]
fn a_resume_says_everything_again_but_the_conversation_and_the_prompt() {
    let text =
        "claude --session-id x --mcp-config a.json b.json --add-dir /a /b --permission-mode plan --new-flag --verbose -- do it";
    assert_eq!(
        resumed(text, &of(ID)),
        format!("claude --resume {ID} --mcp-config a.json b.json --add-dir /a /b --permission-mode plan --new-flag --verbose")
    );
    assert_eq!(resumed("claude -c --fork-session --model x prompt", &of(ID)), format!("claude --resume {ID} --model x"));
    let prompt = Resume { prompt: Some("go on".into()), ..of(ID) };
    assert_eq!(
        resumed("claude -p --allowedTools Bash Write", &prompt),
        format!("claude --resume {ID} -p --allowedTools Bash Write -- go on")
    );
    let streamed = "claude -p --input-format stream-json --replay-user-messages --output-format=stream-json";
    assert_eq!(resumed(streamed, &prompt), format!("claude --resume {ID} -p --output-format=stream-json -- go on"));
    assert!(resumed(streamed, &of(ID)).contains("--input-format stream-json"), "its caller gives the prompts");
    let fresh = Resume { new_conversation: Some(ID.into()), prompt: Some("x".into()), ..Resume::default() };
    assert_eq!(resumed("npx claude first", &fresh), format!("npx claude --session-id {ID} -- x"));
}

#[test]
fn a_prompt_is_not_given_again_behind_a_flag_that_nobody_knows() {
    let words = |line: &[&str]| -> Vec<OsString> { line.iter().map(OsString::from).collect() };
    let again = |line: &[&str], prompts: &[&str]| {
        let earlier_prompts = prompts.iter().map(|prompt| (*prompt).to_owned()).collect();
        let argv = Agent::of(&words(line)).unwrap().resume_argv(&Resume { earlier_prompts, ..of(ID) });
        argv.iter().skip(3).map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join("|")
    };
    assert_eq!(again(&["claude", "--restricted", "count"], &[]), "--restricted");
    assert_eq!(again(&["claude", "--from-the-future", "count them"], &[]), "--from-the-future");
    assert_eq!(again(&["claude", "--from-the-future", "count"], &["count\n"]), "--from-the-future");
    assert_eq!(again(&["claude", "--from-the-future", "count"], &["else"]), "--from-the-future|count");
    assert_eq!(again(&["claude", "--from-the-future", "a value", "count them"], &["count them"]), "--from-the-future|a value");
    assert_eq!(again(&["claude", "--name", "count", "count"], &["count"]), "--name|count");
    assert_eq!(again(&["claude", "--model", "opus"], &["opus"]), "--model|opus");
}

#[test]
fn management_commands_are_no_conversations() {
    for text in ["claude stop x", "claude respawn --all", "npx claude purge", "codex login", "gemini mcp list", "claude --help"] {
        assert!(Agent::of(&argv(text)).is_none() && Agent::managing(&argv(text)).is_some(), "{text}");
    }
    for text in ["claude stop-it", "claude -- stop", "codex exec stop", "make stop", ""] {
        assert!(Agent::managing(&argv(text)).is_none(), "{text}");
    }
    assert_eq!(agent("claude --bg x").works_unseen(), Some("--bg"));
    assert_eq!(agent("claude --cloud").works_unseen(), Some("--cloud"));
    assert_eq!(agent("claude x").works_unseen(), None);
}

#[test]
fn the_permission_mode_is_the_last_one() {
    let now = |mode: &str| Resume { permission_mode: Some(mode.into()), ..of(ID) };
    assert_eq!(
        resumed("claude --permission-mode plan", &now("acceptEdits")),
        format!("claude --resume {ID} --permission-mode acceptEdits")
    );
    assert_eq!(resumed("claude --permission-mode plan", &now("plan")), format!("claude --resume {ID} --permission-mode plan"));
    assert_eq!(
        resumed("claude --dangerously-skip-permissions", &now("default")),
        format!("claude --resume {ID} --allow-dangerously-skip-permissions --permission-mode default")
    );
    assert_eq!(
        resumed("claude --dangerously-skip-permissions", &of(ID)),
        format!("claude --resume {ID} --dangerously-skip-permissions")
    );
    assert_eq!(agent("claude --dangerously-skip-permissions").bypass(), Some(Bypass::On));
    assert_eq!(agent("claude --permission-mode=bypassPermissions").bypass(), Some(Bypass::On));
    assert_eq!(agent("claude --allow-dangerously-skip-permissions").bypass(), Some(Bypass::Offered));
    assert_eq!(agent("claude --permission-mode plan").bypass(), None);
}

#[test]
fn program_and_files_of_servers() {
    let of = |text: &str| {
        let agent = agent(text);
        let files: Vec<_> = agent.mcp_config().iter().map(|path| path.to_string_lossy().into_owned()).collect();
        (agent.program().map(|program| program.to_string_lossy().into_owned()), files.join(" "))
    };
    assert_eq!(of("/opt/claude --mcp-config a.json b.json -p x"), (Some("/opt/claude".into()), "a.json b.json".into()));
    let twice = "env A=1 claude --mcp-config=a.json --mcp-config {\"mcpServers\":{}} c.json";
    assert_eq!(of(twice), (Some("claude".into()), "a.json c.json".into()));
    assert_eq!(of("npx -y @anthropic-ai/claude-code"), (None, String::new()));
}

#[test]
fn what_was_recorded_as_an_id_is_no_flag_of_a_resume() {
    for id in ["--mcp-config=/tmp/evil.json", "--dangerously-skip-permissions", "-c", "", "a b", "../x"] {
        for text in ["claude", "codex", "gemini"] {
            assert_eq!(resumed(text, &of(id)), resumed(text, &Resume::default()), "{text} {id}");
        }
    }
}

#[test]
fn ids_are_uuids() {
    assert!(crate::id::is_conversation_id(&new_conversation_id()));
    assert_ne!(new_conversation_id(), new_conversation_id());
}

#[test]
fn an_agent_behind_another_program_is_seen_or_said_not_to_be() {
    let words = |line: &[&str]| -> Vec<OsString> { line.iter().map(OsString::from).collect() };
    for line in [
        &["timeout", "1h", "claude", "-p", "x"][..],
        &["timeout", "-s", "9", "3600", "claude", "-p", "x"],
        &["setsid", "claude", "-p", "x"],
    ] {
        assert!(Agent::of(&words(line)).is_some_and(|agent| agent.is_headless()), "{line:?}");
        assert!(!Agent::is_wrapped(&words(line)));
    }
    for line in [&["bash", "-c", "claude"][..], &["sh", "-c", "cd x && /opt/bin/claude --continue"], &["bwrap", "--", "claude"]] {
        assert!(Agent::of(&words(line)).is_none() && Agent::is_wrapped(&words(line)), "{line:?}");
    }
    for line in [&["sh", "-c", "make test"][..], &["aider", "--model", "gemini"], &["x", "-m", "claude", "-p", "ask gemini"]] {
        assert!(!Agent::is_wrapped(&words(line)), "{line:?}");
    }
    for line in [&["sudo", "-E", "claude"][..], &["start-it", "-v", "--", "gemini"], &["my-wrapper", "codex", "-p", "x"]] {
        assert!(Agent::is_wrapped(&words(line)), "{line:?}");
    }
    assert!(!Agent::is_wrapped(&words(&["claude"])));
}

#[test]
fn a_first_prompt_stands_behind_the_command_line_as_each_kind_takes_it() {
    let prompted = |text: &str| {
        let argv = agent(text).prompted("-fix it")?;
        Some(argv.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>())
    };
    let is = |text: &str, expected: &[&str]| {
        assert_eq!(prompted(text).unwrap_or_default(), expected, "{text}");
    };
    is("claude --model opus", &["claude", "--model", "opus", "--", "-fix it"]);
    is("npx -y @anthropic-ai/claude-code --", &["npx", "-y", "@anthropic-ai/claude-code", "--", "-fix it"]);
    is("codex", &["codex", "--", "-fix it"]);
    is("gemini", &["gemini", "--prompt-interactive=-fix it"]);
    for text in ["claude hello", "claude -p", "claude -- hello", "codex exec", "codex resume"] {
        assert_eq!(prompted(text), None, "{text}");
    }
}

#[test]
fn records_are_printed_by_headless_agents_that_are_asked_for_them() {
    let printed = |line: &str| agent(line).printed();
    for line in ["claude -p --output-format stream-json x", "env A=1 claude --output-format=json --print x"] {
        assert_eq!(printed(line), Some(Format::StreamJson), "{line}");
    }
    for line in
        ["claude -p x", "claude -p --output-format text x", "claude --output-format json", "codex exec --json x", "gemini -p x"]
    {
        assert_eq!(printed(line), None, "{line}");
    }
}

#[test]
fn files_that_lie_where_the_caller_is_are_named_by_absolute_paths() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("own.json"), "{}").unwrap();
    let anchored = |text: &str| {
        let argv = agent(text).anchored(folder.path())?;
        Some(argv.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" "))
    };
    // Tests run in the crate's folder.
    let here = std::path::absolute("Cargo.toml").unwrap();
    let expected = format!("claude --settings {} -p x", here.display());
    assert_eq!(anchored("claude --settings Cargo.toml -p x"), Some(expected));
    for same in
        ["claude --settings own.json", "claude --settings {}", "claude --settings gone.json", "codex --settings Cargo.toml"]
    {
        assert_eq!(anchored(same), None, "{same}");
    }
}
