//! Discord: a webhook of a channel (discord.com/developers/docs/resources/webhook).

use parhelia_host::config::{Notifications, channels::Hook};
use serde::Serialize;

use super::{Env, Message, Trouble, address, cut, link_line, plain};
use crate::http;

/// The longest text of a message, in characters.
const CHARACTERS_MAX: usize = 2000;

#[derive(Serialize)]
struct Body {
    content: String,
    allowed_mentions: Mentions,
    #[serde(skip_serializing_if = "Option::is_none")]
    username: Option<String>,
}

/// The mentions that count: none.
#[derive(Serialize)]
struct Mentions {
    parse: [&'static str; 0],
}

/// Sends a message to the webhook, without mentions of anybody.
pub fn send(options: &Notifications, hook: &Hook, message: &Message, env: Env) -> Result<(), Trouble> {
    let username = hook.username.as_deref().map(|name| plain(name, env)).transpose()?;
    // Without a picture of what is there.
    let link = link_line(message, |link| format!("<{link}>"));
    let text = format!("**{}**\n{}", escaped(&message.title), escaped(&message.body));
    let content = cut(&text, CHARACTERS_MAX.saturating_sub(link.chars().count())) + &link;
    let body = Body { content, allowed_mentions: Mentions { parse: [] }, username };
    let body = serde_json::to_string(&body).map_err(|e| Trouble::for_good(e.to_string()))?;
    http::post(options.insecure_loopback, &address(hook, env)?, &[], &body)
}

/// A text in which nothing is markup, and no address is a link.
fn escaped(text: &str) -> String {
    let mut done = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        if "\\*_~`|<>[]#".contains(character) || text[at..].starts_with("://") {
            done.push('\\');
        }
        done.push(character);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_markup() {
        assert_eq!(escaped("**a** <@1> [x](y)"), "\\*\\*a\\*\\* \\<@1\\> \\[x\\](y)");
        assert_eq!(escaped("see https://evil.example: a"), "see https\\://evil.example: a");
    }
}
