//! A checkpoint of a session that runs: the workspace with the conversation, git and tmux of the same moment.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use parhelia_store::{
    Store,
    check::VerifyReport,
    create::{self, FullWalk, Options, Outcome},
    event::Actor,
    fold::{Session, Tmux},
    progress::Progress,
    record::{Part, Rules, SAFETY, Trigger},
};
use serde_json::{Value, json};

use crate::{
    capture::{self, Capture, Job, Looked, Source, environment_job, git_job, session_state},
    config::Config,
    error::Result,
    resume::Standing,
    verification,
};
use parhelia_agent::{
    environment, git,
    tmux::{self, Limits, Server},
    transcript::Located,
};

/// The folder of `state` with the conversation's files.
pub const CONVERSATION_FOLDER: &str = capture::CONVERSATION;
/// The folder of `state` with what tmux showed.
pub const TMUX_FOLDER: &str = "tmux";
/// The file in it with everything but the text.
pub const TMUX_FILE: &str = "tmux.json";
/// The field in that file that names the pane of the agent.
pub const AGENT_PANE: &str = "agent_pane";

const TMUX_LIMIT: Duration = Duration::from_secs(5);

/// The conversation that belongs to a checkpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Conversation {
    /// There is none.
    #[default]
    None,
    /// The one of this transcript.
    Transcript(PathBuf),
    /// The one of this id, in the agent's own folder.
    Of {
        /// The agent's folder.
        config: PathBuf,
        /// The id.
        id: String,
    },
}

impl Conversation {
    /// A session's conversation, or with an `id` that one of it: where its transcript was seen last, or where the agent keeps it by now.
    pub fn of(session: Option<&Session>, id: Option<&str>, config: Option<PathBuf>) -> Self {
        let known = session.map_or(&[][..], |session| &session.conversations);
        let entry = match id {
            Some(id) => known.iter().find(|found| found.id == id),
            None => known.last(),
        };
        let seen = entry.and_then(|entry| entry.seen_at()).filter(|path| path.exists());
        match (seen, id.or(entry.map(|entry| entry.id.as_str())), config) {
            (Some(path), ..) => Conversation::Transcript(path),
            (None, Some(id), Some(config)) => Conversation::Of { config, id: id.to_owned() },
            _ => Conversation::None,
        }
    }
}

/// What to capture, and as what.
pub struct Wanted<'a> {
    /// The session.
    pub session: &'a str,
    /// The run that it is made in; none from outside.
    pub run: Option<(&'a str, u64)>,
    /// The workspace.
    pub workspace: &'a Path,
    /// Why.
    pub trigger: Trigger,
    /// More about why.
    pub detail: Option<String>,
    /// A message for whoever looks at it later.
    pub message: Option<String>,
    /// Whether none is made where nothing has changed.
    pub skip_if_unchanged: bool,
    /// What is left out; none for what the configuration says.
    pub rules: Option<Rules>,
    /// The conversation.
    pub conversation: Conversation,
    /// Where in tmux the run is.
    pub tmux: Option<Tmux>,
    /// What has to be looked at to tell the agent's environment. With none, neither that is captured, nor are the files listed that the
    /// session worked on.
    pub environment: Option<environment::Request>,
    /// What is configured for the workspace.
    pub config: &'a Config,
    /// Who makes it.
    pub actor: Actor,
    /// The environment.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
}

/// What was made, and whether it is whole.
#[derive(Debug)]
pub struct Made {
    /// What came of it.
    pub outcome: Outcome,
    /// What verifying it found, or why it could not be verified; it is committed all the same. None where nothing had changed, and nothing
    /// was made.
    pub verified: Option<Result<VerifyReport>>,
    /// The captured folder, compared with the session's own.
    pub standing: Standing,
    /// A sentence about that, where there is something to say; the caller's progress has been told.
    pub notice: Option<String>,
}

impl Made {
    /// The parts that could not be captured, each with why.
    pub fn failed(&self) -> impl Iterator<Item = String> {
        let parts = (!self.outcome.skipped).then_some(&self.outcome.checkpoint.record.parts);
        let parts = parts.into_iter().flatten().filter_map(|(name, part)| match part {
            Part::Failed { error } => Some(format!("{name} could not be captured: {error}")),
            _ => None,
        });
        let verified = self.verified.as_ref().and_then(|verified| verified.as_ref().err());
        parts.chain(verified.map(|e| format!("it could not be verified: {e}")))
    }

    /// Whether something was made that is damaged.
    pub fn is_damaged(&self) -> bool {
        self.verified.as_ref().is_some_and(|verified| verified.as_ref().is_ok_and(|report| !report.is_ok()))
    }

    /// Whether older checkpoints may go in its favour: it is whole, and of the session's own folder.
    pub fn is_sound(&self) -> bool {
        !self.standing.is_another()
            && self.verified.as_ref().is_none_or(|verified| verified.as_ref().is_ok_and(VerifyReport::is_ok))
    }
}

