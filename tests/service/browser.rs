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
    let mut service = Service { scratch, tmux: Tmux::new(), child: None, flags: LISTEN, page: None };
    service.start();
    service
}

fn address(s: &Service) -> String {
    s.page.as_ref().unwrap().trim_start_matches("http://").trim_end_matches('/').to_owned()
}

pub fn token(s: &Service) -> String {
    fs::read_to_string(s.scratch.path("home/.config/parhelia/service.token")).unwrap().trim().to_owned()
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
fn over_tcp_the_token_is_asked_for_and_other_pages_are_refused() {
    let s = listening();
    let (address, token) = (address(&s), token(&s));
    assert_eq!(fs::metadata(s.scratch.path("home/.config/parhelia/service.token")).unwrap().permissions().mode() & 0o777, 0o600);
    let known = format!("Authorization: Bearer {token}\r\n");
    let get = |headers: &str| ask(&s, "GET", "/api/sessions", headers);
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
        (format!("{known}Host: localhost:1\r\n"), 200, "a tunnel"),
        (format!("{known}Origin: http://{address}\r\nSec-Fetch-Site: same-origin\r\n"), 200, "its own page"),
    ] {
        let answer = get(&headers);
        assert_eq!(answer.status, status, "{what}: {}", String::from_utf8_lossy(&answer.body));
        assert!(status != 401 || answer.head.contains("www-authenticate: bearer"), "{}", answer.head);
    }
    assert_eq!(ask(&s, "GET", &format!("/api/sessions?token={token}"), "").status, 401, "no token in an address");
    assert!(!s.said().contains(&token));
    assert!(!s.get("/metrics").head.contains(&token) && s.get("/api/sessions").status == 200, "the socket asks for none");
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
    let decided = ask(&s, "POST", &format!("/api/checkpoints/{}/approve", ids[0]), &known).expect(200);
    assert_eq!(decided["approval"]["status"], "approved", "{decided}");
    let audit = s.scratch.expect(0, &["audit", "log", "--json"]);
    let approved: Value = serde_json::from_str(audit.lines().next().unwrap()).unwrap();
    assert_eq!((&approved["via"], approved["uid"].as_u64()), (&json!("api"), Some(rustix::process::getuid().as_raw().into())));
    // An agent that has found the token does not decide with it.
    let script = "while ! test -e ask.py; do sleep 0.1; done; python3 ask.py > asked; mv asked answer; sleep 100000";
    write(&s.scratch.path("own/file"), b"x").unwrap();
    let own = s.scratch.path("own").to_string_lossy().into_owned();
    let words = ["session", "run", "--name", "own", "--workspace", &own, "--", "sh", "-c", script];
    let mut run = s.scratch.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait(|| (s.get("/api/sessions/own").status == 200).then_some(()));
    let made = s.post("/api/sessions/own/checkpoints", &json!({})).expect(200);
    let (address, token) = (address(&s), token(&s));
    let (host, port) = address.split_once(':').unwrap();
    let ask = format!(
        "import http.client\nc=http.client.HTTPConnection('{host}',{port})\n\
         c.request('POST','/api/checkpoints/{}/approve',headers={{'Authorization':'Bearer {token}'}})\nprint(c.getresponse().status)",
        made["checkpoint"]["id"].as_str().unwrap()
    );
    write(&s.scratch.path("own/ask"), ask.as_bytes()).unwrap();
    fs::rename(s.scratch.path("own/ask"), s.scratch.path("own/ask.py")).unwrap();
    assert_eq!(wait(|| fs::read_to_string(s.scratch.path("own/answer")).ok()).trim(), "409");
    s.post("/api/sessions/own/pause", &json!({"end_agent": true})).expect(200);
    run.wait().unwrap();
}

#[test]
fn only_this_machine_can_connect_and_a_token_that_others_can_read_is_none() {
    let s = Service::with(&[]);
    for (address, why) in
        [("0.0.0.0:0", "only addresses of this machine"), ("127.0.0.1", "address and a port"), ("[::]:0", "ssh -L")]
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
}

#[test]
fn contents_of_a_checkpoint_are_listed() {
    let s = Service::new();
    let ids = s.checkpoints();
    let entries = s.get(&format!("/api/checkpoints/{}/entries", ids[0])).expect(200);
    let names: Vec<&str> = entries["entries"].as_array().unwrap().iter().map(|one| one["path"].as_str().unwrap()).collect();
    assert_eq!(names, ["file", "folder"], "{entries}");
    let below = s.get(&format!("/api/checkpoints/{}/entries?path=folder", ids[0])).expect(200);
    assert_eq!(below["entries"][0]["path"], "folder/<b>odd &amp; name");
    for path in ["file", "none", "..", "folder/../.."] {
        assert!([400, 404].contains(&s.get(&format!("/api/checkpoints/{}/entries?path={path}", ids[0])).status), "{path}");
    }
    assert_eq!(s.get(&format!("/api/checkpoints/{}/conversation", ids[0])).status, 404);
    let same = s.get(&format!("/api/checkpoints/{}/environment?since={}", ids[0], ids[1])).expect(200);
    assert_eq!((&same["old"], &same["changes"]), (&json!(ids[1]), &json!([])), "{same}");
}
