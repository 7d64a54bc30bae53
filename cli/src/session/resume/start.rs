//! Starting the agent of a session that is resumed: with its conversation, or with a new one that is told what there is to know.

use std::{ffi::OsString, time::Duration};

use parhelia_session::{
    agent::{Agent, Resume, Trouble, new_conversation_id, resume_argv, trouble},
    environment::Request,
    inject::{Budget, Why, fallback_prompt},
    resume::{self, Restored},
    run,
    tmux::Server,
};
use parhelia_store::Store;

use super::{Args, Prepared, take_over};
use crate::{
    context::Context,
    env,
    exit::{Code, Result},
    hook::mounted_at,
    session::{
        agent::{environment, settings},
        supervise::{self, Supervised, say, tmux_here},
    },
};

/// What an agent that answers a single prompt is told.
const GO_ON: &str = "Continue from where you left off.";
/// An agent that fails sooner has not come to life.
const EARLY: Duration = Duration::from_secs(15);
/// How long tmux may take to say what it shows.
const SCREEN_LIMIT: Duration = Duration::from_secs(5);

/// Starts the agent with its conversation; where it does not come to life with that, with a new one that is told what there is to know.
pub(super) fn start(
    context: &Context,
    store: &Store,
    prepared: &Prepared,
    current: &run::Current,
    restored: &Restored,
    args: &Args,
) -> Result<Code> {
    let Some(agent) = &prepared.agent else {
        let ended = supervised(context, store, prepared, current, args, &prepared.argv, None)?;
        std::process::exit(i32::from(ended.code));
    };
    let settings = settings(agent, prepared.config.as_ref(), &prepared.workspace, store)?;
    let prompt = args.prompt.clone().or_else(|| agent.is_headless().then(|| GO_ON.to_owned()));
    let resume = Resume { permission_mode: prepared.permission_mode.clone(), prompt, settings, ..Resume::default() };
    if restored.transcript.is_some() {
        let with = Resume { conversation: prepared.conversation.clone(), ..resume.clone() };
        let argv = resume_argv(agent, &with);
        let ended = supervised(context, store, prepared, current, args, &argv, prepared.conversation.clone())?;
        if !is_stillborn(&ended, agent.is_headless()) {
            std::process::exit(i32::from(ended.code));
        }
        say(format_args!("the agent did not go on with conversation {}", prepared.conversation.as_deref().unwrap_or_default()));
    }
    say("a new conversation begins, with what is known of the old one");
    let checkpoint = prepared.choice.checkpoint.as_ref();
    let mut input = resume::tell(store, &prepared.session, checkpoint, &prepared.workspace, Why::Replaced)?;
    input.mount = checkpoint.and_then(|checkpoint| mounted_at(store, checkpoint));
    let said = fallback_prompt(&input, Budget::from(&context.config(&prepared.workspace)?.inject)).text;
    let prompt = args.prompt.as_ref().map_or(said.clone(), |text| format!("{said}\n{text}\n"));
    let new = new_conversation_id();
    let argv = resume_argv(agent, &Resume { new_conversation: Some(new.clone()), prompt: Some(prompt), ..resume });
    // The run that did not come to life is over.
    let current = take_over(store, prepared, Some(new.clone()), current.epoch, tmux_here())?;
    let ended = supervised(context, store, prepared, &current, args, &argv, Some(new))?;
    std::process::exit(i32::from(ended.code))
}

fn supervised(
    context: &Context,
    store: &Store,
    prepared: &Prepared,
    current: &run::Current,
    args: &Args,
    argv: &[OsString],
    conversation: Option<String>,
) -> Result<supervise::Ended> {
    let mut environment = environment(store, current);
    environment.extend(prepared.environment());
    let looked_at = prepared.agent.as_ref().map(|_| env::request(context, &prepared.workspace, argv)).transpose();
    let looked_at = looked_at
        .map(|request| request.map(|request| Request { variables: own_variables(request.variables, prepared), ..request }));
    let (request, config) =
        supervise::or_ended(store, current, looked_at.and_then(|request| Ok((request, context.config(&prepared.workspace)?))))?;
    let wanted = Supervised {
        current,
        argv,
        environment,
        config_folder: prepared.config.clone(),
        folder: prepared.workspace.clone(),
        conversation,
        is_headless: prepared.agent.as_ref().is_some_and(Agent::is_headless),
        interval: (args.interval > 0).then(|| Duration::from_secs(args.interval)),
        request,
        config,
        is_quiet: context.global.quiet,
    };
    supervise::or_ended(store, current, supervise::supervise(store, &wanted))
}

/// The variables of the agent, which has the folder of its own that it had.
fn own_variables(mut variables: Vec<(OsString, OsString)>, prepared: &Prepared) -> Vec<(OsString, OsString)> {
    for (name, value) in supervise::own_folder(prepared.config.as_ref()) {
        variables.retain(|(known, _)| *known != *name);
        variables.extend(value.map(|value| (name.into(), value)));
    }
    variables
}

/// Whether the agent has not come to life with its conversation. A headless one says so, and in tmux the screen of another one; else it is
/// only known how soon it failed.
fn is_stillborn(ended: &supervise::Ended, is_headless: bool) -> bool {
    let has_failed_early = !is_headless && ended.has_failed && ended.ran < EARLY;
    let said = if has_failed_early { screen_here().unwrap_or_default() } else { ended.said.clone() };
    match trouble(&said) {
        Some(Trouble::NoConversation) => ended.has_failed,
        Some(trouble) if ended.has_failed => {
            say(trouble.text());
            false
        }
        _ => has_failed_early,
    }
}

/// What the pane of tmux shows in which this process is.
fn screen_here() -> Option<String> {
    let here = tmux_here()?;
    Server::new(Some(here.socket.into()), SCREEN_LIMIT).screen(&here.pane).ok()
}
