//! The decision of a policy about a checkpoint that was just made.

use parhelia_ledger::{Approval, ApprovalStatus, LedgerView as _, Session, kind};
use parhelia_store::{
    Store,
    event::{Actor, NewEvent},
    name,
    record::Checkpoint,
    view::View,
};

use super::rejections::Rejections;
use crate::{changed::each_content, who::is_persons_word};
use parhelia_host::{
    Result,
    config::OnFinding,
    draft::Draft,
    notice::Notice,
    policy::{self, Facts},
    rule::{RULE_KIND, Rule, RuleKind},
    run,
};

/// So many checkpoints behind a new one are asked for the last state that counts as good.
const ANCESTORS_MAX: usize = 1000;

/// Has the session's policy decide about a new checkpoint that an agent has made, or somebody who may be one. The checkpoint counts as made whether
/// this succeeds or not.
pub fn decide(draft: &mut Draft<'_>) {
    let Draft { store, host, request, observer, .. } = *draft;
    // Where it cannot be told who asks, nobody counts as a person.
    let is_judged = || request.is_judged || draft.is_agents() || !is_persons_word(store, host, request.session).unwrap_or(false);
    if draft.checkpoint().record.fenced || !is_judged() {
        return;
    }
    let asks = request.config.secrets.scan && request.config.secrets.on_finding == OnFinding::Review;
    let found = asks.then(|| draft.scan.as_ref().map_or((0, 0), |scan| (scan.found, scan.unscanned.not_reached)));
    match decision(store, draft.checkpoint(), &request.config.approval, found) {
        Ok(events) => draft.findings.extend(events),
        Err(e) => observer.warn(&Notice::NotRecorded { what: "no policy has decided about the checkpoint", why: e.to_string() }),
    }
}

/// The events of a decision about a checkpoint of an agent's session, with the numbers of secrets that were found and of files that could
/// not be scanned, if these ask for a person. They are none where the session is not known. A person who has decided meanwhile is not overruled by them.
fn decision(store: &Store, made: &Checkpoint, options: &policy::Approval, secrets: Option<(u64, u64)>) -> Result<Vec<NewEvent>> {
    let view = store.refresh()?;
    let record = &made.record;
    let Some(session) = view.session(&record.session)? else { return Ok(Vec::new()) };
    let name = session.policy.clone().unwrap_or_else(|| options.default_policy.clone());
    let basis = Basis::of(&view, made, secrets.is_some())?;
    let rejected = Rejections::of(store)?.taint(made)?.map(|taint| RuleKind::Rejection.says(taint.text()));
    let facts = Facts {
        trigger: record.trigger.name().to_owned(),
        is_safety: record.is_safety(),
        is_killed: record.tells_of_signal(),
        cost_usd: session.totals.cost_usd,
        active_seconds: run::worked(&view, &session, record.created_at)?.as_secs(),
        errors: session.totals.errors,
        changed: if options.escalation.asks_for_changes() {
            changed(store, basis.checkpoint.as_ref(), made)?
        } else {
            Vec::new()
        },
        inherited: secrets.and_then(secrets_rule).or(basis.inherited).or(rejected),
    };
    let (status, mut rule) = options.judge(&name, &facts);
    // A limit that could not be applied is not passed over in silence.
    let is_limited = options.escalation.cost_threshold_usd > 0.0 && !facts.is_safety;
    if status == ApprovalStatus::AutoApproved && is_limited && is_cost_unknown(&session) {
        rule.text.push_str("; cost unknown");
    }
    let definition = options.definition(&name);
    let actor = Actor::program("policy");
    let decided = NewEvent::new(kind::CHECKPOINT_DECIDED, record.id.to_string(), actor.clone())
        .with("status", status.name())
        .with("policy", name.as_str())
        .with("rule", rule.text)
        .with(RULE_KIND, serde_json::json!(rule.kind))
        .with("definition", definition.as_str())
        .with("record", made.digest.to_string());
    let has_changed = basis.last.as_ref().is_some_and(|last| last.definition.as_ref() != Some(&definition));
    let changed = NewEvent::new(kind::POLICY_CHANGED, name.as_str(), actor)
        .with("session", record.session.as_str())
        .with("definition", definition.as_str())
        .with("rules", options.rules(&name));
    let changed = match (has_changed, basis.last) {
        (true, _) => Some(changed),
        // Of a session that begins, only where nobody knows these rules yet.
        (false, None) => Some(changed.once(format!("policy {name} {definition}"))),
        (false, Some(_)) => None,
    };
    Ok(changed.into_iter().chain([decided]).collect())
}

