//! The table of hard links: what it costs, what follows it, and that it says what is there.

use super::*;
use crate::{
    archive::{self, import::Limits},
    check::{self, CheckOptions},
    omitted::Omission,
    pack::{ObjectKind, PackFile},
    restore,
};

fn link(f: &Fixture, from: &str, to: &str) {
    let to = f.workspace.join(to);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::hard_link(f.workspace.join(from), to).unwrap();
}

fn groups(f: &Fixture, checkpoint: &Checkpoint) -> Vec<Vec<String>> {
    let text = |path: Vec<u8>| String::from_utf8(path).unwrap();
    f.store.links(checkpoint).unwrap().groups().into_iter().map(|group| group.into_iter().map(text).collect()).collect()
}

/// Paths of a folder that are one file, as the filesystem says.
fn live(folder: &Path) -> Vec<Vec<String>> {
    let mut found: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(at) = pending.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            match meta.is_dir() {
                true => pending.push(path),
                false => {
                    found.entry(meta.ino()).or_default().push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned())
                }
            }
        }
    }
    let mut groups: Vec<Vec<String>> = found.into_values().filter(|group| group.len() > 1).collect();
    groups.iter_mut().for_each(|group| group.sort());
    groups.sort();
    groups
}

fn told(f: &Fixture, checkpoint: &Checkpoint) -> Vec<Vec<String>> {
    let mut groups = groups(f, checkpoint);
    groups.iter_mut().for_each(|group| group.sort());
    groups.sort();
    groups
}

#[test]
fn a_file_in_front_of_many_links_costs_no_table() {
    let f = fixture();
    for i in 0..10_000 {
        f.write(&format!("b/d{}/f{i}", i % 40), format!("{i}").as_bytes());
        link(&f, &format!("b/d{}/f{i}", i % 40), &format!("c/d{}/f{i}", i % 40));
    }
    let_stamps_age();
    let first = f.create();
    let table = first.checkpoint.record.links.unwrap();
    assert!(table.bytes > 100_000, "{table:?}");
    assert_eq!(groups(&f, &first.checkpoint).len(), 10_000);
    f.write("a", b"in front of all");
    let second = f.create();
    assert_eq!(second.checkpoint.record.links, Some(table));
    assert!(second.stored_bytes < 4 << 10, "{}", second.stored_bytes);
    // Two names more change what they stand beside.
    f.write("b/d7/f7777a", b"linked");
    link(&f, "b/d7/f7777a", "c/d7/f7777a");
    let third = f.create();
    assert_ne!(third.checkpoint.record.links, Some(table));
    assert!(third.stored_bytes < 12 << 10, "{}", third.stored_bytes);
    assert_eq!(groups(&f, &third.checkpoint).len(), 10_001);
    assert_eq!(told(&f, &third.checkpoint), live(&f.workspace));
    println!("table {} bytes; {} and {} stored", table.bytes, second.stored_bytes, third.stored_bytes);
}

#[test]
fn groups_are_followed_through_renames_removals_and_split_folders() {
    let f = fixture();
    for i in 0..700 {
        f.write(&format!("big/f{i:03}"), format!("{i}").as_bytes());
    }
    link(&f, "big/f650", "a/x");
    link(&f, "big/f650", "big/f001b");
    link(&f, "a/x", "a-b/x");
    f.write("lead", b"leads");
    link(&f, "lead", "z/one");
    link(&f, "lead", "z/two");
    let check = |expected: &[&[&str]]| {
        let checkpoint = f.create().checkpoint;
        assert_eq!(groups(&f, &checkpoint), expected);
        assert_eq!(told(&f, &checkpoint), live(&f.workspace));
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("restored");
        let options = restore::Options::new(to.clone());
        let plan = restore::plan(&f.store, &checkpoint, &options, &()).unwrap();
        restore::execute(&f.store, &checkpoint, plan, &()).unwrap();
        assert_eq!(live(&to), live(&f.workspace));
        // Out into an archive and in again, the table is the same.
        let mut archive = Vec::new();
        archive::export(&f.store, &checkpoint, &mut archive, &()).unwrap();
        let mut reader = archive::import::Reader::new(&archive[..], Path::new("archive"), Limits::default()).unwrap();
        let options = ImportOptions { session: Some("imported".into()), ..ImportOptions::default() };
        let imported = import(&f.store, &mut reader, &options, &()).unwrap().checkpoint;
        assert_eq!(imported.record.links, checkpoint.record.links);
        assert_eq!(f.store.workspace_node(&imported).unwrap().kind, f.store.workspace_node(&checkpoint).unwrap().kind);
        checkpoint
    };
    let leads = ["lead", "z/one", "z/two"];
    check(&[&leads, &["a/x", "a-b/x", "big/f001b", "big/f650"]]);
    // The leader gets another name, behind the others.
    fs::rename(f.workspace.join("lead"), f.workspace.join("zz")).unwrap();
    let z = ["zz", "z/one", "z/two"];
    check(&[&z, &["a/x", "a-b/x", "big/f001b", "big/f650"]]);
    fs::rename(f.workspace.join("zz"), f.workspace.join("z/zero")).unwrap();
    fs::remove_file(f.workspace.join("a/x")).unwrap();
    let in_z = ["z/one", "z/two", "z/zero"];
    check(&[&["a-b/x", "big/f001b", "big/f650"], &in_z]);
    fs::remove_dir_all(f.workspace.join("z")).unwrap();
    fs::remove_file(f.workspace.join("a-b/x")).unwrap();
    let before = check(&[&["big/f001b", "big/f650"]]);
    fs::remove_file(f.workspace.join("big/f001b")).unwrap();
    let after = f.create().checkpoint;
    assert!(after.record.links.is_none() && f.store.links(&after).unwrap().is_empty());
    // In place, links come and go.
    for checkpoint in [&before, &after] {
        let options = restore::Options { in_place: true, delete: true, ..restore::Options::new(f.workspace.clone()) };
        let plan = restore::plan(&f.store, checkpoint, &options, &()).unwrap();
        restore::execute(&f.store, checkpoint, plan, &()).unwrap();
        assert_eq!(told(&f, checkpoint), live(&f.workspace));
    }
}

