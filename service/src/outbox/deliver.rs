//! From events to deliveries, and from these to their receivers.

use std::{
    collections::{BTreeMap, BTreeSet},
    thread::{self, ScopedJoinHandle},
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp, Zoned, civil::Time};
use parhelia_session::config::{Notifications, channels::Channel};
use parhelia_store::clock;
use parhelia_wire::notification::{Delivery, Notification};

use super::{ATTEMPTS_MAX, Outbox, Result, Round, spool::spool};
use crate::{
    notify::{
        Priority,
        channel::{Message, Trouble, is_for_programs, send},
        text::digest,
    },
    trackers::{CHANNEL, acts::link_created},
};

/// The first pause after a try that failed; each further one is twice as long.
const PAUSE: Duration = Duration::from_secs(10);
/// ... but not longer than this.
const PAUSE_MAX: Duration = Duration::from_secs(3600);
/// The pause after a try that came to nothing here, for want of a secret: longer than a process of a verb waits for what is due.
const OWN_PAUSE: Duration = Duration::from_secs(1200);
/// ... and the time after which such a delivery has failed for good.
const OWN_MAX: SignedDuration = SignedDuration::from_hours(7 * 24);
/// So many notifications are put into one message.
const TOGETHER_MAX: usize = 50;
/// ... and only as many as this has room for, in characters of the text: receivers cut longer ones off.
const TOGETHER_CHARACTERS_MAX: usize = 900;
/// A channel's deliveries are listed anew after this time: some may have been dropped, or be due again.
const TURN: Duration = Duration::from_secs(20);
/// So often it is looked for new events and for what is due, while a channel is at work.
const TICK: Duration = Duration::from_millis(300);
/// So often it is looked whether a channel is done.
const GLANCE: Duration = Duration::from_millis(20);
/// A round begins nothing more after this time; the next one reads the configuration again.
const ROUND_MAX: Duration = Duration::from_secs(300);

/// Deliveries that are due, by channel.
type Due = BTreeMap<String, Vec<Delivery>>;

/// Makes deliveries of new events and tries what is due, until nothing is, or `stopped` says so. Each channel has a thread of its own, so that none
/// waits for another.
pub fn deliver(outbox: &Outbox, stopped: &dyn Fn() -> bool) -> Result<Round> {
    let began = Instant::now();
    let mut round = Round::default();
    let mut outcome = Ok(());
    thread::scope(|scope| {
        let mut busy: BTreeMap<String, ScopedJoinHandle<'_, Result<Round>>> = BTreeMap::new();
        let mut given_up = BTreeSet::new();
        let mut is_spooling = true;
        loop {
            if outcome.is_ok() && !stopped() && began.elapsed() < ROUND_MAX {
                let due = look(outbox, &mut round, &mut is_spooling).map_err(|e| outcome = Err(e)).unwrap_or_default();
                for (name, deliveries) in due.into_iter().filter(|(name, _)| !given_up.contains(name)) {
                    let on = name.clone();
                    let work = move || on_channel(outbox, &on, &deliveries, clock::timestamp());
                    busy.entry(name).or_insert_with(|| scope.spawn(work));
                }
            }
            if busy.is_empty() {
                return;
            }
            let next = Instant::now() + TICK;
            while Instant::now() < next && !busy.values().any(ScopedJoinHandle::is_finished) {
                thread::sleep(GLANCE);
            }
            for (name, thread) in busy.extract_if(.., |_, thread| thread.is_finished()) {
                match thread.join() {
                    Ok(Ok(part)) => round.add(part),
                    Ok(Err(e)) => outcome = Err(e),
                    Err(_) => {
                        round.trouble(&name, "its thread panicked");
                        given_up.insert(name);
                    }
                }
            }
        }
    });
    outcome.map(|()| round)
}

/// Makes deliveries of new events, and looks what is due now and when something is next.
fn look(outbox: &Outbox, round: &mut Round, is_spooling: &mut bool) -> Result<Due> {
    // What waits is delivered whatever is wrong with new events. These are not tried again in this round: on a full disk, what was sent makes
    // room for writing it down once more.
    if *is_spooling && let Err(e) = spool(outbox) {
        *is_spooling = false;
        round.trouble("of new events", &e.to_string());
    }
    let (now, quiet_until) = (clock::timestamp(), quiet_until(&outbox.config.notifications, &Zoned::now()));
    let mut due = Due::default();
    round.next = None;
    for delivery in outbox.folder.list()? {
        if delivery.has_failed {
            continue;
        }
        let is_critical = delivery.notification.priority == Priority::Critical.name();
        // A change of an issue wakes nobody.
        let is_quiet = !is_critical && delivery.act.is_none();
        let held = quiet_until.filter(|_| is_quiet).unwrap_or(delivery.not_before).max(delivery.not_before);
        match held <= now {
            true => due.entry(delivery.channel.clone()).or_default().push(delivery),
            false => round.next = round.next.into_iter().chain([held]).min(),
        }
    }
    if !due.is_empty() {
        outbox.folder.ensure_changeable()?;
        // That is what a round ends with which has no time for it.
        round.next = Some(now);
    }
    Ok(due)
}

