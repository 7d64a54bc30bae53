//! The blast radius of a flipped bit: which paths of which checkpoints it touches where many versions build on each other, and what of them is
//! lost. With `PARHELIA_LONG=1`, 60 versions of 7,000 files and 1,000 bits, whose figures are printed with `--nocapture`.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::Path,
};

use super::*;
use crate::{
    create,
    id::{ObjectId, TreeId},
    pack::Location,
    tree::TreeNode,
};

/// Numbers that depend on a seed alone.
struct Chance(blake3::OutputReader);

impl Chance {
    fn new(seed: &str) -> Self {
        Chance(blake3::Hasher::new().update(seed.as_bytes()).finalize_xof())
    }

    fn below(&mut self, limit: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        u64::from_le_bytes(bytes) % limit
    }
}

/// A file of text, a few kilobytes long.
fn text(chance: &mut Chance) -> Vec<String> {
    let word = |chance: &mut Chance| format!("word{}", chance.below(3000));
    (0..20 + chance.below(60)).map(|_| (0..8).map(|_| word(chance)).collect::<Vec<_>>().join(" ")).collect()
}

/// A store of so many versions of a folder, a hundredth of whose files are edited in each.
fn versions(folder: &Path, versions: u64, files: u64) -> Store {
    let options = OpenOptions { create: true, parity: true, ..OpenOptions::default() };
    let store = Store::open(&folder.join("store"), &options).unwrap();
    let (mut chance, workspace) = (Chance::new("versions"), folder.join("work"));
    let mut contents: Vec<Vec<String>> = (0..files).map(|_| text(&mut chance)).collect();
    let path = |file: u64| workspace.join(format!("d{}/e{}/f{file}", file % 17, file % 19));
    let write = |file: u64, lines: &[String]| fs::write(path(file), lines.join("\n")).unwrap();
    for (file, lines) in (0..).zip(&contents) {
        fs::create_dir_all(path(file).parent().unwrap()).unwrap();
        write(file, lines);
    }
    for version in 0..versions {
        for _ in 0..(files / 100).max(2) {
            let file = chance.below(files);
            let lines = &mut contents[file as usize];
            let line = chance.below(lines.len() as u64) as usize;
            lines[line] = format!("edited in {version} {}", chance.below(1000));
            write(file, lines);
        }
        let options = create::Options { workspace: workspace.clone(), session: "s".into(), ..create::Options::default() };
        create::run(&store, &options, &()).unwrap();
    }
    store.reopen().unwrap();
    store
}

/// The blocks that each path of each checkpoint needs.
struct Needs<'s> {
    store: &'s Store,
    /// By object, the blocks that have to be read for it: its own, and those of what that builds on.
    blocks: HashMap<ObjectId, BTreeSet<Location>>,
    /// By block, the number of paths, over all checkpoints, that need it.
    paths: BTreeMap<Location, u64>,
}

impl Needs<'_> {
    fn blocks_of(&mut self, object: ObjectId) -> BTreeSet<Location> {
        if let Some(known) = self.blocks.get(&object) {
            return known.clone();
        }
        let at = self.store.view().locate(object).unwrap().unwrap();
        let directory = self.store.pack(at.pack).unwrap().read_directory(at.offset).unwrap();
        let mut found: BTreeSet<Location> = directory.bases.iter().flat_map(|base| self.blocks_of(*base)).collect();
        found.insert(at);
        self.blocks.insert(object, found.clone());
        found
    }

    /// Counts the paths below a folder, which need the blocks `above` as well. Returns their number.
    fn folder(&mut self, tree: TreeId, above: &BTreeSet<Location>) -> u64 {
        let own: BTreeSet<Location> = self.blocks_of(tree.object()).difference(above).copied().collect();
        let above: BTreeSet<Location> = above.union(&own).copied().collect();
        let TreeNode::Leaf(entries) = self.store.tree_node(tree).unwrap() else { panic!("a split folder") };
        let mut paths = 0;
        for entry in entries {
            paths += 1;
            match entry.kind {
                Kind::Folder { tree, .. } => paths += self.folder(tree, &above),
                Kind::File { blob, .. } => {
                    for block in self.blocks_of(blob.object()).difference(&above) {
                        *self.paths.entry(*block).or_default() += 1;
                    }
                }
                _ => {}
            }
        }
        own.iter().for_each(|block| *self.paths.entry(*block).or_default() += paths);
        paths
    }
}

