//! `checkpoint create`: captures a folder.

mod dry_run;

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    iter,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Instant,
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use parhelia_agent::process::canonical;
use parhelia_session::{
    resume::Standing,
    retention,
    rollback::{self, Turn},
    verification,
};
use parhelia_store::{
    Store,
    check::VerifyReport,
    create::{self, FullWalk, Options, Outcome},
    fold::{Place, Run, Session, Status},
    name,
    omitted::Reason,
    progress::Progress,
    record::{Checkpoint, Part, Rules, Trigger},
    view::View,
};
use serde_json::json;

use super::{rollback::finish_earlier, session, show, state};
use crate::{
    complete,
    context::Context,
    env,
    exit::{Code, Failure, Result},
    human,
    output::Style,
    progress::Bar,
    session::{
        moved::{is_named_after_earlier_folder, moved_here},
        prune,
    },
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

/// Captures, and says what came of it.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let began = Instant::now();
    let workspace = session::workspace(args.workspace.as_deref().unwrap_or(Path::new(".")))?;
    let named = args.session.as_deref().map(|name| named(name, args.workspace.is_some())).transpose()?;
    let config = context.config(&workspace)?;
    let listed = args.files_from.as_deref().map(|file| listed(file, &workspace)).transpose()?;
    let rules = args.rules.rules(config.capture.rules(), listed.is_some())?;
    let (store, _empty) = if args.dry_run { context.open_or_empty()? } else { (context.open_with(true)?, None) };
    let run = own_run(&store)?;
    let session = session_of(&store, named, run.as_ref(), &workspace)?;
    if args.dry_run {
        let thorough = args.thorough || args.deep;
        return dry_run::run(context, &store, &Options { workspace, session, rules, listed, thorough, ..Options::default() });
    }
    let _turn = turn(context, &store, &session)?;
    let progress = context.progress();
    context.warn_of_network(&store, &progress);
    let ambiguous = args.session.as_ref().filter(|name| args.workspace.is_none() && workspace.join(name).is_dir()).map(|name| {
        let folder = name::display(workspace.as_os_str().as_bytes());
        format!(
            "{folder} is captured, as session {session}; `--workspace {}` captures the folder {name} in it",
            human::shell(name.as_bytes())
        )
    });
    let run = run.filter(|run| run.session == session);
    let known = store.view().session(&session)?;
    if known.is_none() {
        moved_here(&store, &workspace)?.iter().for_each(|text| progress.notice(text));
    }
    if known.as_ref().is_some_and(|known| known.status == Status::Ended) {
        progress.notice(&format!("session {session} has ended: the checkpoint is kept, and nothing goes on from it"));
    }
    let standing = Standing::of_captured(known.as_ref(), &workspace);
    let options = Options {
        workspace,
        run: run.as_ref().map(|run| run.id.clone()),
        epoch: run.map_or(0, |run| run.epoch),
        session,
        actor: context.actor(),
        trigger: args.trigger,
        trigger_detail: args.trigger_detail.clone(),
        message: args.message.clone(),
        rules,
        listed,
        skip_if_unchanged: args.skip_if_unchanged,
        thorough: args.thorough || args.deep,
        read_all_after_secs: config.capture.read_all_after_secs(),
        keeps_place: standing.is_another(),
        of_another_folder: standing.is_another(),
        ..Options::default()
    };
    let environment = env::request_for(context, &store, &options.workspace, &options.session)?;
    let mut prepared = state::prepare(&args.state, &store, &options.session, &options.workspace, &config, environment)?;
    let mut outcome = create::run_with(&store, &options, &FullWalk, &mut prepared.capture, &progress)?;
    let warnings = prepared.capture.warnings().iter().filter(|_| !outcome.skipped);
    let of_place = known.as_ref().and_then(|known| standing.text(known)).filter(|_| !outcome.skipped);
    ambiguous.iter().chain(&outcome.notices).chain(&of_place).chain(warnings).for_each(|notice| progress.notice(notice));
    let verify = |outcome: &Outcome| match outcome.skipped {
        true => Ok(None),
        false => verification::of_new(&store, &outcome.checkpoint, args.deep, &context.actor(), &progress).map(Some),
    };
    let mut verified = verify(&outcome);
    if args.deep && verified.as_ref().is_ok_and(|report| report.as_ref().is_some_and(|report| !report.is_ok())) {
        // It is known by now what is damaged.
        let id = outcome.checkpoint.id();
        progress
            .notice(&format!("checkpoint {id} reuses what is damaged in the store; another one is made that stores it again"));
        match create::run_with(&store, &options, &FullWalk, &mut prepared.capture, &progress) {
            Ok(again) if again.skipped => {}
            Ok(again) => (verified, outcome) = (verify(&again), again),
            Err(e) => progress.notice(&format!("no other checkpoint was made: {e}; the next one stores again what is damaged")),
        }
    }
    // It is committed, whether it could be verified or not.
    let (verified, unverified) = match verified {
        Ok(verified) => (verified, None),
        Err(e) => (None, Some(e)),
    };
    let is_damaged = verified.as_ref().is_some_and(|report| !report.is_ok());
    // Nothing older goes in favour of what may be damaged, or is of another folder.
    let pruned = match is_damaged || unverified.is_some() || standing.is_another() {
        true => None,
        false => retention::after(&store, &outcome, &config.retention, &context.actor(), &progress),
    };
    drop(progress);
    let id = outcome.checkpoint.id();
    if let Some(e) = &unverified {
        tell!("parhelia: checkpoint {id} is made, but could not be verified: {e}");
    }
    let complete = outcome.checkpoint.is_complete() && verified.as_ref().is_none_or(VerifyReport::is_complete);
    let code = match (is_damaged, complete && unverified.is_none()) {
        (true, _) => Code::Corrupt,
        (_, false) => Code::Partly,
        _ => Code::Done,
    };
    let made = if outcome.skipped { "is as the workspace" } else { "is made" };
    context.out.did(format!("checkpoint {id} {made}"));
    if let Some(removed) = pruned.as_ref().and_then(prune::removed_text) {
        context.out.did(removed);
    }
    report(context, &outcome, verified.as_ref(), pruned.as_ref(), began)?;
    Ok(code)
}

