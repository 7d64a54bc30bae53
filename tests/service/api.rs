//! Answers of the service.

use super::*;

#[test]
fn it_answers_what_the_command_line_shows() {
    let s = Service::new();
    let health = s.get("/health").expect(200);
    assert_eq!((health["status"].as_str(), health["sessions"].as_u64()), (Some("ok"), Some(1)), "{health}");
    assert!(health["free_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{health}");
    let listed = s.get("/v1/sessions").expect(200);
    let of_cli = s.scratch.expect(0, &["session", "list", "--json"]);
    let of_cli: Value = serde_json::from_str(of_cli.lines().next().unwrap()).unwrap();
    let mut of_api = listed["sessions"][0].clone();
    of_api["type"] = json!("session");
    assert_eq!(of_api, of_cli);
    let ids = s.checkpoints();
    let shown = s.scratch.expect(0, &["show", &ids[0], "--json"]);
    let shown: Value = serde_json::from_str(shown.lines().next().unwrap()).unwrap();
    let mut manifest = s.get(&format!("/v1/checkpoints/{}", ids[0])).expect(200);
    manifest["type"] = json!("manifest");
    assert_eq!(manifest, shown);
    let diff = s.get(&format!("/v1/checkpoints/{}/diff?to={}&path=file", ids[1], ids[0])).expect(200);
    assert_eq!(diff["counts"]["modified"], 1, "{diff}");
    assert!(diff["changes"][0]["diff"].as_str().unwrap().contains("+two"), "{diff}");
    let page = s.get("/v1/sessions/work/checkpoints?limit=1").expect(200);
    assert_eq!(page["checkpoints"][0]["id"], ids[0].as_str());
    let next = s.get(&format!("/v1/sessions/work/checkpoints?limit=1&before={}", page["before"])).expect(200);
    assert_eq!((next["checkpoints"][0]["id"].as_str(), &next["before"]), (Some(ids[1].as_str()), &Value::Null));
}

#[test]
fn files_of_a_checkpoint_are_handed_out_as_bytes_and_nothing_beside_it_is() {
    let s = Service::new();
    let id = s.checkpoints().remove(0);
    let file = s.get(&format!("/v1/checkpoints/{id}/files/file"));
    assert_eq!((file.status, &file.body[..]), (200, &b"one\ntwo\n"[..]));
    assert!(
        file.head.contains("x-content-type-options: nosniff") && file.head.contains("application/octet-stream"),
        "{}",
        file.head
    );
    let odd = s.get(&format!("/v1/checkpoints/{id}/files/folder/%3Cb%3Eodd%20&amp%3B%20name"));
    assert_eq!((odd.status, &odd.body[..]), (200, &b"x"[..]));
    write(&s.scratch.path("secret"), b"beside").unwrap();
    for path in ["../secret", "%2e%2e/secret", "..%2fsecret", "folder/../../secret", "/etc/passwd", "folder", "none", "file/x"] {
        let answer = s.get(&format!("/v1/checkpoints/{id}/files/{path}"));
        assert!([400, 404].contains(&answer.status), "{path}: {}", answer.status);
        assert!(!answer.body.windows(6).any(|six| six == b"beside"), "{path}");
    }
}

#[test]
fn what_is_said_of_a_checkpoint_is_recorded_for_the_caller() {
    let s = Service::new();
    let ids = s.checkpoints();
    let at = |verb: &str| format!("/v1/checkpoints/{}/{verb}", ids[0]);
    let tagged = s.post(&at("tags"), &json!({"tags": ["release/1", "b"]})).expect(200);
    assert_eq!(tagged["added"], json!(["release/1", "b"]));
    s.post(&at("annotations"), &json!({"text": "looked at"})).expect(200);
    let decided = s.post(&at("approve"), &json!({"reason": "tests pass"})).expect(200);
    assert_eq!((&decided["approval"]["status"], &decided["recorded"]), (&json!("approved"), &json!(true)), "{decided}");
    assert_eq!(s.post(&at("approve"), &json!({})).expect(200)["recorded"], false);
    let problem = s.post(&at("reject"), &json!({"reason": "no"})).expect(409);
    assert_eq!((&problem["title"], &problem["exit_code"]), (&json!("refused"), &json!(4)), "{problem}");
    let audit = s.scratch.expect(0, &["audit", "log", "--json"]);
    let approved: Value = serde_json::from_str(audit.lines().next().unwrap()).unwrap();
    assert_eq!((&approved["action"], &approved["via"]), (&json!("checkpoint.approve"), &json!("api")), "{approved}");
    assert_eq!(approved["uid"], rustix::process::getuid().as_raw(), "{approved}");
    assert!(s.scratch.expect(0, &["list", "--tag", "release/*", "--json"]).contains(&ids[0]));
}

#[test]
fn an_agent_does_not_decide_through_the_service_either() {
    let s = Service::new();
    let script = "while ! test -e ask.py; do sleep 0.1; done; python3 ask.py > asked; mv asked answer; sleep 100000";
    write(&s.scratch.path("own/file"), b"x").unwrap();
    let own = s.scratch.path("own").to_string_lossy().into_owned();
    let words = ["session", "run", "--name", "own", "--workspace", &own, "--", "sh", "-c", script];
    let mut run = s.scratch.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait(|| (s.get("/v1/sessions/own").status == 200).then_some(()));
    let made = s.post("/v1/sessions/own/checkpoints", &json!({})).expect(201);
    let id = made["checkpoint"]["id"].as_str().unwrap();
    let far = json!({"session": "far", "host": "h", "workspace": s.scratch.path("far"), "command": ["claude"]});
    let far = s.post("/v1/runs", &far).expect(201);
    s.post(&format!("/v1/runs/{}/end", far["run"]["id"].as_str().unwrap()), &json!({"epoch": 1, "exit_code": 0})).expect(200);
    let asked = [
        ("/v1/sessions/far/end".to_owned(), json!({})),
        ("/v1/sessions/far/pause".to_owned(), json!({})),
        ("/v1/sessions/far/resume".to_owned(), json!({})),
        ("/v1/sessions/far/prompt".to_owned(), json!({"text": "hi"})),
        ("/v1/sessions/own/answer".to_owned(), json!({"question": "x", "keys": ["1"]})),
        ("/v1/sessions/work/labels".to_owned(), json!({"set": {"a": "b"}})),
        ("/v1/sessions/work/checkpoints".to_owned(), json!({})),
        ("/v1/runs".to_owned(), json!({"session": "far", "host": "h", "command": ["/tmp/evil/claude"]})),
        (format!("/v1/checkpoints/{id}/approve"), json!({})),
    ];
    let words: Vec<String> = asked.iter().map(|(path, body)| format!("({path:?}, {:?})", body.to_string())).collect();
    let ask = format!(
        "import socket\n\
         for path, body in [{}]:\n \
         s = socket.socket(socket.AF_UNIX)\n s.connect('{}')\n \
         head = f'POST {{path}} HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\nContent-Type: application/json\\r\\n'\n \
         s.sendall(f'{{head}}Content-Length: {{len(body)}}\\r\\n\\r\\n{{body}}'.encode())\n \
         print(s.makefile().readline().split()[1])",
        words.join(", "),
        s.socket().display()
    );
    write(&s.scratch.path("own/ask"), ask.as_bytes()).unwrap();
    fs::rename(s.scratch.path("own/ask"), s.scratch.path("own/ask.py")).unwrap();
    let answer = wait(|| fs::read_to_string(s.scratch.path("own/answer")).ok());
    assert_eq!(answer.lines().collect::<Vec<_>>(), vec!["409"; asked.len()], "{answer}");
    let refused = s.scratch.expect(0, &["audit", "log", "--all", "--json", "--action", "session.act_refused"]);
    assert_eq!(refused.matches("\"session.act_refused\"").count(), asked.len() - 1, "{refused}");
    let audit = s.scratch.expect(0, &["audit", "log", "--json"]);
    let last: Value = serde_json::from_str(audit.lines().rfind(|line| line.contains("\"audit\"")).unwrap()).unwrap();
    assert_eq!((&last["action"], &last["via"]), (&json!("checkpoint.approve_refused"), &json!("agent")), "{last}");
    s.post(&format!("/v1/checkpoints/{id}/approve"), &json!({})).expect(200);
    s.post("/v1/sessions/own/pause", &json!({"end_agent": true})).expect(200);
    run.wait().unwrap();
}

#[test]
fn bad_requests_are_problems_and_change_nothing() {
    let s = Service::new();
    let id = s.checkpoints().remove(0);
    let before = s.get("/health").expect(200)["sequence"].clone();
    let post = |path: &str, headers: &str, body: &str| {
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}");
        exchange(&s.socket(), &format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()))
    };
    let json_type = "Content-Type: application/json\r\n";
    let approve = format!("/v1/checkpoints/{id}/approve");
    for (answer, status, what) in [
        (s.get("/nothing"), 404, "no such path"),
        (s.get(&approve), 405, "another method"),
        (s.get("/v1/sessions/none"), 404, "no such session"),
        (s.get("/v1/checkpoints/none"), 404, "no such checkpoint"),
        (s.get("/v1/sessions?limit=many"), 400, "no number"),
        (s.get("/v1/sessions?limits=1"), 400, "an unknown parameter"),
        (s.get(&format!("/v1/checkpoints/{id}/diff")), 400, "a parameter is missing"),
        (post(&approve, json_type, "{"), 400, "no JSON"),
        (post(&approve, json_type, "[]"), 400, "no object"),
        (post(&approve, json_type, "{\"reasons\":\"x\"}"), 400, "an unknown member"),
        (post(&approve, json_type, "{\"reason\":\"\\u001b[2J\"}"), 400, "a text that steers a terminal"),
        (post(&approve, "", "{\"reason\":\"x\"}"), 400, "a form, as a web page sends it"),
        (post(&approve, "Origin: https://example.com\r\n", ""), 403, "a web page"),
        (post("/v1/checkpoints/latest/approve", json_type, "{}"), 400, "whose newest?"),
        (post("/v1/checkpoints/00000000000000000000000000/approve", json_type, "{}"), 404, "a checkpoint that never was"),
        (post(&approve, json_type, &format!("{{\"reason\":\"{}\"}}", "x".repeat(2 << 20))), 413, "too long"),
    ] {
        assert_eq!(answer.status, status, "{what}: {}", String::from_utf8_lossy(&answer.body));
        assert!(answer.head.contains("application/problem+json"), "{what}: {}", answer.head);
        let problem = answer.json();
        assert_eq!(problem["status"], status, "{what}");
        assert!(problem["detail"].as_str().is_some_and(|text| text.len() > 10), "{what}: {problem}");
    }
    assert_eq!(s.get("/health").expect(200)["sequence"], before);
}

