//! The verbs of the pairs, and what each of them may say.

use std::{collections::BTreeSet, fs};

use parhelia_tests::{files_in, lines};
use serde_json::Value;

use crate::pairs::world::{Copy, pack_bytes};

/// A verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Create,
    Verify,
    VerifyDeep,
    Check,
    CheckData,
    Repair,
    RepairFrom,
    Gc,
    Restore,
    Delete,
    Prune,
    Diff,
    Export,
    Cat,
}

impl Verb {
    /// All of them.
    pub const ALL: [Verb; 14] = [
        Verb::Create,
        Verb::Verify,
        Verb::VerifyDeep,
        Verb::Check,
        Verb::CheckData,
        Verb::Repair,
        Verb::RepairFrom,
        Verb::Gc,
        Verb::Restore,
        Verb::Delete,
        Verb::Prune,
        Verb::Diff,
        Verb::Export,
        Verb::Cat,
    ];
}

impl Copy {
    /// Runs the binary with `--json`: its exit code, its lines, and all that it said.
    pub fn json(&self, arguments: &[&str]) -> (i32, Vec<Value>, String) {
        let output = self.scratch.command(arguments).arg("--json").output().unwrap();
        lines::ensure(&["--json"], &output);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = format!("{text}{}", String::from_utf8_lossy(&output.stderr));
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
        let lines = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        (output.status.code().unwrap_or(-1), lines, said)
    }

    /// Runs a verb, and asks the oracles.
    pub fn step(&mut self, verb: Verb, what: &str) {
        let what = format!("{what}: {verb:?}");
        let before = self.readable(&what);
        let bytes = pack_bytes(&self.scratch.store());
        let code = self.act(verb, &what, &before);
        let after = self.readable(&what);
        let lost: Vec<&String> = before.iter().filter(|id| self.saved.contains_key(*id) && !after.contains(*id)).collect();
        assert!(lost.is_empty(), "{what}: could be read before, and not after: {lost:?}");
        if matches!(verb, Verb::Repair | Verb::RepairFrom) {
            let (before, after) = (bytes.max(self.bytes), pack_bytes(&self.scratch.store()));
            assert!(after * 5 <= before * 6, "{what}: {after} bytes of packs, {before} before");
        }
        self.is_known |= code == 12;
    }

    /// Runs a verb. What it vouches for must be right.
    fn act(&mut self, verb: Verb, what: &str, before: &BTreeSet<String>) -> i32 {
        let ids: Vec<String> = self.saved.keys().cloned().collect();
        let (oldest, newest, middle) = (&ids[0], &ids[ids.len() - 1], &ids[ids.len() / 2]);
        let all: BTreeSet<String> = ids.iter().cloned().collect();
        match verb {
            Verb::Create => self.create(what),
            Verb::Verify | Verb::VerifyDeep => {
                let deep: &[&str] = if verb == Verb::VerifyDeep { &["--deep"] } else { &[] };
                let mut worst = 0;
                for id in [newest, middle] {
                    let (code, lines, said) = self.json(&[&["verify", id.as_str()], deep].concat());
                    assert!([0, 12].contains(&code), "{what}: {said}");
                    assert!(code == 12 || before.contains(id), "{what}: {id} is vouched for: {said}");
                    for line in lines.iter().filter(|line| line["type"] == "problem") {
                        self.assert_hurt(id, &line["path"], before, what, &said);
                    }
                    worst = worst.max(code);
                }
                worst
            }
            Verb::Check => self.json(&["check"]).0,
            Verb::CheckData => {
                let (code, lines, said) = self.json(&["check", "--read-data"]);
                assert!(code == 12 || *before == all, "{what}: {said}");
                self.assert_named_rightly(&lines, before, what, &said);
                code
            }
            Verb::Repair => {
                let (code, lines, said) = self.json(&["check", "--repair"]);
                assert!([0, 12].contains(&code), "{what}: {said}");
                let after = self.readable(what);
                assert!(code == 12 || after == all, "{what}: {said}");
                self.assert_named_rightly(&lines, &after, what, &said);
                code
            }
            Verb::RepairFrom => {
                let whole = self.whole.to_string_lossy().into_owned();
                let (code, _, said) = self.json(&["check", "--repair", "--read-data", "--from", &whole]);
                assert_eq!(code, 0, "{what}: {said}");
                assert_eq!(self.readable(what), all, "{what}: {said}");
                self.is_known = false;
                0
            }
            Verb::Gc => {
                let (code, _, said) = self.json(&["gc"]);
                // It refuses where something is lost that a checkpoint needs.
                assert!(code == 0 || *before != all, "{what}: {said}");
                code
            }
            Verb::Restore | Verb::Export | Verb::Cat => self.read(verb, newest, what, before),
            Verb::Delete => {
                let (code, _, said) = self.json(&["delete", oldest, middle]);
                assert_eq!(code, 0, "{what}: {said}");
                [oldest, middle].iter().for_each(|id| _ = self.saved.remove(*id));
                0
            }
            Verb::Prune => {
                let (code, lines, said) = self.json(&["session", "prune", "--keep-last", "40"]);
                assert!([0, 12].contains(&code), "{what}: {said}");
                let left: BTreeSet<String> = self.listed();
                assert!(left.len() >= 40 || ids.len() < 40, "{what}: {lines:?}");
                self.saved.retain(|id, _| left.contains(id));
                code
            }
            Verb::Diff => {
                let (code, lines, said) = self.json(&["diff", middle, newest]);
                assert!([0, 1, 12].contains(&code), "{what}: {said}");
                if code != 12 {
                    let changed = |line: &&Value| line["type"] == "change";
                    let (a, b) = (&self.saved[middle], &self.saved[newest]);
                    let differ = b.iter().filter(|(path, bytes)| a.get(*path) != Some(bytes)).count();
                    assert_eq!(
                        lines.iter().filter(changed).filter(|c| c["kind"] != "folder").count().min(1),
                        differ.min(1),
                        "{what}: {said}"
                    );
                }
                code
            }
        }
    }

