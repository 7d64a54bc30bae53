//! What the service concludes about agents and about itself becomes events, fields, numbers and messages.

use parhelia_tests::receiver::{Answer, Receiver, Request};

use super::{browser::token, *};

/// A service that tells a webhook everything.
fn telling(receiver: &Receiver) -> Service {
    let config = "[notifications]\ninsecure_loopback = true\nrepeat_minutes = 0\n[notifications.routing]\ninfo = [\"mine\"]\nnotice = [\"mine\"]\n\
                  warning = [\"mine\"]\ncritical = [\"mine\"]\n[notifications.channels.mine]\ntype = \"webhook\"\nurl = \"URL/mine\"\n";
    telling_on(receiver, config)
}

/// A service with a configuration in which `URL` stands for the receiver's address.
fn telling_on(receiver: &Receiver, config: &str) -> Service {
    let s = Service::of(Service::store_of_work(), &[]);
    write(&s.scratch.path("home/.config/parhelia/parhelia.toml"), config.replace("URL", &receiver.url()).as_bytes()).unwrap();
    let mut s = s;
    s.start();
    s
}

/// The file in which an agent says what it does.
fn said_by(s: &Service, process: i32) -> PathBuf {
    wait(|| {
        let mut said = fs::read_dir(s.scratch.path("home/.claude/sessions")).ok()?.flatten();
        said.find(|entry| entry.file_name().to_string_lossy().starts_with(&process.to_string())).map(|entry| entry.path())
    })
}

fn told(receiver: &Receiver, event: &str) -> Value {
    let is_of = |request: &Request| request.json()["event"] == event;
    wait(|| receiver.requests_to("/mine").iter().find(|one| is_of(one)).map(Request::json))
}

fn session(s: &Service, name: &str) -> Value {
    s.get(&format!("/v1/sessions/{name}")).expect(200)["session"].clone()
}

