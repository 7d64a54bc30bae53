//! An object store in memory that fails as servers and networks do.
//!
//! Each request is carried out by a task of its own: a client that has given up does not stop it, so writes land late.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::{StreamExt, stream, stream::BoxStream};
use object_store::{
    CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartId, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    multipart::{MultipartStore, PartId},
    path::Path,
};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use super::chance::Chance;

/// The start of simulated time, in seconds since 1970.
pub const EPOCH_SECONDS: i64 = 1_800_000_000;

#[derive(Default)]
struct Objects {
    objects: BTreeMap<String, (Bytes, DateTime<Utc>)>,
    uploads: BTreeMap<String, (String, BTreeMap<usize, Bytes>)>,
}

pub struct FaultyStore {
    objects: Arc<Mutex<Objects>>,
    chance: Chance,
    start: Instant,
    outage: u64,
    is_faulty: AtomicBool,
    pub faults: AtomicU64,
    pub requests: AtomicU64,
}

/// What goes wrong with a request.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// An error, and no effect.
    Refused,
    /// The effect, and an error.
    Hidden,
    /// The effect after a while, and an error at once.
    Late,
    /// The effect, and no answer.
    Silent,
    /// No effect, and no answer.
    Lost,
    /// Of a put-if-absent: a conflict, and no effect.
    Conflict,
    /// Of a put-if-absent: the effect, and then a conflict with it.
    OwnConflict,
}

fn unavailable() -> Error {
    Error::Generic { store: "simulation", source: "503 Slow Down".into() }
}

impl FaultyStore {
    pub fn new(chance: Chance) -> Arc<Self> {
        let (faults, requests) = Default::default();
        let (objects, is_faulty) = (Arc::default(), AtomicBool::new(true));
        let outage = chance.below(10);
        Arc::new(FaultyStore { objects, chance, start: Instant::now(), outage, is_faulty, faults, requests })
    }

    pub fn heal(&self) {
        self.is_faulty.store(false, Ordering::Relaxed);
    }

    pub fn now(&self) -> DateTime<Utc> {
        let past = i64::try_from(self.start.elapsed().as_millis()).unwrap();
        DateTime::from_timestamp_millis(EPOCH_SECONDS * 1000 + past).unwrap()
    }

    /// All objects, as they are.
    pub fn paths(&self) -> Vec<String> {
        self.objects.lock().unwrap().objects.keys().cloned().collect()
    }

    fn fault(&self, is_write: bool, is_create: bool) -> Fault {
        self.requests.fetch_add(1, Ordering::Relaxed);
        // Every tenth quarter of an hour is an outage.
        let permille = if (self.start.elapsed().as_secs() / 900 + self.outage).is_multiple_of(10) { 900 } else { 120 };
        if !self.is_faulty.load(Ordering::Relaxed) || !self.chance.permille(permille) {
            return Fault::None;
        }
        self.faults.fetch_add(1, Ordering::Relaxed);
        match self.chance.below(if is_create { 9 } else { 6 }) {
            0 => Fault::Refused,
            1 if is_write => Fault::Hidden,
            2 | 3 if is_write => Fault::Late,
            4 if is_write => Fault::Silent,
            5 => Fault::Lost,
            6 => Fault::Conflict,
            7 | 8 => Fault::OwnConflict,
            _ => Fault::Refused,
        }
    }

