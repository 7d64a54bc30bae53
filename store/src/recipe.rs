//! Recipes: which chunks, in which order, make a blob. A long recipe is itself a tree, split by content, so that an append
//! rewrites one path of it.

use crate::{
    codec::{DecodeError, Decoder, put_uint},
    id::{BlobId, ID_BYTES, ObjectId, ObjectKind, RecipeId},
    keys::Ids,
};

/// A node with at most this many lines is not split. Roots are stored anew with every version of a file, so they are short.
const LINES_UNSPLIT: usize = 24;
/// A node ends behind an id whose first byte has these bits clear: one in 64.
const SPLIT_MASK: u8 = 0x3f;
/// ... and at the latest behind this many lines.
const LINES_MAX: usize = 512;
/// A recipe deeper than this is not believed.
const LEVEL_MAX: u8 = 8;

/// A run of equal chunks: almost always one; many where a file has a hole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkRun {
    /// The chunk.
    pub id: BlobId,
    /// Length of the chunk, in bytes.
    pub bytes: u32,
    /// Number of times that it stands here in a row; at least 1.
    pub repeat: u32,
}

impl ChunkRun {
    /// Bytes of the whole run.
    pub fn run_bytes(&self) -> u64 {
        u64::from(self.bytes) * u64::from(self.repeat)
    }
}

/// An encoded object, ready to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedObject {
    /// Kind under which the object is stored.
    pub kind: ObjectKind,
    /// Id, made of kind and bytes.
    pub id: ObjectId,
    /// Bytes of the object, uncompressed.
    pub bytes: Vec<u8>,
    /// Bytes at the end that are ids.
    pub tail_bytes: usize,
}

/// One line of a node: the length it stands for, how often, and the id of the chunk or node.
#[derive(Clone, Copy)]
struct Line {
    bytes: u64,
    repeat: u32,
    id: [u8; ID_BYTES],
}

fn encode_node(level: u8, lines: &[Line], out: &mut Vec<u8>) -> usize {
    out.push(level);
    put_uint(out, lines.len() as u64);
    for line in lines {
        put_uint(out, line.bytes);
        put_uint(out, u64::from(line.repeat));
    }
    for line in lines {
        out.extend_from_slice(&line.id);
    }
    lines.len() * ID_BYTES
}

/// Encodes the recipe of `blob`: inner nodes first, the root last.
pub fn encode(ids: &Ids, blob: BlobId, chunks: &[ChunkRun]) -> Vec<EncodedObject> {
    let mut objects = Vec::new();
    let mut lines: Vec<Line> =
        chunks.iter().map(|run| Line { bytes: u64::from(run.bytes), repeat: run.repeat, id: run.id.0 }).collect();
    let mut level = 0;
    while lines.len() > LINES_UNSPLIT {
        let nodes = lines.chunk_by_ends(|in_node, line| line.id[0] & SPLIT_MASK == 0 || in_node >= LINES_MAX);
        if nodes.len() == lines.len() {
            break;
        }
        lines = nodes
            .into_iter()
            .map(|node| {
                let mut bytes = Vec::new();
                let tail_bytes = encode_node(level, node, &mut bytes);
                let id = ids.recipe_node(&bytes);
                objects.push(EncodedObject { kind: ObjectKind::RecipeNode, id: id.object(), bytes, tail_bytes });
                let total = node.iter().map(|l| l.bytes * u64::from(l.repeat)).sum();
                Line { bytes: total, repeat: 1, id: id.0 }
            })
            .collect();
        level += 1;
    }
    let mut body = Vec::new();
    let tail_bytes = encode_node(level, &lines, &mut body);
    let mut bytes = blob.0.to_vec();
    bytes.extend_from_slice(&ids.recipe_seal(blob, &body));
    bytes.extend_from_slice(&body);
    objects.push(EncodedObject { kind: ObjectKind::RecipeRoot, id: ids.recipe_root(blob), bytes, tail_bytes });
    objects
}

trait ChunkByEnds<T> {
    fn chunk_by_ends(&self, ends: impl FnMut(usize, &T) -> bool) -> Vec<&[T]>;
}

