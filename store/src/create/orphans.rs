//! Taking up what an interrupted run left: its whole packs are renamed to be this run's, so that nothing in them is written again.

use std::collections::{HashMap, HashSet};

use crate::{
    codec::DecodeError,
    damaged::DamageSet,
    error::{IoContext, Result},
    files,
    gc::{Copier, NewPacks, read_recipe_root},
    id::{ObjectId, ObjectKey, OpId, PackId},
    layout::Layout,
    pack::{Location, ObjectKind, PackFile, PackInfo},
    pin,
    progress::Progress,
    recipe::{self, Node},
    store::Store,
    view::View,
};

/// Packs and content that were taken up.
#[derive(Default)]
pub struct Adoption {
    /// The packs, under their new names.
    pub packs: Vec<PackInfo>,
    /// Content that the run need not write again.
    pub content: AdoptedContent,
    /// Notices for the caller.
    pub notices: Vec<String>,
}

/// The objects of adopted packs. Every recipe among them is whole, as long as none of the packs that they lean on is condemned.
#[derive(Default)]
pub struct AdoptedContent {
    /// Locations of the objects.
    pub objects: HashMap<ObjectKey, Location>,
    /// Packs of the store that hold parts of adopted recipes.
    pub leans_on: HashSet<PackId>,
    /// Number of the run's next pack.
    pub next_pack: u32,
}

/// A block in an adopted pack that builds on others.
struct OnBases {
    at: Location,
    bases: Vec<ObjectId>,
}

/// A recipe's root in an adopted pack.
struct Root {
    at: Location,
    id: ObjectId,
}

/// Takes up the packs of dead runs for the operation `op`. Every block of them is checked; a torn pack is left to gc.
pub fn adopt(store: &Store, op: OpId, progress: &dyn Progress) -> Result<Adoption> {
    let layout = store.layout();
    let mut adopted = Adoption::default();
    let dead: Vec<OpId> = pin::list(&layout.pins())?.into_iter().filter(|p| !p.alive && p.text.writer).map(|p| p.op).collect();
    if dead.is_empty() {
        return Ok(adopted);
    }
    // Held while their packs are taken up: gc does not remove them meanwhile, and a run that was only just beginning waits.
    let mut seized = Vec::new();
    for op in &dead {
        seized.extend(pin::seize(&layout.pins(), *op)?.map(|file| (*op, file)));
    }
    // In this order: a run that is over has committed by now, or never will. What it has committed is no longer its to take up.
    let view = store.refresh()?;
    let known: HashSet<PackId> = view.packs()?.into_keys().collect();
    let dead: Vec<OpId> = seized.iter().map(|(op, _)| *op).collect();
    let (mut torn, mut roots, mut on_bases) = (HashSet::new(), Vec::new(), Vec::new());
    for pack in packs_of(layout, &dead)? {
        if known.contains(&pack) {
            continue;
        }
        let (mut entries, mut blocks) = (Vec::new(), Vec::new());
        // What parity would make up for now may be more than that after the next power cut.
        let scanned = PackFile::open_unhealed(layout, pack).and_then(|file| {
            file.check_parity()?;
            file.scan_blocks(true, |location, directory| {
                entries.extend(directory.entries.iter().map(|e| (e.kind, e.id, location)));
                blocks.push(OnBases { at: location, bases: directory.bases.clone() });
                Ok(())
            })
        });
        let Ok(info) = scanned else {
            torn.insert(pack.op());
            continue;
        };
        let ours = PackId::new(op, adopted.content.next_pack);
        // The rename decides between two runs that want the same pack, and against gc.
        if files::rename(&layout.pack(pack), &layout.pack(ours)).is_err() {
            continue;
        }
        adopted.content.next_pack += 1;
        let renamed = |block: OnBases| OnBases { at: Location { pack: ours, ..block.at }, ..block };
        on_bases.extend(blocks.into_iter().filter(|block| !block.bases.is_empty()).map(renamed));
        for (kind, id, at) in entries {
            let at = Location { pack: ours, ..at };
            adopted.content.objects.insert(id.key(), at);
            roots.extend((kind == ObjectKind::RecipeRoot).then_some(Root { at, id }));
        }
        adopted.packs.push(PackInfo { id: ours, ..info });
    }
    let broken = blocks_without_bases(&view, &DamageSet::read(layout), &on_bases, &mut adopted.content)?;
    drop_broken(store, &view, op, roots, &broken, &mut adopted)?;
    for op in dead.iter().filter(|op| !torn.contains(op)) {
        pin::remove_dead(&layout.pins(), *op)?;
    }
    if !adopted.packs.is_empty() {
        let text = format!("took up {} packs of an interrupted run", adopted.packs.len());
        progress.notice(&text);
        adopted.notices.push(text);
    }
    Ok(adopted)
}

/// The blocks that build on something that is nowhere: gc may have removed it since the dead run found it. What others build upon has to
/// stay for as long as they do.
fn blocks_without_bases(
    view: &View,
    damaged: &DamageSet,
    blocks: &[OnBases],
    content: &mut AdoptedContent,
) -> Result<HashSet<Location>> {
    let mut broken = HashSet::new();
    for block in blocks {
        // A run builds only on what was committed before it.
        for base in &block.bases {
            match view.locate(*base)?.filter(|at| !damaged.has(*base, *at)) {
                Some(at) => _ = content.leans_on.insert(at.pack),
                None => _ = broken.insert(block.at),
            }
        }
    }
    Ok(broken)
}

