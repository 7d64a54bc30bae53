//! The scan for secrets by the real binary: what is said, when, and to whom; that no secret is in what is said or recorded.

use std::{fs, path::PathBuf};

use parhelia_store::OpenOptions;
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
        self.create_in("work")
    }

    fn create_in(&self, session: &str) -> (Value, String) {
        let output = self.s.run(&["create", session, "-w", &self.work.to_string_lossy(), "--json"]);
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
        let store = parhelia_ledger::open(&self.s.store(), &OpenOptions::default()).unwrap();
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
    let said = f.s.expect(0, &["create", "-w", &f.work.to_string_lossy()]);
    assert!(said.contains("`secrets.scan` cannot be set by a project"), "{said}");
    // Once for each change of the file, but where it is asked for.
    let status = || f.s.expect(0, &["create", "-w", &f.work.to_string_lossy()]);
    assert!(!status().contains("cannot be set by a project"));
    let config = f.s.expect(0, &["config", "show", "-w", &f.work.to_string_lossy()]);
    assert!(config.contains("`secrets.scan` cannot be set by a project"), "{config}");
    f.put("parhelia.toml", "[secrets]\nscan = false\nallow = 1\n");
    let said = status();
    assert!(said.contains("`secrets.scan` cannot be set by a project") && said.contains("parhelia.toml:3"), "{said}");
    let scanned = f.events().len();
    f.put("parhelia.toml", "");
    f.put("a", &token('x'));
    f.configure("[secrets]\nscan = false\n");
    assert!(f.create().0["scan"].is_null() && f.events().len() == scanned);
    f.put("b", &token('x'));
    f.configure("[secrets]\nallow = [\"a{b\"]\n");
    let (made, said) = f.create();
    assert!(made["id"].is_string() && made["scan"].is_null(), "a checkpoint that is not scanned is made all the same: {made}");
    assert!(said.contains("the checkpoint was not scanned for secrets: `secrets.allow`: "), "{said}");
}

impl Folder {
    /// A folder whose files with possible secrets are left out.
    fn leaving_out() -> Self {
        let f = Folder::new();
        f.configure("[secrets]\non_finding = \"leave_out\"\n");
        f
    }

    fn work(&self) -> String {
        self.work.to_string_lossy().into_owned()
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.work.join(path)).unwrap()
    }
}

#[test]
fn a_file_with_a_secret_is_left_out_until_the_secret_is_gone() {
    let f = Folder::leaving_out();
    let secret = format!("first\ntoken = {}\n", token('x'));
    let long = format!("{}\n{}", token('y'), "lines of text\n".repeat(40_000));
    f.put("kept", "kept\n");
    f.put("a/.env", &secret);
    f.put("long", &long);
    fs::hard_link(f.work.join("a/.env"), f.work.join("linked")).unwrap();
    let planned = f.s.expect(0, &["create", "-w", &f.work(), "--dry-run", "-v"]);
    assert!(planned.contains("possible secret: github-token in line 2"), "{planned}");
    let (made, said) = f.create();
    assert!(said.contains("leaves out 3 files with possible secrets: a/.env (github-token in line 2), linked"), "{said}");
    assert_eq!(
        (&made["scan"]["left_out"], &made["excluded"], &made["scan"]["found"]),
        (&3.into(), &3.into(), &0.into()),
        "{made}"
    );
    assert!(f.has_stored("kept\n") && !f.has_stored(&secret) && !f.has_stored(&long));
    assert_eq!(f.s.expect(0, &["ls", "work@latest:"]).trim_end(), "a/\nkept", "what is left out is not there");
    let shown = f.s.expect(0, &["show", "-v"]);
    assert!(shown.contains("a/.env") && shown.contains("possible secret: github-token in line 2"), "{shown}");

    f.put("kept", "kept, too\n");
    let (made, said) = f.create();
    assert_eq!((said.as_str(), &made["excluded"]), ("", &3.into()), "it is told once: {made}");
    f.put("a/.env", "token = ${TOKEN}\n");
    assert_eq!(f.create().0["excluded"], 1, "both names of it are kept by now");
    assert!(f.has_stored("token = ${TOKEN}\n"));
}

#[test]
fn what_a_checkpoint_has_of_a_file_already_is_kept() {
    let f = Folder::new();
    let secret = format!("token = {}\n", token('x'));
    f.put("before", &secret);
    f.create();
    f.configure("[secrets]\non_finding = \"leave_out\"\n");
    f.put("before", &secret);
    f.put("other", "other\n");
    assert_eq!(f.create().0["excluded"], 0, "it has the content that it had");
    f.put("before", &format!("{secret}more\n"));
    assert_eq!(f.create().0["excluded"], 1);
}

