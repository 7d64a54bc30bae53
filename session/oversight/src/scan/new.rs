//! Scanning what a checkpoint has and its parent does not.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
};

use parhelia_ledger::{PossibleSecret, Scan, UnscannedCounts};
use parhelia_store::{
    Store, clock,
    diff::{self, ChangeKind, DiffOptions, Side},
    id::BlobId,
    name,
    progress::Progress,
    record::Checkpoint,
    threads,
    tree::{Kind, Node},
};

use super::{
    Book, FILE_BYTES_MAX, FINDINGS_MAX,
    book::{Secret, Verdict, is_of_git},
    left_out::NewlyLeftOut,
};
use parhelia_host::{Result, config::OnFinding};

/// Changed files that are looked up together. What of them is not in the book is scanned by all processors.
const FILES_AT_ONCE: usize = 4096;

/// A scan that was made.
#[derive(Clone, Debug)]
pub struct ScanReport {
    /// Its findings.
    pub scan: Scan,
    /// Files that are left out because of possible secrets, and were not in the parent, each with the reason.
    pub left_out: Vec<String>,
}

/// Scans what a new checkpoint has and its parent does not. None where nothing is new, or nothing is to be scanned.
pub fn of_new(
    store: &Store,
    made: &Checkpoint,
    book: &Book,
    on_finding: OnFinding,
    progress: &dyn Progress,
) -> Result<Option<ScanReport>> {
    let parent = made.record.parent.map(|parent| store.view().checkpoint(parent)).transpose()?.flatten();
    let workspace = store.workspace_node(made)?;
    let mut scanner = Scanner::new(store, book, progress);
    // The list of what was left out may be long: it is read only where files with secrets may be on it.
    let left_out = match on_finding {
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
    scanner.flush();
    book.keep();
    let scan = Scan { left_out: left_out.files, ..scanner.scan };
    let is_news = scan.files + scan.unscanned.total() > 0 || !left_out.new.is_empty();
    Ok(is_news.then_some(ScanReport { scan, left_out: left_out.new }))
}

struct Scanner<'a> {
    store: &'a Store,
    book: &'a Book,
    progress: &'a dyn Progress,
    /// Files that were not looked up yet.
    files: Vec<Candidate>,
    scan: Scan,
}

/// A file that is new, or has new content.
struct Candidate {
    path: Vec<u8>,
    new: BlobRef,
    old: Option<BlobRef>,
}

/// A content of the store, and its length.
#[derive(Clone, Copy, PartialEq, Eq)]
struct BlobRef {
    blob: BlobId,
    bytes: u64,
}

impl BlobRef {
    fn of(node: &Node) -> Option<Self> {
        match &node.kind {
            Kind::File { size, blob, .. } => Some(BlobRef { blob: *blob, bytes: *size }),
            _ => None,
        }
    }

    /// The content; none where it cannot be read, which verification tells of.
    fn read(self, store: &Store) -> Option<Vec<u8>> {
        store.blob(self.blob, self.bytes).and_then(|blob| blob.read_all()).ok()
    }
}

impl<'a> Scanner<'a> {
    fn new(store: &'a Store, book: &'a Book, progress: &'a dyn Progress) -> Self {
        let nothing = Scan {
            at: clock::timestamp(),
            found: 0,
            findings: Vec::new(),
            left_out: 0,
            allowed: 0,
            files: 0,
            unscanned: UnscannedCounts::default(),
        };
        Scanner { store, book, progress, files: Vec::new(), scan: nothing }
    }

    /// Takes a file. `old` is what stood there before.
    fn file(&mut self, path: &[u8], new: &Node, old: Option<&Node>) {
        let (Some(new), old) = (BlobRef::of(new), old.and_then(BlobRef::of)) else { return };
        if new.bytes > 0 && old != Some(new) {
            self.files.push(Candidate { path: path.to_vec(), new, old });
        }
        if self.files.len() >= FILES_AT_ONCE {
            self.flush();
        }
    }

    /// Looks up the files that were taken, and counts those that cannot be scanned.
    fn flush(&mut self) {
        let files = std::mem::take(&mut self.files);
        self.scan_missing(&files);
        for file in files {
            let Some(secrets) = self.secrets(&file) else { continue };
            self.scan.files += 1;
            if secrets.is_empty() {
                continue;
            }
            let mut known = file.old.map(|old| self.known(&file.path, old)).unwrap_or_default();
            for secret in secrets {
                if known.insert((secret.rule, secret.fingerprint.clone())) {
                    self.note(&file.path, secret);
                }
            }
        }
    }

    /// Scans what is not in the book: it was not read when it was captured, because it is in the store.
    fn scan_missing(&self, files: &[Candidate]) {
        let is_missing = |file: &&Candidate| {
            !self.is_passed_over(&file.path)
                && file.new.bytes <= FILE_BYTES_MAX
                && self.book.verdict(&file.path, file.new.blob).is_none()
        };
        let missing: Vec<&Candidate> = files.iter().filter(is_missing).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(file) = missing.get(next.fetch_add(1, Ordering::Relaxed))
                && !self.progress.is_cancelled()
            {
                if let Some(bytes) = file.new.read(self.store) {
                    self.book.scan(&file.path, file.new.blob, &bytes);
                }
            }
        };
        let others = std::thread::available_parallelism().map_or(1, usize::from).min(missing.len()).saturating_sub(1);
        threads::together(others, work);
    }

    /// True if files at a path are not scanned, whatever is in them.
    fn is_passed_over(&self, path: &[u8]) -> bool {
        self.book.is_allowed(path) || is_of_git(path)
    }

    /// The secrets of a file that was to be scanned.
    fn secrets(&mut self, file: &Candidate) -> Option<Vec<Secret>> {
        let unscanned = &mut self.scan.unscanned;
        let reason = if self.book.is_allowed(&file.path) {
            &mut unscanned.allowed
        } else if is_of_git(&file.path) {
            &mut unscanned.binary
        } else if file.new.bytes > FILE_BYTES_MAX {
            &mut unscanned.too_large
        } else {
            match self.book.verdict(&file.path, file.new.blob) {
                Some(Verdict::Text(secrets)) => return Some(secrets),
                Some(Verdict::Binary) => &mut unscanned.binary,
                None if self.progress.is_cancelled() => &mut unscanned.not_reached,
                None => &mut unscanned.unreadable,
            }
        };
        *reason += 1;
        None
    }

    /// The secrets that a file had before, by rule and fingerprint.
    fn known(&self, path: &[u8], old: BlobRef) -> BTreeSet<(&'static str, String)> {
        let scan = || Some(self.book.scan(path, old.blob, &old.read(self.store)?));
        let had = (old.bytes <= FILE_BYTES_MAX).then(|| self.book.verdict(path, old.blob).or_else(scan)).flatten();
        match had {
            Some(Verdict::Text(secrets)) => secrets.into_iter().map(|secret| (secret.rule, secret.fingerprint)).collect(),
            _ => BTreeSet::new(),
        }
    }

    fn note(&mut self, path: &[u8], secret: Secret) {
        if secret.is_allowed {
            self.scan.allowed += 1;
            return;
        }
        self.scan.found += 1;
        if self.scan.findings.len() < FINDINGS_MAX {
            let Secret { rule, line, fingerprint, .. } = secret;
            let (rule, path) = (rule.to_owned(), name::display(path));
            self.scan.findings.push(PossibleSecret { rule, path, line, fingerprint });
        }
    }
}
