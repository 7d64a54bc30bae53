//! An answer to what the agent of a session asks: typed into its pane of tmux, where a person would type it.
//!
//! Whoever answers has seen the pane, and names what they saw: where it shows something else by now, nothing is typed. A permission is a person's to
//! give, so that no agent answers, for its own session either.

use std::{str::FromStr, thread, time::Duration};

use parhelia_ledger::{LedgerView as _, Session, kind};
use parhelia_store::{Store, event::NewEvent};

use crate::{
    overview::{Overview, observed::AgentState},
    prompt::{self, Terminal},
};
use parhelia_host::{Error, Host, Observer, Result, RunRefusal, intent};
use parhelia_oversight::{review::acts::ensure_person, who::who};

/// The most keys of an answer.
const KEYS_MAX: usize = 64;
/// The time between two keys: an agent draws anew behind each.
const BETWEEN_KEYS: Duration = Duration::from_millis(50);
/// Keys by the name that tmux has for them; digits and letters are keys of their own.
const KEYS: [&str; 10] = ["Enter", "Escape", "Tab", "BTab", "Space", "BSpace", "Up", "Down", "Left", "Right"];

/// A key of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(String);

impl FromStr for Key {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_plain = text.len() == 1 && text.chars().all(|c| c.is_ascii_alphanumeric());
        match is_plain || KEYS.contains(&text) {
            true => Ok(Key(text.to_owned())),
            false => {
                Err(Error::Invalid(format!("'{text}' is no key of an answer; keys are digits, letters, {}", KEYS.join(", "))))
            }
        }
    }
}

/// A question of an agent, or a permission that it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The thing that it waits for, if it says so.
    pub waits_for: Option<String>,
    /// The text that its pane shows.
    pub screen: String,
    /// A name of this question, and of what the pane shows.
    pub id: String,
}

/// An answer: a text, and keys that follow it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The text, which is pasted.
    pub text: Option<String>,
    /// The keys, which are typed one behind the other.
    pub keys: Vec<Key>,
}

impl Answer {
    fn check(&self) -> Result<()> {
        let invalid = |why: String| Err(Error::Invalid(why));
        match &self.text {
            None if self.keys.is_empty() => return invalid("the answer has neither a text nor keys".into()),
            Some(text) => prompt::check(text)?,
            None => {}
        }
        match self.keys.len() <= KEYS_MAX {
            true => Ok(()),
            false => invalid(format!("the answer has more than {KEYS_MAX} keys")),
        }
    }
}

/// The question of a session's agent. Fails where it does not wait for an answer, and where its pane of tmux cannot be seen or typed into.
pub fn question(store: &Store, session: &Session) -> Result<Question> {
    asked(store, session).map(|(question, _)| question)
}

fn asked(store: &Store, session: &Session) -> Result<(Question, Terminal)> {
    let refused = |why: String| RunRefusal::NotAnswered { session: session.id.clone(), why };
    let overview = Overview::of(store, session)?;
    if overview.observed != AgentState::Waiting {
        let why = format!("its agent does not wait for an answer, as far as it says ({})", overview.observed.name());
        return Err(refused(why).into());
    }
    let terminal = prompt::terminal(store, session)?.map_err(refused)?;
    let screen = terminal.screen()?;
    let screen = screen.trim_end().to_owned();
    let mut hasher = blake3::Hasher::new();
    for part in [session.run.as_deref().unwrap_or_default(), overview.why.as_deref().unwrap_or_default(), &screen] {
        hasher.update(part.as_bytes()).update(&[0]);
    }
    let id = hasher.finalize().to_hex()[..32].to_owned();
    Ok((Question { waits_for: overview.why, screen, id }, terminal))
}

/// Types an answer to a question. Fails where the agent asks something else by now, and where the caller is an agent.
pub fn answer(
    store: &Store,
    host: &dyn Host,
    session: &Session,
    (question, answer): (&str, &Answer),
    observer: &dyn Observer,
) -> Result<()> {
    answer.check()?;
    ensure_person(store, host, "session answer", Some(&session.id), observer)?;
    // Two answers at a time would become one.
    let _turn = intent::held(store, &session.id, observer)?;
    let session = &store.refresh()?.session(&session.id)?.unwrap_or_else(|| session.clone());
    let (now, terminal) = asked(store, session)?;
    if now.id != question {
        let why = "its pane shows something else than what is answered; look again".to_owned();
        return Err(RunRefusal::NotAnswered { session: session.id.clone(), why }.into());
    }
    // Recorded first: what is typed cannot be taken back.
    let actor = who(store, host, std::slice::from_ref(&session.id))?.actor(host);
    let event = NewEvent::new(kind::SESSION_ANSWERED, &session.id, actor).with("reason", now.waits_for.clone());
    let keys: Vec<&str> = answer.keys.iter().map(|key| key.0.as_str()).collect();
    let event = event.with("keys", keys).with("has_text", answer.text.is_some()).with("run", session.run.clone());
    store.append_events(&[event], &())?;
    if let Some(text) = &answer.text {
        terminal.paste(text)?;
    }
    for key in &answer.keys {
        terminal.press(&key.0)?;
        thread::sleep(BETWEEN_KEYS);
    }
    // Whoever looks next sees what has become of it.
    prompt::until(|| Ok(terminal.screen()?.trim_end() != now.screen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_keys_of_a_dialog_and_no_others() {
        for good in ["1", "y", "Enter", "Down"] {
            good.parse::<Key>().unwrap();
        }
        for bad in ["", "C-c", "12", "enter", "-l", ";", "F1", "é"] {
            assert!(bad.parse::<Key>().is_err(), "{bad}");
        }
        let key = || "1".parse::<Key>().unwrap();
        assert!(Answer::default().check().is_err());
        assert!(Answer { text: Some("a\u{1b}b".into()), keys: Vec::new() }.check().is_err());
        assert!(Answer { text: None, keys: vec![key(); KEYS_MAX + 1] }.check().is_err());
        assert!(Answer { text: Some("yes".into()), keys: vec![key()] }.check().is_ok());
    }
}
