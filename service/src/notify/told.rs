//! Events of the journal that people are told of, and how urgent each is.

use std::borrow::Cow;

use jiff::Timestamp;
use parhelia_host::{
    config::{Budget, Notifications},
    rule::RuleKind,
    run,
};
use parhelia_ledger::{End, LedgerView as _, Session, kind};
use parhelia_life::{
    overview::attention::{self, Attention, State},
    review_report::{Baseline, changes},
};
use parhelia_oversight::review::decide::MAY_DECIDE;
use parhelia_store::{
    Store,
    record::{Cause, Checkpoint},
    view::View,
};
use parhelia_wire::event::Event;
use serde_json::Value;

use super::{Notification, Priority};
use crate::notify::text;

/// A session that is resumed from a checkpoint older than this lost work that somebody may miss, in seconds.
const OLD_SECONDS: i64 = 300;

/// Everything that notifications are made from, beside the event.
pub struct Teller<'a> {
    /// The store whose events are told.
    pub store: &'a Store,
    /// The store's view, as it is now.
    pub view: &'a View,
    /// The section `[notifications]` of the configuration.
    pub options: &'a Notifications,
    /// The budget of sessions.
    pub budget: Budget,
    /// The first words of commands for this store.
    pub program: &'a str,
}

/// An event that people are told of.
struct NotableEvent {
    event: &'static str,
    priority: Priority,
    title: Cow<'static, str>,
    reason: Option<String>,
    /// The verb to go on with.
    verb: &'static str,
}

fn told(
    event: &'static str,
    priority: Priority,
    title: impl Into<Cow<'static, str>>,
    verb: &'static str,
    reason: Option<String>,
) -> NotableEvent {
    NotableEvent { event, priority, title: title.into(), reason, verb }
}

/// The one whose act was refused, as far as that is known.
fn somebody(event: &Event) -> &'static str {
    match event.actor.as_ref().is_some_and(|actor| actor.via == "agent") {
        true => "An agent",
        false => "Somebody who may be an agent",
    }
}

const REVIEW: &str = "session review";
const RESUME: &str = "session resume";
const RECOVER: &str = "session recover";
const SHOW: &str = "session show";

