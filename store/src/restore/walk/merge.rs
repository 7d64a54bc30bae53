//! A folder of the checkpoint beside the live one.

use std::{os::fd::AsFd, sync::atomic::Ordering};

use super::{
    Job, Outcome, Walk,
    entry::Place,
    found::{BlockedEntry, Extra, KeptEntry},
    live::Live,
};
use crate::{
    errno::{self, Presence},
    error::Result,
    name,
    restore::{
        entries::Entries,
        held::{Hold, HoldCause},
        remove::foresee,
        table::Stamp,
    },
    sys::{self, Stat},
};

impl Walk<'_> {
    pub(super) fn merge(
        &self,
        job: &Job,
        entries: &Entries,
        mut live: Option<&mut Live>,
        path: &dyn Fn() -> Vec<u8>,
    ) -> Result<Outcome> {
        let mut out = Outcome { is_as_cached: entries.loaded.is_none(), ..Outcome::default() };
        // Where this machine's clock does not stamp, nothing can be vouched for yet.
        let stamped_here = live.as_ref().filter(|live| live.filesystem.is_stamped_here);
        out.filesystem = stamped_here.map(|live| live.filesystem.id).unwrap_or_default();
        out.mount = live.as_ref().map_or(job.mount, |live| live.mount);
        let base = if self.filter.is_all() { Vec::new() } else { path() };
        for index in 0..entries.len() {
            let node = entries.node(index);
            let seen = match live.as_deref_mut() {
                Some(live) => self.advance(job, live, &node.name, &mut out, path)?,
                None => Ok(None),
            };
            let stat = seen.unwrap_or(None);
            let full = if self.filter.is_all() { Vec::new() } else { name::join(&base, &node.name) };
            let is_folder = node.as_folder().is_some();
            let included = self.filter.includes(&full, is_folder, job.included);
            let wanted = included || is_folder && self.filter.has_include();
            out.stamps.push(Stamp::default());
            let is_untouched = stat.is_some() && self.spared.covers_name(&node.name);
            if !wanted || is_untouched || self.filter.excludes(&full, is_folder) {
                continue;
            }
            if stat.is_some_and(|stat| self.spared.is_store(&stat)) {
                let path = name::display(&name::join(&path(), &node.name));
                self.progress.notice(&format!("{path}: the store itself is there; it is left as it is"));
                out.counts.spared += 1;
                out.is_as_cached = false;
                continue;
            }
            let member = match job.links {
                Some(folder) if node.links > 1 => self.links.member(folder, &node.name),
                _ => None,
            };
            if let Err(held) = seen {
                self.has_matched.fetch_or(included, Ordering::Relaxed);
                out.block(BlockedEntry::held(job.folder, &node.name, Hold::own(held), None));
                continue;
            }
            let at = Place { job, index, member, included };
            self.entry(&at, node, entries, live.as_deref(), stat, &mut out)?;
        }
        if let Some(live) = live {
            let left = live.names.len() - live.next;
            if entries.len() == 0 && job.folder != 0 && left > 0 && sys::is_mount_root(live.fd.as_fd()) {
                // When it was captured, nothing was mounted there.
                let path = name::display(&path());
                self.progress.notice(&format!(
                    "{path}: something is mounted there, and the checkpoint has an empty folder; it is left as it is"
                ));
                out.counts.mounted += 1;
                return Ok(out);
            }
            while let Some(name) = live.names.get_mut(live.next).map(std::mem::take) {
                live.next += 1;
                self.extra(job, live, name, &mut out, path)?;
            }
        }
        Ok(out)
    }

    /// Takes the live names up to `name` as extras, and stats `name` if it is there; or tells why it cannot be looked at.
    pub(super) fn advance(
        &self,
        job: &Job,
        live: &mut Live,
        name: &[u8],
        out: &mut Outcome,
        path: &dyn Fn() -> Vec<u8>,
    ) -> Result<Result<Option<Stat>, HoldCause>> {
        while let Some(next) = live.names.get_mut(live.next) {
            match next.as_slice().cmp(name) {
                std::cmp::Ordering::Greater => return Ok(Ok(None)),
                order => {
                    let next = std::mem::take(next);
                    live.next += 1;
                    if order.is_lt() {
                        self.extra(job, live, next, out, path)?;
                        continue;
                    }
                    let folder = live.fd.as_fd();
                    return Ok(match sys::stat_at(folder, name).map_err(|errno| (errno, errno::presence(folder, name))) {
                        Ok(stat) | Err((_, Presence::There(stat))) => Ok(Some(stat)),
                        Err((_, Presence::Gone | Presence::FolderGone)) => Ok(None),
                        Err((errno, Presence::Unknown)) => Err(HoldCause::unseen(errno)),
                    });
                }
            }
        }
        Ok(Ok(None))
    }

    fn extra(&self, job: &Job, live: &Live, name: Vec<u8>, out: &mut Outcome, path: &dyn Fn() -> Vec<u8>) -> Result<()> {
        let full = name::join(&path(), &name);
        if self.spared.is_being_built(live.fd.as_fd(), &name) {
            return Ok(());
        }
        if self.spared.covers(&full) || self.spared.covers_name(&name) {
            out.counts.spared += 1;
            return Ok(());
        }
        if !self.filter.is_all() {
            let is_folder = sys::stat_at(live.fd.as_fd(), &name).is_ok_and(|stat| stat.is_folder());
            if self.filter.excludes(&full, is_folder) || !self.filter.includes(&full, is_folder, job.included) {
                return Ok(());
            }
        }
        let foreseen = foresee(live.fd.as_fd(), &name, &full, self.spared);
        out.counts.spared += foreseen.stays.spared;
        out.counts.mounted += foreseen.stays.mounted;
        if let Some(reason) = foreseen.stays.reason(&full).filter(|_| self.options.delete) {
            out.kept.push(KeptEntry { folder: job.folder, name: name.clone().into(), reason, is_part: foreseen.entries > 0 });
        }
        if let Some(held) = foreseen.held.as_ref().filter(|_| self.options.delete) {
            out.blocked.push(BlockedEntry::around(job.folder, &name, held.reason(&full)));
            if foreseen.entries == 0 {
                self.has_matched.store(true, Ordering::Relaxed);
                return Ok(());
            }
        }
        if foreseen.entries == 0 {
            return Ok(());
        }
        self.has_matched.fetch_or(self.options.delete, Ordering::Relaxed);
        out.extras.push(Extra { folder: job.folder, name: name.into(), entries: foreseen.entries, stays: foreseen.kept });
        Ok(())
    }
}
