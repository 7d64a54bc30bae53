//! Work of an agent outside of its workspace: real working trees of git, and the events that tell of them.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use parhelia_tests::{Scratch, live::wait, write};
use serde_json::{Value, json};

const CONVERSATION: &str = "3a9d1f6e-57c0-4f0e-9a55-6f8f1f8c0b12";

struct Place {
    scratch: Scratch,
}

impl Place {
    /// A repository in which an agent has begun a conversation.
    fn new() -> Self {
        let place = Place { scratch: Scratch::new() };
        write(&place.path("work/a"), b"1").unwrap();
        place.git(&["init", "-q", "-b", "main"]);
        place.git(&["add", "a"]);
        place.git(&["commit", "-qm", "a"]);
        place.event("SessionStart", json!({ "source": "startup" }));
        wait(|| place.sessions().pop());
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch
            .path(name)
            .parent()
            .unwrap()
            .canonicalize()
            .map_or_else(|_| self.scratch.path(name), |folder| folder.join(Path::new(name).file_name().unwrap()))
    }

    fn git(&self, words: &[&str]) {
        let who = ["-c", "user.name=n", "-c", "user.email=n@example.com"];
        let status = Command::new("git").args(who).args(words).current_dir(self.scratch.path("work")).status().unwrap();
        assert!(status.success(), "git {words:?}");
    }

