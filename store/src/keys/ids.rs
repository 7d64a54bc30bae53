//! Ids of bytes, for one store.

use std::{
    fmt, io,
    sync::{Arc, LazyLock},
};

use blake3::{
    Hasher,
    hazmat::{ContextKey, HasherExt as _, Mode, hash_derive_key_context},
};

use crate::{
    codec::Decoder,
    format::context,
    id::{BlobId, ObjectId, ObjectKind, RecipeId, RecordId, TreeId, hex},
};

/// Kinds of bytes that never share an id, whatever they are.
#[derive(Clone, Copy)]
enum Domain {
    Blob,
    Tree,
    RecipeNode,
    RecipeRoot,
    RecipeSeal,
    Record,
    Table,
    Event,
    Name,
}

impl Domain {
    const ALL: [Domain; 9] = {
        use Domain::*;
        [Blob, Tree, RecipeNode, RecipeRoot, RecipeSeal, Record, Table, Event, Name]
    };

    fn context(self) -> &'static str {
        match self {
            Domain::Blob => context::BLOB,
            Domain::Tree => context::TREE,
            Domain::RecipeNode => context::RECIPE_NODE,
            Domain::RecipeRoot => context::RECIPE_ROOT,
            Domain::RecipeSeal => context::RECIPE_SEAL,
            Domain::Record => context::RECORD,
            Domain::Table => context::TABLE,
            Domain::Event => context::EVENT,
            Domain::Name => context::NAME,
        }
    }

    /// A hasher of these bytes where there is no key.
    fn hasher(self) -> Hasher {
        /// Hashing a context takes as long as hashing what it stands before, where that is short.
        static CONTEXTS: LazyLock<[ContextKey; Domain::ALL.len()]> =
            LazyLock::new(|| Domain::ALL.map(|domain| hash_derive_key_context(domain.context())));
        Hasher::new_from_context_key(&CONTEXTS[self as usize])
    }

    /// True if BLAKE3 is taken without a context where there is no key, as by everybody else.
    fn is_bare(self) -> bool {
        matches!(self, Domain::Blob | Domain::Name)
    }
}

/// Makes ids of bytes: BLAKE3, with a context for each kind of bytes ([`context`]), or keyed with what a key derives for it. Stores with
/// different keys share no id.
#[derive(Clone, Default)]
pub struct Ids(Option<Arc<[[u8; 32]; Domain::ALL.len()]>>);

impl fmt::Debug for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Ids(keyed)" } else { "Ids(plain)" })
    }
}

impl Ids {
    /// The ids of a store with this key.
    pub fn keyed(key: &[u8; 32]) -> Self {
        Ids(Some(Arc::new(Domain::ALL.map(|domain| blake3::derive_key(domain.context(), key)))))
    }

    fn key(&self, domain: Domain) -> Option<&[u8; 32]> {
        self.0.as_ref().map(|keys| &keys[domain as usize])
    }

    fn hash(&self, domain: Domain, bytes: &[u8]) -> [u8; 32] {
        match self.key(domain) {
            Some(key) => *blake3::keyed_hash(key, bytes).as_bytes(),
            None if domain.is_bare() => *blake3::hash(bytes).as_bytes(),
            None => *domain.hasher().update(bytes).finalize().as_bytes(),
        }
    }

    /// The id of a file's content.
    pub fn blob(&self, bytes: &[u8]) -> BlobId {
        if bytes.is_empty() { BlobId::EMPTY } else { BlobId(self.hash(Domain::Blob, bytes)) }
    }

    /// Makes the id of content that comes in pieces.
    pub fn blob_hasher(&self) -> BlobHasher {
        BlobHasher(self.key(Domain::Blob).map_or_else(Hasher::new, Hasher::new_keyed))
    }

    /// The mode in which nodes of a blob's hash are joined.
    pub(crate) fn blob_mode(&self) -> Mode<'_> {
        self.key(Domain::Blob).map_or(Mode::Hash, Mode::KeyedHash)
    }

    /// The id of an encoded tree node.
    pub fn tree(&self, bytes: &[u8]) -> TreeId {
        TreeId(self.hash(Domain::Tree, bytes))
    }

    /// The id of an encoded inner node of a recipe.
    pub fn recipe_node(&self, bytes: &[u8]) -> RecipeId {
        RecipeId(self.hash(Domain::RecipeNode, bytes))
    }

    /// Under which id the root of a blob's recipe is kept; distinct from the blob's own, which a chunk may have.
    pub fn recipe_root(&self, blob: BlobId) -> ObjectId {
        ObjectId(self.hash(Domain::RecipeRoot, &blob.0))
    }

    /// The seal inside the root of a blob's recipe, which cannot be checked against its id.
    pub(crate) fn recipe_seal(&self, blob: BlobId, body: &[u8]) -> [u8; 32] {
        let hasher = match self.key(Domain::RecipeSeal) {
            Some(key) => Hasher::new_keyed(key),
            None => Domain::RecipeSeal.hasher(),
        };
        *{ hasher }.update(&blob.0).update(body).finalize().as_bytes()
    }

    /// True if a stored recipe root is the one that `id` stands for, unchanged.
    pub(crate) fn root_is_sealed(&self, id: ObjectId, bytes: &[u8]) -> bool {
        let mut d = Decoder::new(bytes);
        let (Ok(blob), Ok(found)) = (d.array("blob"), d.array::<32>("seal")) else { return false };
        let blob = BlobId(blob);
        self.recipe_root(blob) == id && self.recipe_seal(blob, &bytes[64..]) == found
    }

    /// The id of a sealed record.
    pub fn record(&self, bytes: &[u8]) -> RecordId {
        RecordId(self.hash(Domain::Record, bytes))
    }

    /// The id of a table beside a root.
    pub fn table(&self, bytes: &[u8]) -> ObjectId {
        ObjectId(self.hash(Domain::Table, bytes))
    }

    /// The hash by which the next event names an event: of its bytes as the journal has them.
    pub fn event(&self, bytes: &[u8]) -> String {
        hex(&self.hash(Domain::Event, bytes))
    }

    /// Hex digits that stand for a name or a path where it is not to be read.
    pub fn name(&self, name: &[u8]) -> String {
        hex(&self.hash(Domain::Name, name)[..16])
    }

    /// True if an object's bytes are those that its id stands for. A recipe's root cannot be told from its id; its seal is checked.
    pub fn matches(&self, kind: ObjectKind, id: ObjectId, bytes: &[u8]) -> bool {
        match kind {
            ObjectKind::Chunk => self.blob(bytes).object() == id,
            ObjectKind::Tree => self.tree(bytes).object() == id,
            ObjectKind::RecipeNode => self.recipe_node(bytes).object() == id,
            ObjectKind::Record => self.record(bytes).object() == id,
            ObjectKind::Table => self.table(bytes) == id,
            ObjectKind::RecipeRoot => self.root_is_sealed(id, bytes),
        }
    }
}

impl io::Write for BlobHasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The id of a blob under way.
#[derive(Clone, Debug)]
pub struct BlobHasher(Hasher);

impl BlobHasher {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The id of all of them.
    pub fn finish(&self) -> BlobId {
        if self.0.count() == 0 { BlobId::EMPTY } else { BlobId(*self.0.finalize().as_bytes()) }
    }

    /// The hash itself, for what joins hashes of parts.
    pub(crate) fn into_inner(self) -> Hasher {
        self.0
    }
}
