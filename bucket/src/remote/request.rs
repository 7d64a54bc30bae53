//! Requests: each with a deadline by its size, and tried again as its effort says. All of them may be repeated without harm.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::StreamExt;
use object_store::{
    Error as ClientError, GetOptions, GetRange, MultipartId, ObjectStore, ObjectStoreExt, PutPayload,
    multipart::{MultipartStore, PartId},
};

use super::{client::Client, effort::Effort};
use crate::error::{Error, Result, without_queries};

/// Most objects that are listed at once.
const LISTED_MAX: usize = 20_000_000;
/// Longest cause in an error, in characters.
const CAUSE_CHARS_MAX: usize = 600;

/// An object as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The object's path below the prefix.
    pub object: String,
    /// Its length, in bytes.
    pub bytes: u64,
    /// The server's time of its last write.
    pub modified_at: DateTime<Utc>,
}

/// An answer of the client as an error.
pub(super) fn failure(action: &'static str, object: &str, error: &ClientError) -> Error {
    let is_transient = matches!(
        error,
        ClientError::Generic { .. }
            | ClientError::JoinError { .. }
            | ClientError::AlreadyExists { .. }
            | ClientError::Precondition { .. }
            | ClientError::NotModified { .. }
    );
    if matches!(error, ClientError::NotFound { .. }) && action == "read" {
        return Error::NotFound { object: object.into() };
    }
    let cause = without_queries(&whole_cause(error)).chars().take(CAUSE_CHARS_MAX).collect();
    Error::Request { action, object: object.into(), cause, is_transient }
}

/// An error with its first cause, which clients leave out: that a connection was refused, or a name is not known.
fn whole_cause(error: &ClientError) -> String {
    let message = error.to_string();
    let first = std::iter::successors(std::error::Error::source(error), |cause| cause.source()).last().map(ToString::to_string);
    match first {
        Some(first) if !message.contains(&first) => format!("{message}: {first}"),
        _ => message,
    }
}

