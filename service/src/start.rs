//! Starting agents in tmux, so that they outlive the service: the process in the pane, which starts the agent and watches over it, is a child of the
//! tmux server and none of ours.

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::mpsc,
    thread,
    time::Duration,
};

use parhelia_agent::{
    environment::{is_given, is_missed},
    process::Identity,
};
use parhelia_host::{Error, Host, Observer, Result, notice::Notice};
use parhelia_life::{
    resume::{Background, ResumeRequest, in_background},
    supervise::{Launch, LaunchRequest},
    template::WorkspaceCopy,
    tmux::server,
    workspace::place::workspace,
};
use parhelia_store::{event::Actor, progress::Progress};

use crate::{
    app::{App, AppState, ServiceHost},
    log::say,
    problem::Problem,
};

/// Nobody waits longer until an agent has been started, as where a workspace of millions of files is restored for it.
const LIMIT: Duration = Duration::from_secs(600);
/// The usual interval between checkpoints.
pub const INTERVAL: Duration = Duration::from_secs(300);

/// The folder of a session that is to begin.
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
type Variables = Vec<(OsString, OsString)>;

/// The service as the host of agents that it starts. An agent does what it likes with what it finds in its environment: it gets what it needs, and no
/// key that the service was started with for others.
struct Starter<'a> {
    service: &'a ServiceHost,
    given: Variables,
}

impl Host for Starter<'_> {
    fn behind(&self) -> Option<&dyn Host> {
        Some(self.service)
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        self.given.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    fn variables(&self) -> Variables {
        self.given.clone()
    }

    fn actor(&self) -> Actor {
        self.service.actor()
    }

    // A run that is being started names the service as its launcher, of which no other start is the work.
    fn line(&self) -> Vec<Identity> {
        self.service.line().into_iter().skip(1).collect()
    }

    fn program(&self) -> io::Result<PathBuf> {
        self.service.program()
    }

    fn start_agent(&self, command: &mut Command) -> io::Result<Child> {
        self.service.start_agent(command)
    }
}

/// The log as the observer of a start.
struct Log;

impl Progress for Log {
    fn notice(&self, text: &str) {
        say(text);
    }
}

impl Observer for Log {
    fn warn(&self, notice: &Notice) {
        say(&notice.to_string());
    }
}

/// The service's variables that an agent gets: the usual ones and those that the user lists, without the secrets that the service needs for
/// channels and trackers. And the names of the others.
fn variables(app: &AppState) -> Result<(Variables, Vec<String>)> {
    let config = app.host.config(Path::new("/"))?;
    let (secrets, also) = (config.secret_variables(), config.service.agent_variables);
    let is_own = |name: &OsString| name.to_str().is_some_and(|name| is_given(name, &also) && !secrets.contains(name));
    let (given, left): (Variables, Variables) = app.host.variables().into_iter().partition(|(name, _)| is_own(name));
    let names = left.iter().map(|(name, _)| name.to_string_lossy().into_owned()).filter(|name| is_missed(name));
    Ok((given, names.collect()))
}

/// Says which variables of the service the agents do not get that it begins, by name.
pub fn say_what_is_left(app: &AppState) {
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
pub fn begin(app: &App, request: LaunchRequest, place: Place) -> Result<String, Problem> {
    let folder = workspace(place.folder())?;
    within_limit(start(app, move |app, host| {
        let launch = |request| -> Result<String> {
            let launch = Launch::new(&app.store, host, request, &Log)?;
            let server = server(host, app.tmux_socket.as_deref(), None)?;
            Ok(launch.start_in_tmux(&app.store, host, &server, &Log)?.run.session)
        };
        match place {
            Place::Workspace(_) => launch(LaunchRequest { workspace: folder, ..request }),
            Place::CopyOf(_) => {
                let copied = WorkspaceCopy::make(host, folder, &Log)?;
                copied.or_removed(&app.store, launch(request.in_copy(&copied)))
            }
        }
    }))
}

/// Resumes a session, and waits until its agent lives.
pub fn resume(app: &App, session: String, prompt: Option<String>) -> Result<(), Problem> {
    within_limit(begin_resume(app, session, prompt))
}

/// Begins to resume a session. The result comes when its agent lives.
pub fn begin_resume(app: &App, session: String, prompt: Option<String>) -> mpsc::Receiver<Result<()>> {
    start(app, move |app, host| {
        let request = ResumeRequest { prompt, interval: Some(INTERVAL), ..ResumeRequest::default() };
        let done = in_background(&app.store, host, &session, &request, app.tmux_socket.as_deref(), &Log)?;
        if let Background::Started(_, made) = done
            && let Some(trouble) = made.waits()
        {
            say(trouble.text());
        }
        Ok(())
    })
}

/// Does something that starts an agent, on a thread of its own, which goes on where nobody waits any more.
fn start<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&AppState, &dyn Host) -> Result<T> + Send + 'static,
) -> mpsc::Receiver<Result<T>> {
    let (tell, done) = mpsc::channel();
    let (app, failed) = (app.clone(), tell.clone());
    let started = thread::Builder::new().name("start".into()).spawn(move || {
        let outcome = variables(&app).and_then(|(given, _)| work(&app, &Starter { service: &*app.host, given }));
        let _ = tell.send(outcome);
    });
    if let Err(e) = started {
        let _ = failed.send(Err(Error::Background(format!("there is no thread that starts an agent: {e}"))));
    }
    done
}

/// The result, if it comes within the limit.
fn within_limit<T>(done: mpsc::Receiver<Result<T>>) -> Result<T, Problem> {
    match done.recv_timeout(LIMIT) {
        Ok(outcome) => outcome.map_err(Problem::of_start),
        Err(mpsc::RecvTimeoutError::Timeout) => {
            Err(Problem::busy(format!("the agent has not started within {} s; it still may", LIMIT.as_secs())))
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(Problem::failed("the agent could not be started to its end")),
    }
}