#[test]
fn a_file_that_was_left_out_is_neither_removed_nor_overwritten() {
    let f = Folder::leaving_out();
    f.put("settings", "none yet\n");
    f.put("file", "one\n");
    let first = f.create().0["id"].as_str().unwrap().to_owned();
    let secret = format!("token = {}\n", token('x'));
    let state = |f: &Folder| (f.read("settings"), f.read("new"), f.read("file"));
    let change = |f: &Folder| {
        f.put("settings", &secret);
        f.put("new", &secret);
        f.put("file", "two\n");
    };
    change(&f);
    f.create();
    let stays = (secret.clone(), secret.clone(), "one\n".to_owned());
    let rolled = f.s.expect(3, &["rollback", &first, "--yes"]);
    assert_eq!(state(&f), stays, "{rolled}");
    assert!(rolled.contains("settings: left as it is") && rolled.contains("new: left as it is"), "{rolled}");

    change(&f);
    let restored = f.s.expect(3, &["restore", &first, "--to", &f.work(), "--in-place", "--delete"]);
    assert_eq!(state(&f), stays, "{restored}");
    for path in ["settings", "new"] {
        assert!(restored.contains(&format!("{path}: kept as it is: it may hold a secret")), "{restored}");
    }
    assert!(!f.has_stored(&secret), "no safety checkpoint has it");

    change(&f);
    f.s.expect(0, &["restore", &first, "--to", &f.work(), "--in-place", "--delete", "--no-safety"]);
    assert_eq!(f.read("settings"), "none yet\n");
    assert!(!f.work.join("new").exists());
}

#[test]
fn of_a_single_file_that_was_left_out_nothing_is_written() {
    let f = Folder::leaving_out();
    f.put("d/.env", "none yet\n");
    let first = f.create().0["id"].as_str().unwrap().to_owned();
    let secret = format!("token = {}\n", token('x'));
    f.put("d/.env", &secret);
    let target = f.work.join("d/.env");
    let said = f.s.expect(1, &["restore", &format!("{first}:d/.env"), "--to", target.to_str().unwrap(), "--in-place"]);
    assert!(said.contains("it may hold a secret"), "{said}");
    assert_eq!(f.read("d/.env"), secret);
}

#[test]
fn no_safety_checkpoint_has_what_is_left_out_of_what_rules_leave_out() {
    let f = Folder::new();
    f.put("package.json", "{}\n");
    f.put("node_modules/c.js", "none yet\n");
    let work = f.work();
    f.s.expect(0, &["create", "work", "-w", &work, "--no-default-excludes"]);
    f.configure("[secrets]\non_finding = \"leave_out\"\n");
    let secret = format!("token = {}\n", token('x'));
    f.put("node_modules/c.js", &secret);
    f.s.expect(3, &["restore", "work@latest", "--to", &work, "--in-place"]);
    assert!(f.read("node_modules/c.js") == secret && !f.has_stored(&secret));
    // What comes next follows the checkpoint of the whole folder.
    let next = f.create().0;
    let shown = f.s.expect(0, &["show", next["id"].as_str().unwrap(), "--json"]);
    let parent = serde_json::from_str::<Value>(shown.lines().next().unwrap()).unwrap()["parent_checkpoint_id"].clone();
    let parent = f.s.expect(0, &["show", parent.as_str().unwrap()]);
    assert!(!parent.contains("what the checkpoint of all leaves out"), "{parent}");
}

#[test]
fn a_secret_that_comes_and_goes_while_a_checkpoint_is_made_is_never_stored() {
    let f = Folder::leaving_out();
    // The same length, so that one write exchanges them; longer than one chunk.
    let with = |first: &str| format!("{first:<60}\n{}", "lines of text\n".repeat(30_000));
    let (secret, harmless) = (with(&format!("token = {}", token('x'))), with("nothing"));
    let paths: Vec<PathBuf> = (0..4).map(|i| f.work.join(format!("flips{i}"))).collect();
    for path in &paths {
        fs::write(path, &harmless).unwrap();
    }
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::os::unix::fs::FileExt;
            let files: Vec<fs::File> = paths.iter().map(|path| fs::OpenOptions::new().write(true).open(path).unwrap()).collect();
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                for content in [&secret, &harmless] {
                    files.iter().for_each(|file| file.write_all_at(&content.as_bytes()[..60], 0).unwrap());
                }
            }
        });
        for _ in 0..10 {
            f.s.run(&["create", "work", "-w", &f.work()]);
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(!f.is_readable("packs", &token('x')), "a pack has the secret");
    assert!(f.s.expect(0, &["ls", "work@latest:"]).len() < 100);
}