impl Client {
    /// One try, with its deadline.
    pub(super) async fn attempt<T>(
        &self,
        (action, object, bytes): (&'static str, &str, u64),
        effort: &Effort,
        request: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T> {
        let after = effort.time(bytes);
        match tokio::time::timeout(after, request).await {
            Ok(answer) => answer.map_err(|e| failure(action, object, &e)),
            Err(_) => Err(Error::TimedOut { action, object: object.into(), after }),
        }
    }

    /// Tries until an answer counts.
    async fn request<T, F: Future<Output = object_store::Result<T>>>(
        &self,
        what: (&'static str, &str, u64),
        effort: &Effort,
        request: impl Fn() -> F,
    ) -> Result<T> {
        for attempt in 0.. {
            match (self.attempt(what, effort, request()).await, effort.pause_after(attempt)) {
                (Err(e), Some(pause)) if e.is_transient() => tokio::time::sleep(pause).await,
                (answer, _) => return answer,
            }
        }
        unreachable_try(what)
    }

    /// An object of at most so many bytes.
    pub async fn get(&self, object: &str, bytes_max: u64, effort: &Effort) -> Result<Bytes> {
        let path = self.path(object);
        let answer = self.request(("read", object, bytes_max), effort, || async {
            let result = self.store.get(&path).await?;
            // The length is known before the bytes are fetched.
            if result.meta.size > bytes_max { Ok(Err(result.meta.size)) } else { result.bytes().await.map(Ok) }
        });
        answer.await?.map_err(|size| Error::damaged(object, format!("it has {size} bytes, and at most {bytes_max} are read")))
    }

    /// A range of an object, and the length of the whole.
    pub async fn get_range(&self, object: &str, range: Range<u64>, effort: &Effort) -> Result<(Bytes, u64)> {
        let path = self.path(object);
        let length = range.end.saturating_sub(range.start);
        self.request(("read", object, length), effort, || async {
            let options = GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
            let result = self.store.get_opts(&path, options).await?;
            let size = result.meta.size;
            Ok((result.bytes().await?, size))
        })
        .await
    }

    /// Length of an object in bytes; absent if there is none.
    pub async fn size(&self, object: &str, effort: &Effort) -> Result<Option<u64>> {
        let path = self.path(object);
        match self.request(("read", object, 0), effort, || self.store.head(&path)).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Writes an object, over what is there. For objects with one content only: packs, and segments that are emptied.
    pub async fn put(&self, object: &str, bytes: Bytes, effort: &Effort) -> Result<()> {
        let path = self.path(object);
        let length = bytes.len() as u64;
        let put = || self.store.put(&path, PutPayload::from_bytes(bytes.clone()));
        self.request(("write", object, length), effort, put).await.map(drop)
    }

    /// Deletes an object. One that is gone already is deleted.
    pub async fn delete(&self, object: &str, effort: &Effort) -> Result<()> {
        let path = self.path(object);
        let delete = || async {
            match self.store.delete(&path).await {
                Err(ClientError::NotFound { .. }) => Ok(()),
                answer => answer,
            }
        };
        self.request(("delete", object, 0), effort, delete).await
    }

    /// The objects of a folder, in order of their paths, behind one of them.
    pub async fn list(&self, folder: &str, after: Option<&str>, effort: &Effort) -> Result<Vec<Listed>> {
        let prefix = self.path(folder);
        let mut listed: Vec<Listed> = Vec::new();
        for attempt in 0.. {
            // A list that breaks off goes on behind what it has shown. One without order, as a folder's, begins anew, even where what it has
            // shown happens to be in order: what lies before that may be missing. So does one that breaks its promise of an order.
            if !self.lists_in_order || !listed.is_sorted_by(|a, b| a.object < b.object) {
                listed.clear();
            }
            let from = listed.last().map(|last| last.object.clone()).or_else(|| after.map(str::to_owned));
            match (self.list_once(&prefix, folder, from, &mut listed, effort).await, effort.pause_after(attempt)) {
                (Err(e), Some(pause)) if e.is_transient() => tokio::time::sleep(pause).await,
                (answer, _) => {
                    answer?;
                    break;
                }
            }
        }
        listed.sort_by(|a, b| a.object.cmp(&b.object));
        Ok(listed)
    }

    async fn list_once(
        &self,
        prefix: &object_store::path::Path,
        folder: &str,
        from: Option<String>,
        listed: &mut Vec<Listed>,
        effort: &Effort,
    ) -> Result<()> {
        let mut stream = match from {
            Some(from) => self.store.list_with_offset(Some(prefix), &self.path(&from)),
            None => self.store.list(Some(prefix)),
        };
        loop {
            let next = async { stream.next().await.transpose() };
            let Some(meta) = self.attempt(("list", folder, 0), effort, next).await? else { return Ok(()) };
            if listed.len() == LISTED_MAX {
                return Err(Error::Invalid(format!("cannot list {folder}: it has more than {LISTED_MAX} objects")));
            }
            listed.extend(self.below(&meta.location).map(|object| Listed {
                object,
                bytes: meta.size,
                modified_at: meta.last_modified,
            }));
        }
    }

    /// Names of the folders in a folder, in order.
    pub async fn folders(&self, folder: &str, effort: &Effort) -> Result<Vec<String>> {
        let prefix = self.path(folder);
        let found = self.request(("list", folder, 0), effort, || self.store.list_with_delimiter(Some(&prefix))).await?;
        let mut names: Vec<String> = found.common_prefixes.iter().filter_map(|path| path.filename().map(str::to_owned)).collect();
        names.sort();
        Ok(names)
    }

    /// Uploads in parts of an object; absent where the provider has none.
    pub fn parts_of<'a>(&'a self, object: &'a str) -> Option<PartsOf<'a>> {
        let parts = Arc::clone(self.parts.as_ref()?);
        Some(PartsOf { client: self, parts, object })
    }
}

/// Uploads in parts of one object.
pub struct PartsOf<'a> {
    client: &'a Client,
    parts: Arc<dyn MultipartStore>,
    object: &'a str,
}

impl PartsOf<'_> {
    /// Begins an upload, and returns its id.
    pub async fn begin(&self, effort: &Effort) -> Result<MultipartId> {
        let path = self.client.path(self.object);
        self.client.request(("write", self.object, 0), effort, || self.parts.create_multipart(&path)).await
    }

    /// Uploads a part, counted from 0, and returns the server's name for it.
    pub async fn put(&self, upload: &MultipartId, index: usize, bytes: Bytes, effort: &Effort) -> Result<String> {
        let path = self.client.path(self.object);
        let length = bytes.len() as u64;
        let put = || self.parts.put_part(&path, upload, index, PutPayload::from_bytes(bytes.clone()));
        Ok(self.client.request(("write", self.object, length), effort, put).await?.content_id)
    }

    /// Completes an upload: one try, because a second one does not know the upload any more if the first one took effect.
    pub async fn complete(&self, upload: &MultipartId, parts: &[String], effort: &Effort) -> Result<()> {
        let path = self.client.path(self.object);
        let parts = parts.iter().map(|part| PartId { content_id: part.clone() }).collect();
        let complete = self.parts.complete_multipart(&path, upload, parts);
        self.client.attempt(("write", self.object, 0), effort, complete).await.map(drop)
    }

    /// Gives an upload up, so that its parts cost nothing more.
    pub async fn abort(&self, upload: &MultipartId, effort: &Effort) -> Result<()> {
        let path = self.client.path(self.object);
        self.client.attempt(("write", self.object, 0), effort, self.parts.abort_multipart(&path, upload)).await
    }
}

/// The error behind a loop that always returns from within.
fn unreachable_try<T>((action, object, _): (&'static str, &str, u64)) -> Result<T> {
    Err(Error::Request { action, object: object.into(), cause: "it was not tried".into(), is_transient: true })
}
