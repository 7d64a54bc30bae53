//! Where the agent keeps a conversation, and how to see to it that there is one copy.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use crate::{
    error::{Error, IoContext, Result},
    regular,
};

/// A folder's name under `projects` is cut here, in bytes, and a hash is put behind it.
const SLUG_BYTES_MAX: usize = 200;

/// The name under `projects` that the agent gives a folder: everything but ASCII letters and digits is `-`.
///
/// It is not one to one: read a conversation's folder from its records, never from this.
pub fn slug(folder: &Path) -> String {
    let text = folder.to_string_lossy();
    // The agent counts and replaces UTF-16 units.
    let units: Vec<u16> = text.encode_utf16().collect();
    let replaced: String = units
        .iter()
        .map(|unit| match u8::try_from(*unit) {
            Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
            _ => '-',
        })
        .collect();
    if replaced.len() <= SLUG_BYTES_MAX {
        return replaced;
    }
    format!("{}-{}", &replaced[..SLUG_BYTES_MAX], base36(string_hash(&units).unsigned_abs()))
}

/// The 31-fold sum that JavaScript programs use, in 32 bits.
fn string_hash(units: &[u16]) -> i32 {
    units.iter().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(*unit)))
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(b"0123456789abcdefghijklmnopqrstuvwxyz"[(number % 36) as usize]);
        number /= 36;
        if number == 0 {
            break;
        }
    }
    digits.iter().rev().map(|digit| char::from(*digit)).collect()
}

/// Where the conversation of a folder lies.
pub fn transcript_path(config: &Path, folder: &Path, conversation: &str) -> PathBuf {
    config.join("projects").join(slug(folder)).join(format!("{conversation}.jsonl"))
}

/// All copies of a conversation under `projects`, ordered.
pub fn copies(config: &Path, conversation: &str) -> Result<Vec<PathBuf>> {
    let projects = config.join("projects");
    let entries = match fs::read_dir(&projects) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.at("read folder", &projects)?,
    };
    let name = format!("{conversation}.jsonl");
    let mut found: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path().join(&name))).filter(|path| path.is_file()).collect();
    found.sort();
    Ok(found)
}

/// Sees to it that a conversation lies at `place` alone: every other copy is moved into the folder `aside`, with what belongs to it.
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
        crate::durable::move_durable(from, &to)?;
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

    #[test]
    fn slugs_are_the_agents() {
        assert_eq!(slug(Path::new("/home/me/a_b.c d/é")), "-home-me-a-b-c-d--");
        assert_eq!(slug(Path::new("/a/\u{1f980}")), "-a---");
        // As the agent itself (2.1.197) named it.
        let (x, y) = ("x".repeat(120), "y".repeat(120));
        let long = format!("/tmp/s3/w/{x}/{y}");
        assert_eq!(slug(Path::new(&long)), format!("-tmp-s3-w-{x}-{}-47vtvz", &y[..69]));
        assert_eq!(base36(0), "0");
        assert_eq!(base36(35 * 36 + 1), "z1");
        assert_eq!(string_hash(&"hello".encode_utf16().collect::<Vec<_>>()), 99_162_322);
    }

    #[test]
    fn one_copy_is_left_and_the_others_are_kept_aside() {
        let folder = tempfile::tempdir().unwrap();
        let (config, aside) = (folder.path().join("config"), folder.path().join("aside"));
        let id = "11111111-2222-4333-8444-555555555555";
        let place = transcript_path(&config, Path::new("/work"), id);
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
