//! A folder's section of the stat cache, as bytes: whole, in parts, or as a patch of what was known before.

use std::{borrow::Borrow, fs::File, os::unix::fs::FileExt};

use super::CacheEntry;
use crate::{
    codec::{DecodeError, Decoder, put_uint},
    filesystem::FilesystemId,
    id::TreeId,
    keys::{Part, Seal},
    tree::{Node, Time},
};

const STAT_BYTES: usize = 29;
/// A section of more entries is written and read in parts of this many, so that a big folder's bytes are never in memory at once.
pub(super) const PART_ENTRIES: usize = 16 << 10;
/// Set in a record's length if another part follows.
const MORE: u32 = 1 << 31;
/// The length, the number of patches from here to a whole section, and a checksum.
const HEAD_BYTES: usize = 9;
/// So many patches stand on a whole section, at most, so that reading one stays about as cheap.
const STEPS_MAX: u8 = 8;
/// A patch takes at most this part of what the section takes whole: with [`STEPS_MAX`], reading costs three times as many bytes at most.
const PATCH_SHARE: usize = 4;

/// A folder as the cache knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Id of the folder's tree when the cache was written.
    pub tree: TreeId,
    /// The filesystem that the folder was on, and the entries that are not [racy](CacheEntry::racy).
    pub filesystem: FilesystemId,
    /// Its entries, ordered by name.
    pub entries: Vec<CacheEntry>,
}

impl Section {
    fn encode<T: Borrow<CacheEntry>>(out: &mut Vec<u8>, tree: TreeId, filesystem: FilesystemId, entries: &[T]) {
        let (mut head, mut tail, mut stats) = (Vec::new(), Vec::new(), Vec::with_capacity(entries.len() * STAT_BYTES));
        for e in entries {
            let e: &CacheEntry = e.borrow();
            e.node.encode(&mut head, &mut tail);
            stats.extend_from_slice(&e.ino.to_le_bytes());
            stats.extend_from_slice(&e.ctime.secs.to_le_bytes());
            stats.extend_from_slice(&e.ctime.nanos.to_le_bytes());
            stats.push(u8::from(e.racy));
            stats.extend_from_slice(&e.section.to_le_bytes());
        }
        out.extend_from_slice(&tree.0);
        out.extend_from_slice(&filesystem.0);
        put_uint(out, entries.len() as u64);
        put_uint(out, head.len() as u64);
        out.extend_from_slice(&stats);
        out.extend_from_slice(&head);
        out.extend_from_slice(&tail);
    }

    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let tree = TreeId(d.array("section")?);
        let filesystem = FilesystemId(d.array("section")?);
        let count = d.count(STAT_BYTES, "section")?;
        let head_bytes = d.uint("section")? as usize;
        let mut stats = Decoder::new(d.take(count * STAT_BYTES, "section")?);
        let mut head = Decoder::new(d.take(head_bytes, "section")?);
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let ino = stats.u64("section")?;
            let ctime = Time { secs: stats.u64("section")? as i64, nanos: stats.u32("section")? };
            let racy = stats.byte("section")? != 0;
            let section = stats.u64("section")?;
            entries.push(CacheEntry { node: Node::decode(&mut head, d)?, ino, ctime, racy, section });
        }
        Ok(Section { tree, filesystem, entries })
    }
}

/// A section by what differs from an earlier one in the same file.
struct Patch {
    /// Offset of its first byte; before the patch.
    base: u64,
    /// Names that it has and this one has not, in order.
    removed: Vec<Vec<u8>>,
    /// The rest of the section: entries that it has not, or has otherwise.
    section: Section,
}

impl Patch {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let base = d.u64("patch")?;
        let removed = (0..d.count(1, "patch")?).map(|_| Ok(d.bytes("patch")?.to_vec()));
        let removed = removed.collect::<Result<_, DecodeError>>()?;
        Ok(Patch { base, removed, section: Section::decode(d)? })
    }

    fn apply(self, base: Section) -> Section {
        let Section { tree, filesystem, entries: changed } = self.section;
        let mut entries = Vec::with_capacity(base.entries.len() + changed.len());
        let mut changed = changed.into_iter().peekable();
        let mut removed = self.removed.iter().peekable();
        for old in base.entries {
            while let Some(new) = changed.next_if(|new| new.node.name < old.node.name) {
                entries.push(new);
            }
            while removed.next_if(|name| **name < old.node.name).is_some() {}
            if let Some(new) = changed.next_if(|new| new.node.name == old.node.name) {
                entries.push(new);
            } else if removed.next_if(|name| **name == old.node.name).is_none() {
                entries.push(old);
            }
        }
        entries.extend(changed);
        Section { tree, filesystem, entries }
    }
}

