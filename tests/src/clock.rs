//! Commands that see another time than the machine's.

use std::{path::Path, process::Command};

/// The variables by which a command, and all that it starts, sees the clock so many days off; the stamps of files stay.
pub fn days_off(days: i64) -> [(&'static str, String); 4] {
    [
        ("FAKETIME", format!("{days:+}d")),
        ("LD_PRELOAD", library()),
        ("NO_FAKE_STAT", "1".into()),
        ("DONT_FAKE_MONOTONIC", "1".into()),
    ]
}

fn library() -> String {
    let found = Command::new("find").args(["/usr/lib", "/usr/local/lib", "-name", "libfaketime.so.1"]).output();
    let found = found.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let path = found.lines().next().unwrap_or_default().to_owned();
    assert!(Path::new(&path).exists(), "this test needs libfaketime (Debian: faketime)");
    path
}
