//! Writing a stat cache: behind what there is, or anew.

use std::{
    borrow::Borrow,
    fs::File,
    io::{BufWriter, Seek, SeekFrom, Write},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

use super::{
    CacheEntry, HEADER_BYTES, Lookup, Section, StatCache, end_of, header, path_for,
    section::{self, PART_ENTRIES},
    trailer_bytes,
};
use crate::{
    clock::Clock,
    error::{IoContext, Result},
    files::{self, How},
    filesystem::FilesystemId,
    format::STAT_CACHE_MAGIC,
    id::{OpId, TreeId, Ulid},
    keys::{Part, Seal},
    layout::Layout,
};

/// Writes what has changed behind the old sections, or a new file beside the old one. Until [`Writer::finish`], the old cache holds.
pub struct Writer {
    path: PathBuf,
    /// The new file; none where the old one is continued.
    pub(super) temporary: Option<PathBuf>,
    out: BufWriter<File>,
    begin: u64,
    pub(super) end: u64,
    /// True if the old sections are kept, so that their offsets still hold.
    pub keeps_old: bool,
    appended: u64,
    used_before: u64,
    is_finished: bool,
    seal: Seal,
}

impl Writer {
    /// Starts the next cache of a workspace, as a continuation of `old` where that is worth it and nobody else is at it.
    pub fn create(layout: &Layout, workspace: &Path, old: Option<&StatCache>) -> Result<Self> {
        let path = path_for(layout, workspace);
        let kept = old.filter(|old| old.end <= 2 * old.trailer.used_bytes + (1 << 20));
        let (temporary, file, begin) = match kept.and_then(|old| continued(&path, old)) {
            Some((file, begin)) => (None, file, begin),
            None => {
                let temporary = path.with_extension(format!("{}.tmp", OpId::generate()));
                let mut file = files::open(&temporary, How::New).at("create stat cache", &temporary)?;
                file.write_all(&[0; HEADER_BYTES]).at("write stat cache", &temporary)?;
                (Some(temporary), file, HEADER_BYTES as u64)
            }
        };
        let kept = kept.filter(|_| temporary.is_none());
        Ok(Writer {
            path,
            temporary,
            out: BufWriter::with_capacity(256 << 10, file),
            begin,
            end: begin,
            keeps_old: kept.is_some(),
            appended: 0,
            used_before: kept.map_or(0, |old| old.trailer.used_bytes),
            is_finished: false,
            seal: layout.keys.seal.clone(),
        })
    }

    /// Appends a section and says where it begins.
    pub fn append(&mut self, section: &Section) -> Result<u64> {
        self.append_entries(section.tree, section.filesystem, &section.entries, None)
    }

    /// As [`Writer::append`], for a folder of this tree, on this filesystem, and these entries. `old` is what the continued cache has of
    /// the folder, and where: few changes cost what they are.
    pub fn append_entries<T: Borrow<CacheEntry>>(
        &mut self,
        tree: TreeId,
        filesystem: FilesystemId,
        entries: &[T],
        old: Option<(u64, &Section)>,
    ) -> Result<u64> {
        let offset = self.end;
        let old = old.filter(|(at, old)| self.keeps_old && *at != 0 && old.filesystem == filesystem);
        if let Some(patch) = old.and_then(|old| section::patch(self.out.get_ref(), old, tree, filesystem, entries, &self.seal)) {
            self.write(&patch)?;
            return Ok(offset);
        }
        let mut rest = entries;
        loop {
            let (part, behind) = rest.split_at(rest.len().min(PART_ENTRIES));
            self.write(&section::part(tree, filesystem, part, !behind.is_empty(), &self.seal))?;
            if behind.is_empty() {
                return Ok(offset);
            }
            rest = behind;
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).at("write stat cache", self.written())?;
        self.end += bytes.len() as u64;
        self.appended += bytes.len() as u64;
        Ok(())
    }

    fn written(&self) -> &Path {
        self.temporary.as_ref().unwrap_or(&self.path)
    }

    /// Finds what has been written so far, below the folder whose section begins at `root_section`.
    pub fn lookup(&mut self, root_section: u64) -> Option<Lookup> {
        self.out.flush().ok()?;
        Some(Lookup::new(self.out.get_ref().try_clone().ok()?, self.end, self.seal.clone(), root_section))
    }

    /// Completes the cache; a new one is put in the old one's place. It is not synced: a torn one does not decode. `written` are the
    /// clocks before anything was looked at.
    pub fn finish(mut self, root_section: u64, base: Ulid, root: TreeId, written: &Clock, read_all_at_secs: i64) -> Result<()> {
        let mut body = root_section.to_le_bytes().to_vec();
        // Each appended section stands for one that was in use, but for new folders and patches, so the old figure is close enough.
        let used = if self.keeps_old { self.used_before.max(self.appended) } else { self.appended };
        body.extend_from_slice(&used.to_le_bytes());
        body.extend_from_slice(&base.to_bytes());
        body.extend_from_slice(&root.0);
        written.encode(&mut body);
        body.extend_from_slice(&read_all_at_secs.to_le_bytes());
        let mut out = [&STAT_CACHE_MAGIC[..], &self.seal.seal(Part::Cache, body)].concat();
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        let file = self.written().to_owned();
        self.out.write_all(&out).and_then(|()| self.out.flush()).at("write stat cache", &file)?;
        // From here on, whoever opens the file finds the new trailer.
        self.out.get_ref().write_all_at(&header(self.end), 0).at("write stat cache", &file)?;
        self.is_finished = true;
        match &self.temporary {
            Some(temporary) => files::rename(temporary, &self.path).at("replace stat cache", &self.path),
            None => Ok(()),
        }
    }
}

/// The old cache's file, to be continued behind its trailer, which holds until there is a new one. None where another process continues it
/// just now, or has done so since it was opened.
fn continued(path: &Path, old: &StatCache) -> Option<(File, u64)> {
    let mut file = files::open(path, How::Write).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let (now, then) = (file.metadata().ok()?, old.file.metadata().ok()?);
    if (now.dev(), now.ino()) != (then.dev(), then.ino()) || end_of(&file) != Some(old.end) {
        return None;
    }
    let begin = old.end + trailer_bytes(&old.seal) as u64;
    // What somebody has left behind who died.
    file.set_len(begin).ok()?;
    file.seek(SeekFrom::Start(begin)).ok()?;
    Some((file, begin))
}

impl Drop for Writer {
    fn drop(&mut self) {
        match &self.temporary {
            // After `finish` the name is gone already.
            Some(temporary) => drop(files::remove(temporary)),
            None if self.is_finished => {}
            None => {
                // Nothing that is still in the buffer may be written behind the cut.
                let _ = self.out.flush();
                let _ = self.out.get_ref().set_len(self.begin);
            }
        }
    }
}
