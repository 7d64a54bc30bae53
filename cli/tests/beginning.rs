//! Sessions that cannot begin, and names that are nobody's.

use std::fs;

use crate::sessions::Agent;

#[test]
fn what_cannot_begin_leaves_no_session() {
    let agent = Agent::new();
    let folder = agent.home.folder.path();
    fs::write(folder.join("bad.json"), "no JSON").unwrap();
    let arguments = ["session", "run", "-w", "work", "--", "claude", "--settings", "bad.json"];
    let refused = agent.home.run(&arguments).expect(2);
    assert!(refused.err.contains("/bad.json cannot be used"), "{refused:?}");
    for name in ["", " ", "two\nlines"] {
        let refused = agent.home.run(&["session", "run", "-w", "work", "--name", name, "--", "claude"]).expect(2);
        assert!(refused.err.contains("cannot be a session's name"), "{refused:?}");
    }
    assert_eq!(agent.home.run(&["session", "list", "--json"]).expect(0).json().pop().unwrap()["sessions"], 0);
}

#[test]
fn an_empty_name_is_nobodys() {
    let agent = Agent::new();
    agent.create(&[]).expect(0);
    for words in [&["session", "end", ""][..], &["session", "stop", ""], &["session", "label", "", "a=b"]] {
        agent.home.run(words).expect(10);
    }
}
