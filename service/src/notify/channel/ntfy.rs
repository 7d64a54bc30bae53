//! ntfy: a message to a topic, as JSON (docs.ntfy.sh/publish/#publish-as-json), so that no text becomes a header.

use parhelia_host::config::{
    Notifications,
    channels::{Ntfy, secret},
};
use serde::Serialize;

use super::{Env, Message, Trouble, cut, kept_secret, link_line, plain};
use crate::{http, notify::text::unlinked};

/// A longer message would be sent as an attachment, in bytes; a character may have four.
const CHARACTERS_MAX: usize = 1000;

#[derive(Serialize)]
struct Body<'a> {
    topic: String,
    title: &'a str,
    message: String,
    /// From 1 to 5; 3 is the usual one.
    priority: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    click: Option<&'a str>,
}

/// Sends a message to the topic, with ntfy's priority for the most urgent notification in it.
pub fn send(options: &Notifications, ntfy: &Ntfy, message: &Message, env: Env) -> Result<(), Trouble> {
    let priority = match () {
        () if message.is("critical") => 5,
        () if message.is("warning") => 4,
        () if message.is("notice") => 3,
        () => 2,
    };
    let link = link_line(message, str::to_owned);
    let text = cut(&unlinked(&message.body), CHARACTERS_MAX.saturating_sub(link.chars().count())) + &link;
    let (topic, title) = (plain(&ntfy.topic, env)?, unlinked(&message.title));
    let body = Body { topic, title: &title, message: text, priority, click: message.link() };
    let body = serde_json::to_string(&body).map_err(|e| Trouble::for_good(e.to_string()))?;
    let token = kept_secret(secret(ntfy.token.as_ref(), ntfy.token_file.as_ref(), env))?;
    let token = token.map(|token| format!("Bearer {token}"));
    let headers: Vec<(&str, &str)> = token.iter().map(|token| ("Authorization", token.as_str())).collect();
    http::post(options.insecure_loopback, &plain(&ntfy.server, env)?, &headers, &body)
}
