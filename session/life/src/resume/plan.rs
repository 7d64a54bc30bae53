//! A resume up to the point at which nothing has changed yet: what to go on with, and what stands against it.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use parhelia_agent::{
    command::Agent,
    environment::{missing, steers},
    folder::ConfigFolder,
    words::Bypass,
};
use parhelia_ledger::{
    ApprovalStatus, Goal, LedgerView as _, Place, Run, Session,
    selector::{find, is_relative},
};
use parhelia_store::{
    Store,
    id::Ulid,
    name::{NameExt as _, display},
    pin::Pin,
};

use super::{
    Choice, ResumeRequest, choose,
    choose::{ensure_not_rejected, waits},
    workspace::fate,
};
use crate::{
    rollback::{self, Rollback},
    workspace::place::{ensure_place, is_gone},
};
use parhelia_host::{
    Host, Observer, Refusal, Result,
    conversation::held,
    intent::{self, Turn},
    notice::Notice,
    policy::Prefer,
    run::{self, Commands, Variables},
};
use parhelia_oversight::approval::rejections::Rejections;

/// The variable that names the checkpoint from which something goes on.
const RESUMED_FROM: &str = "PARHELIA_RESUMED_FROM";
/// A checkpoint that is older than this is said to be.
const OLD_SECONDS: i64 = 300;

/// Everything that is known before the agent starts.
pub struct Preparation {
    /// The session as it was when the turn was taken.
    pub session: Session,
    /// The agent; none for a program that is no agent.
    pub agent: Option<Agent>,
    /// The checkpoint to go on from.
    pub choice: Choice,
    /// Absolute path of its folder, which may be gone.
    pub workspace: PathBuf,
    /// The conversation to go on with.
    pub conversation: Option<String>,
    /// The agent's own folder.
    pub config: Option<ConfigFolder>,
    /// Things that the user and the agent should know.
    pub notices: Vec<Notice>,
    pub(super) argv: Vec<OsString>,
    /// The variables that the session's last launch had.
    pub(super) launched: Variables,
    /// The user's own patterns of variables that are the work's.
    pub(super) also: Vec<String>,
    /// True if those of them are set again, too, that say where the agent connects, or what it loads and runs.
    pub(super) may_steer: bool,
    /// What an agent ran that took the session up by hand, where that is not what its launch ran.
    pub(super) other: Option<Box<ByHand>>,
    pub(super) permission_mode: Option<String>,
    pub(super) seen_epoch: u64,
    /// The goal of the session before.
    pub(super) before: Goal,
    /// True once the workspace was gone, and was restored.
    pub(super) is_restored: bool,
    /// Keeps the checkpoint there until everything is back.
    pub(super) pin: Option<Pin>,
}

/// What an agent was started with that took a session up without a launch.
#[derive(Clone, Debug)]
pub(super) struct ByHand {
    agent: Option<Agent>,
    argv: Vec<OsString>,
    config: Option<ConfigFolder>,
    launched: Variables,
    permission_mode: Option<String>,
}

/// A resume that is planned. It has the session's turn.
pub struct Resume {
    pub(super) prepared: Preparation,
    pub(super) turn: Turn,
    pub(super) went_back: bool,
}

impl Preparation {
    /// Variables that everything gets which is started again: those of the launch that the caller has not, and the checkpoint.
    pub fn environment(&self, host: &dyn Host) -> Vec<(String, OsString)> {
        let mut found = self.missing(host);
        found.retain(|(name, _)| self.may_steer || !steers(name, &self.also));
        found.extend(self.choice.checkpoint.as_ref().map(|checkpoint| (RESUMED_FROM.to_owned(), checkpoint.id().into())));
        found
    }

    /// True if variables of the launch are set that say where the agent connects, or what it loads and runs.
    pub fn may_steer(&self) -> bool {
        self.may_steer
    }

    /// Variables of the launch that say where the agent connects, or what it loads and runs, and that nobody has allowed yet.
    pub fn steering(&self, host: &dyn Host) -> Vec<(String, OsString)> {
        let mut found = self.missing(host);
        found.retain(|(name, _)| !self.may_steer && steers(name, &self.also));
        found
    }

    fn missing(&self, host: &dyn Host) -> Vec<(String, OsString)> {
        missing(&self.launched, &|name| host.variable(name).is_some())
    }