    /// Gives an event to `parhelia hook`, which must say nothing.
    fn event(&self, name: &str, more: Value) {
        let mut event = json!({ "hook_event_name": name, "session_id": CONVERSATION, "cwd": self.path("work") });
        event.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        let mut command = self.scratch.command(&["hook"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(event.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    }

    /// The agent's turn ends; waits until everything of that is done.
    fn turn(&self) {
        let before = self.log().lines().filter(|line| is_end(line)).count();
        self.event("Stop", json!({}));
        wait(|| (self.log().lines().filter(|line| is_end(line)).count() > before).then_some(()));
    }

    fn moved_to(&self, folder: &Path) {
        let before = self.log().matches("CwdChanged: noted").count();
        self.event("CwdChanged", json!({ "old_cwd": self.path("work"), "new_cwd": folder }));
        wait(|| (self.log().matches("CwdChanged: noted").count() > before).then_some(()));
    }

    fn log(&self) -> String {
        fs::read_to_string(self.scratch.path("home/.local/state/parhelia/hook.log")).unwrap_or_default()
    }

    fn objects(&self, words: &[&str], kind: &str) -> Vec<Value> {
        let text = String::from_utf8(self.scratch.run(words).stdout).unwrap();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["type"] == kind).collect()
    }

    fn sessions(&self) -> Vec<Value> {
        self.objects(&["session", "list", "--json"], "session")
    }

    /// The agent's own session.
    fn own(&self) -> Value {
        self.sessions().into_iter().find(|session| session["beside"].is_null()).unwrap()
    }

    /// The session of a working tree.
    fn of_tree(&self, tree: &Path) -> Option<Value> {
        self.sessions().into_iter().find(|session| session["workspace"]["path"] == tree.to_str().unwrap())
    }
}

/// True of the line that ends what a turn's end asks for.
fn is_end(line: &str) -> bool {
    line.contains("Stop: ") && line.ends_with(" ms")
}

#[test]
fn a_working_tree_that_the_agent_works_in_is_kept_in_a_session_beside_its_own() {
    let place = Place::new();
    let (feature, other) = (place.path("feature"), place.path("other"));
    place.git(&["worktree", "add", "-q", feature.to_str().unwrap(), "-b", "feature"]);
    place.git(&["worktree", "add", "-q", other.to_str().unwrap(), "-b", "other"]);
    place.turn();
    assert!(place.of_tree(&feature).is_none(), "nothing tells yet that the agent works there");
    let head = place.own()["head"].clone();

    fs::write(feature.join("work.txt"), "a day of work\n").unwrap();
    fs::create_dir(feature.join("below")).unwrap();
    place.moved_to(&feature.join("below"));
    place.turn();
    let tree = place.of_tree(&feature).unwrap();
    let own = place.own();
    assert_eq!(tree["beside"], own["id"]);
    assert_eq!(own["worked_in"], json!([feature]));
    assert_eq!((&own["head"], &own["workspace"]["path"]), (&head, &json!(place.path("work"))), "its own is as it was");
    assert!(place.of_tree(&other).is_none());
    let kept = tree["head"].as_str().unwrap().to_owned();
    assert_eq!(place.scratch.expect(0, &["checkpoint", "cat", &format!("{kept}:work.txt")]), "a day of work\n");

    let id = own["id"].as_str().unwrap();
    let shown = place.scratch.expect(0, &["session", "show", id]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains(&format!("parhelia restore {}", &kept[..6])) || shown.contains(&format!("restore {kept}")), "{shown}");
    let beware = format!("the working tree {} is in no checkpoint", other.display());
    assert!(shown.contains(&beware) && !shown.contains(&beware.replace("other", "feature")), "{shown}");
    let work = place.path("work");
    let status = place.scratch.run(&["status", "--workspace", work.to_str().unwrap()]);
    let status = String::from_utf8(status.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        status.contains(&format!("{} of the same repository was made since, and is in checkpoint", feature.display())),
        "{status}"
    );
    assert!(
        status.contains(&format!("{} of the same repository was made since, and is in no checkpoint", other.display())),
        "{status}"
    );

    // What has not changed is not kept again, and what has is, in its own session alone.
    place.turn();
    assert_eq!(place.of_tree(&feature).unwrap()["checkpoints"], 1);
    fs::write(feature.join("work.txt"), "more\n").unwrap();
    place.turn();
    assert_eq!((&place.of_tree(&feature).unwrap()["checkpoints"], &place.own()["head"]), (&json!(2), &head));

    // It is gone with all its work, and comes back from the store; the workspace is none the wiser.
    place.git(&["worktree", "remove", "--force", feature.to_str().unwrap()]);
    place.turn();
    let shown = place.scratch.expect(0, &["session", "show", id]);
    assert!(shown.contains("which is gone"), "{shown}");
    let status = place.scratch.run(&["status", "--workspace", work.to_str().unwrap()]);
    let status = String::from_utf8(status.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    let kept = format!("was also seen in {}, which is gone, and is in checkpoint", feature.display());
    assert!(status.contains(&kept) && !status.contains("has what it did there"), "{status}");
    let newest = place.of_tree(&feature).unwrap()["head"].as_str().unwrap().to_owned();
    place.scratch.expect(0, &["checkpoint", "restore", &newest, "--to", feature.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(feature.join("work.txt")).unwrap(), "more\n");
    assert!(!work.join("work.txt").exists());
    let again = place.sessions().len();
    place.turn();
    assert_eq!(place.sessions().len(), again, "{}", place.log());
}

#[test]
fn a_tree_of_others_is_left_and_other_folders_are_named() {
    let place = Place::new();
    let (theirs, plain, liar) = (place.path("theirs"), place.path("plain"), place.path("liar"));
    place.git(&["worktree", "add", "-q", theirs.to_str().unwrap(), "-b", "theirs"]);
    place.scratch.expect(0, &["checkpoint", "create", theirs.to_str().unwrap()]);
    for folder in [&plain, &liar] {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("secret"), "x").unwrap();
    }
    fs::copy(theirs.join(".git"), liar.join(".git")).unwrap();
    for folder in [&theirs, &plain, &liar] {
        place.moved_to(folder);
    }
    fs::write(theirs.join("new"), "x").unwrap();
    place.turn();
    assert_eq!(place.of_tree(&theirs).unwrap()["checkpoints"], 1);
    assert!(place.log().contains("which others have begun"), "{}", place.log());
    assert!(place.of_tree(&plain).is_none() && place.of_tree(&liar).is_none());
    let work = place.path("work");
    let status = String::from_utf8(place.scratch.run(&["status", "--workspace", work.to_str().unwrap()]).stdout).unwrap();
    let status = status.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(status.contains("The agent was also seen in") && status.contains(&*plain.to_string_lossy()), "{status}");
    // Inside of the workspace, and back in it, nothing is elsewhere.
    place.moved_to(&work);
    assert_eq!(place.own()["worked_in"].as_array().unwrap().len(), 3);
}

#[test]
fn many_trees_are_kept_up_to_a_bound_that_is_said() {
    let place = Place::new();
    let trees: Vec<PathBuf> = (0..10).map(|number| place.path(&format!("tree{number}"))).collect();
    for tree in &trees {
        let name = tree.file_name().unwrap().to_str().unwrap();
        place.git(&["worktree", "add", "-q", tree.to_str().unwrap(), "-b", name]);
        place.moved_to(tree);
    }
    fs::remove_dir_all(&trees[9]).unwrap();
    place.turn();
    let kept = trees.iter().filter(|tree| place.of_tree(tree).is_some()).count();
    assert_eq!(kept, 8, "{}", place.log());
    assert!(place.of_tree(&trees[0]).is_none() && place.of_tree(&trees[8]).is_some(), "those that were seen last");
    assert!(place.log().contains("keeps no more than 8"), "{}", place.log());
}

#[test]
fn a_tree_that_is_reviewed_like_its_session_is_scanned_and_follows_the_rules() {
    let place = Place::new();
    let config = "[capture]\nexclude = [\"left-out\"]\n[approval]\ndefault_policy = \"strict\"\n";
    write(&place.scratch.path("home/.config/parhelia/parhelia.toml"), config.as_bytes()).unwrap();
    let tree = place.path("tree");
    place.git(&["worktree", "add", "-q", tree.to_str().unwrap(), "-b", "tree"]);
    fs::write(tree.join("left-out"), "x").unwrap();
    let token = format!("ghp_{}", "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2");
    fs::write(tree.join("settings.py"), format!("TOKEN = \"{token}\"\n")).unwrap();
    place.moved_to(&tree);
    place.turn();
    let head = place.of_tree(&tree).unwrap()["head"].as_str().unwrap().to_owned();
    let listed = place.scratch.expect(0, &["checkpoint", "ls", &head]);
    assert!(listed.contains("settings.py") && !listed.contains("left-out"), "{listed}");
    let listed = place.objects(&["checkpoint", "list", "--json"], "checkpoint");
    let found = listed.iter().find(|checkpoint| checkpoint["id"] == *head).unwrap();
    assert_eq!(found["scan"]["found"], 1, "{found}");
    assert_eq!(found["approval"]["policy"], "strict", "{found}");
}
