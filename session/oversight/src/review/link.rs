//! Links: the issues that a checkpoint has to do with, understood from an address or an id.
//!
//! | given | tracker | id |
//! |---|---|---|
//! | `https://github.com/OWNER/REPO/issues/12`, `…/pull/12`, `OWNER/REPO#12` | `github` | `OWNER/REPO#12` |
//! | `https://linear.app/TEAM/issue/ABC-123/slug`, `https://linear.app/issue/ABC-123` | `linear` | `ABC-123` |
//! | `bd-a1b2`, `bd-a1b2.3`, `beads:bd-a1b2` | `beads` | `bd-a1b2` |
//! | any other `http` or `https` URL | `url` | the URL |
//!
//! An address has no fragment, no trailing slash and no default port; of a known tracker it has no query either. A query of another URL
//! stays: in Bugzilla's `show_bug.cgi?id=7` it is the issue. `ABC-123` alone is refused: it may be of Linear or of Jira, and of which team
//! is not said.

use std::collections::BTreeSet;

use fluent_uri::{Iri, Uri};
use parhelia_ledger::{
    Issue, LedgerView as _,
    kind::{self, LINK_ASKED, LINK_CREATED},
};
use parhelia_store::{
    Store,
    event::{Actor, NewEvent},
    id::Ulid,
    view::View,
};

use super::{acts::ensure_may_mark, distinct, mark};
use crate::who::{is_persons, who};
use parhelia_host::{Host, MarkRefusal, Observer, Refusal, Result};

/// The longest link, in bytes.
pub const LINK_BYTES_MAX: usize = 2000;

const BEADS: &str = "beads:";

/// The issue that a text names.
pub fn parse(text: &str) -> Result<Issue, Refusal> {
    understood(text).map_err(|why| Refusal::Mark(MarkRefusal::NoLink { link: text.to_owned(), why }))
}

fn understood(text: &str) -> Result<Issue, &'static str> {
    if text.len() > LINK_BYTES_MAX {
        return Err("it has more than 2000 bytes");
    }
    let id = text.strip_prefix(BEADS).unwrap_or(text);
    if is_beads(id) {
        return Ok(Issue { tracker: "beads".into(), id: id.to_owned(), url: format!("{BEADS}{id}") });
    }
    if let Some((owner, repository, number)) = short(text) {
        return github(owner, repository, "issues", number);
    }
    if is_key(text) {
        return Err("it may be an issue of Linear or of Jira: give its URL");
    }
    // As people write them.
    let has_no_scheme = ["github.com/", "www.github.com/", "linear.app/"].iter().any(|host| text.starts_with(host));
    if has_no_scheme { address(&format!("https://{text}")) } else { address(text) }
}

/// OWNER, REPO and 12 of `OWNER/REPO#12`.
fn short(text: &str) -> Option<(&str, &str, &str)> {
    let (repository, number) = text.split_once('#')?;
    let (owner, name) = repository.split_once('/')?;
    (!name.contains('/') && !repository.contains(':')).then_some((owner, name, number))
}

/// True of an id as Beads makes them: a prefix in lower case, a hash or a number, and the places of sub-tasks.
fn is_beads(id: &str) -> bool {
    let mut parts = id.split('.');
    let Some((prefix, hash)) = parts.next().and_then(|head| head.rsplit_once('-')) else { return false };
    let is_of_word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_prefix = prefix.starts_with(|c: char| c.is_ascii_lowercase())
        && prefix.len() <= 64
        && prefix.bytes().all(|b| is_of_word(b) || b == b'-' || b == b'_');
    let is_hash = (3..=8).contains(&hash.len()) && hash.bytes().all(is_of_word) || is_number(hash);
    is_prefix && is_hash && parts.all(is_number)
}

/// True of a number of an issue.
fn is_number(text: &str) -> bool {
    (1..=10).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0')
}

/// True of a key such as `ABC-123`.
fn is_key(text: &str) -> bool {
    let Some((team, number)) = text.split_once('-') else { return false };
    let is_team = team.starts_with(|c: char| c.is_ascii_alphabetic()) && team.len() <= 32;
    is_team && team.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && is_number(number)
}

fn address(text: &str) -> Result<Issue, &'static str> {
    let parsed = Iri::parse(text).map_err(|_| "it is neither a URL nor an id that is known")?;
    let uri = parsed.to_uri().normalize();
    if !matches!(uri.scheme().as_str(), "http" | "https") {
        return Err("its scheme is neither http nor https");
    }
    let Some(authority) = uri.authority().filter(|authority| !authority.host().is_empty()) else {
        return Err("it names no host");
    };
    if authority.port_to_u16().is_err() {
        return Err("its port is none");
    }
    if authority.has_userinfo() {
        return Err("it has a user or a password in it, which would be recorded");
    }
    let parts: Vec<&str> = uri.path().as_str().split('/').filter(|part| !part.is_empty()).collect();
    match (authority.as_str(), parts.as_slice()) {
        ("github.com" | "www.github.com", [owner, repository, place @ ("issues" | "pull"), number, ..]) => {
            github(owner, repository, place, number)
        }
        ("linear.app", [team, "issue", key, ..]) => linear(&format!("{team}/"), key),
        // The address without a team, which Linear completes for whoever is logged in.
        ("linear.app", ["issue", key, ..]) => linear("", key),
        (authority, _) => Ok(plain(&uri, authority)),
    }
}

