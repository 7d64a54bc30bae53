//! As much of HTTP/1.1 as one client of ours speaks.

use std::io::{self, BufRead, Read, Write};

/// Longest body that is read.
const BODY_BYTES_MAX: u64 = 256 << 20;

/// A request.
pub(super) struct Request {
    pub method: String,
    pub path: String,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// Reads the next request of a connection; none where it was closed.
    pub fn read(input: &mut impl BufRead) -> io::Result<Option<Self>> {
        let Some(first) = line(input)? else { return Ok(None) };
        let mut words = first.split(' ').map(str::to_owned);
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut request = Request { method, path, headers: Vec::new(), body: Vec::new() };
        while let Some(header) = line(input)?.filter(|line| !line.is_empty()) {
            if let Some((name, value)) = header.split_once(':') {
                request.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
        if request.header("transfer-encoding") == Some("chunked") {
            while let Some(bytes) = line(input)?.and_then(|size| u64::from_str_radix(&size, 16).ok()) {
                input.take(bytes.min(BODY_BYTES_MAX)).read_to_end(&mut request.body)?;
                line(input)?;
                if bytes == 0 {
                    break;
                }
            }
        } else if let Some(bytes) = request.header("content-length").and_then(|bytes| bytes.parse().ok()) {
            input.take(BODY_BYTES_MAX.min(bytes)).read_to_end(&mut request.body)?;
        }
        Ok(Some(request))
    }

    /// A header, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

fn line(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    if input.take(1 << 20).read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()))
}

/// Answers a request.
pub(super) fn respond(output: &mut impl Write, status: u16, kind: &str, id: &str, body: &str) -> io::Result<()> {
    let reason = if status == 200 { "OK" } else { "Error" };
    let bytes = body.len();
    write!(
        output,
        "HTTP/1.1 {status} {reason}\r\ncontent-type: {kind}\r\nrequest-id: {id}\r\ncontent-length: {bytes}\r\n\r\n{body}"
    )?;
    output.flush()
}
