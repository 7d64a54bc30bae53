//! Approval by the real binary: policies, persons, agents that would decide for themselves, rejected checkpoints, the audit.

mod apart;
mod audited;
mod goodness;
mod signed;
mod washed;

use std::{fs, process::Stdio};

use parhelia_tests::{Scratch, user::User, write};
use serde_json::Value;

/// The user whom the kernel knows this process by.
fn user() -> String {
    let name = std::process::Command::new("id").arg("-un").output().unwrap().stdout;
    String::from_utf8(name).unwrap().trim().to_owned()
}

/// The lines of a verb's JSON before its summary.
fn lines(s: &Scratch, arguments: &[&str]) -> Vec<Value> {
    let text = s.expect(0, &[arguments, &["--json"]].concat());
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.filter(|line: &Value| line["type"] != "summary").collect()
}

/// A session in which a program did something, and its checkpoints, the oldest first.
fn session(s: &Scratch, flags: &[&str], script: &str) -> Vec<Value> {
    let work = s.path("work");
    fs::create_dir_all(&work).unwrap();
    fs::write(work.join("before"), "before\n").unwrap();
    let run = ["session", "run", "--name", "s", "-w", work.to_str().unwrap()];
    s.run(&[&run[..], flags, &["--", "sh", "-c", script]].concat());
    checkpoints(s)
}

/// Does something, and fails: the checkpoint at the end waits for a person.
const FAILS: &str = "echo done > file; exit 1";

fn checkpoints(s: &Scratch) -> Vec<Value> {
    let mut found = lines(s, &["list", "s"]);
    found.reverse();
    found
}

fn id(checkpoint: &Value) -> &str {
    checkpoint["id"].as_str().unwrap()
}

fn status(s: &Scratch, id: &str) -> String {
    lines(s, &["show", id])[0]["approval"]["status"].as_str().unwrap_or("none").to_owned()
}

fn acts(s: &Scratch, action: &str) -> Vec<Value> {
    lines(s, &["audit", "log", "--action", action])
}

#[test]
fn policies_decide_by_the_trigger_and_say_by_which_rule() {
    let s = Scratch::new();
    let made = session(&s, &[], FAILS);
    let last = made.last().unwrap();
    assert_eq!((&last["trigger"], &last["approval"]["status"]), (&"error".into(), &"pending".into()));
    assert_eq!((&last["approval"]["policy"], &last["approval"]["rule"]), (&"auto".into(), &"trigger error".into()));
    assert_eq!(last["approval"]["user"], Value::Null);
    fs::write(s.path("work/more"), "more\n").unwrap();
    let manual = s.create("s", &s.path("work"));
    assert_eq!(status(&s, &manual), "auto_approved");
    // A folder that no agent works in has nobody's work to approve.
    fs::create_dir(s.path("plain")).unwrap();
    let plain = s.create("plain", &s.path("plain"));
    assert_eq!(status(&s, &plain), "none");
    let policies = acts(&s, "policy.change");
    assert_eq!((policies.len(), &policies[0]["subject"]), (1, &"auto".into()));
    // Other rules decide from here on, and change nothing that was decided.
    fs::write(s.path("work/other"), "other\n").unwrap();
    fs::write(s.path("own.toml"), "[approval.escalation]\ncost_threshold_usd = 9.0\n").unwrap();
    s.expect(0, &["--config", s.path("own.toml").to_str().unwrap(), "create", "s", "-w", s.path("work").to_str().unwrap(), "-q"]);
    let changed = acts(&s, "policy.change");
    assert_eq!(changed[1]["data"]["rules"]["escalation"]["cost_threshold_usd"], 9.0, "{changed:?}");
    assert_ne!(changed[1]["data"]["definition"], policies[0]["data"]["definition"]);
    assert_eq!((status(&s, &manual), status(&s, id(last))), ("auto_approved".into(), "pending".into()));
    assert!(policies[0]["data"]["rules"]["escalation"]["cost_threshold_usd"].is_number());
    assert!(acts(&s, "checkpoint.auto_approve").iter().any(|entry| entry["subject"] == manual.as_str()));
    let listed = s.expect(0, &["audit", "log"]);
    assert!(!listed.contains("auto_approve") && listed.contains("checkpoint.request_review"), "{listed}");
}

