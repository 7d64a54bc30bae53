//! JSON files of the agent's.

use std::{fs, io::ErrorKind, path::Path};

use serde_json::Value;

use crate::regular;

/// Longest JSON file of the agent's that is read.
const JSON_BYTES_MAX: u64 = 64 << 20;

/// A JSON file; none where there is none.
pub(crate) fn read(path: &Path) -> Result<Option<Value>, String> {
    let shown = path.display();
    match fs::metadata(path) {
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(e) => return Err(format!("cannot read {shown}: {e}")),
        Ok(metadata) if !metadata.is_file() || metadata.len() > JSON_BYTES_MAX => {
            return Err(format!("{shown} is no file of settings"));
        }
        Ok(_) => {}
    }
    let bytes = regular::read(path, JSON_BYTES_MAX).map_err(|e| format!("cannot read {shown}: {e}"))?;
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
    serde_json::from_slice(bytes).map(Some).map_err(|e| format!("{shown} is not valid JSON: {e}"))
}
