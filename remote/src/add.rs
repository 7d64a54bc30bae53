//! Joining a bucket, or making one.

use std::sync::Arc;

use parhelia_bucket::{
    Bucket,
    blocking::Runtime,
    keyslots::{self, Document, Fingerprint, PrivateKey, RecoveryPhrase, Secret},
    random::OsRandom,
    remote::{self, Client, Effort, RemoteUrl},
    seal::Keyring,
    settings::Settings,
};
use parhelia_store::{Store, clock, id::hex};

use crate::{
    connect::ConnectOptions,
    error::{Error, Result},
    folder::{Joined, RemoteFolder},
};

/// Name of the slot that a new bucket's first secret has.
const FIRST_SLOT: &str = "first";
/// Name of the slot of the recovery phrase that a new bucket gets.
const RECOVERY_SLOT: &str = "recovery";
/// Times that another machine may change the keys at the same moment.
const TRIES_MAX: u32 = 8;

/// The secret that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// One for a bucket that is made just now.
    New,
    /// One of those that open the bucket.
    Known,
}

/// Options of joining.
pub struct AddOptions<'a> {
    /// What the connection takes.
    pub connect: ConnectOptions,
    /// True if the bucket must be encrypted: one that is made is, and one that is there and is not is refused.
    pub encrypts: bool,
    /// True to make a bucket where there is none.
    pub makes: bool,
    /// True if somebody is there to write down the recovery phrase of a new bucket.
    pub shows_phrase: bool,
    /// Gives the secret of an encrypted bucket.
    pub secret: &'a dyn Fn(Wanted) -> Result<Secret>,
    /// Name of this machine, for its slot.
    pub machine: String,
}

/// Report of joining.
#[derive(Debug)]
pub struct Added {
    /// What was joined.
    pub joined: Joined,
    /// True if there was no store at the URL before.
    pub is_new: bool,
    /// Of a new encrypted bucket, the phrase that opens it when everything else is lost. It is kept nowhere.
    pub recovery: Option<RecoveryPhrase>,
    /// False if the key may not delete in the bucket: gc frees nothing then.
    pub can_delete: bool,
}

/// Joins the bucket at a URL, or makes one there. The server is probed first; one that cannot be relied on is refused.
pub fn add(store: &Store, url: &RemoteUrl, options: &AddOptions<'_>) -> Result<Added> {
    ensure_fit(store)?;
    let folder = RemoteFolder::of(store.layout());
    let _lock = folder.lock()?.ok_or(Error::Busy)?;
    if let Some(joined) = folder.joined()? {
        return Err(Error::HasRemote { url: joined.url });
    }
    let client = options.connect.client(url)?;
    let (runtime, random) = (Runtime::new()?, Arc::new(OsRandom::new()));
    let probed = runtime.wait(remote::probe(&client, &*random))?;
    let found = runtime.wait(Settings::read(&client, &Effort::PROBE))?;
    let (is_new, is_encrypted) = (found.is_none(), found.map(|settings| settings.encrypted));
    if is_new && !options.makes {
        return Err(Error::NoBucket { url: url.to_string() });
    }
    if options.encrypts && is_encrypted == Some(false) {
        return Err(Error::Plain { url: url.to_string() });
    }
    // One that is encrypted is opened as it is.
    let encrypted = is_encrypted.unwrap_or(options.encrypts);
    let mut added =
        Joining { client, runtime, random, machine: &options.machine, folder: &folder, shows_phrase: options.shows_phrase };
    let (bucket, recovery, slot) = match encrypted {
        true => added.encrypted(options.secret, is_new)?,
        false => (added.plain()?, None, None),
    };
    let newest = bucket.keys.newest();
    let fingerprint = bucket.keys.key(newest).map(|key| Fingerprint { generation: newest, key: key.fingerprint() });
    let joined = Joined {
        url: url.to_string(),
        bucket: hex(&bucket.settings.id),
        encrypted,
        fingerprint,
        slot,
        joined_at: clock::timestamp(),
    };
    folder.join(&joined)?;
    Ok(Added { joined, is_new, recovery, can_delete: probed.can_delete })
}

