//! Acts on issues that follow from events.

use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use parhelia_agent::briefing::is_ours;
use parhelia_host::{
    config::integrations::{OnApproval, OnError},
    run::{Life, agent_in, has_finished, life},
    state::state_json,
};
use parhelia_ledger::{
    Goal, Issue, LedgerView as _, Run, Session, Status,
    kind::{LINK_ASKED, LINK_CREATED},
};
use parhelia_oversight::review::link;
use parhelia_store::{Store, record::Checkpoint, view::View};
use parhelia_wire::{
    event::Event,
    notification::{Act, Delivery, Notification},
};
use serde_json::Value;

use super::{
    CHANNEL, Reach, State, TrackerKind,
    found::{Texts, in_beads},
    issues_of, words,
};
use crate::notify::{DeliveryHistory, Priority};

/// The program that links, as events name it.
pub const PROGRAM: &str = "tracker";
/// The same of a session is not said again within this time.
const REPEAT: SignedDuration = SignedDuration::from_mins(10);
/// An issue for a death that may be mended by itself waits so long.
const HELD: SignedDuration = SignedDuration::from_mins(2);

/// Everything that acts are made from, beside the event.
pub struct Planner<'a> {
    /// The store whose events are acted on.
    pub store: &'a Store,
    /// The store's view, as it is now.
    pub view: &'a View,
    /// The trackers.
    pub reach: &'a Reach<'a>,
    /// The time.
    pub now: Timestamp,
}

/// A session whose workspace is known.
struct Work {
    session: Session,
    workspace: PathBuf,
}

