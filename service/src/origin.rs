//! The origin of the page: the literal address that the service listens at. Pages, storage and service workers of other programs belong to
//! `localhost`, or to a program that listened at the same address before.

use std::net::SocketAddr;

use axum::{
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
        header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HOST, LOCATION},
        request::Parts,
    },
    response::{IntoResponse, Response},
};

/// The header with which a browser asks for a service worker's script.
const SERVICE_WORKER: HeaderName = HeaderName::from_static("service-worker");
/// The paths that a service worker may be in charge of; without it, a worker of a wider scope is not updated.
const SERVICE_WORKER_ALLOWED: HeaderName = HeaderName::from_static("service-worker-allowed");
/// The kind of use that a browser has for an answer.
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
/// The port that browsers leave out.
const HTTP_PORT: u16 = 80;

/// A service worker that takes the place of another program's, unregisters itself, and has the pages load anew.
const LAST_WORKER: &str = "self.addEventListener(\"install\", () => self.skipWaiting());
self.addEventListener(\"activate\", (event) => event.waitUntil((async () => {
  await self.registration.unregister();
  for (const client of await self.clients.matchAll({ type: \"window\" })) client.navigate(client.url);
})()));
";

/// The value of a header; empty where it is missing or no text.
fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// True if the header `Host` names the address that the service listens at.
pub fn is_named(headers: &HeaderMap, server: SocketAddr) -> bool {
    let (host, own) = (text(headers, HOST), server.to_string());
    host == own || server.port() == HTTP_PORT && own.strip_suffix(":80") == Some(host)
}

/// The redirect of a browser that opens a page at `localhost`, which other programs use as well.
pub fn redirect(parts: &Parts, server: SocketAddr) -> Option<Response> {
    let name = text(&parts.headers, HOST);
    let (name, port) = name.split_once(':').unwrap_or((name, "0"));
    let is_localhost = name.eq_ignore_ascii_case("localhost") && port.parse::<u16>().is_ok();
    if !is_localhost || !is_navigation(parts) {
        return None;
    }
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let location = HeaderValue::try_from(format!("http://{server}{path}")).ok()?;
    let headers = [(LOCATION, location), (CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    Some((StatusCode::TEMPORARY_REDIRECT, headers).into_response())
}

/// True if a browser shows the answer as a page.
fn is_navigation(Parts { method, headers, uri, .. }: &Parts) -> bool {
    let is_page = || uri.path() == "/" && text(headers, ACCEPT).contains("text/html");
    *method == Method::GET && (text(headers, FETCH_MODE) == "navigate" || is_page())
}

/// The end of a service worker that another program has left behind at this address; none where no worker is asked for.
pub fn last_worker(Parts { method, headers, .. }: &Parts) -> Option<Response> {
    if *method != Method::GET || text(headers, SERVICE_WORKER) != "script" {
        return None;
    }
    let headers = [(CONTENT_TYPE, "text/javascript; charset=utf-8"), (CACHE_CONTROL, "no-store"), (SERVICE_WORKER_ALLOWED, "/")];
    Some((headers, LAST_WORKER).into_response())
}

#[cfg(test)]
mod tests {
    use axum::http::Request;

    use super::*;

    fn parts(method: &str, path: &str, headers: &[(&str, &str)]) -> Parts {
        let request = Request::builder().method(method).uri(path);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_the_literal_address_with_its_port_names_the_service() {
        let named = |host: &str, server: &str| is_named(&parts("GET", "/", &[("host", host)]).headers, server.parse().unwrap());
        for (host, server) in [
            ("127.0.0.1:8123", "127.0.0.1:8123"),
            ("127.0.0.1", "127.0.0.1:80"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("[::1]:8123", "[::1]:8123"),
            ("[::1]", "[::1]:80"),
        ] {
            assert!(named(host, server), "{host} {server}");
        }
        for host in
            ["", "localhost:8123", "127.0.0.1", "127.0.0.1:80", "127.0.0.2:8123", "127.0.0.1:81234", "[::1]:8123", "example.com"]
        {
            assert!(!named(host, "127.0.0.1:8123"), "{host}");
        }
        assert!(!is_named(&HeaderMap::new(), "127.0.0.1:80".parse().unwrap()));
    }

    #[test]
    fn a_browser_that_opens_localhost_is_sent_to_the_address() {
        let server = "127.0.0.1:8123".parse().unwrap();
        let location = |method: &str, path: &str, headers: &[(&str, &str)]| {
            let answer = redirect(&parts(method, path, headers), server)?;
            assert_eq!(answer.status(), StatusCode::TEMPORARY_REDIRECT);
            Some(answer.headers()[LOCATION].to_str().unwrap().to_owned())
        };
        let (navigate, html) = (("sec-fetch-mode", "navigate"), ("accept", "text/html,*/*"));
        let at = |path: &str| Some(format!("http://127.0.0.1:8123{path}"));
        assert_eq!(location("GET", "/a?b=c", &[("host", "localhost:8123"), navigate]), at("/a?b=c"));
        assert_eq!(location("GET", "//x", &[("host", "LOCALHOST"), navigate]), at("//x"));
        assert_eq!(location("GET", "/", &[("host", "localhost:9"), html]), at("/"));
        for (method, path, host, header) in [
            ("GET", "/api", "localhost:8123", html),
            ("GET", "/", "localhost:8123", ("sec-fetch-mode", "cors")),
            ("POST", "/", "localhost:8123", navigate),
            ("GET", "/", "example.com", navigate),
            ("GET", "/", "localhost.example.com", navigate),
            ("GET", "/", "localhost:x", navigate),
            ("GET", "/", "127.0.0.1:8123", navigate),
        ] {
            assert_eq!(location(method, path, &[("host", host), header]), None, "{method} {path} {host}");
        }
    }

    #[test]
    fn a_service_worker_of_another_program_is_unregistered() {
        let answer = last_worker(&parts("GET", "/deep/worker.js", &[("service-worker", "script")])).unwrap();
        assert_eq!((answer.status(), &answer.headers()[CACHE_CONTROL]), (StatusCode::OK, &HeaderValue::from_static("no-store")));
        assert!(answer.headers()[CONTENT_TYPE].to_str().unwrap().starts_with("text/javascript"));
        assert!(LAST_WORKER.contains("registration.unregister()"));
        assert!(last_worker(&parts("GET", "/", &[])).is_none());
        assert!(last_worker(&parts("POST", "/", &[("service-worker", "script")])).is_none());
    }
}
