//! Buckets as another program reads them: `second_reader/` is written in Python, from `docs/format/bucket.md` alone.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex},
};

use jiff::{SignedDuration, Timestamp};
use parhelia_bucket::{
    Bucket, Result, Settings,
    chain::{CommitId, Entry, Machine, MachineMemory, MachineState},
    gc, keyslots,
    pack::{PackRef, PackSource, WantedPack},
    random::OsRandom,
    remote::{Client, ConnectOptions, Effort, RemoteUrl},
    seal::{Cipher, Content, Keyring},
    view::View,
};
use serde_json::{Value, json};

/// Python with the reader's packages, installed once below the build's folder.
fn python() -> PathBuf {
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/second_reader");
    let (place, requirements) = (Path::new(env!("CARGO_TARGET_TMPDIR")).join("bucket-reader"), reader.join("requirements.txt"));
    fs::create_dir_all(&place).unwrap();
    let lock = File::create(place.join("lock")).unwrap();
    lock.lock().unwrap();
    let (program, done, wanted) = (place.join("python/bin/python"), place.join("installed"), fs::read(&requirements).unwrap());
    if !fs::read(&done).is_ok_and(|installed| installed == wanted) {
        let made = Command::new("python3").args(["-m", "venv", "--clear"]).arg(place.join("python")).status().unwrap();
        assert!(made.success(), "it needs the Debian packages python3 and python3-venv");
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
        assert!(Command::new(&program).args(pip).arg(&requirements).status().unwrap().success(), "it needs a package registry");
        fs::write(&done, wanted).unwrap();
    }
    program
}

fn read(folder: &Path, secret: &[&str]) -> Output {
    let mut command = Command::new(python());
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/second_reader/bucket.py")).arg(folder).args(secret);
    command.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null()).output().unwrap()
}

/// What the reader says of a bucket.
fn checked(folder: &Path, secret: &[&str]) -> Value {
    let output = read(folder, secret);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[derive(Default)]
struct Disk(Mutex<Option<MachineState>>);

impl MachineMemory for Disk {
    fn load(&self) -> Result<Option<MachineState>> {
        Ok(self.0.lock().unwrap().clone())
    }

    fn save(&self, state: &MachineState) -> Result<()> {
        *self.0.lock().unwrap() = Some(state.clone());
        Ok(())
    }
}

/// Packs whose label is their length in thousands.
struct Packs;

struct Held(Vec<u8>);

impl Content for Held {
    fn bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0[..].read_at(offset, buffer)
    }
}

