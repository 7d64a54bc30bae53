//! The bytes of a file of a checkpoint. They are read in pieces, each when the one before is on its way, so that neither a long file nor a slow
//! listener takes memory or a thread.

use std::{io, ops::Range};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{
        HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
        header::{
            ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_NONE_MATCH, IF_RANGE,
            RANGE, X_CONTENT_TYPE_OPTIONS,
        },
    },
    response::{IntoResponse, Response},
    routing::get,
};
use futures_util::{Stream, stream::try_unfold};
use parhelia_store::{blob::Pieces, name, pin::Pin, tree::Kind};

use super::{checkpoints::pinned, extract::PathParameters, operation::Operation};
use crate::problem::Problem;
use crate::{
    app::{App, read},
    log::say,
};

/// So many bytes are read at a time.
const PIECE_BYTES: u64 = 1 << 20;

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::get(
            "/v1/checkpoints/{checkpoint}/files/{*path}",
            "getFile",
            "The bytes of one file, or a part of them.",
            get(file),
        )
        .by_parts(),
    ]
}

/// A file that is handed out, or a part of it.
struct Transfer {
    pieces: Pieces,
    /// The name of its content.
    tag: HeaderValue,
    /// The part, where it is one.
    part: Option<Range<u64>>,
    /// A piece that was read already.
    ready: Option<Vec<u8>>,
    /// The checkpoint and the path, for the log.
    about: String,
    /// Held until the last piece was read.
    _pin: Option<Pin>,
}

/// The answer to a request for a file.
enum Lookup {
    Bytes(Box<Transfer>),
    /// The caller has it already.
    Known(HeaderValue),
    /// It has no such part; its size.
    NoSuchPart(u64),
}

async fn file(
    State(app): State<App>,
    method: Method,
    headers: HeaderMap,
    PathParameters((selector, path)): PathParameters<(String, String)>,
) -> Result<Response, Problem> {
    let found = read(&app, move |app, _| {
        let (checkpoint, pin) = pinned(&app.store, &selector)?;
        // Paths are those of the checkpoint's tree, in which there is nothing above the workspace.
        let parsed = name::parse(&path);
        let node = app.store.node_at(&checkpoint, &parsed)?;
        let Kind::File { size, blob, .. } = &node.kind else {
            return Err(Problem::usage(format!("{path} is a {}, and no file", node.kind.name())));
        };
        let tag = HeaderValue::try_from(format!("\"{blob}\"")).map_err(|e| Problem::failed(e.to_string()))?;
        if is_among(&headers, &IF_NONE_MATCH, &tag) {
            return Ok(Lookup::Known(tag));
        }
        let wants_part = method == Method::GET && headers.get(IF_RANGE).is_none_or(|wanted| *wanted == tag);
        let wanted = headers.get(RANGE).filter(|_| wants_part).and_then(|range| part_of(range.to_str().ok()?, *size));
        let (mut pieces, part) = match wanted {
            Some(None) => return Ok(Lookup::NoSuchPart(*size)),
            Some(Some(part)) => (app.store.pieces_of(*blob, *size, part.clone())?, Some(part)),
            None => (app.store.pieces(*blob, *size)?, None),
        };
        // What is damaged from its beginning on is a problem, and no answer that is cut off.
        let ready = if method == Method::HEAD { None } else { pieces.next(&app.store, PIECE_BYTES)? };
        let about = format!("{} of checkpoint {}", name::display(&parsed), checkpoint.id());
        Ok(Lookup::Bytes(Box::new(Transfer { pieces, tag, part, ready, about, _pin: pin })))
    })
    .await?;
    let sending = match found {
        Lookup::Bytes(sending) => *sending,
        Lookup::Known(tag) => return Ok((StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response()),
        Lookup::NoSuchPart(size) => {
            let mut response = Problem::no_such_part(size).into_response();
            response.headers_mut().insert(CONTENT_RANGE, value(format!("bytes */{size}")));
            return Ok(response);
        }
    };
    let (size, tag, part) = (sending.pieces.size(), sending.tag.clone(), sending.part.clone());
    let mut response = Body::from_stream(rest(app, sending)).into_response();
    let length = part.as_ref().map_or(size, |part| part.end - part.start);
    for (name, value) in [
        (CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (CONTENT_LENGTH, HeaderValue::from(length)),
        (ACCEPT_RANGES, HeaderValue::from_static("bytes")),
        (ETAG, tag),
        // Whatever is in it, no browser shows it as a page.
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
    ] {
        response.headers_mut().insert(name, value);
    }
    if let Some(part) = part {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        response.headers_mut().insert(CONTENT_RANGE, value(format!("bytes {}-{}/{size}", part.start, part.end - 1)));
    }
    Ok(response)
}

/// A header's value, of digits and spaces.
fn value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("bytes"))
}

/// True if a header names a content, or any.
fn is_among(headers: &HeaderMap, name: &HeaderName, tag: &HeaderValue) -> bool {
    let tag = tag.to_str().unwrap_or_default();
    let named = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok()).flat_map(|text| text.split(','));
    named.map(str::trim).any(|named| named == "*" || named.strip_prefix("W/").unwrap_or(named) == tag)
}

/// The part of a file of `size` bytes that a header asks for: none where it is not understood or asks for several, so that the whole file is the
/// answer; in that, none where the file has no such part.
fn part_of(range: &str, size: u64) -> Option<Option<Range<u64>>> {
    let (from, to) = range.trim().strip_prefix("bytes=")?.trim().split_once('-')?;
    let number = |text: &str| {
        (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().unwrap_or(u64::MAX))
    };
    let part = match (from.is_empty(), to.is_empty()) {
        (true, _) => size.saturating_sub(number(to)?)..size,
        (false, true) => number(from)?..size,
        (false, false) => {
            let (from, to) = (number(from)?, number(to)?);
            if to < from {
                return None;
            }
            from..to.saturating_add(1).min(size)
        }
    };
    Some(Some(part).filter(|part| part.start < part.end))
}

/// The pieces of a file. Damage ends them with an error, by which the connection ends before the body is whole.
fn rest(app: App, sending: Transfer) -> impl Stream<Item = io::Result<Bytes>> {
    try_unfold(sending, move |mut sending| {
        let app = app.clone();
        async move {
            if let Some(piece) = sending.ready.take() {
                return Ok(Some((Bytes::from(piece), sending)));
            }
            let about = sending.about.clone();
            let next = read(&app, move |app, _| {
                let piece = sending.pieces.next(&app.store, PIECE_BYTES)?;
                Ok(piece.map(|piece| (Bytes::from(piece), sending)))
            });
            next.await.map_err(|problem| {
                say(&format!("{about} is cut off: {}", problem.detail));
                io::Error::other(problem.detail)
            })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_part_of_a_file_can_be_asked_for() {
        for (range, part) in [
            ("bytes=0-3", Some(Some(0..4))),
            ("bytes=2-", Some(Some(2..10))),
            ("bytes=-3", Some(Some(7..10))),
            ("bytes=-30", Some(Some(0..10))),
            ("bytes=8-99999999999999999999999", Some(Some(8..10))),
            ("bytes=10-", Some(None)),
            ("bytes=12-13", Some(None)),
            ("bytes=-0", Some(None)),
            ("bytes=3-2", None),
            ("bytes=0-1,4-5", None),
            ("bytes=-", None),
            ("bytes=+1-2", None),
            ("lines=0-3", None),
        ] {
            assert_eq!(part_of(range, 10), part, "{range}");
        }
        assert_eq!(part_of("bytes=0-", 0), Some(None));
    }
}
