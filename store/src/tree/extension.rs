//! Extension fields of an entry: room for what a later release keeps of one. This release writes none, and knows none.

use crate::codec::{DecodeError, Decoder};

/// An extension that changes what the entry is, so that a reader without it would show something else.
const NEWER: DecodeError = DecodeError("extension of an entry: it was written by a newer parhelia");

/// Passes over the extensions of an entry: those with even tags say nothing that a reader without them needs. Fails at the first one
/// with an odd tag, and where tags are not ascending.
pub(super) fn skip(head: &mut Decoder<'_>) -> Result<(), DecodeError> {
    let count = head.count(2, "extensions")?;
    let mut before = None;
    for _ in 0..count {
        let tag = head.uint("extension")?;
        head.bytes("extension")?;
        if before.is_some_and(|before| before >= tag) {
            return Err(DecodeError("order of extensions"));
        }
        if tag % 2 == 1 {
            return Err(NEWER);
        }
        before = Some(tag);
    }
    if before.is_none() { Err(DecodeError("extensions")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, Meta, Node, TreeNode, decode};
    use crate::codec::{put_bytes, put_uint};

    /// A leaf of two fifos, of which the first one has these extensions.
    fn leaf(extensions: &[(u64, &str)]) -> Vec<u8> {
        let mut head = Vec::new();
        let fifo = |name: &str| Node { name: name.into(), meta: Meta::default(), links: 1, kind: Kind::Fifo };
        fifo("a").encode(&mut head, &mut Vec::new());
        head[0] |= 0x80;
        put_uint(&mut head, extensions.len() as u64);
        for (tag, bytes) in extensions {
            put_uint(&mut head, *tag);
            put_bytes(&mut head, bytes.as_bytes());
        }
        fifo("b").encode(&mut head, &mut Vec::new());
        let mut bytes = vec![0, 2];
        put_bytes(&mut bytes, &head);
        bytes
    }

    #[test]
    fn what_need_not_be_known_is_passed_over() {
        for extensions in [&[(0, "")][..], &[(2, "x"), (4, ""), (1 << 40, "yz")]] {
            let Ok(TreeNode::Leaf(nodes)) = decode(&leaf(extensions)) else { panic!("{extensions:?}") };
            assert_eq!(nodes.iter().map(|node| node.name.as_slice()).collect::<Vec<_>>(), [b"a", b"b"]);
        }
    }

    #[test]
    fn what_must_be_known_is_refused_by_name() {
        for extensions in [&[(1, "")][..], &[(2, "x"), (7, "y")]] {
            let error = decode(&leaf(extensions)).unwrap_err().to_string();
            assert!(error.contains("written by a newer parhelia"), "{error}");
        }
    }

    #[test]
    fn extensions_have_one_order_and_are_there() {
        for extensions in [&[][..], &[(2, "x"), (2, "x")], &[(4, "x"), (2, "x")]] {
            assert!(decode(&leaf(extensions)).is_err(), "{extensions:?}");
        }
        let mut cut = leaf(&[(2, "long")]);
        let at = cut.windows(4).position(|bytes| bytes == b"long").unwrap();
        cut[at - 1] = 200;
        assert!(decode(&cut).is_err());
    }
}
