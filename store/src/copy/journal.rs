//! The journal of a copy: the same bytes, up to an end that was settled when the copy began.

use parhelia_name::step::Step;
use std::{
    collections::HashMap,
    fs::File,
    io::Read,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use crate::{
    disk,
    error::{Error, IoContext, Result},
    event::kind,
    files::{self, Folder, How},
    id::OpId,
    journal::{Entry, Journal, JournalRecord, Position},
    layout::Layout,
    lock::IndexLock,
};

/// Bytes that are compared at a time.
const PIECE_BYTES: usize = 1 << 20;

/// A segment, and how many of its bytes belong to the copy.
struct Segment {
    first: u64,
    from: PathBuf,
    to: PathBuf,
    bytes: u64,
}

/// The segments up to an end.
fn segments(from: &Layout, to: &Layout, end: &Position) -> Result<Vec<Segment>> {
    let journal = Journal::of(from);
    let mut segments = Vec::new();
    for first in journal.segments()?.into_iter().filter(|first| *first <= end.segment) {
        let path = from.journal().join(file_name(first));
        let length = std::fs::symlink_metadata(&path).at("read journal", &path)?.len();
        let bytes = if first == end.segment { end.offset } else { length };
        segments.push(Segment { first, to: to.journal().join(file_name(first)), from: path, bytes });
    }
    Ok(segments)
}

fn file_name(first: u64) -> String {
    format!("{first:020}.log")
}

/// The copy's journal beside the store's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JournalMatch {
    /// It is a beginning of the store's.
    Beginning,
    /// It tells nothing that the store's does not but the copy's own upkeep, or the store has what is damaged of it. [`set_back`] makes it the
    /// store's.
    Upkeep,
}

/// Compares the copy's journal with the store's, up to an end. Fails where the copy tells of anything that the store does not.
pub(super) fn meet(from: &Layout, to: &Layout, end: &Position) -> Result<JournalMatch> {
    let ours = segments(from, to, end)?;
    let theirs = Journal::of(to).segments()?;
    let mut is_beginning = theirs.iter().all(|first| ours.iter().any(|segment| segment.first == *first));
    for (n, segment) in ours.iter().enumerate().filter(|(_, segment)| theirs.contains(&segment.first)) {
        // What somebody appended to a segment that goes on elsewhere is no part of the store's.
        let is_last = theirs.last() == Some(&segment.first);
        let length = std::fs::symlink_metadata(&segment.to).at("read journal", &segment.to)?.len();
        let is_whole = length == segment.bytes || is_last && length < segment.bytes;
        is_beginning &= is_whole && theirs.get(n) == Some(&segment.first) && begins_alike(segment, length)?;
    }
    if is_beginning {
        return Ok(JournalMatch::Beginning);
    }
    let (here, there) = (from.root.display(), to.root.display());
    let known: HashMap<u64, JournalRecord> = Journal::of(from)
        .read(&Position::start())?
        .until(end)
        .records
        .into_iter()
        .map(|logged| (logged.sequence, logged))
        .collect();
    let is_no_news = |logged: &JournalRecord| known.get(&logged.sequence) == Some(logged) || is_upkeep(&logged.entry);
    // Bytes that cannot be read may be a record that the store does not have, unless the store has as many bytes there.
    let is_within = |first: &u64| {
        let length = std::fs::symlink_metadata(to.journal().join(file_name(*first))).map_or(u64::MAX, |meta| meta.len());
        ours.iter().any(|segment| segment.first == *first && length <= segment.bytes)
    };
    let (records, their_end, is_readable, fault) = their_records(to)?;
    let tells_of_more = Journal::of(to).hint().is_some_and(|hint| hint > end.sequence.max(their_end));
    if records.iter().all(is_no_news) && !tells_of_more && (is_readable || theirs.iter().all(is_within)) {
        return Ok(JournalMatch::Upkeep);
    }
    if let Some(fault) = fault {
        return Err(Error::Damage(format!(
            "cannot copy the store at {here} to {there}: the copy's journal is damaged, and may tell of more than the store's: {fault}\n{} \
             mends what can be mended; nothing was changed",
            Step::RepairOf(to.root.clone())
        )));
    }
    Err(Error::Refused(match their_end {
        theirs if theirs > end.sequence => format!(
            "cannot copy the store at {here} to {there}: the copy is newer; it goes up to journal entry {theirs}, and the store to {}\nAn older \
             copy of the store may be in its place: if its disk is not mounted, mount it. Nothing was changed",
            end.sequence
        ),
        _ => format!(
            "cannot copy the store at {here} to {there}: something was recorded in the copy that the store does not have\nKeep both, and copy \
             the one that has what you need to another folder; nothing was changed"
        ),
    }))
}

/// The whole records of the copy's journal, the last one's sequence, whether all bytes of it can be read, and the fault where it is damaged.
fn their_records(of: &Layout) -> Result<(Vec<JournalRecord>, u64, bool, Option<String>)> {
    let journal = Journal::of(of);
    let fault = match journal.read(&Position::start()) {
        Ok(tail) => {
            let is_readable = tail.torn_bytes == 0 && !tail.is_doubtful;
            let fault =
                (!is_readable).then(|| format!("{} bytes behind record {} do not decode", tail.torn_bytes, tail.end.sequence));
            return Ok((tail.records, tail.end.sequence, is_readable, fault));
        }
        Err(e) if e.is_damage() => e.fault(),
        Err(e) => return Err(e),
    };
    let mut records = Vec::new();
    let found = journal.look_around(&Position::start(), &mut |raw| {
        records.push(raw.decode()?);
        Ok(())
    })?;
    Ok((records, found.end.sequence, false, Some(fault)))
}

