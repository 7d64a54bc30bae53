//! `audit export`: the audit for other programs, as JSON Lines or CSV.

#![expect(clippy::disallowed_methods, reason = "writes a file that the user names")]

use std::{
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};

use clap::ValueEnum;
use parhelia_oversight::review::audit::{self, Entry};
use parhelia_screen::human;
use parhelia_store::name::NameExt as _;
use parhelia_wire::{Summary, audit as wire};

use super::FilterArgs;
use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    output,
};

/// Formats of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// An object a line
    Jsonl,
    /// A line an entry, behind a line with the names of the columns
    Csv,
}

/// Flags of `audit export`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    chosen: FilterArgs,
    /// The format
    #[arg(long, value_enum, default_value_t = Format::Jsonl)]
    format: Format,
    /// A new file, in place of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Columns of CSV.
const COLUMNS: [&str; 15] = [
    "sequence", "at", "action", "subject", "session", "user", "uid", "login", "via", "host", "reason", "policy", "rule", "hash",
    "previous",
];

/// Writes it.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    if context.out.json && args.output.is_none() {
        return Err(Failure::Usage("--json says what was exported, so that the export itself needs --output FILE".into()));
    }
    let store = context.open()?;
    let entries = audit::entries(&store, &args.chosen.filter(&store, false)?, None)?;
    let bytes = match args.format {
        Format::Jsonl => lines(&entries),
        Format::Csv => csv(&entries),
    };
    let bytes = bytes.map_err(Failure::Output)?;
    match &args.output {
        None => context.out.bytes(&bytes)?,
        Some(path) => {
            let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            let written = written.and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()));
            written.map_err(|source| Failure::File { action: "write the new file", path: path.clone(), source })?;
            context.out.remark(format!("Wrote {} entries to {}.", entries.len(), path.shown()))?;
        }
    }
    context.out.summary(Summary::AuditExport { entries: entries.len() as u64 })?;
    Ok(Code::Done)
}

fn lines(entries: &[Entry]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for entry in entries {
        bytes.extend(output::line(&wire::Entry::from(entry))?);
    }
    Ok(bytes)
}

fn csv(entries: &[Entry]) -> io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for entry in entries {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let uid = entry.actor.uid.map(|uid| uid.to_string()).unwrap_or_default();
        let row = [
            entry.sequence.to_string(),
            entry.at.to_string(),
            entry.action.to_owned(),
            entry.subject.clone(),
            text(&entry.session),
            text(&entry.actor.user),
            uid,
            text(&entry.actor.login),
            entry.actor.via.clone(),
            entry.host.clone(),
            text(&entry.reason),
            text(&entry.policy),
            text(&entry.rule),
            entry.hash.clone(),
            text(&entry.previous),
        ];
        writer.write_record(row.map(inert))?;
    }
    writer.into_inner().map_err(csv::IntoInnerError::into_error)
}

/// A text that a spreadsheet does not take for a formula, nor a terminal for a command.
fn inert(text: String) -> String {
    let text = human::path(text.as_bytes());
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_no_formulas() {
        for (text, expected) in [("=1+1", "'=1+1"), ("@x", "'@x"), ("-1", "'-1"), ("a=b", "a=b"), ("", "")] {
            assert_eq!(inert(text.into()), expected);
        }
    }
}
