//! Linear: links, workflow states and new issues.

use parhelia_tests::receiver::Answer;

use super::*;

#[test]
fn an_issue_goes_through_its_workflow() {
    let t = Tracked::with(LINEAR);
    t.lines.add("ENG-12");
    t.session("eng-12", 0);
    wait(|| (t.lines.issue("ENG-12").comments.len() == 2).then_some(()));
    t.settled();
    assert_eq!((t.lines.issue("ENG-12").state.as_str(), t.outbox()), ("s-review", Vec::new()));
    let workspace = t.workspace().to_string_lossy().into_owned();
    let session = t.events("checkpoint.created")[0]["session"].as_str().unwrap().to_owned();
    t.expect(0, &["checkpoint", "create", &session, "--workspace", &workspace, "--trigger", "complete"]);
    t.expect(0, &["session", "approve", &t.head()]);
    wait(|| (t.lines.issue("ENG-12").state == "s-done").then_some(()));
    t.settled();
    t.assert_no_secret();
}

#[test]
fn an_issue_whose_session_runs_is_in_progress() {
    let t = Tracked::with(LINEAR);
    t.lines.add("ENG-12");
    t.session("eng-12", 0);
    t.settled();
    let workspace = t.workspace().to_string_lossy().into_owned();
    let mut agent = t.command(&[
        "session",
        "run",
        "--workspace",
        &workspace,
        "--name",
        "eng-12",
        "--",
        "sh",
        "-c",
        "echo x > y; while ! test -e stop; do sleep 0.1; done",
    ]);
    let mut agent = agent.spawn().unwrap();
    let made = wait(|| t.events("run.started").last().filter(|_| t.events("run.started").len() == 2).cloned());
    let session = made["session"].as_str().unwrap().to_owned();
    t.expect(0, &["checkpoint", "create", &session, "--workspace", &workspace]);
    wait(|| (t.lines.issue("ENG-12").state == "s-progress").then_some(()));
    write(&t.workspace().join("stop"), b"").unwrap();
    assert!(agent.wait().unwrap().success());
}

#[test]
fn an_issue_is_created_once_whatever_is_lost() {
    let t = Tracked::with("");
    t.session("job", 1);
    t.configure(&LINEAR.replace("[integrations]", "[integrations.states]\nreview = \"Checking\"\n[integrations]"));
    t.lines.will_answer_after(Answer::Cut);
    let said = t.run(&["outbox", "deliver"]).1;
    assert!(said.contains("tracker:linear: the connection failed"), "{said}");
    t.expect(0, &["outbox", "retry", t.outbox()[0]["id"].as_str().unwrap()]);
    wait(|| t.outbox().is_empty().then_some(()));
    assert_eq!(t.lines.count(), 1);
    let linked = &t.events("checkpoint.linked")[0];
    assert_eq!(linked["data"]["url"], "https://linear.app/acme/issue/ENG-100", "{linked}");
    let limited =
        Answer::Status(400, String::new(), r#"{"errors":[{"message":"m","extensions":{"code":"RATELIMITED"}}]}"#.into());
    t.lines.receiver.will_answer_to("POST /graphql", limited);
    let head = t.head();
    t.expect(0, &["checkpoint", "link", &head, "https://linear.app/acme/issue/ENG-404/none"]);
    let waits = wait(|| t.outbox().into_iter().find(|one| one["attempts"] == 1));
    assert_eq!((&waits["has_failed"], waits["error"].as_str()), (&false.into(), Some("Linear says: m")), "{waits}");
    t.expect(0, &["outbox", "retry", waits["id"].as_str().unwrap()]);
    let failed = wait(|| t.outbox().into_iter().find(|one| one["has_failed"] == true));
    assert!(failed["error"].as_str().unwrap().contains("Entity not found"), "{failed}");
    t.assert_no_secret();
}

#[test]
fn a_team_may_be_named_by_its_id() {
    let t = Tracked::with("");
    t.session("job", 1);
    let id = "3f2b8c1e-0a4d-4c55-9a1e-6f0e2f6a7b11";
    t.configure(&LINEAR.replace("\"ENG\"", &format!("\"{id}\"")));
    t.expect(0, &["outbox", "deliver"]);
    wait(|| t.outbox().is_empty().then_some(()));
    assert_eq!(t.lines.count(), 1);
}
