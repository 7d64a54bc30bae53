use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
};

use rustix::process::Uid;

use super::*;

/// Does something in a folder as a user who is not root, and who owns it. In it is a closed one of whoever runs the tests.
fn as_ordinary(work: impl FnOnce(&Path) + Send) {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("theirs")).unwrap();
    fs::set_permissions(dir.path().join("theirs"), fs::Permissions::from_mode(0o000)).unwrap();
    let work = || {
        if rustix::process::geteuid().is_root() {
            let nobody = Uid::from_raw(65534);
            rustix::fs::chown(dir.path(), Some(nobody), None).unwrap();
            // Of this thread alone.
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        work(dir.path());
    };
    std::thread::scope(|scope| scope.spawn(work).join().unwrap());
}

/// Makes folders with a file in each, and then sets the modes of some.
fn make(top: &Path, folders: &[&str], modes: &[(&str, u32)]) {
    for folder in folders {
        fs::create_dir_all(top.join(folder)).unwrap();
        fs::write(top.join(folder).join("file"), "x").unwrap();
    }
    for (folder, mode) in modes {
        fs::set_permissions(top.join(folder), fs::Permissions::from_mode(*mode)).unwrap();
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn removed(entries: u64, kept: bool) -> Removal {
    Removal { entries, kept, held: None, stays: Stays::default() }
}

fn held(path: &str, held: HoldCause) -> Removal {
    Removal {
        entries: 0,
        kept: true,
        held: Some(HeldEntry { path: path.into(), hold: Hold::own(held) }),
        stays: Stays::default(),
    }
}

#[test]
fn closed_folders_of_their_owner_go_with_what_is_in_them() {
    as_ordinary(|dir| {
        let modes = [("a/read-only", 0o500), ("a/closed", 0o000), ("a/listed", 0o400)];
        make(dir, &["a/read-only/inner", "a/closed/inner", "a/listed", "a/open"], &modes);
        let top = File::open(dir).unwrap();
        // What is in the closed ones cannot be counted.
        assert_eq!(foresee(top.as_fd(), b"a", b"a", &ProtectedEntries::default()), removed(8, false));
        assert_eq!((mode(&dir.join("a/read-only")), mode(&dir.join("a/closed"))), (0o500, 0o000));
        assert_eq!(remove(top.as_fd(), b"a", b"a", &ProtectedEntries::default()), removed(11, false));
        assert!(!dir.join("a").exists());
        assert_eq!(remove(top.as_fd(), b"a", b"a", &ProtectedEntries::default()), removed(0, false));
    });
}

#[test]
fn folders_that_stay_get_their_modes_back() {
    as_ordinary(|dir| {
        let modes = [("a/read-only", 0o1511), ("a/closed/inner", 0o000), ("a/closed", 0o1000), ("a/named", 0o000)];
        make(dir, &["a/read-only", "a/closed/inner", "a/named"], &modes);
        let top = File::open(dir).unwrap();
        let spared = ProtectedEntries::default().and(&[b"a/read-only/file".to_vec(), b"a/closed/inner/file".to_vec()]);
        let found = remove(top.as_fd(), b"a", b"a", &spared);
        assert_eq!((found.entries, found.kept, &found.held, found.stays.spared), (2, true, &None, 2));
        assert!(found.stays.reason(b"a").unwrap().contains("/file and 1 more in it"), "{found:?}");
        for (folder, mode) in modes.iter().filter(|(folder, _)| *folder == "a/read-only" || *folder == "a/closed") {
            assert_eq!(self::mode(&dir.join(folder)), *mode, "{folder}");
        }
        make(dir, &[], &[("a/closed", 0o700)]);
        assert_eq!(mode(&dir.join("a/closed/inner")), 0o000);
        make(dir, &[], &[("a/closed/inner", 0o700)]);
        assert!(dir.join("a/closed/inner/file").exists() && dir.join("a/read-only/file").exists());
        // One that holds a name that is left alone is closed again at once.
        make(dir, &["b/named"], &[("b/named", 0o300)]);
        let found = remove(top.as_fd(), b"b", b"b", &ProtectedEntries::default().and_names(&[b"file".to_vec()]));
        assert_eq!((found.entries, found.kept, found.stays.shown()), (0, true, "b/named".into()));
        assert_eq!(mode(&dir.join("b/named")), 0o300);
        make(dir, &[], &[("b/named", 0o700)]);
        assert!(dir.join("b/named/file").exists());
    });
}

#[test]
fn only_folders_of_this_user_that_lack_a_right_are_closed() {
    as_ordinary(|_| {
        let uid = rustix::process::geteuid().as_raw();
        let of = |uid, mode| is_closed(&Stat { uid, mode, ..stat() });
        assert!(of(uid, 0o500) && of(uid, 0o077) && of(uid, 0o600));
        assert!(!of(uid, 0o700) && !of(uid, 0o777) && !of(uid + 1, 0o500));
    });
    if rustix::process::geteuid().is_root() {
        assert!(!is_closed(&Stat { uid: 0, mode: 0o000, ..stat() }));
    }
}

fn stat() -> Stat {
    sys::stat_fd(File::open("/").unwrap()).unwrap()
}

#[test]
fn a_closed_folder_of_somebody_else_is_left_and_told() {
    as_ordinary(|dir| {
        let top = File::open(dir).unwrap();
        let is_ours = top.metadata().unwrap().uid() == fs::metadata(dir.join("theirs")).unwrap().uid();
        let expected = if is_ours { removed(1, false) } else { held("theirs", HoldCause::Closed) };
        assert_eq!(foresee(top.as_fd(), b"theirs", b"theirs", &ProtectedEntries::default()), expected);
        assert_eq!(remove(top.as_fd(), b"theirs", b"theirs", &ProtectedEntries::default()), expected);
    });
}

#[test]
fn a_file_that_may_not_be_removed_is_told() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "x").unwrap();
    // Of somebody else's files in such a folder, a user can remove none.
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let work = || {
        if is_root {
            let nobody = Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        }
        let top = File::open(dir.path()).unwrap();
        let expected = if is_root { held("file", HoldCause::NotPermitted) } else { removed(1, false) };
        assert_eq!(foresee(top.as_fd(), b"file", b"file", &ProtectedEntries::default()), expected);
        assert_eq!(remove(top.as_fd(), b"file", b"file", &ProtectedEntries::default()), expected);
    };
    std::thread::scope(|scope| scope.spawn(work).join().unwrap());
    assert_eq!(dir.path().join("file").exists(), is_root);
}
