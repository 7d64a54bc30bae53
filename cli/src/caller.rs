//! The call of this process, as far as everything else asks for it.

use std::{
    ffi::OsString,
    sync::atomic::{AtomicBool, Ordering},
};

static IS_AGENTS: AtomicBool = AtomicBool::new(false);

/// A variable of this process.
pub fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// True if the command line is a hook's, which an agent calls: no fault in it may stop the agent.
pub fn is_hook() -> bool {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    words.iter().any(|word| word == "hook") && !words.iter().any(|word| word == "--help" || word == "-h")
}

/// True if an agent, or what it has started, reads what this process says. False until that is settled.
pub fn is_agents() -> bool {
    IS_AGENTS.load(Ordering::Relaxed)
}

/// Notes who reads what this process says.
pub fn note_reader(is_agent: bool) {
    IS_AGENTS.store(is_agent, Ordering::Relaxed);
}
