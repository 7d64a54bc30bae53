//! Questions to the person at the terminal.

use std::{
    io::{self, BufRead, Write},
    sync::atomic::Ordering,
};

use parhelia_store::{Error, name};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};

use crate::{
    context::Context,
    exit::{Failure, Result},
};

/// The line that is answered, without the blanks around it. Fails where the user asks to stop instead.
pub fn ask(context: &Context, question: &str) -> Result<String> {
    eprint!("{}", name::printable(question));
    let _ = io::stderr().flush();
    let failed = |source| Failure::File { action: "read", path: "standard input".into(), source };
    // Reading would go on behind a signal, which ends the waiting here.
    while !context.cancel().load(Ordering::SeqCst) {
        match poll(&mut [PollFd::new(&io::stdin(), PollFlags::IN)], None) {
            Ok(_) => {
                let mut line = String::new();
                io::stdin().lock().read_line(&mut line).map_err(failed)?;
                return Ok(line.trim().to_owned());
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(failed(e.into())),
        }
    }
    eprintln!();
    Err(Error::Cancelled.into())
}

/// Asks a question; returns whether the answer is yes.
pub fn is_agreed(context: &Context, question: &str) -> Result<bool> {
    Ok(matches!(ask(context, &format!("{question} [y/N] "))?.as_str(), "y" | "Y" | "yes"))
}