    /// Carries out a request with whatever goes wrong.
    async fn serve<T: Send + 'static>(
        &self,
        fault: Fault,
        effect: impl FnOnce(&mut Objects, DateTime<Utc>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let there = Duration::from_millis(2 + self.chance.below(40));
        let back = Duration::from_millis(2 + self.chance.below(40));
        let late = Duration::from_secs(self.chance.below(6 * 3600));
        let (objects, start) = (Arc::clone(&self.objects), self.start);
        let (answer, answered) = oneshot::channel();
        tokio::spawn(async move {
            sleep(if fault == Fault::Late { late } else { there }).await;
            let past = i64::try_from(start.elapsed().as_millis()).unwrap();
            let now = DateTime::from_timestamp_millis(EPOCH_SECONDS * 1000 + past).unwrap();
            let done = match fault {
                Fault::Refused | Fault::Lost | Fault::Conflict => Err(unavailable()),
                _ => effect(&mut objects.lock().unwrap(), now),
            };
            let _ = answer.send(done);
        });
        let conflict = || Error::AlreadyExists { path: "somewhere".into(), source: "409 or 412".into() };
        match fault {
            Fault::None | Fault::Refused | Fault::Hidden | Fault::Conflict | Fault::OwnConflict => {
                let answer = answered.await.unwrap_or_else(|_| Err(unavailable()));
                sleep(back).await;
                match fault {
                    Fault::None => answer,
                    Fault::Conflict | Fault::OwnConflict => Err(conflict()),
                    _ => Err(unavailable()),
                }
            }
            Fault::Late => {
                sleep(back).await;
                Err(unavailable())
            }
            Fault::Silent | Fault::Lost => std::future::pending().await,
        }
    }

    async fn read(&self, path: &Path) -> Result<(Bytes, DateTime<Utc>)> {
        let key = path.to_string();
        self.serve(self.fault(false, false), move |objects, _| {
            let missing = || Error::NotFound { path: key.clone(), source: "404".into() };
            objects.objects.get(&key).cloned().ok_or_else(missing)
        })
        .await
    }

    async fn listed(&self) -> Result<Vec<ObjectMeta>> {
        self.serve(self.fault(false, false), |objects, _| {
            let meta = |(path, (bytes, modified)): (&String, &(Bytes, DateTime<Utc>))| meta(path, bytes, *modified);
            Ok(objects.objects.iter().map(meta).collect())
        })
        .await
    }
}

fn meta(path: &str, bytes: &Bytes, last_modified: DateTime<Utc>) -> ObjectMeta {
    ObjectMeta { location: Path::from(path), last_modified, size: bytes.len() as u64, e_tag: None, version: None }
}

