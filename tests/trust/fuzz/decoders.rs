//! The decoders, where their seeds come from, and how their checksums are mended.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use parhelia_store::{
    OpenOptions,
    archive::{
        self,
        import::{Limits, Reader},
    },
    create::{self, AppendCache, CapturedState, CapturedWorkspace, FullWalk, ImportOptions, State, StateContent, StateFile},
    format::STAT_CACHE_MAGIC,
    id::{BlobId, PackId},
    journal::{Journal, Position},
    keys::{Ids, Seal},
    links::{self, Links},
    omitted,
    pack::{Directory, ObjectKind, PackFile},
    recipe,
    record::{Checkpoint, Outline},
    statcache::{StatCache, path_for},
    tree,
};
use parhelia_tests::{noise, write};

/// One decoder.
pub struct Decoder {
    /// Its name, and its corpus'.
    pub name: &'static str,
    /// Factor by which it takes longer than the quickest.
    pub cost: u64,
    /// Real inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Mends checksums after a change.
    pub mend: fn(&mut [u8]),
    /// Decodes. What it makes of it is of no matter.
    pub decode: fn(&[u8]),
}

/// All of them.
pub fn all() -> Vec<Decoder> {
    let plain = |_: &mut [u8]| {};
    let objects = |kind| sample().objects.iter().filter(|(k, _)| *k == kind).map(|(_, bytes)| bytes.clone()).collect::<Vec<_>>();
    static OBJECTS: OnceLock<[Vec<Vec<u8>>; 5]> = OnceLock::new();
    OBJECTS.get_or_init(|| {
        use ObjectKind::{RecipeNode, RecipeRoot, Record, Table, Tree};
        [RecipeRoot, RecipeNode, Tree, Record, Table].map(objects)
    });
    fn of(n: usize) -> Vec<Vec<u8>> {
        OBJECTS.get().map(|objects| objects[n].clone()).unwrap_or_default()
    }
    vec![
        Decoder {
            name: "tree",
            cost: 1,
            seeds: || [of(2), vec![EXTENDED.to_vec()]].concat(),
            mend: plain,
            decode: |b| _ = tree::decode(b).is_ok(),
        },
        Decoder { name: "recipe", cost: 1, seeds: || [of(0), of(1)].concat(), mend: plain, decode: recipe },
        Decoder { name: "tables", cost: 1, seeds: || [of(4), links_seeds()].concat(), mend: plain, decode: tables },
        Decoder { name: "record", cost: 2, seeds: || of(3), mend: plain, decode: record },
        Decoder { name: "block", cost: 2, seeds: || sample().blocks.clone(), mend: mend_block, decode: block },
        Decoder { name: "pack", cost: 20, seeds: || sample().packs.clone(), mend: plain, decode: pack },
        Decoder { name: "journal", cost: 20, seeds: || sample().journals.clone(), mend: mend_journal, decode: journal },
        Decoder { name: "statcache", cost: 20, seeds: || sample().caches.clone(), mend: mend_cache, decode: cache },
        Decoder { name: "grown", cost: 20, seeds: || sample().grown.clone(), mend: mend_grown, decode: grown },
        Decoder { name: "config", cost: 20, seeds: || sample().configs.clone(), mend: plain, decode: config },
        Decoder { name: "archive", cost: 200, seeds: || sample().archives.clone(), mend: mend_tar, decode: archive },
    ]
}

/// A leaf with a fifo that has extensions, which this release does not write.
const EXTENDED: &[u8] = b"\0\x01\x19\x83\x04fifo\xa4\x03\0\0\0\0\0\0\0\x02\x02\x05later\x04\0";

/// A real store, taken apart.
struct Sample {
    objects: Vec<(ObjectKind, Vec<u8>)>,
    blocks: Vec<Vec<u8>>,
    packs: Vec<Vec<u8>>,
    journals: Vec<Vec<u8>>,
    caches: Vec<Vec<u8>>,
    grown: Vec<Vec<u8>>,
    configs: Vec<Vec<u8>>,
    archives: Vec<Vec<u8>>,
    /// Folder in which single files are written to be decoded.
    folder: tempfile::TempDir,
}

