//! Machines that share a bucket in a folder.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use parhelia_ledger::LedgerView as _;
use parhelia_remote::{
    AddOptions, ConnectOptions, Error, FetchOptions, RemoteFolder, RemoteUrl, Secret, Wanted, add, backlog, fetch, gc, keys,
    machines, push, remove,
};
use parhelia_store::{
    OpenOptions, Store,
    check::{self, CheckOptions},
    create::{self, Options},
    delete::delete_checkpoints,
    event::{Actor, NewEvent},
    id::Ulid,
    restore,
};

const PATIENCE: Duration = Duration::from_secs(30);

struct Machine {
    dir: tempfile::TempDir,
    store: Store,
}

impl Machine {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = OpenOptions { create: true, ..OpenOptions::default() };
        let store = parhelia_ledger::open(&dir.path().join("store"), &options).unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        Machine { dir, store }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes a checkpoint of a session, with a file of this content.
    fn checkpoint(&self, session: &str, content: &str) -> Ulid {
        fs::write(self.path("work/file"), content).unwrap();
        let options = Options { workspace: self.path("work"), session: session.into(), ..Options::default() };
        create::run(&self.store, &options, &()).unwrap().checkpoint.record.id
    }

    fn join(&self, bucket: &Path) -> parhelia_remote::Result<parhelia_remote::Added> {
        self.join_with(bucket, "correct horse", true)
    }

    fn join_with(&self, bucket: &Path, passphrase: &str, encrypts: bool) -> parhelia_remote::Result<parhelia_remote::Added> {
        let secret = |_: Wanted| Ok(Secret::Passphrase(passphrase.to_owned().into()));
        let connect = ConnectOptions::default();
        add(
            &self.store,
            &url(bucket),
            &AddOptions { connect, encrypts, makes: true, shows_phrase: true, secret: &secret, machine: "host".into() },
        )
    }

    fn push(&self) -> parhelia_remote::Pushed {
        push(&self.store, &ConnectOptions::default(), PATIENCE, &()).unwrap()
    }

    fn fetch(&self) -> parhelia_remote::Fetched {
        fetch(&self.store, &FetchOptions::default(), &()).unwrap()
    }

    fn ids(&self) -> Vec<Ulid> {
        self.store.refresh().unwrap().checkpoints().unwrap().iter().map(|checkpoint| checkpoint.record.id).collect()
    }

    fn content(&self, id: Ulid) -> String {
        let checkpoint = self.store.refresh().unwrap().checkpoint(id).unwrap().unwrap();
        let to = self.path(&format!("restored-{id}"));
        let plan = restore::plan(&self.store, &checkpoint, &restore::Options::new(&to), &()).unwrap();
        restore::execute(&self.store, &checkpoint, plan, &()).unwrap();
        fs::read_to_string(to.join("file")).unwrap()
    }

    fn assert_whole(&self) {
        let report = check::run(self.store.layout(), &CheckOptions { read_data_percent: Some(100) }, &()).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
    }
}

fn url(bucket: &Path) -> RemoteUrl {
    RemoteUrl::parse(&format!("file://{}", bucket.display())).unwrap()
}

/// Objects of a bucket below a folder.
fn objects(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() { folders.push(entry.path()) } else { found.push(entry.path()) }
        }
    }
    found
}

