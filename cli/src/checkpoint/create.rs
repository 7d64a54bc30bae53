//! `checkpoint create`: captures a folder.

mod dry_run;
mod report;

use std::{
    cell::OnceCell,
    ffi::OsString,
    fs,
    io::Read,
    path::{Path, PathBuf},
    time::Instant,
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use parhelia_life::checkpoint::{self, ConversationChoice, FolderRequest, listed::PathList, subject::Subject, target};
use parhelia_oversight::scan;
use parhelia_store::{
    create::Options,
    record::{Rules, Trigger},
};

use super::state;
use crate::{
    changed, complete,
    context::Context,
    exit::{Code, Failure, Result},
    remote,
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
    /// Wait until the remote has it; exit code 3 if it has not, or nobody knows
    #[arg(long, conflicts_with = "dry_run")]
    wait_remote: bool,
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
    let made = match &subjects[..] {
        [only] => one(context, args, only),
        _ => each(context, args, &subjects),
    };
    if args.wait_remote && made.is_ok() { Ok(in_remote(context)?.unwrap_or(made?)) } else { made }
}

/// Waits until the remote has what was made. What it is like is worth a word, and an exit code: the checkpoint exists in any case.
fn in_remote(context: &Context) -> Result<Option<Code>> {
    let store = context.open()?;
    match remote::push::pushed(context, &store, store.lock_timeout()) {
        Ok(pushed) if pushed.damaged.is_empty() => return Ok(None),
        Ok(_) => tell!("parhelia: the remote has it, without parts that are damaged here: run `parhelia check`"),
        Err(Failure::Remote(e)) if e.is_not_known() => {
            tell!("parhelia: it is not known whether the remote has it: {e}");
        }
        Err(failure) => tell!("parhelia: the remote does not have it: {failure}"),
    }
    Ok(Some(Code::Partly))
}

fn subjects(words: &[OsString], folder: Option<&Path>) -> Result<Vec<Subject>> {
    Ok(match (words, folder) {
        ([], folder) => vec![Subject::of_folder(folder)?],
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
    let target = target::target(&store, &host, subject.session(&store, &host)?, &workspace)?;
    if args.dry_run {
        let (session, thorough, judge) = (target.session, args.thorough || args.deep, scan::judge(&store, &config.secrets)?);
        let paths = listed.as_ref().map(|listed| listed.paths.clone());
        let options = Options { workspace, session, rules, listed: paths, thorough, judge, ..Options::default() };
        return dry_run::run(context, &store, &options, listed);
    }
    let progress = context.progress();
    context.warn_of_network(&store, &progress);
    let spooled = OnceCell::new();
    let named = || state::named(&args.state, &store, &host, &spooled);
    let conversation = match (args.state.names_conversation(), args.state.is_without()) {
        (true, _) => ConversationChoice::Given(&named),
        (false, true) => ConversationChoice::None,
        (false, false) => ConversationChoice::OfSession,
    };
    let request = FolderRequest {
        subject: Some(subject),
        trigger: args.trigger,
        detail: args.trigger_detail.clone(),
        message: args.message.clone(),
        skip_if_unchanged: args.skip_if_unchanged,
        rules: Some(rules),
        listed: listed.as_ref().map(|listed| listed.paths.clone()),
        thorough: args.thorough,
        deep: args.deep,
        conversation,
    };
    let made = checkpoint::make_of_folder(&store, &host, (&workspace, &config), &target, request, &progress)?;
    drop(progress);
    let missing = listed.map_or_else(Vec::new, |listed| listed.not_in(&store, &made.outcome));
    report::print(context, &store, &made, &missing, began)
}
