//! `checkpoint rollback` and `checkpoint undo`: a session's files and conversation as they were at a checkpoint, and back again.

use std::{io::IsTerminal, os::unix::ffi::OsStrExt, time::Duration};

use parhelia_session::{
    rollback::{self, Done, Last, Look, Spoken, Stash, Turn, Wanted},
    run,
};
use parhelia_store::{
    Store,
    fold::{Goal, Session, Status},
    record::Checkpoint,
    restore::{Change, Why},
    selector::sessions_at,
};
use serde_json::json;

use super::{changed::workspace_of, overwrite, spared};
use crate::{
    ask, complete,
    context::{Context, current_folder},
    env,
    exit::{Code, Failure, Result},
    human,
    output::Style,
    session::{
        agent::{actor, config_of, has_agent, leftovers, other_folder, stranger_in_newest, variable},
        stop::end_agent,
    },
};

/// Flags of both.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct How {
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Only say what would be done
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Also fill a workspace that is empty because its disk is not mounted, or because it was moved
    #[arg(long)]
    pub recreate_workspace: bool,
    /// Leave the conversation where it is
    #[arg(long)]
    pub files_only: bool,
    /// End a live agent first
    #[arg(long, conflicts_with = "files_only")]
    pub stop: bool,
    /// Also in the middle of a merge or rebase, on another branch than the checkpoint's, and where git cannot be asked
    #[arg(long)]
    pub any_git_state: bool,
    /// Also while another machine or container may still have the session
    #[arg(long)]
    pub take_over: bool,
    /// The session is resumed from there at once.
    #[arg(skip)]
    pub resumes: bool,
}

/// Flags of `checkpoint rollback`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The checkpoint to go back to
    #[arg(add = complete::checkpoints())]
    checkpoint: String,
    #[command(flatten)]
    how: How,
}

/// Flags of `checkpoint undo`.
#[derive(Debug, clap::Args)]
pub struct UndoArgs {
    /// The session whose last rollback is undone, by id or name [default: the one of this folder that was rolled back last]
    #[arg(add = complete::sessions())]
    session: Option<String>,
    #[command(flatten)]
    how: How,
}

/// How long an agent may take to end, before and after it is forced.
const PATIENCE: Duration = Duration::from_secs(5);
/// So many paths are named without -v.
const NAMED_MAX: usize = 20;

/// Rolls back.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let (target, _pin) = context.pin(&store, &context.find_to_overwrite(&store, &args.checkpoint, None)?, "rollback")?;
    let rolled = roll(context, &store, &target, &args.how)?;
    said(context, &target, rolled)
}

/// What was not done is said, too.
fn said(context: &mut Context, target: &Checkpoint, rolled: Rolled) -> Result<Code> {
    if rolled == Rolled::Refused {
        context.out.remark("Nothing was changed.")?;
        context.out.summary(json!({ "target": target.id(), "changed": false }))?;
    }
    Ok(match rolled {
        Rolled::Done { spares: true } | Rolled::Shown { spares: true } => Code::Partly,
        _ => Code::Done,
    })
}

/// Undoes the last rollback.
pub fn undo(context: &mut Context, args: &UndoArgs) -> Result<Code> {
    let store = context.open()?;
    let session = match &args.session {
        Some(name) => store.view().session_named(name)?,
        None => last_rolled_back(&store)?,
    };
    let none = || Failure::Refused(format!("session {} was not rolled back", session.id));
    if rollback::last(&session).is_none() && rollback::open(&session).is_none() {
        return Err(none());
    }
    let id = session.id.clone();
    // One that was interrupted is finished first, and is then the one that is undone.
    let turn = begin(context, &store, &id, &args.how, ("undo", &format!("checkpoint undo {id} --dry-run")))?;
    let session = store.refresh()?.session(&id)?;
    if let Some(intent) = session.as_ref().and_then(rollback::open).filter(|_| !args.how.dry_run) {
        return Err(Failure::Refused(format!(
            "a rollback of session {id} to {} was interrupted, and is not finished while an agent has its conversation open or works in its \
             folder; end that first",
            intent.target
        )));
    }
    let last = session.as_ref().and_then(rollback::last).ok_or_else(none)?;
    let (target, _pin) = context.pinned(&store, &last.safety.to_string(), "undo")?;
    if let Some(newer) = overwrite::restored_since(&store, &id, target.sequence) {
        return Err(Failure::Refused(format!(
            "since session {id} was rolled back, a restore in place has changed its folder: `parhelia checkpoint restore {} --to . --in-place \
             --delete` takes that back, `parhelia checkpoint rollback {}` the rollback and all since",
            newer.id(),
            target.id()
        )));
    }
    let how = How { files_only: args.how.files_only || !last.with_conversation, ..args.how.clone() };
    let rolled = roll_in_turn(context, &store, turn.as_ref(), &target, Some(&last), &how)?;
    said(context, &target, rolled)
}