#[test]
fn work_of_one_machine_is_on_another_and_deletions_are_everywhere() {
    let bucket = tempfile::tempdir().unwrap();
    let (first, second) = (Machine::new(), Machine::new());
    let added = first.join(bucket.path()).unwrap();
    assert!(added.is_new && added.joined.encrypted && added.recovery.is_some());
    let ids = [first.checkpoint("s1", "one SECRETWORD"), first.checkpoint("s1", "two SECRETWORD")];
    assert_eq!(backlog(&first.store).unwrap().checkpoints, 2);
    let pushed = first.push();
    assert!(pushed.packs >= 2 && pushed.damaged.is_empty());
    assert!(backlog(&first.store).unwrap().is_nothing());
    assert_eq!(first.push().segments, 0, "nothing is pushed twice");

    assert!(!second.join(bucket.path()).unwrap().is_new);
    let own = second.checkpoint("s2", "mine");
    let fetched = second.fetch();
    assert_eq!((fetched.checkpoints, second.ids()), (2, vec![own, ids[0], ids[1]]));
    assert_eq!(second.content(ids[1]), "two SECRETWORD");
    second.assert_whole();
    // Sessions of other machines are known, and are not taken for this one's.
    let view = second.store.refresh().unwrap();
    assert_eq!(view.sessions().unwrap().into_iter().map(|session| session.id).collect::<Vec<_>>(), ["s2"]);
    assert_eq!(view.all_sessions().unwrap().len(), 2);
    assert!(view.session("s1").unwrap().is_none(), "a session of this name that is made here is another one");

    // Each pushes its own alone, and what it has from the other is not sent again.
    second.push();
    first.fetch();
    assert_eq!(first.ids(), [ids[0], ids[1], own]);
    let listed = machines(&first.store, &ConnectOptions::default(), &()).unwrap();
    let by = |is_this: bool| listed.iter().find(|machine| machine.is_this == is_this).unwrap();
    assert_eq!((by(true).checkpoints, by(false).checkpoints), (2, 1));
    assert!(by(true).host.is_some());

    // A machine marks and deletes what it has made, for all; what it says of others' checkpoints stays its own.
    let tag = |id: Ulid, tag: &str| NewEvent::new("checkpoint.tagged", id.to_string(), Actor::default()).with("tag", tag);
    second.store.append_events(&[tag(own, "good"), tag(ids[1], "bad")], &()).unwrap();
    delete_checkpoints(&second.store, &[ids[0]], None, &()).unwrap();
    second.push();
    first.fetch();
    assert_eq!(first.ids(), [ids[0], ids[1], own]);
    let marks = |id| first.store.refresh().unwrap().marks(id).unwrap().tags;
    assert!(marks(own).contains("good") && marks(ids[1]).is_empty());
    delete_checkpoints(&first.store, &[ids[1]], None, &()).unwrap();
    first.push();
    second.fetch();
    assert_eq!((first.ids(), second.ids()), (vec![ids[0], own], vec![own]));

    // Nothing of it can be read in the bucket.
    for path in objects(bucket.path()) {
        let bytes = fs::read(&path).unwrap();
        let shows = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
        assert!(!shows(b"SECRETWORD") && !shows(b"s1\"") && !shows(ids[1].to_string().as_bytes()), "{}", path.display());
    }
    let wrong = Machine::new().join_with(bucket.path(), "wrong", true).unwrap_err();
    assert!(wrong.to_string().contains("no slot opens"), "{wrong}");
}

#[test]
fn a_store_that_was_lost_is_whole_again() {
    let bucket = tempfile::tempdir().unwrap();
    let lost = Machine::new();
    lost.join_with(bucket.path(), "", false).unwrap();
    let ids: Vec<Ulid> = (0..5).map(|number| lost.checkpoint("work", &format!("content {number}"))).collect();
    lost.push();
    let machine = RemoteFolder::of(lost.store.layout()).machine().unwrap().unwrap().machine.to_string();
    drop(lost);

    let new = Machine::new();
    new.join_with(bucket.path(), "", false).unwrap();
    let options = FetchOptions { take_over: vec![machine.clone()], ..FetchOptions::default() };
    assert_eq!(fetch(&new.store, &options, &()).unwrap().checkpoints, 5);
    assert_eq!(new.ids(), ids);
    assert!(new.store.refresh().unwrap().session("work").unwrap().unwrap().is_ours());
    new.assert_whole();
    // It goes on, under an id of its own, and sends nothing again.
    let packs = bucket.path().join("packs");
    let before = objects(&packs).len();
    let next = new.checkpoint("work", "content 5");
    let pushed = new.push();
    assert!(objects(&packs).len() as u64 == before as u64 + pushed.packs && pushed.packs <= 2, "{pushed:?}");
    let parent = new.store.refresh().unwrap().checkpoint(next).unwrap().unwrap().record.parent;
    assert_eq!(parent, ids.last().copied());
    let taken = Machine::new();
    taken.join_with(bucket.path(), "", false).unwrap();
    taken.fetch();
    let options = FetchOptions { take_over: vec![machine[..6].to_owned()], ..FetchOptions::default() };
    assert!(matches!(fetch(&taken.store, &options, &()), Err(Error::TakenInBefore { .. })));
    for bad in ["", "xyz", &"0".repeat(32)] {
        let options = FetchOptions { take_over: vec![bad.into()], ..FetchOptions::default() };
        assert!(fetch(&new.store, &options, &()).is_err(), "{bad}");
    }
}

