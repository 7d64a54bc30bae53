//! Recipes that nothing reads: which of their chunks are dead, and where these lie.

use std::collections::{BTreeSet, HashSet};

use super::Survey;
use crate::{
    error::Result,
    gc::mark::read_recipe_root,
    id::ObjectId,
    pack::{Location, ObjectKind},
    recipe,
    store::Store,
};

impl<'a> Survey<'a> {
    /// Looks at a recipe that nothing reads: what of it is dead?
    pub(super) fn judge_recipe(&mut self, store: &Store, pack: usize, location: Location, id: ObjectId) -> Result<()> {
        let mut dead = Vec::new();
        let mut is_broken = false;
        let mut pending = Vec::new();
        match store.block(location) {
            Ok(block) => {
                pending.extend(read_recipe_root(store.ids(), block.object(id).unwrap_or_default()).map(|(_, node)| node))
            }
            Err(e) if e.is_not_found() => return Err(e),
            Err(_) => is_broken = true,
        }
        let mut nodes_seen = HashSet::new();
        while let Some(node) = pending.pop() {
            match node {
                recipe::Node::Chunks(runs) => dead.extend(runs.iter().map(|run| run.id.object()).filter(|id| !self.lives(*id))),
                recipe::Node::Nodes(nodes) => {
                    for id in nodes.iter().map(|(id, _)| id.object()).filter(|id| nodes_seen.insert(*id)) {
                        if !self.lives(id) {
                            dead.push(id);
                        }
                        match store.read_object(ObjectKind::RecipeNode, id, recipe::decode_node) {
                            Ok(node) => pending.push(node),
                            Err(e) if e.is_not_found() => return Err(e),
                            Err(_) => is_broken = true,
                        }
                    }
                }
            }
        }
        let mut leans_on = BTreeSet::new();
        for id in &dead {
            let home = self.view.locate(*id)?.map(|location| location.pack);
            is_broken |= home.is_none();
            leans_on.extend(home);
        }
        let own = &mut self.packs[pack];
        own.has_broken_objects |= is_broken;
        leans_on.remove(&own.id);
        own.leans_on.extend(leans_on);
        Ok(())
    }

    pub(super) fn lives(&self, id: ObjectId) -> bool {
        self.marker.live.contains_key(&id.key())
    }
}