/// Reads server-sent events from a connection until there are so many.
fn heard(stream: &mut BufReader<UnixStream>, number: usize) -> Vec<Value> {
    let mut found = Vec::new();
    let mut line = String::new();
    while found.len() < number {
        line.clear();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended after {found:?}");
        if let Some(data) = line.strip_prefix("data: ") {
            found.push(serde_json::from_str(data).unwrap());
        }
    }
    found
}

#[test]
fn events_are_heard_as_they_come_and_taken_up_where_a_listener_stopped() {
    let s = Service::new();
    let ids = s.checkpoints();
    let listen = |headers: &str, query: &str| {
        let mut stream = UnixStream::connect(s.socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(format!("GET /v1/events{query} HTTP/1.1\r\nHost: x\r\n{headers}\r\n").as_bytes()).unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).unwrap();
        }
        stream
    };
    let mut live = listen("", "?kind=checkpoint.tagged");
    s.scratch.expect(0, &["tag", &ids[0], "a", "b"]);
    let tags = heard(&mut live, 2);
    assert_eq!((&tags[0]["data"]["tag"], &tags[1]["data"]["tag"]), (&json!("a"), &json!("b")));
    assert_eq!(tags[0]["session"], "work", "{}", tags[0]);
    let all = heard(&mut listen("", "?after=0"), 3);
    assert_eq!(all[0]["sequence"], 1, "{}", all[0]);
    let again = heard(&mut listen(&format!("Last-Event-ID: {}\r\n", tags[0]["sequence"]), "?kind=checkpoint.tagged"), 1);
    assert_eq!(again[0]["data"]["tag"], "b");
}

