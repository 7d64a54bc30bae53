//! A webhook of any program: the notification as JSON, signed by the rules of Standard Webhooks (standardwebhooks.com): `webhook-id`,
//! `webhook-timestamp`, and `webhook-signature` with the HMAC-SHA256 of `ID.TIMESTAMP.BODY`.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use parhelia_host::config::{
    Notifications,
    channels::{Webhook, secret},
};
use parhelia_store::clock;
use sha2::Sha256;

use super::{Env, Message, Trouble, kept_secret, plain};
use crate::http;

/// The beginning of a secret whose rest is base64.
const PREFIX: &str = "whsec_";

/// Sends a message: its first notification, as such channels get them one by one.
pub fn send(options: &Notifications, webhook: &Webhook, message: &Message, env: Env) -> Result<(), Trouble> {
    let Some(notification) = message.notifications.first() else { return Ok(()) };
    let body = serde_json::to_string(notification).map_err(|e| Trouble::for_good(e.to_string()))?;
    let address = kept_secret(match &webhook.url {
        Some(url) => Ok(Some(plain(url, env)?)),
        None => secret(None, webhook.url_file.as_ref(), env),
    })?;
    let address = address.ok_or_else(|| Trouble::for_good("its address is not configured"))?;
    let at = clock::timestamp().as_second().to_string();
    let mut headers = vec![("webhook-id", message.id()), ("webhook-timestamp", at.as_str())];
    let secret = kept_secret(secret(webhook.secret.as_ref(), webhook.secret_file.as_ref(), env))?;
    let signature = secret.map(|secret| signature(&secret, message.id(), &at, &body)).transpose()?;
    headers.extend(signature.iter().map(|signature| ("webhook-signature", signature.as_str())));
    http::post(options.insecure_loopback, &address, &headers, &body)
}

/// The signature of a request.
fn signature(secret: &str, id: &str, at: &str, body: &str) -> Result<String, Trouble> {
    let key = match secret.strip_prefix(PREFIX) {
        Some(rest) => STANDARD.decode(rest).map_err(|_| Trouble::for_good("its secret is no base64 behind whsec_"))?,
        None => secret.as_bytes().to_vec(),
    };
    if key.is_empty() {
        return Err(Trouble::for_good("its secret is empty behind whsec_, so that anybody could sign with it"));
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|e| Trouble::for_good(e.to_string()))?;
    mac.update(format!("{id}.{at}.{body}").as_bytes());
    Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the specification.
    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        let signed = signature(
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "1614265330",
            r#"{"test": 2432232314}"#,
        );
        assert_eq!(signed.unwrap(), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert!(signature("whsec_", "a", "1", "{}").unwrap_err().why.contains("empty"));
        assert!(signature("whsec_!", "a", "1", "{}").unwrap_err().is_for_good);
    }
}
