//! Trackers that are down, refuse, or answer nothing after they did what was asked.

use parhelia_tests::receiver::Answer;

use super::*;

/// A session whose events are to be delivered, by `outbox deliver` alone: the trackers were configured after it.
fn waiting(name: &str, code: i32) -> Tracked {
    let t = Tracked::with("");
    t.session(name, code);
    t.configure(GITHUB);
    t
}

/// Delivers what is due, also what waits for another try. Returns what was said.
fn deliver(t: &Tracked) -> String {
    let state = t.scratch.store().join("outbox/deliveries");
    for entry in fs::read_dir(&state).into_iter().flatten().flatten() {
        let mut delivery: Value = serde_json::from_slice(&fs::read(entry.path()).unwrap()).unwrap();
        delivery["not_before"] = delivery["since"].clone();
        write(&entry.path(), delivery.to_string().as_bytes()).unwrap();
    }
    t.run(&["outbox", "deliver"]).1
}

#[test]
fn what_a_tracker_does_not_take_is_tried_again_and_done_once() {
    let t = waiting("job", 1);
    let list = "GET /repos/o/r/issues?";
    for (answer, why) in [
        (Answer::status(500), "status 500"),
        (Answer::Status(429, "Retry-After: 1\r\n".into(), String::new()), "status 429"),
        (Answer::Status(403, "x-ratelimit-remaining: 0\r\nx-ratelimit-reset: 1\r\n".into(), String::new()), "too many requests"),
        (Answer::Status(403, String::new(), "You have exceeded a secondary rate limit".into()), "too many requests"),
        (Answer::Status(200, String::new(), "<html>".into()), "not what GitHub answers"),
        (Answer::Cut, "connection"),
    ] {
        t.hub.receiver.will_answer_to(list, answer);
        let said = deliver(&t);
        assert!(said.contains(why), "{why}: {said}");
        assert!(t.outbox().iter().all(|one| one["has_failed"] == false), "{said}");
    }
    // It was created, and the answer got lost.
    t.hub.will_answer_after(Answer::Cut);
    deliver(&t);
    assert_eq!((t.hub.count(), t.outbox().len()), (1, 1));
    deliver(&t);
    assert_eq!((t.hub.count(), t.outbox()), (1, Vec::new()));
    assert_eq!(t.events("checkpoint.linked").len(), 1);
    t.assert_no_secret();
}

#[test]
fn what_is_refused_for_good_names_the_next_step() {
    for (answer, why) in [
        (Answer::status(404), "does not see it"),
        (Answer::status(403), "write access"),
        (Answer::status(401), "set a new one"),
        (Answer::status(422), "does not take it"),
        (Answer::status(301), "status 301"),
    ] {
        let t = waiting("job", 1);
        t.hub.receiver.will_answer_to("GET ", answer);
        let said = deliver(&t);
        assert!(said.contains(why) && said.contains("tracker:github"), "{why}: {said}");
        assert_eq!(t.outbox()[0]["has_failed"], true);
        assert!(deliver(&t).contains("1") || t.hub.count() == 0, "it is not tried by itself");
        t.expect(0, &["outbox", "retry"]);
        wait(|| (t.hub.count() == 1).then_some(()));
    }
}

#[test]
fn a_process_that_is_killed_after_it_has_sent_does_not_send_again() {
    let t = waiting("job-8", 0);
    t.hub.add("o/r#8");
    t.hub.will_answer_after(Answer::Silence);
    let mut delivering = t.command(&["outbox", "deliver"]).spawn().unwrap();
    wait(|| (!t.hub.issue("o/r#8").comments.is_empty()).then_some(()));
    delivering.kill().unwrap();
    delivering.wait().unwrap();
    assert!(t.outbox().iter().any(|one| one["attempts"] == 0), "nothing was noted");
    deliver(&t);
    t.settled();
    let comments = t.hub.issue("o/r#8").comments;
    assert_eq!((comments.len(), t.outbox()), (2, Vec::new()), "the end and the link, each once: {comments:?}");
    assert_ne!(comments[0], comments[1]);
}

#[test]
fn secrets_come_from_variables_and_files_alone() {
    let t = waiting("job", 1);
    for (field, why) in [("token = \"ghp_very-secret\"", "${NAME}"), ("token = \"ghp_x${GITHUB_TOKEN}\"", "${NAME}")] {
        t.configure(&GITHUB.replace("token = \"${GITHUB_TOKEN}\"", field));
        let (code, said) = t.run(&["outbox", "deliver"]);
        assert!(code == Some(2) && said.contains(why) && said.contains("parhelia.toml:"), "{said}");
    }
    t.configure(&GITHUB.replace("${GITHUB_TOKEN}", "${NOT_SET}"));
    assert!(t.run(&["outbox", "deliver"]).1.contains("variable NOT_SET is not set"));
    let file = t.scratch.path("token");
    t.configure(&GITHUB.replace("token = \"${GITHUB_TOKEN}\"", &format!("token_file = {file:?}")));
    assert!(deliver(&t).contains("cannot read"));
    write(&file, format!("{}\n", SECRETS[0]).as_bytes()).unwrap();
    deliver(&t);
    assert_eq!(t.hub.count(), 1);
    t.assert_no_secret();
    // A project does not say where data goes.
    write(&t.workspace().join("parhelia.toml"), GITHUB.as_bytes()).unwrap();
    let workspace = t.workspace().to_string_lossy().into_owned();
    let (code, said) = t.run(&["session", "run", "--workspace", &workspace, "--", "true"]);
    assert!(code == Some(0) && said.contains("cannot be set by a project"), "{said}");
    assert_eq!(t.hub.count(), 1);
}

#[test]
fn without_trackers_there_is_no_outbox() {
    let t = Tracked::with("");
    t.session("fix-auth-123", 1);
    assert!(!t.scratch.store().join("outbox").exists());
    assert_eq!((t.hub.receiver.requests().len(), t.events("checkpoint.linked").len()), (0, 0));
}
