//! A workspace whose repositories name programs in every setting that git has for them. Nothing that captures, compares or inspects runs
//! one of them.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use parhelia_ledger::selector::find;
use parhelia_store::{OpenOptions, tree::Kind};
use parhelia_tests::{Scratch, write, write_program};

const CONVERSATION: &str = "11111111-2222-4333-8444-555555555555";
/// Settings of git that name a program, and how a run of it is marked.
const PROGRAMS: [(&str, &str); 22] = [
    ("filter.clean.clean", "clean"),
    ("filter.clean.smudge", "smudge"),
    ("filter.process.process", "process"),
    ("filter.info.clean", "info"),
    ("diff.evil.textconv", "textconv"),
    ("diff.evil.command", "diff-command"),
    ("diff.external", "external"),
    ("merge.evil.driver", "merge"),
    ("core.fsmonitor", "fsmonitor"),
    ("core.pager", "pager"),
    ("pager.status", "pager-status"),
    ("pager.config", "pager-config"),
    ("core.editor", "editor"),
    ("core.sshCommand", "ssh"),
    ("core.askPass", "askpass"),
    ("core.gitProxy", "proxy"),
    ("core.alternateRefsCommand", "alternates"),
    ("credential.helper", "credential"),
    ("gpg.program", "gpg"),
    ("interactive.diffFilter", "diff-filter"),
    ("uploadpack.packObjectsHook", "pack-objects"),
    ("remote.origin.uploadpack", "uploadpack"),
];

const HOOKS: [&str; 8] = [
    "post-index-change",
    "reference-transaction",
    "pre-commit",
    "post-checkout",
    "fsmonitor-watchman",
    "pre-auto-gc",
    "post-rewrite",
    "applypatch-msg",
];

struct Hostile {
    scratch: Scratch,
    workspace: PathBuf,
}

impl Hostile {
    fn new() -> Self {
        let scratch = Scratch::new();
        let hostile = Hostile { workspace: scratch.path("work"), scratch };
        fs::create_dir(hostile.marks()).unwrap();
        hostile.program("evil", "cat");
        hostile.repository("");
        // A repository that git's own commands would enter as a submodule, one that the first does not know, and one whose folder is elsewhere.
        hostile.repository("lib");
        hostile.git("", &["-c", "protocol.file.allow=always", "submodule", "add", "./lib", "lib"]);
        hostile.repository("nested");
        hostile.repository("linked");
        fs::rename(hostile.path("linked/.git"), hostile.path("elsewhere")).unwrap();
        fs::write(hostile.path("linked/.git"), "gitdir: ../elsewhere\n").unwrap();
        hostile.git("", &["commit", "-q", "-m", "submodule"]);
        for (folder, git) in [("", ".git"), ("lib", "lib/.git"), ("nested", "nested/.git"), ("linked", "elsewhere")] {
            hostile.settings(folder, git);
        }
        // Programs of the names that are looked for, first on the search path.
        for name in ["git", "python3", "python", "tmux", "claude", "sh", "pyenv"] {
            hostile.program(&format!("bin/{name}"), "exit 1");
        }
        symlink("bin/git", hostile.path("git")).unwrap();
        hostile.program("versions/evil/bin/python3", "exit 1");
        fs::write(hostile.path(".python-version"), "../../../../../../work/versions/evil\n").unwrap();
        hostile.transcript();
        hostile
    }

    fn path(&self, name: &str) -> PathBuf {
        self.workspace.join(name)
    }

    fn marks(&self) -> PathBuf {
        self.scratch.path("marks")
    }

    /// A program in the workspace that leaves a mark.
    fn program(&self, name: &str, then: &str) {
        let text = format!("#!/bin/sh\n: > \"{}/$(basename \"$0\")-$1-$$\"\n{then}\n", self.marks().display());
        write_program(&self.path(name), &text);
    }

    fn git_command(&self, folder: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.current_dir(self.path(folder)).args(arguments).env("HOME", "/nonexistent").env("GIT_CONFIG_NOSYSTEM", "1");
        for (name, value) in [("NAME", "n"), ("EMAIL", "e@x")] {
            command.env(format!("GIT_AUTHOR_{name}"), value).env(format!("GIT_COMMITTER_{name}"), value);
        }
        command
    }

