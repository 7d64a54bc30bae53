//! The terminal while the screen is on it: raw, with the alternate screen, and as it was before afterwards, whatever happens.

use std::{
    io::{self, Stdout, Write},
    os::fd::AsFd,
    panic,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::signal::{SigSet, Signal},
    unistd::{getpgrp, tcsetpgrp},
};
use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::{Hide, Show},
        event::{DisableBracketedPaste, EnableBracketedPaste},
        execute,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
};

/// The terminal of this process, with the screen on it. When it goes, the terminal is as it was.
pub struct TerminalGuard {
    /// The buffers of ratatui, which write to standard output.
    pub screen: Terminal<CrosstermBackend<Stdout>>,
    /// True while the terminal is ours, also for the hook that a panic calls.
    is_taken: Arc<AtomicBool>,
}

impl TerminalGuard {
    /// Takes the terminal; a panic gives it back before its message is printed.
    pub fn take() -> io::Result<Self> {
        let screen = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        let taken = TerminalGuard { screen, is_taken: Arc::new(AtomicBool::new(false)) };
        // The message of a panic would be lost on the alternate screen.
        let (before, is_taken) = (panic::take_hook(), taken.is_taken.clone());
        panic::set_hook(Box::new(move |info| {
            leave(&is_taken);
            before(info);
        }));
        taken.enter()?;
        Ok(taken)
    }

    fn enter(&self) -> io::Result<()> {
        enable_raw_mode()?;
        self.is_taken.store(true, Ordering::SeqCst);
        execute!(io::stdout(), EnterAlternateScreen, EnableBracketedPaste, Hide)
    }

    /// Gives the terminal back while something else is done with it.
    pub fn lend<T>(&mut self, work: impl FnOnce() -> T) -> io::Result<T> {
        leave(&self.is_taken);
        let done = work();
        come_to_the_foreground();
        self.enter()?;
        self.screen.clear()?;
        Ok(done)
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        leave(&self.is_taken);
        // Removing a hook while panicking is a panic of its own.
        if !std::thread::panicking() {
            drop(panic::take_hook());
        }
    }
}

fn leave(is_taken: &AtomicBool) {
    if is_taken.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stdout(), Show, DisableBracketedPaste, LeaveAlternateScreen);
        let _ = disable_raw_mode();
        let _ = io::stdout().flush();
    }
}

/// Waits for input, at most so long. True if the terminal is gone: whoever reads from it would find its end again and again, and never return.
pub fn hung_up_within(time: Duration) -> bool {
    let stdin = io::stdin();
    let mut watched = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(time).unwrap_or(PollTimeout::ZERO);
    // A signal is looked at by whoever asked.
    let is_ready = poll(&mut watched, timeout).is_ok_and(|ready| ready > 0);
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    is_ready && watched[0].revents().is_some_and(|events| events.intersects(gone))
}

/// A shell that was killed leaves the terminal to its own group of processes. Taking it back from the background would stop this one.
fn come_to_the_foreground() {
    let mut stopped = SigSet::empty();
    stopped.add(Signal::SIGTTOU);
    if let Ok(before) = stopped.thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK) {
        let _ = tcsetpgrp(io::stdin(), getpgrp());
        let _ = before.thread_set_mask();
    }
}