/// Tries the deliveries of one channel.
fn on_channel(outbox: &Outbox, name: &str, deliveries: &[Delivery], now: Timestamp) -> Result<Round> {
    let mut round = Round::default();
    let channel = outbox.config.notifications.channels.get(name);
    let is_one_by_one = channel.is_some_and(is_for_programs) || name.starts_with(CHANNEL);
    let mut trouble: Option<Trouble> = None;
    let began = Instant::now();
    for part in parts(deliveries, is_one_by_one) {
        if began.elapsed() > TURN && trouble.is_none() {
            break;
        }
        // One that is down, or asks for patience, is not asked again for each.
        if trouble.as_ref().is_none_or(|trouble| trouble.is_for_good) {
            trouble = sent(outbox, channel, part).err();
            if let Some(trouble) = &trouble {
                round.trouble(name, &trouble.why);
            }
        }
        for delivery in part {
            outbox.folder.change(&delivery.id, |delivery| Some(after(&delivery, trouble.as_ref()?, now)))?;
        }
        round.sent += if trouble.is_none() { part.len() as u64 } else { 0 };
    }
    Ok(round)
}

/// Deliveries that are sent as one message each: what is critical by itself, and others as far as a message has room for them.
fn parts(deliveries: &[Delivery], is_one_by_one: bool) -> Vec<&[Delivery]> {
    let is_critical = |one: &Delivery| one.notification.priority == Priority::Critical.name();
    let (mut parts, mut from, mut characters) = (Vec::new(), 0, 0);
    for (at, delivery) in deliveries.iter().enumerate() {
        let length = digest(&[&delivery.notification]).1.chars().count() + 1;
        let is_full = at - from >= TOGETHER_MAX || characters + length > TOGETHER_CHARACTERS_MAX;
        let is_apart = is_one_by_one || is_critical(delivery) || at > from && is_critical(&deliveries[at - 1]);
        if at > from && (is_full || is_apart) {
            parts.push(&deliveries[from..at]);
            (from, characters) = (at, 0);
        }
        characters += length;
    }
    if from < deliveries.len() {
        parts.push(&deliveries[from..]);
    }
    parts
}

fn sent(outbox: &Outbox, channel: Option<&Channel>, part: &[Delivery]) -> std::result::Result<(), Trouble> {
    if let [delivery] = part
        && let Some(act) = &delivery.act
    {
        let created = outbox.reach().perform(delivery, act)?;
        let of_session = created.as_ref().zip(delivery.notification.session.as_deref());
        return match of_session {
            // It is tried again: the issue is found by its mark.
            Some((issue, session)) => link_created(outbox.store, session, issue)
                .map_err(|e| Trouble::for_now(format!("the issue cannot be linked: {e}"))),
            None => Ok(()),
        };
    }
    let channel = channel.ok_or_else(|| Trouble::for_good("there is no such channel in the configuration any more"))?;
    let notifications: Vec<&Notification> = part.iter().map(|delivery| &delivery.notification).collect();
    send(&outbox.config.notifications, channel, &Message::of(&notifications), &|name| outbox.variable(name))
}

/// A delivery after a try that failed.
fn after(delivery: &Delivery, trouble: &Trouble, now: Timestamp) -> Delivery {
    let attempts = delivery.attempts + u32::from(!trouble.is_own);
    let pause = PAUSE.saturating_mul(1 << delivery.attempts.min(16)).min(PAUSE_MAX).max(trouble.after.unwrap_or_default());
    let pause = if trouble.is_own { OWN_PAUSE } else { pause };
    let is_old = trouble.is_own && now.duration_since(delivery.since) > OWN_MAX;
    Delivery {
        has_failed: trouble.is_for_good || is_old || attempts >= ATTEMPTS_MAX,
        attempts,
        not_before: now + SignedDuration::try_from(pause).unwrap_or(SignedDuration::from_hours(1)),
        error: Some(trouble.why.clone()),
        ..delivery.clone()
    }
}

/// The end of the quiet hours, if it is within them.
fn quiet_until(options: &Notifications, now: &Zoned) -> Option<Timestamp> {
    let (from, to) = options.quiet()?;
    let time = now.time();
    let is_quiet = if from < to { (from..to).contains(&time) } else { time >= from || time < to };
    is_quiet.then(|| end_of(to, now)).flatten()
}

