//! Hard links: which names are one file in the checkpoint, and what has to be done so that they are in the target.

use std::collections::{HashMap, HashSet};

use super::{
    table::{Action, EncodedListing, Item, Source, Stamp},
    walk::{BlockedEntry, Group, LinkedEntry, WalkFindings, locate},
};
use crate::{
    error::{Error, Result},
    links::{Links, Member},
    statcache::StatCache,
    store::Store,
    tree::Kind,
};

/// A name that becomes another one of a file.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// The folder that the file is in.
    pub from_folder: u32,
    /// Number of the entry in that folder.
    pub from_index: u32,
    /// The folder of the name.
    pub folder: u32,
    /// Number of the entry in that folder.
    pub index: u32,
    /// The action: make the name, or replace what has it.
    pub action: Action,
    /// True if what is there has the same content and metadata, and only is another file.
    pub is_same: bool,
}

/// Result of joining.
#[derive(Debug, Default)]
pub struct LinkPlan {
    /// The links to make.
    pub links: Vec<Link>,
    /// The restored names that are in some group of the checkpoint.
    pub members: HashSet<Member>,
    /// Of these, the ones of groups whose live file stays, with whatever other names it has.
    pub kept: HashSet<Member>,
    /// Names that become a file of their own, as they are on another mount than those that they are linked to.
    pub apart: Vec<(u32, u32)>,
}

/// A file of which only some names are restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitGroup {
    /// The restored names; paths in the checkpoint.
    pub names: Vec<Vec<u8>>,
    /// The names that lie outside of what is restored; paths in the checkpoint.
    pub outside: Vec<Vec<u8>>,
}

fn stays(member: &LinkedEntry) -> bool {
    member.ino != 0 && matches!(member.action, None | Some(Action::Meta))
}

/// Decides for each group which name is the file and which are joined to it. A live file that names of two groups share is
/// written anew for one of them. Names on different mounts cannot be joined, even on one filesystem: on each mount they are a file of their own.
pub fn join(store: &Store, found: &mut WalkFindings, cache: Option<&StatCache>) -> Result<LinkPlan> {
    let mut linked = std::mem::take(&mut found.linked);
    linked.sort_unstable();
    let mut joining = LinkPlanner { store, cache, joined: LinkPlan::default(), owners: HashMap::new(), dropped: HashSet::new() };
    for group in linked.chunk_by(|a, b| a.group == b.group) {
        joining.joined.members.extend(group.iter().filter_map(|linked| linked.member));
        let parts = by_mount(found, group);
        if parts.len() > 1 && group.iter().any(|member| !stays(member)) {
            joining.joined.apart.extend(parts[1..].iter().filter_map(|part| part.first()).map(|m| (m.folder, m.index)));
        }
        for part in parts {
            joining.part(found, group[0].group, &part)?;
        }
    }
    for (folder, _) in &joining.joined.apart {
        ensure_listing(found, cache, *folder)?;
    }
    forget(found, &joining.dropped)?;
    Ok(joining.joined)
}

/// The names of a group, those of each mount by themselves.
fn by_mount(found: &WalkFindings, group: &[LinkedEntry]) -> Vec<Vec<LinkedEntry>> {
    let mut parts: Vec<(u64, Vec<LinkedEntry>)> = Vec::new();
    for member in group {
        let mount = found.folders[member.folder as usize].mount;
        match parts.iter_mut().find(|(known, _)| *known == mount) {
            Some((_, part)) => part.push(*member),
            None => parts.push((mount, vec![*member])),
        }
    }
    parts.into_iter().map(|(_, part)| part).collect()
}

struct LinkPlanner<'a> {
    store: &'a Store,
    cache: Option<&'a StatCache>,
    joined: LinkPlan,
    owners: HashMap<u64, Group>,
    dropped: HashSet<(u32, u32)>,
}

impl LinkPlanner<'_> {
    /// Joins the names of a group that are on one mount.
    fn part(&mut self, found: &mut WalkFindings, id: Group, part: &[LinkedEntry]) -> Result<()> {
        let (store, cache) = (self.store, self.cache);
        let live = part.iter().find(|m| stays(m) && self.owners.get(&m.ino).is_none_or(|owner| *owner == id));
        let first = live.unwrap_or(&part[0]);
        if live.is_some() {
            self.owners.insert(first.ino, id);
            self.joined.kept.extend(part.iter().filter_map(|linked| linked.member));
        } else if stays(first) && !is_blocked(found, cache, first)? {
            rewrite(store, found, cache, first)?;
        }
        for member in part.iter().filter(|m| (m.folder, m.index) != (first.folder, first.index)) {
            if live.is_some() && stays(member) && member.ino == first.ino {
                continue;
            }
            if is_blocked(found, cache, member)? {
                continue;
            }
            let action = member.action.filter(|a| *a != Action::Meta).unwrap_or(Action::Replace);
            self.dropped.insert((member.folder, member.index));
            ensure_listing(found, cache, first.folder)?;
            ensure_listing(found, cache, member.folder)?;
            self.joined.links.push(Link {
                from_folder: first.folder,
                from_index: first.index,
                folder: member.folder,
                index: member.index,
                action,
                is_same: member.ino != 0 && member.action.is_none(),
            });
        }
        Ok(())
    }
}

