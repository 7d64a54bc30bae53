//! The other end of a run on another machine: begins it at a service, says that it lives, and ends it.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    time::Duration,
};

use parhelia_store::name::NameExt as _;
use serde_json::{Value, json};
use ureq::{
    Agent,
    http::{Request, Uri},
    tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem},
};

use crate::http::is_loopback;

/// A request takes no longer.
const LIMIT: Duration = Duration::from_secs(10);
/// A longer answer is not read, in bytes.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// A service as it is reached from elsewhere.
pub enum Reach {
    /// The service's Unix socket, by its path.
    Socket(PathBuf),
    /// An address of TCP that the service listens at.
    Address {
        /// Its URL, `https://`, or `http://` of this machine.
        url: String,
        /// The token that the service asks for there.
        token: String,
        /// The certificates of issuers that are trusted, in PEM; those that everybody trusts, if none are given.
        authorities: Option<Vec<u8>>,
    },
}

/// A run that begins elsewhere.
#[derive(Clone, Debug, Default)]
pub struct BeginRun {
    /// The session by its id or name.
    pub session: String,
    /// This machine.
    pub host: String,
    /// Name of the container; none outside of one.
    pub container: Option<String>,
    /// The workspace, by its absolute path.
    pub workspace: Option<String>,
    /// The agent's command line.
    pub command: Vec<String>,
}

/// The reason for which a service did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitError {
    /// It cannot be reached, or fails; it may be asked again.
    #[error("the service cannot be told: {0}")]
    Unreachable(String),
    /// It refuses, as where another run has taken over.
    #[error("the service refuses: {0}")]
    Refused(String),
}

/// Says that a run lives.
pub struct Emitter {
    reach: Reach,
    session: String,
    run: String,
    epoch: u64,
}

impl Emitter {
    /// Begins a run at the service, with a new session where there is none of that name.
    pub fn begin(reach: Reach, begin: &BeginRun) -> Result<Self, EmitError> {
        let BeginRun { session, host, container, workspace, command } = begin;
        let body = json!({
            "session": session, "host": host, "container": container, "workspace": workspace, "command": command,
        });
        let begun = reach.post("/v1/runs", &body)?;
        let text = |name: &str| begun["run"][name].as_str().map(str::to_owned);
        match (text("id"), text("session"), begun["run"]["epoch"].as_u64()) {
            (Some(run), Some(session), Some(epoch)) => Ok(Emitter { reach, session, run, epoch }),
            _ => Err(EmitError::Unreachable("it answers with no run".into())),
        }
    }

    /// The session's id.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// The run's id.
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Says that it lives, in which state, since when nothing has happened in it, and numbers.
    pub fn beat(&self, state: Option<&str>, last_activity: Option<&str>, metrics: &Value) -> Result<(), EmitError> {
        let body = json!({"epoch": self.epoch, "state": state, "last_activity": last_activity, "metrics": metrics});
        self.reach.post(&format!("/v1/runs/{}/heartbeat", self.run), &body).map(drop)
    }

    /// Says that it is over.
    pub fn end(&self, exit_code: i32) -> Result<(), EmitError> {
        let body = json!({"epoch": self.epoch, "exit_code": exit_code});
        self.reach.post(&format!("/v1/runs/{}/end", self.run), &body).map(drop)
    }
}

impl Reach {
    fn post(&self, path: &str, body: &Value) -> Result<Value, EmitError> {
        let (place, asked) = match self {
            Reach::Socket(socket) => (socket.shown(), over_socket(socket, path, &body.to_string()).map_err(|e| e.to_string())),
            Reach::Address { url, token, authorities } => {
                (url.clone(), over_tcp(url, token, authorities.as_deref(), path, &body.to_string()))
            }
        };
        let (status, text) = asked.map_err(|why| EmitError::Unreachable(format!("{place}: {why}")))?;
        let answer: Value = serde_json::from_str(&text).unwrap_or_default();
        let detail = || answer["detail"].as_str().map_or_else(|| format!("status {status}"), str::to_owned);
        match status {
            200..300 => Ok(answer),
            // It is busy, or does not know itself.
            408 | 429 | 500.. => Err(EmitError::Unreachable(detail())),
            _ => Err(EmitError::Refused(detail())),
        }
    }
}

/// Sends a request over a socket: the connection ends with the answer.
fn over_socket(socket: &std::path::Path, path: &str, body: &str) -> std::io::Result<(u16, String)> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json");
    stream.write_all(format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes())?;
    let mut text = String::new();
    stream.take(ANSWER_BYTES_MAX).read_to_string(&mut text)?;
    let broken = || std::io::Error::other("its answer is none of HTTP");
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(broken)?;
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(broken)?;
    Ok((status, body.to_owned()))
}

/// Sends a request to an address. The token goes to nobody else, and to no other machine without TLS.
fn over_tcp(url: &str, token: &str, authorities: Option<&[u8]>, path: &str, body: &str) -> Result<(u16, String), String> {
    let uri: Uri = format!("{}{path}", url.trim_end_matches('/')).parse().map_err(|_| "its address is no URL".to_owned())?;
    match (uri.scheme_str(), uri.host()) {
        (Some("https"), Some(_)) => {}
        (Some("http"), Some(host)) if is_loopback(host) => {}
        _ => {
            return Err("its address is neither https:// nor http:// of this machine, so that others could read the token".into());
        }
    }
    let mut config = Agent::config_builder().timeout_global(Some(LIMIT)).max_redirects(0).http_status_as_error(false).proxy(None);
    if let Some(pem) = authorities {
        let items: Result<Vec<PemItem<'static>>, _> = parse_pem(pem).collect();
        let items = items.map_err(|e| format!("its authorities are no certificates: {e}"))?;
        let found = items.into_iter().filter_map(|item| match item {
            PemItem::Certificate(certificate) => Some(certificate),
            _ => None,
        });
        let found: Vec<Certificate<'static>> = found.collect();
        config = config.tls_config(TlsConfig::builder().root_certs(RootCerts::new_with_certs(&found)).build());
    }
    let request =
        Request::post(uri).header("Content-Type", "application/json").header("Authorization", format!("Bearer {token}"));
    let request = request.body(body.to_owned()).map_err(|_| "its token has characters that no header may have".to_owned())?;
    let mut answer = Agent::new_with_config(config.build()).run(request).map_err(|e| e.to_string())?;
    let status = answer.status().as_u16();
    let text = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string().map_err(|e| e.to_string())?;
    Ok((status, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_goes_to_no_other_machine_without_tls() {
        for url in ["http://build.example:8123", "ftp://127.0.0.1", "build.example"] {
            let reach = Reach::Address { url: url.into(), token: "t".into(), authorities: None };
            let refused = reach.post("/v1/runs", &json!({})).unwrap_err().to_string();
            assert!(refused.contains("https://") || refused.contains("no URL"), "{url}: {refused}");
        }
    }
}
