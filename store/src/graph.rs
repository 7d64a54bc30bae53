//! The graph of objects: what a checkpoint refers to, and what that refers to in turn. Marking, verifying and repairing follow it with
//! this walk; what they make of an object is theirs.

use std::vec;

use crate::{
    codec::DecodeError,
    error::Result,
    id::{BlobId, ObjectId, TreeId},
    keys::Ids,
    pack::ObjectKind,
    progress::{self, Progress},
    recipe::{self, Node as RecipeNode},
    record::Checkpoint,
    tree::{Child, Kind, Node, TreeNode},
};

/// A place in a checkpoint at which something is needed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GraphPath<'a> {
    /// The path in the workspace, or in the checkpoint for what is beside it. Empty for the workspace itself, and for what belongs to the
    /// checkpoint as a whole.
    pub(crate) path: &'a [u8],
    /// Of a file, or of the table of hard links, the first byte that is needed.
    pub(crate) offset: u64,
    /// The number of bytes from there.
    pub(crate) bytes: u64,
}

/// One thing that a tree node refers to.
pub(crate) enum Item {
    /// An entry of the folder.
    Entry(Node),
    /// A part of the folder, which is split.
    Part(Child),
}

impl Item {
    fn tree(&self) -> Option<TreeId> {
        match self {
            Item::Part(child) => Some(child.tree),
            Item::Entry(node) => node.as_folder().map(|(tree, _)| tree),
        }
    }
}

/// A reference to a node of a recipe.
pub(crate) struct RecipePart {
    /// Its kind: a root, or a node below one.
    pub(crate) kind: ObjectKind,
    /// The id under which it is found.
    pub(crate) id: ObjectId,
    /// The number of bytes that it makes, by what refers to it.
    pub(crate) bytes: u64,
    /// The level of the node that refers to it; the root has none above it.
    above: u8,
}

impl RecipePart {
    /// Decodes the node, with its level.
    pub(crate) fn decode(&self, ids: &Ids, blob: BlobId, bytes: &[u8]) -> Result<(u8, RecipeNode), DecodeError> {
        match self.kind {
            ObjectKind::RecipeRoot => recipe::decode_top(ids, blob, bytes),
            _ => recipe::decode_below(self.above, bytes),
        }
    }
}

/// The form in which a blob's bytes are kept.
pub(crate) enum GraphContent {
    /// As one chunk, which has the blob's id.
    Chunk,
    Recipe,
}

/// The work on each object on the way. A method that gives no node or no content is not asked about anything below.
pub(crate) trait Visitor {
    /// A visitor's notes on a tree node while all below it is visited.
    type Open;