/// True of a session in which an agent has spoken, and of whose cost nothing is known.
fn is_cost_unknown(session: &Session) -> bool {
    session.totals.cost_usd.is_none() && !session.conversations.is_empty()
}

/// The checkpoints that a new one builds on.
struct Basis {
    /// The newest of them that counts as good, or else the first: what changed since is not looked at yet.
    checkpoint: Option<Checkpoint>,
    /// The rule by which a new one waits whatever changed since then.
    inherited: Option<Rule>,
    /// The decision about the one before.
    last: Option<Approval>,
}

impl Basis {
    /// `asks` is true if secrets that were found ask for a person.
    fn of(view: &View, made: &Checkpoint, asks: bool) -> Result<Self> {
        let mut basis = Basis { checkpoint: None, inherited: None, last: None };
        // One that nobody decided about, if there is no decision before it either, was made by an earlier release.
        let mut undecided: Option<Checkpoint> = None;
        let (mut next, mut seen, mut is_decided, mut end) = (made.record.parent, 0, false, None);
        while let Some(id) = next {
            if seen == ANCESTORS_MAX {
                end = Some(RuleKind::NoGoodState.says(format!("none of the last {ANCESTORS_MAX} states counts as good")));
                break;
            }
            let marks = view.marks(id)?;
            if seen == 0 {
                basis.last = marks.approval.clone();
            }
            seen += 1;
            let Some(checkpoint) = view.checkpoint(id)? else {
                next = marks.deleted.and_then(|deleted| deleted.parent);
                is_decided |= marks.approval.is_some();
                end = Some(RuleKind::NoGoodState.says("the last state that counted as good was deleted"));
                continue;
            };
            next = checkpoint.record.parent;
            is_decided |= marks.approval.is_some() && !checkpoint.record.is_safety();
            // A safety checkpoint says nothing about what it is a copy of.
            match marks.approval.filter(|_| !checkpoint.record.is_safety()) {
                None => undecided = undecided.or(Some(checkpoint.clone())),
                Some(Approval { status: ApprovalStatus::Pending, .. }) => {
                    let found = marks.scan.map_or(0, |scan| scan.found);
                    if asks && found > 0 {
                        basis.inherited.get_or_insert_with(|| RuleKind::Secrets.says(format!("secrets found: {found}")));
                    }
                }
                Some(Approval { status: ApprovalStatus::Rejected, .. }) => {}
                Some(_) => {
                    basis.checkpoint = Some(checkpoint);
                    return Ok(basis);
                }
            }
            basis.checkpoint = Some(checkpoint);
        }
        match is_decided {
            true => basis.inherited = basis.inherited.or(end),
            false => basis.checkpoint = undecided.or(basis.checkpoint),
        }
        Ok(basis)
    }
}

/// The rule by which a checkpoint waits in which so many secrets were found, and so many files not scanned.
fn secrets_rule((found, missed): (u64, u64)) -> Option<Rule> {
    match (found, missed) {
        (0, 0) => None,
        (0, missed) => Some(RuleKind::Secrets.says(format!("files not scanned for secrets: {missed}"))),
        (found, _) => Some(RuleKind::Secrets.says(format!("secrets found: {found}"))),
    }
}

/// Paths of the files whose content is not as it was, as shown. Nothing changed since nothing.
fn changed(store: &Store, then: Option<&Checkpoint>, now: &Checkpoint) -> Result<Vec<String>> {
    let mut found = Vec::new();
    if let Some(then) = then {
        each_content(store, then, now, &mut |change| found.push(name::display(&change.path)))?;
    }
    Ok(found)
}