impl Planner<'_> {
    fn work(&self, event: &Event) -> parhelia_host::Result<Option<Work>> {
        let session = event.session.as_deref().map(|id| self.view.session(id)).transpose()?.flatten();
        let workspace = |session: &Session| session.workspace.as_ref().map(|place| place.folder());
        Ok(session.and_then(|session| Some(Work { workspace: workspace(&session)?, session })))
    }

    fn checkpoint(&self, event: &Event) -> parhelia_host::Result<Option<Checkpoint>> {
        Ok(event.subject.parse().ok().map(|id| self.view.checkpoint(id)).transpose()?.flatten())
    }

    /// Links a checkpoint to the issues that its session's texts name, each once. Returns true if something was linked.
    pub fn link_found(&self, event: &Event, told: &mut DeliveryHistory) -> parhelia_host::Result<bool> {
        let options = self.reach.options;
        if event.kind != "checkpoint.created" || !options.auto_link {
            return Ok(false);
        }
        let Some(Work { session, workspace }) = self.work(event)? else { return Ok(false) };
        // A folder that no agent has worked in is a backup, whose name means no issue.
        let Some(made) = self.checkpoint(event)?.filter(|_| session.run.is_some()) else { return Ok(false) };
        let prompt = self.prompt(&session, &made);
        let (repository, team) = (options.repository(&workspace), options.team(&workspace));
        let texts = Texts {
            // Nobody gave a session the name of its folder to mean an issue.
            name: Some(session.name.as_str()).filter(|name| *name != session.id && !is_named_after(name, &workspace)),
            prompt: prompt.as_deref(),
            branch: made.record.git.as_ref().and_then(|git| git.get("branch")?.as_str()),
            repository: repository.as_deref(),
            team: team.as_deref(),
            github: options.github.is_on(),
            linear: options.linear.is_on(),
        };
        let mut issues = texts.issues();
        if is_new(told, format!("beads {}", session.id), self.now, SignedDuration::MAX) {
            issues.extend(in_beads(self.reach, &workspace));
        }
        issues.retain(|issue| is_new(told, format!("found {} {}", session.id, issue.url), self.now, SignedDuration::MAX));
        if issues.is_empty() {
            return Ok(false);
        }
        let key = format!("tracker/found/{}", session.id);
        match link::link_once(self.store, PROGRAM, &key, made.record.id, &issues) {
            // The checkpoint was deleted meanwhile.
            Err(parhelia_host::Error::Refused(_)) => Ok(false),
            linked => linked.map(|linked| !linked.added.is_empty()),
        }
    }

    /// The first prompt of a person: as a hook recorded it, or else of the conversation. One that cannot be read names no issue.
    fn prompt(&self, session: &Session, made: &Checkpoint) -> Option<String> {
        let of_conversation = || {
            let kept = state_json(self.store, made, "conversation.json").ok()??;
            Some(kept.get("summary").unwrap_or(&kept).get("first_prompt")?.as_str()?.to_owned())
        };
        let found = session.first_prompt.clone().or_else(of_conversation);
        found.filter(|prompt| !is_ours(prompt))
    }

    /// The deliveries that follow from an event, and from what is told of it.
    pub fn acts(
        &self,
        event: &Event,
        notifications: &[Notification],
        told: &mut DeliveryHistory,
    ) -> parhelia_host::Result<Vec<Delivery>> {
        let Some(work) = self.work(event)? else { return Ok(Vec::new()) };
        let mut deliveries = Vec::new();
        for notification in notifications {
            deliveries.extend(match notification.event.as_str() {
                "checkpoint.linked" => self.of_link(event, notification, &work)?,
                "session.started" | "session.resumed" => self.on_all(event, notification, &work, None, Some(State::Running))?,
                "session.error" | "session.lost" | "session.left_alone" | "session.resume_failed" => {
                    self.of_error(event, notification, &work, told)?
                }
                "session.completed" | "checkpoint.needs_review" | "escalation.triggered" => {
                    self.of_review(event, notification, &work, told)?
                }
                "checkpoint.approved" => self.of_approval(event, notification, &work)?,
                _ => Vec::new(),
            });
        }
        Ok(deliveries)
    }

    fn of_link(&self, event: &Event, notification: &Notification, work: &Work) -> parhelia_host::Result<Vec<Delivery>> {
        let is_true = |name: &str| event.data.get(name).and_then(Value::as_bool).unwrap_or_default();
        let is_of_created = is_true(LINK_CREATED);
        let issue = event.data.get("url").and_then(Value::as_str).and_then(|url| link::parse(url).ok());
        let is_asked = is_true(LINK_ASKED);
        let is_acted_on = |issue: &Issue| !is_of_created && self.reach.options.acts_on(issue, is_asked, &work.workspace);
        let Some(issue) = issue.filter(is_acted_on) else { return Ok(Vec::new()) };
        let is_running = self.view.newest_run(&work.session)?.is_some_and(|run| run.ended_at.is_none());
        let text = Some(words::text(notification));
        Ok(self.on(event, notification, work, &issue, text, is_running.then_some(State::Running)).into_iter().collect())
    }

    fn of_error(
        &self,
        event: &Event,
        notification: &Notification,
        work: &Work,
        told: &mut DeliveryHistory,
    ) -> parhelia_host::Result<Vec<Delivery>> {
        let project = self.reach.options.project(&work.workspace);
        let on_error = project.on_error.unwrap_or(self.reach.options.on_error);
        if on_error == OnError::None {
            return Ok(Vec::new());
        }
        // After an error of the API, the agent may go on.
        let state = (event.kind != "checkpoint.created").then_some(State::Failed);
        let is_said = !is_new(told, format!("error {}", work.session.id), self.now, REPEAT);
        let text = (!is_said).then(|| words::text(notification));
        let acts = self.on_all(event, notification, work, text, state)?;
        if is_said {
            return Ok(acts);
        }
        if !acts.is_empty() || on_error != OnError::Create {
            return Ok(acts);
        }
        // One that goes on by itself in a moment is no issue.
        let may_heal = notification.event == "session.error" && notification.priority != Priority::Critical.name();
        let is_held = may_heal && self.is_resumable(work)?;
        let is_pending = match is_held {
            true => !is_new(told, format!("held {}", work.session.id), self.now, HELD),
            false => !is_new(told, format!("created {}", work.session.id), self.now, SignedDuration::MAX),
        };
        if is_pending {
            return Ok(acts);
        }
        let place = self.place_of_new(work, project.on_error.is_some());
        let act = |place: String| Act {
            place,
            title: Some(words::title(notification)),
            text: Some(words::text(notification)),
            ..Act::default()
        };
        let created = place.map(|(tracker, place)| {
            let mark = mark(&[&self.store.config().id.to_string(), "created", &work.session.id]);
            let delivery = self.delivery(event, notification, tracker, &mark, act(place));
            let not_before = if is_held { self.now + HELD } else { delivery.not_before };
            Delivery { not_before, ..delivery }
        });
        Ok(created.into_iter().collect())
    }

    /// True if a session's agent is one that is resumed by itself when it dies.
    fn is_resumable(&self, work: &Work) -> parhelia_host::Result<bool> {
        let newest = self.view.newest_run(&work.session)?;
        let agent = newest.as_ref().and_then(agent_in);
        Ok(work.session.goal() == Goal::Running && agent.is_some_and(|agent| !agent.is_headless()))
    }

    /// The tracker and the place of a new issue. Nobody has configured Beads: it gets one only where the project's table asks for it.
    fn place_of_new(&self, work: &Work, is_asked_for: bool) -> Option<(TrackerKind, String)> {
        let options = self.reach.options;
        let repository = options.repository(&work.workspace).filter(|_| options.github.is_on());
        let team = options.team(&work.workspace).filter(|_| options.linear.is_on());
        let beads = || is_asked_for && self.reach.beads(&work.workspace).is_some();
        let folder = || beads().then(|| (TrackerKind::Beads, work.workspace.to_string_lossy().into_owned()));
        let linear = team.map(|place| (TrackerKind::Linear, place));
        repository.map(|place| (TrackerKind::GitHub, place)).or(linear).or_else(folder)
    }

    fn of_review(
        &self,
        event: &Event,
        notification: &Notification,
        work: &Work,
        told: &mut DeliveryHistory,
    ) -> parhelia_host::Result<Vec<Delivery>> {
        // Of an error it was said already.
        let is_of_error = self.checkpoint(event)?.is_some_and(|checkpoint| checkpoint.record.trigger.name() == "error");
        if is_of_error || !is_new(told, format!("review {}", work.session.id), self.now, REPEAT) {
            return Ok(Vec::new());
        }
        self.on_all(event, notification, work, Some(words::text(notification)), Some(State::Review))
    }

    fn of_approval(&self, event: &Event, notification: &Notification, work: &Work) -> parhelia_host::Result<Vec<Delivery>> {
        let is_persons = event.actor.as_ref().is_some_and(|actor| actor.user.is_some() && actor.via != "agent");
        let project = self.reach.options.project(&work.workspace);
        let on_approval = project.on_approval.unwrap_or(self.reach.options.on_approval);
        if !is_persons || on_approval == OnApproval::None || !self.is_result(event, &work.session)? {
            return Ok(Vec::new());
        }
        let mut deliveries = Vec::new();
        for issue in self.issues_of(work)? {
            let state = match on_approval {
                OnApproval::Close => Some(State::Done),
                OnApproval::Move if TrackerKind::named(&issue.tracker) != Some(TrackerKind::GitHub) => Some(State::Done),
                _ => None,
            };
            deliveries.extend(self.on(event, notification, work, &issue, Some(words::text(notification)), state));
        }
        Ok(deliveries)
    }

    /// True if a checkpoint is the result of its session: it was made as the task was complete, or is the head of a session that is over.
    fn is_result(&self, event: &Event, session: &Session) -> parhelia_host::Result<bool> {
        let Some(checkpoint) = self.checkpoint(event)? else { return Ok(false) };
        let is_over = session.status == Status::Ended || self.view.newest_run(session)?.is_some_and(|run| has_finished(&run));
        Ok(checkpoint.record.trigger.name() == "complete" || is_over && session.head == Some(checkpoint.record.id))
    }

    fn issues_of(&self, work: &Work) -> parhelia_host::Result<Vec<Issue>> {
        issues_of(self.reach.options, self.view, &work.session.id, &work.workspace)
    }

    fn on_all(
        &self,
        event: &Event,
        notification: &Notification,
        work: &Work,
        text: Option<String>,
        state: Option<State>,
    ) -> parhelia_host::Result<Vec<Delivery>> {
        let issues = self.issues_of(work)?;
        Ok(issues.iter().filter_map(|issue| self.on(event, notification, work, issue, text.clone(), state)).collect())
    }

    /// The delivery to an issue; none where its tracker is off, or there is nothing to be done there.
    fn on(
        &self,
        event: &Event,
        notification: &Notification,
        work: &Work,
        issue: &Issue,
        text: Option<String>,
        state: Option<State>,
    ) -> Option<Delivery> {
        let tracker = TrackerKind::named(&issue.tracker)?;
        let state = state.filter(|state| match tracker {
            TrackerKind::GitHub => *state == State::Done,
            TrackerKind::Linear => *state != State::Failed,
            TrackerKind::Beads => *state != State::Review,
        });
        if !self.reach.is_on(tracker, Some(&work.workspace)) || text.is_none() && state.is_none() {
            return None;
        }
        let place = match tracker {
            TrackerKind::GitHub => issue.id.split('#').next().unwrap_or_default().to_owned(),
            TrackerKind::Linear => issue.id.split('-').next().unwrap_or_default().to_owned(),
            TrackerKind::Beads => work.workspace.to_string_lossy().into_owned(),
        };
        let act = Act {
            issue: Some(issue.id.clone()),
            url: Some(issue.url.clone()),
            place,
            title: None,
            text,
            state: state.map(|state| state.name().to_owned()),
        };
        let unique = event.id.as_deref().unwrap_or(&event.subject);
        let mark = mark(&[&self.store.config().id.to_string(), unique, &notification.event, &issue.url]);
        Some(self.delivery(event, notification, tracker, &mark, act))
    }

    fn delivery(&self, event: &Event, notification: &Notification, tracker: TrackerKind, mark: &str, act: Act) -> Delivery {
        let tracker = tracker.name();
        Delivery {
            id: format!("{:012}-{}-{tracker}-{mark}", event.sequence, notification.event),
            channel: format!("{CHANNEL}{tracker}"),
            has_failed: false,
            since: self.now,
            not_before: self.now,
            attempts: 0,
            error: None,
            notification: notification.clone(),
            act: Some(act),
            holds_channel: false,
            lacking: None,
        }
    }
}

