//! Lessons of a project's sessions: architecture, conventions, pitfalls, and the outcomes of earlier sessions. One
//! document for each project, beside the checkpoints, which no rollback touches.

mod adopt;
mod document;
mod file;
mod project;
mod recall;
mod suggest;
#[cfg(test)]
mod tests;

use std::path::Path;

use jiff::Timestamp;
use parhelia_agent::environment::redact;
use parhelia_ledger::{ApprovalStatus, LedgerView as _};
use parhelia_store::{Store, record::Checkpoint};
use serde_json::Map;

pub use adopt::{adopt, unadopted};
pub use document::{AddedBy, Entry, Knowledge, Memory, Outcome, Section};
pub use file::{ensure_known, projects};
pub use project::Project;
pub use recall::{Hit, recall, relevant, said};
pub use suggest::{Suggestion, accept, dismiss, suggestions};

use crate::summary;
use parhelia_host::{
    Error, Host, KnowledgeRefusal, Refusal, Result,
    person::Via,
    run::{belongs_to, own_run},
};
use parhelia_oversight::{
    approval::rejections::Rejections,
    review::acts::{self, ensure_may_unsay},
    scan::Detector,
    who::who,
};

/// The longest text of an entry, in bytes.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 100;
/// The most files that an entry names, and the longest name of one, in bytes.
const FILES_MAX: usize = 50;
const FILE_BYTES_MAX: usize = 1 << 10;
/// No more sessions are remembered, the newest ones.
const SESSIONS_MAX: usize = 500;

/// Something that is to be remembered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct New {
    /// Section and name: `conventions.testing`, `gotchas`; any other key is a note's name.
    pub key: String,
    /// The knowledge in words, at most 4 KiB.
    pub text: String,
    /// Files that matter for it.
    pub files: Vec<String>,
    /// True if it takes the place of what has the same section and name.
    pub replaces: bool,
}

/// Something that was remembered.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedEntry {
    /// Section that it was put in, by its key.
    pub section: Section,
    /// The entry as the document has it now.
    pub entry: Entry,
    /// Entries of the same name that say something else.
    pub contradicts: Vec<Entry>,
    /// False if the same was known already.
    pub is_new: bool,
}

/// The memory of a project.
pub fn read(store: &Path, project: &Project, now: Timestamp) -> Result<Memory> {
    file::read(store, project, now)
}

/// Remembers something.
pub fn save(store: &Store, host: &dyn Host, project: &Project, new: &New) -> Result<SavedEntry> {
    let run = belongs_to(store, host)?;
    let is_agent = run.is_some() || is_agent(store, host)?;
    let by = if is_agent { AddedBy::Agent } else { AddedBy::Person };
    let run = run.map_or_else(|| own_run(store, host), |run| Ok(Some(run)))?;
    if new.replaces {
        let (section, key) = Section::of(&new.key);
        let is_meant = |each: Section, entry: &Entry| each == section && key.is_some() && entry.key.as_deref() == key;
        ensure_may_remove(store, host, project, "memory save --replace", &is_meant)?;
    }
    add(&store.layout().root, project, new, (by, run.map(|run| run.session)), host.now())
}

/// Remembers something for the agent of a session, whoever has started the process that asks.
pub fn save_for_agent(
    store: &Store,
    host: &dyn Host,
    project: &Project,
    new: &New,
    session: Option<String>,
) -> Result<SavedEntry> {
    add(&store.layout().root, project, new, (AddedBy::Agent, session), host.now())
}

/// Has a folder share what is known of the project that it says it is of, as a person wants it. Returns the folder; none where that was so.
pub fn confirm(store: &Store, host: &dyn Host, project: &Project) -> Result<Option<String>> {
    ensure_person(store, host, "memory confirm")?;
    let Some(folder) = project.folder.clone() else { return Ok(None) };
    if file::is_confirmed(&store.layout().root, project, &folder) {
        return Ok(None);
    }
    file::change(&store.layout().root, project, host.now(), |memory| {
        memory.folders.push(folder.clone());
        Ok((true, Some(folder.clone())))
    })
}

/// Fails where an agent would have its folder know what is known of another project. The attempt is recorded.
pub fn ensure_person(store: &Store, host: &dyn Host, words: &str) -> Result<()> {
    acts::ensure_person(store, host, words, None, &())
}

/// True if an agent acts, or something that it has started, or may have started unseen.
fn is_agent(store: &Store, host: &dyn Host) -> Result<bool> {
    let says_so = host.call().is_agents || host.actor().via == Via::Agent.name();
    Ok(says_so || who(store, host, &[])?.why_not_person().is_some())
}