#[test]
fn two_machines_that_work_at_the_same_path_have_a_session_each() {
    let bucket = tempfile::tempdir().unwrap();
    let (first, second) = (Machine::new(), Machine::new());
    first.join(bucket.path()).unwrap();
    second.join(bucket.path()).unwrap();
    let theirs = [first.checkpoint("same", "one"), first.checkpoint("same", "two")];
    first.push();
    let own = second.checkpoint("same", "mine");
    second.fetch();
    let view = second.store.refresh().unwrap();
    assert_eq!(view.head("same").unwrap().unwrap().record.id, own);
    let of_other = view.all_sessions().unwrap().into_iter().find(|session| !session.is_ours()).unwrap();
    assert!(of_other.id.starts_with("same+") && of_other.head == Some(theirs[1]));
    assert_eq!(view.briefs_of(&of_other.id, 0).unwrap().len(), 2);
    assert_eq!(view.briefs_of("same", 0).unwrap().len(), 1);
    // The next one here follows the last one here; nothing is captured into the other's session.
    let next = second.checkpoint("same", "mine too");
    assert_eq!(second.store.refresh().unwrap().checkpoint(next).unwrap().unwrap().record.parent, Some(own));
    let options = Options { workspace: second.path("work"), session: of_other.id.clone(), ..Options::default() };
    create::run(&second.store, &options, &()).unwrap_err();
    let ended = NewEvent::new("session.status", of_other.id.clone(), Actor::default()).with("status", "ended");
    assert!(second.store.append_events(&[ended], &()).unwrap_err().to_string().contains("another machine"));
    // The index tells the same once it has taken that in.
    second.store.absorb().unwrap();
    let again = second.store.refresh().unwrap();
    assert_eq!(again.briefs_of(&of_other.id, 0).unwrap().len(), 2);
    let named: Vec<String> = again.outlines().unwrap().into_iter().map(|outline| outline.session).collect();
    assert_eq!(named.iter().filter(|session| **session == of_other.id).count(), 2);
    second.assert_whole();
    second.push();
    first.fetch();
    assert_eq!(first.store.refresh().unwrap().briefs_of("same", 0).unwrap().len(), 2);
}

#[test]
fn what_a_machine_says_of_another_one_s_sessions_and_checkpoints_changes_nothing() {
    let bucket = tempfile::tempdir().unwrap();
    let (victim, hostile) = (Machine::new(), Machine::new());
    victim.join(bucket.path()).unwrap();
    hostile.join(bucket.path()).unwrap();
    let id = victim.checkpoint("work", "kept");
    let actor = || Actor { user: Some("root".into()), via: "cli".into(), uid: Some(0), login: None };
    let started =
        NewEvent::new("run.started", "01RUN", actor()).with("session", "work").with("argv", serde_json::json!(["claude"]));
    victim.store.append_events(&[started], &()).unwrap();
    let before = (victim.store.refresh().unwrap().session("work").unwrap(), victim.store.view().run("01RUN").unwrap());
    // A session and a run of the same names, made on the other machine, and everything that can be said of them.
    hostile.checkpoint("work", "other");
    let started =
        NewEvent::new("run.started", "01RUN", actor()).with("session", "work").with("argv", serde_json::json!(["evil"]));
    let changed = NewEvent::new("run.changed", "01RUN", actor()).with("argv", serde_json::json!(["evil"]));
    let ended = NewEvent::new("session.status", "work", actor()).with("status", "ended");
    let decided = NewEvent::new("checkpoint.decided", "", actor()).with("status", "approved");
    hostile.store.append_events(&[started, changed, ended], &()).unwrap();
    victim.push();
    hostile.fetch();
    let forged = NewEvent { subject: id.to_string(), ..decided };
    hostile.store.append_events(&[forged], &()).unwrap();
    delete_checkpoints(&hostile.store, &[id], None, &()).unwrap();
    hostile.push();
    victim.fetch();
    let view = victim.store.refresh().unwrap();
    assert_eq!((view.session("work").unwrap(), view.run("01RUN").unwrap()), before);
    assert!(view.marks(id).unwrap().approval.is_none());
    assert!(victim.ids().contains(&id));
    victim.assert_whole();
}

