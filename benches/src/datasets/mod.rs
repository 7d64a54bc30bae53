//! The input trees: fetched by the ordinary clients, or generated from a seed.

pub mod checkout;
pub mod marker;
pub mod npm;
pub mod pip;
pub mod scale;
pub mod transcript;
pub mod versions;

use std::path::Path;

use crate::error::{Context, Result};
use crate::process;
use marker::{Marker, Recipe};

/// A set of input files that can be made and recognised again.
pub trait Dataset {
    /// The folder's name under the data folder, and what it is made from: a change in either
    /// makes an existing copy stale.
    fn recipe(&self) -> Recipe;

    /// Fills the empty folder `target`; `scratch` is an empty folder that is removed afterwards.
    /// `data` is where the finished sets are.
    fn fill(&self, data: &Path, target: &Path, scratch: &Path) -> Result<()>;

    /// Checks what was made; the default accepts everything.
    fn accept(&self, _made: &Marker) -> Result<()> {
        Ok(())
    }
}

/// Makes a set unless it is there already, and says what it holds.
pub fn make(set: &dyn Dataset, data: &Path) -> Result<Marker> {
    let recipe = set.recipe();
    if let Some(marker) = Marker::read(data, &recipe)? {
        eprintln!("{}: complete ({})", recipe.name, marker.summary());
        return Ok(marker);
    }
    eprintln!("{}: making it …", recipe.name);
    let work = data.join(format!(".making-{}", recipe.name.replace('/', "-")));
    let (target, scratch) = (work.join("target"), work.join("scratch"));
    process::remove(&work)?;
    process::make_dir(&target)?;
    process::make_dir(&scratch)?;
    set.fill(data, &target, &scratch).context(|| format!("make {}", recipe.name))?;

    let home = data.join(&recipe.name);
    let marker = Marker::of(&target, &recipe)?;
    set.accept(&marker)?;
    process::remove(&home)?;
    if let Some(parent) = home.parent() {
        process::make_dir(parent)?;
    }
    std::fs::rename(&target, &home).context(|| format!("move {} into place", recipe.name))?;
    marker.write(data, &recipe)?;
    process::remove(&work)?;
    eprintln!("{}: made ({})", recipe.name, marker.summary());
    Ok(marker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::cell::Cell;

    struct Fake {
        fills: Cell<usize>,
        content: &'static str,
        fails: bool,
    }

    impl Dataset for Fake {
        fn recipe(&self) -> Recipe {
            Recipe::new("fake", self.content)
        }

        fn fill(&self, _data: &Path, target: &Path, _scratch: &Path) -> Result<()> {
            self.fills.set(self.fills.get() + 1);
            std::fs::write(target.join("file"), self.content).context(|| "write")?;
            if self.fails {
                return Err(Error::new("no network"));
            }
            Ok(())
        }
    }

    fn fake(content: &'static str, fails: bool) -> Fake {
        Fake { fills: Cell::new(0), content, fails }
    }

    #[test]
    fn a_complete_set_is_not_made_again() {
        let data = tempfile::tempdir().unwrap();
        let set = fake("one", false);
        make(&set, data.path()).unwrap();
        let again = make(&set, data.path()).unwrap();
        assert_eq!((set.fills.get(), again.files, again.bytes), (1, 1, 3));
    }

    #[test]
    fn a_changed_recipe_replaces_the_set() {
        let data = tempfile::tempdir().unwrap();
        make(&fake("one", false), data.path()).unwrap();
        make(&fake("other", false), data.path()).unwrap();
        let text = std::fs::read_to_string(data.path().join("fake/file")).unwrap();
        assert_eq!(text, "other");
    }

    #[test]
    fn a_failed_try_leaves_nothing_that_looks_complete() {
        let data = tempfile::tempdir().unwrap();
        assert!(make(&fake("one", true), data.path()).is_err());
        assert!(!data.path().join("fake").exists());
        make(&fake("one", false), data.path()).unwrap();
        assert!(data.path().join("fake/file").exists());
    }
}
