//! One entry of the checkpoint beside the live one of its name.

use std::{
    os::fd::{AsFd, BorrowedFd},
    sync::atomic::Ordering,
};

use super::{
    super::{
        compare::compare,
        entries::Entries,
        held::{Hold, HoldCause},
        remove::foresee,
        table::{Action, Folder, Item, Source, Stamp, folder_path},
    },
    BlockedEntry, Group, HOLDS_FROZEN, HOLDS_HELD, HOLDS_SPARED, Job, LinkedEntry, Outcome, Walk,
    live::Live,
    not_empty,
};
use crate::{
    clock,
    errno::{self, Call, Verdict},
    error::{Error, Result},
    filesystem::FilesystemId,
    format::SINGLE_CHUNK_BYTES,
    id::{BlobId, PackId, TreeId},
    links::Member,
    name,
    pack::Location,
    statcache::CacheEntry,
    store::Store,
    sys::Stat,
    tree::{Kind, Node},
    view::View,
};

/// An entry under comparison.
pub(super) struct Place<'a> {
    pub(super) job: &'a Job,
    pub(super) index: usize,
    pub(super) member: Option<Member>,
    pub(super) included: bool,
}

/// What is due with a folder itself.
#[derive(Clone, Copy)]
struct Change {
    /// It has to be made.
    is_new: bool,
    /// Its metadata has to be set.
    differs: bool,
}

fn plain_item(at: &Place<'_>, action: Action) -> Item {
    Item { source: Source::Node, pack: 0, offset: 0, block_bytes: 0, folder: at.job.folder, index: at.index as u32, action }
}

/// Form in which a file's content is stored, and the location of its first bytes.
pub fn locate(store: &Store, view: &View, blob: BlobId, size: u64) -> Result<(Source, Option<Location>)> {
    if size <= u64::from(store.config().chunking.bytes_max).max(SINGLE_CHUNK_BYTES as u64)
        && let Some(location) = view.locate(blob.object())?
    {
        return Ok((Source::Chunk, Some(location)));
    }
    match view.locate(store.ids().recipe_root(blob))? {
        Some(location) => Ok((Source::Recipe, Some(location))),
        // Of content that is gone, nobody can tell whether it was kept as one chunk.
        None => Err(Error::Missing { kind: "content", id: blob.to_string() }),
    }
}

