//! Visits of pages: what requests are signed for, so that each counts once, and none longer than the service lives.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use super::Key;

/// So many visits are known at a time that somebody has asked something in; the oldest ends for another one.
const VISITS_MAX: usize = 1024;
/// So many counts of a visit are known one by one: requests overtake each other, but not by more.
const COUNTS_MAX: usize = 1024;

/// The visits of a service. One that nobody has asked anything in yet costs no memory: it bears the service's own HMAC.
pub struct Visits {
    secret: Key,
    next: AtomicU64,
    seen: Mutex<VisitCounts>,
}

#[derive(Default)]
struct VisitCounts {
    /// The counts that each visit has used, by its number.
    counts: HashMap<u64, Counts>,
    /// Visits up to this number have ended, if they are not there.
    ended: u64,
}

#[derive(Default)]
struct Counts {
    used: BTreeSet<u64>,
    /// Counts up to this one are used.
    floor: u64,
}

impl Default for Visits {
    fn default() -> Self {
        Visits { secret: Key::random(), next: AtomicU64::new(1), seen: Mutex::default() }
    }
}

impl Visits {
    /// A new visit of a browser.
    pub fn begin(&self, browser: &str) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        format!("{browser}.{number}.{}", self.secret.mac(&["visit", browser, &number]))
    }

    /// The browser of a visit of this service.
    pub fn browser<'v>(&self, visit: &'v str) -> Option<&'v str> {
        self.read(visit).map(|(browser, _)| browser)
    }

    fn read<'v>(&self, visit: &'v str) -> Option<(&'v str, u64)> {
        let (browser, rest) = visit.split_once('.')?;
        let (number, mac) = rest.split_once('.')?;
        let is_own = self.secret.is(&["visit", browser, number], mac);
        Some((browser, number.parse().ok()?)).filter(|_| is_own)
    }

    /// True if a count was not used in a visit before. It is from then on.
    pub fn takes(&self, visit: &str, count: u64) -> bool {
        let Some((_, number)) = self.read(visit) else { return false };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if !seen.counts.contains_key(&number) {
            if number <= seen.ended {
                return false;
            }
            if seen.counts.len() >= VISITS_MAX
                && let Some(oldest) = seen.counts.keys().min().copied()
            {
                seen.counts.remove(&oldest);
                seen.ended = seen.ended.max(oldest);
                if number <= seen.ended {
                    return false;
                }
            }
        }
        let counts = seen.counts.entry(number).or_default();
        if count <= counts.floor || !counts.used.insert(count) {
            return false;
        }
        if counts.used.len() > COUNTS_MAX
            && let Some(lowest) = counts.used.pop_first()
        {
            counts.floor = lowest;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_used_once_in_whatever_order_and_a_visit_that_is_forgotten_has_ended() {
        let visits = Visits::default();
        let first = visits.begin("a");
        assert_eq!(visits.browser(&first), Some("a"));
        for (count, is_taken) in [(2, true), (1, true), (2, false), (1, false), (0, false), (5, true), (4, true), (5, false)] {
            assert_eq!(visits.takes(&first, count), is_taken, "{count}");
        }
        let far = COUNTS_MAX as u64 * 3;
        assert!((COUNTS_MAX as u64 * 2..far).all(|count| visits.takes(&first, count)));
        assert!(!visits.takes(&first, 3), "it comes too late");
        let others: Vec<String> = (0..VISITS_MAX).map(|_| visits.begin("b")).collect();
        assert!(others.iter().all(|visit| visits.takes(visit, 1)));
        assert!(!visits.takes(&first, far + 1) && !visits.takes(&others[5], 1) && visits.takes(&others[5], 2));
        // Another service's, and one that nobody has begun.
        assert!(!Visits::default().takes(&others[5], 3) && visits.browser("a.1.00").is_none() && visits.browser("x").is_none());
    }
}
