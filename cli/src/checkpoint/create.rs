//! `checkpoint create`: captures a folder.

mod dry_run;

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Instant,
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use parhelia_session::{
    capture::CONVERSATION,
    checkpoint::{self, CheckpointRequest, Conversation, Made, Target, checked_name},
    environment, run,
};
use parhelia_store::{
    check::VerifyReport,
    create::Options,
    name,
    omitted::Reason,
    progress::Progress,
    projection::Status,
    record::{Checkpoint, Part, Rules, Trigger},
};
use parhelia_wire::{
    Line, Summary,
    checkpoint::PartState,
    summary::{self, Created},
};

use super::{folder::workspace, show, state};
use crate::{
    complete,
    context::Context,
    exit::{Code, Failure, Result},
    human,
    output::Style,
    progress::Bar,
    session::prune,
};

/// Flags of `checkpoint create`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session that it belongs to, by its id, or by its name in this folder [default: that of the run in which this is called, else from
    /// the workspace folder's name and path]
    #[arg(add = complete::sessions())]
    session: Option<String>,
    /// The folder to capture [default: .]
    #[arg(short, long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// The trigger of the checkpoint
    #[arg(long, value_name = "TRIGGER", default_value = Trigger::Manual.name(), value_parser = trigger_parser())]
    trigger: Trigger,
    /// Details of the trigger
    #[arg(long, value_name = "TEXT")]
    trigger_detail: Option<String>,
    /// A message for whoever looks at it later
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    rules: RuleArgs,
    #[command(flatten)]
    state: state::Args,
    /// Capture only the paths listed in a file, one a line, and what is below them; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    files_from: Option<PathBuf>,
    /// Read every file, also those whose times say that they did not change
    #[arg(long)]
    thorough: bool,
    /// As --thorough, and read everything back from the store at the end
    #[arg(long)]
    deep: bool,
    /// Make no checkpoint where nothing has changed since the session's last one
    #[arg(long)]
    skip_if_unchanged: bool,
    /// Only say what would be captured, and what has changed since the session's last checkpoint
    #[arg(short = 'n', long)]
    dry_run: bool,
}

/// Rules for leaving out entries.
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
    let names = PossibleValuesParser::new(Trigger::ALL.map(|trigger| trigger.name().to_owned()));
    names.map(|name| Trigger::ALL.into_iter().find(|trigger| trigger.name() == name).unwrap_or_default())
}

impl RuleArgs {
    /// The flags' rules beside those of the configuration.
    fn rules(&self, configured: Rules, listed_only: bool) -> Result<Rules> {
        let mut patterns = configured.patterns;
        patterns.extend_from_slice(&self.exclude);
        for path in &self.exclude_file {
            let text = fs::read_to_string(path).map_err(|source| Failure::File { action: "read", path: path.clone(), source })?;
            patterns.extend(text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).map(str::to_owned));
        }
        Ok(Rules {
            defaults: configured.defaults && !self.no_default_excludes,
            patterns,
            if_present: [configured.if_present, self.exclude_if_present.clone()].concat(),
            caches: self.exclude_caches,
            one_file_system: configured.one_file_system || self.one_file_system,
            listed_only,
        })
    }
}

