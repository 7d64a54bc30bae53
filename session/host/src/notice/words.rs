//! Parts of the sentences of notices.

use std::path::Path;

use parhelia_agent::folder::ConfigFolder;
use parhelia_store::{id::Ulid, name::NameExt as _};

/// A safety checkpoint that failed: whether somebody interrupted it, and the one that was made all the same.
pub(super) fn not_secured(is_interrupted: bool, made: Option<Ulid>) -> String {
    match (is_interrupted, made) {
        (true, Some(made)) => format!("safety checkpoint {made} is made; nothing was restored, and no file was changed"),
        (_, None) => "no safety checkpoint could be made, and nothing was changed".into(),
        (false, Some(made)) => format!("safety checkpoint {made} is made, but does not do, and no file was changed"),
    }
}

/// The reason why nothing brings an agent's hooks.
pub(super) fn no_plugin(plugin: Option<&Path>) -> String {
    match plugin {
        Some(plugin) => format!("{} is not there", plugin.shown()),
        None => "its declaration has no `hooks`".into(),
    }
}

/// The agent's folder that the caller's environment leads to.
pub(super) fn shown(here: Option<&ConfigFolder>) -> String {
    here.map_or_else(|| "has none".to_owned(), |here| format!("has {} ({})", here.path.shown(), here.variable))
}

/// A number of things.
pub(super) fn count(number: u64, noun: &str) -> String {
    match (number, noun) {
        (1, noun) => format!("1 {noun}"),
        (number, "entry") => format!("{number} entries"),
        (number, noun) => format!("{number} {noun}s"),
    }
}

/// A number of things that something was done with.
pub(super) fn was(number: u64, noun: &str) -> String {
    format!("{} {}", count(number, noun), if number == 1 { "was" } else { "were" })
}

/// The first of some things, and the number of the others.
pub(super) fn some_of(all: u64, first: &[String]) -> String {
    let more = all.saturating_sub(first.len() as u64);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", first.join(", "))
}
