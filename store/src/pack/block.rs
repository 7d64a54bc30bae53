//! A block: objects compressed together, behind a header and a directory of their ids and lengths.
//!
//! ```text
//! header (40 bytes) | directory | payload
//! ```
//! A block may name bases: objects of other blocks whose bytes are its zstd frame's prefix. An object that is a later version of its base
//! then takes what was edited. The layout stands in `docs/format/store.md`, section "Blocks".

use std::{
    borrow::Cow,
    cell::RefCell,
    ops::{Range, RangeInclusive},
    sync::{Mutex, OnceLock, PoisonError},
};

use zstd::zstd_safe::{self, CCtx, CParameter};

use crate::{
    codec::{Decoder, Malformed, put_uint},
    format::{
        BLOCK_BYTES_MAX, BLOCK_MAGIC, BLOCK_OBJECTS_MAX, DATA_BLOCK_BYTES, LARGE_BLOCK_BYTES, META_BLOCK_BYTES, PAYLOAD_BYTES_MAX,
    },
    id::{ID_BYTES, ObjectId},
    keys::{Part, Seal},
};

/// Among so many objects one is looked for in turn.
const FEW_OBJECTS: usize = 32;

/// Length of a block's header, in bytes.
pub const HEADER_BYTES: usize = 40;

/// What an object is. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ObjectKind {
    /// A piece of content; its id is BLAKE3 of its bytes.
    Chunk = 1,
    /// The root of a blob's recipe; sealed inside, found by [`crate::keys::Ids::recipe_root`].
    RecipeRoot = 2,
    /// An inner node of a recipe.
    RecipeNode = 3,
    /// A node of a folder's tree.
    Tree = 4,
    /// A sealed checkpoint record.
    Record = 5,
    /// A table beside a root: hard-link groups, or what capture left out.
    Table = 6,
}

impl ObjectKind {
    /// The kind that a stored number stands for.
    pub fn from_number(number: u8) -> Option<Self> {
        use ObjectKind::*;
        [Chunk, RecipeRoot, RecipeNode, Tree, Record, Table].into_iter().find(|kind| *kind as u8 == number)
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            ObjectKind::Chunk => "chunk",
            ObjectKind::RecipeRoot => "recipe",
            ObjectKind::RecipeNode => "recipe node",
            ObjectKind::Tree => "tree",
            ObjectKind::Record => "record",
            ObjectKind::Table => "table",
        }
    }
}

/// How a block's payload is coded. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Codec {
    /// As it is.
    Raw = 0,
    /// All objects' heads as one zstd frame, then all tails raw. Tails are ids, which do not compress.
    Zstd = 1,
    /// All objects as one zstd frame with a prefix: the bytes of the block's bases, in order. There are no tails, because most ids of a
    /// tree node are those of its base.
    ZstdPrefix = 2,
}

/// One object's line in a block's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: ObjectKind,
    /// Its id.
    pub id: ObjectId,
    /// Bytes of it that are compressed with the others'.
    pub head_bytes: usize,
    /// Bytes at its end that are stored raw behind the compressed heads.
    pub tail_bytes: usize,
    /// The object that it is a later version of, by its number among the block's bases.
    pub base: Option<u32>,
    /// Number of versions before it since one that was stored whole; 0 where nothing is known of any.
    pub version: u32,
}

/// A block's header and directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// How the payload is coded.
    pub codec: Codec,
    /// The objects, in order.
    pub entries: Vec<Entry>,
    /// Objects of other blocks without which this one cannot be decoded.
    pub bases: Vec<ObjectId>,
    /// The kind of each base: that of the objects that are later versions of it.
    base_kinds: Vec<ObjectKind>,
    /// Length of the header and directory, in bytes.
    pub directory_end: usize,
    /// Length of the payload as stored, in bytes.
    pub payload_bytes: usize,
    /// ... and of what was sealed.
    opened_bytes: usize,
    /// CRC32C of the payload as stored.
    pub payload_crc: u32,
    heads_bytes: usize,
    tails_bytes: usize,
}

/// A decoded block: every object's bytes, whole and in order.
#[derive(Debug)]
pub struct Block {
    /// Kind, id and place of each object in `bytes`.
    pub objects: Vec<(ObjectKind, ObjectId, Range<usize>)>,
    /// What holds the objects' bytes.
    pub bytes: Vec<u8>,
    /// The base of each object, and how many versions came before it; empty where no object has one.
    pub bases: Vec<Option<(ObjectId, u32)>>,
    /// How many blocks in a row have to be decoded before this one.
    pub depth: u32,
    /// The numbers of the objects, ordered by id; made when an object is looked for among many.
    by_id: OnceLock<Vec<u32>>,
}

