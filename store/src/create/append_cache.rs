//! Files beside a workspace. What was captured of one before is not read again: its chunks and the state of its hash are kept in a small
//! file beside the stat caches.
//!
//! One that may be written anew is taken for what it was while its times say so. That one that only grows, such as a transcript, still
//! begins with what it held is taken from its inode and from looking at its first chunk, at the last ones, and at two others that differ
//! from time to time. Whoever rewrites a file in place, at least as long as before and equal in all of these, is
//! found out later or not at all; the agents whose transcripts these are append, or write another file.

use std::{
    fs::File,
    io::Write,
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, fs::FileExt},
    },
    path::{Path, PathBuf},
};

use rustix::io::Errno;

use super::{
    content::{Earlier, Failure, Reader},
    running::{Groups, RunningHash},
    sink::Batch,
};
use crate::{
    clock::{self, Clock},
    codec::{DecodeError, Decoder, put_uint},
    files::{self, How},
    filesystem::{Filesystem, FilesystemId},
    format::{GROWN_MAGIC, SINGLE_CHUNK_BYTES},
    id::{BlobId, OpId, Ulid},
    keys::{Ids, Part},
    layout::Layout,
    recipe::ChunkRun,
    sys::Stat,
    tree::Time,
};

/// Chunks besides the first and the last ones that are looked at again each time.
const PROBES: usize = 2;

/// Knowledge of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppendCache {
    inode: u64,
    bytes: u64,
    /// Its stamps; none where it could change without looking otherwise, and for files that only grow.
    settled: Option<FileStamp>,
    groups: Groups,
    runs: Vec<ChunkRun>,
}

/// By what a file is known that did not change.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileStamp {
    changed: Time,
    filesystem: FilesystemId,
    read: Clock,
}

impl AppendCache {
    /// Path of a file's append cache, by the file's path.
    pub fn path(layout: &Layout, file: &Path) -> PathBuf {
        layout.cache().join(format!("{}.grown", layout.keys.ids.name(file.as_os_str().as_bytes())))
    }

    /// Knowledge of a file, and the checkpoint that holds its chunks. `None` where there is none, or it does not decode.
    pub fn read(layout: &Layout, file: &Path) -> Option<(Ulid, Self)> {
        let opened = files::open(&Self::path(layout, file), How::Read).ok()?;
        let bytes = files::read_all(&opened, opened.metadata().ok()?.len()).ok()?;
        let (told, crc) = bytes.split_last_chunk::<4>()?;
        let body = told.strip_prefix(&GROWN_MAGIC)?;
        if crc32c::crc32c(told) != u32::from_le_bytes(*crc) {
            return None;
        }
        Self::decode(&layout.keys.seal.open(Part::Cache, body).ok()?).ok()
    }

    fn decode(body: &[u8]) -> Result<(Ulid, Self), DecodeError> {
        let mut d = Decoder::new(body);
        let base = Ulid::from_bytes(d.array("checkpoint")?);
        let (inode, bytes) = (d.uint("inode")?, d.uint("length")?);
        let settled = match d.byte("change")? {
            0 => None,
            _ => Some(FileStamp {
                changed: Time { secs: d.uint("change")? as i64, nanos: d.uint32("change")? },
                filesystem: FilesystemId(d.array("filesystem")?),
                read: Clock::decode(&mut d)?,
            }),
        };
        let count = d.uint("groups")?;
        let nodes = (0..count.count_ones()).map(|_| d.array("node")).collect::<Result<Vec<_>, _>>()?;
        let runs = (0..d.count(34, "chunks")?)
            .map(|_| Ok(ChunkRun { bytes: d.uint32("chunk")?, repeat: d.uint32("repeat")?, id: BlobId(d.array("chunk")?) }))
            .collect::<Result<Vec<_>, DecodeError>>()?;
        d.finish("chunks")?;
        let grown = AppendCache { inode, bytes, settled, groups: Groups { count, nodes }, runs };
        let total = grown.runs.iter().try_fold(0u64, |sum, run| sum.checked_add(run.run_bytes()));
        let is_sound = total == Some(bytes) && grown.groups.is_sound() && grown.groups.bytes() < bytes.max(1);
        if is_sound { Ok((base, grown)) } else { Err(DecodeError("lengths")) }
    }

