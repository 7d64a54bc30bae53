//! RocksDB's logs (its `MANIFEST` and `*.log` files), looked through before RocksDB reads them: of a damaged one its reader may never come to
//! an end. The format: <https://github.com/facebook/rocksdb/wiki/Write-Ahead-Log-File-Format>.

use std::{
    ffi::OsStr,
    io::{self, Read},
    path::Path,
};

use crate::files::{Folder, How};

/// The longest file `CURRENT`, in bytes.
const CURRENT_BYTES_MAX: u64 = 4 << 10;
/// Bytes of a block. No record crosses the end of one; longer ones are in fragments.
const BLOCK_BYTES: usize = 32 << 10;
/// Bytes of a record's header: checksum (u32), length (u16), type (u8), little-endian.
const HEADER_BYTES: usize = 7;
/// Types of records: whole ones, and first, middle and last fragments. The options in `db.rs` lead to no others: recycled logs, compressed
/// ones and tracked ones have types of their own.
const TYPES: std::ops::RangeInclusive<u8> = 1..=4;

/// The fault of the logs in a database's folder; none where RocksDB can be trusted to read them, or where they are gone, which it says itself.
pub fn fault_in(folder: &Path) -> io::Result<Option<String>> {
    let opened = Folder::below(folder)?;
    let current = opened.read(OsStr::new("CURRENT"), CURRENT_BYTES_MAX).unwrap_or_default();
    let mut names = vec![String::from_utf8_lossy(&current).trim_end().to_owned()];
    let all = opened.names()?.into_iter().filter_map(|name| String::from_utf8(name).ok());
    names.extend(all.filter(|name| name.ends_with(".log")));
    // A name in a damaged CURRENT is no path.
    for name in names.iter().filter(|name| !name.is_empty() && !name.contains(['/', '\0'])) {
        match opened.open(OsStr::new(name), How::Read).and_then(fault) {
            Ok(None) => {}
            Ok(Some(at)) => return Ok(Some(format!("{name} is damaged at byte {at}"))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}

/// Offset of the first record that is damaged; a last one that was cut off is none. Reads a block at a time.
fn fault(mut log: impl Read) -> io::Result<Option<u64>> {
    let mut block = Vec::with_capacity(BLOCK_BYTES);
    let (mut begin, mut room) = (0, None);
    loop {
        block.clear();
        log.by_ref().take(BLOCK_BYTES as u64).read_to_end(&mut block)?;
        if block.is_empty() {
            return Ok(None);
        }
        // Behind room that was allocated ahead there is nothing else.
        if room.is_some() && block.iter().any(|byte| *byte != 0) {
            return Ok(room);
        }
        if room.is_none() {
            match end_of_records(&block) {
                End::Damaged(at) => return Ok(Some(begin + at as u64)),
                End::Room(at) => room = Some(begin + at as u64),
                End::Whole => {}
            }
        }
        begin += block.len() as u64;
    }
}

/// The end of the records in a block.
enum End {
    /// The block, or a record that was cut off.
    Whole,
    /// Zeros from here on.
    Room(usize),
    /// Something that is no record.
    Damaged(usize),
}

fn end_of_records(block: &[u8]) -> End {
    let mut at = 0;
    while BLOCK_BYTES - at >= HEADER_BYTES {
        let Some(header) = block.get(at..at + HEADER_BYTES) else { break };
        let checksum = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let (length, kind) = (usize::from(u16::from_le_bytes([header[4], header[5]])), header[6]);
        if block[at..].iter().all(|byte| *byte == 0) {
            return End::Room(at);
        }
        let end = at + HEADER_BYTES + length;
        if !TYPES.contains(&kind) || end > BLOCK_BYTES {
            return End::Damaged(at);
        }
        // The type is covered as well.
        let Some(covered) = block.get(at + HEADER_BYTES - 1..end) else { break };
        if masked(crc32c::crc32c(covered)) != checksum {
            return End::Damaged(at);
        }
        at = end;
    }
    End::Whole
}

/// A checksum as it is stored.
fn masked(checksum: u32) -> u32 {
    checksum.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{db::Db, keys::Keys};

    #[test]
    fn a_damaged_log_is_noticed_before_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Db::open_writer(folder.path(), &Keys::default()).map(drop);
        open().unwrap();
        open().unwrap();
        assert_eq!(fault_in(folder.path()).unwrap(), None);
        let manifest = folder.path().join(fs::read_to_string(folder.path().join("CURRENT")).unwrap().trim_end());
        let good = fs::read(&manifest).unwrap();
        assert!(good.len() > 200, "{}", good.len());
        for at in 0..good.len() {
            let end = (at + 16).min(good.len());
            let mut flipped = good.clone();
            flipped[at] ^= 1 << (at % 8);
            let doubled = [&good[..end], &good[at..]].concat();
            let cut_out = [&good[..at], &good[end..]].concat();
            for bytes in [flipped, doubled, cut_out, good[..at].to_vec()] {
                // Either it is noticed, or nothing but its end is missing, or it still is a log.
                let is_noticed = fault(&*bytes).unwrap().is_some();
                assert!(is_noticed || good.starts_with(&bytes) || is_log(&bytes), "at {at}: {bytes:?}");
                fs::write(&manifest, &bytes).unwrap();
                let opened = Db::open_reader_in(folder.path(), &Keys::default(), 0);
                assert!(!is_noticed || opened.is_err(), "at {at}");
            }
        }
    }

    #[test]
    fn room_behind_the_records_is_no_damage_and_anything_in_it_is() {
        let record = |text: &[u8]| {
            let covered = [&[1], text].concat();
            let length = u16::try_from(text.len()).unwrap();
            [&masked(crc32c::crc32c(&covered)).to_le_bytes()[..], &length.to_le_bytes(), &covered].concat()
        };
        let mut log = record(b"first");
        let end = log.len();
        log.resize(3 * BLOCK_BYTES, 0);
        assert_eq!(fault(&*log).unwrap(), None);
        let in_last_block = 2 * BLOCK_BYTES + 100;
        log[in_last_block] = 1;
        assert_eq!(fault(&*log).unwrap(), Some(end as u64));
        log[end + 100] = 1;
        assert_eq!(fault(&*log).unwrap(), Some(end as u64));
        // A record that claims to go on behind its block.
        let mut log = vec![0; BLOCK_BYTES];
        let last = record(&[7; 100]);
        log[BLOCK_BYTES - 50..].copy_from_slice(&last[..50]);
        log[..50].copy_from_slice(&record(&[9; 43]));
        assert_eq!(fault(&*log).unwrap(), Some(50));
    }

    /// True if whole records follow each other to the end, or to one that was cut off.
    fn is_log(mut bytes: &[u8]) -> bool {
        while bytes.len() >= HEADER_BYTES {
            let length = usize::from(u16::from_le_bytes([bytes[4], bytes[5]]));
            match bytes.get(HEADER_BYTES..HEADER_BYTES + length) {
                None => return true,
                Some(_)
                    if masked(crc32c::crc32c(&bytes[6..HEADER_BYTES + length]))
                        != u32::from_le_bytes(bytes[..4].try_into().unwrap()) =>
                {
                    return false;
                }
                Some(_) => bytes = &bytes[HEADER_BYTES + length..],
            }
        }
        true
    }
}