    /// Files that are said to be hurt are those of a checkpoint that cannot be read. What is beside the files is not looked at here.
    fn assert_hurt(&self, checkpoint: &str, path: &Value, before: &BTreeSet<String>, what: &str, said: &str) {
        let path = path.as_str().unwrap_or_default();
        let is_file = self.saved.get(checkpoint).is_some_and(|files| files.contains_key(path.as_bytes()));
        assert!(!is_file || !before.contains(checkpoint), "{what}: {checkpoint}:{path} is named, and can be read: {said}");
    }

    fn assert_named_rightly(&self, lines: &[Value], before: &BTreeSet<String>, what: &str, said: &str) {
        for line in lines.iter().filter(|line| ["finding", "lost"].iter().any(|kind| line["type"] == *kind)) {
            for touched in line["touches"].as_array().into_iter().flatten() {
                self.assert_hurt(touched["checkpoint"].as_str().unwrap_or_default(), &touched["path"], before, what, said);
            }
        }
    }

    /// The checkpoints that `list` names.
    pub fn listed(&self) -> BTreeSet<String> {
        let (_, lines, _) = self.json(&["list", "-n", "1000"]);
        let ids = lines.iter().filter(|line| line["type"] == "checkpoint").filter_map(|line| line["id"].as_str());
        ids.map(str::to_owned).collect()
    }

    /// Makes a checkpoint. It can be read if it is vouched for by somebody who could know.
    fn create(&mut self, what: &str) -> i32 {
        self.edit();
        let work = self.scratch.path("work");
        let arguments = ["create", "t", "-w", &work.to_string_lossy(), "--no-conversation", "--no-default-excludes"];
        let (mut code, mut lines, mut said) = self.json(&arguments);
        if code == 12 && lines.last().is_some_and(|line| line["type"] == "error") {
            // The index alone is damaged, and can be made anew.
            assert!(said.contains("check --rebuild-index"), "{what}: {said}");
            self.json(&["check", "--rebuild-index"]);
            (code, lines, said) = self.json(&arguments);
        }
        assert!([0, 3, 12].contains(&code), "{what}: {said}");
        let Some(id) = lines.last().and_then(|line| line["id"].as_str()) else { panic!("{what}: {said}") };
        self.saved.insert(id.to_owned(), files_in(&work));
        self.newest = Some(id.to_owned());
        let is_readable = self.readable(what).contains(id);
        // Nobody has read what it reuses: that is what its level says. Whatever is known by then is stored again.
        let verified = lines.last().map(|line| line["verified"].clone()).unwrap_or_default();
        assert!(is_readable || !self.is_known, "{what}: {id} cannot be read, and the damage was known: {verified}: {said}");
        assert!(is_readable || code == 12 || !said.contains("\"level\":\"deep\""), "{what}: {said}");
        code
    }

    fn read(&mut self, verb: Verb, id: &str, what: &str, before: &BTreeSet<String>) -> i32 {
        let (to, archive) = (self.scratch.path("to"), self.scratch.path("to.tar.zst"));
        let expected = self.saved[id].clone();
        let (to_text, archive_text) = (to.to_string_lossy().into_owned(), archive.to_string_lossy().into_owned());
        let code = match verb {
            Verb::Restore => {
                let (code, _, said) = self.json(&["restore", id, "--to", &to_text]);
                assert!([0, 3, 12].contains(&code), "{what}: {said}");
                assert!(code != 0 || files_in(&to) == expected, "{what}: other bytes");
                code
            }
            Verb::Export => {
                let (code, _, said) = self.json(&["export", id, "-o", &archive_text]);
                assert!([0, 3, 12].contains(&code), "{what}: {said}");
                code
            }
            _ => {
                let mut worst = 0;
                for (path, bytes) in expected.iter().take(8) {
                    let path = format!("{id}:{}", String::from_utf8_lossy(path));
                    let output = self.scratch.run(&["cat", &path]);
                    let code = output.status.code().unwrap_or(-1);
                    assert!(if code == 0 { output.stdout == *bytes } else { code == 12 }, "{what}: {path}: {code}");
                    worst = worst.max(code);
                }
                let _ = (fs::remove_dir_all(&to), fs::remove_file(&archive));
                return worst;
            }
        };
        assert_eq!(code == 0, before.contains(id), "{what}: {id}: {code}");
        let _ = (fs::remove_dir_all(&to), fs::remove_file(&archive));
        code
    }
}