    fn git(&self, folder: &str, arguments: &[&str]) {
        let output = self.git_command(folder, arguments).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn repository(&self, folder: &str) {
        fs::create_dir_all(self.path(folder)).unwrap();
        self.git(folder, &["init", "-q", "-b", "main"]);
        for name in ["a.clean", "a.process", "a.info", "a.included", "a.plain", "renamed", "gone"] {
            fs::write(self.path(folder).join(name), format!("{name}: the first content\n")).unwrap();
        }
        let attributes = "*.clean filter=clean diff=evil merge=evil\n*.process filter=process\n*.included filter=included\n";
        fs::write(self.path(folder).join(".gitattributes"), attributes).unwrap();
        self.git(
            folder,
            &["add", ".gitattributes", "a.clean", "a.process", "a.info", "a.included", "a.plain", "renamed", "gone"],
        );
        self.git(folder, &["commit", "-q", "-m", "first"]);
    }

    /// Every setting that names a program, in a repository whose files have all changed.
    fn settings(&self, folder: &str, git: &str) {
        let evil = self.path("evil");
        let run = |label: &str| format!("{} {label}", evil.display());
        let set = |name: &str, value: &str| {
            let config = self.path(git).join("config");
            assert!(Command::new("git").args(["config", "--file"]).arg(config).args([name, value]).status().unwrap().success());
        };
        for (name, label) in PROGRAMS {
            set(name, &run(label));
        }
        for name in ["status", "config", "ls-files", "stash", "rev-parse", "diff-files", "update-index", "write-tree"] {
            set(&format!("alias.{name}"), &format!("!{} alias", evil.display()));
        }
        for (name, value) in [
            ("filter.clean.required", "true"),
            ("commit.gpgSign", "true"),
            ("status.submoduleSummary", "true"),
            ("diff.ignoreSubmodules", "none"),
            ("protocol.ext.allow", "always"),
            ("remote.origin.promisor", "true"),
            ("extensions.partialClone", "origin"),
            ("core.repositoryFormatVersion", "1"),
        ] {
            set(name, value);
        }
        set("remote.origin.url", &format!("ext::{} transport", evil.display()));
        set("include.path", &self.path("included.config").to_string_lossy());
        set("includeIf.gitdir:/**.path", &self.path("included.config").to_string_lossy());
        let hooks = self.path(git).join("hooks");
        for hook in HOOKS {
            self.program(&format!("{git}/hooks/{hook}"), "exit 0");
        }
        set("core.hooksPath", &hooks.to_string_lossy());
        fs::write(self.path("included.config"), format!("[filter \"included\"]\n\tclean = {}\n", run("included"))).unwrap();
        write(&self.path(git).join("info/attributes"), b"*.info filter=info\n").unwrap();
        // As many bytes as before, so that git has to look at them.
        for name in ["a.clean", "a.process", "a.info", "a.included", "a.plain"] {
            fs::write(self.path(folder).join(name), format!("{name}: another content\n")).unwrap();
        }
        fs::write(self.path(folder).join("untracked.clean"), "new\n").unwrap();
        let _ = fs::remove_file(self.path(folder).join("gone"));
    }

    /// A conversation in which an agent has worked on files here, so that everything is captured that is for an agent.
    fn transcript(&self) {
        let record = format!(
            "{{\"type\":\"user\",\"uuid\":\"u1\",\"sessionId\":\"{CONVERSATION}\",\"timestamp\":\"2026-01-01T00:00:00Z\",\
             \"cwd\":\"{}\",\"message\":{{\"role\":\"user\",\"content\":\"do\"}}}}\n",
            self.workspace.display()
        );
        write(&self.scratch.path(&format!("home/.claude/projects/-work/{CONVERSATION}.jsonl")), record.as_bytes()).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.scratch.command(arguments);
        let usual = std::env::var("PATH").unwrap();
        // What a shell does in a folder with tools of its own; and what is looked up in the folder where a program runs.
        command.env("PATH", format!("{}:.:bin::{usual}", self.path("bin").display()));
        for (name, label) in [("GIT_EXTERNAL_DIFF", "env"), ("GIT_SSH_COMMAND", "env"), ("GIT_ASKPASS", "env"), ("PAGER", "env")]
        {
            command.env(name, format!("{} {label}", self.path("evil").display()));
        }
        command.env("GIT_DIR", self.path("nested/.git")).env("GIT_EXEC_PATH", self.path("bin")).current_dir(&self.workspace);
        command
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{arguments:?}: {text}");
        assert_eq!(self.marked(), Vec::<String>::new(), "{arguments:?} ran programs of the workspace: {text}");
        text
    }

    fn marked(&self) -> Vec<String> {
        let entries = fs::read_dir(self.marks()).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let mut marks: Vec<String> = entries.collect();
        marks.sort();
        marks
    }

    fn forget_marks(&self) {
        fs::read_dir(self.marks()).unwrap().for_each(|entry| fs::remove_file(entry.unwrap().path()).unwrap());
    }

    /// A checkpoint's state of git.
    fn git_state(&self, id: &str) -> String {
        let store = parhelia_ledger::open(&self.scratch.store(), &OpenOptions::default()).unwrap();
        let checkpoint = find(&store.view(), id).unwrap();
        let state = store.entry(checkpoint.record.root, b"state").unwrap().unwrap();
        let file = store.entry(state.as_folder().unwrap().0, b"git.json").unwrap().unwrap();
        let Kind::File { size, blob, .. } = file.kind else { panic!("git.json is no file") };
        String::from_utf8(store.blob(blob, size).unwrap().read_all().unwrap()).unwrap()
    }

    fn create(&self, more: &[&str]) -> String {
        let work = self.workspace.to_string_lossy();
        let made = self.run(&[&["checkpoint", "create", "s", "--json", "--workspace", &work], more].concat());
        let last: serde_json::Value = serde_json::from_str(made.lines().last().unwrap()).unwrap();
        last["id"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
    }
}

/// Without this the other tests prove nothing.
#[test]
fn git_itself_runs_the_programs_of_this_workspace() {
    let hostile = Hostile::new();
    hostile.forget_marks();
    let _ = hostile.git_command("", &["status"]).output().unwrap();
    let _ = hostile.git_command("", &["diff"]).output().unwrap();
    let marked = hostile.marked().join(" ");
    for label in ["evil-clean-", "evil-process-", "evil-info-", "evil-included-", "evil-fsmonitor-"] {
        assert!(marked.contains(label), "{label} did not run: {marked}");
    }
}

#[test]
fn capture_comparison_and_inspection_run_nothing_of_a_workspace() {
    let hostile = Hostile::new();
    hostile.forget_marks();
    let work = hostile.workspace.to_string_lossy().into_owned();
    let transcript = hostile.scratch.path(&format!("home/.claude/projects/-work/{CONVERSATION}.jsonl"));
    let transcript = transcript.to_string_lossy().into_owned();

    let first = hostile.create(&["--no-conversation"]);
    let manifest = hostile.run(&["checkpoint", "show", &first, "--json"]);
    assert!(manifest.contains("\"branch\":\"main\""), "git was looked at: {manifest}");
    fs::write(hostile.path("a.plain"), "changed again\n").unwrap();
    let second = hostile.create(&["--transcript", &transcript]);
    let git = hostile.git_state(&second);
    for path in ["a.clean", "a.info", "lib/a.process", "nested/a.included", "linked/a.plain", "nested/gone", "untracked.clean"] {
        assert!(git.contains(&format!("\"{path}\"")), "{path} is missing: {git}");
    }
    hostile.create(&["--skip-if-unchanged"]);
    hostile.create(&["--trigger", "periodic", "--skip-if-unchanged", "--deep"]);
    for more in [&[][..], &["--stat"], &["--name-only"], &["--file", "a.plain"]] {
        hostile.run(&[&["checkpoint", "diff", &first, &second], more].concat());
        hostile.run(&[&["checkpoint", "diff", &first, "--workspace", &work], more].concat());
    }
    for verb in [
        &["checkpoint", "list", "--detailed"][..],
        &["checkpoint", "show", &second],
        &["checkpoint", "verify", &second, "--deep"],
        &["env", "show", &second],
        &["env", "show"],
        &["env", "diff", &first],
        &["env", "diff", &first, &second],
        &["session", "list"],
        &["session", "show", "s"],
        &["session", "prune", "--dry-run"],
        &["checkpoint", "restore", &first, "--to", &work, "--in-place", "--delete", "--dry-run"],
        &["checkpoint", "rollback", &first, "--dry-run"],
    ] {
        hostile.run(verb);
    }
}

#[test]
fn a_rollback_runs_nothing_of_a_workspace_and_says_what_it_does_not_stash() {
    let hostile = Hostile::new();
    hostile.forget_marks();
    let first = hostile.create(&["--no-conversation"]);
    fs::write(hostile.path("a.plain"), "changed again\n").unwrap();
    let text = hostile.run(&["checkpoint", "rollback", &first, "--yes"]);
    assert!(text.contains("no stash entry was made") && text.contains("has a filter"), "{text}");
    assert_eq!(fs::read_to_string(hostile.path("a.plain")).unwrap(), "a.plain: another content\n");
    hostile.run(&["checkpoint", "undo", "s", "--yes"]);
    // Without changes of files that have a filter there is an entry, and still nothing runs.
    for name in ["a.clean", "a.process", "a.info", "a.included"] {
        fs::write(hostile.path(name), format!("{name}: the first content\n")).unwrap();
    }
    fs::write(hostile.path("a.plain"), "to be stashed\n").unwrap();
    let text = hostile.run(&["checkpoint", "rollback", &first, "--yes"]);
    assert!(text.contains("stash@{0}"), "{text}");
    let shown =
        hostile.git_command("", &["-c", "core.fsmonitor=false", "cat-file", "blob", "stash@{0}:a.plain"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&shown.stdout), "to be stashed\n");
}

#[test]
fn hooks_and_sessions_run_nothing_of_a_workspace() {
    let hostile = Hostile::new();
    hostile.forget_marks();
    let work = hostile.workspace.to_string_lossy().into_owned();
    hostile.run(&["session", "run", "--workspace", &work, "--", "/bin/true"]);
    fs::write(hostile.path("a.plain"), "changed again\n").unwrap();
    let list: serde_json::Value =
        serde_json::from_str(hostile.run(&["session", "list", "--json"]).lines().next().unwrap()).unwrap();
    let session = list["id"].as_str().unwrap().to_owned();
    hostile.run(&["session", "show", &session]);
    hostile.run(&["session", "end", &session]);
}

#[test]
fn an_imported_workspace_is_captured_without_running_anything_of_it() {
    let hostile = Hostile::new();
    hostile.forget_marks();
    let archive = hostile.scratch.path("archive.tar").to_string_lossy().into_owned();
    assert!(
        Command::new("tar").args(["-cf", &archive, "-C", &hostile.workspace.to_string_lossy(), "."]).status().unwrap().success()
    );
    let imported = hostile.run(&["import", &archive, "--session", "from", "--json"]);
    let last: serde_json::Value = serde_json::from_str(imported.lines().last().unwrap()).unwrap();
    // In the same place, so that every setting names a program that is there.
    fs::remove_dir_all(&hostile.workspace).unwrap();
    fs::create_dir(&hostile.workspace).unwrap();
    let to = hostile.workspace.to_string_lossy().into_owned();
    hostile.run(&["checkpoint", "restore", last["id"].as_str().unwrap(), "--to", &to]);
    let made = hostile.run(&["checkpoint", "create", "again", "--json", "--workspace", &to]);
    assert!(made.contains("\"git\":{\"status\":\"captured\"}"), "{made}");
    assert!(hostile.path(".git/hooks/post-index-change").exists());
    hostile.run(&["checkpoint", "diff", last["id"].as_str().unwrap(), "--workspace", &to]);
}

/// Files that never end when they are read stop no capture.
#[test]
fn fifos_where_git_keeps_files_stop_no_capture() {
    let hostile = Hostile::new();
    let fifo = |path: &Path| {
        let _ = fs::remove_file(path);
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    fs::create_dir(hostile.path("strange")).unwrap();
    for name in ["strange/.git", ".git/info/exclude", ".git/config", ".git/packed-refs", "nested/.git/index", ".python-version"] {
        fifo(&hostile.path(name));
    }
    // A regenerable folder, so that it has to be known what git tracks.
    for folder in ["strange", "nested"] {
        fs::create_dir(hostile.path(folder).join("target")).unwrap();
        fs::write(hostile.path(folder).join("Cargo.toml"), "").unwrap();
    }
    let mut command = hostile.command(&["checkpoint", "create", "s", "--no-conversation", "-q"]);
    command.env("PARHELIA_GIT_TIMEOUT", "2");
    let mut child = command.spawn().unwrap();
    for _ in 0..1200 {
        if child.try_wait().unwrap().is_some() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    child.kill().unwrap();
    panic!("a capture waits for a fifo");
}

/// A rollback of a repository that leads out of its folder, or waits, changes nothing elsewhere and holds nobody off.
#[test]
fn a_rollback_writes_nothing_outside_of_the_repository() {
    let hostile = Hostile::new();
    let first = hostile.create(&["--no-conversation"]);
    let victim = hostile.scratch.path("victim");
    fs::write(&victim, "theirs\n").unwrap();
    for name in ["a.clean", "a.process", "a.info", "a.included"] {
        fs::write(hostile.path(name), format!("{name}: the first content\n")).unwrap();
    }
    fs::write(hostile.path("a.plain"), "to be stashed\n").unwrap();
    fs::create_dir_all(hostile.path(".git/logs/refs")).unwrap();
    symlink(&victim, hostile.path(".git/logs/refs/stash")).unwrap();
    hostile.forget_marks();
    let text = hostile.run(&["checkpoint", "rollback", &first, "--yes"]);
    assert!(text.contains("no stash entry was made"), "{text}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "theirs\n");
    fs::remove_file(hostile.path(".git/logs/refs/stash")).unwrap();
    let index = hostile.path(".git/index");
    fs::remove_file(&index).unwrap();
    assert!(Command::new("mkfifo").arg(&index).status().unwrap().success());
    let began = std::time::Instant::now();
    let output = hostile.command(&["checkpoint", "rollback", &first, "--yes"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("no regular file"), "{said}");
    let output = hostile.command(&["checkpoint", "rollback", &first, "--yes", "--any-git-state"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(began.elapsed() < std::time::Duration::from_secs(50), "it waited for the fifo");
}
