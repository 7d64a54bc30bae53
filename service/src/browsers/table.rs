//! The browsers that are signed in, in a file beside that of the token, which its owner alone can read.

#![expect(clippy::disallowed_methods, reason = "its file is beside that of the token, which the user names")]

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use parhelia_store::clock;
use parhelia_wire::tool::Browser;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Key, hex};
use crate::own::open_regular;

/// So many browsers are known; the one that was away longest makes room.
const BROWSERS_MAX: usize = 256;
/// A browser that was away for longer has to sign in anew.
const AWAY_MAX: SignedDuration = SignedDuration::from_hours(90 * 24);
/// It is noted so often that a browser was there.
const NOTED: SignedDuration = SignedDuration::from_hours(1);
/// A longer file is none of ours, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

#[derive(Clone, Serialize, Deserialize)]
struct Entry {
    name: String,
    key: String,
    created_at: Timestamp,
    used_at: Timestamp,
}

type Entries = BTreeMap<String, Entry>;

/// Inode, length and time of a file's content.
type Stamp = (u64, u64, i64, i64);

/// The file with the browsers of a service, and what it had when it was read last.
pub struct Table {
    path: PathBuf,
    known: Mutex<Option<(Stamp, Entries)>>,
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

impl Table {
    /// The table of the service whose token is in a file.
    pub fn beside(token: &Path) -> Self {
        Table { path: beside(token, ".browsers"), known: Mutex::default() }
    }

    /// True if a browser has ever signed in there.
    pub fn exists(&self) -> bool {
        self.stamp().is_some()
    }

    /// The browsers that are signed in, by the time at which they did that.
    pub fn browsers(&self) -> io::Result<Vec<Browser>> {
        let of =
            |(id, entry): (String, Entry)| Browser { id, name: entry.name, created_at: entry.created_at, used_at: entry.used_at };
        let mut found: Vec<Browser> = self.read()?.into_iter().map(of).collect();
        found.sort_by_key(|browser| browser.created_at);
        Ok(found)
    }

    /// Signs a browser out. False if there is no such one.
    pub fn revoke(&self, id: &str) -> io::Result<bool> {
        self.change(|entries| entries.remove(id).is_some())
    }

    /// Signs all browsers out.
    pub(super) fn clear(&self) {
        if self.stamp().is_none() {
            return;
        }
        // Where it stays, its keys are those of a token that nobody knows any more; whoever can read them is the owner.
        let _ = self.change(|entries| !std::mem::take(entries).is_empty());
    }

    pub(super) fn add(&self, id: &str, name: String, key: Key) -> io::Result<()> {
        let now = clock::timestamp();
        let entry = Entry { name, key: hex(&key.0), created_at: now, used_at: now };
        let added = self.change(|entries| {
            entries.retain(|_, entry| !is_away(entry, now));
            while entries.len() >= BROWSERS_MAX {
                let oldest = entries.iter().min_by_key(|(_, entry)| entry.used_at).map(|(id, _)| id.clone());
                oldest.map(|id| entries.remove(&id));
            }
            entries.insert(id.to_owned(), entry.clone()).is_none()
        });
        added.map(drop)
    }

    /// Notes that a browser was there.
    pub(super) fn used(&self, id: &str) {
        let now = clock::timestamp();
        let is_noted = |entry: &Entry| now.duration_since(entry.used_at) < NOTED;
        if self.entry(id).is_none_or(|entry| is_noted(&entry)) {
            return;
        }
        // Whoever cannot write it down serves the page all the same.
        let _ = self.change(|entries| entries.get_mut(id).map(|entry| entry.used_at = now).is_some());
    }

    /// The key of a browser that is signed in.
    pub(super) fn key(&self, id: &str) -> Option<Key> {
        let entry = self.entry(id).filter(|entry| !is_away(entry, clock::timestamp()))?;
        let digit = |at: usize| u8::from_str_radix(entry.key.get(2 * at..2 * at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..32).map(digit).collect();
        bytes?.try_into().ok().map(Key)
    }

    /// A browser, as the file has it by now: another process may have signed it out.
    fn entry(&self, id: &str) -> Option<Entry> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = self.stamp();
        if stamp.is_none() || known.as_ref().map(|(stamp, _)| *stamp) != stamp {
            *known = stamp.and_then(|stamp| Some((stamp, self.read().ok()?)));
        }
        known.as_ref()?.1.get(id).cloned()
    }

    fn stamp(&self) -> Option<Stamp> {
        let found = fs::symlink_metadata(&self.path).ok()?;
        Some((found.ino(), found.len(), found.mtime(), found.mtime_nsec()))
    }

    fn read(&self) -> io::Result<Entries> {
        let file = match open_regular(&self.path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Entries::new()),
            file => file?,
        };
        let found = file.metadata()?;
        if found.mode() & 0o077 != 0 || found.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("others can read it, or it is another user's"));
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
        serde_json::from_str(&text).map_err(|e| io::Error::new(ErrorKind::InvalidData, e))
    }

    /// Changes the file as a whole, while nobody else does. Nothing is written where the change says that there is none.
    fn change(&self, change: impl FnOnce(&mut Entries) -> bool) -> io::Result<bool> {
        let lock = private(&beside(&self.path, ".lock"), OpenOptions::new().create(true))?;
        lock.lock()?;
        // What cannot be read signs nobody in, and is written anew.
        let mut entries = match self.read() {
            Err(e) if e.kind() == ErrorKind::InvalidData => Entries::new(),
            entries => entries?,
        };
        if !change(&mut entries) {
            return Ok(false);
        }
        let draft = beside(&self.path, &format!(".{}.tmp", Uuid::new_v4().simple()));
        let text = serde_json::to_string_pretty(&entries)?;
        let written = private(&draft, OpenOptions::new().create_new(true))
            .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&draft, &self.path));
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written.map(|()| true)
    }
}

fn private(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.write(true).mode(0o600).custom_flags(flags.bits().cast_signed()).open(path)
}

fn is_away(entry: &Entry, now: Timestamp) -> bool {
    now.duration_since(entry.used_at) > AWAY_MAX
}
