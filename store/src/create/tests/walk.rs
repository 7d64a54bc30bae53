use std::{
    os::fd::{AsFd, OwnedFd},
    process::Command,
    sync::Mutex,
};

use super::*;
use crate::{create::content::Reader, id::OpId, pin::Leaves, recipe::ChunkRun, restore, sys};

/// Hex digits of the length that an operation's id has.
const LOOKS_LIKE_OURS: [&str; 2] = [".parhelia-0123456789abcdef01234567-0-0", ".out.parhelia-0123456789abcdef01234567"];

#[test]
fn a_user_s_file_is_captured_whatever_its_name_looks_like() {
    let f = fixture();
    f.write(LOOKS_LIKE_OURS[0], b"mine");
    f.write(&format!("{}/file", LOOKS_LIKE_OURS[1]), b"mine, too");
    let outcome = f.create();
    f.assert_exact(&outcome.checkpoint);
    assert!(outcome.omissions.is_empty());
    let (_, _, omissions) = look(&f.store, &f.options(), &()).unwrap();
    assert!(omissions.is_empty());
}

#[test]
fn what_a_restore_builds_is_not_captured_and_goes_once_the_restore_is_dead() {
    let f = fixture();
    f.write("kept", b"1");
    let first = f.create().checkpoint;
    let mut pin = Pin::take(&f.store.layout().pins(), false, "restore").unwrap();
    let staged = format!(".parhelia-{}-0-0", pin.op);
    let in_place = restore::Options { in_place: true, delete: true, ..restore::Options::new(f.workspace.clone()) };
    let restore_again = || {
        let plan = restore::plan(&f.store, &first, &in_place, &()).unwrap();
        restore::execute(&f.store, &first, plan, &()).unwrap();
    };
    f.write(&staged, b"half");
    f.write(LOOKS_LIKE_OURS[0], b"mine");
    let paths = |outcome: &Outcome| f.tree(&outcome.checkpoint).into_keys().collect::<Vec<_>>();
    assert_eq!(paths(&f.create()), [LOOKS_LIKE_OURS[0].as_bytes(), b"kept"]);
    // One that is under way is in nobody's way, also of a restore that removes what the checkpoint does not have.
    restore_again();
    assert!(f.workspace.join(&staged).exists() && !f.workspace.join(LOOKS_LIKE_OURS[0]).exists());
    // The pin of a dead one leads the next create to it.
    pin.leaves(Leaves::new(f.workspace.as_os_str().as_bytes(), true)).unwrap();
    pin.leave();
    assert_eq!(paths(&f.create()), [b"kept"]);
    assert!(!f.workspace.join(&staged).exists());
}

#[test]
fn a_restore_that_deletes_nothing_keeps_a_user_s_file_that_looks_like_ours() {
    let f = fixture();
    f.write("kept", b"1");
    let checkpoint = f.create().checkpoint;
    f.write(LOOKS_LIKE_OURS[0], b"mine");
    let beside = f.workspace.parent().unwrap().join(LOOKS_LIKE_OURS[1]);
    fs::create_dir(&beside).unwrap();
    for target in [f.workspace.clone(), f.workspace.parent().unwrap().join("out")] {
        let options = restore::Options { in_place: true, ..restore::Options::new(target) };
        let options = restore::Options { in_place: options.target.exists(), ..options };
        let plan = restore::plan(&f.store, &checkpoint, &options, &()).unwrap();
        restore::execute(&f.store, &checkpoint, plan, &()).unwrap();
    }
    assert_eq!(fs::read(f.workspace.join(LOOKS_LIKE_OURS[0])).unwrap(), b"mine");
    assert!(beside.exists());
}

/// Notes how many bytes are reported at once.
#[derive(Default)]
struct Steps(Mutex<Vec<(u64, u64)>>);

impl Progress for Steps {
    fn advance(&self, files: u64, bytes: u64) {
        self.0.lock().unwrap().push((files, bytes));
    }
}

