//! The answers of both filesystems about an entry of a checkpoint's tree, whatever its inode numbers are.

use parhelia_store::{id::Ulid, tree::Kind};

use crate::{
    content::Content,
    fault::Fault,
    filesystem::{EntryReply, FOREVER, Line},
    readahead::{Entry, Next, Scope},
    tree::{
        attr,
        preorder::{PreorderTree, TreeEntry},
    },
};

/// The generation of whatever a checkpoint holds.
pub fn generation(checkpoint: Ulid) -> u32 {
    // Its last bits are random.
    (u128::from(checkpoint) & u128::from(u32::MAX)) as u32
}

/// The entry as the kernel is told of it.
pub fn shown(tree: &PreorderTree, found: &TreeEntry) -> Result<EntryReply, Fault> {
    let attr = tree.attr(found)?.ok_or(Fault::Stale)?;
    Ok(EntryReply { attr, ttl: FOREVER, generation: generation(tree.checkpoint().record.id) })
}

/// Lists a folder of a tree. `parent` is what `..` shows.
pub fn list(
    tree: &PreorderTree,
    folder: &TreeEntry,
    parent: EntryReply,
    from: u64,
    visit: &mut dyn FnMut(Line<'_>) -> bool,
) -> Result<(), Fault> {
    if folder.folder().is_none() {
        return Err(Fault::NotAFolder);
    }
    // Places in the list: 1 behind `.`, 2 behind `..`, then by position from the folder, which finds the entry again in any list.
    if from < 1 && !visit(Line { name: b".", shown: shown(tree, folder)?, next: 1 }) {
        return Ok(());
    }
    if from < 2 && !visit(Line { name: b"..", shown: parent, next: 2 }) {
        return Ok(());
    }
    let first = folder.position.saturating_add(1);
    let mut fault = None;
    tree.list(folder, first.saturating_add(from.saturating_sub(2)), &mut |found| {
        let name = found.node().map_or(&[][..], |node| &node.name);
        match shown(tree, &found) {
            Ok(shown) => visit(Line { name, shown, next: (found.end() - first).saturating_add(2) }),
            Err(e) => {
                fault = Some(e);
                false
            }
        }
    })?;
    fault.map_or(Ok(()), Err)
}

/// A symlink's target.
pub fn readlink(found: &TreeEntry) -> Result<Vec<u8>, Fault> {
    match found.node().map(|node| &node.kind) {
        Some(Kind::Symlink { target }) => Ok(target.clone()),
        _ => Err(Fault::Invalid),
    }
}

/// A range of a file.
pub fn read(content: &Content, found: &TreeEntry, offset: u64, bytes: u64, take: &mut dyn FnMut(&[u8])) -> Result<(), Fault> {
    match found.node().map(|node| &node.kind) {
        Some(Kind::File { size, blob, .. }) => Ok(content.read(*blob, *size, offset, bytes, take)?),
        Some(Kind::Folder { .. }) => Err(Fault::IsAFolder),
        _ => Err(Fault::Invalid),
    }
}

/// The entries of a scope.
pub fn entries(tree: &PreorderTree, found: &TreeEntry, scope: Scope, visit: &mut dyn FnMut(Entry) -> Next) -> Result<(), Fault> {
    let inside = found.position.saturating_add(1);
    let (folder, from) = match scope {
        Scope::Inside => (found, inside),
        Scope::Beside => (&tree.locate(found.parent)?.ok_or(Fault::Stale)?, found.end()),
        Scope::Behind => return entries_behind(tree, inside, visit),
    };
    let mut fault = None;
    tree.list(folder, from, &mut |next| match entry(tree, &next) {
        Ok(entry) => visit(entry) == Next::On,
        Err(e) => {
            fault = Some(e);
            false
        }
    })?;
    fault.map_or(Ok(()), Err)
}

fn entries_behind(tree: &PreorderTree, mut at: u64, visit: &mut dyn FnMut(Entry) -> Next) -> Result<(), Fault> {
    while let Some(found) = tree.locate(at)? {
        at = match visit(entry(tree, &found)?) {
            Next::On => at.saturating_add(1),
            Next::SkipFolder => tree.locate(found.parent)?.ok_or(Fault::Stale)?.end(),
            Next::Stop => break,
        }
    }
    Ok(())
}

fn entry(tree: &PreorderTree, found: &TreeEntry) -> Result<Entry, Fault> {
    let at = tree.inode_at(found.position);
    Ok(match found.node().map(|node| &node.kind) {
        Some(Kind::File { size, .. }) => Entry { at, ino: tree.inode(found)?, bytes: *size },
        _ => Entry { at, ino: at, bytes: 0 },
    })
}

/// Decodes the block that holds a small file.
pub fn prefetch(content: &Content, found: &TreeEntry) -> Result<(), Fault> {
    match found.node().map(|node| &node.kind) {
        Some(Kind::File { size, blob, .. }) => Ok(content.prefetch(*blob, *size)?),
        _ => Ok(()),
    }
}

/// The next place of a file that is data, or that is a hole.
pub fn seek(found: &TreeEntry, offset: u64, wants_data: bool) -> Result<u64, Fault> {
    match found.node().map(|node| &node.kind) {
        Some(Kind::File { size, holes, .. }) => attr::seek(*size, holes, offset, wants_data).ok_or(Fault::PastEnd),
        _ => Err(Fault::Invalid),
    }
}

/// The value of an extended attribute.
pub fn xattr(found: &TreeEntry, name: &[u8]) -> Result<Vec<u8>, Fault> {
    let xattrs = found.node().map_or(&[][..], |node| &node.meta.xattrs);
    let value = xattrs.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone());
    value.ok_or(Fault::NoAttribute)
}

/// The names of all extended attributes, each with a zero byte behind it.
pub fn xattr_names(found: &TreeEntry) -> Vec<u8> {
    let xattrs = found.node().map_or(&[][..], |node| &node.meta.xattrs);
    let mut names = Vec::new();
    for (name, _) in xattrs {
        names.extend_from_slice(name);
        names.push(0);
    }
    names
}
