//! Browsers that are signed in, without the token or anything else that somebody could use again ever being sent.
//!
//! Another program can listen at the service's address once the service has ended, and an open page would ask it. So the two prove to each other
//! that they know a key: at first the one that both derive from the token, then one of the browser's own, which can be revoked ([`table`]).
//!
//! - `POST /page/hello`, `{browser, nonce}`: the page asks for proof. The answer has a visit, and the HMAC of nonce, visit and origin.
//! - every other request of the page: `Authorization: Parhelia VISIT COUNT BODY MAC`, with the SHA-256 of the body, and the HMAC of all of it,
//!   of the method and of the target. A visit ends with the service, and takes each count once: a request that somebody has heard is worth nothing.
//! - its answer: `Parhelia-Proof`, the HMAC of visit, count and status.
//! - `POST /page/browser`, `{name}`: a key of the browser's own, which both sides derive. `POST /page/leave` gives it up.
//!
//! HMAC-SHA256 throughout, of lines; keys, digests and HMACs in hex.

mod table;
mod visits;

use std::path::Path;

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header::AUTHORIZATION},
    response::{IntoResponse, Response},
};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

pub use table::Table;
use visits::Visits;

use crate::problem::Problem;

/// The path at which the page asks for proof.
const HELLO: &str = "/page/hello";
/// The path at which it gets a key of its own.
const BROWSER: &str = "/page/browser";
/// The path at which it gives that up.
const LEAVE: &str = "/page/leave";
/// The scheme of its requests.
const SCHEME: &str = "Parhelia";
/// The header that proves that an answer is the service's.
const PROOF: HeaderName = HeaderName::from_static("parhelia-proof");
/// The browser in a visit of a page that knows the token alone.
const OF_TOKEN: &str = "token";
/// The longest name of a browser, in characters.
const NAME_MAX: usize = 80;

/// A key of HMAC-SHA256.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// The key that a page derives from the token.
    pub fn of_token(token: &str) -> Self {
        Key(mac(token.as_bytes(), &["parhelia page"]))
    }

    /// One that nobody can guess: 244 bits of the kernel's random numbers.
    fn random() -> Self {
        Key(mac(&[Uuid::new_v4().into_bytes(), Uuid::new_v4().into_bytes()].concat(), &["parhelia random"]))
    }

    /// The key of a browser that signs in in a visit.
    fn of_browser(&self, id: &str, visit: &str) -> Self {
        Key(mac(&self.0, &["browser", id, visit]))
    }

    fn mac(&self, lines: &[&str]) -> String {
        hex(&mac(&self.0, lines))
    }

    /// True for the HMAC of some lines. How long that takes tells nothing of it.
    fn is(&self, lines: &[&str], given: &str) -> bool {
        blake3::hash(self.mac(lines).as_bytes()) == blake3::hash(given.as_bytes())
    }
}

fn mac(key: &[u8], lines: &[&str]) -> [u8; 32] {
    // Keys of every length will do.
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap_or_else(|_| Hmac::new(&Default::default()));
    mac.update(lines.join("\n").as_bytes());
    mac.finalize().into_bytes().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digest of a body.
fn digest(body: &[u8]) -> String {
    hex(&Sha256::digest(body))
}

/// The browsers of a service.
pub struct Browsers {
    first: Key,
    table: Table,
    visits: Visits,
}

/// A request of a page that has proved that it knows a key.
pub struct SignedRequest {
    key: Key,
    visit: String,
    browser: Option<String>,
    count: u64,
    body: String,
}

impl SignedRequest {
    /// Fails unless a body is the one that was signed.
    pub fn ensure_body(&self, body: &[u8]) -> Result<(), Problem> {
        match digest(body) == self.body {
            true => Ok(()),
            false => Err(Problem::unauthorized("the body is another one than was signed")),
        }
    }

    /// An answer with the proof that it is the service's.
    pub fn proven(&self, mut response: Response) -> Response {
        let count = self.count.to_string();
        let proof = self.key.mac(&["answer", &self.visit, &count, response.status().as_str()]);
        if let Ok(proof) = HeaderValue::try_from(proof) {
            response.headers_mut().insert(PROOF, proof);
        }
        response
    }
}

/// A page that asks for proof.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    /// The browser; none of a page that knows the token alone.
    browser: Option<String>,
    /// Something that no proof was given for before.
    nonce: String,
}

