//! The book of a capture: what is in the contents that were scanned, while they were at hand or later.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use parhelia_store::{
    Store,
    create::{Content, Judge},
    diff::is_binary,
    id::BlobId,
    name,
};

use super::{
    Detector, FILE_BYTES_MAX,
    fingerprint::Fingerprints,
    known::{self, ContentClass, Key, key},
    rules::is_settings,
};
use parhelia_host::{Error, Result, config};

const SHARDS: usize = 16;
/// Contents that are scanned before the list of known ones is read: reading it would take longer than scanning so few.
const SCANNED_FIRST: usize = 64;

/// The beginning of the reason that a checkpoint gives for such a file. The rule and the line follow.
pub(super) const REASON: &str = "possible secret: ";

/// A secret in a content. Its text is not in here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Secret {
    /// The id of its rule.
    pub(super) rule: &'static str,
    pub(super) line: u64,
    pub(super) fingerprint: String,
    /// True if a comment on its line says that it may be there.
    pub(super) is_allowed: bool,
}

/// The verdict on a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Binary,
    /// Text, and the secrets in it.
    Text(Vec<Secret>),
}

#[derive(Default)]
struct Shard {
    /// Contents that were scanned here and have no secrets.
    clean: HashSet<Key>,
    found: HashMap<Key, Vec<Secret>>,
}

/// Contents that were scanned.
pub struct Book {
    detector: Detector,
    allowed: Gitignore,
    fingerprints: Fingerprints,
    shards: [Mutex<Shard>; SHARDS],
    /// Contents that are known to have none, and their file.
    known: OnceLock<HashSet<Key>>,
    known_path: PathBuf,
    asked: AtomicUsize,
}

impl Book {
    /// An empty book; none where nothing is to be scanned.
    pub fn new(store: &Store, settings: &config::Secrets) -> Result<Option<Arc<Self>>> {
        if !settings.scan {
            return Ok(None);
        }
        Ok(Some(Arc::new(Book {
            detector: Detector::default(),
            allowed: allowed(&settings.allow)?,
            fingerprints: Fingerprints::of(store),
            shards: Default::default(),
            known: OnceLock::new(),
            known_path: known::path(store),
            asked: AtomicUsize::new(0),
        })))
    }

    /// A judge that scans what a capture reads, and either leaves out what has secrets or only enters it here.
    pub fn judge(self: &Arc<Self>, leaves_out: bool) -> Judge {
        let book = self.clone();
        match leaves_out {
            true => Judge::new(FILE_BYTES_MAX, move |content| book.look(content).as_ref().and_then(reason)),
            false => Judge::looking_on(FILE_BYTES_MAX, move |content| {
                book.look(content);
            }),
        }
    }

    /// Scans what is at hand. None where nothing is looked for under its path.
    fn look(&self, content: &Content<'_>) -> Option<Verdict> {
        if self.is_allowed(content.path) || is_of_git(content.path) {
            return None;
        }
        let known = self.verdict(content.path, content.blob);
        Some(known.unwrap_or_else(|| self.scan(content.path, content.blob, content.bytes)))
    }

    /// True if the user has said that files at a path are not scanned.
    pub(super) fn is_allowed(&self, path: &[u8]) -> bool {
        !self.allowed.is_empty() && self.allowed.matched_path_or_any_parents(name::as_path(path), false).is_ignore()
    }

    /// The verdict on a content, as that of the file at a path.
    pub(super) fn verdict(&self, path: &[u8], blob: BlobId) -> Option<Verdict> {
        let (text, binary) = (key(blob, taken(path)), key(blob, ContentClass::Binary));
        let shard = self.shard(&text);
        if let Some(found) = shard.found.get(&text) {
            return Some(Verdict::Text(found.clone()));
        }
        let known = self.known();
        let is_clean = |key| shard.clean.contains(key) || known.is_some_and(|known| known.contains(key));
        match is_clean(&text) {
            true => Some(Verdict::Text(Vec::new())),
            false => is_clean(&binary).then_some(Verdict::Binary),
        }
    }

    /// Scans a content, and enters it.
    pub(super) fn scan(&self, path: &[u8], blob: BlobId, bytes: &[u8]) -> Verdict {
        if is_binary(bytes) {
            let key = key(blob, ContentClass::Binary);
            self.shard(&key).clean.insert(key);
            return Verdict::Binary;
        }
        let found = self.detector.find(path, bytes).into_iter();
        let secrets: Vec<Secret> = found
            .map(|found| Secret {
                rule: found.rule().id,
                line: found.line,
                fingerprint: self.fingerprints.of_secret(&bytes[found.secret]),
                is_allowed: found.is_allowed,
            })
            .collect();
        let key = key(blob, taken(path));
        match secrets.is_empty() {
            true => drop(self.shard(&key).clean.insert(key)),
            false => drop(self.shard(&key).found.insert(key, secrets.clone())),
        }
        Verdict::Text(secrets)
    }

    /// Keeps what was found to have no secrets for the next captures. Without that, they scan it again.
    pub(super) fn keep(&self) {
        let known = self.known.get();
        let mut new: Vec<Key> = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            new.extend(shard.clean.iter().filter(|key| !known.is_some_and(|known| known.contains(*key))));
        }
        let _ = known::add(&self.known_path, &new);
    }

    fn known(&self) -> Option<&HashSet<Key>> {
        match self.asked.fetch_add(1, Ordering::Relaxed) {
            0..SCANNED_FIRST => self.known.get(),
            _ => Some(self.known.get_or_init(|| known::read(&self.known_path))),
        }
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        self.shards[usize::from(key[0]) % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn taken(path: &[u8]) -> ContentClass {
    if is_settings(path) { ContentClass::Settings } else { ContentClass::Text }
}

/// Patterns of files that are not scanned.
fn allowed(patterns: &[String]) -> Result<Gitignore> {
    let wrong = |e: ignore::Error| Error::Config { place: "`secrets.allow`".into(), reason: e.to_string() };
    let mut builder = GitignoreBuilder::new("");
    for pattern in patterns {
        builder.add_line(None, pattern).map_err(wrong)?;
    }
    builder.build().map_err(wrong)
}

/// The reason to leave out a file, if there is any.
fn reason(verdict: &Verdict) -> Option<String> {
    let Verdict::Text(secrets) = verdict else { return None };
    let found = secrets.iter().find(|secret| !secret.is_allowed)?;
    Some(format!("{REASON}{} in line {}", found.rule, found.line))
}

/// True for an object of a git repository, which is compressed, by its name.
pub(super) fn is_of_git(path: &[u8]) -> bool {
    let mut parts = path.rsplit(|byte| *byte == b'/');
    let (Some(file), Some(folder)) = (parts.next(), parts.next()) else { return false };
    let is_hex = |text: &[u8]| text.iter().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte));
    let is_loose = folder.len() == 2 && is_hex(folder) && file.len() >= 38 && is_hex(file);
    let is_packed = folder == b"pack" && file.starts_with(b"pack-");
    (is_loose || is_packed) && parts.next() == Some(b"objects") && parts.any(|part| part == b".git")
}
