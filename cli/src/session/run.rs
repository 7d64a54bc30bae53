//! `session run`: starts an agent with a conversation of a known id, records the run, and keeps checkpoints of it.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use parhelia_agent::{command::Agent, folder::ConfigFolder, kind::KINDS, open::holders};
use parhelia_session::{
    rollback,
    run::{self, Begin},
};
use parhelia_store::{Store, fold::Goal};
use serde_json::json;

use super::{
    agent::{actor, environment, hooks_for, variable},
    list::interrupted_text,
    supervise::{self, Supervised},
    tmux,
};
use crate::{
    checkpoint::session,
    context::Context,
    env,
    exit::{Code, Failure, Result},
};

/// Flags of `session run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to call the session [default: the workspace folder's name]
    #[arg(long)]
    name: Option<String>,
    /// The folder that the agent works in
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
    /// Make a checkpoint at least so often, in seconds, where something has changed; 0 for never
    #[arg(long, value_name = "SECONDS", default_value = "300")]
    interval: u64,
    #[command(flatten)]
    tmux: tmux::Flags,
    /// The agent's command line
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Starts it, and waits for its end.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let workspace = session::workspace(&args.workspace)?;
    let agent = Agent::of(&args.command);
    if agent.as_ref().is_some_and(|agent| !agent.is_persistent()) {
        return Err(Failure::Usage(
            "the agent is asked to keep no conversation, so that nothing could be resumed; leave that flag of its out".into(),
        ));
    }
    if let Some(flag) = agent.as_ref().and_then(Agent::works_elsewhere) {
        return Err(Failure::Usage(format!(
            "the agent is told to work in another folder ({flag}), which would be in no checkpoint; give `--workspace DIR` to \
             `session run` in its place"
        )));
    }
    if Agent::is_wrapped(&args.command) {
        tell!(
            "parhelia: the agent is started by another program, so that its conversation is only known where hooks are installed, and resuming \
             the session runs that program again; give the agent's own command line for more"
        );
    }
    if !args.tmux.tmux && (args.tmux.detach || args.tmux.tmux_socket.is_some()) {
        return Err(Failure::Usage("--detach and --tmux-socket need --tmux".into()));
    }
    let store = context.open_with(true)?;
    for (other, intent) in rollback::interrupted_in(&store, &workspace)? {
        tell!("parhelia: {}", interrupted_text(&other.id, intent.target));
    }
    let name = args.name.clone().or_else(|| workspace.file_name().map(|name| name.to_string_lossy().into_owned()));
    if let Some((agent, conversation)) = agent.as_ref().and_then(|agent| Some((agent, agent.conversation()?))) {
        ensure_free(&store, agent, &conversation)?;
    }
    if args.tmux.tmux {
        let words = in_pane(args, name.as_deref(), &workspace);
        return tmux::run(context, &store, &args.tmux, name.as_deref().unwrap_or_default(), &workspace, &words, agent.as_ref());
    }
    let new = agent.as_ref().and_then(Agent::new_conversation);
    let conversation = agent.as_ref().and_then(Agent::conversation).or(new);
    let config_folder = ConfigFolder::of(agent.as_ref().map_or(KINDS[0], Agent::kind), variable);
    let argv = match &agent {
        Some(agent) => {
            let hooks = hooks_for(agent, config_folder.as_ref(), &workspace, &store)?;
            agent.launch_argv(conversation.as_deref(), &hooks)
        }
        None => args.command.clone(),
    };
    for (other, _) in conversation.iter().flat_map(|id| run::sessions_in(&store, id, "")).flatten() {
        tell!(
            "parhelia: the conversation is also session {}'s; `parhelia session resume {}` goes on with that",
            other.id,
            other.id
        );
    }
    supervise::ensure_startable(&argv, &workspace)?;
    let request = agent.as_ref().map(|_| env::request(context, &workspace, &argv)).transpose()?;
    let config = context.config(&workspace)?;
    let current = run::begin(
        &store,
        &Begin {
            session: run::new_session_id(&workspace),
            name,
            workspace: workspace.clone(),
            argv: args.command.clone(),
            folder: workspace.clone(),
            conversation: conversation.clone(),
            permission_mode: agent.as_ref().and_then(Agent::permission_mode),
            tmux: supervise::tmux_here(),
            config: config_folder.clone(),
            launcher: supervise::this_process()?,
            actor: actor(),
            ..Begin::default()
        },
    )?;
    // Standard output is the agent's.
    if !context.global.quiet && !context.out.json {
        tell!("Session {} begins.", current.session);
    }
    let session = json!({ "session": current.session, "run": current.run, "conversation": conversation });
    let said = context.out.object("session", session).and_then(|()| context.out.flush());
    supervise::or_ended(&store, &current, said)?;
    let ended = supervise::supervise(
        &store,
        &Supervised {
            current: &current,
            argv: &argv,
            environment: environment(&store, &current),
            kind: agent.as_ref().map(Agent::kind),
            config_folder,
            folder: workspace,
            conversation,
            is_headless: agent.as_ref().is_some_and(Agent::is_headless),
            resumes: None,
            interval: (args.interval > 0).then(|| Duration::from_secs(args.interval)),
            request,
            config,
            // A session that never began is over.
            before: Goal::Ended,
            is_quiet: context.global.quiet,
            removed: Default::default(),
        },
    );
    let ended = supervise::or_ended(&store, &current, ended)?;
    // From here on this process stands for the agent.
    std::process::exit(i32::from(ended.code))
}

/// Fails where somebody has a conversation open that the command line names: two agents in one would spoil it.
fn ensure_free(store: &Store, agent: &Agent, conversation: &str) -> Result<()> {
    if let Some((other, _)) = run::sessions_in(store, conversation, "")?.iter().find(|(_, is_alive)| *is_alive) {
        return Err(Failure::Refused(format!(
            "conversation {conversation} is session {id}'s, whose agent is alive; go on there, or end it first",
            id = other.id
        )));
    }
    let config = ConfigFolder::of(agent.kind(), variable).map(|config| config.path).unwrap_or_default();
    match holders(&config, conversation).first() {
        None => Ok(()),
        Some(holder) => Err(Failure::Refused(format!(
            "conversation {conversation} is open in {}; go on there, or end that first: two agents in one conversation would spoil it",
            holder.text()
        ))),
    }
}

/// The same, as arguments for the process in a pane.
fn in_pane(args: &Args, name: Option<&str>, workspace: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec!["--workspace".into(), workspace.into()];
    words.extend(["--interval".into(), args.interval.to_string().into()]);
    words.extend(name.map(|name| format!("--name={name}").into()));
    words.push("--".into());
    words.extend(args.command.iter().cloned());
    words
}