fn content(label: u8) -> Vec<u8> {
    let mut bytes = vec![0; 1000 * usize::from(label)];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

fn wanted(label: u8) -> WantedPack {
    let content = content(label);
    WantedPack {
        label: vec![label],
        digest: *blake3::hash(&content).as_bytes(),
        content_bytes: content.len() as u64,
        there: None,
    }
}

impl PackSource for Packs {
    fn open(&self, label: &[u8]) -> Result<Box<dyn Content + Send + Sync>> {
        Ok(Box::new(Held(content(label[0]))))
    }

    fn replace(&self, lost: &PackRef) -> Result<Vec<WantedPack>> {
        Ok(vec![wanted(lost.label[0])])
    }
}

fn commit(id: u8, labels: &[u8]) -> Entry {
    Entry::Commit { id: CommitId([id; 16]), body: vec![id, 1], packs: labels.iter().map(|label| wanted(*label)).collect() }
}

/// Fills a bucket with two machines' work, a deletion, and two rounds of gc.
async fn fill(bucket: &Bucket) {
    let policy = gc::GcPolicy { orphan_patience: SignedDuration::ZERO, deletion_grace: SignedDuration::ZERO };
    let later = Timestamp::from_second(10_000_000_000).unwrap();
    let (first, second) = (Disk::default(), Disk::default());
    let mut machine = Machine::open(bucket, &first).await.unwrap();
    machine.push(&[commit(1, &[1, 70]), Entry::Event(vec![1])], 2, &Packs).await.unwrap();
    machine.push(&[Entry::Event(vec![2])], 3, &Packs).await.unwrap();
    let mut other = Machine::open(bucket, &second).await.unwrap();
    other.push(&[commit(2, &[200]), Entry::Deletion { commit: CommitId([1; 16]), at_ms: 0 }], 2, &Packs).await.unwrap();
    let mut view = View::default();
    assert_eq!(gc::round(bucket, &mut view, &policy, later).await.unwrap().deleted, 2);
    machine.push(&[commit(3, &[0, 130])], 4, &Packs).await.unwrap();
    other.push(&[Entry::Event(vec![3])], 3, &Packs).await.unwrap();
    gc::round(bucket, &mut view, &policy, later).await.unwrap();
    let id = machine.state().machine;
    assert_eq!(gc::empty(bucket, &view, id, 2..3).await.unwrap(), 1);
}

fn client(folder: &Path) -> Client {
    Client::connect(&RemoteUrl::parse(&format!("file://{}", folder.display())).unwrap(), &ConnectOptions::default()).unwrap()
}

fn expected(said: &Value) {
    assert_eq!(said["commits"], json!({ "02".repeat(16): "0201", "03".repeat(16): "0301" }));
    let mut events: Vec<&str> = said["events"].as_array().unwrap().iter().map(|event| event.as_str().unwrap()).collect();
    events.sort_unstable();
    assert_eq!((events, said["packs"].as_object().unwrap().len()), (vec!["01", "03"], 3));
}

#[tokio::test]
async fn another_program_reads_buckets_with_each_kind_of_key() {
    let (random, effort) = (Arc::new(OsRandom::new()), Effort::BACKGROUND);
    for cipher in [Cipher::Plain, Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let folder = tempfile::tempdir().unwrap();
        let client = client(folder.path());
        if cipher == Cipher::Plain {
            let bucket = Bucket::open_or_make(client, Keyring::plain(), random.clone(), effort).await.unwrap();
            fill(&bucket).await;
            expected(&checked(folder.path(), &[]));
            continue;
        }
        // The store's id comes first, because slots are bound to it.
        let placeholder = Keyring::plain().with(1, parhelia_bucket::seal::MasterKey::new([0; 32]));
        let made = Bucket::open_or_make(client.clone(), placeholder, random.clone(), effort).await.unwrap();
        let Settings { id, .. } = made.settings;
        let passphrase = keyslots::Secret::Passphrase("correct horse".to_owned().into());
        let phrase = keyslots::RecoveryPhrase::fresh(&*random).unwrap();
        let (document, keys) = keyslots::Document::new(id, &passphrase, "team", &*random).unwrap();
        assert!(keyslots::write(&client, &document, &effort).await.unwrap());
        let document = document.with_slot(&keyslots::Secret::Recovery(phrase.clone()), "paper", &keys, &*random).unwrap();
        assert!(keyslots::write(&client, &document, &effort).await.unwrap());
        let (document, keys) = document.rotated(&keys, &*random).unwrap();
        assert!(keyslots::write(&client, &document, &effort).await.unwrap());
        let private = [9; 32];
        let public = keyslots::PrivateKey::new(private).public();
        let document = document.with_public_key(public, "server", &keys, &*random).unwrap();
        assert!(keyslots::write(&client, &document, &effort).await.unwrap());
        let keys = keyslots::unlock(&client, &passphrase, None, &effort).await.unwrap();
        let mut bucket = Bucket::open(client, keys, random.clone(), effort).await.unwrap();
        bucket.cipher = cipher;
        fill(&bucket).await;
        let (hex, text) = ("09".repeat(32), phrase.text());
        for secret in [["passphrase", "correct horse"], ["recovery", text.as_str()], ["key", hex.as_str()]] {
            expected(&checked(folder.path(), &secret));
        }
        assert_eq!(read(folder.path(), &["passphrase", "wrong"]).status.code(), Some(1));
        damage(folder.path(), &["key", &hex]);
    }
}

/// A changed byte in any object that counts is noticed.
fn damage(folder: &Path, secret: &[&str]) {
    let mut kinds: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(inner).unwrap() {
            let path = entry.unwrap().path();
            let kind = path.strip_prefix(folder).unwrap().iter().next().unwrap().to_string_lossy().into_owned();
            if path.is_dir() { folders.push(path) } else { drop(kinds.insert(kind, path)) }
        }
    }
    assert_eq!(kinds.len(), 5, "{kinds:?}");
    for path in kinds.values().filter(|path| !path.to_string_lossy().contains("keys/")) {
        let bytes = fs::read(path).unwrap();
        let mut changed = bytes.clone();
        let middle = changed.len() / 2;
        changed[middle] ^= 1;
        fs::write(path, changed).unwrap();
        assert!(!read(folder, secret).status.success(), "{}", path.display());
        fs::write(path, bytes).unwrap();
    }
}
