//! The scan for secrets by the real binary: what is said, when, and to whom; that no secret is in what is said or recorded.

use std::{fs, path::PathBuf};

use parhelia_store::{OpenOptions, Store};
use parhelia_tests::{Scratch, files_in, write};
use serde_json::Value;

/// Secrets are put together here, so that other scanners of this repository find none.
fn token(letter: char) -> String {
    format!("{}{}{letter}", "ghp_", "q7Rk2ZpX9vLmT4wB8nYc3HsD6gJfA1eU5oK")
}

fn aws() -> String {
    format!("{}{}", "AKIA", "Q7RK2ZPX4VLMT5WB")
}

struct Folder {
    s: Scratch,
    work: PathBuf,
}

impl Folder {
    fn new() -> Self {
        let s = Scratch::new();
        let work = s.path("work");
        fs::create_dir(&work).unwrap();
        Folder { s, work }
    }

    fn put(&self, path: &str, text: &str) {
        write(&self.work.join(path), text.as_bytes()).unwrap();
    }

    fn configure(&self, text: &str) {
        write(&self.s.path("home/.config/parhelia/parhelia.toml"), text.as_bytes()).unwrap();
    }

    /// The summary of a new checkpoint, and the messages beside it.
    fn create(&self) -> (Value, String) {
        let output = self.s.run(&["create", "work", "-w", &self.work.to_string_lossy(), "--json"]);
        let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success(), "{out}{err}");
        for secret in [token('x'), token('y'), aws()] {
            assert!(!out.contains(&secret[4..]) && !err.contains(&secret[4..]), "{out}{err}");
        }
        (serde_json::from_str(out.lines().last().unwrap()).unwrap(), err)
    }

    /// The places and rules of a new checkpoint's findings.
    fn found(&self) -> Vec<String> {
        places(&self.create().0["scan"])
    }

    fn events(&self) -> Vec<Value> {
        let text = self.s.expect(0, &["log", "--kind", "checkpoint.scanned", "--json"]);
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.filter(|line: &Value| line["type"] != "summary").collect()
    }

    /// True if a content is an object of the store.
    fn has_stored(&self, content: &str) -> bool {
        let store = Store::open(&self.s.store(), &OpenOptions::default()).unwrap();
        let blob = store.ids().blob(content.as_bytes());
        store.blob(blob, content.len() as u64).and_then(|blob| blob.read_all()).is_ok()
    }

    /// True if a text stands as it is in a file of the store, or of a folder in it.
    fn is_readable(&self, folder: &str, text: &str) -> bool {
        let contains = |bytes: &Vec<u8>| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        files_in(&self.s.store().join(folder)).values().any(contains)
    }
}

fn places(scan: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let findings = scan["findings"].as_array().into_iter().flatten();
    findings.map(|f| format!("{}:{} {}", text(&f["path"]), f["line"], text(&f["rule"]))).collect()
}