/// Flips bits of payloads, one after the other. Returns the number of paths, the mean number that a bit touches, and the number that are lost.
fn flip(store: &Store, bits: u64) -> (u64, f64, u64) {
    let mut needs = Needs { store, blocks: HashMap::new(), paths: BTreeMap::new() };
    let mut paths = 0;
    for checkpoint in store.checkpoints().unwrap() {
        paths += needs.folder(checkpoint.record.root, &BTreeSet::new());
    }
    let mut payloads = Vec::new();
    for pack in store.view().packs().unwrap().into_keys() {
        let visit = |at: Location, directory: &crate::pack::Directory| {
            payloads.push((at, at.offset + directory.directory_end as u64, directory.payload_bytes as u64));
            Ok(())
        };
        PackFile::open(store.layout(), pack).unwrap().scan_blocks(false, visit).unwrap();
    }
    let bytes: u64 = payloads.iter().map(|(.., bytes)| bytes).sum();
    let (mut chance, mut touched, mut lost) = (Chance::new("bits"), 0, 0);
    for _ in 0..bits {
        let mut byte = chance.below(bytes);
        let (at, payload, _) =
            payloads.iter().find(|(.., length)| byte.checked_sub(*length).map(|less| byte = less).is_none()).unwrap();
        let path = store.layout().pack(at.pack);
        let file = fs::File::options().read(true).write(true).open(&path).unwrap();
        use std::os::unix::fs::FileExt;
        let mut there = [0];
        file.read_exact_at(&mut there, payload + byte).unwrap();
        file.write_all_at(&[there[0] ^ (1 << chance.below(8))], payload + byte).unwrap();
        let hit = needs.paths.get(at).copied().unwrap_or(0);
        touched += hit;
        let as_it_is = PackFile::open_unhealed(store.layout(), at.pack).unwrap();
        assert!(as_it_is.read_block(*at).and_then(|read| store.decode(read)).is_err());
        // Every object of the block is checked against its id; whatever builds on it gets the same bytes as before.
        let healed = PackFile::open(store.layout(), at.pack).and_then(|pack| pack.read_block(*at));
        if healed.and_then(|read| store.decode(read)).is_err() {
            lost += hit.max(1);
        }
        file.write_all_at(&there, payload + byte).unwrap();
    }
    (paths, touched as f64 / bits as f64, lost)
}

#[test]
fn a_flipped_bit_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let is_long = std::env::var_os("PARHELIA_LONG").is_some();
    let (count, files, bits) = if is_long { (60, 7000, 1000) } else { (8, 60, 60) };
    let store = versions(folder.path(), count, files);
    let (paths, touched, lost) = flip(&store, bits);
    println!("{bits} bits, {count} versions, {paths} paths: a bit touches {touched:.0} of them without parity, {lost} with");
    assert!(touched > 0.0);
    assert_eq!(lost, 0);
}

