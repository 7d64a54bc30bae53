//! How long a request may take, and how often it is tried: by what it is for, and by its size.

use std::time::Duration;

/// Slowest line that a request's time allows for, in bytes a second.
const BYTES_PER_SECOND_MIN: u64 = 64 << 10;

/// How hard a request is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Time for one try without its bytes.
    pub answer_within: Duration,
    /// Number of tries.
    pub tries_max: u32,
    /// Pause after the first try; each later one is twice as long, up to `pause_max`.
    pub pause: Duration,
    /// Longest pause between two tries.
    pub pause_max: Duration,
}

impl Effort {
    /// The effort of a read that somebody waits for, as behind a mount: some 15 seconds in all.
    pub const INTERACTIVE: Effort = Effort {
        answer_within: Duration::from_secs(5),
        tries_max: 3,
        pause: Duration::from_millis(100),
        pause_max: Duration::from_secs(1),
    };
    /// The effort of work in the background, as a push: minutes, before it is left to the next run.
    pub const BACKGROUND: Effort = Effort {
        answer_within: Duration::from_secs(30),
        tries_max: 8,
        pause: Duration::from_millis(200),
        pause_max: Duration::from_secs(20),
    };
    /// The effort of a question to a server that may not be one: short, so that a wrong endpoint is said at once.
    pub const PROBE: Effort = Effort {
        answer_within: Duration::from_secs(10),
        tries_max: 2,
        pause: Duration::from_millis(200),
        pause_max: Duration::from_secs(1),
    };

    /// Time for one try of a request that moves this many bytes.
    pub(super) fn time(&self, bytes: u64) -> Duration {
        self.answer_within + Duration::from_millis(bytes.saturating_mul(1000) / BYTES_PER_SECOND_MIN)
    }

    /// Pause after a try, counted from 0; absent after the last one.
    pub(super) fn pause_after(&self, attempt: u32) -> Option<Duration> {
        let factor = 1u32.checked_shl(attempt).unwrap_or(u32::MAX);
        (attempt + 1 < self.tries_max).then(|| self.pause.saturating_mul(factor).min(self.pause_max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_grows_with_size_and_pauses_end() {
        assert_eq!(Effort::BACKGROUND.time(64 << 20), Duration::from_secs(30 + 1024));
        let pauses: Vec<_> = (0..9).map(|attempt| Effort::BACKGROUND.pause_after(attempt)).collect();
        assert_eq!((pauses[0], pauses[1]), (Some(Duration::from_millis(200)), Some(Duration::from_millis(400))));
        assert_eq!((pauses[6], pauses[7]), (Some(Duration::from_millis(12_800)), None));
    }
}
