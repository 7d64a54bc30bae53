//! Servers that say very much while a checkpoint asks them: the agent gets all of it in order, and the proxy needs little memory for it.

use std::fs;

use serde_json::{Value, json};

use crate::mcp_servers::{client::Client, programs::odd, work::Work};

const LINE_BYTES: usize = 300 << 20;
const LINES: usize = 500_000;

/// The most memory that a process has had so far, in bytes.
fn peak(process: i32) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// Has a checkpoint made while the agent asks for something, too; returns what it has of the server.
fn asked(work: &Work, client: &mut Client) -> Value {
    std::thread::scope(|scope| {
        let checkpoint = scope.spawn(|| work.checkpoint(0).1);
        // More questions than the pipes hold.
        let ids: Vec<i64> = (0..200)
            .map(|number| client.ask("tools/call", json!({"name": "echo", "arguments": {"text": number.to_string()}})))
            .collect();
        for (number, id) in ids.into_iter().enumerate() {
            assert_eq!(client.answer(id)["result"]["content"][0]["text"], number.to_string());
        }
        // Its answer stands behind what it floods with.
        let servers = checkpoint.join().unwrap();
        client.call("echo", json!({"text": "the end"}));
        servers["odd"].clone()
    })
}

#[test]
fn a_line_of_three_hundred_megabytes() {
    let work = Work::with("[mcp]\ntimeout_seconds = 60\n");
    let mut client = work.proxied("odd", &odd(&["floods-a-line", &LINE_BYTES.to_string()]));
    let server = asked(&work, &mut client);
    assert_eq!(server["kept"], "state", "{server}");
    let [flood] = &client.aside[..] else { panic!("{} messages", client.aside.len()) };
    let length = flood["long"].as_u64().unwrap() as usize;
    assert!((LINE_BYTES..LINE_BYTES + 200).contains(&length), "{length}");
    let peak = peak(client.process());
    println!("most memory of the proxy: {} MiB", peak >> 20);
    assert!(peak < 320 << 20, "{} MiB", peak >> 20);
}

#[test]
fn half_a_million_lines() {
    let work = Work::with("[mcp]\ntimeout_seconds = 300\n");
    let mut client = work.proxied("odd", &odd(&["floods-lines", &LINES.to_string()]));
    let server = asked(&work, &mut client);
    assert_eq!(server["kept"], "state", "{server}");
    let numbers = client.aside.iter().map(|message| message["params"]["data"].as_u64().unwrap() as usize);
    assert!(numbers.eq(0..LINES), "{} messages", client.aside.len());
    let peak = peak(client.process());
    println!("most memory of the proxy: {} MiB", peak >> 20);
    assert!(peak < 64 << 20, "{} MiB", peak >> 20);
}
