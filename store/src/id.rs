//! Identities. Content ids are BLAKE3 hashes, one type for each kind of object, so that one cannot be passed for another; what makes
//! them is [`crate::keys::Ids`].

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
pub use ulid::Ulid;

/// Length of a content id, in bytes.
pub const ID_BYTES: usize = 32;

/// Kind of a stored object. The numbers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ObjectKind {
    /// A piece of content; its id is BLAKE3 of its bytes.
    Chunk = 1,
    /// The root of a blob's recipe; sealed inside, found by [`crate::keys::Ids::recipe_root`].
    RecipeRoot = 2,
    /// An inner node of a recipe.
    RecipeNode = 3,
    /// A node of a folder's tree.
    Tree = 4,
    /// A sealed checkpoint record.
    Record = 5,
    /// A table beside a root: hard-link groups, or what capture left out.
    Table = 6,
}

impl ObjectKind {
    /// The kind that a stored number stands for.
    pub fn from_number(number: u8) -> Option<Self> {
        use ObjectKind::*;
        [Chunk, RecipeRoot, RecipeNode, Tree, Record, Table].into_iter().find(|kind| *kind as u8 == number)
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            ObjectKind::Chunk => "chunk",
            ObjectKind::RecipeRoot => "recipe",
            ObjectKind::RecipeNode => "recipe node",
            ObjectKind::Tree => "tree",
            ObjectKind::Record => "record",
            ObjectKind::Table => "table",
        }
    }
}

/// Lower-case hex of some bytes.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes that a hex string of exactly `N` bytes spells.
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    unhex_all(text)?.try_into().ok()
}

/// The bytes that a hex string spells. One spelling names one thing: capital letters are refused.
pub(crate) fn unhex_all(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?));
    if rest.is_empty() { bytes.collect() } else { None }
}

macro_rules! content_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; ID_BYTES]);

        impl $name {
            /// The id with its kind forgotten, as packs and the index know it.
            pub fn object(self) -> ObjectId {
                ObjectId(self.0)
            }

            /// The id that 64 hex digits spell.
            pub fn from_hex(text: &str) -> Option<Self> {
                unhex(text).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&hex(&self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), hex(&self.0[..6]))
            }
        }
    };
}

content_id!(
    /// Any object's id, whatever its kind.
    ObjectId
);
content_id!(
    /// A file's content: BLAKE3 of its raw bytes. A blob of one chunk and that chunk share their id.
    BlobId
);
content_id!(
    /// A node of a folder's tree: BLAKE3 (derive_key) of its encoding.
    TreeId
);
content_id!(
    /// An inner node of a recipe: BLAKE3 (derive_key) of its encoding.
    RecipeId
);
content_id!(
    /// A sealed checkpoint record: BLAKE3 (derive_key) of its bytes.
    RecordId
);

impl ObjectId {
    /// The first 20 bytes, by which the index finds an object; the pack's directory has the whole id.
    pub fn key(self) -> ObjectKey {
        let mut key = [0; 20];
        key.copy_from_slice(&self.0[..20]);
        key
    }
}

/// Key of an object in the index: 160 bits of its id.
pub type ObjectKey = [u8; 20];

impl BlobId {
    /// The id of no bytes, in every store: nothing is stored for it.
    pub const EMPTY: BlobId = BlobId([
        0xaf, 0x13, 0x49, 0xb9, 0xf5, 0xf9, 0xa1, 0xa6, 0xa0, 0x40, 0x4d, 0xea, 0x36, 0xdc, 0xc9, 0x49, 0x9b, 0xcb, 0x25, 0xc9,
        0xad, 0xc1, 0x12, 0xb7, 0xcc, 0x9a, 0x93, 0xca, 0xe4, 0x1f, 0x32, 0x62,
    ]);
}

/// One run of a program that writes packs: 48 bits of milliseconds and 48 random bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub [u8; 12]);

impl OpId {
    /// A new one.
    pub fn generate() -> Self {
        let ulid = Ulid::generate().to_bytes();
        let mut id = [0; 12];
        id.copy_from_slice(&ulid[..12]);
        OpId(id)
    }

    /// The id that 24 hex digits spell.
    pub fn from_hex(text: &str) -> Option<Self> {
        unhex(text).map(OpId)
    }
}

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpId({self})")
    }
}

/// A pack file: the operation that wrote it, and its number there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PackId(pub [u8; 16]);

impl PackId {
    /// The `number`-th pack of an operation.
    pub fn new(op: OpId, number: u32) -> Self {
        let mut id = [0; 16];
        id[..12].copy_from_slice(&op.0);
        id[12..].copy_from_slice(&number.to_be_bytes());
        PackId(id)
    }

    /// The operation that wrote it.
    pub fn op(self) -> OpId {
        let mut op = [0; 12];
        op.copy_from_slice(&self.0[..12]);
        OpId(op)
    }

    /// The id that 32 hex digits spell.
    pub fn from_hex(text: &str) -> Option<Self> {
        unhex(text).map(PackId)
    }
}

impl fmt::Display for PackId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for PackId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PackId({self})")
    }
}

/// Ids that are text in JSON.
macro_rules! json_text {
    ($($name:ident),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                Self::from_hex(&text).ok_or_else(|| de::Error::custom(concat!("not a ", stringify!($name))))
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                String::schema_name()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                String::json_schema(generator)
            }
        }
    )*};
}

json_text!(ObjectId, BlobId, TreeId, RecipeId, RecordId, OpId, PackId);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{blob_id, ids};

    #[test]
    fn hex_round_trips_and_refuses_other_lengths() {
        let id = blob_id(b"parhelia");
        assert_eq!(BlobId::from_hex(&id.to_string()), Some(id));
        assert_eq!(BlobId::from_hex("abcd"), None);
        assert_eq!(BlobId::from_hex(&"zz".repeat(32)), None);
        // One id has one spelling.
        assert!(BlobId::from_hex(&"ab".repeat(32)).is_some() && unhex_all("").is_some());
        for other in ["AB", "aB", "+f", " f"] {
            assert_eq!((BlobId::from_hex(&other.repeat(32)), unhex_all(other)), (None, None), "{other}");
        }
        assert_eq!(unhex_all("abc"), None);
    }

    #[test]
    fn domains_keep_equal_bytes_apart() {
        let bytes = b"the same bytes";
        let ids = [ids().blob(bytes).0, ids().tree(bytes).0, ids().recipe_node(bytes).0, ids().record(bytes).0];
        for (i, a) in ids.iter().enumerate() {
            assert!(ids[i + 1..].iter().all(|b| a != b));
        }
    }

    #[test]
    fn nothing_has_one_id() {
        assert_eq!(BlobId::EMPTY.0, *blake3::hash(b"").as_bytes());
    }

    #[test]
    fn a_pack_knows_its_operation() {
        let op = OpId::generate();
        assert_eq!(PackId::new(op, 7).op(), op);
        assert_ne!(PackId::new(op, 7), PackId::new(op, 8));
    }
}
