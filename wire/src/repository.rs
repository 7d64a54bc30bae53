//! Stores: what is in them, and whether it is whole.

use parhelia_store::{check::RepairPlan, id::PackId};
use schemars::JsonSchema;
use serde::Serialize;

/// A plan of a repair.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Repair {
    /// Packs with damage, or gone.
    pub damaged_packs: Vec<PackId>,
    /// Those of them that the disk could read only in part. Their files are kept, with `.unreadable` behind their names.
    pub unread_packs: Vec<PackId>,
    /// Packs with damage of which their parity gives back everything. They are written anew, as they were.
    pub healed_packs: Vec<PackId>,
    /// Whole packs with recipes that lack chunks.
    pub packs_with_broken_recipes: Vec<PackId>,
    /// Objects in all of these that are whole, and are copied.
    pub kept_objects: u64,
    /// Objects that are taken from elsewhere.
    pub recovered_objects: u64,
}

impl From<&RepairPlan> for Repair {
    fn from(plan: &RepairPlan) -> Self {
        Repair {
            damaged_packs: plan.damaged_packs.clone(),
            unread_packs: plan.unread_packs.clone(),
            healed_packs: plan.healed_packs.clone(),
            packs_with_broken_recipes: plan.packs_with_broken_recipes.clone(),
            kept_objects: plan.kept_objects,
            recovered_objects: plan.recovered_objects,
        }
    }
}

/// A remark about a store that is no damage, such as an append that was cut off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Note {
    /// The remark, for people.
    pub text: String,
}
