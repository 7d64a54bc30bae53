//! Completes a plan with everything that the walk has found.

use std::collections::HashSet;

use crate::{
    error::Result,
    links::Links,
    restore::{
        link_plan::{self, Link, LinkPlan, SplitGroup},
        table::Action,
        walk::WalkFindings,
    },
    statcache::StatCache,
    store::Store,
};

/// Joins hard links, drops folders in which nothing happens, and sums up. Returns the links, and the hard-linked files that lose names.
pub(super) fn settle(
    store: &Store,
    found: &mut WalkFindings,
    links: &Links,
    cache: Option<&StatCache>,
    delete: bool,
) -> Result<(LinkPlan, Vec<SplitGroup>)> {
    let joined = link_plan::join(store, found, cache)?;
    let parted = link_plan::parted(links, &joined);
    prune(found)?;
    mark_unfinished(found, &joined.links, delete);
    sum_up(found, &joined.links, delete);
    found.items.sort_unstable();
    Ok((joined, parted))
}

/// Drops the folders in which the patterns want nothing.
fn prune(found: &mut WalkFindings) -> Result<()> {
    let (mut in_the_way, mut busy) = (HashSet::new(), Vec::new());
    for item in &found.items {
        let line = &found.folders[item.folder as usize];
        match line.listing.as_ref().map(|listing| listing.node(item.index)).transpose()? {
            Some(node) if node.as_folder().is_some() => _ = in_the_way.insert((item.folder, item.index)),
            _ => busy.push(item.folder),
        }
    }
    for folder in busy {
        found.folders[folder as usize].wanted = true;
    }
    for folder in (1..found.folders.len()).rev() {
        let (parent, index, wanted) = (found.folders[folder].parent, found.folders[folder].index, found.folders[folder].wanted);
        if wanted {
            found.folders[parent as usize].wanted = true;
            in_the_way.remove(&(parent, index));
        }
    }
    // What is left lies in the way of folders that are not made.
    found.items.retain(|item| !in_the_way.contains(&(item.folder, item.index)));
    Ok(())
}

/// Marks the existing folders whose time will change because something in them does.
fn mark_unfinished(found: &mut WalkFindings, links: &[Link], delete: bool) {
    let changed = found.items.iter().filter(|item| item.action != Action::Meta).map(|item| item.folder);
    let removed = found.extras.iter().filter(|_| delete).map(|extra| extra.folder);
    let made = found.folders.iter().skip(1).filter(|line| line.is_new && line.wanted).map(|line| line.parent);
    let all: Vec<u32> = changed.chain(removed).chain(made).chain(links.iter().map(|link| link.folder)).collect();
    for folder in all {
        let line = &mut found.folders[folder as usize];
        line.finish |= line.selected;
    }
}

fn sum_up(found: &mut WalkFindings, links: &[Link], delete: bool) {
    let counts = &mut found.counts;
    counts.linked = links.len() as u64;
    counts.folders_created = found.folders.iter().filter(|line| line.is_new && line.wanted).count() as u64;
    counts.metadata_changed += found.folders.iter().filter(|line| line.differs).count() as u64;
    let extras: u64 = found.extras.iter().map(|extra| extra.entries).sum();
    (counts.deleted, counts.kept) = if delete { (extras, 0) } else { (0, extras) };
    // Of an entry that the patterns do not want, nothing goes.
    let made = found.items.iter().map(|item| (item.folder, item.index)).chain(links.iter().map(|link| (link.folder, link.index)));
    let made: HashSet<(u32, u32)> = made.collect();
    found.exchanged.retain(|place, _| made.contains(place));
    counts.deleted += found.exchanged.values().sum::<u64>();
}