/// A browser that signs in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignsIn {
    name: String,
}

fn read<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|e| Problem::usage(format!("the body is not what was expected: {e}")))
}

/// True of a request for proof, which needs none itself.
pub fn is_hello(method: &Method, path: &str) -> bool {
    method == Method::POST && path == HELLO
}

/// True of a request of the page that is answered here.
pub fn is_own(method: &Method, path: &str) -> bool {
    method == Method::POST && [BROWSER, LEAVE].contains(&path)
}

/// True of a request that a page has signed.
pub fn is_signed(headers: &HeaderMap) -> bool {
    authorization(headers).is_some_and(|(scheme, _)| scheme == SCHEME)
}

fn authorization(headers: &HeaderMap) -> Option<(&str, &str)> {
    headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')
}

impl Browsers {
    /// The browsers of a service with a token, in the table beside its file. Those of a token of this start alone have to sign in anew.
    pub fn new(token: &str, file: &Path, is_lasting: bool) -> Self {
        let table = Table::beside(file);
        if !is_lasting {
            table.clear();
        }
        Browsers { first: Key::of_token(token), table, visits: Visits::default() }
    }

    /// The key of a browser that may come; none of one that is not known, or was revoked.
    fn key(&self, browser: &str) -> Option<Key> {
        match browser {
            OF_TOKEN => Some(self.first.clone()),
            id => self.table.key(id),
        }
    }

