use std::{fs, os::unix::fs::symlink, path::Path};

use parhelia_ledger::kind;
use parhelia_store::ErrorKind;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::*;

fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// A folder with an archive of these bytes, which nothing here unpacks, and this manifest.
fn folder(manifest: &Value) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("workspace.tar.zst"), "archive").unwrap();
    fs::write(folder.path().join(MANIFEST), manifest.to_string()).unwrap();
    folder
}

fn read(folder: &Path) -> Result<Older> {
    Older::read(folder, &())
}

/// A manifest of schema 1.0 with one more field.
fn with(name: &str, value: Value) -> Value {
    let mut manifest = json!({ "version": "1.0" });
    manifest[name] = value;
    manifest
}

fn refusal(manifest: &Value) -> String {
    let folder = folder(manifest);
    let error = read(folder.path()).unwrap_err();
    assert!(error.to_string().contains(MANIFEST), "{error}");
    error.to_string()
}

#[test]
fn what_a_manifest_lacks_is_not_known() {
    for version in ["1.0", "1.1", "1.2"] {
        let folder = folder(&json!({ "version": version, "id": "", "session_id": null }));
        let older = read(folder.path()).unwrap();
        let manifest = older.manifest;
        assert_eq!((manifest.id, manifest.session, manifest.created_at, manifest.trigger), (None, None, None, None));
        assert_eq!((manifest.git, older.environment, older.marks.len()), (None, None, 0));
        assert!(manifest.conversation.is_empty() && manifest.usage.is_empty());
        assert_eq!((manifest.archive.as_str(), manifest.message.as_str()), ("workspace.tar.zst", "checkpoint"));
        assert_eq!(manifest.from["version"], version);
        assert_eq!(manifest.from["approval"], Value::Null);
        assert_eq!(older.checked, ChecksumReport::default());
    }
}

#[test]
fn a_field_of_the_wrong_type_is_refused_by_its_name() {
    for (manifest, said) in [
        (with("conversation", json!({ "turn_count": "15" })), "conversation.turn_count is a text, where a whole number"),
        (with("conversation", json!({ "turn_count": -1 })), "turn_count is a negative number"),
        (with("conversation", json!({ "turn_count": 1.5 })), "turn_count is a fraction"),
        (with("conversation", json!([])), "conversation is a list, where an object"),
        (with("conversation", json!({ "has_resume_token": 1 })), "has_resume_token is a number, where true or false"),
        (with("git", json!({ "branch": ["main"] })), "git.branch is a list"),
        (with("metrics", json!({ "cost_estimate_usd": -0.5 })), "metrics.cost_estimate_usd is a negative number"),
        (with("metrics", json!({ "tools_invoked": ["a", 1] })), "metrics.tools_invoked.1 is a number"),
        (with("created_at", json!("yesterday")), "created_at is 'yesterday', which is no time"),
        (with("trigger", json!("At Times")), "trigger is 'At Times', which is no trigger"),
        (with("workspace", json!({ "path": "../work.tar" })), "workspace.path is '../work.tar'"),
        (with("workspace", json!({ "path": "/etc/passwd" })), "workspace.path is '/etc/passwd'"),
        (with("workspace", json!({ "path": "s3://bucket/work.tar.zst" })), "put the archive there"),
        (with("workspace", json!({ "path": ".." })), "workspace.path"),
        (with("approval", json!({ "status": "sure" })), "approval.status is 'sure'"),
        (with("tags", json!("stable")), "tags is a text"),
        (with("annotations", json!([{ "text": 1 }])), "annotations.0.text is a number"),
        (with("linked_issues", json!(["ph-1a2"])), "linked_issues.0 is a text"),
        (with("environment", json!({ "plugins": { "p": { "git_remote": 1 } } })), "environment.plugins.p.git_remote is a number"),
        (with("environment", json!({ "mcp_servers": { "m": { "source_type": "ftp" } } })), "m.source_type is none of"),
        (with("id", json!("x".repeat(20_000))), "id has 20000 bytes"),
        (json!([1]), "it holds a list"),
        (json!({ "version": 1 }), "version is a number"),
        (json!({ "version": "1.3" }), "version is '1.3', and 1.0, 1.1, 1.2 are read"),
        (json!({}), "version is ''"),
    ] {
        let found = refusal(&manifest);
        assert!(found.contains(said), "{manifest}: {found}");
    }
    let folder = folder(&json!({ "version": "1.0" }));
    for (bytes, said) in
        [(&b"{\"version\":\"1.0\",\"id\":\"\xff\"}"[..], "no JSON"), (b"", "no JSON"), (&b"[".repeat(1000), "no JSON")]
    {
        fs::write(folder.path().join(MANIFEST), bytes).unwrap();
        assert!(read(folder.path()).unwrap_err().to_string().contains(said));
    }
    let giant = fs::File::create(folder.path().join(MANIFEST)).unwrap();
    giant.set_len(MANIFEST_BYTES_MAX + 1).unwrap();
    assert!(read(folder.path()).unwrap_err().to_string().contains("more than 16777216 bytes"));
}

