//! Folders of checkpoints as older tools keep them, schema 1.0 to 1.2: what is carried over, checksums, and hostile ones.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use parhelia_host::state::{state_bytes, state_json};
use parhelia_ledger::LedgerView as _;
use parhelia_store::{OpenOptions, Store, id::Ulid, record::Checkpoint};
use parhelia_tests::{Scratch, write};
use serde_json::{Value, json};

/// A scratch folder with one of an older checkpoint.
struct Older {
    s: Scratch,
}

impl Older {
    fn new(manifest: &Value) -> Self {
        let older = Older { s: Scratch::new() };
        write(&older.s.path("work/src/main.rs"), b"fn main() {}\n").unwrap();
        write(&older.s.path("work/README"), b"read me\n").unwrap();
        fs::create_dir(older.s.path("old")).unwrap();
        let mut tar = Command::new("tar");
        let made = tar.arg("--zstd").arg("-cf").arg(older.at("workspace.tar.zst")).arg("-C").arg(older.s.path("work")).arg(".");
        assert!(made.status().unwrap().success());
        older.manifest(manifest);
        older
    }

    fn at(&self, file: &str) -> PathBuf {
        self.s.path("old").join(file)
    }

    fn manifest(&self, manifest: &Value) {
        self.file("manifest.json", manifest.to_string().as_bytes());
    }

    fn file(&self, name: &str, bytes: &[u8]) {
        write(&self.at(name), bytes).unwrap();
    }

    fn path(&self) -> String {
        self.s.path("old").to_string_lossy().into_owned()
    }

    /// Imports it, and gives the manifest that is rendered of it.
    fn import(&self, flags: &[&str]) -> Value {
        let path = self.path();
        let made = self.s.summary(&[&["import", &path], flags].concat());
        let shown = self.shown(made["id"].as_str().unwrap());
        let schema = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/manifest.schema.json")).unwrap();
        let schema: Value = serde_json::from_str(&schema).unwrap();
        let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
        let errors: Vec<String> = validator.iter_errors(&shown).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?} in {shown}");
        shown
    }

    /// The manifest of a checkpoint.
    fn shown(&self, id: &str) -> Value {
        let printed = self.s.expect(0, &["checkpoint", "show", id, "--json"]);
        serde_json::from_str(printed.lines().next().unwrap()).unwrap()
    }

    /// That it is refused with these words, and leaves no checkpoint.
    fn refused(&self, code: i32, words: &[&str]) {
        let said = self.s.expect(code, &["import", &self.path()]);
        assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
        if self.s.store().exists() {
            let listed = self.s.expect(0, &["checkpoint", "list", "--json"]);
            assert!(!listed.contains("\"type\":\"checkpoint\""), "{listed}");
            self.s.expect(0, &["check"]);
        }
    }

    fn store(&self) -> Store {
        parhelia_ledger::open(&self.s.store(), &OpenOptions::default()).unwrap()
    }

    fn sha256(&self, file: &str) -> String {
        let output = Command::new("sha256sum").arg(self.at(file)).output().unwrap();
        String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
    }
}

fn checkpoint(store: &Store, manifest: &Value) -> Checkpoint {
    let id: Ulid = manifest["id"].as_str().unwrap().parse().unwrap();
    store.view().checkpoint(id).unwrap().unwrap()
}

/// The example of the specification of schema 1.0.
fn of_schema_1_0() -> Value {
    json!({
        "version": "1.0",
        "id": "01HQXYZ123456789ABCDEF",
        "session_id": "ph-fix-auth-20260116T143022",
        "created_at": "2026-01-16T14:35:00Z",
        "trigger": "periodic",
        "conversation": {
            "turn_count": 15, "last_message_id": "msg_abc123", "tokens_used": 45000, "has_resume_token": true
        },
        "workspace": {
            "path": "workspace.tar.zst", "size_bytes": 15728640, "file_count": 234,
            "uncommitted_files": ["src/auth.py", "tests/test_auth.py"]
        },
        "git": { "branch": "feature/fix-auth", "head": "a1b2c3d4e5f6", "has_stash": true, "dirty": true },
        "metrics": { "cost_estimate_usd": 0.45, "tools_invoked": ["Read", "Edit", "Bash", "Grep"], "files_modified": 3 },
        "mood": { "of_a_later_tool": [1, 2] },
    })
}

