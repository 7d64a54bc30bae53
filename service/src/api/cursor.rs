//! Pages of sessions that miss none, though sessions change between two of them.
//!
//! Pages are ordered by the last change, and a session that changes moves to the front. So the cursor also names the journal sequence of the first
//! page: once the last page is reached, the sessions that changed since come again, as they are then.

use std::cmp::Reverse;

/// Sequences below this fit into a number that each reader of JSON keeps exactly.
const SMALL: u64 = 1 << 26;

/// The place of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cursor {
    /// Sessions whose last change was before a sequence.
    Before {
        /// The sequence before which it was.
        sequence: u64,
        /// The journal's end when the first page was read.
        began: u64,
    },
    /// Sessions that changed after a sequence, in order.
    Since {
        /// The sequence after which it was.
        sequence: u64,
    },
}

impl Cursor {
    /// The number that stands for it in an address.
    pub fn number(self) -> u64 {
        let (began, sequence) = match self {
            Cursor::Before { sequence, began } => (began, sequence),
            Cursor::Since { sequence } => (sequence, 0),
        };
        if began < SMALL { began * SMALL + sequence } else { (began << 32) | (sequence & u64::from(u32::MAX)) }
    }

    /// The place that a number stands for.
    pub fn of_number(number: u64) -> Self {
        let (began, sequence) = match number < SMALL * SMALL {
            true => (number / SMALL, number % SMALL),
            false => (number >> 32, number & u64::from(u32::MAX)),
        };
        if sequence == 0 { Cursor::Since { sequence: began } } else { Cursor::Before { sequence, began } }
    }
}

/// A page of sessions, and the place of the next one. `changed` tells the sequence of a session's last change; `end` is the journal's end now;
/// without a cursor it is the first page.
pub fn page<T>(
    mut sessions: Vec<T>,
    changed: impl Fn(&T) -> u64,
    cursor: Option<Cursor>,
    limit: usize,
    end: u64,
) -> (Vec<T>, Option<Cursor>) {
    let (sequence, began) = match cursor {
        None => (u64::MAX, end),
        Some(Cursor::Before { sequence, began }) => (sequence, began),
        Some(Cursor::Since { sequence }) => {
            sessions.retain(|session| changed(session) > sequence);
            return since(sessions, changed, limit);
        }
    };
    let (mut page, later): (Vec<T>, Vec<T>) =
        sessions.into_iter().partition(|session| cursor.is_none() || changed(session) <= began);
    page.retain(|session| changed(session) < sequence);
    page.sort_by_key(|session| Reverse(changed(session)));
    if page.len() > limit {
        page.truncate(limit);
        let last = page.last().map_or(0, &changed);
        return (page, Some(Cursor::Before { sequence: last, began }));
    }
    if later.is_empty() {
        return (page, None);
    }
    let room = limit - page.len();
    let (more, next) = since(later, changed, room);
    page.extend(more);
    (page, next.map(|next| if room == 0 { Cursor::Since { sequence: began } } else { next }))
}

/// The first ones that changed, in order, and the place of the next ones.
fn since<T>(mut sessions: Vec<T>, changed: impl Fn(&T) -> u64, limit: usize) -> (Vec<T>, Option<Cursor>) {
    sessions.sort_by_key(&changed);
    let is_last = sessions.len() <= limit;
    sessions.truncate(limit);
    let sequence = sessions.last().map_or(0, changed);
    (sessions, (!is_last).then_some(Cursor::Since { sequence }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_number_stands_for_a_place() {
        for began in [1, 70, SMALL - 1, SMALL, 3_000_000_000] {
            for cursor in [Cursor::Since { sequence: began }, Cursor::Before { sequence: began.min(9), began }] {
                assert_eq!(Cursor::of_number(cursor.number()), cursor);
                assert!(began >= SMALL || cursor.number() < 1 << 53, "JavaScript knows it exactly");
            }
        }
    }

    #[test]
    fn no_session_is_missed_whatever_changes_between_two_pages() {
        for limit in [1, 3, 7, 20, 100] {
            let mut changed: Vec<u64> = (1..=100).collect();
            let (mut end, mut cursor, mut seen, mut pages) = (100, None, BTreeSet::new(), 0);
            loop {
                let all: Vec<(usize, u64)> = changed.iter().copied().enumerate().collect();
                let (page, next) = page(all, |(_, changed)| *changed, cursor, limit, end);
                assert!(page.len() <= limit);
                seen.extend(page.into_iter().map(|(number, _)| number));
                pages += 1;
                let Some(next) = next else { break };
                cursor = Some(Cursor::of_number(next.number()));
                // Some that were seen, and some that were not, but fewer than a page holds.
                if pages < 60 {
                    for at in [(pages * 7) % 100, (pages * 31 + 50) % 100] {
                        end += 1;
                        changed[at] = end;
                    }
                }
            }
            assert_eq!(seen.len(), 100, "by {limit}");
        }
    }
}
