//! Settings of files that do not count, told once for each change of their file: every command that reads a project's file would repeat them.
//!
//! Digests of the settings that have been told are noted in the user's state folder. `config show` and the start of a run tell all of them
//! again. Where an agent reads the output nothing is noted, as its user has not seen it.

#![expect(clippy::disallowed_methods, reason = "its file is in the user's state folder")]

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{Read as _, Write as _},
    os::unix::{ffi::OsStrExt as _, fs::MetadataExt as _, fs::OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

use parhelia_host::config::IgnoredSetting;

use crate::{authority, caller, hook_log};

/// Longer notes are begun anew, in bytes.
const BYTES_MAX: u64 = 64 << 10;

static TELLS_ALL: AtomicBool = AtomicBool::new(false);

/// Has this process tell all of them, whatever was told before.
pub fn tell_all() {
    TELLS_ALL.store(true, Ordering::Relaxed);
}

/// Tells of settings that do not count; into the log where `is_quiet`.
pub fn tell(settings: &[IgnoredSetting], is_quiet: bool) {
    if settings.is_empty() || is_quiet || caller::is_agents() {
        return authority::tell(settings, is_quiet);
    }
    let told = notes().as_deref().and_then(read).unwrap_or_default();
    let digests: Vec<Option<String>> = settings.iter().map(digest).collect();
    let is_new = |digest: &Option<String>| digest.as_ref().is_none_or(|digest| !told.contains(digest));
    let all = TELLS_ALL.load(Ordering::Relaxed);
    let wanted = settings.iter().zip(&digests).filter(|(_, digest)| all || is_new(digest));
    authority::tell(&wanted.map(|(setting, _)| setting.clone()).collect::<Vec<_>>(), false);
    let new: BTreeSet<&String> = digests.iter().filter(|digest| is_new(digest)).flatten().collect();
    if let Some(path) = notes().filter(|_| !new.is_empty()) {
        // Whoever cannot note it is told again.
        let _ = note(&path, new.into_iter().map(String::as_str));
    }
}

fn notes() -> Option<PathBuf> {
    Some(hook_log::path()?.parent()?.join("told-settings"))
}

/// The digest of a setting in a file as that is by now; none of one that stands in no file.
fn digest(setting: &IgnoredSetting) -> Option<String> {
    let file = setting.file.as_ref()?;
    let found = fs::metadata(file).ok()?;
    let mut hasher = blake3::Hasher::new();
    for part in [file.as_os_str().as_bytes(), setting.place.as_bytes(), setting.why.as_bytes()] {
        hasher.update(part).update(&[0]);
    }
    for number in [found.ino(), found.len(), found.mtime().cast_unsigned(), found.mtime_nsec().cast_unsigned()] {
        hasher.update(&number.to_le_bytes());
    }
    Some(hasher.finalize().to_hex()[..16].to_owned())
}

fn read(path: &Path) -> Option<BTreeSet<String>> {
    let mut text = String::new();
    File::open(path).ok()?.take(BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text.lines().map(str::to_owned).collect())
}

fn note<'a>(path: &Path, digests: impl Iterator<Item = &'a str>) -> std::io::Result<()> {
    let lines: String = digests.flat_map(|digest| [digest, "\n"]).collect();
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    let is_full = fs::metadata(path).is_ok_and(|found| found.len() + lines.len() as u64 > BYTES_MAX);
    let mut file = File::options().append(!is_full).write(true).truncate(is_full).create(true).mode(0o600).open(path)?;
    file.write_all(lines.as_bytes())
}
