//! Issue trackers: the real binary, and stand-ins for GitHub, Linear and Beads.

mod beads;
mod github;
mod linear;
mod stand_ins;
mod troubles;

use std::{fs, path::PathBuf, process::Command};

use parhelia_tests::{
    Scratch,
    live::{is_locked, wait},
    write,
};
use serde_json::Value;
use stand_ins::{Hub, Lines};

/// The secrets, which stand nowhere.
const SECRETS: [&str; 2] = ["ghp_very-secret", "lin_api_very-secret"];

/// The configuration of most tests; `<hub>` and `<lines>` stand for the addresses of the stand-ins.
const GITHUB: &str = r#"
[integrations]
insecure_loopback = true
[integrations.github]
token = "${GITHUB_TOKEN}"
default_repo = "o/r"
api = "<hub>"
"#;

const LINEAR: &str = r#"
[integrations]
insecure_loopback = true
[integrations.linear]
api_key = "${LINEAR_API_KEY}"
default_team = "ENG"
api = "<lines>/graphql"
"#;

/// A store with trackers.
struct Tracked {
    scratch: Scratch,
    hub: Hub,
    lines: Lines,
}

impl Tracked {
    fn with(config: &str) -> Self {
        let tracked = Tracked { scratch: Scratch::new(), hub: Hub::new(), lines: Lines::new() };
        tracked.configure(config);
        fs::create_dir_all(tracked.workspace()).unwrap();
        tracked
    }

    fn configure(&self, config: &str) {
        let path = self.scratch.path("home/.config/parhelia/parhelia.toml");
        let config = config.replace("<hub>", &self.hub.receiver.url()).replace("<lines>", &self.lines.receiver.url());
        write(&path, config.as_bytes()).unwrap();
    }

    fn workspace(&self) -> PathBuf {
        self.scratch.path("work")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.scratch.command(arguments);
        command.env("GITHUB_TOKEN", SECRETS[0]).env("LINEAR_API_KEY", SECRETS[1]);
        command.env("NO_PROXY", "*").current_dir(self.workspace());
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", self.scratch.path("bin").display()));
        command
    }

    /// Runs a command, whatever its end, and returns what it said.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.command(arguments).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    }

    fn expect(&self, code: i32, arguments: &[&str]) -> String {
        let (found, said) = self.run(arguments);
        assert_eq!(found, Some(code), "{arguments:?}: {said}");
        said
    }

    /// Runs a session of a name whose program ends with a code.
    fn session(&self, name: &str, code: i32) {
        let script = format!("echo $$ >> file; exit {code}");
        let workspace = self.workspace().to_string_lossy().into_owned();
        self.expect(code, &["session", "run", "--workspace", &workspace, "--name", name, "--", "sh", "-c", &script]);
    }

    /// Deliveries that wait or have failed.
    fn outbox(&self) -> Vec<Value> {
        let said = self.expect(0, &["outbox", "list", "--json"]);
        let lines = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["type"] == "delivery").collect()
    }

    /// Waits until everything that was recorded is delivered, or has failed.
    fn settled(&self) {
        wait(|| {
            if is_locked(&self.scratch.store().join("outbox/lock")) {
                return None;
            }
            let state: Value = serde_json::from_slice(&fs::read(self.scratch.store().join("outbox/state.json")).ok()?).ok()?;
            let log = self.expect(0, &["log", "--json", "-n", "1"]);
            let last: Value = serde_json::from_str(log.lines().next()?).unwrap();
            (state["cursor"].as_u64() >= last["sequence"].as_u64()).then_some(())
        });
    }

    /// The events of a kind.
    fn events(&self, kind: &str) -> Vec<Value> {
        let log = self.expect(0, &["log", "--json"]);
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["kind"] == kind).collect()
    }

    /// The newest checkpoint of the session that was begun last.
    fn head(&self) -> String {
        let created = self.events("checkpoint.created");
        created.last().unwrap()["subject"].as_str().unwrap().to_owned()
    }

    /// Panics if a secret stands in the store, in the log of hooks, or in what verbs print.
    fn assert_no_secret(&self) {
        let mut texts = vec![self.expect(0, &["log", "--json"]), self.expect(0, &["outbox", "list", "--json"])];
        texts.push(self.expect(0, &["config", "show"]));
        let log = self.scratch.path("home/.local/state/parhelia/hook.log");
        texts.push(fs::read_to_string(log).unwrap_or_default());
        let files = parhelia_tests::files_in(&self.scratch.store());
        texts.extend(files.values().map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
        for secret in SECRETS {
            assert!(!texts.iter().any(|text| text.contains(secret)), "{secret} was written down");
        }
    }
}