/// The fields that schema 1.2 adds, and all of 1.0.
fn of_schema_1_2() -> Value {
    let mut manifest = of_schema_1_0();
    let more = json!({
        "version": "1.2",
        "parent_checkpoint_id": "01HQXYZ123456789ABCDEE",
        "checkpoint_chain_depth": 7,
        "approval": {
            "status": "approved", "user": "rand", "timestamp": "2026-01-16T15:00:00Z", "reason": "works", "policy": "review"
        },
        "environment": {
            "claude_code": { "version": "2.1.0", "binary_hash": "sha256:00", "install_path": "/usr/bin/claude" },
            "plugins": { "p": {
                "git_remote": "https://github.com/o/p", "git_commit": "abc", "git_branch": "main",
                "installed_at": "2026-01-01T00:00:00", "manifest_version": null
            } },
            "mcp_servers": { "beads": { "source_type": "npm", "version_id": "1.2.3", "config_hash": "00" } },
            "python_version": "3.12.1",
            "python_packages": { "anthropic": "0.40" },
            "pip_freeze_hash": "sha256:11",
            "captured_at": "2026-01-16T14:34:59Z",
        },
        "tags": ["milestone/v1.0"],
        "annotations": [{ "timestamp": "2026-01-16T15:00:00Z", "user": "rand", "text": "tests pass" }],
        "linked_issues": [{ "tracker": "github", "id": "o/r#1", "url": "https://github.com/o/r/issues/1" }],
    });
    for (name, value) in more.as_object().unwrap() {
        manifest[name] = value.clone();
    }
    manifest
}

#[test]
fn every_field_of_schema_1_0_and_1_1_is_carried_over() {
    for version in ["1.0", "1.1"] {
        let mut manifest = of_schema_1_0();
        manifest["version"] = version.into();
        let older = Older::new(&manifest);
        manifest["checksum"] = format!("sha256:{}", older.sha256("workspace.tar.zst")).into();
        older.manifest(&manifest);
        let shown = older.import(&[]);
        for name in ["session_id", "created_at", "trigger", "conversation", "git", "metrics"] {
            assert_eq!(shown[name], manifest[name], "{name}");
        }
        assert_eq!(shown["workspace"]["uncommitted_files"], manifest["workspace"]["uncommitted_files"]);
        assert_eq!(shown["trigger_detail"], "import of 01HQXYZ123456789ABCDEF");
        assert_eq!(shown["message"], "periodic checkpoint 01HQXYZ123456789ABCDEF, made at 2026-01-16T14:35:00Z");
        for name in ["version", "id", "session_id", "created_at", "checksum"] {
            assert_eq!(shown["imported_from"][name], manifest[name], "{name}");
        }
        // What these schemas do not have is not known.
        assert_eq!((&shown["imported_from"]["approval"], &shown["environment"]["plugins"]), (&Value::Null, &Value::Null));
        assert_eq!((&shown["tags"], shown.get("approval"), &shown["workspace"]["file_count"]), (&json!([]), None, &json!(2)));
        older.s.restore(shown["id"].as_str().unwrap(), &older.s.path("restored"));
        assert_eq!(fs::read(older.s.path("restored/src/main.rs")).unwrap(), b"fn main() {}\n");
        let store = older.store();
        let made = checkpoint(&store, &shown);
        let kept = state_json(&store, &made, "imported/manifest.json").unwrap().unwrap();
        assert_eq!(kept, manifest, "unknown fields are in it as well");
        older.s.expect(0, &["checkpoint", "verify", "latest", "--deep"]);
        older.s.expect(0, &["check"]);
    }
}

