//! Answers that are sent compressed to those who take them so.

use std::io::{self, Write};

use axum::{
    body::{Body, Bytes, HttpBody, to_bytes},
    extract::Request,
    http::{
        HeaderMap, HeaderValue,
        header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, VARY},
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use flate2::{Compression, write::GzEncoder};
use tokio::task::spawn_blocking;

use crate::problem::Problem;

/// Shorter answers are not worth it, in bytes.
const BYTES_MIN: u64 = 1024;

/// Compresses a text whose length is known, if the request takes gzip. Streams, files and what has an ETag, which names its bytes, stay as they are.
pub async fn compressed(request: Request, next: Next) -> Response {
    let takes_gzip = takes_gzip(request.headers());
    let mut response = next.run(request).await;
    if !is_text(response.headers()) || response.body().size_hint().exact().is_none_or(|bytes| bytes < BYTES_MIN) {
        return response;
    }
    response.headers_mut().append(VARY, HeaderValue::from_static("accept-encoding"));
    if !takes_gzip {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let compressed = match to_bytes(body, usize::MAX).await {
        Ok(bytes) => spawn_blocking(move || gzip(&bytes)).await.unwrap_or_else(|e| Err(io::Error::other(e))),
        Err(e) => Err(io::Error::other(e)),
    };
    let Ok(bytes) = compressed else {
        return Problem::failed("the answer could not be compressed").into_response();
    };
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    Response::from_parts(parts, Body::from(bytes))
}

fn gzip(bytes: &Bytes) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let is_text = kind.starts_with("text/") || kind.ends_with("json") || kind == "application/openmetrics-text";
    is_text && !headers.contains_key(CONTENT_ENCODING) && !headers.contains_key(ETAG)
}

/// True if a request names gzip, or stands for any coding, and does not refuse it.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let named =
        headers.get_all(ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
    let mut any = false;
    for coding in named {
        let mut parts = coding.split(';');
        let name = parts.next().unwrap_or_default().trim();
        let is_refused =
            parts.any(|part| part.trim().strip_prefix("q=").is_some_and(|q| q.trim().parse::<f32>().is_ok_and(|q| q <= 0.0)));
        if name.eq_ignore_ascii_case("gzip") {
            return !is_refused;
        }
        any |= name == "*" && !is_refused;
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_those_alone_who_take_it() {
        for (given, takes) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("br, *", true),
            ("*;q=0", false),
            ("gzip;q=0, *", false),
            ("identity", false),
            ("gzip; q=0.0", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(given))]);
            assert_eq!(takes_gzip(&headers), takes, "{given}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
