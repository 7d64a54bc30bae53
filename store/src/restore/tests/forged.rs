//! Trees with forged sums.

use super::*;

/// Two folders and a file, whose sums say what `entries` says.
fn forged_sums(test: &TestStore, entries: u64) -> Checkpoint {
    test.forge(|sink| {
        let (inside, _) = sink.nodes(&[]);
        let blob = sink.chunk(b"content");
        let totals = Totals { entries, files: entries, bytes: entries, folders: entries, ..Totals::default() };
        let kind = Kind::File { size: 7, blob, holes: Vec::new() };
        let file = Node { name: b"c".to_vec(), meta: testing::meta(), links: 1, kind };
        sink.nodes(&[folder_node("a", inside, totals), folder_node("b", inside, totals), file])
    })
}

#[test]
fn forged_sums_saturate() {
    let test = TestStore::new();
    let dir = tempfile::tempdir().unwrap();
    let checkpoint = forged_sums(&test, u64::MAX);
    let restore = |subpath: &str, name: &str| {
        let options = Options { subpath: subpath.into(), ..Options::new(dir.path().join(name)) };
        let plan = plan(&test.store, &checkpoint, &options, &())?;
        execute(&test.store, &checkpoint, plan, &())
    };
    assert_eq!(restore("", "all").unwrap().counts.files, 1);
    assert_eq!(fs::read(dir.path().join("all/c")).unwrap(), b"content");
    restore("b", "folder").unwrap();
    restore("c", "file").unwrap();
    let tree = test.store.workspace_node(&checkpoint).unwrap().as_folder().unwrap().0;
    for descend in [false, true] {
        let mut names = Vec::new();
        test.store
            .walk(tree, &mut |path, _, _| {
                names.push(path.to_vec());
                Ok(descend)
            })
            .unwrap();
        assert_eq!(names, [b"a", b"b", b"c"]);
    }
}

#[test]
fn a_tree_that_unfolds_beyond_its_sums_is_refused() {
    let test = TestStore::new();
    let dir = tempfile::tempdir().unwrap();
    // Every level has the one below twice: 2^60 folders.
    let checkpoint = test.forge(|sink| {
        let totals = Totals { entries: 1000, folders: 1000, ..Totals::default() };
        let (mut tree, _) = sink.nodes(&[]);
        for _ in 0..60 {
            (tree, _) = sink.nodes(&[folder_node("a", tree, totals), folder_node("b", tree, totals)]);
        }
        (tree, totals)
    });
    for threads in [1, 4] {
        let options = Options { threads, ..Options::new(dir.path().join("new")) };
        let error = plan(&test.store, &checkpoint, &options, &()).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Corrupt);
        assert!(error.to_string().contains("more than the 1000 entries"), "{error}");
    }
    assert!(!dir.path().join("new").exists());
}
