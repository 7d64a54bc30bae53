//! `checkpoint cat`: the bytes of one file.

use parhelia_store::name::NameExt as _;
use std::{ffi::OsString, io::Write};

use parhelia_screen::human;
use parhelia_store::{Error, tree::Kind};
use parhelia_wire::{Line, Summary, tree::Content};

use crate::{
    complete,
    context::Context,
    exit::{Code, Failure, Result},
    output::Output,
    selector,
};

/// Bytes of a JSON line's content; a multiple of three, so that the lines' base64 can be joined.
const PIECE_BYTES: usize = 48 << 10;

/// Flags of `checkpoint cat`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The checkpoint and the file in it
    #[arg(value_name = "CHECKPOINT:PATH", add = complete::checkpoints())]
    place: OsString,
}

/// Prints the file.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let place = selector::parse(&args.place)?;
    if place.path.as_ref().is_none_or(Vec::is_empty) {
        return Err(Failure::Usage(format!("'{}' names no file: give {}:PATH", args.place.shown(), place.checkpoint)));
    }
    let store = context.open()?;
    let (checkpoint, _pin) = context.pinned(&store, &place.checkpoint, "cat")?;
    let path = place.path_in(&checkpoint);
    let node = store.node_at(&checkpoint, &path)?;
    let shown = human::path(&path);
    let (size, blob) = match &node.kind {
        Kind::File { size, blob, .. } => (*size, *blob),
        Kind::Symlink { target } => {
            return Err(Failure::Usage(format!("cannot print {shown}: it is a symlink to {}", human::path(target))));
        }
        Kind::Folder { .. } => {
            return Err(Failure::Usage(format!("cannot print {shown}: it is a folder; `checkpoint ls` lists it")));
        }
        other => return Err(Failure::Usage(format!("cannot print {shown}: it is a {}", other.name()))),
    };
    let reader = store.blob(blob, size)?;
    if context.out.json {
        let mut lines = Lines { out: &mut context.out, pending: Vec::new(), offset: 0 };
        reader.copy_to(&mut lines).map_err(|e| e.at(&path))?.map_err(Failure::Output)?;
        lines.print()?;
    } else {
        match reader.copy_to(context.out.stream()) {
            Ok(written) => written.map_err(Failure::Output)?,
            Err(Error::Cancelled) => return Err(Error::Cancelled.into()),
            Err(e) => return Err(e.at(&path).into()),
        }
    }
    context.out.summary(Summary::CheckpointCat { id: checkpoint.id(), path: shown, bytes: size, blob: blob.to_string() })?;
    Ok(Code::Done)
}

/// Prints content as JSON lines of base64.
struct Lines<'a> {
    out: &'a mut Output,
    pending: Vec<u8>,
    offset: u64,
}

impl Lines<'_> {
    fn print(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let content = Content { offset: self.offset, encoding: "base64".into(), data: base64(&self.pending) };
        self.offset += self.pending.len() as u64;
        self.pending.clear();
        self.out.object(Line::Content(content))
    }
}

impl Write for Lines<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = bytes.len().min(PIECE_BYTES - self.pending.len());
        self.pending.extend_from_slice(&bytes[..taken]);
        if self.pending.len() == PIECE_BYTES {
            self.print().map_err(|failure| match failure {
                Failure::Output(source) => source,
                other => std::io::Error::other(other.to_string()),
            })?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_follows_rfc_4648() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }
}
