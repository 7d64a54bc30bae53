//! Long contents: files in pieces, lists by pages.

use parhelia_tests::noise;

use super::*;

fn length(answer: &Answer) -> Option<u64> {
    answer.head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()
}

#[test]
fn a_long_file_is_handed_out_whole() {
    let s = Service::new();
    let (start, end, size) = (b"start\n", b"\nend", 100 << 20);
    let path = s.scratch.path("work/long");
    write(&path, start).unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.set_len(size).unwrap();
    file.write_all(end).unwrap();
    let id = s.scratch.create("work", &s.scratch.path("work"));
    let answer = s.get(&format!("/v1/checkpoints/{id}/files/long"));
    assert_eq!((answer.status, length(&answer)), (200, Some(size + 4)));
    assert_eq!(answer.body.len() as u64, size + 4);
    assert!(answer.body.starts_with(start) && answer.body.ends_with(end));
    assert!(answer.body[6..size as usize].iter().all(|byte| *byte == 0));
    // Whoever goes away in the middle of it is not waited for.
    for _ in 0..20 {
        let mut stream = UnixStream::connect(s.socket()).unwrap();
        stream.write_all(format!("GET /v1/checkpoints/{id}/files/long HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
        stream.read_exact(&mut [0; 1000]).unwrap();
    }
    s.get("/health").expect(200);
}

#[test]
fn damage_in_the_middle_of_a_file_cuts_it_and_at_its_start_is_a_problem() {
    let s = Service::new();
    let content = noise(8 << 20, 1);
    write(&s.scratch.path("work/long"), &content).unwrap();
    let id = s.scratch.create("work", &s.scratch.path("work"));
    let path = format!("/v1/checkpoints/{id}/files/long");
    let packs = fs::read_dir(s.scratch.store().join("packs")).unwrap().map(|entry| entry.unwrap().path());
    let pack = packs.max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    let whole = fs::read(&pack).unwrap();
    let damage = |at: usize| {
        let place = whole.windows(64).position(|bytes| *bytes == content[at..at + 64]).expect("the file's bytes, in the pack");
        let mut bytes = whole.clone();
        // More than the pack's parity makes up for.
        bytes[place..place + 300_000].fill(0);
        fs::write(&pack, bytes).unwrap();
    };
    damage(6 << 20);
    let cut = s.get(&path);
    assert_eq!((cut.status, length(&cut)), (200, Some(content.len() as u64)));
    assert!(cut.body.len() >= 1 << 20 && cut.body.len() < content.len(), "{}", cut.body.len());
    assert!(content.starts_with(&cut.body));
    wait(|| s.said().contains("long of checkpoint").then_some(()));
    damage(100);
    let s = restarted(s);
    assert_eq!(s.get(&path).expect(500)["title"], "corrupt");
    let head = exchange(&s.socket(), &format!("HEAD {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    assert_eq!((head.status, length(&head), head.body.len()), (200, Some(content.len() as u64), 0), "{}", head.head);
}

/// The same, as a process that remembers nothing.
fn restarted(mut service: Service) -> Service {
    service.signal(Signal::TERM);
    service.start();
    service
}

#[test]
fn lists_come_by_pages_and_no_page_is_empty() {
    let s = Service::new();
    for name in ["b", "c", "d"] {
        write(&s.scratch.path(&format!("work/many/{name}")), name.as_bytes()).unwrap();
    }
    s.scratch.create("other", &s.scratch.path("work"));
    let id = s.scratch.create("work", &s.scratch.path("work"));
    let old = s.checkpoints().pop().unwrap();
    for path in [
        "/v1/sessions?limit=0".to_owned(),
        "/v1/sessions/work/checkpoints?limit=0".to_owned(),
        "/v1/search?q=x&limit=0".to_owned(),
        format!("/v1/checkpoints/{id}/entries?limit=0"),
        format!("/v1/checkpoints/{old}/diff?to={id}&limit=0"),
    ] {
        s.get(&path).expect(400);
    }
    let first = s.get("/v1/sessions?limit=1").expect(200);
    assert_eq!(first["sessions"][0]["name"], "work", "{first}");
    let second = s.get(&format!("/v1/sessions?limit=1&before={}", first["before"])).expect(200);
    assert_eq!((&second["sessions"][0]["name"], &second["before"]), (&json!("other"), &Value::Null), "{second}");
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page = s.get(&format!("/v1/checkpoints/{id}/entries?path=many&limit=2{after}")).expect(200);
        found.extend(page["entries"].as_array().unwrap().iter().map(|entry| entry["path"].as_str().unwrap().to_owned()));
        let Some(last) = page["after"].as_str() else { break };
        after = format!("&after={last}");
    }
    assert_eq!(found, ["many/b", "many/c", "many/d"]);
    let all = s.get(&format!("/v1/checkpoints/{old}/diff?to={id}")).expect(200);
    let number = all["changes"].as_array().unwrap().len();
    assert_eq!(all["truncated"], false, "{all}");
    let some = s.get(&format!("/v1/checkpoints/{old}/diff?to={id}&limit={}", number - 1)).expect(200);
    assert_eq!((some["changes"].as_array().unwrap().len(), &some["truncated"]), (number - 1, &json!(true)), "{some}");
    assert_eq!(some["counts"], all["counts"]);
    let parameters = &s.get("/openapi.json").expect(200)["paths"]["/v1/sessions"]["get"]["parameters"];
    let limit = parameters.as_array().unwrap().iter().find(|parameter| parameter["name"] == "limit").unwrap();
    assert_eq!(limit["schema"], json!({"type": "integer", "minimum": 1}));
}

#[test]
fn a_listener_hears_more_than_a_page_and_nothing_beyond_the_end() {
    let s = Service::new();
    let ids = s.checkpoints();
    // Each tag is an entry; two pages and a part of a third one.
    let tags: Vec<String> = (0..2100).map(|n| format!("t{n:04}")).collect();
    for some in tags.chunks(700) {
        s.post(&format!("/v1/checkpoints/{}/tags", ids[0]), &json!({"tags": some})).expect(200);
    }
    let mut stream = UnixStream::connect(s.socket()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(b"GET /v1/events?after=0&kind=checkpoint.tagged HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let mut heard = || -> Value {
        let data = lines.by_ref().find_map(|line| line.strip_prefix("data: ").map(str::to_owned)).unwrap();
        serde_json::from_str(&data).unwrap()
    };
    for tag in &tags {
        assert_eq!(heard()["data"]["tag"], tag.as_str());
    }
    s.post(&format!("/v1/checkpoints/{}/tags", ids[0]), &json!({"tags": ["live"]})).expect(200);
    assert_eq!(heard()["data"]["tag"], "live");
    let end = s.get("/health").expect(200)["sequence"].as_u64().unwrap();
    let problem = s.get(&format!("/v1/events?after={}", end + 1)).expect(400);
    assert_eq!(problem["detail"], format!("after {} is beyond the newest entry {end}", end + 1));
    let head = format!("GET /v1/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\nLast-Event-ID: {}\r\n\r\n", end + 7);
    exchange(&s.socket(), &head).expect(400);
}

#[test]
fn a_long_conversation_comes_by_pages_and_a_long_text_whole_if_asked_for() {
    let s = Service::new();
    let more = r#"for n in 1 2 3 4; do
    text=$(head -c 9000 /dev/zero | tr '\0' x)
    printf '{"type":"user","uuid":"u%s","sessionId":"%s","message":{"role":"user","content":"%s %s"}}\n' $n "$id" $n "$text" >> "$folder/$id.jsonl"
done
test -e stay"#;
    s.agent_of(&scripted::AGENT.replace("test -e stay", more));
    s.post("/v1/sessions/agent/checkpoints", &json!({}));
    let page = |query: &str| s.get(&format!("/v1/checkpoints/agent@latest/conversation?{query}")).expect(200);
    let records = |page: &Value| -> Vec<String> {
        page["messages"].as_array().unwrap().iter().map(|one| one["record"].as_str().unwrap().to_owned()).collect()
    };
    let all = page("");
    assert_eq!((&records(&all)[1..], &all["left_out"]), (&["u1", "u2", "u3", "u4"].map(str::to_owned)[..], &json!(0)));
    let last = &all["messages"][4];
    assert_eq!((last["text"].as_str().unwrap().len(), &last["text_bytes"]), (4000, &json!(9002)), "it is said that it is cut");
    let second = page("limit=2");
    assert_eq!((records(&second), &second["left_out"]), (vec!["u3".to_owned(), "u4".to_owned()], &json!(3)));
    let first = page("limit=2&before=3");
    assert_eq!((records(&first), &first["left_out"]), (vec!["u1".to_owned(), "u2".to_owned()], &json!(1)));
    assert_eq!(page("limit=2&before=1")["left_out"], 0);
    let whole = page("before=3&limit=1&text_bytes=10000");
    assert_eq!(whole["messages"][0]["text"].as_str().unwrap().len(), 9002, "{whole}");
}
