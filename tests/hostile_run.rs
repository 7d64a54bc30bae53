//! An agent that wants out of what its user has set: every variable, option and verb, tried from inside its run. History, decisions, other
//! sessions and the user's own files are what they were, and the user is told.
//!
//! New options and verbs enter by themselves: options come from their table, verbs and flags from the program's own man pages.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use parhelia_session::config::OPTIONS;
use parhelia_tests::{Scratch, write, write_program};
use serde_json::Value;

/// The user's own options: everything waits for a person.
const OWN: &str = "[approval]\ndefault_policy = \"strict\"\n[secrets]\non_finding = \"review\"\n[retention]\nkeep_last = 50\n";

/// What an agent would rather have.
const LAX: &str = "[approval]\ndefault_policy = \"lax\"\nself_approval = true\n\
                   [approval.policies.lax]\nauto_approve = [\"periodic\", \"detach\", \"error\", \"complete\", \"shutdown\", \"manual\"]\n\
                   [secrets]\nscan = false\n[retention]\nmax_store_bytes = 1\nkeep_last = 1\n[summary]\ncommand = [\"sh\", \"-c\", \"touch @pwned\"]\n";

/// A store with the work of somebody else, and an agent's workspace.
struct Victim {
    scratch: Scratch,
    work: PathBuf,
    before: Facts,
}

/// What must stay as it is.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    /// Checkpoints of the other session, and what was decided about them.
    theirs: Vec<(String, String)>,
    /// The user's own files.
    files: BTreeMap<PathBuf, String>,
}

impl Victim {
    fn new() -> Self {
        let scratch = Scratch::new();
        let work = scratch.path("work");
        write(&scratch.path("home/.config/parhelia/parhelia.toml"), OWN.as_bytes()).unwrap();
        write(&scratch.path("home/precious"), b"precious").unwrap();
        write(&work.join("lax.toml"), LAX.replace("@pwned", &scratch.path("pwned").to_string_lossy()).as_bytes()).unwrap();
        write(&work.join("x/parhelia/parhelia.toml"), LAX.replace("@pwned", &scratch.path("pwned").to_string_lossy()).as_bytes())
            .unwrap();
        for state in 0..4u8 {
            write(&scratch.path("theirs/file"), &parhelia_tests::noise(200_000, state.into())).unwrap();
            scratch.create("theirs", &scratch.path("theirs"));
        }
        scratch.expect(0, &["checkpoint", "tag", "theirs@latest", "keep"]);
        let before = facts(&scratch);
        assert_eq!(before.theirs.len(), 4);
        Victim { scratch, work, before }
    }

    /// Has an agent do something.
    fn run(&self, script: &str) -> String {
        write_program(&self.work.join("agent"), &format!("#!/bin/bash\n{script}\n"));
        let work = self.work.to_string_lossy().into_owned();
        let output = self.scratch.run(&["session", "run", "--name", "agents", "--workspace", &work, "--", "./agent"]);
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }

    fn assert_unharmed(&self, what: &str) {
        assert_eq!(facts(&self.scratch), self.before, "{what}");
        assert!(!self.scratch.path("pwned").exists(), "{what}: a command of the agent's configuration ran");
    }

    /// The approval of each of the agent's checkpoints.
    fn approvals(&self) -> Vec<String> {
        let mine = |line: &Value| line["session"].as_str().is_some_and(|session| session != "theirs");
        lines(&self.scratch, &["checkpoint", "list", "--limit", "1000", "--json"])
            .into_iter()
            .filter(|line| line["type"] == "checkpoint" && mine(line))
            .map(|line| line["approval"]["status"].as_str().unwrap_or("none").to_owned())
            .collect()
    }

    fn acts(&self, action: &str) -> Vec<Value> {
        lines(&self.scratch, &["audit", "log", "--all", "--json", "--action", action])
    }
}

