//! The command line of parhelia: arguments in, store operations, text or JSON Lines out.

// Unit tests make and change files as they like.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

/// Prints a line on standard error, with what steers a terminal escaped.
macro_rules! tell {
    ($($said:tt)*) => { $crate::output::tell(&format!($($said)*)) };
}

mod args;
mod ask;
mod audit;
mod authority;
mod caller;
mod changed;
mod check;
mod checkpoint;
mod complete;
mod completions;
mod config;
mod context;
mod copy_store;
mod detached;
mod elsewhere;
mod env;
mod exit;
mod export;
mod gc;
mod global;
mod heartbeat;
mod help;
#[cfg(test)]
mod hints;
mod hook;
mod hook_log;
mod hooks;
mod host;
mod import;
mod init;
mod input;
mod interrupt;
mod kinds;
mod layout;
mod limits;
mod log;
mod man;
mod mcp;
mod mcp_proxy;
mod memory;
mod mount;
mod mount_guard;
mod mounts;
mod notify;
mod outbox;
mod output;
mod own_lines;
mod pager;
mod phase;
mod progress;
mod relay;
mod remote;
mod rollback;
mod scope;
mod selector;
mod serve;
mod session;
mod stats;
mod status;
mod suggest;
mod terminal;
mod thinned;
mod told_settings;
mod umount;
mod unit;
mod version;
mod when;
mod words;
mod workspace;

use std::process::ExitCode;

use clap_complete::CompleteEnv;

use exit::Code;

fn main() -> ExitCode {
    if relay::is_called() {
        return relay::run();
    }
    parhelia_store::name::step::name_by(words::step::name);
    authority::read_by(args::command_line);
    // No shell completes a hook; a project can set the variable.
    if !caller::is_hook() {
        CompleteEnv::with_factory(args::command).var(complete::VARIABLE).complete();
    }
    kinds::of_all_above();
    let mut authority = match authority::Authority::settle() {
        Ok(authority) => authority,
        Err(failure) => return exit::report(&failure, false),
    };
    limits::set();
    let (mut args, called) = match args::Args::of_process() {
        Ok(found) => found,
        Err(error) if caller::is_hook() => return hook::excuse(&error),
        Err(error) => return exit::of_arguments(&error),
    };
    let cancel = interrupt::Cancel::default();
    let _handled = match (!args.verb.has_own_signals()).then(|| interrupt::install(&cancel)).transpose() {
        Ok(handled) => handled,
        Err(failure) => return exit::report(&failure, args.global.json),
    };
    authority.take(&mut args.global);
    let mut context = context::Context::new(&args.global, cancel, authority);
    kinds::of_user(&context);
    let done = called.ensure_within_reach(&context).and_then(|()| args.verb.run(&mut context));
    context.record_ignored();
    if !args.verb.delivers() {
        outbox::after::hand_over(&context);
        remote::after::hand_over(&context);
    }
    // What was printed before a failure stands before it.
    match (done, context.out.finish()) {
        (Ok(Code::Done), Ok(false)) => Code::Partly.into(),
        (Ok(code), Ok(_)) => code.into(),
        (Err(failure), _) | (_, Err(failure)) => exit::report(&failure, args.global.json),
    }
}
