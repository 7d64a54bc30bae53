//! Files of an older checkpoint's folder, but for the archive.

use std::{collections::BTreeMap, path::PathBuf};

use parhelia_agent::transcript::files::TRANSCRIPT;
use parhelia_store::{Store, create::CapturedState, name, progress::Progress, record::Part};
use serde_json::Value;

use super::{
    ENVIRONMENT, IMPORTED, environment,
    folder::{Folder, MANIFEST},
    put,
};
use parhelia_host::{Result, state::CONVERSATION};

/// The longest file, and the most of all files together, in bytes.
const FILE_BYTES_MAX: u64 = 64 << 20;
const FILES_BYTES_MAX: u64 = 256 << 20;
/// The most values of a file of JSON, about.
const VALUES_MAX: usize = 4_000_000;

/// Files by their paths in the folder.
#[derive(Debug)]
pub(super) struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    /// Reads what is beside the manifest and the archive.
    pub(super) fn read(folder: &Folder, listed: &BTreeMap<String, u64>, archive: &str) -> Result<Self> {
        let wanted: Vec<&String> =
            listed.keys().filter(|file| !matches!(file.as_str(), name if name == archive || name == MANIFEST)).collect();
        let mut files = BTreeMap::new();
        let mut left = FILES_BYTES_MAX;
        for path in wanted {
            let bytes = folder.read(path, FILE_BYTES_MAX)?;
            let Some(rest) = left.checked_sub(bytes.len() as u64) else {
                let why = format!("with it, the files beside the archive have more than {FILES_BYTES_MAX} bytes");
                return Err(folder.refused(path, why));
            };
            left = rest;
            files.insert(path.clone(), bytes);
        }
        Ok(Files(files))
    }

    pub(super) fn get(&self, path: &str) -> Option<&[u8]> {
        self.0.get(path).map(Vec::as_slice)
    }

    pub(super) fn put(&mut self, path: &str, bytes: Vec<u8>) {
        self.0.insert(path.to_owned(), bytes);
    }

    /// A file that holds JSON, and where it lies.
    pub(super) fn document(&self, folder: &Folder, path: &str) -> Result<Option<(PathBuf, Value)>> {
        let value = self.get(path).map(|bytes| parsed(folder, path, bytes)).transpose()?;
        Ok(value.map(|value| (folder.place(path), value)))
    }

    /// The transcript, in the folder itself or where a checkpoint has it.
    pub(super) fn take_transcript(&mut self) -> Option<Vec<u8>> {
        let beside = format!("{CONVERSATION}/{TRANSCRIPT}");
        self.0.remove(&beside).or_else(|| self.0.remove(TRANSCRIPT))
    }

    /// Takes credentials out of the environments that files hold.
    pub(super) fn take_secrets_out(&mut self, folder: &Folder) -> Result<()> {
        for path in [MANIFEST, "session_state.json", "environment.json"] {
            let Some((_, told)) = self.document(folder, path)? else { continue };
            let mut clean = told.clone();
            if path == "environment.json" {
                clean = environment::without_secrets(&clean);
            } else if let Some(found) = clean.get_mut(ENVIRONMENT) {
                *found = environment::without_secrets(found);
            }
            if clean != told {
                self.put(path, serde_json::to_vec_pretty(&clean).unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Gives the files to a checkpoint.
    pub(super) fn keep(self, store: &Store, state: &mut CapturedState, progress: &dyn Progress) {
        for (path, bytes) in self.0 {
            if path.split('/').any(|part| store.secrets().has_name(part.as_bytes())) {
                progress.notice(&format!("{} is left out: it holds credentials", name::printable(&path)));
                continue;
            }
            put(state, IMPORTED, format!("{IMPORTED}/{path}"), bytes);
        }
        state.parts.insert(IMPORTED.into(), Part::Captured);
    }
}

/// The JSON that a file holds.
pub(super) fn parsed(folder: &Folder, path: &str, bytes: &[u8]) -> Result<Value> {
    // A value takes much more memory than the two bytes that may stand for it.
    if bytes.iter().filter(|byte| b",:[{".contains(byte)).count() > VALUES_MAX {
        return Err(folder.refused(path, format!("it has more than {VALUES_MAX} values")));
    }
    serde_json::from_slice(bytes).map_err(|e| folder.refused(path, format!("it is no JSON: {e}")))
}