/// Captures, and prints the outcome.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let began = Instant::now();
    let workspace = workspace(args.workspace.as_deref().unwrap_or(Path::new(".")))?;
    let named = args.session.as_deref().map(|name| named(name, args.workspace.is_some())).transpose()?;
    let host = context.host()?;
    let config = context.config(&workspace)?;
    let listed = args.files_from.as_deref().map(|file| listed(file, &workspace)).transpose()?;
    let rules = args.rules.rules(config.capture.rules(), listed.is_some())?;
    let (store, _empty) = if args.dry_run { context.open_or_empty()? } else { (context.open_with(true)?, None) };
    let target = checkpoint::target(&store, &host, named, &workspace)?;
    if args.dry_run {
        let (session, thorough) = (target.session, args.thorough || args.deep);
        return dry_run::run(context, &store, &Options { workspace, session, rules, listed, thorough, ..Options::default() });
    }
    let _turn = target.turn(&store, &host, &context.progress())?;
    let progress = context.progress();
    context.warn_of_network(&store, &progress);
    let is_ambiguous = |name: &&String| args.workspace.is_none() && workspace.join(name).is_dir();
    hints(&target, &workspace).iter().for_each(|text| progress.notice(text));
    let known = store.view().session(&target.session)?;
    let (conversation, _spooled) = state::conversation(&args.state, &store, &host, known.as_ref())?;
    let is_agents = conversation != Conversation::None || known.as_ref().is_some_and(|known| known.run.is_some());
    let environment = is_agents.then(|| environment::request_for(&host, &store, &workspace, &target.session)).transpose()?;
    let request = CheckpointRequest {
        run: target.run.as_ref().map(|run| (run.id.as_str(), run.epoch)),
        trigger: args.trigger,
        detail: args.trigger_detail.clone(),
        message: args.message.clone(),
        skip_if_unchanged: args.skip_if_unchanged,
        rules: Some(rules),
        listed,
        thorough: args.thorough,
        deep: args.deep,
        conversation,
        tmux: known.as_ref().map(|known| run::tmux_of(&store, known)).transpose()?.flatten(),
        environment,
        ..CheckpointRequest::new(&target.session, &workspace, &config)
    };
    let made = checkpoint::make(&store, &host, &request, &progress)?;
    if let Some(name) = args.session.as_ref().filter(is_ambiguous) {
        let (folder, other) = (human::path(workspace.as_os_str().as_bytes()), human::shell(name.as_bytes()));
        let session = &target.session;
        progress.notice(&format!(
            "{folder} is captured, as session {session}; `--workspace {other}` captures the folder {name} in it"
        ));
    }
    drop(progress);
    let id = made.outcome.checkpoint.id();
    if let Some(e) = made.unverified() {
        tell!("parhelia: checkpoint {id} is made, but could not be verified: {e}");
    }
    let code = match (made.is_damaged(), made.is_complete()) {
        (true, _) => Code::Corrupt,
        (_, false) => Code::Partly,
        _ => Code::Done,
    };
    context.out.did(format!("checkpoint {id} {}", if made.outcome.skipped { "is as the workspace" } else { "is made" }));
    if let Some(removed) = made.thinned.as_ref().and_then(prune::removed_text) {
        context.out.did(removed);
    }
    report(context, &made, began)?;
    Ok(code)
}

/// Sentences about what may not be what was meant.
fn hints(target: &Target, workspace: &Path) -> Vec<String> {
    let bytes = workspace.as_os_str().as_bytes();
    let (session, folder, word) = (&target.session, human::path(bytes), human::shell(bytes));
    let moved = target.moved_from.as_ref().map(|earlier| {
        let (id, was) = (&earlier.id, earlier.workspace.as_ref().map_or("elsewhere", |place| place.path.as_str()));
        format!(
            "{folder} is the folder of session {id}, which was {was}: `parhelia session move {id} {word}` has that go on here, and this \
             checkpoint begins another session"
        )
    });
    let ended = target
        .known
        .as_ref()
        .filter(|known| known.status == Status::Ended)
        .map(|_| format!("session {session} has ended: the checkpoint is kept, and nothing goes on from it"));
    moved.into_iter().chain(ended).collect()
}

/// A name for a session, checked. Who gives a folder instead is told how that is captured.
fn named(name: &str, has_workspace: bool) -> Result<String> {
    checked_name(name).map_err(|refused| {
        let is_path = !has_workspace && (name.contains('/') || Path::new(name).is_dir());
        match is_path {
            true => Failure::Usage(format!(
                "'{name}' is no session's name; `parhelia checkpoint create --workspace {}` captures that folder",
                human::shell(name.as_bytes())
            )),
            false => refused.into(),
        }
    })
}

/// The next step where the conversation was not found.
const NAME_IT: &str = "; name it with --transcript or --stream-json, or give --no-conversation";
/// At most this many damaged paths of a new checkpoint are named.
const PROBLEMS_SHOWN: usize = 20;

