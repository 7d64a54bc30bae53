//! A checkpoint that is asked for.

use std::path::{Path, PathBuf};

use parhelia_agent::{environment, folder::ConfigFolder, kinds::KINDS, transcript::TranscriptLocation};
use parhelia_ledger::{Session, Tmux};
use parhelia_store::record::{Cause, Rules, Trigger};

use crate::{Host, Result, config::Config, conversation::Source};

/// A checkpoint that is asked for: of which workspace, in which session, with what beside it.
pub struct CheckpointRequest<'a> {
    /// Id of the session that it is made in.
    pub session: &'a str,
    /// The run that it is made in, and its epoch; none from outside.
    pub run: Option<(&'a str, u64)>,
    /// The workspace, an absolute path.
    pub workspace: &'a Path,
    /// The reason.
    pub trigger: Trigger,
    /// The cause. Never taken from what a caller has typed.
    pub cause: Cause,
    /// More about the reason, for people.
    pub detail: Option<String>,
    /// A message for whoever looks at it later.
    pub message: Option<String>,
    /// True if none is made where nothing has changed.
    pub skip_if_unchanged: bool,
    /// The rules by which entries are left out; none for the configuration's.
    pub rules: Option<Rules>,
    /// Paths from the workspace; all others are left out. None for everything.
    pub listed: Option<Vec<Vec<u8>>>,
    /// True if every file is read, whatever its times say.
    pub thorough: bool,
    /// True if the new checkpoint is read back from the store; a damaged one is followed by another that stores it again.
    pub deep: bool,
    /// The conversation to capture beside the workspace.
    pub conversation: Conversation,
    /// The pane of tmux in which the run is.
    pub tmux: Option<Tmux>,
    /// The places to look at for the agent's environment. With none, neither that is captured, nor are the files listed that the session
    /// worked on.
    pub environment: Option<environment::Request>,
    /// The configuration in force for the workspace.
    pub config: &'a Config,
    /// True if retention removes older checkpoints of the session afterwards, as configured.
    pub thins: bool,
    /// True if a policy decides about it, whoever asks for it: an agent works there, of which the session has no run.
    pub is_judged: bool,
}

impl<'a> CheckpointRequest<'a> {
    /// A request for a session's workspace, with nothing beside it.
    pub fn new(session: &'a str, workspace: &'a Path, config: &'a Config) -> Self {
        CheckpointRequest {
            session,
            run: None,
            workspace,
            trigger: Trigger::Periodic,
            cause: Cause::Asked,
            detail: None,
            message: None,
            skip_if_unchanged: false,
            rules: None,
            listed: None,
            thorough: false,
            deep: false,
            conversation: Conversation::None,
            tmux: None,
            environment: None,
            config,
            thins: true,
            is_judged: false,
        }
    }

    /// True if an agent works in the session, as far as that is known: of a folder that none works in there is nothing to say, and nothing to decide.
    pub fn is_agents(&self, session: Option<&Session>) -> bool {
        self.run.is_some() || session.is_some_and(|session| session.run.is_some())
    }
}

/// The conversation that belongs to a checkpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Conversation {
    /// No conversation is captured.
    #[default]
    None,
    /// The one of this transcript.
    Transcript(PathBuf),
    /// The one of this id, in the agent's own folder.
    Of {
        /// The agent's folder.
        config: PathBuf,
        /// The agent's own id of the conversation, such as a UUID.
        id: String,
    },
    /// The output of a headless agent with `--output-format stream-json`.
    Stream {
        /// The file.
        log: PathBuf,
        /// True if it is a copy, which does not grow.
        is_copy: bool,
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
        let seen =
            entry.and_then(|entry| entry.seen_at()).filter(|path| path.exists() && TranscriptLocation::from_hook(path).is_ok());
        match (seen, id.or(entry.map(|entry| entry.id.as_str()))) {
            (Some(path), _) => Conversation::Transcript(path),
            // Without the agent's folder, the conversation counts as not found, and not as none.
            (None, Some(id)) => Conversation::Of { config: config.unwrap_or_default(), id: id.to_owned() },
            (None, None) => Conversation::None,
        }
    }

    /// The conversation of a transcript that somebody names. Fails where there is none.
    pub fn named_file(path: PathBuf) -> Result<Self> {
        TranscriptLocation::from_hook(&path)?;
        Ok(Conversation::Transcript(path))
    }

    /// The conversation of an id that somebody names, in the first of the caller's folders of agents that has it. Fails where none does.
    pub fn named_id(id: &str, host: &dyn Host) -> Result<Self> {
        let mut found = TranscriptLocation::by_session(Path::new(""), id).map(|_| PathBuf::new());
        for config in KINDS.into_iter().filter_map(|kind| Some(ConfigFolder::of(kind, |name| host.variable(name))?.path)) {
            found = found.or_else(|_| TranscriptLocation::by_session(&config, id).map(|_| config));
        }
        Ok(Conversation::Of { config: found?, id: id.to_owned() })
    }

    /// The source of the conversation, if one belongs to the checkpoint. One that the agent has not begun to write is none; one that had turns and
    /// is gone is a failed part.
    pub fn source(&self, session: Option<&Session>) -> Option<Result<Source, String>> {
        let (located, id) = match self {
            Conversation::None => return None,
            Conversation::Stream { log, is_copy } => {
                return Some(Ok(Source::Stream { log: log.clone(), is_copy: *is_copy }));
            }
            Conversation::Transcript(path) => {
                let id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
                let config = path.parent().unwrap_or(Path::new("")).to_owned();
                let gone = parhelia_agent::Error::NoTranscript { agent_session: id.clone(), config };
                (if path.exists() { TranscriptLocation::from_hook(path) } else { Err(gone) }, id)
            }
            Conversation::Of { config, id } => (TranscriptLocation::by_session(config, id), id.clone()),
        };
        let is_it = |known: &parhelia_ledger::Conversation| known.id == id && known.turn_count > Some(0);
        let had_turns = session.is_some_and(|session| session.conversations.iter().any(is_it));
        match located {
            Err(parhelia_agent::Error::NoTranscript { .. }) if !had_turns => None,
            located => Some(located.map(Source::Transcript).map_err(|e| e.to_string())),
        }
    }
}
