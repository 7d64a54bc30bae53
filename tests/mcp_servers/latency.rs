//! The time that a proxy adds to a message.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::mcp_servers::{client::Client, programs, work::Work};

const ROUNDS: usize = 2000;

/// The time of an answer.
fn ping(client: &mut Client) -> Duration {
    let began = Instant::now();
    client.request("ping", json!({}));
    began.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

#[test]
fn it_is_far_below_what_a_person_or_an_agent_notices() {
    let work = Work::new();
    let server = programs::odd(&["good"]);
    let (mut direct, mut proxied) = (Client::start(&mut programs::command(&server)), work.proxied("odd", &server));
    direct.hello();
    // In turn, so that whatever else the machine does slows both.
    let (without, with) = (0..ROUNDS).map(|_| (ping(&mut direct), ping(&mut proxied))).unzip();
    let (without, with) = (median(without), median(with));
    let added = with.saturating_sub(without);
    println!("median of {ROUNDS} pings: {without:?} without a proxy, {with:?} with one, {added:?} added");
    // The bar is 1 ms on a machine with nothing else to do.
    assert!(added < Duration::from_millis(5), "{added:?}");
}
