//! The service over TCP, as browsers and programs elsewhere on the machine come to it.

use std::net::TcpStream;

use super::*;

const LISTEN: &[&str] = &["--listen", "127.0.0.1:0"];

/// A service that listens for browsers, on a port of its own.
pub fn listening() -> Service {
    Service::with(LISTEN)
}

/// The same, of a store that is there.
pub fn listening_on(scratch: Scratch) -> Service {
    Service::on(scratch, LISTEN)
}

/// The address with its port.
pub fn address(s: &Service) -> String {
    s.page.as_ref().unwrap().split('/').nth(2).unwrap().to_owned()
}

/// The token of the service that runs now.
pub fn token(s: &Service) -> String {
    fs::read_to_string(s.scratch.path("run/s.token")).unwrap().trim().to_owned()
}

fn ask(s: &Service, method: &str, path: &str, headers: &str) -> Answer {
    let address = address(s);
    let host = if headers.contains("Host:") { String::new() } else { format!("Host: {address}\r\n") };
    exchange_over(
        TcpStream::connect(&address).unwrap(),
        &format!("{method} {path} HTTP/1.1\r\n{host}Connection: close\r\nContent-Length: 0\r\n{headers}\r\n"),
    )
}

#[test]
fn browsers_of_a_service_elsewhere_are_not_said_to_be_none() {
    let s = Scratch::new();
    let none = s.expect(0, &["serve", "--browsers"]);
    assert!(none.contains("whose token is in ") && none.contains("--token-file"), "{none}");
    let elsewhere = s.path("no/token");
    let asked = ["serve", "--sign-out", "x", "--token-file", elsewhere.to_str().unwrap()];
    let refused = s.expect(10, &asked);
    assert!(refused.contains("no browser 'x'") && refused.contains("no/token"), "{refused}");
}

#[test]
fn over_tcp_the_token_is_asked_for_and_other_pages_are_refused() {
    let s = listening();
    let (address, token) = (address(&s), token(&s));
    let port = address.rsplit_once(':').unwrap().1;
    let known = format!("Authorization: Bearer {token}\r\n");
    let get = |headers: &str| ask(&s, "GET", "/v1/sessions", headers);
    assert_eq!(get(&known).expect(200)["sessions"][0]["name"], "work");
    for (headers, status, what) in [
        (String::new(), 401, "no token"),
        ("Authorization: Bearer wrong\r\n".into(), 401, "a wrong token"),
        (format!("Authorization: Basic {token}\r\n"), 401, "another scheme"),
        (format!("{known}Host: example.com\r\n"), 403, "another name of this machine"),
        (format!("{known}Host: 127.0.0.1.example.com:80\r\n"), 403, "a name that begins like an address"),
        (format!("{known}Host: \r\n"), 403, "no name"),
        (format!("{known}Origin: http://example.com\r\n"), 403, "a page of another site"),
        (format!("{known}Origin: null\r\n"), 403, "a page of nowhere"),
        (format!("{known}Origin: http://127.0.0.1:1\r\n"), 403, "a page of another port"),
        (format!("{known}Sec-Fetch-Site: cross-site\r\n"), 403, "a page of another site, as browsers say"),
        (format!("{known}Host: localhost:{port}\r\n"), 403, "a name that other programs have, too"),
        (format!("{known}Host: 127.0.0.2:{port}\r\n"), 403, "another address of this machine"),
        (format!("{known}Host: 127.0.0.1\r\n"), 403, "another port"),
        (format!("{known}Origin: http://{address}\r\nSec-Fetch-Site: same-origin\r\n"), 200, "its own page"),
    ] {
        let answer = get(&headers);
        assert_eq!(answer.status, status, "{what}: {}", String::from_utf8_lossy(&answer.body));
        assert!(status != 401 || answer.head.contains("www-authenticate: bearer"), "{}", answer.head);
        let is_problem = answer.head.contains("content-type: application/problem+json");
        assert_eq!(is_problem, status != 200, "{what}: {}", answer.head);
    }
    assert_eq!(ask(&s, "GET", &format!("/v1/sessions?token={token}"), "").status, 401, "no token in an address");
    assert!(!s.said().contains(&token));
    assert!(!s.get("/metrics").head.contains(&token) && s.get("/v1/sessions").status == 200, "the socket asks for none");
}