#[test]
fn a_time_without_a_zone_is_in_utc() {
    for text in ["2026-01-16T14:35:00Z", "2026-01-16T14:35:00", "2026-01-16T15:35:00+01:00", "2026-01-16 14:35:00"] {
        let folder = folder(&with("created_at", text.into()));
        let at = read(folder.path()).unwrap().manifest.created_at.unwrap();
        assert_eq!(at.to_string(), "2026-01-16T14:35:00Z", "{text}");
    }
}

#[test]
fn fields_beside_the_objects_of_the_schema_are_known_too() {
    let folder = folder(&json!({
        "version": "1.2", "working_directory": "/work", "tokens_used": 7, "cost_estimate": 0.5, "uncommitted_changes": ["a", "b"],
    }));
    let manifest = read(folder.path()).unwrap().manifest;
    assert_eq!(manifest.workspace.as_deref(), Some("/work"));
    assert_eq!((&manifest.conversation["tokens_used"], &manifest.usage["cost_estimate_usd"]), (&json!(7), &json!(0.5)));
    assert_eq!(manifest.git.unwrap(), json!({ "uncommitted_count": 2, "uncommitted_files": ["a", "b"] }));
}

#[test]
fn the_first_uncommitted_files_go_into_a_record_with_the_number_of_all() {
    let listed = |paths: Vec<String>| {
        let folder = folder(&with("workspace", json!({ "uncommitted_files": paths })));
        let git = read(folder.path()).unwrap().manifest.git.unwrap();
        (git["uncommitted_files"].as_array().unwrap().len(), git["uncommitted_count"].as_u64().unwrap())
    };
    assert_eq!(listed((0..101).map(|number| number.to_string()).collect()), (100, 101));
    assert_eq!(listed(vec!["x".repeat(3000); 3]), (2, 3));
}

