//! Importing a checkpoint as older tools keep it, by the manifest's schema 1.0, 1.1 or 1.2: a folder with `manifest.json` beside the archive
//! of the workspace, and files with the conversation, the environment and more. `docs/cli.md` lists what is read and what becomes of it.
//!
//! [`Older::read`] looks at everything but the archive's members, and checks the checksums; [`Older::import`] makes the checkpoint, whole or not
//! at all. Anybody may have made such a folder: whatever is not as it must be is refused by its name.

mod checksum;
mod conversation;
mod environment;
mod fields;
mod files;
mod folder;
mod manifest;
mod marks;
#[cfg(test)]
mod tests;

use parhelia_store::name::step::Step;
use std::{
    fs::File,
    io::ErrorKind,
    path::{Path, PathBuf},
};

pub use checksum::ChecksumReport;
use parhelia_store::{
    Store,
    archive::import::{Limits, Reader},
    create::{CapturedState, ImportMetadata, ImportOptions, Outcome, StateContent, StateFile, import_with},
    event::NewEvent,
    name::{self, NameExt as _},
    progress::Progress,
    record::Part,
};
use serde_json::Value;

use self::{
    checksum::Checksums,
    conversation::ImportedConversation,
    fields::Fields,
    files::Files,
    folder::{Folder, MANIFEST},
    manifest::Manifest,
};
use parhelia_host::{Error, Result};

/// The folder of `state` that has the files as they were, and the part that they are.
const IMPORTED: &str = "imported";
const ENVIRONMENT: &str = "environment";
const FREEZE: &str = "pip_freeze.txt";

/// The longest manifest, in bytes.
const MANIFEST_BYTES_MAX: u64 = 16 << 20;
/// The most bytes of what goes into the record.
const RECORD_BYTES_MAX: usize = 2 << 20;

/// The session and the message of the new checkpoint, where they are not those of the older one.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Id of the session to import into; none for the older checkpoint's own.
    pub session: Option<String>,
    /// Message of the new checkpoint; none for the older one's.
    pub message: Option<String>,
}

/// An older checkpoint that was read, and may be imported.
#[derive(Debug)]
pub struct Older {
    path: PathBuf,
    archive: File,
    manifest: Manifest,
    /// Tags, annotations and links.
    marks: Vec<NewEvent>,
    environment: Option<Value>,
    conversation: ImportedConversation,
    /// Files to be kept as they were.
    files: Files,
    checked: ChecksumReport,
    /// Statements that cannot be made here.
    left: Vec<String>,
}

impl Older {
    /// Reads the folder of an older checkpoint, and checks the checksums that its manifest has.
    pub fn read(path: &Path, progress: &dyn Progress) -> Result<Self> {
        let folder = Folder::open(path)?;
        let place = folder.place(MANIFEST);
        let missing = |why: String| {
            move |e| match e {
                Error::Io { source, .. } if source.kind() == ErrorKind::NotFound => Error::Invalid(why),
                other => other,
            }
        };
        let no_manifest =
            format!("cannot import {}: it has no {MANIFEST}\nName the folder of one checkpoint, or an archive", path.shown());
        let bytes = folder.read(MANIFEST, MANIFEST_BYTES_MAX).map_err(missing(no_manifest))?;
        let told = files::parsed(&folder, MANIFEST, &bytes)?;
        let fields = Fields::of(&place, &told)?;
        let manifest = Manifest::read(&fields)?;
        let checksums = Checksums::read(&fields, &manifest.archive)?;
        let (marks, left) = marks::read(&fields)?;
        let listed = folder.files()?;
        let no_archive =
            format!("cannot import {}: there is no {}, its archive", place.shown(), folder.place(&manifest.archive).shown());
        let mut archive = folder.file(&manifest.archive).map_err(missing(no_archive))?;
        let checked = checksums.check(&folder, (&manifest.archive, &mut archive), &listed, progress)?;
        let mut files = Files::read(&folder, &listed, &manifest.archive)?;
        let document = files.document(&folder, "conversation.json")?;
        let conversation =
            ImportedConversation::read(document.as_ref().map(|(place, value)| (&**place, value)), files.take_transcript())?;
        let variables = files.document(&folder, "environment.json")?;
        let variables = variables.as_ref().map(|(place, value)| Fields::of(place, value)).transpose()?;
        let environment = environment::read(&fields.object(ENVIRONMENT)?, variables.as_ref())?;
        files.put(MANIFEST, bytes);
        files.take_secrets_out(&folder)?;
        Ok(Older { path: path.to_owned(), archive, manifest, marks, environment, conversation, files, checked, left })
    }