fn github(owner: &str, repository: &str, place: &str, number: &str) -> Result<Issue, &'static str> {
    let is_name = |name: &str| {
        let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        (1..=100).contains(&name.len()) && !matches!(name, "." | "..") && name.bytes().all(is_allowed)
    };
    if !is_name(owner) || !is_name(repository) {
        return Err("it names no repository of GitHub");
    }
    if !is_number(number) {
        return Err("the number of its issue or pull request is none");
    }
    let url = format!("https://github.com/{owner}/{repository}/{place}/{number}");
    Ok(Issue { tracker: "github".into(), id: format!("{owner}/{repository}#{number}"), url })
}

/// The issue of a key. `place` is what stands in its address before `issue`.
fn linear(place: &str, key: &str) -> Result<Issue, &'static str> {
    if !is_key(key) {
        return Err("its issue is not called as Linear calls them, such as ABC-123");
    }
    let id = key.to_ascii_uppercase();
    Ok(Issue { tracker: "linear".into(), url: format!("https://linear.app/{place}issue/{id}"), id })
}

fn plain(uri: &Uri<String>, authority: &str) -> Issue {
    let query = uri.query().map(|query| query.as_str()).filter(|query| !query.is_empty());
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let url = format!("{}://{authority}{}{query}", uri.scheme().as_str(), uri.path().as_str().trim_end_matches('/'));
    Issue { tracker: "url".into(), id: url.clone(), url }
}

/// True if two links name the same issue. GitHub numbers issues and pull requests together.
pub fn are_same(one: &Issue, other: &Issue) -> bool {
    let are_equal = match one.tracker.as_str() {
        "github" | "linear" => one.id.eq_ignore_ascii_case(&other.id),
        _ => one.id == other.id,
    };
    one.tracker == other.tracker && are_equal
}

/// The checkpoints that are linked to one of some issues. Deleted ones are not among them.
pub fn linked(view: &View, issues: &[Issue]) -> Result<BTreeSet<Ulid>> {
    let is_meant = |url: &str| parse(url).is_ok_and(|known| issues.iter().any(|issue| are_same(&known, issue)));
    let mut found = BTreeSet::new();
    for id in view.links()?.into_iter().filter(|(url, _)| is_meant(url)).flat_map(|(_, ids)| ids) {
        if view.sequence(id)?.is_some() {
            found.insert(id);
        }
    }
    Ok(found)
}

/// The issues that checkpoints of a session are linked to, each with true where no person has asked for it, or confirmed it, on any of them.
pub fn of_session(view: &View, session: &str) -> Result<Vec<(Issue, bool)>> {
    let mut found = Vec::new();
    for (url, checkpoints) in view.links()? {
        let mut asked = None;
        for id in checkpoints {
            if view.checkpoint(id)?.is_some_and(|checkpoint| checkpoint.record.session == session) {
                asked = Some(asked.unwrap_or(true) && view.marks(id)?.asked.contains(&url));
            }
        }
        found.extend(asked.and_then(|asked| Some((parse(&url).ok()?, asked))));
    }
    Ok(found)
}

/// The outcome of [`link()`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkOutcome {
    /// Issues that it was not linked to before.
    pub added: Vec<Issue>,
    /// Issues that it was linked to already, as they are recorded.
    pub had: Vec<Issue>,
    /// Links that were asked for before, and that this person confirms.
    pub confirmed: Vec<Issue>,
    /// All issues that it is linked to now.
    pub links: BTreeSet<Issue>,
    /// Those of them that no person has asked for, or confirmed: nobody writes there unless it is an issue of the workspace's own place.
    pub asked: Vec<Issue>,
}

/// Links a checkpoint to issues. A person's link confirms one that an agent asked for.
pub fn link(store: &Store, host: &dyn Host, checkpoint: Ulid, issues: &[Issue], observer: &dyn Observer) -> Result<LinkOutcome> {
    let who = ensure_may_mark(store, host, "checkpoint link", checkpoint, observer)?;
    let found = store.view().checkpoint(checkpoint)?;
    let is_persons = found.map(|found| is_persons(store, host, &found.record.session)).transpose()?.unwrap_or_default();
    let by = By { actor: who.actor(host), is_asked: !is_persons, confirms: is_persons };
    link_by(store, &|event| event, &by, checkpoint, issues, observer)
}

