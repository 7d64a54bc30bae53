//! Unchanged files and folders are neither read nor stored again.

use super::*;
use crate::check;

#[test]
fn an_unchanged_workspace_is_not_read_again() {
    let f = fixture();
    for i in 0..500 {
        f.write(&format!("d{}/f{i}", i % 7), format!("content {i}").as_bytes());
    }
    let first = f.create();
    assert_eq!(first.files_read, 500);
    let_stamps_age();
    f.create();
    let again = f.create();
    assert_eq!((again.files_read, again.new_bytes > 4000), (0, false));
    assert_eq!(again.checkpoint.record.root, first.checkpoint.record.root);
    f.write("d3/f3", b"edited");
    fs::remove_file(f.workspace.join("d4/f4")).unwrap();
    let edited = f.create();
    assert_eq!(edited.files_read, 1);
    f.assert_exact(&edited.checkpoint);
    assert_eq!(edited.checkpoint.record.parent, Some(again.checkpoint.record.id));
    assert_eq!(edited.checkpoint.record.depth, 4);
}

#[test]
fn a_change_that_puts_the_mtime_back_is_seen() {
    let f = fixture();
    f.write("f", b"one");
    f.create();
    let_stamps_age();
    f.create();
    let mtime = fs::metadata(f.workspace.join("f")).unwrap().modified().unwrap();
    f.write("f", b"two");
    File::options().write(true).open(f.workspace.join("f")).unwrap().set_modified(mtime).unwrap();
    let outcome = f.create();
    assert_eq!(f.tree(&outcome.checkpoint)[&b"f"[..]].1, b"two");
}

#[test]
fn skip_if_unchanged_commits_nothing() {
    let f = fixture();
    f.write("f", b"one");
    let first = f.create();
    let options = Options { skip_if_unchanged: true, ..f.options() };
    let skipped = run(&f.store, &options, &()).unwrap();
    assert!(skipped.skipped);
    assert_eq!(skipped.checkpoint.record.id, first.checkpoint.record.id);
    f.write("g", b"two");
    assert!(!run(&f.store, &options, &()).unwrap().skipped);
    assert_eq!(f.store.refresh().unwrap().checkpoints().unwrap().len(), 2);
}

#[test]
fn an_append_stores_the_new_bytes_alone() {
    let f = fixture();
    f.write("log", &noise(5 << 20, 3));
    f.create();
    let mut file = File::options().append(true).open(f.workspace.join("log")).unwrap();
    file.write_all(&noise(200_000, 4)).unwrap();
    let outcome = f.create();
    // The last chunk is cut anew, and builds on what it was.
    assert!(outcome.stored_bytes < 215_000, "{}", outcome.stored_bytes);
    f.assert_exact(&outcome.checkpoint);
}

#[test]
fn an_insertion_stores_little() {
    let f = fixture();
    let mut bytes = noise(5 << 20, 5);
    f.write("blob", &bytes);
    f.create();
    bytes.splice(1_000_000..1_000_000, *b"inserted");
    f.write("blob", &bytes);
    let outcome = f.create();
    assert!(outcome.new_bytes < 800_000, "{}", outcome.new_bytes);
    f.assert_exact(&outcome.checkpoint);
}

