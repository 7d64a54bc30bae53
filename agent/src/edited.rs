//! Files of the user's that other programs change as well: read, edited, and replaced whole, or left as they are.

#![expect(clippy::disallowed_methods, reason = "edits files of the user's")]

use std::{
    fs::{self, File, Permissions},
    io::{self, Write},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Component, Path, PathBuf},
};

use crate::{
    error::{Error, IoContext, Result},
    regular,
};

/// No such file is longer.
const BYTES_MAX: u64 = 64 << 20;

/// The result of editing a file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileEdit {
    /// The file itself, behind symlinks.
    pub path: PathBuf,
    /// True if it was changed.
    pub changed: bool,
}

/// The result of editing a text.
#[derive(Clone, Debug, PartialEq)]
pub enum EditOutcome {
    /// It is as it should be already.
    Unchanged,
    /// The new text.
    Changed(String),
}

/// Reads, edits and replaces a file; again from the start where somebody else has changed it meanwhile.
pub fn edit(path: &Path, edit: &dyn Fn(&str) -> Result<EditOutcome, String>) -> Result<FileEdit> {
    const TRIES: u32 = 3;
    let path = real_path(path)?;
    for _ in 0..TRIES {
        let before = read(&path)?;
        let (whole, body) = (before.as_deref().unwrap_or_default(), without_mark(before.as_deref().unwrap_or_default()));
        let edited = edit(body).map_err(|reason| refused(&path, reason))?;
        let edited = match edited {
            EditOutcome::Changed(text) => EditOutcome::Changed(format!("{}{text}", &whole[..whole.len() - body.len()])),
            EditOutcome::Unchanged => EditOutcome::Unchanged,
        };
        let EditOutcome::Changed(text) = edited else { return Ok(FileEdit { path, changed: false }) };
        if replace(&path, before.as_deref(), &text)? {
            return Ok(FileEdit { path, changed: true });
        }
    }
    Err(refused(&path, "another program keeps changing it".into()))
}

/// A text without the byte order mark before it, as the agents read their files.
pub(crate) fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

pub(crate) fn refused(path: &Path, reason: String) -> Error {
    Error::Settings { path: path.to_owned(), reason }
}

/// The file that a path leads to, also where that does not exist yet: a symlink stays one.
pub(crate) fn real_path(path: &Path) -> Result<PathBuf> {
    const LINKS_MAX: u32 = 40;
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().map_or_else(|| target.clone(), |parent| parent.join(&target)),
            Err(_) => return Ok(path),
        }
    }
    Err(refused(&path, "its symlinks lead in a circle".into()))
}

/// The file that a path leads to, if that is outside of a folder: editing it changes what is not the folder's.
pub fn outside(path: &Path, folder: &Path) -> Result<Option<PathBuf>> {
    let (file, folder) = (real_path(path)?, folder.canonicalize().at("open", folder)?);
    // What does not exist yet is made below what does; a link that leads nowhere is there.
    let is_below = file.ancestors().find(|ancestor| ancestor.symlink_metadata().is_ok()).is_some_and(|ancestor| {
        let rest = file.strip_prefix(ancestor).unwrap_or(&file);
        let is_plain = rest.components().all(|part| matches!(part, Component::Normal(_)));
        is_plain && ancestor.canonicalize().is_ok_and(|found| found.starts_with(folder))
    });
    Ok((!is_below).then_some(file))
}

/// The file's text; `None` where there is no file.
pub(crate) fn read(path: &Path) -> Result<Option<String>> {
    let bytes = match regular::read(path, BYTES_MAX) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.at("read", path)?,
    };
    String::from_utf8(bytes).map(Some).map_err(|_| refused(path, "it is not UTF-8".into()))
}

/// Replaces a file by rename, its mode and owner kept; one that cannot be replaced, such as a mount of its own, is written over. `false` where
/// its content is no longer `before`.
fn replace(path: &Path, before: Option<&str>, text: &str) -> Result<bool> {
    let folder = path.parent().ok_or_else(|| Error::Invalid(format!("{} has no folder", path.display())))?;
    fs::create_dir_all(folder).at("create folder", folder)?;
    let temporary = path.with_extension(format!("{}.tmp", uuid::Uuid::new_v4().simple()));
    let created = File::options().write(true).create_new(true).mode(0o644).open(&temporary);
    let mut file = match (created, before) {
        // Nothing can be made beside it; it may be writable itself.
        (Err(e), Some(before)) if matches!(e.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied) => {
            return write_over(path, before, text, None);
        }
        (created, _) => created.at("create", &temporary)?,
    };
    let written = (|| {
        if let Ok(old) = fs::metadata(path) {
            file.set_permissions(Permissions::from_mode(old.mode() & 0o7777)).at("set the mode of", &temporary)?;
            if let Ok(new) = file.metadata()
                && (new.uid(), new.gid()) != (old.uid(), old.gid())
            {
                // Only root can give files away; otherwise it becomes ours, as any editor does it.
                let _ = std::os::unix::fs::fchown(&file, Some(old.uid()), Some(old.gid()));
            }
        }
        file.write_all(text.as_bytes()).at("write", &temporary)?;
        file.sync_all().at("sync", &temporary)?;
        if read(path)?.as_deref() != before {
            fs::remove_file(&temporary).at("remove", &temporary)?;
            return Ok(false);
        }
        match (fs::rename(&temporary, path), before) {
            (Err(e), Some(before)) if e.kind() == io::ErrorKind::ResourceBusy => {
                let is_written = write_over(path, before, text, Some(&temporary))?;
                fs::remove_file(&temporary).at("remove", &temporary)?;
                return Ok(is_written);
            }
            (renamed, _) => renamed.at("rename into place", path)?,
        }
        crate::durable::sync_names(folder)?;
        Ok(true)
    })();
    if written.is_err() && !matches!(written, Err(Error::HalfWritten { .. })) {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Writes a file anew where it lies, and puts its old text back where that fails. `copy` is a file that has the new text already, on the medium:
/// it outlasts a crash in between. `false` where the content is no longer `before`.
fn write_over(path: &Path, before: &str, text: &str, copy: Option<&Path>) -> Result<bool> {
    let file = File::options().write(true).open(path).at("write over", path)?;
    if read(path)?.as_deref() != Some(before) {
        return Ok(false);
    }
    let write = |text: &str| {
        file.write_all_at(text.as_bytes(), 0)?;
        file.set_len(text.len() as u64)?;
        file.sync_all()
    };
    match write(text) {
        Ok(()) => Ok(true),
        Err(e) => match (write(before), copy) {
            (Err(_), Some(copy)) => Err(Error::HalfWritten { path: path.to_owned(), copy: copy.to_owned(), source: e }),
            _ => Err(e).at("write over", path),
        },
    }
}

#[cfg(test)]
mod tests;
