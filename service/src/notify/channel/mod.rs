//! Channels: each puts a notification into the form that its receiver knows.

mod discord;
mod email;
mod ntfy;
mod slack;
mod webhook;

use std::ffi::OsString;

use parhelia_host::config::{
    Notifications,
    channels::{Channel, Hook, filled, secret},
};

use super::{Notification, text};
pub use crate::http::Trouble;

type Env<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// Several notifications as one message.
pub struct Message<'a> {
    /// The notifications; at least one.
    pub notifications: &'a [&'a Notification],
    /// The first line.
    pub title: String,
    /// The lines below it, without the link.
    pub body: String,
}

impl<'a> Message<'a> {
    /// The message of some notifications.
    pub fn of(notifications: &'a [&'a Notification]) -> Self {
        let (title, body) = match notifications {
            [one] => (text::title(one), text::body(one)),
            several => text::digest(several),
        };
        Message { notifications, title, body }
    }

    /// Its id, the same each time that it is sent.
    fn id(&self) -> &str {
        self.notifications.first().map_or("", |first| &first.id)
    }

    /// The highest priority in it.
    fn is(&self, priority: &str) -> bool {
        self.notifications.iter().any(|one| one.priority == priority)
    }

    /// A link for all of it.
    fn link(&self) -> Option<&str> {
        self.notifications.first().and_then(|first| first.link.as_deref())
    }
}

/// True if a channel is for programs, which want each notification by itself.
pub fn is_for_programs(channel: &Channel) -> bool {
    matches!(channel, Channel::Webhook(_))
}

/// Sends a message on a channel.
pub fn send(options: &Notifications, channel: &Channel, message: &Message, env: Env) -> Result<(), Trouble> {
    match channel {
        Channel::Slack(hook) => slack::send(options, hook, message, env),
        Channel::Discord(hook) => discord::send(options, hook, message, env),
        Channel::Ntfy(ntfy) => ntfy::send(options, ntfy, message, env),
        Channel::Webhook(webhook) => webhook::send(options, webhook, message, env),
        Channel::Email(email) => email::send(options, email, message, env),
    }
}

/// A secret of the configuration. That it is not there may pass: a variable may be set in another process, a disk be mounted.
fn kept_secret(found: Result<Option<String>, String>) -> Result<Option<String>, Trouble> {
    found.map_err(Trouble::of_own)
}

/// A text of the configuration.
fn plain(text: &str, env: Env) -> Result<String, Trouble> {
    filled(text, env).map_err(Trouble::of_own)
}

/// The address of a webhook.
fn address(hook: &Hook, env: Env) -> Result<String, Trouble> {
    let found = kept_secret(secret(hook.webhook_url.as_ref(), hook.webhook_url_file.as_ref(), env))?;
    found.ok_or_else(|| Trouble::for_good("its address is not configured"))
}

/// The link of a message as its last line, as a receiver writes it; nothing where there is none.
fn link_line(message: &Message, written: impl Fn(&str) -> String) -> String {
    message.link().map(|link| format!("\n{}", written(link))).unwrap_or_default()
}

/// A text cut to so many characters.
fn cut(text: &str, characters_max: usize) -> String {
    match text.char_indices().nth(characters_max.saturating_sub(1)) {
        Some((end, _)) if text.chars().count() > characters_max => format!("{}…", &text[..end]),
        _ => text.to_owned(),
    }
}
