//! `scale/N`: trees of N small files, for the cost per file.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use super::Dataset;
use super::marker::Recipe;
use crate::error::{Context, Result};
use crate::text::Text;

/// Files in one folder.
const FILES_PER_FOLDER: u64 = 25;
/// Folders in one folder above them.
const FOLDERS_PER_GROUP: u64 = 40;
const KINDS: [&str; 5] = ["js", "d.ts", "json", "md", "py"];
const SEED: u64 = 0x5ca1e;

/// The set `scale/N`.
#[derive(Debug)]
pub struct Scale {
    /// The number of files.
    pub files: u64,
}

impl Dataset for Scale {
    fn recipe(&self) -> Recipe {
        Recipe::new(format!("scale/{}", self.files), &format!("v1 {}", self.files))
    }

    fn fill(&self, _data: &Path, target: &Path, _scratch: &Path) -> Result<()> {
        generate(target, self.files)
    }
}

/// Writes `files` small files of code-like text below `root`; the same tree every time.
///
/// Sizes run from 50 bytes to about 8 KiB, small ones far more often. A tenth of the files are
/// copies of an earlier one, as licences and re-exports are.
pub fn generate(root: &Path, files: u64) -> Result<()> {
    let mut text = Text::new(SEED, 4000);
    let mut body = String::new();
    for folder in 0..files.div_ceil(FILES_PER_FOLDER) {
        let path = root.join(format!("group-{:04}/package-{folder:06}/lib", folder / FOLDERS_PER_GROUP));
        std::fs::create_dir_all(&path).context(|| format!("make folder {}", path.display()))?;
        let first = folder * FILES_PER_FOLDER;
        for index in first..files.min(first + FILES_PER_FOLDER) {
            if index == 0 || !text.rng.chance(10) {
                let size = 50 + text.rng.skewed(8000);
                fill_body(&mut text, size, &mut body);
            }
            let kind = KINDS[text.rng.below(KINDS.len())];
            let mut name = String::new();
            text.identifier(&mut name);
            let file = path.join(format!("{name}-{index}.{kind}"));
            File::create_new(&file)
                .and_then(|mut file| file.write_all(body.as_bytes()))
                .context(|| format!("write {}", file.display()))?;
        }
    }
    Ok(())
}

fn fill_body(text: &mut Text, size: usize, body: &mut String) {
    body.clear();
    while body.len() < size {
        text.code_line(body);
    }
    body.truncate(size);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::walk;

    #[test]
    fn the_count_is_exact_and_the_tree_repeats() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        generate(a.path(), 1013).unwrap();
        generate(b.path(), 1013).unwrap();
        let count = walk::count(a.path()).unwrap();
        assert_eq!(count.files, 1013);
        let other = walk::count(b.path()).unwrap();
        assert_eq!((count.bytes, count.entries), (other.bytes, other.entries));
        let mean = count.bytes / count.files;
        assert!((1000..4000).contains(&mean), "mean size {mean}");
    }
}
