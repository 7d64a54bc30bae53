//! Notifications: the real binary, and stand-ins for whoever gets them.

mod channels;
mod troubles;

use std::fs;

use parhelia_tests::{
    Scratch,
    live::{is_locked, wait},
    receiver::{Receiver, Request},
    write,
};
use serde_json::Value;

/// A store with channels, and who gets what is sent on them.
struct Told {
    scratch: Scratch,
    receiver: Receiver,
}

/// The channels of most tests; `URL` stands for the receiver's address.
const CHANNELS: &str = r#"
[notifications]
default_channel = "slack"
insecure_loopback = true
page = "http://127.0.0.1:8123/"

[notifications.routing]
info = ["mine"]
notice = ["slack", "discord", "ntfy", "mine"]

[notifications.channels.slack]
webhook_url = "${HOOK}/slack/very-secret"
username = "Parhelia"

[notifications.channels.discord]
webhook_url = "${HOOK}/discord/very-secret"

[notifications.channels.ntfy]
server = "URL/ntfy"
topic = "${TOPIC}"
token = "${NTFY_TOKEN}"

[notifications.channels.mine]
type = "webhook"
url = "URL/mine"
secret = "${SIGN}"
"#;

impl Told {
    /// With a configuration in which `URL` stands for the receiver's address.
    fn with(config: &str) -> Self {
        let told = Told { scratch: Scratch::new(), receiver: Receiver::new() };
        told.configure(config);
        told
    }

    fn configure(&self, config: &str) {
        let path = self.scratch.path("home/.config/parhelia/parhelia.toml");
        write(&path, config.replace("URL", &self.receiver.url()).as_bytes()).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = self.scratch.command(arguments);
        command.env("HOOK", self.receiver.url()).env("TOPIC", "agents").env("NTFY_TOKEN", "tk_very-secret");
        command.env("SIGN", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").env("TZ", "UTC");
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
        let workspace = self.scratch.path("work");
        fs::create_dir_all(&workspace).unwrap();
        let script = format!("echo $$ >> file; exit {code}");
        let workspace = workspace.to_string_lossy().into_owned();
        self.expect(code, &["session", "run", "--workspace", &workspace, "--name", name, "--", "sh", "-c", &script]);
    }

    /// Deliveries that wait or have failed.
    fn outbox(&self) -> Vec<Value> {
        let said = self.expect(0, &["outbox", "list", "--json"]);
        let lines = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.filter(|line| line["type"] == "delivery").collect()
    }

    /// The first request to a path, once it has come.
    fn first(&self, path: &str) -> Request {
        wait(|| self.receiver.requests_to(path).into_iter().next())
    }

    /// The state of the outbox, once nobody delivers any more.
    fn settled(&self) {
        let lock = self.scratch.store().join("outbox/lock");
        wait(|| (lock.exists() && !is_locked(&lock)).then_some(()));
    }
}