/// The session of the current folder that was rolled back last.
fn last_rolled_back(store: &Store) -> Result<Session> {
    let view = store.view();
    let folder = current_folder();
    let here = folder.as_ref().map(|folder| sessions_at(&view, folder)).transpose()?.unwrap_or_default();
    if let Some(session) = rollback::last_rolled_back(store, here)? {
        return Ok(session);
    }
    let here = folder.map_or_else(|| "this folder".into(), |folder| human::path(folder.as_os_str().as_bytes()));
    Err(Failure::Refused(match rollback::last_rolled_back(store, view.sessions()?)? {
        None => "no session was rolled back".into(),
        Some(other) => {
            let place = other.workspace.as_ref().map(|place| format!(" in {}", place.path)).unwrap_or_default();
            format!(
                "no session of {here} was rolled back; the last one that was is session {id}{place}: `parhelia checkpoint undo {id}` undoes that",
                id = other.id
            )
        }
    }))
}

/// What became of a rollback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rolled {
    /// It was done.
    Done {
        /// True if something was left as it is that could not be read.
        spares: bool,
    },
    /// It was only shown.
    Shown {
        /// True if something would be left as it is that cannot be read.
        spares: bool,
    },
    /// The user did not want it.
    Refused,
}

/// Looks, asks, and does it.
fn roll(context: &mut Context, store: &Store, target: &Checkpoint, how: &How) -> Result<Rolled> {
    let (id, session) = (target.id(), &target.record.session);
    if store.view().session(session)?.is_some_and(|known| known.workspace.is_none()) {
        return Err(Failure::Refused(format!(
            "session {session} has no folder that could be rolled back; `parhelia checkpoint restore {id} --to DIR` takes the checkpoint out"
        )));
    }
    let shows = format!("checkpoint rollback {} --dry-run", target.id());
    let turn = begin(context, store, &target.record.session, how, ("roll back", &shows))?;
    roll_in_turn(context, store, turn.as_ref(), target, None, how)
}

/// Fails where there is nobody to be asked.
pub fn is_askable(verb: &str, command: &str) -> Result<()> {
    match std::io::stdin().is_terminal() {
        true => Ok(()),
        false => {
            Err(Failure::Usage(format!("give --yes to {verb} without being asked; `parhelia {command}` shows what would happen")))
        }
    }
}

/// Waits for the session's turn. An earlier rollback that was interrupted is finished, unless this is only about showing something.
fn begin(context: &Context, store: &Store, session: &str, how: &How, (verb, command): (&str, &str)) -> Result<Option<Turn>> {
    if !how.yes && !how.dry_run {
        is_askable(verb, command)?;
    }
    let turn = match rollback::held(store, session, &context.progress()) {
        // Whoever may not write to the store may look all the same.
        Err(parhelia_session::Error::Io { .. }) if how.dry_run => None,
        turn => Some(turn?),
    };
    if !how.dry_run {
        finish_earlier(context, store, session)?;
    } else if let Some(intent) = store.refresh()?.session(session)?.as_ref().and_then(rollback::open) {
        tell!("parhelia: a rollback to {} was interrupted, and would be finished first", intent.target);
    }
    Ok(turn)
}

