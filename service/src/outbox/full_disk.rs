//! Telling of a full disk: nothing can be written down then, so that the message is sent from memory.

use std::time::{Duration, Instant};

use parhelia_store::{ROOM_AGAIN, clock};
use parhelia_wire::notification::Notification;

use super::Outbox;
use crate::{
    log::say,
    notify::{
        Priority,
        channel::{Message, send},
        told::of_store,
    },
    verdict,
};

/// People are told again after this time.
const REPEAT: Duration = Duration::from_secs(1800);
/// A message that no channel took is tried again after this time.
const RETRY: Duration = Duration::from_secs(30);

/// The messages about a full disk.
#[derive(Default)]
pub struct Room {
    /// True since people were told that it is full.
    is_told: bool,
    /// The time before which nothing is told.
    next: Option<Instant>,
}

impl Room {
    /// Looks how much room there is, and tells on the channels of critical notifications where that is news.
    pub fn look(&mut self, outbox: &Outbox<'_>) {
        let now = Instant::now();
        let free = outbox.store.free_bytes().unwrap_or(u64::MAX);
        let (event, title, priority, reason) = match verdict::is_full(outbox.store) {
            Some(why) if self.next.is_none_or(|next| next <= now) => {
                ("store.full", "The store is full: checkpoints fail", Priority::Critical, why)
            }
            None if self.is_told && free >= ROOM_AGAIN => {
                let reason = format!("{free} bytes are free");
                ("store.has_room", "The store has room again", Priority::Warning, reason)
            }
            _ => return,
        };
        let notification = Notification {
            reason: Some(reason.clone()),
            command: Some(format!("{} gc", outbox.program)),
            link: outbox.config.notifications.page.clone(),
            ..of_store(outbox.store, event, title, priority, clock::timestamp())
        };
        if !self.is_told || event == "store.has_room" {
            say(&format!("{title}: {reason}"));
        }
        let is_sent = told_at_once(outbox, &notification);
        self.next = Some(now + if is_sent { REPEAT } else { RETRY });
        (self.is_told, self.next) = if event == "store.full" { (true, self.next) } else { (false, None) };
    }
}

/// Sends a notification at once on each channel of critical ones. True if each has taken it.
fn told_at_once(outbox: &Outbox<'_>, notification: &Notification) -> bool {
    let options = &outbox.config.notifications;
    let mut is_sent = true;
    for name in options.channels_of(Priority::Critical) {
        let Some(channel) = options.channels.get(&name) else { continue };
        if let Err(trouble) = send(options, channel, &Message::of(&[notification]), &|name| outbox.variable(name)) {
            say(&format!("channel {name} was not told: {}", trouble.why));
            is_sent = false;
        }
    }
    is_sent
}
