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
use parhelia_wire::event::Event;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::broadcast::{Receiver, error::RecvError};

use super::{extract::Parameters, operation::Operation, problem::Problem};
use crate::{
    app::{App, read},
    feed,
};

/// So often a listener hears something, so that whoever stands between knows that the connection lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The header with which a client takes up a stream.
const LAST_EVENT_ID: &str = "last-event-id";

/// The events that are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// Sequence behind which they are wanted; those to come, if there is neither this nor the header Last-Event-ID.
    after: Option<u64>,
    /// Id of the session that they concern.
    session: Option<String>,
    /// Beginning of their kind, such as checkpoint. or run.started.
    kind: Option<String>,
}

pub fn operations() -> Vec<Operation> {
    vec![
        Operation::get(
            "/api/events",
            "listenToEvents",
            "Commits and events as they are recorded, each a server-sent event with its sequence as id and an object as data.",
            get(listen),
        )
        .query::<Wanted>()
        .gives_events::<Event>(),
    ]
}

/// A listener.
struct Listener {
    app: App,
    wanted: Wanted,
    /// The sequence of the last entry that it heard of.
    after: u64,
    /// Entries that were read for it, as it had not listened when they came.
    pending: VecDeque<Arc<Event>>,
    receiver: Receiver<Arc<Event>>,
}

async fn listen(
    State(app): State<App>,
    headers: HeaderMap,
    Parameters(wanted): Parameters<Wanted>,
) -> Result<Sse<impl Stream<Item = Result<Sent, Infallible>>>, Problem> {
    let header = headers.get(LAST_EVENT_ID).map(|value| value.to_str().ok().and_then(|text| text.parse::<u64>().ok()));
    let header = header.map(|sequence| sequence.ok_or_else(|| Problem::usage("Last-Event-ID is no sequence"))).transpose()?;
    // Before the journal is read: what comes meanwhile is heard twice, and not missed.
    let receiver = app.feed.listen().ok_or_else(|| Problem::busy("the service ends"))?;
    let start = header.or(wanted.after);
    let after = match start {
        Some(after) => after,
        None => read(&app, |_, view| Ok(view.end().sequence)).await?,
    };
    let mut listener = Listener { app, wanted, after, pending: VecDeque::new(), receiver };
    if start.is_some() {
        listener.catch_up().await?;
    }
    let stream = unfold(listener, async |mut listener| Some((Ok(listener.next().await?), listener)));
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

impl Listener {
    /// Reads what it has not heard of.
    async fn catch_up(&mut self) -> Result<(), Problem> {
        let after = self.after;
        let events = read(&self.app, move |app, _| Ok(feed::behind(&app.store, after)?)).await?;
        self.pending.extend(events.into_iter().map(Arc::new));
        Ok(())
    }

    /// The next event that is wanted; none once the service ends.
    async fn next(&mut self) -> Option<Sent> {
        loop {
            let event = match self.pending.pop_front() {
                Some(event) => event,
                None => match self.receiver.recv().await {
                    Ok(event) => event,
                    Err(RecvError::Closed) => return None,
                    Err(RecvError::Lagged(_)) => {
                        self.catch_up().await.ok()?;
                        continue;
                    }
                },
            };
            if event.sequence <= self.after {
                continue;
            }
            self.after = event.sequence;
            if self.fits(&event) {
                let sent = Sent::default().id(event.sequence.to_string()).event(&event.kind);
                return sent.json_data(&*event).ok();
            }
        }
    }

    fn fits(&self, event: &Event) -> bool {
        let Wanted { session, kind, .. } = &self.wanted;
        session.as_ref().is_none_or(|session| event.session.as_ref() == Some(session))
            && kind.as_ref().is_none_or(|kind| event.kind.starts_with(kind.as_str()))
    }
}
