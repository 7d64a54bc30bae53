use std::path::Path;

use parhelia_store::{
    Error, Result, Store,
    archive::import::{Limits, Reader},
    create::{self, ImportOptions, Outcome},
    event::{Actor, NewEvent},
};

use crate::{kind, testing::TestStore};

/// An archive of one file.
fn tar_of(content: &[u8]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(content.len() as u64);
    builder.append_data(&mut header, "f", content).unwrap();
    builder.into_inner().unwrap()
}

fn import_as(store: &Store, archive: &[u8], options: &ImportOptions) -> Result<Outcome> {
    let mut reader = Reader::new(archive, Path::new("a.tar"), Limits::default())?;
    create::import(store, &mut reader, options, &())
}

/// Has a session work in a folder.
fn work_in(store: &Store, session: &str) {
    let event = NewEvent::new(kind::SESSION_CREATED, session, Actor::default());
    store.append_events(&[event.with("workspace", serde_json::json!({ "path": "/w" }))], &()).unwrap();
}

#[test]
fn what_is_imported_goes_to_a_session_that_works_in_no_folder() {
    let f = TestStore::new();
    let archive = tar_of(b"content");
    let session = |options: &ImportOptions| import_as(&f.store, &archive, options).map(|done| done.checkpoint.record.session);
    let from = |name: &str| ImportOptions { origin_session: Some(name.into()), ..ImportOptions::default() };
    let to = |name: &str| ImportOptions { session: Some(name.into()), ..ImportOptions::default() };
    assert_eq!(session(&ImportOptions::default()).unwrap(), "imported");
    assert_eq!(session(&from("there")).unwrap(), "there");
    // One that works in no folder may get more.
    assert_eq!((session(&to("there")).unwrap(), session(&from("there")).unwrap()), ("there".into(), "there".into()));
    for name in ["there", "there-imported", "imported"] {
        work_in(&f.store, name);
    }
    assert_eq!(session(&from("there")).unwrap(), "there-imported-2");
    assert_eq!(session(&from("there-imported")).unwrap(), "there-imported-imported");
    assert_eq!(session(&ImportOptions::default()).unwrap(), "imported-imported");
    work_in(&f.store, "there-imported-2");
    assert_eq!(session(&from("there")).unwrap(), "there-imported-3");
    // A session is one by its name as well as by its id; another one's folder is of no matter.
    let event = NewEvent::new(kind::SESSION_CHANGED, "there", Actor::default());
    f.store.append_events(&[event.with("name", "called")], &()).unwrap();
    for name in ["there", "called"] {
        let error = session(&to(name)).unwrap_err().to_string();
        assert!(error.contains("session there works in /w"), "{error}");
    }
    assert_eq!(session(&from("called")).unwrap(), "called-imported");
    assert_eq!(session(&to("elsewhere")).unwrap(), "elsewhere");
    // The longest name has none beside it.
    let longest = "n".repeat(128);
    assert_eq!(session(&from(&longest)).unwrap(), longest);
    work_in(&f.store, &longest);
    let error = session(&from(&longest)).unwrap_err().to_string();
    assert!(error.contains("needs another name"), "{error}");
    assert!(matches!(session(&from("no name")), Err(Error::Invalid(_))));
}

#[test]
fn a_hundred_names_are_tried_beside_a_session_s() {
    let f = TestStore::new();
    let archive = tar_of(b"content");
    let from = ImportOptions { origin_session: Some("s".into()), ..ImportOptions::default() };
    ["s".to_owned(), "s-imported".to_owned()].iter().for_each(|name| work_in(&f.store, name));
    (2..99).for_each(|number| work_in(&f.store, &format!("s-imported-{number}")));
    assert_eq!(import_as(&f.store, &archive, &from).unwrap().checkpoint.record.session, "s-imported-99");
    work_in(&f.store, "s-imported-99");
    let error = import_as(&f.store, &archive, &from).unwrap_err().to_string();
    assert!(error.contains("needs another name"), "{error}");
}

#[test]
fn nothing_is_imported_into_a_session_that_has_got_a_folder_while_the_archive_was_read() {
    /// Bytes behind the first block of which a session begins to work in a folder.
    struct Meanwhile<'a>(&'a Store, &'a [u8], usize);
    impl std::io::Read for Meanwhile<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            if self.2 == 1 {
                let event = NewEvent::new(kind::SESSION_CREATED, "s", Actor::default());
                self.0.append_events(&[event.with("workspace", serde_json::json!({ "path": "/w" }))], &()).unwrap();
            }
            self.2 += 1;
            let bytes = self.1.len().min(512).min(out.len());
            out[..bytes].copy_from_slice(&self.1[..bytes]);
            self.1 = &self.1[bytes..];
            Ok(bytes)
        }
    }
    let test = TestStore::new();
    let store = &test.store;
    let bytes = tar_of(b"content");
    let mut reader = Reader::new(Meanwhile(store, &bytes, 0), Path::new("a.tar"), Limits::default()).unwrap();
    let options = ImportOptions { session: Some("s".into()), ..ImportOptions::default() };
    let error = create::import(store, &mut reader, &options, &()).unwrap_err().to_string();
    assert!(error.contains("session s works in /w"), "{error}");
    assert!(store.refresh().unwrap().checkpoints().unwrap().is_empty());
}
