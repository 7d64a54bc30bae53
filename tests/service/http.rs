//! HTTP beside the operations: versions of paths, conditions, parts of files, compressed answers.

use std::process::Command;

use super::*;

impl Service {
    /// Sends a request with headers, each with its line's end.
    fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n{headers}"
        );
        exchange(&self.socket(), &format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()))
    }
}

/// The value of a header.
fn header(answer: &Answer, name: &str) -> Option<String> {
    let line = answer.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))?;
    Some(line.to_owned())
}

#[test]
fn paths_have_a_version_and_an_older_name() {
    let s = Service::new();
    let (new, old) = (s.get("/v1/sessions/work").expect(200), s.get("/api/sessions/work").expect(200));
    assert_eq!(new["session"]["id"], old["session"]["id"]);
    s.post("/api/sessions/work/pause", &json!({})).expect(200);
    assert_eq!(s.get("/v1/sessions/work").expect(200)["session"]["status"], "paused");
    assert_eq!(s.get("/v2/sessions/work").status, 404);
    let document = s.get("/openapi.json").expect(200);
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.contains_key("/v1/sessions") && !paths.keys().any(|path| path.starts_with("/api/")));
}

#[test]
fn a_session_that_has_changed_since_is_left_alone() {
    let s = Service::new();
    let seen = s.get("/v1/sessions/work");
    let tag = header(&seen, "etag").unwrap();
    assert_eq!(tag, format!("\"{}\"", seen.json()["session"]["changed_sequence"]));
    write(&s.scratch.path("work/file"), b"three\n").unwrap();
    s.scratch.create("work", &s.scratch.path("work"));
    let refused = s.send("POST", "/v1/sessions/work/pause", &format!("If-Match: {tag}\r\n"), "{}");
    let problem = refused.expect(412);
    assert_eq!((&problem["title"], &problem["exit_code"]), (&json!("refused"), &json!(4)), "{problem}");
    let now = s.get("/v1/sessions/work");
    assert_eq!((header(&refused, "etag"), &now.json()["session"]["status"]), (header(&now, "etag"), &json!("active")));
    let tag = header(&now, "etag").unwrap();
    s.send("POST", "/v1/sessions/work/pause", &format!("If-Match: \"0\", {tag}\r\n"), "{}").expect(200);
    s.send("POST", "/v1/sessions/work/end", &format!("If-Match: {tag}\r\n"), "{}").expect(412);
    s.send("POST", "/v1/sessions/none/end", "If-Match: *\r\n", "{}").expect(404);
    s.send("POST", "/v1/sessions/work/end", "If-Match: *\r\n", "{}").expect(200);
}

#[test]
fn of_requests_for_one_state_of_a_session_one_is_done() {
    let s = Service::new();
    let tag = header(&s.get("/v1/sessions/work"), "etag").unwrap();
    let label = |number: usize| {
        let body = json!({"set": {"n": number.to_string()}}).to_string();
        s.send("POST", "/v1/sessions/work/labels", &format!("If-Match: {tag}\r\n"), &body).status
    };
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..8).map(|number| scope.spawn(move || label(number))).collect();
        asked.into_iter().map(|asked| asked.join().unwrap()).collect()
    });
    assert_eq!(
        (statuses.iter().filter(|status| **status == 200).count(), statuses.iter().filter(|status| **status == 412).count()),
        (1, 7)
    );
}

#[test]
fn a_part_of_a_file_comes_alone() {
    let s = Service::new();
    let long: Vec<u8> = (0..3_000_000u32).map(|number| (number * 7 % 251) as u8).collect();
    write(&s.scratch.path("work/long"), &long).unwrap();
    let id = s.scratch.create("work", &s.scratch.path("work"));
    let path = format!("/v1/checkpoints/{id}/files/long");
    let ask = |headers: &str| s.send("GET", &path, headers, "");
    let whole = ask("");
    let tag = header(&whole, "etag").unwrap();
    assert_eq!((whole.status, whole.body == long, header(&whole, "accept-ranges").as_deref()), (200, true, Some("bytes")));
    for (range, part) in [
        ("0-99", 0..100),
        ("1048570-1048590", 1_048_570..1_048_591),
        ("2999990-", 2_999_990..3_000_000),
        ("-5", 2_999_995..3_000_000),
    ] {
        let answer = ask(&format!("Range: bytes={range}\r\nIf-Range: {tag}\r\n"));
        assert_eq!((answer.status, &answer.body[..]), (206, &long[part.clone()]), "{range}");
        let content_range = format!("bytes {}-{}/3000000", part.start, part.end - 1);
        assert_eq!((header(&answer, "content-range"), header(&answer, "etag")), (Some(content_range), Some(tag.clone())));
    }
    let beyond = ask("Range: bytes=3000000-\r\n");
    assert_eq!(
        (beyond.expect(416)["status"].clone(), header(&beyond, "content-range").as_deref()),
        (json!(416), Some("bytes */3000000"))
    );
    for whole in ["Range: bytes=0-9\r\nIf-Range: \"other\"\r\n", "Range: bytes=0-1,4-5\r\n", "Range: lines=0-9\r\n"] {
        let answer = ask(whole);
        assert_eq!((answer.status, answer.body.len()), (200, long.len()), "{whole}");
    }
    let known = ask(&format!("If-None-Match: \"x\", {tag}\r\n"));
    assert_eq!((known.status, known.body.len()), (304, 0));
    let head = s.send("HEAD", &path, "Range: bytes=0-9\r\n", "");
    assert_eq!((head.status, header(&head, "content-length").as_deref(), head.body.len()), (200, Some("3000000"), 0));
}

