//! From events to deliveries.

use jiff::{SignedDuration, Timestamp};
use parhelia_store::{clock, journal::Journal, view::View};
use parhelia_wire::{
    event::Event,
    notification::{Delivery, Notification},
};

use super::{Outbox, Result, folder::State};
use crate::{
    feed,
    notify::{Priority, channel::is_for_programs, told::Teller},
    trackers::acts::Planner,
};

/// Whoever configures a channel is told of what happened within this time, and of nothing before.
const FIRST: SignedDuration = SignedDuration::from_mins(10);
/// What is older is told to nobody any more: no channel was configured then, or nothing ran.
const LATE: SignedDuration = SignedDuration::from_hours(24);
/// ... but what is critical is, for longer than a weekend and its holidays.
const LATE_CRITICAL: SignedDuration = SignedDuration::from_hours(7 * 24);
/// An agent's next question, soon after one that was told, is told after this time if it is still open: who is answering them sees it anyway.
const NEXT_QUESTION: SignedDuration = SignedDuration::from_secs(30);
/// Longer ago than this nobody remembers what they were told last.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(24 * 7);

/// Makes deliveries of the events behind the cursor, and moves it.
pub fn spool(outbox: &Outbox) -> Result<()> {
    let known = outbox.folder.state()?;
    let is_first = known.is_none();
    let mut state = known.unwrap_or_default();
    let mut view = outbox.store.refresh()?;
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
    let has_trackers = outbox.config.integrations.are_on() || outbox.has_beads();
    let mut deliveries = Vec::new();
    for event in feed::behind(outbox.store, state.cursor)? {
        if is_recent(&event, now, if is_first { FIRST } else { LATE }) {
            let planner = Planner { store: outbox.store, view: &view, reach: &outbox.reach(), now };
            if has_trackers && planner.link_found(&event, &mut state.told)? {
                view = outbox.store.refresh()?;
            }
            deliveries.extend(of_event(outbox, &view, &mut state, &event, has_trackers, now)?);
        } else if !is_first && is_recent(&event, now, LATE_CRITICAL) {
            let is_critical = |one: &Delivery| one.notification.priority == Priority::Critical.name();
            deliveries.extend(of_event(outbox, &view, &mut state, &event, false, now)?.into_iter().filter(is_critical));
        }
        state.cursor = event.sequence;
    }
    state.cursor = state.cursor.max(end);
    state.told.retain(|_, (at, _)| now.duration_since(*at) < FORGOTTEN);
    outbox.folder.add(&deliveries, &state)
}

/// The deliveries that follow from an event.
fn of_event(
    outbox: &Outbox,
    view: &View,
    state: &mut State,
    event: &Event,
    has_trackers: bool,
    now: Timestamp,
) -> Result<Vec<Delivery>> {
    let teller = Teller {
        store: outbox.store,
        view,
        options: &outbox.config.notifications,
        budget: outbox.config.budget,
        program: &outbox.program,
    };
    let mut notifications = teller.tell(event)?;
    let mut deliveries = Vec::new();
    for notification in &notifications {
        deliveries.extend(routed(outbox, state, event.sequence, notification, now));
    }
    if has_trackers {
        notifications.extend(teller.tell_link(event)?);
        let planner = Planner { store: outbox.store, view, reach: &outbox.reach(), now };
        deliveries.extend(planner.acts(event, &notifications, &mut state.told)?);
    }
    Ok(deliveries)
}

/// The sequence behind which the first round reads: the journal's last segment is enough.
fn beginning(outbox: &Outbox, end: u64) -> Result<u64> {
    let newest = Journal::of(outbox.store.layout()).segments()?.pop();
    Ok(newest.map_or(end, |first| first.saturating_sub(1)))
}

fn is_recent(event: &Event, now: Timestamp, age_max: SignedDuration) -> bool {
    now.duration_since(event.at) < age_max
}

/// The deliveries of a notification: one for each of its channels, unless people there were told the same of its session a short time ago.
fn routed(outbox: &Outbox, state: &mut State, sequence: u64, notification: &Notification, now: Timestamp) -> Vec<Delivery> {
    let options = &outbox.config.notifications;
    let is_critical = notification.priority == Priority::Critical.name();
    let minutes = |minutes: u64| SignedDuration::from_mins(minutes.min(1 << 30) as i64);
    let mut deliveries = Vec::new();
    for channel in options.channels_of(Priority::named(&notification.priority)) {
        let mut notification = notification.clone();
        let mut not_before = if is_critical { now } else { now + minutes(options.digest_minutes) };
        if !options.channels.get(&channel).is_some_and(is_for_programs) {
            let session = notification.session.as_deref().unwrap_or_default();
            let key = format!("{channel} {} {session}", notification.event);
            let last = state.told.get(&key).copied();
            // One that is ahead was noted by a clock that was wrong.
            let is_soon = |at| at <= now && now.duration_since(at) < minutes(options.repeat_minutes);
            match last.filter(|(at, _)| !is_critical && is_soon(*at)) {
                Some(_) if notification.event == "session.waiting" => not_before = not_before.max(now + NEXT_QUESTION),
                Some((at, passed_over)) => {
                    state.told.insert(key, (at, passed_over + 1));
                    continue;
                }
                None => {}
            }
            notification.repeated = last.map_or(0, |(_, passed_over)| passed_over);
            state.told.insert(key, (now, 0));
        }
        deliveries.push(Delivery {
            id: format!("{sequence:012}-{}-{channel}", notification.event),
            channel,
            has_failed: false,
            since: now,
            not_before,
            attempts: 0,
            error: None,
            notification,
            act: None,
            holds_channel: false,
            lacking: None,
        });
    }
    deliveries
}