/// Remembers something that somebody has found out in a session.
fn add(
    store: &Path,
    project: &Project,
    new: &New,
    (by, session): (AddedBy, Option<String>),
    now: Timestamp,
) -> Result<SavedEntry> {
    ensure_sane(new)?;
    let (section, key) = Section::of(&new.key);
    let entry = Entry {
        id: new_id(),
        key: key.map(str::to_owned),
        description: new.text.trim().to_owned(),
        key_files: new.files.clone(),
        discovered_in: session,
        added_at: now,
        added_by: by,
        extra: Map::new(),
    };
    file::change(store, project, now, |memory| {
        let known = memory.knowledge.of_mut(section);
        // An agent adds nothing to what is not an agent's.
        let may_add = |other: &Entry| by != AddedBy::Agent || other.added_by == AddedBy::Agent;
        let is_same = |other: &&Entry| other.key == entry.key && other.description == entry.description && may_add(other);
        if let Some(place) = known.iter().position(|other| is_same(&other)).filter(|_| !new.replaces) {
            let same = &mut known[place];
            let more: Vec<String> = new.files.iter().filter(|file| !same.key_files.contains(file)).cloned().collect();
            let has_changed = !more.is_empty();
            if has_changed && same.key_files.len() + more.len() > FILES_MAX {
                return Err(Error::Invalid(format!(
                    "it cannot be remembered: {FILES_MAX} files may be named, with those that it has already"
                )));
            }
            same.key_files.extend(more);
            let same = same.clone();
            let contradicts = memory.knowledge.contradictory(section, &same).into_iter().cloned().collect();
            return Ok((has_changed, SavedEntry { section, entry: same, contradicts, is_new: false }));
        }
        if new.replaces {
            let is_kept = |other: &Entry| by == AddedBy::Agent && other.added_by != AddedBy::Agent;
            known.retain(|other| other.key != entry.key || entry.key.is_none() || is_kept(other));
        }
        known.push(entry.clone());
        let contradicts = memory.knowledge.contradictory(section, &entry).into_iter().cloned().collect();
        Ok((true, SavedEntry { section, entry, contradicts, is_new: true }))
    })
}

fn ensure_sane(new: &New) -> Result<()> {
    let refused = |why: String| Err(Error::Invalid(format!("it cannot be remembered: {why}")));
    let is_steering = |text: &str| text.chars().any(|c| c.is_control() && c != '\n' && c != '\t');
    match new {
        New { key, .. } if key.trim().is_empty() || key.len() > KEY_BYTES_MAX => {
            refused(format!("a key has 1 to {KEY_BYTES_MAX} bytes"))
        }
        New { files, .. } if files.len() > FILES_MAX || files.iter().any(|file| file.len() > FILE_BYTES_MAX) => {
            refused(format!("{FILES_MAX} files of {FILE_BYTES_MAX} bytes of name each may be named"))
        }
        New { text, .. } if text.trim().is_empty() => refused("there is no text".into()),
        New { text, .. } if text.trim().len() > TEXT_BYTES_MAX => refused(format!(
            "the text has {} bytes, and {TEXT_BYTES_MAX} at most are kept; a file is the place for more",
            text.trim().len()
        )),
        New { key, text, files, .. } if is_steering(key) || is_steering(text) || files.iter().any(|file| is_steering(file)) => {
            refused("it has control characters".into())
        }
        New { key, text, files, .. } => {
            let all = format!("{key}\n{text}\n{}", files.join("\n"));
            let has_password = |word: &str| word.contains("://") && redact::word(word) != word;
            // Every later session would be told; who marks a secret as allowed has its file in mind.
            match Detector::default().find(b".env", all.as_bytes()).first() {
                Some(found) => refused(format!("it seems to have a secret ({}); take it out", found.rule().description)),
                None if all.split_whitespace().any(has_password) => {
                    refused("it has an address with a password; take it out".into())
                }
                None => Ok(()),
            }
        }
    }
}

/// Fails where an agent would take away what a person has said: an entry that is meant. The attempt is recorded.
fn ensure_may_remove(
    store: &Store,
    host: &dyn Host,
    project: &Project,
    words: &str,
    is_meant: &dyn Fn(Section, &Entry) -> bool,
) -> Result<()> {
    let mut memory = read(&store.layout().root, project, host.now())?;
    let is_persons = |section: Section, entry: &&Entry| entry.added_by != AddedBy::Agent && is_meant(section, entry);
    let found = Section::ALL.into_iter().find_map(|each| {
        memory.knowledge.of_mut(each).iter().find(|entry| is_persons(each, entry)).map(|entry| entry.id.clone())
    });
    match found {
        Some(id) => ensure_may_unsay(store, host, (words, format!("entry {id}, which a person has added")), &()),
        None => Ok(()),
    }
}