#[test]
fn damage_in_the_table_is_named_and_repaired() {
    let f = fixture();
    for i in 0..6_000 {
        f.write(&format!("b/{i:05}"), b"");
        link(&f, &format!("b/{i:05}"), &format!("c/name of {i:05}"));
    }
    let checkpoint = f.create().checkpoint;
    let table = checkpoint.record.links.unwrap();
    let runs = f.store.recipe(table.blob, table.bytes).unwrap();
    assert!(runs.len() > 1, "{runs:?}");
    let chunk = runs[1].id.object();
    let at = f.store.view().locate(chunk).unwrap().unwrap();
    let path = f.store.layout().pack(at.pack);
    let sound = fs::read(&path).unwrap();
    let mut bytes = sound.clone();
    let end = at.offset as usize + at.block_bytes as usize;
    bytes[end - 9] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let fresh = || Store::open(f.store.path(), &OpenOptions::default()).unwrap();
    assert!(fresh().links(&checkpoint).is_err());
    let all = CheckOptions { read_data_percent: Some(100) };
    let report = check::run(f.store.layout(), &all, &()).unwrap();
    let named = report.findings.iter().find(|finding| finding.object == Some(chunk)).unwrap();
    assert_eq!((named.touches[0].checkpoint, named.touches[0].path.as_str()), (checkpoint.record.id, ""));
    let verified = check::verify(&fresh(), &checkpoint, true, &()).unwrap();
    assert!(!verified.is_ok(), "{verified:?}");
    // Nobody else has it but the folder itself, whose table is the same.
    let plan = check::plan_repair(f.store.layout(), &[], &()).unwrap();
    assert!(plan.lost.iter().any(|lost| lost.object == chunk && lost.touches[0].path.is_empty()), "{:?}", plan.lost);
    drop(plan);
    let plan = check::plan_repair(f.store.layout(), std::slice::from_ref(&f.workspace), &()).unwrap();
    assert!(plan.lost.is_empty(), "{:?}", plan.lost);
    check::repair(f.store.layout(), &plan, std::time::Duration::from_secs(60), &()).unwrap();
    let report = check::run(f.store.layout(), &all, &()).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    assert_eq!(fresh().links(&checkpoint).unwrap().groups().len(), 6_000);
}