impl Teller<'_> {
    /// The notifications that follow from an event.
    pub fn tell(&self, event: &Event) -> parhelia_host::Result<Vec<Notification>> {
        let session = event.session.as_deref().map(|id| self.view.session(id)).transpose()?.flatten();
        let checkpoint = event.subject.parse().ok().map(|id| self.view.checkpoint(id)).transpose()?.flatten();
        let mut found: Vec<NotableEvent> = Vec::new();
        if event.kind == "checkpoint.created" {
            // One that was deleted since is nobody's business any more.
            let Some(made) = &checkpoint else { return Ok(Vec::new()) };
            found.extend(of_commit(made));
            // What an imported one has cost was spent elsewhere.
            if let Some(session) = session.as_ref().filter(|_| !made.record.is_imported()) {
                found.extend(self.of_limits(session, made)?);
            }
        } else {
            found.extend(self.of_event(event, session.as_ref())?);
        }
        found.into_iter().map(|told| self.notification(event, &told, session.as_ref(), checkpoint.as_ref())).collect()
    }

    /// The notification of a link to an issue. People are not told of it; it goes to the issue.
    pub fn tell_link(&self, event: &Event) -> parhelia_host::Result<Option<Notification>> {
        let session = event.session.as_deref().map(|id| self.view.session(id)).transpose()?.flatten();
        let checkpoint = event.subject.parse().ok().map(|id| self.view.checkpoint(id)).transpose()?.flatten();
        let is_link = event.kind == kind::CHECKPOINT_LINKED && checkpoint.is_some();
        let told = told(kind::CHECKPOINT_LINKED, Priority::Info, "Checkpoint belongs to this issue", "checkpoint show", None);
        is_link.then(|| self.notification(event, &told, session.as_ref(), checkpoint.as_ref())).transpose()
    }

    fn of_event(&self, event: &Event, session: Option<&Session>) -> parhelia_host::Result<Option<NotableEvent>> {
        let text = |name: &str| event.data.get(name).and_then(Value::as_str).map(str::to_owned);
        Ok(match event.kind.as_str() {
            kind::RUN_STARTED => self.of_start(&event.subject)?,
            kind::RUN_ENDED => of_end(End::of_data(&event.data), text("exit_reason"), session),
            // That its agent was killed before there was a checkpoint was told then.
            kind::SESSION_LOST if self.was_killed(session)? => None,
            kind::SESSION_LOST => {
                let title = "Session died or is out of reach, and has no checkpoint";
                Some(told("session.lost", Priority::Critical, title, SHOW, text("reason")))
            }
            kind::SESSION_HANDOVER => {
                let title = "Session is handed over: start what it goes on in";
                Some(told("session.handover", Priority::Warning, title, RESUME, text("reason")))
            }
            kind::SESSION_ATTENTION => of_attention(event),
            // A policy alone sets a session aside that nobody asked for.
            kind::SESSION_STATUS if event.actor.as_ref().is_some_and(|actor| actor.via == "policy") => {
                let title = "Session died and waits for you";
                Some(told("session.error", Priority::Critical, title, RESUME, text("reason")))
            }
            kind::SESSION_CHANGED if event.data.get(run::FAILING).is_some_and(|failing| !failing.is_null()) => {
                let why = event.data.get(run::FAILING).and_then(|failing| failing.get("reason")?.as_str()).map(str::to_owned);
                Some(told("checkpoint.failed", Priority::Warning, "Checkpoints fail", SHOW, why))
            }
            kind::CHECKPOINT_DECIDED => of_decision(event, text("status").as_deref(), text("reason"), text("rule")),
            kind::CHECKPOINT_SCANNED => {
                let found = event.data.get("found").and_then(Value::as_u64).filter(|found| *found > 0);
                let title = "Possible secrets in a checkpoint";
                let reason = found.map(|found| format!("{found} found"));
                reason.map(|reason| told("security.secret_found", Priority::Critical, title, "checkpoint secrets", Some(reason)))
            }
            kind::CHECKPOINT_DECISION_REFUSED if event.data.get(MAY_DECIDE).is_none() => {
                let title = "Somebody who may not tried to decide about a checkpoint";
                Some(told("security.decision_refused", Priority::Critical, title, REVIEW, text("why")))
            }
            kind::ACT_REFUSED => {
                let act = text("act")
                    .map_or_else(|| "to act on what is not its own".to_owned(), |act| format!("`{act}`, which it may not"));
                let title = format!("{} tried {act}", somebody(event));
                Some(told("security.act_refused", Priority::Critical, title, SHOW, text("why")))
            }
            kind::DELETION_REFUSED => {
                let title = format!("{} tried to delete checkpoints that it may not", somebody(event));
                Some(told("security.deletion_refused", Priority::Critical, title, REVIEW, text("why")))
            }
            kind::UNMARKING_REFUSED => {
                let title = format!("{} tried to take a mark off a checkpoint that it may not", somebody(event));
                Some(told("security.deletion_refused", Priority::Critical, title, REVIEW, text("why")))
            }
            kind::STORE_CHECKED => {
                let found = event.data.get("findings").and_then(Value::as_u64).filter(|found| *found > 0);
                let reason = found.map(|found| if found == 1 { "1 problem".to_owned() } else { format!("{found} problems") });
                let title = "The store is damaged";
                reason.map(|reason| told("security.damage_found", Priority::Critical, title, "check", Some(reason)))
            }
            kind::JOURNAL_CUT => {
                let title = "The journal has lost its last records";
                Some(told("security.journal_cut", Priority::Critical, title, "check", None))
            }
            _ => None,
        })
    }

    /// True if the newest run of a session has ended by a signal, by its own record.
    fn was_killed(&self, session: Option<&Session>) -> parhelia_host::Result<bool> {
        let newest = session.map(|session| self.view.newest_run(session)).transpose()?.flatten();
        Ok(newest.and_then(|run| run.ending()).is_some_and(|end| end.was_killed()))
    }

    fn of_start(&self, id: &str) -> parhelia_host::Result<Option<NotableEvent>> {
        let Some(started) = self.view.run(id)? else { return Ok(None) };
        let Some(from) = &started.resumed_from else {
            return Ok(Some(told("session.started", Priority::Info, "Session began", SHOW, None)));
        };
        let from = from.parse().ok().map(|id| self.view.checkpoint(id)).transpose()?.flatten();
        let age = from.map(|from| started.started_at.duration_since(from.record.created_at).as_secs());
        Ok(Some(match age.filter(|age| *age > OLD_SECONDS) {
            Some(age) => {
                let reason = format!("its last checkpoint was {} minutes old", age / 60);
                told("session.resumed", Priority::Notice, "Session went on from an old checkpoint", SHOW, Some(reason))
            }
            None => told("session.resumed", Priority::Info, "Session went on", SHOW, None),
        }))
    }

    /// Limits that a session has passed with a checkpoint: with the one before, it had not.
    fn of_limits(&self, session: &Session, made: &Checkpoint) -> parhelia_host::Result<Vec<NotableEvent>> {
        let before = self.view.ancestor(made)?.filter(|before| before.record.session == session.id);
        let mut found = Vec::new();
        let limit = self.options.long_running_hours * 3600.0;
        let worked = |until: Timestamp| Ok::<_, parhelia_host::Error>(run::worked(self.view, session, until)?.as_secs_f64());
        let since = before.as_ref().map_or(Ok(0.0), |before| worked(before.record.created_at))?;
        if limit > 0.0 && worked(made.record.created_at)? > limit && since <= limit {
            let reason = format!("it was worked in for more than {} h", self.options.long_running_hours);
            found.push(told("session.long_running", Priority::Warning, "Session runs for long", REVIEW, Some(reason)));
        }
        let cost = |checkpoint: &Checkpoint| checkpoint.record.usage.as_ref()?.get("cost_estimate_usd")?.as_f64();
        if let Some(now) = cost(made).filter(|_| self.budget.session_usd > 0.0) {
            // What the session's other conversations cost comes on top.
            let id = made.record.conversation.as_ref().and_then(|one| one.get("agent_session_id")?.as_str());
            let others: f64 =
                session.conversations.iter().filter(|one| Some(one.id.as_str()) != id).filter_map(|one| one.cost_usd).sum();
            let then = before.as_ref().and_then(cost).unwrap_or(0.0).min(now);
            found.extend(self.of_budget(others + then, others + now));
        }
        Ok(found)
    }

    fn of_budget(&self, then: f64, now: f64) -> Option<NotableEvent> {
        let Budget { session_usd: budget, warn_percent } = self.budget;
        let warned = budget * warn_percent as f64 / 100.0;
        let passed = |limit: f64| now >= limit && then < limit;
        let reason = || Some(format!("${now:.2} of ${budget:.2}"));
        match () {
            () if passed(budget) => {
                Some(told("budget.exceeded", Priority::Critical, "The budget of a session is used up", REVIEW, reason()))
            }
            () if warn_percent > 0 && passed(warned) => {
                let title = "The budget of a session is nearly used up";
                Some(told("budget.threshold_reached", Priority::Warning, title, REVIEW, reason()))
            }
            () => None,
        }
    }

    fn notification(
        &self,
        event: &Event,
        told: &NotableEvent,
        session: Option<&Session>,
        checkpoint: Option<&Checkpoint>,
    ) -> parhelia_host::Result<Notification> {
        let is_told = !self.options.channels_of(told.priority).is_empty();
        let files_changed = match session.filter(|_| is_told) {
            Some(session) => self.files_changed(session)?,
            None => None,
        };
        let subject = match told.verb.split_once(' ') {
            Some(("session", _)) => session.map(|session| session.id.as_str()),
            Some(("checkpoint", _)) => Some(event.subject.as_str()),
            _ => None,
        };
        let subject = subject.map(|subject| format!(" {}", quoted(subject))).unwrap_or_default();
        let link = |page: &String| match session {
            Some(session) => format!("{}/#/session/{}", page.trim_end_matches('/'), path_word(&session.id)),
            None => page.clone(),
        };
        Ok(Notification {
            id: format!("{}-{}-{}", self.store.config().id, event.sequence, told.event),
            event: told.event.into(),
            priority: told.priority.name().into(),
            at: event.at.to_string(),
            title: told.title.clone().into_owned(),
            session: session.map(|session| session.id.clone()),
            session_name: session.map(|session| session.name.clone()),
            checkpoint: checkpoint.map(Checkpoint::id),
            status: session.map(|session| session.status.name().into()),
            cost_usd: session.and_then(|session| session.totals.cost_usd),
            duration_seconds: session.map(|session| self.duration_seconds(session)).transpose()?,
            files_changed,
            reason: told.reason.as_deref().map(text::field),
            command: Some(format!("{} {}{subject}", self.program, told.verb)),
            link: self.options.page.as_ref().map(link),
            repeated: 0,
        })
    }

    fn duration_seconds(&self, session: &Session) -> parhelia_host::Result<u64> {
        Ok(run::worked(self.view, session, parhelia_store::clock::timestamp())?.as_secs())
    }

    fn files_changed(&self, session: &Session) -> parhelia_host::Result<Option<u64>> {
        let Some(newest) = self.view.head(&session.id)? else { return Ok(None) };
        let since = Baseline::of(self.view, &newest)?.checkpoint;
        since.map(|since| Ok(changes(self.store, &since, &newest)?.len() as u64)).transpose()
    }
}

