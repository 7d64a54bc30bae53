//! Stores as another program reads them: `second_reader/` is written in Python, from `docs/format/` alone. It checks everything that a store
//! holds, restores what was captured, and notices each damaged byte.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use parhelia_ledger::selector::find;
use parhelia_store::{
    OpenOptions,
    id::hex,
    keys::Ids,
    links, name, omitted, recipe,
    tree::{self, Kind, TreeNode, encode_folder},
};
use parhelia_tests::{Scratch, assert_equal, every_kind, noise, write};
use rustix::fs::{CWD, FileType, Mode};
use serde_json::{Value, json};

/// The reader's folder.
fn reader() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("second_reader")
}

/// Python with the packages that the reader needs.
fn python() -> PathBuf {
    parhelia_tests::python::python("second_reader", &reader().join("requirements.txt"), "blake3, crc32c, zstandard")
}

/// Runs the reader, or some of its own tests.
fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(python());
    command.current_dir(reader()).env("PYTHONDONTWRITEBYTECODE", "1").args(arguments).stdin(Stdio::null());
    command.output().unwrap_or_else(|e| panic!("cannot run the second reader: {e}"))
}

fn read(arguments: &[&str]) -> Value {
    let output = run(&[&["."][..], arguments].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

/// Every kind of entry, folders that are split, deep ones, files with repeats.
fn nasty(work: &Path) {
    every_kind(work, true).unwrap();
    rustix::fs::mknodat(CWD, work.join("block device"), FileType::BlockDevice, Mode::RUSR, rustix::fs::makedev(300, 70_000))
        .unwrap();
    fs::hard_link(work.join("fifo"), work.join("links/fifo")).unwrap();
    symlink("target", work.join("links/symlink")).unwrap();
    fs::hard_link(work.join("links/symlink"), work.join("another symlink")).unwrap();
    for i in 0..9000 {
        write(&work.join(format!("many files/{i}")), format!("{i}\n").as_bytes()).unwrap();
    }
    for i in 0..700 {
        fs::create_dir_all(work.join(format!("many folders/{i}"))).unwrap();
    }
    fs::create_dir_all(work.join("deep").join("folder/".repeat(300))).unwrap();
    let repeats = [noise(1000, 5), vec![b'0'; 300_000]].concat().repeat(3);
    write(&work.join("repeats"), &[repeats, vec![0; 3_000_000], b"end".to_vec()].concat()).unwrap();
    for bytes in [65_535, 65_536, 65_537, 262_144, 262_145] {
        write(&work.join(format!("bytes-{bytes}")), &noise(bytes, bytes as u64)).unwrap();
    }
}

#[test]
fn its_own_tests_pass() {
    let output = run(&["-m", "unittest", "test_document", "test_damage", "test_strict"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn it_checks_every_id_and_restores_what_was_captured() {
    let s = Scratch::new();
    let (work, store) = (s.path("work"), s.store().to_string_lossy().into_owned());
    nasty(&work);
    let first = s.create("s", &work);
    copy(&work, &s.path("first"));
    let mut ids = vec![first.clone()];
    for i in 0..5u64 {
        let edited = |name: &str, old: &[u8]| [old, format!("edit {i} of {name}\n").as_bytes()].concat();
        for name in ["src/m0/file5.rs", "many files/77", "repeats", "middle"] {
            let path = work.join(name);
            let bytes = edited(name, &fs::read(&path).unwrap());
            fs::write(&path, bytes).unwrap();
        }
        let mut big = fs::read(work.join("big.bin")).unwrap();
        big[1_000_000 * (i as usize + 1) - 300_000] ^= 1;
        fs::write(work.join("big.bin"), big).unwrap();
        let _ = fs::remove_file(work.join(format!("many files/{i}")));
        ids.push(s.create("s", &work));
    }
    let other = s.create("other", &work.join("src"));
    let summary = read(&["check", &store]);
    assert_eq!(summary["checkpoints"], 7, "{summary}");
    assert!(summary["with_bases"].as_u64() > Some(5) && summary["cut"].as_u64() > Some(5), "{summary}");
    for (id, like, to) in
        [(&first, s.path("first"), "out 1"), (&ids[5], work.clone(), "out 2"), (&other, work.join("src"), "out 3")]
    {
        let to = s.path(to);
        read(&["restore", &store, id, &to.to_string_lossy()]);
        assert_equal(&like, &to);
    }

    // The same after gc has moved what lives.
    for id in &ids[1..5] {
        s.expect(0, &["checkpoint", "delete", id, "--quiet"]);
    }
    s.expect(0, &["gc", "--quiet"]);
    assert_eq!(read(&["check", &store])["checkpoints"], 3);
    let listed = read(&["list", &store]);
    assert_eq!(listed["checkpoints"], json!([first, ids[5], other]));
    assert_eq!(listed["heads"], json!({ "s": ids[5], "other": other }));
    assert_eq!(listed["latest"], other);
    s.expect(0, &["checkpoint", "delete", &ids[5], "--quiet"]);
    assert_eq!(read(&["list", &store])["heads"]["s"], first);
    let to = s.path("out 4");
    read(&["restore", &store, &first, &to.to_string_lossy()]);
    assert_equal(&s.path("first"), &to);
}

#[test]
fn it_finds_what_gc_has_moved() {
    let s = Scratch::new();
    let (work, store) = (s.path("work"), s.store().to_string_lossy().into_owned());
    for i in 0..50u64 {
        write(&work.join(format!("f{i}")), format!("{}\n", hex(&noise(300, i))).as_bytes()).unwrap();
    }
    write(&work.join("large"), &noise(3_000_000, 1000)).unwrap();
    let first = s.create("s", &work);
    fs::remove_file(work.join("large")).unwrap();
    let edit =
        |name: &str| fs::write(work.join(name), [fs::read(work.join(name)).unwrap(), b"more\n".to_vec()].concat()).unwrap();
    edit("f3");
    s.create("s", &work);
    edit("f4");
    let last = s.create("s", &work);
    s.expect(0, &["checkpoint", "delete", &first, "--quiet"]);
    let gc = s.summary(&["gc"]);
    assert_eq!((&gc["condemned_packs"], &gc["dropped_packs"]), (&json!(1), &json!(1)), "{gc}");
    let summary = read(&["check", &store]);
    assert!(summary["checkpoints"] == 2 && summary["with_bases"].as_u64() > Some(0), "{summary}");
    read(&["restore", &store, &last, &s.path("out").to_string_lossy()]);
    assert_equal(&work, &s.path("out"));
}

#[test]
fn it_reads_every_checkpoint_from_packs_alone() {
    let s = Scratch::new();
    let (work, store) = (s.path("work"), s.store());
    let told = store.to_string_lossy().into_owned();
    for i in 0..50u64 {
        write(&work.join(format!("f{i}")), format!("{}\n", hex(&noise(300, i))).as_bytes()).unwrap();
    }
    write(&work.join("large"), &noise(700_000, 9)).unwrap();
    let mut made = Vec::new();
    for version in 0..8 {
        let path = work.join(format!("f{version}"));
        fs::write(&path, [fs::read(&path).unwrap(), b"more\n".to_vec()].concat()).unwrap();
        let like = s.path(&format!("like {version}"));
        copy(&work, &like);
        made.push((s.create("s", &work), like));
    }
    for (id, _) in made.drain(..3) {
        s.expect(0, &["checkpoint", "delete", &id, "--quiet"]);
    }
    s.expect(0, &["gc", "--quiet"]);
    for gone in ["view", "cache", "journal"] {
        fs::remove_dir_all(store.join(gone)).unwrap();
    }
    fs::remove_file(store.join("store.json")).unwrap();
    let summary = read(&["salvage", &told]);
    let found: Vec<&str> = summary["checkpoints"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(found.ends_with(&made.iter().map(|(id, _)| &id[..]).collect::<Vec<_>>()), "{summary}");
    for (number, (id, like)) in made.iter().enumerate() {
        let to = s.path(&format!("out {number}"));
        read(&["salvage", &told, id, &to.to_string_lossy()]);
        assert_equal(like, &to);
    }
    // Ours and its agree on what a store is that was put together anew.
    s.expect(3, &["check", "--salvage"]);
    let salvaged = s.path("store.salvaged").to_string_lossy().into_owned();
    assert_eq!(read(&["list", &salvaged])["checkpoints"], summary["checkpoints"]);
    assert_eq!(read(&["check", &salvaged])["checkpoints"], found.len());
}

#[test]
fn it_reads_a_journal_that_has_lost_records_and_settings_by_their_copy() {
    let s = Scratch::new();
    let (work, store) = (s.path("work"), s.store());
    let told = store.to_string_lossy().into_owned();
    let mut ids = Vec::new();
    for version in 0..6u8 {
        write(&work.join("f"), &[version; 100]).unwrap();
        ids.push(s.create("s", &work));
    }
    let log = store.join("journal/00000000000000000001.log");
    let mut bytes = fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 400].fill(b'x');
    fs::write(&log, bytes).unwrap();
    assert!(!run(&[".", "list", &told]).status.success(), "damage is noticed");
    s.expect(0, &["check", "--repair", "--quiet"]);
    let listed = s.run(&["--json", "list", "-n", "100"]);
    let listed: Vec<Value> =
        String::from_utf8(listed.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut ours: Vec<&Value> = listed.iter().filter(|line| line["type"] == "checkpoint").map(|line| &line["id"]).collect();
    ours.reverse();
    assert_eq!(ours.len(), ids.len());
    let theirs = read(&["check", &told]);
    assert_eq!(theirs["checkpoints"], ids.len());
    assert_eq!(read(&["list", &told])["checkpoints"], json!(ours));
    fs::write(store.join("store.json"), "{").unwrap();
    assert_eq!(read(&["list", &told])["checkpoints"], json!(ours));
}

#[test]
fn it_reads_the_store_that_an_earlier_build_wrote() {
    let s = Scratch::new();
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/store-1.tar.zst");
    let tar = Command::new("tar").args(["--zstd", "-xf"]).arg(&archive).arg("-C").arg(s.path("")).output().unwrap();
    assert!(tar.status.success(), "{tar:?}");
    let expected: Value = serde_json::from_str(&fs::read_to_string(archive.with_file_name("store-1.json")).unwrap()).unwrap();
    let summary = read(&["check", &s.store().to_string_lossy()]);
    assert_eq!(summary["checkpoints"], expected["checkpoints"].as_object().unwrap().len(), "{summary}");
}

fn vectors() -> Value {
    let path = reader().join("../../docs/format/vectors.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn bytes_of(vector: &Value) -> Vec<u8> {
    let text = vector.as_str().unwrap();
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

#[test]
fn the_vectors_of_the_document_are_ours() {
    let vectors = vectors();
    let ids = &vectors["ids_of_the_text_parhelia"];
    let (text, ours) = (b"parhelia", Ids::default());
    assert_eq!(ids["chunk_and_blob"], ours.blob(text).to_string());
    assert_eq!(ids["tree"], ours.tree(text).to_string());
    assert_eq!(ids["recipe_node"], ours.recipe_node(text).to_string());
    assert_eq!(ids["record"], ours.record(text).to_string());
    assert_eq!(ids["event"], ours.event(text));
    assert_eq!(ids["recipe_root_of_that_blob"], ours.recipe_root(ours.blob(text)).to_string());
    assert_eq!(vectors["event"]["hash"], ours.event(vectors["event"]["body"].as_str().unwrap().as_bytes()));

    let leaf = bytes_of(&vectors["tree_leaf"]["bytes"]);
    let TreeNode::Leaf(entries) = tree::decode(&leaf).unwrap() else { panic!("no leaf") };
    let mut encoded = Vec::new();
    let emit = |object: recipe::EncodedObject| -> Result<(), ()> {
        encoded = object.bytes;
        Ok(())
    };
    let (id, _) = encode_folder(&ours, &entries, emit).unwrap();
    assert_eq!((hex(&encoded), id.to_string()), (hex(&leaf), vectors["tree_leaf"]["id"].as_str().unwrap().to_owned()));

    let extended = bytes_of(&vectors["tree_leaf_with_extensions"]["bytes"]);
    assert_eq!(ours.tree(&extended).to_string(), vectors["tree_leaf_with_extensions"]["id"].as_str().unwrap());
    let TreeNode::Leaf(entries) = tree::decode(&extended).unwrap() else { panic!("no leaf") };
    assert_eq!(entries.iter().map(|entry| entry.name.as_slice()).collect::<Vec<_>>(), [b"fifo"]);

    let table = bytes_of(&vectors["links"]["bytes"]);
    let groups = links::Links::decode(table.clone()).unwrap().groups();
    let encoded = links::encode(&links::folders_of(&groups)).unwrap();
    assert_eq!(
        (hex(&encoded), ours.blob(&table).to_string()),
        (hex(&table), vectors["links"]["id"].as_str().unwrap().to_owned())
    );

    let omissions = bytes_of(&vectors["omissions"]["bytes"]);
    let encoded = omitted::encode(&omitted::decode(&omissions).unwrap());
    assert_eq!(
        (hex(&encoded), ours.table(&encoded).to_string()),
        (hex(&omissions), vectors["omissions"]["id"].as_str().unwrap().to_owned())
    );
    for (path, shown) in vectors["paths"].as_object().unwrap() {
        assert_eq!(name::display(&bytes_of(&json!(path))), shown.as_str().unwrap());
    }
}

#[test]
fn files_are_cut_where_the_vectors_say() {
    let s = Scratch::new();
    let vectors = vectors();
    let mut content = vec![0; 1_000_000];
    blake3::Hasher::new().update(b"parhelia").finalize_xof().fill(&mut content);
    let work = s.path("work");
    write(&work.join("0"), &content).unwrap();
    write(&work.join("1"), &content[..65_536]).unwrap();
    write(&work.join("2"), &content[..65_537]).unwrap();
    write(&work.join("4"), &vec![0; 1_000_000]).unwrap();
    s.create("s", &work);
    let store = parhelia_ledger::open(&s.store(), &OpenOptions::default()).unwrap();
    let checkpoint = find(&store.view(), "latest").unwrap();
    // One of the vectors is of smaller chunks than a store has.
    for number in [0usize, 1, 2, 4] {
        let expected = &vectors["cuts"][number];
        let node = store.node_at(&checkpoint, number.to_string().as_bytes()).unwrap();
        let Kind::File { size, blob, .. } = node.kind else { panic!("no file") };
        let blob_reader = store.blob(blob, size).unwrap();
        let runs: Vec<Value> = blob_reader.runs().iter().map(|run| json!([run.bytes, run.repeat])).collect();
        assert_eq!((&expected["chunks"], &expected["blake3"]), (&json!(runs), &json!(blob.to_string())), "{number}");
    }
    let recipe = &vectors["recipe_of_noise"];
    let blob = store.ids().blob(&content);
    let bytes = store
        .blob(blob, content.len() as u64)
        .map(|reader| recipe::encode(store.ids(), blob, reader.runs()))
        .unwrap()
        .pop()
        .unwrap();
    assert_eq!(
        (hex(&bytes.bytes), bytes.id.to_string()),
        (hex(&bytes_of(&recipe["bytes"])), recipe["id"].as_str().unwrap().to_owned())
    );
}
