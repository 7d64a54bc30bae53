//! Requests to channels, trackers and models: over TLS, in bounded time, to where the configuration says and nowhere else.

use std::time::Duration;

use parhelia_store::clock;
use ureq::{
    Agent, Body, Error, Proxy,
    http::{HeaderMap, Method, Request, Response, Uri},
};

/// A request to a channel or a tracker takes no longer.
pub const LIMIT: Duration = Duration::from_secs(30);
/// Nobody is waited for longer than this because they ask for it.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// A longer answer is not read, in bytes.
const ANSWER_BYTES_MAX: u64 = 8 << 20;

/// Something that kept a notification from being sent, or an issue from being changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The reason. It tells no secret.
    pub why: String,
    /// True if there is no use in trying again.
    pub is_for_good: bool,
    /// The time after which the receiver wants to be asked again.
    pub after: Option<Duration>,
    /// True if the receiver was never asked, for want of something in this process or on this machine: then it is no try.
    pub is_own: bool,
}

impl Trouble {
    /// Trouble that may pass.
    pub fn for_now(why: impl Into<String>) -> Self {
        Trouble { why: why.into(), is_for_good: false, after: None, is_own: false }
    }

    /// Trouble of this process, such as a secret that it does not have: another one may.
    pub fn of_own(why: impl Into<String>) -> Self {
        Trouble { is_own: true, ..Trouble::for_now(why) }
    }

    /// Trouble that stays until somebody does something.
    pub fn for_good(why: impl Into<String>) -> Self {
        Trouble { is_for_good: true, ..Trouble::for_now(why) }
    }
}

impl Trouble {
    /// The same without a secret, where the receiver's words repeat it.
    pub fn without(self, secret: &str) -> Self {
        let secret = secret.trim_start_matches("Bearer ");
        let why = if secret.is_empty() { self.why } else { self.why.replace(secret, "(secret)") };
        Trouble { why, ..self }
    }
}

/// A request with an answer.
pub struct Call<'a> {
    /// True if this machine may be reached without TLS.
    pub insecure_loopback: bool,
    /// HTTP method of the request.
    pub method: Method,
    /// URL of the request, which may have a secret in it.
    pub address: &'a str,
    /// Headers, beside the usual ones.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body, which is JSON.
    pub body: Option<&'a str>,
    /// The time that it may take.
    pub limit: Duration,
}

/// An answer of any status.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status of the answer.
    pub status: u16,
    /// The time for which it asks to be left alone.
    pub wait: Option<Duration>,
    /// Body of the answer as text.
    pub body: String,
}

/// Sends JSON, with headers. Errors do not name the address, which may be a secret.
pub fn post(insecure_loopback: bool, address: &str, headers: &[(&str, &str)], body: &str) -> Result<(), Trouble> {
    let call = Call { insecure_loopback, method: Method::POST, address, headers, body: Some(body), limit: LIMIT };
    judged(&sent(&call)?).map(drop)
}

/// Sends a request and reads its answer, whatever its status.
pub fn call(call: &Call) -> Result<Answer, Trouble> {
    let mut response = sent(call)?;
    let (status, wait) = (response.status().as_u16(), wait(response.headers()));
    let read = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
    Ok(Answer { status, wait, body: read.map_err(|e| of_error(&e, call.limit))? })
}

fn sent(call: &Call) -> Result<Response<Body>, Trouble> {
    let uri: Uri = call.address.parse().map_err(|_| Trouble::for_good("its address is no URL"))?;
    check(call.insecure_loopback, &uri)?;
    // A proxy would read what goes to this machine without TLS.
    let proxy = (uri.scheme_str() == Some("https")).then(Proxy::try_from_env).flatten();
    let config = Agent::config_builder()
        .proxy(proxy)
        .timeout_global(Some(call.limit))
        // Whoever answers does not choose another receiver.
        .max_redirects(0)
        .http_status_as_error(false)
        .user_agent(concat!("parhelia/", env!("CARGO_PKG_VERSION")))
        .build();
    let agent = Agent::new_with_config(config);
    let mut request = Request::builder().method(call.method.clone()).uri(uri);
    for (name, value) in call.headers {
        request = request.header(*name, *value);
    }
    // A secret with a line break in it is no header.
    let bad = |_| Trouble::for_good("its token cannot be sent: it has characters that no header may have");
    let answered = match call.body {
        Some(body) => agent.run(request.header("Content-Type", "application/json").body(body.to_owned()).map_err(bad)?),
        None => agent.run(request.body(()).map_err(bad)?),
    };
    answered.map_err(|e| of_error(&e, call.limit))
}

/// Refuses addresses at which others could listen.
fn check(insecure_loopback: bool, uri: &Uri) -> Result<(), Trouble> {
    let host = uri.host().ok_or_else(|| Trouble::for_good("its address has no host"))?;
    match uri.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if insecure_loopback && is_loopback(host) => Ok(()),
        _ => Err(Trouble::for_good("its address is not https://")),
    }
}

/// True for a name of this machine.
pub fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn judged<T>(response: &Response<T>) -> Result<(), Trouble> {
    of_status(response.status().as_u16(), wait(response.headers()))
}

/// The time for which a server asks to be left alone: by `Retry-After`, or as its limit of requests is used up.
fn wait(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()?.trim().parse::<u64>().ok());
    let is_used_up = number("x-ratelimit-remaining") == Some(0);
    let reset = number("x-ratelimit-reset").filter(|_| is_used_up);
    let now = u64::try_from(clock::timestamp().as_second()).unwrap_or_default();
    let seconds = number("retry-after").or_else(|| reset.map(|reset| reset.saturating_sub(now).max(1)));
    seconds.map(|seconds| Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

fn of_status(status: u16, wait: Option<Duration>) -> Result<(), Trouble> {
    let why = || format!("it answered with status {status}");
    match status {
        200..300 => Ok(()),
        408 | 425 | 429 | 500.. => Err(Trouble { after: wait, ..Trouble::for_now(why()) }),
        _ => Err(Trouble::for_good(why())),
    }
}

impl Answer {
    /// Fails where the status does. A refusal that asks for patience is none for good.
    pub fn judged(&self) -> Result<(), Trouble> {
        match (of_status(self.status, self.wait), self.wait) {
            (Err(trouble), Some(after)) if self.status == 403 => {
                Err(Trouble { is_for_good: false, after: Some(after), ..trouble })
            }
            (judged, _) => judged,
        }
    }
}

/// The reason without the address.
fn of_error(error: &Error, limit: Duration) -> Trouble {
    let why = match error {
        Error::Timeout(_) => format!("it did not answer within {} s", limit.as_secs_f64()),
        Error::HostNotFound => "its host is not known".into(),
        Error::ConnectionFailed => "it cannot be connected to".into(),
        Error::Io(e) => format!("the connection failed: {}", e.kind()),
        Error::Tls(why) => format!("TLS failed: {why}"),
        Error::Rustls(e) => format!("TLS failed: {e}"),
        _ => "the request failed".into(),
    };
    Trouble::for_now(why)
}
