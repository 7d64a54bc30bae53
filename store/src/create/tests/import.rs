//! Checkpoints of archives: session, hard links, content, and the credentials in it.

use tar::{Builder, EntryType, Header};

use super::*;
use crate::{
    archive::{
        self,
        import::{Limits, Reader},
    },
    omitted::Omission,
    secrets::{SecretFolder, Secrets},
};

/// An archive of these members: path, kind, target of a link, content.
fn tar_of(members: &[(&str, EntryType, &str, &[u8])]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (path, entry_type, target, content) in members {
        let mut header = Header::new_ustar();
        header.set_entry_type(*entry_type);
        header.set_mode(0o644);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(1_700_000_000);
        header.set_size(content.len() as u64);
        match target.is_empty() {
            true => builder.append_data(&mut header, path, *content).unwrap(),
            false => builder.append_link(&mut header, path, target).unwrap(),
        }
    }
    builder.into_inner().unwrap()
}

fn file<'a>(path: &'a str, content: &'a [u8]) -> (&'a str, EntryType, &'a str, &'a [u8]) {
    (path, EntryType::Regular, "", content)
}

fn link<'a>(path: &'a str, leader: &'a str) -> (&'a str, EntryType, &'a str, &'a [u8]) {
    (path, EntryType::Link, leader, b"")
}

fn import_with(store: &Store, archive: &[u8], options: &ImportOptions, limits: Limits) -> Result<Outcome> {
    let mut reader = Reader::new(archive, Path::new("a.tar"), limits)?;
    import(store, &mut reader, options, &())
}

fn import_as(store: &Store, archive: &[u8], options: &ImportOptions) -> Result<Outcome> {
    import_with(store, archive, options, Limits::default())
}

fn exported(f: &Fixture, checkpoint: &Checkpoint) -> Vec<u8> {
    let mut archive = Vec::new();
    archive::export(&f.store, checkpoint, &mut archive, &()).unwrap();
    archive
}

#[test]
fn a_file_of_an_archive_has_as_many_links_as_names_are_in_it() {
    let f = fixture();
    let members = [
        file("a", b"one"),
        file("single", b"one"),
        link("b", "a"),
        file("sub/c", b"two"),
        link("sub/d", "sub/c"),
        link("sub/e", "b"),
    ];
    let checkpoint = import_as(&f.store, &tar_of(&members), &ImportOptions::default()).unwrap().checkpoint;
    let links: Vec<(String, u32)> = f
        .tree(&checkpoint)
        .into_iter()
        .filter(|(_, (node, _))| node.as_folder().is_none())
        .map(|(path, (node, _))| (name::display(&path), node.links))
        .collect();
    let expected = [("a", 3), ("b", 3), ("single", 1), ("sub/c", 2), ("sub/d", 2), ("sub/e", 3)];
    assert_eq!(links, expected.map(|(path, links)| (path.to_owned(), links)));
    let groups = [&["a", "b", "sub/e"][..], &["sub/c", "sub/d"]];
    let groups: Vec<Vec<Vec<u8>>> =
        groups.iter().map(|group| group.iter().map(|path| path.as_bytes().to_vec()).collect()).collect();
    assert_eq!(f.store.links(&checkpoint).unwrap().groups(), groups);
    for leader in ["nothing", "sub"] {
        let members = [file("sub/c", b"two"), link("l", leader)];
        let error = import_as(&f.store, &tar_of(&members), &ImportOptions::default()).unwrap_err().to_string();
        assert!(error.contains("a hard link to a member that is not there"), "{error}");
    }
}

