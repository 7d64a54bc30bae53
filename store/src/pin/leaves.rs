//! Places in which an operation builds something that is to go if its process dies.

use serde::{Deserialize, Serialize};

use crate::id::{hex, unhex_all};

/// A folder in which an operation builds things under temporary names that hold its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaves {
    /// The path's bytes, in hex.
    folder: String,
    /// True if something is built in the folders below as well.
    pub below: bool,
    /// Paths of other filesystems that are mounted below the folder, and in which something is built as well; from the folder, in hex.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    mounts: Vec<String>,
    /// The name of the one entry in the folder that is replaced, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    entry: Option<String>,
    /// Folders that were made writable for the time, and get their modes back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    opened: Vec<WritableFolder>,
}

/// A folder that an operation has made writable for the time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WritableFolder {
    /// Its path from the folder of [`Leaves`], in hex.
    path: String,
    /// Its permission bits before.
    mode: u32,
}

impl Leaves {
    /// In this folder, or also in those below.
    pub fn new(folder: &[u8], below: bool) -> Self {
        Leaves { folder: hex(folder), below, mounts: Vec::new(), entry: None, opened: Vec::new() }
    }

    /// The same, with the paths of other filesystems in which something is built.
    pub fn and_mounts(self, paths: impl Iterator<Item = Vec<u8>>) -> Self {
        Leaves { mounts: paths.map(|path| hex(&path)).collect(), ..self }
    }

    /// The same, with the name of the one entry that is replaced.
    pub fn and_entry(self, name: Option<&[u8]>) -> Self {
        Leaves { entry: name.map(hex), ..self }
    }

    /// The path of what is replaced in place: the folder, or one entry of it. `None` where only something new is made.
    pub fn replaced(&self) -> Option<Vec<u8>> {
        match &self.entry {
            Some(entry) => Some([self.folder()?, unhex_all(entry)?].join(&b'/')),
            None => self.folder().filter(|_| self.below),
        }
    }

    /// The same, with folders that are made writable for the time: paths from the folder, and permission bits before.
    pub fn and_opened(self, folders: impl Iterator<Item = (Vec<u8>, u32)>) -> Self {
        Leaves { opened: folders.map(|(path, mode)| WritableFolder { path: hex(&path), mode }).collect(), ..self }
    }

    /// The folder's path; `None` where it does not decode.
    pub fn folder(&self) -> Option<Vec<u8>> {
        unhex_all(&self.folder)
    }

    /// Paths of other filesystems below the folder in which something is built.
    pub fn mounts(&self) -> impl Iterator<Item = Vec<u8>> {
        self.mounts.iter().filter_map(|path| unhex_all(path))
    }

    /// Folders that were made writable for the time: paths from the folder, and permission bits before.
    pub fn opened(&self) -> impl Iterator<Item = (Vec<u8>, u32)> {
        self.opened.iter().filter_map(|opened| Some((unhex_all(&opened.path)?, opened.mode)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_does_not_decode_leads_nowhere() {
        for broken in ["0", "0g", "é0"] {
            assert_eq!(Leaves { folder: broken.into(), ..Leaves::new(b"/out", true) }.folder(), None);
        }
    }
}