/// The next time at which a clock shows this.
fn end_of(to: Time, now: &Zoned) -> Option<Timestamp> {
    let today = now.date().to_datetime(to).to_zoned(now.time_zone().clone()).ok()?;
    let end =
        if today > *now { today } else { now.date().tomorrow().ok()?.to_datetime(to).to_zoned(now.time_zone().clone()).ok()? };
    Some(end.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notify::text::tests::sample;

    fn quiet(hours: &str, now: &str) -> Option<String> {
        let options = Notifications { quiet_hours: Some(hours.into()), ..Notifications::default() };
        let now: Zoned = format!("{now}[Europe/Berlin]").parse().unwrap();
        quiet_until(&options, &now).map(|end| end.to_zoned(now.time_zone().clone()).datetime().to_string())
    }

    #[test]
    fn what_is_critical_is_a_message_by_itself_and_none_is_cut_off() {
        let now: Timestamp = "2026-01-20T12:00:00Z".parse().unwrap();
        let of = |number: usize, priority: &str, name: &str| {
            let notification = Notification { priority: priority.into(), session_name: Some(name.into()), ..sample() };
            let (id, channel) = (number.to_string(), "ntfy".into());
            Delivery {
                id,
                channel,
                has_failed: false,
                since: now,
                not_before: now,
                attempts: 0,
                error: None,
                notification,
                act: None,
            }
        };
        let sizes = |deliveries: &[Delivery], one: bool| parts(deliveries, one).iter().map(|part| part.len()).collect::<Vec<_>>();
        let few: Vec<Delivery> =
            ["notice", "info", "critical", "notice"].iter().enumerate().map(|(n, p)| of(n, p, "a")).collect();
        assert_eq!(sizes(&few, false), [2, 1, 1]);
        assert_eq!(sizes(&few, true), [1, 1, 1, 1]);
        let long: Vec<Delivery> = (0..6).map(|number| of(number, "notice", &"x".repeat(280))).collect();
        assert_eq!(sizes(&long, false), [2, 2, 2]);
        assert_eq!(sizes(&[], false), [0; 0]);
    }

    #[test]
    fn quiet_hours_end_on_the_same_day_or_on_the_next() {
        assert_eq!(quiet("22:00-07:00", "2026-01-20T21:59:59+01:00"), None);
        assert_eq!(quiet("22:00-07:00", "2026-01-20T22:00:00+01:00").as_deref(), Some("2026-01-21T07:00:00"));
        assert_eq!(quiet("22:00-07:00", "2026-01-21T06:59:00+01:00").as_deref(), Some("2026-01-21T07:00:00"));
        assert_eq!(quiet("22:00-07:00", "2026-01-21T07:00:00+01:00"), None);
        assert_eq!(quiet("12:00-13:30", "2026-01-21T12:30:00+01:00").as_deref(), Some("2026-01-21T13:30:00"));
        // The night in which clocks are put forward.
        assert_eq!(quiet("22:00-02:30", "2026-03-29T01:30:00+01:00").as_deref(), Some("2026-03-29T03:30:00"));
    }

    #[test]
    fn a_try_that_failed_is_followed_by_later_ones_and_at_last_by_none() {
        let now: Timestamp = "2026-01-20T12:00:00Z".parse().unwrap();
        let mut delivery = Delivery {
            id: "1".into(),
            channel: "slack".into(),
            has_failed: false,
            since: now,
            not_before: now,
            attempts: 0,
            error: None,
            notification: sample(),
            act: None,
        };
        let down = Trouble::for_now("down");
        let mut pauses = Vec::new();
        while !delivery.has_failed {
            delivery = after(&delivery, &down, now);
            pauses.push(delivery.not_before.duration_since(now).as_secs());
        }
        assert_eq!(pauses[..4], [10, 20, 40, 80]);
        assert_eq!((pauses.len(), pauses.last()), (ATTEMPTS_MAX as usize, Some(&3600)));
        let patient = Trouble { after: Some(Duration::from_secs(600)), ..down };
        let first = after(&Delivery { attempts: 0, ..delivery.clone() }, &patient, now);
        assert_eq!(first.not_before.duration_since(now).as_secs(), 600);
        let untried = after(
            &Delivery { attempts: ATTEMPTS_MAX - 1, has_failed: false, ..delivery.clone() },
            &Trouble::of_own("no variable"),
            now,
        );
        assert_eq!((untried.has_failed, untried.attempts), (false, ATTEMPTS_MAX - 1));
        assert_eq!(untried.not_before.duration_since(now).as_secs(), 1200);
        assert!(after(&untried, &Trouble::of_own("no variable"), now + SignedDuration::from_hours(200)).has_failed);
        assert!(after(&Delivery { attempts: 0, ..delivery }, &Trouble::for_good("no"), now).has_failed);
    }
}
