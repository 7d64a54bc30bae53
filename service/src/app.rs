//! The state that requests share, and the threads that work for them.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use jiff::Timestamp;
use parhelia_host::Host;
use parhelia_store::{Store, clock, view::View};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task,
};

use crate::{feed::Feed, listing::Listing, metrics::Metrics, problem::Problem, turns::Turns, verdict::Verdicts};

/// So many requests read at a time; others wait.
const READERS: usize = 16;
/// So many checkpoints by request, rollbacks and resumes are under way at a time: as many as a small machine takes.
const WORKERS: usize = 4;
/// So many short notes are written at a time.
const WRITERS: usize = 4;
/// So many checkpoints that nobody asked for are under way at a time.
const CAPTURES: usize = 4;
/// Nobody waits longer for their turn.
const PATIENCE: Duration = Duration::from_secs(120);

/// A host that lives as long as the service.
pub type ServiceHost = dyn Host + Send + Sync;

/// Everything that requests share.
pub struct AppState {
    /// The store that the service serves.
    pub store: Store,
    /// The service as a host.
    pub host: Box<ServiceHost>,
    /// The socket of the tmux server in which agents are started, where one is named.
    pub tmux_socket: Option<PathBuf>,
    /// New events.
    pub feed: Feed,
    /// Numbers for a monitor.
    pub metrics: Metrics,
    /// Names and folders in which a session is being begun.
    pub beginning: Turns,
    /// Sessions as they were recorded last.
    pub listing: Listing,
    /// The service's own state.
    pub verdicts: Verdicts,
    /// Number of times that it was asked to read its configuration again.
    pub reloads: AtomicU64,
    /// The time of its start.
    pub started_at: Timestamp,
    readers: Arc<Semaphore>,
    workers: Arc<Semaphore>,
    writers: Arc<Semaphore>,
    captures: Arc<Semaphore>,
}

/// A handle of it.
pub type App = Arc<AppState>;

impl AppState {
    /// The state of a service that starts now.
    pub fn new(store: Store, host: Box<ServiceHost>, tmux_socket: Option<PathBuf>) -> App {
        let of = |permits| Arc::new(Semaphore::new(permits));
        let (feed, metrics, started_at) = (Feed::default(), Metrics::default(), clock::timestamp());
        let (readers, workers, writers, captures) = (of(READERS), of(WORKERS), of(WRITERS), of(CAPTURES));
        let (beginning, listing, verdicts) = (Turns::default(), Listing::default(), Verdicts::default());
        Arc::new(AppState {
            store,
            host,
            tmux_socket,
            feed,
            metrics,
            beginning,
            listing,
            verdicts,
            reloads: AtomicU64::new(0),
            started_at,
            readers,
            workers,
            writers,
            captures,
        })
    }

    /// True if nothing is under way.
    pub fn is_idle(&self) -> bool {
        let pools = [(&self.readers, READERS), (&self.workers, WORKERS), (&self.writers, WRITERS), (&self.captures, CAPTURES)];
        pools.into_iter().all(|(pool, permits)| pool.available_permits() == permits)
    }

    /// A place for a checkpoint that nobody asked for; none where all are taken, as its maker does not wait.
    pub fn try_capture(&self) -> Option<OwnedSemaphorePermit> {
        self.captures.clone().try_acquire_owned().ok()
    }
}

/// Reads from the store, as it is now, on a thread that may block.
pub async fn read<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&AppState, &View) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    on_thread(app, &app.readers, move |app| work(app, &*app.store.refresh()?)).await
}

/// Does something that may take long.
pub async fn work<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&AppState) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    on_thread(app, &app.workers, work).await
}

/// Records something short, such as a decision. It does not wait behind what takes long.
pub async fn note<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&AppState) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    on_thread(app, &app.writers, work).await
}

async fn on_thread<T: Send + 'static>(
    app: &App,
    places: &Arc<Semaphore>,
    work: impl FnOnce(&AppState) -> Result<T, Problem> + Send + 'static,
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

#[cfg(test)]
mod tests {
    use std::{
        ffi::OsString,
        io,
        process::{Child, Command},
    };

    use parhelia_store::{OpenOptions, event::Actor};

    use super::*;

    struct Nobody;

    impl Host for Nobody {
        fn variable(&self, _: &str) -> Option<OsString> {
            None
        }

        fn variables(&self) -> Vec<(OsString, OsString)> {
            Vec::new()
        }

        fn actor(&self) -> Actor {
            Actor::default()
        }

        fn program(&self) -> io::Result<PathBuf> {
            std::env::current_exe()
        }

        fn start_agent(&self, command: &mut Command) -> io::Result<Child> {
            command.spawn()
        }
    }

    #[tokio::test]
    async fn no_kind_of_work_takes_the_places_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let options = OpenOptions { create: true, ..Default::default() };
        let store = parhelia_ledger::open(&folder.path().join("store"), &options).unwrap();
        let app = AppState::new(store, Box::new(Nobody), None);
        for (taken, count) in
            [(&app.readers, READERS), (&app.workers, WORKERS), (&app.writers, WRITERS), (&app.captures, CAPTURES)]
        {
            let all = taken.clone().try_acquire_many_owned(count as u32).unwrap();
            assert!(taken.clone().try_acquire_owned().is_err());
            let others = [&app.readers, &app.workers, &app.writers].into_iter().filter(|places| !Arc::ptr_eq(places, taken));
            for places in others {
                assert!(on_thread(&app, places, |_| Ok(())).await.is_ok());
            }
            assert_eq!(app.try_capture().is_some(), !Arc::ptr_eq(&app.captures, taken));
            drop(all);
        }
        // A note and a checkpoint of the watch go on while requests have all places of work.
        let _all = app.workers.clone().try_acquire_many_owned(WORKERS as u32).unwrap();
        assert!(note(&app, |_| Ok(())).await.is_ok() && read(&app, |_, _| Ok(())).await.is_ok());
    }
}