/// Files beside a workspace.
struct Beside(Vec<PathBuf>);

impl State for Beside {
    fn begin(&mut self) {}

    fn finish(&mut self, _seen: &CapturedWorkspace<'_>) -> CapturedState {
        let file = |path: &PathBuf| StateFile {
            path: path.file_name().unwrap().to_string_lossy().into_owned(),
            part: "beside".into(),
            content: StateContent::File { path: path.clone() },
            mtime: None,
        };
        CapturedState { files: self.0.iter().map(file).collect(), ..CapturedState::default() }
    }
}

fn files_in(folder: PathBuf) -> Vec<Vec<u8>> {
    fs::read_dir(folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect()
}

fn sample() -> &'static Sample {
    static SAMPLE: OnceLock<Sample> = OnceLock::new();
    SAMPLE.get_or_init(|| make_sample().unwrap())
}

fn make_sample() -> Result<Sample, Box<dyn std::error::Error>> {
    let shm = Path::new("/dev/shm");
    let folder = if shm.is_dir() { tempfile::tempdir_in(shm)? } else { tempfile::tempdir()? };
    let work = folder.path().join("work");
    write(&work.join("a/text"), "words\n".repeat(90).as_bytes())?;
    write(&work.join("a/large"), &noise(300_000, 1))?;
    write(&work.join("b/left.out"), b"x")?;
    fs::hard_link(work.join("a/text"), work.join("b/again"))?;
    std::os::unix::fs::symlink("a/text", work.join("link"))?;
    rustix::fs::setxattr(work.join("a/text"), "user.note", b"value", rustix::fs::XattrFlags::empty()).ok();
    for i in 0..40 {
        write(&work.join(format!("many/f{i}")), b"y")?;
    }
    let open = OpenOptions { create: true, ..OpenOptions::default() };
    let store = parhelia_ledger::open(&folder.path().join("store"), &open)?;
    let mut options = create::Options { workspace: work, session: "s".into(), ..create::Options::default() };
    options.rules.patterns = vec!["left.out".into()];
    let beside = [("short", 100), ("long", 700_000)].map(|(name, bytes)| (folder.path().join("beside").join(name), bytes));
    for (path, bytes) in &beside {
        write(path, &noise(*bytes, 2))?;
    }
    let beside = beside.map(|(path, _)| path);
    create::run_with(&store, &options, &FullWalk, &mut Beside(beside.to_vec()), &())?;
    // Later versions, so that there are blocks that build on others.
    write(&options.workspace.join("a/text"), ["words\n".repeat(90).as_bytes(), b"more"].concat().as_slice())?;
    write(&options.workspace.join("many/f7"), b"z")?;
    let made = create::run_with(&store, &options, &FullWalk, &mut Beside(beside.to_vec()), &())?;
    let mut archive = Vec::new();
    archive::export(&store, &made.checkpoint, &mut archive, &())?;
    let tar = zstd::decode_all(&archive[..])?;
    let layout = store.layout().clone();
    let (mut objects, mut blocks) = (Vec::new(), Vec::new());
    for id in store.view().packs()?.into_keys() {
        let file = PackFile::open(&layout, id)?;
        file.scan_blocks(true, |location, _| {
            let block = store.block(location)?;
            objects.extend(block.objects.iter().map(|(kind, _, range)| (*kind, block.bytes[range.clone()].to_vec())));
            blocks.push(file.read_stored(location)?.1);
            Ok(())
        })?;
    }
    // What nobody needs small inputs to be, only makes things slow.
    blocks.retain(|block| block.len() < 60_000);
    let mut packs = files_in(layout.packs());
    packs.iter_mut().for_each(|pack| pack.truncate(60_000));
    let journals = files_in(layout.journal());
    let grown = beside.iter().map(|path| fs::read(AppendCache::path(&layout, path))).collect::<Result<_, _>>()?;
    let caches = vec![fs::read(path_for(&layout, &options.workspace))?];
    let configs = vec![fs::read(layout.config())?];
    let small = tar.len().min(60_000);
    Ok(Sample { objects, blocks, packs, journals, caches, grown, configs, archives: vec![tar[..small].to_vec()], folder })
}

