//! The bytes of tree nodes: leaves hold a folder's entries, inner nodes the leaves of a big folder.
//!
//! A folder of at most [`ENTRIES_UNSPLIT`] entries is one leaf. A bigger one is cut behind every name whose hash has enough
//! trailing zero bits, so that its shape depends on the names alone: adding an entry changes one leaf and the path to it.

use std::borrow::Borrow;

use crate::{
    codec::{DecodeError, Decoder, put_bytes, put_uint},
    id::{ID_BYTES, TreeId},
    keys::Ids,
    name,
    pack::ObjectKind,
    recipe::EncodedObject,
    tree::{Node, Totals},
};

/// A folder of at most this many entries is not split.
pub const ENTRIES_UNSPLIT: usize = 256;
/// Each level cuts where this many more bits of the name's hash are zero: one in 128.
const SPLIT_BITS: u32 = 7;
/// ... and at the latest behind this many lines.
const LINES_MAX: usize = 4096;
/// A tree deeper than this is not believed.
const LEVEL_MAX: u8 = 8;

/// One line of an inner node: a lower node and what it covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// The lower node.
    pub tree: TreeId,
    /// The first name in it.
    pub first: Vec<u8>,
    /// Sums over its entries.
    pub totals: Totals,
}

/// A decoded tree node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeNode {
    /// Entries, ordered by name.
    Leaf(Vec<Node>),
    /// Lower nodes, ordered by first name.
    Inner(Vec<Child>),
}

fn zero_bits(name: &[u8]) -> u32 {
    let hash = blake3::hash(name);
    let mut low = [0; 8];
    low.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_le_bytes(low).trailing_zeros()
}

fn encoded(ids: &Ids, kind_level: u8, count: usize, head: &[u8], tail: &[u8]) -> EncodedObject {
    let mut bytes = Vec::with_capacity(head.len() + tail.len() + 6);
    bytes.push(kind_level);
    put_uint(&mut bytes, count as u64);
    put_uint(&mut bytes, head.len() as u64);
    bytes.extend_from_slice(head);
    bytes.extend_from_slice(tail);
    EncodedObject { kind: ObjectKind::Tree, id: ids.tree(&bytes).object(), tail_bytes: tail.len(), bytes }
}

/// Position of a tree node in its folder: its level, and the first name that it covers.
pub type PartOf<'a> = (u8, &'a [u8]);

/// As [`encode_folder_parts`], for callers that do not ask which part of the folder a tree node is.
pub fn encode_folder<T: Borrow<Node>, E>(
    ids: &Ids,
    entries: &[T],
    mut emit: impl FnMut(EncodedObject) -> Result<(), E>,
) -> Result<(TreeId, Totals), E> {
    encode_folder_parts(ids, entries, |encoded, _| emit(encoded))
}

/// Encodes a folder's entries, which must be ordered by name and distinct. Emits every tree node, lower ones first, and returns the
/// root with the sums.
pub fn encode_folder_parts<T: Borrow<Node>, E>(
    ids: &Ids,
    entries: &[T],
    mut emit: impl FnMut(EncodedObject, PartOf<'_>) -> Result<(), E>,
) -> Result<(TreeId, Totals), E> {
    debug_assert!(entries.windows(2).all(|pair| pair[0].borrow().name < pair[1].borrow().name));
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    let mut leaf = |part: &[T]| -> Result<(TreeId, Totals), E> {
        head.clear();
        tail.clear();
        let mut totals = Totals::default();
        for node in part {
            let node: &Node = node.borrow();
            totals.add(node);
            node.encode(&mut head, &mut tail);
        }
        let encoded = encoded(ids, 0, part.len(), &head, &tail);
        let id = TreeId(encoded.id.0);
        let first = part.first().map_or(&[][..], |node| &node.borrow().name);
        emit(encoded, (0, first))?;
        Ok((id, totals))
    };
    if entries.len() <= ENTRIES_UNSPLIT {
        return leaf(entries);
    }
    let mut lines: Vec<(Child, u32)> = Vec::new();
    let mut start = 0;
    for (i, node) in entries.iter().enumerate() {
        let bits = zero_bits(&node.borrow().name);
        if bits >= SPLIT_BITS || i + 1 - start >= LINES_MAX || i + 1 == entries.len() {
            let part = &entries[start..=i];
            let (tree, totals) = leaf(part)?;
            lines.push((Child { tree, first: part[0].borrow().name.clone(), totals }, bits));
            start = i + 1;
        }
    }
    let mut level = 1;
    loop {
        let mut upper: Vec<(Child, u32)> = Vec::new();
        let mut start = 0;
        for i in 0..lines.len() {
            let bits = lines[i].1;
            let is_root = lines.len() <= ENTRIES_UNSPLIT;
            let is_boundary = bits >= SPLIT_BITS * (u32::from(level) + 1) || i + 1 - start >= LINES_MAX;
            let ends = !is_root && is_boundary;
            if ends || i + 1 == lines.len() {
                let (encoded, child) = encode_inner(ids, level, &lines[start..=i]);
                emit(encoded, (level, &child.first))?;
                upper.push((child, bits));
                start = i + 1;
            }
        }
        if upper.len() == 1 {
            let (child, _) = upper.remove(0);
            return Ok((child.tree, child.totals));
        }
        lines = upper;
        level += 1;
    }
}

/// Encodes an inner node over some lines, at least one. Returns it with the line that the next level has of it.
fn encode_inner(ids: &Ids, level: u8, part: &[(Child, u32)]) -> (EncodedObject, Child) {
    let mut totals = Totals::default();
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    for (child, _) in part {
        put_bytes(&mut head, &child.first);
        child.totals.encode(&mut head);
        tail.extend_from_slice(&child.tree.0);
        totals.merge(&child.totals);
    }
    let encoded = encoded(ids, level, part.len(), &head, &tail);
    let tree = TreeId(encoded.id.0);
    (encoded, Child { tree, first: part[0].0.first.clone(), totals })
}

/// Decodes a tree node. Checks that names are valid and strictly ordered.
pub fn decode(bytes: &[u8]) -> Result<TreeNode, DecodeError> {
    let mut d = Decoder::new(bytes);
    let level = d.byte("tree level")?;
    if level > LEVEL_MAX {
        return Err(DecodeError("tree level"));
    }
    let count = d.count(8, "tree length")?;
    let mut head = Decoder::new(d.bytes("tree head")?);
    let mut tail = d;
    if level == 0 {
        let mut nodes: Vec<Node> = Vec::with_capacity(count);
        for _ in 0..count {
            let node = Node::decode(&mut head, &mut tail)?;
            if nodes.last().is_some_and(|last| last.name >= node.name) {
                return Err(DecodeError("order of names"));
            }
            nodes.push(node);
        }
        head.finish("tree")?;
        tail.finish("tree")?;
        return Ok(TreeNode::Leaf(nodes));
    }
    if tail.remaining() != count * ID_BYTES || count == 0 {
        return Err(DecodeError("tree tail"));
    }
    let mut children: Vec<Child> = Vec::with_capacity(count);
    for _ in 0..count {
        let first = head.bytes("tree name")?.to_vec();
        let totals = Totals::decode(&mut head)?;
        if !name::is_valid(&first) || children.last().is_some_and(|last| last.first >= first) {
            return Err(DecodeError("order of names"));
        }
        children.push(Child { tree: TreeId(tail.array("tree id")?), first, totals });
    }
    head.finish("tree")?;
    Ok(TreeNode::Inner(children))
}
