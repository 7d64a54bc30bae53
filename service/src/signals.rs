//! Signals that ask the service to end: after the first one, what is under way is waited for, and after a second one nothing is. SIGHUP asks it to
//! read its files again, unless it runs at a terminal, which sends it when it is closed.

use std::{
    io::{self, IsTerminal as _},
    thread,
};

use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};

/// The signals, heard from its making on.
pub struct Signals {
    /// A runtime of their own: they are heard while that of the requests ends.
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Hears signals, which do not end the process any more.
    pub fn new() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let hangup = signal(SignalKind::hangup())?;
        drop(entered);
        Ok(Signals { runtime, terminate, interrupt, hangup })
    }

    /// Waits for a signal to end. Calls `reload` at each one that asks for that.
    pub fn wait(&mut self, reload: impl Fn()) {
        let Signals { runtime, terminate, interrupt, hangup } = self;
        let is_at_terminal = io::stderr().is_terminal();
        while runtime.block_on(one_of(terminate, interrupt, hangup)) && !is_at_terminal {
            reload();
        }
    }

    /// Does something on another thread, and waits until it is done. False if a signal came before.
    pub fn wait_for(&mut self, work: impl FnOnce() + Send + 'static) -> bool {
        let (tell, done) = oneshot::channel();
        let thread = thread::Builder::new().name("end".into()).spawn(move || {
            work();
            let _ = tell.send(());
        });
        let Signals { runtime, terminate, interrupt, .. } = self;
        thread.is_err()
            || runtime.block_on(async {
                tokio::select! {
                    _ = done => true,
                    () = ending(terminate, interrupt) => false,
                }
            })
    }
}

/// True of SIGHUP.
async fn one_of(terminate: &mut Signal, interrupt: &mut Signal, hangup: &mut Signal) -> bool {
    tokio::select! {
        () = ending(terminate, interrupt) => false,
        _ = hangup.recv() => true,
    }
}

async fn ending(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