#[test]
fn content_of_every_length_comes_through_an_archive() {
    let f = fixture();
    for (number, bytes) in [0, 1, 65_535, 65_536, 65_537, 3 << 20].into_iter().enumerate() {
        f.write(&format!("{number}"), &noise(bytes, number as u64));
    }
    // Holes in a small file, and in one of many chunks.
    for (path, bytes) in [("small holes", 60_000u64), ("large holes", 9 << 20)] {
        let sparse = File::create(f.workspace.join(path)).unwrap();
        sparse.set_len(bytes).unwrap();
        (&sparse).seek(SeekFrom::Start(bytes / 2)).unwrap();
        (&sparse).write_all(b"in the middle").unwrap();
        (&sparse).seek(SeekFrom::Start(bytes - 3)).unwrap();
        (&sparse).write_all(b"end").unwrap();
    }
    let checkpoint = f.create().checkpoint;
    let other = fixture();
    let outcome = import_as(&other.store, &exported(&f, &checkpoint), &ImportOptions::default()).unwrap();
    let (was, is) = (f.tree(&checkpoint), other.tree(&outcome.checkpoint));
    assert!(was == is, "{:?}", is.keys().collect::<Vec<_>>());
    for (node, content) in is.values() {
        let Kind::File { size, blob, .. } = &node.kind else { panic!() };
        assert_eq!((*size, *blob), (content.len() as u64, crate::testing::blob_id(content)));
    }
    assert_eq!(outcome.files_read, 8);
    assert_eq!(outcome.bytes_read, was.values().map(|(_, content)| content.len() as u64).sum::<u64>());
    assert_eq!(fs::read_dir(other.store.layout().cache()).unwrap().count(), 0, "nothing is left of what was put down");
    assert!(crate::check::run(other.store.layout(), &Default::default(), &()).unwrap().is_clean());
}

/// A store into which some names do not get.
fn keeping_secrets(f: Fixture, path_end: &str, beside: &[&str]) -> Fixture {
    let named = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let rule = SecretFolder { path_end: path_end.into(), beside: named(beside), names: named(&["*.key"]) };
    let secrets = Secrets { reason: "credentials".into(), names: named(&[".auth"]), folders: vec![rule], files: Vec::new() };
    let path = f._dir.path().join("another store");
    let store = Store::open(&path, &OpenOptions { create: true, secrets, ..Default::default() }).unwrap();
    Fixture { store, ..f }
}

/// Entries of an archive that are left out, and those that are there.
fn parted(f: &Fixture, archive: &[u8]) -> (Vec<String>, Vec<String>) {
    let outcome = import_as(&f.store, archive, &ImportOptions::default()).unwrap();
    let reason = Reason::Excluded("credentials".into());
    assert!(outcome.omissions.iter().all(|omission| omission.reason == reason), "{:?}", outcome.omissions);
    assert_eq!(f.store.omissions(&outcome.checkpoint).unwrap(), outcome.omissions);
    let left = outcome.omissions.iter().map(|omission| name::display(&omission.path)).collect();
    (left, f.tree(&outcome.checkpoint).into_keys().map(|path| name::display(&path)).collect())
}

#[test]
fn credentials_do_not_get_into_a_store_by_an_archive() {
    let f = keeping_secrets(fixture(), "keys", &["agent.json", ".auth"]);
    let folder = |path: &'static str| (path, EntryType::Directory, "", &b""[..]);
    // Secret by the name alone, under every name of the file, and not where it is a folder.
    let archive = tar_of(&[
        folder(".auth"),
        file(".auth/public", b"p"),
        file("sub/.auth", b"s"),
        file("plain", b"p"),
        link("other", "./sub/.auth"),
        link("joined", "plain"),
        link("again", "other"),
    ]);
    let (left, there) = parted(&f, &archive);
    assert_eq!(left, ["again", "other", "sub/.auth"]);
    assert_eq!(there, [".auth", ".auth/public", "joined", "plain"]);
    // Secret by what lies beside the folder: something that is there, or that was left out itself.
    let keys = [file("keys/1.key", b"k"), file("keys/1.pub", b"k"), file("other/1.key", b"k")];
    let all = ["keys", "keys/1.key", "keys/1.pub", "other", "other/1.key"].map(str::to_owned).to_vec();
    assert_eq!(parted(&f, &tar_of(&keys)), (vec![], all));
    for (beside, is_left) in [("agent.json", false), (".auth", true)] {
        for above in ["", "a/"] {
            let names = keys.map(|(path, ..)| format!("{above}{path}"));
            let beside = format!("{above}{beside}");
            let members: Vec<_> = std::iter::once(file(&beside, b"x")).chain(names.iter().map(|name| file(name, b"k"))).collect();
            let (left, there) = parted(&f, &tar_of(&members));
            let mut expected = vec![format!("{above}keys/1.key")];
            expected.extend(is_left.then(|| beside.clone()));
            expected.sort();
            assert_eq!(left, expected);
            assert!(there.contains(&format!("{above}keys/1.pub")) && there.contains(&format!("{above}other/1.key")), "{there:?}");
            assert_eq!(there.contains(&beside), !is_left, "{there:?}");
        }
    }
    // What lies in the folder, or elsewhere, lies not beside it.
    let elsewhere =
        [file("keys/agent.json", b"x"), file("b/agent.json", b"x"), file("keys/1.key", b"k"), file("a/keys/1.key", b"k")];
    assert_eq!(parted(&f, &tar_of(&elsewhere)).0, Vec::<String>::new());
}

