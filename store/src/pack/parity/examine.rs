//! Finding damaged shards, and computing them from the others.

use std::{cell::Cell, collections::BTreeMap, fs::File, io, os::unix::fs::FileExt};

use rustix::{fs::SeekFrom, io::Errno};

use super::{
    field::{inverted, power, product},
    shape::Shape,
    stripes::Stripes,
    write::PIECE_BYTES,
};
use crate::{
    format::PACK_PARITY_MAGIC,
    pack::trailer::{PARITY_TRAILER_BYTES, Trailer},
};

/// A pack with parity, compared with its checksums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParityReport {
    /// The trailer, from whichever of its two places is whole.
    pub trailer: Trailer,
    /// Damaged shards, by number, as they were written.
    pub healed: BTreeMap<u64, Vec<u8>>,
    /// Number of damaged places: shards, parity shards, checksums, and trailers.
    pub damaged: u64,
    /// Number of damaged shards that nothing is left to compute from.
    pub lost: u64,
}

/// A file, and whether the disk could not read something of it.
struct WatchedFile<'f> {
    file: &'f File,
    unread: &'f Cell<bool>,
}

impl WatchedFile<'_> {
    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, at).inspect_err(|e| {
            if e.raw_os_error() == Some(Errno::IO.raw_os_error()) {
                self.unread.set(true);
            }
        })
    }
}

/// Reads all of a pack, and heals it as far as it can be. `None` where it has no parity, or no trailer is left that says how it is divided. Sets
/// `unread` where the disk could not read all of it.
pub fn examine(file: &File, unread: &Cell<bool>) -> io::Result<Option<ParityReport>> {
    let length = file.metadata()?.len();
    let file = &WatchedFile { file, unread };
    let Some((trailer, shape, damaged_trailers)) = trailer(file, length)? else { return Ok(None) };
    let look = Look::take(file, shape)?;
    let mut examined = ParityReport { trailer, healed: BTreeMap::new(), damaged: damaged_trailers, lost: 0 };
    examined.damaged += look.parity.iter().filter(|shard| !shard.is_right).count() as u64;
    examined.damaged += look.suspects.values().map(|shards| shards.len() as u64).sum::<u64>();
    for (stripe, suspects) in &look.suspects {
        match look.solve(*stripe, suspects) {
            Some(found) => examined.healed.extend(found),
            None => examined.lost += suspects.len() as u64,
        }
    }
    Ok(Some(examined))
}

/// The trailer, from either of its places, and the number of places at which it is damaged.
fn trailer(file: &WatchedFile<'_>, length: u64) -> io::Result<Option<(Trailer, Shape, u64)>> {
    let mut end = vec![0; length.min(PARITY_TRAILER_BYTES as u64) as usize];
    let at = length - end.len() as u64;
    let is_read = file.read_exact_at(&mut end, at).is_ok();
    let at_end = Trailer::decode_end(&end).ok().filter(|trailer| is_read && trailer.pack_bytes == length);
    if let Some(trailer) = at_end {
        let Some(shape) = trailer.parity else { return Ok(None) };
        let is_twice = before_parity(file, shape.covered_bytes) == Some(trailer);
        return Ok(Some((trailer, shape, u64::from(!is_twice))));
    }
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    while at < length {
        // A file that was made longer, to any length, is mostly a hole.
        at = match rustix::fs::seek(file.file, SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            Err(_) => at,
        };
        let filled = piece.len().min((length - at) as usize);
        if file.read_exact_at(&mut piece[..filled], at).is_err() {
            // Some sector of it cannot be read; the trailer may be in another.
            piece[..filled].fill(0);
            read_by_sectors(file, &mut piece[..filled], at);
        }
        let magics =
            piece[..filled].windows(PACK_PARITY_MAGIC.len()).enumerate().filter(|(_, bytes)| *bytes == PACK_PARITY_MAGIC);
        for (found, _) in magics {
            let place = at + found as u64;
            if let Some(trailer) = before_parity(file, place)
                && let Some(shape) = trailer.parity.filter(|shape| shape.covered_bytes == place)
            {
                return Ok(Some((trailer, shape, 1)));
            }
        }
        // A magic may begin in the last bytes of this piece.
        at += filled.saturating_sub(PACK_PARITY_MAGIC.len() - 1).max(1) as u64;
    }
    Ok(None)
}

