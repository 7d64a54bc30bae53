//! Numbers for a monitor, as OpenMetrics text.

use std::{fmt::Error, time::Duration};

use parhelia_life::{checked, overview::Need};
use parhelia_store::{Store, clock};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};

use crate::{
    listing::{Listing, Observation},
    verdict::Verdicts,
};

/// The content type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A request that was answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    path: String,
    status: u16,
}

/// The path of a request, as the operation has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    path: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

/// A state of sessions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct State {
    observed: &'static str,
}

/// Label of a need of a person.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NeedLabels {
    need: &'static str,
}

/// Everything that is counted as it happens.
pub struct Metrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<Route, Histogram>,
    resumes: Family<Outcome, Counter>,
    checkpoints: Family<Outcome, Counter>,
}

/// Done or not.
fn outcome(is_done: bool) -> Outcome {
    Outcome { outcome: if is_done { "done" } else { "failed" } }
}

impl Default for Metrics {
    fn default() -> Self {
        // From a quarter of a millisecond to four seconds.
        let seconds = || Histogram::new(exponential_buckets(0.000_25, 4.0, 8));
        let seconds = Family::new_with_constructor(seconds as fn() -> Histogram);
        Metrics { requests: Family::default(), seconds, resumes: Family::default(), checkpoints: Family::default() }
    }
}

impl Metrics {
    /// Counts a request.
    pub fn answered(&self, path: &str, status: u16, took: Duration) {
        self.requests.get_or_create(&RequestLabels { path: path.to_owned(), status }).inc();
        self.seconds.get_or_create(&Route { path: path.to_owned() }).observe(took.as_secs_f64());
    }

    /// Counts a resume of a session whose agent had died.
    pub fn resumed(&self, is_done: bool) {
        self.resumes.get_or_create(&outcome(is_done)).inc();
    }

    /// Counts a checkpoint that nobody had asked for.
    pub fn captured(&self, is_done: bool) {
        self.checkpoints.get_or_create(&outcome(is_done)).inc();
    }

    /// Everything that is counted as it happens, and whether the store is in its place.
    fn counted(&self, is_there: bool) -> Registry {
        let mut registry = Registry::with_prefix("parhelia");
        registry.register("http_requests", "Requests that were answered", self.requests.clone());
        let seconds = "Time from a request to its answer";
        registry.register_with_unit("http_request_duration", seconds, Unit::Seconds, self.seconds.clone());
        registry.register("resumes", "Sessions that were resumed because their agents had died", self.resumes.clone());
        let checkpoints = "Checkpoints of agents that nobody else watches over";
        registry.register("service_checkpoints", checkpoints, self.checkpoints.clone());
        let there = Gauge::<i64>::default();
        there.set(is_there.into());
        registry.register("store_available", "1 while the store is in its place, 0 where it is not", there);
        registry
    }

    /// The same, of a service whose store is not in its place.
    pub fn text_without_store(&self) -> Result<String, Error> {
        encoded(&self.counted(false))
    }

    /// All of it, and the store as it is now.
    pub fn text(&self, store: &Store, listing: &Listing, verdicts: &Verdicts) -> parhelia_host::Result<Result<String, Error>> {
        let mut registry = self.counted(true);
        let view = store.view();
        let sequence: Gauge = Gauge::default();
        sequence.set(view.end().sequence.try_into().unwrap_or(i64::MAX));
        registry.register("journal_sequence", "Sequence of the journal's last record", sequence);
        if let Some(free) = store.free_bytes() {
            let gauge: Gauge = Gauge::default();
            gauge.set(free.try_into().unwrap_or(i64::MAX));
            registry.register_with_unit("store_free", "Room that is left on the store's filesystem", Unit::Bytes, gauge);
        }
        let absent = Gauge::<i64>::default();
        absent.set(verdicts.absent_packs().try_into().unwrap_or(i64::MAX));
        registry.register("store_packs_missing", "Packs of the store that have no file", absent);
        if let Some(last) = checked::last(store) {
            let findings = Gauge::<i64>::default();
            findings.set(last.findings.try_into().unwrap_or(i64::MAX));
            registry.register("store_check_findings", "Problems that were found last in the store", findings);
            if last.read_data() {
                let age = Gauge::<i64>::default();
                age.set(clock::timestamp().duration_since(last.at).as_secs());
                let help = "Time since the last check that read data";
                registry.register_with_unit("store_check_age", help, Unit::Seconds, age);
            }
        }
        let (states, failing, oldest) = (Family::<State, Gauge>::default(), Gauge::<i64>::default(), Gauge::<i64>::default());
        let (set_aside, needing) = (Gauge::<i64>::default(), Family::<NeedLabels, Gauge>::default());
        Need::ALL.iter().for_each(|need| drop(needing.get_or_create(&NeedLabels { need: need.name() })));
        let now = clock::timestamp();
        for Observation { session, overview, .. } in listing.open(store, &view)? {
            let state = State { observed: overview.observed.name() };
            states.get_or_create(&state).inc();
            failing.inc_by(i64::from(overview.failing.is_some()));
            set_aside.inc_by(i64::from(overview.set_aside.is_some()));
            if let Some(need) = overview.needs(&session) {
                needing.get_or_create(&NeedLabels { need: need.name() }).inc();
            }
            if let Some(saved) = overview.last_checkpoint.as_ref().filter(|_| overview.observed.is_alive()) {
                oldest.set(oldest.get().max(now.duration_since(saved.created_at).as_secs()));
            }
        }
        registry.register("sessions", "Sessions that have not ended, by what is seen of their agents", states);
        registry.register("sessions_failing", "Sessions whose last checkpoint failed", failing);
        registry.register("sessions_set_aside", "Sessions that are not resumed by themselves since their agents died", set_aside);
        registry.register("sessions_needing", "Sessions that need a person, by what they need", needing);
        let backlog = verdicts.backlog();
        for (name, help, number) in [
            ("outbox_waiting", "Messages that wait to be delivered", backlog.waiting),
            ("outbox_failed", "Messages that are not tried again by themselves", backlog.failed),
        ] {
            let gauge = Gauge::<i64>::default();
            gauge.set(number.try_into().unwrap_or(i64::MAX));
            registry.register(name, help, gauge);
        }
        let waits = Gauge::<i64>::default();
        waits.set(backlog.oldest.map_or(0, |oldest| now.duration_since(oldest).as_secs().max(0)));
        registry.register_with_unit("outbox_oldest", "Time since which the oldest message waits", Unit::Seconds, waits);
        let age = "Age of the last checkpoint of the live session whose is the oldest";
        registry.register_with_unit("checkpoint_age_max", age, Unit::Seconds, oldest);
        Ok(encoded(&registry))
    }
}

fn encoded(registry: &Registry) -> Result<String, Error> {
    let mut text = String::new();
    encode(&mut text, registry).map(|()| text)
}
