//! Trees held in memory, and a comparison so simple that it can be believed.

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering},
};

use proptest::prelude::*;

use crate::{
    diff::{ChangeKind, Fields, TreeChange},
    error::{Error, Result},
    id::TreeId,
    tree::{Hole, Kind, Meta, Node, Time, TreeNode, Trees, decode, encode_folder},
};

/// An entry of a test tree. Metadata are one number, of which each bit sets one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    File(u8, Vec<u8>),
    Folder(u8, Folder),
    Symlink(u8, Vec<u8>),
    Device(u8, u32),
}

pub type Folder = BTreeMap<Vec<u8>, Entry>;
/// Ordered as changes are: component by component.
pub type Paths = BTreeMap<Vec<Vec<u8>>, Node>;

#[derive(Default)]
pub struct MemoryTrees {
    objects: HashMap<TreeId, Vec<u8>>,
    pub reads: AtomicUsize,
}

impl Trees for MemoryTrees {
    fn tree_node(&self, id: TreeId) -> Result<TreeNode> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let bytes = self.objects.get(&id).ok_or(Error::Missing { kind: "tree", id: id.to_string() })?;
        decode(bytes).map_err(|e| Error::Invalid(format!("{e:?}")))
    }
}

fn meta(bits: u8) -> Meta {
    let bit = |i: u8| u32::from(bits >> i & 1);
    let xattrs = if bit(3) == 1 { vec![(b"user.a".to_vec(), b"1".to_vec())] } else { vec![] };
    let mtime = Time { secs: i64::from(bit(2)), nanos: 5 };
    Meta { mode: 0o644 | bit(0), uid: bit(1), gid: 7, mtime, xattrs }
}

impl MemoryTrees {
    /// Holds the folder and everything below, and gives its node. What is below is noted in `paths`.
    pub fn hold(&mut self, name: &[u8], bits: u8, folder: &Folder, prefix: &[Vec<u8>], paths: &mut Paths) -> Node {
        let mut nodes = Vec::new();
        for (name, entry) in folder {
            let path = [prefix, std::slice::from_ref(name)].concat();
            let node = self.node(name, entry, &path, paths);
            paths.insert(path, node.clone());
            nodes.push(node);
        }
        self.folder(name, bits, &nodes)
    }

    pub fn folder(&mut self, name: &[u8], bits: u8, nodes: &[Node]) -> Node {
        let (tree, totals) = encode_folder(&crate::testing::ids(), nodes, |encoded| {
            self.objects.insert(TreeId(encoded.id.0), encoded.bytes);
            Ok::<_, Infallible>(())
        })
        .unwrap();
        Node { name: name.to_vec(), meta: meta(bits), links: 1, kind: Kind::Folder { tree, totals } }
    }

    fn node(&mut self, name: &[u8], entry: &Entry, path: &[Vec<u8>], paths: &mut Paths) -> Node {
        let (bits, kind) = match entry {
            Entry::Folder(bits, folder) => return self.hold(name, *bits, folder, path, paths),
            Entry::File(bits, content) => (bits, file_kind(*bits, content)),
            Entry::Symlink(bits, target) => (bits, Kind::Symlink { target: target.clone() }),
            Entry::Device(bits, major) => (bits, Kind::CharDevice { major: *major, minor: 1 }),
        };
        Node { name: name.to_vec(), meta: meta(*bits), links: 1 + u32::from(bits >> 4 & 1), kind }
    }

    /// The reads since the last call.
    pub fn take_reads(&self) -> usize {
        self.reads.swap(0, Ordering::Relaxed)
    }
}

fn file_kind(bits: u8, content: &[u8]) -> Kind {
    let holes = if bits >> 5 & 1 == 1 && !content.is_empty() { vec![Hole { start: 0, bytes: 1 }] } else { vec![] };
    Kind::File { size: content.len() as u64, blob: crate::testing::blob_id(content), holes }
}

pub fn file(name: impl Into<Vec<u8>>, content: &[u8]) -> Node {
    Node { name: name.into(), meta: meta(0), links: 1, kind: file_kind(0, content) }
}

