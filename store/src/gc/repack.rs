//! Copying what lives out of packs that are mostly dead, and out of small ones, into new packs.

mod rebase;
mod window;

use std::{fs::File, io, sync::Arc};

use self::window::Window;
use super::{Choice, survey::Survey};
use crate::{
    disk,
    error::{Error, IoContext, Result},
    files,
    format::{DATA_BLOCK_BYTES, META_BLOCK_BYTES, PACK_BYTES},
    id::{ObjectId, OpId, PackId},
    layout::Layout,
    pack::{Block, BlockBuilder, Directory, Entry, Location, ObjectKind, PackFile, PackInfo, PackWriter},
    progress::{self, Phase, Progress},
    store::Store,
};

/// Packs that this run writes. Their files go again unless they are kept.
pub(crate) struct NewPacks<'n> {
    layout: Layout,
    op: OpId,
    /// The number of the operation's next pack.
    number: &'n mut u32,
    started: Vec<PackId>,
    finished: Vec<(PackInfo, File)>,
    level: i32,
}

impl<'n> NewPacks<'n> {
    pub(crate) fn new(store: &Store, op: OpId, number: &'n mut u32) -> Self {
        let level = store.config().compression_level;
        NewPacks { layout: store.layout().clone(), op, number, started: Vec::new(), finished: Vec::new(), level }
    }

    fn start(&mut self) -> Result<PackWriter> {
        let id = PackId::new(self.op, *self.number);
        *self.number += 1;
        self.started.push(id);
        PackWriter::create(&self.layout, id)
    }

    /// Removes what was written so far.
    pub(super) fn discard(&mut self) {
        self.finished.clear();
        for id in self.started.drain(..) {
            let _ = files::remove(&self.layout.pack(id));
        }
    }

    /// The packs that were written and synced.
    pub(crate) fn infos(&self) -> Vec<PackInfo> {
        self.finished.iter().map(|(info, _)| info.clone()).collect()
    }

    /// True if the packs have fewer bytes than this.
    pub(super) fn is_smaller_than(&self, bytes: u64) -> bool {
        self.bytes() < bytes
    }

    fn bytes(&self) -> u64 {
        self.finished.iter().map(|(info, _)| info.bytes).sum()
    }

    /// From here on the journal knows the packs, or may.
    pub(crate) fn keep(&mut self) {
        self.started.clear();
    }

    /// Syncs what was written.
    pub(crate) fn sync(&mut self) -> Result<()> {
        for (info, file) in &self.finished {
            let path = self.layout.pack(info.id);
            disk::sync_file(file, "sync pack", &path)?;
        }
        if self.finished.is_empty() { Ok(()) } else { disk::sync_folder(&self.layout.packs()) }
    }
}

impl Drop for NewPacks<'_> {
    fn drop(&mut self) {
        self.discard();
    }
}

/// Copies what lives in the packs of a choice that are to be copied into new packs, and syncs them. A pack that turns out to be damaged is taken out
/// of the choice.
pub(super) fn copy(
    store: &Store,
    survey: &mut Survey<'_>,
    choice: &mut Choice,
    added: &mut NewPacks<'_>,
    progress: &dyn Progress,
) -> Result<()> {
    let freed_bytes = survey.freed_by_new_bases(choice);
    let packs = &mut choice.repack;
    if packs.is_empty() {
        return Ok(());
    }
    let chosen: Vec<(usize, PackId, u64, u64)> = {
        let chosen = survey.packs.iter().enumerate().filter(|(_, pack)| packs.contains(&pack.id));
        chosen.map(|(number, pack)| (number, pack.id, pack.bytes, pack.live_bytes)).collect()
    };
    progress.phase(Phase::Repack, None, Some(chosen.iter().map(|(.., live_bytes)| live_bytes).sum()));
    let mut copier = Copier { sources_bytes: Some(freed_bytes), ..Copier::new(added)? };
    for (number, id, bytes, _) in chosen {
        let copied = copy_pack(store, survey, number, id, &mut copier, progress);
        copier.sources_bytes = copier.sources_bytes.map(|sources| sources + bytes);
        match copied {
            Err(Error::Corrupt { what, reason, .. }) => {
                progress.notice(&format!("pack {id} is damaged ({what}: {reason}) and is left as it is"));
                packs.remove(&id);
            }
            other => other?,
        }
    }
    copier.finish()?;
    added.sync()
}

fn copy_pack(
    store: &Store,
    survey: &mut Survey<'_>,
    number: usize,
    id: PackId,
    copier: &mut Copier<'_, '_>,
    progress: &dyn Progress,
) -> Result<()> {
    let file = PackFile::open(store.layout(), id)?;
    file.scan(|location, directory| {
        progress::check(progress)?;
        let (live, view) = (&mut survey.marker.live, &survey.view);
        let mut wanted = |entry: &Entry| {
            let key = entry.id.key();
            let Some(mark) = live.get_mut(&key).filter(|mark| mark.home() == Some(number)) else { return Ok(false) };
            // Of two copies in one pack, another one than the index finds might build on what builds on it.
            let is_home = directory.bases.is_empty() || view.locate_key(&key)? == Some(location);
            Ok(is_home && mark.copy())
        };
        let keep = directory.entries.iter().map(&mut wanted).collect::<Result<Vec<bool>>>()?;
        if keep.contains(&true) {
            let has_bases = directory.bases.iter().all(|base| survey.marker.live.contains_key(&base.key()));
            match directory.bases.is_empty() || has_bases && !keep.contains(&false) {
                true => copier.copy_block(&file, location, directory, &keep, has_bases, &|| store.block(location))?,
                false => rebase::copy(store, survey, location, directory, &keep, copier)?,
            }
            progress.advance(0, u64::from(location.block_bytes));
        }
        Ok(())
    })?;
    Ok(())
}