    /// Keeps it, tied to the checkpoint that holds the chunks. It is not synced: a torn one does not decode.
    pub fn write(&self, layout: &Layout, file: &Path, base: Ulid) -> std::io::Result<()> {
        let mut out = base.to_bytes().to_vec();
        put_uint(&mut out, self.inode);
        put_uint(&mut out, self.bytes);
        out.push(u8::from(self.settled.is_some()));
        if let Some(settled) = &self.settled {
            put_uint(&mut out, settled.changed.secs as u64);
            put_uint(&mut out, u64::from(settled.changed.nanos));
            out.extend_from_slice(&settled.filesystem.0);
            settled.read.encode(&mut out);
        }
        put_uint(&mut out, self.groups.count);
        self.groups.nodes.iter().for_each(|node| out.extend_from_slice(node));
        put_uint(&mut out, self.runs.len() as u64);
        for run in &self.runs {
            put_uint(&mut out, u64::from(run.bytes));
            put_uint(&mut out, u64::from(run.repeat));
            out.extend_from_slice(&run.id.0);
        }
        let mut out = [&GROWN_MAGIC[..], &layout.keys.seal.seal(Part::Cache, out)].concat();
        out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        let path = Self::path(layout, file);
        let temporary = path.with_extension(format!("{}.tmp", OpId::generate()));
        let mut to = files::open(&temporary, How::New)?;
        let written = to.write_all(&out).and_then(|()| files::rename(&temporary, &path));
        if written.is_err() {
            let _ = files::remove(&temporary);
        }
        written
    }

    /// True if the file is as it was read, by its stamps.
    pub fn is_unchanged(&self, filesystem: &Filesystem, stat: &Stat, now: &Clock) -> bool {
        self.settled.as_ref().is_some_and(|settled| {
            let given_twice = settled.read.set_back_to(now).is_some_and(|earliest| clock::is_racy(stat.ctime, earliest));
            settled.filesystem.is_same(filesystem.id)
                && !given_twice
                && settled.changed == stat.ctime
                && (self.inode, self.bytes) == (stat.ino, stat.size)
        })
    }

    /// The knowledge of a file that looked like this before it was read whole, from `began` on, and that nobody had open for writing.
    pub fn settled(self, filesystem: &Filesystem, stat: &Stat, began: Clock) -> Self {
        let tells = filesystem.is_stamped_here && !clock::is_racy(stat.ctime, began.time);
        let settled = tells.then_some(FileStamp { changed: stat.ctime, filesystem: filesystem.id, read: began });
        AppendCache { settled, ..self }
    }

    /// Offset of each run.
    fn starts(&self) -> Vec<u64> {
        let runs = self.runs.iter();
        runs.scan(0, |end, run| {
            Some({
                let start = *end;
                *end += run.run_bytes();
                start
            })
        })
        .collect()
    }

    /// True if the file still holds what it held, as far as a look at some of it can tell: everything from the run `from` on, the first
    /// run and some others.
    fn is_still_there(&self, ids: &Ids, file: &File, starts: &[u64], from: usize) -> Result<bool, Errno> {
        let choice = self.bytes as usize;
        let probes = (1..=PROBES).map(|i| choice.wrapping_mul(i * 2 + 1) % self.runs.len().max(1));
        let looked = [0].into_iter().chain(probes).filter(|i| *i < from).chain(from..self.runs.len());
        let mut buffer = Vec::new();
        for i in looked.filter(|i| *i < self.runs.len()) {
            let run = self.runs[i];
            buffer.resize(run.bytes as usize, 0);
            for n in 0..u64::from(run.repeat) {
                match file.read_exact_at(&mut buffer, starts[i] + n * u64::from(run.bytes)) {
                    Ok(()) if ids.blob(&buffer) == run.id => {}
                    Ok(()) => return Ok(false),
                    Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(false),
                    Err(e) => return Err(Errno::from_io_error(&e).unwrap_or(Errno::IO)),
                }
            }
        }
        Ok(true)
    }
}