impl<T> ChunkByEnds<T> for [T] {
    /// Cuts behind every element for which `ends(elements so far in this part, element)` holds.
    fn chunk_by_ends(&self, mut ends: impl FnMut(usize, &T) -> bool) -> Vec<&[T]> {
        let mut parts = Vec::new();
        let mut start = 0;
        for (i, item) in self.iter().enumerate() {
            if ends(i + 1 - start, item) {
                parts.push(&self[start..=i]);
                start = i + 1;
            }
        }
        if start < self.len() {
            parts.push(&self[start..]);
        }
        parts
    }
}

/// A decoded node of a recipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// The lowest level.
    Chunks(Vec<ChunkRun>),
    /// Ids of lower nodes, each with the bytes it stands for.
    Nodes(Vec<(RecipeId, u64)>),
}

impl Node {
    /// The number of bytes that it makes, at most 2^64 - 1.
    pub fn bytes(&self) -> u64 {
        match self {
            Node::Chunks(runs) => runs.iter().fold(0, |sum, run| run.run_bytes().saturating_add(sum)),
            Node::Nodes(nodes) => nodes.iter().fold(0, |sum, (_, bytes)| bytes.saturating_add(sum)),
        }
    }
}

/// Decodes a recipe's root for `blob`.
pub fn decode_root(ids: &Ids, blob: BlobId, bytes: &[u8]) -> Result<Node, DecodeError> {
    decode_top(ids, blob, bytes).map(|(_, node)| node)
}

/// As [`decode_root`], with the root's level.
pub fn decode_top(ids: &Ids, blob: BlobId, bytes: &[u8]) -> Result<(u8, Node), DecodeError> {
    if !ids.root_is_sealed(ids.recipe_root(blob), bytes) {
        return Err(DecodeError("recipe seal"));
    }
    match decode_node(&bytes[64..])? {
        // A blob of one chunk has no recipe.
        Node::Chunks(runs) if matches!(runs.as_slice(), [ChunkRun { repeat: 1, .. }]) => Err(DecodeError("recipe of one chunk")),
        node => Ok((bytes[64], node)),
    }
}

/// Decodes the node below one of the level `above`, and gives its level. Levels go down by one.
pub fn decode_below(above: u8, bytes: &[u8]) -> Result<(u8, Node), DecodeError> {
    let node = decode_node(bytes)?;
    match bytes.first() {
        Some(level) if level.checked_add(1) == Some(above) => Ok((*level, node)),
        _ => Err(DecodeError("recipe level")),
    }
}

/// Decodes an inner node.
pub fn decode_node(bytes: &[u8]) -> Result<Node, DecodeError> {
    let mut d = Decoder::new(bytes);
    let level = d.byte("recipe level")?;
    if level > LEVEL_MAX {
        return Err(DecodeError("recipe level"));
    }
    let count = d.count(2 + ID_BYTES, "recipe length")?;
    if count == 0 {
        return Err(DecodeError("recipe length"));
    }
    let mut sizes = Vec::with_capacity(count);
    for _ in 0..count {
        let bytes = d.uint("chunk length")?;
        let repeat = d.uint32("chunk repeat")?;
        if bytes == 0 || repeat == 0 {
            return Err(DecodeError("chunk length"));
        }
        sizes.push((bytes, repeat));
    }
    let node = if level == 0 {
        let mut runs: Vec<ChunkRun> = Vec::with_capacity(count);
        for (bytes, repeat) in sizes {
            let bytes = u32::try_from(bytes).map_err(|_| DecodeError("chunk length"))?;
            // Equal neighbours are one line, as long as their number fits it.
            if runs.last().is_some_and(|last| last.repeat < u32::MAX && d.clone().array("chunk id") == Ok(last.id.0)) {
                return Err(DecodeError("chunk repeat"));
            }
            runs.push(ChunkRun { id: BlobId(d.array("chunk id")?), bytes, repeat });
        }
        Node::Chunks(runs)
    } else {
        let mut nodes = Vec::with_capacity(count);
        for (bytes, repeat) in sizes {
            if repeat != 1 {
                return Err(DecodeError("recipe repeat"));
            }
            nodes.push((RecipeId(d.array("recipe id")?), bytes));
        }
        Node::Nodes(nodes)
    };
    d.finish("recipe")?;
    Ok(node)
}

#[cfg(test)]
mod tests;
