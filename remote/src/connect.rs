//! The bucket of a store.

use std::sync::Arc;

use parhelia_bucket::{
    Bucket,
    blocking::Runtime,
    keyslots::{self, Secret},
    random::OsRandom,
    remote::{Client, Effort, RemoteUrl},
    seal::Keyring,
};
use parhelia_store::{Store, progress::Progress};

use crate::{
    error::{Error, Result},
    folder::{Joined, RemoteFolder},
};

/// What a connection takes besides the URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Program and arguments that print credentials; absent for the provider's own chain.
    pub credential_command: Option<Vec<String>>,
}

impl ConnectOptions {
    pub(crate) fn client(&self, url: &RemoteUrl) -> Result<Client> {
        let options = parhelia_bucket::remote::ConnectOptions { credential_command: self.credential_command.clone() };
        Ok(Client::connect(url, &options)?)
    }
}

/// A store's bucket, open.
pub struct Connection {
    pub(crate) folder: RemoteFolder,
    /// What was joined.
    pub joined: Joined,
    pub(crate) bucket: Bucket,
    pub(crate) runtime: Runtime,
}

impl Connection {
    /// Waits for what the bucket does, unless the caller asks to stop.
    pub(crate) fn wait<T>(&self, progress: &dyn Progress, work: impl Future<Output = parhelia_bucket::Result<T>>) -> Result<T> {
        match self.runtime.wait_unless(&|| progress.is_cancelled(), work) {
            Some(done) => Ok(done?),
            None => Err(parhelia_store::Error::Cancelled.into()),
        }
    }

    /// Opens the bucket that a store's machine has joined, with the machine's key.
    pub fn open(store: &Store, options: &ConnectOptions, progress: &dyn Progress) -> Result<Self> {
        let mut connection = Self::opened(store, options, progress)?;
        if let Some(_lock) = connection.folder.lock()? {
            connection.keep_fingerprint()?;
        }
        Ok(connection)
    }

    /// The same, for who holds the lock.
    pub(crate) fn open_locked(store: &Store, options: &ConnectOptions, progress: &dyn Progress) -> Result<Self> {
        let mut connection = Self::opened(store, options, progress)?;
        connection.keep_fingerprint()?;
        Ok(connection)
    }

    /// Remembers the newest generation of keys, unless what was joined has changed meanwhile.
    fn keep_fingerprint(&mut self) -> Result<()> {
        let newest = self.bucket.keys.newest();
        let key = self.bucket.keys.key(newest);
        let fingerprint = key.map(|key| keyslots::Fingerprint { generation: newest, key: key.fingerprint() });
        if fingerprint != self.joined.fingerprint && self.folder.joined()?.as_ref() == Some(&self.joined) {
            self.joined.fingerprint = fingerprint;
            self.folder.join(&self.joined)?;
        }
        Ok(())
    }

    fn opened(store: &Store, options: &ConnectOptions, progress: &dyn Progress) -> Result<Self> {
        let folder = RemoteFolder::of(store.layout());
        let joined = folder.wanted()?;
        let client = options.client(&RemoteUrl::parse(&joined.url)?)?;
        let (runtime, random, effort) = (Runtime::new()?, Arc::new(OsRandom::new()), Effort::BACKGROUND);
        let key = if joined.encrypted { folder.key()? } else { None };
        let opening = async {
            let keys = match key {
                Some(key) => keyslots::unlock(&client, &Secret::Key(key), joined.fingerprint.as_ref(), &effort).await?,
                None => Keyring::plain(),
            };
            Bucket::open(client.clone(), keys, random, effort).await
        };
        let opened = runtime.wait_unless(&|| progress.is_cancelled(), opening);
        let bucket = opened.ok_or(parhelia_store::Error::Cancelled)??;
        if parhelia_store::id::hex(&bucket.settings.id) != joined.bucket {
            let cause = "another store is at its prefix than the one that was joined".to_owned();
            return Err(Error::Bucket(parhelia_bucket::Error::Foreign(cause)));
        }
        Ok(Connection { folder, joined, bucket, runtime })
    }
}
