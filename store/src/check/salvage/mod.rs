//! Salvage: from packs to checkpoints, in a new store.
//!
//! Packs describe themselves, and hold the sealed record of every checkpoint. So a store whose journal or settings are gone, damaged or older than
//! its packs is put together anew from them, in another folder; the old one is only read.
//!
//! 1. *Copy* every pack. What the disk cannot read becomes zeros, and is damage.
//! 2. *Look* at each for sealed records, and at the old journal for what it still tells: events, and which checkpoints were deleted.
//! 3. *Try*: a journal that names everything makes a store of it, which [`super::repair`] then rids of damage.
//! 4. *Write* the journal for good, with the checkpoints of which anything can be read, and derive the index.
//! 5. *Rename* the folder to its name. Until then, nothing has that name.

mod found;
mod report;
mod script;
mod staging;
#[cfg(test)]
mod tests;

use parhelia_name::step::Step;
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::{Path, PathBuf},
    time::Duration,
};

pub use self::report::{DamagedPack, SalvageReport, SalvagedCheckpoint};
use self::{
    found::{FoundPack, SealedRecord, is_gone},
    script::{Memory, Script},
    staging::StagedStore,
};
use super::{CheckOptions, HurtCheckpoint, plan_repair, repair, run_naming};
use crate::{
    config::{Chunking, Config},
    error::{Error, IoContext, Result},
    files,
    id::{ObjectId, OpId, PackId, Ulid},
    keys::Ids,
    layout::Layout,
    pack::{PackInfo, rescue},
    pin::Pin,
    progress::{Phase, Progress},
    record::Checkpoint,
    store::{OpenOptions, Store},
    view,
};

/// Nobody else knows of a store that is being made.
const PATIENCE: Duration = Duration::from_secs(10);
/// No chunk may be longer.
const CHUNK_BYTES_MAX: usize = 4 << 20;

/// Makes a new store of what the packs of one hold: in `to`, or beside the old one. Neither the old store nor anything else is changed; where this
/// fails or is interrupted, there is nothing under the new store's name.
pub fn salvage(from: &Layout, to: Option<&Path>, progress: &dyn Progress) -> Result<SalvageReport> {
    let to = to.map_or_else(|| beside(&from.root), Path::to_owned);
    let listed = packs_of(from)?;
    check_outside(&from.root, &to)?;
    // Keeps gc of a store that is in use from removing what is being copied. A medium that takes no writes has no gc.
    let _pin = Pin::take(&from.pins(), true, "salvage").ok();
    let (known, settings_fault) = match Config::of(from) {
        Ok(config) => (Some(config), None),
        Err(e @ Error::FormatNewer { .. }) => return Err(e),
        Err(e) => (None, Some(e.fault())),
    };
    let memory = Memory::read(from);
    let staging = StagedStore::make(&to, from)?;
    let config = known.clone().unwrap_or_else(|| Config::new(OpenOptions::default().parity));
    crate::store::make(staging.layout(), &config)?;
    let mut salvage = Salvage { from, staging, memory, damaged: BTreeMap::new(), bytes: 0, packs: 0 };
    let copied = salvage.copy(&listed, progress)?;
    if known.is_none() {
        with_chunks_of(config, &copied).write_over(salvage.staging.layout())?;
    }
    salvage.make(copied, settings_fault, to, progress)
}

/// The name of a salvaged store beside the old one.
fn beside(root: &Path) -> PathBuf {
    // A path such as `.` has no name.
    let found = root.file_name().is_none().then(|| root.canonicalize().ok()).flatten();
    let root = found.as_deref().unwrap_or(root);
    let mut name = root.file_name().unwrap_or_default().to_owned();
    name.push(".salvaged");
    root.with_file_name(name)
}

/// Fails where the new store would lie in the old one, which is not to be changed.
fn check_outside(root: &Path, to: &Path) -> Result<()> {
    let above = to.ancestors().skip(1).find_map(|above| match above.as_os_str().is_empty() {
        true => Path::new(".").canonicalize().ok(),
        false => above.canonicalize().ok(),
    });
    let is_inside = above.zip(root.canonicalize().ok()).is_some_and(|(above, root)| above.starts_with(root));
    match is_inside {
        false => Ok(()),
        true => Err(Error::Refused(format!(
            "cannot salvage into {}: it lies in the old store, which is only read; {} names another folder",
            to.display(),
            Step::To
        ))),
    }
}

