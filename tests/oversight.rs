//! The whole flow of oversight with the real agent: two checkpoints wait, one of them because of its cost, it is rejected, the session goes on
//! from the approved one before it, and the audit has all of it.

use std::fs;

use parhelia_tests::{
    agent::{Reply, tool},
    live::{Live, shown},
};
use serde_json::{Value, json};

/// A turn in which the agent writes a file, and says something.
fn writes(live: &Live, name: &str, text: &str) -> [Reply; 2] {
    let path = live.agent.workspace().join(name).to_string_lossy().into_owned();
    [Reply::of([tool("Write", json!({ "file_path": path, "content": text }))]), Reply::text("Done.")]
}

fn statuses(live: &Live, session: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found = live.checkpoints(session);
    found.iter().map(|one| (text(&one["id"]), text(&one["approval"]["status"]))).collect()
}

#[test]
fn what_cost_too_much_is_rejected_and_the_session_goes_on_from_what_was_approved() {
    let Some(live) = Live::newer() else { return };
    live.api.then(writes(&live, "good.txt", "good\n"));
    let output = live.start("write something good").wait_with_output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    let session = live.session();
    let (good, status) = statuses(&live, &session).remove(0);
    assert_eq!(status, "pending", "its task is complete, which policy auto leaves to a person");

    // The next turn costs more than somebody allows.
    live.api.then(writes(&live, "bad.txt", "bad\n"));
    let limits = live.agent.folder().join("limits.toml");
    fs::write(&limits, "[approval.escalation]\ncost_threshold_usd = 0.000001\n").unwrap();
    let limited = |arguments: &[&str]| {
        let output = live.command(&[&["--config", limits.to_str().unwrap()], arguments].concat()).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", shown(&output));
        shown(&output)
    };
    limited(&["session", "resume", &session, "--prompt", "and now something bad"]);
    fs::write(live.agent.workspace().join("by-hand.txt"), "by hand\n").unwrap();
    limited(&["checkpoint", "create", &session, "--workspace", &live.agent.workspace().to_string_lossy()]);
    let (bad, status) = statuses(&live, &session).remove(0);
    assert_eq!(status, "pending", "a manual one is approved at once, but for its cost");
    let review = live.expect(&["session", "review", &session]);
    for part in ["pending review (cost ", "USD > 0.00)", bad.as_str(), "A bad.txt", "A good.txt"] {
        assert!(review.contains(part), "{part}: {review}");
    }

    live.expect(&["session", "approve", &good, "--reason", "read"]);
    let review = live.expect(&["session", "review", &session]);
    assert!(review.contains("A bad.txt") && !review.contains("A good.txt"), "since the approved one: {review}");
    let rejected = live.expect(&["session", "reject", &bad, "--reason", "bad.txt is not wanted"]);
    assert!(rejected.contains(&format!("--from {good}")), "{rejected}");
    let refused = live.run(&["session", "resume", &session, "--prompt", "go on"]);
    assert_eq!(refused.status.code(), Some(4), "{}", shown(&refused));

    live.api.then(writes(&live, "better.txt", "better\n"));
    let went_on = live.expect(&["session", "resume", &session, "--from", &good, "--yes", "--prompt", "do better"]);
    assert!(went_on.contains("Done."), "{went_on}");
    let is_there = |name: &str| live.agent.workspace().join(name).exists();
    assert!(is_there("good.txt") && is_there("better.txt") && !is_there("bad.txt") && !is_there("by-hand.txt"));
    let said = live.api.exchanges().last().unwrap().request["messages"].to_string();
    assert!(said.contains("write something good") && !said.contains("something bad"), "its conversation went back, too: {said}");

    let audit = live.objects(&["audit", "log", "--session", &session], "audit");
    let acts: Vec<_> = audit.iter().filter_map(|entry| entry["action"].as_str()).collect();
    let position = |act: &str| acts.iter().position(|known| *known == act).unwrap_or_else(|| panic!("{act}: {acts:?}"));
    assert!(position("checkpoint.request_review") < position("checkpoint.approve"));
    assert!(position("checkpoint.approve") < position("checkpoint.reject"));
    assert!(position("checkpoint.reject") < position("session.rollback"));
    let export = live.expect(&["audit", "export", "--format", "csv"]);
    assert!(export.contains("bad.txt is not wanted"), "{export}");
    assert!(live.expect(&["audit", "verify"]).contains("in one chain"));
}