impl Block {
    /// A block that is decoded by itself.
    pub fn plain(objects: Vec<(ObjectKind, ObjectId, Range<usize>)>, bytes: Vec<u8>) -> Self {
        Block { objects, bytes, bases: Vec::new(), depth: 0, by_id: OnceLock::new() }
    }

    /// The number of an object, if it is in this block.
    fn number_of(&self, id: ObjectId) -> Option<usize> {
        if self.objects.len() <= FEW_OBJECTS {
            return self.objects.iter().position(|(_, i, _)| *i == id);
        }
        let id_of = |number: &u32| self.objects[*number as usize].1;
        let by_id = self.by_id.get_or_init(|| {
            let mut numbers: Vec<u32> = (0..self.objects.len() as u32).collect();
            numbers.sort_unstable_by_key(id_of);
            numbers
        });
        let found = by_id.binary_search_by_key(&id, id_of).ok()?;
        Some(by_id[found] as usize)
    }

    /// Where an object's bytes begin, if it is in this block.
    pub fn place_of(&self, id: ObjectId) -> Option<usize> {
        self.number_of(id).map(|number| self.objects[number].2.start)
    }

    /// The base of an object, if it has one, and how many versions came before the object.
    pub fn base_of(&self, id: ObjectId) -> Option<(ObjectId, u32)> {
        *self.bases.get(self.number_of(id)?)?
    }

    /// The bytes of one object, if it is in this block.
    pub fn object(&self, id: ObjectId) -> Option<&[u8]> {
        self.bytes.get(self.objects[self.number_of(id)?].2.clone())
    }
}

/// The total length of a block's header and directory, from its first [`HEADER_BYTES`] bytes.
pub fn directory_end(header: &[u8; HEADER_BYTES], seal: &Seal) -> Result<usize, Malformed> {
    let mut d = Decoder::new(header);
    if d.array::<4>("block")? != BLOCK_MAGIC {
        return Err(Malformed("block magic"));
    }
    d.byte("block")?;
    // What a cipher leaves behind the header may be anything.
    if d.byte("block")? != 0 {
        return Err(Malformed("block cipher"));
    }
    if d.take(2, "block")? != [0; 2] {
        return Err(Malformed("key of a block"));
    }
    let objects = d.u32("block")? as usize;
    let bases = d.u32("block")? as usize;
    let directory = d.u32("block")? as usize;
    if objects > BLOCK_OBJECTS_MAX || bases > objects {
        return Err(Malformed("block directory length"));
    }
    // A kind, an id, and three numbers of one to five bytes each.
    let possible = objects * (ID_BYTES + 4) + bases * ID_BYTES..=objects * (ID_BYTES + 16) + bases * ID_BYTES;
    if !directory.checked_sub(seal.overhead()).is_some_and(|bytes| possible.contains(&bytes)) {
        return Err(Malformed("block directory length"));
    }
    Ok(HEADER_BYTES + directory)
}

/// Whether the block with this header is stored as it is.
pub fn is_raw(header: &[u8; HEADER_BYTES]) -> bool {
    header[4] == Codec::Raw as u8
}