/// A name for a session, checked. Who gives a folder instead is told how that is captured.
fn named(name: &str, has_workspace: bool) -> Result<String> {
    session::checked(name).map_err(|failure| {
        let is_path = !has_workspace && (name.contains('/') || Path::new(name).is_dir());
        match is_path {
            true => Failure::Usage(format!(
                "'{name}' is no session's name; `parhelia checkpoint create --workspace {}` captures that folder",
                human::shell(name.as_bytes())
            )),
            false => failure,
        }
    })
}

/// What is half rolled back is no state that anybody was in: a rollback that was interrupted is finished, and none begins until the turn is
/// over. A session without checkpoints has none.
fn turn(context: &mut Context, store: &Store, session: &str) -> Result<Option<Turn>> {
    let Some(known) = store.view().session(session)? else { return Ok(None) };
    if rollback::open(&known).is_some() {
        let _alone = rollback::held(store, session, &context.progress())?;
        finish_earlier(context, store, session)?;
    }
    Ok(Some(rollback::shared(store, session, &context.progress())?))
}

/// So many names are tried for a session whose own was imported.
const NAMES_MAX: usize = 100;
/// At most this many damaged paths of a new checkpoint are named.
const PROBLEMS_SHOWN: usize = 20;

/// The run that this process belongs to, by its environment.
fn own_run(store: &Store) -> Result<Option<Run>> {
    let Some(id) = std::env::var("PARHELIA_RUN_ID").ok().filter(|id| !id.is_empty()) else { return Ok(None) };
    Ok(store.view().run(&id)?)
}