#[test]
fn every_field_of_schema_1_2_is_carried_over_and_an_approval_counts_for_nothing() {
    let manifest = of_schema_1_2();
    let older = Older::new(&manifest);
    let shown = older.import(&[]);
    for name in ["session_id", "created_at", "trigger", "conversation", "git", "metrics", "tags", "linked_issues"] {
        assert_eq!(shown[name], manifest[name], "{name}");
    }
    for name in ["claude_code", "mcp_servers", "python_version", "python_packages", "pip_freeze_hash", "captured_at"] {
        assert_eq!(shown["environment"][name], manifest["environment"][name], "{name}");
    }
    assert_eq!(shown["environment"]["plugins"]["p"]["git_commit"], "abc");
    assert_eq!(shown["environment"]["plugins"]["p"]["installed_at"], "2026-01-01T00:00:00Z");
    for name in ["parent_checkpoint_id", "checkpoint_chain_depth", "approval"] {
        assert_eq!(shown["imported_from"][name], manifest[name], "{name}");
    }
    assert_eq!(shown["annotations"][0]["text"], "tests pass\n— rand, 2026-01-16T15:00:00Z");
    assert_eq!(shown["annotations"][0].get("user"), None);
    assert_eq!((shown.get("approval"), &shown["checkpoint_chain_depth"]), (None, &json!(1)));
    let id = shown["id"].as_str().unwrap();
    assert!(older.s.expect(0, &["checkpoint", "show", "tag:milestone/v1.0"]).contains(id));
    assert!(older.s.expect(0, &["checkpoint", "list", "--tag", "milestone"]).contains("ph-fix-auth"));
    // The index can be derived anew, statements included.
    older.s.expect(0, &["check", "--rebuild-index"]);
    assert_eq!(older.shown(id), shown);
    // The next of the session follows it.
    let next = older.import(&[]);
    assert_eq!((&next["parent_checkpoint_id"], &next["checkpoint_chain_depth"]), (&json!(id), &json!(2)));
}

