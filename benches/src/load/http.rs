//! Requests over a connection to the service's socket that stays open.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use serde_json::Value;

use crate::error::{Context, Error, Result};

/// The longest wait for an answer.
const LIMIT: Duration = Duration::from_secs(120);

/// A connection to the service's Unix socket, for one request after the other.
pub struct Connection(BufReader<UnixStream>);

impl Connection {
    /// Connects to a socket.
    pub fn open(socket: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket).context(|| format!("connect to {}", socket.display()))?;
        stream.set_read_timeout(Some(LIMIT)).context(|| "limit the wait for an answer")?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends a request and reads its answer: the status and the body.
    pub fn send(&mut self, method: &str, path: &str, body: &str) -> Result<(u16, Vec<u8>)> {
        let what = || format!("{method} {path}");
        let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json");
        let request = format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        self.0.get_mut().write_all(request.as_bytes()).context(what)?;
        let status = self.line().context(what)?;
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| Error::new(format!("{}: no status", what())))?;
        let (mut length, mut is_chunked) = (0, false);
        loop {
            let line = self.line().context(what)?.to_ascii_lowercase();
            let Some((name, value)) = line.split_once(':') else { break };
            match name {
                "content-length" => length = value.trim().parse().context(what)?,
                "transfer-encoding" => is_chunked = value.trim() == "chunked",
                _ => {}
            }
        }
        let body = if is_chunked { self.chunks() } else { self.bytes(length) };
        Ok((status, body.context(what)?))
    }

    /// The answer of a request that succeeds.
    pub fn expect(&mut self, method: &str, path: &str, body: &str) -> Result<Vec<u8>> {
        match self.send(method, path, body)? {
            (200..300, body) => Ok(body),
            (status, body) => Err(Error::new(format!("{method} {path}: {status} {}", String::from_utf8_lossy(&body)))),
        }
    }

    /// The object that a read answers with.
    pub fn get(&mut self, path: &str) -> Result<Value> {
        serde_json::from_slice(&self.expect("GET", path, "")?).context(|| format!("read the answer to {path}"))
    }

    /// The object that a write answers with.
    pub fn post(&mut self, path: &str) -> Result<Value> {
        serde_json::from_slice(&self.expect("POST", path, "{}")?).context(|| format!("read the answer to {path}"))
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }

    fn bytes(&mut self, length: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.0.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn chunks(&mut self) -> std::io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let size = usize::from_str_radix(&self.line()?, 16).map_err(std::io::Error::other)?;
            body.extend(self.bytes(size)?);
            self.line()?;
            if size == 0 {
                return Ok(body);
            }
        }
    }
}
