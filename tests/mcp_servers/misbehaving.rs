//! Servers that misbehave while a checkpoint asks for their state: each is recorded, and harms neither the others nor the agent.

use std::{fs, time::Instant};

use parhelia_tests::live::{lives, wait};
use serde_json::{Value, json};

use crate::mcp_servers::{
    programs::odd,
    work::{Work, children},
};

/// The record of a server that misbehaves in a way, in a checkpoint that exits with `code`. The agent and the server still talk afterwards.
fn recorded(way: &[&str], code: i32) -> Value {
    let work = Work::new();
    let mut client = work.proxied("odd", &odd(way));
    let (_, servers) = work.checkpoint(code);
    assert_eq!(client.call("echo", json!({"text": "hällo"})), "hällo");
    servers["odd"].clone()
}

fn assert_failed(server: &Value, words: &str) {
    assert_eq!(server["kept"], "failed", "{server}");
    assert!(server["error"].as_str().unwrap().contains(words), "{server}");
}

fn assert_stateless(server: &Value, words: &str) {
    assert_eq!(server["kept"], "stateless", "{server}");
    assert!(server["why"].as_str().unwrap().contains(words), "{server}");
}

#[test]
fn a_state_is_kept_whatever_the_form_of_the_answer() {
    for way in ["good", "id-last", "noisy", "old"] {
        let work = Work::new();
        let mut client = work.proxied("odd", &odd(&[way]));
        let (id, servers) = work.checkpoint(0);
        let server = &servers["odd"];
        assert_eq!((&server["kept"], &server["bytes"]), (&json!("state"), &json!(9)), "{way}: {server}");
        assert_eq!((&server["scope"], &server["transport"]), (&Value::Null, &json!("stdio")), "{way}: {server}");
        let state = work.state(&id, server["file"].as_str().unwrap()).unwrap();
        assert_eq!(state, b"[\"first\"]", "{way}");
        assert_eq!(client.call("notes", json!({})), "first");
        let lines: Vec<Value> = client.aside.drain(..).filter(|line| line.is_string()).collect();
        // Before each of three answers: that to the checkpoint's question is not the agent's, the lines before it may be.
        let expected = if way == "noisy" { ["a line that is no JSON", "{", ""].repeat(3) } else { Vec::new() };
        assert_eq!(lines, expected, "{way}");
    }
}

#[test]
fn a_server_may_be_called_like_a_flag() {
    let work = Work::new();
    let mut client = work.proxied("--help", &odd(&["good"]));
    assert_eq!(client.call("echo", json!({"text": "here"})), "here");
    assert_eq!(work.checkpoint(0).1["--help"]["kept"], "state");
}

#[test]
fn a_server_that_does_not_answer_costs_no_more_than_its_time() {
    let work = Work::with("[mcp.servers.hanging]\ntimeout_seconds = 1.0\n");
    let (mut hanging, _good) = (work.proxied("hanging", &odd(&["hangs"])), work.proxied("good", &odd(&["good"])));
    let began = Instant::now();
    let (_, servers) = work.checkpoint(3);
    let took = began.elapsed().as_secs_f64();
    assert_failed(&servers["hanging"], "no answer within 1.0 s");
    assert_eq!(servers["good"]["kept"], "state", "{servers}");
    // The server's second, and a checkpoint on a loaded machine.
    assert!((1.0..10.0).contains(&took), "{took} s");
    assert_eq!(hanging.call("echo", json!({"text": "still here"})), "still here");
    fs::write(work.workspace.join("a"), "2").unwrap();
    let (_, servers) = work.checkpoint(3);
    assert_failed(&servers["hanging"], "has not answered an earlier question");
    assert_eq!(servers["good"]["kept"], "state", "{servers}");
}

#[test]
fn a_server_that_reads_no_more_is_not_taken_for_one_without_a_proxy() {
    let work = Work::with("[mcp.servers.stuck]\ntimeout_seconds = 1.0\n");
    let mut client = work.proxied("stuck", &odd(&["good"]));
    let _good = work.proxied("good", &odd(&["good"]));
    client.ask("tools/call", json!({"name": "stop"}));
    // More than fits into a pipe: the proxy takes it in whole, and then waits for the server.
    let filler = "x".repeat(4 << 20);
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/filler", "params": {"text": filler}}));
    let (_, servers) = work.checkpoint(3);
    assert_failed(&servers["stuck"], "");
    assert_eq!(servers["good"]["kept"], "state", "{servers}");
}