/// Forgets the entries of an id, or of a key. An agent forgets none that a person has added.
pub fn forget(store: &Store, host: &dyn Host, project: &Project, which: &str) -> Result<Vec<(Section, Entry)>> {
    let (section, key) = Section::of(which);
    let is_meant =
        |each: Section, entry: &Entry| entry.id == which || (each == section && key.is_some() && entry.key.as_deref() == key);
    ensure_may_remove(store, host, project, "memory forget", &is_meant)?;
    file::change(&store.layout().root, project, host.now(), |memory| {
        let mut gone = Vec::new();
        for each in Section::ALL {
            let is_it = |entry: &Entry| is_meant(each, entry);
            let known = memory.knowledge.of_mut(each);
            let (forgotten, kept) = std::mem::take(known).into_iter().partition(is_it);
            *known = kept;
            gone.extend(Vec::into_iter(forgotten).map(|entry| (each, entry)));
        }
        match gone.is_empty() {
            true => Err(Refusal::Knowledge(KnowledgeRefusal::NotRemembered { which: which.to_owned() }).into()),
            false => Ok((true, gone)),
        }
    })
}

/// Remembers how a session ended, as a person has decided about a checkpoint. A rejection counts only of a session that was approved before, and
/// only of the checkpoint that it is remembered by: one of an older checkpoint says nothing of what a person approved later.
pub fn learn(store: &Store, host: &dyn Host, checkpoint: &Checkpoint, status: ApprovalStatus) -> Result<()> {
    let view = store.view();
    let Some(session) = view.session(&checkpoint.record.session)? else { return Ok(()) };
    let Some(workspace) = session.workspace.as_ref().map(parhelia_ledger::Place::folder) else { return Ok(()) };
    if session.run.is_none() {
        return Ok(());
    }
    let project = Project::of(&store.layout().root, &workspace, Some(&session));
    let outcome = Outcome {
        session_id: session.id.clone(),
        summary: summary_of(store, checkpoint, session.first_prompt.as_deref())?,
        outcome: if status == ApprovalStatus::Approved { APPROVED } else { "rejected" }.into(),
        timestamp: host.now(),
        checkpoint: Some(checkpoint.id()),
        extra: Map::new(),
    };
    let rejections = Rejections::of(store)?;
    let stands = |other: &Outcome| {
        let other = other.checkpoint.as_ref().filter(|id| **id != checkpoint.id()).and_then(|id| id.parse().ok());
        let other = other.and_then(|id| view.checkpoint(id).ok().flatten());
        other.is_some_and(|other| rejections.taint(&other).is_ok_and(|taint| !taint.is_some_and(|taint| taint.is_rejection())))
    };
    file::change(&store.layout().root, &project, host.now(), |memory| {
        let history = &mut memory.session_history;
        let is_of_older = status != ApprovalStatus::Approved
            && history.iter().any(|other| other.session_id == session.id && other.outcome == APPROVED && stands(other));
        if is_of_older {
            return Ok((false, ()));
        }
        let had = history.len();
        history.retain(|other| other.session_id != outcome.session_id);
        if status == ApprovalStatus::Approved || history.len() < had {
            history.push(outcome);
        }
        let extra = history.len().saturating_sub(SESSIONS_MAX);
        history.drain(..extra);
        Ok((true, ()))
    })
}

/// The outcome of a session whose checkpoint a person approved.
const APPROVED: &str = "approved";

/// The work that was done, in a sentence: the checkpoint's message, else what the session was asked for last, or first.
fn summary_of(store: &Store, checkpoint: &Checkpoint, first_prompt: Option<&str>) -> Result<String> {
    const CHARACTERS_MAX: usize = 200;
    let task = summary::read(store, checkpoint)?.and_then(|summary| summary.task);
    let text = checkpoint.record.message.as_deref().or(task.as_deref()).or(first_prompt);
    let text = text.unwrap_or("nothing is known of what it was asked for");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(text.chars().take(CHARACTERS_MAX).collect())
}

fn new_id() -> String {
    const LENGTH: usize = 8;
    let mut id = uuid::Uuid::new_v4().simple().to_string();
    id.truncate(LENGTH);
    id
}
