//! The decision of a policy about a checkpoint that was just made.

use parhelia_store::{
    Store,
    event::{Actor, NewEvent, kind},
    name,
    projection::{Approval, ApprovalStatus, Session},
    record::{Checkpoint, Trigger},
    view::View,
};

use super::policy::{self, Facts};
use crate::{changed::each_content, error::Result, run};

/// So many checkpoints behind a new one are asked for the last state that counts as good.
const ANCESTORS_MAX: usize = 1000;
/// The rule of a checkpoint in which secrets were found begins so.
const SECRETS: &str = "secrets found";

/// The events of a decision about a checkpoint of an agent's session in which so many secrets were found that ask for a person. They are none
/// where the session is not known. A person who has decided meanwhile is not overruled by them.
pub fn decision(store: &Store, made: &Checkpoint, options: &policy::Approval, secrets: u64) -> Result<Vec<NewEvent>> {
    let view = store.refresh()?;
    let record = &made.record;
    let Some(session) = view.session(&record.session)? else { return Ok(Vec::new()) };
    let name = session.policy.clone().unwrap_or_else(|| options.default_policy.clone());
    let basis = Basis::of(&view, made)?;
    let facts = Facts {
        trigger: record.trigger.name().to_owned(),
        is_safety: record.is_safety(),
        is_killed: record.trigger == Trigger::Error && record.trigger_detail.as_deref().is_some_and(run::tells_of_signal),
        cost_usd: session.totals.cost_usd,
        active_seconds: active_seconds(&view, &session, made)?,
        errors: session.totals.errors,
        changed: if options.escalation.asks_for_changes() {
            changed(store, basis.checkpoint.as_ref(), made)?
        } else {
            Vec::new()
        },
        inherited: (secrets > 0).then(|| format!("{SECRETS}: {secrets}")).or(basis.inherited),
    };
    let (status, rule) = options.judge(&name, &facts);
    let definition = options.definition(&name);
    let actor = Actor::program("policy");
    let decided = NewEvent::new(kind::CHECKPOINT_DECIDED, record.id.to_string(), actor.clone())
        .with("status", status.name())
        .with("policy", name.as_str())
        .with("rule", rule)
        .with("definition", definition.as_str());
    let is_new_policy = basis.last.is_none_or(|last| last.definition.as_ref() != Some(&definition));
    let changed = NewEvent::new(kind::POLICY_CHANGED, name.as_str(), actor)
        .with("session", record.session.as_str())
        .with("definition", definition.as_str())
        .with("rules", options.rules(&name));
    Ok(is_new_policy.then_some(changed).into_iter().chain([decided]).collect())
}

/// The checkpoints that a new one builds on.
struct Basis {
    /// The newest of them that counts as good, or else the first: what changed since is not looked at yet.
    checkpoint: Option<Checkpoint>,
    /// The rule by which one behind that waits for a person, or was rejected, where that concerns what is in it: it is in the new one, too.
    inherited: Option<String>,
    /// The decision about the one before.
    last: Option<Approval>,
}

impl Basis {
    fn of(view: &View, made: &Checkpoint) -> Result<Self> {
        let mut basis = Basis { checkpoint: None, inherited: None, last: None };
        let mut next = made.record.parent;
        for seen in 0..ANCESTORS_MAX {
            let Some(checkpoint) = next.map(|id| view.checkpoint(id)).transpose()?.flatten() else { break };
            let (id, approval) = (checkpoint.record.id, view.marks(checkpoint.record.id)?.approval);
            next = checkpoint.record.parent;
            basis.checkpoint = Some(checkpoint);
            if seen == 0 {
                basis.last = approval.clone();
            }
            match approval {
                Some(Approval { status: ApprovalStatus::Rejected, .. }) => {
                    basis.inherited.get_or_insert_with(|| format!("builds on {id}, which was rejected"));
                }
                Some(Approval { status: ApprovalStatus::Pending, rule: Some(rule), .. }) if is_of_content(&rule) => {
                    basis.inherited.get_or_insert(rule);
                }
                Some(Approval { status: ApprovalStatus::Pending, .. }) => {}
                // One that nobody decided about was made by an earlier release, or its maker died.
                _ => break,
            }
        }
        Ok(basis)
    }
}

/// True if a rule concerns something that later checkpoints have, too, and that a comparison does not find again.
fn is_of_content(rule: &str) -> bool {
    rule.starts_with(SECRETS) || rule.starts_with("builds on ")
}

/// Time that was worked in a session until a checkpoint was made.
fn active_seconds(view: &View, session: &Session, made: &Checkpoint) -> Result<u64> {
    let open = session.run.as_deref().map(|run| view.run(run)).transpose()?.flatten().filter(|run| run.is_open());
    let since = open.map_or(0, |run| made.record.created_at.duration_since(run.started_at).as_secs());
    Ok(session.totals.active_seconds.saturating_add(u64::try_from(since).unwrap_or(0)))
}

/// Paths of the files whose content is not as it was, as shown. Nothing changed since nothing.
fn changed(store: &Store, then: Option<&Checkpoint>, now: &Checkpoint) -> Result<Vec<String>> {
    let mut found = Vec::new();
    if let Some(then) = then {
        each_content(store, then, now, &mut |change| found.push(name::display(&change.path)))?;
    }
    Ok(found)
}
