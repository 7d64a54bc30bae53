//! The conversation that belongs to a checkpoint, by the command line.

use std::{
    io,
    path::{Path, PathBuf, absolute},
};

use parhelia_host::Host;
use parhelia_life::checkpoint::{Conversation, ConversationChoice, SpoolFile};
use parhelia_store::Store;

use crate::exit::{Failure, Result};

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
    /// True if a conversation is named.
    pub fn names_conversation(&self) -> bool {
        self.transcript.is_some() || self.agent_session.is_some() || self.stream_json.is_some()
    }
}

/// The conversation that goes with a checkpoint, and the copy of standard input that has it, which goes when it is dropped.
pub fn conversation(args: &Args, store: &Store, host: &dyn Host) -> Result<(ConversationChoice, Option<SpoolFile>)> {
    let (given, spooled) = match (&args.transcript, &args.agent_session, &args.stream_json) {
        (Some(transcript), ..) => (Conversation::named_file(made_absolute(transcript)?)?, None),
        (_, Some(id), _) => (Conversation::named_id(id, host)?, None),
        (.., Some(log)) if log.as_os_str() == "-" => {
            let spooled = SpoolFile::of(store, &mut io::stdin().lock())?;
            (Conversation::Stream { log: spooled.path().to_owned(), is_copy: true }, Some(spooled))
        }
        (.., Some(log)) => (Conversation::Stream { log: made_absolute(log)?, is_copy: false }, None),
        _ if args.no_conversation => return Ok((ConversationChoice::None, None)),
        _ => return Ok((ConversationChoice::OfSession, None)),
    };
    Ok((ConversationChoice::Given(given), spooled))
}

fn made_absolute(path: &Path) -> Result<PathBuf> {
    absolute(path).map_err(|source| Failure::File { action: "find", path: path.to_owned(), source })
}