#[test]
fn checksums_are_of_the_archive_or_of_all_files_or_of_one() {
    let folder = folder(&with("checksum", sha256(b"archive").into()));
    let (path, part) = (folder.path(), "mcp_state/beads.json");
    fs::create_dir(path.join("mcp_state")).unwrap();
    fs::write(path.join(part), "{}").unwrap();
    let set = |name: &str, value: Value| fs::write(path.join(MANIFEST), with(name, value).to_string()).unwrap();
    let checked = || read(path).unwrap().checked();
    assert_eq!(checked(), ChecksumReport { whole: true, files: 0 });
    // In the order of their paths: mcp_state/beads.json, workspace.tar.zst.
    set("checksum", sha256(b"{}archive").into());
    assert_eq!(checked(), ChecksumReport { whole: true, files: 0 });
    set("checksum", sha256(b"archive").to_uppercase().into());
    assert!(checked().whole);
    set("checksums", json!({ part: sha256(b"{}"), "workspace.tar.zst": sha256(b"archive") }));
    assert_eq!(checked(), ChecksumReport { whole: false, files: 2 });
    set("workspace", json!({ "checksum": sha256(b"archive") }));
    assert_eq!(checked(), ChecksumReport { whole: false, files: 1 });

    let wrong = sha256(b"other");
    for (name, value) in
        [("checksum", json!(wrong)), ("checksums", json!({ part: wrong })), ("workspace", json!({ "checksum": wrong }))]
    {
        set(name, value);
        let error = read(path).unwrap_err();
        let said = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{said}");
        let found = if name == "checksums" { sha256(b"{}") } else { sha256(b"archive") };
        assert!(said.contains(&wrong["sha256:".len()..]) && said.contains(&found["sha256:".len()..]), "{said}");
    }
    for (value, said) in [
        (json!("md5:d41d8cd98f00b204e9800998ecf8427e"), "checksum is md5, and only sha256 is checked"),
        (json!(&wrong[7..]), "of no algorithm that it names"),
        (json!("sha256:abc"), "64 hexadecimal digits"),
        (json!(5), "checksum is a number"),
    ] {
        assert!(refusal(&with("checksum", value)).contains(said), "{said}");
    }
    for file in ["../outside", "/etc/passwd", "a//b", MANIFEST] {
        assert!(refusal(&with("checksums", json!({ file: wrong }))).contains("names no other file"), "{file}");
    }
    set("checksums", json!({ "none": wrong }));
    assert!(read(path).unwrap_err().to_string().contains("none"));
}

#[test]
fn nothing_but_files_is_taken_from_a_folder() {
    let outside = tempfile::NamedTempFile::new().unwrap();
    for name in ["manifest.json", "workspace.tar.zst", "conversation.json", "mcp_state", "mcp_state/beads.json", "other"] {
        let folder = folder(&json!({ "version": "1.0" }));
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        symlink(outside.path(), &path).unwrap();
        let said = read(folder.path()).unwrap_err().to_string();
        assert!(said.contains(name) && said.contains("symlink"), "{said}");
    }
    let pipe = folder(&json!({ "version": "1.0" }));
    let path = pipe.path().join("conversation.json");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::from(0o600), 0).unwrap();
    assert!(read(pipe.path()).unwrap_err().to_string().contains("conversation.json: it is no regular file"));
    let name = std::os::unix::ffi::OsStrExt::from_bytes(b"caf\xe9");
    let named = folder(&json!({ "version": "1.0" }));
    fs::write(named.path().join::<&std::ffi::OsStr>(name), "").unwrap();
    assert!(read(named.path()).unwrap_err().to_string().contains("not UTF-8"));
    let deep = folder(&json!({ "version": "1.0" }));
    fs::create_dir_all(deep.path().join("1/2/3/4/5/6/7/8/9")).unwrap();
    assert!(read(deep.path()).unwrap_err().to_string().contains("too deep"));
    let archive = folder(&with("workspace", json!({ "path": "workspace" })));
    fs::create_dir(archive.path().join("workspace")).unwrap();
    assert!(read(archive.path()).unwrap_err().to_string().contains("it is a folder, where a file must be"));
    let none = folder(&with("workspace", json!({ "path": "none" })));
    assert!(read(none.path()).unwrap_err().to_string().contains("none"));
}

