//! `log`: what happened, in order.

use std::{
    collections::HashMap,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use parhelia_store::{
    Store,
    event::Event,
    journal::{Entry, Journal, Position},
    record::Checkpoint,
    view::View,
};
use parhelia_wire::{self as wire, event};
use serde_json::Value;

use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
    human,
    output::Style,
    when,
};

/// Flags of `log`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only what concerns this session
    #[arg(long, value_name = "SESSION", add = complete::sessions())]
    session: Option<String>,
    /// Only events whose kind begins so, such as `checkpoint.` or `run.started`; commits are `checkpoint.created`
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only what was recorded behind this sequence
    #[arg(long, value_name = "SEQUENCE", default_value_t = 0)]
    after: u64,
    /// Only the last N
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
    /// Only what was recorded since then: a time such as 2026-01-16, or an age such as 2h or 3d
    #[arg(long, value_name = "WHEN", value_parser = when::parse)]
    since: Option<Timestamp>,
    /// Wait for more, until Ctrl-C
    #[arg(short, long)]
    follow: bool,
}

/// With `--follow`, so often it is looked whether there is more.
const FOLLOW_EVERY: Duration = Duration::from_millis(500);

/// Prints the journal's commits and events, oldest first.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let store = context.open()?;
    let wanted = args.session.as_ref().map(|name| store.view().session_named(name)).transpose()?.map(|session| session.id);
    if !args.follow {
        context.out.page()?;
    }
    let (mut after, mut count, mut limit) = (args.after, 0u64, args.limit.unwrap_or(usize::MAX));
    loop {
        let (lines, last) = lines(&store, args, wanted.as_deref(), after)?;
        for line in &lines[lines.len().saturating_sub(limit)..] {
            count += 1;
            line.print(context)?;
        }
        // The limit is of what there was at the beginning.
        (after, limit) = (last, usize::MAX);
        if !args.follow {
            break;
        }
        context.out.flush()?;
        let until = Instant::now() + FOLLOW_EVERY;
        while Instant::now() < until && !context.cancel().load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(50));
        }
        if context.cancel().load(Ordering::SeqCst) {
            break;
        }
        store.refresh()?;
    }
    context.out.summary(wire::Summary::Log { entries: count })?;
    Ok(Code::Done)
}

/// The lines behind a sequence that are asked for, and the sequence of the journal's last entry.
fn lines(store: &Store, args: &Args, wanted: Option<&str>, after: u64) -> Result<(Vec<Line>, u64)> {
    let view = store.view();
    let mut sessions = Sessions { store, view: &view, after, told: HashMap::new(), before: None };
    let (mut lines, mut last) = (Vec::new(), after);
    for logged in Journal::of(store.layout()).read_after(after)? {
        last = last.max(logged.sequence);
        let line = match logged.entry {
            Entry::Commit { record, .. } => {
                let Ok(checkpoint) = Checkpoint::decode(logged.sequence, record, store.ids()) else { continue };
                sessions.told.insert(checkpoint.id(), checkpoint.record.session.clone());
                Line::of_commit(&checkpoint)
            }
            Entry::Event(event) => Line::of_event(logged.sequence, &event, sessions.of(&event)?),
            _ => continue,
        };
        let fits = args.kind.as_ref().is_none_or(|kind| line.kind.starts_with(kind.as_str()))
            && args.since.is_none_or(|since| line.at >= since)
            && wanted.is_none_or(|session| line.session.as_deref() == Some(session));
        if fits {
            lines.push(line);
        }
    }
    Ok((lines, last))
}

fn told_session(event: &Event) -> Option<String> {
    event.data.get("session").and_then(Value::as_str).map(str::to_owned)
}

/// Finds the session that an event is about.
struct Sessions<'a> {
    store: &'a Store,
    view: &'a View,
    after: u64,
    /// Those of the checkpoints that were committed since.
    told: HashMap<String, String>,
    /// Those of the checkpoints before, read when one is asked for that does not exist any more: it is in the journal alone.
    before: Option<HashMap<String, String>>,
}

impl Sessions<'_> {
    fn of(&mut self, event: &Event) -> Result<Option<String>> {
        Ok(match event.kind.split_once('.') {
            Some(("session", _)) => Some(event.subject.clone()),
            Some(("checkpoint", _)) => self.of_checkpoint(&event.subject)?,
            Some(("run", _)) => match told_session(event) {
                None => self.view.run(&event.subject)?.map(|run| run.session),
                told => told,
            },
            _ => told_session(event),
        })
    }

    fn of_checkpoint(&mut self, id: &str) -> Result<Option<String>> {
        if let Some(session) = self.told.get(id) {
            return Ok(Some(session.clone()));
        }
        if let Some(found) = id.parse().ok().map(|id| self.view.checkpoint(id)).transpose()?.flatten() {
            return Ok(Some(found.record.session));
        }
        if self.before.is_none() {
            let records = Journal::of(self.store.layout()).read(&Position::start())?.records;
            let committed = records.into_iter().take_while(|logged| logged.sequence <= self.after).filter_map(|logged| {
                let Entry::Commit { record, .. } = logged.entry else { return None };
                let checkpoint = Checkpoint::decode(logged.sequence, record, self.store.ids()).ok()?;
                Some((checkpoint.id(), checkpoint.record.session))
            });
            self.before = Some(committed.collect());
        }
        Ok(self.before.as_ref().and_then(|before| before.get(id)).cloned())
    }
}

/// One entry of the log.
struct Line {
    kind: String,
    session: Option<String>,
    at: Timestamp,
    user: Option<String>,
    subject: String,
    more: String,
    event: event::Event,
}

impl Line {
    fn of_commit(checkpoint: &Checkpoint) -> Self {
        let record = &checkpoint.record;
        let fenced = if record.fenced { ", fenced" } else { "" };
        let mut more = format!("{}{fenced}", record.trigger.name());
        if let Some(message) = &record.message {
            more.push_str(&format!(": {}", message.lines().next().unwrap_or_default()));
        }
        Line {
            kind: "checkpoint.created".into(),
            session: Some(record.session.clone()),
            at: record.created_at,
            user: None,
            subject: checkpoint.id(),
            more,
            event: event::Event::of_commit(checkpoint),
        }
    }

    fn of_event(sequence: u64, event: &Event, session: Option<String>) -> Self {
        let shown = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let data = event.data.iter().filter(|(name, value)| *name != "session" && !value.is_null());
        let more = data.map(|(name, value)| format!("{name}={}", shown(value))).collect::<Vec<_>>().join(" ");
        Line {
            kind: event.kind.clone(),
            session: session.clone(),
            at: event.at,
            user: event.actor.user.clone(),
            subject: event.subject.clone(),
            more,
            event: event::Event::of_event(sequence, event, session),
        }
    }

    fn print(&self, context: &mut Context) -> Result<()> {
        if context.out.json {
            return context.out.object(wire::Line::Event(Box::new(self.event.clone())));
        }
        let kind = context.out.styled(Style::Bold, format!("{:<21}", self.kind));
        let user = self.user.as_deref().map(|user| format!(" by {user}")).unwrap_or_default();
        let text = human::path(format!("{}{user}  {}", self.subject, self.more).as_bytes());
        context.out.line(format!("{}  {kind} {}", human::local(self.at), text.trim_end()))
    }
}