#[test]
fn a_folder_of_credentials_is_known_by_where_it_was_captured() {
    let from = fixture();
    for name in ["keys/1.key", "1.key", "sub/keys/1.key"] {
        from.write(name, name.as_bytes());
    }
    let archive = exported(&from, &from.create().checkpoint);
    for (path_end, expected) in
        [("workspace/keys", vec!["keys/1.key"]), ("workspace", vec!["1.key"]), ("keys", vec!["keys/1.key", "sub/keys/1.key"])]
    {
        let f = keeping_secrets(fixture(), path_end, &[]);
        assert_eq!(parted(&f, &archive).0, expected, "{path_end}");
    }
    // Nothing lies beside the root of an archive.
    let f = keeping_secrets(fixture(), "workspace", &["sub"]);
    assert_eq!(parted(&f, &archive).0, Vec::<String>::new());
}

#[test]
fn what_is_left_out_of_an_archive_counts_for_the_memory_that_it_takes() {
    let f = keeping_secrets(fixture(), "keys", &[]);
    let folder = "n".repeat(100);
    let names: Vec<String> = (0..100).map(|number| format!("{folder}/{number}/keys/1.key")).collect();
    let archive = tar_of(&names.iter().map(|name| file(name, b"k")).collect::<Vec<_>>());
    let within = |kept_bytes_free| {
        let limits = Limits { kept_bytes_free, kept_bytes_per_byte: 0, ..Limits::default() };
        import_with(&f.store, &archive, &ImportOptions::default(), limits)
    };
    let each = size_of::<Omission>() as u64 + 2 * names[0].len() as u64;
    let error = within(each - 1).unwrap_err().to_string();
    assert!(error.contains(&names[0]) && error.contains("kept in memory"), "{error}");
    let error = within(each).unwrap_err().to_string();
    assert!(error.contains(&names[1]), "{error}");
    let all = names.iter().map(|name| size_of::<Omission>() as u64 + 2 * name.len() as u64).sum::<u64>();
    within(all - 1).unwrap_err();
    assert_eq!(within(all).unwrap().omissions.len(), 100);
}

#[test]
fn of_members_of_one_name_the_last_one_counts_and_a_folder_keeps_what_is_in_it() {
    let f = fixture();
    let members = |last: &[(&'static str, EntryType, &'static str, &'static [u8])]| {
        let first = [file("folder/inside", b"1"), file("name", b"first"), file("single", b"s")];
        let checkpoint = import_as(&f.store, &tar_of(&[&first, last].concat()), &ImportOptions::default()).unwrap().checkpoint;
        f.tree(&checkpoint)
    };
    let paths = |tree: &BTreeMap<Vec<u8>, (Node, Vec<u8>)>| tree.keys().map(|path| name::display(path)).collect::<Vec<_>>();
    // A folder that no member names is one that everybody may enter.
    let tree = members(&[file("name", b"last")]);
    assert_eq!(tree[&b"folder"[..]].0.meta.mode, 0o755);
    assert_eq!(
        (paths(&tree), &tree[&b"name"[..]].1[..]),
        (vec!["folder".into(), "folder/inside".into(), "name".into(), "single".into()], &b"last"[..])
    );
    let tree = members(&[("folder", EntryType::Directory, "", b"")]);
    assert_eq!((tree[&b"folder"[..]].0.meta.mode, paths(&tree).len()), (0o644, 4), "its own metadata, and its content");
    let tree = members(&[file("folder", b"a file now")]);
    assert_eq!(paths(&tree), ["folder", "name", "single"]);
    assert_eq!(tree[&b"folder"[..]].1, b"a file now");
    let tree = members(&[("name", EntryType::Directory, "", b""), file("name/inside", b"2")]);
    assert_eq!(paths(&tree), ["folder", "folder/inside", "name", "name/inside", "single"]);
}