/// A record's bytes: its head, and the body as it is stored. `steps` is 0 for a whole section.
fn framed(body: &[u8], more: bool, steps: u8, seal: &Seal) -> Vec<u8> {
    let body = seal.seal(Part::Cache, body);
    let length = body.len() as u32 | if more { MORE } else { 0 };
    let told = [&length.to_le_bytes()[..], &[steps]].concat();
    let crc = crc32c::crc32c_append(crc32c::crc32c(&told), &body);
    [&told[..], &crc.to_le_bytes(), &body].concat()
}

/// One part of a whole section.
pub(super) fn part<T: Borrow<CacheEntry>>(
    tree: TreeId,
    filesystem: FilesystemId,
    entries: &[T],
    more: bool,
    seal: &Seal,
) -> Vec<u8> {
    let mut body = Vec::new();
    Section::encode(&mut body, tree, filesystem, entries);
    framed(&body, more, 0, seal)
}

/// The section as a patch of an earlier one in this file; none where that is not worth it.
pub(super) fn patch<T: Borrow<CacheEntry>>(
    file: &File,
    (base, old): (u64, &Section),
    tree: TreeId,
    filesystem: FilesystemId,
    entries: &[T],
    seal: &Seal,
) -> Option<Vec<u8>> {
    let steps = steps(file, base)?.checked_add(1).filter(|steps| *steps <= STEPS_MAX)?;
    let (mut removed, mut changed): (Vec<&[u8]>, Vec<&CacheEntry>) = (Vec::new(), Vec::new());
    let mut olds = old.entries.iter().peekable();
    for new in entries.iter().map(Borrow::borrow) {
        while let Some(old) = olds.next_if(|old| old.node.name < new.node.name) {
            removed.push(&old.node.name);
        }
        let same = olds.next_if(|old| old.node.name == new.node.name);
        if same != Some(new) {
            changed.push(new);
        }
    }
    removed.extend(olds.map(|old| old.node.name.as_slice()));
    // By the number of entries: nothing is encoded for it. A removed name is much less than an entry.
    if (changed.len() + removed.len().div_ceil(PATCH_SHARE)) * PATCH_SHARE > entries.len() {
        return None;
    }
    let mut body = base.to_le_bytes().to_vec();
    put_uint(&mut body, removed.len() as u64);
    for name in removed {
        put_uint(&mut body, name.len() as u64);
        body.extend_from_slice(name);
    }
    Section::encode(&mut body, tree, filesystem, &changed);
    Some(framed(&body, false, steps, seal))
}

/// The number of patches from a section to a whole one.
fn steps(file: &File, offset: u64) -> Option<u8> {
    let mut head = [0; HEAD_BYTES];
    file.read_exact_at(&mut head, offset).ok()?;
    Some(head[4])
}

/// The section at an offset of a file whose records end at `end`; `None` where it does not decode.
pub(super) fn read(file: &File, end: u64, offset: u64, seal: &Seal) -> Option<Section> {
    let mut patches: Vec<Patch> = Vec::new();
    let mut at = offset;
    let mut section = loop {
        match read_record(file, end, at, seal)? {
            (Record::Part(section), next) => break with_more(file, end, section, next, seal)?,
            (Record::Patch(patch), _) => {
                // What it patches stands before it, so that this ends.
                if patch.base >= at || patches.len() >= usize::from(STEPS_MAX) {
                    return None;
                }
                at = patch.base;
                patches.push(patch);
            }
        }
    };
    while let Some(patch) = patches.pop() {
        section = patch.apply(section);
    }
    Some(section)
}

fn with_more(file: &File, end: u64, mut section: Section, mut next: Option<u64>, seal: &Seal) -> Option<Section> {
    while let Some(offset) = next {
        let (Record::Part(part), after) = read_record(file, end, offset, seal)? else { return None };
        section.entries.extend(part.entries);
        next = after;
    }
    Some(section)
}

enum Record {
    Part(Section),
    Patch(Patch),
}

/// A record, and where the next part begins.
fn read_record(file: &File, end: u64, offset: u64, seal: &Seal) -> Option<(Record, Option<u64>)> {
    let mut head = [0; HEAD_BYTES];
    let begin = offset.checked_add(HEAD_BYTES as u64).filter(|begin| offset != 0 && *begin <= end)?;
    file.read_exact_at(&mut head, offset).ok()?;
    let mut d = Decoder::new(&head);
    let (told, steps, crc) = (d.u32("section").ok()?, d.byte("section").ok()?, d.u32("section").ok()?);
    let length = told & !MORE;
    if u64::from(length) > end - begin {
        return None;
    }
    let mut body = vec![0; length as usize];
    file.read_exact_at(&mut body, begin).ok()?;
    if crc32c::crc32c_append(crc32c::crc32c(&head[..5]), &body) != crc {
        return None;
    }
    let body = seal.open(Part::Cache, body).ok()?;
    let mut d = Decoder::new(&body);
    let record = match steps == 0 {
        true => Record::Part(Section::decode(&mut d).ok()?),
        false => Record::Patch(Patch::decode(&mut d).ok()?),
    };
    Some((record, (told & MORE != 0).then_some(begin + u64::from(length))))
}
