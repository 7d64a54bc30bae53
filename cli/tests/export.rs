//! Archives, read by GNU tar and by our own reader.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
    process::Command,
};

use crate::common::{Builder, Home, Item, What, file, folder, item, symlink};
use parhelia_store::{
    archive::import::{Limits, MemberContent, Reader},
    tree::{Hole, Kind, Time},
};

fn exotic() -> Vec<Item> {
    let hole = |start, bytes| Hole { start, bytes };
    let mut middle = vec![0; 96 << 10];
    middle[32 << 10..36 << 10].fill(7);
    let acl: Vec<u8> = [
        2u32.to_le_bytes().to_vec(),
        [(1u16, 6u16, u32::MAX), (2, 4, 1234), (4, 4, u32::MAX), (16, 4, u32::MAX), (32, 4, u32::MAX)]
            .iter()
            .flat_map(|(tag, mode, id)| [&tag.to_le_bytes()[..], &mode.to_le_bytes(), &id.to_le_bytes()].concat())
            .collect(),
    ]
    .concat();
    let mut with_xattrs = file("xattrs", "x");
    with_xattrs.meta.xattrs = vec![
        (b"system.posix_acl_access".to_vec(), acl),
        (b"user.a=b%c".to_vec(), b"zero\0newline\n".to_vec()),
        (b"user.empty".to_vec(), vec![]),
    ];
    let mut old = file("old", "before 1970");
    old.meta.mtime = Time { secs: -5, nanos: 7 };
    let mut owned = file("owned", "by somebody");
    (owned.meta.uid, owned.meta.gid, owned.meta.mode) = (3_000_000, 12, 0o4711);
    let linked = |name: &str| Item { group: Some(1), ..file(name, "linked content") };
    let mut closed = folder("closed", vec![file("inside", "hidden"), linked("third")]);
    closed.meta.mode = 0o555;
    vec![
        file("empty", ""),
        file(b"not-utf8-\xff\xfe".to_vec(), "1"),
        file(b"new\nline".to_vec(), "2"),
        file(vec![b'n'; 255], "3"),
        folder(vec![b'd'; 200], vec![file([vec![0xe9; 100], vec![b'x'; 100]].concat(), "4"), symlink("s", &[b't'; 300])]),
        item("sparse-middle", 0o600, What::File(middle, vec![hole(0, 32 << 10), hole(36 << 10, 60 << 10)])),
        item("sparse-all", 0o600, What::File(vec![0; 128 << 10], vec![hole(0, 128 << 10)])),
        item("fifo", 0o640, What::Other(Kind::Fifo)),
        item("socket", 0o750, What::Other(Kind::Socket)),
        item("null", 0o666, What::Other(Kind::CharDevice { major: 1, minor: 3 })),
        symlink("dangling", b"../no/such\xff"),
        with_xattrs,
        old,
        owned,
        linked("first"),
        linked("second"),
        closed,
        file("-rf", "5"),
    ]
}

fn paths_below(root: &Path) -> BTreeMap<PathBuf, fs::Metadata> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                open.push(path.clone());
            }
            found.insert(path.strip_prefix(root).unwrap().to_owned(), meta);
        }
    }
    found
}

fn check_item(root: &Path, folder_path: &Path, item: &Item, found: &mut BTreeMap<PathBuf, fs::Metadata>) {
    let path = folder_path.join(std::ffi::OsStr::from_bytes(&item.name));
    if matches!(item.what, What::Other(Kind::Socket)) {
        assert!(!found.contains_key(&path));
        return;
    }
    let meta = found.remove(&path).unwrap_or_else(|| panic!("{path:?} is missing"));
    if !meta.is_symlink() {
        assert_eq!(meta.mode() & 0o7777, item.meta.mode, "{path:?}");
    }
    assert_eq!((meta.mtime(), meta.mtime_nsec()), (item.meta.mtime.secs, i64::from(item.meta.mtime.nanos)), "{path:?}");
    assert_eq!((meta.uid(), meta.gid()), (item.meta.uid, item.meta.gid), "{path:?}");
    match &item.what {
        What::File(content, holes) => {
            assert!(fs::read(root.join(&path)).unwrap() == *content, "{path:?}");
            if !holes.is_empty() {
                assert!(meta.blocks() * 512 <= 16 << 10, "{path:?} has {} blocks", meta.blocks());
            }
        }
        What::Folder(items) => {
            assert!(meta.is_dir());
            items.iter().for_each(|item| check_item(root, &path, item, found));
        }
        What::Other(Kind::Symlink { target }) => {
            assert_eq!(fs::read_link(root.join(&path)).unwrap().as_os_str().as_bytes(), target)
        }
        What::Other(Kind::Fifo) => assert!(meta.file_type().is_fifo()),
        What::Other(_) => assert_eq!(meta.rdev(), 0x103, "{path:?}"),
    }
}

