//! The maker of a checkpoint.

use crate::{
    event::{Actor, NewEvent},
    place::Place,
};

/// The maker of a checkpoint, and the folder that it is of.
#[derive(Clone, Debug)]
pub struct Maker {
    /// The person or program that makes it.
    pub actor: Actor,
    /// The captured folder; none where there was no folder, as with an archive.
    pub place: Option<Place>,
    /// Keep the session's recorded folder as it is, whatever is captured.
    pub keeps_place: bool,
    /// Statements about the checkpoint that are appended with it; their subject is filled in.
    pub marks: Vec<NewEvent>,
}
