//! Every constant that is stored, and the limits that a reader holds stored bytes to. `docs/format/store.md` explains them.

/// BLAKE3 `derive_key` contexts: equal bytes of different kinds get different ids.
pub mod context {
    /// Content, where ids have a key. Without one it is BLAKE3 of the bytes alone.
    pub const BLOB: &str = "parhelia 2026-11 blob v1";
    /// Tree nodes.
    pub const TREE: &str = "parhelia 2026-11 tree node v1";
    /// Inner nodes of recipes.
    pub const RECIPE_NODE: &str = "parhelia 2026-11 recipe node v1";
    /// The index id of a recipe's root, from the blob's id.
    pub const RECIPE_ROOT: &str = "parhelia 2026-11 recipe root of blob v1";
    /// The seal inside a recipe's root.
    pub const RECIPE_SEAL: &str = "parhelia 2026-11 recipe seal v1";
    /// Checkpoint records.
    pub const RECORD: &str = "parhelia 2026-11 checkpoint record v1";
    /// Tables of hard-link groups and lists of omissions.
    pub const TABLE: &str = "parhelia 2026-11 table v1";
    /// Events, for the chain of them.
    pub const EVENT: &str = "parhelia 2026-11 event v1";
    /// Names and paths that caches are found by, where ids have a key. Without one it is BLAKE3 of the bytes alone.
    pub const NAME: &str = "parhelia 2026-11 name v1";
    /// The start of a machine in records' readings of its clock.
    pub const BOOT: &str = "parhelia 2026-11 start of a machine v1";
}

/// Version of the store's layout, in `store.json`.
pub const STORE_VERSION: u32 = 1;
/// Feature flag of a store whose journal has lost records, and says so in a segment's header.
pub const JOURNAL_GAPS: &str = "journal_gaps@0.1";
/// The features without which some stores cannot be read and that this release has.
pub const FEATURES: [&str; 2] = [JOURNAL_GAPS, PARITY];
/// The feature flag of stores whose packs get parity.
pub const PARITY: &str = "parity@0.1";
/// First bytes of a pack.
pub const PACK_MAGIC: [u8; 8] = *b"PARHPACK";
/// First bytes of a pack's trailer.
pub const PACK_END_MAGIC: [u8; 8] = *b"PARHPEND";
/// First bytes of the trailer of a pack with parity.
pub const PACK_END_MAGIC_2: [u8; 8] = *b"PARHPEN2";
/// First bytes of that trailer where it stands before the parity shards.
pub const PACK_PARITY_MAGIC: [u8; 8] = *b"PARHPRTY";
/// The longest shard that parity is computed of when it is written, in bytes: a sector.
pub const SHARD_BYTES: u32 = 4096;
/// The shortest shard, in bytes.
pub const SHARD_BYTES_MIN: u32 = 64;
/// The longest shard that a reader takes, in bytes.
pub const SHARD_BYTES_MAX: u32 = 64 << 10;
/// A stripe has at most so many shards: more have no factors of their own.
pub const STRIPE_ROWS_MAX: u64 = 255;
/// A pack has at most so many shards.
pub const PARITY_SHARDS_MAX: u64 = 1 << 20;
/// All parity shards of a pack have at most so many bytes.
pub const PARITY_BYTES_MAX: u64 = 16 << 20;
/// A pack whose header and blocks have no more bytes than this is written without copies of its directories.
pub const SMALL_PACK_BYTES: u64 = 64 << 10;
/// First bytes of a block.
pub const BLOCK_MAGIC: [u8; 4] = *b"PHBK";
/// First bytes of a journal segment.
pub const JOURNAL_MAGIC: [u8; 8] = *b"PARHJRNL";
/// Version of the journal format.
pub const JOURNAL_VERSION: u16 = 1;
/// First bytes of a stat cache.
pub const STAT_CACHE_MAGIC: [u8; 8] = *b"PARHSTA4";
/// First bytes of what is known of a file that grows.
pub const GROWN_MAGIC: [u8; 8] = *b"PARHGRW3";
/// First bytes of the list of what is damaged.
pub const DAMAGED_MAGIC: [u8; 8] = *b"PARHDMG2";
/// ... and of its first form, which is still read.
pub const DAMAGED_MAGIC_1: [u8; 8] = *b"PARHDMG1";

/// Raw bytes that a block of small files is filled to before it is compressed.
pub const DATA_BLOCK_BYTES: usize = 512 << 10;
/// Raw bytes that a block of a large file's chunks is filled to.
pub const LARGE_BLOCK_BYTES: usize = 1 << 20;
/// Raw bytes that a block of trees, recipes and records is filled to.
pub const META_BLOCK_BYTES: usize = 64 << 10;
/// No block may hold more raw bytes than this; a reader refuses it before it allocates.
pub const BLOCK_BYTES_MAX: usize = 16 << 20;
/// No payload may be longer than this as stored. It leaves room for what does not compress, and, beside the longest directory, for a block
/// of three times [`BLOCK_BYTES_MAX`].
pub const PAYLOAD_BYTES_MAX: usize = 24 << 20;
/// No block may hold more objects than this.
pub const BLOCK_OBJECTS_MAX: usize = 1 << 18;
/// No block may be longer than this, header and directory included. Whatever keeps to the other limits is shorter.
pub const STORED_BLOCK_BYTES_MAX: usize = 3 * BLOCK_BYTES_MAX;
/// At most so many blocks in a row build on each other; an object that would come behind them builds on the first one.
pub const DEPTH_MAX: u32 = 24;
/// A reader decodes at most so many blocks in a row: gc may lead a block's base to another copy, which builds on others in turn.
pub const DEPTH_READ_MAX: u32 = 256;
/// The bases of one block have at most this many bytes together.
pub const PREFIX_BYTES_MAX: usize = 16 << 20;
/// A pack is finished when it is at least this long.
pub const PACK_BYTES: u64 = 32 << 20;
/// No journal record may be longer than this.
pub const JOURNAL_RECORD_BYTES_MAX: usize = 64 << 20;
/// A journal segment is followed by a new one when it is at least this long.
pub const JOURNAL_SEGMENT_BYTES: u64 = 8 << 20;
/// A file of at most this many bytes is one chunk.
pub const SINGLE_CHUNK_BYTES: usize = 64 << 10;
/// Length of the ballast file that gc may release on a full disk, in bytes.
pub const BALLAST_BYTES: u64 = 1 << 20;
/// A file name is at most this long, in bytes (NAME_MAX).
pub const NAME_BYTES_MAX: usize = 255;
/// The longest name of an extended attribute, in bytes (Linux's `XATTR_NAME_MAX`).
pub const XATTR_NAME_BYTES_MAX: usize = 255;
/// The longest target of a symbolic link, in bytes: Linux's `PATH_MAX` without the NUL.
pub const TARGET_BYTES_MAX: usize = 4095;
/// Folders may nest this deep in what is captured or imported, the workspace folder not counted. Readers follow trees that are four times
/// as deep ([`crate::tree::DEPTH_MAX`]), because the parts of a split folder count there, too.
pub const TREE_DEPTH_MAX: usize = 16_384;
