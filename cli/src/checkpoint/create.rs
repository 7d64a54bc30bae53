//! `checkpoint create`: captures a folder.

mod dry_run;
mod report;

use std::{
    ffi::OsString,
    fs,
    io::Read,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Instant,
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use parhelia_host::run;
use parhelia_ledger::{LedgerView as _, Status, selector};
use parhelia_life::{
    checkpoint::{self, CheckpointRequest, Conversation},
    environment,
    listed::PathList,
    subject::Subject,
    target::{self, Target},
};
use parhelia_oversight::{review::acts, scan};
use parhelia_screen::human;
use parhelia_store::{
    Store,
    create::Options,
    progress::Progress,
    record::{Rules, Trigger},
};

use super::state;
use crate::{
    changed, complete,
    context::Context,
    exit::{Code, Failure, Result},
};

/// Flags of `checkpoint create`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folders to capture, or the session that a checkpoint of this folder belongs to: its id, or its name in this folder [default: the
    /// session of the run in which this is called, else from the folder's name and path]
    #[arg(value_name = "SESSION|DIR", add = complete::sessions())]
    named: Vec<OsString>,
    /// The folder to capture; SESSION is then a session in any case [default: .]
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
    /// Capture only the paths listed in a file, one a line, and what is below them; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    files_from: Option<PathBuf>,
    /// With --files-from: the list's paths end in NUL bytes, as those of `find -print0` do, and may hold any other byte
    #[arg(short = '0', long, requires = "files_from")]
    null: bool,
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
    // Flags with a heading of their own stand last: what follows them would be listed under it.
    #[command(flatten)]
    rules: RuleArgs,
    #[command(flatten)]
    state: state::Args,
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
            let text = text.trim_start_matches('\u{feff}');
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

/// Captures each folder, and prints the outcomes. A folder that fails keeps none of the others from being captured.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let subjects = subjects(&args.named, args.workspace.as_deref())?;
    let [only] = &subjects[..] else { return each(context, args, &subjects) };
    one(context, args, only)
}

fn subjects(words: &[OsString], folder: Option<&Path>) -> Result<Vec<Subject>> {
    Ok(match (words, folder) {
        ([], folder) => vec![Subject::of_folder(folder.unwrap_or(Path::new(".")))?],
        ([word], Some(folder)) => vec![Subject::of_session(&word.to_string_lossy(), folder)?],
        (_, Some(_)) => {
            return Err(Failure::Usage("with --workspace, give one session's name; without it, folders to capture".into()));
        }
        ([word], None) => vec![Subject::of_word(word)?],
        (words, None) => words.iter().map(|word| Subject::of_one(word)).collect::<parhelia_host::Result<_>>()?,
    })
}

/// The list of a file, or of standard input. Where it names nothing that exists, what it names is said.
fn listed(file: &Path, has_nulls: bool, workspace: &Path) -> Result<PathList> {
    let failed = |source| Failure::File { action: "read", path: file.to_owned(), source };
    let mut input: Box<dyn Read> = match file.as_os_str() == "-" {
        true => Box::new(std::io::stdin()),
        false => Box::new(fs::File::open(file).map_err(failed)?),
    };
    let listed = PathList::read(&mut *input, file, has_nulls, workspace)?;
    listed.ensure_of_use(file, workspace).inspect_err(|_| {
        listed.missing.iter().for_each(|omission| tell!("parhelia: {}", changed::omission_text(omission)));
    })?;
    Ok(listed)
}

fn each(context: &mut Context, args: &Args, subjects: &[Subject]) -> Result<Code> {
    if args.files_from.is_some() || args.state.names_conversation() {
        return Err(Failure::Usage("--files-from and a conversation are of one folder; several are given".into()));
    }
    let (mut worst, mut failed) = (Code::Done, None);
    for subject in subjects {
        match one(context, args, subject) {
            Ok(Code::Done) => {}
            Ok(code) => worst = if worst == Code::Corrupt { worst } else { code },
            Err(failure) if failure.code() == Code::Interrupted => return Err(failure),
            // The first one is reported at the end, as the failure of the verb.
            Err(failure) if failed.is_none() => failed = Some(failure),
            Err(failure) => tell!("parhelia: {failure}"),
        }
    }
    failed.map_or(Ok(worst), Err)
}

fn one(context: &mut Context, args: &Args, subject: &Subject) -> Result<Code> {
    let began = Instant::now();
    let workspace = subject.workspace.clone();
    let host = context.host()?;
    let config = context.config(&workspace)?;
    let listed = args.files_from.as_deref().map(|file| listed(file, args.null, &workspace)).transpose()?;
    let rules = args.rules.rules(config.capture.rules(), listed.is_some())?;
    let (store, _empty) = if args.dry_run { context.open_or_empty()? } else { (context.open_or_make()?, None) };
    let named = subject.session(&store, &host)?;
    let target = target::target(&store, &host, named, &workspace)?;
    match &target.known {
        _ if args.dry_run => {}
        Some(known) => {
            acts::ensure_may_capture(&store, &host, (known, &workspace), args.state.names_conversation(), &context.progress())?;
        }
        None => acts::ensure_may_begin(&store, &host, &workspace, &context.progress())?,
    }
    if args.dry_run {
        let (session, thorough, judge) = (target.session, args.thorough || args.deep, scan::judge(&store, &config.secrets)?);
        let paths = listed.as_ref().map(|listed| listed.paths.clone());
        let options = Options { workspace, session, rules, listed: paths, thorough, judge, ..Options::default() };
        return dry_run::run(context, &store, &options, listed);
    }
    let progress = context.progress();
    // Before anything is captured: whoever meant another folder can still stop it.
    subject.note(target.known.is_none()).iter().for_each(|text| progress.notice(text));
    let _turn = target.turn(&store, &host, &context.progress())?;
    context.warn_of_network(&store, &progress);
    // Once is enough: somebody who goes on to capture the folder means it.
    let is_new = !subject.is_folder_named() && args.workspace.is_none() && target.known.is_none();
    let around = is_new.then(|| workspace_around(&store, &workspace)).transpose()?.flatten();
    hints(&target, &workspace, around.as_deref()).iter().for_each(|text| progress.notice(text));
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
        listed: listed.as_ref().map(|listed| listed.paths.clone()),
        thorough: args.thorough,
        deep: args.deep,
        conversation,
        tmux: known.as_ref().map(|known| run::tmux_of(&store, known)).transpose()?.flatten(),
        environment,
        ..CheckpointRequest::new(&target.session, &workspace, &config)
    };
    let made = checkpoint::make(&store, &host, &request, &progress)?;
    if target.known.is_none() {
        acts::note_begun(&store, &host, &target.session)?;
    }
    drop(progress);
    let missing = listed.map_or_else(Vec::new, |listed| listed.not_in(&store, &made.outcome));
    report::print(context, &store, &made, &missing, began)
}

/// The folder of sessions above one in which nobody named a folder to capture.
fn workspace_around(store: &Store, folder: &Path) -> Result<Option<PathBuf>> {
    let found = selector::workspace_at(&store.view(), folder)?;
    Ok(found.map(|(path, _)| path).filter(|path| path != folder))
}

/// Sentences about what may not be what was meant. `around` is the folder of sessions that holds the one that is captured.
fn hints(target: &Target, workspace: &Path, around: Option<&Path>) -> Vec<String> {
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
    let around = around.map(|around| {
        let whole = around.as_os_str().as_bytes();
        format!("{folder} alone is captured; `--workspace {}` captures all of {}", human::shell(whole), human::path(whole))
    });
    moved.into_iter().chain(ended).chain(around).collect()
}
