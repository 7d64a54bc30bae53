//! Stores of other versions: one that was written by an earlier build is opened, read and added to; one that needs more than this
//! version knows is refused, and says what it needs.
//!
//! `cargo test --release --workspace --test trust -- --ignored write_the_fixture` writes `fixtures/store-1.tar.zst` anew,
//! which is only right when the format has changed on purpose.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use parhelia_tests::{Scratch, files_in, noise, write};
use serde_json::{Value, json};

/// From the package's folder, in which cargo runs its tests.
fn fixture(name: &str) -> PathBuf {
    Path::new("fixtures").join(name)
}

fn tar(arguments: &[&str]) {
    let output = Command::new("tar").args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Content of a restored checkpoint: each file's length and hash.
fn digest(folder: &Path) -> BTreeMap<String, Value> {
    let files = files_in(folder).into_iter();
    files
        .map(|(path, bytes)| {
            let hash = blake3::hash(&bytes).to_hex().to_string();
            (String::from_utf8(path).unwrap(), json!({ "bytes": bytes.len(), "blake3": hash }))
        })
        .collect()
}

#[test]
#[ignore = "writes the fixture"]
fn write_the_fixture() {
    let s = Scratch::new();
    let work = s.path("work");
    parhelia_tests::write(&work.join("text"), "the same line\n".repeat(300).as_bytes()).unwrap();
    write(&work.join("large"), &noise(150_000, 1)).unwrap();
    write(&work.join("folder/empty"), b"").unwrap();
    write(&work.join("folder/small"), b"small").unwrap();
    std::os::unix::fs::symlink("text", work.join("link")).unwrap();
    fs::hard_link(work.join("text"), work.join("folder/text too")).unwrap();
    let mut expected = serde_json::Map::new();
    let mut take = || {
        let id = s.create("fixture", &work);
        let root = s.summary(&["checkpoint", "show", &id])["root"].clone();
        expected.insert(id.clone(), json!({ "root": root, "files": digest(&work) }));
        id
    };
    take();
    write(&work.join("text"), "another line\n".repeat(200).as_bytes()).unwrap();
    fs::remove_file(work.join("folder/small")).unwrap();
    let deleted = take();
    write(&work.join("new"), b"in the last one").unwrap();
    take();
    s.expect(0, &["checkpoint", "delete", &deleted, "--quiet"]);
    expected.remove(&deleted);
    s.expect(0, &["gc", "--quiet"]);
    take_again(&s, &work, &mut expected);
    // Neither is of any use to a reader, and both are large.
    for name in ["ballast", "cache"] {
        let path = s.store().join(name);
        let _ = fs::remove_file(&path);
        let _ = fs::remove_dir_all(&path);
    }
    fs::create_dir(s.store().join("cache")).unwrap();
    let archive = fixture("store-1.tar.zst");
    tar(&["--zstd", "-cf", &archive.to_string_lossy(), "-C", &s.path("").to_string_lossy(), "store"]);
    let expected = json!({ "checkpoints": expected, "deleted": [deleted] });
    fs::write(fixture("store-1.json"), serde_json::to_string_pretty(&expected).unwrap() + "\n").unwrap();
}

fn take_again(s: &Scratch, work: &Path, expected: &mut serde_json::Map<String, Value>) {
    write(&work.join("newer"), b"behind a collection").unwrap();
    let id = s.create("fixture", work);
    let root = s.summary(&["checkpoint", "show", &id])["root"].clone();
    expected.insert(id, json!({ "root": root, "files": digest(work) }));
}

fn unpacked() -> (Scratch, Value) {
    let s = Scratch::new();
    let archive = fixture("store-1.tar.zst");
    tar(&["--zstd", "-xpf", &archive.to_string_lossy(), "-C", &s.path("").to_string_lossy()]);
    let expected = serde_json::from_str(&fs::read_to_string(fixture("store-1.json")).unwrap()).unwrap();
    (s, expected)
}

#[test]
fn a_store_of_format_1_is_read_and_added_to() {
    let (s, expected) = unpacked();
    s.expect(0, &["check", "--read-data", "--quiet"]);
    let checkpoints = expected["checkpoints"].as_object().unwrap();
    for (id, expected) in checkpoints {
        assert_eq!(s.summary(&["checkpoint", "show", id])["root"], expected["root"]);
        s.expect(0, &["checkpoint", "verify", id, "--deep", "--quiet"]);
        let out = s.path(&format!("out-{id}"));
        s.restore(id, &out);
        assert_eq!(json!(digest(&out)), expected["files"], "{id}");
    }
    for deleted in expected["deleted"].as_array().unwrap() {
        s.expect(10, &["checkpoint", "show", deleted.as_str().unwrap()]);
    }
    let newest = checkpoints.keys().next_back().unwrap();
    let work = s.path(&format!("out-{newest}"));
    let same = s.create("added", &work);
    let changes = s.summary(&["checkpoint", "diff", newest, &same]);
    assert!(["added", "deleted", "modified", "renamed", "metadata"].iter().all(|name| changes[name] == 0), "{changes}");
    write(&work.join("added"), b"by this version").unwrap();
    let added = s.create("added", &work);
    s.restore(&added, &s.path("added"));
    parhelia_tests::assert_equal(&work, &s.path("added"));
    s.expect(0, &["gc", "--quiet"]);
    s.expect(0, &["check", "--rebuild-index", "--read-data", "--quiet"]);
    assert_eq!(s.expect(0, &["checkpoint", "list", "--json"]).matches("\"type\":\"checkpoint\"").count(), checkpoints.len() + 2);
}

/// Changes store.json and seals it anew, as a later release would.
fn reconfigure(s: &Scratch, change: impl Fn(&mut Value)) {
    let path = s.store().join("store.json");
    let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    change(&mut config);
    config["checksum"] = json!("");
    let sum = crc32c::crc32c(serde_json::to_string(&config).unwrap().as_bytes());
    config["checksum"] = json!(format!("{sum:08x}"));
    for copy in [path, s.store().join("journal/store.json")] {
        fs::write(copy, serde_json::to_string_pretty(&config).unwrap()).unwrap();
    }
}

#[test]
fn unknown_features_are_refused_as_far_as_they_must_be() {
    let s = Scratch::new();
    write(&s.path("work/f"), b"content").unwrap();
    let work = s.path("work").to_string_lossy().into_owned();
    let id = s.create("s", &s.path("work"));
    let create = ["checkpoint", "create", "s", "--workspace", &work];

    reconfigure(&s, |config| config["incompatible"] = json!(["encryption@2.0"]));
    for arguments in
        [&["checkpoint", "list"][..], &create, &["gc"], &["check"], &["check", "--repair"], &["check", "--rebuild-index"]]
    {
        let said = s.expect(1, arguments);
        assert!(said.contains("'encryption' of parhelia 2.0") && said.contains("newer parhelia"), "{arguments:?}: {said}");
    }

    reconfigure(&s, |config| {
        config["incompatible"] = json!([]);
        config["read_compatible"] = json!(["new-journal-records"]);
    });
    assert_eq!(s.expect(0, &["checkpoint", "cat", &format!("{id}:f")]), "content");
    s.expect(0, &["check", "--read-data", "--quiet"]);
    let before = files_in(&s.store().join("journal"));
    for arguments in [&create[..], &["gc"], &["checkpoint", "delete", &id], &["check", "--repair"], &["check", "--rebuild-index"]]
    {
        let said = s.expect(1, arguments);
        assert!(said.contains("'new-journal-records'"), "{arguments:?}: {said}");
    }
    assert_eq!(files_in(&s.store().join("journal")), before);

    reconfigure(&s, |config| {
        config["read_compatible"] = json!([]);
        config["compatible"] = json!(["a-hint"]);
    });
    s.expect(0, &create);
    reconfigure(&s, |config| config["parhelia_store"] = json!(2));
    assert!(s.expect(1, &["checkpoint", "list"]).contains("store format 2"));
}
