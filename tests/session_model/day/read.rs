//! Every statement about a session, as it is read at one moment.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use parhelia_tests::live::wait;

use super::acts::{Act, Day};
use crate::session_model::said::{ALIVE, Facts, object, served, settled};

/// What a live agent does is as old as this at most in lists and numbers of the service, and a moment for an answer.
const LAG: Duration = Duration::from_secs(4);

/// The statements, and what was so before and after they were read.
pub struct Said {
    pub facts: Facts,
    pub listed: Value,
    pub shown: Value,
    pub runs: Vec<Value>,
    pub checkpoints: Vec<Value>,
    pub status: Value,
    /// `status` and `session list` for people.
    pub texts: [String; 2],
    pub served: Value,
    pub served_in_list: Value,
    pub served_checkpoints: Vec<Value>,
    pub metrics: String,
}

/// Lines of JSON of a type.
fn lines(day: &Day, arguments: &[&str], kind: &str) -> Vec<Value> {
    let output = day.world.command(&[arguments, &["--json"]].concat()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{arguments:?}: {e}: {text}")));
    lines.filter(|line| line["type"] == kind).collect()
}

fn text(day: &Day, arguments: &[&str]) -> String {
    let output = day.world.command(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn parsed(socket: &Path, path: &str) -> Value {
    let text = served(socket, path);
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}: {text}"))
}

/// The numbers, and the session in the list.
fn counted(socket: &Path, id: &str) -> (String, Value) {
    let metrics = served(socket, "/metrics");
    let listed = parsed(socket, "/v1/sessions");
    let found = listed["sessions"].as_array().unwrap().iter().find(|session| session["id"] == *id).cloned();
    (metrics, found.unwrap_or_default())
}

/// The same, once what a live agent is seen to do there is as old as it may be. Whether it lives is so at once.
fn caught_up(socket: &Path, listed: &Value, metrics: String, in_list: Value) -> (String, Value) {
    let (until, is, id) = (Instant::now() + LAG, listed["observed"].as_str().unwrap(), listed["id"].as_str().unwrap());
    let (mut metrics, mut in_list) = (metrics, in_list);
    let is_alive = |observed: &str| ALIVE.contains(&observed);
    while Instant::now() < until && is_alive(is) {
        let is_same = in_list["observed"] == is && metrics.contains(&format!("observed=\"{is}\"}} 1"));
        if is_same || !is_alive(in_list["observed"].as_str().unwrap_or_default()) {
            break;
        }
        thread::sleep(Duration::from_millis(50));
        (metrics, in_list) = counted(socket, id);
    }
    (metrics, in_list)
}

impl Day {
    /// Reads them all; a service that nobody has started is there for that alone.
    pub fn read(&mut self) -> Said {
        let is_guest = self.service.as_mut().is_none_or(|service| service.try_wait().unwrap().is_some());
        if is_guest {
            self.service = None;
            self.perform_alone(Act::Serve);
        }
        let (id, folder) = (self.id(), self.world.workspace.to_string_lossy().into_owned());
        let socket = self.world.scratch.path("run.sock");
        let (facts, mut said) = settled(&self.world, |world| {
            let shown = lines(self, &["session", "show", &id], "session").pop().unwrap();
            let (metrics, in_list) = counted(&socket, &id);
            let listed = object(world, &["session", "list"], "session", &id);
            let (metrics, in_list) = caught_up(&socket, &listed, metrics, in_list);
            Said {
                facts: Facts::of(world),
                listed,
                shown,
                runs: lines(self, &["session", "show", &id], "run"),
                checkpoints: lines(self, &["checkpoint", "list", &id], "checkpoint"),
                status: object(world, &["status", "-w", &folder], "summary", ""),
                texts: [text(self, &["status", "-w", &folder]), text(self, &["session", "list"])],
                served: parsed(&socket, &format!("/v1/sessions/{id}"))["session"].clone(),
                served_in_list: in_list,
                served_checkpoints: parsed(&socket, &format!("/v1/sessions/{id}/checkpoints"))["checkpoints"]
                    .as_array()
                    .cloned()
                    .unwrap_or_default(),
                metrics,
            }
        });
        said.facts = facts;
        if is_guest && let Some(mut service) = self.service.take() {
            kill_process(Pid::from_child(&service), Signal::TERM).unwrap();
            wait(|| service.try_wait().unwrap());
        }
        said
    }
}