fn recipe(bytes: &[u8]) {
    let _ = recipe::decode_node(bytes);
    if let Some(blob) = bytes.first_chunk() {
        let _ = recipe::decode_root(&Ids::default(), BlobId(*blob), bytes);
        // The seal keeps all else out; inside it is a node.
        let _ = recipe::decode_node(&bytes[32..]);
    }
}

/// Tables of hard links, which are content among other content in a store.
fn links_seeds() -> Vec<Vec<u8>> {
    let groups = [vec!["a", "d/b", "d/deep/er/b"], vec!["d/c", "e/c", "e/other"], vec!["z/x", "z/y"]];
    links::encode(&links::folders_of(&groups)).into_iter().collect()
}

fn tables(bytes: &[u8]) {
    if let Ok(links) = Links::decode(bytes.to_vec()) {
        // One table has one encoding.
        assert_eq!(links::encode(&links::folders_of(&links.groups())).as_deref(), Some(bytes));
    }
    let _ = omitted::decode(bytes);
}

fn record(bytes: &[u8]) {
    if let Ok(text) = String::from_utf8(bytes.to_vec()) {
        let outline = Outline::decode(1, text.as_bytes());
        let whole = Checkpoint::decode(1, text, &Ids::default());
        // What lists show is never of a record that cannot be read.
        assert!(whole.is_err() || outline.is_ok());
    }
}

fn block(bytes: &[u8]) {
    let plain = Seal::default();
    if let Ok(directory) = Directory::decode(bytes, &plain) {
        let _ = directory.unpack_stored(bytes.to_vec(), &plain);
        // Whatever a block builds on, its frame decodes to what its directory says, or not at all.
        if let Some(payload) = bytes.get(directory.directory_end..directory.block_bytes()) {
            let prefix = "words\n".repeat(90);
            let _ = directory.open_payload(payload, &plain).and_then(|opened| directory.unpack_on(&opened, prefix.as_bytes(), 0));
        }
    }
}

fn mend_block(bytes: &mut [u8]) {
    if bytes.len() < 40 {
        return;
    }
    let number = |bytes: &[u8], at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
    let directory_end = 40usize.saturating_add(number(bytes, 16)).min(bytes.len());
    let payload_end = directory_end.saturating_add(number(bytes, 20)).min(bytes.len());
    let payload_crc = crc32c::crc32c(&bytes[directory_end..payload_end]);
    bytes[32..36].copy_from_slice(&payload_crc.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..36]), &bytes[40..directory_end]);
    bytes[36..40].copy_from_slice(&crc.to_le_bytes());
}

fn pack(bytes: &[u8]) {
    let id = PackId([7; 16]);
    let layout = parhelia_ledger::layout(sample().folder.path().join("packed"));
    fs::create_dir_all(layout.packs()).unwrap();
    fs::write(layout.pack(id), bytes).unwrap();
    let Ok(file) = PackFile::open(&layout, id) else { return };
    let _ = file.scan(|_, _| Ok(()));
    let _ = file.scan_blocks(true, |location, _| {
        let _ = file.read_block(location);
        let _ = file.read_stored(location);
        Ok(())
    });
}

fn journal(bytes: &[u8]) {
    let layout = parhelia_ledger::layout(sample().folder.path().join("logged"));
    fs::create_dir_all(layout.journal()).unwrap();
    fs::write(layout.journal().join(format!("{:020}.log", 1)), bytes).unwrap();
    let _ = Journal::of(&layout).read(&Position::start());
}