/// True for an entry that says only what was looked at, or where objects lie: a verification, a check, a repair, a gc.
fn is_upkeep(entry: &Entry) -> bool {
    match entry {
        Entry::Event(event) => [kind::CHECKPOINT_VERIFIED, kind::STORE_CHECKED].contains(&event.kind.as_str()),
        Entry::Condemn { .. } | Entry::Dropped { .. } => true,
        Entry::Commit { .. } | Entry::RemoteEvent { .. } | Entry::Fetched { .. } | Entry::Unknown(_) => false,
    }
}

/// Takes off what the copy's journal has beyond the store's, from its end backwards, so that it is a whole journal at every moment. All packs of
/// the store are in the copy by now.
pub(super) fn set_back(from: &Layout, to: &Layout, end: &Position) -> Result<()> {
    let ours = segments(from, to, end)?;
    let theirs = Journal::of(to).segments()?;
    let mut same = 0;
    for (segment, first) in ours.iter().zip(&theirs) {
        let length = std::fs::symlink_metadata(&segment.to).at("read journal", &segment.to)?.len();
        if segment.first != *first || length != segment.bytes || !begins_alike(segment, length)? {
            break;
        }
        same += 1;
    }
    let Some((first, later)) = theirs[same..].split_first() else { return Ok(()) };
    // The index has taken in what goes, and the hint tells of it.
    discard_index(to)?;
    Journal::of(to).write_hint(first - 1);
    for segment in later.iter().rev() {
        remove_segment(to, *segment)?;
    }
    let Some(segment) = ours.iter().find(|segment| segment.first == *first) else { return remove_segment(to, *first) };
    let folder = Folder::below(&to.journal()).at("open folder", to.journal())?;
    folder.write_synced(file_name(*first).as_ref(), &read_from(segment, 0)?, false).at("write", &segment.to)
}

fn remove_segment(of: &Layout, first: u64) -> Result<()> {
    let path = of.journal().join(file_name(first));
    files::remove(&path).at("remove", path)?;
    disk::sync_folder(&of.journal())
}

fn discard_index(of: &Layout) -> Result<()> {
    let _lock = IndexLock::take(&of.root)?;
    let aside = of.cache().join(format!("view.{}.old", OpId::generate()));
    match files::rename_below(&of.root, &of.view(), &aside) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(e).at("set aside", of.view()),
        // gc removes what stays.
        Ok(()) => _ = files::remove_all(&of.root, &aside),
    }
    of.make_missing();
    disk::sync_folder(&of.root)
}

/// True if both files of a segment begin with the same bytes.
fn begins_alike(segment: &Segment, bytes: u64) -> Result<bool> {
    let open = |path: &Path| files::open(path, How::Read).at("open journal", path);
    let (ours, theirs) = (open(&segment.from)?, open(&segment.to)?);
    let (mut a, mut b) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
    let mut at = 0;
    while at < bytes {
        let length = usize::try_from(bytes - at).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        ours.read_exact_at(&mut a[..length], at).at("read journal", &segment.from)?;
        theirs.read_exact_at(&mut b[..length], at).at("read journal", &segment.to)?;
        if a[..length] != b[..length] {
            return Ok(false);
        }
        at += length as u64;
    }
    Ok(true)
}

/// Brings the copy's journal up to an end. Returns the number of bytes that were written. Each segment is synced before the next one is begun, so
/// that the copy's journal is a beginning of the store's whatever happens.
pub(super) fn copy(from: &Layout, to: &Layout, end: &Position) -> Result<u64> {
    let mut written = 0;
    for segment in segments(from, to, end)? {
        let has = match std::fs::symlink_metadata(&segment.to) {
            Ok(meta) => meta.len(),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => 0,
            Err(e) => return Err(e).at("read journal", &segment.to),
        };
        if has >= segment.bytes {
            continue;
        }
        let bytes = read_from(&segment, has)?;
        if has == 0 {
            let folder = Folder::below(&to.journal()).at("open folder", to.journal())?;
            folder.write_synced(file_name(segment.first).as_ref(), &bytes, false).at("write", &segment.to)?;
        } else {
            let file = files::open(&segment.to, How::Write).at("open journal", &segment.to)?;
            let appended = file.write_all_at(&bytes, has).at("append to journal", &segment.to);
            appended.and_then(|()| disk::sync_file(&file, "sync journal", &segment.to)).inspect_err(|_| {
                let _ = file.set_len(has);
            })?;
        }
        written += bytes.len() as u64;
    }
    disk::sync_folder(&to.journal())?;
    if end.sequence > 0 {
        Journal::of(to).raise_hint(end.sequence);
    }
    Ok(written)
}

fn read_from(segment: &Segment, at: u64) -> Result<Vec<u8>> {
    let mut file: File = files::open(&segment.from, How::Read).at("open journal", &segment.from)?;
    std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(at)).at("read journal", &segment.from)?;
    let mut bytes = Vec::new();
    file.take(segment.bytes - at).read_to_end(&mut bytes).at("read journal", &segment.from)?;
    if bytes.len() as u64 == segment.bytes - at {
        return Ok(bytes);
    }
    Err(Error::Corrupt { what: "journal".into(), place: segment.from.clone(), reason: "it is shorter than it was".into() })
}
