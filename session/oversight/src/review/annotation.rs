//! Annotations: remarks about a checkpoint, with their author and time. They can be added, and never changed or removed.

use parhelia_ledger::{Annotation, LedgerView as _, kind};
use parhelia_store::{Error as StoreError, Store, event::NewEvent, id::Ulid, view::View};

use super::{acts::ensure_may_mark, mark};
use parhelia_host::{Host, MarkRefusal, Observer, Refusal, Result};

/// The longest annotation, in bytes.
pub const ANNOTATION_BYTES_MAX: usize = 16 << 10;

/// The text of an annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(String);

impl Text {
    /// The text as it is recorded: without blank lines around it, and with `\n` at the end of lines. Refuses what is empty, too long, or
    /// steers a terminal.
    pub fn new(given: &str) -> Result<Self, Refusal> {
        let refused = |why| Err(Refusal::Mark(MarkRefusal::NoAnnotation { why }));
        let text = given.replace("\r\n", "\n");
        let text = text.trim_end().trim_start_matches('\n');
        match text {
            _ if text.trim().is_empty() => refused("it is empty"),
            _ if text.len() > ANNOTATION_BYTES_MAX => refused("it has more than 16384 bytes"),
            _ if text.chars().any(|c| c.is_control() && c != '\n' && c != '\t') => {
                refused("it has control characters, which change how a terminal shows it; only newlines and tabs may be in it")
            }
            _ => Ok(Text(text.to_owned())),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Adds an annotation to a checkpoint. Returns it, and the number that the checkpoint has now.
pub fn annotate(
    store: &Store,
    host: &dyn Host,
    checkpoint: Ulid,
    text: &Text,
    observer: &dyn Observer,
) -> Result<(Annotation, usize)> {
    let actor = ensure_may_mark(store, host, "checkpoint annotate", checkpoint, observer)?.actor(host);
    let (before, appended) = mark(store, checkpoint, observer, &|marks| {
        let event = NewEvent::new(kind::CHECKPOINT_ANNOTATED, checkpoint.to_string(), actor.clone());
        Ok((vec![event.with("text", text.as_str())], marks.annotations.len()))
    })?;
    let timestamp = appended.first().map_or_else(|| host.now(), |appended| appended.event.at);
    Ok((Annotation { timestamp, user: actor.user, text: text.0.clone() }, before + 1))
}

/// The annotations of one checkpoint, also of a deleted one, in the order in which they were made; or those of all checkpoints that exist, in
/// the order of commits.
pub fn annotations(view: &View, checkpoint: Option<Ulid>) -> Result<Vec<(Ulid, Annotation)>> {
    let of = |id: Ulid, said: Vec<Annotation>| said.into_iter().map(move |annotation| (id, annotation));
    if let Some(id) = checkpoint {
        let marks = view.marks(id)?;
        if marks.deleted.is_none() && view.sequence(id)?.is_none() {
            return Err(StoreError::NoCheckpoint { selector: id.to_string() }.into());
        }
        return Ok(of(id, marks.annotations).collect());
    }
    let mut found = Vec::new();
    for id in view.annotated()? {
        if let Some(sequence) = view.sequence(id)? {
            found.push((sequence, id, view.marks(id)?.annotations));
        }
    }
    found.sort_by_key(|(sequence, ..)| *sequence);
    Ok(found.into_iter().flat_map(|(_, id, said)| of(id, said)).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_text_is_lines_of_what_can_be_shown() {
        let text = |given: &str| Text::new(given).map(|text| text.0);
        assert_eq!(text("\n\n  one\r\n\ttwo ✓\n\n").unwrap(), "  one\n\ttwo ✓");
        for (bad, why) in
            [("", "empty"), (" \n\t", "empty"), ("a\x1b[2Jb", "control"), ("a\rb", "control"), ("a\u{9b}b", "control")]
        {
            assert!(text(bad).unwrap_err().to_string().contains(why), "{bad:?}");
        }
        assert!(text(&"x".repeat(ANNOTATION_BYTES_MAX)).is_ok());
        assert!(text(&"x".repeat(ANNOTATION_BYTES_MAX + 1)).unwrap_err().to_string().contains("16384"));
    }

    proptest! {
        #[test]
        fn what_is_recorded_is_recorded_as_it_is(given in "[ -~\\n\\r\\t\\x1b]{0,40}|\\PC{0,40}") {
            if let Ok(text) = Text::new(&given) {
                prop_assert_eq!(Text::new(text.as_str()).unwrap(), text);
            }
        }
    }
}
