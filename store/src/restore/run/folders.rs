//! Makes folders, and gives them their metadata once all is in them.

use std::os::fd::AsFd;

use rustix::fs::Mode;

use super::{Run, Stamps};
use crate::{
    attributes,
    error::{Result, TargetContext},
    progress,
    restore::{
        held::{Hold, HoldCause},
        meta::{self, Current, Handle, MetaFailure},
        table::{Stamp, folder_path},
    },
    sys,
    tasks::{self, Tasks},
};

impl Run<'_> {
    /// Makes the new folders, those above first.
    pub fn make_folders(&self) -> Result<()> {
        let folders = &self.plan.folders;
        let is_top = |line: &crate::restore::table::Folder| line.is_new && line.wanted && !folders[line.parent as usize].is_new;
        let mut first: Vec<u32> = (1..folders.len() as u32).filter(|i| is_top(&folders[*i as usize])).collect();
        if folders.first().is_some_and(|top| top.is_new) {
            first.extend(folders[0].children.clone());
        }
        let new = Tasks::new(first);
        new.each(self.threads(), |folder| {
            let line = &folders[folder as usize];
            if !line.wanted {
                return Ok(());
            }
            progress::check(self.progress)?;
            let now = self.name_now(line.parent, line.index, &line.name);
            let made = self.dirs.get(line.parent).and_then(|above| {
                rustix::fs::mkdirat(&above, now.as_slice(), Mode::RWXU)?;
                match folders[line.parent as usize].is_new {
                    true => Ok(()),
                    false => meta::make_private(sys::open_folder_at(above.as_fd(), &now)?.as_fd()),
                }
            });
            let made = self.unless_held(line.parent, line.index, &line.name, made);
            if made.at_target("create folder", self.path(line.parent, &line.name))?.is_some() {
                new.add(line.children.clone().rev());
            } else {
                // It may have been made, and not been given its mode.
                self.discard(line.parent, &now);
            }
            Ok(())
        })?;
        let lost = self.lost();
        if !lost.is_nothing() {
            let _ = self.unmade.set(lost.folders);
        }
        Ok(())
    }

    /// Sets the metadata of new or of existing folders, those below first.
    pub fn finish_folders(&self, new: bool) -> Result<Stamps> {
        let folders = &self.plan.folders;
        let due = |i: &u32| {
            let line = &folders[*i as usize];
            line.finish && line.wanted && line.is_new == new && !self.is_unmade(*i)
        };
        let all: Vec<u32> = (0..folders.len() as u32).rev().filter(due).collect();
        // Whoever is not root cannot reach into a folder once its mode says so.
        let is_root = rustix::process::geteuid().is_root();
        let (open, closed): (Vec<u32>, Vec<u32>) =
            all.into_iter().partition(|i| is_root || folders[*i as usize].meta.mode & 0o700 == 0o700);
        let set = |list: &[u32], threads: usize| {
            tasks::in_order(threads, list.len(), |i, done: &mut Stamps| self.finish_folder(list[i], done))
        };
        let mut done = Stamps::sum(set(&open, self.threads())?);
        done.add(Stamps::sum(set(&closed, 1)?));
        Ok(done)
    }

    fn finish_folder(&self, folder: u32, done: &mut Stamps) -> Result<()> {
        let line = &self.plan.folders[folder as usize];
        let set = || -> rustix::io::Result<(MetaFailure, Stamp)> {
            let fd = self.dirs.get(folder)?;
            let stat = sys::stat_fd(&fd)?;
            let options = &self.plan.options;
            let wanted = options.meta_of(&line.meta);
            let keeps = self.plan.spared.keeps_attributes(|| folder_path(&self.plan.folders, folder));
            let xattrs = match line.is_new {
                true => Vec::new(),
                false => options.decided_of(attributes::of_open(fd.as_fd()), &wanted, keeps),
            };
            let current = Current { mode: stat.mode & 0o7777, uid: stat.uid, gid: stat.gid, xattrs };
            let refused = meta::apply(&Handle::Open(fd.as_fd()), &wanted, &current)?;
            let mut stamp = Stamp::private(&sys::stat_fd(&fd)?);
            stamp.racy |= !refused.is_nothing();
            Ok((refused, stamp))
        };
        let (refused, stamp) = match set() {
            // It became immutable after the plan, or the filesystem does not take such metadata. What is published already goes on in any case.
            Err(e) if !line.is_new || HoldCause::by(e).is_some() => {
                self.skip_alike(line.parent, &line.name, Hold::own(HoldCause::after(e)));
                return Ok(());
            }
            other => other.at_target("set metadata of", self.path(line.parent, &line.name))?,
        };
        self.note(line.parent, &line.name, &line.meta, &refused);
        done.folders.push((folder, stamp));
        Ok(())
    }
}
