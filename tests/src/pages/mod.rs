//! Pages of documentation: their blocks of commands, and running them as a reader would who pastes one after the other.
//!
//! | block | treatment |
//! |---|---|
//! | ```` ```console ```` | lines after `$ ` run in order; what they print is compared with the lines below, as by [`plain`] |
//! | ```` ```sh ```` | runs as a whole, and must succeed |
//! | `<!-- setup` ... `-->` | runs like `sh`; readers do not see it |
//! | `text` | nothing |
//! | any other, and `console` and `sh` with `norun` behind them | only its `parhelia` command lines are checked, without running them |

mod blocks;
mod command_lines;
mod plain;
mod run;

use std::path::{Path, PathBuf};

pub use blocks::{Block, Kind, Shown, blocks, shown};
pub use command_lines::{Words, command_lines, inline};
pub use plain::plain;
pub use run::{Reader, problems};

/// The repository's folder.
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// README's text.
pub fn readme() -> String {
    text(&repository().join("README.md"))
}

/// A page's text.
pub fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()))
}

/// README and the pages of the book, format and decisions included, in order of their paths.
pub fn all() -> Vec<PathBuf> {
    let mut pages = vec![repository().join("README.md"), repository().join("benches/README.md")];
    add(&repository().join("docs"), &mut pages);
    pages.sort();
    pages
}

fn add(folder: &Path, pages: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("cannot read {}: {e}", folder.display()));
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            add(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}