/// True if an object is content; everything else is compressed apart from it.
fn is_data(kind: ObjectKind) -> bool {
    kind == ObjectKind::Chunk
}

/// Copies objects into new packs.
pub(crate) struct Copier<'a, 'n> {
    added: &'a mut NewPacks<'n>,
    writer: Option<PackWriter>,
    data: BlockBuilder,
    meta: BlockBuilder,
    compressor: zstd::bulk::Compressor<'static>,
    window: Window,
    /// Bytes of the packs that the new ones take the place of so far, where these must not be longer.
    sources_bytes: Option<u64>,
}

impl<'a, 'n> Copier<'a, 'n> {
    pub(crate) fn new(added: &'a mut NewPacks<'n>) -> Result<Self> {
        let compressor = zstd::bulk::Compressor::new(added.level).at("start compressor in", added.layout.packs())?;
        let (data, meta, window) = (BlockBuilder::default(), BlockBuilder::default(), Window::default());
        Ok(Copier { added, writer: None, data, meta, compressor, window, sources_bytes: None })
    }

    /// Copies the entries of a block that are to be kept. A whole block is taken as it is stored if it has a good size, or builds on others and
    /// they stay (`has_bases`). `decode` gives the block decoded: objects that are copied without the rest of their block do not build on others any more.
    pub(crate) fn copy_block(
        &mut self,
        file: &PackFile,
        location: Location,
        directory: &Directory,
        keep: &[bool],
        has_bases: bool,
        decode: &dyn Fn() -> Result<Arc<Block>>,
    ) -> Result<()> {
        let raw = directory.raw_bytes();
        let data = directory.entries.iter().all(|entry| is_data(entry.kind));
        let good = if data { DATA_BLOCK_BYTES / 2 } else { META_BLOCK_BYTES / 2 };
        let as_stored = if directory.bases.is_empty() { raw >= good } else { has_bases };
        if as_stored && !keep.contains(&false) {
            let (directory, bytes) = file.read_stored(location)?;
            return self.write(&bytes, &directory.entries);
        }
        let block = decode()?;
        for (entry, (kind, id, range)) in
            directory.entries.iter().zip(&block.objects).zip(keep).filter(|(_, k)| **k).map(|(e, _)| e)
        {
            let order = (location, range.start as u64);
            self.push_in_order(order, *kind, *id, block.bytes.get(range.clone()).unwrap_or_default(), entry.tail_bytes)?;
        }
        Ok(())
    }

    /// Takes one object, and puts it beside those that are near it in this order.
    fn push_in_order(
        &mut self,
        order: (Location, u64),
        kind: ObjectKind,
        id: ObjectId,
        bytes: &[u8],
        tail_bytes: usize,
    ) -> Result<()> {
        self.window.add(order, kind, id, bytes, tail_bytes);
        if self.window.is_full() { self.empty_window() } else { Ok(()) }
    }

    fn empty_window(&mut self) -> Result<()> {
        std::mem::take(&mut self.window).each_in_order(|kind, id, bytes, tail_bytes| self.push(kind, id, bytes, tail_bytes))
    }

    /// Takes one object.
    pub(crate) fn push(&mut self, kind: ObjectKind, id: ObjectId, bytes: &[u8], tail_bytes: usize) -> Result<()> {
        let data = is_data(kind);
        let target = if data { DATA_BLOCK_BYTES } else { META_BLOCK_BYTES };
        let builder = if data { &self.data } else { &self.meta };
        if !builder.is_empty() && builder.raw_bytes() + bytes.len() > target {
            self.flush(data)?;
        }
        let builder = if data { &mut self.data } else { &mut self.meta };
        builder.push(kind, id, bytes, tail_bytes);
        Ok(())
    }

    /// Takes a block of objects that build on others, of which `prefix` is the bytes.
    pub(crate) fn push_on_bases(&mut self, builder: &mut BlockBuilder, prefix: &[u8]) -> Result<()> {
        let packs = self.added.layout.packs();
        let context = zstd::zstd_safe::CCtx::try_create().ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory));
        let coded = context.and_then(|mut context| builder.compress_on(&mut context, prefix, self.added.level));
        let (entries, bytes) = builder.encode_on(&coded.at("compress for", packs)?, &self.added.layout.keys.seal);
        self.write(&bytes, &entries)
    }

    fn flush(&mut self, data: bool) -> Result<()> {
        let builder = if data { &mut self.data } else { &mut self.meta };
        if builder.is_empty() {
            return Ok(());
        }
        let encoded: io::Result<_> = builder.encode(&mut self.compressor, &self.added.layout.keys.seal);
        let (entries, bytes) = encoded.at("compress for", self.added.layout.packs())?;
        self.write(&bytes, &entries)
    }

    fn write(&mut self, block: &[u8], entries: &[Entry]) -> Result<()> {
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => self.added.start()?,
        };
        writer.append(block, entries)?;
        if writer.bytes() >= PACK_BYTES {
            self.finish_pack(writer)
        } else {
            self.writer = Some(writer);
            Ok(())
        }
    }

    /// Finishes a pack. Copies of its directories must not make it longer than what it takes the place of.
    fn finish_pack(&mut self, mut writer: PackWriter) -> Result<()> {
        if self.sources_bytes.is_some_and(|sources| self.added.bytes() + writer.finished_bytes() > sources) {
            writer.leave_out_copies();
        }
        self.added.finished.push(writer.finish()?);
        Ok(())
    }

    /// Writes what is left.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.empty_window()?;
        self.flush(true)?;
        self.flush(false)?;
        self.writer.take().map_or(Ok(()), |writer| self.finish_pack(writer))
    }
}
