//! Reading a table of hard links: one table has one encoding, and anything else is refused.

use super::{Folder, Links, LinksFolder, MAGIC, text};
use crate::{
    codec::{DecodeError, Decoder},
    name,
    tree::DEPTH_MAX,
};

/// A name in the table: of a folder, of a member, or of a leader.
fn name_in<'b>(d: &mut Decoder<'b>, what: &'static str) -> Result<&'b [u8], DecodeError> {
    let name = d.bytes(what)?;
    if name::is_valid(name) { Ok(name) } else { Err(DecodeError(what)) }
}

impl Links {
    /// Reads what [`super::encode`] wrote.
    pub fn decode(bytes: Vec<u8>) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(&bytes);
        if d.take(MAGIC.len(), "links")? != MAGIC {
            return Err(DecodeError("links"));
        }
        let (folders, names) = read_names(&bytes, d.clone())?;
        let mut children: Vec<u32> = (1..folders.len() as u32).collect();
        // Those of one folder are in order already.
        children.sort_by_key(|child| folders[*child as usize].parent);
        let mut links = Links { folders, children, names, leaders: Vec::new(), bytes: Vec::new() };
        links.bytes = bytes;
        links.leaders = links.read_leaders()?;
        Ok(links)
    }

    /// Finds the leader of every member, when all folders and names are known.
    fn read_leaders(&self) -> Result<Vec<u32>, DecodeError> {
        let mut d = Decoder::new(&self.bytes);
        d.take(MAGIC.len(), "links")?;
        let mut leaders: Vec<u32> = Vec::with_capacity(self.names.len());
        let mut is_followed = vec![false; self.names.len()];
        // The folders that lead to that of the reference before, the workspace folder first.
        let mut way = vec![LinksFolder(0)];
        while !d.is_empty() {
            skip_path(&mut d)?;
            for _ in 0..d.count(3, "link members")? {
                let number = leaders.len() as u32;
                let own = d.bytes("link member")?;
                let Some(kept) = d.uint("leader")?.checked_sub(1) else {
                    leaders.push(number);
                    continue;
                };
                self.follow(&mut d, kept, &mut way)?;
                let told = d.bytes("leader")?;
                let leader_name = match told.is_empty() {
                    true => own,
                    false if told == own => return Err(DecodeError("leader")),
                    false => told,
                };
                let leader = way.last().and_then(|folder| self.member(*folder, leader_name));
                // It comes before the names that follow it, and follows no other one.
                let leader = leader.filter(|l| l.0 < number && leaders[l.0 as usize] == l.0).ok_or(DecodeError("leader"))?;
                is_followed[leader.0 as usize] = true;
                leaders.push(leader.0);
            }
        }
        let is_alone = |(number, leader): (usize, &u32)| *leader as usize == number && !is_followed[number];
        if leaders.iter().enumerate().any(is_alone) { Err(DecodeError("link group")) } else { Ok(leaders) }
    }

    /// Goes from the folder of the reference before to that of this one.
    fn follow(&self, d: &mut Decoder<'_>, kept: u64, way: &mut Vec<LinksFolder>) -> Result<(), DecodeError> {
        let kept = usize::try_from(kept).ok().filter(|kept| *kept < way.len()).ok_or(DecodeError("leader's folder"))?;
        let left = way.get(kept + 1).copied();
        way.truncate(kept + 1);
        for i in 0..d.count(2, "leader's folder")? {
            let name = d.bytes("leader's folder")?;
            let next = way.last().and_then(|folder| self.child(*folder, name)).ok_or(DecodeError("leader's folder"))?;
            if i == 0 && left == Some(next) {
                return Err(DecodeError("leader's folder"));
            }
            way.push(next);
        }
        Ok(())
    }
}

/// Reads all folders, and where the names in them stand. What names say of their leaders is passed over.
fn read_names(bytes: &[u8], mut d: Decoder<'_>) -> Result<(Vec<Folder>, Vec<usize>), DecodeError> {
    let mut folders = vec![Folder { parent: 0, first: 0, name: 0 }];
    let mut names: Vec<usize> = Vec::new();
    // The folders that lead to the one at hand, the workspace folder first.
    let mut way = vec![0u32];
    let at = |d: &Decoder<'_>| bytes.len() - d.remaining();
    let number = |n: usize| u32::try_from(n).map_err(|_| DecodeError("links"));
    while !d.is_empty() {
        let is_first = names.is_empty();
        let kept = usize::try_from(d.uint("linked folder")?).unwrap_or(usize::MAX);
        let below = d.count(2, "linked folder")?;
        // Each folder comes behind the one before: below it, or beside it or a folder that it is in.
        if kept >= way.len() || below == 0 && !is_first || below >= DEPTH_MAX - kept.min(DEPTH_MAX) {
            return Err(DecodeError("linked folder"));
        }
        let left = way.get(kept + 1).map(|left| text(bytes, folders[*left as usize].name));
        way.truncate(kept + 1);
        for i in 0..below {
            let name_at = at(&d);
            let name = name_in(&mut d, "linked folder")?;
            if i == 0 && left.is_some_and(|left| name <= left) {
                return Err(DecodeError("order of linked folders"));
            }
            let parent = way.last().copied().unwrap_or_default();
            way.push(number(folders.len())?);
            folders.push(Folder { parent, first: number(names.len())?, name: name_at });
        }
        let count = d.count(3, "link members")?;
        if count == 0 {
            return Err(DecodeError("link members"));
        }
        let mut before: &[u8] = b"";
        for _ in 0..count {
            number(names.len() + 1)?;
            names.push(at(&d));
            let name = name_in(&mut d, "link member")?;
            if name <= before {
                return Err(DecodeError("order of link members"));
            }
            before = name;
            if d.uint("leader")? > 0 {
                for _ in 0..d.count(2, "leader's folder")? {
                    d.bytes("leader's folder")?;
                }
                d.bytes("leader")?;
            }
        }
    }
    if names.is_empty() { Err(DecodeError("links")) } else { Ok((folders, names)) }
}

/// Passes over the path of a folder.
fn skip_path(d: &mut Decoder<'_>) -> Result<(), DecodeError> {
    d.uint("linked folder")?;
    for _ in 0..d.count(2, "linked folder")? {
        d.bytes("linked folder")?;
    }
    Ok(())
}
