//! Resuming a session that is paused and whose agent lives.

use std::time::{Duration, Instant};

use super::{
    Row, milliseconds, percentile,
    served::{Place, Service, make_files},
};
use crate::error::Result;

/// The bar.
const BAR: Duration = Duration::from_millis(5);

/// Times resuming over HTTP.
pub fn resume(place: &Place, rounds: usize) -> Result<Vec<Row>> {
    let mut served = Service::start(place)?;
    make_files(&served.workspace("paused"), 100)?;
    served.agents(&["paused".to_owned()])?;
    let mut connection = served.connect()?;
    let mut times = Vec::new();
    for _ in 0..rounds {
        connection.post("/v1/sessions/paused/pause")?;
        let began = Instant::now();
        connection.post("/v1/sessions/paused/resume")?;
        times.push(began.elapsed());
    }
    times.sort();
    let (half, most) = (percentile(&times, 0.5), percentile(&times, 0.99));
    Ok(vec![
        Row::plain(format!("resume of a paused session whose agent lives, {rounds} times: p50"), milliseconds(half)),
        Row::held("… p99", milliseconds(most), "5 ms", most < BAR),
    ])
}
