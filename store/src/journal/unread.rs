//! Segments that the disk cannot read all of. What fails now may be read later, so they are looked at twice, and their files are kept under names
//! that nothing else takes.

use parhelia_name::step::Step;
use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use super::{Journal, Tail, around::Segment};
use crate::{
    disk, errno,
    error::{Error, IoContext, Result},
    files::{self, Folder},
    layout::UNREADABLE,
};

/// Time between the two looks: a disk whose link was reset is there again by then.
const PAUSE: Duration = Duration::from_secs(3);
/// The ending of what is about to take a segment's place where a file cannot have two names.
const MENDED: &str = "mended";

impl Segment {
    /// Takes what another look could read.
    fn fill(&mut self, other: &Segment) {
        self.unread.retain(|part| {
            let is_unread = other.unread.contains(part);
            if let (false, Some(from), Some(to)) = (is_unread, other.bytes.get(part.clone()), self.bytes.get_mut(part.clone())) {
                to.copy_from_slice(from);
            }
            is_unread
        });
    }

    fn is_all_unread(&self) -> bool {
        let unread: usize = self.unread.iter().map(ExactSizeIterator::len).sum();
        unread > 0 && unread == self.bytes.len()
    }
}

impl Journal {
    /// The segments of which the disk cannot read all, also some seconds later, as far as one of both looks could. Fails where it can read nothing
    /// of one: nothing tells that from a disk that is away for a while.
    pub(crate) fn ensure_readable(&self) -> Result<()> {
        self.unread().map(drop)
    }

    fn unread(&self) -> Result<Vec<(u64, Segment)>> {
        let before = self.unread_now()?;
        if before.is_empty() {
            return Ok(before);
        }
        thread::sleep(PAUSE);
        let mut unread = self.unread_now()?;
        for (first, segment) in &mut unread {
            // All of it was read the first time.
            let Some((_, other)) = before.iter().find(|(number, _)| number == first) else {
                return Err(self.unread_for_now(*first));
            };
            segment.fill(other);
            if segment.is_all_unread() {
                let text = format!(
                    "the disk reads nothing of it; it may be whole, so nothing was mended: see that it can be read, and try again. If that cannot be, \
                     {} makes a new store of what the packs hold",
                    Step::Salvage
                );
                return Err(self.unread_because(*first, &text));
            }
        }
        Ok(unread)
    }

    /// The error of a segment of which the disk reads less than a moment ago.
    pub(super) fn unread_for_now(&self, first: u64) -> Error {
        let text = "the disk reads less of it than a moment ago; it may be whole, so it was not mended: see that it can be read, and try again";
        self.unread_because(first, text)
    }

    fn unread_because(&self, first: u64, text: &str) -> Error {
        Error::Io { action: "read journal", path: self.segment_path(first), source: io::Error::other(text) }
    }

    /// The bytes of a segment, as far as records may stand in it, and its length. Fails where the disk cannot read all of it.
    pub(super) fn readable_segment(&self, first: u64) -> Result<(Vec<u8>, u64)> {
        let Segment { bytes, length, unread } = self.segment_around(first)?;
        if unread.is_empty() { Ok((bytes, length)) } else { Err(self.unread_for_now(first)) }
    }

    /// The bytes behind the last record.
    pub(crate) fn torn(&self, tail: &Tail) -> Result<Vec<u8>> {
        let (mut bytes, _) = self.readable_segment(tail.end.segment)?;
        Ok(bytes.split_off(bytes.len().min(usize::try_from(tail.end.offset).unwrap_or(usize::MAX))))
    }

    fn unread_now(&self) -> Result<Vec<(u64, Segment)>> {
        let segments = self.segments()?.into_iter().map(|first| Ok((first, self.segment_around(first)?)));
        segments.filter(|read| read.as_ref().map_or(true, |(_, segment)| !segment.unread.is_empty())).collect()
    }

    /// Has zeros stand where the disk cannot read: what it may read later must not come between what is mended. The file as it was is kept.
    pub(super) fn make_readable(&self) -> Result<()> {
        self.finish_replacing()?;
        for (first, segment) in self.unread()? {
            self.replace_unread(&self.segment_path(first), &segment.bytes)?;
        }
        Ok(())
    }

    fn replace_unread(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let write = |path: &Path| {
            let name = path.file_name().unwrap_or(OsStr::new(""));
            Folder::below(&self.folder).and_then(|folder| folder.write_synced(name, bytes, false)).at("write", path)
        };
        let (aside, new) = (path.with_extension(UNREADABLE), path.with_extension(MENDED));
        match files::link_aside(path, &aside) {
            Err(e) if errno::has_no_links(&e) => {}
            linked => {
                linked.at("set aside", path)?;
                // A power cut must not keep the other file's name and lose this one's.
                disk::sync_folder(&self.folder)?;
                return write(path);
            }
        }
        write(&new)?;
        let kept = files::rename_aside(path, &aside).at("set aside", path)?;
        if let Err(e) = files::rename(&new, path) {
            let _ = files::rename(&kept, path);
            return Err(e).at("rename into place", path);
        }
        disk::sync_folder(&self.folder)
    }

    /// True if an earlier try ended before what it wrote took its place: a segment has no file then.
    pub(crate) fn is_half_replaced(&self) -> Result<bool> {
        Ok(self.replacements()?.iter().any(|new| !new.with_extension("log").exists()))
    }

    fn replacements(&self) -> Result<Vec<PathBuf>> {
        let files = files::list(&self.folder).at("read folder", &self.folder)?;
        Ok(files.into_iter().filter(|file| file.extension().is_some_and(|ending| ending == MENDED)).collect())
    }

    /// Has what an earlier try wrote take its place, if it ended before it could; what it wrote for a segment that still has its file goes.
    fn finish_replacing(&self) -> Result<()> {
        for new in self.replacements()? {
            let path = new.with_extension("log");
            match path.exists() {
                true => files::remove(&new).at("remove", &new)?,
                false => files::rename(&new, &path).at("rename into place", &path)?,
            }
        }
        Ok(())
    }
}
