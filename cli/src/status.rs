//! `status`: the sessions of this folder, its last checkpoint, and the changes since.

use std::{
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use parhelia_host::run::has_agent;
use parhelia_ledger::{
    LedgerView as _, Session, Status,
    selector::{find_among, workspace_at},
};
use parhelia_life::{
    checked,
    overview::Overview,
    workspace::{position, worktrees},
};
use parhelia_screen::human;
use parhelia_store::{Error, Store, check, clock, diff::Summary, healed, omitted::Omission, record::Checkpoint};
use parhelia_wire::{self as wire, Line};

use crate::{
    changed,
    checkpoint::marks,
    context::Context,
    elsewhere,
    exit::{Code, Result},
    output::Style,
    remote,
    session::list::{state, warnings},
    workspace::workspace,
};

/// Flags of `status`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,
    /// Read every file, also those whose times say that they did not change
    #[arg(long)]
    thorough: bool,
}

/// A session that an agent works in, and how it is.
struct SessionStatus {
    session: Session,
    overview: Overview,
}

/// Prints it.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let folder = workspace(&args.workspace)?;
    let (store, _empty) = context.open_or_empty()?;
    let view = store.view();
    let (at, sessions) = workspace_at(&view, &folder)?.unwrap_or_else(|| (folder, Vec::new()));
    let seen =
        sessions.iter().map(|session| Ok(SessionStatus { session: session.clone(), overview: Overview::of(&store, session)? }));
    let seen = seen.collect::<Result<Vec<_>>>()?;
    // Those that are over say nothing about the folder as it is.
    let open: Vec<&SessionStatus> =
        seen.iter().filter(|one| one.session.status != Status::Ended && has_agent(&one.session)).collect();
    let last = match find_among(&view, "latest", &sessions) {
        _ if sessions.is_empty() => None,
        Err(Error::NoCheckpoint { .. }) => None,
        found => Some(found?),
    };
    let newest = last.as_ref().map(|last| last.record.id);
    let last = last.map(|last| position::of_folder(&store, &sessions, last)).transpose()?;
    let newer = newest.filter(|newest| last.as_ref().is_some_and(|last| last.record.id != *newest));
    let shown = human::path(at.as_os_str().as_bytes());
    for one in &open {
        if context.out.json {
            let checkpoints = view.newest_first_of(&one.session.id)?.count() as u64;
            let shown = wire::session::Session::of(&one.session, &one.overview, checkpoints);
            context.out.object(Line::Session(Box::new(shown)))?;
        }
        let (id, state) = (human::path(one.session.id.as_bytes()), state(&one.session, &one.overview));
        let why = one.overview.why.as_ref().map(|why| format!(" ({})", human::path(why.as_bytes()))).unwrap_or_default();
        context.out.paragraph(format!("Session {id}: {state}{why}"), 2)?;
    }
    let since = open.iter().map(|one| one.session.created_at).min();
    let outside = since.map(|since| worktrees::outside(&at, since.into())).unwrap_or_default();
    for place in &outside.folders {
        let shown = human::path(place.as_os_str().as_bytes());
        let kept = elsewhere::kept_text(&view, place)?.unwrap_or_else(|| "and is in no checkpoint".to_owned());
        context.out.paragraph(format!("The working tree {shown} of the same repository was made since, {kept}."), 2)?;
    }
    if outside.is_cut {
        context.out.paragraph("The repository has more working trees, which were not looked at.", 2)?;
    }
    let sessions_open = open.iter().map(|one| &one.session);
    for text in elsewhere::worked_in_texts(&view, sessions_open, &outside.folders)? {
        context.out.paragraph(text, 2)?;
    }
    let (summary, unread) = match &last {
        None => {
            context.out.paragraph(format!("{shown} has no checkpoint yet; `parhelia checkpoint create` makes one."), 2)?;
            (None, Vec::new())
        }
        Some(last) => {
            let id = context.out.styled(Style::Bold, last.id());
            match newer {
                None => context.out.paragraph(format!("Last checkpoint of {shown}: {id}, {}", made(last)), 2)?,
                Some(newer) => {
                    let text = format!("{shown} went back to {id}, {}; the newer checkpoint {newer} was left", made(last));
                    context.out.paragraph(text, 2)?;
                }
            }
            for (label, text) in marks::at_a_glance(&view.marks(last.record.id)?) {
                context.out.paragraph(format!("  {label}: {text}"), 4)?;
            }
            changes(context, &store, last, &at, args.thorough)?
        }
    };
    let checked = checked::last(&store);
    let read = checked.as_ref().filter(|last| last.read_data());
    let mut told: Vec<String> = checked.iter().filter_map(checked::warning).collect();
    if told.is_empty() && check::has_new_damage(store.layout()) {
        told.push("the store holds damage that was found when it was read; run `parhelia check`".into());
    }
    for one in &seen {
        told.extend(warnings(&one.session, &one.overview));
    }
    told.extend(damage(&store));
    told.extend(remote::status::warning(&store));
    for text in &told {
        tell!("parhelia: {text}");
    }
    let shown_last =
        |last: &Checkpoint| -> Result<_> { Ok(wire::checkpoint::Checkpoint::of(&last.into(), &view.marks(last.record.id)?)) };
    context.out.summary(wire::Summary::Status(Box::new(wire::summary::Status {
        workspace: shown,
        sessions: sessions.iter().map(|session| session.id.clone()).collect(),
        checkpoint: last.as_ref().map(shown_last).transpose()?,
        newer: newer.map(|newer| newer.to_string()),
        warnings: told,
        checked: read.map(Into::into),
        compared: summary.is_some(),
        changes: summary.unwrap_or_default(),
    })))?;
    Ok(if unread.is_empty() { Code::Done } else { Code::Partly })
}

