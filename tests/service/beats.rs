//! `heartbeat`: an agent of which a service hears that it lives, and that is stopped where another run has taken over.

use std::process::Command;

use super::*;
use crate::service::{
    browser::{listening, token},
    tls::secure,
};

/// The command in a container, which has no store.
fn command(s: &Service, reach: &[&str], agent: &str) -> Command {
    let folder = s.scratch.path("container/work");
    fs::create_dir_all(&folder).unwrap();
    let mut command = Command::new(parhelia_tests::binary());
    command.args(["heartbeat", "--session", "far", "--container", "c1", "--interval", "1"]).args(reach);
    command.args(["--", "sh", "-c", agent]).current_dir(&folder).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", s.scratch.path("container"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(s: &Service) -> Option<Value> {
    let shown = s.get("/v1/sessions/far");
    (shown.status == 200).then(|| shown.json()["runs"].as_array().unwrap().last().unwrap().clone())
}

#[test]
fn a_service_hears_of_an_agent_elsewhere_until_it_has_ended() {
    let s = Service::with(&["--no-resume"]);
    let socket = s.socket();
    let agent = "while ! test -e go; do sleep 0.1; done; exit 7";
    let mut child = command(&s, &["--socket", socket.to_str().unwrap()], agent).spawn().unwrap();
    let said = wait(|| run(&s)?["lease"]["said"].as_object().cloned());
    assert_eq!(said["state"], "running", "{said:?}");
    assert!(said["metrics"]["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{said:?}");
    assert!(said["last_activity"].as_str().is_some_and(|time| time.ends_with('Z')), "{said:?}");
    let begun = run(&s).unwrap();
    assert_eq!(s.get("/v1/sessions/far").expect(200)["session"]["observed"], "elsewhere");
    assert!(begun["lease"]["holder"].as_str().unwrap().ends_with("/c1"), "{begun}");
    fs::write(s.scratch.path("container/work/go"), b"").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(7));
    assert_eq!(run(&s).unwrap()["end"]["code"], 7);
    assert!(!s.scratch.path("container/.local").exists(), "it makes no store");
}

#[test]
fn an_agent_whose_run_was_taken_over_is_stopped() {
    let s = Service::with(&["--no-resume"]);
    let socket = s.socket();
    let mut child = command(&s, &["--socket", socket.to_str().unwrap()], "echo $$ > process; exec sleep 1000").spawn().unwrap();
    let first = wait(|| run(&s).filter(|run| run["lease"]["said"].is_object()));
    let process = wait(|| fs::read_to_string(s.scratch.path("container/work/process")).ok()?.trim().parse::<i32>().ok());
    // As a person at a terminal does who need not wait for the lease.
    s.post("/v1/sessions/far/end", &json!({"leave_agent": true})).expect(200);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(4), "{said}");
    assert!(said.contains(first["id"].as_str().unwrap()) && !lives(process), "{said}");
}

#[test]
fn a_service_is_told_over_tcp_and_one_that_is_gone_stops_nothing() {
    let mut s = listening();
    let folder = s.scratch.path("secret");
    write(&folder, token(&s).as_bytes()).unwrap();
    let page = s.page.clone().unwrap();
    let reach = ["--url", page.as_str(), "--token-file", folder.to_str().unwrap()];
    let mut child = command(&s, &reach, "while ! test -e go; do sleep 0.1; done").spawn().unwrap();
    wait(|| run(&s).filter(|run| run["lease"]["said"].is_object()));
    s.signal(Signal::KILL);
    std::thread::sleep(Duration::from_secs(3));
    assert!(child.try_wait().unwrap().is_none(), "it goes on");
    fs::write(s.scratch.path("container/work/go"), b"").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.matches("it is tried again").count() == 1 && said.contains("is not recorded"),
        "{output:?}"
    );
    let none = command(&s, &reach, "touch started").output().unwrap();
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    assert!(!s.scratch.path("container/work/started").exists());
}

#[test]
fn a_service_is_told_over_tls_where_its_issuer_is_trusted() {
    let s = secure("127.0.0.1:0");
    let (secret, authority) = (s.scratch.path("secret"), s.scratch.path("tls/ca.pem"));
    write(&secret, token(&s).as_bytes()).unwrap();
    let page = s.page.clone().unwrap();
    let reach = ["--url", page.as_str(), "--token-file", secret.to_str().unwrap(), "--ca", authority.to_str().unwrap()];
    let output = command(&s, &reach, "exit 0").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(run(&s).unwrap()["end"]["code"], 0);
    let untrusted = command(&s, &reach[..4], "exit 0").output().unwrap();
    assert_eq!(untrusted.status.code(), Some(1), "{untrusted:?}");
    write(&secret, b"wrong").unwrap();
    let refused = command(&s, &reach, "exit 0").output().unwrap();
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
}