#[test]
fn a_damaged_pack_is_named_and_a_repair_writes_it_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let store = versions(folder.path(), 3, 200);
    let layout = store.layout();
    let packs: Vec<_> = store.view().packs().unwrap().into_keys().collect();
    let whole: Vec<Vec<u8>> = packs.iter().map(|pack| fs::read(layout.pack(*pack)).unwrap()).collect();
    let run = |options: &CheckOptions| super::super::run(layout, options, &()).unwrap();
    assert!(run(&ALL).is_clean());
    // A bit of content, of a directory, of the parity, of its checksums, of either trailer; a shard; an end that is missing.
    type Damage = dyn Fn(&mut Vec<u8>);
    let damages: [&Damage; 6] = [
        &|bytes| bytes[200] ^= 1,
        &|bytes| bytes[20] ^= 1,
        &|bytes| *bytes.iter_mut().rev().nth(30).unwrap() ^= 4,
        &|bytes| *bytes.iter_mut().rev().nth(100).unwrap() ^= 4,
        &|bytes| bytes[300..364].fill(0),
        &|bytes| bytes.truncate(bytes.len() - 50),
    ];
    for (number, damage) in damages.iter().enumerate() {
        for (pack, whole) in packs.iter().zip(&whole) {
            let mut bytes = whole.clone();
            damage(&mut bytes);
            fs::write(layout.pack(*pack), bytes).unwrap();
        }
        let report = run(&ALL);
        let named: Vec<_> = report.findings.iter().map(|finding| (finding.kind, finding.pack)).collect();
        let expected: Vec<_> = packs.iter().map(|pack| (FindingKind::Healed, Some(*pack))).collect();
        assert_eq!(named, expected, "{number}: {:?}", report.findings);
        // What was noted is looked at, also where data are not read.
        assert_eq!(run(&CheckOptions::default()).findings.len(), packs.len());
        for checkpoint in store.checkpoints().unwrap() {
            let fresh = Store::open(store.path(), &OpenOptions::default()).unwrap();
            assert!(verify(&fresh, &checkpoint, true, &()).unwrap().is_ok(), "{number}");
        }
        let before = fs::read_dir(layout.journal()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum::<u64>();
        let plan = plan_repair(layout, &[], &()).unwrap();
        assert_eq!((&plan.healed_packs, plan.damaged_packs.len()), (&packs, 0), "{number}");
        assert!(plan.lost.is_empty() && !plan.changes_packs() && plan.is_needed());
        repair(layout, &plan, PATIENCE, &()).unwrap();
        for (pack, whole) in packs.iter().zip(&whole) {
            assert!(fs::read(layout.pack(*pack)).unwrap() == *whole, "{number}");
        }
        let after = fs::read_dir(layout.journal()).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum::<u64>();
        assert_eq!((before, fs::read_dir(layout.packs()).unwrap().count()), (after, packs.len()));
        assert!(run(&ALL).is_clean() && crate::healed::list(layout).is_empty());
    }
}

#[test]
fn of_a_pack_that_is_damaged_beyond_its_parity_the_rest_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = versions(folder.path(), 2, 200);
    let pack = *store.view().packs().unwrap().keys().next().unwrap();
    let path = store.layout().pack(pack);
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.len();
    assert!(end > 200_000);
    // Five shards at one place, and single bits elsewhere, which are not healed: there is one stripe.
    bytes[50_000..60_000].fill(0);
    bytes[100] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let report = super::super::run(store.layout(), &ALL, &()).unwrap();
    assert!(report.findings.iter().any(|finding| finding.kind == FindingKind::Damaged), "{:?}", report.findings);
    let plan = plan_repair(store.layout(), &[], &()).unwrap();
    // The other pack has blocks that build on what is lost.
    assert!(plan.healed_packs.is_empty() && plan.damaged_packs.contains(&pack), "{plan:?}");
    assert!(!plan.lost.is_empty() && plan.kept_objects > 0);
    repair(store.layout(), &plan, PATIENCE, &()).unwrap();
    // What was kept has parity in its new pack.
    let view = Store::open(store.path(), &OpenOptions::default()).unwrap().view();
    for (id, _) in view.packs().unwrap().into_iter().filter(|(_, state)| state.condemned.is_none()) {
        let examined = PackFile::open(store.layout(), id).unwrap().examine().unwrap().unwrap();
        assert_eq!(examined.damaged, 0);
    }
}