/// Damage that parity has made up for so far.
fn damage(store: &Store) -> Option<String> {
    let packs = healed::list(store.layout()).len() as u64;
    let packs = (packs > 0).then(|| human::count(packs, "damaged pack"))?;
    Some(format!("{packs} of the store: what was read of it is whole by its parity. `parhelia check --repair` writes it anew."))
}

/// The time and the reason of a checkpoint.
fn made(last: &Checkpoint) -> String {
    let (trigger, ago) = (last.record.trigger.name(), human::ago(last.record.created_at, clock::timestamp()));
    let message = last.record.message.as_deref().and_then(|message| message.lines().next()).map(|line| format!(": {line}"));
    human::path(format!("{ago} ({trigger}){}", message.unwrap_or_default()).as_bytes())
}

/// Prints the changes since a checkpoint; none where the folder cannot be compared with it. Returns also the entries that could not be read.
fn changes(
    context: &mut Context,
    store: &Store,
    last: &Checkpoint,
    folder: &Path,
    thorough: bool,
) -> Result<(Option<Summary>, Vec<Omission>)> {
    if last.record.rules.listed_only {
        context.out.paragraph("It holds listed paths alone, so that the folder is not compared with it.", 2)?;
        return Ok((None, Vec::new()));
    }
    let (last, _pin) = context.pin(store, last, "status")?;
    let progress = context.progress();
    let live = changed::since(store, &last, folder.to_owned(), thorough, &progress)?;
    drop(progress);
    let summary = Summary::of(&live.changes);
    let unread = changed::unread(live.omissions);
    match (live.changes.is_empty(), unread.is_empty()) {
        (true, true) => context.out.line("Nothing has changed since.")?,
        (true, false) => context.out.line("Nothing that could be read has changed since.")?,
        _ => context.out.paragraph(format!("Changed since: {}", changed::counts_text(&summary)), 2)?,
    }
    changed::print(context, &live.changes)?;
    changed::tell_unread(context, &unread)?;
    Ok((Some(summary), unread))
}
