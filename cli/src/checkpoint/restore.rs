//! `checkpoint restore`: makes a folder what it is in a checkpoint.

mod report;

use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use parhelia_host::{notice::Notice, run::has_agent};
use parhelia_ledger::{LedgerView as _, selector::is_relative};
use parhelia_life::restore::{InPlace, Restore, RestoreRequest, into_new_folder};
use parhelia_screen::human;
use parhelia_store::{Store, name, record::Checkpoint, restore::Options};

use crate::{
    caller, complete,
    context::Context,
    exit::{Code, Failure, Result},
    selector::{self, Selector},
};

/// Flags of `checkpoint restore`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The checkpoint, and what of it: ID or ID:path
    #[arg(value_name = "CHECKPOINT[:PATH]", add = complete::checkpoints())]
    place: OsString,
    /// The folder to make; with --in-place, the folder to change
    #[arg(long, alias = "target", short_alias = 't', value_name = "DIR")]
    to: Option<PathBuf>,
    /// Change an existing folder, touching only what differs
    #[arg(long, requires = "to")]
    in_place: bool,
    /// Remove what the checkpoint does not have, but for what its capture left out
    #[arg(long, requires = "in_place")]
    delete: bool,
    /// Restore only what matches a pattern in gitignore syntax; may be repeated
    #[arg(long, value_name = "PATTERN", requires = "to")]
    include: Vec<OsString>,
    /// Pass over what matches a pattern; may be repeated
    #[arg(long, value_name = "PATTERN", requires = "to")]
    exclude: Vec<OsString>,
    /// Restore what gives privileges (setuid, devices, capabilities) of an imported checkpoint, or from a store of somebody else
    #[arg(long, requires = "to")]
    preserve_special: bool,
    /// With --in-place, make no safety checkpoint of a session's folder in which something is overwritten
    #[arg(long, requires = "in_place")]
    no_safety: bool,
    /// With --in-place, overwrite a folder, or something in it, with a checkpoint of another folder
    #[arg(long, requires = "in_place")]
    other_folder: bool,
    /// Only say what would be done
    #[arg(short = 'n', long, requires = "to")]
    dry_run: bool,
    /// Read what was written once more
    #[arg(long, requires = "to")]
    verify: bool,
}

/// Plans, and does it.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let place = selector::parse(&args.place)?;
    let store = context.open()?;
    let Some(to) = &args.to else { return Err(without_target(context, &store, &place)) };
    let found = match args.in_place {
        true => context.find_to_overwrite(&store, &place.checkpoint, Some(to))?,
        false => context.find(&store, &place.checkpoint)?,
    };
    let (checkpoint, _pin) = context.pin(&store, &found, "restore")?;
    let subpath = place.path_in(&checkpoint);
    if args.in_place && subpath.is_empty() && is_relative(&place.checkpoint) {
        ensure_whole(&place.checkpoint, &checkpoint, to)?;
    }
    let mut options = Options {
        subpath,
        preserve_special: args.preserve_special,
        in_place: args.in_place,
        delete: args.delete,
        include: patterns(&args.include),
        exclude: patterns(&args.exclude),
        verify: args.verify,
        ..Options::new(to)
    };
    into_new_folder(&store, &checkpoint, &mut options)?;
    let in_place = args.in_place.then(|| InPlace {
        other_folder: args.other_folder,
        no_safety: args.no_safety,
        is_relative: is_relative(&place.checkpoint),
    });
    let host = context.host()?;
    let progress = context.progress();
    let request = RestoreRequest { checkpoint: &checkpoint, options, in_place };
    let mut planned = Restore::new(&store, &host, request, &progress)?;
    if args.dry_run {
        drop(progress);
        return report::dry_run(context, &checkpoint, &planned);
    }
    let _turns = planned.take_turns(&store, &host, &progress)?;
    if context.global.verbose {
        report::print_changes(context, planned.plan())?;
        context.out.flush()?;
    }
    let done = planned.execute(&store, &host, &progress)?;
    if done.ensure_of_use(&checkpoint).is_ok() {
        context.out.did(format!("checkpoint {} is restored to {}", checkpoint.id(), shown(&done.target)));
    }
    for safety in &done.safeties {
        context.out.did(Notice::SafetyMade(safety.clone()).to_string());
    }
    report::print(context, args, &checkpoint, &done, progress)?;
    Ok(if done.report.skipped.is_empty() { Code::Done } else { Code::Partly })
}

/// Patterns as text, in which bytes of no text are written as paths show them.
fn patterns(typed: &[OsString]) -> Vec<String> {
    typed.iter().map(|pattern| name::lossless(pattern.as_bytes()).into_owned()).collect()
}

/// The error where no folder is given, with what may have been meant. A path alone can only be restored to a folder.
fn without_target(context: &Context, store: &Store, place: &Selector) -> Failure {
    let found = match context.find(store, &place.checkpoint) {
        Ok(found) => found,
        Err(failure) => return failure,
    };
    let (id, session) = (found.id(), &found.record.session);
    let mut text = format!("cannot restore checkpoint {id}: no folder is given; give --to DIR");
    // An agent does what it reads, and the folder is a person's as well.
    if place.path.is_none() && !caller::is_agents() {
        text.push_str(&format!(
            "\n`parhelia checkpoint rollback {id}` puts the folder of session {session} back to it; --dry-run shows what would change"
        ));
        let known = store.view().session(session).ok().flatten();
        if known.as_ref().is_some_and(has_agent) {
            text.push_str(&format!("\n`parhelia session resume {session} --from {id}` has its agent go on from it"));
        }
    }
    Failure::Usage(text)
}

fn shown(path: &Path) -> String {
    human::path(path.as_os_str().as_bytes())
}

/// Fails where a whole workspace would go into a folder of its own: who says `latest` there means that folder.
fn ensure_whole(selector: &str, checkpoint: &Checkpoint, to: &Path) -> Result<()> {
    let workspace = name::as_path(&name::parse(&checkpoint.record.workspace.path)).to_owned();
    let (Ok(folder), Ok(workspace)) = (to.canonicalize(), workspace.canonicalize()) else { return Ok(()) };
    match folder.strip_prefix(&workspace) {
        Ok(inside) if !inside.as_os_str().is_empty() => Err(Failure::Refused(format!(
            "'{selector}' is of all of {}, and {} is a folder in it: give {} to restore that folder alone, or the checkpoint's id to \
             put everything there",
            shown(&workspace),
            shown(&folder),
            human::shell(&[selector.as_bytes(), b":", inside.as_os_str().as_bytes()].concat())
        ))),
        _ => Ok(()),
    }
}