#[test]
fn a_server_that_crashes_is_recorded_and_its_exit_code_is_passed_on() {
    let work = Work::new();
    let mut client = work.proxied("odd", &odd(&["crashes"]));
    let (_, servers) = work.checkpoint(3);
    assert_failed(&servers["odd"], "has ended");
    assert_eq!(client.ended().code(), Some(7));
    assert_eq!(client.line(), None);
    let (_, servers) = work.checkpoint(0);
    assert_eq!(servers, Value::Null, "nothing is left of its proxy");
    assert_eq!(fs::read_dir(work.scratch.store().join("mcp/live")).unwrap().count(), 0);
}

#[test]
fn a_server_that_exits_at_once_ends_its_proxy_in_the_same_way() {
    let work = Work::new();
    for code in ["0", "5"] {
        let mut client = work.begun("odd", &odd(&["exits", code]));
        assert_eq!(client.ended().code().unwrap().to_string(), code);
    }
    let mut client = work.begun("odd", &vec!["/no/such/program".to_owned()]);
    assert_eq!(client.ended().code(), Some(1));
    let log = work.log("odd");
    assert!(log.contains("cannot start /no/such/program"), "{log}");
}

#[test]
fn reasons_are_recorded_for_servers_without_a_state() {
    assert_stateless(&recorded(&["stateless"], 0), "it has no resource checkpoint://state");
    assert_stateless(&recorded(&["no-resources"], 0), "it has no resources");
    assert_failed(&recorded(&["refuses"], 3), "it answered: the disk is on fire");
    let work = Work::new();
    let silent = work.begun("silent", &odd(&["good"]));
    wait(|| (!children(silent.process()).is_empty()).then_some(()));
    wait(|| fs::read_dir(work.scratch.store().join("mcp/live")).is_ok_and(|found| found.count() == 1).then_some(()));
    let (_, servers) = work.checkpoint(0);
    assert_stateless(&servers["silent"], "the agent has not begun to talk with it");
}

#[test]
fn a_state_that_is_too_long_is_not_kept() {
    let work = Work::with("[mcp]\nmax_state_bytes = 1000\n");
    let _long = work.proxied("long", &odd(&["large", "1001"]));
    let _fits = work.proxied("fits", &odd(&["large", "1000"]));
    // Much longer than the answer may be.
    let _longer = work.proxied("longer", &odd(&["large", "20000000"]));
    let (id, servers) = work.checkpoint(3);
    assert_failed(&servers["long"], "1001 bytes, and 1000 are kept at most (`mcp.max_state_bytes`)");
    assert_failed(&servers["longer"], "20000000 bytes, and 1000 are kept");
    assert_eq!((&servers["fits"]["kept"], &servers["fits"]["bytes"]), (&json!("state"), &json!(1000)));
    assert_eq!(work.state(&id, servers["fits"]["file"].as_str().unwrap()).unwrap(), vec![b's'; 1000]);
}

#[test]
fn capture_can_be_turned_off() {
    let work = Work::with("[mcp]\ncapture = false\n");
    let _client = work.proxied("odd", &odd(&["hangs"]));
    let (id, servers) = work.checkpoint(0);
    assert_eq!((servers, work.state(&id, "mcp/servers.json")), (Value::Null, None));
}

#[test]
fn a_proxy_that_was_killed_leaves_nothing_that_a_checkpoint_trips_over() {
    let work = Work::new();
    let client = work.proxied("odd", &odd(&["good"]));
    let [server] = children(client.process())[..] else { panic!("one server") };
    parhelia_tests::live::kill(client.process());
    drop(client);
    wait(|| (!lives(server)).then_some(()));
    let (_, servers) = work.checkpoint(0);
    assert_eq!(servers, Value::Null);
    assert_eq!(fs::read_dir(work.scratch.store().join("mcp/live")).unwrap().count(), 0, "its socket is gone");
}
