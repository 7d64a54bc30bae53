//! Objects that are stored whole, put side by side as they were: what is alike compresses better in one block.

use crate::{
    error::Result,
    id::ObjectId,
    pack::{Location, ObjectKind},
};

/// Raw bytes that are gathered before they are put in order.
const WINDOW_BYTES: usize = 16 << 20;

struct WindowObject {
    order: (Location, u64),
    kind: ObjectKind,
    id: ObjectId,
    start: usize,
    bytes: usize,
    tail_bytes: usize,
}

/// Objects that wait for their neighbours.
#[derive(Default)]
pub(super) struct Window {
    waiting: Vec<WindowObject>,
    bytes: Vec<u8>,
}

impl Window {
    pub(super) fn add(&mut self, order: (Location, u64), kind: ObjectKind, id: ObjectId, bytes: &[u8], tail_bytes: usize) {
        self.waiting.push(WindowObject { order, kind, id, start: self.bytes.len(), bytes: bytes.len(), tail_bytes });
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() >= WINDOW_BYTES
    }

    /// Gives each object, in order.
    pub(super) fn each_in_order(mut self, mut take: impl FnMut(ObjectKind, ObjectId, &[u8], usize) -> Result<()>) -> Result<()> {
        self.waiting.sort_by_key(|waiting| waiting.order);
        for waiting in &self.waiting {
            let bytes = &self.bytes[waiting.start..waiting.start + waiting.bytes];
            take(waiting.kind, waiting.id, bytes, waiting.tail_bytes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        id::{OpId, PackId},
        testing::blob_id,
    };

    #[test]
    fn objects_come_out_in_order_with_their_bytes() {
        let pack = PackId::new(OpId::generate(), 0);
        let at = |offset, place| (Location { pack, offset, block_bytes: 9 }, place);
        let (mut window, mut found) = (Window::default(), Vec::new());
        for (order, bytes) in [(at(50, 2), "third"), (at(50, 1), "second"), (at(7, 9), "first")] {
            window.add(order, ObjectKind::Chunk, blob_id(bytes.as_bytes()).object(), bytes.as_bytes(), 1);
        }
        assert!(!window.is_full());
        let take = |kind, id: ObjectId, bytes: &[u8], tail_bytes| {
            assert!(kind == ObjectKind::Chunk && id == blob_id(bytes).object() && tail_bytes == 1);
            found.push(String::from_utf8(bytes.to_vec()).unwrap());
            Ok(())
        };
        window.each_in_order(take).unwrap();
        assert_eq!(found, ["first", "second", "third"]);
        let mut window = Window::default();
        window.add(at(1, 1), ObjectKind::Chunk, blob_id(b"").object(), &vec![0; WINDOW_BYTES], 0);
        assert!(window.is_full());
    }
}
