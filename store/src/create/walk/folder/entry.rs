//! A look at one entry of a folder.

use std::os::fd::{AsFd, BorrowedFd};

use super::{OpenFolder, Rest};
use crate::{
    create::{
        exclude::{Surroundings, Verdict},
        walk::{
            WalkState,
            file::ReadRequest,
            pending::{EntryUpdate, Folder, Slot},
        },
    },
    errno::{Presence, Recheck},
    name,
    omitted::Reason,
    secrets,
    statcache::CacheEntry,
    sys::{self, Stat},
};

/// Rules and open folder for judging and looking at entries.
pub(super) struct FolderContext<'f> {
    pub(super) folder: &'f Folder,
    pub(super) path: &'f [u8],
    pub(super) opened: &'f OpenFolder,
    pub(super) around: Surroundings<'f>,
    pub(super) needs_paths: bool,
    /// Names that never enter the store from this folder.
    pub(super) secrets: Vec<String>,
}

impl WalkState<'_, '_> {
    /// Judges an entry and looks at it. In its slot there is nothing where it is left out.
    pub(super) fn look_at(
        &self,
        looking: &FolderContext<'_>,
        entry_name: &[u8],
        old: Option<&CacheEntry>,
        slot: &mut Slot,
        recheck: &mut Recheck,
    ) -> Rest {
        let path = || name::join(looking.path, entry_name);
        let fd = &looking.opened.fd;
        let stat = match sys::stat_at(fd.as_fd(), entry_name) {
            Ok(stat) => stat,
            Err(errno) => match recheck.presence(fd.as_fd(), entry_name) {
                Presence::There(stat) => stat,
                presence => {
                    self.omit_failed(looking.folder, &path, errno, presence);
                    return Rest::Nothing;
                }
            },
        };
        if let Some(rule) = self.is_foreign(&stat) {
            self.omit(path(), Reason::Excluded(rule.into()));
            return Rest::Nothing;
        }
        if !stat.is_folder() && self.is_secret(looking, entry_name, &stat) {
            self.omit(path(), Reason::Excluded(self.walk.store.secrets().reason.clone()));
            return Rest::Nothing;
        }
        let judged_path = if looking.needs_paths || stat.is_folder() { path() } else { Vec::new() };
        let only_tracked = match self.walk.excluder.judge(&looking.around, entry_name, &judged_path, stat.is_folder()) {
            Verdict::Keep => false,
            Verdict::KeepTracked => true,
            Verdict::Exclude(rule) => {
                self.omit(path(), Reason::Excluded(rule));
                return Rest::Nothing;
            }
        };
        slot.dev = stat.dev;
        slot.elsewhere = stat.dev != looking.opened.stat.dev && !stat.is_folder() && is_mounted(fd.as_fd(), entry_name);
        if stat.is_folder() {
            return Rest::Enter { only_tracked };
        }
        let looked = &looking.opened.looked;
        if let Some(old) = old.filter(|old| !slot.elsewhere && self.is_unchanged(looked, old, &stat)) {
            slot.now = match stat.links > 1 {
                true => self.as_decided((stat.dev, stat.ino), old, looked, &path),
                false => EntryUpdate::AsBefore,
            };
            return Rest::Nothing;
        }
        if stat.is_file() {
            return Rest::Read;
        }
        let reading = ReadRequest { folder: looking.folder, fd, looked: *looked, elsewhere: slot.elsewhere, old: old.cloned() };
        slot.now = self.look(&reading, entry_name, &stat, &path, recheck).into();
        Rest::Nothing
    }

    /// Names that never enter the store from a folder, beside those that do from none.
    pub(super) fn secrets_in(&self, folder: &[u8]) -> Vec<String> {
        let secrets = self.walk.store.secrets();
        if secrets.folders.is_empty() {
            return Vec::new();
        }
        let path = self.walk.workspace.join(name::as_path(folder));
        secrets.names_in(&path, &secrets::beside(&path))
    }

    fn is_secret(&self, looking: &FolderContext<'_>, entry_name: &[u8], stat: &Stat) -> bool {
        self.walk.store.secrets().has_name(entry_name)
            || secrets::matches_one_of(&looking.secrets, entry_name)
            || self.secret_files.contains(&(stat.dev, stat.ino))
    }

    /// The reason for which an entry is not part of the workspace.
    fn is_foreign(&self, stat: &Stat) -> Option<&'static str> {
        if self.walk.forbidden.contains(&(stat.dev, stat.ino)) {
            return Some("the store itself");
        }
        if self.walk.mounted.contains(&stat.dev) {
            return Some("a mounted checkpoint");
        }
        (self.walk.excluder.rules().one_file_system && stat.dev != self.root_dev).then_some("another filesystem")
    }
}

/// True if an entry is mounted in its folder. Its device number does not tell: overlay gives its files others than its folders.
fn is_mounted(folder: BorrowedFd<'_>, entry_name: &[u8]) -> bool {
    let id = |name: &[u8]| sys::mount_id(folder, name).ok().flatten();
    id(entry_name).is_none_or(|own| id(b"") != Some(own))
}
