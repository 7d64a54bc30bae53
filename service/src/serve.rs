//! The service from its start to its end.

use std::{
    path::{Path, PathBuf},
    sync::atomic::Ordering,
    time::Duration,
};

use parhelia_agent::kinds;
use parhelia_store::{Store, lock::ServiceLock};
use rustix::time::{ClockId, clock_gettime};
use tokio::{runtime::Builder, sync::watch::channel};

use crate::{
    api,
    app::{AppState, ServiceHost},
    connection,
    doors::{self, Doors, Page, Socket, Tcp},
    error::Error,
    log::say,
    outbox,
    signals::Signals,
    start, systemd,
    tls::Tls,
    watch,
};

/// Threads that wait for sockets.
const SOCKET_THREADS: usize = 2;
/// Threads that may block, in reading and in work.
const BLOCKING_THREADS_MAX: usize = 64;

/// Work that is under way at the end is waited for so long.
const GRACE: Duration = Duration::from_secs(10);

/// Options of a service.
pub struct Options {
    /// The Unix socket to listen at, made or passed.
    pub socket: Socket,
    /// A place for browsers beside it.
    pub tcp: Option<Tcp>,
    /// The first words of commands for this store, as people are told them.
    pub program: String,
    /// True if sessions whose agents died go on by themselves.
    pub resumes: bool,
    /// The socket of the tmux server in which agents are started; none for the one in which an agent was, or else the user's own.
    pub tmux_socket: Option<PathBuf>,
}

/// Serves until a signal asks it to end; a second signal ends it at once. Calls `ready` once programs can connect, with the page where it has one.
pub fn serve(store: Store, host: Box<ServiceHost>, options: Options, ready: impl FnOnce(Option<&Page>)) -> Result<(), Error> {
    let tls = options.tcp.as_ref().map(Tcp::protected).transpose()?.flatten();
    let lock = ServiceLock::take(store.path())?.map_err(|holder| Error::Taken { holder })?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(SOCKET_THREADS)
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .enable_all()
        .build()
        .map_err(Error::Threads)?;
    let mut signals = Signals::new().map_err(Error::Threads)?;
    let Options { socket, tcp, program, resumes, tmux_socket } = options;
    let app = AppState::new(store, host, tmux_socket);
    start::say_what_is_left(&app);
    let router = api::router(app.clone());
    let (stop, stopped) = channel(false);
    if app.store.is_read_only() {
        say("the store takes no writes: it can be looked at; nothing is resumed, captured or delivered");
    } else {
        outbox::background::start(app.clone(), program, stopped.clone()).map_err(Error::Threads)?;
    }
    let watching = watch::start(app.clone(), resumes, stopped.clone()).map_err(Error::Threads)?;
    let certificate = tls.clone();
    let served = runtime.block_on(doors::open(socket, tcp, tls)).map(|Doors { listeners, page, own }| {
        ready(page.as_ref());
        systemd::tell(&*app.host, "READY=1");
        let accepting = runtime.spawn(connection::accept(listeners, router, stopped));
        signals.wait(|| reload(&app, certificate.as_ref()));
        // Nobody is to come any more.
        drop(own);
        systemd::tell(&*app.host, "STOPPING=1");
        say("the service ends; agents go on");
        accepting
    });
    let _ = stop.send(true);
    let (accepting, served) = match served {
        Ok(accepting) => (Some(accepting), Ok(())),
        Err(e) => (None, Err(e)),
    };
    let has_ended = signals.wait_for(move || {
        if let Some(accepting) = accepting {
            let _ = runtime.block_on(accepting);
        }
        runtime.shutdown_timeout(GRACE);
        let _ = watching.join();
    });
    if !has_ended {
        say("the service ends at once; requests under way are cut off");
    }
    drop(lock);
    served
}

/// Reads the configuration and the certificate again. What cannot be used is said, and what was read before stays.
fn reload(app: &AppState, certificate: Option<&Tls>) {
    let now = clock_gettime(ClockId::Monotonic);
    systemd::tell(&*app.host, &format!("RELOADING=1\nMONOTONIC_USEC={}", now.tv_sec * 1_000_000 + now.tv_nsec / 1000));
    match app.host.config(Path::new("/")) {
        Ok(config) => {
            kinds::declare(
                &config.agent,
                app.host.variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute()).as_deref(),
            );
            outbox::reload();
            app.reloads.fetch_add(1, Ordering::Relaxed);
            say("the configuration is read again");
        }
        Err(e) => say(&format!("the configuration cannot be used: {e}")),
    }
    match certificate.map(Tls::reload) {
        Some(Ok(())) => say("the certificate is read again"),
        Some(Err(e)) => say(&format!("the certificate that was read before stays: {e}")),
        None => {}
    }
    systemd::tell(&*app.host, "READY=1");
}