/// The packs of a store. Fails where there are none: there is nothing to salvage.
fn packs_of(from: &Layout) -> Result<Vec<PackId>> {
    let files = files::list(&from.packs()).at("read folder", from.packs())?;
    let packs: Vec<PackId> = files.iter().filter_map(|path| Layout::pack_of(path)).collect();
    match packs.is_empty() {
        false => Ok(packs),
        true => Err(Error::NotAStore { path: from.root.clone(), reason: "its folder packs/ has no packs".into() }),
    }
}

/// Settings for packs whose own are lost: the usual ones, with chunks as long as the longest that there is.
fn with_chunks_of(config: Config, packs: &[FoundPack]) -> Config {
    let longest = packs.iter().map(|pack| pack.chunk_bytes_max).max().unwrap_or(0).min(CHUNK_BYTES_MAX);
    let bytes_max = config.chunking.bytes_max.max(longest.next_multiple_of(2) as u32);
    Config { chunking: Chunking { bytes_max, ..config.chunking }, ..config }.sealed()
}

/// The facts about a pack, and the sealed records in it with their text.
pub(super) type PackWithRecords = (PackInfo, Vec<(ObjectId, String)>);

/// A pack that is whole by itself, and the sealed records in it; `None` where it is damaged.
pub(super) fn whole_pack(layout: &Layout, id: PackId, progress: &dyn Progress) -> Result<Option<PackWithRecords>> {
    let found = found::look(layout, id, progress)?;
    let records = found.records.into_iter().map(|sealed| (sealed.id, sealed.text)).collect();
    Ok(found.fault.is_none().then_some((found.info, records)))
}

/// Checkpoints by their sealed records, in the order in which they were made. Records that this release cannot read are left out.
pub(super) fn in_order(records: BTreeMap<ObjectId, String>, ids: &Ids) -> Vec<Checkpoint> {
    let decoded = records.into_iter().filter_map(|(id, text)| Some((id, Checkpoint::decode(0, text, ids).ok()?)));
    let mut decoded: BTreeMap<ObjectId, Checkpoint> = decoded.collect();
    let ordered = script::in_order(decoded.iter());
    ordered.into_iter().filter_map(|id| decoded.remove(&id)).collect()
}

/// A salvage on its way.
struct Salvage<'a> {
    from: &'a Layout,
    staging: StagedStore,
    memory: Memory,
    damaged: BTreeMap<PackId, String>,
    bytes: u64,
    packs: u64,
}

