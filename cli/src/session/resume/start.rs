//! Starting the agent of a session that is resumed: with its conversation, and with a new one only where the agent itself says that it does
//! not know that one. No agent is given a prompt that nobody asked for.

use std::{ffi::OsString, io::IsTerminal, time::Duration};

use parhelia_agent::briefing::{BRIEFED, GO_ON, with_prompt};
use parhelia_agent::{
    command::{Agent, Resume, new_conversation_id},
    environment::Request,
    transcript::Located,
    trouble::trouble,
};
use parhelia_session::{
    inject::{Budget, Why, render},
    resume::{self, Telling},
    rollback, run,
};
use parhelia_store::{Store, fold::Status, id::Ulid};

use super::{Args, Prepared, note_notices, take_over};
use crate::{
    context::Context,
    env,
    exit::{Code, Failure, Result},
    hook::mounted_at,
    session::{
        agent::{actor, environment, hooks_for, variable, with_own_folder},
        supervise::{self, EARLY, Supervised, say, tmux_here},
    },
};

/// Starts the agent with its conversation; where it does not know that, and somebody is there, with a new one.
pub(super) fn start(
    context: &Context,
    store: &Store,
    prepared: &mut Prepared,
    current: &run::Current,
    args: &Args,
) -> Result<Code> {
    let Some(agent) = prepared.agent.clone() else {
        let ended = supervised(context, store, prepared, current, args, &prepared.argv, Conversation::default())?;
        std::process::exit(i32::from(ended.code));
    };
    let seen = state(store, &current.session)?;
    let hooks = hooks_for(&agent, prepared.config.as_ref(), &prepared.workspace, store)?;
    let resume = Resume { permission_mode: prepared.permission_mode.clone(), hooks, ..Resume::default() };
    let mut code = 1;
    if let Some(conversation) = prepared.conversation.clone().filter(|_| !args.new_conversation) {
        let prompt = args.prompt.clone().or_else(|| agent.is_headless().then(|| GO_ON.to_owned()));
        // Its hooks may not be trusted, and nothing tells that before it starts.
        let prompt = match prompt {
            Some(prompt) if !agent.kind().abilities().trusts_given_hooks => {
                Some(with_prompt(&briefing(context, store, prepared, Some(current))?, &prompt))
            }
            prompt => prompt,
        };
        let with = Resume { conversation: Some(conversation.clone()), prompt, ..resume.clone() };
        let argv = agent.resume_argv(&with);
        let with = Conversation { id: Some(conversation.clone()), is_resumed: true };
        let ended = supervised(context, store, prepared, current, args, &argv, with)?;
        if !ended.is_unknown {
            if let Some(trouble) = trouble(agent.kind(), &ended.said) {
                say(trouble.text());
            }
            // What it says on a plain terminal cannot be seen from here; without a transcript it cannot know its conversation.
            let is_there = || {
                let config = prepared.config.as_ref();
                config.is_some_and(|config| Located::by_session(&config.path, &conversation).is_ok())
            };
            if ended.has_failed && ended.ran < EARLY && !agent.is_headless() && tmux_here().is_none() && !is_there() {
                let new = format!("parhelia session resume {} --new-conversation", current.session);
                say(format_args!("its conversation is not there; `{new}` begins one that is told what is known"));
            }
            std::process::exit(i32::from(ended.code));
        }
        say(format_args!("the agent does not know conversation {conversation}"));
        prepared.notices.push(format!("the earlier conversation ({conversation}) is not known to the agent any more"));
        code = ended.code;
    }
    // Until the new run has begun, nobody else resumes the session or rolls it back.
    let turn =
        supervise::or_ended(store, current, rollback::held(store, &current.session, &context.progress()).map_err(Failure::from))?;
    let may = match state(store, &current.session)? == seen {
        true => may_begin(&agent, args),
        false => Err("the session was rolled back, resumed or ended meanwhile"),
    };
    let reason = if args.new_conversation { "a new conversation begins" } else { run::UNKNOWN };
    run::end(store, current, reason, (Status::Error, None), actor())?;
    if let Err(why) = may {
        say(format_args!("no new conversation was begun: {why}"));
        std::process::exit(i32::from(code.max(1)));
    }
    let is_idle = args.prompt.is_none();
    say(format_args!("a new conversation begins{}", if is_idle { ", and waits for you" } else { "" }));
    let prompt = match &args.prompt {
        Some(prompt) if !agent.has_hooks() || !agent.kind().abilities().trusts_given_hooks => {
            Some(with_prompt(&briefing(context, store, prepared, None)?, prompt))
        }
        None if !agent.has_hooks() => {
            let show = format!("parhelia session show {}", current.session);
            say(format_args!("it runs no hooks, and so is told nothing of the earlier one; `{show}` says what is known"));
            None
        }
        prompt => prompt.clone(),
    };
    let new = agent.kind().abilities().pins_conversation.then(new_conversation_id);
    let argv = agent.resume_argv(&Resume { new_conversation: new.clone(), prompt, ..resume });
    let current = take_over(store, prepared, new.clone(), current.epoch, tmux_here())?;
    drop(turn);
    note_notices(store, prepared, &current)?;
    let ended = supervised(context, store, prepared, &current, args, &argv, Conversation { id: new, is_resumed: false })?;
    std::process::exit(i32::from(ended.code))
}