/// A notification for a test of a channel. `program` is how a command begins.
pub fn test(store: &Store, program: &str, now: Timestamp) -> Notification {
    Notification {
        reason: Some("somebody asked for it".into()),
        command: Some(format!("{program} session list")),
        ..of_store(store, "test", "This is a test", Priority::Notice, now)
    }
}

/// A notification of the store as a whole, of no session.
pub fn of_store(store: &Store, event: &str, title: &str, priority: Priority, now: Timestamp) -> Notification {
    Notification {
        id: format!("{}-{event}-{}", store.config().id, now.as_millisecond()),
        event: event.into(),
        priority: priority.name().into(),
        at: now.to_string(),
        title: title.into(),
        session: None,
        session_name: None,
        checkpoint: None,
        status: None,
        cost_usd: None,
        duration_seconds: None,
        files_changed: None,
        reason: None,
        command: None,
        link: None,
        repeated: 0,
    }
}

fn of_commit(made: &Checkpoint) -> Vec<NotableEvent> {
    let mut found = vec![told("checkpoint.created", Priority::Info, "Checkpoint was made", "checkpoint show", None)];
    // Of the end of an agent, the end of its run tells. The error of an imported one happened elsewhere, and is over.
    let is_of_end = matches!(made.record.cause(), Some(Cause::Exited | Cause::Killed));
    if made.record.trigger.name() == "error" && !is_of_end && !made.record.is_imported() {
        let why = made.record.trigger_detail.clone();
        found.push(told("session.error", Priority::Warning, "Session has an error", REVIEW, why));
    }
    found
}

