//! The service over TLS, at addresses that other machines can reach.

use std::{
    net::{SocketAddr, TcpStream, UdpSocket},
    process::Command,
    sync::Arc,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
    version::{TLS12, TLS13},
};

use super::*;
use crate::service::browser::{address, agent_decides_nothing, token};

/// The name in the certificate.
const NAME: &str = "parhelia.test";
const BOTH: &[&SupportedProtocolVersion] = &[&TLS12, &TLS13];

/// Makes an authority, a certificate of it, and a key that does not belong to that, in a folder `tls`.
fn certify(scratch: &Scratch) {
    let folder = scratch.path("tls");
    fs::create_dir_all(&folder).unwrap();
    let openssl = |words: &str| {
        let output = Command::new("openssl").args(words.split(' ')).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let new = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!("req -x509 {new} -keyout ca.key -out ca.pem -days 2 -subj /CN=authority"));
    openssl(&format!("req {new} -keyout key.pem -out request.pem -subj /CN={NAME}"));
    fs::write(folder.join("names"), format!("subjectAltName=DNS:{NAME},IP:127.0.0.1")).unwrap();
    openssl("x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out cert.pem");
    openssl("genpkey -algorithm ED25519 -out other.pem");
}

/// The flags of a service with files of that folder.
fn flags(scratch: &Scratch, listen: &str, certificate: &str, key: &str) -> Vec<String> {
    let at = |name: &str| scratch.path("tls").join(name).to_string_lossy().into_owned();
    vec!["--listen".into(), listen.into(), "--tls-cert".into(), at(certificate), "--tls-key".into(), at(key)]
}

/// A service that listens with a certificate.
pub fn secure(listen: &str) -> Service {
    let scratch = Service::store_of_work();
    certify(&scratch);
    let mut service = Service::of(scratch, &[]);
    service.flags = flags(&service.scratch, listen, "cert.pem", "key.pem");
    service.start();
    service
}

/// The address of this machine with the service's port.
fn local(s: &Service) -> String {
    format!("127.0.0.1:{}", address(s).rsplit_once(':').unwrap().1)
}

type Secure = StreamOwned<ClientConnection, TcpStream>;

/// Connects to an address as a client that trusts the authority, and shakes hands.
fn connect(s: &Service, to: &str, versions: &[&'static SupportedProtocolVersion]) -> Secure {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(s.scratch.path("tls/ca.pem")).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider())).with_protocol_versions(versions);
    let mut config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let client = ClientConnection::new(Arc::new(config), ServerName::try_from(NAME).unwrap()).unwrap();
    let mut stream = StreamOwned::new(client, stream);
    stream.conn.complete_io(&mut stream.sock).unwrap();
    stream
}

fn ask_at(s: &Service, to: &str, method: &str, path: &str, headers: &str) -> Answer {
    let host = if headers.contains("Host:") { String::new() } else { format!("Host: {NAME}\r\n") };
    let request = format!("{method} {path} HTTP/1.1\r\n{host}Connection: close\r\nContent-Length: 0\r\n{headers}\r\n");
    exchange_over(connect(s, to, BOTH), &request)
}

#[test]
fn over_tls_the_token_is_asked_for_and_the_certificate_stands_for_the_name() {
    let s = secure("127.0.0.1:0");
    assert!(s.page.as_ref().unwrap().starts_with("https://127.0.0.1:"), "{:?}", s.page);
    let (to, known) = (local(&s), format!("Authorization: Bearer {}\r\n", token(&s)));
    let get = |headers: &str| ask_at(&s, &to, "GET", "/v1/sessions", headers);
    assert_eq!(get(&known).expect(200)["sessions"][0]["name"], "work");
    for (headers, status, what) in [
        (String::new(), 401, "no token"),
        ("Authorization: Bearer wrong\r\n".into(), 401, "a wrong token"),
        (format!("{known}Host: {to}\r\n"), 200, "the address"),
        (format!("{known}Host: any.name:1\r\n"), 200, "another name"),
        (format!("{known}Host: localhost\r\nSec-Fetch-Mode: navigate\r\n"), 200, "a browser that is not sent elsewhere"),
        (format!("{known}Host: \r\n"), 403, "no name"),
        (format!("{known}Origin: https://{NAME}\r\nSec-Fetch-Site: same-origin\r\n"), 200, "its own page"),
        (format!("{known}Origin: http://{NAME}\r\n"), 403, "the same name without TLS"),
        (format!("{known}Origin: https://{NAME}:444\r\n"), 403, "another port"),
        (format!("{known}Origin: https://example.com\r\n"), 403, "another site"),
        (format!("{known}Origin: null\r\n"), 403, "a page of nowhere"),
        (format!("{known}Sec-Fetch-Site: cross-site\r\n"), 403, "another site, as browsers say"),
    ] {
        let answer = get(&headers);
        assert_eq!(answer.status, status, "{what}: {}", String::from_utf8_lossy(&answer.body));
    }
    assert!(ask_at(&s, &to, "GET", "/", "").head.contains("text/html"));
    for version in [&TLS12, &TLS13] {
        let stream = connect(&s, &to, &[version]);
        assert_eq!(stream.conn.protocol_version(), Some(version.version));
        assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
    }
    assert!(!s.said().contains(token(&s).as_str()) && s.get("/v1/sessions").status == 200, "the socket asks for none");
}

#[test]
fn at_every_address_of_the_machine_the_peer_is_who_the_kernel_says() {
    // A connection to a machine that nobody asks, of which only the own address is used.
    let elsewhere =
        UdpSocket::bind("0.0.0.0:0").and_then(|socket| socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr()));
    for listen in ["0.0.0.0:0", "[::]:0"] {
        if listen.starts_with('[') && std::net::TcpListener::bind("[::]:0").is_err() {
            continue;
        }
        let s = secure(listen);
        let (to, ids, known) = (local(&s), s.checkpoints(), format!("Authorization: Bearer {}\r\n", token(&s)));
        let approve = |to: &str, id: &str| ask_at(&s, to, "POST", &format!("/v1/checkpoints/{id}/approve"), &known).expect(200);
        assert_eq!(approve(&to, &ids[0])["approval"]["status"], "approved");
        if let Ok(own) = &elsewhere {
            let to: SocketAddr = format!("{}:{}", own.ip(), to.rsplit_once(':').unwrap().1).parse().unwrap();
            approve(&to.to_string(), &ids[1]);
        }
        let audit = s.scratch.expect(0, &["audit", "log", "--json"]);
        let approved: Value = serde_json::from_str(audit.lines().next().unwrap()).unwrap();
        assert_eq!(approved["uid"].as_u64(), Some(rustix::process::getuid().as_raw().into()), "{approved}");
        agent_decides_nothing(&s, "HTTPSConnection");
    }
}

