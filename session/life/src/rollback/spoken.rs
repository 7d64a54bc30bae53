//! The effect of a rollback on the conversation.

use std::path::Path;

use parhelia_agent::transcript::TranscriptLocation;
use parhelia_ledger::Session;
use parhelia_store::{Store, record::Checkpoint};

use parhelia_host::{Result, conversation::summary_now, state::state_json};
use schemars::JsonSchema;
use serde::Serialize;

/// A conversation that goes back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConversationEffect {
    /// Turns that it has now; null if it is gone.
    pub turns: Option<u64>,
    /// Turns that it has in the checkpoint.
    pub turns_then: u64,
    /// Its last prompt in the checkpoint.
    pub prompt_then: Option<String>,
    /// The last prompt now, if it goes further.
    pub prompt: Option<String>,
    /// True if the session is in another conversation now.
    pub is_another: bool,
}

impl ConversationEffect {
    pub(super) fn of(store: &Store, target: &Checkpoint, session: &Session, id: &str, config: &Path) -> Result<Self> {
        let now = TranscriptLocation::by_session(config, id)
            .ok()
            .and_then(|located| summary_now(located, &store.layout().cache()).ok());
        let then = state_json(store, target, "conversation.json")?.unwrap_or_default();
        let then = then.get("summary").unwrap_or(&then);
        let turns_then = then["turn_count"].as_u64().unwrap_or_default();
        Ok(ConversationEffect {
            turns: now.as_ref().map(|now| now.turn_count),
            turns_then,
            prompt_then: then["last_prompt"].as_str().map(str::to_owned),
            prompt: now.filter(|now| now.turn_count > turns_then).and_then(|now| now.last_prompt),
            is_another: session.conversations.last().is_some_and(|last| last.id != id),
        })
    }

    /// In a line.
    pub fn text(&self) -> String {
        let turns = |count: u64| if count == 1 { "1 turn".to_owned() } else { format!("{count} turns") };
        let short = |prompt: &Option<String>| {
            let line = prompt.as_deref().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
            line.chars().take(60).collect::<String>()
        };
        let then = match &self.prompt_then {
            Some(_) => format!("{}, the last \"{}\"", turns(self.turns_then), short(&self.prompt_then)),
            None => turns(self.turns_then),
        };
        let another = if self.is_another { "; the session's newer conversation is left" } else { "" };
        match self.turns {
            None => format!("comes back with {then}{another}"),
            Some(now) if now > self.turns_then => {
                let more = turns(now - self.turns_then);
                format!(
                    "goes back to {then}; what was said since ({more}, the last \"{}\") is kept aside{another}",
                    short(&self.prompt)
                )
            }
            Some(now) if now < self.turns_then => format!("goes on to {then}, from {}{another}", turns(now)),
            Some(_) => format!("is at {then}, as it is now{another}"),
        }
    }
}
