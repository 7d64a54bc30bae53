//! The journal's entries as they come: server-sent events, which a client takes up again where it stopped.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::State,
    http::HeaderMap,
    response::{
        Sse,
        sse::{Event as Sent, KeepAlive},
    },
    routing::get,
};
use futures_util::{Stream, stream::unfold};
use parhelia_ledger::LedgerView as _;
use parhelia_store::Store;
use parhelia_wire::event::Event;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::{extract::Parameters, operation::Operation};
use crate::problem::Problem;
use crate::{
    app::{App, read},
    feed::Pages,
};

/// So often a listener hears something, so that whoever stands between knows that the connection lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The header with which a client takes up a stream.
const LAST_EVENT_ID: &str = "last-event-id";

/// The events that are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EventsQuery {
    /// Sequence behind which they are wanted, at most the newest entry's; those to come, if there is neither this nor the header Last-Event-ID.
    after: Option<u64>,
    /// Session that they concern, by its id or name.
    session: Option<String>,
    /// Beginning of their kind, such as checkpoint. or run.started.
    kind: Option<String>,
}

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::get(
            "/v1/events",
            "listenToEvents",
            "Commits and events as they are recorded, each a server-sent event with its sequence as id and an object as data.",
            get(listen),
        )
        .query::<EventsQuery>()
        .gives_events::<Event>(),
    ]
}

struct Listener {
    app: App,
    wanted: EventsQuery,
    /// The sequence of the last entry that it heard of.
    after: u64,
    /// Pages of the journal that it has still to hear of, as it had not listened when they were written.
    pages: Option<Pages>,
    /// The events of a page.
    pending: VecDeque<Event>,
    receiver: Receiver<Arc<Event>>,
}

async fn listen(
    State(app): State<App>,
    headers: HeaderMap,
    Parameters(mut wanted): Parameters<EventsQuery>,
) -> Result<Sse<impl Stream<Item = Result<Sent, Infallible>>>, Problem> {
    let header = headers.get(LAST_EVENT_ID).map(|value| value.to_str().ok().and_then(|text| text.parse::<u64>().ok()));
    let header = header.map(|sequence| sequence.ok_or_else(|| Problem::usage("Last-Event-ID is no sequence"))).transpose()?;
    // Before the journal is read: what comes meanwhile is heard twice, and not missed.
    let receiver = app.feed.listen().ok_or_else(|| Problem::busy("the service ends"))?;
    let start = header.or(wanted.after);
    let named = wanted.session.take();
    let (session, (after, pages)) = read(&app, move |app, view| {
        // Of one that is not there nothing would ever be heard.
        let session = named.map(|name| view.session_id(&name)).transpose()?;
        Ok((session, beginning(&app.store, start, view.end().sequence)?))
    })
    .await?;
    wanted.session = session;
    let listener = Listener { app, wanted, after, pages, pending: VecDeque::new(), receiver };
    let stream = unfold(listener, async |mut listener| Some((Ok(listener.next().await?), listener)));
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

/// The sequence behind which a listener begins, and the pages that it has to hear of.
fn beginning(store: &Store, start: Option<u64>, end: u64) -> Result<(u64, Option<Pages>), Problem> {
    match start {
        None => Ok((end, None)),
        // A sequence of another store, or of a younger copy: the listener would miss everything up to there.
        Some(after) if after > end => Err(Problem::usage(format!("after {after} is beyond the newest entry {end}"))),
        Some(after) => Ok((after, Some(Pages::behind(store, after)?))),
    }
}

impl Listener {
    /// The next event that is wanted; none once the service ends, or the journal cannot be read.
    async fn next(&mut self) -> Option<Sent> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                if let Some(sent) = self.hear(&event) {
                    return Some(sent);
                }
                continue;
            }
            if let Some(pages) = self.pages.take() {
                self.turn(pages).await.ok()?;
                continue;
            }
            match self.receiver.recv().await {
                Ok(event) => {
                    if let Some(sent) = self.hear(&event) {
                        return Some(sent);
                    }
                }
                Err(RecvError::Closed) => return None,
                Err(RecvError::Lagged(_)) => {
                    let after = self.after;
                    self.pages = Some(read(&self.app, move |app, _| Ok(Pages::behind(&app.store, after)?)).await.ok()?);
                }
            }
        }
    }

    /// Reads a page. Behind the last one it is told of what comes.
    async fn turn(&mut self, mut pages: Pages) -> Result<(), Problem> {
        let page = read(&self.app, move |app, _| Ok(pages.next(&app.store)?.map(|events| (events, pages)))).await?;
        if let Some((events, pages)) = page {
            (self.pending, self.pages) = (events.into(), Some(pages));
        }
        Ok(())
    }

    /// The message of an event; none of one that is not wanted, or was heard of before.
    fn hear(&mut self, event: &Event) -> Option<Sent> {
        if event.sequence <= self.after {
            return None;
        }
        self.after = event.sequence;
        let sent = Sent::default().id(event.sequence.to_string()).event(&event.kind);
        if self.fits(event) { sent.json_data(event).ok() } else { None }
    }

    fn fits(&self, event: &Event) -> bool {
        let EventsQuery { session, kind, .. } = &self.wanted;
        session.as_ref().is_none_or(|session| event.session.as_ref() == Some(session))
            && kind.as_ref().is_none_or(|kind| event.kind.starts_with(kind.as_str()))
    }
}