fn number(s: &Service, series: &str) -> Option<i64> {
    let text = String::from_utf8(s.get("/metrics").body).unwrap();
    text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

#[test]
fn an_agent_that_waits_is_told_of_within_seconds_and_needs_nobody_once_it_is_answered() {
    let receiver = Receiver::new();
    let s = telling(&receiver);
    let process = s.agent();
    let file = said_by(&s, process);
    let idle = fs::read_to_string(&file).unwrap();
    let waiting = idle.replace("\"idle\"", "\"waiting\",\"waitingFor\":\"permission prompt\"");
    let began = Instant::now();
    fs::write(&file, waiting).unwrap();
    let message = told(&receiver, "session.waiting");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert_eq!((&message["reason"], &message["session_name"]), (&json!("permission prompt"), &json!("agent")), "{message}");
    let shown = session(&s, "agent");
    assert_eq!((&shown["attention"]["state"], &shown["needs"]), (&json!("waiting"), &json!("waiting")), "{shown}");
    assert_eq!(number(&s, "parhelia_sessions_needing{need=\"waiting\"}"), Some(1));
    let listed = s.scratch.run(&["session", "list", "--json"]);
    let first: Value = serde_json::from_str(String::from_utf8_lossy(&listed.stdout).lines().next().unwrap()).unwrap();
    assert_eq!(first["name"], "agent", "it comes first");
    fs::write(&file, idle.replace("idle", "busy")).unwrap();
    wait(|| session(&s, "agent")["attention"].is_null().then_some(()));
    assert_eq!(session(&s, "agent")["needs"], Value::Null);
    // It dies, and is resumed: who was told of the one is told of the other.
    kill(process);
    told(&receiver, "session.error");
    let back = told(&receiver, "session.recovered");
    // Its conversation ends with a prompt that it has not answered.
    assert!(back["reason"].as_str().is_some_and(|why| why.contains("waits to be told how to go on")), "{back}");
    let cut_off = session(&s, "agent");
    assert_eq!((&cut_off["attention"]["state"], &cut_off["needs"]), (&json!("cut_off"), &json!("cut_off")), "{cut_off}");
    assert_eq!(number(&s, "parhelia_sessions_needing{need=\"cut_off\"}"), Some(1));
    // Somebody tells it, and its transcript grows.
    let transcript = PathBuf::from(cut_off["conversations"][0]["transcript"].as_str().unwrap());
    let later = std::time::SystemTime::now() + Duration::from_secs(10);
    fs::File::options().append(true).open(&transcript).unwrap().set_modified(later).unwrap();
    wait(|| session(&s, "agent")["needs"].is_null().then_some(()));
    wait(|| session(&s, "agent")["attention"].is_null().then_some(()));
    let alarms = receiver.requests_to("/mine").iter().filter(|one| one.json()["event"] == "session.error").count();
    assert_eq!(alarms, 1, "one kill is told of once");
}

#[test]
fn a_program_that_is_no_agent_is_left_alone_and_that_is_said_everywhere() {
    let receiver = Receiver::new();
    let s = telling(&receiver);
    let place = s.scratch.path("script").to_string_lossy().into_owned();
    fs::create_dir_all(&place).unwrap();
    let body = json!({"name": "script", "workspace": place, "command": ["sleep", "1000"]});
    s.post("/v1/sessions", &body);
    let process = wait(|| s.get("/v1/sessions/script").expect(200)["runs"][0]["pid"].as_i64()) as i32;
    kill(process);
    let message = told(&receiver, "session.left_alone");
    assert!(message["priority"] == "critical" && message["reason"].as_str().unwrap().contains("no agent"), "{message}");
    let shown = session(&s, "script");
    assert_eq!((&shown["needs"], &shown["set_aside"]), (&json!("left_alone"), &message["reason"]), "{shown}");
    assert_eq!(number(&s, "parhelia_sessions_set_aside"), Some(1));
    assert!(s.scratch.expect(0, &["session", "show", "script"]).contains("session recover"));
}

#[test]
fn a_resume_that_cannot_succeed_is_told_and_not_tried_for_ever() {
    let receiver = Receiver::new();
    let s = telling(&receiver);
    let process = s.agent();
    fs::remove_file(s.scratch.path("bin/claude")).unwrap();
    kill(process);
    let message = told(&receiver, "session.resume_failed");
    assert!(message["reason"].as_str().is_some_and(|why| why.contains("claude")), "{message}");
    assert_eq!(session(&s, "agent")["needs"], "resume_failed");
    // A person mends it.
    write_program(&s.scratch.path("bin/claude"), scripted::AGENT);
    told(&receiver, "session.recovered");
}

#[test]
fn a_name_and_a_folder_have_one_live_agent_unless_another_is_asked_for() {
    let s = Service::new();
    write_program(&s.scratch.path("bin/claude"), scripted::AGENT);
    let at = |name: &str| s.scratch.path(name).to_string_lossy().into_owned();
    for folder in ["one/stay", "two/stay"] {
        write(&s.scratch.path(folder), b"").unwrap();
    }
    let begin = |name: &str, folder: &str, more: &str| {
        let mut body = json!({"name": name, "workspace": at(folder), "command": [at("bin/claude")]});
        if !more.is_empty() {
            body[more] = json!(true);
        }
        s.post("/v1/sessions", &body)
    };
    let first = std::thread::scope(|scope| {
        let asked: Vec<_> = (0..3).map(|_| scope.spawn(|| begin("same", "one", "if_absent"))).collect();
        let answers: Vec<Value> = asked.into_iter().map(|one| one.join().unwrap().json()).collect();
        let ids: std::collections::BTreeSet<_> = answers.iter().map(|one| one["session"]["id"].to_string()).collect();
        assert_eq!(ids.len(), 1, "{answers:?}");
        assert_eq!(answers.iter().filter(|one| one["created"] == true).count(), 1, "{answers:?}");
        answers[0]["session"]["id"].as_str().unwrap().to_owned()
    });
    for (name, folder) in [("same", "two"), ("other", "one")] {
        let refused = begin(name, folder, "").expect(409);
        assert!(refused["detail"].as_str().unwrap().contains(&first), "{refused}");
    }
    // Whoever is answered with another one's session hears what is different.
    let body = json!({"name": "same", "workspace": at("two"), "command": ["other"], "if_absent": true, "labels": {"a": "b"}});
    let there = s.post("/v1/sessions", &body).expect(200);
    assert_eq!((&there["created"], there["warnings"].as_array().unwrap().len()), (&json!(false), 3), "{there}");
    let nameless = s.post("/v1/sessions", &json!({"name": " ", "workspace": at("two"), "command": [at("bin/claude")]}));
    assert!(nameless.expect(400)["detail"].as_str().unwrap().contains("cannot be a session's name"));
    let other = begin("same", "two", "beside").json();
    assert_eq!(other["created"], true, "{other}");
    s.get("/v1/sessions/same").expect(409);
    begin("same", "one", "if_absent").expect(409);
    s.get(&format!("/v1/sessions/{first}")).expect(200);
}

#[test]
fn whoever_has_no_token_hears_whether_the_service_is_well_and_it_reads_its_files_again() {
    let s = Service::with(&["--listen", "127.0.0.1:0"]);
    let address = s.page.clone().unwrap();
    let address = address.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let ask = |path: &str, headers: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
        exchange_over(std::net::TcpStream::connect(&address).unwrap(), &request)
    };
    wait(|| (ask("/ready", "").status == 200).then_some(()));
    assert_eq!(ask("/health", "").expect(200), json!({"status": "ok", "reasons": []}));
    let known = ask("/health", &format!("Authorization: Bearer {}\r\n", token(&s))).expect(200);
    assert_eq!((&known["status"], &known["sessions"]), (&json!("ok"), &json!(1)), "{known}");
    assert_eq!(ask("/metrics", "").status, 401);
    let declared = "[[agent]]\nname = \"mine\"\nprograms = [\"mine\"]\nresume = [\"--open\", \"{id}\"]\n\
                    data = { variable = \"MINE_HOME\", home = \".mine\" }\n";
    write(&s.scratch.path("home/.config/parhelia/parhelia.toml"), declared.as_bytes()).unwrap();
    let process = Pid::from_child(s.child.as_ref().unwrap());
    kill_process(process, Signal::HUP).unwrap();
    wait(|| s.said().contains("the configuration is read again").then_some(()));
    assert_eq!(ask("/health", "").status, 200);
    let agents = s.get("/v1/agents").expect(200);
    assert!(agents["agents"].as_array().unwrap().iter().any(|one| one["kind"] == "mine"), "{agents}");
}