/// Mends the header, and each frame's checksum and link to the one before.
fn mend_journal(bytes: &mut [u8]) {
    if bytes.len() < 64 {
        return;
    }
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    let (mut at, mut sequence, mut previous) = (64, 1u64, [0; 32]);
    while let Some(length) = bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize) {
        let end = at.saturating_add(48).saturating_add(length);
        if end > bytes.len() {
            return;
        }
        bytes[at + 8..at + 16].copy_from_slice(&sequence.to_le_bytes());
        bytes[at + 16..at + 48].copy_from_slice(&previous);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[at..at + 4]), &bytes[at + 8..end]);
        bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
        previous = *blake3::hash(&bytes[at + 8..end]).as_bytes();
        sequence += 1;
        at = end;
    }
}

fn cache(bytes: &[u8]) {
    let layout = parhelia_ledger::layout(sample().folder.path().join("cached"));
    fs::create_dir_all(layout.cache()).unwrap();
    let workspace = Path::new("/w");
    fs::write(path_for(&layout, workspace), bytes).unwrap();
    let Some(cache) = StatCache::open(&layout, workspace) else { return };
    let mut pending = vec![cache.trailer.root_section];
    for _ in 0..100 {
        let Some(section) = pending.pop().and_then(|at| cache.section(at)) else { break };
        pending.extend(section.entries.iter().map(|entry| entry.section));
    }
}

/// Mends the header, the trailer, and the checksums of the sections in front of it.
fn mend_cache(bytes: &mut [u8]) {
    let magic = STAT_CACHE_MAGIC;
    // The trailer begins with the magic, which also begins the file.
    let trailer = |cache: &Vec<u8>| cache.windows(8).rposition(|part| part == magic).map_or(0, |at| cache.len() - at);
    let trailer = sample().caches.first().map_or(0, trailer);
    let Some(end) = bytes.len().checked_sub(trailer).filter(|end| trailer > 12 && *end >= 20) else { return };
    bytes[..8].copy_from_slice(&magic);
    bytes[8..16].copy_from_slice(&(end as u64).to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..16]);
    bytes[16..20].copy_from_slice(&crc.to_le_bytes());
    let total = bytes.len();
    let crc = crc32c::crc32c(&bytes[end..total - 4]);
    bytes[total - 4..].copy_from_slice(&crc.to_le_bytes());
    let mut at = 20;
    while let Some(length) = bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])) {
        // The two highest bits say what the record is.
        let next = at.saturating_add(8).saturating_add((length & ((1 << 30) - 1)) as usize);
        if length == 0 || next > end {
            return;
        }
        let crc = crc32c::crc32c_append(crc32c::crc32c(&length.to_le_bytes()), &bytes[at + 8..next]);
        bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
        at = next;
    }
}

fn grown(bytes: &[u8]) {
    let layout = parhelia_ledger::layout(sample().folder.path().join("known"));
    fs::create_dir_all(layout.cache()).unwrap();
    let file = Path::new("/f");
    fs::write(AppendCache::path(&layout, file), bytes).unwrap();
    let _ = AppendCache::read(&layout, file);
}

fn mend_grown(bytes: &mut [u8]) {
    if let Some((body, crc)) = bytes.split_last_chunk_mut::<4>() {
        *crc = crc32c::crc32c(body).to_le_bytes();
    }
}

fn config(bytes: &[u8]) {
    let root = sample().folder.path().join("configured");
    let layout = parhelia_ledger::layout(root.clone());
    if !root.exists() {
        layout.folders().iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
    }
    fs::write(layout.config(), bytes).unwrap();
    let _ = parhelia_ledger::open(&root, &OpenOptions::default());
}

fn archive(bytes: &[u8]) {
    let root = sample().folder.path().join("imported");
    let open = OpenOptions { create: true, ..OpenOptions::default() };
    let store = parhelia_ledger::open(&root, &open).unwrap();
    // Small limits, so that a bomb goes off soon.
    let limits = Limits { expanded_bytes_free: 4 << 20, expansion_max: 20, ..Limits::default() };
    let Ok(mut reader) = Reader::new(bytes, Path::new("hostile.tar"), limits) else { return };
    let _ = create::import(&store, &mut reader, &ImportOptions::default(), &());
}

/// Mends the checksum of each header that is where a header may be.
fn mend_tar(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(512).filter(|block| &block[257..262] == b"ustar") {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}