    /// The checkpoint's own record.
    fn record(&mut self, checkpoint: &Checkpoint, place: &GraphPath<'_>) -> Result<()>;

    /// A table or a chunk: what refers to nothing.
    fn object(&mut self, kind: ObjectKind, id: ObjectId, place: &GraphPath<'_>) -> Result<()>;

    /// A tree node, so many nodes below the root.
    fn tree(&mut self, id: TreeId, depth: usize, place: &GraphPath<'_>) -> Result<Option<(TreeNode, Self::Open)>>;

    /// An item of a node that was given; all below the item was visited.
    fn visited(&mut self, _above: &mut Self::Open, _item: &Item) {}

    /// All below a tree node was visited.
    fn leave(&mut self, _id: TreeId, _open: Self::Open) {}

    /// A file's content, or the table of hard links. It is never empty.
    fn blob(&mut self, blob: BlobId, bytes: u64, place: &GraphPath<'_>) -> Result<Option<GraphContent>>;

    /// The bytes that an entry of so many counts for in the progress; `None` where entries do not count.
    fn progress_bytes(&self, _bytes: u64) -> Option<u64> {
        None
    }

    /// A node of a recipe, with its level.
    fn recipe(&mut self, blob: BlobId, part: &RecipePart, place: &GraphPath<'_>) -> Result<Option<(u8, RecipeNode)>>;

    /// All of a content that was given was visited.
    fn leave_blob(&mut self, _blob: BlobId, _bytes: u64) -> Result<()> {
        Ok(())
    }
}

/// A tree node whose items are being visited.
struct Frame<T> {
    id: TreeId,
    open: T,
    items: vec::IntoIter<Item>,
    /// The item that is being visited.
    item: Option<Item>,
    /// The length of the node's part of the path.
    path_bytes: usize,
}

/// Follows everything that a checkpoint needs: what it has of its own, the table of hard links, and its trees in order, each node before
/// what it refers to.
pub(crate) fn follow<V: Visitor>(visitor: &mut V, ids: &Ids, checkpoint: &Checkpoint, progress: &dyn Progress) -> Result<()> {
    let record = &checkpoint.record;
    let top = GraphPath { path: b"", offset: 0, bytes: 0 };
    visitor.record(checkpoint, &top)?;
    if let Some(omitted) = &record.omitted {
        visitor.object(ObjectKind::Table, omitted.table, &top)?;
    }
    if let Some(links) = record.links.filter(|links| links.bytes > 0) {
        follow_blob(visitor, ids, links.blob, &GraphPath { bytes: links.bytes, ..top })?;
    }
    follow_tree(visitor, ids, record.root, progress)
}

/// A stack of its own: a hostile tree must not overflow the program's.
fn follow_tree<V: Visitor>(visitor: &mut V, ids: &Ids, root: TreeId, progress: &dyn Progress) -> Result<()> {
    let mut path: Vec<u8> = Vec::new();
    let mut stack: Vec<Frame<V::Open>> = Vec::new();
    let mut next = Some(root);
    loop {
        progress::check(progress)?;
        if let Some(id) = next.take()
            && let Some((node, open)) = visitor.tree(id, stack.len(), &GraphPath { path: inside(&path), offset: 0, bytes: 0 })?
        {
            let items: Vec<Item> = match node {
                TreeNode::Leaf(nodes) => nodes.into_iter().map(Item::Entry).collect(),
                TreeNode::Inner(children) => children.into_iter().map(Item::Part).collect(),
            };
            stack.push(Frame { id, open, items: items.into_iter(), item: None, path_bytes: path.len() });
        }
        let Some(frame) = stack.last_mut() else { return Ok(()) };
        path.truncate(frame.path_bytes);
        if let Some(item) = frame.item.take() {
            visitor.visited(&mut frame.open, &item);
        }
        let Some(item) = frame.items.next() else {
            if let Some(frame) = stack.pop() {
                visitor.leave(frame.id, frame.open);
            }
            continue;
        };
        if let Item::Entry(node) = &item {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&node.name);
            let mut bytes = 0;
            if let Kind::File { size, blob, .. } = node.kind
                && size > 0
            {
                bytes = size;
                follow_blob(visitor, ids, blob, &GraphPath { path: inside(&path), offset: 0, bytes })?;
            }
            if let Some(bytes) = visitor.progress_bytes(bytes) {
                // Totals are of the workspace, without the folder itself and without the folder `state`.
                progress.advance(u64::from(path.starts_with(b"workspace/")), bytes);
            }
        }
        next = item.tree();
        frame.item = Some(item);
    }
}

/// The workspace is a folder of the root; its own name is not part of the paths in it.
fn inside(path: &[u8]) -> &[u8] {
    match path.strip_prefix(b"workspace") {
        Some(b"") => b"",
        Some([b'/', rest @ ..]) => rest,
        _ => path,
    }
}

fn follow_blob<V: Visitor>(visitor: &mut V, ids: &Ids, blob: BlobId, place: &GraphPath<'_>) -> Result<()> {
    match visitor.blob(blob, place.bytes, place)? {
        None => return Ok(()),
        Some(GraphContent::Chunk) => visitor.object(ObjectKind::Chunk, blob.object(), place)?,
        Some(GraphContent::Recipe) => follow_recipe(visitor, ids, blob, place)?,
    }
    visitor.leave_blob(blob, place.bytes)
}

/// Follows a blob's recipe, in the order of the bytes.
pub(crate) fn follow_recipe<V: Visitor>(visitor: &mut V, ids: &Ids, blob: BlobId, place: &GraphPath<'_>) -> Result<()> {
    let root = RecipePart { kind: ObjectKind::RecipeRoot, id: ids.recipe_root(blob), bytes: place.bytes, above: 0 };
    let mut pending = vec![(root, place.offset)];
    while let Some((part, offset)) = pending.pop() {
        let here = GraphPath { offset, bytes: part.bytes, ..*place };
        let Some((level, node)) = visitor.recipe(blob, &part, &here)? else { continue };
        let mut at = offset;
        match node {
            RecipeNode::Chunks(runs) => {
                for run in runs {
                    let here = GraphPath { offset: at, bytes: run.bytes.into(), ..*place };
                    visitor.object(ObjectKind::Chunk, run.id.object(), &here)?;
                    at = at.saturating_add(run.run_bytes());
                }
            }
            RecipeNode::Nodes(nodes) => {
                let first = pending.len();
                for (id, bytes) in nodes {
                    pending.push((RecipePart { kind: ObjectKind::RecipeNode, id: id.object(), bytes, above: level }, at));
                    at = at.saturating_add(bytes);
                }
                pending[first..].reverse();
            }
        }
    }
    Ok(())
}