#[test]
fn a_browser_that_opens_localhost_is_sent_to_the_address_itself() {
    let s = listening();
    let address = address(&s);
    let port = address.rsplit_once(':').unwrap().1;
    let host = format!("Host: localhost:{port}\r\n");
    let sent = |method: &str, path: &str, headers: &str| ask(&s, method, path, &format!("{host}{headers}"));
    for (path, headers) in [("/page/x?y=z", "Sec-Fetch-Mode: navigate\r\n"), ("/", "Accept: text/html,*/*;q=0.8\r\n")] {
        let answer = sent("GET", path, headers);
        assert_eq!(answer.status, 307, "{path}");
        assert!(answer.head.contains(&format!("\r\nlocation: http://{address}{path}")), "{}", answer.head);
    }
    assert_eq!(sent("GET", "/", "Sec-Fetch-Mode: cors\r\n").status, 403);
    assert_eq!(sent("POST", "/", "Sec-Fetch-Mode: navigate\r\n").status, 403);
    // A worker that another program has left at the same address asks for its script, and is unregistered.
    let answer = ask(&s, "GET", "/some/worker.js", "Service-Worker: script\r\nSec-Fetch-Mode: same-origin\r\n");
    assert_eq!(answer.status, 200);
    assert!(
        answer.head.contains("content-type: text/javascript") && answer.head.contains("cache-control: no-store"),
        "{}",
        answer.head
    );
    assert!(String::from_utf8(answer.body).unwrap().contains("registration.unregister()"));
}

#[test]
fn who_may_not_ask_keeps_no_connection_and_a_body_that_means_nothing_is_not_waited_for() {
    let s = listening();
    let address = address(&s);
    // Neither says that the connection is to be closed, and its end is read.
    for headers in [format!("Host: {address}\r\n"), "Host: example.com\r\n".into()] {
        let stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let answer = exchange_over(stream, &format!("GET /v1/sessions HTTP/1.1\r\n{headers}\r\n"));
        assert!([401, 403].contains(&answer.status) && answer.head.contains("connection: close"), "{}", answer.head);
    }
    let request = "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 100\r\n\r\nshort";
    assert_eq!(exchange(&s.socket(), request).status, 200);
}

#[test]
fn every_start_has_its_token_unless_a_file_is_named() {
    let mut s = listening();
    let path = s.scratch.path("run/s.token");
    let first = token(&s);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(s.signal(Signal::TERM).success());
    assert!(!path.exists(), "it goes with the service");
    s.start();
    let second = token(&s);
    assert_ne!(first, second);
    for (token, status) in [(first, 401), (second, 200)] {
        assert_eq!(ask(&s, "GET", "/v1/sessions", &format!("Authorization: Bearer {token}\r\n")).status, status);
    }
    // A service that is killed leaves it, and the next one replaces it.
    let third = token(&s);
    s.signal(Signal::KILL);
    assert!(path.exists());
    s.start();
    assert_ne!(token(&s), third);
    assert!(s.signal(Signal::TERM).success());
    let named = s.scratch.path("named/token");
    let mut texts = Vec::new();
    for _ in 0..2 {
        let mut child = s.command().args(["--token-file", named.to_str().unwrap()]).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.nth(1).unwrap().unwrap().ends_with(&format!("(its token is in {})", named.display())));
        texts.push(fs::read_to_string(&named).unwrap());
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(!path.exists());
    }
    assert_eq!(texts[0], texts[1]);
}

#[test]
fn an_address_that_is_taken_does_not_stop_the_service() {
    let mut s = Service::new();
    assert!(s.signal(Signal::TERM).success());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut child = s.command().args(["--json", "--listen", &address]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let service: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!((&service["page"], &service["token"]), (&Value::Null, &Value::Null), "{service}");
    s.get("/health").expect(200);
    assert!(!s.scratch.path("run/s.token").exists());
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains(&format!("another program listens at {address}")) && said.contains("--listen 127.0.0.1:0"), "{said}");
}

#[test]
fn the_page_is_shown_to_everybody_and_loads_nothing_from_elsewhere() {
    let s = listening();
    for (path, kind) in [("/", "text/html"), ("/page/style.css", "text/css"), ("/page/app.js", "text/javascript")] {
        let answer = ask(&s, "GET", path, "");
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.head.contains(&format!("content-type: {kind}; charset=utf-8")), "{}", answer.head);
        assert!(answer.head.contains("content-security-policy: default-src 'none'; script-src 'self';"), "{}", answer.head);
        let text = String::from_utf8(answer.body).unwrap();
        assert!(!text.contains("https://") && !text.contains("innerHTML"), "{path}");
    }
    for path in ["/page/none", "/page/../serve.rs", "/page/%2e%2e%2fserve.rs", "/page/"] {
        assert_eq!(ask(&s, "GET", path, "").status, 404, "{path}");
    }
    assert_eq!(ask(&s, "POST", "/page/app.js", "").status, 401);
}

