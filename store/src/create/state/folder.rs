//! The folder `state` as trees.

use std::collections::BTreeMap;

use crate::{
    create::sink::Batch,
    error::{Error, Result},
    id::TreeId,
    store::Store,
    tree::{Kind, Meta, Node},
};

/// A folder on its way into a tree.
#[derive(Default)]
pub(super) struct Folder {
    pub(super) entries: BTreeMap<Vec<u8>, Item>,
}

pub(super) enum Item {
    File(Node),
    Folder(Folder),
}

impl Folder {
    pub(super) fn put(&mut self, parts: &[&str], node: Node) -> Result<()> {
        let twice = || Error::Invalid(format!("two files beside a workspace are called {}", parts.join("/")));
        match parts {
            [] => Err(twice()),
            [name] => match self.entries.insert(name.as_bytes().to_vec(), Item::File(node)) {
                None => Ok(()),
                Some(_) => Err(twice()),
            },
            [name, rest @ ..] => {
                match self.entries.entry(name.as_bytes().to_vec()).or_insert_with(|| Item::Folder(Folder::default())) {
                    Item::Folder(folder) => folder.put(rest, node),
                    Item::File(_) => Err(twice()),
                }
            }
        }
    }

    /// Stores the folder, which had the tree `before` in the checkpoint before.
    pub(super) fn encode(
        self,
        name: &str,
        meta: &Meta,
        batch: &mut Batch<'_>,
        store: &Store,
        before: Option<TreeId>,
    ) -> Result<Node> {
        let mut nodes = Vec::with_capacity(self.entries.len());
        for (name, item) in self.entries {
            nodes.push(match item {
                Item::File(node) => node,
                Item::Folder(folder) => {
                    let inside = before.and_then(|before| store.entry(before, &name).ok().flatten());
                    let inside = inside.as_ref().and_then(Node::as_folder).map(|(tree, _)| tree);
                    folder.encode(&String::from_utf8_lossy(&name), meta, batch, store, inside)?
                }
            });
        }
        let (tree, totals) = batch.folder(&nodes, before)?;
        Ok(Node { name: name.into(), meta: meta.clone(), links: 1, kind: Kind::Folder { tree, totals } })
    }
}
