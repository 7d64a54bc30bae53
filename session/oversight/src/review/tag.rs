//! Tags: names of checkpoints, in folders as paths are, such as `release/1.2`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use globset::{GlobBuilder, GlobSet};
use parhelia_ledger::{LedgerView as _, kind};
use parhelia_store::{
    Store,
    event::{Actor, NewEvent},
    id::Ulid,
    name,
    view::View,
};

use super::{acts::ensure_may_mark, distinct, mark};
use crate::who::who;
use parhelia_host::{Host, MarkRefusal, Observer, Refusal, Result};

/// Characters that mean something in a [`Pattern`].
const WILDCARDS: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];

/// A tag. It is its own pattern, a word of a command line that is no flag, and may stand in a selector in front of `:path`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag(String);

impl Tag {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Tag {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        match fault(text) {
            None => Ok(Tag(text.to_owned())),
            Some(why) => Err(Refusal::Mark(MarkRefusal::NoTag { tag: text.to_owned(), why })),
        }
    }
}

/// The reason for which a text is no tag.
fn fault(text: &str) -> Option<&'static str> {
    match text {
        "" => Some("it is empty"),
        _ if text.len() > parhelia_ledger::TAG_BYTES_MAX => Some("it has more than 200 bytes"),
        _ if text.chars().any(char::is_whitespace) => Some("it has a space"),
        _ if text.chars().any(char::is_control) || name::printable(text) != text => Some("it has characters that cannot be seen"),
        _ if text.starts_with('-') => Some("it begins with '-', as flags do"),
        _ if text.contains(':') => Some("it has a ':', behind which a path stands in selectors"),
        _ if text.contains(WILDCARDS) => Some("it has one of * ? [ ] { } \\, which patterns use"),
        _ if text.split('/').any(str::is_empty) => Some("it has an empty part: '/' stands between two names"),
        _ if text.split('/').any(|part| matches!(part, "." | ".." | "@")) => Some("one of its parts is '.', '..' or '@'"),
        _ => None,
    }
}

/// A pattern of tags. `*` and `?` match within a part, `**` any number of parts. A pattern without wildcards matches the tag of that name,
/// and every tag below it.
#[derive(Clone, Debug)]
pub struct Pattern {
    matcher: GlobSet,
    /// The beginning of the tags below a name.
    below: Option<String>,
    /// The beginning of every tag that fits.
    begins: String,
}

impl Pattern {
    /// True if a tag fits.
    pub fn matches(&self, tag: &str) -> bool {
        self.matcher.is_match(tag) || self.below.as_ref().is_some_and(|below| tag.starts_with(below))
    }
}

impl FromStr for Pattern {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let refused = |why: String| Refusal::Mark(MarkRefusal::NoPattern { pattern: text.to_owned(), why });
        let text = text.strip_suffix('/').unwrap_or(text);
        if text.is_empty() {
            return Err(refused("it is empty".into()));
        }
        let glob = GlobBuilder::new(text).literal_separator(true).build().map_err(|e| refused(e.kind().to_string()))?;
        let below = (!text.contains(WILDCARDS)).then(|| format!("{text}/"));
        // A set says that a pattern is nested too deeply, where a single matcher panics.
        let matcher = GlobSet::builder().add(glob).build().map_err(|e| refused(e.kind().to_string()))?;
        let begins = text.split(WILDCARDS).next().unwrap_or_default().to_owned();
        Ok(Pattern { matcher, below, begins })
    }
}

/// The outcome of [`tag()`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagOutcome {
    /// Tags that it did not have before.
    pub added: Vec<Tag>,
    /// Tags that it had already, so that nothing was recorded.
    pub had: Vec<Tag>,
    /// All tags that it has now.
    pub tags: BTreeSet<String>,
}

/// Adds tags to a checkpoint.
pub fn tag(store: &Store, host: &dyn Host, checkpoint: Ulid, tags: &[Tag], observer: &dyn Observer) -> Result<TagOutcome> {
    let who = ensure_may_mark(store, host, "checkpoint tag", checkpoint, observer)?;
    let (tags, actor) = (distinct(tags, Tag::eq), who.actor(host));
    let (tagged, _) = mark(store, checkpoint, observer, &|marks| {
        let (had, added): (Vec<Tag>, Vec<Tag>) = tags.iter().cloned().partition(|tag| marks.tags.contains(tag.as_str()));
        let all = marks.tags.iter().cloned().chain(added.iter().map(Tag::to_string)).collect();
        let events = added.iter().map(|tag| event(kind::CHECKPOINT_TAGGED, &actor, checkpoint, tag)).collect();
        Ok((events, TagOutcome { added, had, tags: all }))
    })?;
    Ok(tagged)
}

/// Removes tags from a checkpoint, all or none, and returns those that it still has. Fails where it does not have one of them.
pub fn untag(
    store: &Store,
    host: &dyn Host,
    checkpoint: Ulid,
    tags: &[Tag],
    observer: &dyn Observer,
) -> Result<BTreeSet<String>> {
    let (tags, who) = (distinct(tags, Tag::eq), who(store, host, &[])?);
    let (left, _) = mark(store, checkpoint, observer, &|marks| {
        if let Some(missing) = tags.iter().find(|tag| !marks.tags.contains(tag.as_str())) {
            let has = marks.tags.iter().cloned().collect();
            return Err(Refusal::Mark(MarkRefusal::NotTagged { checkpoint, tag: missing.to_string(), has }));
        }
        if let Some((tag, refusal)) =
            tags.iter().find_map(|tag| Some((tag, who.may_not_unmark(checkpoint, marks, tag.as_str())?)))
        {
            return Ok((vec![who.unmarking_refused(host, checkpoint, ("tag", tag.as_str()))], Err(refusal)));
        }
        let left = marks.tags.iter().filter(|has| !tags.iter().any(|tag| tag.as_str() == has.as_str())).cloned().collect();
        let events = tags.iter().map(|tag| event(kind::CHECKPOINT_UNTAGGED, &who.actor(host), checkpoint, tag)).collect();
        Ok((events, Ok(left)))
    })?;
    Ok(left?)
}

