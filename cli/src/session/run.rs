//! `session run`: starts an agent with a conversation of a known id, records the run, and keeps checkpoints of it.

#![expect(clippy::disallowed_methods, reason = "removes a workspace that it has made")]

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use parhelia_agent::command::Agent;
use parhelia_host::run::new_session_id;
use parhelia_ledger::LedgerView as _;
use parhelia_life::{
    supervise::{self, Launch, LaunchRequest, ensure_launchable},
    template,
};
use parhelia_store::Store;
use parhelia_wire::{Line, Summary, session::Started, summary::Ended};

use super::{prompt::handed_over, signals, tmux};
use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    host::Shell,
    outbox, told_settings,
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
    /// The file with the first prompt, which another process of ours has written; `-` reads it from standard input
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
    let prompt = args.prompt_file.as_deref().map(handed_over).transpose()?;
    let what = What { args, prompt: prompt.as_deref() };
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
    let host = context.host()?;
    if args.agent_folder.is_none() {
        let copied = args.copied.as_deref().and_then(Copied::of_words);
        return launch(context, &what, (&store, &host), folder, copied);
    }
    let id = new_session_id(&folder);
    let workspace = template::workspace_of(&host, &id)?;
    template::copy(&folder, &workspace, &context.progress())?;
    let launched = launch(context, &what, (&store, &host), workspace.clone(), Some(Copied { id: id.clone(), folder }));
    if launched.is_err() && store.refresh()?.session(&id)?.is_none() {
        // Nothing has ever worked in it.
        let _ = std::fs::remove_dir_all(&workspace);
    }
    launched
}

/// An agent that is to be launched.
struct What<'a> {
    args: &'a Args,
    /// Its first prompt.
    prompt: Option<&'a str>,
}

impl What<'_> {
    /// The agent's command line.
    fn command(&self) -> Result<Vec<OsString>> {
        match self.prompt {
            Some(prompt) => Ok(supervise::prompted(&self.args.command, prompt)?),
            None => Ok(self.args.command.clone()),
        }
    }
}

/// A session whose workspace is a copy of an agent folder.
struct Copied {
    id: String,
    folder: PathBuf,
}

impl Copied {
    /// One that another process of ours has made.
    fn of_words(words: &[OsString]) -> Option<Self> {
        let [id, folder] = words else { return None };
        Some(Copied { id: id.to_str()?.to_owned(), folder: folder.into() })
    }

    /// The name of a session that is given none: the agent's, not the copy's.
    fn name(&self) -> Option<String> {
        self.folder.file_name().map(|name| name.to_string_lossy().into_owned())
    }
}

/// Launches the agent in a workspace that is there.
fn launch(
    context: &mut Context,
    what: &What<'_>,
    (store, host): (&Store, &Shell),
    workspace: PathBuf,
    copied: Option<Copied>,
) -> Result<Code> {
    let (bar, args) = (context.progress(), what.args);
    let request = LaunchRequest {
        id: copied.as_ref().map(|copied| copied.id.clone()),
        agent_folder: copied.as_ref().map(|copied| copied.folder.clone()),
        name: args.name.clone().or_else(|| copied.as_ref().and_then(Copied::name)),
        policy: args.policy.clone(),
        workspace: workspace.clone(),
        command: what.command()?,
        interval: (args.interval > 0).then(|| Duration::from_secs(args.interval)),
        is_quiet: context.global.quiet,
    };
    let launch = Launch::new(store, host, request, &bar)?;
    if args.tmux.tmux {
        let words = in_pane(args, (launch.name(), launch.policy()), &workspace, copied);
        let name = launch.name().unwrap_or_default();
        let words = (what.prompt, words.as_slice());
        let started = tmux::run(context, store, &args.tmux, name, &workspace, words, launch.agent())?;
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
    let started = Started { session: session.clone(), run: run.clone(), epoch, conversation, ..Started::default() };
    let said = context.out.object(Line::Started(Box::new(started))).and_then(|()| context.out.flush());
    supervise::or_ended(store, host, current, &bar, unless_closed(said))?;
    let stops = supervise::or_ended(store, host, current, &bar, signals::take_over())?;
    let ended = launch.supervise(store, host, begun, &stops, &context.supervisor())?;
    let (run, exit_code) = (Some(run), Some(ended.code.into()));
    let summary = Summary::SessionRun(Ended { id: session, run, exit_code, ..Ended::default() });
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
    if let Err(failure) = unless_closed(printed) {
        tell!("parhelia: {failure}");
        std::process::exit(if code == 0 { Code::Partly as i32 } else { code.into() });
    }
    std::process::exit(i32::from(code))
}

/// The same, as arguments for the process in a pane.
fn in_pane(args: &Args, (name, policy): (Option<&str>, Option<&str>), workspace: &Path, copied: Option<Copied>) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["--workspace".into(), workspace.into()];
    words.extend(["--interval".into(), args.interval.to_string().into()]);
    words.extend(name.map(|name| format!("--name={name}").into()));
    words.extend(policy.iter().map(|policy| format!("--policy={policy}").into()));
    words.extend(copied.into_iter().flat_map(|Copied { id, folder }| ["--copied".into(), id.into(), folder.into()]));
    words.push("--".into());
    words.extend(args.command.iter().cloned());
    words
}