#[test]
fn what_a_checkpoint_has_is_kept_also_where_the_cache_is_lost() {
    let f = Folder::new();
    f.put("before", &format!("token = {}\n", token('x')));
    f.create();
    f.configure("[secrets]\non_finding = \"leave_out\"\n");
    for _ in 0..2 {
        fs::remove_dir_all(f.s.store().join("cache")).unwrap();
        assert_eq!(f.create().0["excluded"], 0);
    }
}

#[test]
fn a_file_that_is_left_out_is_told_of_where_it_matters() {
    let f = Folder::leaving_out();
    f.put("kept", "kept\n");
    f.put("settings", "none yet\n");
    let first = f.create().0["id"].as_str().unwrap().to_owned();
    f.put("settings", &format!("token = {}\n", token('x')));
    f.put("new", &format!("token = {}\n", token('x')));
    let second = f.create().0["id"].as_str().unwrap().to_owned();
    let diff = f.s.expect(0, &["diff", &first, &second]);
    assert!(!diff.contains("settings"), "it was not deleted: {diff}");
    let status = f.s.command(&["status"]).current_dir(&f.work).output().unwrap();
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(!status.contains("new") && !status.contains("settings"), "{status}");
    let restored = f.s.expect(0, &["restore", &second, "--to", &f.s.path("elsewhere").to_string_lossy()]);
    assert!(restored.contains("leaves out 2 files with possible secrets"), "{restored}");

    // By a rule, and then because of a secret: that is news.
    f.put("by-rule", "nothing\n");
    f.s.expect(0, &["create", "work", "-w", &f.work(), "--exclude", "by-rule"]);
    f.put("by-rule", &format!("token = {}\n", token('y')));
    assert!(f.create().1.contains("by-rule (github-token"));
}

#[test]
fn a_folder_that_is_called_as_gits_hides_nothing() {
    let f = Folder::new();
    f.put("a", "a\n");
    f.create();
    f.put("x/.git/objects/conf.py", &format!("T = '{}'\n", token('x')));
    assert_eq!(f.found(), ["x/.git/objects/conf.py:1 github-token"]);
    f.configure("[secrets]\nallow = [\"quiet/\"]\n");
    f.put("quiet/conf.py", &format!("T = '{}'\n", token('y')));
    assert!(f.found().is_empty());
    fs::rename(f.work.join("quiet/conf.py"), f.work.join("conf.py")).unwrap();
    assert_eq!(f.found(), ["conf.py:1 github-token"], "it lay where nothing is scanned");
}

#[test]
fn content_that_the_store_has_is_scanned_unless_it_was() {
    let f = Folder::new();
    f.configure("[secrets]\nscan = false\n");
    for i in 0..200 {
        f.put(&format!("src/{i}.py"), &format!("value = {i}\n"));
    }
    f.put("src/key.py", &format!("T = '{}'\n", token('x')));
    f.put("copy of key.py", &format!("T = '{}'\n", token('x')));
    f.put("binary", "\0");
    f.create();
    let known = f.s.store().join("cache/scanned");
    assert!(!known.exists());
    // Nothing is read again for these: the stat cache knows every file.
    f.configure("");
    let expected = ["copy of key.py:1 github-token", "src/key.py:1 github-token"];
    for session in ["first", "second"] {
        let scan = f.create_in(session).0["scan"].clone();
        assert_eq!(places(&scan), expected, "{session}");
        assert_eq!((&scan["files"], &scan["unscanned"]["binary"]), (&202.into(), &1.into()), "{session}");
    }
    // What has no secrets is known once and for all. What has some is not: 200 texts and a binary file, in three parts at the most.
    let bytes = fs::metadata(&known).unwrap().len();
    assert!((40 + 8 + 201 * 16..=40 + 3 * 8 + 201 * 16).contains(&bytes), "{bytes}");
    fs::write(&known, "not a list").unwrap();
    assert_eq!(places(&f.create_in("third").0["scan"]), expected);
}

#[test]
fn each_file_of_a_first_checkpoint_is_scanned() {
    let f = Folder::new();
    for i in 0..9000 {
        f.put(&format!("{}/{i}", i % 10), &format!("value = {i}\n"));
    }
    f.put("9/last", &format!("{}{}\n", "no secret\n".repeat(104_000), token('x')));
    let line = format!("{}\n", token('y'));
    f.put("9/of exactly 1 MiB", &format!("{line}{}", " ".repeat((1 << 20) - line.len())));
    let (made, said) = f.create();
    let scan = &made["scan"];
    assert_eq!(places(scan), ["9/last:104001 github-token", "9/of exactly 1 MiB:1 github-token"], "{said}");
    assert_eq!(
        (&scan["files"], &scan["unscanned"]["not_reached"], &scan["unscanned"]["unreadable"]),
        (&9002.into(), &0.into(), &0.into())
    );
}
