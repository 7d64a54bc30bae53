//! Progress on a terminal: bytes, files, time left. Nothing where nobody looks at it.

use std::{
    io::IsTerminal,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use parhelia_screen::human;
use parhelia_store::progress::{Phase, Progress};

use crate::interrupt::Cancel;

/// Shows progress, and carries the user's wish to stop.
#[derive(Debug)]
pub struct Bar {
    bar: Option<ProgressBar>,
    /// True if progress is wanted and standard error is a terminal.
    is_watched: bool,
    /// True from the beginning of a phase until the bar is cleared. One that shows nothing is not drawn anew behind what is printed.
    is_shown: AtomicBool,
    files: Arc<AtomicU64>,
    quiet: bool,
    cancel: Cancel,
}

impl Bar {
    /// A bar, if `wanted` and stderr is a terminal that can show one.
    pub fn new(wanted: bool, quiet: bool, cancel: Cancel) -> Self {
        let is_watched = wanted && std::io::stderr().is_terminal();
        let can = is_watched && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let bar = can.then(ProgressBar::no_length);
        Bar { bar, is_watched, is_shown: AtomicBool::new(false), files: Arc::default(), quiet, cancel }
    }

    /// Takes the bar off the terminal, until the next phase begins.
    pub fn clear(&self) {
        if let Some(bar) = self.bar.as_ref().filter(|_| self.is_shown.swap(false, Ordering::Relaxed)) {
            bar.disable_steady_tick();
            bar.finish_and_clear();
        }
    }

    /// Does something that prints, with the bar out of the way.
    pub fn beside(&self, print: impl FnOnce()) {
        match self.bar.as_ref().filter(|_| self.is_shown.load(Ordering::Relaxed)) {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Prints a line on what was done.
    pub fn step(&self, text: &str) {
        if self.is_watched {
            tell!("{text}");
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}

fn label(phase: Phase) -> &'static str {
    match phase {
        Phase::Capture => "Capturing",
        Phase::Commit => "Committing",
        Phase::Plan => "Comparing",
        Phase::Restore => "Restoring",
        Phase::Verify => "Verifying",
        Phase::Mark => "Following",
        Phase::Repack => "Repacking",
        Phase::Check => "Checking",
        Phase::Archive => "Archiving",
        Phase::Index => "Indexing",
    }
}

impl Progress for Bar {
    fn phase(&self, phase: Phase, files_total: Option<u64>, bytes_total: Option<u64>) {
        let Some(bar) = &self.bar else { return };
        self.files.store(0, Ordering::Relaxed);
        self.is_shown.store(true, Ordering::Relaxed);
        let bytes_total = bytes_total.filter(|total| *total > 0);
        let template = match bytes_total {
            Some(_) => "{msg:11} {wide_bar} {binary_bytes:>11} of {binary_total_bytes:11} {files} {eta:>4}",
            None if phase == Phase::Index => "{spinner} {msg:11} {files} {elapsed:>4}",
            None => "{spinner} {msg:11} {binary_bytes:>11} {files} {elapsed:>4}",
        };
        let (files, noun) = (self.files.clone(), if phase == Phase::Index { "checkpoint" } else { "file" });
        let show = move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
            let done = files.load(Ordering::Relaxed);
            let _ = match files_total {
                Some(total) => write!(out, "{}/{}", human::number(done.min(total)), human::count(total, noun)),
                None => write!(out, "{}", human::count(done, noun)),
            };
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.with_key("files", show));
        }
        bar.set_message(label(phase));
        // These draw: not before it looks as it should.
        bytes_total.map_or_else(|| bar.unset_length(), |total| bar.set_length(total));
        bar.reset();
        bar.enable_steady_tick(Duration::from_millis(200));
    }

    fn advance(&self, files: u64, bytes: u64) {
        if let Some(bar) = &self.bar {
            self.files.fetch_add(files, Ordering::Relaxed);
            bar.inc(bytes);
        }
    }

    fn notice(&self, text: &str) {
        if self.quiet {
            return;
        }
        self.beside(|| tell!("parhelia: note: {text}"));
    }

    fn warning(&self, text: &str) {
        self.beside(|| tell!("parhelia: {text}"));
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}