#[test]
fn gnu_tar_restores_an_export_exactly() {
    let home = Home::new();
    Builder::new(&home).commit("demo", "", exotic());
    let archive = home.folder.path().join("a.tar.zst");
    let run = home.run(&["export", "latest", "-o", archive.to_str().unwrap()]).expect(0);
    assert!(run.err.contains("socket: a socket"), "{run:?}");
    let root = home.folder.path().join("out");
    fs::create_dir(&root).unwrap();
    let mut tar = Command::new("tar");
    // tar warns of every time before 1970, in its own archives, too.
    tar.args(["--warning=no-timestamp", "--zstd", "--xattrs", "--xattrs-include=*", "--acls", "-xpf"])
        .arg(&archive)
        .arg("-C")
        .arg(&root);
    let output = tar.output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let mut found = paths_below(&root);
    exotic().iter().for_each(|item| check_item(&root, Path::new(""), item, &mut found));
    assert!(found.is_empty(), "{:?}", found.keys());
    let inode = |path: &str| fs::symlink_metadata(root.join(path)).unwrap().ino();
    assert_eq!(inode("first"), inode("second"));
    assert_eq!(inode("first"), inode("closed/third"));
    let xattrs = Command::new("getfattr").args(["-d", "-m", "-", "-e", "hex"]).arg(root.join("xattrs")).output().unwrap();
    let xattrs = String::from_utf8_lossy(&xattrs.stdout).into_owned();
    assert!(xattrs.contains("system.posix_acl_access=0x0200000001000600ffffffff02000400d2040000"), "{xattrs}");
    assert!(xattrs.contains("zero") || xattrs.contains("0x7a65726f006e65776c696e650a"), "{xattrs}");
    assert!(xattrs.contains("user.empty"), "{xattrs}");
}

#[test]
fn our_reader_reads_an_export_exactly() {
    let home = Home::new();
    let id = Builder::new(&home).commit("demo", "", exotic());
    let archive = home.folder.path().join("a.tar.zst");
    let lines = home.run(&["export", "latest", "--json", "-o", archive.to_str().unwrap()]).expect(0).json();
    assert_eq!(lines[0]["path"], "socket");
    assert_eq!(lines.last().unwrap()["archive_bytes"], fs::metadata(&archive).unwrap().len());
    let mut reader = Reader::new(File::open(&archive).unwrap(), &archive, Limits::default()).unwrap();
    let mut found = BTreeMap::new();
    while let Some(member) = reader.next_member().unwrap() {
        let mut bytes = vec![];
        if let MemberContent::File { size, .. } = member.content {
            bytes.resize(size as usize, 0);
            reader
                .read_content(|at, piece| {
                    bytes[at as usize..at as usize + piece.len()].copy_from_slice(piece);
                    Ok(())
                })
                .unwrap();
        }
        found.insert(member.path.clone(), (member, bytes));
    }
    assert_eq!(reader.record().unwrap().id.to_string(), id);
    assert!(found.remove(&b""[..]).is_some());
    compare(&[], &exotic(), &mut found);
    assert!(found.is_empty(), "{:?}", found.keys());
}

fn compare(folder: &[u8], items: &[Item], found: &mut BTreeMap<Vec<u8>, (parhelia_store::archive::import::Member, Vec<u8>)>) {
    for item in items {
        let path = parhelia_store::name::join(folder, &item.name);
        let (member, bytes) = found.remove(&path).unwrap();
        assert_eq!(member.meta, item.meta, "{path:?}");
        assert_eq!(member.links, if item.group.is_some() { 3 } else { 1 });
        match (&item.what, &member.content) {
            (What::File(..), MemberContent::HardLink { leader }) => assert!(item.group.is_some() && leader == b"closed/third"),
            (What::File(content, holes), MemberContent::File { size, holes: read }) => {
                assert_eq!((*size, read), (content.len() as u64, holes));
                assert!(bytes == *content);
            }
            (What::Folder(items), MemberContent::Folder) => compare(&path, items, found),
            (What::Other(Kind::Symlink { target }), MemberContent::Symlink { target: read }) => assert_eq!(target, read),
            (What::Other(Kind::Fifo), MemberContent::Fifo) | (What::Other(Kind::Socket), MemberContent::Socket) => {}
            (What::Other(Kind::CharDevice { .. }), MemberContent::CharDevice { major: 1, minor: 3 }) => {}
            (_, other) => panic!("{path:?} is {other:?}"),
        }
    }
}