/// Prints the outcome.
fn report(context: &mut Context, made: &Made, began: Instant) -> Result<()> {
    let (outcome, verified, pruned) = (&made.outcome, made.report(), made.thinned.as_ref());
    let (mut excluded, mut unreadable, mut changing) = (0u64, 0u64, 0u64);
    for omission in &outcome.omissions {
        match omission.reason {
            Reason::Excluded(_) => excluded += 1,
            Reason::Unreadable(_) => unreadable += 1,
            Reason::Changing => changing += 1,
        }
        context.out.object(Line::Omission(omission.into()))?;
        if !matches!(omission.reason, Reason::Excluded(_)) {
            tell!("parhelia: {}", show::omission_text(omission));
        } else if context.global.verbose {
            context.out.line(show::omission_text(omission))?;
        }
    }
    let checkpoint = &outcome.checkpoint;
    let record = &checkpoint.record;
    let id = context.out.styled(Style::Bold, checkpoint.id());
    if context.global.quiet {
        context.out.line(checkpoint.id())?;
    }
    if outcome.skipped {
        context.out.remark(format!("Nothing has changed in {} since checkpoint {id}; none was made.", record.workspace.path))?;
    } else {
        let (files, size) = (human::count(record.workspace.files, "file"), human::size(record.workspace.bytes));
        let (new, stored) = (human::size(outcome.new_bytes), human::size(outcome.stored_bytes));
        let seconds = began.elapsed().as_secs_f64();
        steps(&context.progress(), checkpoint, verified);
        context.out.remark(format!("Checkpoint {id} of {} created (session {}).", record.workspace.path, record.session))?;
        context.out.remark(format!("{files}, {size}; {new} new, {stored} stored, in {seconds:.2} s."))?;
        if excluded > 0 {
            context.out.remark(format!("Left out {} (`checkpoint show -v` names them).", human::count(excluded, "entry")))?;
        }
    }
    if let Some(report) = verified {
        for problem in report.problems.iter().take(PROBLEMS_SHOWN) {
            tell!("parhelia: {}: {}", problem.path, problem.error);
        }
        let more = report.problems_more + report.problems.len().saturating_sub(PROBLEMS_SHOWN) as u64;
        if more > 0 {
            tell!("parhelia: and {more} more; `parhelia checkpoint verify {}` lists them", checkpoint.id());
        }
    }
    if record.fenced {
        tell!(
            "parhelia: a newer run has taken over session {}; the checkpoint is kept, fenced, and is not its head",
            record.session
        );
    }
    if unreadable + changing > 0 {
        tell!("parhelia: the checkpoint is partial: {unreadable} not read, {changing} changing while read");
    }
    for (part, state) in &record.parts {
        if let Part::Failed { error } = state {
            let next = if part == CONVERSATION { NAME_IT } else { "" };
            tell!("parhelia: the checkpoint is incomplete: {part}: {error}{next}");
        }
    }
    // Those that failed were named already.
    for lack in
        verified.iter().flat_map(|report| &report.lacks).filter(|lack| record.parts.get(&lack.part) == Some(&Part::Captured))
    {
        tell!("parhelia: the checkpoint is incomplete: {}: {}", lack.part, lack.error);
    }
    if let Some(pruned) = pruned {
        prune::announce(context, pruned)?;
    }
    context.out.summary(Summary::CheckpointCreate(Box::new(Created {
        id: Some(checkpoint.id()),
        dry_run: false,
        session: record.session.clone(),
        workspace: record.workspace.path.clone(),
        skipped: outcome.skipped,
        parent: record.parent.map(|id| id.to_string()),
        files: record.workspace.files,
        entries: record.workspace.entries,
        bytes: record.workspace.bytes,
        excluded,
        unreadable,
        changing,
        made: Some(summary::Made {
            depth: record.depth,
            epoch: record.epoch,
            fenced: record.fenced,
            root: record.root.to_string(),
            checksum: checkpoint.checksum(),
            files_read: outcome.files_read,
            bytes_read: outcome.bytes_read,
            new_bytes: outcome.new_bytes,
            stored_bytes: outcome.stored_bytes,
            parts: PartState::of_all(record),
            complete: made.is_complete(),
            verified: verified.map(VerifyReport::is_ok),
            removed: pruned.map_or(0, |report| report.removed.len() as u64),
            lock_held_ms: outcome.lock_held_ms,
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        }),
        changes: None,
    })))
}

/// Says what was done, step by step, to whoever looks on: standard output has the result alone.
fn steps(progress: &Bar, checkpoint: &Checkpoint, verified: Option<&VerifyReport>) {
    let record = &checkpoint.record;
    let outcome = |part: &str| match record.parts.get(part) {
        None | Some(Part::Absent | Part::Unknown) => None,
        Some(Part::Captured) => Some("done".to_owned()),
        Some(Part::Failed { .. }) => Some("failed".to_owned()),
    };
    let mut steps = Vec::new();
    steps.extend(outcome("conversation").map(|done| ("Capturing conversation state", done)));
    steps.push(("Snapshotting workspace", format!("done ({})", human::size(record.workspace.bytes))));
    let parts = [("environment", "Capturing environment"), ("git", "Recording git state"), ("tmux", "Saving tmux layout")];
    for (part, text) in parts {
        steps.extend(outcome(part).map(|done| (text, done)));
    }
    if let Some(report) = verified {
        steps.push(("Verifying checkpoint", if report.is_ok() { "done" } else { "failed" }.to_owned()));
    }
    progress.step(&format!("Creating {} checkpoint...", record.trigger.name()));
    let last = steps.len() - 1;
    for (i, (text, done)) in steps.iter().enumerate() {
        let branch = if i == last { "└──" } else { "├──" };
        progress.step(&format!("  {branch} {text}... {done}"));
    }
    progress.step("");
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
