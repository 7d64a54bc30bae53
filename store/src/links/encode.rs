//! Writing a table of hard links.

use std::collections::BTreeMap;

use super::MAGIC;
use crate::{
    codec::{put_bytes, put_uint},
    name,
};

/// A folder with names that may have partners. A list of these is in the order of a walk, and has every folder that leads to another one
/// in it, so that depths and names make up the paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedFolder {
    /// Number of folders that it is in; the workspace folder is in none.
    depth: usize,
    name: Vec<u8>,
    /// The names in it, one after another.
    names: Vec<u8>,
    members: Vec<LinkedName>,
}

/// One name. There may be millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LinkedName {
    /// Device and inode of the file that it is a name of.
    file: (u64, u64),
    /// Its end among the folder's names.
    end: usize,
}

impl LinkedFolder {
    /// A folder in so many folders.
    pub fn new(depth: usize, name: &[u8]) -> Self {
        LinkedFolder { depth, name: name.to_vec(), names: Vec::new(), members: Vec::new() }
    }

    /// Adds a name of a file, behind all that are there in order. Names of one file have equal numbers, as of device and inode.
    pub fn push(&mut self, name: &[u8], file: (u64, u64)) {
        self.names.extend_from_slice(name);
        self.members.push(LinkedName { file, end: self.names.len() });
    }

    /// True if there are no names in it.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn member_name(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.members[before].end);
        &self.names[start..self.members[number].end]
    }
}

/// The table as it is stored; `None` where no file has two names.
pub fn encode(folders: &[LinkedFolder]) -> Option<Vec<u8>> {
    let leaders = leaders(folders);
    let mut encoder =
        Encoder { folders, parents: parents(folders), firsts: Vec::with_capacity(folders.len()), out: MAGIC.to_vec() };
    let mut count = 0;
    for folder in folders {
        encoder.firsts.push(count);
        count += folder.members.len();
    }
    let (mut before, mut leader_before) = (0, 0);
    for (number, folder) in folders.iter().enumerate() {
        let first = encoder.firsts[number];
        let members: Vec<(usize, usize)> = (0..folder.members.len()).filter_map(|i| Some((i, leaders[first + i]?))).collect();
        if members.is_empty() {
            continue;
        }
        let kept = encoder.kept(before, number);
        put_uint(&mut encoder.out, kept as u64);
        encoder.put_below(kept, number);
        before = number;
        put_uint(&mut encoder.out, members.len() as u64);
        for (i, leader) in members {
            put_bytes(&mut encoder.out, folder.member_name(i));
            match leader == first + i {
                true => put_uint(&mut encoder.out, 0),
                false => leader_before = encoder.put_leader(leader_before, leader, folder.member_name(i)),
            }
        }
    }
    (encoder.out.len() > MAGIC.len()).then_some(encoder.out)
}

/// For each name, by its number in the list, that of the first name of its group; `None` for a name without partners.
fn leaders(folders: &[LinkedFolder]) -> Vec<Option<usize>> {
    let files = folders.iter().flat_map(|folder| &folder.members).map(|member| member.file);
    let mut by_file: Vec<((u64, u64), usize)> = files.zip(0..).collect();
    by_file.sort_unstable();
    let mut leaders = vec![None; by_file.len()];
    for group in by_file.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() > 1) {
        group.iter().for_each(|(_, member)| leaders[*member] = Some(group[0].1));
    }
    leaders
}

/// The folder that each folder is in; the first one is in itself.
fn parents(folders: &[LinkedFolder]) -> Vec<usize> {
    let mut way: Vec<usize> = Vec::new();
    let parent = |(number, folder): (usize, &LinkedFolder)| {
        way.truncate(folder.depth);
        let parent = way.last().copied().unwrap_or_default();
        way.push(number);
        parent
    };
    folders.iter().enumerate().map(parent).collect()
}

struct Encoder<'f> {
    folders: &'f [LinkedFolder],
    parents: Vec<usize>,
    /// The number of each folder's first name.
    firsts: Vec<usize>,
    out: Vec<u8>,
}

impl Encoder<'_> {
    /// Number of names that the paths of two folders have in common at their beginnings.
    fn kept(&self, mut a: usize, mut b: usize) -> usize {
        while a != b {
            let (depth_a, depth_b) = (self.folders[a].depth, self.folders[b].depth);
            if depth_a >= depth_b {
                a = self.parents[a];
            }
            if depth_b >= depth_a {
                b = self.parents[b];
            }
        }
        self.folders[a].depth
    }

    /// Appends the names of a folder's path behind the first ones.
    fn put_below(&mut self, kept: usize, folder: usize) {
        let (mut way, mut at) = (Vec::new(), folder);
        while self.folders[at].depth > kept {
            way.push(at);
            at = self.parents[at];
        }
        put_uint(&mut self.out, way.len() as u64);
        for at in way.into_iter().rev() {
            put_bytes(&mut self.out, &self.folders[at].name);
        }
    }

    /// Appends a reference to a leader from a name, and gives the leader's folder.
    fn put_leader(&mut self, before: usize, leader: usize, own: &[u8]) -> usize {
        let folder = self.firsts.partition_point(|first| *first <= leader) - 1;
        let kept = self.kept(before, folder);
        put_uint(&mut self.out, kept as u64 + 1);
        self.put_below(kept, folder);
        let found = self.folders[folder].member_name(leader - self.firsts[folder]);
        put_bytes(&mut self.out, if found == own { b"" } else { found });
        folder
    }
}

/// The folders of groups that are given by paths from the workspace folder.
pub fn folders_of<P: AsRef<[u8]>>(groups: &[Vec<P>]) -> Vec<LinkedFolder> {
    let mut found: BTreeMap<Vec<&[u8]>, BTreeMap<&[u8], u64>> = BTreeMap::from([(Vec::new(), BTreeMap::new())]);
    for (group, path) in groups.iter().zip(0..).flat_map(|(paths, group)| paths.iter().map(move |path| (group, path))) {
        let mut way: Vec<&[u8]> = name::components(path.as_ref()).collect();
        let Some(last) = way.pop() else { continue };
        for depth in 1..=way.len() {
            found.entry(way[..depth].to_vec()).or_default();
        }
        found.entry(way).or_default().insert(last, group);
    }
    let mut folders = Vec::with_capacity(found.len());
    for (way, names) in found {
        let mut folder = LinkedFolder::new(way.len(), way.last().copied().unwrap_or_default());
        names.into_iter().for_each(|(name, group)| folder.push(name, (0, group)));
        folders.push(folder);
    }
    folders
}
