//! Stores for tests: checkpoints of small folders.

use std::{fs, path::PathBuf};

use parhelia_store::{
    OpenOptions, Store,
    create::{self, Options},
    delete::delete_checkpoints,
};
use tempfile::TempDir;
use ulid::Ulid;

/// A store in a temporary folder.
pub struct TestStore {
    pub store: Store,
    dir: TempDir,
}

impl TestStore {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = OpenOptions { create: true, parity: false, ..OpenOptions::default() };
        let store = crate::open(&dir.path().join("store"), &options).unwrap();
        TestStore { store, dir }
    }

    /// Opens the store once more, as another process would.
    pub fn open(&self) -> Store {
        crate::open(self.store.path(), &OpenOptions::default()).unwrap()
    }

    /// Ids of the checkpoints, in order.
    pub fn ids(&self) -> Vec<Ulid> {
        self.store.refresh().unwrap().checkpoints().unwrap().iter().map(|c| c.record.id).collect()
    }

    /// The folder that a session works in.
    pub fn workspace(&self, session: &str) -> PathBuf {
        let folder = self.dir.path().join(format!("work-{session}"));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// The options for a checkpoint of a session.
    pub fn options(&self, session: &str) -> Options {
        Options { workspace: self.workspace(session), session: session.into(), ..Options::default() }
    }

    /// Makes a checkpoint of the session `test`, with content of this number.
    pub fn checkpoint(&self, seed: u64) -> Ulid {
        self.checkpoint_of("test", seed)
    }

    /// Makes a checkpoint of a session.
    pub fn checkpoint_of(&self, session: &str, seed: u64) -> Ulid {
        fs::write(self.workspace(session).join("file"), format!("content {seed}")).unwrap();
        create::run(&self.store, &self.options(session), &()).unwrap().checkpoint.record.id
    }

    pub fn delete(&self, id: Ulid) {
        delete_checkpoints(&self.store, &[id], None, &()).unwrap();
    }
}
