//! Patterns in the summaries of a project's sessions that are worth remembering. They are suggested; a person accepts them or not.

use std::collections::{BTreeMap, BTreeSet};

use parhelia_agent::transcript::story::NO_STEP;
use parhelia_ledger::{LedgerView as _, Session};
use parhelia_store::Store;

use super::{AddedBy, New, SavedEntry, add, document::Memory, ensure_person, file, project::Project};
use crate::summary::{self, Summary};
use parhelia_host::{Host, KnowledgeRefusal, Refusal, Result};
use schemars::JsonSchema;
use serde::Serialize;

/// A pattern is one from so many sessions on.
const SESSIONS_MIN: usize = 2;
/// So many of the project's sessions are looked at, the newest ones.
const SESSIONS_MAX: usize = 50;

/// Something that is worth remembering.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Suggestion {
    /// Its id, the same each time.
    pub id: String,
    /// The key under which it would be remembered.
    pub key: String,
    /// Knowledge in words, which becomes an entry once it is accepted.
    pub text: String,
    /// Files that matter for it.
    pub files: Vec<String>,
    /// Sessions in which it was seen.
    pub sessions: Vec<String>,
}

/// The suggestions of a project's sessions, but for what is known already or was dismissed.
pub fn suggestions(store: &Store, project: &Project, memory: &Memory) -> Result<Vec<Suggestion>> {
    let mut told = Vec::new();
    for session in sessions_of(store, project)? {
        let Some(head) = store.view().head(&session.id)? else { continue };
        told.extend(summary::read(store, &head)?.map(|summary| (session.id, summary)));
    }
    let mut found = fixes(&told);
    found.extend(documents(&told));
    let is_known = |suggestion: &Suggestion| {
        memory.dismissed.contains(&suggestion.id) || memory.knowledge.all().any(|(_, entry)| entry.description == suggestion.text)
    };
    found.retain(|suggestion| !is_known(suggestion));
    Ok(found)
}

/// The newest sessions of a project in which an agent worked. Which project a folder is of is read from its repository, so no more are
/// looked at than are taken.
fn sessions_of(store: &Store, project: &Project) -> Result<Vec<Session>> {
    let mut sessions = store.view().sessions()?;
    sessions.sort_by_key(|session| std::cmp::Reverse(session.changed_at));
    let root = &store.layout().root;
    let is_its = |session: &Session| {
        let folder = session.workspace.as_ref().map(parhelia_ledger::Place::folder);
        session.run.is_some() && folder.is_some_and(|folder| Project::of(root, &folder, Some(session)).id == project.id)
    };
    Ok(sessions.into_iter().filter(is_its).take(SESSIONS_MAX).collect())
}

/// Commands that failed in several sessions, and that the same step made pass.
fn fixes(told: &[(String, Summary)]) -> Vec<Suggestion> {
    let mut seen: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for (session, summary) in told {
        for approach in summary.approaches.iter().filter(|approach| approach.failed) {
            // How often it failed is no part of the pattern.
            let what = approach.what.rsplit_once("` (").map_or(approach.what.as_str(), |(what, _)| what).trim_matches('`');
            // That it passed when it ran again helps nobody.
            if let Some(fix) = approach.resolved_by.as_deref().filter(|fix| *fix != NO_STEP) {
                seen.entry((what, fix)).or_default().insert(session);
            }
        }
    }
    let seen = seen.into_iter().filter(|(_, sessions)| sessions.len() >= SESSIONS_MIN);
    seen.map(|((what, fix), sessions)| suggestion("gotchas", format!("`{what}` fails until: {fix}"), Vec::new(), sessions))
        .collect()
}

/// Documents that most sessions have read.
fn documents(told: &[(String, Summary)]) -> Vec<Suggestion> {
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (session, summary) in told {
        for document in &summary.relevant_docs {
            seen.entry(document).or_default().insert(session);
        }
    }
    let is_usual = |sessions: &BTreeSet<&str>| sessions.len() >= SESSIONS_MIN && sessions.len() * 2 > told.len();
    let usual = seen.into_iter().filter(|(_, sessions)| is_usual(sessions));
    usual
        .map(|(document, sessions)| {
            suggestion("architecture", format!("{document} is read in most sessions"), vec![document.to_owned()], sessions)
        })
        .collect()
}

fn suggestion(key: &str, text: String, files: Vec<String>, sessions: BTreeSet<&str>) -> Suggestion {
    let id = blake3::hash(format!("{key}\0{text}").as_bytes()).to_hex()[..8].to_owned();
    Suggestion { id, key: key.into(), text, files, sessions: sessions.into_iter().map(str::to_owned).collect() }
}

fn named<'a>(found: &'a [Suggestion], id: &str) -> Result<&'a Suggestion> {
    found
        .iter()
        .find(|one| one.id == id)
        .ok_or_else(|| Refusal::Knowledge(KnowledgeRefusal::NotSuggested { id: id.to_owned() }).into())
}

/// Remembers a suggestion, as a person wants it.
pub fn accept(store: &Store, host: &dyn Host, project: &Project, memory: &Memory, id: &str) -> Result<SavedEntry> {
    ensure_person(store, host, "memory suggest --accept")?;
    let found = suggestions(store, project, memory)?;
    let suggestion = named(&found, id)?;
    let new =
        New { key: suggestion.key.clone(), text: suggestion.text.clone(), files: suggestion.files.clone(), replaces: false };
    let session = suggestion.sessions.last().cloned();
    add(&store.layout().root, project, &new, (AddedBy::Suggestion, session), host.now())
}

/// Has a suggestion never be made again, as a person wants it.
pub fn dismiss(store: &Store, host: &dyn Host, project: &Project, memory: &Memory, id: &str) -> Result<()> {
    ensure_person(store, host, "memory suggest --dismiss")?;
    named(&suggestions(store, project, memory)?, id)?;
    file::change(&store.layout().root, project, host.now(), |memory| {
        memory.dismissed.push(id.to_owned());
        Ok((true, ()))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_happens_again_is_suggested() {
        let told = |text: serde_json::Value| serde_json::from_value::<Summary>(text).unwrap();
        let failed = |fix: &str| json!([{"what": "`npm test` (2 times)", "failed": true, "resolved_by": fix}]);
        let all = [
            ("a".to_owned(), told(json!({"approaches": failed("npm ci"), "relevant_docs": ["docs/api.md", "README.md"]}))),
            ("b".to_owned(), told(json!({"approaches": failed("npm ci"), "relevant_docs": ["docs/api.md"]}))),
            ("c".to_owned(), told(json!({"approaches": failed("rm -r dist"), "relevant_docs": []}))),
        ];
        let fixes = fixes(&all);
        assert_eq!(fixes.len(), 1);
        assert_eq!(fixes[0].text, "`npm test` fails until: npm ci");
        assert_eq!(fixes[0].sessions, ["a", "b"]);
        let documents = documents(&all);
        assert_eq!(documents.len(), 1, "one session is no pattern");
        assert_eq!(documents[0].files, ["docs/api.md"]);
    }
}