/// Links a checkpoint to issues by a program, each at most once under a key that begins so: a link that a person removed does not come again.
pub fn link_once(store: &Store, program: &str, key: &str, checkpoint: Ulid, issues: &[Issue]) -> Result<LinkOutcome> {
    link_by_program(store, program, key, &|event| event, checkpoint, issues)
}

/// Links a checkpoint to an issue that a program has created for its session, as [`link_once()`] does.
pub fn link_created(store: &Store, program: &str, key: &str, checkpoint: Ulid, issue: &Issue) -> Result<LinkOutcome> {
    let created = |event: NewEvent| event.with(LINK_CREATED, true);
    link_by_program(store, program, key, &created, checkpoint, std::slice::from_ref(issue))
}

fn link_by_program(
    store: &Store,
    program: &str,
    key: &str,
    made: &dyn Fn(NewEvent) -> NewEvent,
    checkpoint: Ulid,
    issues: &[Issue],
) -> Result<LinkOutcome> {
    let once = |event: NewEvent| {
        let url = event.data.get("url").and_then(|url| url.as_str()).unwrap_or_default();
        let key = format!("{key}:{url}");
        made(event.once(key))
    };
    let by = By { actor: Actor::program(program), is_asked: false, confirms: false };
    link_by(store, &once, &by, checkpoint, issues, &())
}

/// Whoever links.
struct By {
    actor: Actor,
    /// True if the link waits for a person.
    is_asked: bool,
    /// True if links that wait are confirmed.
    confirms: bool,
}

fn link_by(
    store: &Store,
    made: &dyn Fn(NewEvent) -> NewEvent,
    by: &By,
    checkpoint: Ulid,
    issues: &[Issue],
    observer: &dyn Observer,
) -> Result<LinkOutcome> {
    let issues = distinct(issues, are_same);
    let (linked, _) = mark(store, checkpoint, observer, &|marks| {
        let known = |issue: &Issue| marks.links.iter().find(|known| are_same(known, issue)).cloned();
        let had: Vec<Issue> = issues.iter().filter_map(known).collect();
        let added: Vec<Issue> = issues.iter().filter(|issue| known(issue).is_none()).cloned().collect();
        let links = marks.links.iter().chain(&added).cloned().collect();
        let confirmed: Vec<Issue> = had.iter().filter(|issue| by.confirms && marks.is_asked(issue)).cloned().collect();
        let waiting = marks.links.iter().filter(|issue| marks.is_asked(issue) && !confirmed.contains(issue));
        let asked = waiting.chain(added.iter().filter(|_| by.is_asked)).cloned().collect();
        let event = |issue: &Issue| {
            let event = NewEvent::new(kind::CHECKPOINT_LINKED, checkpoint.to_string(), by.actor.clone());
            let event = if by.is_asked { event.with(LINK_ASKED, true) } else { event };
            made(event.with("tracker", issue.tracker.as_str()).with("id", issue.id.as_str()).with("url", issue.url.as_str()))
        };
        let events = added.iter().chain(&confirmed).map(event).collect();
        Ok((events, LinkOutcome { added, had, confirmed, links, asked }))
    })?;
    Ok(linked)
}

/// The outcome of [`unlink()`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnlinkOutcome {
    /// The links that are gone.
    pub removed: Vec<Issue>,
    /// Those that are left.
    pub links: BTreeSet<Issue>,
}