#[test]
fn a_session_chooses_its_policy_and_an_unknown_one_is_refused_before_anything_starts() {
    let s = Scratch::new();
    let strict = session(&s, &["--policy", "strict"], "true");
    assert!(strict.iter().all(|checkpoint| checkpoint["approval"]["status"] == "pending"), "{strict:?}");
    let work = s.path("work");
    let run = ["session", "run", "-w", work.to_str().unwrap(), "--policy", "lax", "--", "touch", "started"];
    let refused = s.run(&run);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text.contains("no policy 'lax'") && text.contains("auto, review, strict"), "{text}");
    assert!(!work.join("started").exists());
}

#[test]
fn limits_and_paths_of_the_configuration_ask_for_a_person_until_one_has_looked() {
    let s = Scratch::new();
    let config = s.path("own.toml");
    let text = "[approval.policies.mine]\nauto_approve = [\"manual\", \"shutdown\", \"periodic\"]\n\n[approval]\ndefault_policy = \"mine\"\n\
                escalation.paths = [\"**/migrations/**\"]\n";
    fs::write(&config, text).unwrap();
    let with = |arguments: &[&str]| s.expect(0, &[&["--config", config.to_str().unwrap()], arguments].concat());
    let work = s.path("work");
    fs::create_dir_all(work.join("db/migrations")).unwrap();
    with(&["session", "run", "--name", "s", "-w", work.to_str().unwrap(), "--", "sh", "-c", "echo 1 > file"]);
    assert_eq!(checkpoints(&s).last().unwrap()["approval"]["status"], "auto_approved");
    let create = |name: &str| {
        fs::write(work.join(name), "content\n").unwrap();
        with(&["create", "s", "-w", work.to_str().unwrap(), "-q"]);
        checkpoints(&s).pop().unwrap()
    };
    let touched = create("db/migrations/1.sql");
    assert_eq!(touched["approval"]["rule"], "path db/migrations/1.sql matches **/migrations/**");
    // The next one has the migration as well.
    let next = create("other");
    assert_eq!(next["approval"]["status"], "pending", "{next}");
    s.expect(0, &["session", "approve", id(&next)]);
    assert_eq!(create("more")["approval"]["status"], "auto_approved");
}

#[test]
fn a_person_is_who_the_kernel_says() {
    let s = Scratch::new();
    let made = session(&s, &[], FAILS);
    let last = id(made.last().unwrap());
    let mut command = s.command(&["session", "approve", last, "--reason", "looks good"]);
    assert!(command.env("USER", "mallory").env("LOGNAME", "mallory").status().unwrap().success());
    let shown = &lines(&s, &["show", last])[0]["approval"];
    assert_eq!((shown["status"].as_str(), shown["user"].as_str()), (Some("approved"), Some(user().as_str())));
    assert_eq!((shown["reason"].as_str(), shown["policy"].as_str()), (Some("looks good"), Some("auto")));
    let entry = &acts(&s, "checkpoint.approve")[0];
    assert_eq!((entry["user"].as_str(), entry["via"].as_str()), (Some(user().as_str()), Some("cli")));
    assert!(entry["uid"].is_u64());
}

#[test]
fn the_first_decision_holds_and_the_second_is_told() {
    let s = Scratch::new();
    let made = session(&s, &[], FAILS);
    let last = id(made.last().unwrap());
    s.expect(0, &["session", "approve", last]);
    let again = s.expect(0, &["session", "approve", last]);
    assert!(again.contains("was approved before"), "{again}");
    assert_eq!(acts(&s, "checkpoint.approve").len(), 1);
    let refused = s.run(&["session", "reject", last, "--reason", "no"]);
    let text = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(4), "{text}");
    assert!(text.contains("was approved by") && text.contains("--change"), "{text}");
    assert_eq!((status(&s, last).as_str(), acts(&s, "checkpoint.reject_refused").len()), ("approved", 1));
    s.expect(0, &["session", "reject", last, "--change"]);
    assert_eq!(status(&s, last), "rejected");
}

