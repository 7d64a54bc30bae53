//! One tmux server, by its socket.

use parhelia_name::step::Step;
use std::{
    ffi::{OsStr, OsString},
    fmt, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{
    error::{Error, Result},
    process::RUN_MARKER,
    program,
};

/// A tmux server, which may not run yet, and the program that reaches it.
#[derive(Clone)]
pub struct Server {
    program: PathBuf,
    socket: Option<PathBuf>,
    config: Option<PathBuf>,
    /// The environment that it is started with; none for that of this process.
    variables: Option<Vec<(OsString, OsString)>>,
    limit: Duration,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Variables may be secrets.
        f.debug_struct("Server").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl Server {
    /// The server of a socket; without one, the user's default server. No call of it takes longer than `limit`.
    pub fn new(socket: Option<PathBuf>, limit: Duration) -> Self {
        Server { program: "tmux".into(), socket, config: None, variables: None, limit }
    }

    /// Asks it by a program that does not lie in a workspace; where there is none, by none at all.
    pub fn outside(mut self, workspace: &Path) -> Self {
        let found = program::outside("tmux", std::env::var_os("PATH").as_deref(), workspace);
        self.program = found.unwrap_or_else(|| "/nonexistent/tmux".into());
        self
    }

    /// The server that `TMUX` (`SOCKET,PROCESS,SESSION`) names, in the environment of a process inside it.
    pub fn of_variable(tmux: &str, limit: Duration) -> Option<Self> {
        let mut parts = tmux.rsplitn(3, ',');
        let socket = parts.nth(2).filter(|socket| !socket.is_empty())?;
        Some(Server::new(Some(socket.into()), limit))
    }

    /// Starts, where it has to be started, with another configuration file than the user's.
    pub fn with_config(mut self, config: impl Into<PathBuf>) -> Self {
        self.config = Some(config.into());
        self
    }

    /// Starts, where it has to be started, with these variables alone.
    pub fn with_variables(mut self, variables: Vec<(OsString, OsString)>) -> Self {
        self.variables = Some(variables);
        self
    }

    /// Its socket, where it is not the default one.
    pub fn socket(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    /// A command line for it, to be run by the caller.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if let Some(variables) = &self.variables {
            command.env_clear().envs(variables.iter().map(|(name, value)| (name, value)));
        }
        // UTF-8 whatever the locale: otherwise every other character of a name would come back as `_`.
        command.arg("-u");
        if let Some(socket) = &self.socket {
            command.arg("-S").arg(socket);
        }
        if let Some(config) = &self.config {
            command.arg("-f").arg(config);
        }
        // A server that is started here outlives the run, and belongs to none.
        command.env_remove(RUN_MARKER).env_remove("TMUX").env_remove("TMUX_PANE");
        command
    }

    /// Runs a tmux command and returns what it prints.
    pub fn call<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<Vec<u8>> {
        let arguments: Vec<OsString> = arguments.into_iter().map(|a| a.as_ref().to_owned()).collect();
        program::run(self.command().args(arguments), self.limit)
    }

    /// As [`Server::call`], with something to read.
    pub fn call_on<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>, input: Stdio) -> Result<Vec<u8>> {
        let arguments: Vec<OsString> = arguments.into_iter().map(|a| a.as_ref().to_owned()).collect();
        program::run_on(self.command().args(arguments), input, self.limit)
    }

    /// As [`Server::call`], of one line of text.
    pub fn ask<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<String> {
        let printed = self.call(arguments)?;
        Ok(String::from_utf8_lossy(&printed).trim_end_matches('\n').to_owned())
    }

    /// As [`Server::ask`], for making a session. A server that is ending loses the request, so that it is repeated.
    pub fn make<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String> {
        const ENDING: [&str; 2] = ["server exited", "lost server"];
        let until = Instant::now() + self.limit;
        loop {
            match self.ask(arguments) {
                Err(Error::Program { reason, .. })
                    if ENDING.iter().any(|words| reason.contains(words)) && Instant::now() < until =>
                {
                    std::thread::sleep(Duration::from_millis(20));
                }
                other => return other,
            }
        }
    }

    /// True if the server runs. Starts none.
    pub fn is_running(&self) -> Result<bool> {
        match self.call(["list-sessions", "-F", "#{session_id}"]) {
            Ok(_) => Ok(true),
            Err(Error::Program { .. }) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Fails where it is there and cannot be seen from here, as one outside of this container: what it starts would run there.
    pub fn ensure_seen(&self) -> Result<()> {
        let Ok(numbers) = self.ask(["list-sessions", "-F", "#{pid}"]) else { return Ok(()) };
        let name = |number: &str| fs::read_to_string(format!("/proc/{number}/comm")).unwrap_or_default();
        if numbers.lines().next().is_none_or(|number| name(number).starts_with("tmux")) {
            return Ok(());
        }
        let socket = self.socket.as_ref().map_or_else(String::new, |path| format!(" of {}", path.display()));
        Err(Error::Invalid(format!(
            "the tmux server{socket} runs outside of this container, and so would all that it starts; give {} PATH for another one",
            Step::TmuxSocket
        )))
    }

    /// True if it has a session of exactly this name.
    pub fn has_session(&self, name: &str) -> Result<bool> {
        match self.call(["has-session", "-t", &format!("={name}")]) {
            Ok(_) => Ok(true),
            Err(Error::Program { .. }) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The text that a pane shows now, without colours.
    pub fn screen(&self, pane: &str) -> Result<String> {
        let printed = self.call(["capture-pane", "-p", "-t", pane])?;
        Ok(String::from_utf8_lossy(&printed).into_owned())
    }

    /// The same with the line above. When a pane dies, tmux moves everything up by one, to say so in the last line.
    pub fn last_screen(&self, pane: &str) -> Result<String> {
        let printed = self.call(["capture-pane", "-p", "-J", "-S", "-1", "-t", pane])?;
        Ok(String::from_utf8_lossy(&printed).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_names_the_socket() {
        let limit = Duration::from_secs(1);
        let server = Server::of_variable("/tmp/tmux-0/odd,name,4711,0", limit).unwrap();
        assert_eq!(server.socket(), Some(Path::new("/tmp/tmux-0/odd,name")));
        assert!(Server::of_variable("", limit).is_none());
        assert!(Server::of_variable("4711,0", limit).is_none());
    }
}
