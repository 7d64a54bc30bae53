//! Sessions whose agents do nothing.

use std::{thread, time::Duration};

use super::{
    Row,
    served::{Place, Service},
};
use crate::error::Result;

/// The bars.
const SHARE_MAX: f64 = 0.01;
const MEMORY_MAX: u64 = 100 << 10;
/// The time after which everything that starts has ended.
const SETTLED: Duration = Duration::from_secs(15);

/// The cost of sessions that nothing happens in, with supervisors and after these were killed.
pub fn idle(place: &Place, sessions: usize, seconds: u64) -> Result<Vec<Row>> {
    let mut served = Service::start(place)?;
    let names: Vec<String> = (0..sessions).map(|number| format!("idle-{number}")).collect();
    served.agents(&names)?;
    eprintln!("{sessions} sessions run");
    let mut rows = measured(&served, &format!("{sessions} idle sessions"), seconds)?;
    served.kill_supervisors();
    eprintln!("their supervisors are killed");
    rows.extend(measured(&served, &format!("{sessions} idle sessions without supervisors"), seconds)?);
    served.wait_for(sessions)?;
    Ok(rows)
}

fn measured(served: &Service, what: &str, seconds: u64) -> Result<Vec<Row>> {
    thread::sleep(SETTLED);
    let before = served.processor_time()?;
    thread::sleep(Duration::from_secs(seconds));
    let taken = served.processor_time()?.saturating_sub(before);
    let (share, peak) = (taken.as_secs_f64() / seconds as f64, served.peak_memory()?);
    Ok(vec![
        Row::held(format!("{what}, {seconds} s: of a core"), format!("{:.2} %", share * 100.0), "1 %", share < SHARE_MAX),
        Row::held("… peak memory", format!("{:.1} MiB", peak as f64 / 1024.0), "100 MiB", peak < MEMORY_MAX),
    ])
}
