//! Signatures of decisions by ssh keys, made and checked by `ssh-keygen -Y` as git does it. They tell which key decided, whoever can write to
//! the store.

use std::{
    collections::HashSet,
    fs::File,
    io::Write,
    os::fd::AsRawFd,
    path::Path,
    process::{Command, Output, Stdio},
};

use jiff::{SignedDuration, Timestamp};
use parhelia_store::{event::Event, id::Ulid};
use rustix::fs::{MemfdFlags, memfd_create};
use serde_json::{Map, Value, json};

use parhelia_host::refusal::DecisionRefusal;

/// The field of a decision with its signature.
pub const FIELD: &str = "signature";
/// Keeps a signature from being taken for one of a commit, a file or a mail.
const NAMESPACE: &str = "parhelia";
const PROGRAM: &str = "ssh-keygen";
/// The longest time between signing and recording: somebody may look for a passphrase. A key that is no longer allowed signs nothing later.
const APART_MAX: SignedDuration = SignedDuration::from_hours(1);

/// Everything that a signature of a decision covers.
#[derive(Clone, Debug)]
pub struct Statement<'a> {
    /// Id of the store.
    pub store: &'a str,
    /// Id of the checkpoint that was decided about.
    pub checkpoint: Ulid,
    /// Digest of its record: with that, of all its content.
    pub record: &'a str,
    /// The decision.
    pub status: &'a str,
    /// The person who decided.
    pub user: Option<&'a str>,
    /// The reason that the person gave; none without one.
    pub reason: Option<&'a str>,
    /// Time of signing.
    pub at: Timestamp,
}

impl Statement<'_> {
    /// The bytes that are signed: a line each, texts as JSON.
    fn bytes(&self) -> Vec<u8> {
        let Statement { store, checkpoint, record, status, user, reason, at } = self;
        let (user, reason) = (json!(user), json!(reason));
        format!(
            "parhelia decision 1\nstore {store}\ncheckpoint {checkpoint}\nrecord {record}\nstatus {status}\nuser {user}\nreason {reason}\nat {at}\n"
        )
        .into_bytes()
    }

    /// Signs it with a key: the path of a private key, or of a public one whose private key an agent of ssh has. If there is a file of allowed
    /// signers, a signature that would not count by it is refused.
    pub fn sign(&self, key: &Path, allowed: Option<&Path>) -> Result<Value, DecisionRefusal> {
        let refused = |why: String| DecisionRefusal::NotSigned { key: key.display().to_string(), why };
        let mut command = Command::new(PROGRAM);
        command.args(["-Y", "sign", "-n", NAMESPACE, "-f"]).arg(key);
        let output = fed(command, &self.bytes()).map_err(refused)?;
        match String::from_utf8(output.stdout) {
            Ok(text) if output.status.success() && !text.is_empty() => {
                match allowed.map(|allowed| self.signer(&text, allowed)).transpose() {
                    Ok(_) => Ok(json!({ "format": "ssh", "at": self.at.to_string(), "text": text })),
                    Err(Fault::Bad(why) | Fault::Unchecked(why)) => Err(refused(why)),
                }
            }
            _ => Err(refused(said(&output.stderr))),
        }
    }

    /// The principal whose key has signed it, by a file of allowed signers.
    fn signer(&self, signature: &str, allowed: &Path) -> Result<String, Fault> {
        let unchecked = |why: String| Fault::Unchecked(why);
        let mut file = memfd_create("signature", MemfdFlags::CLOEXEC).map(File::from).map_err(|e| unchecked(e.to_string()))?;
        file.write_all(signature.as_bytes()).map_err(|e| unchecked(e.to_string()))?;
        // It takes the signature from a file; this one is only in memory.
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let time = format!("-Overify-time={}", self.at.strftime("%Y%m%d%H%M%SZ"));
        let ask = |act: &str, more: &[&str], input: &[u8]| {
            let mut command = Command::new(PROGRAM);
            command.args(["-Y", act, &time, "-n", NAMESPACE, "-s", &path, "-f"]).arg(allowed).args(more);
            fed(command, input).map_err(unchecked)
        };
        let found = ask("find-principals", &[], b"")?;
        let principals = String::from_utf8_lossy(&found.stdout).into_owned();
        let Some(principal) = principals.lines().next().filter(|_| found.status.success()) else {
            return Err(Fault::Bad(format!("its key is none of the allowed ones ({})", said(&found.stderr))));
        };
        let checked = ask("verify", &["-I", principal], &self.bytes())?;
        match checked.status.success() {
            true => Ok(principal.to_owned()),
            false => Err(Fault::Bad(format!("it is not of this decision ({})", said(&checked.stderr)))),
        }
    }
}

/// The reason for which a signature says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not hold.
    Bad(String),
    /// It cannot be checked.
    Unchecked(String),
}

/// Runs `ssh-keygen` with an input. It asks for a passphrase at the terminal, not here.
fn fed(mut command: Command, input: &[u8]) -> Result<Output, String> {
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.map_err(|e| format!("{PROGRAM} cannot be run: {e}; the package openssh-client has it"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // It may end without reading all of it, of which its status tells.
        let _ = stdin.write_all(input);
    }
    child.wait_with_output().map_err(|e| format!("{PROGRAM}: {e}"))
}

/// The last line of an error, fit for a terminal.
fn said(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it says nothing");
    line.chars().filter(|c| !c.is_control()).collect()
}

/// The signature of a decision: its text, and the time of signing.
pub struct Signature {
    text: String,
    at: Timestamp,
}

impl Signature {
    /// The signature of an event; none where there is none, and why where it cannot be read.
    pub fn of(data: &Map<String, Value>) -> Option<Result<Self, String>> {
        let value = data.get(FIELD)?;
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        let read = || {
            let at = text("at")?.parse().ok()?;
            (text("format")? == "ssh").then_some(Signature { text: text("text")?.to_owned(), at })
        };
        Some(read().ok_or_else(|| "it is of a format that is not known here".to_owned()))
    }

    /// The principal who made the decision of an event in a store, about a checkpoint with a record of this digest. `seen` are the
    /// statements so far.
    pub fn signer(
        &self,
        event: &Event,
        store: &str,
        record: &str,
        allowed: &Path,
        seen: &mut HashSet<Vec<u8>>,
    ) -> Result<String, Fault> {
        let text = |name: &str| event.data.get(name).and_then(Value::as_str);
        let statement = Statement {
            store,
            checkpoint: event.subject.parse().map_err(|_| Fault::Bad("its checkpoint has no id".to_owned()))?,
            record,
            status: text("status").unwrap_or_default(),
            user: event.actor.user.as_deref(),
            reason: text("reason"),
            at: self.at,
        };
        if event.at.duration_since(self.at).abs() > APART_MAX {
            return Err(Fault::Bad(format!("it was made at {}, and the decision at {}", self.at, event.at)));
        }
        let signer = statement.signer(&self.text, allowed)?;
        match seen.insert(statement.bytes()) {
            true => Ok(signer),
            // Whoever may write to the store has copied it.
            false => Err(Fault::Bad("an earlier decision has the same one".into())),
        }
    }
}
