//! Runs parhelia and other tools on the same trees, in turn, and prints the tables.

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use parhelia_benches::error::report;
use parhelia_benches::side::{launch, options::Options, run};

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // As the launcher this program must stay small, so nothing else happens before.
    if args.next().is_some_and(|verb| verb == launch::LAUNCH_VERB) {
        let out = args.next().unwrap_or_default();
        return report("launcher", launch::launcher(Path::new(&out)));
    }
    report("side-by-side", run::run(Options::parse()))
}
