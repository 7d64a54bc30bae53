//! The token of a service: whoever has it may use the store over TCP, where the kernel lets every user of the machine connect.

#![expect(clippy::disallowed_methods, reason = "its file is one that the user names")]

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

use uuid::Uuid;

use crate::{
    browsers::Browsers,
    own::{OwnFile, open_regular},
};

/// A longer file is no token, in bytes.
const FILE_BYTES_MAX: u64 = 4096;
/// A shorter text could be guessed, in characters.
const CHARACTERS_MIN: usize = 32;

/// A token, of which only the hash is kept, and the browsers that have signed in with it.
pub struct Token {
    hash: blake3::Hash,
    browsers: Browsers,
}

impl Token {
    /// The token of a file that its user alone can read. Makes the file, with a new token, where there is none.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        match open_regular(path) {
            Ok(file) => Self::read(path, file),
            Err(e) if e.kind() == ErrorKind::NotFound => Self::make(path),
            Err(e) => Err(e),
        }
    }

    /// A new token, in a file that takes the place of an earlier service's, and that is removed with the second value.
    pub fn of_now(path: &Path) -> io::Result<(Self, OwnFile)> {
        let (text, draft) = Self::draft(path)?;
        let file = draft.moved_to(path)?;
        Ok((Self::new(&text, path, false), file))
    }

    fn read(path: &Path, file: File) -> io::Result<Self> {
        let found = file.metadata()?;
        if found.mode() & 0o077 != 0 || found.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("others can read it, or it is another user's; `chmod 600` it, or name another file"));
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
        let text = text.trim();
        if text.len() < CHARACTERS_MIN || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            let why = format!(
                "it holds no token: one line of {CHARACTERS_MIN} or more printable characters; remove it, and a new one is made"
            );
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        Ok(Self::new(text, path, true))
    }

    fn new(text: &str, path: &Path, is_lasting: bool) -> Self {
        Token { hash: blake3::hash(text.as_bytes()), browsers: Browsers::new(text, path, is_lasting) }
    }

    /// The browsers that have signed in with it.
    pub fn browsers(&self) -> &Browsers {
        &self.browsers
    }

    fn make(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        // Another service may be making it at the same time: it is there whole, or not at all.
        let (text, draft) = Self::draft(path)?;
        match fs::hard_link(draft.path(), path) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Self::read(path, open_regular(path)?),
            Err(e) => Err(e),
            Ok(()) => Ok(Self::new(&text, path, true)),
        }
    }

    /// The text of a new token, in a file of another name beside this one.
    fn draft(path: &Path) -> io::Result<(String, OwnFile)> {
        // 244 bits of the kernel's random numbers.
        let text = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let draft = path.with_extension(format!("{}.tmp", Uuid::new_v4().simple()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        let own = OwnFile::at(&draft)?;
        writeln!(file, "{text}").and_then(|()| file.sync_all())?;
        Ok((text, own))
    }

    /// True for the token's text. How long that takes tells nothing of it.
    pub fn is(&self, text: &str) -> bool {
        blake3::hash(text.as_bytes()) == self.hash
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_made_once_and_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/token");
        Token::of_file(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let again = Token::of_file(&path).unwrap();
        assert!(again.is(text.trim()) && !again.is(&text) && !again.is(""));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_no_secret_is_no_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        for (text, mode) in [("0123456789abcdef0123456789abcdef\n", 0o644), ("short\n", 0o600), ("", 0o600)] {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(Token::of_file(&path).is_err(), "{text} {mode:o}");
        }
    }

    #[test]
    fn every_start_has_a_token_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.token");
        fs::write(&path, "left by another service\n").unwrap();
        let (first, first_file) = Token::of_now(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(first.is(text.trim()));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let (second, second_file) = Token::of_now(&path).unwrap();
        assert!(!second.is(text.trim()));
        drop(first_file);
        assert!(second.is(fs::read_to_string(&path).unwrap().trim()), "the end of one leaves another's file alone");
        drop(second_file);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn only_a_regular_file_holds_a_token_and_none_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        for path in [&fifo, folder.path(), Path::new("/dev/null")] {
            let error = Token::of_file(path).err().unwrap().to_string();
            assert!(error.contains("no regular file"), "{}: {error}", path.display());
        }
    }
}
