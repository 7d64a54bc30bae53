//! Which paths of which checkpoints damage touches.

use super::{
    Finding, Touched,
    reach::{Bad, Reach, own_objects},
};
use crate::{
    error::Result,
    id::{ObjectId, TreeId},
    name,
    progress::{self, Progress},
    record::Checkpoint,
    tree::{self, Kind, Node, TreeNode},
};

/// Of one object, at most this many touched paths are named.
const TOUCHED_MAX: usize = 20;

impl Reach<'_> {
    /// What is wrong, with the paths that it touches.
    pub(super) fn findings(mut self, checkpoints: &[Checkpoint], progress: &dyn Progress) -> Result<Vec<Finding>> {
        if !self.bad.is_empty() {
            for checkpoint in checkpoints {
                self.find_paths(checkpoint, progress)?;
            }
        }
        let finding = |(id, bad): (ObjectId, Bad)| Finding {
            kind: bad.kind,
            message: bad.message,
            pack: bad.pack,
            object: Some(id),
            touches: bad.touches,
            touches_more: bad.touches_more,
        };
        Ok(self.bad.into_iter().map(finding).collect())
    }

    fn touch(&mut self, id: ObjectId, checkpoint: &Checkpoint, path: &[u8]) {
        let Some(bad) = self.bad.get_mut(&id) else { return };
        if bad.touches.len() < TOUCHED_MAX {
            // The workspace is a folder of the root; its own name is not part of the paths in it.
            let inside = path.strip_prefix(b"workspace").map_or(path, |rest| rest.strip_prefix(b"/").unwrap_or(rest));
            bad.touches.push(Touched { checkpoint: checkpoint.record.id, path: name::display(inside) });
        } else {
            bad.touches_more += 1;
        }
    }

    /// Walks a checkpoint as far as something below is wrong.
    fn find_paths(&mut self, checkpoint: &Checkpoint, progress: &dyn Progress) -> Result<()> {
        for (_, id) in own_objects(checkpoint) {
            self.touch(id, checkpoint, b"");
        }
        if let Some(table) = checkpoint.record.links {
            for id in self.bad_blobs.get(&table.blob).cloned().unwrap_or_default() {
                self.touch(id, checkpoint, b"");
            }
        }
        let mut pending: Vec<(TreeId, Vec<u8>)> = vec![(checkpoint.record.root, Vec::new())];
        while let Some((id, path)) = pending.pop() {
            progress::check(progress)?;
            if !self.followed.get(&id.object().key()).is_none_or(|followed| followed.is_dirty) {
                continue;
            }
            self.touch(id.object(), checkpoint, &path);
            match self.store.view().locate(id.object()).ok().flatten().and_then(|l| self.store.block(l).ok()) {
                None => {}
                Some(block) => match tree::decode(block.object(id.object()).unwrap_or_default()) {
                    Ok(TreeNode::Inner(children)) => pending.extend(children.iter().rev().map(|c| (c.tree, path.clone()))),
                    Ok(TreeNode::Leaf(nodes)) => self.find_entries(&nodes, &path, checkpoint, &mut pending),
                    Err(_) => {}
                },
            }
        }
        Ok(())
    }

    fn find_entries(&mut self, nodes: &[Node], folder: &[u8], checkpoint: &Checkpoint, pending: &mut Vec<(TreeId, Vec<u8>)>) {
        for node in nodes {
            let path = name::join(folder, &node.name);
            match node.kind {
                Kind::Folder { tree, .. } => pending.push((tree, path)),
                Kind::File { blob, .. } => {
                    for id in self.bad_blobs.get(&blob).cloned().unwrap_or_default() {
                        self.touch(id, checkpoint, &path);
                    }
                }
                _ => {}
            }
        }
    }
}
