//! `checkpoint create`: captures a folder.

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Instant,
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use parhelia_store::{
    create::{self, Options, Outcome},
    name,
    omitted::Reason,
    progress::Progress,
    record::{Rules, Trigger},
};
use serde_json::json;

use super::{session, show};
use crate::{
    context::Context,
    exit::{Code, Failure, Result},
    human,
    output::Style,
};

/// Flags of `checkpoint create`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session that it belongs to [default: from the workspace folder's name and path]
    session: Option<String>,
    /// The folder to capture
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
    /// Why it is made
    #[arg(long, value_name = "TRIGGER", default_value = Trigger::Manual.name(), value_parser = trigger_parser())]
    trigger: Trigger,
    /// More about why
    #[arg(long, value_name = "TEXT")]
    trigger_detail: Option<String>,
    /// A message for whoever looks at it later
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    rules: RuleArgs,
    /// Capture only the paths listed in a file, one a line, and what is below them; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    files_from: Option<PathBuf>,
    /// Make no checkpoint where nothing has changed since the session's last one
    #[arg(long)]
    skip_if_unchanged: bool,
}

/// Which entries to leave out.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What is left out")]
pub struct RuleArgs {
    /// Leave out what matches a pattern in gitignore syntax; may be repeated
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Leave out what matches a pattern of a file; may be repeated
    #[arg(long, value_name = "FILE")]
    exclude_file: Vec<PathBuf>,
    /// Leave out folders that hold an entry of this name; may be repeated
    #[arg(long, value_name = "NAME")]
    exclude_if_present: Vec<String>,
    /// Leave out folders with a CACHEDIR.TAG, even with --no-default-excludes
    #[arg(long)]
    exclude_caches: bool,
    /// Do not enter other filesystems
    #[arg(long)]
    one_file_system: bool,
    /// Keep what can be proven to be regenerable: target, node_modules, .venv, __pycache__, caches
    #[arg(long)]
    no_default_excludes: bool,
}

fn trigger_parser() -> impl TypedValueParser<Value = Trigger> {
    let names = PossibleValuesParser::new(Trigger::ALL.map(Trigger::name));
    names.map(|name| Trigger::ALL.into_iter().find(|trigger| trigger.name() == name).unwrap_or_default())
}

impl RuleArgs {
    fn rules(&self, listed_only: bool) -> Result<Rules> {
        let mut patterns = self.exclude.clone();
        for path in &self.exclude_file {
            let text = fs::read_to_string(path).map_err(|source| Failure::File { action: "read", path: path.clone(), source })?;
            patterns.extend(text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).map(str::to_owned));
        }
        Ok(Rules {
            defaults: !self.no_default_excludes,
            patterns,
            if_present: self.exclude_if_present.clone(),
            caches: self.exclude_caches,
            one_file_system: self.one_file_system,
            listed_only,
        })
    }
}

/// Captures, and says what came of it.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let began = Instant::now();
    let workspace = session::workspace(&args.workspace)?;
    let session = match &args.session {
        Some(name) => session::checked(name)?,
        None => session::derived(&workspace),
    };
    let listed = args.files_from.as_deref().map(|file| listed(file, &workspace)).transpose()?;
    let rules = args.rules.rules(listed.is_some())?;
    let progress = context.progress();
    let store = context.open_with(true)?;
    context.warn_of_network(&store, &progress);
    let options = Options {
        workspace,
        session,
        trigger: args.trigger,
        trigger_detail: args.trigger_detail.clone(),
        message: args.message.clone(),
        rules,
        listed,
        skip_if_unchanged: args.skip_if_unchanged,
        ..Options::default()
    };
    let outcome = create::run(&store, &options, &progress)?;
    outcome.notices.iter().for_each(|notice| progress.notice(notice));
    drop(progress);
    let is_partial = report(context, &outcome, began)?;
    Ok(if is_partial { Code::Partly } else { Code::Done })
}

