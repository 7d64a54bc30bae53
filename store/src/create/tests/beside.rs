//! Files beside a workspace: while they change, and where what was kept of them is damaged.

use std::{
    os::unix::fs::{FileExt, OpenOptionsExt},
    sync::atomic::AtomicBool,
};

use super::{
    state::{file, state_of, with},
    *,
};
use crate::{omitted::Omission, record::Part};

/// Changes a file whenever it is about to be read, at most so often. The walk of the workspace comes before that.
struct Changes<'a> {
    file: &'a File,
    edit: fn(&File),
    times: u64,
    begun: &'a AtomicBool,
    asked: AtomicU64,
}

impl Progress for Changes<'_> {
    fn is_cancelled(&self) -> bool {
        if self.begun.load(Ordering::Relaxed) && self.asked.fetch_add(1, Ordering::Relaxed) < self.times {
            let ctime = || sys::stat_fd(self.file).unwrap().ctime;
            let before = ctime();
            while ctime() == before {
                (self.edit)(self.file);
            }
        }
        false
    }
}

/// A state of one file, taken whole.
struct One<'a>(&'a Path, &'a AtomicBool);

impl State for One<'_> {
    fn begin(&mut self) {}

    fn finish(&mut self, _: &CapturedWorkspace<'_>) -> CapturedState {
        self.1.store(true, Ordering::Relaxed);
        CapturedState { files: vec![file("side", StateContent::File { path: self.0.to_owned() })], ..CapturedState::default() }
    }
}

#[test]
fn a_file_that_changes_meanwhile_is_read_three_times_and_kept_only_if_it_but_grows() {
    let longer: fn(&File) = |file| file.write_all_at(b"more", file.metadata().unwrap().len()).unwrap();
    let shorter: fn(&File) = |file| file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    let as_long: fn(&File) = |file| {
        let mut byte = [0];
        file.read_exact_at(&mut byte, 150_000).unwrap();
        file.write_all_at(&[byte[0].wrapping_add(1)], 150_000).unwrap();
    };
    for (what, edit) in [("longer", longer), ("shorter", shorter), ("as long", as_long)] {
        for (times, attempts) in [(0, 1), (1, 2), (2, 3), (3, 3)] {
            let f = fixture();
            f.write("a", b"1");
            let side = f.workspace.with_file_name("side");
            fs::write(&side, noise(200_000, 1)).unwrap();
            let opened = File::options().read(true).write(true).open(&side).unwrap();
            let begun = AtomicBool::new(false);
            let changes = Changes { file: &opened, edit, times, begun: &begun, asked: AtomicU64::new(0) };
            let outcome = run_with(&f.store, &f.options(), &FullWalk, &mut One(&side, &begun), &changes).unwrap();
            assert_eq!(changes.asked.into_inner(), attempts, "{what} {times}");
            let now = fs::read(&side).unwrap();
            let failed = outcome.checkpoint.record.parts.get("conversation");
            if times == 3 && what != "longer" {
                assert!(matches!(failed, Some(Part::Failed { .. })), "{what}: {failed:?}");
                continue;
            }
            assert_eq!(failed, None, "{what} {times}");
            // What came while it was read the last time is not taken for a part of it.
            let kept = &state_of(&f, &outcome.checkpoint)["side"];
            let is_prefix = times == 3 && kept.len() < now.len() && now.starts_with(kept);
            assert!(*kept == now || is_prefix, "{what} {times}");
            // Reading one that has become shorter comes to nothing.
            let whole = if what == "shorter" { 1 } else { attempts };
            assert!(outcome.bytes_read.abs_diff(whole * 200_000) < 10_000, "{what} {times}: {}", outcome.bytes_read);
            assert_eq!(outcome.files_read, 2, "{what} {times}");
        }
    }
}

#[test]
fn a_pipe_in_the_place_of_a_file_is_not_waited_for() {
    let f = fixture();
    f.write("a", b"1");
    let pipe = f.workspace.with_file_name("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    // Somebody who writes to it makes it no file.
    let _reader = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&pipe).unwrap();
    for content in [StateContent::File { path: pipe.clone() }, StateContent::Beginning { path: pipe, bytes: 1 }] {
        let outcome = with(&f, vec![file("pipe", content)]);
        assert!(matches!(outcome.checkpoint.record.parts.get("conversation"), Some(Part::Failed { .. })));
    }
}

#[test]
fn a_list_of_what_was_left_out_that_cannot_be_stored_is_an_error() {
    let f = fixture();
    f.write("a", b"1");
    let gone = StateContent::File { path: f.workspace.with_file_name("gone") };
    let files = vec![file(OMISSIONS_FILE, gone)];
    struct Files(Vec<StateFile>);
    impl State for Files {
        fn begin(&mut self) {}

        fn finish(&mut self, _: &CapturedWorkspace<'_>) -> CapturedState {
            CapturedState { files: self.0.clone(), ..CapturedState::default() }
        }
    }
    let error = run_with(&f.store, &f.options(), &FullWalk, &mut Files(files), &()).unwrap_err().to_string();
    assert!(error.contains("put down the list of what was left out for"), "{error}");
    assert!(f.store.refresh().unwrap().checkpoints().unwrap().is_empty());
    // Nor are two files of one name, or one whose path leads out.
    for paths in [["x", "x"], ["x/y", "x"], ["x", "x/y"], ["", "a"], ["..", "a"], ["a/../b", "a"], ["/a", "b"]] {
        let files = paths.map(|path| file(path, StateContent::Bytes(b"1".to_vec()))).to_vec();
        let error = run_with(&f.store, &f.options(), &FullWalk, &mut Files(files), &()).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{paths:?}: {error}");
    }
}

#[test]
fn what_lies_in_a_folder_that_was_left_out_was_left_out_too() {
    let omission = |path: &str, reason| Omission { path: path.into(), reason };
    let omissions = [
        omission("a", Reason::Changing),
        omission("b", Reason::Changing),
        omission("b", Reason::Unreadable("no".into())),
        omission("c/d", Reason::Excluded("rule".into())),
        omission("e", Reason::Unreadable("no".into())),
    ];
    let seen =
        CapturedWorkspace { totals: Default::default(), omissions: &omissions, ids: &crate::testing::ids(), entries: None };
    for (path, is_left_out) in [
        ("a", false),
        ("a/x", false),
        ("b", true),
        ("b/x/y", true),
        ("bx", false),
        ("c", false),
        ("c/d", true),
        ("c/d/x", true),
        ("c/dx", false),
        ("c/e", false),
        ("e", true),
        ("f", false),
        ("", false),
    ] {
        assert_eq!(seen.is_left_out(path.as_bytes()), is_left_out, "{path}");
    }
    assert_eq!(seen.entry(b"a"), None);
}