fn stored() -> PutResult {
    PutResult { e_tag: None, version: None, extensions: Default::default() }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyStore")
    }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyStore")
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let (path, bytes, is_create) = (location.to_string(), Bytes::from(payload), options.mode == PutMode::Create);
        self.serve(self.fault(true, is_create), move |objects, now| {
            if is_create && objects.objects.contains_key(&path) {
                return Err(Error::AlreadyExists { path, source: "412".into() });
            }
            objects.objects.insert(path, (bytes, now));
            Ok(stored())
        })
        .await
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(Error::NotSupported { source: "uploads go by their ids".into() })
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (bytes, modified) = self.read(location).await?;
        let size = bytes.len() as u64;
        let range = match options.range {
            Some(GetRange::Bounded(range)) => range.start.min(size)..range.end.min(size),
            _ => 0..size,
        };
        let part = bytes.slice(range.start as usize..range.end as usize);
        // A body that breaks off.
        let is_torn = self.is_faulty.load(Ordering::Relaxed) && self.chance.permille(20);
        let body = if is_torn { vec![Ok(part.slice(..part.len() / 2)), Err(unavailable())] } else { vec![Ok(part)] };
        let payload = GetResultPayload::Stream(stream::iter(body).boxed());
        let (attributes, extensions) = Default::default();
        Ok(GetResult { payload, meta: meta(location.as_ref(), &bytes, modified), range, attributes, extensions })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        // One path: the client deletes one at a time.
        let (objects, chance, start) = (Arc::clone(&self.objects), self.chance.clone(), self.start);
        let fault = self.fault(true, false);
        let (is_faulty, faults, requests) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let outage = self.outage;
        let server = Arc::new(FaultyStore { objects, chance, start, outage, is_faulty, faults, requests });
        locations
            .then(move |location| {
                let server = Arc::clone(&server);
                async move {
                    let (location, path) = (location?, String::new());
                    let path = path + location.as_ref();
                    server
                        .serve(fault, move |objects, _| {
                            objects.objects.remove(&path);
                            Ok(())
                        })
                        .await?;
                    Ok(location)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        // The list is as of now, and breaks off somewhere, or goes on from what is there then.
        let prefix = prefix.map(|prefix| format!("{prefix}/")).unwrap_or_default();
        let is_broken = self.is_faulty.load(Ordering::Relaxed) && self.chance.permille(100);
        let at = self.chance.below(8) as usize;
        let objects = Arc::clone(&self.objects);
        let delay = Duration::from_millis(2 + self.chance.below(40));
        stream::once(async move {
            sleep(delay).await;
            let objects = objects.lock().unwrap();
            let found = objects.objects.iter().filter(|(path, _)| path.starts_with(&prefix));
            let mut found: Vec<_> = found.map(|(path, (bytes, modified))| Ok(meta(path, bytes, *modified))).collect();
            if is_broken {
                found.truncate(at);
                found.push(Err(unavailable()));
            }
            stream::iter(found)
        })
        .flatten()
        .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let prefix = prefix.map(|prefix| format!("{prefix}/")).unwrap_or_default();
        let mut folders: Vec<Path> = Vec::new();
        for meta in self.listed().await? {
            let folder = meta.location.as_ref().strip_prefix(&prefix).and_then(|rest| rest.split_once('/'));
            let folder = folder.map(|(folder, _)| Path::from(format!("{prefix}{folder}")));
            folders.extend(folder.filter(|folder| folders.last() != Some(folder)));
        }
        Ok(ListResult { common_prefixes: folders, objects: Vec::new(), extensions: Default::default() })
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(Error::NotSupported { source: "nothing is copied".into() })
    }
}

#[async_trait]
impl MultipartStore for FaultyStore {
    async fn create_multipart(&self, path: &Path) -> Result<MultipartId> {
        let (path, id) = (path.to_string(), format!("upload-{}", self.chance.next()));
        self.serve(self.fault(true, false), move |objects, _| {
            objects.uploads.insert(id.clone(), (path, BTreeMap::new()));
            Ok(id)
        })
        .await
    }

    async fn put_part(&self, _: &Path, id: &MultipartId, index: usize, data: PutPayload) -> Result<PartId> {
        let (id, bytes) = (id.clone(), Bytes::from(data));
        self.serve(self.fault(true, false), move |objects, _| {
            let missing = || Error::NotFound { path: id.clone(), source: "NoSuchUpload".into() };
            objects.uploads.get_mut(&id).ok_or_else(missing)?.1.insert(index, bytes);
            Ok(PartId { content_id: index.to_string() })
        })
        .await
    }

    async fn complete_multipart(&self, _: &Path, id: &MultipartId, parts: Vec<PartId>) -> Result<PutResult> {
        let id = id.clone();
        // Some servers forget uploads.
        let is_forgotten = self.is_faulty.load(Ordering::Relaxed) && self.chance.permille(50);
        self.serve(self.fault(true, false), move |objects, now| {
            let missing = || Error::NotFound { path: id.clone(), source: "NoSuchUpload".into() };
            let (path, stored_parts) = objects.uploads.remove(&id).filter(|_| !is_forgotten).ok_or_else(missing)?;
            let part = |part: &PartId| stored_parts.get(&part.content_id.parse().ok()?).cloned();
            let parts: Vec<Bytes> = parts.iter().map(part).collect::<Option<_>>().ok_or_else(unavailable)?;
            objects.objects.insert(path, (parts.concat().into(), now));
            Ok(stored())
        })
        .await
    }

    async fn abort_multipart(&self, _: &Path, id: &MultipartId) -> Result<()> {
        let id = id.clone();
        self.serve(self.fault(true, false), move |objects, _| {
            objects.uploads.remove(&id);
            Ok(())
        })
        .await
    }
}