#[test]
fn of_two_at_once_one_holds_and_both_are_recorded() {
    let s = Scratch::new();
    let made = session(&s, &[], FAILS);
    let last = id(made.last().unwrap());
    let start = |verb| s.command(&["session", verb, last]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let codes: Vec<_> = [start("approve"), start("reject")].into_iter().map(|mut child| child.wait().unwrap().code()).collect();
    let (holds, refused) = match codes[..] {
        [Some(0), Some(4)] => ("approved", "checkpoint.reject_refused"),
        [Some(4), Some(0)] => ("rejected", "checkpoint.approve_refused"),
        _ => panic!("{codes:?}"),
    };
    assert_eq!((status(&s, last).as_str(), acts(&s, refused).len()), (holds, 1));
}

#[test]
fn what_runs_inside_an_agent_does_not_decide_about_its_work() {
    let s = Scratch::new();
    let binary = parhelia_tests::binary();
    let tries = format!(
        "{0} create s -w . -q; {0} session approve s@latest; echo $? > code; env -i PARHELIA_STORE=\"$PARHELIA_STORE\" {0} session approve s@latest; \
         echo $? > bare",
        binary.display()
    );
    session(&s, &[], &tries);
    let code = |name: &str| fs::read_to_string(s.path("work").join(name)).unwrap();
    assert_eq!((code("code").trim(), code("bare").trim()), ("4", "4"));
    let attempts = acts(&s, "checkpoint.approve_refused");
    assert_eq!(attempts.len(), 2, "{attempts:?}");
    assert!(
        attempts
            .iter()
            .all(|attempt| attempt["via"] == "agent" && attempt["rule"].as_str().unwrap().contains("agent whose work"))
    );
    assert!(acts(&s, "checkpoint.approve").iter().all(|entry| entry["action"] == "checkpoint.approve_refused"));
}

#[test]
fn a_policy_may_let_an_agent_decide() {
    let (other, s) = (Scratch::new(), Scratch::new());
    let binary = parhelia_tests::binary();
    let allows = "[approval]\nself_approval = true\n";
    write(&other.path("another.toml"), allows.as_bytes()).unwrap();
    let script =
        |flags: &str| format!("{0} create s -w . -q; {0} {flags} session approve s@latest; echo $? > code", binary.display());
    // Its user does, and no file that the agent names.
    session(&other, &[], &script(&format!("--config {}", other.path("another.toml").display())));
    assert_eq!(fs::read_to_string(other.path("work/code")).unwrap().trim(), "4");
    write(&s.path("home/.config/parhelia/parhelia.toml"), allows.as_bytes()).unwrap();
    session(&s, &[], &script(""));
    assert_eq!(fs::read_to_string(s.path("work/code")).unwrap().trim(), "0");
    let approved = &acts(&s, "checkpoint.approve")[0];
    assert_eq!(approved["via"], "agent");
    // It does not read as that person's own word.
    let shown = s.expect(0, &["show", approved["subject"].as_str().unwrap()]);
    assert!(shown.contains("approved by an agent for "), "{shown}");
}

#[test]
fn nothing_goes_on_from_what_was_rejected_and_what_waits_is_said() {
    let s = Scratch::new();
    let made = session(&s, &[], FAILS);
    let (work, away) = (s.path("work"), s.path("away"));
    let preferred = |s: &Scratch, which: &str| {
        // What a checkpoint brings back is asked, as where the machine was lost.
        fs::rename(&work, &away).unwrap();
        let mut command = s.command(&["session", "recover", "s", "--json"]);
        let said = command.env("PARHELIA_RESUME_PREFER", which).output().unwrap();
        fs::rename(&away, &work).unwrap();
        let lines = String::from_utf8(said.stdout).unwrap();
        let mut lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.find(|line| line["type"] == "recovery").unwrap()
    };
    let recovery = |s: &Scratch| preferred(s, "auto_approved");
    let here = |s: &Scratch| s.run(&["session", "recover", "s", "--json"]);
    let (first, last) = (id(&made[0]), id(made.last().unwrap()));
    assert_eq!(preferred(&s, "approved")["from"], first);
    assert_eq!(preferred(&s, "newest")["from"], last);
    let kept = String::from_utf8(here(&s).stdout).unwrap();
    assert!(kept.contains(&format!("\"from\":\"{last}\"")), "a workspace that is there goes on as it is: {kept}");
    let found = recovery(&s);
    assert_eq!(found["from"], first, "{found}");
    assert!(
        found["skipped"][0]["reason"].as_str().unwrap().contains("waits for a review (trigger error); name it with --from"),
        "{found}"
    );
    s.expect(0, &["session", "approve", last]);
    assert_eq!(recovery(&s)["from"], last);
    assert_eq!(preferred(&s, "approved")["from"], last);
    let rejected = s.summary(&["session", "reject", last, "--change"]);
    assert_eq!(rejected["previous_approved"], first);
    let text = s.expect(0, &["session", "reject", last]);
    assert!(text.contains(&format!("--from {first}")), "{text}");
    assert!(text.contains("session end"), "{text}");
    let found = recovery(&s);
    assert!(found["skipped"][0]["reason"].as_str().unwrap().contains("was rejected"), "{found}");
    for more in [&["--from", last][..], &[]] {
        let refused = s.expect(4, &[&["session", "resume", "s", "--yes"][..], more].concat());
        assert!(refused.contains("was rejected by"), "{refused}");
    }
    let refused = here(&s);
    assert_eq!(refused.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("puts the workspace back"), "{refused:?}");
    // What comes next has the rejected work in it.
    fs::write(s.path("work/next"), "next\n").unwrap();
    let next = s.create("s", &s.path("work"));
    let approval = lines(&s, &["show", &next])[0]["approval"].clone();
    assert_eq!(approval["rule"], format!("builds on {last}, which was rejected"), "{approval}");
}

#[test]
fn decisions_about_what_is_not_there_are_errors() {
    let s = Scratch::new();
    let made = session(&s, &[], FAILS);
    let last = id(made.last().unwrap());
    fs::write(s.path("work/next"), "next\n").unwrap();
    s.create("s", &s.path("work"));
    s.expect(0, &["delete", "--protected", last]);
    let deleted = s.run(&["session", "approve", last]);
    let text = String::from_utf8_lossy(&deleted.stderr);
    assert_eq!(deleted.status.code(), Some(10), "{text}");
    assert!(text.contains("was deleted by"), "{text}");
    assert_eq!(s.run(&["session", "approve", "01ARZ3NDEKTSV4RRFFQ69G5FAV"]).status.code(), Some(10));
    assert_eq!(s.run(&["session", "approve", "s@latest", "--reason", ""]).status.code(), Some(2));
    assert_eq!(s.run(&["session", "approve", "s@latest", "--reason", "a\x1b[2Jb"]).status.code(), Some(2));
}

/// The project's own file, which the agent wrote, leaves out what it did.
#[test]
fn a_review_begins_with_what_rules_leave_out_and_with_new_rules() {
    let s = Scratch::new();
    let made = session(&s, &[], FAILS);
    let review = |s: &Scratch| s.expect(0, &["session", "review", "s", "--print"]);
    assert!(!review(&s).contains("leave out"), "{}", review(&s));
    s.expect(0, &["session", "approve", id(made.last().unwrap())]);
    let work = s.path("work");
    fs::write(work.join("parhelia.toml"), "[capture]\nexclude = [\"*.py\", \"parhelia.toml\"]\n").unwrap();
    fs::write(work.join("evil.py"), "evil\n").unwrap();
    fs::create_dir(work.join("cache")).unwrap();
    fs::write(work.join("cache/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55").unwrap();
    let create = |s: &Scratch| {
        let made = s.summary(&["checkpoint", "create", "s", "--workspace", work.to_str().unwrap()]);
        made["id"].as_str().unwrap().to_owned()
    };
    let next = create(&s);
    let text = review(&s);
    let first: Vec<&str> = text.lines().take(5).collect();
    let expected = [
        "Not in this review: 3 entries that rules leave out",
        "  CACHEDIR.TAG: 1 entry (cache)",
        "  pattern *.py: 1 entry (evil.py)",
        "  pattern parhelia.toml: 1 entry (parhelia.toml)",
        "New rules since a person approved: pattern *.py, pattern parhelia.toml",
    ];
    assert_eq!(first, expected, "{text}");
    assert!(text.contains("No changes in what the checkpoint has"), "{text}");
    let told = lines(&s, &["session", "review", "s"]).pop().unwrap();
    assert_eq!((&told["unseen"]["by_rule"][1]["paths"][0], &told["unseen"]["by_rule"][1]["new"]), (&"evil.py".into(), &1.into()));
    assert!(s.expect(0, &["show", &next]).starts_with("Left out by CACHEDIR.TAG: 1 entry (cache)\n"));
    // With the approval, the rules are known; what they leave out is still told.
    s.expect(0, &["session", "approve", &next]);
    let text = review(&s);
    assert!(
        text.contains("pattern *.py: 1 entry (evil.py)") && !text.contains("New rules") && !text.contains("To decide:"),
        "{text}"
    );
    assert!(text.contains(&format!("session reject {next} --change")), "{text}");
    fs::write(work.join("more.py"), "more\n").unwrap();
    create(&s);
    let text = review(&s);
    assert!(text.contains("pattern *.py: 2 entries (more.py, evil.py; 1 new)") && !text.contains("New rules"), "{text}");
}

#[test]
fn a_review_shows_what_was_done_since_a_person_approved() {
    let s = Scratch::new();
    let made = session(&s, &[], FAILS);
    let (first, last) = (id(&made[0]), id(made.last().unwrap()));
    let text = s.expect(0, &["session", "review", "s"]);
    for part in
        ["pending review (trigger error)", "nobody approved an earlier one", "A file", "+1", &format!("session approve {last}")]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains("To decide:"), "{text}");
    let review = |s: &Scratch| lines(s, &["session", "review", "s"]).pop().unwrap();
    let found = review(&s);
    assert_eq!((found["since"].as_str(), found["since_approved"].as_bool()), (Some(first), Some(false)));
    assert_eq!((&found["waiting"][0], &found["errors"]), (&last.into(), &1.into()));
    s.expect(0, &["session", "approve", last]);
    fs::write(s.path("work/next"), "next\n").unwrap();
    let next = s.create("s", &s.path("work"));
    let found = review(&s);
    assert_eq!((found["since"].as_str(), found["checkpoint"].as_str()), (Some(last), Some(next.as_str())));
    assert!(found["since_approved"].as_bool().unwrap() && found["waiting"].as_array().unwrap().is_empty());
    let changed: Vec<Value> =
        lines(&s, &["session", "review", "s"]).into_iter().filter(|line| line["type"] == "change").collect();
    assert_eq!((changed.len(), &changed[0]["path"]), (1, &"next".into()));
    assert_eq!(s.run(&["session", "review", "nobody"]).status.code(), Some(10));
}

#[test]
fn of_two_users_of_a_store_each_decides_in_their_own_name() {
    let s = Scratch::new();
    let made = session(&s, &[], FAILS);
    let (first, last) = (id(&made[0]).to_owned(), id(made.last().unwrap()).to_owned());
    let other = User::owning(&s, &[&s.path("")]);
    other.expect(&["session", "approve", &last, "--reason", "by the other"]);
    let refused = s.expect(4, &["session", "reject", &last]);
    assert!(refused.contains("was approved by nobody"), "{refused}");
    s.expect(0, &["session", "approve", &first]);
    other.expect(&["session", "reject", &first, "--change"]);
    let found = acts(&s, "checkpoint.");
    let decided = found.iter().filter(|entry| !entry["user"].is_null());
    let decided: Vec<_> = decided.map(|entry| (entry["user"].as_str().unwrap(), entry["action"].as_str().unwrap())).collect();
    let root = user();
    assert_eq!(
        decided,
        [
            ("nobody", "checkpoint.approve"),
            (root.as_str(), "checkpoint.reject_refused"),
            (root.as_str(), "checkpoint.approve"),
            ("nobody", "checkpoint.reject")
        ]
    );
    other.expect(&["audit", "verify"]);
}
