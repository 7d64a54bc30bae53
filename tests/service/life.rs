//! The service's own life, and sessions that die under it.

use super::*;

#[test]
fn a_store_has_one_service_which_ends_when_it_is_told_to() {
    let mut s = Service::new();
    assert_eq!(fs::metadata(s.socket()).unwrap().permissions().mode() & 0o777, 0o600);
    let second = s.command().output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(11), "{said}");
    assert!(said.contains(&format!("process {}", s.child.as_ref().unwrap().id())), "{said}");
    // A listener does not keep it.
    let mut listener = UnixStream::connect(s.socket()).unwrap();
    listener.write_all(b"GET /v1/events HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    listener.read_exact(&mut [0; 10]).unwrap();
    let began = Instant::now();
    assert!(s.signal(Signal::TERM).success());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(!s.socket().exists());
    s.start();
    s.signal(Signal::KILL);
    assert!(s.socket().exists());
    s.start();
    s.get("/health").expect(200);
}

#[test]
fn a_second_signal_ends_it_while_a_request_is_under_way() {
    let mut s = Service::new();
    // A request whose body does not come is under way, for longer than this takes.
    let mut stream = UnixStream::connect(s.socket()).unwrap();
    let head =
        "POST /v1/sessions/work/checkpoints HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n";
    stream.write_all(format!("{head}Expect: 100-continue\r\n\r\n").as_bytes()).unwrap();
    // The service asks for it once the request is under way.
    stream.read_exact(&mut [0; 12]).unwrap();
    let process = Pid::from_child(s.child.as_ref().unwrap());
    kill_process(process, Signal::TERM).unwrap();
    wait(|| s.said().contains("the service ends; agents go on").then_some(()));
    assert!(!s.socket().exists(), "nobody is to come any more");
    assert!(s.signal(Signal::TERM).success());
    assert!(s.said().contains("ends at once"), "{}", s.said());
}

#[test]
fn a_socket_at_which_somebody_listens_is_left_to_them() {
    let mut s = Service::new();
    assert!(s.signal(Signal::TERM).success());
    let other = std::os::unix::net::UnixListener::bind(s.socket()).unwrap();
    let output = s.command().output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("another program listens there"), "{said}");
    assert!(s.socket().exists());
    drop(other);
    // What it has left behind is replaced. At its end the service leaves alone what is not its own.
    s.start();
    fs::remove_file(s.socket()).unwrap();
    let _other = std::os::unix::net::UnixListener::bind(s.socket()).unwrap();
    assert!(s.signal(Signal::TERM).success());
    assert!(s.socket().exists());
}