#[test]
fn a_source_makes_a_checkpoint_cost_what_it_names() {
    struct Only(&'static [u8], Vec<Vec<u8>>);
    impl Source for Only {
        fn scope(&self, folder: &[u8]) -> Scope {
            match folder {
                b"" => Scope::Names(vec![self.0.to_vec()]),
                folder if folder == self.0 => Scope::Names(self.1.clone()),
                _ => Scope::Nothing,
            }
        }
    }
    let f = fixture();
    f.write("a/one", b"1");
    f.write("b/two", b"2");
    fs::hard_link(f.workspace.join("b/two"), f.workspace.join("b/again")).unwrap();
    f.create();
    let_stamps_age();
    let full = f.create();
    f.write("a/one", b"changed");
    f.write("a/new", b"new");
    let source = Only(b"a", vec![b"one".to_vec(), b"new".to_vec()]);
    let outcome = run_with(&f.store, &f.options(), &source, &mut NoState, &()).unwrap();
    let tree = f.tree(&outcome.checkpoint);
    assert_eq!((&tree[&b"a/one"[..]].1[..], &tree[&b"a/new"[..]].1[..]), (&b"changed"[..], &b"new"[..]));
    assert_eq!(tree[&b"b/two"[..]].1, b"2");
    let walked = f.create();
    assert_eq!(walked.checkpoint.record.root, outcome.checkpoint.record.root);
    assert_eq!(walked.checkpoint.record.links, outcome.checkpoint.record.links);
    assert_ne!(full.checkpoint.record.links, None);
}

impl Progress for Notices {
    fn notice(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

/// Tells what it was noticed.
#[derive(Default)]
struct Notices(std::sync::Mutex<Vec<String>>);

#[test]
fn damage_in_the_last_checkpoint_stops_no_other() {
    let f = fixture();
    f.write("a/b", &noise(3000, 1));
    f.write("py/__pycache__/x.pyc", b"left out");
    let options = Options { rules: Rules { defaults: true, ..Rules::default() }, skip_if_unchanged: true, ..f.options() };
    let create = || {
        let store = Store::open(f.store.path(), &OpenOptions::default()).unwrap();
        let notices = Notices::default();
        let outcome = run(&store, &options, &notices).unwrap();
        (outcome, notices.0.into_inner().unwrap())
    };
    let damage = |kind, id| {
        let at = f.store.refresh().and_then(|_| f.store.locate(kind, id)).unwrap();
        let path = f.store.layout().pack(at.pack);
        let mut bytes = fs::read(&path).unwrap();
        let end = (at.offset + u64::from(at.block_bytes)) as usize;
        bytes[at.offset as usize + 8..end].fill(0);
        fs::write(&path, bytes).unwrap();
    };
    let record = create().0.checkpoint.record;
    damage(crate::pack::ObjectKind::Table, record.omitted.unwrap().table);
    let (outcome, notices) = create();
    assert!(!outcome.skipped && outcome.files_read > 0 && notices.iter().any(|text| text.contains("is damaged")), "{notices:?}");
}

/// Ways to a head that lacks content, as its pack is lost.
#[derive(Clone, Copy, Debug)]
enum Lost {
    NotYet,
    Indexed,
    Rebuilt,
    Repaired,
}

#[test]
fn a_head_that_lacks_what_is_captured_is_not_taken_for_unchanged() {
    const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
    for lost in [Lost::NotYet, Lost::Indexed, Lost::Rebuilt, Lost::Repaired] {
        for loses_all in [false, true] {
            let f = fixture();
            (0..9u64).for_each(|i| f.write(&format!("d{}/f{i}", i % 2), &noise(20_000, i)));
            let older = f.create().checkpoint;
            let_stamps_age();
            if !loses_all {
                // Its trees are of the second pack, so that the head's workspace can be read.
                f.write("x", b"hi");
            }
            let head = f.create().checkpoint;
            let options = Options { skip_if_unchanged: true, ..f.options() };
            assert!(run(&f.store, &options, &()).unwrap().skipped);
            if matches!(lost, Lost::Indexed) {
                f.store.absorb().unwrap();
            }
            let layout = f.store.layout().clone();
            let first =
                f.store.locate(crate::pack::ObjectKind::Chunk, crate::testing::blob_id(&noise(20_000, 0)).object()).unwrap();
            fs::remove_file(layout.pack(first.pack)).unwrap();
            let root = f.store.path().to_owned();
            match lost {
                Lost::NotYet | Lost::Indexed => {}
                Lost::Rebuilt => check::rebuild_index(&layout, PATIENCE, &()).unwrap(),
                Lost::Repaired => {
                    let plan = check::plan_repair(&layout, &[], &()).unwrap();
                    assert!(!plan.lost.is_empty());
                    check::repair(&layout, &plan, PATIENCE, &()).unwrap();
                }
            }
            let open = || Store::open(&root, &OpenOptions::default()).unwrap();
            let notices = Notices::default();
            let outcome = run(&open(), &options, &notices).unwrap();
            let notices = notices.0.into_inner().unwrap();
            assert!(!outcome.skipped && outcome.checkpoint.record.id != head.record.id, "{lost:?} {loses_all}: {notices:?}");
            assert!(notices.iter().any(|text| text.contains("is damaged")), "{lost:?} {loses_all}: {notices:?}");
            for checkpoint in [&outcome.checkpoint, &older, &head] {
                let report = check::verify(&open(), checkpoint, true, &()).unwrap();
                let is_whole = report.problems.iter().all(|problem| problem.path.is_empty());
                assert!(is_whole, "{lost:?} {loses_all}: {:?}", report.problems);
            }
            assert!(check::verify(&open(), &outcome.checkpoint, true, &()).unwrap().is_ok(), "{lost:?} {loses_all}");
            assert!(run(&open(), &options, &()).unwrap().skipped, "{lost:?} {loses_all}: it is whole now");
        }
    }
}

#[test]
fn content_that_is_new_and_not_the_heads_makes_no_checkpoint() {
    let f = fixture();
    f.write("f", &noise(3000, 1));
    f.create();
    let options = Options { skip_if_unchanged: true, ..f.options() };
    let elsewhere = f.workspace.with_file_name("elsewhere");
    let other = Options { session: "other".into(), workspace: elsewhere.clone(), ..f.options() };
    // Damage elsewhere is not damage of this head.
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("g"), noise(3000, 2)).unwrap();
    run(&f.store, &other, &()).unwrap();
    let chunk = crate::testing::blob_id(&noise(3000, 2)).object();
    let at = f.store.locate(crate::pack::ObjectKind::Chunk, chunk).unwrap();
    fs::remove_file(f.store.layout().pack(at.pack)).unwrap();
    assert!(run(&f.store, &options, &()).unwrap().skipped);
}