fn before_parity(file: &WatchedFile<'_>, at: u64) -> Option<Trailer> {
    let mut bytes = [0; PARITY_TRAILER_BYTES];
    file.read_exact_at(&mut bytes, at).ok()?;
    Trailer::decode_before_parity(&bytes).ok()
}

/// Bytes that a disk loses together.
const SECTOR_BYTES: usize = 4096;

/// Reads what can be read; the rest stays as it is. Says whether all of it was read.
fn read_by_sectors(file: &WatchedFile<'_>, buffer: &mut [u8], at: u64) -> Vec<bool> {
    let first = SECTOR_BYTES - (at % SECTOR_BYTES as u64) as usize;
    let mut done = 0;
    let mut read = vec![false; buffer.len()];
    while done < buffer.len() {
        let now = if done == 0 { first.min(buffer.len()) } else { SECTOR_BYTES.min(buffer.len() - done) };
        let is_read = file.read_exact_at(&mut buffer[done..done + now], at + done as u64).is_ok();
        read[done..done + now].fill(is_read);
        done += now;
    }
    read
}

/// A parity shard as it is stored.
struct ParityShard {
    /// The sum of it and of what the shards that are there make: all zeros where the stripe is as it was written.
    difference: Vec<u8>,
    /// True if it could be read.
    is_read: bool,
    /// True if it was read and has its checksum.
    is_right: bool,
}

/// A shard that does not have its checksum.
struct Suspect {
    number: u64,
    /// The bytes that are there; `None` where they cannot be read, and zeros were taken.
    found: Option<Vec<u8>>,
}

/// What a pack has at its shards.
struct Look {
    shape: Shape,
    checksums: Vec<Option<u32>>,
    parity: Vec<ParityShard>,
    /// By stripe.
    suspects: BTreeMap<u64, Vec<Suspect>>,
}

impl Look {
    fn take(file: &WatchedFile<'_>, shape: Shape) -> io::Result<Self> {
        let parity_at = shape.covered_bytes + PARITY_TRAILER_BYTES as u64;
        let checksums = checksums(file, &shape, parity_at + shape.parity_bytes());
        let mut look = Look { shape, checksums, parity: Vec::new(), suspects: BTreeMap::new() };
        let mut stripes = Stripes::new(shape);
        let mut room = vec![0; shape.shard_bytes as usize];
        for number in 0..shape.shards() {
            let (offset, bytes) = shape.place(number);
            let is_read = read_or_zeros(file, &mut room[..bytes], offset);
            let shard = &room[..bytes];
            stripes.add(shard);
            if !is_read || look.checksum(number).is_some_and(|known| known != crc32c::crc32c(shard)) {
                let found = Suspect { number, found: is_read.then(|| shard.to_vec()) };
                look.suspects.entry(number % u64::from(shape.stripes)).or_default().push(found);
            }
        }
        for (number, computed) in (0..).zip(stripes.finish().chunks_exact(shape.shard_bytes as usize)) {
            let is_read = read_or_zeros(file, &mut room, parity_at + number * u64::from(shape.shard_bytes));
            let known = look.checksum(shape.shards() + number);
            let is_right = is_read && known.is_none_or(|known| known == crc32c::crc32c(&room));
            let difference = room.iter().zip(computed).map(|(a, b)| a ^ b).collect();
            look.parity.push(ParityShard { difference, is_read, is_right });
        }
        Ok(look)
    }

    fn checksum(&self, number: u64) -> Option<u32> {
        self.checksums.get(number as usize).copied().flatten()
    }

    /// The rows of parity of a stripe.
    fn rows(&self, stripe: u64) -> impl Iterator<Item = (u64, &ParityShard)> {
        (0..).zip(self.parity.iter().skip(stripe as usize).step_by(self.shape.stripes as usize))
    }