/// Looks, asks, and does it, where nothing earlier is left to be finished.
pub fn roll_in_turn(
    context: &mut Context,
    store: &Store,
    _turn: Option<&Turn>,
    target: &Checkpoint,
    undone: Option<&Last>,
    how: &How,
) -> Result<Rolled> {
    let workspace = workspace_of(store, target)?;
    let settings = context.config(&workspace)?;
    let session = store.view().session(&target.record.session)?;
    let config = session.as_ref().map(|session| config_of(store, session)).transpose()?.flatten();
    // As it is before an agent is stopped.
    let environment = session.map(|session| env::request_for_safety(context, store, &workspace, &session)).transpose()?.flatten();
    let wanted = Wanted {
        target,
        files_only: how.files_only,
        any_git_state: how.any_git_state,
        take_over: how.take_over,
        stop: how.stop,
        dry_run: how.dry_run,
        recreate: how.recreate_workspace,
        config: config.as_ref().map(|config| config.path.clone()),
        environment,
        settings: &settings,
        variable: &variable,
    };
    let mut look = rollback::look(store, &wanted)?;
    // Before somebody is asked, or an agent is ended, it must be known what would come of it. Else what is done looks for itself.
    if how.dry_run || !how.yes || look.stops.is_some() {
        let progress = context.progress();
        rollback::whole(store, target, None, &progress)?;
    }
    look.notices.extend(config.as_ref().filter(|_| look.conversation.is_some()).and_then(other_folder));
    for notice in &look.notices {
        tell!("parhelia: {notice}");
    }
    if how.dry_run {
        let (changes, spared) = changes(context, store, &look, &wanted)?;
        dry_run(context, store, target, &look, &changes, &spared)?;
        return Ok(Rolled::Shown { spares: !spared.is_empty() });
    }
    if !how.yes {
        if !is_agreed(context, store, &look, &wanted)? {
            return Ok(Rolled::Refused);
        }
        // An agent may have been started while the question stood there.
        store.refresh()?;
        look = rollback::look(store, &wanted)?;
    }
    if let Some(run) = &look.stops {
        // Who was asked has seen it planned.
        if how.yes {
            rollback::foresee(store, &look, &wanted, &context.progress())?;
        }
        end_agent(store, &look.session, run, PATIENCE, (rollback::STOPPED, Some(Goal::Paused)), || Ok(()))?;
    }
    end_leftovers(store, &look)?;
    let progress = context.progress();
    let done = rollback::execute(store, &look, &wanted, undone, &actor(), &progress)?;
    drop(progress);
    let spared = spared::by(store, done.safety, target);
    report(context, store, &look, &done, spared.as_deref().unwrap_or_default(), how)?;
    let is_whole = spared?.is_empty() && !done.report.skipped.iter().any(|skipped| skipped.why == Why::Changed);
    Ok(Rolled::Done { spares: !is_whole })
}

/// Changes with their paths.
type Changes = Vec<(Change, Vec<u8>)>;

/// The changes that would be made, and the paths that would be left as they are for want of reading them.
fn changes(context: &Context, store: &Store, look: &Look, wanted: &Wanted<'_>) -> Result<(Changes, Vec<Vec<u8>>)> {
    let progress = context.progress();
    let (plan, omitted) = rollback::foresee(store, look, wanted, &progress)?;
    let mut changes = Vec::new();
    plan.each_change(&mut |change, path| changes.push((change, path.to_vec())))?;
    Ok((changes, spared::of(store, omitted, wanted.target)?))
}

/// What became of an earlier rollback is said whatever else is not.
pub fn told(text: &str) {
    tell!("parhelia: {text}");
}

/// A rollback that a dead process has begun is finished first.
pub fn finish_earlier(context: &Context, store: &Store, session: &str) -> Result<()> {
    let Some(session) = store.refresh()?.session(session)? else { return Ok(()) };
    Ok(rollback::finish(store, &session, &actor(), &told, &context.progress())?)
}

/// Processes that a dead run has left behind would go on changing what is restored.
fn end_leftovers(store: &Store, look: &Look) -> Result<()> {
    let stopped = run::stop_leftovers(store, &look.session, &look.workspace, PATIENCE)?;
    for notice in leftovers(&stopped) {
        tell!("parhelia: {notice}");
    }
    Ok(())
}

fn mark(change: Change) -> (char, &'static str, Style) {
    match change {
        Change::Create => ('A', "made again", Style::Green),
        Change::Replace => ('M', "restored", Style::Yellow),
        Change::Metadata => ('m', "metadata restored", Style::Dim),
        Change::Link => ('L', "joined again", Style::Cyan),
        Change::Delete => ('D', "removed; the safety checkpoint has it", Style::Red),
        Change::Keep => ('K', "kept", Style::Dim),
    }
}

fn print_changes(context: &mut Context, changes: &[(Change, Vec<u8>)]) -> Result<()> {
    let most = if context.global.verbose { usize::MAX } else { NAMED_MAX };
    for (change, path) in changes {
        let path = if path.is_empty() { ".".to_owned() } else { human::path(path) };
        context.out.object("change", json!({ "path": path, "change": change }))?;
    }
    for (change, path) in changes.iter().take(most) {
        let (letter, what, style) = mark(*change);
        let path = if path.is_empty() { ".".to_owned() } else { human::path(path) };
        let letter = context.out.styled(style, letter);
        context.out.line(format!("  {letter} {path} ({what})"))?;
    }
    if changes.len() > most {
        context.out.line(format!("  and {} more; -v names them", changes.len() - most))?;
    }
    Ok(())
}

