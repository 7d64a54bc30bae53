//! Wrong requests are refused with the right exit code, say why, and change nothing.

use std::{fs, os::unix::fs::PermissionsExt};

use parhelia_tests::{Scratch, make_store, write};

fn with_checkpoint() -> (Scratch, String) {
    let s = Scratch::new();
    write(&s.path("work/f"), b"content").unwrap();
    let id = s.create("s", &s.path("work"));
    (s, id)
}

fn text(s: &Scratch, name: &str) -> String {
    s.path(name).to_string_lossy().into_owned()
}

#[test]
fn stores_that_are_none() {
    let s = Scratch::without_store();
    assert!(s.expect(10, &["checkpoint", "list"]).contains("no store at"));
    write(&s.path("folder/f"), b"x").unwrap();
    assert!(s.expect(10, &["checkpoint", "list", "--store", &text(&s, "folder")]).contains("not a parhelia store"));
    assert!(s.expect(10, &["checkpoint", "list", "--store", &text(&s, "folder/f")]).contains("not a"));
    write(&s.path("work/f"), b"x").unwrap();
    s.expect(10, &["checkpoint", "create", "--store", &text(&s, "folder"), "--workspace", &text(&s, "work")]);
    assert_eq!(fs::read_dir(s.path("folder")).unwrap().count(), 1);
}

#[test]
fn a_newer_store_is_refused_with_what_it_needs() {
    let (s, _) = with_checkpoint();
    let config = s.store().join("store.json");
    let json = fs::read_to_string(&config).unwrap();
    fs::write(&config, json.replace("\"parhelia_store\": 1", "\"parhelia_store\": 99")).unwrap();
    assert!(s.expect(1, &["checkpoint", "list"]).contains("store format 99"));
    fs::write(&config, json.replace("MiB", "")).unwrap();
    s.expect(0, &["checkpoint", "list"]);
    for damaged in [json.replace("\"created_at\": \"2", "\"created_at\": \"3"), "{".into()] {
        fs::write(&config, &damaged).unwrap();
        // The second copy is as good for reading.
        s.expect(0, &["checkpoint", "list"]);
        s.expect(12, &["check"]);
        let second = s.store().join("journal/store.json");
        let whole = fs::read(&second).unwrap();
        fs::write(&second, damaged).unwrap();
        s.expect(12, &["checkpoint", "list"]);
        fs::write(second, whole).unwrap();
    }
}

#[test]
fn workspaces_that_cannot_be() {
    let (s, _) = with_checkpoint();
    let create = |code, workspace: &str| s.expect(code, &["checkpoint", "create", "--workspace", workspace]);
    assert!(create(10, &text(&s, "nowhere")).contains("nowhere"));
    assert!(create(2, &text(&s, "work/f")).contains("not a folder"));
    for inside in [s.store(), s.store().join("packs")] {
        let inside = inside.to_string_lossy().into_owned();
        assert!(s.expect(2, &["checkpoint", "create", "--workspace", &inside]).contains("is the store"));
    }
    let around = s.store().parent().unwrap().to_string_lossy().into_owned();
    let summary = s.summary(&["checkpoint", "create", "around", "--workspace", &around]);
    let shown = s.expect(0, &["checkpoint", "show", summary["id"].as_str().unwrap()]);
    assert!(!shown.is_empty());
    let listed = s.expect(0, &["checkpoint", "ls", "latest"]);
    assert!(listed.contains("work") && !listed.contains("store"), "{listed}");
}

#[test]
fn selectors_that_match_nothing_or_several() {
    let (s, id) = with_checkpoint();
    let other = s.create("s", &s.path("work"));
    s.expect(10, &["checkpoint", "show", "latest~5"]);
    s.expect(10, &["checkpoint", "show", "ZZZZZZZZ"]);
    s.expect(0, &["checkpoint", "show", &id[14..]]);
    let shared: String = id.chars().zip(other.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a).collect();
    let several = s.expect(10, &["checkpoint", "show", &shared]);
    assert!(several.contains(&id) && several.contains(&other), "{several}");
    s.expect(10, &["checkpoint", "cat", "latest:missing"]);
    assert_eq!(s.expect(0, &["checkpoint", "cat", "latest:f"]), "content");
    s.expect(2, &["checkpoint", "show", "ab"]);
}