/// Links the newest checkpoint of a session to an issue that was created for it, so that its next error becomes a comment there.
pub fn link_created(store: &Store, session: &str, issue: &Issue) -> parhelia_host::Result<()> {
    let view = store.refresh()?;
    let Some(head) = view.head(session)? else { return Ok(()) };
    match link::link_created(store, PROGRAM, &format!("tracker/created/{session}"), head.record.id, issue) {
        Err(parhelia_host::Error::Refused(_)) => Ok(()),
        linked => linked.map(drop),
    }
}

/// True if a session for which an issue was to be created goes on by now: its agent died, and was resumed.
pub fn is_healed(store: &Store, session: &str) -> parhelia_host::Result<bool> {
    let view = store.refresh()?;
    let Some(session) = view.session(session)? else { return Ok(false) };
    let is_alive = |run: &Run| matches!(life(run), Life::Agent(_) | Life::Elsewhere { .. });
    Ok(view.newest_run(&session)?.is_some_and(|run| is_alive(&run)))
}

/// True if a session has the name of its folder.
fn is_named_after(name: &str, workspace: &Path) -> bool {
    workspace.file_name().is_some_and(|folder| folder.to_string_lossy() == name)
}

/// True if something was not said within some time. Notes that it is said now.
fn is_new(told: &mut DeliveryHistory, key: String, now: Timestamp, within: SignedDuration) -> bool {
    let key = format!("{CHANNEL} {key}");
    if told.get(&key).is_some_and(|(at, _)| within == SignedDuration::MAX || *at <= now && now.duration_since(*at) < within) {
        return false;
    }
    told.insert(key, (now, 0));
    true
}

/// Digits that follow from some words, and from no others.
fn mark(words: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for word in words {
        hasher.update(&(word.len() as u64).to_le_bytes()).update(word.as_bytes());
    }
    hasher.finalize().to_hex().chars().take(32).collect()
}