/// Content that was read of a file that grows.
pub struct AppendedContent {
    /// Its first bytes, as many as were asked for.
    pub blob: BlobId,
    /// Bytes of them that were read now.
    pub bytes_read: u64,
    /// Knowledge to keep for the next time.
    pub grown: AppendCache,
}

/// Reads the first `end` bytes of a file into the sink, as far as they are not known. `before` is what is known; its chunks are in the
/// store, but for what a repair did not find, and stay there for as long as the caller's pin. `earlier` is what stood in the file's place in
/// the checkpoint before.
pub fn read(
    reader: &mut Reader<'_>,
    batch: &mut Batch<'_>,
    file: &File,
    end: u64,
    before: Option<AppendCache>,
    name: &[u8],
    earlier: &Earlier<'_>,
) -> Result<AppendedContent, Failure> {
    let inode = crate::sys::stat_fd(file)?.ino;
    if end as usize <= SINGLE_CHUNK_BYTES {
        return read_short(reader.ids(), batch, file, inode, end, name, earlier);
    }
    let mut runs = Vec::new();
    let (mut at, mut groups, mut known) = (0, Groups::default(), Vec::new());
    if let Some(before) = before.filter(|before| before.inode == inode && before.bytes <= end && !before.runs.is_empty()) {
        let starts = before.starts();
        // The last chunk ended with the file, and is cut anew.
        let hashed = starts.partition_point(|start| *start <= before.groups.bytes()) - 1;
        let from = hashed.min(before.runs.len() - 1);
        // What is not read again is not stored again either: what was lost of it has to be noticed here.
        let lost = batch.lost(&before.runs)?;
        if before.is_still_there(reader.ids(), file, &starts, from)? && reader.put_back(file.as_fd(), &lost, batch)? {
            at = starts.get(from).copied().unwrap_or(before.bytes);
            runs = before.runs[..from].to_vec();
            known = before.runs[from..].to_vec();
            groups = before.groups;
        }
    }
    let hash = RunningHash::resume(reader.ids(), groups.clone(), groups.bytes() - at.min(groups.bytes()));
    let (hash, read, bytes_read) = reader.read_cut(file.as_fd(), (at, end - at), known, hash, batch)?;
    if bytes_read != end - at {
        // It became shorter while it was read.
        return Err(Failure::Unreadable(Errno::AGAIN));
    }
    // Equal chunks in a row are one run, also where they were read at different times.
    let mut read = read.into_iter();
    if let (Some(last), Some(first)) = (runs.last_mut(), read.as_slice().first())
        && (last.id, last.bytes) == (first.id, first.bytes)
        && let Some(repeat) = last.repeat.checked_add(first.repeat)
    {
        last.repeat = repeat;
        read.next();
    }
    runs.extend(read);
    let (blob, groups) = hash.finish();
    batch.recipe(blob, &runs, earlier.blob())?;
    Ok(AppendedContent { blob, bytes_read, grown: AppendCache { inode, bytes: end, settled: None, groups, runs } })
}

fn read_short(
    ids: &Ids,
    batch: &mut Batch<'_>,
    file: &File,
    inode: u64,
    end: u64,
    name: &[u8],
    earlier: &Earlier<'_>,
) -> Result<AppendedContent, Failure> {
    let mut bytes = vec![0; end as usize];
    file.read_exact_at(&mut bytes, 0).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::AGAIN))?;
    let blob = ids.blob(&bytes);
    let mut runs = Vec::new();
    if end > 0 {
        batch.small_chunk(blob.object(), &bytes, name, earlier.small())?;
        runs.push(ChunkRun { id: blob, bytes: end as u32, repeat: 1 });
    }
    Ok(AppendedContent {
        blob,
        bytes_read: end,
        grown: AppendCache { inode, bytes: end, settled: None, groups: Groups::default(), runs },
    })
}

#[cfg(test)]
mod tests;
