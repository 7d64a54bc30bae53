//! The terminal that an agent was given: an agent that is killed leaves it in a mode in which nothing that is typed can be read.

use std::{
    io::{IsTerminal, Write},
    path::Path,
    process::{Command, Stdio},
};

/// The programs that know how a terminal is set.
const STTY: [&str; 2] = ["/usr/bin/stty", "/bin/stty"];
/// Ends what programs turn on beside the kernel's settings: mouse, focus, bracketed paste, another keyboard protocol, a hidden cursor.
const PLAIN: &str = "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1004l\x1b[?2004l\x1b[<u\x1b[?25h";

/// The settings of this process's terminal.
#[derive(Debug)]
pub struct Terminal {
    settings: String,
}

impl Terminal {
    /// Of standard input; none where that is no terminal.
    pub fn here() -> Option<Self> {
        is_ours().then(|| stty(&["-g"])).flatten().map(|settings| Terminal { settings })
    }

    /// Checks whether the terminal is still there.
    pub fn is_there(&self) -> bool {
        std::io::stdin().is_terminal()
    }

    /// Sets it as it was, if something has left it otherwise.
    pub fn restore(&self) {
        if is_ours() && stty(&["-g"]).is_some_and(|now| now != self.settings) {
            stty(&[&self.settings]);
            plain();
        }
    }

    /// Sets it so that a person can type, where an earlier program has left it raw.
    pub fn make_sane() {
        let is_raw = |settings: &str| settings.split_whitespace().any(|word| word.trim_end_matches(';') == "-icanon");
        if is_ours() && stty(&["-a"]).is_some_and(|settings| is_raw(&settings)) {
            stty(&["sane"]);
            plain();
        }
    }
}

/// Checks whether standard input is a terminal that this process may set: a job in the background would be stopped for it.
fn is_ours() -> bool {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // State, parent, process group, session, terminal, and the terminal's foreground group: proc_pid_stat(5).
    let fields: Vec<&str> = stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
    std::io::stdin().is_terminal() && fields.get(2).is_some_and(|group| fields.get(5) == Some(group))
}

fn plain() {
    let mut out = std::io::stderr();
    if out.is_terminal() {
        let _ = out.write_all(PLAIN.as_bytes()).and_then(|()| out.flush());
    }
}

/// The output of `stty` on standard input; none if it fails.
fn stty(arguments: &[&str]) -> Option<String> {
    let program = STTY.iter().find(|path| Path::new(path).exists())?;
    let output = Command::new(program).args(arguments).stdin(Stdio::inherit()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