impl Walk<'_> {
    pub(super) fn entry(
        &self,
        at: &Place<'_>,
        node: &Node,
        entries: &Entries,
        live: Option<&Live>,
        stat: Option<Stat>,
        out: &mut Outcome,
    ) -> Result<()> {
        self.has_matched.fetch_or(at.included, Ordering::Relaxed);
        let cached = entries.cached_at(at.index, stat.is_some(), &node.name);
        // The stat cache speaks of what is on the folder's own filesystem.
        let is_here = |stat: &Stat| live.is_some_and(|live| live.device == stat.dev);
        let known = cached.filter(|c| stat.is_some_and(|stat| is_here(&stat) && self.trust.is_unchanged(c, &stat)));
        let now = clock::now();
        let keeps = self.spared.keeps_attributes(|| name::join(&folder_path(&self.lock().folders, at.job.folder), &node.name));
        let (action, may_change_unseen) = match self.compare(node, live, (stat.as_ref(), keeps), known) {
            Ok(compared) => compared,
            Err(held) => {
                out.block(BlockedEntry::held(at.job.folder, &node.name, Hold::own(held), None));
                return Ok(());
            }
        };
        out.is_as_cached &= known.is_some();
        if let Some(stat) = &stat {
            let mut stamp = Stamp::in_place(stat, now);
            // What the cache vouches for is as certain as it was then.
            stamp.racy = known.is_none() && (stamp.racy || may_change_unseen || !is_here(stat));
            out.stamps[at.index] = stamp;
        }
        let held = live.and_then(|live| live.why_held(&node.name, stat.as_ref(), action));
        if let Some(hold) = held {
            out.blocked.push(BlockedEntry::held(at.job.folder, &node.name, hold, action));
            // What is there is not what the stat cache will call it.
            (out.stamps[at.index], out.is_as_cached) = (Stamp::default(), false);
            if node.as_folder().is_none() || action != Some(Action::Meta) {
                return Ok(());
            }
        }
        if let (Some(Action::Exchange), Some(live), Some(true)) = (action, live, stat.map(|stat| stat.is_folder()))
            && !self.may_exchange(at, node, live, out)?
        {
            return Ok(());
        }
        if let Kind::Folder { tree, .. } = &node.kind {
            let is_new = matches!(action, Some(Action::Create | Action::Exchange));
            if action == Some(Action::Exchange) {
                out.items.push((plain_item(at, Action::Exchange), None));
            }
            let section = if is_new { 0 } else { cached.map_or(0, |c| c.section) };
            let device = stat.filter(|_| !is_new).map_or(at.job.device, |stat| stat.dev);
            let differs = action == Some(Action::Meta) && held.is_none();
            let mount = live.map_or(at.job.mount, |live| live.mount);
            self.child(at, node, *tree, Change { is_new, differs }, section, (device, mount), out);
            return Ok(());
        }
        if at.member.is_some() || stat.as_ref().is_some_and(|s| s.links > 1) {
            self.linked(at, node, live, stat.as_ref(), action, out);
        }
        self.note_action(at, node, action, out)
    }

    /// Counts an entry that is no folder, and plans its action.
    fn note_action(&self, at: &Place<'_>, node: &Node, action: Option<Action>, out: &mut Outcome) -> Result<()> {
        match action {
            None => out.counts.unchanged += 1,
            Some(action) => {
                if !self.options.withholds(node) {
                    out.counts.add(action, node);
                    if let (true, Kind::File { holes, .. }) = (action != Action::Meta, &node.kind) {
                        out.hole_bytes += holes.iter().map(|hole| hole.bytes).sum::<u64>();
                    }
                }
                out.items.push(self.item(at, node, action)?);
            }
        }
        Ok(())
    }

    /// Compares an entry with the live one of its name. Returns the action that makes them equal, and true if the live file's content may
    /// change without a change of its stamps.
    fn compare(
        &self,
        node: &Node,
        live: Option<&Live>,
        (stat, keeps_attributes): (Option<&Stat>, bool),
        known: Option<&CacheEntry>,
    ) -> Result<(Option<Action>, bool), HoldCause> {
        let (Some(live), Some(stat)) = (live, stat) else { return Ok((Some(Action::Create), false)) };
        let mut may_change_unseen = false;
        let mut before_reading = |file: BorrowedFd<'_>, stat: &Stat| {
            may_change_unseen |= self.writers.may_change_unseen(file, &live.filesystem, stat);
        };
        let folder = live.fd.as_fd();
        let (ids, options) = (self.store.ids(), self.options);
        let action = match compare(ids, folder, node, options, stat, known, keeps_attributes, &mut before_reading) {
            Err(errno) if errno::verdict(Call::Read, errno, errno::presence(folder, &node.name)) == Verdict::Gone => {
                Some(Action::Create)
            }
            // A call that fails says nothing of an entry that is still found.
            Err(e) => return Err(HoldCause::unseen(e)),
            Ok(action) => action,
        };
        Ok((action, may_change_unseen))
    }

    /// Notes a name of a hard-link group, here or in the checkpoint.
    fn linked(
        &self,
        at: &Place<'_>,
        node: &Node,
        live: Option<&Live>,
        stat: Option<&Stat>,
        action: Option<Action>,
        out: &mut Outcome,
    ) {
        let (folder, index) = (at.job.folder, at.index as u32);
        let group = at.member.map_or(Group::Alone(folder, index), |member| Group::Of(self.links.leader_of(member)));
        let ino = stat.map_or(0, |s| s.ino);
        let held = live.filter(|_| action.is_none()).and_then(|live| live.why_held(&node.name, stat, Some(Action::Replace)));
        out.linked.push(LinkedEntry { group, member: at.member, folder, index, ino, action, held });
    }

    /// True if the folder that is in the place of an entry may go. What goes with it is noted.
    fn may_exchange(&self, at: &Place<'_>, node: &Node, live: &Live, out: &mut Outcome) -> Result<bool> {
        let path = name::join(&folder_path(&self.lock().folders, at.job.folder), &node.name);
        let foreseen = foresee(live.fd.as_fd(), &node.name, &path, self.spared);
        let folder = at.job.folder;
        let blocked = match (foreseen.kept, self.options.delete || foreseen.entries <= 1) {
            (true, _) => match &foreseen.held {
                None => BlockedEntry::around(folder, &node.name, format!("{HOLDS_SPARED}: {}", foreseen.stays.shown())),
                Some(held) if held.is_by_flag() => BlockedEntry::around(folder, &node.name, HOLDS_FROZEN.into()),
                Some(held) => BlockedEntry::around(folder, &node.name, format!("{HOLDS_HELD}: {}", held.reason(&path))),
            },
            (false, false) => BlockedEntry::by_folder(folder, &node.name, not_empty()),
            (false, true) => {
                out.exchanged.push(((folder, at.index as u32), foreseen.entries));
                return Ok(true);
            }
        };
        // What is there is not what the stat cache will call it.
        out.stamps[at.index] = Stamp::default();
        out.block(blocked);
        Ok(false)
    }

    #[allow(clippy::too_many_arguments)]
    fn child(
        &self,
        at: &Place<'_>,
        node: &Node,
        tree: TreeId,
        Change { is_new, differs }: Change,
        section: u64,
        (device, mount): (u64, u64),
        out: &mut Outcome,
    ) {
        let folder = Folder {
            parent: at.job.folder,
            index: at.index as u32,
            name: node.name.clone().into(),
            meta: node.meta.clone(),
            tree,
            is_new,
            selected: at.included,
            wanted: at.included,
            finish: is_new || differs && at.included,
            differs: differs && at.included,
            device,
            mount,
            old_section: section,
            children: 0..0,
            listing: None,
            stamp: None,
            filesystem: FilesystemId::default(),
        };
        let links = at.job.links.and_then(|folder| self.links.child(folder, &node.name));
        let job = Job { folder: 0, tree, links, section, live: !is_new, included: at.included, device, mount };
        out.children.push((folder, job));
    }

    /// Fails where content is known to be damaged, and still is: writing it would fail as well.
    fn ensure_readable(&self, blob: BlobId, size: u64) -> Result<()> {
        if self.damaged.is_empty() {
            return Ok(());
        }
        let content = self.store.blob(blob, size)?;
        let is_known = |id: BlobId| Ok(self.view.locate(id.object())?.is_some_and(|at| self.damaged.has(id.object(), at)));
        let known = content.runs().iter().map(|run| is_known(run.id)).collect::<Result<Vec<_>>>()?;
        match known.contains(&true) {
            true => content.read_verified(|_| Ok(())),
            false => Ok(()),
        }
    }

    fn item(&self, at: &Place<'_>, node: &Node, action: Action) -> Result<(Item, Option<PackId>)> {
        let mut item = plain_item(at, action);
        let Kind::File { size, blob, .. } = &node.kind else { return Ok((item, None)) };
        if *size == 0 || action == Action::Meta {
            return Ok((item, None));
        }
        let (source, location) = locate(self.store, &self.view, *blob, *size)?;
        self.ensure_readable(*blob, *size)
            .map_err(|e| e.at(&name::join(&folder_path(&self.lock().folders, at.job.folder), &node.name)))?;
        item.source = source;
        let Some(location) = location else { return Ok((item, None)) };
        (item.offset, item.block_bytes) = (location.offset, location.block_bytes);
        Ok((item, Some(location.pack)))
    }
}
