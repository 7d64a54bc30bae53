//! Who can open an encrypted bucket.

use parhelia_bucket::{
    keyslots::{self, RecoveryPhrase, Secret, SlotInfo},
    random::OsRandom,
};
use parhelia_store::Store;

use crate::{
    add::change,
    connect::{ConnectOptions, Connection},
    error::{Error, Result},
};

fn opened(store: &Store, options: &ConnectOptions) -> Result<Connection> {
    let connection = Connection::open(store, options, &())?;
    match connection.joined.encrypted {
        true => Ok(connection),
        false => Err(Error::Unfit("its remote is not encrypted, and has no keys".into())),
    }
}

/// The slots, and the name of this machine's own.
pub fn list(store: &Store, options: &ConnectOptions) -> Result<(Vec<SlotInfo>, Option<String>)> {
    let connection = opened(store, options)?;
    let bucket = &connection.bucket;
    let document = connection.runtime.wait(keyslots::read(&bucket.client, &bucket.effort))?;
    Ok((document.map(|document| document.slots()).unwrap_or_default(), connection.joined.slot))
}

/// Adds a slot for a passphrase or a recovery phrase.
pub fn add(store: &Store, options: &ConnectOptions, secret: &Secret, name: &str) -> Result<()> {
    let connection = opened(store, options)?;
    let (bucket, random) = (&connection.bucket, OsRandom::new());
    change(&connection.runtime, bucket, &|document| Ok(Some(document.with_slot(secret, name, &bucket.keys, &random)?))).map(drop)
}

/// Adds a slot for a new recovery phrase, and gives the phrase. It is kept nowhere.
pub fn add_recovery(store: &Store, options: &ConnectOptions, name: &str) -> Result<RecoveryPhrase> {
    let phrase = RecoveryPhrase::fresh(&OsRandom::new())?;
    add(store, options, &Secret::Recovery(phrase.clone()), name)?;
    Ok(phrase)
}

/// Removes a slot. Its holder may have kept what it opened: [`rotate`] keeps him from what is written from now on.
pub fn remove(store: &Store, options: &ConnectOptions, name: &str) -> Result<()> {
    let connection = opened(store, options)?;
    if connection.joined.slot.as_deref() == Some(name) {
        return Err(Error::OwnSlot { slot: name.to_owned() });
    }
    change(&connection.runtime, &connection.bucket, &|document| Ok(Some(document.without_slot(name, &OsRandom::new())?)))
        .map(drop)
}

/// Makes a new generation of keys, with which everything is written from now on; every slot opens it. Returns its number.
pub fn rotate(store: &Store, options: &ConnectOptions) -> Result<u32> {
    let connection = opened(store, options)?;
    let bucket = &connection.bucket;
    let changed = change(&connection.runtime, bucket, &|document| Ok(Some(document.rotated(&bucket.keys, &OsRandom::new())?.0)))?;
    Ok(changed.and_then(|document| document.fingerprint()).map_or(0, |newest| newest.generation))
}
