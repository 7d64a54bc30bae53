//! Reading at random places of a file.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{Context, Error, Result};
use crate::rng::Rng;

const PAGE_BYTES: usize = 4096;

/// Reads the pages at `reads` random places of a file, the same ones every time.
pub fn read_pages(path: &Path, reads: u32) -> Result<()> {
    let file = File::open(path).context(|| format!("open {}", path.display()))?;
    let bytes = file.metadata().context(|| format!("ask for the length of {}", path.display()))?.len();
    let pages = usize::try_from(bytes).unwrap_or(usize::MAX) / PAGE_BYTES;
    if pages == 0 {
        return Err(Error::new(format!("{} is too small to be read at random", path.display())));
    }
    let mut rng = Rng::new(0x9a6e5);
    let mut page = [0; PAGE_BYTES];
    for _ in 0..reads {
        let offset = rng.below(pages) * PAGE_BYTES;
        file.read_exact_at(&mut page, offset as u64).context(|| format!("read {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pages_are_read_and_short_files_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; 3 * PAGE_BYTES + 5]).unwrap();
        read_pages(&path, 50).unwrap();
        std::fs::write(&path, "short").unwrap();
        assert!(read_pages(&path, 1).unwrap_err().chain().contains("too small"));
    }
}
