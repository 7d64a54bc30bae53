//! `session approve` and `session reject`: a person's decision about a checkpoint.

use parhelia_session::{
    host::Host,
    review::{
        annotation::Text,
        decide::{self, DecisionRequest, Verdict},
    },
};
use parhelia_store::{
    id::Ulid,
    projection::{Approval, Place},
};
use parhelia_wire::{Summary, summary::Decision};

use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
    human,
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

/// Approves a checkpoint.
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
    let checkpoint = context.find_id(&store, &args.checkpoint)?;
    let host = context.host()?;
    let session = store.view().checkpoint(checkpoint)?.map(|found| found.record.session).unwrap_or_default();
    let place = store.view().session(&session)?.and_then(|session| session.workspace).map(|place| Place::folder(&place));
    let options = host.config(&place.unwrap_or_else(|| "/".into()))?.approval;
    let request = DecisionRequest { checkpoint, verdict, reason: reason.as_ref(), changes: args.change, options: &options };
    let decided = decide::decide(&store, &host, &request, &context.progress())?;
    let status = decided.approval.status.name();
    context.out.did(format!("checkpoint {checkpoint} is {status}"));
    context.out.remark(match decided.had {
        true => format!("{checkpoint} was {status} before{}.", by(&decided.approval)),
        false => format!("Checkpoint {checkpoint} of session {} is {status}.", human::path(session.as_bytes())),
    })?;
    let previous = match verdict {
        Verdict::Approve => None,
        Verdict::Reject => decide::approved_before(&store, checkpoint)?.map(|(id, _)| id),
    };
    if verdict == Verdict::Reject {
        ways_on(context, &session, previous)?;
    }
    let decision = Decision {
        id: checkpoint.to_string(),
        session,
        approval: (&decided.approval).into(),
        before: decided.before.as_ref().map(Into::into),
        recorded: !decided.had,
        previous_approved: previous.map(|id| id.to_string()),
    };
    context.out.summary(match verdict {
        Verdict::Approve => Summary::SessionApprove(decision),
        Verdict::Reject => Summary::SessionReject(decision),
    })?;
    Ok(Code::Done)
}

/// The person who decided, and when.
fn by(approval: &Approval) -> String {
    let user = approval.user.as_ref().map(|user| format!(" by {}", human::path(user.as_bytes()))).unwrap_or_default();
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