#[test]
fn who_says_nothing_is_not_waited_for() {
    let s = Service::new();
    let mut slow = UnixStream::connect(s.socket()).unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    slow.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n").unwrap();
    s.get("/health").expect(200);
    let mut rest = Vec::new();
    slow.read_to_end(&mut rest).unwrap();
    assert!(!String::from_utf8_lossy(&rest).contains("200 OK"));
}

#[test]
fn a_folder_goes_back_and_forth_and_is_shown_before() {
    let s = Service::new();
    let ids = s.checkpoints();
    write(&s.scratch.path("work/file"), b"three\n").unwrap();
    let roll = |body: &Value| s.post(&format!("/v1/checkpoints/{}/rollback", ids[1]), body);
    let file = || fs::read_to_string(s.scratch.path("work/file")).unwrap();
    let shown = roll(&json!({"dry_run": true})).expect(200);
    assert_eq!((&shown["rollback"]["dry_run"], &shown["rollback"]["changed"]), (&json!(true), &json!(false)), "{shown}");
    assert_eq!(shown["actions"], json!([{"path": "file", "action": "replace"}]));
    assert_eq!(file(), "three\n");
    let done = roll(&json!({})).expect(200);
    assert_eq!((&done["rollback"]["changed"], &done["actions"]), (&json!(true), &shown["actions"]), "{done}");
    assert_eq!(file(), "one\n");
    assert!(s.checkpoints().iter().any(|id| done["rollback"]["safety"] == id.as_str()), "{done}");
    s.post("/v1/sessions/work/undo", &json!({"dry_run": true})).expect(200);
    assert_eq!(file(), "one\n");
    s.post("/v1/sessions/work/undo", &json!({})).expect(200);
    assert_eq!(file(), "three\n");
    assert_eq!(roll(&json!({"dry-run": true})).expect(400)["exit_code"], 2, "a word that is not known does not roll back");
    assert_eq!(file(), "three\n");
}

