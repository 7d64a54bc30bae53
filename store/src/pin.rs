//! Pins: what keeps garbage collection off. A pin is a file in `pins/` that its process holds locked; a dead process holds nothing.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Seek, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::{
    disk,
    error::{Error, IoContext, Result},
    files::{self, How},
    id::{OpId, Ulid, hex},
    lock::release,
};

/// What a pin's file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinText {
    /// Whether its holder writes packs: their bytes, and those of packs condemned meanwhile, stay until it is over.
    pub writer: bool,
    /// Checkpoints that stay readable while the pin is held, deleted or not.
    pub checkpoints: Vec<Ulid>,
    /// Its holder, for messages.
    pub process: u32,
    /// What its holder does, for messages.
    pub purpose: String,
    /// Where it builds something that is to go if it dies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<Leaves>,
}

/// A folder in which an operation builds things under temporary names that hold its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaves {
    /// The path's bytes, in hex.
    folder: String,
    /// Whether also in the folders below.
    pub below: bool,
}

impl Leaves {
    /// In this folder, or also in those below.
    pub fn new(folder: &[u8], below: bool) -> Self {
        Leaves { folder: hex(folder), below }
    }

    /// The folder's path; `None` where it does not decode.
    pub fn folder(&self) -> Option<Vec<u8>> {
        let digits = self.folder.as_bytes();
        let byte = |pair: &[u8]| std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok());
        if digits.len().is_multiple_of(2) { digits.chunks(2).map(byte).collect() } else { None }
    }
}

/// A pin that this process holds.
#[derive(Debug)]
pub struct Pin {
    /// The operation it stands for.
    pub op: OpId,
    path: PathBuf,
    file: File,
    text: PinText,
    stays: bool,
}

impl Pin {
    /// Makes a pin and takes it.
    pub fn take(folder: &Path, writer: bool, purpose: &str) -> Result<Self> {
        loop {
            let op = OpId::generate();
            let path = folder.join(format!("{op}.pin"));
            let file = make(folder, &path)?;
            flock(&file, FlockOperation::LockExclusive).at("lock pin", &path)?;
            // A sweep of dead pins may have come between the creation and the lock.
            if file.metadata().at("read pin", &path)?.nlink() == 0 {
                continue;
            }
            let text = PinText {
                writer,
                checkpoints: Vec::new(),
                process: std::process::id(),
                purpose: purpose.to_owned(),
                leaves: None,
            };
            let mut pin = Pin { op, path, file, text, stays: false };
            pin.write()?;
            return Ok(pin);
        }
    }

    /// Makes a reader's pin. `None` on a medium that cannot be written, where nothing is collected either.
    pub fn take_if_writable(folder: &Path, purpose: &str) -> Result<Option<Self>> {
        use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        match Self::take(folder, false, purpose) {
            Ok(pin) => Ok(Some(pin)),
            Err(Error::Io { source, .. }) if matches!(source.kind(), ReadOnlyFilesystem | PermissionDenied) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Says where things are built that are to go if this process dies. Synced, because those may be.
    pub fn leaves(&mut self, leaves: Leaves) -> Result<()> {
        self.text.leaves = Some(leaves);
        self.write()?;
        self.file.sync_data().at("sync pin", &self.path)?;
        self.path.parent().map_or(Ok(()), disk::sync_folder)
    }

    /// Pins checkpoints as well. The caller looks again, afterwards, whether they are still there.
    pub fn add(&mut self, checkpoints: impl IntoIterator<Item = Ulid>) -> Result<()> {
        self.text.checkpoints.extend(checkpoints);
        self.write()
    }

    /// Whether the folder still has the pin's file: somebody may have deleted it, and then gc does not know of its holder.
    pub fn is_held(&self) -> bool {
        files::is_named(&self.file, &self.path)
    }

    /// Makes the file of a pin again that was deleted. What gc has removed meanwhile stays removed.
    pub fn make_again(&mut self) -> Result<()> {
        let file = make(self.path.parent().unwrap_or(Path::new(".")), &self.path)?;
        flock(&file, FlockOperation::LockExclusive).at("lock pin", &self.path)?;
        self.file = file;
        self.write()
    }

    /// Lets go without removing the file: what the operation left behind is found by it.
    pub fn leave(mut self) {
        self.stays = true;
    }

    fn write(&mut self) -> Result<()> {
        let bytes = serde_json::to_vec(&self.text).unwrap_or_default();
        self.file
            .rewind()
            .and_then(|()| self.file.write_all(&bytes))
            .and_then(|()| self.file.set_len(bytes.len() as u64))
            .at("write pin", &self.path)
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if !self.stays {
            let _ = files::remove(&self.path);
        }
        release(&self.file);
    }
}

/// The longest text of a pin.
const PIN_BYTES_MAX: u64 = 256 << 20;

/// Makes a pin's file, and the folder where somebody has deleted it, or a copy of the store lacks it.
fn make(folder: &Path, path: &Path) -> Result<File> {
    match files::open(path, How::New) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && folder.with_file_name("store.json").exists() => {
            files::make_folder(folder).at("create folder", folder)?;
            files::open(path, How::New).at("create pin", path)
        }
        other => other.at("create pin", path),
    }
}

/// Opens the file of a pin; `None` where it is gone. What is no regular file is no pin either, since nobody makes such.
fn open(path: &Path) -> Result<Option<File>> {
    match files::open(path, How::Write) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(_) if fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_file()) => Ok(None),
        Err(e) => Err(e).at("open pin", path),
    }
}

