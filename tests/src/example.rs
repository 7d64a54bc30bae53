//! README's example: its commands, and what they print.

use std::{fs, path::Path};

/// The repository.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// The example as README prints it.
pub fn text() -> String {
    let readme = fs::read_to_string(repository().join("README.md")).unwrap_or_else(|e| panic!("no README: {e}"));
    let behind = readme.split("```console\n").nth(1).unwrap_or_default();
    behind.split("```").next().unwrap_or_default().to_owned()
}

/// Text without what differs from run to run: ids, times, sizes, numbers, and where the example lies.
pub fn plain(text: &str) -> Vec<String> {
    let word = |word: &str| -> String {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '/');
        let is_id = bare.len() == 26 && bare.starts_with("01");
        let is_time = bare.len() == 20 && bare.ends_with('Z') && bare.contains('T');
        match () {
            () if is_id => word.replace(bare, "ID"),
            () if is_time => word.replace(bare, "TIME"),
            () if bare.starts_with("/tmp/") => {
                word.replace(bare, &format!("DIR/{}", bare.rsplit('/').next().unwrap_or_default()))
            }
            () if ["B", "KiB", "MiB"].contains(&bare) => word.replace(bare, "UNIT"),
            () if ["second", "seconds"].contains(&bare) => word.replace(bare, "seconds"),
            () if bare.starts_with(|c: char| c.is_ascii_digit()) => word.replace(bare, "N"),
            () => word.to_owned(),
        }
    };
    let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).filter(|line| !line.is_empty()).collect()
}
