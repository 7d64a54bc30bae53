//! Reading the windows of a conversation: of a live session from its agent's transcript, of a checkpoint from what it holds.

use std::{
    io::{BufReader, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use parhelia_agent::{
    regular,
    transcript::window::{self, Windows},
};
use parhelia_ledger::Session;
use parhelia_store::{Store, record::Checkpoint};

use parhelia_host::{
    Host, Result,
    conversation::added::{READ_BYTES_MAX, last_bytes},
    error::IoContext,
    run,
};

/// The origin of the windows of a report.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// The agent's transcript, by its path.
    Transcript(PathBuf),
    /// The conversation that a checkpoint has.
    Checkpoint(Box<Checkpoint>),
}

/// The windows of a transcript, of whose end so many bytes are read.
pub fn of_transcript(path: &Path, bytes_max: u64) -> Result<Windows> {
    let mut file = regular::open(path).at("open", path)?;
    let bytes = file.metadata().at("look at", path)?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(bytes_max))).at("read", path)?;
    window::read(BufReader::with_capacity(1 << 20, file)).at("read", path)
}

/// The windows of a checkpoint's conversation, of whose end so many bytes are read; none where it has none.
pub fn of_checkpoint(store: &Store, checkpoint: &Checkpoint, bytes_max: u64) -> Result<Option<Windows>> {
    let Some(bytes) = last_bytes(store, checkpoint, bytes_max)? else { return Ok(None) };
    Ok(Some(window::read(bytes.as_slice()).at("read", "conversation".as_ref())?))
}

/// The windows of a session's last conversation: as it is now, or as its newest checkpoint has it.
pub fn of_session(store: &Store, host: &dyn Host, session: &Session) -> Result<Option<(Windows, Source)>> {
    let config = run::config_for(store, host, session)?.map(|config| config.path);
    let live = session.conversations.last().and_then(|known| parhelia_host::conversation::transcript(known, config.as_deref()));
    if let Some(path) = live {
        return Ok(Some((of_transcript(&path, READ_BYTES_MAX)?, Source::Transcript(path))));
    }
    let Some(head) = store.view().head(&session.id)? else { return Ok(None) };
    Ok(of_checkpoint(store, &head, READ_BYTES_MAX)?.map(|windows| (windows, Source::Checkpoint(Box::new(head)))))
}
