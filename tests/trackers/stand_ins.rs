//! Stand-ins for GitHub's REST API and Linear's GraphQL API, as far as they are documented and used.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
};

use parhelia_tests::receiver::{Answer, Receiver, Request};
use serde_json::{Value, json};

use super::SECRETS;

/// An issue of a stand-in.
#[derive(Clone, Debug, Default)]
pub struct Issue {
    pub title: String,
    pub body: String,
    pub state: String,
    pub comments: Vec<String>,
    /// Ids of the comments, where their author gives them.
    pub ids: Vec<String>,
}

#[derive(Default)]
struct State {
    issues: BTreeMap<String, Issue>,
    /// Answers in place of those to the next changes, which are made nevertheless.
    after: VecDeque<Answer>,
}

/// GitHub. Issues are named `OWNER/REPO#12`.
pub struct Hub {
    pub receiver: Receiver,
    state: Arc<Mutex<State>>,
}

impl Hub {
    pub fn new() -> Self {
        let hub = Hub { receiver: Receiver::new(), state: Arc::default() };
        let state = hub.state.clone();
        hub.receiver.answer_by(move |request| answer(&mut state.lock().unwrap(), request));
        hub
    }

    pub fn add(&self, id: &str) {
        self.state.lock().unwrap().issues.insert(id.to_owned(), Issue { state: "open".into(), ..Issue::default() });
    }

    pub fn issue(&self, id: &str) -> Issue {
        self.state.lock().unwrap().issues.get(id).cloned().unwrap_or_default()
    }

    pub fn count(&self) -> usize {
        self.state.lock().unwrap().issues.len()
    }

    /// The next change is made, and this comes in place of its answer.
    pub fn will_answer_after(&self, answer: Answer) {
        self.state.lock().unwrap().after.push_back(answer);
    }
}

fn status(status: u16, body: Value) -> Answer {
    Answer::Status(status, "Content-Type: application/json\r\n".into(), body.to_string())
}

fn answer(state: &mut State, request: &Request) -> Answer {
    if request.header("authorization") != Some(&format!("Bearer {}", SECRETS[0])) {
        return status(401, json!({"message": "Bad credentials"}));
    }
    assert_eq!(request.header("x-github-api-version"), Some("2022-11-28"));
    let mut line = request.line.split(' ');
    let (method, target) = (line.next().unwrap(), line.next().unwrap());
    let path = target.split('?').next().unwrap();
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let not_found = || status(404, json!({"message": "Not Found"}));
    let (repository, rest) = match parts.as_slice() {
        ["repos", owner, name, "issues", rest @ ..] => (format!("{owner}/{name}"), rest),
        _ => return not_found(),
    };
    let answer = match (method, rest) {
        ("GET", []) => {
            let of = state.issues.iter().filter(|(id, _)| id.starts_with(&format!("{repository}#")));
            let mut issues: Vec<Value> = of.map(|(id, issue)| shown(id, issue)).collect();
            issues.reverse();
            return Answer::json(issues);
        }
        ("POST", []) => {
            let id = format!("{repository}#{}", 100 + state.issues.len());
            let (title, body) = (request.json()["title"].to_string(), request.json()["body"].as_str().unwrap().to_owned());
            let issue = Issue { title, body, state: "open".into(), ..Issue::default() };
            let answer = status(201, shown(&id, &issue));
            state.issues.insert(id, issue);
            answer
        }
        (_, [number, rest @ ..]) => {
            let id = format!("{repository}#{number}");
            let Some(issue) = state.issues.get_mut(&id) else { return not_found() };
            match (method, rest) {
                ("GET", []) => return Answer::json(shown(&id, issue)),
                ("GET", ["comments"]) => {
                    assert!(target.contains("per_page=100") && target.contains("since=20"), "{target}");
                    return Answer::json(issue.comments.iter().map(|body| json!({"body": body})).collect::<Vec<_>>());
                }
                ("PATCH", []) => {
                    issue.state = request.json()["state"].as_str().unwrap().to_owned();
                    Answer::json(shown(&id, issue))
                }
                ("POST", ["comments"]) => {
                    issue.comments.push(request.json()["body"].as_str().unwrap().to_owned());
                    status(201, json!({"id": 1, "body": request.json()["body"]}))
                }
                _ => return not_found(),
            }
        }
        _ => return not_found(),
    };
    state.after.pop_front().unwrap_or(answer)
}

fn shown(id: &str, issue: &Issue) -> Value {
    let number: u64 = id.split('#').nth(1).unwrap().parse().unwrap();
    json!({"number": number, "state": issue.state, "title": issue.title, "body": issue.body})
}

/// Linear. Its team is ENG, and has the states of `STATES`.
pub struct Lines {
    pub receiver: Receiver,
    state: Arc<Mutex<State>>,
}

