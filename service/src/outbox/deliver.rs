//! From events to deliveries, and from these to their receivers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicU64, Ordering},
    thread::{self, ScopedJoinHandle},
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp, Zoned, civil::Time};
use parhelia_agent::process::Identity;
use parhelia_host::config::{Notifications, channels::Channel};
use parhelia_ledger::LedgerView as _;
use parhelia_life::overview::attention::{self, State};
use parhelia_store::clock;
use parhelia_wire::notification::{Delivery, Notification};

use super::{Outbox, Result, Round, spool::spool};
use crate::{
    notify::{
        Priority,
        channel::{Message, Trouble, is_for_programs, send},
        text::{self, digest},
    },
    trackers::{
        CHANNEL,
        acts::{is_healed, link_created},
    },
};

/// The first pause after a try that failed; each further one is twice as long.
const PAUSE: Duration = Duration::from_secs(10);
/// ... but not longer than this.
const PAUSE_MAX: Duration = Duration::from_secs(3600);
/// The pause after a try that came to nothing here, for want of a secret: longer than a process of a verb waits for what is due.
const OWN_PAUSE: Duration = Duration::from_secs(1200);
/// A delivery that was tried in vain for so long has failed for good: longer than a weekend and its holidays.
const TRIED_MAX: SignedDuration = SignedDuration::from_hours(7 * 24);
/// After so many tries in vain, another session's message is tried before the channel counts as down.
const SUSPECT_FROM: u32 = 3;
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
                        round.trouble(&format!("channel {name}"), "its thread panicked");
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
        round.trouble("new events", &e.to_string());
    }
    let (now, quiet_until) = (clock::timestamp(), quiet_until(&outbox.config.notifications, &Zoned::now()));
    let mut all = outbox.folder.list()?;
    for delivery in all.extract_if(.., |delivery| is_outdated(outbox, delivery)) {
        outbox.folder.change(&delivery.id, |_| None)?;
    }
    let (due, next) = sorted(all, now, quiet_until, &own_process());
    round.next = next;
    if !due.is_empty() {
        outbox.folder.ensure_changeable()?;
        // That is what a round ends with which has no time for it.
        round.next = Some(now);
    }
    Ok(due)
}

/// True of a word to a person about an agent that waited, or idled, when the channel was down or it was night, and does not any more. Programs hear of
/// everything that was.
fn is_outdated(outbox: &Outbox, delivery: &Delivery) -> bool {
    let state = match delivery.notification.event.as_str() {
        "session.waiting" => State::Waiting,
        "session.idle" => State::Idle,
        _ => return false,
    };
    let is_for_person =
        outbox.config.notifications.channels.get(&delivery.channel).is_some_and(|channel| !is_for_programs(channel));
    let session = delivery.notification.session.as_ref().filter(|_| is_for_person && !delivery.has_failed);
    // Where the store does not tell, it may still be so.
    let session = session.and_then(|session| outbox.store.view().session(session).ok().flatten());
    let why = &delivery.notification.reason;
    session.is_some_and(|session| {
        attention::recorded(&session)
            .is_none_or(|recorded| recorded.state != state || (why.is_some() && recorded.why.as_deref().map(text::field) != *why))
    })
}

/// Deliveries that are due, by channel, and the time at which the next one is. A channel that is down or asks for patience holds all of its own, and
/// nothing of a session overtakes what could not be sent of it.
fn sorted(all: Vec<Delivery>, now: Timestamp, quiet_until: Option<Timestamp>, process: &str) -> (Due, Option<Timestamp>) {
    // Another process may have what one lacked, such as a secret.
    let is_void = |delivery: &Delivery| delivery.lacking.as_ref().is_some_and(|lacking| lacking != process);
    let waits = |delivery: &&Delivery| !delivery.has_failed && !is_void(delivery);
    let mut channels: BTreeMap<String, Timestamp> = BTreeMap::new();
    for delivery in all.iter().filter(waits).filter(|delivery| delivery.holds_channel) {
        let until = channels.entry(delivery.channel.clone()).or_insert(delivery.not_before);
        *until = delivery.not_before.max(*until);
    }
    let mut sessions: BTreeMap<(String, Option<String>), Timestamp> = BTreeMap::new();
    let (mut due, mut next) = (Due::default(), None);
    for delivery in all.into_iter().filter(|delivery| !delivery.has_failed) {
        let is_critical = delivery.notification.priority == Priority::Critical.name();
        // A change of an issue wakes nobody.
        let is_quiet = !is_critical && delivery.act.is_none();
        let of_session = (delivery.channel.clone(), delivery.notification.session.clone());
        let own = if is_void(&delivery) { delivery.since } else { delivery.not_before };
        let quiet = quiet_until.filter(|_| is_quiet);
        let others = [channels.get(&delivery.channel).copied(), sessions.get(&of_session).copied(), quiet];
        let held = others.into_iter().flatten().fold(own, Timestamp::max);
        if delivery.attempts > 0 && own > now {
            sessions.insert(of_session, held);
        }
        match held <= now {
            true => due.entry(delivery.channel.clone()).or_insert_with(Vec::new).push(delivery),
            false => next = next.into_iter().chain([held]).min(),
        }
    }
    (due, next)
}