    /// Proves to a page that this is the service.
    pub fn hello(&self, origin: &str, body: &[u8]) -> Result<Response, Problem> {
        let Hello { browser, nonce } = read(body)?;
        if nonce.len() < 32 || nonce.len() > 128 || !nonce.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Problem::usage("the nonce has 32 to 128 digits in hex"));
        }
        let browser = browser.as_deref().unwrap_or(OF_TOKEN);
        let Some(key) = self.key(browser) else { return Err(Problem::unauthorized("this browser is not signed in")) };
        let visit = self.visits.begin(browser);
        let proof = key.mac(&["service", &nonce, &visit, origin]);
        Ok(axum::Json(json!({ "visit": visit, "proof": proof })).into_response())
    }

    /// The signature of a request, if it holds, and was not used before.
    pub fn signed(&self, origin: &str, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<SignedRequest, Problem> {
        let wrong = || Problem::unauthorized("the page has to prove who it is once more");
        let fields: Vec<&str> = authorization(headers).map(|(_, rest)| rest.split(' ').collect()).unwrap_or_default();
        let [visit, count, body, given] = fields[..] else { return Err(wrong()) };
        let browser = self.visits.browser(visit).ok_or_else(wrong)?;
        let key = self.key(browser).ok_or_else(|| Problem::unauthorized("this browser is not signed in"))?;
        let target = uri.path_and_query().map_or("/", |target| target.as_str());
        if !key.is(&["request", visit, count, method.as_str(), target, body, origin], given) {
            return Err(wrong());
        }
        let count: u64 = count.parse().map_err(|_| wrong())?;
        if !self.visits.takes(visit, count) {
            return Err(wrong());
        }
        let browser = (browser != OF_TOKEN).then(|| browser.to_owned());
        if let Some(id) = &browser {
            self.table.used(id);
        }
        Ok(SignedRequest { key, visit: visit.to_owned(), browser, count, body: body.to_owned() })
    }

    /// Answers a request of the page about its own key.
    pub fn answer(&self, path: &str, signed: &SignedRequest, body: &Bytes) -> Result<Response, Problem> {
        let kept = |e: std::io::Error| Problem::failed(format!("the browsers that are signed in cannot be noted: {e}"));
        match (path, &signed.browser) {
            // Whoever has a key of its own makes no other one.
            (BROWSER, None) => {
                let SignsIn { name } = read(body)?;
                let name = name.chars().map(|c| if c.is_control() { ' ' } else { c }).take(NAME_MAX).collect();
                let id: String = Uuid::new_v4().simple().to_string().chars().take(16).collect();
                self.table.add(&id, name, signed.key.of_browser(&id, &signed.visit)).map_err(kept)?;
                Ok(axum::Json(json!({ "browser": id })).into_response())
            }
            (BROWSER, Some(_)) => Err(Problem::refused("this browser is signed in already")),
            (_, Some(id)) => {
                self.table.revoke(id).map_err(kept)?;
                Ok(StatusCode::NO_CONTENT.into_response())
            }
            (_, None) => Ok(StatusCode::NO_CONTENT.into_response()),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";
    const HERE: &str = "http://127.0.0.1:8123";
    const NONCE: &str = "00112233445566778899aabbccddeeff";

    /// A page, as it must behave.
    struct Page {
        key: Key,
        browser: Option<String>,
        visit: String,
    }

    async fn json_of(response: Response) -> serde_json::Value {
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    impl Page {
        /// Asks a service for proof.
        async fn greets(&mut self, service: &Browsers, origin: &str) -> Result<(), &'static str> {
            let hello = json!({ "browser": self.browser, "nonce": NONCE }).to_string();
            let answer = service.hello(origin, hello.as_bytes()).map_err(|_| "refused")?;
            let answer = json_of(answer).await;
            let visit = answer["visit"].as_str().unwrap().to_owned();
            let lines = ["service", NONCE, &visit, HERE];
            if !self.key.is(&lines, answer["proof"].as_str().unwrap()) {
                return Err("another program");
            }
            self.visit = visit;
            Ok(())
        }

        fn header(&self, count: u64, method: &str, target: &str, body: &[u8]) -> HeaderMap {
            let (body, count) = (digest(body), count.to_string());
            let mac = self.key.mac(&["request", &self.visit, &count, method, target, &body, HERE]);
            let value = format!("{SCHEME} {} {count} {body} {mac}", self.visit);
            HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::try_from(value).unwrap())])
        }

        fn asks(&self, service: &Browsers, count: u64) -> Result<SignedRequest, Problem> {
            let headers = self.header(count, "POST", "/api/x?y", b"{}");
            service.signed(HERE, &Method::POST, &Uri::from_static("/api/x?y"), &headers)
        }
    }

    fn page() -> Page {
        Page { key: Key::of_token(TOKEN), browser: None, visit: String::new() }
    }

    async fn signed_in(service: &Browsers) -> Page {
        let mut page = page();
        page.greets(service, HERE).await.unwrap();
        let body = Bytes::from_static(b"{\"name\":\"Firefox\"}");
        let headers = page.header(1, "POST", BROWSER, &body);
        let signed = service.signed(HERE, &Method::POST, &Uri::from_static(BROWSER), &headers).unwrap();
        signed.ensure_body(&body).unwrap();
        let answer = json_of(service.answer(BROWSER, &signed, &body).unwrap()).await;
        let id = answer["browser"].as_str().unwrap().to_owned();
        page.key = page.key.of_browser(&id, &page.visit);
        page.browser = Some(id);
        page.greets(service, HERE).await.unwrap();
        page
    }

    #[tokio::test]
    async fn what_a_page_sends_is_worth_nothing_to_whoever_hears_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let service = Browsers::new(TOKEN, &file, true);
        let mut page = signed_in(&service).await;
        let headers = page.header(7, "POST", "/api/x?y", b"{}");
        let ask = |service: &Browsers, method: Method, target: &'static str, headers: &HeaderMap| {
            service.signed(HERE, &method, &Uri::from_static(target), headers)
        };
        assert!(ask(&service, Method::POST, "/api/x?z", &headers).is_err(), "another request");
        assert!(ask(&service, Method::PUT, "/api/x?y", &headers).is_err());
        assert!(service.signed("http://127.0.0.1:1", &Method::POST, &Uri::from_static("/api/x?y"), &headers).is_err());
        let signed = ask(&service, Method::POST, "/api/x?y", &headers).unwrap();
        assert!(signed.ensure_body(b"{}").is_ok() && signed.ensure_body(b"{1}").is_err());
        assert!(ask(&service, Method::POST, "/api/x?y", &headers).is_err(), "once");
        // The service ends, and is there again: nothing that was sent before counts, the key does.
        let later = page.header(8, "POST", "/api/x?y", b"{}");
        let again = Browsers::new(TOKEN, &file, true);
        assert!(ask(&again, Method::POST, "/api/x?y", &later).is_err());
        page.greets(&again, HERE).await.unwrap();
        assert!(page.asks(&again, 1).is_ok());
        // Answers prove that they are the service's.
        let answer = page.asks(&again, 2).unwrap().proven(StatusCode::CREATED.into_response());
        assert_eq!(answer.headers()[PROOF], page.key.mac(&["answer", &page.visit, "2", "201"]).as_str());
    }

    #[tokio::test]
    async fn another_program_cannot_prove_that_it_is_the_service() {
        let folder = tempfile::tempdir().unwrap();
        let service = Browsers::new(TOKEN, &folder.path().join("token"), true);
        let mut page = signed_in(&service).await;
        // Without the key; and with the proof of the service at its new address.
        let thief = Browsers::new("another token, which is not the service's", &folder.path().join("thief"), true);
        assert_eq!(page.greets(&thief, HERE).await, Err("refused"));
        assert_eq!(Page { browser: None, ..page_of(&page) }.greets(&thief, HERE).await, Err("another program"));
        assert_eq!(page.greets(&service, "http://127.0.0.1:8124").await, Err("another program"));
    }

    fn page_of(page: &Page) -> Page {
        Page { key: page.key.clone(), browser: page.browser.clone(), visit: page.visit.clone() }
    }

    #[tokio::test]
    async fn a_browser_can_be_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let service = Browsers::new(TOKEN, &file, true);
        let (mut one, mut other) = (signed_in(&service).await, signed_in(&service).await);
        let table = Table::beside(&file);
        let listed = table.browsers().unwrap();
        assert_eq!((listed.len(), listed[0].name.as_str()), (2, "Firefox"));
        assert!(table.revoke(one.browser.as_deref().unwrap()).unwrap());
        assert!(one.asks(&service, 1).is_err() && one.greets(&service, HERE).await == Err("refused"));
        assert!(other.asks(&service, 1).is_ok());
        let leave = other.header(2, "POST", LEAVE, b"{}");
        let signed = service.signed(HERE, &Method::POST, &Uri::from_static(LEAVE), &leave).unwrap();
        service.answer(LEAVE, &signed, &Bytes::new()).unwrap();
        assert!(other.greets(&service, HERE).await.is_err());
        // Where each start has a token of its own, none of an earlier one is known.
        signed_in(&service).await;
        Browsers::new(TOKEN, &file, false);
        assert!(table.browsers().unwrap().is_empty());
    }

    #[test]
    fn requests_of_other_kinds_are_no_pages() {
        let headers = |value: &'static str| HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(value))]);
        assert!(is_signed(&headers("Parhelia a 1 b c")) && !is_signed(&headers("Bearer x")) && !is_signed(&HeaderMap::new()));
        let request = Request::get("/page/hello").body(()).unwrap();
        assert!(!is_hello(request.method(), request.uri().path()));
    }
}
