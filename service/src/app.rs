//! The state that requests share, and the threads that work for them.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use parhelia_session::host::Host;
use parhelia_store::{Store, clock, view::View};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task,
};

use crate::{api::problem::Problem, feed::Feed, metrics::Metrics, start::Starter};

/// So many requests read at a time; others wait.
const READERS: usize = 16;
/// So many checkpoints, resumes and the like are under way at a time: as many as a small machine takes.
const WORKERS: usize = 4;
/// Nobody waits longer for their turn.
const PATIENCE: Duration = Duration::from_secs(120);

/// A host that lives as long as the service.
pub type ServiceHost = dyn Host + Send + Sync;

/// Everything that requests share.
pub struct Shared {
    /// The store.
    pub store: Store,
    /// The service as a host.
    pub host: Box<ServiceHost>,
    /// Starts agents.
    pub starter: Box<Starter>,
    /// New events.
    pub feed: Feed,
    /// Numbers for a monitor.
    pub metrics: Metrics,
    /// The time of its start.
    pub started_at: Timestamp,
    readers: Arc<Semaphore>,
    workers: Arc<Semaphore>,
}

/// A handle of it.
pub type App = Arc<Shared>;

impl Shared {
    /// The state of a service that starts now.
    pub fn new(store: Store, host: Box<ServiceHost>, starter: Box<Starter>) -> App {
        let of = |permits| Arc::new(Semaphore::new(permits));
        let (feed, metrics, started_at) = (Feed::default(), Metrics::default(), clock::timestamp());
        Arc::new(Shared { store, host, starter, feed, metrics, started_at, readers: of(READERS), workers: of(WORKERS) })
    }

    /// True if nobody reads or works.
    pub fn is_idle(&self) -> bool {
        self.readers.available_permits() == READERS && self.workers.available_permits() == WORKERS
    }

    /// A place among those who work, for somebody who does not wait for one.
    pub fn try_work(&self) -> Option<OwnedSemaphorePermit> {
        self.workers.clone().try_acquire_owned().ok()
    }
}

/// Reads from the store, as it is now, on a thread that may block.
pub async fn read<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Shared, &View) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    on_thread(app, &app.readers, move |app| work(app, &*app.store.refresh()?)).await
}

/// Does something that may take long.
pub async fn work<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Shared) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    on_thread(app, &app.workers, work).await
}

async fn on_thread<T: Send + 'static>(
    app: &App,
    places: &Arc<Semaphore>,
    work: impl FnOnce(&Shared) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let Ok(Ok(permit)) = tokio::time::timeout(PATIENCE, places.clone().acquire_owned()).await else {
        return Err(Problem::busy("too much is under way; try again later"));
    };
    let app = app.clone();
    let done = task::spawn_blocking(move || {
        let _permit = permit;
        work(&app)
    });
    match done.await {
        Ok(done) => done,
        Err(_) => Err(Problem::failed("the request could not be worked on to its end")),
    }
}