#[test]
fn a_store_that_was_set_back_sends_what_the_bucket_lacks() {
    let bucket = tempfile::tempdir().unwrap();
    let machine = Machine::new();
    machine.join_with(bucket.path(), "", false).unwrap();
    machine.checkpoint("s", "one");
    machine.push();
    let journal = machine.store.layout().journal();
    let saved: Vec<(PathBuf, Vec<u8>)> = fs::read_dir(&journal)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    machine.checkpoint("s", "two");
    machine.push();
    // The journal is an older copy; what is made now has the numbers of what was sent.
    let (dir, root) = (machine.dir, machine.store.path().to_owned());
    drop(machine.store);
    fs::remove_dir_all(&journal).unwrap();
    fs::create_dir(&journal).unwrap();
    saved.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
    fs::remove_dir_all(root.join("view")).unwrap();
    let machine = Machine { store: parhelia_ledger::open(&root, &OpenOptions::default()).unwrap(), dir };
    let new = machine.checkpoint("s", "three");
    machine.push();
    let other = Machine::new();
    other.join_with(bucket.path(), "", false).unwrap();
    other.fetch();
    assert!(other.ids().contains(&new));
    other.assert_whole();
}

#[test]
fn a_bucket_that_was_set_back_is_taken_only_where_that_is_said() {
    let bucket = tempfile::tempdir().unwrap();
    let (machine, other) = (Machine::new(), Machine::new());
    machine.join_with(bucket.path(), "", false).unwrap();
    other.join_with(bucket.path(), "", false).unwrap();
    machine.checkpoint("s", "one");
    machine.push();
    machine.checkpoint("s", "two");
    machine.push();
    assert_eq!(other.fetch().checkpoints, 2);
    let newest = objects(&bucket.path().join("journal")).into_iter().max().unwrap();
    fs::remove_file(newest).unwrap();
    let refused = fetch(&other.store, &FetchOptions::default(), &()).unwrap_err();
    assert!(refused.to_string().contains("older copy"), "{refused}");
    let options = FetchOptions { accepts_older: true, ..FetchOptions::default() };
    assert_eq!(fetch(&other.store, &options, &()).unwrap().checkpoints, 0);
    assert_eq!((other.ids().len(), other.fetch().checkpoints), (2, 0));
    other.assert_whole();
}

#[test]
fn a_bucket_without_encryption_is_joined_only_where_that_is_meant() {
    let bucket = tempfile::tempdir().unwrap();
    Machine::new().join_with(bucket.path(), "", false).unwrap();
    let refused = Machine::new().join_with(bucket.path(), "correct horse", true).unwrap_err();
    assert!(matches!(refused, Error::Plain { .. }), "{refused}");
    let empty = tempfile::tempdir().unwrap();
    let secret = |_: Wanted| Ok(Secret::Passphrase("correct horse".to_owned().into()));
    let (connect, machine) = (ConnectOptions::default(), "host".into());
    let options = AddOptions { connect, encrypts: true, makes: false, shows_phrase: false, secret: &secret, machine };
    assert!(matches!(add(&Machine::new().store, &url(empty.path()), &options), Err(Error::NoBucket { .. })));
}

#[test]
fn gc_spares_what_machines_need() {
    let bucket = tempfile::tempdir().unwrap();
    let machine = Machine::new();
    machine.join_with(bucket.path(), "", false).unwrap();
    let ids = [machine.checkpoint("s", &"a".repeat(100_000)), machine.checkpoint("s", "b")];
    machine.push();
    delete_checkpoints(&machine.store, &[ids[0]], None, &()).unwrap();
    machine.push();
    // Readers of what was deleted have an hour.
    let report = gc::run(&machine.store, &ConnectOptions::default(), &()).unwrap();
    assert_eq!(report.deleted, 0);
    let other = Machine::new();
    other.join_with(bucket.path(), "", false).unwrap();
    assert_eq!((other.fetch().checkpoints, other.ids()), (1, vec![ids[1]]));
    other.assert_whole();
}