#[test]
fn a_store_whose_packs_are_gone_is_not_well() {
    let s = Service::new();
    wait(|| (s.get("/ready").status == 200).then_some(()));
    assert_eq!(number(&s, "parhelia_store_packs_missing"), Some(0));
    let (packs, away) = (s.scratch.store().join("packs"), s.scratch.path("away"));
    fs::rename(&packs, &away).unwrap();
    fs::create_dir(&packs).unwrap();
    let health = wait(|| Some(s.get("/health")).filter(|answer| answer.status == 503)).json();
    assert!(health["status"] == "failing" && health["reasons"][0].as_str().unwrap().contains("packs are missing"), "{health}");
    assert!(number(&s, "parhelia_store_packs_missing") > Some(0));
    fs::remove_dir(&packs).unwrap();
    fs::rename(&away, &packs).unwrap();
    wait(|| (s.get("/health").status == 200).then_some(()));
}

#[test]
fn a_person_hears_nothing_of_an_agent_that_waited_while_the_channel_was_down() {
    let receiver = Receiver::new();
    // Down until somebody looks.
    receiver.answer_by(|_| Answer::status(503));
    let s = telling_on(
        &receiver,
        "[notifications]\ninsecure_loopback = true\ndefault_channel = \"mine\"\n[notifications.channels.mine]\ntype = \"ntfy\"\nserver = \"URL/mine\"\ntopic = \"t\"\n",
    );
    let process = s.agent();
    let file = said_by(&s, process);
    let idle = fs::read_to_string(&file).unwrap();
    fs::write(&file, idle.replace("\"idle\"", "\"waiting\",\"waitingFor\":\"permission prompt\"")).unwrap();
    let waits = |one: &Request| one.body.contains("waits for your answer");
    wait(|| receiver.requests_to("/mine").iter().any(waits).then_some(()));
    let outbox = || s.scratch.expect(0, &["outbox", "list", "--json"]);
    assert!(outbox().contains("session.waiting"), "{}", outbox());
    fs::write(&file, idle).unwrap();
    wait(|| (!outbox().contains("session.waiting")).then_some(()));
    let tried = receiver.requests_to("/mine").iter().filter(|one| waits(one)).count();
    receiver.answer_by(|_| Answer::status(200));
    s.scratch.expect(0, &["outbox", "retry"]);
    wait(|| (!outbox().contains("\"channel\":\"mine\"")).then_some(()));
    assert_eq!(receiver.requests_to("/mine").iter().filter(|one| waits(one)).count(), tried);
}