/// Removes links of a checkpoint, all or none. Fails where it is not linked to one of the issues.
pub fn unlink(
    store: &Store,
    host: &dyn Host,
    checkpoint: Ulid,
    issues: &[Issue],
    observer: &dyn Observer,
) -> Result<UnlinkOutcome> {
    let (issues, who) = (distinct(issues, are_same), who(store, host, &[])?);
    let (unlinked, _) = mark(store, checkpoint, observer, &|marks| {
        let is_meant = |known: &&Issue| issues.iter().any(|issue| are_same(known, issue));
        if let Some(missing) = issues.iter().find(|issue| !marks.links.iter().any(|known| are_same(known, issue))) {
            let has = marks.links.iter().map(|known| known.url.clone()).collect();
            return Err(Refusal::Mark(MarkRefusal::NotLinked { checkpoint, link: missing.url.clone(), has }));
        }
        let (removed, left): (Vec<&Issue>, Vec<&Issue>) = marks.links.iter().partition(is_meant);
        let barred = |issue: &&Issue| Some((issue.url.clone(), who.may_not_unmark(checkpoint, marks, &issue.url)?));
        if let Some((url, refusal)) = removed.iter().copied().find_map(|issue| barred(&issue)) {
            return Ok((vec![who.unmarking_refused(host, checkpoint, ("url", &url))], Err(refusal)));
        }
        let event = |issue: &&Issue| {
            NewEvent::new(kind::CHECKPOINT_UNLINKED, checkpoint.to_string(), who.actor(host)).with("url", issue.url.as_str())
        };
        let events = removed.iter().map(event).collect();
        let unlinked =
            UnlinkOutcome { removed: removed.into_iter().cloned().collect(), links: left.into_iter().cloned().collect() };
        Ok((events, Ok(unlinked)))
    })?;
    Ok(unlinked?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn issues_are_known_by_their_address_and_their_id() {
        let github = "https://github.com/Owner/repo.rs/issues/12";
        let cases = [
            (github, "github", "Owner/repo.rs#12", github),
            ("HTTP://www.GitHub.com:80/Owner/repo.rs/issues/12/?x=1#issuecomment-7", "github", "Owner/repo.rs#12", github),
            ("github.com/Owner/repo.rs/issues/12", "github", "Owner/repo.rs#12", github),
            ("Owner/repo.rs#12", "github", "Owner/repo.rs#12", github),
            ("https://github.com/o/r/pull/3/files", "github", "o/r#3", "https://github.com/o/r/pull/3"),
            ("https://github.com/o/r/commit/3", "url", "https://github.com/o/r/commit/3", "https://github.com/o/r/commit/3"),
            ("https://linear.app/acme/issue/eng-12/slow-start?a=b", "linear", "ENG-12", "https://linear.app/acme/issue/ENG-12"),
            ("https://linear.app/issue/ENG-12", "linear", "ENG-12", "https://linear.app/issue/ENG-12"),
            ("bd-a1b2", "beads", "bd-a1b2", "beads:bd-a1b2"),
            ("my-project-a3f8e9.1.12", "beads", "my-project-a3f8e9.1.12", "beads:my-project-a3f8e9.1.12"),
            ("ph-42", "beads", "ph-42", "beads:ph-42"),
            ("https://Bugs.example:443/show_bug.cgi?id=7#c1", "url", "https://bugs.example/show_bug.cgi?id=7", ""),
            ("https://example.com/a/../b/", "url", "https://example.com/b", ""),
            ("https://example.com/größe", "url", "https://example.com/gr%C3%B6%C3%9Fe", ""),
        ];
        for (given, tracker, id, url) in cases {
            let url = if url.is_empty() { id } else { url };
            let expected = Issue { tracker: tracker.into(), id: id.into(), url: url.into() };
            assert_eq!(parse(given).unwrap(), expected, "{given}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_with_the_reason() {
        let long = format!("https://example.com/{}", "x".repeat(LINK_BYTES_MAX));
        let cases = [
            ("", "neither a URL"),
            ("what?", "neither a URL"),
            ("https://exa mple.com", "neither a URL"),
            ("https://example.com/\x1b[2J", "neither a URL"),
            ("ABC-123", "Linear or of Jira"),
            ("ftp://example.com/1", "scheme"),
            ("file:///etc/passwd", "scheme"),
            ("https:///x", "no host"),
            ("https://me:secret@example.com/1", "password"),
            ("https://github.com/o/r/issues/x", "number"),
            ("https://github.com/o/r/issues/0", "number"),
            ("o/r#", "number"),
            ("o !/r#1", "repository"),
            ("https://linear.app/acme/issue/12", "ABC-123"),
            (long.as_str(), "2000"),
        ];
        for (given, why) in cases {
            let refused = parse(given).unwrap_err().to_string();
            assert!(refused.contains(why) && refused.contains("OWNER/REPO#12"), "{given}: {refused}");
        }
    }

    #[test]
    fn one_issue_is_one_however_it_is_called() {
        let same = |a: &str, b: &str| are_same(&parse(a).unwrap(), &parse(b).unwrap());
        assert!(same("o/r#1", "https://github.com/O/R/pull/1"));
        assert!(same("https://linear.app/a/issue/X-1/s", "https://linear.app/a/issue/x-1"));
        assert!(!same("o/r#1", "o/r#2") && !same("bd-abc", "https://example.com/bd-abc"));
    }

    proptest! {
        #[test]
        fn an_address_that_was_understood_is_its_own_address(
            text in "\\PC{0,40}|https?://[a-zA-Z.%0-9]{1,9}(:[0-9]{0,3})?(/[a-z.%2EeFf]{0,4}){0,5}(\\?[a-z=%]{0,5})?|\
                     (https://)?github.com/[a-z]{1,3}/[a-z.]{1,3}/(issues|pull)/[0-9]{1,3}/?|[a-z]{1,3}-[a-z0-9]{1,5}(\\.[0-9]){0,2}"
        ) {
            if let Ok(issue) = parse(&text) {
                prop_assert_eq!(parse(&issue.url).unwrap(), issue);
            }
        }
    }
}
