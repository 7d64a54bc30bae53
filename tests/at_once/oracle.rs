//! Contents that a folder may have after several verbs have worked on it at once.

use std::{collections::BTreeSet, path::Path};

use parhelia_tests::tree::{Entry, Tree, What};

use super::verbs::{Ended, Verb};

/// The paths of the whole ground that a verb may have changed, and how.
struct Cover<'a> {
    ended: &'a Ended,
    /// The target, and `/`.
    prefix: Vec<u8>,
    result: Tree,
}

impl Cover<'_> {
    /// The verb's version of a path; `None` where it leaves that alone.
    fn version(&self, path: &[u8]) -> Option<Option<&Entry>> {
        let rest = path.strip_prefix(&*self.prefix)?;
        match self.result.get(rest) {
            Some(entry) => Some(Some(entry)),
            None => self.ended.verb.removes().then_some(None),
        }
    }
}

/// Compares an entry: everything of what one verb has made, but of what several have, only what it is.
fn is_alike(is: Option<&Entry>, may: Option<&Entry>, exactly: bool) -> bool {
    match (is, may) {
        (None, None) => true,
        // A folder's time is that of the last change in it.
        (Some(Entry { what: What::Folder, .. }), Some(Entry { what: What::Folder, .. })) => true,
        (Some(is), Some(may)) => {
            is.what == may.what && (!exactly || (is.mode, is.mtime, &is.xattrs) == (may.mode, may.mtime, &may.xattrs))
        }
        _ => false,
    }
}

fn is_temporary(path: &[u8]) -> bool {
    path.windows(10).any(|part| part == b".parhelia-")
}

/// Judges the ground after verbs have ended by what it was before.
pub struct Judge<'a> {
    covers: Vec<Cover<'a>>,
    before: &'a Tree,
}

impl<'a> Judge<'a> {
    pub fn new(ground: &Path, before: &'a Tree, ended: &'a [Ended]) -> Self {
        let covers = ended.iter().filter_map(|ended| {
            let target = ended.verb.target()?.strip_prefix(ground).ok()?;
            let prefix = format!("{}/", target.display()).into_bytes();
            Some(Cover { ended, prefix, result: ended.verb.result()? })
        });
        Judge { covers: covers.collect(), before }
    }

    /// True if a path is as one of the verbs that have to do with it makes it; or as before, where none of them has succeeded.
    fn is_allowed(&self, path: &[u8], is: Option<&Entry>) -> bool {
        let covers: Vec<_> = self.covers.iter().filter_map(|cover| Some((cover, cover.version(path)?))).collect();
        let exactly = covers.len() < 2;
        let is_undone = |ended: &Ended| matches!(ended.verb, Verb::Rollback { .. }) && !ended.is_done();
        let may_be_old = !covers.iter().any(|(c, _)| c.ended.is_done()) || covers.iter().any(|(c, _)| is_undone(c.ended));
        covers.iter().any(|(_, version)| is_alike(is, *version, exactly))
            || (may_be_old && is_alike(is, self.before.get(path), exactly))
            || self.is_way_to_a_target(path, is)
    }

    /// A folder above a target is made where it is missing.
    fn is_way_to_a_target(&self, path: &[u8], is: Option<&Entry>) -> bool {
        let way = [path, b"/"].concat();
        is.is_none_or(|entry| entry.what == What::Folder) && self.covers.iter().any(|cover| cover.prefix.starts_with(&way))
    }

    /// Paths of the ground that are as no order of the verbs could have left them.
    pub fn faults(&self, after: &Tree) -> Vec<String> {
        let results = self.covers.iter().flat_map(|c| c.result.keys().map(|path| [&*c.prefix, path].concat()));
        let paths: BTreeSet<Vec<u8>> = self.before.keys().chain(after.keys()).cloned().chain(results).collect();
        let wrong = paths.iter().filter(|path| !is_temporary(path) && !self.is_allowed(path, after.get(*path)));
        wrong.map(|path| self.shown(path, after.get(path))).collect()
    }

    /// Paths of a folder of the ground that was captured meanwhile as it never was.
    pub fn faults_of_capture(&self, captured: &Tree, workspace: &str) -> Vec<String> {
        let prefix = format!("{workspace}/").into_bytes();
        let mut faults = Vec::new();
        for (path, entry) in captured {
            let path = [&*prefix, path].concat();
            let versions = || self.covers.iter().filter_map(|cover| cover.version(&path)).chain([self.before.get(&path)]);
            if is_temporary(&path) || !versions().any(|version| is_alike(Some(entry), version, false)) {
                let is_way = self.is_way_to_a_target(&path, Some(entry));
                faults.extend((!is_way).then(|| format!("captured: {}", self.shown(&path, Some(entry)))));
            }
        }
        let untouched = self.before.keys().filter(|path| path.starts_with(&prefix) && !is_temporary(path));
        let untouched = untouched.filter(|path| !self.covers.iter().any(|cover| cover.version(path).is_some()));
        let missing = untouched.filter(|path| !captured.contains_key(&path[prefix.len()..]));
        faults.extend(missing.map(|path| format!("not captured: {}", String::from_utf8_lossy(path))));
        faults
    }

    fn shown(&self, path: &[u8], is: Option<&Entry>) -> String {
        let versions = self.covers.iter().filter_map(|cover| {
            let version = cover.version(path)?;
            Some(format!("{:?} by {}", version.map(|e| &e.what), cover.ended.verb.arguments()[1..3].join(" ")))
        });
        let versions: Vec<_> = versions.collect();
        let (is, before) = (is.map(|e| (&e.what, e.mode, e.mtime)), self.before.get(path).map(|e| &e.what));
        format!("{} is {is:?}; was {before:?}; may be {}", String::from_utf8_lossy(path), versions.join(", "))
    }
}

/// Temporary names that are left below a folder.
pub fn temporary(tree: &Tree) -> Vec<String> {
    tree.keys().filter(|path| is_temporary(path)).map(|path| String::from_utf8_lossy(path).into_owned()).collect()
}
