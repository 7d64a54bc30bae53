//! Says how much a text is, as the budget of what an agent is told counts it. A program of its own: what times others stays small.

use std::io::Read;
use std::process::ExitCode;

use parhelia_benches::error::{self, Context, Result};
use parhelia_knowledge::budget::{characters, tokens};

fn main() -> ExitCode {
    error::report("told", run())
}

/// Prints characters and tokens of standard input.
fn run() -> Result<()> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context(|| "read the text")?;
    println!("{} {}", characters(&text), tokens(&text));
    Ok(())
}
