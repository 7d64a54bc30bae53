//! The root of a checkpoint, and the tables beside it.

use super::{
    links::StoredLinks,
    sink::{Batch, Sink},
    state::{CapturedState, StateContent, StateFile},
};
use crate::{
    error::Result,
    format::BLOCK_BYTES_MAX,
    id::{ObjectId, TreeId},
    omitted::{self, ATTRIBUTES_FILE, OMISSIONS_FILE, Omission, OmissionList, Reason},
    pack::ObjectKind,
    recipe::EncodedObject,
    record::{LinksTable, OmissionCounts},
    store::Store,
    tree::{Node, STATE_FOLDER},
};

/// The ids of what a record points to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Roots {
    pub(super) tree: TreeId,
    pub(super) links: Option<LinksTable>,
    omitted: Option<ObjectId>,
    /// True if the table of what was left out only stands in for a file in `state`.
    omitted_in_state: bool,
}

/// The list of what was left out, as it is to be stored. A list that is too long for a table becomes one of the files beside the workspace.
pub(super) fn list_omissions(omissions: &[Omission], captured: &mut CapturedState) -> Option<OmissionList> {
    let (attributes, left_out) = omitted::split_attributes(omissions);
    let mut listed = (!omissions.is_empty()).then(|| omitted::list(&left_out, BLOCK_BYTES_MAX))?;
    let mut put = |name: &str, bytes: Vec<u8>| {
        let (path, part) = (name.to_owned(), name.to_owned());
        captured.files.push(StateFile { path, part, content: StateContent::Bytes(bytes), mtime: None });
    };
    if let Some(whole) = &mut listed.whole {
        put(OMISSIONS_FILE, std::mem::take(whole));
    }
    if !attributes.is_empty() {
        put(ATTRIBUTES_FILE, omitted::encode(&attributes));
    }
    Some(listed)
}

/// The tree of the state folder below a root, if there is one that can be read.
pub(super) fn state_before(store: &Store, root: Option<TreeId>) -> Result<Option<TreeId>> {
    match root.map_or(Ok(None), |root| store.entry(root, STATE_FOLDER.as_bytes())) {
        Ok(state) => Ok(state.as_ref().and_then(Node::as_folder).map(|(tree, _)| tree)),
        Err(e) if e.is_damage() => Ok(None),
        Err(e) => Err(e),
    }
}

/// Stores the root tree, which takes the place of `before`, and the table of what was left out.
pub(super) fn store_root(
    sink: &Sink<'_>,
    nodes: &[&Node],
    before: Option<TreeId>,
    links: Option<StoredLinks>,
    listed: Option<OmissionList>,
) -> Result<Roots> {
    let mut batch = Batch::new(sink)?;
    let (tree, _) = batch.folder(nodes, before)?;
    let omitted = listed.as_ref().map(|listed| sink.ids().table(&listed.table));
    let roots = Roots {
        tree,
        links: links.map(|links| links.table),
        omitted,
        omitted_in_state: listed.as_ref().is_some_and(|listed| listed.whole.is_some()),
    };
    if let Some((listed, id)) = listed.zip(omitted) {
        batch.meta(EncodedObject { kind: ObjectKind::Table, id, bytes: listed.table, tail_bytes: 0 }, None)?;
    }
    batch.finish()?;
    Ok(roots)
}

pub(super) fn count_omissions(roots: Roots, omissions: &[Omission]) -> Option<OmissionCounts> {
    let count = |wanted: fn(&Reason) -> bool| omissions.iter().filter(|o| wanted(&o.reason)).count() as u64;
    roots.omitted.map(|table| OmissionCounts {
        table,
        excluded: count(|r| matches!(r, Reason::Excluded(_))),
        unreadable: count(|r| matches!(r, Reason::Unreadable(_))),
        changing: count(|r| matches!(r, Reason::Changing)),
        in_state: roots.omitted_in_state,
        attributes: count(|r| matches!(r, Reason::Attributes(_))),
    })
}
