//! Kinds of coding agents: what is true of one of them alone stands behind [`AgentKind`].

mod argv;
mod files;
mod hooks;

pub use argv::Argv;
pub use files::Files;
pub use hooks::{Events, Hooks};

use std::{
    fmt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::{
    declaration::Declaration,
    error::Result,
    said::{AgentProcess, UnseenAgent},
    transcript::{index::Format, raw::RawSet},
};

/// A known kind of agent.
pub type Kind = &'static dyn AgentKind;

/// The abilities of a kind of agent. What it cannot do is made up for with what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abilities {
    /// Its command line can give a new conversation its id. Else the id is learned from its first hook, or from the file that appears.
    pub pins_conversation: bool,
    /// Its command line can bring hooks for one start that run without anybody's consent. Else a person has to trust them once.
    pub trusts_given_hooks: bool,
    /// Its command line can bring hooks for one start. Else they have to be installed in its settings.
    pub brings_hooks: bool,
    /// Words of a hook at the start of a headless agent leave its prompt in the conversation. Else such an agent is told by its prompt alone.
    pub keeps_told_prompt: bool,
    /// Its live processes leave word of the conversation that they have open ([`Transcript::live`]).
    pub leaves_word: bool,
}

/// Everything that is true of one kind of agent.
pub trait AgentKind: Argv + Hooks + Files + Transcript + fmt::Debug + Sync {
    /// Its name in records, such as `claude-code`.
    fn name(&self) -> &'static str;

    /// Its name for people.
    fn title(&self) -> &'static str;

    /// Abilities that the kinds differ in.
    fn abilities(&self) -> Abilities;

    /// The user's declaration of it; none of a kind that is built in.
    fn declaration(&self) -> Option<&Declaration> {
        None
    }
}

/// A conversation's transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranscriptLocation {
    /// The kind of agent whose conversation it is.
    pub kind: Kind,
    /// Path of the transcript file.
    pub transcript: PathBuf,
    /// The agent's id of the conversation.
    pub agent_session: String,
    /// The agent's own folder, where the transcript lies in one.
    pub config: Option<PathBuf>,
    /// Other transcripts of the same id, which were changed before this one.
    pub others: Vec<PathBuf>,
}

/// The conversations of a kind of agent: where they lie, and who has them open.
pub trait Transcript {
    /// True if it keeps each conversation in files of its own, which checkpoints have. Else it finds its conversations by their ids alone.
    fn keeps_files(&self) -> bool {
        true
    }

    /// The format of its transcripts.
    fn format(&self) -> Format;

    /// The format of the transcripts of its subagents.
    fn subagent_format(&self) -> Format {
        self.format()
    }

    /// A conversation by the path of its transcript; none where this is no transcript of this kind.
    fn located(&self, transcript: &Path) -> Option<TranscriptLocation>;

    /// All transcripts of a conversation in its own folder, ordered.
    fn copies(&self, config: &Path, conversation: &str) -> Result<Vec<PathBuf>>;

    /// Transcripts of conversations that began in a folder at this time or later: for an agent whose conversation cannot be pinned.
    fn begun_since(&self, _config: &Path, _since: SystemTime, _folder: &Path) -> Result<Vec<TranscriptLocation>> {
        Ok(Vec::new())
    }

    /// The place of a conversation's transcript, for an agent that works in `folder`.
    fn place(&self, config: &Path, folder: &Path, conversation: &str) -> PathBuf;

    /// Adds the files of a conversation beside its transcript.
    fn beside(&self, located: &TranscriptLocation, found: &mut RawSet);

    /// The place of a conversation's file, by its name in a checkpoint; none for a name that is none of its, or leads out.
    fn destination(&self, name: &Path, config: &Path, folder: &Path, conversation: &str) -> Option<PathBuf>;

    /// True of a conversation's file, by its name in a checkpoint, that other conversations have, too: it is put back only where it is missing.
    fn is_shared(&self, _name: &Path) -> bool {
        false
    }

    /// The place of a conversation's transcript that is gone, by where it was seen: that of the same name in `config`. None where the agent
    /// finds it by another place.
    fn seen_place(&self, _config: &Path, _seen: &Path) -> Option<PathBuf> {
        None
    }

    /// Has the agent find a conversation where its transcript lies now.
    fn adopt(&self, _config: &Path, _conversation: &str, _transcript: &Path) -> Result<()> {
        Ok(())
    }

    /// The words of one of its live processes of the conversation that it has open, where its processes leave word of that.
    fn said_by(&self, _config: &Path, _process: i32) -> Option<AgentProcess> {
        None
    }

    /// The words of its live processes that have a conversation open.
    fn live(&self, _config: &Path, _conversation: &str) -> Vec<AgentProcess> {
        Vec::new()
    }

    /// Its processes that have left word that they have a conversation open, and that may live where they cannot be seen from here.
    fn unseen(&self, _config: &Path, _conversation: &str) -> Vec<UnseenAgent> {
        Vec::new()
    }
}

impl PartialEq for dyn AgentKind {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for dyn AgentKind {}
