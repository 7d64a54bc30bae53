//! Launching an agent in a new session.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use parhelia_agent::{command::Agent, environment::Request, folder::ConfigFolder, kinds::KINDS, open::holders};
use parhelia_ledger::{Goal, LedgerView as _};
use parhelia_store::{Store, name};

use super::{AgentExit, Stops, Supervision, ensure_startable, or_ended, supervise};
use crate::{checkpoint::session_name::check_given, environment, prompt, rollback, template::WorkspaceCopy};
use parhelia_host::{
    Host, Observer, Refusal, Result,
    config::Config,
    notice::{InterruptedRollback, Notice, Overlap},
    policy::Approval,
    refusal::{DecisionRefusal, RunRefusal},
    run::{self, Begin, Current},
};
use parhelia_oversight::{review::acts, who::who};

/// An agent that is to be launched in a new session.
#[derive(Clone, Debug, Default)]
pub struct LaunchRequest {
    /// The session's name; none for the folder's.
    pub name: Option<String>,
    /// The id of the session, where its workspace was made by that; none for a new one.
    pub id: Option<String>,
    /// The agent folder of which the workspace is a copy.
    pub agent_folder: Option<PathBuf>,
    /// The policy of approval; none for the configured one.
    pub policy: Option<String>,
    /// The workspace: an absolute path, symlinks resolved.
    pub workspace: PathBuf,
    /// The agent's command line.
    pub command: Vec<OsString>,
    /// The words that are said to the agent first.
    pub prompt: Option<String>,
    /// The interval between checkpoints, made where something has changed; none for never.
    pub interval: Option<Duration>,
    /// True if nothing is said of a good end.
    pub is_quiet: bool,
}

impl LaunchRequest {
    /// The same in the copy of an agent folder, which names the session where nothing else does.
    pub fn in_copy(self, copied: &WorkspaceCopy) -> Self {
        LaunchRequest {
            id: Some(copied.id.clone()),
            agent_folder: Some(copied.folder.clone()),
            name: self.name.or_else(|| copied.name()),
            workspace: copied.workspace.clone(),
            ..self
        }
    }
}

/// An agent that may be launched.
pub struct Launch {
    request: LaunchRequest,
    /// Its command line, with the first prompt.
    command: Vec<OsString>,
    agent: Option<Agent>,
    config: Config,
}

/// A launched agent's run, begun and not yet started.
pub struct PendingLaunch {
    /// The run.
    pub current: Current,
    /// The agent's conversation, where its kind pins one.
    pub conversation: Option<String>,
    argv: Vec<OsString>,
    environment: Option<Request>,
    config_folder: Option<ConfigFolder>,
}

/// Fails where a command line cannot be launched, whatever store there is.
pub fn ensure_launchable(command: &[OsString]) -> Result<()> {
    if Agent::managing(command).is_some() {
        let words: Vec<String> = command.iter().map(|word| name::display(word.as_encoded_bytes())).collect();
        return Err(Refusal::NoConversation { command: words.join(" ") }.into());
    }
    let Some(agent) = Agent::of(command) else { return Ok(()) };
    if let Some(flag) = agent.works_unseen() {
        return Err(Refusal::WorksUnseen { flag: flag.to_owned() }.into());
    }
    if !agent.is_persistent() {
        return Err(Refusal::KeepsNoConversation.into());
    }
    match agent.works_elsewhere() {
        None => Ok(()),
        Some(flag) => Err(Refusal::WorksElsewhere { flag: flag.to_string() }.into()),
    }
}

/// A command line with a first prompt, as its agent takes one.
pub fn prompted(command: &[OsString], prompt: &str) -> Result<Vec<OsString>> {
    prompt::check(prompt)?;
    let program = command.first().map(|word| name::display(word.as_encoded_bytes())).unwrap_or_default();
    let refused = |why| RunRefusal::TakesNoPrompt { program: program.clone(), why };
    let agent = Agent::of(command).ok_or_else(|| refused("it is no agent of which that is known"))?;
    let why = "that has words of its own which may be one, or the agent answers one prompt and ends";
    Ok(agent.prompted(prompt).ok_or_else(|| refused(why))?)
}

