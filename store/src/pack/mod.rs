//! Packs: immutable files of blocks that describe themselves.

pub mod block;
mod cache;
mod reader;
mod writer;

pub use block::{Block, BlockBuilder, Directory, Entry, ObjectKind};
pub use cache::{BlockCache, Got, Reuse};
pub use reader::{OnBases, PackFile, Read};
pub use writer::{Location, PACK_HEADER_BYTES, PACK_TRAILER_BYTES, PackInfo, PackWriter};
