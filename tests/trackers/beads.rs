//! Beads: a stand-in for `bd`, which keeps its issues in files.

use parhelia_tests::write_program;

use super::*;

/// Notes its arguments and its environment, and keeps status and notes of an issue in `.beads/ID.status` and `.beads/ID.notes`.
const BD: &str = r#"#!/bin/sh
printf '%s\n' "$*" >> .beads/calls
env >> .beads/environment
show() {
    notes=$(cat ".beads/$1.notes" 2>/dev/null | tr '\n' ' ' | sed 's/["\\]//g')
    printf '[{"id":"%s","status":"%s","notes":"%s"}]\n' "$1" "$(cat ".beads/$1.status")" "$notes"
}
case "$1" in
show) test -e ".beads/$2.status" || { echo "no issue found matching $2" >&2; exit 1; }; show "$2";;
list) case "$*" in
    *in_progress*) grep -l in_progress .beads/*.status 2>/dev/null | sed 's|.beads/\(.*\).status|{"id":"\1"}|' | paste -sd, | sed 's/.*/[&]/';;
    *) echo '[]';;
    esac;;
update) for word in "$@"; do case "$word" in
    --append-notes=*) printf '%s\n' "${word#--append-notes=}" >> ".beads/$2.notes"; show "$2";;
    --status=*) echo "${word#--status=}" > ".beads/$2.status"; show "$2";;
    esac; done;;
close) echo closed > ".beads/$2.status"; show "$2";;
create) echo open > .beads/bd-new1.status; echo '{"id":"bd-new1","status":"open"}';;
esac
"#;

fn tracked(config: &str) -> Tracked {
    let t = Tracked::with(config);
    write_program(&t.scratch.path("bin/bd"), BD);
    t
}

impl Tracked {
    fn bead(&self, name: &str) -> String {
        fs::read_to_string(self.workspace().join(".beads").join(name)).unwrap_or_default().trim().to_owned()
    }

    fn set_bead(&self, id: &str, status: &str) {
        write(&self.workspace().join(format!(".beads/{id}.status")), status.as_bytes()).unwrap();
    }
}

#[test]
fn beads_is_on_by_itself_and_its_issues_follow_the_session() {
    let t = tracked("");
    t.set_bead("bd-a1b2", "in_progress");
    t.set_bead("bd-zzz", "open");
    t.session("work", 1);
    wait(|| (t.bead("bd-a1b2.status") == "blocked").then_some(()));
    t.settled();
    let linked = t.events("checkpoint.linked");
    assert_eq!((linked.len(), linked[0]["data"]["id"].as_str()), (1, Some("bd-a1b2")), "{linked:?}");
    let notes = t.bead("bd-a1b2.notes");
    assert!(notes.contains(linked[0]["subject"].as_str().unwrap()) && notes.contains("exit code 1"), "{notes}");
    assert_eq!((t.bead("bd-zzz.status").as_str(), t.bead("bd-new1.status").as_str()), ("open", ""));
    let workspace = t.workspace().to_string_lossy().into_owned();
    let session = linked[0]["session"].as_str().unwrap();
    t.expect(0, &["checkpoint", "create", session, "--workspace", &workspace, "--trigger", "complete"]);
    t.expect(0, &["session", "approve", &t.head()]);
    wait(|| (t.bead("bd-a1b2.status") == "closed").then_some(()));
    t.settled();
    assert_eq!(t.outbox(), Vec::<Value>::new());
    let environment = t.bead("environment");
    assert!(!SECRETS.iter().any(|secret| environment.contains(secret)) && environment.contains("BD_ACTOR=parhelia"));
    t.assert_no_secret();
}

#[test]
fn nothing_is_run_without_a_folder_or_where_it_is_off() {
    let t = tracked("");
    t.session("work", 1);
    t.expect(0, &["outbox", "deliver"]);
    assert!(!t.scratch.store().join("outbox").exists());
    let t = tracked("[integrations.beads]\nenabled = false\n");
    t.set_bead("bd-a1b2", "in_progress");
    t.session("work", 1);
    t.expect(0, &["outbox", "deliver"]);
    assert_eq!(t.bead("calls"), "");
    // A program that lies in the workspace is the agent's.
    let t = Tracked::with("");
    t.set_bead("bd-a1b2", "in_progress");
    write_program(&t.workspace().join("bd"), BD);
    let path = format!("{}:{}", t.workspace().display(), std::env::var("PATH").unwrap());
    let workspace = t.workspace().to_string_lossy().into_owned();
    let arguments = ["session", "run", "--workspace", &workspace, "--", "sh", "-c", "echo x > y"];
    assert!(t.command(&arguments).env("PATH", &path).output().unwrap().status.success());
    assert!(t.command(&["outbox", "deliver"]).env("PATH", &path).output().unwrap().status.success());
    assert_eq!(t.bead("calls"), "");
}

#[test]
fn notes_are_added_once_and_an_issue_is_created_where_a_project_asks_for_it() {
    let t = tracked("");
    let folder = t.workspace().canonicalize().unwrap();
    t.configure(&format!("[integrations.projects.{folder:?}]\non_error = \"create\"\n"));
    fs::create_dir_all(t.workspace().join(".beads")).unwrap();
    t.session("work; touch x", 1);
    wait(|| (t.bead("bd-new1.status") == "open").then_some(()));
    t.settled();
    let linked = t.events("checkpoint.linked");
    assert_eq!((linked.len(), linked[0]["data"]["url"].as_str()), (1, Some("beads:bd-new1")), "{linked:?}");
    let head = t.head();
    t.set_bead("bd-other1", "open");
    t.expect(0, &["checkpoint", "link", &head, "bd-other1"]);
    wait(|| (!t.bead("bd-other1.notes").is_empty()).then_some(()));
    t.settled();
    assert_eq!(t.bead("bd-other1.notes").matches("[parhelia:").count(), 1);
}
