//! The command of a session that a resume runs: what its own launch ran. An agent that was started by hand takes a session up by its conversation
//! alone, and anything that calls itself an agent can do so; a person is asked before its command takes the place of the launch's.

use std::path::Path;

use parhelia_agent::{command::Agent, words::Resume};
use parhelia_ledger::{LedgerView as _, Run, Session};
use parhelia_store::Store;

use super::{find::config_of, life::LAUNCHER};
use crate::Result;

/// The commands with which a session's agents were started.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    /// The run whose command a resume runs: the last one that a supervisor of ours has started, else the first one.
    pub own: Option<Run>,
    /// The newest run, where it was begun in another way, and with another command or another folder of the agent's own.
    pub other: Option<Run>,
    /// The runs up to the one whose command it is, in order.
    pub until: Vec<String>,
}

/// The commands of a session.
pub fn commands_of(store: &Store, session: &Session) -> Result<Commands> {
    let view = store.view();
    let mut own: Option<Run> = None;
    for id in session.runs.iter().rev() {
        let Some(run) = view.run(id)?.filter(|run| !run.argv.is_empty()) else { continue };
        let is_launched = run.extra.contains_key(LAUNCHER);
        own = Some(run);
        if is_launched {
            break;
        }
    }
    let newest = view.newest_run(session)?.filter(|run| !run.argv.is_empty());
    let other =
        newest.zip(own.as_ref()).filter(|(newest, own)| newest.id != own.id && differs(own, newest)).map(|(newest, _)| newest);
    let at = own.as_ref().and_then(|own| session.runs.iter().position(|id| *id == own.id));
    let until = session.runs[..at.map_or(session.runs.len(), |at| at + 1)].to_vec();
    Ok(Commands { own, other, until })
}

/// True if the command of a run does something else than that of another one, beyond the conversation that it names.
fn differs(own: &Run, other: &Run) -> bool {
    let folders = config_of(own).zip(config_of(other));
    if folders.is_some_and(|(own, other)| own.path != other.path) {
        return true;
    }
    let (own, other) = (own.command(), other.command());
    let usual = |argv: &[_]| {
        Agent::of(argv).map(|agent| agent.resume_argv(&Resume { conversation: Some("it".into()), ..Resume::default() }))
    };
    let (Some(mut own), Some(mut other)) = (usual(&own), usual(&other)) else { return own != other };
    let name = |word: Option<&std::ffi::OsString>| word.and_then(|word| Path::new(word).file_name()).map(ToOwned::to_owned);
    // A program that is named alone is looked for as a person's is, and the launch's own is started anyway.
    let is_alone = name(other.first()).as_ref() == other.first() && name(own.first()) == name(other.first());
    if is_alone && !own.is_empty() {
        own.remove(0);
        other.remove(0);
    }
    own != other
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(argv: &[&str], folder: &str) -> Run {
        let config = json!({ "path": folder, "variable": "HOME" });
        let fields = json!({
            "id": "r", "session": "s", "epoch": 1, "started_at": "2026-01-01T00:00:00Z", "argv": argv, "config_folder": config,
        });
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn another_command_is_told_from_the_same_one_with_another_conversation() {
        let own = run(&["/opt/claude", "--model", "opus"], "/home/.claude");
        for same in [&["/opt/claude", "--model", "opus", "--resume", "x"][..], &["claude", "--model", "opus"]] {
            assert!(!differs(&own, &run(same, "/home/.claude")), "{same:?}");
        }
        for other in
            [&["/tmp/claude", "--model", "opus"][..], &["claude"], &["claude", "--model", "opus", "--settings", "x"], &["sh"]]
        {
            assert!(differs(&own, &run(other, "/home/.claude")), "{other:?}");
        }
        assert!(differs(&own, &run(&["/opt/claude", "--model", "opus"], "/tmp/.claude")));
    }
}
