//! The inode numbers of a mounted store: the high bits are the number of a checkpoint ([`super::numbers`]), the low ones the preorder
//! position in its root tree. Checkpoint 0 stands for what no checkpoint holds.

/// Bits of a position.
const POSITION_BITS: u32 = 36;
const POSITION_MAX: u64 = (1 << POSITION_BITS) - 1;
/// The highest number of a checkpoint.
pub const CHECKPOINT_MAX: u64 = (1 << (64 - POSITION_BITS)) - 1;

/// The number of `by-tag` among the folders of tags.
pub const TOP: u64 = 0;

/// The first session's folder among the virtual inodes.
const SESSIONS_FROM: u64 = 16;
/// The first of the folders and links of tags among the virtual inodes: these take turns.
const TAGS_FROM: u64 = 1 << (POSITION_BITS - 1);

/// An inode of a mounted store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inode {
    /// The folder at the mountpoint.
    Root,
    /// The folder `sessions/`, with one for each session.
    Sessions,
    /// The folder `by-date/`, with a link to each checkpoint.
    ByDate,
    /// A folder of tags, by number; [`TOP`] is `by-tag/`.
    TagFolder(u64),
    /// The link of a tag, by number.
    TagLink(u64),
    /// A session's folder, by number.
    Session(u64),
    /// A session's `latest` link, when it points to this checkpoint.
    Latest(u64),
    /// A link from `by-date` to this checkpoint.
    Pointer(u64),
    /// The manifest of a checkpoint.
    Manifest(u64),
    /// An entry of a checkpoint's root tree, by position; 0 is the checkpoint's folder.
    Entry(u64, u64),
}

impl Inode {
    /// The inode of a number.
    pub fn from_number(number: u64) -> Option<Self> {
        let (checkpoint, low) = (number >> POSITION_BITS, number & POSITION_MAX);
        Some(match (checkpoint, low) {
            (0, 1) => Inode::Root,
            (0, 2) => Inode::Sessions,
            (0, 3) => Inode::ByDate,
            (0, 4) => Inode::TagFolder(TOP),
            (0, TAGS_FROM..) => match low - TAGS_FROM {
                folder if folder % 2 == 0 => Inode::TagFolder(folder / 2 + 1),
                link => Inode::TagLink(link / 2),
            },
            (0, low) => Inode::Session(low.checked_sub(SESSIONS_FROM)?),
            (checkpoint, low) => match POSITION_MAX - low {
                0 => Inode::Manifest(checkpoint),
                1 => Inode::Latest(checkpoint),
                2 => Inode::Pointer(checkpoint),
                _ => Inode::Entry(checkpoint, low),
            },
        })
    }

    /// Number by which the kernel knows it.
    pub fn number(self) -> u64 {
        let of = |checkpoint: u64, low: u64| (checkpoint << POSITION_BITS) | low;
        match self {
            Inode::Root => 1,
            Inode::Sessions => 2,
            Inode::ByDate => 3,
            Inode::TagFolder(TOP) => 4,
            Inode::TagFolder(number) => TAGS_FROM + 2 * (number - 1),
            Inode::TagLink(number) => TAGS_FROM + 2 * number + 1,
            Inode::Session(number) => SESSIONS_FROM + number,
            Inode::Manifest(checkpoint) => of(checkpoint, POSITION_MAX),
            Inode::Latest(checkpoint) => of(checkpoint, POSITION_MAX - 1),
            Inode::Pointer(checkpoint) => of(checkpoint, POSITION_MAX - 2),
            Inode::Entry(checkpoint, position) => of(checkpoint, position),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_round_trip(checkpoint in 1..=CHECKPOINT_MAX, position in 0..POSITION_MAX - 2, session in 0u64..1 << 30) {
            let all = [
                Inode::Root, Inode::Sessions, Inode::ByDate, Inode::TagFolder(TOP), Inode::TagFolder(session + 1),
                Inode::TagLink(session), Inode::Session(session), Inode::Latest(checkpoint), Inode::Pointer(checkpoint), Inode::Manifest(checkpoint), Inode::Entry(checkpoint, position),
            ];
            for inode in all {
                prop_assert_eq!(Inode::from_number(inode.number()), Some(inode));
            }
        }
    }
}
