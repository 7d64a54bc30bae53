//! Hard-link groups: which entries of a workspace are the same file. They stand in a table beside the root, keyed by path, so that equal
//! folders keep equal ids, and an entry that comes or goes elsewhere changes nothing in the table.
//!
//! Folders come in the order of a walk: a folder before what is below it, its subfolders by name. The names in a folder come before those
//! below its subfolders. The first name of a group in this order leads it, and every other one names that leader by its path.

mod decode;
mod encode;
#[cfg(test)]
mod tests;

pub use encode::{LinkedFolder, encode, folders_of};

use crate::{
    codec::Decoder,
    error::{Error, Result},
    name,
    record::Checkpoint,
    store::Store,
};

/// The first bytes of a table: what it is, and the version of its encoding.
const MAGIC: &[u8; 6] = b"links\x01";

/// A folder of a table: the workspace folder, one that has members, or one on the way to such a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LinksFolder(u32);

/// A name that is in a group. Members are ordered as in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member(u32);

/// The groups of one checkpoint. It holds the encoded table, and 16 bytes for each name and each folder in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    bytes: Vec<u8>,
    /// In the table's order; the first one is the workspace folder.
    folders: Vec<Folder>,
    /// All folders but the first, by the folder that they are in, then by name.
    children: Vec<u32>,
    /// Offset of each member's name.
    names: Vec<usize>,
    /// Each member's leader, which may be itself.
    leaders: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Folder {
    parent: u32,
    /// Its first member; the next folder's first one ends its own.
    first: u32,
    /// Offset of its name. The workspace folder has none.
    name: usize,
}

impl Links {
    /// True if there are no groups.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The workspace folder. `None` where there are no groups.
    pub fn root(&self) -> Option<LinksFolder> {
        (!self.folders.is_empty()).then_some(LinksFolder(0))
    }

    /// The folder of this name in another one. `None` where there is no member in it, nor below it.
    pub fn child(&self, folder: LinksFolder, name: &[u8]) -> Option<LinksFolder> {
        let key = |child: &u32| (self.folders[*child as usize].parent, self.folder_name(*child));
        let found = self.children.binary_search_by(|child| key(child).cmp(&(folder.0, name))).ok()?;
        Some(LinksFolder(self.children[found]))
    }

    /// The folder at a path from the workspace folder.
    pub fn folder(&self, path: &[u8]) -> Option<LinksFolder> {
        name::components(path).try_fold(self.root()?, |folder, name| self.child(folder, name))
    }

    /// The member of this name in a folder.
    pub fn member(&self, folder: LinksFolder, name: &[u8]) -> Option<Member> {
        let range = self.range(folder);
        let found = self.names[range.clone()].binary_search_by(|at| self.text(*at).cmp(name)).ok()?;
        Some(Member((range.start + found) as u32))
    }

    /// The member at a path from the workspace folder.
    pub fn member_at(&self, path: &[u8]) -> Option<Member> {
        let (folder, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&[][..], path),
        };
        self.member(self.folder(folder)?, name)
    }

    /// The members in a folder, by name.
    pub fn members(&self, folder: LinksFolder) -> impl Iterator<Item = Member> + '_ {
        self.range(folder).map(|number| Member(number as u32))
    }

    /// The first name of a member's group, which may be the member itself.
    pub fn leader_of(&self, member: Member) -> Member {
        Member(self.leaders[member.0 as usize])
    }

    /// The folder and the name that lead the group of another one. `None` where that is in no group.
    pub fn leader(&self, folder: &[u8], name: &[u8]) -> Option<(Vec<u8>, &[u8])> {
        let leader = self.leader_of(self.member(self.folder(folder)?, name)?);
        Some((self.folder_path(self.folder_of(leader)), self.name(leader)))
    }

    /// A member's name in its folder.
    pub fn name(&self, member: Member) -> &[u8] {
        self.text(self.names[member.0 as usize])
    }

    /// The folder that a member is in.
    pub fn folder_of(&self, member: Member) -> LinksFolder {
        // Folders without members begin where the next one does, and stand before it.
        LinksFolder(self.folders.partition_point(|folder| folder.first <= member.0).saturating_sub(1) as u32)
    }

    /// A folder's path from the workspace folder.
    pub fn folder_path(&self, folder: LinksFolder) -> Vec<u8> {
        let (mut names, mut at) = (Vec::new(), folder.0);
        while at != 0 {
            names.push(self.folder_name(at));
            at = self.folders[at as usize].parent;
        }
        names.reverse();
        names.join(&b'/')
    }

    /// A member's path from the workspace folder.
    pub fn path(&self, member: Member) -> Vec<u8> {
        name::join(&self.folder_path(self.folder_of(member)), self.name(member))
    }

    /// Calls `visit` with each group: its leader first, then the others in order. Groups are ordered by their leaders.
    pub fn each_group(&self, mut visit: impl FnMut(&[Member])) {
        let mut members: Vec<Member> = (0..self.names.len() as u32).map(Member).collect();
        members.sort_unstable_by_key(|member| (self.leader_of(*member), *member));
        members.chunk_by(|a, b| self.leader_of(*a) == self.leader_of(*b)).for_each(&mut visit);
    }

    /// The paths of each group, the leader's first.
    pub fn groups(&self) -> Vec<Vec<Vec<u8>>> {
        let mut groups = Vec::new();
        self.each_group(|group| groups.push(group.iter().map(|member| self.path(*member)).collect()));
        groups
    }

    fn range(&self, folder: LinksFolder) -> std::ops::Range<usize> {
        let at = folder.0 as usize;
        let end = self.folders.get(at + 1).map_or(self.names.len(), |next| next.first as usize);
        self.folders[at].first as usize..end
    }

    fn folder_name(&self, folder: u32) -> &[u8] {
        self.text(self.folders[folder as usize].name)
    }

    /// The bytes at a place of the table where it has bytes behind their length.
    fn text(&self, at: usize) -> &[u8] {
        text(&self.bytes, at)
    }
}

fn text(bytes: &[u8], at: usize) -> &[u8] {
    Decoder::new(bytes.get(at..).unwrap_or_default()).bytes("name").unwrap_or_default()
}

impl Store {
    /// The hard-link groups of a checkpoint.
    pub fn links(&self, checkpoint: &Checkpoint) -> Result<Links> {
        let Some(table) = checkpoint.record.links else { return Ok(Links::default()) };
        let read = self.blob(table.blob, table.bytes).and_then(|blob| blob.read_all());
        let bytes = read.map_err(|e| e.at(b"table of hard links"))?;
        Links::decode(bytes).map_err(|e| Error::Corrupt {
            what: format!("table of hard links of checkpoint {}", checkpoint.id()),
            place: self.layout().packs(),
            reason: e.to_string(),
        })
    }
}
