//! The folders under `by-tag`. The parts of a tag are folders, and its last part is a link to the newest checkpoint that bears it. Where
//! other tags lie below a tag, its last part is a folder, and the link is called `@` in it: no tag has such a part.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use parhelia_store::id::Ulid;

use crate::filesystem::store::{file_name::file_name, inode::TOP, numbers::Numbers};

/// The name of the link of a tag that is a folder as well.
const OWN: &str = "@";

/// An entry of a folder of tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagEntry {
    /// A folder, by number.
    Folder(u64),
    /// A link, by number.
    Link(u64),
}

/// A folder of tags.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TagFolder {
    /// The folder above, by number.
    pub parent: u64,
    /// Number of folders between it and `by-tag`, counting itself.
    depth: usize,
    /// Its entries, by name.
    pub entries: BTreeMap<Vec<u8>, TagEntry>,
}

/// A link of a tag. Its number is given for what it points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagLink {
    /// The number of the checkpoint.
    pub checkpoint: u64,
    /// Number of folders between `by-tag` and it.
    pub depth: usize,
}

/// Folders and links below `by-tag`, as of one view of the store.
#[derive(Debug)]
pub struct Tags {
    /// Folders by the numbers that their inodes are made of.
    pub folders: BTreeMap<u64, TagFolder>,
    /// Links by the numbers that their inodes are made of.
    pub links: HashMap<u64, TagLink>,
}

impl Tags {
    /// Lists the tags of checkpoints; `newest` gives the number of the newest of some that exists.
    pub fn new(
        tags: BTreeMap<String, BTreeSet<Ulid>>,
        newest: impl Fn(&BTreeSet<Ulid>) -> Option<u64>,
        numbers: &mut Numbers,
    ) -> Self {
        let mut made = Tags { folders: BTreeMap::from([(TOP, TagFolder::default())]), links: HashMap::new() };
        let shown: BTreeMap<String, u64> = tags.into_iter().filter_map(|(tag, ids)| Some((tag, newest(&ids)?))).collect();
        for (tag, checkpoint) in &shown {
            let below = format!("{tag}/");
            let has_others = shown.range(below.clone()..).next().is_some_and(|(other, _)| other.starts_with(&below));
            let (folder, name) = match (has_others, tag.rsplit_once('/')) {
                (true, _) => (tag.as_str(), OWN),
                (false, Some((folder, name))) => (folder, name),
                (false, None) => ("", tag.as_str()),
            };
            let number = made.folder(folder, numbers);
            // The link of a tag that becomes a folder points from another place.
            let link = numbers.tag_link(&format!("{folder}/{name}"), *checkpoint);
            if let Some(folder) = made.folders.get_mut(&number) {
                let name = if name == OWN && has_others { OWN.into() } else { part_name(name) };
                folder.entries.insert(name, TagEntry::Link(link));
                made.links.insert(link, TagLink { checkpoint: *checkpoint, depth: folder.depth });
            }
        }
        made
    }

    /// The number of the folder of a path, which is made with those above it.
    fn folder(&mut self, path: &str, numbers: &mut Numbers) -> u64 {
        let (mut folder, mut at) = (TOP, 0);
        for part in path.split('/').filter(|part| !part.is_empty()) {
            at += part.len();
            let number = numbers.tag_folder(&path[..at]);
            let depth = self.folders.get(&folder).map_or(0, |folder| folder.depth) + 1;
            if let Some(above) = self.folders.get_mut(&folder) {
                above.entries.insert(part_name(part), TagEntry::Folder(number));
            }
            self.folders.entry(number).or_insert(TagFolder { parent: folder, depth, entries: BTreeMap::new() });
            (folder, at) = (number, at + 1);
        }
        folder
    }
}

/// A part of a tag as the name of a file. Another program may have made a tag with a part that is called as our links are.
fn part_name(part: &str) -> Vec<u8> {
    if part == OWN { b"%40".to_vec() } else { file_name(part) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths of all links, and the checkpoints that they point to.
    fn paths(tags: &Tags, number: u64, path: &str) -> Vec<(String, u64)> {
        let folder = &tags.folders[&number];
        let below = folder.entries.iter().flat_map(|(name, entry)| {
            let path = format!("{path}/{}", String::from_utf8_lossy(name));
            match entry {
                TagEntry::Folder(number) => {
                    assert_eq!(tags.folders[number].parent, folder_of(tags, &path));
                    paths(tags, *number, &path)
                }
                TagEntry::Link(number) => {
                    let link = tags.links[number];
                    assert_eq!(link.depth, path.matches('/').count() - 1, "{path}");
                    vec![(path, link.checkpoint)]
                }
            }
        });
        below.collect()
    }

    fn folder_of(tags: &Tags, path: &str) -> u64 {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        parts[..parts.len() - 1].iter().fold(TOP, |folder, part| match tags.folders[&folder].entries[part.as_bytes()] {
            TagEntry::Folder(number) => number,
            TagEntry::Link(_) => panic!("{path}"),
        })
    }

    #[test]
    fn tags_are_folders_and_a_tag_with_others_below_it_is_a_link_in_its_own() {
        let mut numbers = Numbers::default();
        let mut made = |names: &[&str]| {
            let tags = names.iter().map(|tag| ((*tag).to_owned(), BTreeSet::new())).collect();
            Tags::new(tags, |_| Some(7), &mut numbers)
        };
        let before = made(&["a", "release", "x/y/z", "x/@"]);
        let shown = |tags: &Tags| paths(tags, TOP, "").into_iter().map(|(path, _)| path).collect::<Vec<_>>();
        assert_eq!(shown(&before), ["/a", "/release", "/x/%40", "/x/y/z"]);
        let after = made(&["a", "release", "release-2", "release/1", "x", "x/y/z"]);
        assert_eq!(shown(&after), ["/a", "/release/1", "/release/@", "/release-2", "/x/@", "/x/y/z"]);
        assert_eq!(before.folders[&TOP].entries[&b"a"[..]], after.folders[&TOP].entries[&b"a"[..]], "its number is the same");
        let other = before.folders[&TOP].entries[&b"release"[..]];
        let TagEntry::Link(number) = other else { panic!("{other:?}") };
        assert!(!after.links.contains_key(&number));
    }
}