const STATES: [(&str, &str, &str); 4] = [
    ("s-todo", "Todo", "unstarted"),
    ("s-progress", "In Progress", "started"),
    ("s-review", "In Review", "started"),
    ("s-done", "Done", "completed"),
];

impl Lines {
    pub fn new() -> Self {
        let lines = Lines { receiver: Receiver::new(), state: Arc::default() };
        let state = lines.state.clone();
        lines.receiver.answer_by(move |request| told(&mut state.lock().unwrap(), request));
        lines
    }

    pub fn add(&self, id: &str) {
        self.state.lock().unwrap().issues.insert(id.to_owned(), Issue { state: "s-todo".into(), ..Issue::default() });
    }

    pub fn issue(&self, id: &str) -> Issue {
        self.state.lock().unwrap().issues.get(id).cloned().unwrap_or_default()
    }

    pub fn count(&self) -> usize {
        self.state.lock().unwrap().issues.len()
    }

    pub fn will_answer_after(&self, answer: Answer) {
        self.state.lock().unwrap().after.push_back(answer);
    }
}

fn fault(message: &str, code: &str) -> Value {
    json!({"errors": [{"message": message, "extensions": {"code": code}}]})
}

fn told(state: &mut State, request: &Request) -> Answer {
    if request.header("authorization") != Some(SECRETS[1]) {
        return status(401, fault("Authentication required", "AUTHENTICATION_ERROR"));
    }
    let (body, variables) = (request.json(), request.json()["variables"].clone());
    let query = body["query"].as_str().unwrap();
    let text = |pointer: &str| variables.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    // Ids of issues within the API are their keys behind `uuid-`.
    let known = |id: &str| id.trim_start_matches("uuid-").to_owned();
    let missing = || Answer::json(fault("Entity not found: Issue", "INPUT_ERROR"));
    let done = |data: Value| Answer::json(json!({ "data": data }));
    if query.contains("comments(") {
        let Some(issue) = state.issues.get(&text("/issue")) else { return missing() };
        let found: Vec<Value> = issue.ids.iter().filter(|id| **id == text("/id")).map(|id| json!({"id": id})).collect();
        return done(json!({"issue": {"comments": {"nodes": found}}}));
    }
    if query.contains("issue(id") {
        let Some(issue) = state.issues.get(&text("/id")) else { return missing() };
        let (_, name, kind) = STATES.iter().find(|(id, ..)| *id == issue.state).unwrap();
        let id = format!("uuid-{}", text("/id"));
        return done(json!({"issue": {"id": id, "state": {"name": name, "type": kind}, "team": {"id": "team"}}}));
    }
    if query.contains("workflowStates(") {
        let found = STATES.iter().filter(|(_, name, _)| name.eq_ignore_ascii_case(&text("/name")));
        return done(json!({"workflowStates": {"nodes": found.map(|(id, ..)| json!({"id": id})).collect::<Vec<_>>()}}));
    }
    if query.contains("teams(") {
        let nodes = if text("/key") == "ENG" { json!([{"id": "team"}]) } else { json!([]) };
        return done(json!({"teams": {"nodes": nodes}}));
    }
    if query.contains("issues(") {
        let found = state.issues.iter().filter(|(_, issue)| issue.ids.first() == Some(&text("/id")));
        let nodes: Vec<Value> = found.map(|(key, _)| json!({"url": url(key)})).collect();
        return done(json!({"issues": {"nodes": nodes}}));
    }
    let answer = if query.contains("commentCreate") {
        let issue = state.issues.get_mut(&known(&text("/input/issueId"))).unwrap();
        if issue.ids.contains(&text("/input/id")) {
            return Answer::json(fault("Entity with this id exists", "INPUT_ERROR"));
        }
        issue.ids.push(text("/input/id"));
        issue.comments.push(text("/input/body"));
        done(json!({"commentCreate": {"success": true}}))
    } else if query.contains("issueUpdate") {
        state.issues.get_mut(&known(&text("/id"))).unwrap().state = text("/input/stateId");
        done(json!({"issueUpdate": {"success": true}}))
    } else {
        assert!(query.contains("issueCreate"), "{query}");
        let key = format!("ENG-{}", 100 + state.issues.len());
        let issue = Issue {
            title: text("/input/title"),
            body: text("/input/description"),
            state: "s-todo".into(),
            ids: vec![text("/input/id")],
            ..Issue::default()
        };
        state.issues.insert(key.clone(), issue);
        done(json!({"issueCreate": {"success": true, "issue": {"url": url(&key)}}}))
    };
    state.after.pop_front().unwrap_or(answer)
}

fn url(key: &str) -> String {
    format!("https://linear.app/acme/issue/{key}/some-title")
}
