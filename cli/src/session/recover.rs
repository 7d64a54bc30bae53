//! `session recover`: finds out what is the matter with a session, and offers what can be done about it.

use std::io::IsTerminal;

use parhelia_host::{Host, Refusal, run::Life};
use parhelia_ledger::{Goal, LedgerView as _, Session, Status};
use parhelia_life::{
    overview::{self, Overview, observed::AgentState},
    resume::{self, Diagnosis, Fate, Foreseen, left_alone as left_aside},
};
use parhelia_screen::human;
use parhelia_store::{Store, clock, id::Ulid, record::Checkpoint};
use parhelia_wire::{
    Line, Summary,
    session::{PassedOver, Recovery},
};

use super::{
    list::unsupervised_text,
    pause::{self, EndArgs},
    resume::{
        self as resume_verb,
        all::{tell_elsewhere, tell_unknown},
    },
};
use crate::{
    ask::ask,
    complete,
    context::Context,
    exit::{Code, Failure, Result},
    words,
};

/// The number of checkpoints that are shown to choose from.
const SHOWN: usize = 9;

/// Flags of `session recover`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The session, by id or name [default: the one whose agent died last]
    #[arg(add = complete::sessions())]
    session: Option<String>,
    /// Go on from this checkpoint instead of the newest one that may be resumed
    #[arg(long, value_name = "CHECKPOINT", conflicts_with = "end", add = complete::checkpoints())]
    from: Option<String>,
    /// Resume it without asking
    #[arg(short, long, conflicts_with = "end")]
    yes: bool,
    /// End it for good
    #[arg(long)]
    end: bool,
}

/// Says how it is, and does what is chosen.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let session = match &args.session {
        Some(name) => store.view().session_named(name)?,
        None => dead(&store, &context.host()?)?,
    };
    let mut from = args.from.as_ref().map(|text| resume::chosen(&store, &session, text)).transpose()?;
    let host = context.host()?;
    let found = Diagnosis::of(&store, &host, session, from)?;
    describe(context, &found)?;
    let Diagnosis { session, fate, .. } = found;
    if args.end {
        return pause::end(context, &EndArgs::of(session.id));
    }
    match fate {
        None => return left_alone(context, session.id),
        Some(Foreseen::Refused(why)) => return Err(why.into()),
        Some(_) => {}
    }
    if !args.yes {
        if !std::io::stdin().is_terminal() {
            return Err(Failure::Usage("give --yes to resume it, or --end to end it".into()));
        }
        match ask(context, "[r]esume, resume from an earlier [c]heckpoint, [e]nd for good, or leave it as it is? ")?.as_str() {
            "r" | "resume" => {}
            "c" | "checkpoint" => match choose_earlier(context, &store, &session)? {
                Some(chosen) => from = Some(chosen),
                None => return left_alone(context, session.id),
            },
            "e" | "end" => return pause::end(context, &EndArgs::of(session.id)),
            _ => return left_alone(context, session.id),
        }
    }
    drop(store);
    let resumed = match from {
        Some(from) => resume_verb::Args::from_checkpoint(session.id, from.to_string(), args.yes),
        // It was chosen just now.
        None => resume_verb::Args::of(session.id).agreed(),
    };
    resume_verb::run(context, &resumed)
}

/// The end where the session stays as it is.
fn left_alone(context: &mut Context, session: String) -> Result<Code> {
    context.out.summary(Summary::SessionRecover { id: session })?;
    Ok(Code::Done)
}

/// Lets the user choose among the newest checkpoints. `None` where none is wanted.
fn choose_earlier(context: &mut Context, store: &Store, session: &Session) -> Result<Option<Ulid>> {
    let found = resume::candidates(store, session, SHOWN)?;
    let now = clock::timestamp();
    for (number, checkpoint) in (1..).zip(&found) {
        let record = &checkpoint.record;
        let message = record.message.as_deref().and_then(|message| message.lines().next()).unwrap_or_default();
        let (made, why) = (human::ago(record.created_at, now), record.trigger.name());
        context.out.line(format!("{number}  {}  {made}  {why}  {}", checkpoint.id(), human::path(message.as_bytes())))?;
    }
    context.out.flush()?;
    let answer = ask(context, "Number or id of a checkpoint, or nothing to leave it as it is: ")?;
    match answer.parse::<usize>() {
        _ if answer.is_empty() => Ok(None),
        Ok(number) => match found.get(number.wrapping_sub(1)) {
            Some(checkpoint) => Ok(Some(checkpoint.record.id)),
            None => Err(Failure::Usage(format!("{number} is none of the numbers above"))),
        },
        Err(_) => Ok(Some(resume::chosen(store, session, &answer)?)),
    }
}

/// The session that changed last among those whose agent is dead though nobody set them aside.
fn dead(store: &Store, host: &dyn Host) -> Result<Session> {
    let overview::Shortfall { dead: found, unknown, elsewhere, unsupervised, .. } = overview::missing(store)?;
    for (session, why) in &unknown {
        tell_unknown(&session.id, why);
    }
    for (session, host, until) in &elsewhere {
        tell_elsewhere(session, host, *until);
    }
    for (session, found) in &unsupervised {
        tell!("parhelia: {}", unsupervised_text(session, found));
    }
    if let [_, others @ ..] = &found[..]
        && !others.is_empty()
    {
        let left = left_aside(store, host, others)?;
        let each = "`parhelia session recover SESSION` says more of one";
        let hint = match left.len() {
            0 => "`parhelia session resume --all` resumes all of them in tmux".to_owned(),
            number if number == others.len() => each.to_owned(),
            _ => format!("`parhelia session resume --all` resumes them in tmux, but for {}; {each}", left.join(", ")),
        };
        let all: Vec<&str> = others.iter().map(|session| session.id.as_str()).collect();
        tell!("parhelia: also dead: {}; {hint}", all.join(", "));
    }
    found.into_iter().next().ok_or_else(|| Refusal::NothingToRecover.into())
}

