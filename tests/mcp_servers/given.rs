//! A state that is given back to a server as it starts, and servers that do not take it: the agent goes on.

use std::time::{Duration, Instant};

use parhelia_tests::live::wait;
use serde_json::{Value, json};

use crate::mcp_servers::{programs::odd, work::Work};

const STATE: &str = "[\"kept\", \"and kept\"]";

/// Has a state given to a server that misbehaves in a way. Returns what its notes are then, how long the agent waited for that, and what the
/// next checkpoint says of it.
fn given(way: &str) -> (String, Duration, Value) {
    let work = Work::new();
    work.leave("odd", STATE);
    let mut client = work.proxied("odd", &odd(&[way]));
    let began = Instant::now();
    let notes = client.call("notes", json!({}));
    let took = began.elapsed();
    assert!(client.aside.is_empty(), "the proxy's own answers go no further: {:?}", client.aside);
    // A server that still has a question to answer is not asked another one.
    let (made, servers) = work.checkpoint(if way == "restore-hangs" { 3 } else { 0 });
    let given = servers["odd"]["given_back"].clone();
    assert_eq!(given["checkpoint"], "an-earlier-one", "{servers}");
    let log = work.log("odd");
    let says = if given["error"].is_null() { "took back its state of checkpoint" } else { "did not take back its state" };
    assert!(log.contains(says), "{log}");
    let shown = work.scratch.expect(0, &["checkpoint", "show", &made]);
    assert_eq!(
        shown.contains("; it did not take back that of checkpoint an-earlier-one: "),
        given["error"].is_string(),
        "{shown}"
    );
    (notes, took, given)
}

#[test]
fn it_is_there_before_the_agents_first_request() {
    for way in ["good", "id-last", "old", "pages"] {
        let (notes, _, given) = given(way);
        assert_eq!((notes.as_str(), &given["error"]), ("kept and kept", &Value::Null), "{way}");
    }
}

#[test]
fn a_server_that_refuses_it_goes_on_without_it() {
    let (notes, _, given) = given("restore-fails");
    assert_eq!((notes.as_str(), given["error"].as_str().unwrap()), ("first", "it answered: no, thank you"));
}

#[test]
fn a_server_that_cannot_take_it_goes_on_without_it() {
    let (notes, _, given) = given("restore-missing");
    assert_eq!((notes.as_str(), given["error"].as_str().unwrap()), ("first", "it has no tool restore_checkpoint"));
}

#[test]
fn a_server_that_does_not_answer_keeps_the_agent_waiting_for_ten_seconds_at_most() {
    let (notes, took, given) = given("restore-hangs");
    assert!(notes == "first" && given["error"].as_str().unwrap().starts_with("no answer within "), "{notes}: {given}");
    assert!((9.0..20.0).contains(&took.as_secs_f64()), "{took:?}");
}

#[test]
fn a_list_of_tools_without_an_end_keeps_the_agent_waiting_for_ten_seconds_at_most() {
    let (notes, took, given) = given("endless-pages");
    assert_eq!(notes, "first");
    assert!(given["error"].is_string(), "{given}");
    assert!(took.as_secs_f64() < 20.0, "{took:?}");
}

#[test]
fn a_server_that_crashes_over_it_ends_as_it_did() {
    let work = Work::new();
    work.leave("odd", STATE);
    let mut client = work.proxied("odd", &odd(&["restore-crashes"]));
    client.ask("tools/call", json!({"name": "notes"}));
    assert_eq!(client.ended().code(), Some(9));
    assert_eq!(client.line(), None);
    let log = wait(|| Some(work.log("odd")).filter(|log| log.contains("odd:")));
    assert!(log.contains("it has ended"), "{log}");
}

#[test]
fn it_waits_for_the_server_of_its_name_in_its_workspace_and_for_one_of_them() {
    let work = Work::new();
    work.leave("odd", STATE);
    let notes = |name: &str, folder: &str| {
        let mut command = work.scratch.command(&["mcp-proxy", "--name", name, "--"]);
        let folder = work.scratch.path(folder);
        std::fs::create_dir_all(&folder).unwrap();
        command.args(odd(&["good"])).current_dir(folder).stderr(std::process::Stdio::null());
        let mut client = crate::mcp_servers::client::Client::start(&mut command);
        client.hello();
        client.call("notes", json!({}))
    };
    assert_eq!(notes("another", "work"), "first");
    assert_eq!(notes("odd", "elsewhere"), "first");
    assert_eq!(notes("odd", "work/below"), "kept and kept");
    assert_eq!(notes("odd", "work"), "first", "it was taken");
}
