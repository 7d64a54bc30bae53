//! `session approve` and `session reject`: a person's decision about a checkpoint.

use parhelia_host::{Host, run::life_of};
use parhelia_ledger::{Approval, LedgerView as _, Place};
use parhelia_oversight::review::{
    annotation::Text,
    decide::{self, DecisionOutcome, DecisionRequest, Verdict},
};
use parhelia_screen::human;
use parhelia_store::{Store, id::Ulid};
use parhelia_wire::{Summary, summary::Decision};

use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
};

/// Flags of both.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The checkpoint
    #[arg(default_value = "latest", add = complete::checkpoints())]
    checkpoint: String,
    /// Why, for whoever looks at it later
    #[arg(short, long, value_name = "TEXT")]
    reason: Option<String>,
    /// Decide otherwise than somebody has before
    #[arg(long)]
    change: bool,
}

impl Args {
    /// Of one checkpoint.
    pub fn of(checkpoint: Ulid, reason: Option<String>) -> Self {
        Args { checkpoint: checkpoint.to_string(), reason, change: false }
    }
}

/// Approves a checkpoint by a person's decision.
pub fn approve(context: &mut Context, args: &Args) -> Result<Code> {
    run(context, args, Verdict::Approve)
}

/// Rejects a checkpoint, and names the ways on.
pub fn reject(context: &mut Context, args: &Args) -> Result<Code> {
    run(context, args, Verdict::Reject)
}

fn run(context: &mut Context, args: &Args, verdict: Verdict) -> Result<Code> {
    let reason = args.reason.as_ref().map(|text| Text::new(text)).transpose()?;
    let store = context.open()?;
    let checkpoint = context.find_id_to_mark(&store, &args.checkpoint)?;
    let host = context.host()?;
    let session = store.view().checkpoint(checkpoint)?.map(|found| found.record.session).unwrap_or_default();
    let place = store.view().session(&session)?.and_then(|session| session.workspace).map(|place| Place::folder(&place));
    let options = host.config(&place.unwrap_or_else(|| "/".into()))?.approval;
    let request = DecisionRequest { checkpoint, verdict, reason: reason.as_ref(), changes: args.change, options: &options };
    let decided = parhelia_knowledge::decide::decide(&store, &host, &request, &context.progress())?;
    let (previous, builds_on_it) = tell(context, &store, checkpoint, verdict, &decided)?;
    let decision = Decision {
        id: checkpoint.to_string(),
        session,
        approval: (&decided.approval).into(),
        before: decided.before.as_ref().map(Into::into),
        recorded: !decided.had,
        previous_approved: previous.map(|id| id.to_string()),
        builds_on_it,
    };
    context.out.summary(match verdict {
        Verdict::Approve => Summary::SessionApprove(decision),
        Verdict::Reject => Summary::SessionReject(decision),
    })?;
    Ok(Code::Done)
}

/// Prints a decision; of a rejection also the ways on. Returns the checkpoint from which they lead on, and the number of newer ones that build on
/// the rejected one.
pub fn tell(
    context: &mut Context,
    store: &Store,
    checkpoint: Ulid,
    verdict: Verdict,
    decided: &DecisionOutcome,
) -> Result<(Option<Ulid>, u64)> {
    let status = decided.approval.status.name();
    let session = store.view().checkpoint(checkpoint)?.map(|found| found.record.session).unwrap_or_default();
    context.out.did(format!("checkpoint {checkpoint} is {status}"));
    context.out.remark(match decided.had {
        true => format!("{checkpoint} was {status} before{}.", by(&decided.approval)),
        false => format!("Checkpoint {checkpoint} of session {} is {status}.", human::path(session.as_bytes())),
    })?;
    if verdict == Verdict::Approve {
        return Ok((None, 0));
    }
    let builds_on_it = decide::built_on(store, checkpoint)?;
    if builds_on_it > 0 {
        let newer = human::count(builds_on_it, "newer checkpoint");
        let verb = if builds_on_it == 1 { "builds on it, and waits" } else { "build on it, and wait" };
        context.out.remark(format!("{newer} of the session {verb} for a review now."))?;
    }
    if let Some(known) = store.view().session(&session)?
        && life_of(store, &known)?.is_alive()
    {
        let id = human::shell(session.as_bytes());
        context.out.remark(format!("Its agent is at work: `parhelia session stop {id}` ends it first."))?;
    }
    let previous = decide::approved_before(store, checkpoint)?.map(|(id, _)| id);
    ways_on(context, &session, previous)?;
    Ok((previous, builds_on_it))
}

/// The person who decided, and when.
fn by(approval: &Approval) -> String {
    let user = approval.who().map(|who| format!(" by {}", human::path(who.as_bytes()))).unwrap_or_default();
    format!("{user}, {}", human::local(approval.timestamp))
}

/// Ways on from a checkpoint that was rejected.
fn ways_on(context: &mut Context, session: &str, previous: Option<Ulid>) -> Result<()> {
    let session = human::shell(session.as_bytes());
    match previous {
        Some(id) => {
            context.out.remark(format!(
                "Go on from the last state that counts as good: `parhelia session resume {session} --from {id}`"
            ))?;
            context.out.remark(format!(
                "Begin anew from it: `parhelia checkpoint restore {id} --to DIR`, and `parhelia session run` there"
            ))?;
        }
        None => context.out.remark("No earlier checkpoint of the session counts as good.")?,
    }
    context.out.remark(format!("Abandon the session: `parhelia session end {session}`"))
}
