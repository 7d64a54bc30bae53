//! `heartbeat`: an agent in a container or on another machine, of which a service hears that it lives.

use std::{ffi::OsString, path::PathBuf, process::Command, time::Duration};

use parhelia_agent::{command::Agent, folder::ConfigFolder, process::host_name};
use parhelia_host::Host;
use parhelia_service::{BeginRun, EmitError, Emitter, HeartbeatFailure, Reach, supervise};
use parhelia_store::name::NameExt as _;
use parhelia_wire::{Summary, summary::RunOutcome};

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    input, interrupt, limits,
    session::run::unless_closed,
    workspace::workspace,
};

/// The longest file with a token or with certificates, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Flags of `heartbeat`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, by id or name; a new one begins if there is none of that name
    #[arg(long, value_name = "NAME")]
    session: String,
    /// The socket of the service
    #[arg(long, value_name = "PATH", required_unless_present = "url", conflicts_with = "url")]
    socket: Option<PathBuf>,
    /// The address of the service, such as `https://build.example:8443`
    #[arg(long, value_name = "URL", requires = "token_file")]
    url: Option<String>,
    /// The file with the service's token
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Trust the issuers in this file alone, in PEM
    #[arg(long, value_name = "FILE", requires = "url")]
    ca: Option<PathBuf>,
    /// The name of this container
    #[arg(long, value_name = "NAME")]
    container: Option<String>,
    /// The folder that the agent works in
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
    /// Say that it lives so often, in seconds; after 90 seconds of silence it counts as dead
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = clap::value_parser!(u64).range(1..=60))]
    interval: u64,
    /// The agent's command line
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Begins a run at the service, starts the agent, says that it lives until it has ended, and ends with its exit code.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let folder = workspace(&args.workspace)?;
    let words: Option<Vec<String>> = args.command.iter().map(|word| word.to_str().map(str::to_owned)).collect();
    let command = words.ok_or_else(|| Failure::Usage("the command line has bytes that JSON cannot have".into()))?;
    let begin = BeginRun {
        session: args.session.clone(),
        host: host_name(),
        container: args.container.clone(),
        workspace: Some(folder.shown()),
        command,
    };
    let config = Agent::of(&args.command).and_then(|agent| {
        let host = context.host().ok()?;
        ConfigFolder::of(agent.kind(), |name| host.variable(name))
    });
    let emitter = Emitter::begin(reach(args)?, &begin).map_err(of_service)?;
    if !context.global.quiet && !context.out.json {
        tell!("Session {} runs here, as {}.", emitter.session(), emitter.run());
    }
    let asked = interrupt::Cancel::default();
    let _handled = interrupt::install(&asked)?;
    let started = limits::for_others(|| Command::new(&args.command[0]).args(&args.command[1..]).current_dir(&folder).spawn());
    let child = match started {
        Ok(child) => child,
        Err(source) => {
            // Nobody shall wait for it.
            let _ = emitter.end(127);
            return Err(Failure::File { action: "start", path: PathBuf::from(&args.command[0]), source });
        }
    };
    let config = config.map(|config| config.path);
    let ended = supervise(&emitter, child, config, Duration::from_secs(args.interval), &asked, &|failure| match failure {
        HeartbeatFailure::Fenced(why) => tell!("parhelia: {why}; the agent is stopped"),
        HeartbeatFailure::Unreachable(why) => tell!("parhelia: {why}; it is tried again"),
        HeartbeatFailure::EndLost(why) => tell!("parhelia: the end of run {} is not recorded: {why}", emitter.run()),
    });
    let failed = |source| Failure::File { action: "wait for", path: PathBuf::from(&args.command[0]), source };
    let Some(code) = ended.map_err(failed)? else {
        let (session, run) = (emitter.session(), emitter.run());
        return Err(Failure::Refused(format!("run {run} of session {session} does not count any more; its agent was stopped")));
    };
    let (session, run) = (emitter.session().to_owned(), Some(emitter.run().to_owned()));
    let summary = Summary::Heartbeat(RunOutcome { id: session, run, exit_code: Some(code), ..RunOutcome::default() });
    unless_closed(context.out.summary(summary).and_then(|()| context.out.flush()))?;
    // This process stands for the agent.
    std::process::exit(code)
}

fn of_service(error: EmitError) -> Failure {
    match error {
        EmitError::Refused(_) => Failure::Refused(error.to_string()),
        EmitError::Unreachable(_) => Failure::Background { message: error.to_string(), code: Code::Failed },
    }
}

fn reach(args: &Args) -> Result<Reach> {
    let read = |path: &PathBuf| input::text_of(path, FILE_BYTES_MAX);
    Ok(match (&args.socket, &args.url, &args.token_file) {
        (Some(socket), ..) => Reach::Socket(socket.clone()),
        (None, Some(url), Some(token)) => Reach::Address {
            url: url.clone(),
            token: read(token)?.trim().to_owned(),
            authorities: args.ca.as_ref().map(read).transpose()?.map(String::into_bytes),
        },
        _ => return Err(Failure::Usage("give the service's --socket, or its --url and --token-file".into())),
    })
}