    /// What is to be said of these variables.
    fn of_variables(&self, host: &dyn Host) -> impl Iterator<Item = Notice> {
        let names = |found: Vec<(String, OsString)>| -> Vec<String> {
            found.into_iter().map(|(name, _)| name).filter(|name| name != RESUMED_FROM).collect()
        };
        let (set, left) = (names(self.environment(host)), names(self.steering(host)));
        let set = (!set.is_empty()).then_some(Notice::VariablesSet { names: set });
        set.into_iter().chain((!left.is_empty()).then_some(Notice::VariablesLeft { names: left }))
    }
}

impl Resume {
    /// Waits for the session's turn, finishes a rollback that was interrupted, and finds out what there is to go on with.
    pub fn plan(
        store: &Store,
        host: &dyn Host,
        session: Session,
        request: &ResumeRequest,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let commands = run::commands_of(store, &session)?;
        let turn = intent::held(store, &session.id, observer)?;
        let seen_epoch = session.epoch;
        // Whoever had the turn before may have moved it.
        let session = store.refresh()?.session(&session.id)?.unwrap_or(session);
        if !request.recreate_workspace {
            ensure_place(store, &session)?;
        }
        rollback::finish_earlier(store, host, &session.id, observer)?;
        // That may have taken it to another conversation; and whoever had the turn before may have brought it back to life.
        let session = store.refresh()?.session(&session.id)?.unwrap_or(session);
        if session.epoch != seen_epoch {
            return Err(Refusal::TakenOver { session: session.id }.into());
        }
        let mut prepared = prepare(store, host, session, &commands, request)?;
        if request.from.is_none() && !request.recreate_workspace {
            // Whoever may still be alive elsewhere is not fenced for a resume that cannot be.
            fate(store, &prepared.session, prepared.choice.checkpoint.as_ref(), &prepared.workspace)?;
        }
        if let Some(chosen) = &prepared.choice.checkpoint {
            let id = chosen.record.id;
            prepared.pin = store.pin_for_reading([id], "resume", |text| observer.notice(text));
            // It may have been deleted before it was pinned.
            if store.refresh()?.checkpoint(id)?.is_none() {
                return Err(parhelia_store::Error::NoCheckpoint { selector: id.to_string() }.into());
            }
        }
        Ok(Resume { prepared, turn, went_back: false })
    }

    /// Everything that is known.
    pub fn prepared(&self) -> &Preparation {
        &self.prepared
    }

    /// The checkpoint to which a workspace that is there must be rolled back first, because somebody has chosen it.
    pub fn rollback_target(&self, request: &ResumeRequest) -> Option<parhelia_store::record::Checkpoint> {
        let target = self.prepared.choice.checkpoint.clone().filter(|_| request.from.is_some())?;
        let is_there = std::fs::read_dir(&self.prepared.workspace).is_ok_and(|mut entries| entries.next().is_some());
        is_there.then_some(target)
    }

    /// Sets those variables of the launch, too, that say where the agent connects, or what it loads and runs: a person has seen them.
    pub fn allow_steering(&mut self) {
        self.prepared.may_steer = true;
    }

    /// The command of an agent that took the session up by hand, its words for people, where it is not the one that is run.
    pub fn other_command(&self) -> Option<String> {
        self.prepared.other.as_ref().map(|other| other.shown())
    }

    /// The command that is run, its words for people.
    pub fn command(&self) -> String {
        words_of(&self.prepared.argv)
    }

    /// Runs the command of the agent that took the session up by hand in place of the launch's: a person has seen it.
    pub fn take_other_command(&mut self) {
        let Some(other) = self.prepared.other.take() else { return };
        let ByHand { agent, argv, config, launched, permission_mode } = *other;
        let prepared = &mut self.prepared;
        (prepared.agent, prepared.argv, prepared.launched) = (agent, argv, launched);
        prepared.config = config.or(prepared.config.take());
        prepared.permission_mode = permission_mode;
    }

    /// Says what is set again, and what is not run.
    pub(super) fn note_variables(&mut self, host: &dyn Host) {
        self.prepared.notices.extend(self.other_command().map(|command| Notice::OtherCommand { command }));
        let notices: Vec<Notice> = self.prepared.of_variables(host).collect();
        self.prepared.notices.extend(notices);
    }

    /// Notes that the workspace was rolled back to the checkpoint that was chosen.
    pub fn went_back(&mut self, target: Ulid) {
        self.went_back = true;
        self.prepared.notices.push(Notice::PutBack { checkpoint: target });
    }
}