#[test]
fn documents_beside_the_manifest_are_refused_by_their_names() {
    for (file, text, said) in [
        ("conversation.json", "{", "no JSON"),
        ("conversation.json", "5", "it holds a number"),
        ("conversation.json", r#"{"messages": {}}"#, "messages is an object"),
        ("conversation.json", r#"{"messages": ["hello"]}"#, "messages.0 is a text"),
        ("conversation.json", r#"{"todos": [1]}"#, "todos.0 is a number"),
        ("conversation.json", r#"{"system_prompt": []}"#, "system_prompt is a list"),
        ("environment.json", "[]", "it holds a list"),
        ("environment.json", r#"{"LANG": 1}"#, "LANG is a number"),
        ("session_state.json", "\u{0}", "no JSON"),
        ("conversation.json", &format!("[{}0]", "0,".repeat(4_000_000)), "more than 4000000 values"),
    ] {
        let folder = folder(&json!({ "version": "1.0" }));
        fs::write(folder.path().join(file), text).unwrap();
        let error = read(folder.path()).unwrap_err().to_string();
        assert!(error.contains(file) && error.contains(said), "{said}: {error}");
    }
}

#[test]
fn statements_become_events_as_far_as_they_can_be_made_here() {
    let folder = folder(&json!({
        "version": "1.2",
        "tags": ["milestone/v1.0", "two words"],
        "annotations": [
            { "timestamp": "2026-01-16T15:00:00Z", "user": "ann", "text": "works" }, { "text": "plain" }, { "text": "\u{1b}[2J" }, {},
        ],
        "linked_issues": [{ "tracker": "github", "id": "o/r#1", "url": "https://github.com/o/r/issues/1" }, { "url": "ftp://x" }],
    }));
    let older = read(folder.path()).unwrap();
    let said: Vec<(&str, &Value)> = older
        .marks
        .iter()
        .map(|mark| (mark.kind.as_str(), mark.data.get("tracker").or(mark.data.values().next()).unwrap()))
        .collect();
    assert_eq!(
        said,
        [
            (kind::CHECKPOINT_TAGGED, &json!("milestone/v1.0")),
            (kind::CHECKPOINT_ANNOTATED, &json!("works\n— ann, 2026-01-16T15:00:00Z")),
            (kind::CHECKPOINT_ANNOTATED, &json!("plain")),
            (kind::CHECKPOINT_LINKED, &json!("github")),
        ]
    );
    assert!(older.marks.iter().all(|mark| mark.actor.user.is_none() && mark.actor.via == "import"));
    assert_eq!(older.left.len(), 3, "{:?}", older.left);
    let many: Vec<String> = (0..1001).map(|number| format!("t{number}")).collect();
    assert!(refusal(&with("tags", json!(many))).contains("more than 1000"));
}

#[test]
fn credentials_are_taken_out_of_environments_and_nothing_else_is() {
    let folder = folder(&json!({
        "version": "1.2", "tokens_used": 5,
        "environment": {
            "plugins": { "p": { "git_remote": "https://user:hunter2@host/p.git", "manifest_version": null } },
            "python_packages": { "tokenizers": "0.15" }, "python_version": "3.12", "later": { "kept": true },
        },
    }));
    let variables = json!({ "LANG": "C.UTF-8", "API_KEY": "hunter2" });
    fs::write(folder.path().join("environment.json"), variables.to_string()).unwrap();
    let state = json!({ "state": "running", "environment": variables }).to_string();
    fs::write(folder.path().join("session_state.json"), &state).unwrap();
    let older = read(folder.path()).unwrap();
    let environment = older.environment.unwrap();
    assert_eq!(environment["python_packages"], json!({ "tokenizers": "0.15" }));
    assert_eq!((&environment["variables"], &environment["later"]), (&json!({ "LANG": "C.UTF-8" }), &json!({ "kept": true })));
    for file in [MANIFEST, "environment.json", "session_state.json"] {
        let text = String::from_utf8(older.files.get(file).unwrap().to_vec()).unwrap();
        assert!(!text.contains("hunter2"), "{text}");
    }
    assert!(!environment.to_string().contains("hunter2"), "{environment}");
    let kept: Value = serde_json::from_slice(older.files.get(MANIFEST).unwrap()).unwrap();
    assert_eq!((&kept["tokens_used"], &kept["environment"]["python_packages"]["tokenizers"]), (&json!(5), &json!("0.15")));
}
