//! Folders with everything that a tree keeps of them, as the filesystem shows them and as a checkpoint holds them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{FileTypeExt, MetadataExt},
    },
    path::Path,
};

use parhelia_store::{Store, record::Checkpoint, tree::Kind};

/// All below a folder, by path.
pub type Tree = BTreeMap<Vec<u8>, Entry>;

/// Fields of an entry that are compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Its type and content.
    pub what: What,
    /// `st_mode & 0o7777`.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Time of its last modification: seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// Extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Of hard links, the first path by which it is known; otherwise its own.
    pub first_path: Vec<u8>,
}

/// Type and content of an entry.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// A regular file, with its content.
    File(Vec<u8>),
    /// A folder.
    Folder,
    /// A symbolic link, with its target.
    Symlink(Vec<u8>),
    /// A named pipe.
    Fifo,
}

impl std::fmt::Debug for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            What::File(bytes) => write!(f, "{} bytes, {}", bytes.len(), &blake3::hash(bytes).to_hex()[..8]),
            What::Folder => f.write_str("a folder"),
            What::Symlink(target) => write!(f, "a link to {}", String::from_utf8_lossy(target)),
            What::Fifo => f.write_str("a pipe"),
        }
    }
}

/// Difference of two trees, for people.
pub fn difference(a: &Tree, b: &Tree) -> Vec<String> {
    let mut paths: Vec<_> = a.keys().chain(b.keys()).collect();
    paths.sort();
    paths.dedup();
    let differing = paths.into_iter().filter(|path| a.get(*path) != b.get(*path));
    differing.map(|path| format!("{}: {:?}, {:?}", String::from_utf8_lossy(path), a.get(path), b.get(path))).collect()
}

/// The paths at which two trees differ.
pub struct Changed {
    /// All of them.
    pub any: BTreeSet<Vec<u8>>,
    /// Without those where only a time differs, or what links to what.
    pub of_weight: BTreeSet<Vec<u8>>,
}

/// Paths at which two trees differ.
pub fn changed(a: &Tree, b: &Tree) -> Changed {
    let timeless = |entry: &Entry| Entry { mtime: (0, 0), first_path: Vec::new(), ..entry.clone() };
    let paths = || a.keys().chain(b.keys());
    let any = paths().filter(|path| a.get(*path) != b.get(*path)).cloned().collect();
    let of_weight = paths().filter(|path| a.get(*path).map(timeless) != b.get(*path).map(timeless)).cloned().collect();
    Changed { any, of_weight }
}

/// Content of a folder of the filesystem, with the folder itself as `.`.
pub fn whole_tree_in(folder: &Path) -> Tree {
    let mut tree = tree_in(folder);
    let meta = fs::symlink_metadata(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    tree.insert(b".".to_vec(), entry_of(folder, &meta, What::Folder, b"."));
    tree
}

/// Content of a folder of the filesystem.
pub fn tree_in(folder: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut inodes = HashMap::new();
    add(folder, b"", &mut tree, &mut inodes);
    name_links(&mut tree, inodes.into_values());
    tree
}

/// The paths of each inode, by device and number.
type Inodes = HashMap<(u64, u64), Vec<Vec<u8>>>;

fn add(folder: &Path, prefix: &[u8], tree: &mut Tree, inodes: &mut Inodes) {
    for found in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let found = found.unwrap();
        let (at, path) = (found.path(), [prefix, found.file_name().as_bytes()].concat());
        let meta = fs::symlink_metadata(&at).unwrap();
        let kind = meta.file_type();
        let what = match () {
            () if kind.is_dir() => What::Folder,
            () if kind.is_symlink() => What::Symlink(fs::read_link(&at).unwrap().into_os_string().into_vec()),
            () if kind.is_fifo() => What::Fifo,
            () => What::File(fs::read(&at).unwrap()),
        };
        if what == What::Folder {
            add(&at, &[&path, b"/".as_slice()].concat(), tree, inodes);
        } else {
            inodes.entry((meta.dev(), meta.ino())).or_default().push(path.clone());
        }
        tree.insert(path.clone(), entry_of(&at, &meta, what, &path));
    }
}

fn entry_of(at: &Path, meta: &fs::Metadata, what: What, path: &[u8]) -> Entry {
    Entry {
        what,
        mode: meta.mode() & 0o7777,
        owner: (meta.uid(), meta.gid()),
        mtime: (meta.mtime(), meta.mtime_nsec() as u32),
        xattrs: xattrs_of(at),
        first_path: path.to_owned(),
    }
}

fn xattrs_of(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 4096];
    let length = rustix::fs::llistxattr(path, &mut names).unwrap_or(0);
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let value_of = |name: &[u8]| {
        let mut value = vec![0; 4096];
        let length = rustix::fs::lgetxattr(path, name, &mut value).unwrap();
        value.truncate(length);
        value
    };
    names.map(|name| (name.to_vec(), value_of(name))).collect()
}

/// Each group of hard links is known by its first path.
fn name_links(tree: &mut Tree, groups: impl Iterator<Item = Vec<Vec<u8>>>) {
    for group in groups {
        let Some(first) = group.iter().min() else { continue };
        for path in &group {
            if let Some(entry) = tree.get_mut(path) {
                entry.first_path = first.clone();
            }
        }
    }
}

/// Content of a checkpoint, every byte read and verified.
pub fn tree_of(store: &Store, checkpoint: &Checkpoint) -> parhelia_store::Result<Tree> {
    let node = store.workspace_node(checkpoint)?;
    let Some((root, _)) = node.as_folder() else { return Ok(Tree::new()) };
    let table = store.links(checkpoint)?;
    let mut found = Vec::new();
    store.walk(root, &mut |path, _, node| {
        found.push((path.to_vec(), node.clone()));
        Ok(true)
    })?;
    let mut tree = Tree::new();
    let mut links: HashMap<Vec<u8>, Vec<Vec<u8>>> = HashMap::new();
    for (path, node) in found {
        let what = match node.kind {
            Kind::File { size, blob, .. } => {
                What::File(if size == 0 { Vec::new() } else { store.blob(blob, size)?.read_all()? })
            }
            Kind::Folder { .. } => What::Folder,
            Kind::Symlink { target } => What::Symlink(target),
            Kind::Fifo => What::Fifo,
            other => panic!("{other:?}"),
        };
        if node.links > 1 {
            let leader = table.member_at(&path).map_or_else(|| path.clone(), |member| table.path(table.leader_of(member)));
            links.entry(leader).or_default().push(path.clone());
        }
        let xattrs = node.meta.xattrs.into_iter().collect();
        let entry = Entry {
            what,
            mode: node.meta.mode,
            owner: (node.meta.uid, node.meta.gid),
            mtime: (node.meta.mtime.secs, node.meta.mtime.nanos),
            xattrs,
            first_path: path.clone(),
        };
        tree.insert(path, entry);
    }
    name_links(&mut tree, links.into_values());
    Ok(tree)
}
