//! Hard-link groups: which entries of a workspace are the same file. They stand in a table beside the root, so that equal folders
//! keep equal ids.

use std::collections::HashMap;

use crate::{
    codec::{Decoder, Malformed, put_uint},
    error::Result,
    format::context,
    id::ObjectId,
    pack::ObjectKind,
    recipe::Encoded,
    record::Checkpoint,
    store::Store,
};

/// The groups of one checkpoint. Members are preorder positions in the workspace folder, which itself is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    groups: Vec<Vec<u64>>,
}

impl Links {
    /// Groups of positions. Those with fewer than two members say nothing and are dropped.
    pub fn new(groups: impl IntoIterator<Item = Vec<u64>>) -> Self {
        let mut groups: Vec<Vec<u64>> = groups
            .into_iter()
            .filter(|group| group.len() > 1)
            .map(|mut group| {
                group.sort_unstable();
                group
            })
            .collect();
        groups.sort_unstable();
        Links { groups }
    }

    /// The groups, ordered by first member; members in order.
    pub fn groups(&self) -> &[Vec<u64>] {
        &self.groups
    }

    /// For every member of a group, the group's first member.
    pub fn leaders(&self) -> HashMap<u64, u64> {
        self.groups.iter().flat_map(|group| group.iter().map(|member| (*member, group[0]))).collect()
    }

    /// The table as an object; `None` where there are no groups.
    pub fn encode(&self) -> Option<Encoded> {
        if self.groups.is_empty() {
            return None;
        }
        let mut bytes = b"links".to_vec();
        put_uint(&mut bytes, self.groups.len() as u64);
        let mut first_before = 0;
        for group in &self.groups {
            put_uint(&mut bytes, group.len() as u64);
            let mut before = first_before;
            for member in group {
                put_uint(&mut bytes, member - before);
                before = *member;
            }
            first_before = group[0];
        }
        let id = ObjectId(blake3::derive_key(context::TABLE, &bytes));
        Some(Encoded { kind: ObjectKind::Table, id, bytes, tail_bytes: 0 })
    }

    /// Reads what [`Links::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut d = Decoder::new(bytes);
        if d.take(5, "links")? != b"links" {
            return Err(Malformed("links"));
        }
        let count = d.count(3, "links")?;
        let mut groups = Vec::with_capacity(count);
        let mut first_before = 0u64;
        for _ in 0..count {
            let members = d.count(1, "link group")?;
            let mut group = Vec::with_capacity(members);
            let mut before = first_before;
            for i in 0..members {
                let step = d.uint("link")?;
                if step == 0 && i > 0 {
                    return Err(Malformed("link"));
                }
                before = before.checked_add(step).ok_or(Malformed("link"))?;
                group.push(before);
            }
            first_before = *group.first().ok_or(Malformed("link group"))?;
            groups.push(group);
        }
        d.finish("links")?;
        Ok(Links { groups })
    }
}

impl Store {
    /// The hard-link groups of a checkpoint.
    pub fn links(&self, checkpoint: &Checkpoint) -> Result<Links> {
        match checkpoint.record.links {
            Some(id) => self.read_object(ObjectKind::Table, id, Links::decode),
            None => Ok(Links::default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn groups_round_trip(groups in proptest::collection::vec(proptest::collection::btree_set(1u64..1 << 40, 0..6), 0..20)) {
            let links = Links::new(groups.into_iter().map(|g| g.into_iter().collect()));
            match links.encode() {
                None => prop_assert!(links.groups().is_empty()),
                Some(encoded) => prop_assert_eq!(Links::decode(&encoded.bytes), Ok(links)),
            }
        }

        #[test]
        fn any_bytes_decode_or_fail_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = Links::decode(&[b"links", &bytes[..]].concat());
        }
    }
}