/// A pin found in the folder.
#[derive(Clone, Debug)]
pub struct FoundPin {
    /// The operation it stands for.
    pub op: OpId,
    /// Whether its process lives.
    pub alive: bool,
    /// What it says; a live pin whose text is not whole yet counts as a writer without checkpoints.
    pub text: PinText,
}

/// All pins, dead ones included.
pub fn list(folder: &Path) -> Result<Vec<FoundPin>> {
    let mut found = Vec::new();
    for path in files::list(folder).at("read folder", folder)? {
        let name = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_suffix(".pin"));
        let Some(op) = name.and_then(OpId::from_hex) else { continue };
        let Some(file) = open(&path)? else { continue };
        let alive = flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
        if !alive {
            release(&file);
        }
        let bytes = files::read_all(&file, PIN_BYTES_MAX).at("read pin", &path)?;
        let text = serde_json::from_slice(&bytes).unwrap_or(PinText {
            writer: true,
            checkpoints: Vec::new(),
            process: 0,
            purpose: "starting".into(),
            leaves: None,
        });
        found.push(FoundPin { op, alive, text });
    }
    Ok(found)
}

/// The operations of live pins.
pub fn live_ops(pins: &[FoundPin]) -> HashSet<OpId> {
    pins.iter().filter(|pin| pin.alive).map(|pin| pin.op).collect()
}

/// Takes the lock of a dead pin, so that nobody takes up what its operation left while that is removed. `None` where somebody has it.
pub fn seize(folder: &Path, op: OpId) -> Result<Option<File>> {
    let path = folder.join(format!("{op}.pin"));
    let Some(file) = open(&path)? else { return Ok(None) };
    Ok(flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok().then_some(file))
}

/// Removes the file of a dead pin.
pub fn remove_dead(folder: &Path, op: OpId) -> Result<()> {
    let path = folder.join(format!("{op}.pin"));
    files::remove(&path).at("remove pin", &path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_pin_is_noticed_and_made_again() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("store.json"), "").unwrap();
        let folder = dir.path().join("pins");
        // As in a copy of a store that left empty folders out.
        assert!(list(&folder).unwrap().is_empty());
        let mut pin = Pin::take(&folder, true, "test").unwrap();
        for remove in [(|folder| fs::remove_dir_all(folder)) as fn(&Path) -> _, |folder| {
            fs::read_dir(folder)?.try_for_each(|entry| fs::remove_file(entry?.path()))
        }] {
            assert!(pin.is_held());
            remove(&folder).unwrap();
            assert!(!pin.is_held());
            pin.make_again().unwrap();
            let found = list(&folder).unwrap();
            assert!(pin.is_held() && found.len() == 1 && found[0].alive && found[0].text.writer);
        }
        drop(pin);
        assert!(list(&folder).unwrap().is_empty());
    }

    #[test]
    fn what_is_no_file_is_no_pin_and_nothing_waits_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(format!("{}.pin", OpId::generate()));
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).unwrap();
        let pin = Pin::take(dir.path(), true, "test").unwrap();
        std::os::unix::fs::symlink("/dev/zero", dir.path().join(format!("{}.pin", OpId::generate()))).unwrap();
        let found = list(dir.path()).unwrap();
        assert_eq!((found.len(), found[0].op), (1, pin.op));
    }

    #[test]
    fn pins_live_as_long_as_they_are_held() {
        let dir = tempfile::tempdir().unwrap();
        let mut pin = Pin::take(dir.path(), true, "test").unwrap();
        let checkpoint = Ulid::generate();
        pin.add([checkpoint]).unwrap();
        let found = list(dir.path()).unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].alive && found[0].text.writer);
        assert_eq!(found[0].text.checkpoints, [checkpoint]);
        fs::write(dir.path().join(format!("{}.pin", OpId::generate())), "{}").unwrap();
        assert_eq!(list(dir.path()).unwrap().iter().filter(|p| !p.alive).count(), 1);
        drop(pin);
        assert_eq!(list(dir.path()).unwrap().len(), 1);
    }
}