/// What becomes of files and conversation.
fn print_all(context: &mut Context, spoken: Option<&Spoken>, changes: &[(Change, Vec<u8>)], spared: &[Vec<u8>]) -> Result<()> {
    print_changes(context, changes)?;
    spared::tell(spared, "would be left as it is");
    if changes.is_empty() && spared.is_empty() {
        context.out.line("  the files are as they are in the checkpoint")?;
    }
    match spoken {
        Some(spoken) => context.out.line(format!("  the conversation {}", spoken.text())),
        None => Ok(()),
    }
}

fn dry_run(
    context: &mut Context,
    store: &Store,
    target: &Checkpoint,
    look: &Look,
    changes: &[(Change, Vec<u8>)],
    spared: &[Vec<u8>],
) -> Result<()> {
    let spoken = look.spoken(store, target)?;
    print_all(context, spoken.as_ref(), changes, spared)?;
    let what = if look.conversation.is_some() { "files and conversation" } else { "files" };
    context.out.remark(format!("Would put {what} of {} back to {}.", look.shown(), target.id()))?;
    context.out.summary(json!({
        "target": target.id(),
        "dry_run": true,
        "session": look.session.id,
        "changes": changes.len(),
        "with_conversation": look.conversation.is_some(),
        "conversation": spoken,
        "notices": look.notices,
        "spared": shown(spared),
    }))
}

fn is_agreed(context: &mut Context, store: &Store, look: &Look, wanted: &Wanted<'_>) -> Result<bool> {
    let ((changes, spared), target) = (changes(context, store, look, wanted)?, wanted.target);
    print_all(context, look.spoken(store, target)?.as_ref(), &changes, &spared)?;
    context.out.flush()?;
    ask::is_agreed(context, &format!("Put {} back to {}? A safety checkpoint is made first.", look.shown(), target.id()))
}

fn shown(paths: &[Vec<u8>]) -> Vec<String> {
    paths.iter().map(|path| human::path(path)).collect()
}

fn report(context: &mut Context, store: &Store, look: &Look, done: &Done, spared: &[Vec<u8>], how: &How) -> Result<()> {
    context.out.did(format!(
        "{} is rolled back to checkpoint {}; safety checkpoint {} is made",
        look.shown(),
        done.target,
        done.safety
    ));
    context.out.remark(format!("Rolled back {} to checkpoint {}.", look.shown(), done.target))?;
    print_changes(context, &done.changes)?;
    spared::tell(spared, "left as it is");
    context.out.remark(format!(
        "Safety checkpoint: {} (`parhelia checkpoint undo {}` goes back to it).",
        done.safety, look.session.id
    ))?;
    let stash = match &done.stash {
        Stash::Made(commit) => {
            context.out.remark(format!(
                "Stashed changes of tracked files: stash@{{0}} ({}). Untracked files are in the safety checkpoint alone.",
                &commit[..commit.len().min(12)]
            ))?;
            json!({ "commit": commit, "ref": "stash@{0}" })
        }
        Stash::Nothing => json!(null),
        Stash::Not(reason) => {
            tell!("parhelia: no stash entry was made ({reason}); the safety checkpoint has everything");
            json!({ "error": reason })
        }
    };
    if done.with_conversation {
        context.out.remark("The conversation is at the checkpoint's position.")?;
    }
    for path in done.moved.iter().take(NAMED_MAX) {
        context.out.remark(format!("Kept aside of the conversation: {}", path.display()))?;
    }
    if done.moved.len() > NAMED_MAX {
        context.out.remark(format!("Kept aside of the conversation: {} more", done.moved.len() - NAMED_MAX))?;
    }
    let can_go_on = !how.resumes && look.session.status != Status::Ended && has_agent(&look.session);
    let next = can_go_on.then(|| format!("parhelia session resume {}", look.session.id));
    // An agent that was started by hand may live beside files that went back alone.
    let stranger = next.as_ref().map(|_| stranger_in_newest(store, &look.session)).transpose()?.flatten();
    match (&next, &stranger) {
        (Some(next), None) => context.out.remark(format!("To go on from here: {next}"))?,
        (Some(next), Some(open)) => {
            context.out.remark(format!("To go on from here: end what has it open, then {next} ({open})"))?
        }
        (None, _) => {}
    }
    context.out.summary(json!({
        "target": done.target.to_string(),
        "safety": done.safety.to_string(),
        "session": look.session.id,
        "stash": stash,
        "changes": done.changes.len(),
        "files": done.report.counts.files,
        "deleted": done.report.counts.deleted,
        "with_conversation": done.with_conversation,
        "moved": done.moved.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
        "changed": true,
        "spared": shown(spared),
        "next": next,
        "open_in": stranger,
    }))
}