/// The policy of a session that an agent starts: never a laxer one than that of the agent's own session, or of any that may be its own, or than the
/// configured one where the store has no run of the agent.
pub fn policy_of_outer(
    store: &Store,
    host: &dyn Host,
    options: &Approval,
    asked: Option<String>,
    observer: &dyn Observer,
) -> Result<Option<String>> {
    let who = who(store, host, &[])?;
    if who.why_not_person().is_none() {
        return Ok(asked);
    }
    let mut strictest: Option<String> = None;
    for session in who.sessions() {
        let policy = store.view().session(session)?.and_then(|session| session.policy);
        let policy = policy.unwrap_or_else(|| options.default_policy.clone());
        if strictest.as_ref().is_none_or(|other| !options.is_as_strict(other, &policy)) {
            strictest = Some(policy);
        }
    }
    let own = strictest.unwrap_or_else(|| options.default_policy.clone());
    let wanted = asked.clone().unwrap_or_else(|| options.default_policy.clone());
    if options.is_as_strict(&wanted, &own) {
        return Ok(asked);
    }
    if asked.is_some() {
        observer.warn(&Notice::LaxerPolicy { asked: wanted, own: own.clone() });
    }
    Ok(Some(own))
}

/// Names the live sessions that work in the same files, or have the same name.
fn others_beside(store: &Store, request: &LaunchRequest, observer: &dyn Observer) -> Result<()> {
    let here = run::beside(store, &request.workspace, "")?;
    here.iter().for_each(|other| observer.warn(&Notice::of_same_files(other)));
    let Some(name) = &request.name else { return Ok(()) };
    let view = store.view();
    for other in view.sessions()?.into_iter().filter(|other| other.name == *name && here.iter().all(|known| known.id != other.id))
    {
        if view.newest_run(&other)?.is_some_and(|run| run::life(&run).is_alive()) {
            observer.warn(&Notice::Beside(Overlap::Name { session: other.id, name: name.clone() }));
        }
    }
    Ok(())
}

impl Launch {
    /// Looks at everything that is against it. Changes nothing.
    pub fn new(store: &Store, host: &dyn Host, mut request: LaunchRequest, observer: &dyn Observer) -> Result<Self> {
        ensure_launchable(&request.command)?;
        if let Some(anchored) = Agent::of(&request.command).and_then(|agent| agent.anchored(&request.workspace)) {
            request.command = anchored;
        }
        for (other, intent) in rollback::interrupted_in(store, &request.workspace)? {
            observer
                .warn(&Notice::Unfinished(InterruptedRollback::RollbackInterrupted { session: other.id, target: intent.target }));
        }
        let folder_name = || request.workspace.file_name().map(|name| name.to_string_lossy().into_owned());
        request.name = request.name.clone().or_else(folder_name);
        let config = host.config(&request.workspace)?;
        if let Some(policy) = request.policy.as_ref().filter(|policy| !config.approval.knows(policy)) {
            return Err(DecisionRefusal::NoPolicy { why: config.approval.unknown(policy) }.into());
        }
        request.policy = policy_of_outer(store, host, &config.approval, request.policy, observer)?;
        let command = match &request.prompt {
            Some(prompt) => prompted(&request.command, prompt)?,
            None => request.command.clone(),
        };
        ensure_startable(host, &command, &request.workspace)?;
        others_beside(store, &request, observer)?;
        let agent = run::agent_to_start(host, &command);
        if let Some((agent, conversation)) = agent.as_ref().and_then(|agent| Some((agent, agent.conversation()?))) {
            ensure_free(store, host, agent, &conversation)?;
        }
        Ok(Launch { request, command, agent, config })
    }

    /// The agent; none for a program that is no agent.
    pub(crate) fn agent(&self) -> Option<&Agent> {
        self.agent.as_ref()
    }

    /// The request, with the name and the policy that the session gets.
    pub(crate) fn request(&self) -> &LaunchRequest {
        &self.request
    }

