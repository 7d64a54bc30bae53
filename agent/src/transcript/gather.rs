//! One copy of a conversation where the agent looks for it.

#![expect(clippy::disallowed_methods, reason = "copies a conversation into a folder of its own")]

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::locate::copies;
use crate::{
    durable,
    error::{Error, IoContext, Result},
    regular,
};

/// Leaves a conversation at `place` alone: every other copy is moved into the folder `aside`, with its companion files.
/// Gives the file the present time, `now`, where that may be done, because the agent removes old ones. Returns where copies were moved.
pub fn gather(config: &Path, conversation: &str, place: &Path, aside: &Path, now: SystemTime) -> Result<Vec<PathBuf>> {
    let mut moved = Vec::new();
    for copy in copies(config, conversation)?.into_iter().filter(|copy| copy != place) {
        let project = copy.parent().and_then(Path::file_name).unwrap_or_default();
        let to = aside.join(project);
        make_folders(&to)?;
        moved.push(move_into(&copy, &to)?);
        let beside = copy.with_extension("");
        if beside.is_dir() {
            moved.push(move_into(&beside, &to)?);
        }
    }
    if let Ok(file) = regular::open(place) {
        let _ = file.set_modified(now);
    }
    Ok(moved)
}

/// Moves an entry into a folder, under a name that nothing there has.
fn move_into(from: &Path, folder: &Path) -> Result<PathBuf> {
    let name = from.file_name().unwrap_or_default();
    for n in 0..10_000u32 {
        let mut name = name.to_owned();
        if n > 0 {
            name.push(format!(".{n}"));
        }
        let to = folder.join(name);
        if to.symlink_metadata().is_ok() {
            continue;
        }
        durable::move_durable(from, &to)?;
        return Ok(to);
    }
    Err(Error::Invalid(format!("{} holds too many copies of {}", folder.display(), from.display())))
}

pub(super) fn make_folders(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).at("create folder", path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::kinds::KINDS;

    #[test]
    fn one_copy_is_left_and_the_others_are_kept_aside() {
        let folder = tempfile::tempdir().unwrap();
        let (config, aside) = (folder.path().join("config"), folder.path().join("aside"));
        let id = "11111111-2222-4333-8444-555555555555";
        let place = KINDS[0].place(&config, Path::new("/work"), id);
        for project in ["-work", "-old", "-older"] {
            let project = config.join("projects").join(project);
            fs::create_dir_all(project.join(id)).unwrap();
            fs::write(project.join(format!("{id}.jsonl")), project.as_os_str().as_bytes()).unwrap();
            fs::write(project.join(id).join("agent-1.jsonl"), "{}").unwrap();
            let file = fs::File::options().append(true).open(project.join(format!("{id}.jsonl"))).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
        assert_eq!(copies(&config, id).unwrap().len(), 3);
        let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        let moved = gather(&config, id, &place, &aside, now).unwrap();
        assert_eq!(moved.len(), 4);
        assert_eq!(copies(&config, id).unwrap(), std::slice::from_ref(&place));
        assert!(fs::read(aside.join("-old").join(format!("{id}.jsonl"))).unwrap().ends_with(b"-old"));
        assert!(aside.join("-older").join(id).join("agent-1.jsonl").is_file());
        assert!(place.with_extension("").is_dir());
        assert_eq!(fs::metadata(&place).unwrap().modified().unwrap(), now);
        assert!(gather(&config, id, &place, &aside, now).unwrap().is_empty());
        assert!(copies(&folder.path().join("nothing"), id).unwrap().is_empty());
    }
}
