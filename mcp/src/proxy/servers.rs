//! From the server to the agent.

use std::{
    io::{self, BufRead, BufReader, Write},
    process::ChildStdout,
};

use super::{Server, locked};

/// No longer line is kept to see whether it answers a request of ours, in bytes.
const KEPT_BYTES_MAX: usize = 256 << 20;
/// Read from the server at once, in bytes.
const READ_BYTES: usize = 64 << 10;

/// A line of the server's, as far as it has come.
enum Line {
    /// It is the agent's.
    Passed,
    /// It may be ours.
    Kept(Vec<u8>),
}

/// Passes on what the server says, until it has nothing more to say. What an agent misses that listens no more is dropped.
pub fn pass(server: &Server, output: ChildStdout) {
    let mut reader = BufReader::with_capacity(READ_BYTES, output);
    let mut agent: Box<dyn Write> = Box::new(io::stdout().lock());
    let mut line = None;
    loop {
        let bytes = match reader.fill_buf() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Ok([]) | Err(_) => break,
            Ok(bytes) => bytes,
        };
        let length = bytes.len();
        // The standard output keeps unfinished lines back, unless it is flushed.
        if take(server, bytes, &mut line, &mut agent).and_then(|()| agent.flush()).is_err() {
            agent = Box::new(io::sink());
            line = Some(Line::Passed);
        }
        reader.consume(length);
    }
    if let Some(Line::Kept(rest)) = line {
        let _ = agent.write_all(&rest).and_then(|()| agent.flush());
    }
}

/// Takes bytes of the server's in: line by line, where one may be ours.
fn take(server: &Server, mut bytes: &[u8], line: &mut Option<Line>, agent: &mut impl Write) -> io::Result<()> {
    while !bytes.is_empty() {
        let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        let (part, rest) = bytes.split_at(end);
        bytes = rest;
        let is_whole = part.ends_with(b"\n");
        match line.get_or_insert_with(|| begun(server)) {
            Line::Passed => agent.write_all(part)?,
            Line::Kept(kept) => {
                kept.extend_from_slice(part);
                if is_whole {
                    if !is_ours(server, kept) {
                        agent.write_all(kept)?;
                    }
                } else if kept.len() > KEPT_BYTES_MAX {
                    agent.write_all(kept)?;
                    *line = Some(Line::Passed);
                }
            }
        }
        if is_whole {
            *line = None;
        }
    }
    Ok(())
}

/// The beginning of a line.
fn begun(server: &Server) -> Line {
    match server.ours.are_under_way() || locked(&server.hello).awaits_server() {
        true => Line::Kept(Vec::new()),
        false => Line::Passed,
    }
}

fn is_ours(server: &Server, line: &[u8]) -> bool {
    let mut hello = locked(&server.hello);
    if hello.awaits_server() {
        hello.of_server(line);
    }
    drop(hello);
    server.ours.take(line)
}
