//! The agent's arguments: a pinned conversation at launch, and the same again with `--resume`.
//!
//! The agent forgets most of its flags when a conversation is resumed, so that all of them are given again but for those that say
//! which conversation, and for the prompt that has been answered already.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::words::{Piece, pieces};

/// Flags that choose a conversation, or belong to one start only; never given again.
const OF_ONE_START: &[&str] = &[
    "--session-id",
    "--resume",
    "-r",
    "--continue",
    "-c",
    "--fork-session",
    "--from-pr",
    "--resume-session-at",
    "--resume-drops-turn",
    "--worktree",
    "-w",
    "--tmux",
    "--background",
    "--bg",
    "--file",
];

/// A way around the agent's permission checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bypass {
    /// All checks are off.
    On,
    /// The user may turn them off.
    Offered,
}

/// A command line of the agent, understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    program: Vec<OsString>,
    pieces: Vec<Piece>,
}

impl Agent {
    /// Understands a command line: the agent's program by its name, directly or behind `env`, `npx` and the like. `None` for any other
    /// program, and for the agent's own management commands.
    pub fn of(argv: &[OsString]) -> Option<Self> {
        let at = argv.iter().take(8).position(is_agent)?;
        let name_of = |word: &OsString| Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned());
        // A limit or a priority stands between these and what they start.
        let takes_more =
            argv.first().and_then(name_of).is_some_and(|name| matches!(name.as_str(), "timeout" | "nice" | "ionice" | "stdbuf"));
        let launcher = |word: &OsString| {
            let name = Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let is_more = takes_more && name.starts_with(|c: char| c == '-' || c.is_ascii_digit());
            is_more
                || matches!(name.as_str(), "timeout" | "ionice" | "stdbuf" | "setsid")
                || matches!(
                    name.as_str(),
                    "env" | "npx" | "nice" | "bunx" | "pnpm" | "dlx" | "exec" | "node" | "nohup" | "-y" | "--yes"
                )
                || name.contains('=')
        };
        if !argv[..at].iter().all(launcher) {
            return None;
        }
        let pieces = pieces(&argv[at + 1..]);
        const COMMANDS: [&str; 14] = [
            "agents",
            "attach",
            "auth",
            "auto-mode",
            "doctor",
            "gateway",
            "install",
            "logs",
            "mcp",
            "plugin",
            "project",
            "setup-token",
            "update",
            "upgrade",
        ];
        match pieces.first() {
            Some(Piece::Word(word)) if COMMANDS.iter().any(|command| word == command) => None,
            _ => Some(Agent { program: argv[..=at].to_vec(), pieces }),
        }
    }

    /// Whether a command line that starts no agent itself names one, as `bash -c claude` does: the conversation is not known by it.
    pub fn is_wrapped(argv: &[OsString]) -> bool {
        let has = |word: &OsString| word.to_string_lossy().split_whitespace().any(|part| is_agent(&part.into()));
        Agent::of(argv).is_none() && argv.iter().any(has)
    }

    fn flag(&self, names: &[&str]) -> Option<&[OsString]> {
        self.pieces.iter().find_map(|piece| match piece {
            Piece::Flag { name, words } if names.contains(&name.as_str()) => Some(words.as_slice()),
            _ => None,
        })
    }

    fn value(&self, names: &[&str]) -> Option<String> {
        self.flag(names)?.first().map(|word| word.to_string_lossy().into_owned())
    }

    /// Whether it answers one prompt, printing to standard output.
    pub fn is_headless(&self) -> bool {
        self.flag(&["--print", "-p"]).is_some()
    }

    /// Whether the conversation is kept on disk.
    pub fn is_persistent(&self) -> bool {
        self.flag(&["--no-session-persistence"]).is_none()
    }

    /// Whether it runs hooks.
    pub fn has_hooks(&self) -> bool {
        self.flag(&["--bare", "--safe-mode"]).is_none()
    }

    /// The permission mode that the command line asks for.
    pub fn permission_mode(&self) -> Option<String> {
        match self.bypass() {
            Some(Bypass::On) => Some("bypassPermissions".into()),
            _ => self.value(&["--permission-mode"]),
        }
    }

    /// Whether it goes around permission checks.
    pub fn bypass(&self) -> Option<Bypass> {
        let asked = self.value(&["--permission-mode"]).is_some_and(|mode| mode == "bypassPermissions");
        if asked || self.flag(&["--dangerously-skip-permissions"]).is_some() {
            return Some(Bypass::On);
        }
        self.flag(&["--allow-dangerously-skip-permissions"]).map(|_| Bypass::Offered)
    }

    /// The conversation that the command line pins, where it does.
    pub fn conversation(&self) -> Option<String> {
        let is_forked = self.flag(&["--fork-session"]).is_some();
        let pinned = self.value(&["--session-id"]);
        let resumed = self.value(&["--resume", "-r"]).filter(|_| !is_forked);
        pinned.or(resumed).filter(|id| is_conversation_id(id))
    }

    /// Whether the command line leaves the choice of the conversation to the agent.
    pub fn chooses_itself(&self) -> bool {
        self.conversation().is_none() && self.flag(&["--resume", "-r", "--continue", "-c", "--from-pr"]).is_some()
    }

    /// The agent's own program; none where a launcher is given a package.
    pub fn program(&self) -> Option<&OsString> {
        self.program.last().filter(|word| !word.as_encoded_bytes().starts_with(b"@"))
    }

    /// Files with MCP servers that the command line adds. Servers that stand in the command line itself are in no file.
    pub fn mcp_config(&self) -> Vec<PathBuf> {
        let values = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Flag { name, words } if name == "--mcp-config" => Some(words),
            _ => None,
        });
        let is_file = |word: &&OsString| !word.to_string_lossy().trim_start().starts_with('{');
        values.flatten().filter(is_file).map(PathBuf::from).collect()
    }

    /// The settings that the command line adds, a file or JSON.
    pub fn settings(&self) -> Option<String> {
        self.value(&["--settings"])
    }

    /// The command line with the conversation pinned, and with these settings instead of its own.
    pub fn launch_argv(&self, conversation: Option<&str>, settings: Option<&str>) -> Vec<OsString> {
        let mut argv = self.program.clone();
        if let Some(id) = conversation.filter(|_| self.conversation().is_none() && !self.chooses_itself()) {
            argv.extend(["--session-id".into(), id.into()]);
        }
        if let Some(settings) = settings {
            argv.extend(["--settings".into(), settings.into()]);
        }
        for piece in &self.pieces {
            match piece {
                Piece::Flag { name, .. } if name == "--settings" && settings.is_some() => {}
                piece => piece.write(&mut argv),
            }
        }
        argv
    }
}

