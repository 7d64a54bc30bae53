//! Keys of checkpoints by their tags, links, annotations and rejections: those that bear one are found without reading the marks of all others.

use std::collections::{BTreeMap, BTreeSet};

use parhelia_store::{
    Result,
    fold::{Keys, Projection},
};
use ulid::Ulid;

use super::Ledger;
use crate::marks::{ApprovalStatus, Marks};

/// A kind of mark that has keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// A tag, by its text.
    Tag,
    /// A link, by its address.
    Link,
    /// An annotation; all of them together, without a name.
    Annotation,
    Rejection,
}

impl Mark {
    const ALL: [Mark; 4] = [Mark::Tag, Mark::Link, Mark::Annotation, Mark::Rejection];

    /// The beginning of its keys.
    fn prefix(self) -> &'static str {
        match self {
            Mark::Tag => "t/",
            Mark::Link => "l/",
            Mark::Annotation => "a/",
            Mark::Rejection => "x/",
        }
    }

    /// The names by which a checkpoint with these marks is found.
    fn names(self, marks: &Marks) -> BTreeSet<&str> {
        match self {
            Mark::Tag => marks.tags.iter().map(String::as_str).collect(),
            Mark::Link => marks.links.iter().map(|issue| issue.url.as_str()).collect(),
            Mark::Annotation => marks.annotations.iter().map(|_| "").collect(),
            Mark::Rejection => marks.approval.iter().filter(|it| it.status == ApprovalStatus::Rejected).map(|_| "").collect(),
        }
    }

    /// The beginning of the keys of a name.
    fn keys(self, kept: Projection<'_>, name: &str) -> String {
        format!("{}{}\0", self.prefix(), kept.name(name))
    }
}

/// The checkpoint of a key, and where its id begins.
fn bearer(key: &[u8]) -> Option<(Ulid, usize)> {
    let at = key.iter().rposition(|byte| *byte == 0)? + 1;
    Some((std::str::from_utf8(&key[at..]).ok()?.parse().ok()?, at))
}

impl Ledger {
    /// The checkpoints that bear a mark of a name, deleted ones included.
    pub(crate) fn bearers(&self, kept: Projection<'_>, mark: Mark, name: &str) -> Result<BTreeSet<Ulid>> {
        let bears = |(id, marks): (&Ulid, &Marks)| mark.names(marks).contains(name).then_some(*id);
        let mut found: BTreeSet<Ulid> = self.marks.iter().filter_map(bears).collect();
        kept.scan(&mark.keys(kept, name), |key, _| {
            found.extend(bearer(key).map(|(id, _)| id).filter(|id| !self.marks.contains_key(id)));
            Ok(())
        })?;
        Ok(found)
    }

    /// Every name of a kind of mark that begins so, and the checkpoints that bear it, deleted ones included.
    pub(crate) fn borne(&self, kept: Projection<'_>, mark: Mark, begins: &str) -> Result<BTreeMap<String, BTreeSet<Ulid>>> {
        let mut found: BTreeMap<String, BTreeSet<Ulid>> = BTreeMap::new();
        for (id, marks) in &self.marks {
            let names = mark.names(marks).into_iter().filter(|name| name.starts_with(begins));
            names.for_each(|name| _ = found.entry(name.to_owned()).or_default().insert(*id));
        }
        // In a store with keys a name is no beginning of another.
        let prefix = if kept.name(begins) == begins { begins } else { "" };
        // The keys of one name follow each other.
        let (mut keys, mut name, mut ids) = (Vec::new(), String::new(), Vec::new());
        kept.scan(&format!("{}{prefix}", mark.prefix()), |key, value| {
            if !value.starts_with(begins.as_bytes()) {
                return Ok(());
            }
            let Some((id, at)) = bearer(key).filter(|(id, _)| !self.marks.contains_key(id)) else { return Ok(()) };
            if keys != key[..at] {
                add(&mut found, &name, &mut ids);
                (keys, name) = (key[..at].to_vec(), String::from_utf8_lossy(value).into_owned());
            }
            ids.push(id);
            Ok(())
        })?;
        add(&mut found, &name, &mut ids);
        Ok(found)
    }
}

fn add(found: &mut BTreeMap<String, BTreeSet<Ulid>>, name: &str, ids: &mut Vec<Ulid>) {
    if !ids.is_empty() {
        found.entry(name.to_owned()).or_default().extend(ids.drain(..));
    }
}

/// Puts the keys of a checkpoint's marks into the index, and removes those of the marks that it had before.
pub(super) fn keep(kept: Projection<'_>, keys: &mut Keys<'_>, id: Ulid, before: &Marks, now: &Marks) {
    for mark in Mark::ALL {
        let (had, has) = (mark.names(before), mark.names(now));
        let key = |name: &str| format!("{}{id}", mark.keys(kept, name));
        had.difference(&has).for_each(|name| keys.delete(&key(name)));
        has.difference(&had).for_each(|name| keys.put(&key(name), name.as_bytes()));
    }
}
