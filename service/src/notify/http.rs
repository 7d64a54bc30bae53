//! Requests to channels: over TLS, in bounded time, to where the configuration says and nowhere else.

use std::time::Duration;

use parhelia_session::config::Notifications;
use ureq::{
    Agent, Error,
    http::{Response, Uri},
};

use super::channel::Trouble;

/// A request takes no longer.
const LIMIT: Duration = Duration::from_secs(30);
/// Nobody is waited for longer than this because they ask for it.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// Sends JSON, with headers. Errors do not name the address, which may be a secret.
pub fn post(options: &Notifications, address: &str, headers: &[(&str, &str)], body: &str) -> Result<(), Trouble> {
    let uri: Uri = address.parse().map_err(|_| Trouble::for_good("its address is no URL"))?;
    check(options, &uri)?;
    let config = Agent::config_builder()
        .timeout_global(Some(LIMIT))
        // Whoever answers does not choose another receiver.
        .max_redirects(0)
        .http_status_as_error(false)
        .user_agent(concat!("parhelia/", env!("CARGO_PKG_VERSION")))
        .build();
    let mut request = Agent::new_with_config(config).post(uri).header("Content-Type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    match request.send(body) {
        Ok(response) => judged(&response),
        Err(e) => Err(of_error(&e)),
    }
}

/// Refuses addresses at which others could listen.
fn check(options: &Notifications, uri: &Uri) -> Result<(), Trouble> {
    let host = uri.host().ok_or_else(|| Trouble::for_good("its address has no host"))?;
    match uri.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if options.insecure_loopback && is_loopback(host) => Ok(()),
        _ => Err(Trouble::for_good("its address is not https://")),
    }
}

/// True for a name of this machine.
pub fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn judged<T>(response: &Response<T>) -> Result<(), Trouble> {
    let status = response.status().as_u16();
    let wait = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.trim().parse().ok());
    match status {
        200..300 => Ok(()),
        408 | 425 | 429 | 500.. => {
            let after = wait.map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
            Err(Trouble { why: format!("it answered with status {status}"), is_for_good: false, after })
        }
        _ => Err(Trouble::for_good(format!("it answered with status {status}"))),
    }
}

/// The reason without the address.
fn of_error(error: &Error) -> Trouble {
    let why = match error {
        Error::Timeout(_) => format!("it did not answer within {} s", LIMIT.as_secs()),
        Error::HostNotFound => "its host is not known".into(),
        Error::ConnectionFailed => "it cannot be connected to".into(),
        Error::Io(e) => format!("the connection failed: {}", e.kind()),
        Error::Tls(why) => format!("TLS failed: {why}"),
        Error::Rustls(e) => format!("TLS failed: {e}"),
        _ => "the request failed".into(),
    };
    Trouble::for_now(why)
}