/// Prints the outcome; says whether something is not in the checkpoint as it was.
fn report(context: &mut Context, outcome: &Outcome, began: Instant) -> Result<bool> {
    let (mut excluded, mut unreadable, mut changing) = (0u64, 0u64, 0u64);
    for omission in &outcome.omissions {
        match omission.reason {
            Reason::Excluded(_) => excluded += 1,
            Reason::Unreadable(_) => unreadable += 1,
            Reason::Changing => changing += 1,
        }
        context.out.object("omission", show::omission_json(omission))?;
        if !matches!(omission.reason, Reason::Excluded(_)) {
            eprintln!("parhelia: {}", show::omission_text(omission));
        } else if context.global.verbose {
            context.out.line(show::omission_text(omission))?;
        }
    }
    let checkpoint = &outcome.checkpoint;
    let record = &checkpoint.record;
    let id = context.out.styled(Style::Bold, checkpoint.id());
    if outcome.skipped {
        context.out.remark(format!("Nothing has changed since checkpoint {id}; none was made."))?;
    } else {
        let (files, size) = (human::count(record.workspace.files, "file"), human::size(record.workspace.bytes));
        let (new, stored) = (human::size(outcome.new_bytes), human::size(outcome.stored_bytes));
        let seconds = began.elapsed().as_secs_f64();
        context.out.remark(format!("Checkpoint {id} of session {} created.", record.session))?;
        context.out.remark(format!("{files}, {size}; {new} new, {stored} stored, in {seconds:.2} s."))?;
        if excluded > 0 {
            context.out.remark(format!("Left out {} (`checkpoint show -v` names them).", human::count(excluded, "entry")))?;
        }
    }
    if unreadable + changing > 0 {
        eprintln!("parhelia: the checkpoint is partial: {unreadable} not read, {changing} changing while read");
    }
    context.out.summary(json!({
        "id": checkpoint.id(),
        "session": record.session,
        "skipped": outcome.skipped,
        "parent": record.parent.map(|id| id.to_string()),
        "depth": record.depth,
        "root": record.root,
        "checksum": checkpoint.checksum(),
        "files": record.workspace.files,
        "entries": record.workspace.entries,
        "bytes": record.workspace.bytes,
        "files_read": outcome.files_read,
        "bytes_read": outcome.bytes_read,
        "new_bytes": outcome.new_bytes,
        "stored_bytes": outcome.stored_bytes,
        "excluded": excluded,
        "unreadable": unreadable,
        "changing": changing,
        "complete": unreadable + changing == 0,
        "lock_held_ms": outcome.lock_held_ms,
        "duration_ms": u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    }))?;
    Ok(unreadable + changing > 0)
}

/// The paths listed in a file, from the workspace folder.
fn listed(file: &Path, workspace: &Path) -> Result<Vec<Vec<u8>>> {
    let failed = |source| Failure::File { action: "read", path: file.to_owned(), source };
    let input: Box<dyn Read> = match file.as_os_str() == "-" {
        true => Box::new(std::io::stdin()),
        false => Box::new(fs::File::open(file).map_err(failed)?),
    };
    let mut paths = Vec::new();
    for line in BufReader::new(input).split(b'\n') {
        let mut line = line.map_err(failed)?;
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        let path = match name::as_path(&line).strip_prefix(workspace) {
            Ok(inside) if line.starts_with(b"/") => inside.as_os_str().as_bytes().to_vec(),
            _ => line,
        };
        let parts: Vec<&[u8]> = name::components(&path).collect();
        if path.starts_with(b"/") || parts.contains(&&b".."[..]) {
            let (path, file) = (human::path(&path), file.display());
            return Err(Failure::Usage(format!("{path}, listed in {file}, is not in {}", workspace.display())));
        }
        if !path.is_empty() {
            paths.push(parts.join(&b'/'));
        }
    }
    Ok(paths)
}
