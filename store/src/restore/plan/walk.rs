//! The walk that finds what a restore has to do.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, PoisonError, atomic::Ordering},
};

use rustix::fs::{Mode, OFlags};

use crate::{
    attributes,
    error::{Error, Result, TargetContext},
    filesystem::FilesystemId,
    id::TreeId,
    name,
    record::Checkpoint,
    restore::{
        Options,
        held::{Hold, HoldCause},
        table::Folder,
        target::Target,
        walk::{Walk, WalkFindings},
    },
    sys,
    tree::{Kind, Meta, Node},
};

pub(super) fn open_root(target: &Target) -> Result<Option<Arc<OwnedFd>>> {
    let path = match target {
        Target::Fresh { .. } => return Ok(None),
        Target::InPlace(path) => path,
        Target::Entry { parent, .. } => parent,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map(|fd| Some(Arc::new(fd))).at_target("open folder", path)
}

/// Walks what is to be restored. A single entry is looked at as one of a folder that has no other.
/// Also says whether the patterns matched anything.
pub(super) fn walk_from(
    walk: Walk<'_>,
    checkpoint: &Checkpoint,
    node: &Node,
    target: &Target,
    root: Option<Arc<OwnedFd>>,
) -> Result<WalkFindings> {
    let section = walk.cache.map_or(0, |cache| cache.trailer.root_section);
    let mut top = Folder {
        parent: 0,
        index: 0,
        name: Box::default(),
        meta: node.meta.clone(),
        tree: TreeId([0; 32]),
        is_new: root.is_none(),
        selected: true,
        wanted: true,
        finish: root.is_none(),
        differs: false,
        device: root.as_ref().map_or(Ok(0), |root| sys::stat_fd(root).map(|stat| stat.dev)).at_target("read", target.path())?,
        mount: 0,
        old_section: section,
        children: 0..0,
        listing: None,
        stamp: None,
        filesystem: FilesystemId::default(),
    };
    match (&node.kind, target) {
        (Kind::Folder { tree, .. }, _) => {
            top.tree = *tree;
            if let Some(root) = &root {
                let keeps = walk.spared.keeps_attributes(Vec::new);
                top.differs = differs(root, walk.options, &top.meta, keeps).at_target("read", target.path())?;
                let stat = sys::stat_fd(root).at_target("read", target.path())?;
                let held = || HoldCause::meta(root.as_fd(), b"", &stat, || HoldCause::inside(root.as_fd()));
                if let Some(held) = top.differs.then(held).flatten() {
                    walk.block_root(Hold::own(held));
                    top.differs = false;
                }
                top.finish = top.differs;
            }
            walk.enter_root(top);
            walk.run(*tree, walk.links.folder(&walk.options.subpath), section, root)?;
        }
        (_, Target::Entry { name, .. }) => {
            top.selected = false;
            walk.enter_root(top);
            // The patterns are about its name in the checkpoint, whatever it is called here.
            if walk.filter.wants_file(&node.name) {
                let path: Vec<&[u8]> = name::components(&walk.options.subpath).collect();
                let member = if node.links > 1 { walk.links.member_at(&path.join(&b'/')) } else { None };
                walk.single(Node { name: name.clone(), ..node.clone() }, member, root)?;
            } else {
                walk.has_matched.store(false, Ordering::Relaxed);
            }
        }
        _ => return Err(Error::Invalid("a file cannot be restored as a folder".into())),
    }
    if !walk.has_matched.into_inner() {
        let (include, exclude) = (walk.options.include.clone(), walk.options.exclude.clone());
        return Err(Error::NoMatch { checkpoint: checkpoint.id(), include, exclude });
    }
    Ok(walk.found.into_inner().unwrap_or_else(PoisonError::into_inner))
}

pub(super) fn differs(root: &OwnedFd, options: &Options, meta: &Meta, keeps: bool) -> rustix::io::Result<bool> {
    let live = sys::stat_fd(root)?;
    let wanted = options.meta_of(meta);
    let differs = live.meta(wanted.xattrs.clone()) != *wanted;
    Ok(differs || !options.fits(attributes::of_open(root.as_fd()), &wanted.xattrs, keeps))
}