#[test]
fn who_bears_the_marker_of_an_open_run_does_not_decide_over_http() {
    let s = Service::new();
    s.agent();
    let run = s.get("/v1/sessions/agent").expect(200)["runs"][0]["id"].as_str().unwrap().to_owned();
    let ids = s.checkpoints();
    // It does not descend from the agent, and has its marker.
    let approve = |id: &str, run: &str| {
        let script = "import socket, sys\n\
             s = socket.socket(socket.AF_UNIX)\n\
             s.connect(sys.argv[1])\n\
             s.sendall(sys.argv[2].encode())\n\
             print(s.makefile().readline().split()[1])";
        let head = format!("POST /v1/checkpoints/{id}/approve HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n");
        let mut command = std::process::Command::new("python3");
        command.args(["-c", script]).arg(s.socket()).arg(format!("{head}Connection: close\r\n\r\n"));
        let output = command.env("PARHELIA_RUN_ID", run).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(approve(&ids[0], &run), "409");
    assert_eq!(approve(&ids[0], "another-store's"), "200");
    s.post("/v1/sessions/agent/pause", &json!({"end_agent": true})).expect(200);
    wait(|| s.get("/v1/sessions/agent").expect(200)["runs"][0]["ended_at"].is_string().then_some(()));
    assert_eq!(approve(&ids[1], &run), "200", "the run is over");
}

#[test]
fn an_agent_that_is_killed_goes_on_by_itself() {
    let s = Service::new();
    let first = s.agent();
    let began = Instant::now();
    kill(first);
    let second = s.process(2);
    assert!(began.elapsed() > Duration::from_secs(4), "a sign of life is waited for: {:?}", began.elapsed());
    assert_ne!(first, second);
    let shown = s.get("/v1/sessions/agent").expect(200);
    assert_eq!(shown["runs"].as_array().unwrap().len(), 2, "{shown}");
    assert!(shown["runs"][1]["resumed_from"].is_string(), "{shown}");
    eprintln!("resumed after {:?}", began.elapsed());
}

#[test]
fn a_service_that_was_away_finds_the_runs_again() {
    let mut s = Service::new();
    let first = s.agent();
    s.signal(Signal::KILL);
    assert!(lives(first), "its end is none for the agent");
    s.start();
    assert_eq!(s.process(1), first);
    s.signal(Signal::TERM);
    kill(first);
    s.start();
    assert_ne!(s.process(2), first);
}

#[test]
fn a_session_that_dies_again_and_again_is_left_to_a_person() {
    let s = Service::new();
    kill(s.agent());
    for number in 2..=4 {
        let process = s.process(number);
        // One that dies before it is known to live has its resume tried again, less and less often.
        wait(|| (s.said().matches("is resumed\n").count() + 1 == number).then_some(()));
        kill(process);
    }
    let began = Instant::now();
    wait(|| {
        assert!(began.elapsed() < Duration::from_secs(58), "{}", s.said());
        s.said().contains("is left alone").then_some(())
    });
    let session = s.get("/v1/sessions/agent").expect(200)["session"].clone();
    assert_eq!(session["wanted"], "paused", "{session}");
    assert!(session["status_reason"].as_str().unwrap().contains("ten minutes"), "{session}");
    assert_eq!(session["set_aside"], session["status_reason"], "{session}");
    let listed = String::from_utf8(s.scratch.command(&["session", "list"]).output().unwrap().stderr).unwrap();
    assert!(listed.contains("waits for you") && listed.contains("session recover"), "{listed}");
    // What died before a person went on with it counts no more.
    s.post("/v1/sessions/agent/resume", &json!({})).expect(200);
    let process = s.process(session["runs"].as_array().unwrap().len() + 1);
    assert_eq!(s.get("/v1/sessions/agent").expect(200)["session"]["set_aside"], Value::Null);
    let resumed = s.said().matches("is resumed\n").count();
    kill(process);
    let began = Instant::now();
    wait(|| {
        assert!(began.elapsed() < Duration::from_secs(58), "{}", s.said());
        (s.said().matches("is resumed\n").count() > resumed).then_some(())
    });
}

#[test]
fn a_paused_session_keeps_its_agent_and_is_active_again_at_once() {
    let s = Service::new();
    let process = s.agent();
    let paused = s.post("/v1/sessions/agent/pause", &json!({})).expect(200);
    assert_eq!(paused["session"]["status"], "paused", "{paused}");
    s.post("/v1/sessions/agent/pause", &json!({})).expect(409);
    let resumed = s.post("/v1/sessions/agent/resume", &json!({})).expect(200);
    assert_eq!(resumed["session"]["status"], "active", "{resumed}");
    assert_eq!(s.process(1), process);
    s.post("/v1/sessions/agent/resume", &json!({})).expect(200);
    // One that was set aside and has died is brought back when somebody asks for it, and not before.
    s.post("/v1/sessions/agent/pause", &json!({"end_agent": true})).expect(200);
    assert!(!lives(process));
    s.post("/v1/sessions/agent/resume", &json!({})).expect(200);
    assert_ne!(s.process(2), process);
    s.post("/v1/sessions/agent/end", &json!({})).expect(409);
    s.post("/v1/sessions/agent/end", &json!({"leave_agent": true})).expect(200);
    let gone = s.post("/v1/sessions/agent/resume", &json!({})).expect(410);
    assert_eq!(gone["title"], "gone");
}

#[test]
fn a_unit_of_systemd_starts_it() {
    let scratch = Scratch::new();
    let mut command =
        scratch.command(&["--config", "/etc/own.toml", "serve", "--install", "--no-resume", "--socket", "/run/a b.sock"]);
    let output = command.env("XDG_CONFIG_HOME", scratch.path("config")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let unit = fs::read_to_string(scratch.path("config/systemd/user/parhelia.service")).unwrap();
    let start = unit.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
    assert!(start.ends_with("serve --socket \"/run/a b.sock\" --no-resume"), "{unit}");
    assert!(start.contains(" --config \"/etc/own.toml\" serve "), "{unit}");
    assert!(unit.contains("\nKillMode=process\n"), "{unit}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("systemctl --user enable --now parhelia.service"), "{said}");
    assert!(unit.contains("\nWants=parhelia.socket\n") && unit.contains("\nAlso=parhelia.socket\n"), "{unit}");
    let socket = fs::read_to_string(scratch.path("config/systemd/user/parhelia.socket")).unwrap();
    let listened: Vec<&str> = socket.lines().filter_map(|line| line.strip_prefix("ListenStream=")).collect();
    assert_eq!(listened, ["/run/a b.sock"]);
    assert!(socket.contains("\nSocketMode=0600\n"), "{socket}");
    assert!(!said.contains("runs already"), "{said}");
    let s = Service::new();
    let mut command = s.scratch.command(&["serve", "--install"]);
    let output = command.env("XDG_CONFIG_HOME", s.scratch.path("config")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("runs already: process "), "{output:?}");
}

#[test]
fn a_unit_of_systemd_has_the_usual_socket_and_the_address_open() {
    let scratch = Scratch::new();
    let install = |flags: &[&str], code: i32| {
        let mut command = scratch.command(&[&["serve", "--install"], flags].concat());
        let output = command.env("XDG_CONFIG_HOME", scratch.path("config")).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = install(&["--listen", "0.0.0.0:8443"], 2);
    assert!(said.contains("--tls-cert") && !scratch.path("config").exists(), "{said}");
    install(&["--listen", "0.0.0.0:8443", "--tls-cert", "/etc/cert.pem", "--tls-key", "/etc/key.pem"], 0);
    let read = |name: &str| fs::read_to_string(scratch.path("config/systemd/user").join(name)).unwrap();
    let start = "serve --listen 0.0.0.0:8443 --tls-cert \"/etc/cert.pem\" --tls-key \"/etc/key.pem\"";
    assert!(read("parhelia.service").lines().any(|line| line.starts_with("ExecStart=") && line.ends_with(start)));
    let store: Value = serde_json::from_slice(&fs::read(scratch.store().join("store.json")).unwrap()).unwrap();
    let socket = format!("ListenStream=%t/parhelia/{}.sock\nListenStream=0.0.0.0:8443\n", store["id"].as_str().unwrap());
    assert!(read("parhelia.socket").contains(&socket), "{}", read("parhelia.socket"));
    // A free port is found at each start.
    install(&["--listen", "127.0.0.1:0"], 0);
    assert_eq!(read("parhelia.socket").matches("ListenStream=").count(), 1);
}

#[test]
fn a_monitor_reads_numbers() {
    let s = Service::new();
    s.agent();
    s.get("/v1/sessions/none").expect(404);
    s.get("/no/such/path").expect(404);
    let answer = s.get("/metrics");
    assert!(answer.head.contains("application/openmetrics-text"), "{}", answer.head);
    let text = String::from_utf8(answer.body).unwrap();
    let has = |line: &str| assert!(text.lines().any(|one| one == line), "{line}\n{text}");
    let states = ["live", "idle"].map(|state| format!("parhelia_sessions{{observed=\"{state}\"}} 1"));
    assert!(text.lines().any(|line| states.iter().any(|state| state == line)), "{text}");
    has("parhelia_sessions{observed=\"none\"} 1");
    assert!(text.lines().any(|line| line.starts_with("parhelia_store_free_bytes ")), "{text}");
    has("parhelia_http_requests_total{path=\"/v1/sessions/{session}\",status=\"404\"} 1");
    // A path that somebody has thought of is no series of its own.
    has("parhelia_http_requests_total{path=\"none\",status=\"404\"} 1");
    assert!(!text.contains("/no/such"), "{text}");
    assert_eq!(text.lines().last(), Some("# EOF"));
}

#[test]
fn dead_sessions_are_left_alone_where_that_is_asked_for() {
    let mut s = Service::new();
    s.signal(Signal::TERM);
    s.flags = vec!["--no-resume".into()];
    s.start();
    kill(s.agent());
    let observed = || s.get("/v1/sessions/agent").expect(200)["session"]["observed"].clone();
    wait(|| (observed() == "dead").then_some(()));
    // Longer than a session that is to be resumed waits for.
    std::thread::sleep(Duration::from_secs(8));
    let shown = s.get("/v1/sessions/agent").expect(200);
    assert_eq!((shown["runs"].as_array().unwrap().len(), &shown["session"]["observed"]), (1, &json!("dead")), "{shown}");
}

#[test]
fn it_says_as_an_object_where_programs_can_connect() {
    let mut s = Service::new();
    s.signal(Signal::TERM);
    let mut child = s.command().arg("--json").spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let service = next();
    assert_eq!((&service["type"], &service["process"]), (&json!("service"), &json!(child.id())), "{service}");
    assert_eq!(service["socket"], s.socket().to_string_lossy().as_ref());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(next()["verb"], "serve");
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_store_that_is_moved_away_is_gone_and_not_corrupt_and_the_service_goes_on_when_it_is_back() {
    let s = Service::new();
    let (store, away) = (s.scratch.store(), s.scratch.path("away"));
    let sessions = s.get("/v1/sessions").expect(200);
    fs::rename(&store, &away).unwrap();
    let health = wait(|| Some(s.get("/health")).filter(|answer| answer.status == 503)).json();
    let reasons = health["reasons"].as_array().unwrap();
    let why = reasons[0].as_str().unwrap();
    assert!(reasons.len() == 1 && why.contains(store.to_str().unwrap()) && why.contains("move it back"), "{health}");
    for path in ["/v1/sessions", "/v1/sessions/work", "/v1/search?q=one"] {
        let gone = s.get(path).expect(503);
        assert!(gone["title"] == "not_found" && gone["detail"].as_str().unwrap().contains("no store at"), "{gone}");
    }
    s.post("/v1/sessions/work/checkpoints", &json!({})).expect(503);
    let numbers = s.get("/metrics");
    assert_eq!(numbers.status, 200);
    let numbers = String::from_utf8(numbers.body).unwrap();
    assert!(numbers.contains("parhelia_store_available 0"), "{numbers}");
    wait(|| s.said().contains("no store at").then_some(()));
    // A second look says nothing new.
    assert_eq!(s.get("/ready").status, 503);
    assert_eq!(s.said().matches("no store at").count(), 1, "{}", s.said());
    assert!(!s.said().contains("corrupt") && !store.exists(), "{}", s.said());
    fs::rename(&away, &store).unwrap();
    wait(|| (s.get("/health").status == 200).then_some(()));
    assert_eq!(s.get("/v1/sessions").expect(200)["sessions"][0]["id"], sessions["sessions"][0]["id"]);
    write(&s.scratch.path("work/file"), b"since\n").unwrap();
    s.post("/v1/sessions/work/checkpoints", &json!({})).expect(201);
    wait(|| s.said().contains("sessions are looked at again").then_some(()));
}

#[test]
fn who_makes_the_checkpoints_of_an_agent_without_a_supervisor_is_said_as_it_is() {
    let mut s = Service::new();
    let folder = s.scratch.path("alone");
    fs::create_dir_all(&folder).unwrap();
    let words = ["session", "run", "--name", "alone", "--workspace", folder.to_str().unwrap(), "--", "sleep", "100000"];
    let mut supervisor =
        s.scratch.command(&words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let shown = |s: &Service| s.get("/v1/sessions/alone").expect(200);
    wait(|| (s.get("/v1/sessions/alone").status == 200).then_some(()));
    let program = wait(|| shown(&s)["runs"][0]["pid"].as_i64()) as i32;
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    let of_service = wait(|| Some(shown(&s)["session"]["unsupervised"].clone()).filter(|found| !found.is_null()));
    let with_service = s.scratch.expect(0, &["session", "show", "alone"]);
    s.post("/v1/sessions/alone/pause", &json!({})).expect(200);
    let set_aside = shown(&s)["session"]["unsupervised"].clone();
    s.post("/v1/sessions/alone/resume", &json!({})).expect(200);
    s.signal(Signal::TERM);
    let without = s.scratch.expect(0, &["session", "show", "alone"]);
    kill(program);
    assert_eq!(of_service["service_interval_seconds"], 300, "{of_service}");
    assert!(with_service.contains("made by the service alone every 300 s"), "{with_service}");
    assert!(!with_service.contains("no checkpoints of it"), "{with_service}");
    assert_eq!(set_aside["service_interval_seconds"], Value::Null, "it leaves alone what was set aside");
    assert!(without.contains("no checkpoints of it are made any more"), "{without}");
}
