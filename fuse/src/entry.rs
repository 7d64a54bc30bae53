//! What both views answer about an entry of a checkpoint's tree, whatever its inode numbers are.

use parhelia_store::tree::Kind;

use crate::{
    attr,
    content::Content,
    errno::Fault,
    tree_view::{Found, TreeView},
    view::{FOREVER, Line, Next, Scope, Shown},
};

/// The entry as the kernel is told of it.
pub fn shown(tree: &TreeView, found: &Found) -> Result<Shown, Fault> {
    let attr = tree.attr(found)?.ok_or(Fault::Stale)?;
    Ok(Shown { attr, ttl: FOREVER })
}

/// Lists a folder of a tree. `parent` is what `..` shows.
pub fn list(
    tree: &TreeView,
    folder: &Found,
    parent: Shown,
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
pub fn readlink(found: &Found) -> Result<Vec<u8>, Fault> {
    match found.node().map(|node| &node.kind) {
        Some(Kind::Symlink { target }) => Ok(target.clone()),
        _ => Err(Fault::Invalid),
    }
}

/// A range of a file.
pub fn read(content: &Content, found: &Found, offset: u64, bytes: u64, take: &mut dyn FnMut(&[u8])) -> Result<(), Fault> {
    match found.node().map(|node| &node.kind) {
        Some(Kind::File { size, blob, .. }) => Ok(content.read(*blob, *size, offset, bytes, take)?),
        Some(Kind::Folder { .. }) => Err(Fault::IsAFolder),
        _ => Err(Fault::Invalid),
    }
}

/// The files of a scope: inode and length.
pub fn files(tree: &TreeView, found: &Found, scope: Scope, visit: &mut dyn FnMut(u64, u64) -> Next) -> Result<(), Fault> {
    let mut at = found.end();
    let folder = match scope {
        Scope::Inside => {
            at = found.position.saturating_add(1);
            found
        }
        Scope::Beside => &tree.locate(found.parent)?.ok_or(Fault::Stale)?,
        Scope::Behind => return files_behind(tree, at, visit),
    };
    let mut fault = None;
    tree.list(folder, at, &mut |next| match shown_file(tree, &next) {
        Ok(Some((ino, bytes))) => visit(ino, bytes) == Next::On,
        Ok(None) => true,
        Err(e) => {
            fault = Some(e);
            false
        }
    })?;
    fault.map_or(Ok(()), Err)
}

fn files_behind(tree: &TreeView, mut at: u64, visit: &mut dyn FnMut(u64, u64) -> Next) -> Result<(), Fault> {
    while let Some(found) = tree.locate(at)? {
        at = at.saturating_add(1);
        let Some((ino, bytes)) = shown_file(tree, &found)? else { continue };
        match visit(ino, bytes) {
            Next::On => {}
            Next::SkipFolder => at = tree.locate(found.parent)?.ok_or(Fault::Stale)?.end(),
            Next::Stop => break,
        }
    }
    Ok(())
}

fn shown_file(tree: &TreeView, found: &Found) -> Result<Option<(u64, u64)>, Fault> {
    match found.node().map(|node| &node.kind) {
        Some(Kind::File { size, .. }) => Ok(Some((tree.inode(found)?, *size))),
        _ => Ok(None),
    }
}

/// The next place of a file that is data, or that is a hole.
pub fn seek(found: &Found, offset: u64, wants_data: bool) -> Result<u64, Fault> {
    match found.node().map(|node| &node.kind) {
        Some(Kind::File { size, holes, .. }) => attr::seek(*size, holes, offset, wants_data).ok_or(Fault::PastEnd),
        _ => Err(Fault::Invalid),
    }
}

/// The value of an extended attribute.
pub fn xattr(found: &Found, name: &[u8]) -> Result<Vec<u8>, Fault> {
    let xattrs = found.node().map_or(&[][..], |node| &node.meta.xattrs);
    let value = xattrs.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone());
    value.ok_or(Fault::NoAttribute)
}

/// The names of all extended attributes, each with a zero byte behind it.
pub fn xattr_names(found: &Found) -> Vec<u8> {
    let xattrs = found.node().map_or(&[][..], |node| &node.meta.xattrs);
    let mut names = Vec::new();
    for (name, _) in xattrs {
        names.extend_from_slice(name);
        names.push(0);
    }
    names
}
