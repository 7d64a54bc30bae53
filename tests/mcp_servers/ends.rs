//! The end of a server behind a proxy: by signals, by its input, by the proxy's death.

use std::fs;

use parhelia_tests::live::{kill, lives, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::mcp_servers::{
    programs::odd,
    work::{Work, children},
};

#[test]
fn signals_reach_the_server_which_decides() {
    let work = Work::new();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut client = work.proxied("odd", &odd(&["good"]));
        kill_process(Pid::from_raw(client.process()).unwrap(), signal).unwrap();
        assert_eq!(client.ended().code(), Some(3));
        assert_eq!(fs::read_to_string(work.workspace.join("signalled")).unwrap(), signal.as_raw().to_string());
    }
}

#[test]
fn a_server_that_a_signal_ended_is_told_by_the_exit_code() {
    let work = Work::new();
    let mut client = work.proxied("odd", &odd(&["good"]));
    kill(children(client.process())[0]);
    assert_eq!(client.ended().code(), Some(128 + 9));
}

#[test]
fn the_end_of_the_agents_words_is_the_end_of_the_servers_input() {
    let work = Work::new();
    let mut client = work.proxied("odd", &odd(&["good"]));
    // What was said before is answered before.
    let last = client.ask("tools/call", json!({"name": "echo", "arguments": {"text": "the last"}}));
    client.close();
    assert_eq!(client.answer(last)["result"]["content"][0]["text"], "the last");
    assert_eq!(client.ended().code(), Some(0));
    assert!(work.workspace.join("closed").exists());
}

#[test]
fn a_killed_proxy_leaves_no_server_behind() {
    let work = Work::new();
    let mut client = work.proxied("odd", &odd(&["good"]));
    let server = children(client.process())[0];
    kill(client.process());
    wait(|| (!lives(server)).then_some(()));
    assert!(work.workspace.join("closed").exists(), "it ended as its input did");
    client.ended();
}

#[test]
fn an_agent_that_listens_no_more_ends_both() {
    let work = Work::new();
    let mut command = work.scratch.command(&["mcp-proxy", "--name", "odd", "--"]);
    command.args(odd(&["good"])).current_dir(&work.workspace);
    let mut proxy = command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let server = wait(|| children(proxy.id() as i32).first().copied());
    drop((proxy.stdin.take(), proxy.stdout.take()));
    wait(|| proxy.try_wait().unwrap());
    assert!(!lives(server));
}
