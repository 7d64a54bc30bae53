//! The outermost process above this one that a person, and no agent, has started for an agent.
//!
//! What a process finds in its environment may come from the agent that started it, or from a file of the project that the agent has read. The
//! environment that the launch was started with does not: the kernel keeps it as it was.

use std::{
    ffi::OsString,
    io::ErrorKind,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use super::find::agent_at;
use parhelia_agent::process::{Identity, ancestors, command_of, folder_of, program_of};

/// A process that is about to end is waited for so often, so long each time.
const ENDING_TRIES: u32 = 100;
const ENDING_WAIT: Duration = Duration::from_millis(10);

/// The process with which the line of an agent began.
#[derive(Clone, Debug)]
pub struct Outer {
    /// The process: a supervisor of ours, or an agent that was started by hand.
    pub process: Identity,
    /// True if it is a supervisor of ours.
    pub is_ours: bool,
    /// Its command line.
    pub argv: Vec<OsString>,
    /// The folder that it works in.
    pub folder: Option<PathBuf>,
    /// The environment that it was started with; none where the kernel does not show it, as that of another user's process.
    pub variables: Option<Vec<(OsString, OsString)>>,
}

impl Outer {
    /// The one above this process; none where that descends from no agent. `supervises` tells of a program and its
    /// command line whether it is a supervisor of ours.
    pub fn above(supervises: &dyn Fn(&Path, &[OsString]) -> bool) -> Option<Self> {
        // One that is about to end has no environment any more, and is soon above nobody.
        for _ in 0..ENDING_TRIES {
            match Self::now(supervises) {
                Some(ending) if ending.variables.as_ref().is_some_and(Vec::is_empty) => thread::sleep(ENDING_WAIT),
                found => return found,
            }
        }
        None
    }

    fn now(supervises: &dyn Fn(&Path, &[OsString]) -> bool) -> Option<Self> {
        // An agent can start others, and supervisors with whatever flags it likes: the first one counts.
        ancestors().into_iter().skip(1).rev().filter(|process| process.process > 1).find_map(|process| {
            let is_ours = || {
                let argv = command_of(process.process);
                program_of(process.process).is_some_and(|program| supervises(&program, &argv)).then_some(argv)
            };
            let (argv, is_ours) = match is_ours() {
                Some(argv) => (argv, true),
                None => (agent_at(process.process)?, false),
            };
            let folder = folder_of(process.process);
            let variables = match process.variables() {
                Ok(variables) => Some(variables),
                Err(e) if e.kind() == ErrorKind::PermissionDenied => None,
                // It ends just now.
                Err(_) => Some(Vec::new()),
            };
            Some(Outer { process, is_ours, argv, folder, variables })
        })
    }

    /// A variable that it was started with.
    pub fn variable(&self, name: &str) -> Option<OsString> {
        let variables = self.variables.as_ref()?;
        variables.iter().find(|(known, value)| known == name && !value.is_empty()).map(|(_, value)| value.clone())
    }
}
