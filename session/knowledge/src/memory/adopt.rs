//! Taking over what is known of another project, such as what this one was before its repository had a remote.

use std::path::Path;

use jiff::Timestamp;

use super::{
    document::{Memory, Section},
    file,
    project::Project,
};
use parhelia_host::Result;

/// Takes over what is known of another project, which keeps it. Returns how many entries and sessions were not known before.
pub fn adopt(store: &Path, project: &Project, other: &Project, now: Timestamp) -> Result<(u64, u64)> {
    file::ensure_known(store, other)?;
    file::change(store, project, now, |memory| {
        let new = difference(memory, &file::read(store, other, now)?);
        let counts = (new.knowledge.all().count() as u64, new.session_history.len() as u64);
        for section in Section::ALL {
            let known = memory.knowledge.of_mut(section);
            known.extend(new.knowledge.of(section).iter().cloned());
            known.sort_by_key(|entry| entry.added_at);
        }
        memory.session_history.extend(new.session_history);
        memory.session_history.sort_by_key(|outcome| outcome.timestamp);
        let is_first = !memory.adopted.contains(&other.name);
        memory.adopted.extend(is_first.then(|| other.name.clone()));
        let is_changed = is_first || counts != (0, 0) || !new.dismissed.is_empty();
        memory.dismissed.extend(new.dismissed);
        Ok((is_changed, counts))
    })
}

/// The name that a project had before it had a remote, if something is known under it that nobody has taken over yet.
pub fn unadopted<'a>(store: &Path, project: &'a Project, known: &Memory) -> Option<&'a str> {
    let is_open = |former: &&str| !known.adopted.iter().any(|name| name == former);
    let former = project.former.as_deref().filter(is_open)?;
    file::ensure_known(store, &Project::named(former)).is_ok().then_some(former)
}

/// Entries and sessions of another memory that one does not have.
fn difference(memory: &Memory, other: &Memory) -> Memory {
    let mut new = other.clone();
    for section in Section::ALL {
        let is_new = |id: &str| memory.knowledge.all().all(|(_, known)| known.id != id);
        new.knowledge.of_mut(section).retain(|entry| is_new(&entry.id));
    }
    new.dismissed.retain(|id| !memory.dismissed.contains(id));
    new.session_history.retain(|one| memory.session_history.iter().all(|known| known.session_id != one.session_id));
    new
}
