//! Packs: immutable files of blocks that describe themselves.

mod block;
mod builder;
mod cache;
pub mod directory;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use block::{Block, ObjectKind};
pub use builder::BlockBuilder;
pub use cache::{BlockCache, Got, Reuse};
pub use directory::{Directory, Entry};
pub use reader::{OnBases, PackFile, Read};
pub use writer::{Location, PACK_HEADER_BYTES, PACK_TRAILER_BYTES, PackInfo, PackWriter};
