//! From events to deliveries.

use jiff::{SignedDuration, Timestamp};
use parhelia_store::{clock, journal::Journal};
use parhelia_wire::{
    event::Event,
    notification::{Delivery, Notification},
};

use super::{Outbox, Result, folder::State};
use crate::{
    feed,
    notify::{Priority, told::Teller},
};

/// Whoever configures a channel is told of what happened within this time, and of nothing before.
const FIRST: SignedDuration = SignedDuration::from_mins(10);
/// What is older is told to nobody any more: no channel was configured then, or nothing ran.
const LATE: SignedDuration = SignedDuration::from_hours(24);
/// Longer ago than this nobody remembers what they were told last.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(24 * 7);

/// Makes deliveries of the events behind the cursor, and moves it.
pub fn spool(outbox: &Outbox) -> Result<()> {
    let known = outbox.folder.state()?;
    let is_first = known.is_none();
    let mut state = known.unwrap_or_default();
    let view = outbox.store.refresh()?;
    let end = view.end().sequence;
    if end <= state.cursor && !is_first {
        // It may be an older copy of the store, in which the same sequences come again.
        if end < state.cursor {
            outbox.folder.set_state(&State { cursor: end, ..state })?;
        }
        return Ok(());
    }
    if is_first {
        state.cursor = beginning(outbox, end)?;
    }
    let now = clock::timestamp();
    let teller = Teller {
        store: outbox.store,
        view: &view,
        options: &outbox.config.notifications,
        budget: outbox.config.budget,
        program: &outbox.program,
    };
    let mut deliveries = Vec::new();
    for event in feed::behind(outbox.store, state.cursor)? {
        if is_recent(&event, now, if is_first { FIRST } else { LATE }) {
            for notification in teller.tell(&event)? {
                deliveries.extend(routed(outbox, &mut state, event.sequence, notification, now));
            }
        }
        state.cursor = event.sequence;
    }
    state.cursor = state.cursor.max(end);
    state.told.retain(|_, (at, _)| now.duration_since(*at) < FORGOTTEN);
    outbox.folder.add(&deliveries)?;
    outbox.folder.set_state(&state)
}

/// The sequence behind which the first round reads: the journal's last segment is enough.
fn beginning(outbox: &Outbox, end: u64) -> Result<u64> {
    let newest = Journal::of(outbox.store.layout()).segments()?.pop();
    Ok(newest.map_or(end, |first| first.saturating_sub(1)))
}

fn is_recent(event: &Event, now: Timestamp, age_max: SignedDuration) -> bool {
    event.at.parse::<Timestamp>().is_ok_and(|at| now.duration_since(at) < age_max)
}

/// The deliveries of a notification: one for each of its channels, unless the same was told of its session a short time ago.
fn routed(outbox: &Outbox, state: &mut State, sequence: u64, mut notification: Notification, now: Timestamp) -> Vec<Delivery> {
    let options = &outbox.config.notifications;
    let priority = [Priority::Info, Priority::Notice, Priority::Warning, Priority::Critical];
    let priority = priority.into_iter().find(|one| one.name() == notification.priority).unwrap_or(Priority::Critical);
    let channels = options.channels_of(priority);
    if channels.is_empty() {
        return Vec::new();
    }
    let key = format!("{} {}", notification.event, notification.session.as_deref().unwrap_or_default());
    let repeat = SignedDuration::from_mins(options.repeat_minutes.min(1 << 30) as i64);
    let last = state.told.get(&key).copied();
    if let Some((at, passed_over)) = last
        && priority != Priority::Critical
        && now.duration_since(at) < repeat
    {
        state.told.insert(key, (at, passed_over + 1));
        return Vec::new();
    }
    notification.repeated = last.map_or(0, |(_, passed_over)| passed_over);
    state.told.insert(key, (now, 0));
    let collected = SignedDuration::from_mins(options.digest_minutes.min(1 << 30) as i64);
    let not_before = if priority == Priority::Critical { now } else { now + collected };
    let delivery = |channel: String| Delivery {
        id: format!("{sequence:012}-{}-{channel}", notification.event),
        channel,
        has_failed: false,
        since: now,
        not_before,
        attempts: 0,
        error: None,
        notification: notification.clone(),
    };
    channels.into_iter().map(delivery).collect()
}