impl Directory {
    /// Reads the header and directory that `bytes` starts with. The payload need not be there.
    pub fn decode(bytes: &[u8], seal: &Seal) -> Result<Self, Malformed> {
        let header: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(Malformed("block header"))?;
        let end = directory_end(header, seal)?;
        let directory = bytes.get(HEADER_BYTES..end).ok_or(Malformed("block directory"))?;
        let mut d = Decoder::new(&header[4..]);
        let codec = match d.byte("block codec")? {
            0 => Codec::Raw,
            1 => Codec::Zstd,
            2 => Codec::ZstdPrefix,
            _ => return Err(Malformed("block codec")),
        };
        // Cipher and key were looked at with the directory's length.
        d.take(3, "block header")?;
        let count = d.u32("block header")? as usize;
        let base_count = d.u32("block header")?;
        d.u32("block header")?;
        let payload_bytes = d.u32("block header")? as usize;
        let heads_bytes = d.u32("block header")? as usize;
        let tails_bytes = d.u32("block header")? as usize;
        let payload_crc = d.u32("block header")?;
        let header_crc = d.u32("block header")?;
        if crc32c::crc32c_append(crc32c::crc32c(&header[..HEADER_BYTES - 4]), directory) != header_crc {
            return Err(Malformed("block header checksum"));
        }
        if heads_bytes.saturating_add(tails_bytes) > BLOCK_BYTES_MAX || payload_bytes > PAYLOAD_BYTES_MAX {
            return Err(Malformed("block length"));
        }
        let opened_bytes = payload_bytes.checked_sub(seal.overhead()).ok_or(Malformed("block length"))?;
        if codec == Codec::Raw && opened_bytes != heads_bytes + tails_bytes || opened_bytes < tails_bytes {
            return Err(Malformed("block length"));
        }
        if (codec == Codec::ZstdPrefix) != (base_count > 0) || base_count > 0 && tails_bytes > 0 {
            return Err(Malformed("block bases"));
        }
        let directory = seal.open(Part::Directory, directory)?;
        let mut d = Decoder::new(&directory);
        let mut entries = Vec::with_capacity(count);
        let (mut heads, mut tails) = (0usize, 0usize);
        let mut base_kinds = vec![None; base_count as usize];
        for _ in 0..count {
            let kind = ObjectKind::from_number(d.byte("object kind")?).ok_or(Malformed("object kind"))?;
            let id = ObjectId(d.array("object id")?);
            let head_bytes = d.uint32("object length")? as usize;
            // Where there are bases, there are no tails.
            let (tail_bytes, version) = match (d.uint32("object length")?, codec) {
                (version, Codec::ZstdPrefix) => (0, version),
                (tail, _) => (tail as usize, 0),
            };
            let base = d.uint32("object base")?.checked_sub(1);
            let may_build = matches!(kind, ObjectKind::Chunk | ObjectKind::RecipeNode | ObjectKind::Tree);
            if base.is_some_and(|base| base >= base_count || !may_build) {
                return Err(Malformed("object base"));
            }
            if let Some(known) = base.and_then(|base| base_kinds.get_mut(base as usize))
                && known.replace(kind).is_some_and(|other| other != kind)
            {
                return Err(Malformed("kind of a base"));
            }
            heads += head_bytes;
            tails += tail_bytes;
            entries.push(Entry { kind, id, head_bytes, tail_bytes, base, version });
        }
        let bases = (0..base_count).map(|_| d.array("block base").map(ObjectId)).collect::<Result<Vec<_>, _>>()?;
        d.finish("block directory")?;
        let base_kinds = base_kinds.into_iter().collect::<Option<Vec<_>>>().ok_or(Malformed("base of no object"))?;
        if heads != heads_bytes || tails != tails_bytes {
            return Err(Malformed("block directory"));
        }
        Ok(Directory {
            codec,
            entries,
            bases,
            base_kinds,
            directory_end: end,
            payload_bytes,
            opened_bytes,
            payload_crc,
            heads_bytes,
            tails_bytes,
        })
    }

    /// The raw length of all objects, in bytes.
    pub fn raw_bytes(&self) -> usize {
        self.heads_bytes + self.tails_bytes
    }

    /// The bases with their kinds.
    pub fn kinds_and_bases(&self) -> impl Iterator<Item = (ObjectKind, ObjectId)> {
        self.base_kinds.iter().copied().zip(self.bases.iter().copied())
    }

    /// Length of the whole block, in bytes.
    pub fn block_bytes(&self) -> usize {
        self.directory_end + self.payload_bytes
    }

    /// The objects' bytes, from the block as it is stored. Where nothing is compressed or sealed they stay where they are, and the
    /// payload's checksum is left to the caller, who checks every object against its id.
    pub fn unpack_stored(&self, stored: Vec<u8>, seal: &Seal) -> Result<Block, Malformed> {
        let payload = stored.get(self.directory_end..).ok_or(Malformed("block length"))?;
        if self.codec != Codec::Raw || self.tails_bytes != 0 || !seal.is_plain() {
            return self.unpack(&self.open_payload(payload, seal)?);
        }
        if payload.len() != self.payload_bytes || payload.len() != self.heads_bytes {
            return Err(Malformed("block payload length"));
        }
        let mut objects = Vec::with_capacity(self.entries.len());
        let mut at = self.directory_end;
        for e in &self.entries {
            objects.push((e.kind, e.id, at..at + e.head_bytes));
            at += e.head_bytes;
        }
        Ok(Block::plain(objects, stored))
    }