#[test]
fn an_export_to_standard_output_is_the_archive_alone() {
    let home = Home::new();
    Builder::new(&home).commit("demo", "", vec![file("a", "1"), item("s", 0o600, What::Other(Kind::Socket))]);
    let run = home.run(&["export", "latest"]).expect(0);
    let path = home.folder.path().join("a.tar.zst");
    fs::write(&path, &run.bytes).unwrap();
    let output = Command::new("tar").arg("--zstd").arg("-tvf").arg(&path).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(listed.contains("./a") && listed.lines().count() == 2, "{listed}");
    home.run(&["export", "latest", "-o", "b.tar.zst", "-q"]).expect(0);
    assert!(fs::read(home.folder.path().join("b.tar.zst")).unwrap() == run.bytes, "exports are reproducible");
}

#[test]
fn a_checkpoint_folder_of_an_older_schema_is_imported() {
    let home = Home::new();
    let at = |path: &str| home.folder.path().join(path);
    fs::create_dir_all(at("work/sub")).unwrap();
    fs::write(at("work/sub/file"), "content").unwrap();
    fs::create_dir_all(at("old")).unwrap();
    let tar =
        Command::new("tar").args(["--zstd", "-cf"]).arg(at("old/workspace.tar.zst")).arg("-C").arg(at("work")).arg(".").status();
    assert!(tar.unwrap().success());
    let manifest = |text: &str| fs::write(at("old/manifest.json"), text).unwrap();
    manifest(
        r#"{ "version": "1.0", "id": "01HQXYZ123456789ABCDEF", "session_id": "ph-fix-auth-20260116T143022",
             "created_at": "2026-01-16T14:35:00Z", "trigger": "periodic", "conversation": { "turn_count": 15 },
             "workspace": { "path": "workspace.tar.zst", "file_count": 1 } }"#,
    );
    let made = home.run(&["import", "old", "--json"]).expect(0).json().pop().unwrap();
    assert_eq!((&made["session"], &made["files"]), (&"ph-fix-auth-20260116T143022".into(), &1.into()));
    let shown = home.run(&["checkpoint", "show", "--json"]).expect(0).json().remove(0);
    crate::common::follows_schema(&shown);
    assert_eq!(shown["trigger_detail"], "import of 01HQXYZ123456789ABCDEF");
    assert_eq!(shown["message"], "periodic checkpoint 01HQXYZ123456789ABCDEF, made at 2026-01-16T14:35:00Z");
    assert_eq!(shown["conversation"]["turn_count"], 15);
    home.run(&["checkpoint", "restore", "latest", "--to", "restored"]).expect(0);
    assert_eq!(fs::read_to_string(at("restored/sub/file")).unwrap(), "content");
    manifest(r#"{ "version": "1.1", "session_id": "" }"#);
    let made = home.run(&["import", "old", "--json"]).expect(0).json().pop().unwrap();
    assert_eq!(made["session"], "imported");
    let shown = home.run(&["checkpoint", "show", "--json"]).expect(0).json().remove(0);
    assert_eq!((&shown["trigger_detail"], &shown["message"]), (&"import".into(), &"checkpoint".into()));

    for (text, said) in [
        (r#"{ "version": "1.3", "session_id": "s" }"#, "version is '1.3'"),
        (r#"{ "version": "1.0", "session_id": "s", "workspace": { "path": "../work.tar" } }"#, "no file in its folder"),
        (r#"{ "version": 1 }"#, "cannot import old/manifest.json"),
        ("", "cannot import old/manifest.json"),
    ] {
        manifest(text);
        let run = home.run(&["import", "old"]).expect(2);
        assert!(run.err.contains(said), "{run:?}");
    }
    manifest(r#"{ "version": "1.0", "session_id": "s", "workspace": { "path": "none" } }"#);
    let run = home.run(&["import", "old"]);
    assert!(run.code != 0 && run.err.contains("old/none"), "{run:?}");
    let run = home.run(&["import", "work"]);
    assert!(run.code == 2 && run.err.contains("cannot import work: it has no manifest.json"), "{run:?}");
    assert_eq!(home.run(&["checkpoint", "list", "--json"]).json().len(), 3);
}