#[test]
fn who_says_nothing_or_no_tls_keeps_nobody_waiting() {
    let mut s = secure("127.0.0.1:0");
    let (to, known) = (local(&s), format!("Authorization: Bearer {}\r\n", token(&s)));
    let mut plain = TcpStream::connect(&to).unwrap();
    plain.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    plain.write_all(format!("GET / HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
    let mut silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(&to).unwrap()).collect();
    // The beginning of a handshake.
    silent[0].write_all(&[22, 3, 1, 2, 0, 1, 0]).unwrap();
    let began = Instant::now();
    ask_at(&s, &to, "GET", "/v1/sessions", &known).expect(200);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    for stream in &mut silent[..2] {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert!((8..30).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    // Neither does the end of the service wait for a handshake.
    let _silent = TcpStream::connect(&to).unwrap();
    let began = Instant::now();
    assert!(s.signal(Signal::TERM).success());
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[test]
fn a_certificate_that_cannot_be_used_is_refused_before_anybody_can_connect() {
    let scratch = Service::store_of_work();
    certify(&scratch);
    let s = Service::of(scratch, &[]);
    let at = |name: &str| s.scratch.path("tls").join(name);
    fs::write(at("text"), "no certificate\n").unwrap();
    fs::write(at("damaged"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    let refused = |certificate: &str, key: &str, words: &[&str]| {
        let output = s.command().args(flags(&s.scratch, "127.0.0.1:0", certificate, key)).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        assert!(!s.socket().exists());
    };
    refused("none", "key.pem", &["cannot use the certificate ", "tls/none", "No such file", "--tls-cert"]);
    refused("text", "key.pem", &["tls/text", "holds no certificate", "--tls-cert"]);
    refused("damaged", "key.pem", &["cannot use the certificate ", "tls/damaged", "is damaged"]);
    refused("key.pem", "key.pem", &["tls/key.pem", "holds no certificate"]);
    refused("cert.pem", "none", &["cannot use the key ", "tls/none", "No such file", "--tls-key"]);
    refused("cert.pem", "cert.pem", &["cannot use the key ", "tls/cert.pem", "no private key"]);
    refused("cert.pem", "other.pem", &["tls/other.pem", "not the key of the first certificate", "tls/cert.pem", "--tls-key"]);
    let usage = |words: &[&str], why: &str| {
        let said = s.scratch.expect(2, &[&["serve"], words].concat());
        assert!(said.contains(why), "{said}");
    };
    usage(&["--listen", "127.0.0.1:0", "--tls-cert", "cert.pem"], "--tls-key");
    usage(&["--tls-cert", "cert.pem", "--tls-key", "key.pem"], "--listen ADDRESS");
    usage(&["--token-file", "token"], "--listen ADDRESS");
}

#[test]
fn a_key_that_others_can_read_is_used_and_said() {
    let mut s = secure("127.0.0.1:0");
    assert!(!s.said().contains("chmod"), "{}", s.said());
    assert!(s.signal(Signal::TERM).success());
    fs::set_permissions(s.scratch.path("tls/key.pem"), fs::Permissions::from_mode(0o644)).unwrap();
    s.start();
    assert!(s.said().contains("tls/key.pem; `chmod 600` it"), "{}", s.said());
    assert_eq!(ask_at(&s, &local(&s), "GET", "/", "").status, 200);
}