    /// The payload as it was before it was stored; checks the checksum of what is stored.
    pub fn open_payload<'p>(&self, stored: &'p [u8], seal: &Seal) -> Result<Cow<'p, [u8]>, Malformed> {
        if stored.len() != self.payload_bytes || crc32c::crc32c(stored) != self.payload_crc {
            return Err(Malformed("block payload checksum"));
        }
        seal.open(Part::Payload, stored)
    }

    /// The objects' bytes, from the opened payload of a block without bases; the ids are left to the caller to check.
    pub fn unpack(&self, payload: &[u8]) -> Result<Block, Malformed> {
        self.check_length(payload)?;
        let (coded, tails) = payload.split_at(self.opened_bytes - self.tails_bytes);
        let heads = match self.codec {
            Codec::Raw => Cow::Borrowed(coded),
            Codec::Zstd => Cow::Owned(decompress(coded, self.heads_bytes).map_err(|_| Malformed("zstd frame"))?),
            Codec::ZstdPrefix => return Err(Malformed("block bases")),
        };
        if heads.len() != self.heads_bytes {
            return Err(Malformed("zstd frame length"));
        }
        let mut objects = Vec::with_capacity(self.entries.len());
        if self.tails_bytes == 0 {
            let mut at = 0;
            for e in &self.entries {
                objects.push((e.kind, e.id, at..at + e.head_bytes));
                at += e.head_bytes;
            }
            return Ok(Block::plain(objects, heads.into_owned()));
        }
        let mut bytes = room_for(self.heads_bytes + self.tails_bytes);
        let (mut head_at, mut tail_at) = (0, 0);
        for e in &self.entries {
            let start = bytes.len();
            bytes.extend_from_slice(&heads[head_at..head_at + e.head_bytes]);
            bytes.extend_from_slice(&tails[tail_at..tail_at + e.tail_bytes]);
            head_at += e.head_bytes;
            tail_at += e.tail_bytes;
            objects.push((e.kind, e.id, start..bytes.len()));
        }
        Ok(Block::plain(objects, bytes))
    }

    /// The objects' bytes, from the opened payload of a block with bases. `prefix` is the bytes of all bases, `depth` how many blocks in a row
    /// had to be decoded for them. The ids are left to the caller to check.
    pub fn unpack_on(&self, payload: &[u8], prefix: &[u8], depth: u32) -> Result<Block, Malformed> {
        self.check_length(payload)?;
        let bytes = decompress_on(prefix, payload, self.heads_bytes).map_err(|_| Malformed("zstd frame"))?;
        if bytes.len() != self.heads_bytes {
            return Err(Malformed("zstd frame length"));
        }
        let (mut objects, mut bases) = (Vec::with_capacity(self.entries.len()), Vec::with_capacity(self.entries.len()));
        let mut at = 0;
        for e in &self.entries {
            objects.push((e.kind, e.id, at..at + e.head_bytes));
            bases.push(e.base.and_then(|base| self.bases.get(base as usize)).map(|base| (*base, e.version)));
            at += e.head_bytes;
        }
        let mut block = Block::plain(objects, bytes);
        (block.bases, block.depth) = (bases, depth + 1);
        Ok(block)
    }

    fn check_length(&self, payload: &[u8]) -> Result<(), Malformed> {
        if payload.len() == self.opened_bytes { Ok(()) } else { Err(Malformed("block payload length")) }
    }
}

