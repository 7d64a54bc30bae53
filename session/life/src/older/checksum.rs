//! Checksums of an older checkpoint's folder: SHA-256, of the whole and of single files.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{ErrorKind, Read, Seek},
    path::Path,
};

use parhelia_store::{
    Error as StoreError,
    name::{self, NameExt as _},
    progress::Progress,
};
use sha2::{Digest, Sha256};

use super::{
    fields::Fields,
    folder::{Folder, MANIFEST},
};
use parhelia_host::{Error, Result, error::IoContext};

const ALGORITHM: &str = "sha256";

/// The checksums that were right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChecksumReport {
    /// True if the checksum of the whole was: of the archive, or of all files.
    pub whole: bool,
    /// The number of files whose own checksum was.
    pub files: usize,
}

/// The checksums that a manifest has, in hex.
#[derive(Clone, Debug, Default)]
pub(super) struct Checksums {
    whole: Option<String>,
    /// Of single files, by their paths from the folder; each with the field that has it.
    files: Vec<(String, String, String)>,
}

impl Checksums {
    pub(super) fn read(fields: &Fields<'_>, archive: &str) -> Result<Self> {
        let mut files = Vec::new();
        if let Some(digest) = declared(&fields.object("workspace")?, "checksum")? {
            files.push(("workspace.checksum".to_owned(), archive.to_owned(), digest));
        }
        let listed = fields.object("checksums")?;
        for (file, _) in listed.all() {
            let is_inside = file.split('/').all(|part| name::is_valid(part.as_bytes()));
            if !is_inside || file == MANIFEST {
                return Err(listed.refused(file, "names no other file in the manifest's folder"));
            }
            let digest = declared(&listed, file)?.unwrap_or_default();
            files.push((format!("checksums.{file}"), file.clone(), digest));
        }
        Ok(Checksums { whole: declared(fields, "checksum")?, files })
    }

    /// Checks them against the files of the folder.
    pub(super) fn check(
        &self,
        folder: &Folder,
        archive: (&str, &mut File),
        files: &BTreeMap<String, u64>,
        progress: &dyn Progress,
    ) -> Result<ChecksumReport> {
        let (name, file) = archive;
        let mut of_archive = None;
        if self.whole.is_some() || self.files.iter().any(|(_, file, _)| file == name) {
            let mut hasher = Sha256::new();
            hash(file, &mut hasher, &folder.place(name), progress)?;
            file.rewind().at("read", &folder.place(name))?;
            of_archive = Some(hex(hasher));
        }
        for (field, path, expected) in &self.files {
            let found = match of_archive.clone().filter(|_| path == name) {
                Some(digest) => digest,
                None => of_files(folder, [path.as_str()], progress)?,
            };
            if found != *expected {
                let what = format!("its SHA-256 is {found}, and {field} in the manifest says {expected}");
                return Err(mismatch(folder, path, &what));
            }
        }
        let (Some(expected), Some(of_archive)) = (&self.whole, of_archive) else {
            return Ok(ChecksumReport { whole: false, files: self.files.len() });
        };
        if of_archive != *expected {
            let others = files.keys().map(String::as_str).filter(|file| *file != MANIFEST);
            let of_all = of_files(folder, others, progress)?;
            if of_all != *expected {
                let what = format!(
                    "its SHA-256 is {of_archive}, that of all files of the folder {of_all}, and checksum in the manifest says {expected}"
                );
                return Err(mismatch(folder, name, &what));
            }
        }
        Ok(ChecksumReport { whole: true, files: self.files.len() })
    }
}

/// The SHA-256 that a field has, in lower case.
fn declared(fields: &Fields<'_>, name: &str) -> Result<Option<String>> {
    let Some(text) = fields.text(name)? else { return Ok(None) };
    let (algorithm, digest) = text.split_once(':').unwrap_or(("", &text));
    if !algorithm.eq_ignore_ascii_case(ALGORITHM) {
        let which = if algorithm.is_empty() { "of no algorithm that it names".into() } else { name::printable(algorithm) };
        let why = format!("is {which}, and only {ALGORITHM} is checked\nwithout the field, the folder is imported unchecked");
        return Err(fields.refused(name, why));
    }
    let digest = digest.to_ascii_lowercase();
    match digest.len() == 64 && digest.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        true => Ok(Some(digest)),
        false => Err(fields.refused(name, "has not the 64 hexadecimal digits of a SHA-256")),
    }
}

fn mismatch(folder: &Folder, file: &str, what: &str) -> Error {
    Error::Damaged(format!(
        "cannot import {}: {what}\nthe folder is damaged or was changed; copy it anew from where it was made",
        folder.place(file).shown()
    ))
}

/// The SHA-256 of the contents of some files, one behind the other.
fn of_files<'a>(folder: &Folder, files: impl IntoIterator<Item = &'a str>, progress: &dyn Progress) -> Result<String> {
    let mut hasher = Sha256::new();
    for file in files {
        hash(&mut folder.file(file)?, &mut hasher, &folder.place(file), progress)?;
    }
    Ok(hex(hasher))
}

fn hash(file: &mut File, hasher: &mut Sha256, place: &Path, progress: &dyn Progress) -> Result<()> {
    let mut buffer = vec![0; 256 << 10];
    loop {
        if progress.is_cancelled() {
            return Err(StoreError::Cancelled.into());
        }
        match file.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(bytes) => hasher.update(&buffer[..bytes]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e).at("read", place),
        }
    }
}

fn hex(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
