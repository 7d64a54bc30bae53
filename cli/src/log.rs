//! `log`: what happened, in order.

use std::{
    cell::Cell,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use parhelia_host::events::{self, Sessions};
use parhelia_ledger::LedgerView as _;
use parhelia_screen::human;
use parhelia_store::{
    Store,
    error::Error,
    event::Event,
    journal::{Entry, Journal, Raw},
    record::Checkpoint,
};
use parhelia_wire::{self as wire, event};
use serde_json::Value;

use crate::{
    complete,
    context::Context,
    exit::{Code, Result},
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
    let (mut after, mut count, mut limit) = (args.after, 0u64, args.limit);
    loop {
        let last = Cell::new(after);
        for line in events::last(&store, after, limit, |after| {
            let asked = Filter { args, session: wanted.as_deref(), limit };
            lines(&store, &asked, after, &last)
        })? {
            count += 1;
            line.print(context)?;
        }
        // The limit is of what there was at the beginning.
        (after, limit) = (last.get(), None);
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

/// Everything that a line must be.
struct Filter<'a> {
    args: &'a Args,
    session: Option<&'a str>,
    limit: Option<usize>,
}

impl Filter<'_> {
    fn fits(&self, kind: &str, at: Timestamp) -> bool {
        self.args.kind.as_ref().is_none_or(|begins| kind.starts_with(begins.as_str()))
            && self.args.since.is_none_or(|since| at >= since)
    }
}

/// The lines behind a sequence that are asked for, oldest first. Notes the sequence of the journal's last entry.
fn lines(store: &Store, asked: &Filter<'_>, after: u64, last: &Cell<u64>) -> Result<Vec<Line>, parhelia_host::Error> {
    let view = store.view();
    let mut sessions = Sessions::new(store, &view, after);
    let mut records = Vec::new();
    let journal = Journal::of(store.layout());
    journal.look_after(after, |raw| {
        last.set(last.get().max(raw.sequence));
        match raw.event() {
            Some(head) if !asked.fits(&head.kind, head.at) => {}
            // Most need never be decoded where the last few are wanted.
            Some(_) => records.push((raw.sequence, raw.body.to_vec())),
            None => {
                match raw.decode()?.entry {
                    Entry::Commit { record, .. } => sessions.committed(raw.sequence, record),
                    Entry::RemoteEvent { .. } => {}
                    _ => return Ok(()),
                }
                records.push((raw.sequence, raw.body.to_vec()));
            }
        }
        Ok(())
    })?;
    let mut lines = Vec::new();
    for (sequence, body) in records.into_iter().rev() {
        if asked.limit.is_some_and(|limit| lines.len() >= limit) {
            break;
        }
        let logged = Raw { sequence, body: &body, ids: store.ids() }.decode().map_err(|e| Error::Corrupt {
            what: format!("journal record {sequence}"),
            place: journal.folder().to_owned(),
            reason: e.to_string(),
        })?;
        let line = match logged.entry {
            Entry::Commit { record, .. } => match Checkpoint::decode(sequence, record, store.ids()) {
                Ok(checkpoint) => Line::of_commit(&checkpoint),
                Err(_) => continue,
            },
            entry => match entry.any_event() {
                Some((event, _)) => Line::of_event(sequence, &event, sessions.of(&event)?),
                None => continue,
            },
        };
        if asked.fits(&line.kind, line.at) && asked.session.is_none_or(|session| line.session.as_deref() == Some(session)) {
            lines.push(line);
        }
    }
    lines.reverse();
    Ok(lines)
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
