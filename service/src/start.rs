//! Starting agents: a process of its own does it, as if somebody had given the command at a terminal. It is no child for long: the agent is in
//! tmux, and outlives the service.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::{Child, Output, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use parhelia_agent::environment::{is_given, is_missed};
use serde_json::Value;

use crate::{api::problem::Problem, app::Shared, log::say};

/// Nobody waits longer until an agent has been started, as where a workspace of millions of files is restored for it.
const LIMIT: Duration = Duration::from_secs(600);

/// An agent that is to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// In a new session.
    New(NewSession),
    /// In a session whose agent is dead.
    Resume {
        /// The session, by its id.
        session: String,
        /// The words that are said to the agent first.
        prompt: Option<String>,
    },
}

/// A session that is to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSession {
    /// Its name; none for that of its folder.
    pub name: Option<String>,
    /// Its policy of approval; none for the configured one.
    pub policy: Option<String>,
    /// Its folder.
    pub place: Place,
    /// Seconds between checkpoints, made where something has changed; 0 for never, none for the usual ones.
    pub interval: Option<u64>,
    /// The agent's command line.
    pub command: Vec<String>,
    /// The words that are said to the agent first.
    pub prompt: Option<String>,
}

/// The folder of a session that is to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// One that is there.
    Workspace(PathBuf),
    /// A new copy of this one.
    CopyOf(PathBuf),
}

impl Place {
    /// The folder that was given.
    pub fn folder(&self) -> &Path {
        match self {
            Place::Workspace(folder) | Place::CopyOf(folder) => folder,
        }
    }
}

/// Variables of an environment.
pub type Variables = Vec<(OsString, OsString)>;

/// Starts the process that starts an agent, with these variables alone, with its standard output and its standard error: in a process group of its
/// own, so that it outlives the service.
pub type Starter = dyn Fn(&Start, &Variables, Stdio, Stdio) -> io::Result<Child> + Send + Sync;

/// Starts the process that starts an agent.
pub fn process(app: &Shared, start: &Start, out: Stdio, errors: Stdio) -> io::Result<Child> {
    let (given, _) = variables(app)?;
    (app.starter)(start, &given, out, errors)
}

/// The service's variables that an agent gets: the usual ones and those that the user lists, without the secrets that the service needs for
/// channels and trackers. And the names of the others.
fn variables(app: &Shared) -> io::Result<(Variables, Vec<String>)> {
    let config = app.host.config(Path::new("/")).map_err(io::Error::other)?;
    let (secrets, also) = (config.secret_variables(), config.service.agent_variables);
    let is_own = |name: &OsString| name.to_str().is_some_and(|name| is_given(name, &also) && !secrets.contains(name));
    let (given, left): (Variables, Variables) = app.host.variables().into_iter().partition(|(name, _)| is_own(name));
    let names = left.iter().map(|(name, _)| name.to_string_lossy().into_owned()).filter(|name| is_missed(name));
    Ok((given, names.collect()))
}

/// Says which variables of the service the agents do not get that it begins, by name.
pub fn say_what_is_left(app: &Shared) {
    match variables(app) {
        Ok((_, names)) if names.is_empty() => {}
        Ok((_, mut names)) => {
            names.sort();
            say(&format!(
                "agents that the service begins do not get these of its variables: {}; `service.agent_variables` lists what they get besides the \
                 usual ones",
                names.join(", ")
            ));
        }
        Err(e) => say(&format!("which variables agents get is not known: {e}")),
    }
}

/// Begins a session, and waits until its agent lives. Returns its id.
pub fn begin(app: &Shared, new: NewSession) -> Result<String, Problem> {
    let output = done(app, &Start::New(new))?;
    let lines = String::from_utf8_lossy(&output.stdout);
    let summary = lines.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
    let id = summary.as_ref().and_then(|summary| summary["id"].as_str());
    id.map(str::to_owned).ok_or_else(|| Problem::failed("the process that begins a session does not say which one it has begun"))
}

/// Resumes a session, and waits until its agent lives.
pub fn resume(app: &Shared, session: String, prompt: Option<String>) -> Result<(), Problem> {
    done(app, &Start::Resume { session, prompt }).map(drop)
}

/// The output of the process, once it is done. Fails with its own words where it fails.
fn done(app: &Shared, start: &Start) -> Result<Output, Problem> {
    let failed = |e: io::Error| Problem::failed(format!("the process that starts an agent cannot be started: {e}"));
    let process = process(app, start, Stdio::piped(), Stdio::piped()).map_err(failed)?;
    let Some(output) = output_within(process, LIMIT).map_err(failed)? else {
        return Err(Problem::busy(format!("the agent has not started within {} s; it still may", LIMIT.as_secs())));
    };
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().trim_start_matches("parhelia: ");
    Err(Problem::of_start(output.status.code(), said))
}

/// The output of a process that ends within a time; none of another one, which goes on and is waited for by a thread.
fn output_within(process: Child, limit: Duration) -> io::Result<Option<Output>> {
    let (tell, done) = mpsc::channel();
    thread::Builder::new().name("start".into()).spawn(move || tell.send(process.wait_with_output()))?;
    done.recv_timeout(limit).ok().transpose()
}

#[cfg(test)]
mod tests {
    use std::{io::Write, process::Command};

    use super::*;

    #[test]
    fn a_process_that_takes_too_long_goes_on_without_us() {
        let start = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let done = output_within(start("echo words >&2; exit 3"), Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!((done.status.code(), &done.stderr[..]), (Some(3), &b"words\n"[..]));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("done");
        let mut process = start(&format!("read line; echo done > '{}'", file.display()));
        let mut input = process.stdin.take().unwrap();
        assert!(output_within(process, Duration::from_millis(50)).unwrap().is_none());
        input.write_all(b"go on\n").unwrap();
        while !file.exists() {
            thread::sleep(Duration::from_millis(10));
        }
    }
}
