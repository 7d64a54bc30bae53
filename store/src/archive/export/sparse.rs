//! Sparse files in an archive that is written.

use crate::{archive::pax::BLOCK, tree::Hole};

/// The ranges between the holes, as start and length. Where the file ends in a hole, an empty one at its end.
pub(super) fn data_map(size: u64, holes: &[Hole]) -> Vec<(u64, u64)> {
    let mut map = Vec::with_capacity(holes.len() + 1);
    let mut at = 0;
    for hole in holes {
        if hole.start > at {
            map.push((at, hole.start - at));
        }
        at = hole.start + hole.bytes;
    }
    if at < size || !holes.is_empty() {
        map.push((at, size - at));
    }
    map
}

pub(super) fn map_text(map: &[(u64, u64)]) -> Vec<u8> {
    let mut text = format!("{}\n", map.len());
    for (start, bytes) in map {
        text.push_str(&format!("{start}\n{bytes}\n"));
    }
    let mut text = text.into_bytes();
    text.resize(text.len().next_multiple_of(BLOCK), 0);
    text
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn the_map_covers_what_is_no_hole() {
        assert_eq!(data_map(5, &[]), [(0, 5)]);
        assert_eq!(data_map(0, &[]), []);
        let holes = [Hole { start: 0, bytes: 10 }, Hole { start: 10, bytes: 5 }, Hole { start: 20, bytes: 5 }];
        assert_eq!(data_map(25, &holes), [(15, 5), (25, 0)]);
        assert_eq!(data_map(30, &holes), [(15, 5), (25, 5)]);
        assert_eq!(map_text(&[(15, 5)]).len(), BLOCK);
    }
}
