//! Entries of trees, and what happens to paths.

use jiff::Timestamp;
use parhelia_store::{
    restore::RestoreChange,
    tree::{Kind, Node, Time},
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::shown;

/// An entry of a tree: a file, a folder, or something else that has a name.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Entry {
    /// Path in the checkpoint or in the folder.
    pub path: String,
    /// file, folder, symlink, fifo, socket, char-device, block-device.
    pub kind: String,
    /// Permissions in octal.
    pub mode: String,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of the last change of content, with nanoseconds.
    #[schemars(extend("format" = "date-time"))]
    pub mtime: String,
    /// Number of its hard links.
    pub links: u32,
    /// Bytes of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Id of a file's content: its BLAKE3 hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// Bytes of the holes of a file that has some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hole_bytes: Option<u64>,
    /// Id of a folder's tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tree: Option<String>,
    /// Entries of a folder, with everything below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// Regular files of a folder, with everything below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<u64>,
    /// Bytes of these files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Text of a symlink.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Major number of a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub major: Option<u32>,
    /// Minor number of a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minor: Option<u32>,
    /// Names of its extended attributes, where it has some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub xattrs: Vec<String>,
}

impl Entry {
    /// The entry at a path.
    pub fn of(path: &[u8], node: &Node) -> Self {
        let mut entry = Entry {
            path: shown(path),
            kind: node.kind.name().into(),
            mode: format!("{:04o}", node.meta.mode),
            uid: node.meta.uid,
            gid: node.meta.gid,
            mtime: exact(node.meta.mtime),
            links: node.links,
            size: None,
            blob: None,
            hole_bytes: None,
            tree: None,
            entries: None,
            files: None,
            bytes: None,
            target: None,
            major: None,
            minor: None,
            xattrs: node.meta.xattrs.iter().map(|(name, _)| shown(name)).collect(),
        };
        match &node.kind {
            Kind::File { size, blob, holes } => {
                entry.size = Some(*size);
                entry.blob = Some(blob.to_string());
                entry.hole_bytes = (!holes.is_empty()).then(|| holes.iter().map(|hole| hole.bytes).sum());
            }
            Kind::Folder { tree, totals } => {
                entry.tree = Some(tree.to_string());
                entry.entries = Some(totals.entries);
                entry.files = Some(totals.files);
                entry.bytes = Some(totals.bytes);
            }
            Kind::Symlink { target } => entry.target = Some(shown(target)),
            Kind::CharDevice { major, minor } | Kind::BlockDevice { major, minor } => {
                (entry.major, entry.minor) = (Some(*major), Some(*minor));
            }
            Kind::Fifo | Kind::Socket => {}
        }
        entry
    }
}

/// A file's time, to the nanosecond; seconds since 1970 if no calendar has it.
pub fn exact(time: Time) -> String {
    let nanoseconds = i128::from(time.secs) * 1_000_000_000 + i128::from(time.nanos);
    Timestamp::from_nanosecond(nanoseconds).map_or_else(|_| format!("@{}.{:09}", time.secs, time.nanos), |time| time.to_string())
}

/// An entry that a search has found.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Match {
    /// The entry, with its path in the workspace.
    #[serde(flatten)]
    pub entry: Entry,
    /// Checkpoints that have it so.
    pub checkpoints: Vec<String>,
}

/// A piece of a file's content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Content {
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// `base64`.
    pub encoding: String,
    /// The bytes, encoded.
    pub data: String,
}

/// A path that is, or would be, overwritten by a restore or a rollback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Action {
    /// Path in the folder; `.` for the folder itself.
    pub path: String,
    /// create, replace, metadata, link, delete, keep; empty of a folder that stays for some of what is in it.
    #[schemars(with = "String")]
    pub action: RestoreChange,
}

impl Action {
    /// The action of a restore on a path.
    pub fn of(path: &[u8], change: RestoreChange) -> Self {
        let path = if path.is_empty() { ".".into() } else { shown(path) };
        Action { path, action: change }
    }
}

/// A socket, for which an archive has no place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Socket {
    /// Path in the workspace.
    pub path: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_no_calendar_has_is_in_seconds() {
        assert_eq!(exact(Time { secs: 0, nanos: 7 }), "1970-01-01T00:00:00.000000007Z");
        assert_eq!(exact(Time { secs: i64::MAX, nanos: 7 }), "@9223372036854775807.000000007");
    }
}