impl ByHand {
    fn shown(&self) -> String {
        let folder = self.config.as_ref().map(|config| format!(" (its own folder is {})", config.path.shown()));
        format!("{}{}", words_of(&self.argv), folder.unwrap_or_default())
    }
}

fn words_of(argv: &[OsString]) -> String {
    argv.iter().map(|word| display(word.as_encoded_bytes())).collect::<Vec<_>>().join(" ")
}

/// The rollback with which a resume from a chosen checkpoint begins.
pub fn rollback_first<'a>(
    store: &'a Store,
    host: &'a dyn Host,
    target: &'a parhelia_store::record::Checkpoint,
    request: &ResumeRequest,
    any_git_state: bool,
) -> Result<Rollback<'a>> {
    let options = rollback::Options {
        any_git_state,
        take_over: request.take_over,
        recreate_workspace: request.recreate_workspace,
        ..rollback::Options::default()
    };
    Rollback::plan(store, host, target, None, options)
}

/// Finds out what there is to go on with. Changes nothing.
fn prepare(
    store: &Store,
    host: &dyn Host,
    session: Session,
    commands: &Commands,
    request: &ResumeRequest,
) -> Result<Preparation> {
    let own = commands.own.as_ref();
    let from = request.from.as_ref().map(|text| chosen(store, &session, text)).transpose()?;
    if from.is_none() && is_kept(store, &session) {
        ensure_not_rejected(store, &session)?;
    }
    let choice = choose(store, &session, from, request.from_rejected, preference(store, host, &session)?)?;
    let place = session.workspace.as_ref().map(Place::folder);
    let passed = choice.skipped.iter().map(|(id, why)| Notice::PassedOver { checkpoint: *id, why: why.clone() });
    let mut notices: Vec<Notice> = passed.collect();
    notices.extend(old(host, &choice, request.from.is_some()));
    if choice.checkpoint.is_none() {
        notices.push(Notice::NothingToGoOnFrom);
    }
    notices.extend(unreviewed(store, &choice)?);
    let workspace = place.ok_or_else(|| Refusal::NoWorkspace { session: session.id.clone() })?;
    let argv: Vec<OsString> = own.map(Run::command).unwrap_or_default();
    if argv.is_empty() {
        return Err(Refusal::UnknownCommand { session: session.id }.into());
    }
    let agent = own.and_then(run::agent_in);
    if let Some(program) = argv.first().filter(|_| agent.is_none() && request.prompt.is_some()) {
        let program = display(program.as_encoded_bytes());
        return Err(Refusal::PromptOfNoAgent { session: session.id, program }.into());
    }
    let conversation = goes_on_with(&session, &choice, request.from.is_some());
    let (seen_epoch, before) = (session.epoch, session.goal());
    let newest = match &commands.other {
        Some(_) => None,
        None => store.view().newest_run(&session)?,
    };
    let permission_mode = newest.as_ref().or(own).and_then(|run| run.permission_mode.clone());
    let permission_mode = run::mode_within(permission_mode, agent.as_ref());
    let mode_bypasses = || permission_mode.as_deref().filter(|mode| *mode == "bypassPermissions").map(|_| Bypass::On);
    if let Some(bypass) = agent.as_ref().and_then(|agent| agent.bypass().or_else(mode_bypasses)) {
        notices.push(Notice::BypassesPermissions { is_on: bypass == Bypass::On });
    }
    let seen = run::config_for(store, host, &session)?;
    if agent.is_some() {
        notices.extend(others(store, host, &session, &choice, request.from.is_some(), request.take_over)?);
    }
    let other = match &commands.other {
        None => None,
        Some(other) => Some(Box::new(ByHand {
            agent: run::agent_in(other),
            argv: other.command(),
            config: seen.clone(),
            launched: run::launch_variables_in(store, &session.runs)?.unwrap_or_default(),
            permission_mode: run::mode_within(other.permission_mode.clone(), run::agent_in(other).as_ref()),
        })),
    };
    let config = own.filter(|_| other.is_some()).and_then(run::config_of).or(seen);
    if let Some(config) = config.as_ref().filter(|_| agent.is_some()) {
        notices.extend(run::moved_folder(store, &session, config)?);
    }
    notices.extend(config.as_ref().filter(|_| agent.is_some()).and_then(|config| run::other_folder(host, config)));
    notices.extend(run::beside(store, &workspace, &session.id)?.iter().map(Notice::of_same_files));
    let launched = run::launch_variables_in(store, &commands.until)?.unwrap_or_default();
    let also = host.config(&workspace)?.environment.variables;
    Ok(Preparation {
        session,
        agent,
        choice,
        workspace,
        conversation,
        config,
        notices,
        argv,
        launched,
        also,
        may_steer: request.launch_variables,
        other,
        permission_mode,
        seen_epoch,
        before,
        is_restored: false,
        pin: None,
    })
}

