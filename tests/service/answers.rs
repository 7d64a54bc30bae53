//! Answers to what agents ask, over the API.

use super::*;

/// An agent that asks for a permission, notes what is typed, and asks again once a file is there.
fn asking() -> String {
    let status = |status: &str| format!(r#"echo '{{"pid":'$$',"sessionId":"'$id'",{status}}}' > "$config/sessions/$$.json""#);
    let (waiting, idle) = (status(r#""status":"waiting","waitingFor":"permission prompt""#), status(r#""status":"idle""#));
    let end = format!(
        "asked=0\nwhile :; do\n asked=$((asked + 1)); echo \"Question $asked: may I run rm? 1. Yes  2. No\"\n {waiting}\n \
         read -r line; echo \"$line\" >> answers\n {idle}\n while ! test -e again; do sleep 0.1; done; rm again\ndone\n"
    );
    scripted::AGENT.replace("sleep 100000 &\nwait\n", &end)
}

/// Starts it in tmux, in a session `agent`.
fn start(s: &Service) {
    s.agent_of(&asking());
    wait(|| (s.get("/v1/sessions/agent").expect(200)["session"]["observed"] == "waiting").then_some(()));
}

fn typed(s: &Service) -> String {
    fs::read_to_string(s.scratch.path("agent/answers")).unwrap_or_default()
}

#[test]
fn a_question_is_shown_and_answered_as_it_was_seen() {
    let s = Service::new();
    s.get("/v1/sessions/work/question").expect(409);
    start(&s);
    let asked = wait(|| {
        Some(s.get("/v1/sessions/agent/question").expect(200))
            .filter(|asked| asked["screen"].as_str().unwrap().contains("Question 1"))
    });
    assert_eq!(asked["waits_for"], "permission prompt");
    let answer = |question: &Value, body: Value| {
        let mut body = body;
        body["question"] = question.clone();
        s.post("/v1/sessions/agent/answer", &body)
    };
    let other = answer(&json!("0123"), json!({"keys": ["1", "Enter"]})).expect(409);
    assert!(other["detail"].as_str().unwrap().contains("look again"), "{other}");
    for bad in [json!({}), json!({"keys": ["C-c"]}), json!({"text": "\u{1b}[A"})] {
        answer(&asked["question"], bad).expect(400);
    }
    assert_eq!(typed(&s), "");
    answer(&asked["question"], json!({"keys": ["1", "Enter"]})).expect(200);
    wait(|| (typed(&s) == "1\n").then_some(()));
    let late = answer(&asked["question"], json!({"keys": ["2", "Enter"]})).expect(409);
    assert!(late["detail"].as_str().unwrap().contains("takes no answer now"), "{late}");
    write(&s.scratch.path("agent/again"), b"").unwrap();
    let second = wait(|| {
        Some(s.get("/v1/sessions/agent/question"))
            .filter(|answer| answer.status == 200 && String::from_utf8_lossy(&answer.body).contains("Question 2"))
    });
    answer(&asked["question"], json!({"keys": ["2", "Enter"]})).expect(409);
    answer(&second.json()["question"], json!({"text": "no, keep it", "keys": ["Enter"]})).expect(200);
    wait(|| (typed(&s) == "1\nno, keep it\n").then_some(()));
    let audit = s.scratch.expect(0, &["audit", "log", "--json", "--action", "session.answer"]);
    let entries: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&entries[0]["via"], &entries[0]["reason"]), (&json!("api"), &json!("permission prompt")), "{audit}");
    assert!(!audit.contains("keep it"), "{audit}");
}

#[test]
fn an_agent_outside_of_tmux_is_answered_where_it_is() {
    let s = Service::new();
    write_program(&s.scratch.path("bin/claude"), &asking());
    write(&s.scratch.path("agent/stay"), b"").unwrap();
    let (workspace, program) = (s.scratch.path("agent"), s.scratch.path("bin/claude"));
    let words =
        ["session", "run", "--name", "agent", "--workspace", workspace.to_str().unwrap(), "--", program.to_str().unwrap()];
    let mut child = s.scratch.command(&words).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait(|| (s.get("/v1/sessions/agent").status == 200).then_some(()));
    wait(|| (s.get("/v1/sessions/agent").expect(200)["session"]["observed"] == "waiting").then_some(()));
    let refused = s.get("/v1/sessions/agent/question").expect(409);
    assert!(refused["detail"].as_str().unwrap().contains("not in tmux"), "{refused}");
    let refused = s.post("/v1/sessions/agent/answer", &json!({"question": "x", "keys": ["1"]})).expect(409);
    assert!(refused["detail"].as_str().unwrap().contains("not in tmux"), "{refused}");
    s.post("/v1/sessions/agent/pause", &json!({"end_agent": true})).expect(200);
    child.wait().unwrap();
}