#[test]
fn a_folder_goes_back_but_for_what_may_be_left() {
    let s = Service::new();
    let ids = s.checkpoints();
    let (outside, inside) = (s.scratch.path("outside"), s.scratch.path("work/folder/<b>odd &amp; name"));
    write(&s.scratch.path("work/file"), b"three\n").unwrap();
    write(&outside, b"mounted").unwrap();
    let mount = |program: &str, paths: &[&std::path::Path]| {
        let mut command = std::process::Command::new(program);
        command.args(if program == "mount" { &["--bind"][..] } else { &["-l"] }).args(paths);
        assert!(command.status().unwrap().success(), "this test needs root");
    };
    mount("mount", &[&outside, &inside]);
    let roll = |body: &Value| s.post(&format!("/v1/checkpoints/{}/rollback", ids[1]), body);
    let refused = [json!({"dry_run": true}), json!({})].map(|body| roll(&body).expect(409));
    let before = fs::read_to_string(s.scratch.path("work/file")).unwrap();
    let shown = roll(&json!({"dry_run": true, "leave_unwritable": true})).expect(200);
    let done = roll(&json!({"leave": ["folder/<b>odd &amp; name"]})).expect(200);
    mount("umount", &[&inside]);
    for problem in refused {
        let said = problem["detail"].as_str().unwrap();
        assert!(said.contains("it is a mount of its own") && said.contains("\"leave_unwritable\": true"), "{said}");
    }
    assert_eq!(before, "three\n");
    for answer in [shown, done] {
        assert_eq!(answer["rollback"]["left"][0]["path"], "folder/<b>odd &amp; name", "{answer}");
    }
    assert_eq!(fs::read_to_string(s.scratch.path("work/file")).unwrap(), "one\n");
}

#[test]
fn checkpoints_are_found_by_words() {
    let s = Service::new();
    let ids = s.checkpoints();
    s.post(&format!("/v1/checkpoints/{}/annotations", ids[1]), &json!({"text": "the migration was wrong"})).expect(200);
    let found = s.get("/v1/search?q=migration%20wrong&session=work").expect(200);
    assert_eq!((&found["matching"], &found["found"][0]["checkpoint"]), (&json!(1), &json!(ids[1])), "{found}");
    assert_eq!(s.get("/v1/search?q=nothing").expect(200)["found"], json!([]));
    s.get("/v1/search?q=%22").expect(400);
    s.get("/v1/search").expect(400);
}

#[test]
fn a_request_that_is_sent_again_is_done_once() {
    let s = Service::new();
    let ids = s.checkpoints();
    let post = |key: &str, path: &str, body: &Value| {
        let body = body.to_string();
        let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json");
        exchange(&s.socket(), &format!("{head}\r\nIdempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n{body}", body.len()))
    };
    let path = format!("/v1/checkpoints/{}/annotations", ids[0]);
    let first = post("a", &path, &json!({"text": "once"}));
    let again = post("a", &path, &json!({"text": "once"}));
    assert_eq!((first.status, &first.body), (200, &again.body));
    assert!(again.head.contains("idempotent-replayed: true") && !first.head.contains("replayed"), "{}", again.head);
    assert_eq!(post("a", &path, &json!({"text": "other"})).expect(422)["title"], "usage");
    post("b", &path, &json!({"text": "once"})).expect(200);
    let said = s.scratch.expect(0, &["annotations", &ids[0], "--json"]);
    assert_eq!(said.matches("\"once\"").count(), 2, "{said}");
    // What was refused is refused again, whatever has become of it since.
    let none = format!("/v1/checkpoints/{}/reject", ids[0]);
    s.post(&format!("/v1/checkpoints/{}/approve", ids[0]), &json!({})).expect(200);
    post("c", &none, &json!({"reason": "x"})).expect(409);
    post("c", &none, &json!({"reason": "x"})).expect(409);
    post(&"x".repeat(256), &path, &json!({"text": "x"})).expect(400);
}

#[test]
fn two_of_one_request_at_a_time_are_one() {
    let s = Service::new();
    let path = "/v1/sessions/work/checkpoints";
    write(&s.scratch.path("work/file"), b"four\n").unwrap();
    let before = s.checkpoints().len();
    let ask = || {
        let head = "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n";
        exchange(&s.socket(), &head.replace("{path}", path))
    };
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        for answer in asked.into_iter().map(|asked| asked.join().unwrap()) {
            assert!([201, 409].contains(&answer.status), "{} {}", answer.status, String::from_utf8_lossy(&answer.body));
        }
    });
    assert_eq!(wait(|| Some(ask()).filter(|answer| answer.status == 201)).status, 201);
    assert_eq!(s.checkpoints().len(), before + 1);
}
