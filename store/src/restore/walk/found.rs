//! The findings of a walk.

use parhelia_name::step::Step;
use std::{borrow::Cow, collections::HashMap};

use crate::{
    links::Member,
    restore::{
        held::Hold,
        skipped::Why,
        summary::Counts,
        table::{Action, Folder, Item, Packs},
    },
};

/// An entry of the live folder that the checkpoint does not have.
#[derive(Debug)]
pub struct Extra {
    /// The folder it is in.
    pub folder: u32,
    /// Name in that folder, byte for byte.
    pub name: Box<[u8]>,
    /// The number of entries that go, it and what is in it, if it is removed.
    pub entries: u64,
    /// True if something in it stays, so that it does itself.
    pub stays: bool,
}

/// An entry that the checkpoint does not have and that stays on purpose, by itself or for what is in it.
#[derive(Debug)]
pub struct KeptEntry {
    /// The folder it is in.
    pub folder: u32,
    /// Name in that folder, byte for byte.
    pub name: Box<[u8]>,
    /// The reason for which it stays, for people.
    pub reason: String,
    /// True if something in it goes, as is said of [`Extra`] as well.
    pub is_part: bool,
}

/// An entry that cannot be made, changed or removed: a folder is in its place that has to stay, or this process cannot change it.
#[derive(Debug)]
pub struct BlockedEntry {
    /// The folder it is in.
    pub folder: u32,
    /// Its name; empty for the folder itself.
    pub name: Box<[u8]>,
    /// The reason for which it stays.
    pub reason: Cow<'static, str>,
    /// The kind of reason.
    pub why: Why,
}

impl BlockedEntry {
    /// An entry in whose place a folder with other files is.
    pub fn by_folder(folder: u32, name: &[u8], reason: impl Into<Cow<'static, str>>) -> Self {
        BlockedEntry { folder, name: name.into(), reason: reason.into(), why: Why::Failed }
    }

    /// An entry that cannot be changed as `action` has it.
    pub fn held(folder: u32, name: &[u8], hold: Hold, action: Option<Action>) -> Self {
        let why = if action == Some(Action::Meta) { Why::HeldAlike } else { Why::Held };
        BlockedEntry { folder, name: name.into(), reason: hold.to_string().into(), why }
    }

    /// An entry that cannot be removed, or not with everything that is in it.
    pub fn around(folder: u32, name: &[u8], reason: String) -> Self {
        BlockedEntry { folder, name: name.into(), reason: reason.into(), why: Why::Held }
    }
}

/// A folder is in its place that may not be removed.
pub fn not_empty() -> String {
    format!("a folder with other files is in its place ({} removes it)", Step::Delete)
}

/// A folder is in its place that may be removed but for some of it.
pub const HOLDS_SPARED: &str = "a folder is in its place that holds what the checkpoint left out, a mount, or the store";

/// A folder is in its place in which nobody may remove something.
pub const HOLDS_FROZEN: &str =
    "a folder is in its place in which something is immutable or append-only (`chattr -R -i -a` lets it be removed)";

/// A folder is in its place in which this process cannot remove something.
pub const HOLDS_HELD: &str = "a folder is in its place in which something cannot be removed";

/// Entries that are one file in the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// The names that this one leads.
    Of(Member),
    /// One entry alone, by its folder and its number in that.
    Alone(u32, u32),
}

/// An entry that shares its inode with others, in the checkpoint or in the live folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkedEntry {
    /// The names that must share one inode with it.
    pub group: Group,
    /// Its name in the table of hard links; none where it is in no group of the checkpoint.
    pub member: Option<Member>,
    /// The folder it is in.
    pub folder: u32,
    /// Its number in that.
    pub index: u32,
    /// The live inode; 0 where there is none.
    pub ino: u64,
    /// The action that is due.
    pub action: Option<Action>,
    /// The reason for which it cannot be another file than it is.
    pub held: Option<Hold>,
}

/// The findings of a walk.
#[derive(Debug, Default)]
pub struct WalkFindings {
    /// Folders of the target tree, each behind the one that it is in.
    pub folders: Vec<Folder>,
    /// Entries with which something is due, links not yet considered.
    pub items: Vec<Item>,
    /// Entries with partners.
    pub linked: Vec<LinkedEntry>,
    /// Entries that the checkpoint does not have.
    pub extras: Vec<Extra>,
    /// Entries that stay on purpose although extras go; of those that capture left out, only folders that stay for them.
    pub kept: Vec<KeptEntry>,
    /// Entries that have to stay, or cannot be made.
    pub blocked: Vec<BlockedEntry>,
    /// The number of entries that go with each folder in whose place something else is made.
    pub exchanged: HashMap<(u32, u32), u64>,
    /// Packs of the items.
    pub packs: Packs,
    /// Sums.
    pub counts: Counts,
    /// Bytes of the holes in what is written.
    pub hole_bytes: u64,
    /// True if a live folder could not be looked into, so that nothing is known of what is in it.
    pub is_partial: bool,
}