    /// The shards of a stripe that are not as they were written, computed from the others. Empty where all of them are, and what is damaged are
    /// their checksums.
    fn solve(&self, stripe: u64, suspects: &[Suspect]) -> Option<Vec<(u64, Vec<u8>)>> {
        let read = self.rows(stripe).filter(|(_, row)| row.is_read);
        let (fitting, others): (Vec<_>, Vec<_>) = read.partition(|(_, row)| row.difference.iter().all(|byte| *byte == 0));
        // What two rows agree with is right: two errors cannot hide from both.
        let is_as_written = fitting.len() >= 2 || !fitting.is_empty() && others.is_empty();
        if is_as_written && suspects.iter().all(|suspect| suspect.found.is_some()) {
            return Some(Vec::new());
        }
        let right: Vec<(u64, &ParityShard)> = self.rows(stripe).filter(|(_, row)| row.is_right).collect();
        let (rows, spare) = right.split_at_checked(suspects.len())?;
        let factor = |row: u64, shard: u64| power(row * self.shape.exponent(shard));
        let matrix = rows.iter().map(|(row, _)| suspects.iter().map(|suspect| factor(*row, suspect.number)).collect()).collect();
        let errors: Vec<Vec<u8>> = inverted(matrix)?
            .iter()
            .map(|line| sum(rows.iter().zip(line).map(|((_, row), factor)| (&row.difference, *factor))))
            .collect();
        // A row that was not needed tells whether the errors are right, without any checksum.
        let explains = |(row, shard): &(u64, &ParityShard)| {
            let factors = suspects.iter().map(|suspect| factor(*row, suspect.number));
            sum(errors.iter().zip(factors)) == shard.difference
        };
        let is_certain = !spare.is_empty() && spare.iter().all(explains);
        let mut healed = Vec::new();
        for (Suspect { number, found }, error) in suspects.iter().zip(&errors) {
            let (_, bytes) = self.shape.place(*number);
            let mut shard = found.clone().unwrap_or_else(|| vec![0; bytes]);
            shard.iter_mut().zip(error).for_each(|(byte, error)| *byte ^= error);
            let is_same = found.as_ref() == Some(&shard);
            let has_checksum = self.checksum(*number).is_none_or(|known| known == crc32c::crc32c(&shard));
            if !is_same && !has_checksum && !is_certain {
                return None;
            }
            healed.extend((!is_same).then_some((*number, shard)));
        }
        Some(healed)
    }
}

/// The sum of some shards, each times a factor.
fn sum<'s>(shards: impl Iterator<Item = (&'s Vec<u8>, u8)>) -> Vec<u8> {
    let mut sum = Vec::new();
    for (shard, factor) in shards {
        sum.resize(shard.len(), 0);
        sum.iter_mut().zip(shard).for_each(|(value, byte)| *value ^= product(*byte, factor));
    }
    sum
}

/// True if all of it was read; what was not is zeros.
fn read_or_zeros(file: &WatchedFile<'_>, buffer: &mut [u8], at: u64) -> bool {
    let is_read = file.read_exact_at(buffer, at).is_ok();
    if !is_read {
        buffer.fill(0);
    }
    is_read
}

/// The checksums of all shards and parity shards; `None` for those that cannot be read.
fn checksums(file: &WatchedFile<'_>, shape: &Shape, at: u64) -> Vec<Option<u32>> {
    let mut bytes = vec![0; shape.checksums_bytes() as usize];
    let read = match file.read_exact_at(&mut bytes, at) {
        Ok(()) => vec![true; bytes.len()],
        Err(_) => read_by_sectors(file, &mut bytes, at),
    };
    let known = |(four, read): (&[u8; 4], &[bool])| read.iter().all(|read| *read).then(|| u32::from_le_bytes(*four));
    bytes.as_chunks().0.iter().zip(read.chunks_exact(4)).map(known).collect()
}
