//! Inode numbers of hard links: all names of a group have the number of its leader.

use std::sync::{Mutex, MutexGuard, PoisonError};

use parhelia_store::{
    Result,
    links::{Links, LinksFolder, Member},
    name,
};

use crate::tree::preorder::{PreorderTree, TreeEntry};

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PreorderTree {
    fn links(&self) -> Result<&Links> {
        if let Some(links) = self.links.get() {
            return Ok(links);
        }
        let links = self.store().links(&self.checkpoint)?;
        Ok(self.links.get_or_init(|| links))
    }

    /// The folder of the table of hard links that stands for the folder at a position.
    fn linked_folder(&self, links: &Links, position: u64) -> Result<Option<LinksFolder>> {
        if let Some(known) = locked(&self.linked_folders).get(&position) {
            return Ok(*known);
        }
        let mut folder = None;
        if position == self.workspace {
            folder = links.root();
        } else if position > self.workspace
            && let Some(found) = self.locate(position)?
            && let Some(node) = found.node()
        {
            // The way to it is taken one by one, because a tree may be deeper than the stack.
            let mut names = vec![node.name.clone()];
            let mut above = found.parent;
            while above > self.workspace
                && let Some(parent) = self.locate(above)?
            {
                names.extend(parent.node().map(|node| node.name.clone()));
                above = parent.parent;
            }
            let root = links.root().filter(|_| above == self.workspace);
            folder = names.iter().rev().try_fold(root, |at, name| Some(at.and_then(|at| links.child(at, name)))).flatten();
        }
        locked(&self.linked_folders).insert(position, folder);
        Ok(folder)
    }

    /// The position of a group's leader. Those of all leaders in its folder are found with it.
    fn leader_position(&self, links: &Links, leader: Member) -> Result<Option<u64>> {
        if let Some(known) = locked(&self.leaders).get(&leader) {
            return Ok(Some(*known));
        }
        let folder = links.folder_of(leader);
        let Some(mut at) = self.locate(self.workspace)? else { return Ok(None) };
        let path = links.folder_path(folder);
        for name in name::components(&path) {
            let Some(next) = self.child(&at, name)? else { return Ok(None) };
            at = next;
        }
        let mut members = links.members(folder).peekable();
        let mut leaders = locked(&self.leaders);
        self.list(&at, 0, &mut |found| {
            let Some(node) = found.node() else { return false };
            while let Some(member) = members.next_if(|member| links.name(*member) <= node.name.as_slice()) {
                if links.name(member) == node.name && links.leader_of(member) == member {
                    leaders.insert(member, found.position);
                }
            }
            members.peek().is_some()
        })?;
        Ok(leaders.get(&leader).copied())
    }

    /// The inode number of an entry: that of its hard-link group's leader.
    pub fn inode(&self, found: &TreeEntry) -> Result<u64> {
        let mut position = found.position;
        if let Some(node) = found.node().filter(|node| node.links > 1 && node.as_folder().is_none()) {
            let links = self.links()?;
            if !links.is_empty()
                && let Some(folder) = self.linked_folder(links, found.parent)?
                && let Some(member) = links.member(folder, &node.name)
                && let leader = links.leader_of(member)
                && leader != member
                && let Some(of_leader) = self.leader_position(links, leader)?
            {
                position = of_leader;
            }
        }
        Ok(self.inode_at(position))
    }
}
