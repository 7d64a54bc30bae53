//! The probe: whether a remote does what the bucket needs of it.
//!
//! Several servers that speak S3 ignore If-None-Match, or honour it only while nobody else writes. With one of them, two machines overwrite
//! each other's work and nobody is told. So a remote is asked before it is used: put-if-absent twice, and raced.

use bytes::Bytes;
use futures_util::future::try_join_all;

use super::{client::Client, effort::Effort, put::PutOutcome};
use crate::{
    codec::hex,
    error::{Error, Result},
    random::{self, Random},
};

/// Writers in a race.
const WRITERS: usize = 16;
/// Races. A server that checks and then writes loses the first ones already.
const ROUNDS: usize = 4;
/// Length of what is written, in bytes: long enough to be written in several pieces.
const PROBE_BYTES: usize = 4096;

/// Report of a probe that found nothing missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeReport {
    /// Races that were run.
    pub rounds: usize,
    /// Writers in each.
    pub writers: usize,
    /// False if the key may not delete, or the bucket keeps what is deleted: then gc frees nothing.
    pub can_delete: bool,
}

/// Asks a remote for what the bucket needs. Fails with [`Error::Refused`] where something is missing, by its name.
pub async fn probe(client: &Client, random: &dyn Random) -> Result<ProbeReport> {
    let run = hex(&random::array::<8>(random)?);
    let twice = format!("probe/{run}/twice");
    let first = write_twice(client, &twice, random).await?;
    read_back(client, &twice, &first).await?;
    let mut objects = vec![twice];
    for round in 0..ROUNDS {
        let object = format!("probe/{run}/{round}");
        race(client, &object, random).await?;
        objects.push(object);
    }
    let can_delete = clean(client, &objects).await?;
    Ok(ProbeReport { rounds: ROUNDS, writers: WRITERS, can_delete })
}

async fn write_twice(client: &Client, object: &str, random: &dyn Random) -> Result<Bytes> {
    let (first, second) = (noise(random)?, noise(random)?);
    if put(client, object, &first).await? != PutOutcome::Ours {
        return Err(missing("a new object was written, and other bytes are read at its place"));
    }
    match put(client, object, &second).await? {
        PutOutcome::Ours => Err(missing("it ignores If-None-Match: a write overwrote an object that was there")),
        PutOutcome::Theirs(_) => Ok(first),
    }
}

async fn read_back(client: &Client, object: &str, written: &Bytes) -> Result<()> {
    let effort = Effort::PROBE;
    let bytes_max = PROBE_BYTES as u64;
    if client.get(object, bytes_max, &effort).await? != *written {
        return Err(missing("a write that was refused changed the object"));
    }
    let (range, whole_bytes) = client.get_range(object, 100..300, &effort).await?;
    if range != written.slice(100..300) || whole_bytes != bytes_max {
        return Err(missing("it has no reads of ranges"));
    }
    let folder = object.rsplit_once('/').map_or("", |(folder, _)| folder);
    if !client.list(folder, None, &effort).await?.iter().any(|listed| listed.object == object && listed.bytes == bytes_max) {
        return Err(missing("a list does not show what was just written"));
    }
    Ok(())
}

async fn race(client: &Client, object: &str, random: &dyn Random) -> Result<()> {
    let contents = (0..WRITERS).map(|_| noise(random)).collect::<Result<Vec<_>>>()?;
    let outcomes = try_join_all(contents.iter().map(|content| put(client, object, content))).await?;
    let stored = client.get(object, PROBE_BYTES as u64, &Effort::PROBE).await?;
    let winners: Vec<&Bytes> =
        contents.iter().zip(&outcomes).filter(|(_, end)| **end == PutOutcome::Ours).map(|(c, _)| c).collect();
    match winners[..] {
        [winner] if *winner == stored => Ok(()),
        [_] => Err(missing("of writers at the same time one was told that it won, and another's bytes are stored")),
        [] => Err(missing("of writers at the same time none was told that it won")),
        _ => Err(missing(&format!(
            "If-None-Match is not atomic: {} of {WRITERS} writers at the same time were told that they won",
            winners.len()
        ))),
    }
}

/// Removes what was written, and returns whether it is gone.
async fn clean(client: &Client, objects: &[String]) -> Result<bool> {
    for object in objects {
        match client.delete(object, &Effort::PROBE).await {
            Ok(()) if client.size(object, &Effort::PROBE).await?.is_none() => {}
            Ok(()) | Err(Error::Request { is_transient: false, .. }) => return Ok(false),
            Err(e) => return Err(e),
        }
    }
    Ok(true)
}

async fn put(client: &Client, object: &str, bytes: &Bytes) -> Result<PutOutcome> {
    match client.put_absent(object, bytes, PROBE_BYTES as u64, &|_| false, &Effort::PROBE).await {
        // Nobody needs to know what became of a probe: what counts is why it cannot be written.
        Err(Error::NotKnown { object, cause }) => Err(Error::Request { action: "write", object, cause, is_transient: false }),
        outcome => outcome,
    }
}

fn noise(random: &dyn Random) -> Result<Bytes> {
    let mut bytes = vec![0; PROBE_BYTES];
    random.fill(&mut bytes)?;
    Ok(bytes.into())
}

fn missing(what: &str) -> Error {
    Error::Refused(what.into())
}