/// Leaves the bucket. What is in it stays there, and other machines go on with it.
pub fn remove(store: &Store) -> Result<Joined> {
    let folder = RemoteFolder::of(store.layout());
    let joined = folder.wanted()?;
    let _lock = folder.lock()?.ok_or(Error::Busy)?;
    folder.forget()?;
    Ok(joined)
}

fn ensure_fit(store: &Store) -> Result<()> {
    store.check_writable()?;
    match store.is_read_only() {
        true => Err(Error::Unfit("it is read-only".into())),
        false => Ok(()),
    }
}

/// Joining on its way.
struct Joining<'a> {
    client: Client,
    runtime: Runtime,
    random: Arc<OsRandom>,
    machine: &'a str,
    folder: &'a RemoteFolder,
    shows_phrase: bool,
}

impl Joining<'_> {
    fn plain(&mut self) -> Result<Bucket> {
        let (client, random) = (self.client.clone(), self.random.clone());
        Ok(self.runtime.wait(Bucket::open_or_make(client, Keyring::plain(), random, Effort::BACKGROUND))?)
    }

    /// Opens or makes an encrypted bucket, and gives this machine a slot of its own, so that nobody is asked again.
    fn encrypted(
        &mut self,
        secret: &dyn Fn(Wanted) -> Result<Secret>,
        is_new: bool,
    ) -> Result<(Bucket, Option<RecoveryPhrase>, Option<String>)> {
        let secret = secret(if is_new { Wanted::New } else { Wanted::Known })?;
        let (client, random, effort) = (self.client.clone(), self.random.clone(), Effort::BACKGROUND);
        let bucket = self.runtime.wait(Bucket::make_encrypted(client, &secret, FIRST_SLOT, random, effort))?;
        let recovery = match is_new && self.shows_phrase {
            true => Some(RecoveryPhrase::fresh(&*self.random)?),
            false => None,
        };
        if let Some(phrase) = &recovery {
            let phrase = Secret::Recovery(phrase.clone());
            self.change(&bucket, &|document| {
                Ok(Some(document.with_slot(&phrase, RECOVERY_SLOT, &bucket.keys, &*self.random)?))
            })?;
        }
        let key = PrivateKey::fresh(&*self.random)?;
        // Kept before the slot is written: a key without a slot opens nothing, and a slot without its key is left behind.
        self.folder.keep_key(&key)?;
        let slot = std::cell::RefCell::new(String::new());
        self.change(&bucket, &|document| {
            let name = free_name(document, self.machine);
            let next = document.with_public_key(key.public(), &name, &bucket.keys, &*self.random)?;
            slot.replace(name);
            Ok(Some(next))
        })?;
        Ok((bucket, recovery, Some(slot.take())))
    }

    fn change(&self, bucket: &Bucket, next: &dyn Fn(&Document) -> Result<Option<Document>>) -> Result<()> {
        change(&self.runtime, bucket, next).map(drop)
    }
}

/// Replaces the document of keys, on whatever other machines make of it meanwhile. `next` gives the changed one; none where nothing is to be changed.
pub(crate) fn change(
    runtime: &Runtime,
    bucket: &Bucket,
    next: &dyn Fn(&Document) -> Result<Option<Document>>,
) -> Result<Option<Document>> {
    for _ in 0..TRIES_MAX {
        let document = runtime.wait(keyslots::read(&bucket.client, &bucket.effort))?;
        let document = document.ok_or_else(|| parhelia_bucket::Error::Foreign("it has no keys".into()))?;
        let Some(changed) = next(&document)? else { return Ok(None) };
        if runtime.wait(keyslots::write(&bucket.client, &changed, &bucket.effort))? {
            return Ok(Some(changed));
        }
    }
    Err(Error::Bucket(parhelia_bucket::Error::Invalid(format!(
        "other machines changed the keys {TRIES_MAX} times at the same moment"
    ))))
}

/// A name that no slot has: the machine's, with a number where that is taken.
fn free_name(document: &Document, machine: &str) -> String {
    let taken: Vec<String> = document.slots().into_iter().map(|slot| slot.label).collect();
    let names = std::iter::once(machine.to_owned()).chain((2..).map(|number| format!("{machine}-{number}")));
    names.into_iter().find(|name| !taken.contains(name)).unwrap_or_default()
}