/// The end of a run: of one that was asked for, by a person or a policy, nobody is told.
fn of_end(end: End, reason: Option<String>, session: Option<&Session>) -> Option<NotableEvent> {
    match () {
        () if end.has_finished() => Some(told("session.completed", Priority::Notice, "Session is done", REVIEW, None)),
        () if end.has_failed() => Some(told("session.error", Priority::Warning, "Session's agent failed", REVIEW, reason)),
        () if end.was_killed() => {
            let priority = match session.is_some_and(|session| session.head.is_some()) {
                true => Priority::Warning,
                false => Priority::Critical,
            };
            Some(told("session.error", priority, "Session's agent was killed", RESUME, reason))
        }
        () => None,
    }
}

/// A verdict on an agent: of one that was taken back, nobody is told.
fn of_attention(event: &Event) -> Option<NotableEvent> {
    let verdict = event.data.get(attention::ATTENTION).filter(|verdict| !verdict.is_null())?;
    let Attention { state, why, .. } = serde_json::from_value(verdict.clone()).ok()?;
    Some(match state {
        State::Waiting => told("session.waiting", Priority::Warning, "Agent waits for your answer", SHOW, why),
        State::Idle => told("session.idle", Priority::Info, "Agent has nothing to do", SHOW, why),
        State::LeftAlone => told("session.left_alone", Priority::Critical, "Session died and waits for you", RECOVER, why),
        State::ResumeFailed => {
            told("session.resume_failed", Priority::Critical, "Session died and cannot be resumed", RECOVER, why)
        }
        State::Recovered | State::CutOff => {
            told("session.recovered", Priority::Warning, "Session is back after its death", SHOW, why)
        }
    })
}