/// The checkpoints that a resume of a session prefers, by the configuration in force. A workspace that is there goes on as it is: nothing of it
/// comes from a checkpoint, and the newest says best what it is.
pub fn preference(store: &Store, host: &dyn Host, session: &Session) -> Result<Prefer> {
    let place = session.workspace.as_ref().map(Place::folder);
    if is_kept(store, session) {
        return Ok(Prefer::Newest);
    }
    Ok(host.config(place.as_deref().unwrap_or(Path::new("/")))?.approval.resume_prefer)
}

/// True if a session's workspace is there, and a resume keeps it. A folder that cannot be read is told of where it is needed.
pub(super) fn is_kept(store: &Store, session: &Session) -> bool {
    session.workspace.as_ref().is_some_and(|place| !is_gone(store, &place.folder()).unwrap_or(false))
}

/// The warning that nobody has looked at a checkpoint that waits for that.
fn unreviewed(store: &Store, choice: &Choice) -> Result<Option<Notice>> {
    let Some(chosen) = &choice.checkpoint else { return Ok(None) };
    let checkpoint = chosen.record.id;
    if let Some(taint) = Rejections::of(store)?.taint(chosen)? {
        return Ok(Some(Notice::Unreviewed { checkpoint, why: taint.text() }));
    }
    let approval = store.view().marks(checkpoint)?.approval;
    let pending = approval.filter(|approval| approval.status == ApprovalStatus::Pending);
    Ok(pending.map(|approval| Notice::Unreviewed { checkpoint, why: waits(Some(&approval)) }))
}

/// The conversation that a session goes on with: that of a checkpoint that was chosen, or for which newer work is left, else its newest.
fn goes_on_with(session: &Session, choice: &Choice, is_chosen: bool) -> Option<String> {
    let of_checkpoint = choice.checkpoint.as_ref().and_then(held);
    let newest = session.conversations.last().map(|conversation| conversation.id.clone());
    if is_chosen || choice.leaves_newer_work { of_checkpoint.or(newest) } else { newest.or(of_checkpoint) }
}

/// Fails where somebody else has the conversation open that a session would go on with, and where somebody may have it out of sight, unless
/// that is over by `take_over`. Other sessions that were in it are told.
pub fn others(
    store: &Store,
    host: &dyn Host,
    session: &Session,
    choice: &Choice,
    is_chosen: bool,
    take_over: bool,
) -> Result<Vec<Notice>> {
    let Some(id) = goes_on_with(session, choice, is_chosen) else { return Ok(Vec::new()) };
    let config = run::config_for(store, host, session)?.map(|config| config.path).unwrap_or_default();
    let mut notices = run::others_in(store, session, &config, &id)?;
    match (run::unseen_in(store, session, &config, &id)?, take_over) {
        (Some(text), true) => notices.push(Notice::MayBeOpen { text }),
        (Some(text), false) => return Err(Refusal::ConversationUnseen { text }.into()),
        (None, _) => {}
    }
    Ok(notices)
}

/// The checkpoint that somebody means who speaks of this session.
pub fn chosen(store: &Store, session: &Session, text: &str) -> Result<Ulid> {
    Ok(find(&store.view(), &meant(session, text))?.record.id)
}

/// The same as a selector that means it anywhere: the latest of this session, not of another folder or of the store.
pub(super) fn meant(session: &Session, text: &str) -> String {
    if is_relative(text) { format!("{}@{text}", session.id) } else { text.to_owned() }
}

/// A notice of how much may be missing, where the checkpoint is not of just now; of one that was chosen, that it is of another folder.
pub fn old(host: &dyn Host, choice: &Choice, is_chosen: bool) -> Option<Notice> {
    let checkpoint = choice.checkpoint.as_ref()?;
    let (id, record) = (checkpoint.record.id, &checkpoint.record);
    if is_chosen {
        return record.is_of_another_folder().then_some(Notice::OfAnotherFolder { checkpoint: id });
    }
    let is_old = host.now().duration_since(record.created_at).as_secs() >= OLD_SECONDS;
    is_old.then_some(Notice::Old { checkpoint: id, made: record.created_at, now: host.now() })
}