#[test]
fn long_answers_are_compressed_for_those_who_take_them_so() {
    let s = Service::new();
    let path = "/openapi.json";
    let plain = s.send("GET", path, "", "");
    assert!(
        header(&plain, "content-encoding").is_none() && header(&plain, "vary").as_deref() == Some("accept-encoding"),
        "{}",
        plain.head
    );
    let packed = s.send("GET", path, "Accept-Encoding: br, gzip\r\n", "");
    assert_eq!(header(&packed, "content-encoding").as_deref(), Some("gzip"));
    assert_eq!(header(&packed, "content-length"), Some(packed.body.len().to_string()));
    assert!(packed.body.len() * 3 < plain.body.len(), "{} of {}", packed.body.len(), plain.body.len());
    let file = s.scratch.path("packed.gz");
    fs::write(&file, &packed.body).unwrap();
    let unpacked = Command::new("gzip").arg("-dc").arg(&file).output().unwrap();
    assert!(unpacked.status.success() && unpacked.stdout == plain.body);
    for (path, headers) in [
        (path, "Accept-Encoding: gzip;q=0\r\n"),
        ("/ready", "Accept-Encoding: gzip\r\n"),
        ("/v1/sessions/work", "Accept-Encoding: gzip\r\n"),
    ] {
        assert!(header(&s.send("GET", path, headers, ""), "content-encoding").is_none(), "{path}");
    }
}

#[test]
fn sessions_are_chosen_by_their_labels() {
    let s = Service::new();
    write(&s.scratch.path("other/file"), b"x").unwrap();
    s.scratch.create("other", &s.scratch.path("other"));
    let labels = s.post("/v1/sessions/work/labels", &json!({"set": {"env": "prod", "team/a": ""}})).expect(200);
    assert_eq!(labels["session"]["labels"], json!({"env": "prod", "team/a": ""}), "{labels}");
    let said = s.scratch.expect(0, &["session", "label", "work", "tier=1", "team/a-"]);
    assert!(said.contains("env=prod, tier=1"), "{said}");
    assert!(s.scratch.expect(0, &["session", "label", "work", "tier=1"]).contains("already"));
    s.scratch.expect(0, &["session", "label", "other", "env=test"]);
    assert_eq!(s.scratch.expect(0, &["session", "label", "work"]), "env=prod\ntier=1\n");
    for (selector, names) in [
        ("env=prod", &["work"][..]),
        ("env", &["other", "work"]),
        ("env!=prod", &["other"]),
        ("!tier,env", &["other"]),
        ("no", &[]),
    ] {
        let encoded: String = selector.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let listed = s.get(&format!("/v1/sessions?label={encoded}")).expect(200);
        let mut found: Vec<_> = listed["sessions"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, names, "{selector}");
        let said = s.scratch.expect(0, &["session", "list", "--label", selector, "--json"]);
        let by_cli =
            said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).filter(|line| line["type"] == "session");
        let mut by_cli: Vec<_> = by_cli.map(|line| line["id"].as_str().unwrap().to_owned()).collect();
        by_cli.sort_unstable();
        assert_eq!(by_cli, names, "{selector}");
    }
    s.get("/v1/sessions?label=a%20b").expect(400);
    s.post("/v1/sessions/work/labels", &json!({"set": {"a": "ok", "-b": "x"}})).expect(400);
    s.scratch.expect(2, &["session", "label", "work", "a b=c"]);
    assert_eq!(s.get("/v1/sessions/work").expect(200)["session"]["labels"], json!({"env": "prod", "tier": "1"}));
}

#[test]
fn a_checkpoint_that_was_made_has_a_place_and_a_session_that_has_failed_is_not_paused() {
    let s = Service::new();
    let made = s.post("/v1/sessions/work/checkpoints", &json!({}));
    let place = header(&made, "location").unwrap();
    let id = made.expect(201)["checkpoint"]["id"].as_str().unwrap().to_owned();
    assert_eq!(place, format!("/v1/checkpoints/{id}").to_lowercase(), "headers are read in lower case");
    let described = s.get("/openapi.json").expect(200);
    let answers = &described["paths"]["/v1/sessions/{session}/checkpoints"]["post"]["responses"];
    assert!(answers["201"]["headers"]["Location"].is_object(), "{answers}");

    let folder = s.scratch.path("failed").to_string_lossy().into_owned();
    fs::create_dir_all(&folder).unwrap();
    s.scratch.expect(3, &["session", "run", "--name", "failed", "--workspace", &folder, "--", "sh", "-c", "echo x > x; exit 3"]);
    assert_eq!(s.get("/v1/sessions/failed").expect(200)["session"]["status"], "error");
    let refused = s.post("/v1/sessions/failed/pause", &json!({})).expect(409);
    assert!(refused["detail"].as_str().unwrap().contains("has failed"), "{refused}");
    assert_eq!(s.get("/v1/sessions/failed").expect(200)["session"]["status"], "error");
    s.post("/v1/sessions/failed/end", &json!({})).expect(200);
}
