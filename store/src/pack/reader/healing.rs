//! Reading a pack that is damaged in places that its parity gives back. Nothing is written to the pack; `check --repair` does that.

use std::{
    cell::Cell,
    collections::BTreeMap,
    fs::File,
    io::{self, Write},
    os::unix::fs::FileExt,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU32, Ordering},
    },
};

use rustix::io::Errno;

use super::{PackFile, examined};
use crate::{
    disk,
    error::{Error, IoContext, Result},
    files::{self, How},
    healed,
    pack::{
        parity::{ParityReport, Shape, examine, section_again},
        trailer::Trailer,
    },
};

/// Bytes that are written at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// Shards of a pack that are read in place of what the disk has.
#[derive(Debug)]
pub(super) struct Overlay {
    shape: Shape,
    pub(super) trailer: Trailer,
    shards: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    /// Reads from the file, and from the shards where there are any.
    fn read_exact_at(&self, file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.parts(buffer, offset).try_for_each(|(part, at, healed)| match healed {
            Some(healed) => {
                part.copy_from_slice(healed);
                Ok(())
            }
            None => file.read_exact_at(part, at),
        })
    }

    /// Puts shards over what was read from the file.
    pub(super) fn patch(&self, buffer: &mut [u8], offset: u64) {
        for (part, _, healed) in self.parts(buffer, offset) {
            if let Some(healed) = healed {
                part.copy_from_slice(healed);
            }
        }
    }

    /// A buffer in parts of one shard each: the part, its place in the pack, and the bytes of a healed shard there.
    fn parts<'b>(&'b self, buffer: &'b mut [u8], offset: u64) -> impl Iterator<Item = (&'b mut [u8], u64, Option<&'b [u8]>)> {
        let shard_bytes = u64::from(self.shape.shard_bytes);
        let (mut rest, mut at) = (buffer, offset);
        std::iter::from_fn(move || {
            let (shard, within) = (at / shard_bytes, (at % shard_bytes) as usize);
            let now = rest.len().min(shard_bytes as usize - within);
            let (part, behind) = std::mem::take(&mut rest).split_at_mut(now);
            let place = at;
            (rest, at) = (behind, at + now as u64);
            let healed = self.shards.get(&shard).and_then(|bytes| bytes.get(within..within + now));
            (now > 0).then_some((part, place, healed))
        })
    }
}

/// The healing of one open pack.
#[derive(Debug, Default)]
pub(super) struct Healer {
    /// Counts overlays. Who read by an earlier one reads again before anything is looked for.
    generation: AtomicU32,
    overlay: RwLock<Option<Arc<Overlay>>>,
    examining: Mutex<()>,
    /// True where damage is to be told as it is.
    is_off: bool,
}

impl Healer {
    pub(super) fn off() -> Self {
        Healer { is_off: true, ..Healer::default() }
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }
}

/// True for an error that damage on the disk causes. A bad sector is an error of reading.
fn may_be_healed(error: &Error) -> bool {
    match error {
        Error::Corrupt { .. } => true,
        Error::Io { source, .. } => source.raw_os_error() == Some(Errno::IO.raw_os_error()),
        _ => false,
    }
}

/// The end of a pack that is written once more.
struct EndAsWritten {
    trailer: Trailer,
    /// Length of what is before it, in bytes.
    covered_bytes: u64,
}

impl EndAsWritten {
    /// Its bytes, for a file that has all before it.
    fn encode(&self, file: &File) -> io::Result<Vec<u8>> {
        let shape = self.trailer.parity.ok_or_else(|| io::Error::other("it has no parity"))?;
        Ok([self.trailer.encode_before_parity(), section_again(file, shape)?, self.trailer.encode()].concat())
    }
}