/// What must not have changed between the start of the agent and that of another one in its place.
#[derive(PartialEq)]
struct State {
    epoch: u64,
    is_over: bool,
    rolled_back: Option<Ulid>,
}

fn state(store: &Store, session: &str) -> Result<Option<State>> {
    let session = store.refresh()?.session(session)?;
    Ok(session.map(|session| State {
        epoch: session.epoch,
        is_over: session.status == Status::Ended || rollback::open(&session).is_some(),
        rolled_back: rollback::last(&session).map(|last| last.safety),
    }))
}

/// Why no new conversation may begin, where that is so: one that nobody sees, or that acts at once, must have been asked for.
fn may_begin(agent: &Agent, args: &Args) -> Result<(), &'static str> {
    let is_seen = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    match agent.is_headless() {
        true if args.prompt.is_none() => {
            Err("an agent that answers a single prompt would act on one that nobody gave; give --prompt TEXT")
        }
        false if !is_seen => Err("an interactive agent needs a terminal; resume the session in one, or with --tmux"),
        _ => Ok(()),
    }
}

/// The words for an agent that hooks may not tell: of the earlier conversation, or with a run of what happened to the same one before that.
fn briefing(context: &Context, store: &Store, prepared: &Prepared, run: Option<&run::Current>) -> Result<String> {
    let checkpoint = prepared.choice.checkpoint.as_ref();
    let config = prepared.config.as_ref().map(|config| config.path.as_path());
    let telling = Telling {
        session: &prepared.session,
        checkpoint,
        workspace: &prepared.workspace,
        why: if run.is_some() { Why::Resumed } else { Why::Replaced },
        run: run.map(|run| run.run.as_str()),
        but: None,
        config,
        variable: &variable,
    };
    let mut input = resume::tell(store, &telling)?;
    input.mount = checkpoint.and_then(|checkpoint| mounted_at(store, checkpoint));
    input.notices.extend(prepared.notices.clone());
    Ok(render(&input, Budget::from(&context.config(&prepared.workspace)?.inject)).text)
}

/// The conversation of an agent that is started.
#[derive(Default)]
struct Conversation {
    id: Option<String>,
    /// Whether it is told to go on with it.
    is_resumed: bool,
}

fn supervised(
    context: &Context,
    store: &Store,
    prepared: &Prepared,
    current: &run::Current,
    args: &Args,
    argv: &[OsString],
    conversation: Conversation,
) -> Result<supervise::Ended> {
    let mut environment = environment(store, current);
    environment.extend(prepared.environment());
    let is_told =
        prepared.agent.as_ref().is_some_and(|agent| !agent.kind().abilities().trusts_given_hooks && agent.is_headless());
    environment.extend(is_told.then(|| (BRIEFED.to_owned(), current.run.clone().into())));
    let looked_at = prepared.agent.as_ref().map(|_| env::request(context, &prepared.workspace, argv)).transpose();
    let looked_at = looked_at.map(|request| request.map(|request| as_started(request, prepared)));
    let (request, config) =
        supervise::or_ended(store, current, looked_at.and_then(|request| Ok((request, context.config(&prepared.workspace)?))))?;
    let wanted = Supervised {
        current,
        argv,
        environment,
        kind: prepared.agent.as_ref().map(Agent::kind),
        config_folder: prepared.config.clone(),
        folder: prepared.workspace.clone(),
        resumes: conversation.id.as_deref().filter(|_| conversation.is_resumed),
        conversation: conversation.id.clone(),
        is_headless: prepared.agent.as_ref().is_some_and(Agent::is_headless),
        interval: (args.interval > 0).then(|| Duration::from_secs(args.interval)),
        request,
        config,
        before: prepared.before,
        is_quiet: context.global.quiet,
        removed: Default::default(),
    };
    supervise::or_ended(store, current, supervise::supervise(store, &wanted))
}

/// What is looked at, with the variables that the agent is started with.
fn as_started(request: Request, prepared: &Prepared) -> Request {
    let mut variables = with_own_folder(request.variables, prepared.config.as_ref());
    variables.extend(prepared.environment().into_iter().map(|(name, value)| (name.into(), value)));
    Request { variables, ..request }
}