#[test]
fn a_long_file_is_reported_while_it_is_read_holes_included() {
    let f = fixture();
    let file = File::create(f.workspace.join("sparse")).unwrap();
    file.set_len(32 << 20).unwrap();
    (&file).seek(SeekFrom::Start(16 << 20)).unwrap();
    (&file).write_all(&noise(5 << 20, 1)).unwrap();
    f.write("small", b"x");
    let steps = Steps::default();
    f.assert_exact(&run(&f.store, &f.options(), &steps).unwrap().checkpoint);
    let steps = steps.0.into_inner().unwrap();
    assert!(steps.iter().all(|(_, bytes)| *bytes <= 2 << 20), "{steps:?}");
    let sum = steps.iter().fold((0, 0), |sum, step| (sum.0 + step.0, sum.1 + step.1));
    assert_eq!(sum, (2, (32 << 20) + 1));
}

#[test]
fn a_run_of_chunks_takes_the_memory_of_one() {
    let f = fixture();
    let zeros = vec![0; f.store.config().chunking.bytes_max as usize];
    f.write("zeros", &zeros.repeat(3));
    let sink = Sink::Look(&f.store, Mutex::default());
    let mut batch = Batch::new(&sink).unwrap();
    let mut reader = Reader::new(&f.store, &());
    let file = OwnedFd::from(File::open(f.workspace.join("zeros")).unwrap());
    let run = ChunkRun { id: crate::testing::blob_id(&zeros), bytes: zeros.len() as u32, repeat: u32::MAX };
    let read = reader.read_cut(file.as_fd(), (0, u64::MAX), vec![run], crate::testing::ids().blob_hasher(), &mut batch);
    let Ok((hasher, runs, bytes)) = read else { panic!("not read") };
    assert_eq!(hasher.finish(), crate::testing::blob_id(&zeros.repeat(3)));
    assert_eq!((runs, bytes), (vec![ChunkRun { repeat: 3, ..run }], 3 * zeros.len() as u64));
}

/// Folders in each other, made and removed without any path being as long as they are deep.
struct Deep(PathBuf);

impl Deep {
    fn make(at: PathBuf, depth: usize) -> Self {
        fs::create_dir(&at).unwrap();
        let deep = Deep(at);
        let file = |fd: &OwnedFd| {
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            let file = rustix::fs::openat(fd, "f", flags, Mode::from_raw_mode(0o644)).unwrap();
            rustix::io::write(&file, b"content").unwrap();
        };
        let mut fd = OwnedFd::from(File::open(&deep.0).unwrap());
        for _ in 1..depth {
            rustix::fs::mkdirat(&fd, "d", Mode::RWXU).unwrap();
            fd = sys::open_folder_at(fd.as_fd(), b"d").unwrap();
        }
        file(&fd);
        deep
    }

    /// Number of folders in each other, and true if the innermost has the file.
    fn depth(at: &Path) -> (usize, bool) {
        let mut fd = OwnedFd::from(File::open(at).unwrap());
        for depth in 1.. {
            match sys::open_folder_at(fd.as_fd(), b"d") {
                Ok(next) => fd = next,
                Err(_) => return (depth, sys::stat_at(fd.as_fd(), b"f").is_ok_and(|stat| stat.size == 7)),
            }
        }
        unreachable!()
    }
}

impl Drop for Deep {
    fn drop(&mut self) {
        let _ = Command::new("rm").arg("-rf").arg(&self.0).status();
    }
}

#[test]
fn folders_as_deep_as_can_be_are_captured_and_come_back() {
    let f = fixture();
    let _deep = Deep::make(f.workspace.join("deep"), crate::format::TREE_DEPTH_MAX);
    let checkpoint = f.create().checkpoint;
    let target = f.workspace.parent().unwrap().join("out");
    let _out = Deep(target.clone());
    let plan = restore::plan(&f.store, &checkpoint, &restore::Options::new(target.clone()), &()).unwrap();
    restore::execute(&f.store, &checkpoint, plan, &()).unwrap();
    assert_eq!(Deep::depth(&target.join("deep")), (crate::format::TREE_DEPTH_MAX, true));
    let (node, looked, _) = look(&f.store, &Options { thorough: true, ..f.options() }, &()).unwrap();
    let before = f.store.workspace_node(&checkpoint).unwrap();
    let sides = (crate::diff::Side::new(&f.store, &before), crate::diff::Side::new(&looked, &node));
    assert!(crate::diff::compare(sides.0, sides.1, Default::default()).unwrap().is_empty());
}

