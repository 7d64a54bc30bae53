//! Put-if-absent, settled.
//!
//! No single answer says whether a put took effect. A server may store the object and answer 503; the client tries again, and is told that the
//! object exists, which is its own. It may answer 409 and store nothing. A put that timed out may land later, so that a look that finds nothing
//! proves nothing. What settles a put is the same bytes at the same place again: they are stored, or something is there, and it is read.

use bytes::Bytes;
use object_store::{Error as ClientError, ObjectStore, PutMode, PutOptions, PutPayload};

use super::{client::Client, effort::Effort, request::failure};
use crate::error::{Error, Result};

/// How a put-if-absent ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The bytes are stored.
    Ours,
    /// Something else was there before, with this content.
    Theirs(Bytes),
}

impl Client {
    /// Puts an object where none is. `is_ours` tells of other bytes that they took the place of these.
    ///
    /// The bytes must differ from whatever another writer may put there: they carry a nonce. Fails with [`Error::NotKnown`] alone: the object
    /// may have been stored, or may still be.
    pub async fn put_absent(
        &self,
        object: &str,
        bytes: &Bytes,
        bytes_max: u64,
        is_ours: &(dyn Fn(&[u8]) -> bool + Send + Sync),
        effort: &Effort,
    ) -> Result<PutOutcome> {
        let path = self.path(object);
        let mut cause = None;
        for attempt in 0..effort.tries_max {
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            let put = self.store.put_opts(&path, PutPayload::from_bytes(bytes.clone()), options);
            match tokio::time::timeout(effort.time(bytes.len() as u64), put).await {
                Ok(Ok(_)) => return Ok(PutOutcome::Ours),
                Ok(Err(
                    ClientError::AlreadyExists { .. } | ClientError::Precondition { .. } | ClientError::NotModified { .. },
                )) => {
                    match self.get(object, bytes_max, effort).await {
                        Ok(found) if found == *bytes || is_ours(&found) => return Ok(PutOutcome::Ours),
                        Ok(found) => return Ok(PutOutcome::Theirs(found)),
                        // A conflict over nothing: it is put again.
                        Err(Error::NotFound { .. }) => {
                            cause = Some("the remote says that it exists, and that it does not".to_owned())
                        }
                        Err(e) => cause = Some(e.to_string()),
                    }
                }
                Ok(Err(e)) => {
                    let fault = failure("write", object, &e);
                    let is_transient = fault.is_transient();
                    cause = Some(if let Error::Request { cause, .. } = fault { cause } else { fault.to_string() });
                    if !is_transient {
                        break;
                    }
                }
                Err(_) => cause = Some("no answer in time".to_owned()),
            }
            if let Some(pause) = effort.pause_after(attempt) {
                tokio::time::sleep(pause).await;
            }
        }
        Err(Error::NotKnown { object: object.into(), cause: cause.unwrap_or_else(|| "it was not tried".into()) })
    }
}
