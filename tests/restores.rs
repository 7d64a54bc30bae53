//! Restores of the real binary: beside each other, by ordinary users, across filesystems, near the store.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use parhelia_tests::{
    Scratch, assert_equal, files_in, noise,
    recorder::{Call, Fault, Recorder, Trap},
    user::User,
    write,
};
use rustix::mount::{UnmountFlags, mount_bind, unmount};
use serde_json::Value;

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn all_of(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Entries that restores have left below a folder.
fn staged_below(folder: &Path) -> Vec<PathBuf> {
    let output = Command::new("find").arg(folder).args(["-name", "*.parhelia-*"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect()
}

/// A folder that is seen in another place, until this is dropped.
struct Bind(PathBuf);

impl Bind {
    fn new(folder: &Path, at: PathBuf) -> Self {
        fs::create_dir_all(&at).unwrap();
        mount_bind(folder, &at).unwrap_or_else(|e| panic!("this test needs root: {e}"));
        Bind(at)
    }
}

impl Drop for Bind {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

fn many(folder: &Path, files: u64) {
    for i in 0..files {
        write(&folder.join(format!("d{}/e{}/f{i}", i % 29, i % 7)), &noise(100 + (i % 50) as usize, i)).unwrap();
    }
}

#[test]
fn a_restore_below_one_in_place_is_whole_or_has_failed() {
    let s = Scratch::new();
    let (a, b, target) = (s.path("a"), s.path("b"), s.path("target"));
    many(&a, 400);
    many(&b, 3000);
    let (a_id, b_id) = (s.create("a", &a), s.create("b", &b));
    s.restore(&a_id, &target);
    let wanted = files_in(&b);
    let mut whole = 0;
    for round in 0..6 {
        write(&target.join("d1/extra"), b"x").unwrap();
        let (to, sub) = (text(&target), target.join("sub"));
        let below = s.command(&["checkpoint", "restore", &b_id, "--quiet", "--to", &text(&sub)]).spawn().unwrap();
        let mut beside = vec![below];
        for _ in 0..8 {
            let in_place = ["checkpoint", "restore", &a_id, "--quiet", "--in-place", "--to", &to];
            beside.push(s.command(&in_place).stderr(Stdio::null()).spawn().unwrap());
            beside.last_mut().unwrap().wait().unwrap();
        }
        if beside[0].wait().unwrap().success() {
            assert!(files_in(&sub) == wanted, "round {round}: {} of {} files", files_in(&sub).len(), wanted.len());
            whole += 1;
        }
        let _ = fs::remove_dir_all(&sub);
        assert_eq!(staged_below(&target), Vec::<PathBuf>::new());
    }
    assert_eq!(whole, 6, "nothing is in its way");
}

#[test]
fn an_ordinary_user_changes_read_only_folders_in_place_and_they_stay_read_only() {
    let s = Scratch::new();
    let work = s.path("work");
    for name in ["mod/pkg/code.go", "mod/pkg/deep/more.go", "mod/same/x.go"] {
        write(&work.join(name), name.as_bytes()).unwrap();
    }
    let read_only = ["mod/pkg/deep", "mod/pkg", "mod/same", "mod"];
    read_only.iter().for_each(|name| set_mode(&work.join(name), 0o555));
    let user = User::owning(&s, &[&work]);
    let first = user.create("s", &work, &[]);
    let copy = s.path("copy");
    user.expect(&["checkpoint", "restore", &first, "--quiet", "--to", &text(&copy)]);
    // Root writes as if modes were nothing.
    fs::write(work.join("mod/pkg/code.go"), "changed").unwrap();
    fs::remove_file(work.join("mod/pkg/deep/more.go")).unwrap();
    write(&work.join("mod/other/extra/file"), b"extra").unwrap();
    set_mode(&work.join("mod/other/extra"), 0o555);
    set_mode(&work.join("mod/other"), 0o500);
    User::owning(&s, &[&work]);
    let arguments = ["checkpoint", "restore", &first, "--quiet", "--in-place", "--delete", "--to", &text(&work)];
    user.expect(&arguments);
    assert_equal(&copy, &work);
    // Of a partial restore, the folder is not to be changed.
    fs::write(work.join("mod/pkg/code.go"), "changed").unwrap();
    let place = format!("{first}:mod/pkg/code.go");
    user.expect(&["checkpoint", "restore", &place, "--quiet", "--in-place", "--to", &text(&work.join("mod/pkg/code.go"))]);
    assert_eq!(
        (fs::read(work.join("mod/pkg/code.go")).unwrap(), mode(&work.join("mod/pkg"))),
        (b"mod/pkg/code.go".into(), 0o555)
    );
    fs::write(work.join("mod/pkg/code.go"), "changed").unwrap();
    user.expect(&[&arguments[..], &["--include", "code.go"]].concat());
    assert_eq!(
        (fs::read(work.join("mod/pkg/code.go")).unwrap(), mode(&work.join("mod/pkg"))),
        (b"mod/pkg/code.go".into(), 0o555)
    );
    assert_eq!(fs::read_dir(s.store().join("pins")).unwrap().count(), 0);
}

#[test]
fn a_killed_restore_of_an_ordinary_user_leaves_no_folder_open_and_nothing_behind() {
    let recorder = Recorder::mount();
    recorder.stop_logging();
    let s = Scratch::with_store(recorder.path().join("base/store"));
    let base = recorder.path().join("base");
    let work = base.join("work");
    for name in ["mod/pkg/code.go", "mod/pkg/deep/more.go", "top"] {
        write(&work.join(name), name.as_bytes()).unwrap();
    }
    let read_only = ["mod/pkg/deep", "mod/pkg", "mod"];
    read_only.iter().for_each(|name| set_mode(&work.join(name), 0o555));
    let user = User::owning(&s, &[recorder.path()]);
    let first = user.create("s", &work, &[]);
    fs::write(work.join("mod/pkg/code.go"), "changed").unwrap();
    fs::remove_file(work.join("mod/pkg/deep/more.go")).unwrap();
    write(&work.join("mod/pkg/extra"), b"extra").unwrap();
    User::owning(&s, &[recorder.path()]);
    for (is_fresh, finisher) in [(false, "gc"), (true, "gc"), (false, "create"), (true, "create"), (true, "restore")] {
        let mut at = 0;
        loop {
            // Nowhere twice: a store that is put where a newer one was is taken for an older copy.
            let place = format!("{finisher}{is_fresh}{at}");
            recorder.copy("base", &place);
            let place = recorder.path().join(place);
            let store = text(&place.join("store"));
            let to = text(&place.join(if is_fresh { "out" } else { "work" }));
            let mut arguments = vec!["checkpoint", "restore", &first, "--quiet", "--store", &store, "--to", &to];
            // `create` makes the folder around it a session's.
            arguments.extend(if is_fresh { &[][..] } else { &["--in-place", "--delete", "--other-folder"] });
            let calls: &[Call] = if is_fresh { &[Call::Sync] } else { Trap::CHANGES };
            recorder.arm(Trap::new(calls, at, Fault::Kill));
            user.run(&arguments);
            let has_gone_off = recorder.disarm().1;
            let other = text(&place.join("other"));
            match finisher {
                "gc" => _ = user.expect(&["gc", "--quiet", "--store", &store]),
                "create" => _ = user.create("around", &place, &["--store", &store]),
                _ => _ = user.expect(&["checkpoint", "restore", &first, "--quiet", "--store", &store, "--to", &other]),
            }
            assert_eq!(staged_below(&place), Vec::<PathBuf>::new(), "{finisher}, {at}");
            for name in read_only {
                assert_eq!(mode(&place.join("work").join(name)), 0o555, "{finisher}, {at}: {name}");
            }
            if !is_fresh {
                user.expect(&arguments);
                assert_eq!(fs::read(place.join("work/mod/pkg/code.go")).unwrap(), b"mod/pkg/code.go");
            }
            recorder.forget(place.file_name().unwrap().to_str().unwrap());
            if !has_gone_off {
                break;
            }
            at += if is_fresh { 1 } else { 3 };
        }
        assert!(at > 3, "{at}");
    }
}

#[test]
fn a_store_that_is_seen_through_a_mount_is_neither_removed_nor_written_to() {
    let s = Scratch::new();
    let work = s.path("work");
    write(&work.join("file"), b"content").unwrap();
    write(&work.join("packs/inner"), b"a folder of that name").unwrap();
    let id = s.create("s", &work);
    let before = files_in(&s.store());
    let target = s.path("target");
    s.restore(&id, &target);
    // A folder of the store where the checkpoint has one, and one where it has none; and the store itself.
    fs::remove_dir_all(target.join("packs")).unwrap();
    let binds = [
        Bind::new(&s.store().join("packs"), target.join("packs")),
        Bind::new(&s.store().join("journal"), target.join("below/journal")),
        Bind::new(&s.store(), target.join("all/of/it")),
    ];
    let in_place = |to: &Path| ["checkpoint", "restore", &id, "--in-place", "--delete", "--to", &text(to)].map(str::to_owned);
    s.expect(0, &in_place(&target));
    assert!(target.join("file").exists() && target.join("below/journal").exists());
    // A folder by another path that has the store in it, and places in the store.
    let outside = tempfile::tempdir().unwrap();
    let alias = Bind::new(&s.path(""), outside.path().join("alias"));
    let (seen, shown) = (alias.0.join("store"), target.join("packs"));
    for inside in [&seen, &seen.join("new"), &shown, &shown.join("new")] {
        let said = s.expect(2, &in_place(inside));
        assert!(said.contains("the store itself"), "{said}");
    }
    let inside = binds[2].0.join("packs/new");
    assert!(s.expect(2, &["checkpoint", "restore", &id, "--to", &text(&inside)]).contains("the store itself"));
    drop(binds);
    // The session's folder is recognised in there, and its safety checkpoint would be written to the store.
    s.expect(0, &[&in_place(&alias.0)[..], &["--no-safety", "--other-folder"].map(str::to_owned)].concat());
    assert_eq!(fs::read(s.path("file")).unwrap(), b"content");
    drop(alias);
    let without_caches = |files: parhelia_tests::Files| -> Vec<Vec<u8>> {
        files.into_keys().filter(|path| path.starts_with(b"packs") || path.starts_with(b"journal/0")).collect()
    };
    assert_eq!(without_caches(before), without_caches(files_in(&s.store())));
    s.expect(0, &["check", "--read-data", "--quiet"]);
}

#[test]
fn mounts_inside_the_target_are_not_emptied() {
    let s = Scratch::new();
    let (work, elsewhere) = (s.path("work"), s.path("elsewhere"));
    write(&work.join("file"), b"content").unwrap();
    write(&elsewhere.join("precious"), b"not in any checkpoint").unwrap();
    let id = s.create("s", &work);
    let bind = Bind::new(&elsewhere, work.join("new/bind"));
    s.expect(0, &["checkpoint", "restore", &id, "--in-place", "--delete", "--to", &text(&work)]);
    assert!(elsewhere.join("precious").exists());
    drop(bind);
    s.expect(0, &["checkpoint", "restore", &id, "--in-place", "--delete", "--to", &text(&work)]);
    assert!(!work.join("new").exists() && elsewhere.join("precious").exists());
}

/// Numbers of a restore, planned or done.
fn counted(s: &Scratch, arguments: &[&str]) -> Value {
    let all = s.expect_any(&[0, 3], &[arguments, &["--json"]].concat());
    let last = all.lines().rfind(|line| line.contains("\"summary\"")).unwrap_or_else(|| panic!("{all}"));
    let mut summary: Value = serde_json::from_str(last).unwrap();
    let counts = [
        "files",
        "files_created",
        "folders_created",
        "others_created",
        "replaced",
        "metadata_changed",
        "deleted",
        "kept",
        "spared",
        "unchanged",
        "linked",
        "bytes",
        "skipped",
    ];
    let summary = summary.as_object_mut().unwrap();
    summary.retain(|name, _| counts.contains(&name.as_str()));
    assert_eq!(summary.len(), counts.len(), "{summary:?}");
    Value::Object(std::mem::take(summary))
}

trait ExpectAny {
    fn expect_any(&self, codes: &[i32], arguments: &[&str]) -> String;
}

impl ExpectAny for Scratch {
    fn expect_any(&self, codes: &[i32], arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(codes.contains(&output.status.code().unwrap()), "{arguments:?}: {}", all_of(&output));
        all_of(&output)
    }
}

#[test]
fn a_partial_restore_changes_nothing_but_its_path_below_the_folder() {
    let s = Scratch::new();
    let work = s.path("work");
    write(&work.join("docs/cli.md"), b"then").unwrap();
    write(&work.join("docs/other.md"), b"other").unwrap();
    symlink("elsewhere", work.join("docs/link")).unwrap();
    let id = s.create("s", &work);
    write(&work.join("docs/cli.md"), b"now").unwrap();
    write(&work.join("docs/never captured"), b"mine").unwrap();
    let (docs, place) = (text(&work.join("docs")), format!("{id}:docs/cli.md"));
    let arguments = ["checkpoint", "restore", &place, "--to", &docs, "--in-place", "--delete"];
    let dry = counted(&s, &[&arguments[..], &["--dry-run"]].concat());
    assert_eq!((&dry["replaced"], &dry["deleted"]), (&1.into(), &0.into()));
    assert_eq!(counted(&s, &arguments), dry);
    assert_eq!(fs::read(work.join("docs/cli.md")).unwrap(), b"then");
    assert_eq!(fs::read(work.join("docs/never captured")).unwrap(), b"mine");
    assert!(work.join("docs/other.md").exists());
    // Without --in-place, nothing that is there is replaced.
    s.expect(4, &["checkpoint", "restore", &place, "--to", &docs]);
    fs::remove_file(work.join("docs/cli.md")).unwrap();
    s.expect(0, &["checkpoint", "restore", &place, "--to", &docs]);
    assert_eq!(fs::read(work.join("docs/cli.md")).unwrap(), b"then");
    // A symlink in its place is replaced, and what it leads to is not.
    fs::write(s.path("outside"), "outside").unwrap();
    fs::remove_file(work.join("docs/cli.md")).unwrap();
    symlink(s.path("outside"), work.join("docs/cli.md")).unwrap();
    let file = text(&work.join("docs/cli.md"));
    s.expect(0, &["checkpoint", "restore", &place, "--to", &file, "--in-place"]);
    assert_eq!((fs::read(&file).unwrap(), fs::read(s.path("outside")).unwrap()), (b"then".to_vec(), b"outside".to_vec()));
}

#[test]
fn a_dry_run_and_the_deed_say_the_same() {
    let s = Scratch::new();
    let work = s.path("work");
    for name in ["same", "changed", "gone", "to folder", "linked", "mode", "dir/a", "dir/b", "blocked"] {
        write(&work.join(name), name.as_bytes()).unwrap();
    }
    write(&work.join("to file/inner"), b"x").unwrap();
    write(&work.join("target/big"), b"left out").unwrap();
    write(&work.join("Cargo.toml"), b"[package]").unwrap();
    fs::hard_link(work.join("linked"), work.join("second name")).unwrap();
    symlink("same", work.join("symlink")).unwrap();
    let create = ["checkpoint", "create", "s", "--workspace", &text(&work)].map(str::to_owned);
    s.expect(0, &create);
    write(&work.join("changed"), b"now").unwrap();
    for gone in ["gone", "to folder", "second name", "symlink", "blocked", "linked"] {
        fs::remove_file(work.join(gone)).unwrap();
    }
    fs::remove_dir_all(work.join("to file")).unwrap();
    write(&work.join("to file"), b"a file").unwrap();
    for extra in ["to folder/one", "to folder/two/three", "new/a/b", "new/c", "blocked/spared"] {
        write(&work.join(extra), b"extra").unwrap();
    }
    fs::hard_link(work.join("new/c"), work.join("symlink")).unwrap();
    set_mode(&work.join("mode"), 0o600);
    for flags in [&["--exclude", "/dir"][..], &["--delete"], &["--delete"]] {
        let to = text(&work);
        let arguments = [&["checkpoint", "restore", "latest", "--in-place", "--to", &to], flags].concat();
        let dry = counted(&s, &[&arguments[..], &["--dry-run"]].concat());
        assert_eq!(counted(&s, &arguments), dry, "{flags:?}");
    }
    let nothing = counted(&s, &["checkpoint", "restore", "latest", "--in-place", "--delete", "--to", &text(&work)]);
    assert_eq!((&nothing["files"], &nothing["deleted"], &nothing["skipped"]), (&0.into(), &0.into(), &0.into()));
    let dry = s.expect(0, &["checkpoint", "restore", "latest", "--to", &text(&s.path("new")), "--dry-run"]);
    let deed = s.expect(0, &["checkpoint", "restore", "latest", "--to", &text(&s.path("new"))]);
    let told = |text: &str| text.lines().last().unwrap().replace("Would restore", "Restored").replace("to write", "written");
    assert_eq!(told(&dry), told(&deed));
}

#[test]
fn what_is_skipped_is_not_counted_as_written() {
    let s = Scratch::new();
    let work = s.path("work");
    write(&work.join("thing"), &noise(5000, 1)).unwrap();
    write(&work.join("other"), b"12345").unwrap();
    let id = s.create("s", &work);
    fs::remove_file(work.join("thing")).unwrap();
    fs::remove_file(work.join("other")).unwrap();
    write(&work.join("thing/inside"), b"mine").unwrap();
    let arguments = ["checkpoint", "restore", &id, "--in-place", "--to", &text(&work)];
    let dry = counted(&s, &[&arguments[..], &["--dry-run"]].concat());
    let done = counted(&s, &arguments);
    assert_eq!((&done["files"], &done["bytes"], &done["skipped"]), (&1.into(), &5.into(), &1.into()));
    assert_eq!(dry, done);
}

#[test]
fn patterns_that_match_nothing_are_no_success() {
    let s = Scratch::new();
    let work = s.path("work");
    write(&work.join("file.rs"), b"x").unwrap();
    let id = s.create("s", &work);
    let out = s.path("out");
    for more in [&["--dry-run"][..], &[]] {
        let arguments = ["checkpoint", "restore", &id, "--to", &text(&out), "--include", "*.py"];
        let said = s.expect(1, &[&arguments[..], more].concat());
        assert!(said.contains("*.py") && said.contains("matches"), "{said}");
        assert!(!out.exists());
    }
    s.expect(0, &["checkpoint", "restore", &id, "--to", &text(&out), "--include", "*.py", "--include", "*.rs"]);
}

#[test]
fn what_a_checkpoint_leaves_out_is_not_listed_as_uncommitted() {
    let s = Scratch::new();
    let work = s.path("work");
    fs::create_dir_all(work.join("node_modules/a")).unwrap();
    for name in ["package.json", "new.txt", "node_modules/a/index.js"] {
        fs::write(work.join(name), "{}").unwrap();
    }
    let git = std::process::Command::new("git").arg("-C").arg(&work).args(["init", "-q"]).status().unwrap();
    assert!(git.success());
    let id = s.expect(0, &["checkpoint", "create", "-q", work.to_str().unwrap()]);
    let shown = s.expect(0, &["checkpoint", "show", id.trim(), "--json"]);
    let shown: Value = serde_json::from_str(shown.lines().next().unwrap()).unwrap();
    let workspace = &shown["workspace"];
    assert_eq!(workspace["uncommitted_files"], serde_json::json!(["new.txt", "package.json"]), "{shown}");
    assert_eq!(workspace["uncommitted_count"], 2, "{shown}");
}