#[test]
fn a_new_secret_is_reported_once_and_stays_in_the_checkpoint() {
    let f = Folder::new();
    f.put("src/a.py", &format!("import os\n\nTOKEN = '{}'\n", token('x')));
    f.put(".env", &format!("AWS={}\n", aws()));
    f.put("readme", "no secrets\n");
    let (made, said) = f.create();
    assert_eq!(places(&made["scan"]), [".env:1 aws-access-key", "src/a.py:3 github-token"]);
    assert_eq!((&made["scan"]["found"], &made["scan"]["files"]), (&2.into(), &3.into()));
    assert!(
        said.contains("has 2 possible secrets: .env:1 (aws-access-key), src/a.py:3 (github-token); they are in it"),
        "{said}"
    );
    let id = made["id"].as_str().unwrap();
    assert_eq!(f.s.expect(0, &["cat", &format!("{id}:.env")]), format!("AWS={}\n", aws()), ".env is work");

    let shown = f.s.expect(0, &["show", id]);
    assert_eq!(shown.matches("Secrets ").count(), 1, "{shown}");
    assert!(shown.contains("Secrets     2 found in 3 new files\n") && shown.contains("  src/a.py:3 (github-token)\n"), "{shown}");
    let object: Value = serde_json::from_str(f.s.expect(0, &["show", id, "--json"]).lines().next().unwrap()).unwrap();
    assert_eq!(places(&object["scan"]).len(), 2, "{object}");
    assert!(f.s.expect(0, &["list", "--detailed"]).lines().next().unwrap().contains("SECRETS"));

    // Nothing new: the same, a change elsewhere in the file, another name, another time.
    f.put("src/a.py", &format!("import os\n\n\nTOKEN = '{}'\nprint()\n", token('x')));
    fs::rename(f.work.join(".env"), f.work.join(".env.local")).unwrap();
    let (made, said) = f.create();
    assert_eq!((&made["scan"]["found"], &made["scan"]["files"], said.as_str()), (&0.into(), &1.into(), ""));
    assert!(f.create().0["scan"].is_null(), "nothing is new");
    // Another secret in the same place is news.
    f.put("src/a.py", &format!("import os\n\n\nTOKEN = '{}'\nprint()\n", token('y')));
    assert_eq!(f.found(), ["src/a.py:4 github-token"]);

    let events = f.events();
    assert_eq!(events.len(), 3, "{events:?}");
    let text = serde_json::to_string(&events).unwrap();
    assert!(!text.contains(&token('x')[4..]) && !text.contains(&aws()[4..]), "{text}");
    let prints = |event: &Value| event["data"]["findings"][0]["fingerprint"].as_str().map(str::to_owned);
    assert!(prints(&events[0]).is_some_and(|print| print.len() == 8), "{events:?}");
    assert!(f.has_stored(&format!("AWS={}\n", aws())), "it was not removed");
    assert!(f.is_readable("journal", "github-token") && !f.is_readable("journal", &token('x')[4..]));
    // Derived anew, it is the same.
    fs::remove_dir_all(f.s.store().join("view")).unwrap();
    assert_eq!(f.s.expect(0, &["show", id]), shown);
}

#[test]
fn what_is_allowed_or_cannot_be_scanned_is_counted() {
    let f = Folder::new();
    f.configure("[secrets]\nallow = [\"fixtures/\", \"*.golden\"]\n");
    f.put("fixtures/key", &token('x'));
    f.put("a.golden", &token('x'));
    f.put("a.py", &format!("T = '{}'  # parhelia:allow\n", token('x')));
    f.put("long", &format!("{}\n{}", token('x'), " ".repeat(1 << 20)));
    f.put("binary", &format!("\0{}", token('x')));
    let (made, said) = f.create();
    let (scan, not) = (&made["scan"], &made["scan"]["unscanned"]);
    assert_eq!((&scan["found"], &scan["allowed"], &scan["files"], said.as_str()), (&0.into(), &1.into(), &1.into(), ""));
    assert_eq!(
        (&not["allowed"], &not["too_large"], &not["binary"], &not["not_reached"]),
        (&2.into(), &1.into(), &1.into(), &0.into())
    );
    let shown = f.s.expect(0, &["show"]);
    assert!(
        shown.contains("1 allowed by a comment\n") && shown.contains("not scanned: 1 binary, 1 longer than 1 MiB, 2 allowed by"),
        "{shown}"
    );
}

#[test]
fn a_project_cannot_switch_the_scan_off_and_its_user_can() {
    let f = Folder::new();
    f.put("parhelia.toml", "[secrets]\nscan = false\n");
    let refused = f.s.expect(2, &["create", "-w", &f.work.to_string_lossy()]);
    assert!(refused.contains("`secrets.scan` cannot be set by a project"), "{refused}");
    f.put("parhelia.toml", "");
    f.put("a", &token('x'));
    f.configure("[secrets]\nscan = false\n");
    assert!(f.create().0["scan"].is_null() && f.events().is_empty());
    f.put("b", &token('x'));
    f.configure("[secrets]\nallow = [\"a{b\"]\n");
    let (made, said) = f.create();
    assert!(made["id"].is_string() && made["scan"].is_null(), "a checkpoint that is not scanned is made all the same: {made}");
    assert!(said.contains("the checkpoint was not scanned for secrets: `secrets.allow`: "), "{said}");
}
