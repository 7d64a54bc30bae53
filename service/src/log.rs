//! The log of the service: lines on standard error, which is a terminal or the journal of the system.

use std::io::Write;

use parhelia_store::{clock, name};

/// Something that is said once while it holds, and not with every try.
#[derive(Default)]
pub struct TroubleLog(Option<String>);

impl TroubleLog {
    /// Says what is wrong now, where that was not said last, or that all is well `again`.
    pub fn say(&mut self, wrong: Option<String>, again: &str) {
        match (&wrong, &self.0) {
            (Some(now), last) if last.as_ref() != Some(now) => say(now),
            (None, Some(_)) => say(again),
            _ => {}
        }
        self.0 = wrong;
    }
}

/// Says something. What steers a terminal is escaped.
pub fn say(text: &str) {
    let shown = name::display(text.as_bytes());
    let _ = writeln!(std::io::stderr(), "{} parhelia: {shown}", clock::timestamp().strftime("%FT%TZ"));
}