/// How a conversation is resumed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resume {
    /// The conversation to go on with; without one a new conversation begins.
    pub conversation: Option<String>,
    /// The id of a new conversation, where one begins.
    pub new_conversation: Option<String>,
    /// Where it is to stand now; the recorded mode may have been changed since the launch.
    pub permission_mode: Option<String>,
    /// What to say first. A headless agent needs something.
    pub prompt: Option<String>,
    /// Settings in place of the recorded ones.
    pub settings: Option<String>,
}

/// The command line that resumes what a recorded one began. Everything recorded is said again, but for which conversation and the prompt.
pub fn resume_argv(agent: &Agent, resume: &Resume) -> Vec<OsString> {
    let mut argv = agent.program.clone();
    match (&resume.conversation, &resume.new_conversation) {
        (Some(id), _) => argv.extend(["--resume".into(), id.into()]),
        (None, Some(id)) => argv.extend(["--session-id".into(), id.into()]),
        (None, None) => {}
    }
    if let Some(settings) = &resume.settings {
        argv.extend(["--settings".into(), settings.into()]);
    }
    let mode = resume.permission_mode.as_ref().filter(|mode| !mode.is_empty() && Some(*mode) != agent.permission_mode().as_ref());
    for piece in &agent.pieces {
        match piece {
            Piece::Flag { name, .. } if OF_ONE_START.contains(&name.as_str()) => {}
            Piece::Flag { name, .. } if name == "--settings" && resume.settings.is_some() => {}
            Piece::Flag { name, .. }
                if mode.is_some() && (name == "--permission-mode" || name == "--dangerously-skip-permissions") =>
            {
                // Leaving a bypass must be possible again.
                if name == "--dangerously-skip-permissions" {
                    argv.push("--allow-dangerously-skip-permissions".into());
                }
            }
            Piece::Flag { .. } => piece.write(&mut argv),
            Piece::Word(_) => {}
        }
    }
    if let Some(mode) = mode {
        argv.extend(["--permission-mode".into(), mode.into()]);
    }
    if let Some(prompt) = &resume.prompt {
        // The last flag may take many words.
        argv.extend(["--".into(), prompt.into()]);
    }
    argv
}

