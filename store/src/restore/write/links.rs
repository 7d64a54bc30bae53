//! Makes hard links.

use std::os::fd::AsFd;

use rustix::fs::AtFlags;

use super::NO_DEVICES;
use crate::{
    errno::{self, Call, Presence, Verdict},
    error::{Result, TargetContext},
    name, progress,
    restore::{
        run::{Run, Stamps},
        table::{Item, Source, Stamp},
    },
    sys,
    tree::{Kind, Node},
};

impl Run<'_> {
    /// Joins names to the files that they are names of. A file that a filesystem cannot give another name becomes two.
    pub fn make_links(&self) -> Result<Stamps> {
        let mut done = Stamps::default();
        for link in &self.plan.links {
            progress::check(self.progress)?;
            let (from, to) = (self.plan.node(link.from_folder, link.from_index)?, self.plan.node(link.folder, link.index)?);
            if self.is_unmade(link.folder) {
                continue;
            }
            if self.is_skipped(link.from_folder, link.from_index) || self.is_unmade(link.from_folder) {
                match self.plan.options.withholds(&to) {
                    true => self.withhold_entry(link.folder, link.index, &to.name, NO_DEVICES),
                    false => {
                        self.skip_entry(link.folder, link.index, &to.name, "the file that it is a link to could not be made")
                    }
                }
                continue;
            }
            let from_now = match self.is_written(link.from_folder, link.from_index) {
                true => self.name_now(link.from_folder, link.from_index, &from.name),
                false => from.name.clone(),
            };
            let to_now = self.name_now(link.folder, link.index, &to.name);
            let made = self.dirs.get(link.from_folder).and_then(|from_folder| {
                let folder = self.dirs.get(link.folder)?;
                rustix::fs::linkat(from_folder, from_now.as_slice(), folder, to_now.as_slice(), AtFlags::empty())
            });
            match made {
                Err(e) if errno::verdict(Call::Link, e, Presence::Unknown) == Verdict::None => {
                    self.write_apart(link, &to, &mut done)?
                }
                other => {
                    let made = self.unless_held(link.folder, link.index, &to.name, other);
                    if made.at_target("link", self.path(link.folder, &to.name))?.is_none() {
                        self.discard(link.folder, &to_now);
                        continue;
                    }
                }
            }
            if let Some(guard) = self.plan.spared.guard() {
                let from = self.dirs.get(link.from_folder).and_then(|folder| sys::stat_at(folder.as_fd(), &from_now));
                from.iter().for_each(|stat| guard.touch(stat));
            }
            self.progress.advance(1, 0);
        }
        self.stamp_links(&mut done)?;
        Ok(done)
    }

    /// Writes what should be a link as a file of its own, and says so.
    fn write_apart(&self, link: &crate::restore::link_plan::Link, node: &Node, done: &mut Stamps) -> Result<()> {
        let mut item = Item {
            source: Source::Node,
            pack: u32::MAX,
            offset: 0,
            block_bytes: 0,
            folder: link.folder,
            index: link.index,
            action: link.action,
        };
        let stamp = match &node.kind {
            Kind::File { size, blob, .. } => {
                if *size > 0 {
                    (item.source, _) = crate::restore::walk::locate(self.store, &self.store.view(), *blob, *size)?;
                }
                self.write_file(&item, node, *size, *blob, &mut None)?
            }
            _ => self.make_other(&item, node)?,
        };
        if let Some(stamp) = stamp {
            done.stamps.push((link.folder, link.index, stamp));
        }
        let text = "the filesystem did not take a hard link; it is a file of its own";
        self.progress.notice(&format!("{}: {text}", name::display(&self.inside(link.folder, &node.name))));
        Ok(())
    }

    /// A link changes the time of the file: stats are taken when all links are made.
    fn stamp_links(&self, done: &mut Stamps) -> Result<()> {
        for link in &self.plan.links {
            let (from, to) = ((link.from_folder, link.from_index), (link.folder, link.index));
            for (folder, index) in [from, to] {
                let is_new = self.plan.folders[folder as usize].is_new;
                if !is_new || self.is_skipped(folder, index) || self.is_unmade(folder) {
                    continue;
                }
                let node = self.plan.node(folder, index)?;
                let stat = self.dirs.get(folder).and_then(|fd| sys::stat_at(fd.as_fd(), &node.name));
                let stat = stat.at_target("read", self.path(folder, &node.name))?;
                done.stamps.push((folder, index, Stamp::private(&stat)));
            }
        }
        Ok(())
    }

    /// True if an entry was written in this run, and not only found.
    fn is_written(&self, folder: u32, index: u32) -> bool {
        self.plan.folders[folder as usize].is_new || self.written.contains(&(folder, index))
    }
}