fn event(kind: &str, actor: &Actor, checkpoint: Ulid, tag: &Tag) -> NewEvent {
    NewEvent::new(kind, checkpoint.to_string(), actor.clone()).with("tag", tag.as_str())
}

/// A tag that checkpoints bear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InUse {
    /// The tag as text, such as `release/1.2`.
    pub tag: String,
    /// The newest checkpoint that bears it, in the order of commits.
    pub newest: Ulid,
    /// The number of checkpoints that bear it.
    pub checkpoints: usize,
}

/// The tags in use that fit one of the patterns, or all where there is none, in order. Reads no checkpoints.
pub fn in_use(view: &View, patterns: &[Pattern]) -> Result<Vec<InUse>> {
    let mut found = Vec::new();
    for (tag, ids) in beginning(view, patterns)?.into_iter().filter(|(tag, _)| fits(tag, patterns)) {
        let sequences = ids.into_iter().map(|id| Ok(view.sequence(id)?.map(|sequence| (sequence, id))));
        let existing = sequences.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect::<BTreeSet<(u64, Ulid)>>();
        if let Some((_, newest)) = existing.last() {
            found.push(InUse { tag, newest: *newest, checkpoints: existing.len() });
        }
    }
    Ok(found)
}

/// The checkpoints that bear a tag which fits one of the patterns, deleted ones included.
pub fn bearing(view: &View, patterns: &[Pattern]) -> Result<BTreeSet<Ulid>> {
    let fitting = beginning(view, patterns)?.into_iter().filter(|(tag, _)| fits(tag, patterns));
    Ok(fitting.flat_map(|(_, ids)| ids).collect())
}

/// The tags that begin as every one of some patterns does, among which are all that fit one.
fn beginning(view: &View, patterns: &[Pattern]) -> Result<BTreeMap<String, BTreeSet<Ulid>>> {
    match patterns {
        [only] => Ok(view.tags_beginning(&only.begins)?),
        _ => Ok(view.tags()?),
    }
}

fn fits(tag: &str, patterns: &[Pattern]) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(tag))
}

#[cfg(test)]
mod tests {
    use parhelia_ledger::selector::split;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tags_are_names_in_folders_and_nothing_else() {
        for tag in ["stable", "milestone/v1.0", "experiment/approach-a", "größe/1", "a@b", "x,y", "a/-b", &"x".repeat(200)] {
            assert_eq!(tag.parse::<Tag>().unwrap().to_string(), tag);
        }
        let long = "x".repeat(201);
        let bad = [
            ("", "empty"),
            (long.as_str(), "200"),
            ("a b", "space"),
            ("a\u{a0}b", "space"),
            ("a\nb", "space"),
            ("a\x1b[2J", "cannot be seen"),
            ("a\u{202e}b", "cannot be seen"),
            ("-x", "flags"),
            ("a:b", "':'"),
            ("a*", "patterns"),
            ("a\\b", "patterns"),
            ("/a", "empty part"),
            ("a//b", "empty part"),
            ("a/", "empty part"),
            ("a/../b", "'..'"),
            ("a/@", "'@'"),
        ];
        for (tag, why) in bad {
            let refused = tag.parse::<Tag>().unwrap_err().to_string();
            assert!(refused.contains(why), "{tag:?}: {refused}");
        }
    }

    #[test]
    fn patterns_go_by_the_parts_of_a_tag() {
        let matched = |pattern: &str| {
            let pattern: Pattern = pattern.parse().unwrap();
            let tags = ["release", "release/1", "release/1/rc", "released", "v1", "x/v1", "x/y/v1"];
            tags.into_iter().filter(|tag| pattern.matches(tag)).collect::<Vec<_>>()
        };
        assert_eq!(matched("release"), ["release", "release/1", "release/1/rc"]);
        assert_eq!(matched("release/"), ["release", "release/1", "release/1/rc"]);
        assert_eq!(matched("release/*"), ["release/1"]);
        assert_eq!(matched("release/**"), ["release/1", "release/1/rc"]);
        assert_eq!(matched("release*"), ["release", "released"]);
        assert_eq!(matched("**/v1"), ["v1", "x/v1", "x/y/v1"]);
        assert_eq!(matched("{v1,x/*}"), ["v1", "x/v1"]);
        assert_eq!(matched("**").len(), 7);
        for bad in ["", "/", "a[", "{a"] {
            assert!(matches!(bad.parse::<Pattern>(), Err(Refusal::Mark(MarkRefusal::NoPattern { .. }))), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_tag_is_its_own_text_and_its_own_pattern(text in "\\PC{0,40}|[-a-z@:./*]{0,12}") {
            let _ = text.parse::<Pattern>();
            if let Ok(tag) = text.parse::<Tag>() {
                prop_assert_eq!(tag.as_str(), &text);
                prop_assert!(text.parse::<Pattern>().unwrap().matches(&text));
                for selector in [format!("tag:{text}"), format!("s@tag:{text}")] {
                    let with_path = format!("{selector}:a:b");
                    prop_assert_eq!(split(&with_path), (selector.as_str(), Some("a:b")));
                    prop_assert_eq!(split(&selector), (selector.as_str(), None));
                }
            }
        }
    }
}
