//! Slack: an incoming webhook (api.slack.com/messaging/webhooks).

use parhelia_host::config::{Notifications, channels::Hook};
use serde::Serialize;

use super::{Env, Message, Trouble, address, cut, link_line, plain};
use crate::{http, notify::text::unlinked};

/// The longest text of a message, in characters.
const CHARACTERS_MAX: usize = 40_000;

#[derive(Serialize)]
struct Body {
    text: String,
    /// No name in the text becomes a mention, and no address is shown as a picture.
    parse: &'static str,
    unfurl_links: bool,
    unfurl_media: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    username: Option<String>,
}

/// Sends a message to the webhook, cut to what Slack takes.
pub fn send(options: &Notifications, hook: &Hook, message: &Message, env: Env) -> Result<(), Trouble> {
    let username = hook.username.as_deref().map(|name| plain(name, env)).transpose()?;
    let link = link_line(message, |link| format!("<{}>", link.replace(['<', '>', '|'], "")));
    let text = escaped(&format!("*{}*\n{}", message.title, message.body));
    let text = cut(&text, CHARACTERS_MAX.saturating_sub(link.chars().count())) + &link;
    let body = Body { text, parse: "none", unfurl_links: false, unfurl_media: false, username };
    let body = serde_json::to_string(&body).map_err(|e| Trouble::for_good(e.to_string()))?;
    http::post(options.insecure_loopback, &address(hook, env)?, &[], &body)
}

/// A text in which nothing is a mention or a link: those with another name begin with `<`, and others are addresses.
fn escaped(text: &str) -> String {
    unlinked(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_mentioned_by_a_name() {
        assert_eq!(escaped("a <!channel> & <http://x|y>"), "a &lt;!channel&gt; &amp; &lt;http:\u{2060}//x|y&gt;");
    }
}