/// Makes a checkpoint, and verifies it. What could not be captured beside the workspace is a failed part of it.
///
/// Where another folder has taken the place of the session's, that is captured and said, and the session's recorded folder stays: resuming and
/// rolling back go on to refuse it.
pub fn make(store: &Store, wanted: &Wanted<'_>, progress: &dyn Progress) -> Result<Made> {
    let known = store.view().session(wanted.session)?;
    let standing = Standing::of_captured(known.as_ref(), wanted.workspace);
    // Somebody who restores into a workspace that was moved has not said that the session goes on there.
    let is_elsewhere =
        known.as_ref().and_then(|known| known.workspace.as_ref()).is_some_and(|place| place.folder() != wanted.workspace);
    let is_safety = wanted.detail.as_deref() == Some(SAFETY);
    let options = Options {
        workspace: wanted.workspace.to_owned(),
        session: wanted.session.to_owned(),
        run: wanted.run.map(|(run, _)| run.to_owned()),
        epoch: wanted.run.map_or(0, |(_, epoch)| epoch),
        actor: wanted.actor.clone(),
        trigger: wanted.trigger,
        trigger_detail: wanted.detail.clone(),
        message: wanted.message.clone(),
        rules: wanted.rules.clone().unwrap_or_else(|| wanted.config.capture.rules()),
        skip_if_unchanged: wanted.skip_if_unchanged,
        read_all_after_secs: wanted.config.capture.read_all_after_secs(),
        keeps_place: standing.is_another() || (is_safety && is_elsewhere),
        of_another_folder: standing.is_another(),
        ..Options::default()
    };
    let git = git::Environment::new(wanted.variable, wanted.workspace, &store.layout().cache());
    let mut jobs = vec![git_job(wanted.workspace.to_owned(), git, wanted.config.capture.git_timeout())];
    jobs.extend(wanted.environment.clone().map(environment_job));
    jobs.extend(wanted.tmux.clone().map(|place| tmux_job(place, wanted.workspace)));
    let listed = wanted.environment.as_ref().map(|_| (wanted.workspace.to_owned(), wanted.config.context.clone()));
    let mut capture = Capture::new(capture::Wanted {
        conversation: source(wanted, known.as_ref()),
        session_state: Some(session_state(wanted.session, wanted.workspace, wanted.run, known.as_ref())),
        jobs,
        context: listed,
        cache: store.layout().cache(),
    });
    let outcome = create::run_with(store, &options, &FullWalk, &mut capture, progress)?;
    let verified = match outcome.skipped {
        true => None,
        false => Some(verification::of_new(store, &outcome.checkpoint, false, &wanted.actor, progress)),
    };
    let notice = known.and_then(|session| standing.text(&session)).filter(|_| !outcome.skipped);
    notice.iter().for_each(|text| progress.notice(text));
    Ok(Made { outcome, verified, standing, notice })
}

/// The conversation, if one belongs to the checkpoint. One that the agent has not begun to write is none; one that had turns and is gone is a
/// failed part.
fn source(wanted: &Wanted<'_>, session: Option<&Session>) -> Option<Result<Source, String>> {
    let (located, id) = match &wanted.conversation {
        Conversation::None => return None,
        Conversation::Transcript(path) => {
            let id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let config = path.parent().unwrap_or(Path::new("")).to_owned();
            let gone = parhelia_agent::Error::NoTranscript { agent_session: id.clone(), config };
            (if path.exists() { Located::from_hook(path) } else { Err(gone) }, id)
        }
        Conversation::Of { config, id } => (Located::by_session(config, id), id.clone()),
    };
    let had_turns =
        session.is_some_and(|session| session.conversations.iter().any(|known| known.id == id && known.turn_count > Some(0)));
    match located {
        Err(parhelia_agent::Error::NoTranscript { .. }) if !had_turns => None,
        located => Some(located.map(Source::Transcript).map_err(|e| e.to_string())),
    }
}

/// What tmux shows of the session that a pane belongs to. A `tmux` in the workspace is not run.
pub fn tmux_job(place: Tmux, workspace: &Path) -> Job {
    let workspace = workspace.to_owned();
    Job::new(TMUX_FOLDER, move || {
        let server = Server::new(Some(place.socket.clone().into()), TMUX_LIMIT).outside(&workspace);
        let found = tmux::session_of(&server, &place.pane).and_then(|name| tmux::capture(&server, &name, Limits::default()));
        let found = found.map_err(|e| e.to_string())?;
        let mut state = json!(found.state);
        state[AGENT_PANE] = Value::from(place.pane.clone());
        let mut files = vec![(format!("{TMUX_FOLDER}/{TMUX_FILE}"), serde_json::to_vec_pretty(&state).unwrap_or_default())];
        files.extend(found.scrollback.into_iter().map(|text| (format!("{TMUX_FOLDER}/{}", text.name), text.bytes)));
        let error = (!found.problems.is_empty()).then(|| found.problems.join("; "));
        Ok(Some(Looked { files, error, ..Looked::default() }))
    })
}