#[test]
fn restores_that_would_harm() {
    let (s, id) = with_checkpoint();
    write(&s.path("full/mine"), b"keep").unwrap();
    let refused = s.expect(4, &["checkpoint", "restore", &id, "--to", &text(&s, "full")]);
    assert!(refused.contains("--in-place"), "{refused}");
    assert_eq!(fs::read(s.path("full/mine")).unwrap(), b"keep");
    s.expect(2, &["checkpoint", "restore", &id, "--to", &s.store().join("packs/x").to_string_lossy()]);
    s.expect(2, &["checkpoint", "restore", &id, "--to", &text(&s, "new"), "--include", "a{b"]);
    assert!(!s.path("new").exists());
    s.expect(0, &["checkpoint", "restore", &id, "--to", &text(&s, "full"), "--in-place", "--quiet"]);
    assert_eq!(fs::read(s.path("full/mine")).unwrap(), b"keep");
    let delete = ["checkpoint", "restore", &id, "--to", &text(&s, "full"), "--in-place", "--delete", "--quiet"];
    assert!(s.expect(4, &delete).contains("--other-folder") && s.path("full/mine").exists());
    s.expect(0, &[&delete[..], &["--other-folder"]].concat());
    assert!(!s.path("full/mine").exists());
}

#[test]
fn patterns_and_arguments_that_do_not_parse() {
    let (s, _) = with_checkpoint();
    s.expect(2, &["checkpoint", "create", "--workspace", &text(&s, "work"), "--exclude", "a{b"]);
    s.expect(2, &["checkpoint", "create", "--workspace", &text(&s, "work"), "--trigger", "sometimes"]);
    s.expect(2, &["checkpoint", "find", "a{b"]);
    s.expect(2, &["no-such-verb"]);
    s.expect(2, &["check", "--read-data=400"]);
}

#[test]
fn an_unreadable_file_is_named_and_the_rest_is_kept() {
    let s = Scratch::new();
    write(&s.path("work/secret/f"), b"x").unwrap();
    write(&s.path("work/open"), b"y").unwrap();
    fs::set_permissions(s.path("work/secret"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::create_dir(s.path("home")).unwrap();
    // Root may read everything, so somebody else runs this.
    let own = s.path("");
    let chown = |path: &std::path::Path| std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    for name in ["", "home", "work"] {
        chown(&s.path(name));
    }
    make_store(&s.store());
    fs::set_permissions(parhelia_tests::binary(), fs::Permissions::from_mode(0o755)).unwrap();
    let copied = s.path("parhelia");
    // By another process: one that is forked here meanwhile would hold it open for writing, so that it could not be run.
    assert!(std::process::Command::new("cp").args([&parhelia_tests::binary(), &copied]).status().unwrap().success());
    use std::os::unix::process::CommandExt;
    let output = std::process::Command::new(&copied)
        .args(["checkpoint", "create", "s", "--workspace", &text(&s, "work")])
        .env_clear()
        .env("HOME", s.path("home"))
        .env("PARHELIA_STORE", s.store())
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("secret"), "{said}");
    let listed = s.expect(0, &["checkpoint", "ls", "latest"]);
    assert!(listed.contains("open") && !listed.contains("secret"), "{listed}");
}

#[test]
fn a_read_only_store_can_be_read() {
    let (s, id) = with_checkpoint();
    let mount = |arguments: &[&str]| std::process::Command::new("mount").args(arguments).status().unwrap().success();
    let store = s.store().to_string_lossy().into_owned();
    assert!(mount(&["--bind", &store, &store]) && mount(&["-o", "remount,bind,ro", &store]));
    let outcomes = (
        s.run(&["checkpoint", "cat", &format!("{id}:f")]),
        s.run(&["checkpoint", "list"]),
        s.run(&["checkpoint", "create", "s", "--workspace", &text(&s, "work")]),
    );
    assert!(std::process::Command::new("umount").arg(&store).status().unwrap().success());
    assert_eq!(outcomes.0.stdout, b"content", "{:?}", outcomes.0);
    assert!(outcomes.1.status.success(), "{:?}", outcomes.1);
    assert_eq!(outcomes.2.status.code(), Some(1), "{:?}", outcomes.2);
    assert!(String::from_utf8_lossy(&outcomes.2.stderr).contains("ead-only"), "{:?}", outcomes.2);
}

#[test]
fn a_full_disk_fails_cleanly() {
    let s = Scratch::new();
    write(&s.path("small/f"), b"content").unwrap();
    write(&s.path("large/f"), &parhelia_tests::noise(30 << 20, 1)).unwrap();
    fs::create_dir(s.store()).unwrap();
    let store = s.store().to_string_lossy().into_owned();
    let mounted = std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=24m", "none", &store]).status().unwrap();
    assert!(mounted.success());
    let outcomes = std::panic::catch_unwind(|| {
        let id = s.create("s", &s.path("small"));
        let refused = s.expect(1, &["checkpoint", "create", "large", "--workspace", &text(&s, "large")]);
        assert!(refused.to_lowercase().contains("no space"), "{refused}");
        assert_eq!(s.expect(0, &["checkpoint", "cat", &format!("{id}:f")]), "content");
        s.expect(0, &["check", "--read-data", "--quiet"]);
        s.create("s", &s.path("small"));
    });
    assert!(std::process::Command::new("umount").arg(&store).status().unwrap().success());
    outcomes.unwrap();
}
