//! `session run`: starts an agent with a conversation of a known id, records the run, and keeps checkpoints of it.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use parhelia_agent::command::Agent;
use parhelia_life::{
    supervise::{self, Launch, LaunchRequest, ensure_launchable},
    template::WorkspaceCopy,
    tmux::server,
};
use parhelia_store::Store;
use parhelia_wire::{Line, Summary, session::AgentStart, summary::RunOutcome};

use super::{prompt_file, signals, tmux};
use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    host::Shell,
    interrupt, outbox, told_settings,
    workspace::workspace,
};

/// Flags of `session run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session's name [default: the workspace folder's name]
    #[arg(long)]
    name: Option<String>,
    /// The folder that the agent works in
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
    /// Work in a new copy of this folder, which holds instructions and tools of an agent; the copy is named as the session's workspace
    #[arg(long, value_name = "DIR", conflicts_with = "workspace")]
    agent_folder: Option<PathBuf>,
    /// Make a checkpoint at least so often, in seconds, where something has changed; 0 for never
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = clap::value_parser!(u64).range(..=31_536_000))]
    interval: u64,
    /// The policy that approves its checkpoints, or has them wait for a person: auto, review, strict, or one of your own [default:
    /// approval.default_policy]
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// The file with the first prompt, which another process of ours has written
    #[arg(long, hide = true, value_name = "FILE")]
    prompt_file: Option<PathBuf>,
    #[command(flatten)]
    tmux: tmux::Flags,
    /// The session's id and the agent folder of which the workspace is a copy, from the process of ours that made it
    #[arg(long, hide = true, num_args = 2, value_names = ["ID", "DIR"], requires = "workspace")]
    copied: Option<Vec<OsString>>,
    /// The agent's command line
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Starts it, and waits for its end.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    ensure_launchable(&args.command)?;
    let prompt = args.prompt_file.as_deref().map(prompt_file::take).transpose()?;
    told_settings::tell_all();
    if Agent::is_wrapped(&args.command) {
        tell!(
            "parhelia: the agent is started by another program, so that its conversation is only known where hooks are installed, and resuming \
             the session runs that program again; give the agent's own command line for more"
        );
    }
    if !args.tmux.tmux && (args.tmux.detach || args.tmux.tmux_socket.is_some()) {
        return Err(Failure::Usage("--detach and --tmux-socket need --tmux".into()));
    }
    let folder = workspace(args.agent_folder.as_ref().unwrap_or(&args.workspace))?;
    let store = context.open_or_make()?;
    outbox::after::watch(context);
    crate::remote::after::watch(context);
    let host = context.host()?;
    let request = LaunchRequest {
        name: args.name.clone(),
        policy: args.policy.clone(),
        command: args.command.clone(),
        prompt,
        interval: (args.interval > 0).then(|| Duration::from_secs(args.interval)),
        is_quiet: context.global.quiet,
        ..LaunchRequest::default()
    };
    if args.agent_folder.is_some() {
        let copied = WorkspaceCopy::make(&host, folder, &context.progress())?;
        let launched = launch(context, args, (&store, &host), request.in_copy(&copied));
        return copied.or_removed(&store, launched);
    }
    let request = match args.copied.as_deref() {
        // Another process of ours has made it.
        Some([id, agents]) => {
            let id = id.to_string_lossy().into_owned();
            request.in_copy(&WorkspaceCopy { id, folder: agents.into(), workspace: folder })
        }
        _ => LaunchRequest { workspace: folder, ..request },
    };
    launch(context, args, (&store, &host), request)
}

/// Launches the agent in a workspace that is there.
fn launch(context: &mut Context, args: &Args, (store, host): (&Store, &Shell), request: LaunchRequest) -> Result<Code> {
    let bar = context.progress();
    let launch = Launch::new(store, host, request, &bar)?;
    if args.tmux.tmux {
        let server = server(host, args.tmux.tmux_socket.as_deref(), None)?;
        let signals = interrupt::install(&context.cancel())?;
        let made = launch.start_in_tmux(store, host, &server, &bar)?;
        drop(signals);
        let started = tmux::show(context, &args.tmux, &made)?;
        context.out.summary(Summary::SessionRun(started))?;
        return Ok(Code::Done);
    }
    let begun = launch.begin(store, host, &bar)?;
    // Standard output is the agent's.
    if !context.global.quiet && !context.out.json {
        tell!("Session {} begins.", begun.current.session);
    }
    let (current, conversation) = (&begun.current, &begun.conversation);
    let (session, run) = (current.session.clone(), current.run.clone());
    let (epoch, conversation) = (current.epoch, conversation.clone());
    let started = AgentStart { session: session.clone(), run: run.clone(), epoch, conversation, ..AgentStart::default() };
    let said = context.out.object(Line::Started(Box::new(started))).and_then(|()| context.out.flush());
    supervise::or_ended(store, host, current, &bar, unless_closed(said))?;
    let stops = supervise::or_ended(store, host, current, &bar, signals::take_over())?;
    let ended = launch.supervise(store, host, begun, &stops, &context.supervisor())?;
    let (run, exit_code) = (Some(run), Some(ended.code.into()));
    let summary = Summary::SessionRun(RunOutcome { id: session, run, exit_code, ..RunOutcome::default() });
    exit_as_agent(context, ended.code, Ok(summary))
}

/// Success also where standard output was closed: a reader that is gone keeps no agent from being started.
pub fn unless_closed(printed: Result<()>) -> Result<()> {
    printed.or_else(|failure| if failure.is_broken_pipe() { Ok(()) } else { Err(failure) })
}

/// Ends this process, which stands for the agent, with the agent's exit code. Where that is 0 and the summary could not be printed, with 3.
pub fn exit_as_agent(context: &mut Context, code: u8, summary: Result<Summary>) -> ! {
    let printed = summary.and_then(|summary| context.out.summary(summary)).and_then(|()| context.out.flush());
    outbox::after::hand_over(context);
    crate::remote::after::hand_over(context);
    if let Err(failure) = unless_closed(printed) {
        tell!("parhelia: {failure}");
        std::process::exit(if code == 0 { Code::Partly as i32 } else { code.into() });
    }
    std::process::exit(i32::from(code))
}
