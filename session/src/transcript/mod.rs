//! The conversation: an agent's transcript, kept byte for byte, and an index over it.
//!
//! The transcript's format is the agent's own and changes with its releases. So nothing here is needed to read one back: the raw
//! files ([`files`]) are what is kept, cut at a record boundary ([`cut`](mod@cut)), and the [`Index`] holds only counters, ids and
//! byte ranges over them. Records of unknown kinds, torn lines and lines that are no JSON are counted and passed over.
//!
//! An index goes on where it stopped, so that a turn costs its own bytes however long the transcript is. What it stands on is proven
//! by [`prefix`]; a transcript that was rewritten is indexed anew.

mod answer;
pub mod conversation;
pub mod cut;
mod decisions;
mod facts;
pub mod files;
mod fold;
pub mod index;
mod json;
pub mod limits;
mod line;
pub mod locate;
pub mod messages;
pub mod prefix;
pub mod usage;

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

#[cfg(test)]
mod tests;

pub use answer::has_answer;
pub use conversation::{Conversation, Summary};
pub use cut::cut;
pub use index::{Format, Index, Phase, Updated, update};
pub use locate::Located;

/// Opens a transcript for reading. What is no file, such as a fifo that nobody writes to, is an error and not waited for.
fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no file")) }
}
