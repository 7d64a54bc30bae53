//! `heartbeat`: an agent in a container or on another machine, of which a service hears that it lives.

use std::{
    ffi::OsString,
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use parhelia_agent::{command::Agent, folder::ConfigFolder, open::said_by, process::host_name};
use parhelia_host::Host;
use parhelia_service::{BeginRun, EmitError, Emitter, Reach};
use parhelia_store::{clock, name::Shown as _};
use parhelia_wire::{Summary, summary::Ended};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    input, interrupt, limits,
    session::run::unless_closed,
    workspace::workspace,
};

/// So often it is looked whether the agent has ended.
const LOOK: Duration = Duration::from_millis(100);
/// An agent that is asked to end has so long before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// So often the end of a run is told to a service that cannot be reached.
const ENDS: u32 = 3;
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
    let emitter = Arc::new(Emitter::begin(reach(args)?, &begin).map_err(of_service)?);
    if !context.global.quiet && !context.out.json {
        tell!("Session {} runs here, as {}.", emitter.session(), emitter.run());
    }
    let asked = interrupt::Cancel::default();
    let _handled = interrupt::install(&asked)?;
    let started = limits::for_others(|| Command::new(&args.command[0]).args(&args.command[1..]).current_dir(&folder).spawn());
    let mut child = match started {
        Ok(child) => child,
        Err(source) => {
            // Nobody shall wait for it.
            let _ = emitter.end(127);
            return Err(Failure::File { action: "start", path: PathBuf::from(&args.command[0]), source });
        }
    };
    let watched = Watched { process: child.id().cast_signed(), config: config.map(|config| config.path), seen: None };
    let (over, is_over) = mpsc::channel::<()>();
    let is_fenced = Arc::new(AtomicBool::new(false));
    let beating = {
        let (emitter, is_fenced, interval) = (emitter.clone(), is_fenced.clone(), Duration::from_secs(args.interval));
        thread::spawn(move || beat(&emitter, watched, interval, &is_over, &is_fenced))
    };
    let ended = wait(&mut child, &asked, &is_fenced).map_err(|source| Failure::File {
        action: "wait for",
        path: PathBuf::from(&args.command[0]),
        source,
    })?;
    drop(over);
    let _ = beating.join();
    if is_fenced.load(Ordering::Relaxed) {
        let (session, run) = (emitter.session(), emitter.run());
        return Err(Failure::Refused(format!("run {run} of session {session} does not count any more; its agent was stopped")));
    }
    let code = ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or_default());
    end(&emitter, code);
    let (session, run) = (emitter.session().to_owned(), Some(emitter.run().to_owned()));
    let summary = Summary::Heartbeat(Ended { id: session, run, exit_code: Some(code), ..Ended::default() });
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

/// Says that the run lives until it is over. What cannot be told now is told with the next heartbeat; where another run has taken over, that is
/// noted, and this is the end.
fn beat(emitter: &Emitter, mut watched: Watched, interval: Duration, is_over: &mpsc::Receiver<()>, is_fenced: &AtomicBool) {
    let mut was_unreachable = false;
    loop {
        match is_over.recv_timeout(interval) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
        let (state, metrics) = watched.look();
        match emitter.beat(Some(&state), watched.last_activity().as_deref(), &metrics) {
            Ok(()) => was_unreachable = false,
            Err(EmitError::Refused(why)) => {
                tell!("parhelia: {why}; the agent is stopped");
                is_fenced.store(true, Ordering::Relaxed);
                return;
            }
            Err(error) if !was_unreachable => {
                tell!("parhelia: {error}; it is tried again");
                was_unreachable = true;
            }
            Err(_) => {}
        }
    }
}

/// Waits for the end of an agent. It is asked to end where this process is, or where it must not go on, and killed where it does not.
fn wait(child: &mut Child, asked: &AtomicBool, is_fenced: &AtomicBool) -> std::io::Result<ExitStatus> {
    let mut asked_at: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        let must_end = asked.load(Ordering::Relaxed) || is_fenced.load(Ordering::Relaxed);
        match asked_at {
            None if must_end => {
                asked_at = Some(Instant::now());
                if let Some(process) = Pid::from_raw(child.id().cast_signed()) {
                    let _ = kill_process(process, Signal::TERM);
                }
            }
            Some(at) if at.elapsed() > PATIENCE => child.kill()?,
            _ => {}
        }
        thread::sleep(LOOK);
    }
}

/// Says that a run is over.
fn end(emitter: &Emitter, code: i32) {
    for number in 1..=ENDS {
        match emitter.end(code) {
            Err(EmitError::Unreachable(_)) if number < ENDS => thread::sleep(Duration::from_secs(1)),
            Err(error) => tell!("parhelia: the end of run {} is not recorded: {error}", emitter.run()),
            Ok(()) => return,
        }
    }
}

/// The agent's process, as it is seen between two heartbeats.
struct Watched {
    process: i32,
    config: Option<PathBuf>,
    /// The last state and ticks of the processor, and since when they are so.
    seen: Option<(String, u64, jiff::Timestamp)>,
}

impl Watched {
    /// Its state and its numbers: an agent's own word, or else that it runs; time of the processor, and memory.
    fn look(&mut self) -> (String, Value) {
        let said = self.config.as_ref().and_then(|config| said_by(config, self.process)).and_then(|said| said.status);
        let state = said.unwrap_or_else(|| "running".to_owned());
        let (ticks, resident) = usage(self.process);
        let is_same = self.seen.as_ref().is_some_and(|(known, before, _)| *known == state && *before == ticks);
        if !is_same {
            self.seen = Some((state.clone(), ticks, clock::timestamp()));
        }
        let seconds = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
        (state, json!({"cpu_seconds": seconds, "memory_bytes": resident}))
    }

    /// The time at which its state was another one, or it used the processor, last.
    fn last_activity(&self) -> Option<String> {
        self.seen.as_ref().map(|(_, _, at)| at.to_string())
    }
}

/// Ticks of the processor that a process and its children have used, and bytes of its memory (proc_pid_stat(5)).
fn usage(process: i32) -> (u64, u64) {
    let stat = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat")).unwrap_or_default();
    // Behind the name, which stands in brackets and may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    let number = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
    let pages = number(21);
    ((11..=14).map(number).sum(), pages.saturating_mul(rustix::param::page_size() as u64))
}