/// Compares path by path.
pub fn naive(old: &Paths, new: &Paths, folder_times: bool) -> Vec<TreeChange> {
    let all: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let mut changes = Vec::new();
    for path in all {
        let kind = match (old.get(path), new.get(path)) {
            (Some(a), Some(b)) => match naive_kind(a, b, folder_times) {
                Some(kind) => kind,
                None => continue,
            },
            (Some(_), None) => ChangeKind::Deleted,
            _ => ChangeKind::Added,
        };
        changes.push(TreeChange { path: path.join(&b'/'), kind, old: old.get(path).cloned(), new: new.get(path).cloned() });
    }
    changes
}

fn naive_kind(a: &Node, b: &Node, folder_times: bool) -> Option<ChangeKind> {
    let bytes = |node: &Node| match &node.kind {
        Kind::File { blob, .. } => blob.0.to_vec(),
        Kind::Symlink { target } => target.clone(),
        Kind::CharDevice { major, .. } => major.to_le_bytes().to_vec(),
        _ => vec![],
    };
    if a.kind.name() != b.kind.name() {
        return Some(ChangeKind::TypeChanged);
    }
    if bytes(a) != bytes(b) {
        return Some(ChangeKind::Modified);
    }
    let fields = Fields::between(a, b);
    let only_time = fields.names().collect::<Vec<_>>() == ["mtime"];
    let is_silent = fields.is_empty() || a.kind.name() == "folder" && only_time && !folder_times;
    (!is_silent).then_some(ChangeKind::Metadata(fields))
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    // Few names, so that both trees share many; some sort before a slash, and one is not UTF-8.
    proptest::sample::select(vec![&b"a"[..], b"a-", b"a.b", b"b", b"c", b"c d", b"\xff", b"z"]).prop_map(<[u8]>::to_vec)
}

fn content() -> impl Strategy<Value = Vec<u8>> {
    proptest::sample::select(vec![&b""[..], b"1", b"22", b"333", b"4444"]).prop_map(<[u8]>::to_vec)
}

fn entry() -> impl Strategy<Value = Entry> {
    let bits = || prop_oneof![4 => Just(0u8), 1 => any::<u8>()];
    let leaf = prop_oneof![
        5 => (bits(), content()).prop_map(|(bits, content)| Entry::File(bits, content)),
        1 => (bits(), content()).prop_map(|(bits, target)| Entry::Symlink(bits, [&b"to"[..], &target].concat())),
        1 => (bits(), 0u32..2).prop_map(|(bits, major)| Entry::Device(bits, major)),
    ];
    leaf.prop_recursive(3, 40, 6, move |inner| {
        (bits(), proptest::collection::btree_map(name(), inner, 0..6)).prop_map(|(bits, folder)| Entry::Folder(bits, folder))
    })
}

pub fn folder() -> impl Strategy<Value = Folder> {
    proptest::collection::btree_map(name(), entry(), 0..8)
}

/// A folder, and one that came of it by a few edits.
pub fn two_folders() -> impl Strategy<Value = (Folder, Folder)> {
    let edit = (proptest::collection::vec(name(), 1..4), proptest::option::of(entry()));
    let edited = (folder(), proptest::collection::vec(edit, 0..5)).prop_map(|(old, edits)| {
        let mut new = old.clone();
        edits.into_iter().for_each(|(path, entry)| put(&mut new, &path, entry));
        (old, new)
    });
    prop_oneof![3 => edited, 1 => (folder(), folder())]
}

fn put(folder: &mut Folder, path: &[Vec<u8>], entry: Option<Entry>) {
    match (path, entry, folder.get_mut(&path[0])) {
        ([_, rest @ ..], entry, Some(Entry::Folder(_, below))) if !rest.is_empty() => put(below, rest, entry),
        (_, Some(entry), _) => drop(folder.insert(path[0].clone(), entry)),
        (_, None, _) => drop(folder.remove(&path[0])),
    }
}
