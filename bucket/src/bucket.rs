//! A bucket that is open: client, settings and keys.

use std::sync::Arc;

use crate::{
    error::{Error, Result},
    keyslots::{self, Document, Secret},
    layout::MachineId,
    pack::PART_BYTES,
    random::Random,
    remote::{Client, Effort},
    seal::{Cipher, Keyring, Sealing},
    settings::Settings,
};

/// Length of pieces, as a binary logarithm: 64 KiB. A block of a pack takes a few; a range costs at most two pieces more than it has.
const PIECE_LOG2: u8 = 16;

/// An open bucket. Cheap to clone.
#[derive(Clone)]
pub struct Bucket {
    /// Requests.
    pub client: Client,
    /// Settings that the bucket was made with.
    pub settings: Settings,
    /// Keys that open it.
    pub keys: Keyring,
    /// Cipher for new objects.
    pub cipher: Cipher,
    /// Where names and nonces come from.
    pub random: Arc<dyn Random>,
    /// How hard requests are tried.
    pub effort: Effort,
    /// Length of the parts in which packs are uploaded, in bytes; packs up to this length go in one request.
    pub part_bytes: u64,
}

impl Bucket {
    /// Opens a bucket, or makes one at a prefix that has none. Of two who make it at once, one does, and both open it.
    pub async fn open_or_make(client: Client, keys: Keyring, random: Arc<dyn Random>, effort: Effort) -> Result<Self> {
        let settings = match Settings::read(&client, &effort).await? {
            Some(settings) => settings,
            None => Settings::new(keys.newest() > 0, &*random)?.write(&client, &effort).await?,
        };
        Self::of(client, settings, keys, random, effort)
    }

    /// Makes an encrypted bucket at a prefix that has none: its settings, and then its keys, with one slot. Goes on where that was interrupted, and
    /// opens the bucket with the secret where somebody else was first.
    pub async fn make_encrypted(
        client: Client,
        secret: &Secret,
        label: &str,
        random: Arc<dyn Random>,
        effort: Effort,
    ) -> Result<Self> {
        let settings = match Settings::read(&client, &effort).await? {
            Some(settings) => settings,
            None => Settings::new(true, &*random)?.write(&client, &effort).await?,
        };
        if settings.encrypted && keyslots::read(&client, &effort).await?.is_none() {
            let (document, _) = Document::new(settings.id, secret, label, &*random)?;
            // If another machine was first, its keys are the bucket's.
            keyslots::write(&client, &document, &effort).await?;
        }
        let keys = if settings.encrypted { keyslots::unlock(&client, secret, None, &effort).await? } else { Keyring::plain() };
        Self::of(client, settings, keys, random, effort)
    }

    /// Opens a bucket. Fails where there is none.
    pub async fn open(client: Client, keys: Keyring, random: Arc<dyn Random>, effort: Effort) -> Result<Self> {
        let settings = Settings::read(&client, &effort).await?;
        let settings = settings.ok_or_else(|| Error::Foreign("there is no store at this prefix".into()))?;
        Self::of(client, settings, keys, random, effort)
    }

    fn of(client: Client, settings: Settings, keys: Keyring, random: Arc<dyn Random>, effort: Effort) -> Result<Self> {
        match (settings.encrypted, keys.newest() > 0) {
            (true, false) => Err(Error::Locked("it is encrypted, and no key is given".into())),
            (false, true) => Err(Error::Foreign("it is not encrypted, and a key is given".into())),
            _ => Ok(Bucket { client, settings, keys, cipher: Cipher::Aes256Gcm, random, effort, part_bytes: PART_BYTES }),
        }
    }

    /// How new objects are sealed.
    pub fn sealing(&self) -> Sealing {
        self.keys.sealing(self.cipher, PIECE_LOG2)
    }

    /// A fresh id for a machine.
    pub fn fresh_machine(&self) -> Result<MachineId> {
        MachineId::fresh(&*self.random)
    }
}
