//! Phase checkpoints as a part of a session's checkpoint: those that were made since the session began, whoever made them.

use jiff::Timestamp;

use super::Home;
use parhelia_host::job::{Job, JobOutput};

/// The part that holds them.
const PHASES: &str = "phases";
/// No more of them are kept, the newest ones, and no more bytes.
const KEPT_MAX: usize = 100;
const BYTES_MAX: usize = 8 << 20;

/// Looks at them; none where there is no folder of them.
pub fn job(home: Home, since: Timestamp) -> Option<Job> {
    home.exists().then(|| Job::new(PHASES, move || looked(&home, since).map_err(|e| e.to_string())))
}

fn looked(home: &Home, since: Timestamp) -> parhelia_host::Result<Option<JobOutput>> {
    let mut found = home.list(None)?;
    found.retain(|saved| saved.phase.created_at >= since);
    let mut left = BYTES_MAX;
    let files = found.iter().take(KEPT_MAX).filter_map(|saved| {
        let bytes = serde_json::to_vec_pretty(&saved.phase).ok()?;
        left = left.checked_sub(bytes.len())?;
        Some((format!("{PHASES}/{}", saved.phase.file_name()), bytes))
    });
    let files: Vec<(String, Vec<u8>)> = files.collect();
    Ok((!files.is_empty()).then(|| JobOutput { files, ..JobOutput::default() }))
}