#[test]
fn the_files_of_a_folder_become_the_state() {
    let older = Older::new(&json!({ "version": "1.0", "session_id": "talk" }));
    let conversation = json!({
        "messages": [
            { "id": "u1", "role": "user", "content": "Fix the kingfisher" },
            { "id": "msg_1", "role": "assistant", "content": [
                { "type": "text", "text": "Looking." },
                { "type": "tool_use", "id": "t1", "name": "Bash", "input": { "command": "ls" } },
            ] },
        ],
        "system_prompt": "You are careful.",
        "session_id": "0a1b2c3d-0000-4000-8000-000000000001",
        "resume_token": "0a1b2c3d-0000-4000-8000-000000000001",
        "pending_tool_calls": [{ "id": "t1", "name": "Bash", "input": { "command": "ls" } }],
        "tool_results": { "t0": "done" },
        "loaded_files": ["src/main.rs"],
        "todos": [{ "id": "1", "content": "Feed the kingfisher", "status": "pending" }],
    });
    older.file("conversation.json", conversation.to_string().as_bytes());
    older.file("session_state.json", br#"{"state": "running", "environment": {"SECRET_TOKEN": "hunter2"}}"#);
    older.file("environment.json", br#"{"LANG": "C.UTF-8", "SECRET_TOKEN": "hunter2"}"#);
    older.file("tmux_state.txt", b"layout");
    older.file("mcp_state/beads.json", br#"{"type": "stateless"}"#);
    older.file("pip_freeze.txt", b"anthropic==0.40\n");
    let shown = older.import(&[]);
    assert_eq!((&shown["conversation"]["turn_count"], &shown["conversation"]["last_message_id"]), (&json!(1), &json!("msg_1")));
    assert_eq!((&shown["conversation"]["tokens_used"], &shown["conversation"]["has_resume_token"]), (&Value::Null, &json!(true)));
    assert_eq!(shown["metrics"]["tools_invoked"], json!(["Bash"]));
    assert_eq!(shown["environment"]["variables"], json!({ "LANG": "C.UTF-8" }));
    let parts: Vec<&String> = shown["parts"].as_object().unwrap().keys().collect();
    assert_eq!(parts, ["conversation", "environment", "imported", "workspace"]);
    let store = older.store();
    let made = checkpoint(&store, &shown);
    let index = state_json(&store, &made, "conversation.json").unwrap().unwrap();
    assert_eq!(index["summary"]["system_prompt"], "You are careful.");
    for name in ["loaded_files", "todos", "pending_tool_calls"] {
        assert_eq!(index["summary"][name], conversation[name], "{name}");
    }
    assert_eq!(index["turns"][0]["prompt"], "Fix the kingfisher");
    assert_eq!(state_json(&store, &made, "imported/conversation.json").unwrap().unwrap(), conversation);
    let bytes = |path: &str| String::from_utf8(state_bytes(&store, &made, path).unwrap().unwrap()).unwrap();
    assert_eq!(bytes("imported/tmux_state.txt"), "layout");
    assert_eq!(bytes("imported/mcp_state/beads.json"), r#"{"type": "stateless"}"#);
    assert_eq!(bytes("pip_freeze.txt"), "anthropic==0.40\n");
    for path in ["environment.json", "imported/environment.json", "imported/session_state.json"] {
        assert!(!bytes(path).contains("hunter2"), "{path}");
    }
    // No agent's conversation here is taken for it.
    assert_eq!(made.record.conversation.unwrap()["agent_session_id"], Value::Null);
    assert!(store.view().session("talk").unwrap().unwrap().conversations.is_empty());
    let said = older.s.expect(0, &["checkpoint", "search", "kingfisher"]);
    assert!(said.contains("talk"), "{said}");
    older.s.expect(0, &["checkpoint", "verify", "latest", "--deep"]);
}

#[test]
fn a_folder_of_little_has_the_session_and_message_that_are_given() {
    let older = Older::new(&json!({ "version": "1.1", "session_id": "../../x" }));
    older.refused(2, &["session_id '../../x'", "--session"]);
    let shown = older.import(&["--session", "mine", "-m", "from the old machine"]);
    assert_eq!((&shown["session_id"], &shown["message"]), (&json!("mine"), &json!("from the old machine")));
    assert_eq!((&shown["trigger"], &shown["trigger_detail"], &shown["git"]), (&json!("manual"), &json!("import"), &Value::Null));
    assert_eq!(shown["conversation"]["turn_count"], Value::Null);
    older.manifest(&json!({ "version": "1.0" }));
    assert_eq!(older.import(&[])["session_id"], "imported");
}

#[test]
fn a_checksum_that_is_not_right_refuses_the_folder_with_both_digests() {
    let older = Older::new(&json!({}));
    let right = older.sha256("workspace.tar.zst");
    let wrong = "0".repeat(64);
    for manifest in [
        json!({ "version": "1.0", "checksum": format!("sha256:{wrong}") }),
        json!({ "version": "1.1", "workspace": { "checksum": format!("sha256:{wrong}") } }),
        json!({ "version": "1.2", "checksums": { "workspace.tar.zst": format!("sha256:{wrong}") } }),
    ] {
        older.manifest(&manifest);
        older.refused(12, &["workspace.tar.zst", &right, &wrong]);
    }
    for (checksum, said) in [("md5:00", "only sha256 is checked"), ("sha256:abc", "64 hexadecimal digits")] {
        older.manifest(&json!({ "version": "1.0", "checksum": checksum }));
        older.refused(2, &["manifest.json", "checksum", said]);
    }
    // A changed archive is told by its digest, before anything of it is read.
    older.manifest(&json!({ "version": "1.0", "checksum": format!("sha256:{right}") }));
    let whole = fs::read(older.at("workspace.tar.zst")).unwrap();
    let mut changed = whole.clone();
    *changed.last_mut().unwrap() ^= 1;
    older.file("workspace.tar.zst", &changed);
    let found = older.sha256("workspace.tar.zst");
    older.refused(12, &[&right, &found]);
    older.file("workspace.tar.zst", &whole);
    assert!(older.s.expect(0, &["import", &older.path()]).contains("Its checksum is right."));
}

/// An archive's member: its name, its type, the target of a link, its content.
fn member(name: &[u8], kind: u8, target: &str, content: &[u8]) -> Vec<u8> {
    let mut header = [0u8; 512];
    header[..name.len()].copy_from_slice(name);
    let octal = |header: &mut [u8; 512], at: usize, digits: usize, value: u64| {
        header[at..at + digits].copy_from_slice(format!("{value:0digits$o}").as_bytes());
    };
    octal(&mut header, 100, 7, 0o644);
    octal(&mut header, 108, 7, 0);
    octal(&mut header, 116, 7, 0);
    octal(&mut header, 124, 11, content.len() as u64);
    octal(&mut header, 136, 11, 1_700_000_000);
    header[156] = kind;
    header[157..157 + target.len()].copy_from_slice(target.as_bytes());
    header[257..265].copy_from_slice(b"ustar\x0000");
    octal(&mut header, 329, 7, 1);
    octal(&mut header, 337, 7, 3);
    header[148..156].copy_from_slice(b"        ");
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    octal(&mut header, 148, 6, sum);
    header[154..156].copy_from_slice(b"\0 ");
    let mut bytes = header.to_vec();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn archive(members: &[Vec<u8>]) -> Vec<u8> {
    let mut tar = members.concat();
    tar.resize(tar.len() + 1024, 0);
    zstd::encode_all(tar.as_slice(), 1).unwrap()
}

#[test]
fn hostile_archives_are_refused_by_name_and_leave_nothing() {
    let older = Older::new(&json!({ "version": "1.0", "session_id": "s" }));
    let good = member(b"good", b'0', "", b"content");
    let mut damaged = member(b"damaged", b'0', "", b"");
    damaged[0] = b'D';
    let cut = |bytes: Vec<u8>| bytes[..bytes.len() - 5].to_vec();
    let truncated = zstd::encode_all(&member(b"short", b'0', "", &[7; 2000])[..1024], 1).unwrap();
    let cases: Vec<(Vec<u8>, &str, &str)> = vec![
        (archive(&[good.clone(), member(b"/etc/passwd", b'0', "", b"x")]), "/etc/passwd", "absolute"),
        (archive(&[good.clone(), member(b"a/../../b", b'0', "", b"x")]), "a/../../b", "leads out"),
        (archive(&[member(b"link", b'2', "/etc", b""), member(b"link/passwd", b'0', "", b"x")]), "link/passwd", "no folder"),
        (archive(&[member(b"hard", b'1', "../outside", b"")]), "../outside", "leads out"),
        (archive(&[member(b"hard", b'1', "missing", b"")]), "hard", "not there"),
        (archive(&[member(b"odd", b'V', "", b"")]), "odd", "not supported"),
        (archive(&[good.clone(), damaged]), "Damaged", "damaged"),
        (truncated, "short", "the archive ends"),
        (cut(archive(&[good])), "(header)", "incomplete"),
    ];
    for (bytes, name, why) in &cases {
        older.file("workspace.tar.zst", bytes);
        older.refused(12, &["workspace.tar.zst", name, why]);
    }
    older.file("workspace.tar.zst", b"no archive");
    older.refused(1, &["workspace.tar.zst", "not a tar"]);
    // The digest of a hostile archive is right, and it is refused all the same.
    older.file("workspace.tar.zst", &cases[0].0);
    let digest = format!("sha256:{}", older.sha256("workspace.tar.zst"));
    older.manifest(&json!({ "version": "1.0", "checksum": digest }));
    older.refused(12, &["/etc/passwd"]);
}

#[test]
fn an_archive_that_expands_without_end_is_refused_as_a_bomb() {
    let older = Older::new(&json!({ "version": "1.0" }));
    let mut header = member(b"zeros", b'0', "", b"");
    header[124..135].copy_from_slice(b"77777777777");
    header[148..156].copy_from_slice(b"        ");
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    std::io::Write::write_all(&mut encoder, &header).unwrap();
    std::io::copy(&mut std::io::Read::take(std::io::repeat(0), 3 << 29), &mut encoder).unwrap();
    older.file("workspace.tar.zst", &encoder.finish().unwrap());
    older.refused(12, &["zeros", "bomb"]);
}

#[test]
fn devices_and_links_of_an_archive_do_no_harm_and_of_one_name_the_last_member_counts() {
    let older = Older::new(&json!({ "version": "1.0", "session_id": "s" }));
    let members = [
        member(b"device", b'3', "", b""),
        member(b"link", b'2', "/etc/passwd", b""),
        member(b"twice", b'0', "", b"first"),
        member(b"twice", b'0', "", b"last"),
    ];
    older.file("workspace.tar.zst", &archive(&members));
    older.import(&[]);
    let to = older.s.path("restored");
    let said = older.s.expect(3, &["checkpoint", "restore", "latest", "--to", &to.to_string_lossy()]);
    assert!(said.contains("device"), "{said}");
    assert!(!to.join("device").exists());
    assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("/etc/passwd"));
    assert_eq!(fs::read(to.join("twice")).unwrap(), b"last");
}

#[test]
fn hostile_manifests_and_folders_are_refused_by_name_and_make_no_store() {
    let older = Older::new(&json!({}));
    for (manifest, words) in [
        (json!({ "version": "2.0" }), ["manifest.json", "version is '2.0'"]),
        (json!({ "version": "1.0", "workspace": { "path": "../work.tar" } }), ["workspace.path", "../work.tar"]),
        (json!({ "version": "1.0", "workspace": { "path": "/etc/passwd" } }), ["workspace.path", "/etc/passwd"]),
        (json!({ "version": "1.0", "checksums": { "../x": "sha256:00" } }), ["checksums", "../x"]),
        (json!({ "version": "1.0", "conversation": { "turn_count": [] } }), ["conversation.turn_count", "a list"]),
    ] {
        older.manifest(&manifest);
        older.refused(2, &words);
    }
    older.file("manifest.json", b"{\"version\": \"1.0\", \"id\": \"\xff\"}");
    older.refused(2, &["manifest.json", "no JSON"]);
    older.file("manifest.json", &b"[".repeat(100_000));
    older.refused(2, &["manifest.json", "no JSON"]);
    fs::File::create(older.at("manifest.json")).unwrap().set_len(1 << 40).unwrap();
    older.refused(2, &["manifest.json", "16777216"]);
    older.manifest(&json!({ "version": "1.0" }));
    for name in ["conversation.json", "workspace.tar.zst", "mcp_state"] {
        let _ = fs::remove_file(older.at(name));
        std::os::unix::fs::symlink(older.s.path("work/README"), older.at(name)).unwrap();
        older.refused(2, &[name, "symlink"]);
        fs::remove_file(older.at(name)).unwrap();
    }
    older.refused(2, &["workspace.tar.zst", "its archive"]);
    fs::File::create(older.at("conversation.json")).unwrap().set_len(1 << 40).unwrap();
    older.file("workspace.tar.zst", b"");
    older.refused(2, &["conversation.json", "67108864"]);
}