fn of_decision(event: &Event, status: Option<&str>, reason: Option<String>, rule: Option<String>) -> Option<NotableEvent> {
    let is_persons = event.actor.as_ref().is_some_and(|actor| actor.via != "policy");
    Some(match status? {
        "pending" if RuleKind::of_data(&event.data).is_some_and(RuleKind::is_escalation) => {
            told("escalation.triggered", Priority::Warning, "Checkpoint waits for you: escalation", REVIEW, rule)
        }
        "pending" => told("checkpoint.needs_review", Priority::Notice, "Session needs review", REVIEW, rule),
        "approved" if is_persons => told("checkpoint.approved", Priority::Info, "Checkpoint was approved", SHOW, reason),
        "rejected" => told("checkpoint.rejected", Priority::Notice, "Checkpoint was rejected", REVIEW, reason),
        _ => return None,
    })
}

/// A word as shells read it.
fn quoted(word: &str) -> String {
    let is_plain = !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:@".contains(c));
    if is_plain { word.to_owned() } else { format!("'{}'", text::field(word).replace('\'', "'\\''")) }
}

/// A word of a URL's path.
fn path_word(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    word.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use parhelia_ledger::{By, EndKind};
    use serde_json::json;

    use super::*;

    #[test]
    fn only_an_end_that_nobody_asked_for_is_told() {
        let event = |data: serde_json::Value| {
            let end = End::of_data(data.as_object().unwrap());
            of_end(end, None, None).map(|told| (told.event, told.priority))
        };
        let of = |end: End| event(json!({ "end": end, "exit_reason": "was ended by signal 9" }));
        assert_eq!(of(End::exited(0)), Some(("session.completed", Priority::Notice)));
        assert_eq!(of(End::exited(1)), Some(("session.error", Priority::Warning)));
        assert_eq!(of(End::signalled(9)), Some(("session.error", Priority::Critical)));
        for by in [By::Pause, By::Stop, By::Rollback, By::End, By::Shutdown] {
            for end in [End::exited(0), End::exited(143), End::signalled(15), End::of(EndKind::Asked)] {
                assert_eq!(of(End { by: Some(by), ..end }), None, "{by:?} {end:?}");
            }
        }
        // As an earlier release wrote it.
        let earlier = |reason: &str| event(json!({ "exit_reason": reason }));
        assert_eq!(earlier("ended with exit code 0"), Some(("session.completed", Priority::Notice)));
        assert_eq!(earlier("was ended by signal 9"), Some(("session.error", Priority::Critical)));
        assert_eq!((earlier("paused"), earlier("paused; was ended by signal 15")), (None, None));
    }

    #[test]
    fn words_of_others_are_one_word() {
        assert_eq!(quoted("fix-auth"), "fix-auth");
        assert_eq!(quoted("a; rm -rf ~\n'x'"), "'a; rm -rf ~ '\\''x'\\'''");
        assert_eq!(path_word("a/b #c"), "a%2Fb%20%23c");
    }
}