/// Takes out of adopted packs what could not be read: blocks without their bases, and recipes of which a part is missing, as the dead run
/// may not have come to write all chunks of a file, and gc may since have removed what it reused. Left in a pack, they would be found for
/// a file's content.
fn drop_broken(
    store: &Store,
    view: &View,
    op: OpId,
    roots: Vec<Root>,
    broken_blocks: &HashSet<Location>,
    adopted: &mut Adoption,
) -> Result<()> {
    let mut broken: HashMap<PackId, HashSet<ObjectId>> = HashMap::new();
    for block in broken_blocks {
        broken.entry(block.pack).or_default();
    }
    adopted.content.objects.retain(|_, at| !broken_blocks.contains(at));
    for root in roots.into_iter().filter(|root| !broken_blocks.contains(&root.at)) {
        match parts_in_store(store, view, &adopted.content.objects, &root)? {
            Some(packs) => adopted.content.leans_on.extend(packs),
            None => _ = broken.entry(root.at.pack).or_default().insert(root.id),
        }
    }
    if broken.is_empty() {
        return Ok(());
    }
    let content = &mut adopted.content;
    content.objects.retain(|_, at| !broken.contains_key(&at.pack));
    adopted.packs.retain(|info| !broken.contains_key(&info.id));
    let mut rewritten = NewPacks::new(store, op, &mut content.next_pack);
    let mut copier = Copier::new(&mut rewritten)?;
    for (pack, recipes) in &broken {
        let file = PackFile::open(store.layout(), *pack)?;
        file.scan(|location, directory| {
            let is_kept = |id: &ObjectId| !broken_blocks.contains(&location) && !recipes.contains(id);
            let keep: Vec<bool> = directory.entries.iter().map(|entry| is_kept(&entry.id)).collect();
            let decode = || store.block(location);
            if keep.contains(&true) { copier.copy_block(&file, location, directory, &keep, true, &decode) } else { Ok(()) }
        })?;
    }
    copier.finish()?;
    rewritten.sync()?;
    let infos = rewritten.infos();
    rewritten.keep();
    for info in &infos {
        PackFile::open(store.layout(), info.id)?.scan(|location, directory| {
            content.objects.extend(directory.entries.iter().map(|entry| (entry.id.key(), location)));
            Ok(())
        })?;
    }
    adopted.packs.extend(infos);
    let replaced: Vec<PackId> = broken.into_keys().collect();
    store.close_packs(&replaced);
    for pack in replaced {
        files::remove(&store.layout().pack(pack)).at("remove", store.layout().pack(pack))?;
    }
    Ok(())
}

/// The packs of the store in which parts of an adopted recipe lie; `None` where a part is nowhere.
fn parts_in_store(
    store: &Store,
    view: &View,
    adopted: &HashMap<ObjectKey, Location>,
    root: &Root,
) -> Result<Option<HashSet<PackId>>> {
    let (mut packs, damaged) = (HashSet::new(), DamageSet::read(store.layout()));
    let mut locate = |id: ObjectId| -> Result<Option<Location>> {
        if let Some(at) = adopted.get(&id.key()) {
            return Ok(Some(*at));
        }
        let found = view.locate(id)?.filter(|at| !damaged.has(id, *at));
        packs.extend(found.map(|at| at.pack));
        Ok(found)
    };
    let Some((_, node)) = read(store, root.at, root.id, |bytes| read_recipe_root(store.ids(), bytes))? else { return Ok(None) };
    let (mut pending, mut seen) = (vec![node], HashSet::new());
    while let Some(node) = pending.pop() {
        match node {
            Node::Chunks(runs) => {
                for id in runs.iter().map(|run| run.id.object()) {
                    if locate(id)?.is_none() {
                        return Ok(None);
                    }
                }
            }
            Node::Nodes(nodes) => {
                for id in nodes.iter().map(|(id, _)| id.object()).filter(|id| seen.insert(*id)).collect::<Vec<_>>() {
                    let node = locate(id)?.map(|at| read(store, at, id, recipe::decode_node)).transpose()?.flatten();
                    let Some(node) = node else { return Ok(None) };
                    pending.push(node);
                }
            }
        }
    }
    Ok(Some(packs))
}

/// Reads a part of a recipe; `None` where it is damaged or gone.
fn read<T>(store: &Store, at: Location, id: ObjectId, decode: impl Fn(&[u8]) -> Result<T, DecodeError>) -> Result<Option<T>> {
    match store.block(at) {
        Ok(block) => Ok(block.object(id).and_then(|bytes| decode(bytes).ok())),
        Err(e) if e.is_damage() => Ok(None),
        Err(e) => Err(e),
    }
}

fn packs_of(layout: &Layout, ops: &[OpId]) -> Result<Vec<PackId>> {
    let folder = layout.packs();
    let mut found = Vec::new();
    for path in files::list(&folder).at("read folder", &folder)? {
        found.extend(Layout::pack_of(&path).filter(|pack| ops.contains(&pack.op())));
    }
    found.sort_unstable();
    Ok(found)
}
