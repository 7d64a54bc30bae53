//! Scanning what a checkpoint has and its parent does not.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use parhelia_store::{
    Store, clock,
    diff::{self, ChangeKind, DiffOptions, Side, is_binary},
    name,
    progress::Progress,
    projection::{PossibleSecret, Scan, Unscanned},
    record::Checkpoint,
    tree::{Kind, Node},
};

use super::{Detector, FILE_BYTES_MAX, FINDINGS_MAX, Found, fingerprint::fingerprint, left_out::NewlyLeftOut};
use crate::{
    config::{self, OnFinding},
    error::{Error, Result},
};

/// The longest time that a scan takes. A first checkpoint of some 10^5 files may need more; the others are counted.
const TIME_MAX: Duration = Duration::from_secs(5);

/// A scan that was made.
#[derive(Clone, Debug)]
pub struct Scanned {
    /// Its findings.
    pub scan: Scan,
    /// Files that are left out because of possible secrets, and were not in the parent, each with the reason.
    pub left_out: Vec<String>,
}

/// Scans what a new checkpoint has and its parent does not. None where nothing is new, or nothing is to be scanned.
pub fn of_new(store: &Store, made: &Checkpoint, settings: &config::Secrets, progress: &dyn Progress) -> Result<Option<Scanned>> {
    if !settings.scan {
        return Ok(None);
    }
    let parent = made.record.parent.map(|parent| store.view().checkpoint(parent)).transpose()?.flatten();
    let workspace = store.workspace_node(made)?;
    let mut scanner = Scanner::new(store, settings, progress)?;
    // The list of what was left out may be long: it is read only where files with secrets may be on it.
    let left_out = match settings.on_finding {
        OnFinding::LeaveOut => NewlyLeftOut::of(store, made, parent.as_ref())?,
        _ => NewlyLeftOut::default(),
    };
    match parent.map(|parent| store.workspace_node(&parent)).transpose()? {
        Some(before) => {
            let sides = (Side::new(store, &before), Side::new(store, &workspace));
            for change in diff::compare(sides.0, sides.1, DiffOptions::default())? {
                // A renamed file has the content that it had, which was scanned, unless it lay where nothing is.
                let was_scanned = matches!(change.kind, ChangeKind::Renamed { .. }) && !scanner.is_passed_over(change.old_path());
                if let (Some(new), false) = (&change.new, was_scanned) {
                    let is_renamed = matches!(change.kind, ChangeKind::Renamed { .. });
                    scanner.file(&change.path, new, change.old.as_ref().filter(|_| !is_renamed));
                }
            }
        }
        None => {
            if let Some((tree, _)) = workspace.as_folder() {
                store.walk(tree, &mut |path, _, node| {
                    scanner.file(path, node, None);
                    Ok(true)
                })?;
            }
        }
    }
    let scan = Scan { left_out: left_out.files, ..scanner.scan };
    let is_news = scan.files + scan.unscanned.total() > 0 || !left_out.new.is_empty();
    Ok(is_news.then_some(Scanned { scan, left_out: left_out.new }))
}

/// Patterns of files that are not scanned.
pub(super) fn allowed(patterns: &[String]) -> Result<Gitignore> {
    let wrong = |e: ignore::Error| Error::Config { place: "`secrets.allow`".into(), reason: e.to_string() };
    let mut builder = GitignoreBuilder::new("");
    for pattern in patterns {
        builder.add_line(None, pattern).map_err(wrong)?;
    }
    builder.build().map_err(wrong)
}

struct Scanner<'a> {
    store: &'a Store,
    detector: Detector,
    allowed: Gitignore,
    until: Instant,
    progress: &'a dyn Progress,
    scan: Scan,
}

impl<'a> Scanner<'a> {
    fn new(store: &'a Store, settings: &config::Secrets, progress: &'a dyn Progress) -> Result<Self> {
        let nothing = Scan {
            at: clock::timestamp(),
            found: 0,
            findings: Vec::new(),
            left_out: 0,
            allowed: 0,
            files: 0,
            unscanned: Unscanned::default(),
        };
        let (detector, allowed) = (Detector::default(), allowed(&settings.allow)?);
        Ok(Scanner { store, detector, allowed, until: Instant::now() + TIME_MAX, progress, scan: nothing })
    }

    /// Scans a file, and counts it where it cannot be scanned. `old` is what stood there before.
    fn file(&mut self, path: &[u8], new: &Node, old: Option<&Node>) {
        let Kind::File { size, blob, .. } = &new.kind else { return };
        let had = old.and_then(|old| match &old.kind {
            Kind::File { size, blob, .. } => Some((*blob, *size)),
            _ => None,
        });
        if *size == 0 || had == Some((*blob, *size)) {
            return;
        }
        let Some(bytes) = self.text(path, new) else { return };
        self.scan.files += 1;
        let found = self.detector.find(path, &bytes);
        if found.is_empty() {
            return;
        }
        let before = old.filter(|old| old.size() <= FILE_BYTES_MAX).and_then(|old| read(self.store, old));
        let mut known = before.map(|bytes| self.known(path, &bytes)).unwrap_or_default();
        for found in found {
            let print = fingerprint(self.store, &bytes[found.secret.clone()]);
            if known.insert((found.rule().id, print.clone())) {
                self.note(path, &found, print);
            }
        }
    }

    /// True if files at a path are not scanned, whatever is in them.
    fn is_passed_over(&self, path: &[u8]) -> bool {
        self.allowed.matched_path_or_any_parents(name::as_path(path), false).is_ignore() || is_of_git(path)
    }

    /// The content of a file that is to be scanned.
    fn text(&mut self, path: &[u8], node: &Node) -> Option<Vec<u8>> {
        let unscanned = &mut self.scan.unscanned;
        let reason = if self.progress.is_cancelled() || Instant::now() > self.until {
            &mut unscanned.not_reached
        } else if self.allowed.matched_path_or_any_parents(name::as_path(path), false).is_ignore() {
            &mut unscanned.allowed
        } else if is_of_git(path) {
            &mut unscanned.binary
        } else if node.size() > FILE_BYTES_MAX {
            &mut unscanned.too_large
        } else {
            match read(self.store, node) {
                Some(bytes) if !is_binary(&bytes) => return Some(bytes),
                Some(_) => &mut unscanned.binary,
                None => &mut unscanned.unreadable,
            }
        };
        *reason += 1;
        None
    }

    /// The secrets that a file had before, by rule and fingerprint.
    fn known(&self, path: &[u8], bytes: &[u8]) -> BTreeSet<(&'static str, String)> {
        let found = self.detector.find(path, bytes);
        found.into_iter().map(|found| (found.rule().id, fingerprint(self.store, &bytes[found.secret]))).collect()
    }

    fn note(&mut self, path: &[u8], found: &Found, fingerprint: String) {
        if found.is_allowed {
            self.scan.allowed += 1;
            return;
        }
        self.scan.found += 1;
        if self.scan.findings.len() < FINDINGS_MAX {
            let (rule, path) = (found.rule().id.to_owned(), name::display(path));
            self.scan.findings.push(PossibleSecret { rule, path, line: found.line, fingerprint });
        }
    }
}

/// The content of a file; none where it cannot be read, which verification tells of.
fn read(store: &Store, node: &Node) -> Option<Vec<u8>> {
    match &node.kind {
        Kind::File { size, blob, .. } => store.blob(*blob, *size).and_then(|blob| blob.read_all()).ok(),
        _ => None,
    }
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
