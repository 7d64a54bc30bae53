//! A checkpoint as other tools keep it, by the manifest's schema 1.0 or 1.1: a folder with `manifest.json` beside an archive of the
//! workspace. What these schemas do not have stays unknown.

use parhelia_store::name::Shown as _;
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::exit::{Failure, Result};

/// Larger than any manifest, in bytes.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;

/// The fields of a manifest of schema 1.0 or 1.1 that an import takes up.
#[derive(Deserialize)]
struct Manifest {
    version: String,
    id: Option<String>,
    session_id: Option<String>,
    created_at: Option<String>,
    trigger: Option<String>,
    #[serde(default)]
    workspace: Workspace,
}

#[derive(Deserialize)]
#[serde(default)]
struct Workspace {
    path: String,
}

impl Default for Workspace {
    fn default() -> Self {
        Workspace { path: "workspace.tar.zst".into() }
    }
}

/// A checkpoint's folder.
pub struct Folder {
    /// The archive of its workspace.
    pub archive: PathBuf,
    /// Its id.
    pub id: Option<String>,
    /// The session that it belongs to.
    pub session: Option<String>,
    /// Time and reason of its making.
    pub message: String,
}

impl Folder {
    /// Reads a folder's manifest.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join("manifest.json");
        let failed = |action| {
            let path = path.clone();
            move |source| Failure::File { action, path, source }
        };
        let file = File::open(&path).map_err(failed("open"))?;
        let mut bytes = Vec::new();
        file.take(MANIFEST_BYTES_MAX).read_to_end(&mut bytes).map_err(failed("read"))?;
        let refused = |reason: String| Failure::Usage(format!("{} cannot be imported: {reason}", path.shown()));
        let manifest: Manifest = serde_json::from_slice(&bytes).map_err(|e| refused(e.to_string()))?;
        if !matches!(manifest.version.as_str(), "1.0" | "1.1") {
            return Err(refused(format!(
                "its version is '{}', and folders of 1.0 and 1.1 alone are read; `parhelia export` gives an archive that is",
                manifest.version
            )));
        }
        let name = &manifest.workspace.path;
        if name.is_empty() || name.contains('/') || name == ".." || name == "." {
            return Err(refused(format!("the archive that it names, '{name}', is not in its folder")));
        }
        let known = |text: Option<String>| text.filter(|text| !text.is_empty());
        let (id, session) = (known(manifest.id), known(manifest.session_id));
        let made = [known(manifest.trigger), Some("checkpoint".into()), id.clone()];
        let mut message = made.into_iter().flatten().collect::<Vec<_>>().join(" ");
        if let Some(at) = manifest.created_at {
            message = format!("{message}, made at {at}");
        }
        Ok(Folder { archive: folder.join(name), id, session, message })
    }
}
