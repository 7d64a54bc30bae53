//! The command line of parhelia: arguments in, store operations, text or JSON Lines out.

mod args;
mod check;
mod checkpoint;
mod completions;
mod context;
mod exit;
mod export;
mod gc;
mod human;
mod import;
mod interrupt;
mod limits;
mod mount;
mod mounts;
mod output;
mod progress;
mod selector;
mod stats;
mod umount;
mod version;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    limits::raise_open_files();
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        Err(error) => return exit::of_arguments(&error),
    };
    let cancel = match interrupt::install() {
        Ok(cancel) => cancel,
        Err(failure) => return exit::report(&failure, args.global.json),
    };
    let mut context = context::Context::new(&args.global, cancel);
    let done = args.verb.run(&mut context).and_then(|code| context.out.flush().map(|()| code));
    match done {
        Ok(code) => code.into(),
        Err(failure) => exit::report(&failure, args.global.json),
    }
}
