//! Cutting a transcript that is being written to, after its last whole record.

use std::{
    io::{Read, Seek, SeekFrom},
    path::Path,
};

use crate::error::{IoContext, Result};
use crate::regular::open;

const BLOCK_BYTES: u64 = 64 << 10;

/// The place of a cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Bytes up to and with the last newline.
    pub bytes: u64,
    /// Bytes behind it: a record that is being written, or one that a dead process left torn.
    pub torn_bytes: u64,
}

/// Finds the last record boundary of a transcript as long as it is now. What is appended meanwhile is left for the next time.
pub fn cut(path: &Path) -> Result<Cut> {
    let mut file = open(path).at("read", path)?;
    let length = file.metadata().at("read", path)?.len();
    let mut end = length;
    let mut block = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(BLOCK_BYTES);
        block.clear();
        file.seek(SeekFrom::Start(start)).at("read", path)?;
        (&mut file).take(end - start).read_to_end(&mut block).at("read", path)?;
        if let Some(at) = block.iter().rposition(|&b| b == b'\n') {
            let bytes = start + at as u64 + 1;
            return Ok(Cut { bytes, torn_bytes: length - bytes });
        }
        end = start;
    }
    Ok(Cut { bytes: 0, torn_bytes: length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_the_last_newline() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let long = "x".repeat(200_000);
        for (text, bytes) in [("", 0), ("{}", 0), ("{}\n", 3), ("{}\n{", 3), ("\n", 1), (&format!("a\n{long}"), 2), (&long, 0)] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(cut(&path).unwrap(), Cut { bytes, torn_bytes: text.len() as u64 - bytes });
        }
        assert!(cut(&folder.path().join("none")).unwrap_err().to_string().contains("none"));
    }

    #[test]
    fn a_fifo_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        let refused = cut(&path).unwrap_err().to_string();
        assert!(refused.contains("t.jsonl") && refused.contains("no file"), "{refused}");
    }
}