#[test]
fn deeper_folders_are_refused_before_anything_is_committed() {
    let f = fixture();
    f.write("beside", b"1");
    let deep = Deep::make(f.workspace.join("deep"), crate::format::TREE_DEPTH_MAX + 1);
    let refused = [run(&f.store, &f.options(), &()).map(drop), look(&f.store, &f.options(), &()).map(drop)];
    for error in refused.map(Result::unwrap_err) {
        assert!(matches!(error, Error::TooDeep { .. }), "{error}");
        assert!(error.to_string().starts_with("cannot capture deep/d/d/d/…: folders nest in it deeper than"), "{error}");
    }
    assert!(f.store.refresh().unwrap().checkpoints().unwrap().is_empty());
    let rules = Rules { patterns: vec!["/deep".into()], ..Rules::default() };
    let beside = run(&f.store, &Options { rules, ..f.options() }, &()).unwrap();
    assert_eq!(f.tree(&beside.checkpoint).len(), 1);
    drop(deep);
}

#[test]
fn a_kept_folder_may_be_deep_and_hold_hard_links() {
    struct Nothing;
    impl Source for Nothing {
        fn scope(&self, _folder: &[u8]) -> Scope {
            Scope::Nothing
        }
    }
    let f = fixture();
    let _deep = Deep::make(f.workspace.join("deep"), 8000);
    let mut fd = OwnedFd::from(File::open(f.workspace.join("deep")).unwrap());
    while let Ok(next) = sys::open_folder_at(fd.as_fd(), b"d") {
        fd = next;
    }
    rustix::fs::linkat(&fd, "f", &fd, "g", rustix::fs::AtFlags::empty()).unwrap();
    let first = f.create().checkpoint;
    let kept = run_with(&f.store, &f.options(), &Nothing, &mut NoState, &()).unwrap().checkpoint;
    assert!(first.record.links.is_some());
    assert_eq!((first.record.root, first.record.links), (kept.record.root, kept.record.links));
}

#[test]
fn a_name_of_an_operation_that_is_not_known_is_the_user_s() {
    let f = fixture();
    let name = format!(".parhelia-{}-1-2", OpId::generate());
    f.write(&name, b"mine");
    assert_eq!(f.captured(&name).0, b"mine");
}

#[test]
fn a_file_is_read_once_however_many_names_it_has() {
    let f = fixture();
    f.write("a/one", b"content");
    f.write("b/other", b"other");
    for name in ["a/two", "b/three"] {
        fs::hard_link(f.workspace.join("a/one"), f.workspace.join(name)).unwrap();
    }
    let made = f.create();
    assert_eq!((made.files_read, made.checkpoint.record.workspace.entries), (2, 6));
    f.assert_exact(&made.checkpoint);
}

#[test]
fn attributes_that_no_tree_holds_name_their_folder() {
    // Each of them is as long as the system takes.
    let workspace = tempfile::tempdir_in("/dev/shm").unwrap();
    let f = fixture();
    let many = |folder: &str| {
        fs::create_dir_all(workspace.path().join(folder)).unwrap();
        for file in 0..256 {
            let path = workspace.path().join(folder).join(file.to_string());
            fs::write(&path, b"").unwrap();
            rustix::fs::setxattr(&path, "trusted.long", &[0; 64 << 10], rustix::fs::XattrFlags::empty())
                .unwrap_or_else(|e| panic!("this test needs root: {e}"));
        }
    };
    let error = || run(&f.store, &Options { workspace: workspace.path().into(), ..f.options() }, &()).unwrap_err().to_string();
    many("sub/many");
    let of_folder = error();
    fs::remove_dir_all(workspace.path().join("sub")).unwrap();
    many("");
    let of_workspace = error();
    assert!(of_folder.contains("sub/many") && of_folder.contains("extended attributes"), "{of_folder}");
    assert!(of_workspace.contains(&*workspace.path().to_string_lossy()), "{of_workspace}");
}
