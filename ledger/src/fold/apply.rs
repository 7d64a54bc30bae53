//! Folding: what one commit or event changes. What cannot be projected changes nothing, and is refused where it would be appended.

use jiff::Timestamp;
use parhelia_store::{
    Error, Result,
    event::Event,
    fold::{Projection, Unfit},
    record::{Record, Trigger, session_of_machine},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use ulid::Ulid;

use super::{Ledger, merge::merged};
use crate::{
    end::{End, EndKind},
    kind::{self, LINK_ASKED, SELF_APPROVAL},
    marks::{Annotation, Approval, ApprovalStatus, Deletion, Issue, Marks, Verification, tag_fault},
    rejected::{self, RejectedContent},
    run::{self, Run},
    session::{self, Goal, Session, Status},
};

fn unfit<T>(reason: &str) -> Result<T, Unfit> {
    Err(reason.to_owned().into())
}

fn no_session<T>(id: &str) -> Result<T, Unfit> {
    Err(Unfit::Refused(Error::NoSession { session: id.to_owned() }))
}

/// A field of an event's data.
fn field<T: DeserializeOwned>(event: &Event, name: &str) -> Result<T, Unfit> {
    let value = event.data.get(name).cloned().unwrap_or(Value::Null);
    serde_json::from_value(value).map_err(|e| format!("event {}: field '{name}': {e}", event.kind).into())
}

impl Ledger {
    pub(super) fn take_commit(
        &mut self,
        kept: Projection<'_>,
        sequence: u64,
        record: &Record,
        machine: Option<&str>,
    ) -> Result<()> {
        let at = record.created_at;
        let mut session = self.session(kept, &record.session)?.unwrap_or_else(|| Session::new(&record.session, at, machine));
        // Names of machines are shortened in names of sessions: whoever has one that looks like another's changes nothing.
        if session.machine.as_deref() != machine {
            return Ok(());
        }
        if !record.fenced {
            session.head = Some(record.id);
            session.epoch = session.epoch.max(record.epoch);
        }
        session.totals.checkpoints += 1;
        session.totals.errors += u64::from(record.trigger == Trigger::Error && !record.tells_of_signal());
        let text = |value: &Option<Value>, name: &str| Some(value.as_ref()?.get(name)?.as_str()?.to_owned());
        if let Some(id) = text(&record.conversation, "agent_session_id") {
            let conversation = session.conversation(&id);
            conversation.run = conversation.run.take().or_else(|| record.run.clone());
            conversation.transcript = text(&record.conversation, "transcript").or(conversation.transcript.take());
            let number = |name: &str| record.conversation.as_ref()?.get(name);
            conversation.turn_count = number("turn_count").and_then(Value::as_u64).or(conversation.turn_count);
            let cost = record.usage.as_ref().and_then(|usage| usage.get("cost_estimate_usd")).and_then(Value::as_f64);
            conversation.costs(cost, text(&record.usage, "cost_source"));
            session.add_up_costs();
        }
        self.put_session(session, (sequence, at));
        Ok(())
    }

    pub(super) fn take_event(
        &mut self,
        kept: Projection<'_>,
        sequence: u64,
        event: &Event,
        machine: Option<&str>,
    ) -> Result<(), Unfit> {
        let here = machine.map(|machine| as_told_by(event, machine));
        let event = here.as_ref().unwrap_or(event);
        self.ensure_own(kept, event, machine)?;
        match event.kind.as_str() {
            kind::SESSION_CREATED | kind::SESSION_CHANGED | kind::SESSION_ATTENTION => {
                self.session_fields(kept, sequence, event, machine)?
            }
            kind::SESSION_STATUS => {
                let (status, reason): (Status, Option<String>) = (field(event, "status")?, field(event, "reason")?);
                let wanted: Option<Goal> = field(event, "wanted")?;
                self.session_changed(kept, (sequence, event), &event.subject, |session| {
                    if !session.status.may_become(status) {
                        return Err(format!("session {} has ended, which is for good", session.id));
                    }
                    session.wanted = wanted.or(Goal::of(status)).or(Some(session.goal()));
                    (session.status, session.status_reason) = (status, reason);
                    Ok(())
                })?;
            }
            kind::SESSION_HEAD => {
                let head: Ulid = field(event, "checkpoint")?;
                self.session_changed(kept, (sequence, event), &event.subject, |session| {
                    session.head = Some(head);
                    Ok(())
                })?;
            }
            kind::RUN_STARTED => self.run_started(kept, sequence, event)?,
            kind::RUN_CHANGED => self.run_changed(kept, event, |run| merged(run, &event.data, &run::FIXED))?,
            kind::RUN_LEASE => self.run_changed(kept, event, |run| {
                let lease = merged(&run.lease.clone().unwrap_or_default(), &event.data, &[])?;
                Ok(Run { lease: Some(lease), ..run.clone() })
            })?,
            kind::RUN_ENDED => self.run_ended(kept, sequence, event)?,
            kind::CONVERSATION_SEEN => {
                let session: String = field(event, "session")?;
                let (run, transcript): (Option<String>, Option<String>) = (field(event, "run")?, field(event, "transcript")?);
                let printed: Option<f64> = field(event, "printed_cost_usd")?;
                self.session_changed(kept, (sequence, event), &session, |session| {
                    let conversation = session.conversation_seen(&event.subject);
                    conversation.run = conversation.run.take().or(run);
                    conversation.transcript = transcript.or(conversation.transcript.take());
                    conversation.printed(printed.filter(|cost| cost.is_finite() && *cost >= 0.0));
                    session.add_up_costs();
                    Ok(())
                })?;
            }
            other if other.starts_with("checkpoint.") => self.marked(kept, event)?,
            _ => {}
        }
        Ok(())
    }

    /// Fails where an event is about a session or a run that is not its machine's: what another machine tells of this one's, or of a third one's,
    /// changes nothing. What this machine records of its own sessions is not looked at.
    fn ensure_own(&self, kept: Projection<'_>, event: &Event, machine: Option<&str>) -> Result<(), Unfit> {
        let Some(machine) = machine else { return Ok(()) };
        let of_run = match event.kind.split_once('.') {
            Some(("run", _)) => self.run(kept, &event.subject)?.map(|run| run.session),
            _ => None,
        };
        let of_event = match event.kind.split_once('.') {
            Some(("session", _)) => Some(event.subject.clone()),
            _ => event.data.get("session").and_then(Value::as_str).map(str::to_owned),
        };
        for id in of_run.into_iter().chain(of_event) {
            if self.session(kept, &id)?.is_some_and(|session| session.machine.as_deref() != Some(machine)) {
                return unfit("it is about a session of another machine");
            }
        }
        Ok(())
    }

    fn put_session(&mut self, mut session: Session, (sequence, at): (u64, Timestamp)) {
        (session.changed_at, session.changed_sequence) = (at, sequence);
        self.sessions.insert(session.id.clone(), session);
    }

    fn session_changed(
        &mut self,
        kept: Projection<'_>,
        (sequence, event): (u64, &Event),
        id: &str,
        change: impl FnOnce(&mut Session) -> Result<(), String>,
    ) -> Result<(), Unfit> {
        let Some(mut session) = self.session(kept, id)? else { return no_session(id) };
        change(&mut session)?;
        self.put_session(session, (sequence, event.at));
        Ok(())
    }

    fn session_fields(&mut self, kept: Projection<'_>, sequence: u64, event: &Event, machine: Option<&str>) -> Result<(), Unfit> {
        let before = match self.session(kept, &event.subject)? {
            Some(session) => session,
            None if event.subject.is_empty() => return unfit("a session's id must not be empty"),
            None if event.kind == kind::SESSION_CREATED => Session::new(&event.subject, event.at, machine),
            None => return no_session(&event.subject),
        };
        let session = merged(&before, &event.data, &session::FIXED)?;
        self.put_session(session, (sequence, event.at));
        Ok(())
    }

    fn run_started(&mut self, kept: Projection<'_>, sequence: u64, event: &Event) -> Result<(), Unfit> {
        let id: String = field(event, "session")?;
        if self.run(kept, &event.subject)?.is_some() {
            return unfit("there is a run with this id");
        }
        let run = merged(&Run::new(&event.subject, &id, event.epoch, event.at), &event.data, &run::FIXED)?;
        self.session_changed(kept, (sequence, event), &id, |session| {
            if session.status == Status::Ended {
                return Err(format!("session {id} has ended, which is for good"));
            }
            session.epoch = session.epoch.max(event.epoch);
            session.run = Some(run.id.clone());
            session.runs.push(run.id.clone());
            (session.status, session.status_reason) = (Status::Active, None);
            session.wanted = Some(Goal::Running);
            Ok(())
        })?;
        self.runs.insert(run.id.clone(), run);
        Ok(())
    }

    fn run_changed(
        &mut self,
        kept: Projection<'_>,
        event: &Event,
        change: impl FnOnce(&Run) -> Result<Run, String>,
    ) -> Result<(), Unfit> {
        let Some(run) = self.run(kept, &event.subject)? else {
            return Err(Unfit::Refused(Error::NoRun { run: event.subject.clone() }));
        };
        let run = change(&run)?;
        self.runs.insert(run.id.clone(), run);
        Ok(())
    }

    fn run_ended(&mut self, kept: Projection<'_>, sequence: u64, event: &Event) -> Result<(), Unfit> {
        let Some(run) = self.run(kept, &event.subject)? else {
            return Err(Unfit::Refused(Error::NoRun { run: event.subject.clone() }));
        };
        // A guess from outside, which may be made in the very moment in which the end is told, says nothing against it.
        let is_told = run.ending().is_some_and(|end| end.kind != EndKind::Unknown);
        if is_told && End::of_data(&event.data).kind == EndKind::Unknown {
            return Ok(());
        }
        let mut ended = merged(&run, &event.data, &run::FIXED)?;
        if !event.data.contains_key("heard") {
            // Whoever tells the end has seen it, whatever was guessed before.
            ended.extra.remove("heard");
        }
        // Of a run that died unseen, somebody records the end later: it was at work until it was heard of last.
        let heard = event.data.get("heard").and_then(|at| at.as_str()?.parse::<Timestamp>().ok());
        let at = heard.map_or(event.at, |heard| heard.clamp(run.started_at.min(event.at), event.at));
        // What is said of its end once more adds nothing.
        if run.is_open() {
            let seconds = u64::try_from(at.duration_since(run.started_at).as_secs()).unwrap_or(0);
            self.session_changed(kept, (sequence, event), &run.session, |session| {
                session.totals.active_seconds = session.totals.active_seconds.saturating_add(seconds);
                Ok(())
            })?;
        }
        self.runs.insert(run.id, Run { ended_at: Some(at), lease: None, ..ended });
        Ok(())
    }

    fn marked(&mut self, kept: Projection<'_>, event: &Event) -> Result<(), Unfit> {
        let Ok(id) = event.subject.parse::<Ulid>() else { return unfit("its subject is no checkpoint's id") };
        let mut marks = self.marks(kept, id)?;
        if mark(&mut marks, event)? {
            self.marks.insert(id, marks);
        }
        Ok(())
    }
}

/// An event of another machine, with its session under the name that this has here.
fn as_told_by(event: &Event, machine: &str) -> Event {
    let mut event = event.clone();
    if event.kind.starts_with("session.") {
        event.subject = session_of_machine(&event.subject, machine);
    }
    if let Some(Value::String(session)) = event.data.get_mut("session") {
        *session = session_of_machine(session, machine);
    }
    event
}

/// Notes whether an agent has made a tag; a person's word for the same one makes it the person's.
fn by_agent(marks: &mut Marks, event: &Event, mark: &str) {
    if event.actor.via != "agent" {
        marks.by_agents.remove(mark);
    } else if !marks.tags.contains(mark) {
        marks.by_agents.insert(mark.to_owned());
    }
}

/// Applies an event to the marks of a checkpoint. Returns true if it is of a known kind.
fn mark(marks: &mut Marks, event: &Event) -> Result<bool, Unfit> {
    let user = event.actor.user.clone();
    match event.kind.as_str() {
        kind::CHECKPOINT_TAGGED => {
            let tag: String = field(event, "tag")?;
            if let Some(fault) = tag_fault(&tag) {
                return unfit(fault);
            }
            by_agent(marks, event, &tag);
            marks.tags.insert(tag);
        }
        kind::CHECKPOINT_UNTAGGED => {
            let tag: String = field(event, "tag")?;
            marks.tags.remove(&tag);
            marks.by_agents.remove(&tag);
        }
        kind::CHECKPOINT_ANNOTATED => {
            marks.annotations.push(Annotation { timestamp: event.at, user, text: field(event, "text")? });
        }
        kind::CHECKPOINT_LINKED => {
            let issue = Issue { tracker: field(event, "tracker")?, id: field(event, "id")?, url: field(event, "url")? };
            // Whoever asks once more for what a person wants takes nothing back.
            match field::<Option<bool>>(event, LINK_ASKED)?.unwrap_or_default() {
                true if !marks.links.contains(&issue) => drop(marks.asked.insert(issue.url.clone())),
                true => {}
                false => drop(marks.asked.remove(&issue.url)),
            }
            marks.links.insert(issue);
        }
        kind::CHECKPOINT_UNLINKED => {
            let url: String = field(event, "url")?;
            marks.links.retain(|issue| issue.url != url);
            marks.asked.remove(&url);
        }
        // A policy that decides while a person does is the one that did not know.
        kind::CHECKPOINT_DECIDED if user.is_none() && marks.approval.as_ref().is_some_and(Approval::is_by_person) => {}
        kind::CHECKPOINT_DECIDED => {
            marks.approval = Some(Approval {
                status: field(event, "status")?,
                user,
                by_agent: field::<Option<bool>>(event, SELF_APPROVAL).unwrap_or_default().unwrap_or_default(),
                timestamp: event.at,
                reason: field(event, "reason")?,
                policy: field(event, "policy")?,
                rule: field(event, "rule")?,
                definition: field(event, "definition")?,
                // A decision counts whatever is said beside it.
                rejected: field(event, rejected::FIELD).unwrap_or_default(),
            });
        }
        kind::CHECKPOINT_VERIFIED => {
            let incomplete = field::<Option<Vec<String>>>(event, "incomplete")?.unwrap_or_default();
            let (level, ok) = (field(event, "level")?, field(event, "ok")?);
            marks.verification = Some(Verification { level, ok, at: event.at, incomplete });
        }
        kind::CHECKPOINT_SCANNED => {
            let mut scan = event.data.clone();
            scan.insert("at".to_owned(), event.at.to_string().into());
            let scan = serde_json::from_value(Value::Object(scan));
            marks.scan = Some(scan.map_err(|e| Unfit::from(format!("event {}: {e}", event.kind)))?);
        }
        kind::CHECKPOINT_DELETED => {
            // Earlier releases had the reason beside the other fields.
            let told = event.data.get("reason").or(event.extra.get("reason")).and_then(Value::as_str);
            let reason = told.map(str::to_owned);
            // An earlier release did not say with the decision what was rejected.
            let kept: Option<RejectedContent> = field(event, rejected::FIELD).unwrap_or_default();
            if let Some(approval) = marks.approval.as_mut().filter(|approval| approval.status == ApprovalStatus::Rejected) {
                approval.rejected = approval.rejected.take().or(kept);
            }
            marks.deleted = Some(Deletion { at: event.at, user, reason, parent: field(event, "parent")? });
        }
        _ => return Ok(false),
    }
    Ok(true)
}
