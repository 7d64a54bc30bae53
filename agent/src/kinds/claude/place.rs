//! The place of a conversation: `<config>/projects/<slug>/<id>.jsonl`.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};

use crate::error::{IoContext, Result};

/// The folder of its conversations, in its own.
pub(super) const PROJECTS: &str = "projects";

/// A folder's name under `projects` is cut here, in bytes, and a hash is put behind it.
const SLUG_BYTES_MAX: usize = 200;

/// The name under `projects` that the agent gives a folder: everything but ASCII letters and digits is `-`.
///
/// It is not one to one: read a conversation's folder from its records, never from this.
pub(super) fn slug(folder: &Path) -> String {
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

/// The place of the conversation of an agent that works in a folder.
pub(super) fn transcript_path(config: &Path, folder: &Path, conversation: &str) -> PathBuf {
    config.join(PROJECTS).join(slug(folder)).join(format!("{conversation}.jsonl"))
}

/// All copies of a conversation under `projects`, ordered.
pub(super) fn copies(config: &Path, conversation: &str) -> Result<Vec<PathBuf>> {
    let projects = config.join(PROJECTS);
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

/// The user's own file with servers: beside the agent's folder where that is named, else in the home folder.
pub(super) fn own_file(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("CLAUDE_CONFIG_DIR").or_else(|| set("HOME")).map(|folder| folder.join(".claude.json"))
}

#[cfg(test)]
mod tests {
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
}