#[test]
fn a_question_that_follows_another_one_is_told_if_it_stays_open() {
    let receiver = Receiver::new();
    let channel = "[notifications.channels.mine]\ntype = \"ntfy\"\nserver = \"URL/mine\"\ntopic = \"t\"\n";
    let s = telling_on(&receiver, &format!("[notifications]\ninsecure_loopback = true\ndefault_channel = \"mine\"\n{channel}"));
    let process = s.agent();
    let file = said_by(&s, process);
    let idle = fs::read_to_string(&file).unwrap();
    let asks = |what: &str| idle.replace("\"idle\"", &format!("\"waiting\",\"waitingFor\":\"{what}\""));
    let told_of = |what: &str| receiver.requests_to("/mine").iter().any(|one| one.body.contains(what));
    fs::write(&file, asks("the first")).unwrap();
    wait(|| told_of("the first").then_some(()));
    let waiting = || {
        let all = s.scratch.expect(0, &["outbox", "list", "--json"]);
        all.lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .find(|one| one["notification"]["event"] == "session.waiting")
    };
    // Who answers at the keyboard hears nothing of the next one.
    fs::write(&file, idle.replace("idle", "busy")).unwrap();
    fs::write(&file, asks("the second")).unwrap();
    let kept = wait(waiting);
    assert_eq!(kept["notification"]["reason"], "the second", "{kept}");
    fs::write(&file, idle.replace("idle", "busy")).unwrap();
    wait(|| waiting().is_none().then_some(()));
    // Nobody answers this one.
    fs::write(&file, asks("the third")).unwrap();
    let kept = wait(waiting);
    s.scratch.expect(0, &["outbox", "retry", kept["id"].as_str().unwrap()]);
    wait(|| told_of("the third").then_some(()));
    assert!(!told_of("the second"));
}

#[test]
fn a_page_of_sessions_misses_none_that_changes_meanwhile() {
    let s = Service::new();
    let workspace = s.scratch.path("many");
    fs::create_dir_all(&workspace).unwrap();
    for number in 0..6 {
        write(&workspace.join("file"), format!("{number}").as_bytes()).unwrap();
        s.scratch.create(&format!("s{number}"), &workspace);
    }
    let (mut seen, mut before) = (std::collections::BTreeSet::new(), String::new());
    for page in 0.. {
        let answer = s.get(&format!("/v1/sessions?limit=2{before}")).expect(200);
        seen.extend(answer["sessions"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()));
        if page < 2 {
            // The one that would come last is the first one now.
            s.scratch.expect(0, &["checkpoint", "create", &format!("s{page}"), "--workspace", &workspace.to_string_lossy()]);
        }
        match answer["before"].as_u64() {
            Some(cursor) => before = format!("&before={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen.len(), 7, "{seen:?}");
    let now = s.get("/v1/sessions").expect(200)["sequence"].clone();
    s.scratch.expect(0, &["checkpoint", "create", "s3", "--workspace", &workspace.to_string_lossy()]);
    let changed = s.get(&format!("/v1/sessions?changed_after={now}")).expect(200);
    let names: Vec<_> = changed["sessions"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["s3"], "{changed}");
}

#[test]
fn two_that_never_ran_in_a_folder_at_once_are_not_both_resumed_there() {
    let receiver = Receiver::new();
    let config = "[notifications]\ninsecure_loopback = true\nrepeat_minutes = 0\n[notifications.routing]\ninfo = [\"mine\"]\n\
                  notice = [\"mine\"]\nwarning = [\"mine\"]\ncritical = [\"mine\"]\n[notifications.channels.mine]\ntype = \"webhook\"\nurl = \"URL/mine\"\n";
    let mut s = Service::of(Service::store_of_work(), &[]);
    let program = s.scratch.path("bin/claude");
    let place = s.scratch.path("place");
    write(&place.join("file"), b"x").unwrap();
    // One after the other, each dies of itself.
    write_program(
        &program,
        &format!("{}\nexit 1\n", scripted::AGENT.replace("test -e stay || exit 0", "test -e stay || exit 1")),
    );
    for name in ["first", "second"] {
        let words = ["session", "run", "--name", name, "--workspace"];
        let output = s.scratch.run(&[&words[..], &[&place.to_string_lossy(), "--", &program.to_string_lossy()]].concat());
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    }
    write(&place.join("stay"), b"").unwrap();
    write(&s.scratch.path("home/.config/parhelia/parhelia.toml"), config.replace("URL", &receiver.url()).as_bytes()).unwrap();
    s.start();
    let left = told(&receiver, "session.left_alone");
    let back = told(&receiver, "session.recovered");
    assert_eq!((&left["session_name"], &back["session_name"]), (&json!("first"), &json!("second")), "{left} {back}");
    assert!(left["reason"].as_str().unwrap().contains("never ran beside its own"), "{left}");
    assert_eq!(session(&s, "first")["observed"], "dead");
}

#[test]
fn a_service_that_was_killed_in_a_resume_has_the_next_one_tell_of_it() {
    let receiver = Receiver::new();
    let mut s = telling(&receiver);
    kill(s.agent());
    s.process(2);
    // It may have told by now, or not.
    s.signal(Signal::KILL);
    s.start();
    told(&receiver, "session.recovered");
    let back = || receiver.requests_to("/mine").iter().filter(|one| one.json()["event"] == "session.recovered").count();
    assert_eq!((back(), session(&s, "agent")["attention"]["state"].as_str()), (1, Some("cut_off")));
}
