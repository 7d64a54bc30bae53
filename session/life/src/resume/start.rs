//! Starting the agent of a session that is resumed: with its conversation, and with a new one only where the agent itself says that it does
//! not know that one. No agent is given a prompt that nobody asked for.

use std::ffi::OsString;

use parhelia_agent::{
    briefing::{BRIEFED, GO_ON, with_prompt},
    command::{Agent, new_conversation_id},
    environment::Request,
    transcript::TranscriptLocation,
    words::Resume,
};
use parhelia_ledger::{By, End, EndKind, LedgerView as _, Status};
use parhelia_store::{Store, id::Ulid};

use super::{
    Preparation, ResumeRequest,
    begin::{PendingResume, note_notices, take_over},
};
use crate::{
    environment,
    supervise::{self, AgentExit, EARLY, Stops, Supervision},
};
use parhelia_host::{
    Host, Observer, Result, intent,
    notice::{Idle, Notice},
    run::{self, Current},
};
use parhelia_knowledge::{
    briefing::{BriefingRequest, Why, earlier, gather, render_with},
    budget::Budget,
};

/// Everything that a start needs beside the run.
struct Start<'a> {
    store: &'a Store,
    host: &'a dyn Host,
    request: &'a ResumeRequest,
    stops: &'a Stops,
    observer: &'a dyn Observer,
    prepared: Preparation,
}

impl PendingResume {
    /// Starts the agent with its conversation; where it does not know that, and somebody is there, with a new one. Returns the exit code for
    /// the process that stands for the agent.
    pub fn start(
        self,
        store: &Store,
        host: &dyn Host,
        request: &ResumeRequest,
        stops: &Stops,
        observer: &dyn Observer,
    ) -> Result<u8> {
        let PendingResume { current, mut prepared, .. } = self;
        // The agent may live for days, and its checkpoint is not needed for that.
        drop(prepared.pin.take());
        let mut start = Start { store, host, request, stops, observer, prepared };
        let code = start.run(&current);
        run::forget_private(store);
        supervise::or_ended(store, host, &current, observer, code)
    }
}

