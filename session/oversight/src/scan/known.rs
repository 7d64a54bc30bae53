//! Contents without secrets that were scanned once, in the store's cache: the same content, in another folder or another session, is not
//! scanned again. The file is worth nothing under other rules, and is made anew where they have changed.

use std::{
    collections::HashSet,
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::LazyLock,
};

use parhelia_store::{
    Store,
    files::{self, How},
    id::BlobId,
};
use rustix::fs::{FlockOperation, flock};

use super::{rule::Files, rules::RULES};

const MAGIC: &[u8; 8] = b"PARHSCN1";
/// Raised when the same patterns accept other texts than before.
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 40;
/// A batch begins with the number of its entries, and the beginning of a hash of them.
const BATCH_HEAD_BYTES: usize = 8;
/// A file of this length is begun anew.
const BYTES_MAX: u64 = 8 << 20;

/// A content, and what it was taken for: the first fifteen bytes of its id, and the kind.
pub(super) type Key = [u8; 16];

/// What a content was taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum ContentClass {
    /// Text of a file of any kind.
    Text = 0,
    /// Text of a settings file, in which more rules hold.
    Settings = 1,
    /// It is no text.
    Binary = 2,
}

/// The entry of a content.
pub(super) fn key(blob: BlobId, taken: ContentClass) -> Key {
    let mut key: Key = [0; 16];
    key.copy_from_slice(&blob.0[..16]);
    key[15] = taken as u8;
    key
}

/// Reads every entry; none where they are those of other rules.
pub(super) fn read(path: &Path) -> HashSet<Key> {
    let read = files::open(path, How::Read).and_then(|file| files::read_all(&file, 2 * BYTES_MAX));
    read.map(|bytes| decode(&bytes)).unwrap_or_default()
}

/// Adds entries. Where somebody else is about to, they are not kept.
pub(super) fn add(path: &Path, keys: &[Key]) -> io::Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let mut file = files::open(path, How::Make)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let bytes = files::read_all(&file, BYTES_MAX).unwrap_or_default();
    let mut end = whole(&bytes) as u64;
    if end == 0 {
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&head())?;
        end = HEAD_BYTES as u64;
    }
    // Behind a batch that was cut off, nothing would be read.
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end))?;
    file.write_all(&batch(keys)).inspect_err(|_| drop(file.set_len(end)))
}

/// The file of a store.
pub(super) fn path(store: &Store) -> PathBuf {
    store.layout().cache().join("scanned")
}

/// The beginning of a file of these rules.
fn head() -> [u8; HEAD_BYTES] {
    static HEAD: LazyLock<[u8; HEAD_BYTES]> = LazyLock::new(|| {
        let mut hash = blake3::Hasher::new();
        hash.update(&VERSION.to_le_bytes());
        for rule in RULES {
            let of_settings = u8::from(rule.files == Files::Settings);
            for part in [rule.id, &rule.keywords.join("\0"), rule.pattern] {
                hash.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
            }
            hash.update(&rule.entropy_min.to_le_bytes()).update(&[of_settings]);
        }
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(MAGIC);
        head[8..].copy_from_slice(hash.finalize().as_bytes());
        head
    });
    *HEAD
}

fn check(entries: &[u8]) -> [u8; 4] {
    let [a, b, c, d, ..] = *blake3::hash(entries).as_bytes();
    [a, b, c, d]
}

fn batch(keys: &[Key]) -> Vec<u8> {
    let entries = keys.concat();
    [&(keys.len() as u32).to_le_bytes()[..], &check(&entries), &entries].concat()
}

/// The entries up to the first batch that is not whole.
fn decode(bytes: &[u8]) -> HashSet<Key> {
    let mut keys = HashSet::new();
    each_batch(bytes, |entries| keys.extend(entries.as_chunks::<16>().0));
    keys
}

/// The length of a file up to the first batch that is not whole; 0 where it is one of other rules.
fn whole(bytes: &[u8]) -> usize {
    each_batch(bytes, |_| {})
}

fn each_batch(bytes: &[u8], mut each: impl FnMut(&[u8])) -> usize {
    let Some(mut rest) = bytes.strip_prefix(&head()) else { return 0 };
    while let Some((count, behind)) = rest.split_first_chunk::<4>()
        && let Some((sum, behind)) = behind.split_first_chunk::<4>()
        && let Some(entries) = behind.get(..u32::from_le_bytes(*count) as usize * size_of::<Key>())
        && check(entries) == *sum
    {
        each(entries);
        rest = &rest[BATCH_HEAD_BYTES + entries.len()..];
    }
    bytes.len() - rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(from: u8, count: u8) -> Vec<Key> {
        (from..from + count).map(|i| key(BlobId([i; 32]), ContentClass::Settings)).collect()
    }

    #[test]
    fn entries_are_read_up_to_what_is_torn_or_of_other_rules() {
        let whole = [&head()[..], &batch(&keys(1, 3)), &batch(&keys(9, 2))].concat();
        assert_eq!(decode(&whole), keys(1, 3).into_iter().chain(keys(9, 2)).collect());
        for end in 0..whole.len() {
            let left = decode(&whole[..end]).len();
            assert!(left == if end < 40 + 8 + 48 { 0 } else { 3 }, "{end}: {left}");
        }
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 4;
            assert!(decode(&other).len() < 5 && decode(&other).is_subset(&decode(&whole)), "{at}");
        }
    }

    #[test]
    fn what_is_added_is_read_again_and_other_rules_begin_anew() {
        let dir = tempfile::tempdir().unwrap();
        let options = parhelia_store::OpenOptions { create: true, ..Default::default() };
        let path = path(&parhelia_ledger::open(&dir.path().join("store"), &options).unwrap());
        assert!(read(&path).is_empty());
        add(&path, &keys(1, 3)).unwrap();
        add(&path, &keys(7, 1)).unwrap();
        assert_eq!(read(&path).len(), 4);
        // A batch that was cut off goes with the next one.
        let torn = std::fs::metadata(&path).unwrap().len() - 5;
        std::fs::File::options().write(true).open(&path).unwrap().set_len(torn).unwrap();
        assert_eq!(read(&path).len(), 3);
        add(&path, &keys(8, 2)).unwrap();
        assert_eq!(read(&path).len(), 5);
        std::fs::write(&path, b"PARHSCN1 of other rules, and what they have found to be without secrets").unwrap();
        assert!(read(&path).is_empty());
        add(&path, &keys(1, 2)).unwrap();
        assert_eq!(read(&path).len(), 2);
    }
}