/// True if nobody may make an entry another file than it is; that is noted.
fn is_blocked(found: &mut WalkFindings, cache: Option<&StatCache>, member: &LinkedEntry) -> Result<bool> {
    let Some(hold) = member.held else { return Ok(false) };
    ensure_listing(found, cache, member.folder)?;
    let listing = found.folders[member.folder as usize].listing.as_ref();
    let node = listing.ok_or_else(|| Error::Invalid("an entry of no listing".into()))?.node(member.index)?;
    found.blocked.push(BlockedEntry::held(member.folder, &node.name, hold, Some(Action::Meta)));
    Ok(true)
}

/// Takes back what was to be done with entries that are joined to others instead.
fn forget(found: &mut WalkFindings, dropped: &HashSet<(u32, u32)>) -> Result<()> {
    let WalkFindings { items, folders, counts, .. } = found;
    for item in items.iter().filter(|item| dropped.contains(&(item.folder, item.index))) {
        let listing = folders[item.folder as usize].listing.as_ref();
        if let Some(node) = listing.map(|listing| listing.node(item.index)).transpose()? {
            counts.take(item.action, &node);
        }
    }
    items.retain(|item| !dropped.contains(&(item.folder, item.index)));
    Ok(())
}

/// Has an entry that fits, but shares its inode with one that it must not share it with, written anew.
fn rewrite(store: &Store, found: &mut WalkFindings, cache: Option<&StatCache>, member: &LinkedEntry) -> Result<()> {
    ensure_listing(found, cache, member.folder)?;
    let listing = found.folders[member.folder as usize].listing.as_ref();
    let node = listing.ok_or_else(|| Error::Invalid("an entry of no listing".into()))?.node(member.index)?;
    found.items.retain(|item| (item.folder, item.index) != (member.folder, member.index));
    let mut item = Item {
        source: Source::Node,
        pack: 0,
        offset: 0,
        block_bytes: 0,
        folder: member.folder,
        index: member.index,
        action: Action::Replace,
    };
    if let Kind::File { size, blob, .. } = &node.kind
        && *size > 0
    {
        let (source, location) = locate(store, &store.view(), *blob, *size)?;
        item.source = source;
        if let Some(location) = location {
            (item.pack, item.offset, item.block_bytes) =
                (found.packs.number(location.pack), location.offset, location.block_bytes);
        }
    }
    match member.action {
        Some(action) => found.counts.take(action, &node),
        None => found.counts.unchanged = found.counts.unchanged.saturating_sub(1),
    }
    found.counts.add(Action::Replace, &node);
    found.items.push(item);
    Ok(())
}

/// Gives a folder whose old section fits a listing of its own, because something in it will change.
fn ensure_listing(found: &mut WalkFindings, cache: Option<&StatCache>, folder: u32) -> Result<()> {
    let line = &mut found.folders[folder as usize];
    if line.listing.is_none() {
        let section = cache.and_then(|cache| cache.section(line.old_section));
        let section = section.ok_or_else(|| Error::Invalid("the stat cache changed during the restore; try again".into()))?;
        let stamps = section.entries.iter().map(Stamp::cached).collect();
        line.listing = Some(EncodedListing::new(section.entries.iter().map(|e| &e.node), stamps));
    }
    Ok(())
}

/// The files that are written anew by some of their names only. One whose live file stays keeps its other names.
pub fn parted(links: &Links, joined: &LinkPlan) -> Vec<SplitGroup> {
    let mut found = Vec::new();
    links.each_group(|group| {
        let (inside, outside): (Vec<Member>, Vec<Member>) = group.iter().partition(|member| joined.members.contains(member));
        if inside.is_empty() || outside.is_empty() || inside.iter().any(|member| joined.kept.contains(member)) {
            return;
        }
        let paths = |members: Vec<Member>| {
            let mut paths: Vec<Vec<u8>> = members.into_iter().map(|member| links.path(member)).collect();
            paths.sort_unstable();
            paths
        };
        found.push(SplitGroup { names: paths(inside), outside: paths(outside) });
    });
    found
}