    /// Begins the run as an event, with a new session where there is none; the agent is not started yet.
    pub fn begin(&self, store: &Store, host: &dyn Host, observer: &dyn Observer) -> Result<PendingLaunch> {
        let (agent, workspace) = (self.agent.as_ref(), &self.request.workspace);
        self.request.name.as_deref().map(check_given).transpose()?;
        let new = agent.and_then(Agent::new_conversation);
        let conversation = agent.and_then(Agent::conversation).or(new);
        let config_folder = host.config_folder(agent.map_or(KINDS[0], Agent::kind));
        let argv = match agent {
            Some(agent) => {
                let hooks = run::hooks_for(store, host, agent, config_folder.as_ref(), workspace, observer)?;
                agent.launch_argv(conversation.as_deref(), &hooks)
            }
            None => self.command.clone(),
        };
        for (other, _) in conversation.iter().flat_map(|id| run::sessions_in(store, id, "")).flatten() {
            observer.warn(&Notice::Beside(Overlap::Conversation { session: other.id }));
        }
        ensure_startable(host, &argv, workspace)?;
        let environment = agent.map(|_| environment::request(host, workspace, &argv)).transpose()?;
        let begin = Begin {
            session: self.request.id.clone().unwrap_or_else(|| run::new_session_id(workspace)),
            name: self.request.name.clone(),
            policy: self.request.policy.clone(),
            workspace: workspace.clone(),
            argv: self.command.clone(),
            folder: workspace.clone(),
            conversation: conversation.clone(),
            permission_mode: agent.and_then(Agent::permission_mode),
            at_terminal: agent.map(Agent::is_at_terminal),
            tmux: host.tmux(),
            config: config_folder.clone(),
            launcher: Some(run::this_process()?),
            launch_variables: run::of_caller(store, host, workspace)?,
            settings: Some(run::settings_of_caller(host)),
            agent_folder: self.request.agent_folder.clone(),
            actor: host.actor(),
            ..Begin::default()
        };
        let current = run::begin(store, &begin)?;
        acts::note_begun(store, host, &current.session)?;
        Ok(PendingLaunch { current, conversation, argv, environment, config_folder })
    }

    /// Starts the agent, and waits for its end.
    pub fn supervise(
        self,
        store: &Store,
        host: &dyn Host,
        begun: PendingLaunch,
        stops: &Stops,
        observer: &dyn Observer,
    ) -> Result<AgentExit> {
        let PendingLaunch { current, conversation, argv, environment, config_folder } = begun;
        let supervised = Supervision {
            is_captured: false,
            host,
            current: &current,
            argv: &argv,
            environment: run::environment_of(store, &current),
            kind: self.agent.as_ref().map(Agent::kind),
            config_folder,
            folder: self.request.workspace,
            conversation,
            is_headless: self.agent.as_ref().is_some_and(Agent::is_headless),
            prints: self.agent.as_ref().and_then(Agent::printed),
            resumes: None,
            interval: self.request.interval,
            request: environment,
            config: self.config,
            // A session that never began is over.
            before: Goal::Ended,
            is_quiet: self.request.is_quiet,
            removed: Default::default(),
            is_silent: Default::default(),
        };
        let ended = supervise(store, &supervised, stops, observer);
        run::forget_private(store);
        or_ended(store, host, &current, observer, ended)
    }
}

/// Fails where somebody has a conversation open that the command line names: two agents in one would spoil it.
fn ensure_free(store: &Store, host: &dyn Host, agent: &Agent, conversation: &str) -> Result<()> {
    let conversation = conversation.to_owned();
    if let Some((other, _)) = run::sessions_in(store, &conversation, "")?.into_iter().find(|(_, is_alive)| *is_alive) {
        return Err(Refusal::ConversationTaken { conversation, session: other.id }.into());
    }
    let config = host.config_folder(agent.kind()).map(|config| config.path).unwrap_or_default();
    match holders(&config, &conversation).first() {
        None => Ok(()),
        Some(holder) => Err(Refusal::ConversationOpen { conversation, holder: holder.text() }.into()),
    }
}
