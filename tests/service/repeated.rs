//! Requests with a key, over restarts of the service.

use super::*;

fn post(s: &Service, key: &str, path: &str, body: &Value) -> Answer {
    let body = body.to_string();
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json");
    exchange(&s.socket(), &format!("{head}\r\nIdempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
}

#[test]
fn a_request_that_is_sent_again_to_a_later_service_is_done_once() {
    let mut s = Service::new();
    let ids = s.checkpoints();
    let path = format!("/v1/checkpoints/{}/annotations", ids[0]);
    let first = post(&s, "a", &path, &json!({"text": "once"}));
    let file = s.scratch.store().join("service.requests");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    for signal in [Signal::TERM, Signal::KILL] {
        s.signal(signal);
        s.start();
        let again = post(&s, "a", &path, &json!({"text": "once"}));
        assert_eq!((first.status, again.status, &first.body), (200, 200, &again.body));
        assert!(again.head.contains("idempotent-replayed: true") && again.head.contains("application/json"), "{}", again.head);
        assert_eq!(post(&s, "a", &path, &json!({"text": "other"})).expect(422)["title"], "usage");
    }
    // What a crash has left of a line is no answer, and in the way of none.
    s.signal(Signal::TERM);
    fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(b"0123456789abcdef {\"name\":").unwrap();
    s.start();
    post(&s, "b", &path, &json!({"text": "second"})).expect(200);
    s.signal(Signal::TERM);
    s.start();
    for (key, text) in [("a", "once"), ("b", "second")] {
        assert!(post(&s, key, &path, &json!({"text": text})).head.contains("idempotent-replayed"));
    }
    let said = s.scratch.expect(0, &["annotations", &ids[0], "--json"]);
    assert_eq!((said.matches("\"once\"").count(), said.matches("\"second\"").count()), (1, 1), "{said}");
    s.scratch.expect(0, &["check"]);
}

#[test]
fn a_request_that_found_nothing_is_tried_again() {
    let s = Service::new();
    let path = "/v1/sessions/later/checkpoints";
    post(&s, "a", path, &json!({})).expect(404);
    write(&s.scratch.path("later/file"), b"x").unwrap();
    s.scratch.create("later", &s.scratch.path("later"));
    let made = post(&s, "a", path, &json!({}));
    assert!(made.status == 201 && !made.head.contains("replayed"), "{}", made.head);
    assert!(post(&s, "a", path, &json!({})).head.contains("idempotent-replayed: true"));
}