    /// The checksums that were right.
    pub fn checked(&self) -> ChecksumReport {
        self.checked
    }

    /// Makes the checkpoint. Nothing is committed unless all of the archive can be.
    pub fn import(self, store: &Store, request: Request, progress: &dyn Progress) -> Result<Outcome> {
        let Older { path, archive, manifest, marks, environment, conversation, files, left, .. } = self;
        let session = manifest.session.clone().filter(|_| request.session.is_none());
        let refused = |why: String| Error::Invalid(format!("cannot import {}: {why}", path.join(MANIFEST).shown()));
        if let Some(session) = session.as_ref().filter(|session| !name::is_session(session)) {
            let session = name::printable(session);
            return Err(refused(format!(
                "its session_id '{session}' cannot be a session's name here; {} gives another",
                Step::SessionOption
            )));
        }
        let mut reader = Reader::new(archive, &path.join(&manifest.archive), Limits::default())?;
        let mut state =
            CapturedState { consistency: manifest.consistency, git: manifest.git.clone(), ..CapturedState::default() };
        conversation.take(store, &manifest, &mut state)?;
        put_environment(environment, &files, &mut state);
        files.keep(store, &mut state, progress);
        let bytes = record_bytes(&state);
        if bytes > RECORD_BYTES_MAX {
            return Err(refused(format!(
                "its fields come to {bytes} bytes in a record, and at most {RECORD_BYTES_MAX} are taken"
            )));
        }
        let options = ImportOptions {
            session: request.session,
            origin_session: session,
            message: request.message.or(Some(manifest.message)),
            origin: manifest.id,
        };
        let beside = ImportMetadata {
            trigger: manifest.trigger,
            started_at: manifest.started_at,
            created_at: manifest.created_at,
            workspace: manifest.workspace,
            state,
            from: Some(manifest.from),
            marks,
        };
        let outcome = import_with(store, &mut reader, &options, beside, progress)?;
        for why in left {
            progress.notice(&format!("not carried over, but kept in state/{IMPORTED}/{MANIFEST}: {why}"));
        }
        Ok(outcome)
    }
}

/// A file of `state`.
fn put(state: &mut CapturedState, part: &str, path: String, bytes: Vec<u8>) {
    state.files.push(StateFile { path, part: part.into(), content: StateContent::Bytes(bytes), mtime: None });
}

fn put_environment(environment: Option<Value>, files: &Files, state: &mut CapturedState) {
    let Some(environment) = environment else { return };
    let text = serde_json::to_vec_pretty(&environment).unwrap_or_default();
    put(state, ENVIRONMENT, format!("{ENVIRONMENT}.json"), text);
    if let Some(freeze) = files.get(FREEZE) {
        put(state, ENVIRONMENT, FREEZE.into(), freeze.to_vec());
    }
    state.parts.insert(ENVIRONMENT.into(), Part::Captured);
    state.environment = Some(environment);
}

/// Bytes that the record has of a state, about.
fn record_bytes(state: &CapturedState) -> usize {
    let objects = [&state.conversation, &state.git, &state.environment, &state.usage];
    objects.into_iter().flatten().map(|object| object.to_string().len()).sum()
}
