//! Mail over SMTP. Headers are made by the library, which lets no text end one.

use std::{sync::mpsc, thread, time::Duration};

use lettre::{
    Message as Mail, SmtpTransport, Transport,
    message::{Mailbox, Mailboxes, MessageBuilder, header::ContentType},
    transport::smtp::{
        authentication::Credentials,
        client::{Tls as Protection, TlsParameters},
    },
};
use parhelia_host::config::{
    Notifications,
    channels::{Email, Tls, secret},
};

use super::{Env, Message, Trouble, cut, kept_secret, link_line, plain};
use crate::{http::is_loopback, notify::text::unlinked};

/// The longest subject, in characters.
const SUBJECT_CHARACTERS_MAX: usize = 150;
/// A mail takes no longer.
const LIMIT: Duration = Duration::from_secs(30);

/// Sends a message as a mail of plain text.
pub fn send(options: &Notifications, email: &Email, message: &Message, env: Env) -> Result<(), Trouble> {
    let host = plain(&email.smtp_host, env)?;
    if email.tls == Tls::None && !(options.insecure_loopback && is_loopback(&host)) {
        return Err(Trouble::for_good("mail without TLS goes to this machine alone, with notifications.insecure_loopback"));
    }
    let mail = mail(email, message, &host, env)?;
    let password = kept_secret(secret(email.password.as_ref(), email.password_file.as_ref(), env))?.unwrap_or_default();
    let transport = transport(email, &host, env)?;
    // The library bounds each read: a server that never ends its answer would keep us for good.
    let (tell, sent) = mpsc::channel();
    let started = thread::Builder::new().name("mail".into()).spawn(move || tell.send(transport.send(&mail)));
    started.map_err(|e| Trouble::for_now(format!("the mail could not be sent: {e}")))?;
    let sent = sent.recv_timeout(LIMIT * 2);
    let sent = sent.map_err(|_| Trouble::for_now(format!("the mail server did not take it within {} s", 2 * LIMIT.as_secs())))?;
    let trouble = |e: lettre::transport::smtp::Error| match e.is_permanent() {
        true => Trouble::for_good(format!("the mail server refused it: {e}")),
        false => Trouble::for_now(format!("the mail could not be sent: {e}")),
    };
    sent.map(drop).map_err(|e| trouble(e).without(&password))
}

fn mail(email: &Email, message: &Message, host: &str, env: Env) -> Result<Mail, Trouble> {
    let bad = |what: &str| Trouble::for_good(format!("{what} is no address of mail"));
    let from: Mailbox = plain(&email.from_address, env)?.parse().map_err(|_| bad("from_address"))?;
    let to: Mailboxes = plain(&email.to_address, env)?.parse().map_err(|_| bad("to_address"))?;
    let builder: MessageBuilder = to.into_iter().fold(Mail::builder().from(from), MessageBuilder::to);
    builder
        // The same each time that it is sent, so that whoever gets it twice can tell.
        .message_id(Some(format!("<{}@{host}>", message.id())))
        .subject(cut(&unlinked(&message.title), SUBJECT_CHARACTERS_MAX))
        .header(ContentType::TEXT_PLAIN)
        .body(unlinked(&message.body) + &link_line(message, str::to_owned))
        .map_err(|e| Trouble::for_good(format!("the mail cannot be written: {e}")))
}

fn transport(email: &Email, host: &str, env: Env) -> Result<SmtpTransport, Trouble> {
    let parameters = || TlsParameters::new(host.to_owned()).map_err(|e| Trouble::for_now(format!("TLS failed: {e}")));
    let (protection, port) = match email.tls {
        Tls::Starttls => (Protection::Required(parameters()?), 587),
        Tls::Tls => (Protection::Wrapper(parameters()?), 465),
        Tls::None => (Protection::None, 25),
    };
    let builder =
        SmtpTransport::builder_dangerous(host).port(email.smtp_port.unwrap_or(port)).tls(protection).timeout(Some(LIMIT));
    let user = email.username.as_deref().map(|name| plain(name, env)).transpose()?;
    let password = kept_secret(secret(email.password.as_ref(), email.password_file.as_ref(), env))?;
    Ok(match (user, password) {
        (Some(user), Some(password)) => builder.credentials(Credentials::new(user, password)).build(),
        (None, None) => builder.build(),
        _ => return Err(Trouble::for_good("`username` and a password go together")),
    })
}
