//! Pins: what keeps garbage collection off. A pin is a file in `pins/` that its process holds locked; a dead process holds nothing.

mod leaves;

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, Seek, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

pub use self::leaves::Leaves;
use crate::{
    disk,
    error::{IoContext, Result},
    files::{self, How},
    id::{OpId, Ulid},
    lock::release,
    store::Store,
};

/// The text of a pin's file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinText {
    /// True if its holder writes packs: their bytes, and those of packs condemned meanwhile, stay until it is over.
    pub writer: bool,
    /// Checkpoints that stay readable while the pin is held, deleted or not.
    pub checkpoints: Vec<Ulid>,
    /// Its holder, for messages.
    pub process: u32,
    /// The operation of its holder, for messages.
    pub purpose: String,
    /// The place where it builds something that is to go if it dies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<Leaves>,
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

    /// Says where things are built that are to go if this process dies. Synced, because those may be.
    pub fn leaves(&mut self, leaves: Leaves) -> Result<()> {
        self.text.leaves = Some(leaves);
        self.write()?;
        disk::sync_file(&self.file, "sync pin", &self.path)?;
        self.path.parent().map_or(Ok(()), disk::sync_folder)
    }

    /// Pins checkpoints as well. The caller looks again, afterwards, whether they are still there.
    pub fn add(&mut self, checkpoints: impl IntoIterator<Item = Ulid>) -> Result<()> {
        let known: HashSet<Ulid> = self.text.checkpoints.iter().copied().collect();
        self.text.checkpoints.extend(checkpoints.into_iter().filter(|id| !known.contains(id)));
        if self.text.checkpoints.len() == known.len() { Ok(()) } else { self.write() }
    }

    /// True if the folder still has the pin's file: somebody may have deleted it, and then gc does not know of its holder.
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

impl Store {
    /// A reader's pin on checkpoints. Reading needs no writing: where no pin can be made, as in a full or read-only store, this
    /// says so once and gives `None`. What gc removes meanwhile is then an error, and never wrong bytes, because every object is
    /// checked against its id.
    pub fn pin_for_reading(
        &self,
        checkpoints: impl IntoIterator<Item = Ulid>,
        purpose: &str,
        notice: impl FnOnce(&str),
    ) -> Option<Pin> {
        let taken = Pin::take(&self.layout().pins(), false, purpose).and_then(|mut pin| {
            pin.add(checkpoints)?;
            Ok(pin)
        });
        match taken {
            Ok(pin) => Some(pin),
            Err(e) => {
                if !self.reads_unpinned.swap(true, Ordering::Relaxed) {
                    notice(&format!("{e}; reading goes on without a pin, and fails where gc removes what is being read"));
                }
                None
            }
        }
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
    /// True if its process lives.
    pub alive: bool,
    /// Its text; a live pin whose text is not whole yet counts as a writer without checkpoints.
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

/// The operations that build something, dead or alive, and where. No lock is taken: whoever tries one for a moment looks alive to others.
pub fn builders(folder: &Path) -> Result<Vec<(OpId, Leaves)>> {
    let mut found = Vec::new();
    for path in files::list(folder).at("read folder", folder)? {
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".pin"));
        let Some(op) = name.and_then(OpId::from_hex) else { continue };
        // One that is gone again, or is just being written, is none of a dead process.
        let bytes = files::open(&path, How::Read).and_then(|file| files::read_all(&file, PIN_BYTES_MAX));
        let text = bytes.ok().and_then(|bytes| serde_json::from_slice::<PinText>(&bytes).ok());
        found.extend(text.and_then(|text| text.leaves).map(|leaves| (op, leaves)));
    }
    Ok(found)
}

/// True if somebody holds a pin.
pub fn is_held(folder: &Path, op: OpId) -> bool {
    let file = files::open(&folder.join(format!("{op}.pin")), How::Read);
    file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

/// True if there is a pin of this operation, dead or alive.
pub fn exists(folder: &Path, op: OpId) -> bool {
    fs::symlink_metadata(folder.join(format!("{op}.pin"))).is_ok()
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
mod tests;