#[test]
fn keys_come_and_go_and_machines_go_on() {
    let bucket = tempfile::tempdir().unwrap();
    let (first, second) = (Machine::new(), Machine::new());
    let phrase = first.join(bucket.path()).unwrap().recovery.unwrap();
    let options = ConnectOptions::default();
    second.join(bucket.path()).unwrap();
    let names = |machine: &Machine| {
        let (slots, own) = keys::list(&machine.store, &options).unwrap();
        (slots.into_iter().map(|slot| slot.label).collect::<Vec<_>>(), own.unwrap())
    };
    assert_eq!(names(&second), (["first", "recovery", "host", "host-2"].map(String::from).to_vec(), "host-2".to_owned()));
    keys::add(&first.store, &options, &Secret::Passphrase("another".to_owned().into()), "team").unwrap();
    assert!(keys::add(&first.store, &options, &Secret::Passphrase("x".to_owned().into()), "team").is_err());
    Machine::new().join_with(bucket.path(), "another", true).unwrap();
    // A machine that is shut out, and a new generation of keys.
    keys::remove(&first.store, &options, "host-2").unwrap();
    assert_eq!(keys::rotate(&first.store, &options).unwrap(), 2);
    let id = first.checkpoint("s", "after");
    first.push();
    let shut_out = fetch(&second.store, &FetchOptions::default(), &()).unwrap_err();
    assert!(matches!(shut_out, Error::Bucket(_)), "{shut_out}");
    let third = Machine::new();
    let secret = |_: Wanted| Ok(Secret::Recovery(phrase.clone()));
    let (connect, machine) = (options.clone(), "new".into());
    let options = AddOptions { connect, encrypts: true, makes: false, shows_phrase: false, secret: &secret, machine };
    add(&third.store, &url(bucket.path()), &options).unwrap();
    third.fetch();
    assert_eq!((third.ids(), third.content(id)), (vec![id], "after".to_owned()));
}

#[test]
fn a_bucket_that_is_not_there_is_said_and_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let (bucket, away) = (dir.path().join("bucket"), dir.path().join("away"));
    fs::create_dir(&bucket).unwrap();
    let machine = Machine::new();
    assert!(matches!(push(&machine.store, &ConnectOptions::default(), PATIENCE, &()), Err(Error::NoRemote)));
    machine.join_with(&bucket, "", false).unwrap();
    assert!(matches!(machine.join_with(&bucket, "", false), Err(Error::HasRemote { .. })));
    let id = machine.checkpoint("s", "kept");
    let folder = RemoteFolder::of(machine.store.layout());
    fs::rename(&bucket, &away).unwrap();
    assert!(push(&machine.store, &ConnectOptions::default(), PATIENCE, &()).is_err());
    let failed = folder.last_attempt().unwrap().unwrap();
    assert!(failed.error.is_some() && failed.failing_since.is_some());
    assert_eq!(backlog(&machine.store).unwrap().checkpoints, 1);
    let _ = fs::remove_dir_all(&bucket);
    fs::rename(&away, &bucket).unwrap();
    machine.push();
    let done = folder.last_attempt().unwrap().unwrap();
    assert_eq!((done.error, done.failing_since), (None, None));
    // Another store at the prefix is refused.
    fs::rename(&bucket, &away).unwrap();
    fs::create_dir(&bucket).unwrap();
    Machine::new().join_with(&bucket, "", false).unwrap();
    let refused = push(&machine.store, &ConnectOptions::default(), PATIENCE, &()).unwrap_err();
    assert!(refused.to_string().contains("another store"), "{refused}");
    remove(&machine.store).unwrap();
    assert!(matches!(remove(&machine.store), Err(Error::NoRemote)));
    assert_eq!(machine.ids(), [id]);
}
