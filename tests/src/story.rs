//! Record of the operations on a store, and the checks of every disk that a power cut could have left.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use parhelia_store::{
    OpenOptions, Store,
    check::{self, CheckOptions},
    create, gc,
    record::Checkpoint,
    tree::Kind,
};

use crate::{Files, files_in};

/// The regular files of a checkpoint, every byte read and verified.
pub fn files_of(store: &Store, checkpoint: &Checkpoint) -> parhelia_store::Result<Files> {
    let node = store.workspace_node(checkpoint)?;
    let Some((tree, _)) = node.as_folder() else { return Ok(Files::new()) };
    let mut blobs = Vec::new();
    store.walk(tree, &mut |path, _, node| {
        if let Kind::File { size, blob, .. } = node.kind {
            blobs.push((path.to_vec(), blob, size));
        }
        Ok(true)
    })?;
    blobs.into_iter().map(|(path, blob, size)| Ok((path, store.blob(blob, size)?.read_all()?))).collect()
}

/// One command.
#[derive(Clone, Debug)]
pub struct Step {
    /// Length of the log before it.
    pub start: usize,
    /// Length of the log when it had returned.
    pub end: usize,
    /// Its effect.
    pub what: What,
}

/// Effect of a command.
#[derive(Clone, Debug)]
pub enum What {
    /// It made a checkpoint of these files.
    Created(String, Files),
    /// It deleted a checkpoint.
    Deleted(String),
    /// It changed nothing that can be seen.
    Other,
}

/// Everything that was done.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// In order.
    pub steps: Vec<Step>,
}

/// Checkpoints that must be there at some point of a story, and those that may be.
struct Promise<'a> {
    must: BTreeMap<&'a str, &'a Files>,
    may: BTreeMap<&'a str, &'a Files>,
}

impl Story {
    fn promise(&self, n: usize) -> Promise<'_> {
        let mut promise = Promise { must: BTreeMap::new(), may: BTreeMap::new() };
        for step in self.steps.iter().filter(|step| step.start < n || step.end <= n) {
            let is_over = step.end <= n;
            match &step.what {
                What::Created(id, files) if is_over => drop(promise.must.insert(id, files)),
                What::Created(id, files) => drop(promise.may.insert(id, files)),
                What::Deleted(id) => {
                    let files = promise.must.remove(id.as_str());
                    promise.may.extend(files.filter(|_| !is_over).map(|files| (id.as_str(), files)));
                }
                What::Other => {}
            }
        }
        promise
    }

    /// Checks a store that a cut at entry `n` has left: what was promised is there to the byte, what was under way is there or not,
    /// the next checkpoint of `workspace` succeeds, gc clears up, and then nothing is wrong.
    pub fn holds(&self, store: &Path, n: usize, workspace: &Path) -> Result<(), String> {
        let promise = self.promise(n);
        let options = OpenOptions { create: true, ..OpenOptions::default() };
        if !promise.must.is_empty() && !store.join("store.json").exists() {
            return Err("the store is gone".into());
        }
        let opened = parhelia_ledger::open(store, &options).map_err(|e| format!("open: {e}"))?;
        let found = opened.checkpoints().map_err(|e| format!("list: {e}"))?;
        for id in promise.must.keys() {
            if !found.iter().any(|c| c.id() == *id) {
                return Err(format!("the committed checkpoint {id} is gone"));
            }
        }
        for checkpoint in &found {
            let id = checkpoint.id();
            let Some(files) = promise.must.get(&*id).or_else(|| promise.may.get(&*id)) else {
                return Err(format!("there is a checkpoint {id} that should not be"));
            };
            let read = files_of(&opened, checkpoint).map_err(|e| format!("read {id}: {e}"))?;
            if read != **files {
                return Err(format!("checkpoint {id} reads back other bytes"));
            }
        }
        go_on(&opened, workspace, found.len())
    }
}

/// The next create, gc and check of a store that was interrupted.
fn go_on(store: &Store, workspace: &Path, before: usize) -> Result<(), String> {
    let options =
        create::Options { workspace: workspace.to_owned(), session: "after".into(), threads: 1, ..create::Options::default() };
    let made = create::run(store, &options, &()).map_err(|e| format!("the next create: {e}"))?;
    let read = files_of(store, &made.checkpoint).map_err(|e| format!("read the next checkpoint: {e}"))?;
    if read != files_in(workspace) {
        return Err("the next checkpoint reads back other bytes".into());
    }
    gc::run(store, &gc::GcOptions::default(), &()).map_err(|e| format!("gc: {e}"))?;
    let all = CheckOptions { read_data_percent: Some(100) };
    let report = check::run(store.layout(), &all, &()).map_err(|e| format!("check: {e}"))?;
    if !report.is_clean() || report.checkpoints as usize != before + 1 {
        return Err(format!("check finds {:?}", report.findings));
    }
    match leftovers(store).as_slice() {
        [] => Ok(()),
        left => Err(format!("gc left {left:?}")),
    }
}

/// Files in a store at rest that nothing needs. A power cut that tore the journal's record of a checkpoint, and also took its pin, leaves packs
/// that look like those of a checkpoint whose record was lost: gc keeps them.
pub fn leftovers(store: &Store) -> Vec<PathBuf> {
    let known = store.refresh().and_then(|view| view.packs()).unwrap_or_default();
    let kept = gc::unexplained(store).unwrap_or_default().packs;
    let names = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let layout = store.layout();
    let is_known = |path: &Path| {
        parhelia_store::layout::Layout::pack_of(path).is_some_and(|id| known.contains_key(&id) || kept.contains(&id))
    };
    let is_temporary = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        [".tmp", ".sst", ".old"].iter().any(|ending| name.ends_with(ending))
    };
    let packs = names(layout.packs()).filter(|path| !is_known(path));
    let others = [layout.cache(), layout.journal(), layout.root.clone()].into_iter().flat_map(names);
    packs.chain(names(layout.pins())).chain(others.filter(|path| is_temporary(path))).collect()
}
