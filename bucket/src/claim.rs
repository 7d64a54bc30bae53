//! Claims: of machines that resume one session, one gets its next epoch.

use bytes::Bytes;

use crate::{
    bucket::Bucket,
    codec::{Decoder, Encoder, Malformed},
    error::{Error, Result},
    layout, random,
    remote::PutOutcome,
    seal::{Seal, open_whole},
};

const MAGIC: &[u8; 8] = b"PARHCLAM";
const VERSION: u16 = 1;
/// Longest name of a session and longest holder, in bytes.
const TEXT_BYTES_MAX: usize = 4096;
/// Longest stored claim, in bytes.
const STORED_BYTES_MAX: u64 = 64 << 10;

/// The outcome of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The epoch is the claimer's.
    Ours,
    /// Another one has it, and says this of itself.
    Theirs(Vec<u8>),
}

/// Claims an epoch of a session. `holder` says who claims it, and differs from whatever another machine or run says: who claims again after an
/// interruption is told that the epoch is its own.
///
/// Fails with [`Error::NotKnown`] where no answer came: then it may have the epoch, and claims it again.
pub async fn claim(bucket: &Bucket, session: &[u8], epoch: u64, holder: &[u8]) -> Result<Claimed> {
    if session.len() > TEXT_BYTES_MAX || holder.len() > TEXT_BYTES_MAX {
        return Err(Error::Invalid(format!(
            "cannot claim an epoch: a session and its holder have at most {TEXT_BYTES_MAX} bytes"
        )));
    }
    let object = layout::claim(&bucket.keys.hidden_name(session), epoch);
    let mut content = Encoder::default();
    content.raw(MAGIC).u16(VERSION).u64(epoch).bytes(session).bytes(holder);
    let content = content.finish();
    let name = random::name(&*bucket.random, blake3::hash(&content).as_bytes())?;
    let stored = Bytes::from(Seal::new(&object, name, bucket.sealing(), &bucket.keys)?.seal_whole(&content, &bucket.keys)?);
    let held = |stored: &[u8]| holder_of(&object, open_whole(&object, stored.to_vec(), &bucket.keys)?.1);
    let is_ours = |stored: &[u8]| held(stored).is_ok_and(|other| other == holder);
    match bucket.client.put_absent(&object, &stored, STORED_BYTES_MAX, &is_ours, &bucket.effort).await? {
        PutOutcome::Ours => Ok(Claimed::Ours),
        PutOutcome::Theirs(stored) => held(&stored).map(Claimed::Theirs),
    }
}

/// The holder that a claim names.
fn holder_of(object: &str, content: Vec<u8>) -> Result<Vec<u8>> {
    let mut from = Decoder::of(&content);
    let mut read = || {
        let lead = (from.array::<8>()?, from.u16()?);
        from.u64()?;
        from.bytes()?;
        let holder = from.bytes()?.to_vec();
        from.end()?;
        Ok::<_, Malformed>((lead, holder))
    };
    match read() {
        Ok(((magic, VERSION), holder)) if magic == *MAGIC => Ok(holder),
        Ok(((magic, version), _)) if magic == *MAGIC => {
            Err(Error::Newer { object: object.into(), what: format!("it is a claim of version {version}") })
        }
        _ => Err(Error::damaged(object, "it is no claim")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::future::join_all;
    use object_store::memory::InMemory;

    use super::*;
    use crate::{
        random::OsRandom,
        remote::{Client, Effort},
        seal::{Keyring, MasterKey},
    };

    #[tokio::test]
    async fn of_many_that_claim_an_epoch_one_gets_it() {
        let store = Arc::new(InMemory::new());
        let keys = Keyring::plain().with(1, MasterKey::new([1; 32]));
        let random = Arc::new(OsRandom::new());
        let bucket = Bucket::open_or_make(Client::of(store, None, "p"), keys, random, Effort::PROBE).await.unwrap();
        let holders: Vec<Vec<u8>> = (0..8).map(|machine| vec![machine; 10]).collect();
        let claims = join_all(holders.iter().map(|holder| claim(&bucket, b"session", 1, holder))).await;
        let claims: Vec<Claimed> = claims.into_iter().map(Result::unwrap).collect();
        let winner = claims.iter().position(|claimed| *claimed == Claimed::Ours).unwrap();
        for (machine, claimed) in claims.iter().enumerate().filter(|(machine, _)| *machine != winner) {
            assert_eq!(*claimed, Claimed::Theirs(holders[winner].clone()), "{machine}");
        }
        assert_eq!(claim(&bucket, b"session", 1, &holders[winner]).await.unwrap(), Claimed::Ours, "again");
        assert_eq!(claim(&bucket, b"session", 2, b"other").await.unwrap(), Claimed::Ours, "the next epoch");
        assert_eq!(claim(&bucket, b"another", 1, b"other").await.unwrap(), Claimed::Ours, "another session");
        assert!(claim(&bucket, &[0; 5000], 1, b"x").await.is_err());
        let listed = bucket.client.list(layout::CLAIMS, None, &Effort::PROBE).await.unwrap();
        assert_eq!(listed.len(), 3);
        assert!(listed.iter().all(|claim| claim.bytes == listed[0].bytes), "lengths tell nothing");
    }
}
