//! Packs: immutable files of blocks that describe themselves.

mod block;
mod builder;
mod cache;
pub mod directory;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use block::Block;
pub use builder::BlockBuilder;
pub use cache::{BlockCache, Got, Reuse};
pub use directory::{Directory, Entry};
pub use reader::{OnBases, PackFile, Read};
pub(crate) use writer::lacks_any;
pub use writer::{Location, PACK_HEADER_BYTES, PACK_TRAILER_BYTES, PackInfo, PackWriter};

pub use crate::id::ObjectKind;
