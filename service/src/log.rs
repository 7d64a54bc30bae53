//! The log of the service: lines on standard error, which is a terminal or the journal of the system.

use std::io::Write;

use parhelia_store::{clock, name};

/// Says something. What steers a terminal is escaped.
pub fn say(text: &str) {
    let shown = name::display(text.as_bytes());
    let _ = writeln!(std::io::stderr(), "{} parhelia: {shown}", clock::timestamp().strftime("%FT%TZ"));
}
