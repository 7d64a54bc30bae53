//! The page: files for a browser, which are part of the program. All that they show they ask the API for.

use axum::{
    Router,
    extract::Path,
    http::{HeaderValue, Method, header},
    response::{IntoResponse, Response},
    routing::get,
};

use crate::{app::App, problem::Problem};

/// Nothing is loaded from elsewhere, no script stands in the page itself, and no other page shows it in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

/// A file of the page.
struct Asset {
    name: &'static str,
    kind: &'static str,
    content: &'static str,
}

macro_rules! assets {
    ($($name:literal $kind:literal)*) => {
        [$(Asset { name: $name, kind: $kind, content: include_str!(concat!("../page/", $name)) }),*]
    };
}

/// The page itself.
const INDEX: Asset = Asset { name: "", kind: "text/html", content: include_str!("../page/index.html") };

/// Its other files, below `/page/`.
static ASSETS: &[Asset] = &assets! {
    "api.js" "text/javascript"
    "app.js" "text/javascript"
    "auth.js" "text/javascript"
    "begin.js" "text/javascript"
    "binary.js" "text/javascript"
    "checkpoint.js" "text/javascript"
    "compare.js" "text/javascript"
    "conversation.js" "text/javascript"
    "decide.js" "text/javascript"
    "dialog.js" "text/javascript"
    "dom.js" "text/javascript"
    "environment.js" "text/javascript"
    "files.js" "text/javascript"
    "graph.js" "text/javascript"
    "hidden.js" "text/javascript"
    "hunks.js" "text/javascript"
    "icon.svg" "image/svg+xml"
    "keys.js" "text/javascript"
    "lists.js" "text/javascript"
    "live.js" "text/javascript"
    "marks.js" "text/javascript"
    "notices.js" "text/javascript"
    "problem.js" "text/javascript"
    "question.js" "text/javascript"
    "rollback.js" "text/javascript"
    "rowfacts.js" "text/javascript"
    "search.js" "text/javascript"
    "session.js" "text/javascript"
    "sessions.js" "text/javascript"
    "signin.js" "text/javascript"
    "style.css" "text/css"
    "text.js" "text/javascript"
    "timeline.js" "text/javascript"
};

/// True of a request for the page, which holds nothing of the store and is shown to whoever has no token yet.
pub fn is_public(method: &Method, path: &str) -> bool {
    matches!(*method, Method::GET | Method::HEAD) && (path == "/" || path.starts_with("/page/"))
}

/// Routes of the page: `/`, and files below `/page/`.
pub fn routes() -> Router<App> {
    Router::new().route("/", get(async || shown(&INDEX))).route("/page/{name}", get(asset))
}

async fn asset(Path(name): Path<String>) -> Result<Response, Problem> {
    let found = ASSETS.iter().find(|asset| asset.name == name);
    found.map(shown).ok_or_else(|| Problem::not_found("the page has no such file"))
}

fn shown(asset: &'static Asset) -> Response {
    let mut response = asset.content.into_response();
    let kind = HeaderValue::try_from(format!("{}; charset=utf-8", asset.kind)).unwrap_or(HeaderValue::from_static("text/plain"));
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        // Another release has other files.
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ] {
        response.headers_mut().insert(name, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;

    #[test]
    fn every_file_of_the_page_is_part_of_the_program() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let known = ASSETS.iter().map(|asset| asset.name.to_owned()).chain(["index.html".to_owned()]);
        assert_eq!(files.collect::<BTreeSet<_>>(), known.collect::<BTreeSet<_>>());
    }
}
