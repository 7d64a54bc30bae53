//! Tags, annotations and links by the real binary: what is found by them, bad input, two processes at once, mounts, retention.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use parhelia_ledger::{kind, selector};
use parhelia_oversight::review::tag;
use parhelia_store::{
    OpenOptions,
    event::{Actor, NewEvent},
};
use parhelia_tests::{
    Scratch,
    filesystems::{Mountpoint, system},
    long,
};
use serde_json::Value;

/// Three checkpoints of a folder, the oldest first; the file in it counts them.
fn three() -> (Scratch, Vec<String>) {
    let s = Scratch::new();
    let work = s.path("work");
    fs::create_dir(&work).unwrap();
    let ids = (1..=3).map(|i| {
        fs::write(work.join("file"), format!("{i}\n")).unwrap();
        s.create("work", &work)
    });
    let ids = ids.collect();
    (s, ids)
}

/// The lines of a verb's JSON before its summary.
fn lines(s: &Scratch, arguments: &[&str]) -> Vec<Value> {
    let text = s.expect(0, &[arguments, &["--json"]].concat());
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.filter(|line: &Value| line["type"] != "summary").collect()
}

fn listed(s: &Scratch, flags: &[&str]) -> Vec<String> {
    let found = lines(s, &[&["checkpoint", "list"], flags].concat());
    found.iter().map(|line| line["id"].as_str().unwrap().to_owned()).collect()
}

fn events(s: &Scratch, kind: &str) -> usize {
    lines(s, &["log", "--kind", kind]).len()
}

#[test]
fn a_checkpoint_is_found_again_by_its_tag() {
    let (s, ids) = three();
    s.expect(0, &["checkpoint", "tag", &ids[0], "release/1.2", "stable"]);
    let summary = s.summary(&["tag", &ids[1], "release/1.2", "release/2/rc"]);
    assert_eq!((summary["added"].as_array().unwrap().len(), summary["tags"].as_array().unwrap().len()), (2, 2));
    let again = s.expect(0, &["tag", &ids[1], "release/1.2"]);
    assert!(again.contains("had this before: release/1.2"), "{again}");
    assert_eq!(events(&s, "checkpoint.tagged"), 4);

    let newest_first = |chosen: &[usize]| chosen.iter().map(|i| ids[*i].clone()).collect::<Vec<_>>();
    for (pattern, expected) in [
        ("release", &[1, 0][..]),
        ("release/*", &[1, 0]),
        ("release/**", &[1, 0]),
        ("**/rc", &[1]),
        ("stable", &[0]),
        ("release/3", &[]),
    ] {
        assert_eq!(listed(&s, &["--tag", pattern]), newest_first(expected), "{pattern}");
    }
    assert_eq!(listed(&s, &["--tag", "stable", "--tag", "**/rc"]), newest_first(&[1, 0]));
    assert!(s.expect(0, &["list", "--tag", "nothing"]).starts_with("No checkpoints that match in "));

    for (place, content) in [("tag:release/1.2:file", "2\n"), ("work@tag:stable:file", "1\n"), ("tag:stable:/file", "1\n")] {
        assert_eq!(s.expect(0, &["cat", place]), content, "{place}");
    }
    let unknown = s.expect(10, &["cat", "tag:stabel:file"]);
    assert!(unknown.contains("no checkpoint has the tag 'stabel'; similar: stable;"), "{unknown}");
    let of_nobody = s.expect(10, &["show", "tag:nothing"]);
    assert!(of_nobody.contains("`parhelia checkpoint tags` lists those in use"), "{of_nobody}");

    let tags = lines(&s, &["tags"]);
    let told: Vec<_> = tags.iter().map(|tag| (tag["tag"].as_str().unwrap(), tag["checkpoint"].as_str().unwrap())).collect();
    assert_eq!(told, [("release/1.2", &*ids[1]), ("release/2/rc", &*ids[1]), ("stable", &*ids[0])]);
    let without = s.expect(10, &["untag", &ids[0], "stabel"]);
    assert!(without.contains("does not have the tag 'stabel'; it has release/1.2, stable"), "{without}");
    let left = s.expect(0, &["untag", &ids[0], "stable"]);
    assert!(left.ends_with("Its tags: release/1.2.\n"), "{left}");
    assert_eq!(lines(&s, &["tags", "stable"]).len(), 0);
}