#[test]
fn a_table_that_says_nothing_right_is_named() {
    let test = crate::testing::TestStore::new();
    let whole = crate::testing::files(1, 3);
    let table = b"links\x01 and no more";
    let blob = crate::testing::blob_id(table);
    let links = format!(r#""links":{{"blob":"{blob}","bytes":{}}}"#, table.len());
    let with_table: crate::testing::Files = whole.into_iter().chain([("t".to_owned(), table.to_vec())]).collect();
    let id = test.checkpoint_with(&with_table, |sealed| sealed.replace(r#""links":null"#, &links));
    let checkpoint = test.get(id);
    assert!(test.store.links(&checkpoint).unwrap_err().to_string().contains("table of hard links"));
    let report = check::verify(&test.store, &checkpoint, false, &()).unwrap();
    assert!(report.problems.iter().any(|problem| problem.path.is_empty() && problem.error.contains("hard links")), "{report:?}");
}

#[test]
fn a_table_is_made_of_chunks_that_packs_have() {
    let f = fixture();
    f.write("a", b"one");
    link(&f, "a", "b");
    let outcome = f.create();
    let table = outcome.checkpoint.record.links.unwrap();
    let at = f.store.view().locate(table.blob.object()).unwrap().unwrap();
    let pack = PackFile::open(f.store.layout(), at.pack).unwrap();
    let directory = pack.read_directory(at.offset).unwrap();
    assert!(directory.entries.iter().any(|entry| entry.id == table.blob.object() && entry.kind == ObjectKind::Chunk));
    assert_eq!(links_bytes(&f, &outcome.checkpoint), b"links\x01\x00\x00\x02\x01a\x00\x01b\x01\x00\x01a");
}

fn links_bytes(f: &Fixture, checkpoint: &Checkpoint) -> Vec<u8> {
    let table = checkpoint.record.links.unwrap();
    f.store.blob(table.blob, table.bytes).unwrap().read_all().unwrap()
}

/// Does something while the first long file is read.
struct While<F: Fn() + Sync>(F, std::sync::atomic::AtomicBool);

impl<F: Fn() + Sync> Progress for While<F> {
    fn advance(&self, files: u64, bytes: u64) {
        if files == 0 && bytes > 0 && !self.1.swap(true, Ordering::Relaxed) {
            (self.0)();
        }
    }
}

#[test]
fn names_of_one_entry_that_changes_between_two_looks_show_the_first() {
    let f = fixture();
    std::os::unix::fs::symlink("target", f.workspace.join("a")).unwrap();
    fs::create_dir(f.workspace.join("b")).unwrap();
    f.write("b/long", &noise(12 << 20, 1));
    fs::create_dir(f.workspace.join("c")).unwrap();
    link(&f, "a", "c/link");
    let own = |uid| std::os::unix::fs::lchown(f.workspace.join("a"), Some(uid), None).unwrap();
    let create = |thorough, uid| {
        let options = Options { threads: 1, thorough, ..f.options() };
        run(&f.store, &options, &While(|| own(uid), Default::default())).unwrap()
    };
    let owners = |outcome: &Outcome| {
        let tree = f.tree(&outcome.checkpoint);
        [&b"a"[..], b"c/link"].map(|path| tree[path].0.meta.uid)
    };
    let changing = [Omission { path: b"c/link".to_vec(), reason: Reason::Changing }];
    own(1);
    let first = create(false, 2);
    assert_eq!((owners(&first), &first.omissions[..]), ([1, 1], &changing[..]));
    // The change is there for the next one, also where the first name looks as it did then.
    let next = f.create();
    assert_eq!((owners(&next), next.omissions.len()), ([2, 2], 0));
    let_stamps_age();
    f.create();
    let again = create(true, 3);
    assert_eq!((owners(&again), &again.omissions[..]), ([2, 2], &changing[..]));
    assert_eq!(owners(&f.create()), [3, 3]);
}

#[test]
fn names_of_a_file_that_is_edited_between_two_looks_show_what_was_read_first() {
    let f = fixture();
    f.write("a", b"then");
    f.write("b/long", &noise(12 << 20, 1));
    fs::create_dir(f.workspace.join("c")).unwrap();
    link(&f, "a", "c/file");
    let edit = || fs::write(f.workspace.join("a"), b"now!").unwrap();
    let options = Options { threads: 1, ..f.options() };
    let first = run(&f.store, &options, &While(edit, Default::default())).unwrap();
    let shown = |outcome: &Outcome| {
        let tree = f.tree(&outcome.checkpoint);
        [&b"a"[..], b"c/file"].map(|path| tree[path].1.clone())
    };
    assert_eq!(shown(&first), [b"then", b"then"]);
    assert_eq!(first.omissions, [Omission { path: b"c/file".to_vec(), reason: Reason::Changing }]);
    let next = f.create();
    assert_eq!((shown(&next), next.omissions.len()), ([b"now!".to_vec(), b"now!".to_vec()], 0));
}

#[test]
fn a_further_name_of_a_file_that_did_not_change_is_not_read() {
    let f = fixture();
    f.write("a", b"content");
    link(&f, "a", "b");
    let_stamps_age();
    let rules = Rules { patterns: vec!["b".into()], ..Rules::default() };
    assert_eq!(run(&f.store, &Options { rules, ..f.options() }, &()).unwrap().files_read, 1);
    let whole = f.create();
    assert_eq!(whole.files_read, 0);
    f.assert_exact(&whole.checkpoint);
}
