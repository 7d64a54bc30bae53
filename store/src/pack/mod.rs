//! Packs: immutable files of blocks that describe themselves.

mod block;
mod builder;
mod cache;
pub mod directory;
pub(crate) mod parity;
mod reader;
mod rescue;
#[cfg(test)]
mod tests;
mod trailer;
mod writer;

pub use block::Block;
pub use builder::BlockBuilder;
pub use cache::{BlockCache, CachedBlock, Reuse};
pub use directory::{Directory, Entry};
pub use reader::{OnBases, PackFile, Read};
pub(crate) use rescue::rescue;
pub use trailer::{PACK_HEADER_BYTES, PACK_TRAILER_BYTES};
pub(crate) use writer::lacks_any;
pub use writer::{Ending, Location, PackInfo, PackWriter};

pub use crate::id::ObjectKind;