/// A new conversation's id.
pub fn new_conversation_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn is_conversation_id(text: &str) -> bool {
    uuid::Uuid::try_parse(text).is_ok()
}

fn is_agent(word: &OsString) -> bool {
    let name = Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    matches!(name.as_str(), "claude" | "claude.exe" | "claude-code")
        || (name == "cli.js" && word.to_string_lossy().contains("claude-code"))
        || (word.to_string_lossy().starts_with("@anthropic-ai/claude-code"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "11111111-2222-4333-8444-555555555555";

    fn argv(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn agent(text: &str) -> Agent {
        Agent::of(&argv(text)).unwrap()
    }

    fn resumed(text: &str, resume: &Resume) -> String {
        let words: Vec<_> = resume_argv(&agent(text), resume).iter().map(|w| w.to_string_lossy().into_owned()).collect();
        words.join(" ")
    }

    fn of(id: &str) -> Resume {
        Resume { conversation: Some(id.into()), ..Resume::default() }
    }

    #[test]
    fn the_agent_is_known_by_its_name() {
        for text in ["claude", "/opt/x/claude -p hi", "npx -y @anthropic-ai/claude-code", "env A=1 claude"] {
            assert!(Agent::of(&argv(text)).is_some(), "{text}");
        }
        for text in ["bash -c claude", "vim", "claude mcp list", "", "sleep 1 claude", "claude doctor"] {
            assert!(Agent::of(&argv(text)).is_none(), "{text}");
        }
    }

    #[test]
    fn a_launch_pins_the_conversation_once() {
        let launch = |text: &str| agent(text).launch_argv(Some(ID), None);
        assert_eq!(launch("claude --model x"), argv(&format!("claude --session-id {ID} --model x")));
        for own in ["claude --session-id 99999999-2222-4333-8444-555555555555", "claude -c", "claude -r", "claude --resume name"]
        {
            assert_eq!(launch(own), argv(own));
        }
        assert!(agent("claude -c").chooses_itself());
        assert_eq!(agent(&format!("claude -r {ID}")).conversation().as_deref(), Some(ID));
        assert_eq!(agent(&format!("claude --resume={ID} --fork-session")).conversation(), None);
        let with = agent("claude --settings mine --model x hello").launch_argv(Some(ID), Some("{}"));
        assert_eq!(with, argv(&format!("claude --session-id {ID} --settings {{}} --model x hello")));
    }

    #[test]
    fn a_resume_says_everything_again_but_the_conversation_and_the_prompt() {
        let text = "claude --session-id x --mcp-config a.json b.json --add-dir /a /b --permission-mode plan --new-flag --verbose -- do it";
        assert_eq!(
            resumed(text, &of(ID)),
            format!(
                "claude --resume {ID} --mcp-config a.json b.json --add-dir /a /b --permission-mode plan --new-flag --verbose"
            )
        );
        assert_eq!(resumed("claude -c --fork-session --model x prompt", &of(ID)), format!("claude --resume {ID} --model x"));
        let prompt = Resume { prompt: Some("go on".into()), ..of(ID) };
        assert_eq!(
            resumed("claude -p --allowedTools Bash Write", &prompt),
            format!("claude --resume {ID} -p --allowedTools Bash Write -- go on")
        );
        let fresh = Resume { new_conversation: Some(ID.into()), prompt: Some("x".into()), ..Resume::default() };
        assert_eq!(resumed("npx claude first", &fresh), format!("npx claude --session-id {ID} -- x"));
    }

    #[test]
    fn the_permission_mode_is_the_last_one() {
        let now = |mode: &str| Resume { permission_mode: Some(mode.into()), ..of(ID) };
        assert_eq!(
            resumed("claude --permission-mode plan", &now("acceptEdits")),
            format!("claude --resume {ID} --permission-mode acceptEdits")
        );
        assert_eq!(
            resumed("claude --permission-mode plan", &now("plan")),
            format!("claude --resume {ID} --permission-mode plan")
        );
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
    fn ids_are_uuids() {
        assert!(is_conversation_id(&new_conversation_id()));
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
        for line in
            [&["bash", "-c", "claude"][..], &["sh", "-c", "cd x && /opt/bin/claude --continue"], &["bwrap", "--", "claude"]]
        {
            assert!(Agent::of(&words(line)).is_none() && Agent::is_wrapped(&words(line)), "{line:?}");
        }
        assert!(!Agent::is_wrapped(&words(&["sh", "-c", "make test"])));
        assert!(!Agent::is_wrapped(&words(&["claude"])));
    }
}
