//! The page in a browser: `tests/page`, on a store with hostile names and contents.

use parhelia_tests::{Scratch, node, scripted, write, write_program};

use super::*;
use crate::service::browser::{listening_on, token};

const HOSTILE: &str = "<b>hostile</b>";

/// Runs the scripted agent with a prompt, until it ends.
fn run(scratch: &Scratch, name: &str, folder: &str, prompt: &str) {
    let (workspace, agent) = (scratch.path(folder), scratch.path("bin/claude"));
    let words = ["session", "run", "--name", name, "--interval", "0", "--workspace"].map(Into::into);
    let words = [&words[..], &[workspace.into_os_string(), "--".into(), agent.into_os_string()]].concat();
    let output = scratch.command(&words).env("PROMPT", prompt).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Creates a checkpoint with a message.
fn create(scratch: &Scratch, session: &str, folder: &str, message: &str) -> String {
    let workspace = scratch.path(folder).to_string_lossy().into_owned();
    let made = scratch.summary(&["create", session, "--workspace", &workspace, "-m", message]);
    made["id"].as_str().unwrap().to_owned()
}

/// The id of a session of a name that no session could be made with by `create`.
fn id_of(scratch: &Scratch, name: &str) -> String {
    let listed = scratch.expect(0, &["session", "list", "--json"]);
    let mut sessions = listed.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let id = sessions.find(|session| session["name"] == name).map(|session| session["id"].as_str().unwrap().to_owned());
    id.unwrap_or_else(|| panic!("no session {name}: {listed}"))
}

/// A session with hostile names in everything that the page shows.
fn hostile(scratch: &Scratch) {
    let content = "</script><script>alert(\"content\")</script>\n<img src=x onerror=alert(3)>\n\u{202e}bidi line\n";
    for name in [
        "<img src=x onerror=alert(1)>",
        "line\nbreak",
        "bidi\u{202e}txt.exe",
        "javascript:alert(1)",
        "\"><script>alert(2)",
        "a b%2Fc?d#e&f",
        "<svg onload=alert(4)>/deep \"quoted\" 'folder'/f.html",
    ] {
        write(&scratch.path("hostile").join(name), content.as_bytes()).unwrap();
    }
    run(scratch, HOSTILE, "hostile", "<img src=x onerror=alert(5)> say </textarea><script>alert(6)</script>");
    write(&scratch.path("hostile/<img src=x onerror=alert(1)>"), format!("{content}<b>more</b></pre>\n").as_bytes()).unwrap();
    let id = create(scratch, &id_of(scratch, HOSTILE), "hostile", "<script>alert(document.domain)</script> message");
    scratch.expect(0, &["annotate", &id, "<img src=x onerror=alert(8)> javascript:alert(1)"]);
    scratch.expect(0, &["tag", &id, "x/<i>tag"]);
}

/// A session with branches: it was rolled back, and went on from there.
fn branched(scratch: &Scratch) {
    let main = |text: &str| write(&scratch.path("api/src/main.rs"), text.as_bytes()).unwrap();
    let lines: String = (1..=60).map(|n| format!("fn route_{n}() {{}}\n")).collect();
    main(&lines);
    write(&scratch.path("api/README.md"), b"# api\n").unwrap();
    run(scratch, "api", "api", "Fix the parser: the last line is dropped");
    main(&lines.replace("fn route_30() {}\n", "fn renamed() {}\n"));
    let back = create(scratch, "api", "api", "a route renamed");
    fs::remove_file(scratch.path("api/README.md")).unwrap();
    create(scratch, "api", "api", "README gone");
    scratch.expect(0, &["rollback", &back, "--yes", "--files-only"]);
    write(&scratch.path("api/another"), b"another way\n").unwrap();
    create(scratch, "api", "api", "another way after the rollback");
    main("fn main() {}\n");
    create(scratch, "api", "api", "a new beginning");
    scratch.expect(0, &["tag", &back, "release/1.0", "reviewed"]);
}

#[test]
fn the_page_does_in_a_browser_what_it_should() {
    let scratch = Scratch::new();
    write_program(&scratch.path("bin/claude"), scripted::AGENT);
    hostile(&scratch);
    branched(&scratch);
    let service = listening_on(scratch);
    let folder = service.scratch.path("page");
    node::package("page-tests", &Path::new(env!("CARGO_MANIFEST_DIR")).join("page"), &folder);
    let shots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    let mut tests = node::program("node");
    tests.args(["--test", "page.mjs"]).current_dir(&folder);
    tests.env("PARHELIA_PAGE", service.page.as_ref().unwrap()).env("PARHELIA_TOKEN", token(&service));
    write(&service.scratch.path("begun/stay"), b"").unwrap();
    tests.env("PARHELIA_AGENT", service.scratch.path("bin/claude")).env("PARHELIA_FOLDER", service.scratch.path("begun"));
    let output = tests.env("PARHELIA_SHOTS", &shots).output().expect("node");
    assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(shots.join("phone-diff.png").exists());
}

/// Answers whatever comes as a program would that is not the service, and notes it. It takes turns in what it says.
fn thief(
    listener: std::net::TcpListener,
    heard: std::sync::Arc<std::sync::Mutex<String>>,
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
) {
    listener.set_nonblocking(true).unwrap();
    let mut turn = 0;
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        let Ok((mut stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut bytes = [0; 8192];
        let mut request = Vec::new();
        while let Ok(more @ 1..) = stream.read(&mut bytes) {
            request.extend_from_slice(&bytes[..more]);
        }
        heard.lock().unwrap().push_str(&String::from_utf8_lossy(&request));
        let answers =
            [("503 x", ""), ("200 OK", r#"{"visit":"a.1.b","proof":"00"}"#), ("500 x", "{}"), ("200 OK", r#"{"sessions":[]}"#)];
        let (status, body) = answers[turn % answers.len()];
        turn += 1;
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        let _ = stream.write_all(format!("{head}Connection: close\r\n\r\n{body}").as_bytes());
    }
}

#[test]
fn whoever_takes_the_services_place_gets_nothing_from_an_open_page() {
    use std::sync::{Arc, Mutex, atomic::AtomicBool};
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (address, scratch) = (format!("127.0.0.1:{port}"), Service::store_of_work());
    let file = scratch.path("lasting").to_string_lossy().into_owned();
    let mut service = Service::on(scratch, &["--listen", &address, "--token-file", &file]);
    let token = fs::read_to_string(&file).unwrap().trim().to_owned();
    let folder = service.scratch.path("page");
    node::package("page-tests", &Path::new(env!("CARGO_MANIFEST_DIR")).join("page"), &folder);
    let mut tests = node::program("node");
    tests.arg("thief.mjs").current_dir(&folder).stdin(Stdio::piped()).stdout(Stdio::piped());
    tests.env("PARHELIA_PAGE", service.page.as_ref().unwrap()).env("PARHELIA_TOKEN", &token);
    tests.env("PARHELIA_SHOTS", service.scratch.path("shots"));
    let mut page = tests.spawn().unwrap();
    let (mut input, mut said) = (page.stdin.take().unwrap(), BufReader::new(page.stdout.take().unwrap()).lines());
    let mut says = |expected: &str| assert_eq!(said.next().map(Result::unwrap).as_deref(), Some(expected));
    says("signed in");
    service.signal(Signal::TERM);
    let (heard, stop) = (Arc::new(Mutex::new(String::new())), Arc::new(AtomicBool::new(false)));
    let listener = wait(|| std::net::TcpListener::bind(&address).ok());
    let thread = std::thread::spawn({
        let (heard, stop) = (heard.clone(), stop.clone());
        move || thief(listener, heard, stop)
    });
    writeln!(input).unwrap();
    says("not fooled");
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    thread.join().unwrap();
    let heard = heard.lock().unwrap().clone();
    assert!(heard.contains("POST /page/hello"), "{heard}");
    assert!(!heard.contains(&token) && !heard.to_lowercase().contains("authorization"), "{heard}");
    assert!(!heard.contains("/v1/"), "it is asked for proof before anything else: {heard}");
    service.start();
    writeln!(input).unwrap();
    says("goes on");
    let list = ["serve", "--browsers", "--token-file", &file];
    let listed = service.scratch.expect(0, &[&list[..], &["--json"]].concat());
    let browser: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    assert!(browser["name"].as_str().unwrap().contains("Chrome"), "{listed}");
    let id = browser["id"].as_str().unwrap();
    service.scratch.expect(0, &["serve", "--sign-out", id, "--token-file", &file]);
    assert!(service.scratch.expect(0, &list).contains("No browser is signed in"));
    writeln!(input).unwrap();
    says("signed out");
    assert!(page.wait().unwrap().success());
    assert!(!fs::read_to_string(format!("{file}.browsers")).unwrap().contains(&token));
}