/// Number of times that this process was asked to read its configuration again.
pub(super) static RELOADS: AtomicU64 = AtomicU64::new(0);

/// This process with the configuration that it has now, as no other one is called.
fn own_process() -> String {
    let (process, reloads) = (std::process::id(), RELOADS.load(Ordering::Relaxed));
    let start = Identity::of(process as i32).map_or(0, |own| own.start_time);
    format!("{process}-{start}-{reloads}")
}

/// Tries the deliveries of one channel, in order.
fn on_channel(outbox: &Outbox, name: &str, deliveries: &[Delivery], now: Timestamp) -> Result<Round> {
    let mut round = Round::default();
    let channel = outbox.config.notifications.channels.get(name);
    let is_one_by_one = channel.is_some_and(is_for_programs) || name.starts_with(CHANNEL);
    let began = Instant::now();
    // Something that was not taken again and again, though the channel takes other things.
    let mut refused: Option<(&[Delivery], Trouble)> = None;
    let of_sessions = |part: &[Delivery]| part.iter().map(|one| one.notification.session.clone()).collect::<BTreeSet<_>>();
    let mut held = BTreeSet::new();
    for part in parts(deliveries, is_one_by_one) {
        if began.elapsed() > TURN {
            break;
        }
        let sessions = of_sessions(part);
        if !held.is_disjoint(&sessions) {
            held.extend(sessions);
            continue;
        }
        let trouble = sent(outbox, channel, part).err();
        if let Some(trouble) = &trouble {
            round.trouble(&format!("channel {name}"), &trouble.why);
        }
        match trouble {
            None => {
                for delivery in part {
                    outbox.folder.change(&delivery.id, |_| None)?;
                }
                round.sent += part.len() as u64;
            }
            Some(trouble) if trouble.is_for_good => note(outbox, part, &trouble, false, now)?,
            // It may be this message that the channel does not take: another session's is tried as well.
            Some(trouble) if refused.is_none() && is_suspect(part, &trouble) => {
                held.extend(sessions);
                refused = Some((part, trouble));
            }
            // One that is down, or asks for patience, is not asked again for each.
            Some(trouble) => {
                if let Some((part, trouble)) = refused.take() {
                    note(outbox, part, &trouble, true, now)?;
                }
                note(outbox, part, &trouble, true, now)?;
                return Ok(round);
            }
        }
    }
    if let Some((part, trouble)) = refused {
        note(outbox, part, &trouble, round.sent == 0, now)?;
    }
    Ok(round)
}

/// True if a message failed so often that the reason may be the message, and not its channel.
fn is_suspect(part: &[Delivery], trouble: &Trouble) -> bool {
    !trouble.is_own && trouble.after.is_none() && part.iter().all(|delivery| delivery.attempts >= SUSPECT_FROM)
}