#[test]
fn what_was_said_of_a_checkpoint_is_shown() {
    let (s, ids) = three();
    let workspace = s.path("work").to_string_lossy().into_owned();
    s.expect(0, &["tag", &ids[2], "stable"]);
    s.expect(0, &["annotate", &ids[2], "Tests pass\n\nbut slowly"]);
    let mut child = s.command(&["annotate", &ids[2], "-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all("from a pipe ✓\r\n".as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    s.expect(0, &["link", &ids[2], "https://github.com/o/r/pull/12?tab=files#top", "bd-a1b2.3", "https://example.com/x/"]);
    let again = s.summary(&["link", &ids[2], "O/R#12"]);
    assert_eq!((again["added"].as_array().unwrap().len(), again["links"].as_array().unwrap().len()), (0, 3), "{again}");

    let shown = s.expect(0, &["show", &ids[2]]);
    for text in ["Tags        stable\n", "Issue       o/r#12  https://github.com/o/r/pull/12\n", "Issue       bd-a1b2.3\n"] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    assert!(shown.contains(": Tests pass\n") && shown.contains("\n              but slowly\n"), "{shown}");
    let status = s.expect(0, &["status", "-w", &workspace]);
    assert!(status.contains("  Tags: stable\n  Issues: bd-a1b2.3, o/r#12, https://example.com/x\n  Note: "), "{status}");
    let list = s.expect(0, &["list"]);
    assert!(list.lines().next().unwrap().contains("NOTES  TAGS    ISSUES"), "{list}");
    assert_eq!(listed(&s, &["--link", "https://github.com/o/r/issues/12"]), [ids[2].clone()]);
    assert_eq!(listed(&s, &["--link", "bd-a1b2"]), Vec::<String>::new());
    let object = lines(&s, &["list"]).remove(0);
    assert_eq!((object["annotations"].as_array().unwrap().len(), &object["links"][0]["tracker"]), (2, &"beads".into()));
    let said = lines(&s, &["annotations", &ids[2]]);
    assert_eq!((said.len(), &said[1]["text"], &said[1]["checkpoint"]), (2, &"from a pipe ✓".into(), &Value::from(&*ids[2])));
    assert_eq!(lines(&s, &["annotations"]), said);
    assert!(s.expect(0, &["annotations", &ids[0]]).starts_with("No annotations of "));
    s.expect(0, &["unlink", &ids[2], "o/r#12"]);
    let missing = s.expect(10, &["unlink", &ids[2], "o/r#12"]);
    assert!(missing.contains("it is linked to beads:bd-a1b2.3, https://example.com/x"), "{missing}");
}

#[test]
fn bad_input_is_refused_with_the_reason_and_records_nothing() {
    let (s, ids) = three();
    let id = ids[0].as_str();
    let long = "x".repeat(201);
    let nested = format!("{}a{}", "{".repeat(500), "}".repeat(500));
    let cases: [(i32, &[&str], &str); 15] = [
        (2, &["tag", id, "good", "a b"], "it has a space"),
        (2, &["tag", id, ""], "it is empty"),
        (2, &["tag", id, "a//b"], "empty part"),
        (2, &["tag", id, "a:b"], "has a ':'"),
        (2, &["tag", id, "a\x1b[31m"], "cannot be seen"),
        (2, &["tag", id, &long], "more than 200 bytes"),
        (2, &["tag", id, "--", "-x"], "begins with '-'"),
        (2, &["list", "--tag", "a["], "is no pattern of tags"),
        (2, &["list", "--tag", &nested], "is no pattern of tags"),
        (2, &["find", &nested], "does not parse"),
        (2, &["annotate", id, " \n"], "it is empty"),
        (2, &["annotate", id, "\x1b]0;title\x07"], "control characters"),
        (2, &["link", id, "ABC-123"], "Linear or of Jira"),
        (2, &["link", id, "bd-a1b2", "ftp://x/1"], "neither http nor https"),
        (10, &["tag", "nothing", "a"], "no checkpoint matches"),
    ];
    for (code, arguments, why) in cases {
        let told = s.expect(code, arguments);
        assert!(told.contains(why) && !told.contains('\x1b'), "{arguments:?}: {told}");
    }
    use std::os::unix::ffi::OsStrExt;
    let odd = [std::ffi::OsStr::new("tag"), std::ffi::OsStr::new(id), std::ffi::OsStr::from_bytes(b"a\xff")];
    s.expect(2, &odd);
    assert_eq!(events(&s, "checkpoint.tagged") + events(&s, "checkpoint.annotated") + events(&s, "checkpoint.linked"), 0);
}

#[test]
fn a_marked_checkpoint_is_deleted_on_purpose_alone_and_a_deleted_one_is_not_marked() {
    let (s, ids) = three();
    s.expect(0, &["tag", &ids[0], "stable"]);
    s.expect(0, &["link", &ids[1], "o/r#1"]);
    let refused = s.expect(4, &["delete", &ids[2], &ids[0]]);
    assert!(refused.contains("it is tagged stable; `parhelia checkpoint show "), "{refused}");
    s.expect(4, &["delete", &ids[1], "--dry-run"]);
    assert_eq!(listed(&s, &[]).len(), 3, "all or none");
    s.expect(0, &["delete", &ids[0], &ids[2], "--protected"]);
    let deleted = s.expect(10, &["tag", &ids[0], "again"]);
    assert!(deleted.contains(" was deleted by ") && deleted.contains(" on 2") && deleted.contains(" UTC"), "{deleted}");
    s.expect(10, &["cat", "tag:stable:file"]);
    assert_eq!(lines(&s, &["tags"]).len(), 0, "a tag that no checkpoint has is not in use");
}

#[test]
fn retention_keeps_what_is_tagged_or_linked() {
    let s = Scratch::new();
    let work = s.path("work");
    fs::create_dir(&work).unwrap();
    let ids: Vec<String> = (0..6)
        .map(|i| {
            fs::write(work.join("file"), i.to_string()).unwrap();
            s.create("work", &work)
        })
        .collect();
    s.expect(0, &["tag", &ids[0], "stable"]);
    s.expect(0, &["link", &ids[2], "bd-a1b2"]);
    let config = s.path("home/.config/parhelia/parhelia.toml");
    parhelia_tests::write(&config, b"[retention]\nall_hours = 0\nhourly_hours = 0\n").unwrap();
    let prune = ["session", "prune", "work", "-w", "1", "-l", "0"];
    s.expect(0, &prune);
    let left = listed(&s, &[]);
    assert!(left.contains(&ids[0]) && left.contains(&ids[2]) && !left.contains(&ids[1]) && !left.contains(&ids[3]), "{left:?}");
    s.expect(0, &["untag", &ids[0], "stable"]);
    s.expect(0, &prune);
    let left = listed(&s, &[]);
    assert!(!left.contains(&ids[0]) && left.contains(&ids[2]), "{left:?}");
}

#[test]
fn of_several_processes_that_tag_at_once_one_adds_the_tag() {
    let (s, ids) = three();
    let start = |tag: &str| s.command(&["tag", &ids[0], tag, "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let children: Vec<Child> = (0..8).flat_map(|i| [start("same"), start(&format!("own/{i}"))]).collect();
    let mut added = 0;
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        added += summary["added"].as_array().unwrap().iter().filter(|tag| *tag == "same").count();
    }
    assert_eq!((added, events(&s, "checkpoint.tagged"), lines(&s, &["tags"]).len()), (1, 9, 9));
    s.expect(0, &["check", "--quiet"]);
}

#[test]
fn a_store_that_cannot_be_written_is_searched_and_not_marked() {
    let (s, ids) = three();
    s.expect(0, &["tag", &ids[0], "stable"]);
    s.expect(0, &["annotate", &ids[0], "good"]);
    let store = s.store().to_string_lossy().into_owned();
    system("mount", &["--bind", &store, &store]);
    let _mounted = Mountpoint::of(&s.store());
    system("mount", &["-o", "remount,bind,ro", &store]);
    assert_eq!(listed(&s, &["--tag", "stable"]), [ids[0].clone()]);
    assert_eq!((lines(&s, &["tags"]).len(), lines(&s, &["annotations"]).len()), (1, 1));
    assert_eq!(s.expect(0, &["--quiet", "cat", "tag:stable:file"]).lines().next(), Some("1"));
    let refused = s.expect(1, &["tag", &ids[0], "more"]);
    assert!(refused.contains("Read-only file system"), "{refused}");
}

/// Waits until something is so.
#[track_caller]
fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn tags_are_folders_in_a_mount_as_soon_as_they_are_made() {
    let (s, ids) = three();
    s.expect(0, &["tag", &ids[0], "release/1"]);
    let mount = s.path("mnt");
    fs::create_dir(&mount).unwrap();
    s.expect(0, &["mount", &mount.to_string_lossy()]);
    let content = |tag: &str| fs::read_to_string(mount.join("by-tag").join(tag).join("workspace/file")).unwrap_or_default();
    assert_eq!(content("release/1"), "1\n");
    s.expect(0, &["tag", &ids[1], "release"]);
    s.expect(0, &["tag", &ids[2], "release/1", "a/b/c"]);
    eventually("the newest counts", || content("release/1") == "3\n");
    eventually("a tag that is a folder", || content("release/@") == "2\n");
    let target = fs::read_link(mount.join("by-tag/a/b/c")).unwrap();
    assert_eq!(target, Path::new("../../../sessions/work").join(&ids[2]));
    s.expect(0, &["untag", &ids[2], "a/b/c"]);
    eventually("its folders are gone", || !mount.join("by-tag/a").exists());
    s.expect(0, &["umount", &mount.to_string_lossy()]);
}

#[test]
fn completion_offers_tags() {
    let (s, ids) = three();
    s.expect(0, &["tag", &ids[0], "release/1"]);
    let completed = |words: &[&str]| {
        let mut command = s.command(&[&["--"], words].concat());
        command.env("PARHELIA_COMPLETE", "fish").env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert!(
        completed(&["parhelia", "untag", &ids[0], "rel"]).starts_with("release/1"),
        "{}",
        completed(&["parhelia", "tags", ""])
    );
    assert!(completed(&["parhelia", "list", "--tag", ""]).contains("release/1"));
    assert!(completed(&["parhelia", "show", "tag:"]).starts_with("tag:release/1"));
}

/// Selecting, listing and completing read tags alone, however many events there are.
#[test]
fn tags_are_found_fast_in_a_store_of_many_events() {
    let (s, ids) = three();
    let store = parhelia_ledger::open(&s.store(), &OpenOptions::default()).unwrap();
    let number = if long() > 0 { 100_000 } else { 20_000 };
    let event = |i: usize| {
        let event = |kind: &str| NewEvent::new(kind, ids[i % 3].as_str(), Actor::program("test"));
        match i % 200 {
            0 => event(kind::CHECKPOINT_TAGGED).with("tag", format!("t/{i}")),
            _ => event(kind::CHECKPOINT_VERIFIED).with("level", "index").with("ok", true).with("problems", 0),
        }
    };
    let all: Vec<NewEvent> = (0..number).map(event).collect();
    all.chunks(10_000).for_each(|some| drop(store.append_events(some, &()).unwrap()));
    let timed = |what: &str, work: &dyn Fn()| {
        let start = Instant::now();
        work();
        eprintln!("{number} events: {what} in {:?}", start.elapsed());
        start.elapsed()
    };
    let view = store.refresh().unwrap();
    let last = format!("tag:t/{}", (number - 1) / 200 * 200);
    let found = timed("a tag is selected", &|| drop(selector::find(&view, &last).unwrap()));
    assert!(found < Duration::from_millis(500), "{found:?}");
    let listed = timed("all tags are listed", &|| assert_eq!(tag::in_use(&view, &[]).unwrap().len(), number.div_ceil(200)));
    assert!(listed < Duration::from_millis(500), "{listed:?}");
    timed("`cat` by an id", &|| drop(s.expect(0, &["cat", &format!("{}:file", ids[0])])));
    timed("`cat` by a tag", &|| drop(s.expect(0, &["cat", &format!("{last}:file")])));
    timed("`tag`", &|| drop(s.expect(0, &["tag", &ids[0], "new"])));
    timed("`list --tag`", &|| drop(s.expect(0, &["list", "--tag", "t/**"])));
    timed("`tags`", &|| drop(s.expect(0, &["tags", "t/*"])));
}
