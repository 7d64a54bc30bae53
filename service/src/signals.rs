//! Signals that ask the service to end: after the first one, what is under way is waited for, and after a second one nothing is.

use std::{io, thread};

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

    /// Waits for a signal.
    pub fn wait(&mut self) {
        let Signals { runtime, terminate, interrupt, hangup } = self;
        runtime.block_on(one_of(terminate, interrupt, hangup));
    }

    /// Does something on another thread, and waits until it is done. False if a signal came before.
    pub fn wait_for(&mut self, work: impl FnOnce() + Send + 'static) -> bool {
        let (tell, done) = oneshot::channel();
        let thread = thread::Builder::new().name("end".into()).spawn(move || {
            work();
            let _ = tell.send(());
        });
        let Signals { runtime, terminate, interrupt, hangup } = self;
        thread.is_err()
            || runtime.block_on(async {
                tokio::select! {
                    _ = done => true,
                    () = one_of(terminate, interrupt, hangup) => false,
                }
            })
    }
}

async fn one_of(terminate: &mut Signal, interrupt: &mut Signal, hangup: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = hangup.recv() => {}
    }
}
