//! Writing objects so that they build on what they built on before, where that is still there: stored whole, what was recovered of a store of many
//! versions would take many times the room.

use std::collections::{BTreeMap, HashMap};

use super::super::{Lay, SourceObject, survey::Survey};
use crate::{
    error::Result,
    format::{DEPTH_MAX, PREFIX_BYTES_MAX},
    gc::Copier,
    id::{ObjectId, ObjectKey},
    pack::BlockBuilder,
    store::Store,
};

/// Objects of one block, in the order in which they lay there.
type Group<'f> = Vec<(&'f SourceObject, Lay)>;

/// Objects that were written, and how many blocks in a row have to be decoded for them.
#[derive(Default)]
struct WrittenObjects<'f>(HashMap<ObjectKey, (u32, &'f SourceObject)>);

/// Writes objects, each on its old base where that is among those written before.
pub(super) fn write<'f>(
    store: &Store,
    survey: &Survey,
    objects: impl Iterator<Item = &'f SourceObject>,
    copier: &mut Copier<'_, '_>,
) -> Result<()> {
    let mut done = WrittenObjects::default();
    let mut groups: BTreeMap<_, Group<'f>> = BTreeMap::new();
    for found in objects {
        match found.lay {
            Some(lay) => groups.entry(lay.block).or_default().push((found, lay)),
            None => done.whole(found, copier)?,
        }
    }
    let mut waiting = Vec::new();
    for mut group in groups.into_values() {
        group.sort_unstable_by_key(|(_, lay)| lay.at);
        let (on_bases, others): (Group<'f>, Group<'f>) = group.into_iter().partition(|(_, lay)| lay.base.is_some());
        others.iter().try_for_each(|(found, _)| done.whole(found, copier))?;
        waiting.extend((!on_bases.is_empty()).then_some(on_bases));
    }
    // What is not settled by then would build on itself, at first or second hand.
    while !waiting.is_empty() {
        let (ready, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|group| done.has_bases(survey, group));
        waiting = others;
        match ready.is_empty() {
            false => ready.into_iter().try_for_each(|group| done.group(store, survey, &group, copier))?,
            true => {
                let group = waiting.pop().unwrap_or_default();
                group.iter().try_for_each(|(found, _)| done.whole(found, copier))?;
            }
        }
    }
    Ok(())
}

impl<'f> WrittenObjects<'f> {
    fn whole(&mut self, found: &'f SourceObject, copier: &mut Copier<'_, '_>) -> Result<()> {
        self.0.insert(found.id.key(), (0, found));
        copier.push(found.kind, found.id, &found.bytes, 0)
    }

    fn has_bases(&self, survey: &Survey, group: &Group<'f>) -> bool {
        let bases = group.iter().filter_map(|(_, lay)| lay.base);
        bases.into_iter().all(|(base, _)| self.0.contains_key(&base.key()) || survey.settled(base).is_some())
    }

    /// Writes a group as one block on its bases; whole, where that would be too deep.
    fn group(&mut self, store: &Store, survey: &Survey, group: &Group<'f>, copier: &mut Copier<'_, '_>) -> Result<()> {
        let (mut builder, mut prefix, mut depth) = (BlockBuilder::default(), Vec::new(), 0);
        let mut last = None;
        for (found, lay) in group {
            let Some((base, version)) = lay.base else { continue };
            if last.replace(base) != Some(base) {
                depth = depth.max(self.add_base(store, survey, base, &mut prefix)?);
            }
            builder.push_on(found.kind, found.id, &found.bytes, base, version);
        }
        if depth >= DEPTH_MAX || prefix.len() > PREFIX_BYTES_MAX {
            return group.iter().try_for_each(|(found, _)| self.whole(found, copier));
        }
        self.0.extend(group.iter().map(|(found, _)| (found.id.key(), (depth + 1, *found))));
        copier.push_on_bases(&mut builder, &prefix)
    }

    /// Adds a base's bytes to a prefix. Returns its depth.
    fn add_base(&self, store: &Store, survey: &Survey, base: ObjectId, prefix: &mut Vec<u8>) -> Result<u32> {
        if let Some((depth, found)) = self.0.get(&base.key()) {
            prefix.extend_from_slice(&found.bytes);
            return Ok(*depth);
        }
        let Some(at) = survey.settled(base) else { return Ok(DEPTH_MAX) };
        let block = survey.block(store, at)?;
        prefix.extend_from_slice(block.object(base).unwrap_or_default());
        Ok(block.depth)
    }
}