thread_local! {
    /// Kept, because making one costs as much as decompressing a small block.
    static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Fails where there is not one frame and nothing else: zstd itself takes several, and skips some.
fn ensure_one_frame(coded: &[u8]) -> std::io::Result<()> {
    let is_frame = coded.starts_with(&zstd_safe::MAGICNUMBER.to_le_bytes());
    let length = zstd_safe::find_frame_compressed_size(coded).map_err(zstd_error)?;
    if is_frame && length == coded.len() { Ok(()) } else { Err(std::io::Error::other("it is not one frame")) }
}

fn decompress(coded: &[u8], bytes_max: usize) -> std::io::Result<Vec<u8>> {
    ensure_one_frame(coded)?;
    DECOMPRESSOR.with_borrow_mut(|kept| {
        let decompressor = match kept {
            Some(decompressor) => decompressor,
            None => kept.insert(zstd::bulk::Decompressor::new()?),
        };
        let mut bytes = room_for(bytes_max);
        decompressor.decompress_to_buffer(coded, &mut bytes)?;
        Ok(bytes)
    })
}

/// Decompresses a frame whose prefix is `prefix`. The context is made anew, because it borrows the prefix.
fn decompress_on(prefix: &[u8], coded: &[u8], bytes_max: usize) -> std::io::Result<Vec<u8>> {
    ensure_one_frame(coded)?;
    let mut context = zstd_safe::DCtx::try_create().ok_or(std::io::ErrorKind::OutOfMemory)?;
    context.ref_prefix(prefix).map_err(zstd_error)?;
    let mut bytes = room_for(bytes_max);
    context.decompress(&mut bytes, coded).map_err(zstd_error)?;
    Ok(bytes)
}

fn zstd_error(code: zstd_safe::ErrorCode) -> std::io::Error {
    std::io::Error::other(zstd_safe::get_error_name(code))
}

/// Rooms of blocks that are no more, for the next ones.
static SPARE_ROOMS: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
const SPARE_ROOMS_MAX: usize = 8;

/// How long rooms are that are kept: as our blocks of data. Others may be small, and are many, or are somebody else's, and of any length.
const SPARE_ROOM_BYTES: RangeInclusive<usize> = DATA_BLOCK_BYTES..=2 * LARGE_BLOCK_BYTES;

/// Memory for the bytes of a block. Blocks come and go in a cache, and most are a little longer than one of two lengths: rounded up, what
/// one leaves is room for the next. From the allocator it would come either with holes between the blocks, or fresh from the system, which
/// costs more than decoding what compresses well.
pub(super) fn room_for(bytes: usize) -> Vec<u8> {
    if !SPARE_ROOM_BYTES.contains(&bytes) {
        return Vec::with_capacity(bytes);
    }
    let capacity = bytes.next_multiple_of(META_BLOCK_BYTES);
    let fits = capacity..=capacity + capacity / 8;
    let mut spare = SPARE_ROOMS.lock().unwrap_or_else(PoisonError::into_inner);
    match spare.iter().position(|room| fits.contains(&room.capacity())) {
        Some(at) => spare.swap_remove(at),
        None => Vec::with_capacity(capacity),
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut room = std::mem::take(&mut self.bytes);
        if SPARE_ROOM_BYTES.contains(&room.capacity()) {
            room.clear();
            let mut spare = SPARE_ROOMS.lock().unwrap_or_else(PoisonError::into_inner);
            if spare.len() == SPARE_ROOMS_MAX {
                spare.remove(0);
            }
            spare.push(room);
        }
    }
}

/// Collects objects and encodes them as one block.
#[derive(Default)]
pub struct BlockBuilder {
    entries: Vec<Entry>,
    bases: Vec<ObjectId>,
    heads: Vec<u8>,
    tails: Vec<u8>,
}

impl BlockBuilder {
    /// Adds an object, the last `tail_bytes` of which are ids and are left uncompressed.
    pub fn push(&mut self, kind: ObjectKind, id: ObjectId, bytes: &[u8], tail_bytes: usize) {
        let (head, tail) = bytes.split_at(bytes.len() - tail_bytes);
        self.heads.extend_from_slice(head);
        self.tails.extend_from_slice(tail);
        self.entries.push(Entry { kind, id, head_bytes: head.len(), tail_bytes, base: None, version: 0 });
    }

    /// Adds an object that is a later version of `base`, with `version` others before it. Those of one base stand in a row.
    pub fn push_on(&mut self, kind: ObjectKind, id: ObjectId, bytes: &[u8], base: ObjectId, version: u32) {
        if self.bases.last() != Some(&base) {
            self.bases.push(base);
        }
        self.heads.extend_from_slice(bytes);
        let base = Some(self.bases.len() as u32 - 1);
        self.entries.push(Entry { kind, id, head_bytes: bytes.len(), tail_bytes: 0, base, version });
    }

    /// Takes over another builder's objects.
    pub fn join(&mut self, other: &mut BlockBuilder) {
        self.entries.append(&mut other.entries);
        self.heads.append(&mut other.heads);
        self.tails.append(&mut other.tails);
    }

    /// Raw bytes collected so far.
    pub fn raw_bytes(&self) -> usize {
        self.heads.len() + self.tails.len()
    }

    /// Whether the block stays one that a reader takes, with so many more raw bytes in it.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        self.raw_bytes() + bytes <= BLOCK_BYTES_MAX && self.entries.len() < BLOCK_OBJECTS_MAX
    }

    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The objects' directory lines so far.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Encodes a block without bases and empties the builder. Data that zstd makes less than 1/32 smaller is stored raw.
    pub fn encode(&mut self, compressor: &mut zstd::bulk::Compressor<'_>, seal: &Seal) -> std::io::Result<(Vec<Entry>, Vec<u8>)> {
        let coded = compressor.compress(&self.heads)?;
        match coded.len() + self.heads.len() / 32 < self.heads.len() {
            true => Ok(self.assemble(Codec::Zstd, &coded, self.heads.len(), seal)),
            false => {
                let heads = std::mem::take(&mut self.heads);
                Ok(self.assemble(Codec::Raw, &heads, heads.len(), seal))
            }
        }
    }

    /// The objects as one zstd frame with the prefix `prefix`, the bytes of all bases in order.
    pub fn compress_on<'p>(&self, context: &mut CCtx<'p>, prefix: &'p [u8], level: i32) -> std::io::Result<Vec<u8>> {
        let mut coded = Vec::with_capacity(zstd_safe::compress_bound(self.heads.len()));
        // The window has to reach from the frame's end to the prefix's beginning.
        let reach = (prefix.len() + self.heads.len()).next_power_of_two().trailing_zeros().clamp(10, 27);
        for parameter in [CParameter::CompressionLevel(level), CParameter::WindowLog(reach)] {
            context.set_parameter(parameter).map_err(zstd_error)?;
        }
        context.ref_prefix(prefix).map_err(zstd_error)?;
        context.compress2(&mut coded, &self.heads).map_err(zstd_error)?;
        Ok(coded)
    }

    /// How many bytes the objects take as one zstd frame without a prefix.
    pub fn compressed_bytes(&self, compressor: &mut zstd::bulk::Compressor<'_>) -> std::io::Result<usize> {
        Ok(compressor.compress(&self.heads)?.len())
    }

    /// The block of what [`BlockBuilder::compress_on`] gave. Empties the builder.
    pub fn encode_on(&mut self, coded: &[u8], seal: &Seal) -> (Vec<Entry>, Vec<u8>) {
        self.assemble(Codec::ZstdPrefix, coded, self.heads.len(), seal)
    }

    fn encode_directory(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.entries.len() * (ID_BYTES + 8) + self.bases.len() * ID_BYTES);
        for e in &self.entries {
            out.push(e.kind as u8);
            out.extend_from_slice(&e.id.0);
            put_uint(&mut out, e.head_bytes as u64);
            put_uint(&mut out, (e.tail_bytes as u64).max(u64::from(e.version)));
            put_uint(&mut out, e.base.map_or(0, |base| u64::from(base) + 1));
        }
        self.bases.iter().for_each(|base| out.extend_from_slice(&base.0));
        out
    }

    fn assemble(&mut self, codec: Codec, coded: &[u8], heads_bytes: usize, seal: &Seal) -> (Vec<Entry>, Vec<u8>) {
        let directory = self.encode_directory();
        let directory = seal.seal(Part::Directory, &directory);
        let directory_end = HEADER_BYTES + directory.len();
        let mut out = Vec::with_capacity(directory_end + coded.len() + self.tails.len() + seal.overhead());
        out.resize(HEADER_BYTES, 0);
        out.extend_from_slice(&directory);
        match seal.is_plain() {
            // Not joined first: most of what is written goes this way.
            true => [coded, &self.tails].iter().for_each(|bytes| out.extend_from_slice(bytes)),
            false => out.extend_from_slice(&seal.seal(Part::Payload, [coded, &self.tails].concat())),
        }
        let payload_bytes = out.len() - directory_end;
        let payload_crc = crc32c::crc32c(&out[directory_end..]);
        let numbers = [
            self.entries.len() as u32,
            self.bases.len() as u32,
            (directory_end - HEADER_BYTES) as u32,
            payload_bytes as u32,
            heads_bytes as u32,
            self.tails.len() as u32,
            payload_crc,
        ];
        out[..4].copy_from_slice(&BLOCK_MAGIC);
        out[4] = codec as u8;
        for (i, number) in numbers.iter().enumerate() {
            out[8 + i * 4..12 + i * 4].copy_from_slice(&number.to_le_bytes());
        }
        let crc = crc32c::crc32c_append(crc32c::crc32c(&out[..HEADER_BYTES - 4]), &out[HEADER_BYTES..directory_end]);
        out[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
        let entries = std::mem::take(&mut self.entries);
        *self =
            BlockBuilder { heads: std::mem::take(&mut self.heads), tails: std::mem::take(&mut self.tails), ..Self::default() };
        self.heads.clear();
        self.tails.clear();
        (entries, out)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{ids, seal};

    #[test]
    fn rooms_are_kept_in_the_length_of_our_blocks_alone() {
        for bytes in [600, DATA_BLOCK_BYTES + 9, LARGE_BLOCK_BYTES + 700, 9 * LARGE_BLOCK_BYTES] {
            for _ in 0..2 * SPARE_ROOMS_MAX {
                let mut room = room_for(bytes);
                assert!(room.is_empty() && (bytes..=bytes * 5 / 4).contains(&room.capacity()), "{bytes}: {}", room.capacity());
                room.push(1);
                drop(Block::plain(Vec::new(), room));
            }
        }
        let spare = SPARE_ROOMS.lock().unwrap();
        assert!(spare.len() <= SPARE_ROOMS_MAX && spare.iter().all(|room| SPARE_ROOM_BYTES.contains(&room.capacity())));
    }

    fn encode(objects: &[Vec<u8>]) -> Vec<u8> {
        let mut builder = BlockBuilder::default();
        for (i, bytes) in objects.iter().enumerate() {
            if i % 3 == 2 {
                builder.push(ObjectKind::Tree, ids().tree(bytes).object(), bytes, bytes.len() / 2);
            } else {
                builder.push(ObjectKind::Chunk, ids().blob(bytes).object(), bytes, 0);
            }
        }
        let mut compressor = zstd::bulk::Compressor::new(3).unwrap();
        builder.encode(&mut compressor, &seal()).unwrap().1
    }

    /// The block with another header, whose checksum is right.
    fn with_header(bytes: &[u8], change: impl Fn(&mut [u8])) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        let end = directory_end(bytes.first_chunk().unwrap(), &seal()).unwrap();
        change(&mut bytes);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..HEADER_BYTES - 4]), &bytes[HEADER_BYTES..end]);
        bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    #[test]
    fn what_only_a_later_release_writes_is_refused() {
        let bytes = encode(&[vec![7; 1000]]);
        assert!(Directory::decode(&with_header(&bytes, |_| {}), &seal()).is_ok());
        // The codec, the cipher, and the two bytes in which a key may be named.
        for (at, value) in [(4, 3), (5, 1), (6, 1), (7, 1)] {
            assert!(Directory::decode(&with_header(&bytes, |bytes| bytes[at] = value), &seal()).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_block_in_cipher_has_no_directory_where_ours_has_it() {
        let bytes = encode(&[vec![7; 1000]]);
        for (at, value) in [(5, 1), (6, 1), (7, 1)] {
            let mut header: [u8; HEADER_BYTES] = *bytes.first_chunk().unwrap();
            header[at] = value;
            assert!(directory_end(&header, &seal()).is_err(), "byte {at}");
        }
    }

    /// A block on bases that is made by hand: for each object its kind and the number of its base.
    fn on_bases(objects: &[(u8, u32)], bases: u32) -> Vec<u8> {
        let mut directory = Vec::new();
        for (number, (kind, base)) in objects.iter().enumerate() {
            directory.push(*kind);
            directory.extend_from_slice(&[number as u8; ID_BYTES]);
            for number in [3, 0, *base] {
                put_uint(&mut directory, u64::from(number));
            }
        }
        (0..bases).for_each(|base| directory.extend_from_slice(&[0x80 + base as u8; ID_BYTES]));
        let directory = seal().seal(Part::Directory, directory);
        let mut block = BLOCK_MAGIC.to_vec();
        block.extend_from_slice(&[Codec::ZstdPrefix as u8, 0, 0, 0]);
        let heads = 3 * objects.len() as u32;
        for number in [objects.len() as u32, bases, directory.len() as u32, 9 + seal().overhead() as u32, heads, 0, 0, 0] {
            block.extend_from_slice(&number.to_le_bytes());
        }
        block.extend_from_slice(&directory);
        with_header(&block, |_| {})
    }

    #[test]
    fn each_base_is_of_an_object_and_of_its_kind() {
        let decoded = |objects: &[(u8, u32)], bases| Directory::decode(&on_bases(objects, bases), &seal());
        let whole = decoded(&[(1, 1), (4, 2), (1, 0), (1, 1)], 2).unwrap();
        let kinds: Vec<ObjectKind> = whole.kinds_and_bases().map(|(kind, _)| kind).collect();
        assert_eq!(kinds, [ObjectKind::Chunk, ObjectKind::Tree]);
        assert_eq!(decoded(&[(1, 1), (1, 0)], 2), Err(Malformed("base of no object")));
        assert_eq!(decoded(&[(1, 0)], 1), Err(Malformed("base of no object")));
        assert_eq!(decoded(&[(1, 1), (4, 1)], 1), Err(Malformed("kind of a base")));
        assert_eq!(decoded(&[(6, 1)], 1), Err(Malformed("object base")));
    }

    #[test]
    fn whatever_keeps_to_the_limits_of_a_block_is_no_longer_than_one_may_be() {
        let longest = HEADER_BYTES + BLOCK_OBJECTS_MAX * (2 * ID_BYTES + 16) + PAYLOAD_BYTES_MAX;
        assert!(
            longest <= crate::format::STORED_BLOCK_BYTES_MAX && zstd_safe::compress_bound(BLOCK_BYTES_MAX) <= PAYLOAD_BYTES_MAX
        );
        let bytes = encode(&[vec![7; 1000]]);
        let longer = |heads: u32, tails: u32| {
            with_header(&bytes, |bytes| {
                bytes[24..28].copy_from_slice(&heads.to_le_bytes());
                bytes[28..32].copy_from_slice(&tails.to_le_bytes());
            })
        };
        let half = (BLOCK_BYTES_MAX / 2) as u32;
        assert_eq!(Directory::decode(&longer(half, half + 1), &seal()), Err(Malformed("block length")));
    }

    #[test]
    fn a_payload_is_one_frame() {
        let frame = zstd::bulk::compress(&[7; 1000], 3).unwrap();
        let skipped = [&0x184D_2A50u32.to_le_bytes()[..], &4u32.to_le_bytes(), b"more"].concat();
        for coded in
            [[&frame[..], &frame].concat(), [&skipped[..], &frame].concat(), [&frame[..], &skipped].concat(), skipped, vec![]]
        {
            assert!(decompress(&coded, 5000).is_err() && decompress_on(b"prefix", &coded, 5000).is_err());
        }
        assert_eq!(decompress(&frame, 5000).unwrap(), [7; 1000]);
    }

    proptest! {
        #[test]
        fn blocks_round_trip(objects in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..400), 1..20)) {
            let bytes = encode(&objects);
            let directory = Directory::decode(&bytes, &seal()).unwrap();
            prop_assert_eq!(directory.block_bytes(), bytes.len());
            let block = directory.open_payload(&bytes[directory.directory_end..], &seal()).and_then(|payload| directory.unpack(&payload)).unwrap();
            let stored = directory.unpack_stored(bytes, &seal()).unwrap();
            for (i, (kind, id, range)) in block.objects.iter().enumerate() {
                prop_assert_eq!(&block.bytes[range.clone()], &objects[i][..]);
                prop_assert_eq!(stored.object(*id).unwrap(), &objects[i][..]);
                prop_assert!(ids().matches(*kind, *id, &objects[i]));
            }
        }

        #[test]
        fn a_flipped_bit_is_always_noticed(at in any::<proptest::sample::Index>(), bit in 0u8..8) {
            let objects: Vec<Vec<u8>> = (0..6u8).map(|i| vec![i; 100]).collect();
            let mut bytes = encode(&objects);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let noticed = match Directory::decode(&bytes, &seal()) {
                Err(_) => true,
                Ok(d) => bytes.get(d.directory_end..d.block_bytes()).is_none_or(|p| d.open_payload(p, &seal()).is_err()),
            };
            prop_assert!(noticed, "byte {at}");
        }

        #[test]
        fn any_bytes_decode_or_fail_without_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let n = bytes.len().min(4);
            bytes[..n].copy_from_slice(&BLOCK_MAGIC[..n]);
            let _ = Directory::decode(&bytes, &seal());
        }
    }
}
