//! The bytes of a file of a checkpoint. They are read in pieces, each when the one before is on its way, so that neither a long file nor a slow
//! listener takes memory or a thread.

use std::io;

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::{HeaderValue, Method, header},
    response::{IntoResponse, Response},
    routing::get,
};
use futures_util::{Stream, stream::try_unfold};
use parhelia_store::{blob::Pieces, name, pin::Pin, tree::Kind};

use super::{checkpoints::pinned, extract::Named, operation::Operation, problem::Problem};
use crate::{
    app::{App, read},
    log::say,
};

/// So many bytes are read at a time.
const PIECE_BYTES: u64 = 1 << 20;

pub fn operations() -> Vec<Operation> {
    vec![Operation::get("/api/checkpoints/{checkpoint}/files/{*path}", "getFile", "The bytes of one file.", get(file))]
}

/// A file that is handed out.
struct Sending {
    pieces: Pieces,
    /// A piece that was read already.
    ready: Option<Vec<u8>>,
    /// The checkpoint and the path, for the log.
    about: String,
    /// Held until the last piece was read.
    _pin: Option<Pin>,
}

async fn file(
    State(app): State<App>,
    method: Method,
    Named((selector, path)): Named<(String, String)>,
) -> Result<Response, Problem> {
    let sending = read(&app, move |app, _| {
        let (checkpoint, pin) = pinned(&app.store, &selector)?;
        // Paths are those of the checkpoint's tree, in which there is nothing above the workspace.
        let parsed = name::parse(&path);
        let node = app.store.node_at(&checkpoint, &parsed)?;
        let Kind::File { size, blob, .. } = &node.kind else {
            return Err(Problem::usage(format!("{path} is a {}, and no file", node.kind.name())));
        };
        let mut pieces = app.store.pieces(*blob, *size)?;
        // What is damaged from its beginning on is a problem, and no answer that is cut off.
        let ready = if method == Method::HEAD { None } else { pieces.next(&app.store, PIECE_BYTES)? };
        Ok(Sending { pieces, ready, about: format!("{} of checkpoint {}", name::display(&parsed), checkpoint.id()), _pin: pin })
    })
    .await?;
    let size = sending.pieces.size();
    let mut response = Body::from_stream(rest(app, sending)).into_response();
    for (name, value) in [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream")),
        (header::CONTENT_LENGTH, HeaderValue::from(size)),
        // Whatever is in it, no browser shows it as a page.
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment")),
    ] {
        response.headers_mut().insert(name, value);
    }
    Ok(response)
}

/// The pieces of a file. Damage ends them with an error, by which the connection ends before the body is whole.
fn rest(app: App, sending: Sending) -> impl Stream<Item = io::Result<Bytes>> {
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
