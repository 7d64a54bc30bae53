//! A server with one deviation.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use async_trait::async_trait;
use futures_util::{
    StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use object_store::{
    CopyOptions, Error as ClientError, GetOptions, GetResult, ListResult, MultipartId, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    memory::InMemory,
    multipart::{MultipartStore, PartId},
    path::Path,
};

/// A deviation of a server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quirk {
    None,
    /// If-None-Match is ignored.
    Overwrites,
    /// If-None-Match is looked at before the write, and not again.
    Racy,
    /// The first put of each object is stored, and answered with 503.
    Hides,
    /// The first put of each object is answered with 409, and not stored.
    Conflicts,
    /// Nothing may be deleted.
    Keeps,
    /// Ranges are ignored.
    Whole,
    /// The first put of each part fails, and the first completion takes effect and says that it did not.
    TornParts,
    /// Lists begin in the middle, and the first one breaks off before it comes to the objects in front.
    Unordered,
    /// All is refused.
    Denies,
}

pub struct Server {
    pub store: Arc<InMemory>,
    quirk: Quirk,
    met: Mutex<BTreeMap<String, u64>>,
    pub parts: AtomicU64,
    pub requests: AtomicU64,
    /// What happens before the second read of gc's chain from now on.
    pub meanwhile: Mutex<Option<(u32, BoxFuture<'static, ()>)>>,
}

impl Server {
    pub fn new(quirk: Quirk) -> Arc<Self> {
        Server::over(Arc::new(InMemory::new()), quirk)
    }

    /// A server of objects that are there.
    pub fn over(store: Arc<InMemory>, quirk: Quirk) -> Arc<Self> {
        let (met, parts, requests, meanwhile) = Default::default();
        Arc::new(Server { store, quirk, met, parts, requests, meanwhile })
    }

    fn is_first(&self, what: String) -> bool {
        let mut met = self.met.lock().unwrap();
        let times = met.entry(what).or_insert(0);
        *times += 1;
        *times == 1
    }
}

fn unavailable() -> ClientError {
    ClientError::Generic { store: "test", source: "503".into() }
}

fn conflict(path: &Path) -> ClientError {
    ClientError::AlreadyExists { path: path.to_string(), source: "409".into() }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.quirk)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[async_trait]
impl ObjectStore for Server {
    async fn put_opts(&self, path: &Path, payload: PutPayload, mut options: PutOptions) -> object_store::Result<PutResult> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let is_create = options.mode == PutMode::Create;
        match self.quirk {
            Quirk::Denies => return Err(ClientError::PermissionDenied { path: path.to_string(), source: "403".into() }),
            Quirk::Overwrites => options.mode = PutMode::Overwrite,
            Quirk::Racy if is_create => {
                if self.store.get_opts(path, GetOptions::default()).await.is_ok() {
                    return Err(conflict(path));
                }
                tokio::task::yield_now().await;
                options.mode = PutMode::Overwrite;
            }
            Quirk::Hides if self.is_first(path.to_string()) => {
                self.store.put_opts(path, payload, options).await?;
                return Err(unavailable());
            }
            Quirk::Conflicts if is_create && self.is_first(path.to_string()) => return Err(conflict(path)),
            _ => {}
        }
        self.store.put_opts(path, payload, options).await
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> object_store::Result<Box<dyn MultipartUpload>> {
        Err(unavailable())
    }

    async fn get_opts(&self, path: &Path, mut options: GetOptions) -> object_store::Result<GetResult> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if path.as_ref().contains("/gc/") {
            let due = self.meanwhile.lock().unwrap().take();
            match due {
                Some((0, work)) => work.await,
                Some((reads, work)) => *self.meanwhile.lock().unwrap() = Some((reads - 1, work)),
                None => {}
            }
        }
        if self.quirk == Quirk::Whole {
            options.range = None;
        }
        self.store.get_opts(path, options).await
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, object_store::Result<Path>>,
    ) -> BoxStream<'static, object_store::Result<Path>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if self.quirk == Quirk::Keeps { paths } else { self.store.delete_stream(paths) }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let listed = self.store.list(prefix);
        if self.quirk != Quirk::Unordered {
            return listed;
        }
        let is_torn = self.is_first("list".into());
        let turned = async move {
            let mut listed: Vec<_> = listed.collect().await;
            let first = listed.remove(0);
            listed.push(if is_torn { Err(unavailable()) } else { first });
            stream::iter(listed)
        };
        stream::once(turned).flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> object_store::Result<ListResult> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> object_store::Result<()> {
        Err(unavailable())
    }
}

#[async_trait]
impl MultipartStore for Server {
    async fn create_multipart(&self, path: &Path) -> object_store::Result<MultipartId> {
        self.store.create_multipart(path).await
    }

    async fn put_part(&self, path: &Path, id: &MultipartId, index: usize, data: PutPayload) -> object_store::Result<PartId> {
        self.parts.fetch_add(1, Ordering::Relaxed);
        if self.quirk == Quirk::TornParts && self.is_first(format!("{id} {index}")) {
            return Err(unavailable());
        }
        self.store.put_part(path, id, index, data).await
    }

    async fn complete_multipart(&self, path: &Path, id: &MultipartId, parts: Vec<PartId>) -> object_store::Result<PutResult> {
        let done = self.store.complete_multipart(path, id, parts).await?;
        if self.quirk == Quirk::TornParts && self.is_first(format!("{id} complete")) { Err(unavailable()) } else { Ok(done) }
    }

    async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> object_store::Result<()> {
        self.store.abort_multipart(path, id).await
    }
}
