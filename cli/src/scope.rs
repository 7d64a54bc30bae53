//! The reach of verbs: inside an agent, a verb that acts on sessions acts on the agent's own, and on those that it has begun.
//!
//! A verb that takes a session acts on it, unless the table says that it only looks, or decides by itself. So a new verb is kept in by being there.

use clap::ArgMatches;
use parhelia_oversight::review::acts::{Act, ensure_may_act};

use crate::{context::Context, exit::Result};
use parhelia_ledger::LedgerView as _;

/// Verbs with a session among their arguments that only look, that take no session of ours, or whose workflow looks at who asks.
const FREE: [&str; 14] = [
    "audit log",
    "checkpoint find",
    "checkpoint list",
    "checkpoint rollback",
    "checkpoint search",
    "heartbeat",
    "log",
    "phase create",
    "session context",
    "session in-pane",
    "session prune",
    "session review",
    "session show",
    "session summary",
];

/// Verbs that act on every session, or on what all share, where no session is named.
const OF_ALL: [&str; 3] = ["hooks uninstall", "session recover", "session resume"];

/// Verbs by which sessions are looked after in a container, where nothing may show that no agent calls them.
const UPKEEP: [&str; 3] = ["import", "session recover", "session resume"];

/// A verb, and the session that it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invocation {
    verb: String,
    session: Option<String>,
}

impl Invocation {
    /// From what was parsed.
    pub fn of(mut found: &ArgMatches) -> Self {
        let mut words = Vec::new();
        while let Some((word, inner)) = found.subcommand() {
            words.push(word);
            found = inner;
        }
        let verb = match &words[..] {
            // Short for a verb of `checkpoint`.
            [one] if FREE.contains(&format!("checkpoint {one}").as_str()) => format!("checkpoint {one}"),
            _ => words.join(" "),
        };
        let session = match verb.as_str() {
            // Its name is one by which people find another session.
            "session run" => found.try_get_one::<String>("name"),
            _ => found.try_get_one::<String>("session"),
        };
        Invocation { verb, session: session.ok().flatten().cloned() }
    }

    /// Fails where an agent calls it for what is not its own.
    pub fn ensure_within_reach(&self, context: &Context) -> Result<()> {
        let verb = self.verb.as_str();
        if FREE.contains(&verb) || self.session.is_none() && !OF_ALL.contains(&verb) {
            return Ok(());
        }
        // Without a store there is nothing of anybody's; the verb says so itself.
        let Some(store) = context.open_quietly() else { return Ok(()) };
        let named = self.session.as_deref().map(|name| store.view().session_named(name).map(|session| session.id));
        let session = match named.transpose() {
            Ok(session) => session,
            // Of several, none is meant, and the verb says that as well.
            Err(_) => return Ok(()),
        };
        let act = Act { words: verb, is_upkeep: UPKEEP.contains(&verb) };
        ensure_may_act(&store, &context.host()?, act, session.as_deref(), &context.progress())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{command, without_environment};

    fn called(line: &str) -> Invocation {
        let words = ["parhelia"].into_iter().chain(line.split_whitespace());
        Invocation::of(&without_environment(command()).try_get_matches_from(words).unwrap())
    }

    #[test]
    fn the_session_of_a_verb_is_known() {
        for verb in ["end", "stop", "pause", "move", "resume", "recover", "show"] {
            let found = Invocation { verb: format!("session {verb}"), session: Some("it".into()) };
            assert_eq!(called(&format!("session {verb} it")), found);
        }
        assert_eq!(called("session run --name it -- true").session.as_deref(), Some("it"));
        assert_eq!(called("import a --session it").session.as_deref(), Some("it"));
        assert_eq!(called("search words --session it"), called("checkpoint search words --session it"));
    }

    #[test]
    fn each_verb_of_the_table_exists() {
        for verb in FREE.into_iter().chain(OF_ALL).chain(UPKEEP) {
            let mut words = verb.split(' ');
            let found = words.try_fold(command(), |found, word| found.find_subcommand(word).cloned());
            assert!(found.is_some(), "{verb}");
        }
    }
}
