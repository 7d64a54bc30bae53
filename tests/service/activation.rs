//! Sockets that systemd passes to the service.

use std::{
    net::{TcpListener, TcpStream},
    os::{
        fd::OwnedFd,
        unix::net::{UnixDatagram, UnixListener},
    },
    process::Command,
};

use super::*;
use crate::service::browser::{address, token};

/// A service of a store with a session `work`, not started yet.
fn stopped() -> Service {
    let service = Service::of(Service::store_of_work(), &[]);
    fs::create_dir_all(service.scratch.path("home")).unwrap();
    service
}

/// A socket as systemd makes it, at a path of a scratch folder.
fn bound(s: &Service, mode: u32) -> (UnixListener, PathBuf) {
    let path = s.scratch.path("passed/p.sock");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    (listener, path)
}

/// The command of the service with sockets passed to it; what it says goes to the file `said`. The variable LISTEN_PID is as the shell has
/// this text.
fn with(s: &Service, process: &str, first: impl Into<OwnedFd>, second: Option<OwnedFd>) -> Command {
    let service = s.command();
    let (count, moved) = if second.is_some() { (2, "4<&2") } else { (1, "") };
    let said = s.scratch.path("said");
    let script =
        format!("export LISTEN_PID={process} LISTEN_FDS={count}; exec \"$@\" 3<&0 {moved} 0</dev/null 2>>{}", said.display());
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh"]).arg(service.get_program()).args(service.get_args());
    command.env_clear().envs(service.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::from(first.into())).stdout(Stdio::piped());
    command.stderr(second.map_or_else(Stdio::null, Stdio::from));
    command
}

#[test]
fn a_passed_socket_is_served_and_stays() {
    let mut s = stopped();
    let (listener, path) = bound(&s, 0o600);
    // Somebody who connects before there is a service waits for it.
    let mut early = UnixStream::connect(&path).unwrap();
    early.write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    s.start_by(&mut with(&s, "$$", listener.try_clone().unwrap(), None), false);
    assert_eq!(exchange_over(early, "").status, 200);
    let get = |path: &Path| exchange(path, "GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(get(&path).expect(200)["sessions"][0]["name"], "work");
    assert!(!s.socket().exists(), "the one that is named is not made");
    assert!(s.said().contains("means nothing"), "{}", s.said());
    // Programs that it starts have neither the socket nor the variables.
    fs::create_dir_all(s.scratch.path("new")).unwrap();
    let script = "env > seen; mv seen shown; sleep 100000";
    let folder = s.scratch.path("new").to_string_lossy().into_owned();
    let body = json!({"name": "new", "workspace": folder, "command": ["sh", "-c", script]}).to_string();
    let head = "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json";
    exchange(&path, &format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len())).expect(201);
    let shown = wait(|| fs::read_to_string(s.scratch.path("new/shown")).ok());
    assert!(shown.contains("PARHELIA_RUN_ID=") && !shown.contains("LISTEN_"), "{shown}");
    let flags = fs::read_to_string(format!("/proc/{}/fdinfo/3", s.child.as_ref().unwrap().id())).unwrap();
    let flags = flags.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
    assert!(u32::from_str_radix(flags, 8).unwrap() & rustix::fs::OFlags::CLOEXEC.bits() != 0, "{flags}");
    assert!(s.signal(Signal::TERM).success());
    assert!(path.exists(), "it is systemd's");
    // The next one has whoever came meanwhile.
    let between = UnixStream::connect(&path).unwrap();
    s.start_by(&mut with(&s, "$$", listener, None), false);
    assert_eq!(exchange_over(between, "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").status, 200);
}

#[test]
fn a_passed_address_asks_for_the_token() {
    let mut s = stopped();
    let (listener, path) = bound(&s, 0o600);
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = tcp.local_addr().unwrap().to_string();
    s.start_by(&mut with(&s, "$$", tcp, Some(listener.into())), true);
    assert_eq!(address(&s), at);
    let text = fs::read_to_string(path.with_extension("token")).unwrap();
    assert!(!s.scratch.path("run/s.token").exists());
    for (headers, status) in [(String::new(), 401), (format!("Authorization: Bearer {}\r\n", text.trim()), 200)] {
        let request = format!("GET /v1/sessions HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n{headers}\r\n");
        assert_eq!(exchange_over(TcpStream::connect(&at).unwrap(), &request).status, status);
    }
    assert!(s.signal(Signal::TERM).success());
    assert!(path.exists() && !path.with_extension("token").exists());
    // An address alone: the socket is the service's own.
    s.start_by(&mut with(&s, "$$", TcpListener::bind("127.0.0.1:0").unwrap(), None), true);
    assert!(s.get("/health").status == 200 && !token(&s).is_empty());
    assert!(s.signal(Signal::TERM).success());
    assert!(!s.socket().exists());
}

#[test]
fn sockets_for_another_process_mean_nothing() {
    for process in ["1", "", "x"] {
        let mut s = stopped();
        let (listener, path) = bound(&s, 0o600);
        s.start_by(&mut with(&s, process, listener, None), false);
        s.get("/health").expect(200);
        assert!(s.signal(Signal::TERM).success());
        assert!(path.exists() && !s.socket().exists());
    }
}

#[test]
fn a_passed_socket_that_cannot_be_used_is_refused() {
    let s = stopped();
    let refused = |first: OwnedFd, second: Option<OwnedFd>, words: &[&str]| {
        let before = s.said().len();
        let status = with(&s, "$$", first, second).stdout(Stdio::null()).status().unwrap();
        let said = s.said()[before..].to_owned();
        assert_eq!(status.code(), Some(2), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        assert!(!s.socket().exists());
    };
    let number = "cannot use file descriptor 3, which systemd has passed";
    let (open, path) = bound(&s, 0o666);
    refused(open.into(), None, &[number, "other users can connect", &path.to_string_lossy(), "SocketMode=0600"]);
    let (pair, _other) = UnixStream::pair().unwrap();
    refused(pair.into(), None, &[number, "does not listen"]);
    refused(UnixDatagram::unbound().unwrap().into(), None, &[number, "neither", "ListenStream="]);
    refused(fs::File::open("/dev/null").unwrap().into(), None, &[number, "neither"]);
    let tcp = || TcpListener::bind("127.0.0.1:0").unwrap().into();
    refused(tcp(), Some(tcp()), &["file descriptor 4", "second one of its kind"]);
    refused(TcpListener::bind("0.0.0.0:0").unwrap().into(), None, &["cannot listen at 0.0.0.0:", "--tls-cert FILE"]);
}