impl Salvage<'_> {
    /// Copies the packs, and looks at what is in them.
    fn copy(&mut self, listed: &[PackId], progress: &dyn Progress) -> Result<Vec<FoundPack>> {
        let length = |id: &PackId| std::fs::metadata(self.from.pack(*id)).map_or(0, |meta| meta.len());
        progress.phase(Phase::Check, None, Some(listed.iter().map(length).sum()));
        let named = self.memory.packs();
        for id in named.keys().filter(|id| !listed.contains(id)) {
            self.damaged.insert(*id, "the journal names it, and it is gone".into());
        }
        let mut found = Vec::new();
        for id in listed {
            let lost = match rescue(&self.from.pack(*id), &self.staging.layout().pack(*id), progress) {
                // gc has removed it since.
                Err(e) if is_gone(&e) => continue,
                other => other?,
            };
            let pack = found::look(self.staging.layout(), *id, progress)?;
            let is_left = pack.fault.is_some() && self.memory.is_whole() && !named.contains_key(id);
            if is_left {
                // A run that did not commit, or not yet, has left it.
                self.staging.remove_pack(*id)?;
                continue;
            }
            (self.packs, self.bytes) = (self.packs + 1, self.bytes + pack.info.bytes);
            let changed = named.get(id).filter(|named| **named != pack.info).map(|_| "it is not the one that was committed");
            let fault = pack.fault.clone().or(changed.map(str::to_owned));
            let unread = (lost > 0).then(|| format!("the disk cannot read {lost} bytes of it"));
            if let Some(fault) = unread.or(fault) {
                self.damaged.insert(*id, fault);
            }
            found.push(pack);
        }
        Ok(found)
    }

    fn make(
        mut self,
        copied: Vec<FoundPack>,
        settings_fault: Option<String>,
        to: PathBuf,
        progress: &dyn Progress,
    ) -> Result<SalvageReport> {
        let layout = self.staging.layout().clone();
        let infos: Vec<PackInfo> = copied.iter().map(|pack| pack.info.clone()).collect();
        let sealed: Vec<SealedRecord> = copied.into_iter().flat_map(|pack| pack.records).collect();
        let mut script = Script::new(&self.memory, sealed, &layout.keys.ids);
        let op = OpId::generate();
        // A store of everything, which is then repaired. Neither its journal nor its index stays.
        script.write(&layout, op, infos)?;
        let plan = plan_repair(&layout, &[], progress)?;
        for pack in &plan.damaged_packs {
            self.damaged.entry(*pack).or_insert_with(|| "blocks in it are damaged, or build on what is lost".into());
        }
        repair(&layout, &plan, PATIENCE, progress)?;
        drop(plan);
        let mut report = self.judge(&mut script, &layout, progress)?;
        let packs = self.packs_in_use(&layout)?;
        self.staging.clear()?;
        let end = script.write(&layout, op, packs)?;
        view::absorb(&layout, &HashMap::new(), &end)?;
        report.checkpoints.reverse();
        let fault = self.memory.fault.clone().or_else(|| self.signs_of_age(&report));
        let report = SalvageReport {
            packs: self.packs,
            bytes: self.bytes,
            damaged_packs: self.damaged.into_iter().map(|(pack, reason)| DamagedPack { pack, reason }).collect(),
            journal_records: self.memory.records.len() as u64,
            journal_fault: fault,
            settings_fault,
            to,
            ..report
        };
        self.staging.publish(&report.to)?;
        Ok(report)
    }

    /// The reason to take a journal for older than the packs, though it is whole by itself.
    fn signs_of_age(&self, report: &SalvageReport) -> Option<String> {
        let unknown = report.checkpoints.iter().filter(|checkpoint| !checkpoint.in_journal).count();
        (unknown > 0).then(|| format!("it does not tell of {unknown} checkpoints that packs hold, as if it were an older copy"))
    }

    /// Finds out what is whole of each checkpoint, and leaves out those of which nothing can be read.
    fn judge(&self, script: &mut Script, layout: &Layout, progress: &dyn Progress) -> Result<SalvageReport> {
        let checked = run_naming(layout, &CheckOptions::default(), &mut |_| Ok(()), progress)?;
        let hurt: HashMap<Ulid, &HurtCheckpoint> = checked.hurt.iter().map(|hurt| (hurt.checkpoint, hurt)).collect();
        let store = Store::open_like(&layout.root, layout)?;
        let mut left_out: HashSet<ObjectId> = HashSet::new();
        let mut checkpoints = Vec::new();
        for checkpoint in store.checkpoints()? {
            let (id, record) = (checkpoint.digest.object(), &checkpoint.record);
            let is_readable = store.workspace_node(&checkpoint).is_ok_and(|node| {
                node.as_folder().is_some_and(|(tree, totals)| totals.entries == 0 || store.folder(tree).is_ok())
            });
            if !is_readable {
                left_out.insert(id);
            }
            let paths = hurt.get(&record.id).map_or(0, |hurt| hurt.paths);
            checkpoints.push(SalvagedCheckpoint {
                id: record.id,
                session: record.session.clone(),
                created_at: record.created_at,
                kept: is_readable,
                in_journal: !script.unknown.contains(&id),
                hurt_paths: if is_readable { paths } else { record.workspace.entries.max(1) },
                first_hurt: hurt.get(&record.id).map(|hurt| hurt.first.clone()).unwrap_or_default(),
            });
        }
        script.without(&left_out);
        let (deleted, unreadable_records) = (script.deleted, script.unreadable);
        Ok(SalvageReport {
            to: PathBuf::new(),
            packs: 0,
            bytes: 0,
            damaged_packs: Vec::new(),
            checkpoints,
            deleted,
            unreadable_records,
            journal_records: 0,
            journal_fault: None,
            settings_fault: None,
        })
    }

    /// The packs of the store that was tried, without those that the repair has replaced.
    fn packs_in_use(&self, layout: &Layout) -> Result<Vec<PackInfo>> {
        let store = Store::open_like(&layout.root, layout)?;
        let mut infos = Vec::new();
        for (id, state) in store.view().packs()? {
            match state.condemned {
                Some(_) => self.staging.remove_pack(id)?,
                None => infos.push(PackInfo { id, bytes: state.bytes, digest: state.digest }),
            }
        }
        Ok(infos)
    }
}
