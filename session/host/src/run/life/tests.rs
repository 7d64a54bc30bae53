use serde_json::{Value, json};

use super::*;
use parhelia_agent::process::pid_namespace;

/// A run with a lease that holds.
fn run(fields: Value) -> Run {
    let mut run = json!({
        "id": "r", "session": "s", "epoch": 1, "started_at": "2026-01-01T00:00:00Z", "host": host_name(), "boot_id": boot_id().unwrap(),
        "lease": { "holder": "h/1", "renewed": clock::timestamp().to_string(), "ttl_seconds": 3600 },
    });
    run.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    serde_json::from_value(run).unwrap()
}

fn is_elsewhere(fields: Value) -> bool {
    matches!(life(&run(fields)), Life::Elsewhere { .. })
}

#[test]
fn this_machine_is_a_boot_and_a_namespace_not_a_name() {
    let namespace = pid_namespace().unwrap();
    assert!(is_elsewhere(json!({ "pid_namespace": "pid:[1]" })), "a container of the same name");
    assert!(is_elsewhere(json!({ "pid_namespace": namespace, "boot_id": "another" })), "another machine of the same name");
    let renamed = json!({ "pid_namespace": namespace, "host": "renamed" });
    assert_eq!(life(&run(renamed)), Life::Over, "its processes can be looked at, and are none");
    let over = json!({ "holder": "h/1", "renewed": "2020-01-01T00:00:00Z", "ttl_seconds": 1 });
    assert_eq!(life(&run(json!({ "pid_namespace": "pid:[1]", "lease": over }))), Life::Over);
    // After a reboot nobody waits for a lease, where it is known that it was one.
    let rebooted = json!({ "pid_namespace": namespace, "boot_id": "another", "machine": machine() });
    assert_eq!(is_elsewhere(rebooted), machine().is_none());
    assert!(is_elsewhere(json!({ "pid_namespace": namespace, "boot_id": "another", "machine": "another" })));
    let me = Identity::of(std::process::id() as i32).unwrap();
    let live = json!({ "pid_namespace": namespace, "host": "renamed", "pid": me.process, "start_time": me.start_time });
    assert_eq!(life(&run(live)), Life::Agent(me));
}

#[test]
fn a_lease_of_a_clock_that_was_ahead_does_not_keep_a_run_alive() {
    let renewed = |ahead: i64, ttl: i64| {
        let at = clock::timestamp().checked_add(jiff::SignedDuration::from_secs(ahead)).unwrap();
        json!({ "pid_namespace": "pid:[1]", "lease": { "holder": "h/1", "renewed": at.to_string(), "ttl_seconds": ttl } })
    };
    assert!(is_elsewhere(renewed(60, 180)), "clocks of two machines differ");
    for (ahead, ttl) in [(3 * 86_400, 180), (240, 180), (10 * 86_400, 3600)] {
        let run = run(renewed(ahead, ttl));
        assert_eq!(life(&run), Life::Over);
        assert!(why_unheard(&run).unwrap().contains("in the future; the clocks differ"), "{:?}", why_unheard(&run));
    }
}

#[test]
fn a_run_that_was_not_heard_of_is_not_said_to_have_been_looked_at() {
    let over = json!({ "holder": "h/1", "renewed": "2020-01-01T00:00:00.123Z", "ttl_seconds": 1 });
    let unheard = run(json!({ "pid_namespace": "pid:[1]", "lease": over }));
    let why = why_unheard(&unheard).unwrap();
    assert!(why.starts_with("its lease has run out: nothing was heard of it from "), "{why}");
    assert!(why.ends_with(" since 2020-01-01T00:00:00Z"), "{why}");
    assert!(why_unheard(&run(json!({ "pid_namespace": "pid:[1]", "lease": null }))).unwrap().contains("no lease"));
    assert_eq!(why_unheard(&run(json!({ "pid_namespace": pid_namespace().unwrap() }))), None);
    assert_eq!(why_unheard(&run(json!({ "pid_namespace": "pid:[1]", "ended_at": "2026-01-01T00:00:00Z" }))), None);
}

#[test]
fn runs_of_earlier_releases_are_known_by_the_name() {
    assert!(is_elsewhere(json!({ "host": "another" })));
    assert_eq!(life(&run(json!({ "boot_id": "another" }))), Life::Over);
    let me = Identity::of(std::process::id() as i32).unwrap();
    assert!(life(&run(json!({ "pid": me.process, "start_time": me.start_time }))).is_alive());
}

#[test]
fn a_run_in_a_container_is_silent_once_its_lease_has_run_out() {
    let over = json!({ "holder": "h/1", "renewed": "2020-01-01T00:00:00Z", "ttl_seconds": 1 });
    assert!(is_silent(&run(json!({ "pid_namespace": "pid:[1]", "lease": over }))));
    assert!(!is_silent(&run(json!({ "pid_namespace": "pid:[1]" }))), "its lease holds");
    // Whoever it has started may sit in a container by now.
    assert!(!is_silent(&run(json!({ "pid_namespace": "pid:[4026531836]", "lease": over }))));
    let ahead = json!({ "holder": "h/1", "renewed": "2999-01-01T00:00:00Z", "ttl_seconds": 1 });
    assert!(!is_silent(&run(json!({ "pid_namespace": "pid:[1]", "lease": ahead }))));
}

#[test]
fn a_run_of_which_no_process_was_recorded_is_not_known_to_be_dead() {
    let namespace = pid_namespace().unwrap();
    let told = run(json!({ "pid_namespace": namespace }));
    let why = why_unknown(&told).unwrap();
    assert!(why.contains("its process is not known; it was last heard of at "), "{why}");
    for known in [
        json!({ "pid_namespace": namespace, "pid": i32::MAX, "start_time": 7 }),
        json!({ "pid_namespace": namespace, "boot_id": "another", "machine": machine() }),
        json!({ "pid_namespace": "pid:[1]" }),
        json!({ "pid_namespace": namespace, "ended_at": "2026-01-01T00:00:00Z" }),
    ] {
        assert_eq!(why_unknown(&run(known.clone())), None, "{known}");
    }
}