/// The effect that resuming would have on a workspace, in words.
fn fate_text(fate: &Foreseen, is_there: bool) -> &'static str {
    match fate {
        Foreseen::Fate(Fate::Keep) => "there; it is kept as it is",
        Foreseen::Fate(Fate::Restore) if is_there => "empty; it is restored",
        Foreseen::Fate(Fate::Restore) => "gone; it is restored",
        Foreseen::Fate(Fate::Copy) => "gone; it is copied from its agent folder again",
        Foreseen::Fate(Fate::RestoreGit) => "there, without a usable .git; that is restored, and the rest is kept as it is",
        Foreseen::PutBack => "there; it is put back to the checkpoint",
        Foreseen::Refused(_) if is_there => "there; the session cannot be resumed as it is",
        Foreseen::Refused(_) => "not there; the session cannot be resumed as it is",
    }
}

fn agent_text(session: &Session, life: &Life, overview: &Overview) -> String {
    match life {
        Life::Agent(process) => format!("its agent is alive (process {})", process.process),
        Life::Starting(_) => "its agent is being started".into(),
        Life::Elsewhere { host, until } => format!(
            "its agent is taken for alive on {host} until {until}; `parhelia session show {id}` says more; if that is over, \
             `parhelia session resume {id} --take-over` does not wait for it",
            id = session.id
        ),
        Life::Over if session.run.is_none() => "no agent was started in it".into(),
        Life::Over if overview.observed == AgentState::Unknown => {
            let why = overview.why.as_ref().map(|why| format!(" ({})", human::path(why.as_bytes()))).unwrap_or_default();
            format!("whether its agent lives is not known{why}")
        }
        Life::Over => {
            let why = overview.why.as_ref().filter(|_| session.status != Status::Ended);
            format!("its agent is dead{}", why.map(|why| format!(" ({})", human::path(why.as_bytes()))).unwrap_or_default())
        }
    }
}

fn from_text(from: Option<&Checkpoint>, goes_on: bool, has_ended: bool) -> String {
    let Some(checkpoint) = from else {
        return match has_ended {
            true => "It has ended, for good; `parhelia session run` begins another.".into(),
            false => "It has no checkpoint to go on from.".into(),
        };
    };
    let (id, age) = (checkpoint.id(), human::ago(checkpoint.record.created_at, clock::timestamp()));
    match goes_on {
        true => format!("It goes on from checkpoint {id} ({age})."),
        false => format!("Its last checkpoint to go on from is {id} ({age})."),
    }
}

fn describe(context: &mut Context, found: &Diagnosis) -> Result<()> {
    let Diagnosis { session, is_there, life, overview, choice, fate } = found;
    let agent = agent_text(session, life, overview);
    let (is_there, has_ended) = (*is_there, found.has_ended());
    let workspace = session.workspace.as_ref().map(|place| place.path.clone()).unwrap_or_default();
    let from = choice.checkpoint.as_ref().filter(|_| !has_ended);
    let wanted = match (&session.run, session.goal()) {
        (Some(_), Goal::Running) => "wanted running",
        _ => session.status.name(),
    };
    context.out.line(format!("Session {} ({wanted}): {agent}.", session.id))?;
    if let Some(found) = &overview.unsupervised {
        tell!("parhelia: {}", unsupervised_text(session, found));
    }
    let interrupted = overview.interrupted_rollback;
    let state = match fate {
        Some(_) if found.is_half_rolled_back() => "there",
        Some(fate) => fate_text(fate, is_there),
        None if is_there => "there",
        None => "gone",
    };
    let refused = match fate {
        Some(Foreseen::Refused(why)) => Some(words::error(why)),
        _ => None,
    };
    context.out.line(format!("Workspace {}: {state}.", human::path(workspace.as_bytes())))?;
    for (id, why) in choice.skipped.iter().filter(|_| !has_ended) {
        context.out.line(format!("Checkpoint {id} is passed over: it {why}."))?;
    }
    context.out.line(from_text(from, !life.is_alive() && refused.is_none(), has_ended))?;
    if let Some(target) = interrupted {
        let first =
            if has_ended { "files of two states are there" } else { "it is finished first, where nobody has worked on since" };
        context.out.line(format!("A rollback to {target} was interrupted; {first}."))?;
    }
    let skipped = choice.skipped.iter().map(|(id, why)| PassedOver { id: id.to_string(), reason: why.clone() });
    context.out.object(Line::Recovery(Box::new(Recovery {
        session: session.id.clone(),
        status: session.status,
        wanted: session.run.as_ref().map(|_| session.goal()),
        alive: life.is_alive(),
        unsupervised: overview.unsupervised.clone(),
        why: overview.why.clone(),
        workspace,
        workspace_exists: is_there,
        workspace_fate: fate.as_ref().map(|fate| fate.name().into()),
        refused,
        from: from.map(|checkpoint| checkpoint.id()),
        skipped: skipped.collect(),
        interrupted_rollback: interrupted,
    })))?;
    context.out.flush()
}
