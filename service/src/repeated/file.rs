//! The file in which answers outlast the service: a line each, `CHECKSUM JSON`, appended, and written anew once most of it is of no use.

use std::{
    fs::File,
    io::{self, Write as _},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use jiff::Timestamp;
use parhelia_store::{
    disk,
    files::{How, open_top, read_all, remove_top, rename_top},
};
use serde::{Deserialize, Serialize};

/// The name of the file in the store's folder.
const NAME: &str = "service.requests";
/// Digits of a line's checksum.
const CHECKSUM_DIGITS: usize = 16;
/// A longer file is not read; this service writes none.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// The file is written anew when it has more than twice the bytes of the answers that are kept, and these.
const SPARE_BYTES: u64 = 1 << 20;

/// A key, and the caller whose it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Name {
    /// The number of its user.
    pub user: Option<u32>,
    /// The mark of the run that it belongs to.
    pub run: Option<String>,
    /// Value of the header `Idempotency-Key`.
    pub key: String,
}

/// An answer that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredAnswer {
    /// The name of the request.
    pub name: Name,
    /// Hash of everything that it asked for.
    pub request: String,
    /// The time of the answer.
    pub at: Timestamp,
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl StoredAnswer {
    /// The answer as a line of the file: checksum, space, JSON, newline.
    pub fn line(&self) -> io::Result<Vec<u8>> {
        let json = serde_json::to_vec(self)?;
        let mut line = checksum(&json).into_bytes();
        line.push(b' ');
        line.extend_from_slice(&json);
        line.push(b'\n');
        Ok(line)
    }

    /// The answer of a line, without its newline; none of one that is damaged or was cut off.
    fn of_line(line: &[u8]) -> Option<Self> {
        let (sum, json) = line.split_at_checked(CHECKSUM_DIGITS)?;
        let json = json.strip_prefix(b" ")?;
        (sum == checksum(json).as_bytes()).then(|| serde_json::from_slice(json).ok())?
    }
}

fn checksum(json: &[u8]) -> String {
    blake3::hash(json).to_hex()[..CHECKSUM_DIGITS].to_owned()
}

/// The file.
#[derive(Debug)]
pub struct Answers {
    path: PathBuf,
    file: File,
    /// Bytes of whole lines. A line that could not be written is overwritten by the next one.
    bytes: u64,
}

impl Answers {
    /// Opens the file of a store, and makes it if there is none. The answers in it, oldest first, with the lengths of their lines; what is damaged
    /// is passed over.
    pub fn open(store: &Path) -> io::Result<(Self, Vec<(StoredAnswer, u64)>)> {
        let path = store.join(NAME);
        let file = open_top(&path, How::Make)?;
        let read = read_all(&file, FILE_BYTES_MAX).unwrap_or_default();
        let whole = read.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let lines = read[..whole].split_inclusive(|byte| *byte == b'\n');
        let found =
            lines.filter_map(|line| Some((StoredAnswer::of_line(line.strip_suffix(b"\n")?)?, line.len() as u64))).collect();
        Ok((Answers { path, file, bytes: whole as u64 }, found))
    }

    /// Appends a line, durably.
    pub fn append(&mut self, line: &[u8]) -> io::Result<()> {
        self.file.write_all_at(line, self.bytes)?;
        self.file.sync_data()?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// True if most of it is of no use, where so many bytes of it are.
    pub fn is_wasteful(&self, useful: u64) -> bool {
        self.bytes > 2 * useful + SPARE_BYTES
    }

    /// Writes it anew, with these answers alone.
    pub fn replace<'a>(&mut self, answers: impl Iterator<Item = &'a StoredAnswer>) -> io::Result<()> {
        let draft = self.path.with_extension("requests.new");
        match remove_top(&draft) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let file = open_top(&draft, How::New)?;
        let mut out = io::BufWriter::new(&file);
        let mut bytes = 0;
        for answer in answers {
            let line = answer.line()?;
            out.write_all(&line)?;
            bytes += line.len() as u64;
        }
        out.flush()?;
        drop(out);
        file.sync_all()?;
        rename_top(&draft, &self.path)?;
        (self.file, self.bytes) = (file, bytes);
        self.path.parent().map_or(Ok(()), disk::sync_folder).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    fn kept(key: &str) -> StoredAnswer {
        StoredAnswer {
            name: Name { user: Some(7), run: None, key: key.into() },
            request: "hash".into(),
            at: Timestamp::UNIX_EPOCH,
            status: 200,
            headers: vec![("content-type".into(), "application/json".into())],
            body: "{\"text\":\"a\\nb\"}".into(),
        }
    }

    fn keys(found: &[(StoredAnswer, u64)]) -> Vec<&str> {
        found.iter().map(|(kept, _)| &*kept.name.key).collect()
    }

    #[test]
    fn damaged_and_cut_lines_are_passed_over_and_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NAME);
        let (mut answers, found) = Answers::open(folder.path()).unwrap();
        assert!(found.is_empty());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        for key in ["a", "b", "c"] {
            answers.append(&kept(key).line().unwrap()).unwrap();
        }
        let (_, found) = Answers::open(folder.path()).unwrap();
        assert_eq!(found[0], (kept("a"), kept("a").line().unwrap().len() as u64));
        let mut bytes = fs::read(&path).unwrap();
        let line = bytes.len() / 3;
        bytes[line + line / 2] ^= 1;
        fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
        let (mut answers, found) = Answers::open(folder.path()).unwrap();
        assert_eq!(keys(&found), ["a"]);
        answers.append(&kept("d").line().unwrap()).unwrap();
        assert_eq!(keys(&Answers::open(folder.path()).unwrap().1), ["a", "d"]);
    }

    #[test]
    fn a_file_that_is_written_anew_has_what_it_is_given_and_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let (mut answers, _) = Answers::open(folder.path()).unwrap();
        let line = kept("old").line().unwrap();
        while !answers.is_wasteful(line.len() as u64) {
            answers.append(&line.repeat(100)).unwrap();
        }
        answers.replace([kept("a")].iter()).unwrap();
        assert!(!answers.is_wasteful(0));
        answers.append(&kept("b").line().unwrap()).unwrap();
        assert_eq!(keys(&Answers::open(folder.path()).unwrap().1), ["a", "b"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