/// Notes that a message was not taken; with `holds_channel`, that the whole channel waits until it is tried again.
fn note(outbox: &Outbox, part: &[Delivery], trouble: &Trouble, holds_channel: bool, now: Timestamp) -> Result<()> {
    let process = trouble.is_own.then(own_process);
    for delivery in part {
        let failed = |delivery: Delivery| Delivery {
            holds_channel: holds_channel && !trouble.is_for_good,
            lacking: process.clone(),
            ..after(&delivery, trouble, now)
        };
        outbox.folder.change(&delivery.id, |delivery| Some(failed(delivery)))?;
    }
    Ok(())
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
        let session = delivery.notification.session.as_deref();
        let is_healed = |session: &str| is_healed(outbox.store, session).unwrap_or_default();
        if act.issue.is_none() && delivery.not_before > delivery.since && session.is_some_and(is_healed) {
            return Ok(());
        }
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
    Delivery {
        has_failed: trouble.is_for_good || now.duration_since(delivery.since) > TRIED_MAX,
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
                holds_channel: false,
                lacking: None,
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

    fn waiting(id: &str, session: &str, now: Timestamp) -> Delivery {
        Delivery {
            id: id.into(),
            channel: "slack".into(),
            has_failed: false,
            since: now,
            not_before: now,
            attempts: 0,
            error: None,
            notification: Notification { session: Some(session.into()), ..sample() },
            act: None,
            holds_channel: false,
            lacking: None,
        }
    }

    #[test]
    fn a_try_that_failed_is_followed_by_later_ones_and_at_last_by_none() {
        let now: Timestamp = "2026-01-20T12:00:00Z".parse().unwrap();
        let mut delivery = waiting("1", "a", now);
        let down = Trouble::for_now("down");
        let (mut pauses, mut at) = (Vec::new(), now);
        while !delivery.has_failed {
            delivery = after(&delivery, &down, at);
            pauses.push(delivery.not_before.duration_since(at).as_secs());
            at = delivery.not_before;
        }
        assert_eq!(pauses[..4], [10, 20, 40, 80]);
        assert_eq!(pauses.last(), Some(&3600));
        assert!(
            delivery.not_before.duration_since(now) > SignedDuration::from_hours(7 * 24),
            "a weekend is no reason to give up"
        );
        let patient = Trouble { after: Some(Duration::from_secs(600)), ..down };
        let first = after(&waiting("1", "a", now), &patient, now);
        assert_eq!(first.not_before.duration_since(now).as_secs(), 600);
        let untried = after(&Delivery { attempts: 29, ..waiting("1", "a", now) }, &Trouble::of_own("no variable"), now);
        assert_eq!((untried.has_failed, untried.attempts), (false, 29));
        assert_eq!(untried.not_before.duration_since(now).as_secs(), 1200);
        assert!(after(&untried, &Trouble::of_own("no variable"), now + SignedDuration::from_hours(200)).has_failed);
        assert!(after(&waiting("1", "a", now), &Trouble::for_good("no"), now).has_failed);
    }

    #[test]
    fn patience_that_a_channel_asks_for_holds_all_that_goes_there() {
        let now: Timestamp = "2026-01-20T12:00:00Z".parse().unwrap();
        let later = now + SignedDuration::from_secs(120);
        let ids = |(due, next): (Due, Option<Timestamp>)| {
            let due: Vec<_> = due.into_values().flatten().map(|delivery| delivery.id).collect();
            (due.join(" "), next)
        };
        let tried = Delivery { attempts: 1, not_before: later, error: Some("429".into()), ..waiting("1", "a", now) };
        let held = Delivery { holds_channel: true, ..tried.clone() };
        let critical = Notification { priority: Priority::Critical.name().into(), ..waiting("3", "b", now).notification };
        let other = Delivery { channel: "ntfy".into(), ..waiting("4", "a", now) };
        let all = |first: &Delivery| {
            let critical = Delivery { notification: critical.clone(), ..waiting("3", "b", now) };
            vec![first.clone(), waiting("2", "a", now), critical, other.clone()]
        };
        assert_eq!(ids(sorted(all(&held), now, None, "me")), ("4".into(), Some(later)));
        assert_eq!(ids(sorted(all(&held), later, None, "me")), ("4 1 2 3".into(), None));
        // Where it is the message that is not taken, others go on, but for those of its session.
        assert_eq!(ids(sorted(all(&tried), now, None, "me")), ("4 3".into(), Some(later)));
        // What another process lacked, this one may have.
        let lacking = |process: &str| Delivery { attempts: 0, lacking: Some(process.into()), ..held.clone() };
        assert_eq!(ids(sorted(all(&lacking("me")), now, None, "me")), ("4".into(), Some(later)));
        assert_eq!(ids(sorted(all(&lacking("before")), now, None, "me")), ("4 1 2 3".into(), None));
    }
}
