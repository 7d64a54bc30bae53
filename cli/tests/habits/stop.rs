//! Stopping and pausing an agent, and its output.

use std::fs;

use super::{last, work};
use crate::common::*;

/// A session whose program sleeps, and the process that waits for it.
fn sleeping(home: &Home) -> std::process::Child {
    let mut child = home.command(&["session", "run", "-w", "work", "--name", "busy", "--", "sleep", "600"]).spawn().unwrap();
    for _ in 0..1200 {
        let run = home.run(&["session", "show", "busy", "--json"]);
        if run.code == 0 && run.json()[0]["observed"] == "live" {
            return child;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    child.kill().and_then(|()| child.wait()).unwrap();
    panic!("the session does not start");
}

fn busy(home: &Home) -> serde_json::Value {
    home.run(&["session", "show", "busy", "--json"]).expect(0).json()[0].clone()
}

#[test]
fn stop_keeps_what_was_done_last_also_where_nobody_waits_for_the_agent() {
    let (home, _) = work();
    let mut child = sleeping(&home);
    child.kill().unwrap();
    child.wait().unwrap();
    std::fs::write(home.folder.path().join("work/late"), "late").unwrap();
    let run = home.run(&["session", "stop", "busy"]).expect(0);
    assert!(run.out.contains("has ended. The session is set aside"), "{run:?}");
    let id = busy(&home)["id"].as_str().unwrap().to_owned();
    assert!(home.run(&["ls", &format!("{id}@latest")]).expect(0).out.contains("late"));
    // It stays as the last one of its agent, and is not thinned as periodic ones are.
    let newest = home.run(&["show", &format!("{id}@latest"), "--json"]).expect(0).json()[0].clone();
    assert_eq!((newest["trigger"].as_str(), newest["trigger_detail"].as_str()), (Some("shutdown"), Some("stop")), "{newest}");
    let refused = home.run(&["session", "stop", "work"]);
    assert!(refused.code != 0 && !refused.out.contains("set aside"), "{refused:?}");
}

#[test]
fn stop_leaves_a_last_checkpoint_though_nothing_has_changed() {
    let (home, _) = work();
    let mut child = sleeping(&home);
    child.kill().unwrap();
    child.wait().unwrap();
    home.run(&["create", "busy", "-w", "work", "--trigger", "periodic"]).expect(0);
    home.run(&["session", "stop", "busy"]).expect(0);
    let listed = home.run(&["list", busy(&home)["id"].as_str().unwrap(), "--json"]).expect(0).json();
    assert_eq!(
        (listed[0]["trigger"].as_str(), listed[1]["trigger"].as_str()),
        (Some("shutdown"), Some("periodic")),
        "{listed:?}"
    );
}

#[test]
fn stop_ends_the_agent_and_says_what_is_wanted() {
    let (home, _) = work();
    let mut child = sleeping(&home);
    let refused = home.run(&["session", "end", "busy"]).expect(4);
    assert!(refused.err.contains("is alive; --leave-agent leaves it alone, and `parhelia session stop "), "{refused:?}");
    let run = home.run(&["session", "attach", "busy"]).expect(4);
    assert!(run.err.contains("is not in tmux"), "{run:?}");
    let run = home.run(&["session", "stop", "busy", "--keep-wanted"]).expect(0);
    assert!(run.out.contains("has ended. The session is still wanted"), "{run:?}");
    child.wait().unwrap();
    // That is no failure of the agent's.
    let listed = home.run(&["list", busy(&home)["id"].as_str().unwrap(), "--json"]).expect(0).out;
    assert!(listed.contains("\"trigger\"") && !listed.contains("\"trigger\":\"error\""), "{listed}");
    assert_eq!((busy(&home)["observed"].as_str(), busy(&home)["wanted"].as_str()), (Some("dead"), Some("running")));
    let run = home.run(&["session", "stop", "busy"]).expect(0);
    assert!(run.out.contains("was not alive. The session is set aside"), "{run:?}");
    assert_eq!(busy(&home)["wanted"], "paused");
    let run = home.run(&["session", "attach", "busy"]).expect(4);
    assert!(run.err.contains("it has no live agent\n"), "{run:?}");
}

#[test]
fn an_agent_that_was_left_alone_at_the_end_can_be_stopped() {
    let (home, _) = work();
    let mut child = sleeping(&home);
    home.run(&["session", "end", "busy", "--leave-agent"]).expect(0);
    let run = home.run(&["session", "stop", "busy"]).expect(0);
    assert!(run.out.contains("has ended, as the session had before"), "{run:?}");
    child.wait().unwrap();
    assert_eq!(busy(&home)["status"], "ended");
    let run = home.run(&["session", "stop", "busy"]).expect(4);
    assert!(run.err.contains("no agent of it is alive"), "{run:?}");
}

#[test]
fn pause_makes_a_checkpoint_and_leaves_the_agent_unless_it_is_to_end() {
    let (home, _) = work();
    let mut child = sleeping(&home);
    fs::write(home.folder.path().join("work/a"), "later\n").unwrap();
    let left = home.run(&["session", "pause", "busy"]).expect(0);
    assert!(left.out.contains("was left alone") && busy(&home)["observed"] == "live", "{left:?}");
    let run = home.run(&["session", "pause", "busy", "--end-agent", "--json"]).expect(0);
    let summary = last(&run);
    assert_eq!((summary["status"].as_str(), summary["alive"].as_bool()), (Some("paused"), Some(false)));
    child.wait().unwrap();
    assert_eq!((busy(&home)["observed"].as_str(), busy(&home)["wanted"].as_str()), (Some("dead"), Some("paused")));
    assert_eq!(home.run(&["cat", &format!("{}:a", summary["checkpoint"].as_str().unwrap())]).expect(0).out, "later\n");
}

#[test]
fn an_agents_output_is_not_among_the_objects() {
    let home = Home::new();
    let run = home.run(&["session", "run", "--name", "it", "--json", "--", "sh", "-c", "echo hello; exit 3"]);
    let lines = run.json();
    assert_eq!((run.code, lines.len(), lines[0]["type"].as_str()), (3, 2, Some("started")), "{run:?}");
    assert!(run.err.contains("hello") && !run.out.contains("hello"), "{run:?}");
    let summary = &lines[1];
    assert_eq!((&summary["verb"], &summary["exit_code"]), (&"session run".into(), &3.into()));
    assert_eq!((&summary["id"], &summary["run"]), (&lines[0]["session"], &lines[0]["run"]));

    let again = home.run(&["session", "resume", "it", "--yes", "--json"]);
    let lines = again.json();
    assert_eq!((again.code, lines.last().unwrap()["exit_code"].as_u64()), (3, Some(3)), "{again:?}");
    let described = home.run(&["session", "recover", "it", "--end", "--json"]).expect(0).json();
    assert_eq!((described[0]["type"].as_str(), described[1]["verb"].as_str()), (Some("recovery"), Some("session end")));
}