/// The session that has this id, or else the one of this workspace that has this name; where there is none, the name is a new session's id.
/// Without a name it is the session of the run that this process belongs to, or else the one that is named after the workspace.
fn session_of(store: &Store, named: Option<String>, run: Option<&Run>, workspace: &Path) -> Result<String> {
    let view = store.view();
    let own = Place::of(workspace)?;
    // A folder that was moved is still the session's.
    let is_here = |session: &Session| {
        let place = session.workspace.as_ref();
        place.is_some_and(|place| canonical(&place.folder()) == workspace || place.is_same_folder(&own))
    };
    let Some(name) = named else {
        let own = run.map(|run| view.session(&run.session)).transpose()?.flatten();
        if let Some(session) = own.filter(is_here) {
            return Ok(session.id);
        }
        let is_moved = |session: &Session| is_here(session) && is_named_after_earlier_folder(session, &session::derived);
        let moved = view.sessions()?.into_iter().find(is_moved);
        return moved.map_or_else(|| named_after(&view, workspace), |session| Ok(session.id));
    };
    if view.session(&name)?.is_some() {
        return Ok(name);
    }
    let (here, elsewhere): (Vec<_>, Vec<_>) =
        view.sessions()?.into_iter().filter(|session| session.name == name).partition(is_here);
    let goes_on = |session: &Session| session.status != Status::Ended;
    let here = here.into_iter().max_by_key(|session| (goes_on(session), session.changed_sequence));
    match (here, elsewhere.iter().find(|session| goes_on(session))) {
        (Some(session), _) => Ok(session.id),
        // Whoever said the name would get the new session from then on.
        (None, Some(other)) => {
            let place = other.workspace.as_ref();
            let is_gone = place.is_some_and(|place| !place.folder().is_dir());
            let hint = match is_gone {
                true => format!(
                    "that folder is gone; if it is {folder} by now, `parhelia session move {} {word} --other-folder` says so, else give another name",
                    other.id,
                    folder = human::path(workspace.as_os_str().as_bytes()),
                    word = human::shell(workspace.as_os_str().as_bytes()),
                ),
                false => "give another name, or that id to make a checkpoint of that one".into(),
            };
            let path = place.map_or("no folder", |place| place.path.as_str());
            Err(Failure::Refused(format!("'{name}' is the name of session {}, in {path}; {hint}", other.id)))
        }
        (None, None) => Ok(name),
    }
}

/// The session that is named after a folder. What was imported under that name is of another machine's folder, and not joined: then it is a name
/// beside it.
fn named_after(view: &View, workspace: &Path) -> Result<String> {
    let derived = session::derived(workspace);
    let names = iter::once(derived.clone()).chain((2..).map(|n| format!("{derived}-{n}")));
    for name in names.take(NAMES_MAX) {
        let is_imported = view.session(&name)?.is_some_and(|session| session.workspace.is_none())
            && view.head(&name)?.is_some_and(|head| head.record.is_imported());
        if !is_imported {
            return Ok(name);
        }
    }
    Err(Failure::Refused(format!("session {derived} was imported; give this folder's checkpoints the name of another session")))
}

/// Prints the outcome.
fn report(
    context: &mut Context,
    outcome: &Outcome,
    verified: Option<&VerifyReport>,
    pruned: Option<&retention::Report>,
    began: Instant,
) -> Result<()> {
    let (mut excluded, mut unreadable, mut changing) = (0u64, 0u64, 0u64);
    for omission in &outcome.omissions {
        match omission.reason {
            Reason::Excluded(_) => excluded += 1,
            Reason::Unreadable(_) => unreadable += 1,
            Reason::Changing => changing += 1,
        }
        context.out.object("omission", show::omission_json(omission))?;
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
            tell!("parhelia: the checkpoint is incomplete: {part}: {error}");
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
    let complete = checkpoint.is_complete() && verified.is_none_or(VerifyReport::is_complete);
    context.out.summary(json!({
        "id": checkpoint.id(),
        "session": record.session,
        "workspace": record.workspace.path,
        "skipped": outcome.skipped,
        "parent": record.parent.map(|id| id.to_string()),
        "depth": record.depth,
        "epoch": record.epoch,
        "fenced": record.fenced,
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
        "parts": record.parts,
        "complete": complete,
        "verified": verified.map(VerifyReport::is_ok),
        "removed": pruned.map_or(0, |report| report.removed.len()),
        "lock_held_ms": outcome.lock_held_ms,
        "duration_ms": u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    }))
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
