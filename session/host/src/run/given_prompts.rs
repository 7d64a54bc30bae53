//! Prompts that stood on an agent's command line, as its events have shown. A word that was one is not given again at a resume.

use parhelia_ledger::{LedgerView as _, Session, kind};
use parhelia_store::{Store, event::NewEvent};
use serde_json::Value;

use super::{Current, hook_actor};
use crate::Result;

/// The field of a run with the prompt that is a word of its command line.
const GIVEN_PROMPT: &str = "given_prompt";

/// Records a prompt of a run that is a word of its command line. The first is the one.
pub fn note(store: &Store, current: &Current, prompt: &str) -> Result<()> {
    let run = store.view().run(&current.run)?.filter(|run| !run.extra.contains_key(GIVEN_PROMPT));
    let is_given = |word: &std::ffi::OsString| word.to_string_lossy().trim() == prompt.trim();
    if run.is_none_or(|run| !run.command().iter().skip(1).any(is_given)) {
        return Ok(());
    }
    let changed = NewEvent::new(kind::RUN_CHANGED, &current.run, hook_actor()).in_epoch(current.epoch);
    store.append_events(&[changed.with(GIVEN_PROMPT, prompt)], &())?;
    Ok(())
}

/// The prompts of a session that may be words of its command line.
pub fn prompts_of(store: &Store, session: &Session) -> Result<Vec<String>> {
    let view = store.view();
    let mut found: Vec<String> = session.first_prompt.iter().cloned().collect();
    for id in &session.runs {
        let given = view.run(id)?.and_then(|run| run.extra.get(GIVEN_PROMPT).and_then(Value::as_str).map(str::to_owned));
        found.extend(given);
    }
    found.dedup();
    Ok(found)
}
