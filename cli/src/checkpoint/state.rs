//! The conversation that belongs to a checkpoint, by the command line.

use std::{
    cell::OnceCell,
    io,
    path::{Path, PathBuf, absolute},
};

use parhelia_host::{Host, error::IoContext as _};
use parhelia_life::checkpoint::{Conversation, SpoolFile};
use parhelia_store::Store;

/// Flags that name the conversation.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "The conversation")]
pub struct Args {
    /// The agent's transcript [default: of the session's last conversation, where one is known]
    #[arg(long, value_name = "FILE", group = "conversation")]
    transcript: Option<PathBuf>,
    /// The agent's own id of the conversation, which is then looked for in its configuration folder
    #[arg(long, value_name = "ID", group = "conversation")]
    agent_session: Option<String>,
    /// The output of a headless agent with `--output-format stream-json`; `-` reads standard input
    #[arg(long, value_name = "FILE", group = "conversation")]
    stream_json: Option<PathBuf>,
    /// Capture no conversation
    #[arg(long, group = "conversation")]
    no_conversation: bool,
}

impl Args {
    /// True if none is to be captured.
    pub fn is_without(&self) -> bool {
        self.no_conversation
    }

    /// True if a conversation is named.
    pub fn names_conversation(&self) -> bool {
        self.transcript.is_some() || self.agent_session.is_some() || self.stream_json.is_some()
    }
}

/// The conversation that is named; none where none is. A copy of standard input goes into `spooled`, and goes when that is dropped.
pub fn named(args: &Args, store: &Store, host: &dyn Host, spooled: &OnceCell<SpoolFile>) -> parhelia_host::Result<Conversation> {
    match (&args.transcript, &args.agent_session, &args.stream_json) {
        (Some(transcript), ..) => Conversation::named_file(made_absolute(transcript)?),
        (_, Some(id), _) => Conversation::named_id(id, host),
        (.., Some(log)) if log.as_os_str() == "-" => {
            let copy = SpoolFile::of(store, &mut io::stdin().lock())?;
            Ok(Conversation::Stream { log: spooled.get_or_init(|| copy).path().to_owned(), is_copy: true })
        }
        (.., Some(log)) => Ok(Conversation::Stream { log: made_absolute(log)?, is_copy: false }),
        (None, None, None) => Ok(Conversation::None),
    }
}

fn made_absolute(path: &Path) -> parhelia_host::Result<PathBuf> {
    absolute(path).at("find", path)
}