impl Start<'_> {
    fn run(&mut self, current: &Current) -> Result<u8> {
        let Some(agent) = self.prepared.agent.clone().map(|agent| run::here(self.host, agent)) else {
            let argv = self.prepared.argv.clone();
            return Ok(self.supervised(current, &argv, Conversation::default())?.code);
        };
        let seen = self.state(&current.session)?;
        let (config, workspace) = (self.prepared.config.as_ref(), &self.prepared.workspace);
        let hooks = run::hooks_for(self.store, self.host, &agent, config, workspace, self.observer)?;
        let resume = Resume {
            permission_mode: self.prepared.permission_mode.clone(),
            hooks,
            earlier_prompts: run::prompts_of(self.store, &self.prepared.session)?,
            ..Resume::default()
        };
        let known = self.prepared.conversation.clone().filter(|_| !self.request.new_conversation);
        let code = match known {
            None => 1,
            Some(conversation) => match self.with_conversation(current, &agent, &resume, &conversation)? {
                ended if !ended.is_unknown => return Ok(ended.code),
                ended => ended.code,
            },
        };
        self.with_new_conversation(current, &agent, resume, (seen, code))
    }

    /// Starts the agent with its conversation.
    fn with_conversation(&mut self, current: &Current, agent: &Agent, resume: &Resume, conversation: &str) -> Result<AgentExit> {
        // An agent that is headless only here, for want of a terminal, was asked nothing by that.
        let goes_on = self.prepared.agent.as_ref().is_some_and(Agent::is_headless);
        let prompt = self.request.prompt.clone().or_else(|| goes_on.then(|| GO_ON.to_owned()));
        // The agent may not trust our hooks, which shows only once it runs: the prompt briefs it.
        let prompt = match prompt {
            Some(prompt) if !agent.kind().abilities().trusts_given_hooks => {
                Some(with_prompt(&self.briefing(Some(current))?, &prompt))
            }
            prompt => prompt,
        };
        let argv = agent.resume_argv(&Resume { conversation: Some(conversation.to_owned()), prompt, ..resume.clone() });
        let with = Conversation { id: Some(conversation.to_owned()), is_resumed: true };
        let ended = self.supervised(current, &argv, with)?;
        // Another one that is started in its place finds what this one has left.
        self.prepared.is_restored = false;
        let (conversation, session) = (conversation.to_owned(), current.session.clone());
        if ended.is_unknown {
            self.observer.warn(&Notice::UnknownConversation { conversation: conversation.clone() });
            self.prepared.notices.push(Notice::ConversationForgotten { conversation });
            return Ok(ended);
        }
        if let Some(trouble) = agent.kind().trouble(&ended.said) {
            self.observer.warn(&Notice::Trouble(trouble));
        }
        // What it says on a plain terminal cannot be seen from here; without a transcript it cannot know its conversation.
        let config = self.prepared.config.as_ref();
        let is_there = || config.is_some_and(|config| TranscriptLocation::by_session(&config.path, &conversation).is_ok());
        if ended.has_failed && ended.ran < EARLY && !agent.is_headless() && self.host.tmux().is_none() && !is_there() {
            self.observer.warn(&Notice::ConversationGone { session });
        }
        Ok(ended)
    }

    /// Starts the agent with a new conversation, in another run.
    fn with_new_conversation(
        &mut self,
        current: &Current,
        agent: &Agent,
        resume: Resume,
        (seen, code): (Option<State>, u8),
    ) -> Result<u8> {
        let (store, host, observer) = (self.store, self.host, self.observer);
        // Until the new run has begun, nobody else resumes the session or rolls it back.
        let turn = intent::held(store, &current.session, observer)?;
        let may = match self.state(&current.session)? == seen {
            true => self.may_begin(agent),
            false => Err(Idle::ChangedMeanwhile),
        };
        let end = if self.request.new_conversation { End::asked(By::Resume) } else { End::of(EndKind::ConversationUnknown) };
        run::end(store, current, (end, &end.reason()), (Status::Error, None), host.actor())?;
        if let Err(why) = may {
            observer.warn(&Notice::NoNewConversation(why));
            return Ok(code.max(1));
        }
        observer.warn(&Notice::NewConversation { waits: self.request.prompt.is_none() });
        let prompt = match &self.request.prompt {
            Some(prompt) if !agent.has_hooks() || !agent.kind().abilities().trusts_given_hooks => {
                Some(with_prompt(&self.briefing(None)?, prompt))
            }
            None if !agent.has_hooks() => {
                observer.warn(&Notice::NotBriefed { session: current.session.clone() });
                None
            }
            prompt => prompt.clone(),
        };
        let new = agent.kind().abilities().pins_conversation.then(new_conversation_id);
        let argv = agent.resume_argv(&Resume { new_conversation: new.clone(), prompt, ..resume });
        let current = take_over(store, host, &self.prepared, new.clone(), current.epoch, host.tmux())?;
        drop(turn);
        note_notices(store, host, &self.prepared, &current)?;
        let ended = self.supervised(&current, &argv, Conversation { id: new, is_resumed: false });
        Ok(supervise::or_ended(store, host, &current, observer, ended)?.code)
    }

    fn state(&self, session: &str) -> Result<Option<State>> {
        let session = self.store.refresh()?.session(session)?;
        Ok(session.map(|session| State {
            epoch: session.epoch,
            is_over: session.status == Status::Ended || intent::open(&session).is_some(),
            rolled_back: intent::last(&session).map(|last| last.safety),
        }))
    }

    /// Fails with the reason for which no new conversation may begin: one that nobody sees, or that acts at once, must have been asked for.
    fn may_begin(&self, agent: &Agent) -> Result<(), Idle> {
        match agent.is_headless() {
            true if self.request.prompt.is_none() => Err(Idle::NoPrompt),
            false if !self.host.is_attended() => Err(Idle::NoTerminal),
            _ => Ok(()),
        }
    }

    /// The words for an agent that hooks may not tell: of the earlier conversation, or with a run of what happened to the same one before that.
    fn briefing(&self, run: Option<&Current>) -> Result<String> {
        let prepared = &self.prepared;
        let checkpoint = prepared.choice.checkpoint.as_ref();
        let request = BriefingRequest {
            session: &prepared.session,
            checkpoint,
            workspace: &prepared.workspace,
            why: if run.is_some() { Why::Resumed } else { Why::Replaced },
            run: run.map(|run| run.run.as_str()),
            but: None,
            config: prepared.config.as_ref().map(|config| config.path.as_path()),
            host: self.host,
        };
        let mut input = gather(self.store, &request)?;
        input.mount = checkpoint.and_then(|checkpoint| self.host.mounted_at(self.store, checkpoint));
        input.notices.extend(prepared.notices.iter().map(ToString::to_string));
        let config = self.host.config(&prepared.workspace)?;
        let pieces = earlier(self.store, &input, None, config.context.window_tokens);
        Ok(render_with(&input, pieces.as_deref(), Budget::from(&config.inject)).0.text)
    }

    fn supervised(&self, current: &Current, argv: &[OsString], conversation: Conversation) -> Result<AgentExit> {
        let (prepared, host) = (&self.prepared, self.host);
        let agent = prepared.agent.clone().map(|agent| run::here(host, agent));
        let agent = agent.as_ref();
        let mut environment = run::environment_of(self.store, current);
        environment.extend(prepared.environment(host));
        let is_told = agent.is_some_and(|agent| !agent.kind().abilities().trusts_given_hooks && agent.is_headless());
        environment.extend(is_told.then(|| (BRIEFED.to_owned(), current.run.clone().into())));
        let request = agent.map(|_| environment::request(host, &prepared.workspace, argv)).transpose()?;
        let supervised = Supervision {
            host,
            current,
            argv,
            environment,
            kind: agent.map(Agent::kind),
            config_folder: prepared.config.clone(),
            folder: prepared.workspace.clone(),
            resumes: conversation.id.as_deref().filter(|_| conversation.is_resumed),
            conversation: conversation.id.clone(),
            is_headless: agent.is_some_and(Agent::is_headless),
            prints: agent.and_then(Agent::printed),
            interval: self.request.interval,
            request: request.map(|request| self.as_started(request)),
            config: host.config(&prepared.workspace)?,
            before: prepared.before,
            is_captured: prepared.is_restored,
            is_quiet: self.request.is_quiet,
            removed: Default::default(),
            is_silent: Default::default(),
        };
        supervise::supervise(self.store, &supervised, self.stops, self.observer)
    }

    /// The places to look at, with the variables that the agent is started with.
    fn as_started(&self, request: Request) -> Request {
        let mut variables = environment::with_own_folder(self.host, request.variables, self.prepared.config.as_ref());
        variables.extend(self.prepared.environment(self.host).into_iter().map(|(name, value)| (name.into(), value)));
        Request { variables, ..request }
    }
}

/// The part of a session that must not have changed between the start of the agent and that of another one in its place.
#[derive(PartialEq)]
struct State {
    epoch: u64,
    is_over: bool,
    rolled_back: Option<Ulid>,
}

/// The conversation of an agent that is started.
#[derive(Default)]
struct Conversation {
    id: Option<String>,
    /// True if it is told to go on with it.
    is_resumed: bool,
}