fn lines(scratch: &Scratch, arguments: &[&str]) -> Vec<Value> {
    let output = scratch.run(arguments);
    String::from_utf8_lossy(&output.stdout).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn facts(scratch: &Scratch) -> Facts {
    let theirs =
        lines(scratch, &["checkpoint", "list", "theirs", "--json"]).into_iter().filter(|line| line["type"] == "checkpoint");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut files = BTreeMap::new();
    for name in ["home/.config/parhelia/parhelia.toml", "home/precious", "theirs/file"] {
        files.insert(PathBuf::from(name), blake3::hash(&fs::read(scratch.path(name)).unwrap_or_default()).to_string());
    }
    Facts { theirs: theirs.map(|line| (text(&line["id"]), line["approval"].to_string())).collect(), files }
}

#[test]
fn no_variable_of_an_option_makes_it_laxer() {
    let victim = Victim::new();
    // Each is tried with what would remove most, see least and let through most.
    let mut script = String::from("n=0; new() { n=$((n+1)); echo $n > f; }\n");
    for name in OPTIONS.iter().flat_map(|option| option.variables).filter(|name| **name != "PARHELIA_STORE") {
        for value in ["0", "1", "false", "newest", "$PWD/lax.toml"] {
            script.push_str(&format!("new; {name}={value} parhelia checkpoint create -q >/dev/null 2>>said\n"));
        }
    }
    script.push_str("new; PARHELIA_CONFIG=$PWD/lax.toml parhelia checkpoint create -q 2>>said\n");
    script.push_str("new; parhelia --config lax.toml checkpoint create -q 2>>said\n");
    script.push_str("new; XDG_CONFIG_HOME=$PWD/x parhelia checkpoint create -q --trigger complete 2>>said\n");
    script.push_str("new; HOME=$PWD parhelia checkpoint create -q --trigger-detail safety 2>>said\n");
    let path = format!("export PATH={}:$PATH\n", parhelia_tests::binary().parent().unwrap().display());
    victim.run(&format!("{path}{script}"));
    victim.assert_unharmed("variables");
    let approvals = victim.approvals();
    assert!(approvals.len() > 20, "{}", approvals.len());
    assert!(approvals.iter().all(|status| status == "pending"), "{approvals:?}");
    let said = fs::read_to_string(victim.work.join("said")).unwrap();
    for name in ["PARHELIA_MAX_STORE_SIZE", "XDG_CONFIG_HOME", "lax.toml", "HOME"] {
        assert!(said.contains(name), "{name} is not said: {said}");
    }
    let ignored = victim.acts("setting.ignore");
    assert!(
        ignored.iter().any(|act| act["rule"].as_str().unwrap_or_default().contains("PARHELIA_MAX_STORE_SIZE")),
        "{ignored:?}"
    );
}

#[test]
fn a_store_that_a_variable_names_takes_nothing_from_the_users_own() {
    let victim = Victim::new();
    let path = format!("export PATH={}:$PATH\n", parhelia_tests::binary().parent().unwrap().display());
    let count = |victim: &Victim| victim.approvals().len();
    victim.run(&format!("{path}echo 1 > f; mkdir .s; PARHELIA_STORE=$PWD/.s parhelia checkpoint create -q -m here 2>said"));
    assert!(count(&victim) >= 2, "it is in the store of the run");
    let said = fs::read_to_string(victim.work.join("said")).unwrap();
    assert!(said.contains("PARHELIA_STORE"), "{said}");
    assert!(fs::read_dir(victim.work.join(".s")).unwrap().next().is_none());
}

#[test]
fn no_verb_decides_or_removes_what_is_anothers() {
    let victim = Victim::new();
    let pages = victim.scratch.path("pages");
    victim.scratch.expect(0, &["man", &pages.to_string_lossy()]);
    let verbs = verbs(&pages);
    assert!(verbs.len() > 60, "{}", verbs.len());
    let path = format!("export PATH={}:$PATH\n", parhelia_tests::binary().parent().unwrap().display());
    for (verb, flags) in &verbs {
        // These wait for somebody.
        if ["serve", "hook", "mcp", "mcp-proxy", "session attach", "session run", "mount", "man"].contains(&verb.as_str()) {
            continue;
        }
        let mut script = path.clone();
        for flag in std::iter::once("").chain(flags.iter().map(String::as_str)) {
            for target in ["theirs@latest", "theirs"] {
                script.push_str(&format!("timeout 20 parhelia {verb} {flag} {target} --json </dev/null >/dev/null 2>&1\n"));
            }
        }
        // A run for each: some end the agent.
        victim.run(&script);
        assert_eq!(facts(&victim.scratch), victim.before, "{verb}");
    }
    victim.assert_unharmed("verbs");
    let decisions = [victim.acts("checkpoint.approve"), victim.acts("checkpoint.reject")].concat();
    let is_made = |act: &&Value| ["checkpoint.approve", "checkpoint.reject"].iter().any(|made| act["action"] == *made);
    let decided: Vec<_> = decisions.iter().filter(is_made).collect();
    assert!(decided.is_empty() && !decisions.is_empty(), "{decided:?}");
}

/// Every verb and those of its flags that decide, remove or switch off, by the man pages.
fn verbs(pages: &Path) -> Vec<(String, Vec<String>)> {
    const FLAGS: [&str; 9] =
        ["--protected", "--change", "--yes", "--no-safety", "--new", "--take-over", "--other-folder", "--all", "--repair"];
    let mut found = Vec::new();
    for entry in fs::read_dir(pages).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap().replace("\\-", "-");
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        // `.SH SYNOPSIS` has the verb as it is typed.
        let synopsis = text.lines().skip_while(|line| !line.starts_with(".SH SYNOPSIS")).nth(1).unwrap_or_default().to_owned();
        let typed: String = synopsis.replace("\\fB", "").replace("\\fR", "");
        let words: Vec<&str> =
            typed.split_whitespace().skip(1).take_while(|word| !word.starts_with(['[', '<', '-', '\\'])).collect();
        if words.is_empty() {
            assert!(name == "parhelia" || typed.is_empty(), "{name}: {synopsis}");
            continue;
        }
        let flags = FLAGS.iter().filter(|flag| text.contains(*flag)).map(|flag| (*flag).to_owned()).collect();
        found.push((words.join(" "), flags));
    }
    found
}
