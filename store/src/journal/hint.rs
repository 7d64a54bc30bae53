//! The hint: a file that names the last record that was synced. It tells a journal that was cut from one that ends.

use std::os::unix::fs::FileExt;

use super::Journal;
use crate::files::{self, How};

/// The hint is not longer.
const BYTES_MAX: u64 = 64;

impl Journal {
    /// The last sequence that was synced, as far as the hint file tells. It tells a damaged last record from a torn append.
    pub(crate) fn hint(&self) -> Option<u64> {
        let file = files::open(&self.folder.join("synced"), How::Read).ok()?;
        let bytes = files::read_all(&file, BYTES_MAX).ok()?;
        let text = std::str::from_utf8(&bytes).ok()?;
        let (number, check) = text.trim_end().split_once(' ')?;
        let expected = format!("{:08x}", crc32c::crc32c(number.as_bytes()));
        (check == expected).then(|| number.parse().ok()).flatten()
    }

    pub(crate) fn write_hint(&self, sequence: u64) {
        let number = sequence.to_string();
        let line = format!("{number} {:08x}\n", crc32c::crc32c(number.as_bytes()));
        // The hint is allowed to be old or absent, so a failure to write it is none of the commit's business.
        let _ = files::open(&self.folder.join("synced"), How::Make).and_then(|file| {
            file.write_all_at(line.as_bytes(), 0)?;
            let is_shorter = file.metadata()?.len() > line.len() as u64;
            if is_shorter { file.set_len(line.len() as u64) } else { Ok(()) }
        });
    }

    /// Takes note that a record was synced, as something else proves.
    pub(crate) fn raise_hint(&self, sequence: u64) {
        if self.hint().is_none_or(|hint| hint < sequence) {
            self.write_hint(sequence);
        }
    }
}
