//! Counts of the kernel's requests, by kind. Under load, their number decides how fast a mount is.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters, one for each kind of request.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
        }

        /// Counts of answered requests, by kind.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// The kinds that came up at all.
        impl fmt::Display for Counts {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let counts = [$((stringify!($name), self.$name)),*];
                let mut separator = "";
                for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
                    write!(f, "{separator}{count} {name}")?;
                    separator = ", ";
                }
                Ok(())
            }
        }

        impl Counters {
            /// The counts as of now.
            pub(crate) fn read(&self) -> Counts {
                Counts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counts! {
    /// Names that were looked up.
    lookup,
    /// `stat`.
    getattr,
    /// Symlinks that were read.
    readlink,
    /// Ranges of files that were read.
    read,
    /// Parts of folder lists, names alone.
    readdir,
    /// Parts of folder lists, with what `stat` says of each entry.
    readdirplus,
    /// Extended attributes, one or the list of them.
    xattr,
    /// Everything else.
    other,
    /// Small files whose content was looked for before anybody asked.
    prefetched,
    /// Small files that were given to the kernel before it asked.
    pushed,
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