#[test]
fn who_decides_over_tcp_is_who_the_kernel_says() {
    let s = listening();
    let ids = s.checkpoints();
    let known = format!("Authorization: Bearer {}\r\n", token(&s));
    let decided = ask(&s, "POST", &format!("/v1/checkpoints/{}/approve", ids[0]), &known).expect(200);
    assert_eq!(decided["approval"]["status"], "approved", "{decided}");
    let audit = s.scratch.expect(0, &["audit", "log", "--json"]);
    let approved: Value = serde_json::from_str(audit.lines().next().unwrap()).unwrap();
    assert_eq!((&approved["via"], approved["uid"].as_u64()), (&json!("api"), Some(rustix::process::getuid().as_raw().into())));
    agent_decides_nothing(&s, "HTTPConnection");
}

/// Has an agent that has found the token try to decide with it, over a connection of this class of Python's.
pub fn agent_decides_nothing(s: &Service, class: &str) {
    let script = "while ! test -e ask.py; do sleep 0.1; done; python3 ask.py > asked; mv asked answer; sleep 100000";
    write(&s.scratch.path("own/file"), b"x").unwrap();
    let own = s.scratch.path("own").to_string_lossy().into_owned();
    let words = ["session", "run", "--name", "own", "--workspace", &own, "--", "sh", "-c", script];
    let mut run = s.scratch.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait(|| (s.get("/v1/sessions/own").status == 200).then_some(()));
    let made = s.post("/v1/sessions/own/checkpoints", &json!({})).expect(201);
    let (address, token) = (address(s), token(s));
    let port = address.rsplit_once(':').unwrap().1;
    let ask = format!(
        "import http.client, ssl\nssl._create_default_https_context = ssl._create_unverified_context\n\
         c=http.client.{class}('127.0.0.1',{port})\n\
         c.request('POST','/v1/checkpoints/{}/approve',headers={{'Authorization':'Bearer {token}'}})\nprint(c.getresponse().status)",
        made["checkpoint"]["id"].as_str().unwrap()
    );
    write(&s.scratch.path("own/ask"), ask.as_bytes()).unwrap();
    fs::rename(s.scratch.path("own/ask"), s.scratch.path("own/ask.py")).unwrap();
    assert_eq!(wait(|| fs::read_to_string(s.scratch.path("own/answer")).ok()).trim(), "409");
    s.post("/v1/sessions/own/pause", &json!({"end_agent": true})).expect(200);
    run.wait().unwrap();
}

#[test]
fn only_this_machine_can_connect_and_a_token_that_others_can_read_is_none() {
    let s = Service::with(&[]);
    for (address, why) in
        [("0.0.0.0:0", "only addresses of this machine"), ("127.0.0.1", "address and a port"), ("[::]:0", "--tls-cert FILE")]
    {
        let said = s.scratch.expect(2, &["serve", "--listen", address]);
        assert!(said.contains(why), "{said}");
    }
    let mut s = s;
    assert!(s.signal(Signal::TERM).success());
    let path = s.scratch.path("token");
    write(&path, "0123456789abcdef0123456789abcdef\n".as_bytes()).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let socket = s.socket().to_string_lossy().into_owned();
    let words = ["serve", "--socket", &socket, "--listen", "127.0.0.1:0", "--token-file", path.to_str().unwrap()];
    assert!(s.scratch.expect(1, &words).contains("chmod 600"));
    // Nobody writes to it, and nobody is waited for.
    fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(s.scratch.expect(1, &words).contains("no regular file"));
}

#[test]
fn contents_of_a_checkpoint_are_listed() {
    let s = Service::new();
    let ids = s.checkpoints();
    let entries = s.get(&format!("/v1/checkpoints/{}/entries", ids[0])).expect(200);
    let names: Vec<&str> = entries["entries"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(names, ["file", "folder"], "{entries}");
    let below = s.get(&format!("/v1/checkpoints/{}/entries?path=folder", ids[0])).expect(200);
    assert_eq!(below["entries"][0]["path"], "folder/<b>odd &amp; name");
    for path in ["file", "none", "..", "folder/../.."] {
        assert!([400, 404].contains(&s.get(&format!("/v1/checkpoints/{}/entries?path={path}", ids[0])).status), "{path}");
    }
    assert_eq!(s.get(&format!("/v1/checkpoints/{}/conversation", ids[0])).status, 404);
    let same = s.get(&format!("/v1/checkpoints/{}/environment?since={}", ids[0], ids[1])).expect(200);
    assert_eq!((&same["old"], &same["changes"]), (&json!(ids[1]), &json!([])), "{same}");
}