impl PackFile {
    pub(super) fn overlay(&self) -> Option<Arc<Overlay>> {
        match self.healing.generation() {
            0 => None,
            _ => self.healing.overlay.read().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Reads bytes of the file as they were written, as far as is known.
    pub(super) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        match self.overlay() {
            None => self.file.read_exact_at(buffer, offset),
            Some(overlay) => overlay.read_exact_at(&self.file, buffer, offset),
        }
        .inspect_err(|e| self.note_unread(e))
    }

    /// Takes note of a read that the disk refused.
    pub(super) fn note_unread(&self, error: &io::Error) {
        if error.raw_os_error() == Some(Errno::IO.raw_os_error()) {
            self.unread.store(true, Ordering::Relaxed);
        }
    }

    /// True if the disk could not read something of it so far.
    pub(crate) fn has_unread(&self) -> bool {
        self.unread.load(Ordering::Relaxed)
    }

    /// Has it be examined anew, whenever that was done.
    pub(crate) fn forget_examination(&self) {
        examined::forget(&self.file);
    }

    /// Reads, and once more if damage was met that parity gives back.
    pub(super) fn healing<T>(&self, read: impl Fn() -> Result<T>) -> Result<T> {
        let generation = self.healing.generation();
        match read() {
            Err(e) if may_be_healed(&e) && self.heal(generation) => read(),
            other => other,
        }
    }

    /// Looks for damage in the whole pack. True if something was found, since this generation, that reads differently now.
    pub(super) fn heal(&self, generation: u32) -> bool {
        let Healer { is_off, examining, generation: current, overlay } = &self.healing;
        if *is_off {
            return false;
        }
        let _examining = examining.lock().unwrap_or_else(PoisonError::into_inner);
        if current.load(Ordering::Acquire) != generation {
            return true;
        }
        let Some(found) = examined::lately(&self.file) else { return false };
        self.unread.fetch_or(found.unread, Ordering::Relaxed);
        let Some(examined) = found.examined else { return false };
        let known = self.overlay();
        let is_known = known.as_ref().map_or(examined.healed.is_empty(), |known| known.shards == examined.healed);
        let has_trailer = known.is_some() || super::scan::has_trailer(&self.file);
        let Some(shape) = examined.trailer.parity.filter(|_| !is_known || !has_trailer) else { return false };
        let next = Overlay { shape, trailer: examined.trailer, shards: examined.healed.clone() };
        *overlay.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(next));
        current.fetch_add(1, Ordering::Release);
        healed::note(&self.layout, self.id);
        true
    }

    /// True if something in it was read by its parity.
    pub(crate) fn was_healed(&self) -> bool {
        self.overlay().is_some()
    }

    /// Bytes of the pack as they were written.
    fn read_as_written(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let mut piece = vec![0; bytes as usize];
        self.read_at(&mut piece, offset).map(|()| piece)
    }

    /// Writes the whole pack as it was written to a new file, and syncs that.
    pub(crate) fn write_as_written(&self, path: &Path) -> Result<()> {
        let end = self.end_as_written()?;
        let mut file = files::open(path, How::New).at("create pack", path)?;
        let mut at = 0;
        while at < end.covered_bytes {
            let piece = self.read_as_written(at, PIECE_BYTES.min(end.covered_bytes - at))?;
            file.write_all(&piece).at("write pack", path)?;
            at += piece.len() as u64;
        }
        let rest = end.encode(&file).at("write pack", path)?;
        file.write_all(&rest).at("write pack", path)?;
        disk::sync_file(&file, "sync pack", path)
    }

    /// What follows the blocks and copies of a pack with parity. All damage is made up for from here on.
    fn end_as_written(&self) -> Result<EndAsWritten> {
        self.heal(self.healing.generation());
        let trailer = self.trailer()?;
        match trailer.parity {
            Some(shape) => Ok(EndAsWritten { trailer, covered_bytes: shape.covered_bytes }),
            None => Err(self.corrupt("pack".into(), "it has no parity")),
        }
    }

    /// Compares all of it with its checksums. `None` where it has no parity.
    pub(crate) fn examine(&self) -> Result<Option<ParityReport>> {
        examine(&self.file, &Cell::default()).at("read pack", &self.path)
    }

    /// Fails where anything is damaged in a pack with parity, whether it can be healed or not.
    pub(crate) fn check_parity(&self) -> Result<()> {
        match self.examine()? {
            Some(examined) if examined.damaged > 0 => Err(self.corrupt("pack".into(), "it is not as it was written")),
            _ => Ok(()),
        }
    }
}
